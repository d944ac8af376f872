//! The built command in a folder of its own, bounded in time, and whether it left anything.

use std::fs::File;
use std::io::{BufRead as _, BufReader, ErrorKind, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::process::{Pid, Signal, kill_process};

/// Whatever takes longer than this has failed.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Waits for something to become true.
pub(crate) fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < TEST_TIMEOUT, "waited too long for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A folder to run the command in, and a way to know about every shell that it runs.
///
/// Hooks are login shells, and the profile here makes each of them hold a pipe, which whatever it
/// starts inherits. When the pipe is at its end, nothing of any hook is left.
pub(crate) struct Harness {
    folder: tempfile::TempDir,
    pipe: File,
    hooks_ran: bool,
    user: Option<u32>,
    variables: Vec<(&'static str, String)>,
}

/// The id of an unprivileged user.
const NOBODY: u32 = 65534;

impl Harness {
    pub(crate) fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("symphony-cli-test-").tempdir().unwrap();
        let (home, temporary) = (folder.path().join("home"), folder.path().join("tmp"));
        std::fs::create_dir(&home).unwrap();
        std::fs::create_dir(temporary).unwrap();
        std::fs::write(home.join(".profile"), "exec 9> \"$HOME/pipe\"; echo . >&9\n").unwrap();
        let path = home.join("pipe");
        rustix::fs::mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let at_once = i32::try_from(OFlags::NONBLOCK.bits()).unwrap();
        let pipe = File::options().read(true).custom_flags(at_once).open(path).unwrap();
        Self { folder, pipe, hooks_ran: false, user: None, variables: Vec::new() }
    }

    /// From now on the command is not run by root: to root every process is open.
    pub(crate) fn without_root(mut self) -> Self {
        if rustix::process::geteuid().is_root() {
            for name in ["", "home", "home/.profile", "home/pipe", "tmp"] {
                std::os::unix::fs::chown(self.path(name), Some(NOBODY), Some(NOBODY)).unwrap();
            }
            self.user = Some(NOBODY);
        }
        self
    }

    /// From now on the command finds this in its environment.
    pub(crate) fn set(&mut self, name: &'static str, value: &str) {
        self.variables.push((name, value.to_owned()));
    }

    /// Whether the command has the rights that this test has.
    pub(crate) const fn is_run_by_the_tester(&self) -> bool {
        self.user.is_none()
    }

    /// Gives a folder and all in it to the user that runs the command.
    pub(crate) fn give_away(&self, name: &str) {
        let user = self.user.unwrap_or_else(|| rustix::process::geteuid().as_raw());
        self.chown(user, name);
    }

    /// Makes a folder and all in it root's.
    pub(crate) fn keep(&self, name: &str) {
        self.chown(0, name);
    }

    fn chown(&self, user: u32, name: &str) {
        let mut command = Command::new("chown");
        command.arg("-R").arg(user.to_string()).arg(self.path(name));
        assert!(command.status().unwrap().success());
    }

    /// A path in the folder that the command runs in.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    /// A workflow with one issue whose run never ends. The hook before it tells that it is there
    /// by a file `began`, and the one after it is this.
    pub(crate) fn endless(&self, after_run: &str) {
        let hooks = format!(
            "  before_run: touch ../../began; trap '' TERM; sleep 1000\n  after_run: {after_run}\n"
        );
        let file = format!(
            "---\ntracker:\n  kind: memory\n  provider:\n    issues:\n      \
             - {{identifier: MT-1, title: Wait, state: Todo}}\nworkspace:\n  root: ./work\n\
             hooks:\n  timeout_ms: 3600000\n{hooks}agent:\n  kind: scripted\n---\nWait.\n"
        );
        self.write("WORKFLOW.md", &file);
    }

    /// Replaces a file as an editor does, so that no reader sees half of it.
    pub(crate) fn replace(&self, name: &str, text: &str) {
        let beside = format!("{name}.new");
        self.write(&beside, text);
        std::fs::rename(self.path(&beside), self.path(name)).unwrap();
    }

    /// Waits until a hook has made a file.
    pub(crate) fn wait_for_file(&self, name: &str) {
        let path = self.path(name);
        wait_for(name, || path.exists());
    }

    /// Runs the command to its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> Shown {
        self.run_in("", arguments)
    }

    /// The same in a folder below.
    pub(crate) fn run_in(&self, folder: &str, arguments: &[&str]) -> Shown {
        let mut command = self.command(arguments);
        let child = command.current_dir(self.path(folder)).stdout(Stdio::piped()).spawn().unwrap();
        let _watchdog = Watchdog::of(&child, TEST_TIMEOUT);
        let output = child.wait_with_output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let code = output.status.code();
        Shown { code, stdout: text(output.stdout), stderr: text(output.stderr) }
    }

    /// Starts it as a service.
    pub(crate) fn start(&self, arguments: &[&str]) -> Service {
        self.start_for(TEST_TIMEOUT, arguments)
    }

    /// Starts it as a service that may take longer than others.
    pub(crate) fn start_for(&self, limit: Duration, arguments: &[&str]) -> Service {
        let child = self.command(arguments).stdout(Stdio::null()).spawn().unwrap();
        Service::of(child, limit)
    }

    /// Starts it as a service whose log goes elsewhere.
    pub(crate) fn start_into(&self, stderr: impl Into<Stdio>, arguments: &[&str]) -> Unheard {
        let child = self.command(arguments).stdout(Stdio::null()).stderr(stderr).spawn().unwrap();
        let watchdog = Watchdog::of(&child, TEST_TIMEOUT);
        Unheard { child, _watchdog: watchdog }
    }

    /// Starts it as a service under a limit of the shell, such as `ulimit -n 64`.
    pub(crate) fn start_under(&self, limit: &str, arguments: &[&str]) -> Service {
        let mut command = Command::new("sh");
        let script = format!("{limit} && exec \"$0\" \"$@\"");
        command.args(["-c", &script, env!("CARGO_BIN_EXE_symphony")]);
        let child = self.dressed(command, arguments).stdout(Stdio::null()).spawn().unwrap();
        Service::of(child, TEST_TIMEOUT)
    }

    /// Starts it as a service without standard error.
    pub(crate) fn start_mute(&self, arguments: &[&str]) -> Unheard {
        let mut command = Command::new("sh");
        command.args(["-c", "exec \"$0\" \"$@\" 2>&-", env!("CARGO_BIN_EXE_symphony")]);
        let child = self.dressed(command, arguments).stdout(Stdio::null()).spawn().unwrap();
        let watchdog = Watchdog::of(&child, TEST_TIMEOUT);
        Unheard { child, _watchdog: watchdog }
    }

    fn command(&self, arguments: &[&str]) -> Command {
        self.dressed(Command::new(env!("CARGO_BIN_EXE_symphony")), arguments)
    }

    fn dressed(&self, mut command: Command, arguments: &[&str]) -> Command {
        command.args(arguments).current_dir(&self.folder).stdin(Stdio::null());
        command.stderr(Stdio::piped()).env_remove("SYMPHONY_LOG").env_remove("NO_COLOR");
        command.env_remove("OTEL_EXPORTER_OTLP_ENDPOINT");
        command.env_remove("STATE_DIRECTORY").env_remove("XDG_STATE_HOME");
        command.env("HOME", self.path("home")).env("TMPDIR", self.path("tmp"));
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        if let Some(user) = self.user {
            command.uid(user).gid(user);
        }
        command
    }

    /// Whether nothing is left of any hook. Fails if none has run: that would show nothing.
    pub(crate) fn is_nothing_left(&mut self) -> bool {
        let mut said = Vec::new();
        let read = self.pipe.read_to_end(&mut said);
        self.hooks_ran |= !said.is_empty();
        if let Err(error) = read {
            assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}");
            return false;
        }
        assert!(self.hooks_ran, "no hook has run, so this shows nothing");
        true
    }

    pub(crate) fn wait_until_nothing_is_left(&mut self) {
        wait_for("the end of every process", || self.is_nothing_left());
    }
}

impl Drop for Harness {
    /// A test that failed must leave no process either, and a stopped one does not end by itself.
    fn drop(&mut self) {
        let (pipe, own) = (self.path("home/pipe"), rustix::process::getpid());
        for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
            let pid = entry.file_name().to_str().and_then(|name| Pid::from_raw(name.parse().ok()?));
            let held = std::fs::read_link(entry.path().join("fd/9"));
            if let Some(pid) = pid.filter(|&pid| pid != own && held.is_ok_and(|held| held == pipe))
            {
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }
}

/// What a command printed, and how it exited.
#[derive(Debug)]
pub(crate) struct Shown {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// A service under test; it does not outlive the test.
pub(crate) struct Service {
    child: Child,
    log: BufReader<ChildStderr>,
    _watchdog: Watchdog,
}

impl Service {
    fn of(mut child: Child, limit: Duration) -> Self {
        let watchdog = Watchdog::of(&child, limit);
        let log = BufReader::new(child.stderr.take().unwrap());
        Self { child, log, _watchdog: watchdog }
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Reads the log up to a line that contains this.
    pub(crate) fn log_until(&mut self, wanted: &str) -> Vec<String> {
        let mut seen = Vec::new();
        for line in self.log.by_ref().lines() {
            let line = line.unwrap();
            let found = line.contains(wanted);
            seen.push(line);
            if found {
                return seen;
            }
        }
        panic!("no {wanted:?} in {seen:#?}");
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(pid(&self.child), signal).unwrap();
    }

    /// What has been logged since the last look.
    pub(crate) fn heard(&mut self) -> String {
        let log = self.log.get_ref();
        let flags = rustix::fs::fcntl_getfl(log).unwrap();
        rustix::fs::fcntl_setfl(log, flags | OFlags::NONBLOCK).unwrap();
        let mut heard = Vec::new();
        let read = self.log.read_to_end(&mut heard);
        rustix::fs::fcntl_setfl(self.log.get_ref(), flags).unwrap();
        assert_eq!(read.err().map(|error| error.kind()), Some(ErrorKind::WouldBlock), "it ended");
        String::from_utf8(heard).unwrap()
    }

    /// Tells it to end, and waits for that: the rest of its log.
    pub(crate) fn stop(self) -> String {
        self.signal(Signal::TERM);
        let (code, rest) = self.end();
        assert_eq!(code, Some(0), "{rest}");
        rest
    }

    /// Waits for its end without reading its log.
    pub(crate) fn end_unread(mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }

    /// Waits for its end: its exit code, and the rest of its log.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        let mut rest = String::new();
        self.log.read_to_string(&mut rest).unwrap();
        (self.child.wait().unwrap().code(), rest)
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A service whose log is not the test's; it does not outlive the test.
pub(crate) struct Unheard {
    child: Child,
    _watchdog: Watchdog,
}

impl Unheard {
    /// Tells it to end, and waits for that: its exit code.
    pub(crate) fn stop(mut self) -> Option<i32> {
        kill_process(pid(&self.child), Signal::TERM).unwrap();
        self.child.wait().unwrap().code()
    }
}

impl Drop for Unheard {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn pid(child: &Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap()
}

/// Kills a program that takes too long, so that reading from it comes to an end.
struct Watchdog {
    _leash: Sender<()>,
}

impl Watchdog {
    fn of(child: &Child, limit: Duration) -> Self {
        let pid = pid(child);
        let (leash, dropped) = mpsc::channel::<()>();
        std::thread::spawn(move || {
            if dropped.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                let _ = kill_process(pid, Signal::KILL);
            }
        });
        Self { _leash: leash }
    }
}

/// The files of a folder, by name.
pub(crate) fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}
