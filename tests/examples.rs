//! The examples, as a person runs them.
#![expect(clippy::unwrap_used, reason = "a test fails loudly")]

use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::fs::{CWD, FileType, Mode, OFlags};

/// An example that takes longer has failed.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Builds an example: what lies beside the tests may be older than its source, or not be there.
fn built(name: &str) -> PathBuf {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
    let output = Command::new(env!("CARGO"))
        .args(["build", "--offline", "--quiet", "--package", "symphony", "--example", name])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env("CARGO_TARGET_DIR", target)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    target.join("debug/examples").join(name)
}

fn wait_for<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(began.elapsed() < TEST_TIMEOUT, "waited too long for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// An example that runs; it does not outlive the test.
struct Running(Child);

impl Running {
    fn start(name: &str, arguments: &[&str], temporary: &Path) -> Self {
        let mut command = Command::new(built(name));
        command.args(arguments).env("TMPDIR", temporary).stdin(Stdio::null());
        Self(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
    }

    /// Waits for a good end, and gives what was printed.
    fn end(mut self) -> String {
        let status = wait_for("its end", || self.0.try_wait().unwrap());
        let (mut stdout, mut stderr) = (String::new(), String::new());
        self.0.stdout.take().unwrap().read_to_string(&mut stdout).unwrap();
        self.0.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
        assert!(status.success(), "{status}\n{stdout}\n{stderr}");
        stdout
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[track_caller]
fn prints(name: &str, line: &str) {
    let temporary = tempfile::tempdir().unwrap();
    let printed = Running::start(name, &[], temporary.path()).end();
    assert!(printed.lines().any(|printed| printed == line), "no {line:?} in\n{printed}");
    assert_eq!(temporary.path().read_dir().unwrap().count(), 0, "a file is left");
}

#[test]
fn quickstart() {
    prints("quickstart", "both are done");
}

#[test]
fn embed() {
    prints("embed", "MT-1 is done, after 2 runs");
}

#[test]
fn custom_tracker() {
    prints("custom_tracker", "MT-2 | Done | Paint it | wood, paint");
}

#[test]
fn custom_agent() {
    prints("custom_agent", "MT-1 is done");
}

/// A pipe that a command holds with all that it starts: at its end, none of them is left.
struct Pipe {
    path: PathBuf,
    end: File,
}

impl Pipe {
    fn new(folder: &Path) -> Self {
        let path = folder.join("pipe");
        rustix::fs::mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let at_once = i32::try_from(OFlags::NONBLOCK.bits()).unwrap();
        let end = File::options().read(true).custom_flags(at_once).open(&path).unwrap();
        Self { path, end }
    }

    /// A command that holds it, starts one that hides, and then does this.
    fn command(&self, then: &str) -> String {
        let path = self.path.display();
        format!("exec 9> '{path}'; setsid -f sleep 1000; echo . >&9; trap '' TERM; {then}")
    }

    fn wait_until_held(&mut self) {
        wait_for("the command", || self.end.read(&mut [0]).ok().filter(|&read| read == 1));
    }

    fn wait_until_nothing_is_left(&mut self) {
        wait_for("the end of every process", || match self.end.read(&mut [0; 8]) {
            Ok(0) => Some(()),
            Ok(_) => None,
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}");
                None
            }
        });
    }
}

#[test]
fn rule_10_9_a_custom_agents_tree_ends_with_its_turn() {
    let temporary = tempfile::tempdir().unwrap();
    let mut pipe = Pipe::new(temporary.path());
    let command = pipe.command("echo 'state: Done'");
    let running = Running::start("custom_agent", &[&command], temporary.path());
    pipe.wait_until_held();
    running.end();
    pipe.wait_until_nothing_is_left();
}

#[test]
fn rule_10_9_a_custom_agents_tree_ends_with_its_program() {
    let temporary = tempfile::tempdir().unwrap();
    let mut pipe = Pipe::new(temporary.path());
    let command = pipe.command("sleep 1000");
    let mut running = Running::start("custom_agent", &[&command], temporary.path());
    pipe.wait_until_held();
    running.0.kill().unwrap();
    running.0.wait().unwrap();
    pipe.wait_until_nothing_is_left();
}
