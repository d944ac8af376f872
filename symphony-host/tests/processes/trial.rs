//! Real processes of every awkward shape, and how to see whether one of them is still there.

use std::env;
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::shapes::Shape;
use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::process::{Pid, Signal, kill_process};
use symphony_host::{Host, HostCommand, LocalHost, Mark, ProcessScope, Shell};
use tempfile::TempDir;

/// Waits until the tag is on: without a helper that is a moment after the start, and a child forked
/// before it is not promised to be found. Starts nothing itself.
const TAGGED: &str = r#"until while read -r a b c d _; do
        [ "$a $b $c" = "Max file locks" ] && break; done < /proc/$$/limits
    [ "$d" != unlimited ]; do :; done"#;

/// A place for one test: a folder, a file that says "ready", and a pipe with a name that every
/// process of the test's script holds open: it is at its end exactly when none of them is left.
pub(crate) struct Trial {
    folder: PathBuf,
    token: String,
    held: Option<(File, TempDir)>,
}

impl Trial {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let token = format!("trial-{}-{count}", std::process::id());
        let folder = tempfile::Builder::new().prefix("host-").tempdir().unwrap();
        let pipe = folder.path().join("held");
        rustix::fs::mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR, 0).unwrap();
        rustix::fs::chmod(&pipe, Mode::from(0o666)).unwrap();
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let pipe = rustix::fs::open(pipe, flags, Mode::empty()).unwrap();
        // Not the number by which survivors are known.
        let pipe = rustix::io::fcntl_dupfd_cloexec(pipe, 10).unwrap();
        Self { folder: folder.path().into(), token, held: Some((pipe.into(), folder)) }
    }

    /// The trial of the test that has started this process, and the script of its shape.
    pub(crate) fn from_environment() -> Option<(Self, String)> {
        let script = env::var("TRIAL_SCRIPT").ok()?;
        let folder = env::var("TRIAL_FOLDER").ok()?.into();
        Some((Self { folder, token: env::var("TRIAL_TOKEN").ok()?, held: None }, script))
    }

    fn ready_file(&self) -> PathBuf {
        self.folder.join("ready")
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.clone()
    }

    /// A name that no other trial has.
    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    pub(crate) fn is_ready(&self) -> bool {
        self.ready_file().exists()
    }

    /// A command that starts the shape and stays.
    pub(crate) fn command(&self, shape: Shape) -> HostCommand {
        self.staying(shape.script())
    }

    /// The same for the script of a shape.
    pub(crate) fn staying(&self, script: &str) -> HostCommand {
        self.script(&format!("{TAGGED}\n{script}\nexec sleep $T"))
    }

    /// A command that starts the shape and ends once it is there.
    pub(crate) fn hook(&self, shape: Shape, code: i32) -> HostCommand {
        let wait = r#"until [ -e "$R" ]; do sleep 0.01; done"#;
        self.script(&format!("{TAGGED}\n{}\n{wait}\nexit {code}", shape.script()))
    }

    pub(crate) fn script(&self, script: &str) -> HostCommand {
        HostCommand::script(Shell::Sh, format!("exec 9> held\n{script}"), self.path())
            .set("T", "100")
            .set("R", self.ready_file())
    }

    /// Whether no process of the script is left.
    pub(crate) fn is_gone(&self) -> bool {
        let (held, _) = self.held.as_ref().unwrap();
        match (&*held).read(&mut [0; 1]) {
            Ok(read) => read == 0,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                false
            }
        }
    }

    pub(crate) async fn until_ready(&self) {
        until("the shape is there", || self.is_ready()).await;
    }

    pub(crate) async fn until_gone(&self) {
        until("nobody is left", || self.is_gone()).await;
        self.assert_gone();
    }

    pub(crate) fn assert_gone(&self) {
        assert!(self.is_gone(), "left: {:?}", self.survivors());
        assert!(!self.folder.join("ready.escaped").exists(), "it ended by itself");
    }

    /// The processes that hold the pipe.
    fn survivors(&self) -> Vec<(i32, String)> {
        let pipe = self.folder.join("held");
        let holders = fs::read_dir("/proc").unwrap().filter_map(|entry| {
            let folder = entry.ok()?.path();
            let pid = folder.file_name()?.to_str()?.parse().ok()?;
            (fs::read_link(folder.join("fd/9")).ok()? == pipe).then_some(())?;
            Some((pid, fs::read_to_string(folder.join("comm")).ok()?))
        });
        holders.collect()
    }
}

impl Drop for Trial {
    /// A test that failed must leave no process either.
    fn drop(&mut self) {
        if self.held.is_some() {
            for (pid, _) in self.survivors() {
                let _ = kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL);
            }
        }
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
    Arc::new(LocalHost::with_helper(env!("CARGO_BIN_EXE_symphony-helper")))
}

/// The same where no control group can be made.
pub(crate) fn ungrouped() -> Arc<dyn Host> {
    let helper = env!("CARGO_BIN_EXE_symphony-helper");
    Arc::new(LocalHost::with_helper(helper).without_control_groups())
}

pub(crate) fn unhelped() -> Arc<dyn Host> {
    Arc::new(LocalHost::without_helper())
}

pub(crate) fn scope(host: Arc<dyn Host>) -> ProcessScope {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let run = COUNT.fetch_add(1, Ordering::Relaxed).to_string();
    ProcessScope::new(host, Mark::new(&format!("trial-{}", std::process::id()), &run))
}

pub(crate) const GRACE: Duration = Duration::from_millis(100);
pub(crate) const LONG: Duration = Duration::from_secs(60);
