//! Real processes of every awkward shape, and how to see whether one of them is still there.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use symphony_host::{Command, Host, Local, Mark, Scope, Shell};
use tempfile::TempDir;

/// What a descendant may do to get out of sight.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape {
    InTheGroup,
    TermIgnoring,
    JobControl,
    Setsid,
    DoubleForked,
    EmptyEnvironment,
    PidRolling,
    Stopped,
}

impl Shape {
    pub(crate) const ALL: [Self; 8] = [
        Self::InTheGroup,
        Self::TermIgnoring,
        Self::JobControl,
        Self::Setsid,
        Self::DoubleForked,
        Self::EmptyEnvironment,
        Self::PidRolling,
        Self::Stopped,
    ];

    /// Starts such a process in the background. It makes the file `$R`, and has `$T` among its
    /// arguments.
    const fn script(self) -> &'static str {
        match self {
            Self::InTheGroup => r#"sleep $T & : > "$R""#,
            Self::TermIgnoring => {
                r#"sh -c 'trap "" TERM INT HUP; : > "$1"; while :; do sleep "$2"; done' sh "$R" $T &"#
            }
            Self::JobControl => r#"bash -mc 'sleep "$2" & : > "$1"; wait' bash "$R" $T &"#,
            Self::Setsid => r#"setsid sh -c ': > "$1"; exec sleep "$2"' sh "$R" $T &"#,
            Self::DoubleForked => r#"(setsid sh -c ': > "$1"; exec sleep "$2"' sh "$R" $T &)"#,
            Self::EmptyEnvironment => {
                r#"(env -i setsid sh -c ': > "$1"; exec sleep "$2"' sh "$R" $T &)"#
            }
            Self::PidRolling => {
                r#"S='sh -c "$1" roll "$1" "$2" $3 & : > "$2"; exit 0'; sh -c "$S" roll "$S" "$R" $T &"#
            }
            // In a session of its own: others are woken when their leader ends.
            Self::Stopped => r#"setsid sh -c ': > "$1"; kill -STOP $$; sleep $2' sh "$R" $T &"#,
        }
    }
}

/// A place for one test: a folder, a file that says "ready", and a number to be recognised by.
pub(crate) struct Trial {
    folder: PathBuf,
    token: String,
    _owned: Option<TempDir>,
}

impl Trial {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        // As seconds of sleep: many centuries, and nobody else's.
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let token = format!("9{:08}{count:04}", std::process::id());
        let folder = tempfile::tempdir().unwrap();
        Self { folder: folder.path().into(), token, _owned: Some(folder) }
    }

    /// The trial of the test that has started this process.
    pub(crate) fn from_environment() -> Option<(Self, Shape)> {
        let shape = env::var("TRIAL_SHAPE").ok()?;
        let shape = Shape::ALL.into_iter().find(|other| format!("{other:?}") == shape)?;
        let folder = env::var("TRIAL_FOLDER").ok()?.into();
        Some((Self { folder, token: env::var("TRIAL_TOKEN").ok()?, _owned: None }, shape))
    }

    fn ready_file(&self) -> PathBuf {
        self.folder.join("ready")
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.clone()
    }

    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.ready_file().exists()
    }

    /// A command that starts the shape and stays.
    pub(crate) fn command(&self, shape: Shape) -> Command {
        self.script(&format!("{}\nexec sleep $T", shape.script()))
    }

    /// A command that starts the shape and ends once it is there.
    pub(crate) fn hook(&self, shape: Shape, code: i32) -> Command {
        let wait = r#"until [ -e "$R" ]; do sleep 0.01; done"#;
        self.script(&format!("{}\n{wait}\nexit {code}", shape.script()))
    }

    pub(crate) fn script(&self, script: &str) -> Command {
        Command::script(Shell::Sh, script, self.path())
            .set("T", &self.token)
            .set("R", self.ready_file())
    }

    /// The processes of this trial that are alive.
    pub(crate) fn survivors(&self) -> Vec<String> {
        let processes = fs::read_dir("/proc").unwrap().filter_map(|entry| {
            let entry = entry.ok()?;
            let line = fs::read(entry.path().join("cmdline")).ok()?;
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            line.contains(&self.token).then(|| format!("{:?} {line}", entry.file_name()))
        });
        processes.collect()
    }

    pub(crate) async fn until_ready(&self) {
        until("the shape is there", || self.is_ready()).await;
    }

    /// Waits until somebody is seen: one that forks all the time can be missed.
    pub(crate) async fn until_alive(&self) {
        until("somebody is there", || !self.survivors().is_empty()).await;
    }

    pub(crate) async fn until_gone(&self) {
        let gone = || self.survivors().is_empty();
        until("nobody is left", || gone() && gone()).await;
    }

    pub(crate) fn assert_gone(&self) {
        assert_eq!(self.survivors(), Vec::<String>::new());
    }
}

/// Waits for a condition, with a limit.
pub(crate) async fn until(what: &str, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(30), "waited too long until {what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

pub(crate) fn helped() -> Arc<dyn Host> {
    Arc::new(Local::with_helper(env!("CARGO_BIN_EXE_symphony-helper")))
}

pub(crate) fn unhelped() -> Arc<dyn Host> {
    Arc::new(Local::without_helper())
}

pub(crate) fn scope(host: Arc<dyn Host>) -> Scope {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let run = COUNT.fetch_add(1, Ordering::Relaxed).to_string();
    Scope::new(host, Mark::new(&format!("trial-{}", std::process::id()), &run))
}

pub(crate) const GRACE: Duration = Duration::from_millis(100);
pub(crate) const LONG: Duration = Duration::from_secs(60);
