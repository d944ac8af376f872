//! The dashboard on a real terminal: tmux is the person, keys and all (contract 13.4).

use std::path::PathBuf;
use std::process::{Command, Output};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::{Pid, Signal, kill_process};

use crate::program::{Harness, wait_for};

/// Runs that never end, one of them with a title that wants to be more.
const BOARD: &str = "---\ntracker:\n  kind: memory\n  provider:\n    issues:\n      \
    - {identifier: MT-1, title: \"Wait \\e[2J\\e]0;owned\\a here\", state: Todo, labels: [hang]}\n      \
    - {identifier: MT-2, title: Paint the window, state: Todo, labels: [hang]}\n      \
    - {identifier: MT-3, title: Three, state: Todo, blocked_by: [MT-1]}\n\
    workspace:\n  root: ./work\nhooks:\n  before_run: sleep 1000 &\n  \
    after_run: echo ran >> ../../after_run.txt\nagent:\n  kind: scripted\n---\nWait.\n";

/// A terminal of its own, in the harness's folder.
pub(crate) struct Terminal<'a> {
    harness: &'a Harness,
    socket: PathBuf,
}

impl<'a> Terminal<'a> {
    /// Runs a script; `None`, and a word about it, where there is no tmux.
    pub(crate) fn run(harness: &'a Harness, script: &str) -> Option<Self> {
        if Command::new("tmux").arg("-V").output().is_err() {
            println!("NOT RUN: tmux is not installed");
            return None;
        }
        let program = env!("CARGO_BIN_EXE_symphony");
        let (home, temporary) = (harness.path("home"), harness.path("tmp"));
        let script = format!(
            "cd '{}'; export HOME='{}' TMPDIR='{}'; unset NO_COLOR SYMPHONY_LOG SYMPHONY_URL\n\
             trap : INT # it is the program that is meant by Ctrl-C\n\
             symphony() {{ sh -c 'echo $$ > pid; exec \"$0\" \"$@\"' '{program}' \"$@\"; }}\n{script}\n",
            harness.path("").display(),
            home.display(),
            temporary.display(),
        );
        harness.write("script", &script);
        // One each: a server that is ending would take the next session with it.
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let terminal = Self { harness, socket: harness.path(&format!("tmux-{number}")) };
        let script = format!("exec sh '{}'", harness.path("script").display());
        let begun = terminal.tmux(&["new-session", "-d", "-x", "100", "-y", "30", &script]);
        assert!(begun.status.success(), "{begun:?}");
        Some(terminal)
    }

    pub(crate) fn tmux(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new("tmux");
        command.arg("-S").arg(&self.socket).args(["-f", "/dev/null"]).args(arguments);
        command.env_remove("TMUX").env("LC_ALL", "C.UTF-8").env("TERM", "xterm-256color");
        command.output().unwrap()
    }

    /// What is on the screen.
    fn shown(&self) -> String {
        String::from_utf8(self.tmux(&["capture-pane", "-p"]).stdout).unwrap()
    }

    pub(crate) fn wait_for(&self, wanted: &str) -> String {
        self.wait_until(wanted, |shown| shown.contains(wanted))
    }

    pub(crate) fn wait_until(&self, what: &str, is_so: impl Fn(&str) -> bool) -> String {
        let mut shown = String::new();
        let looks = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            wait_for(what, || {
                // What two looks agree on was not being drawn.
                let before = std::mem::replace(&mut shown, self.shown());
                shown == before && is_so(&shown)
            });
        }));
        assert!(looks.is_ok(), "no {what:?} on the screen:\n{shown}");
        shown
    }

    pub(crate) fn press(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    pub(crate) fn resize(&self, columns: u16, rows: u16) {
        let (columns, rows) = (columns.to_string(), rows.to_string());
        self.tmux(&["resize-window", "-x", &columns, "-y", &rows]);
    }

    /// The program's process; it has written its number down.
    fn pid(&self) -> Option<Pid> {
        let text = std::fs::read_to_string(self.harness.path("pid")).ok()?;
        Pid::from_raw(text.trim().parse().ok()?)
    }
}

impl Drop for Terminal<'_> {
    /// A service does not end with its terminal.
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
        if let Some(pid) = self.pid().filter(|pid| is_alive(*pid)) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

/// A program that does not outlive its test.
struct Leashed(std::process::Child);

impl Drop for Leashed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Whether a process of ours is there and has not ended.
fn is_alive(pid: Pid) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero()));
    stat.is_ok_and(|stat| !stat.rsplit(") ").next().unwrap_or_default().starts_with('Z'))
}

/// What a script says at its end: how the program ended, and whether the terminal is as it was.
const AND_THEN: &str = "echo \"code $?\"; stty -a | grep -q ' icanon' && stty -a | grep -q ' echo ' && echo sane; sleep 1000";

#[test]
fn rule_13_4_the_dashboard_is_driven_by_keys_and_gives_the_terminal_back() {
    let mut harness = Harness::new();
    harness.write("WORKFLOW.md", BOARD);
    let Some(terminal) = Terminal::run(&harness, &format!("symphony run; {AND_THEN}")) else {
        return;
    };
    let shown = terminal.wait_for("▶MT-1");
    assert!(shown.starts_with("Symphony live"), "{shown}");
    assert!(shown.contains("Wait \\u{1b}[2J"), "the title stays text: {shown}");
    let title = terminal.tmux(&["display-message", "-p", "#{pane_title}"]).stdout;
    assert!(!String::from_utf8_lossy(&title).contains("owned"), "the title steered the terminal");
    terminal.wait_for("Not started 1: 1 blocked by others");

    terminal.press(&["Down", "Enter"]);
    let shown = terminal.wait_for("Timeline, newest first");
    assert!(shown.contains("Paint the window"), "{shown}");
    terminal.press(&["Escape"]);
    terminal.wait_for("▶MT-2");

    terminal.press(&["/", "w", "i", "n", "d", "o", "w", "Enter"]);
    let shown = terminal.wait_for("Running 2, 1 shown");
    assert!(!shown.contains("\n MT-1"), "{shown}");
    terminal.press(&["Escape"]);
    terminal.wait_for(" MT-1");

    terminal.press(&["p"]);
    terminal.wait_for("! paused: nothing starts until it is resumed");
    terminal.press(&["p"]);
    terminal.wait_until("its end", |shown| !shown.contains("! paused"));

    terminal.press(&["s"]);
    terminal.wait_for("stop MT-2? y: yes, any other key: no");
    terminal.press(&["y"]);
    terminal.wait_for("stopped; t tries again");
    terminal.press(&["Tab", "Tab", "t"]);
    terminal.wait_for("Blocked 0");

    terminal.resize(70, 16);
    let fits = |shown: &str| {
        let lines: Vec<&str> = shown.lines().collect();
        lines.len() == 16 && lines[15].starts_with("Enter open")
    };
    terminal.wait_until("a smaller picture", fits);
    terminal.resize(180, 40);
    terminal.wait_for("─ Service ─");

    terminal.press(&["q"]);
    let shown = terminal.wait_for("the dashboard was left; the service goes on");
    assert!(!shown.contains("Symphony live"), "{shown}");
    terminal.press(&["C-c"]);
    let shown = terminal.wait_for("sane");
    assert!(shown.contains("service ended") && shown.contains("code 0"), "{shown}");
    drop(terminal);
    assert_eq!(harness.read("after_run.txt"), "ran\n".repeat(3), "two at the end, one before");
    harness.wait_until_nothing_is_left();
}

#[test]
fn rule_14_2_ctrl_c_in_the_dashboard_ends_the_service_and_a_second_one_at_once() {
    let mut harness = Harness::new();
    harness.write("WORKFLOW.md", BOARD);
    let script = format!("symphony run; {AND_THEN}");
    let Some(terminal) = Terminal::run(&harness, &script) else { return };
    terminal.wait_for("▶MT-1");
    terminal.press(&["C-c"]);
    let shown = terminal.wait_for("sane");
    assert!(shown.contains("service ended") && shown.contains("code 0"), "{shown}");
    drop(terminal);
    harness.wait_until_nothing_is_left();

    let hook = "trap '' TERM; touch ../../stopping; sleep 1000";
    harness.endless(hook);
    let Some(terminal) = Terminal::run(&harness, &script) else { return };
    terminal.wait_for("▶MT-1");
    harness.wait_for_file("began");
    terminal.press(&["C-c"]);
    harness.wait_for_file("stopping");
    terminal.wait_for("! the service ends: 1 runs are being stopped");
    terminal.press(&["C-c"]);
    let shown = terminal.wait_for("sane");
    assert!(shown.contains("ending at once") && shown.contains("code 0"), "{shown}");
    drop(terminal);
    harness.wait_until_nothing_is_left();
}

#[test]
fn rule_13_4_a_terminal_that_goes_away_leaves_the_service_alone() {
    let mut harness = Harness::new();
    harness.write("WORKFLOW.md", BOARD);
    let Some(terminal) = Terminal::run(&harness, "symphony run --logs-root logs") else { return };
    terminal.wait_for("▶MT-1");
    let service = terminal.pid().unwrap();
    terminal.tmux(&["kill-pane"]);
    let log = || harness.read("logs/symphony.log");
    wait_for("a word about it", || log().contains("the terminal of the dashboard is gone"));
    // A terminal says goodbye with a signal that means: poll now.
    wait_for("the signal", || log().contains("asked to poll now"));
    assert!(is_alive(service));
    kill_process(service, Signal::TERM).unwrap();
    wait_for("its end", || !is_alive(service));
    assert!(log().contains("service ended"), "{}", log());
    drop(terminal);
    assert_eq!(harness.read("after_run.txt"), "ran\n".repeat(2));
    harness.wait_until_nothing_is_left();
}

#[test]
fn rule_13_4_where_no_dashboard_is_wanted_or_possible_there_are_plain_lines() {
    for run in [
        "symphony run --no-dashboard",
        "TERM=dumb symphony run",
        // A job in the background that touched the terminal would be stopped.
        "set -m; symphony run & wait",
        "symphony run < /dev/null",
    ] {
        let harness = Harness::new();
        harness.write("WORKFLOW.md", BOARD);
        let Some(terminal) = Terminal::run(&harness, run) else { return };
        let shown = terminal.wait_for("run started");
        assert!(!shown.contains("Symphony live"), "{run}: {shown}");
    }
    let harness = Harness::new();
    let file = BOARD.replace("agent:", "observability: {dashboard_enabled: false}\nagent:");
    harness.write("WORKFLOW.md", &file);
    let Some(terminal) = Terminal::run(&harness, "symphony run") else { return };
    let shown = terminal.wait_for("run started");
    assert!(!shown.contains("Symphony live"), "{shown}");
}

#[test]
fn rule_13_4_top_looks_at_a_service_elsewhere_and_finds_it_again() {
    let harness = Harness::new();
    harness.write("WORKFLOW.md", BOARD);
    let mut service = harness.start(&["run", "--port", "0"]);
    let served = service.log_until("dashboard and API are served").pop().unwrap();
    let address = served.split_once("address=").unwrap().1.trim().to_owned();
    let script = format!("symphony top --url http://{address}; {AND_THEN}");
    let Some(terminal) = Terminal::run(&harness, &script) else { return };
    terminal.wait_for("▶MT-1");
    terminal.press(&["p"]);
    service.log_until("starts are paused");
    let shown = terminal.wait_for("! paused");
    assert!(shown.contains("pause: asked for"), "{shown}");
    terminal.press(&["Enter"]);
    terminal.wait_for("Timeline, newest first");
    terminal.press(&["s"]);
    terminal.wait_for("stop MT-1?");
    terminal.press(&["y"]);
    terminal.wait_for("blocked");
    terminal.press(&["Escape"]);
    terminal.wait_for("Blocked 1");

    service.signal(Signal::TERM);
    assert_eq!(service.end().0, Some(0));
    let shown = terminal.wait_for("NO CONNECTION");
    assert!(shown.contains("PAUSED") && shown.contains("Running"), "the last state stays: {shown}");
    let port = address.rsplit(':').next().unwrap();
    let mut again = harness.start(&["run", "--port", port]);
    again.log_until("starts are paused");
    terminal.wait_until("the new one, as it was left", |shown| {
        shown.starts_with("Symphony live PAUSED") && shown.contains("Blocked 1")
    });
    terminal.press(&["C-c"]);
    let shown = terminal.wait_for("sane");
    assert!(shown.contains("code 0"), "{shown}");
    again.signal(Signal::TERM);
    assert_eq!(again.end().0, Some(0), "whoever looks on ends nothing");
}

#[test]
fn rule_13_4_a_blocked_terminal_does_not_block_the_service() {
    stands_still("info");
}

#[test]
fn rule_13_4_a_log_line_that_a_blocked_terminal_refuses_does_not_block_the_service() {
    // With lines before there is a dashboard.
    stands_still("info,mio=trace");
}

/// Runs a service on a terminal that takes nothing, with this filter of the log.
fn stands_still(filter: &str) {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let mut harness = Harness::new();
    harness.write("WORKFLOW.md", BOARD);
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let terminal = openpt(flags).unwrap();
    grantpt(&terminal).unwrap();
    unlockpt(&terminal).unwrap();
    let size = rustix::termios::Winsize { ws_row: 100, ws_col: 250, ws_xpixel: 0, ws_ypixel: 0 };
    rustix::termios::tcsetwinsize(&terminal, size).unwrap();
    let name = ptsname(&terminal, Vec::new()).unwrap().into_string().unwrap();
    let open = || std::fs::File::options().read(true).write(true).open(&name).unwrap();
    // As after Ctrl-S, only that no key helps.
    rustix::termios::tcflow(open(), rustix::termios::Action::OOff).unwrap();
    let mut command = Command::new("setsid");
    command.args(["-c", env!("CARGO_BIN_EXE_symphony"), "run", "--logs-root", "logs"]);
    command.args(["--log", filter]);
    command.current_dir(harness.path("")).env("HOME", harness.path("home"));
    command.env("TMPDIR", harness.path("tmp")).env("TERM", "xterm").env_remove("SYMPHONY_LOG");
    let child = command.stdin(open()).stdout(open()).stderr(open()).spawn().unwrap();
    drop(command);
    let mut service = Leashed(child);
    let pid = Pid::from_raw(i32::try_from(service.0.id()).unwrap()).unwrap();
    let log = || std::fs::read_to_string(harness.path("logs/symphony.log")).unwrap_or_default();
    wait_for("runs", || log().matches("hook ended").count() >= 2);
    let draws = |thread: std::fs::DirEntry| {
        let name = std::fs::read_to_string(thread.path().join("comm"));
        name.is_ok_and(|name| name == "dashboard\n")
    };
    let threads = std::fs::read_dir(format!("/proc/{}/task", service.0.id())).unwrap();
    assert!(threads.flatten().any(draws), "it shows no dashboard");
    kill_process(pid, Signal::HUP).unwrap();
    wait_for("an ear", || log().contains("asked to poll now"));
    kill_process(pid, Signal::TERM).unwrap();
    let mut ended = None;
    wait_for("its end", || {
        ended = service.0.try_wait().unwrap();
        ended.is_some()
    });
    assert_eq!(ended.unwrap().code(), Some(0), "{}", log());
    assert_eq!(harness.read("after_run.txt"), "ran\n".repeat(2));
    let taken = rustix::io::ioctl_fionread(&terminal).unwrap();
    assert_eq!(taken, 0, "the terminal has taken something, so this shows nothing");
    harness.wait_until_nothing_is_left();
}

#[test]
fn rule_14_6_check_gives_a_sign_of_life_while_a_login_profile_hangs() {
    let harness = Harness::new();
    harness.write("home/.profile", "while ! [ -e \"$HOME/go\" ]; do sleep 0.05; done\n");
    let file =
        "---\ntracker: {kind: memory}\ncodex: {command: no-such-codex app-server}\n---\nHi\n";
    harness.write("WORKFLOW.md", file);
    let Some(terminal) = Terminal::run(&harness, "symphony check; sleep 1000") else { return };
    terminal.wait_for("(its login profile, `bash -lc`, comes first): ");
    harness.write("home/go", "");
    let shown = terminal.wait_for("It would not work");
    assert!(!shown.contains("comes first"), "the line is gone in the end:\n{shown}");
}
