//! Contract 9.5, 10.9 and 14.2 at the whole service: whatever a hook has left in the background does
//! to get out of sight, and whatever ends its run, nothing is left. One test for each pair.

use rustix::process::{Pid, Signal, kill_process};

use crate::program::{Harness, Service};
use crate::shapes::{Shape, matrix};

matrix! {
    rule_8_2_terminal_state => terminal_state;
    rule_8_2_no_longer_active => no_longer_active;
    rule_8_1_stall => stall;
    rule_9_5_hook_timeout => hook_timeout;
    rule_10_5_turn_timeout => turn_timeout;
    rule_14_2_service_terminated => service_terminated;
    rule_10_9_service_killed => service_killed;
    rule_10_9_helper_killed => helper_killed;
}

fn run(end: impl FnOnce(Shape), shape: Shape) {
    end(shape);
}

fn terminal_state(shape: Shape) {
    let mut trial = Trial::begin(shape, "hang", "");
    trial.board("Done", "hang");
    trial.run_ends("run ended");
    trial.service.log_until("workspace removed");
    assert!(!trial.harness.path("work/MT-1").exists());
}

fn no_longer_active(shape: Shape) {
    let mut trial = Trial::begin(shape, "hang", "");
    trial.board("Backlog", "hang");
    trial.run_ends("run stopped");
    trial.service.log_until("released");
    assert!(trial.harness.path("work/MT-1").exists());
}

fn stall(shape: Shape) {
    let mut trial = Trial::begin(shape, "stall", "  stall_timeout_ms: 300\n");
    trial.run_ends("run stopped");
}

fn turn_timeout(shape: Shape) {
    let mut trial = Trial::begin(shape, "turn-timeout", "");
    trial.run_ends("run failed");
}

fn hook_timeout(shape: Shape) {
    // Long enough for the shape to be there, however busy the machine is.
    for millis in [500, 2_000, 10_000] {
        let mut trial = Trial::start(shape, "hang", "exec sleep $T", millis, "");
        trial.run_ends("run failed");
        if trial.harness.path("ready").exists() {
            return;
        }
    }
    panic!("the shape was never there");
}

fn service_terminated(shape: Shape) {
    let Trial { mut harness, service } = Trial::begin(shape, "hang", "");
    service.signal(Signal::TERM);
    let (code, rest) = service.end();
    assert_eq!(code, Some(0), "{rest}");
    assert!(harness.is_nothing_left(), "somebody outlived the service");
    assert_eq!(harness.read("after_run.txt"), "ran\n");
}

fn service_killed(shape: Shape) {
    let Trial { mut harness, service } = Trial::begin(shape, "hang", "");
    service.signal(Signal::KILL);
    assert_eq!(service.end().0, None);
    harness.wait_until_nothing_is_left();
    assert!(!harness.path("ready.escaped").exists(), "it ended by itself");
}

fn helper_killed(shape: Shape) {
    let Trial { mut harness, service } = Trial::begin(shape, "hang", "");
    let helper = harness.read("helper").trim().parse().unwrap();
    kill_process(Pid::from_raw(helper).unwrap(), Signal::KILL).unwrap();
    harness.wait_until_nothing_is_left();
    assert!(!harness.path("ready.escaped").exists(), "it ended by itself");
    service.signal(Signal::TERM);
    assert_eq!(service.end().0, Some(0));
}

/// A service whose `before_run` has started a shape.
struct Trial {
    // Ends before its folder goes: it would go on writing there.
    service: Service,
    harness: Harness,
}

impl Trial {
    /// The hook has ended well and left the shape in the background; the agent does as its label
    /// says.
    fn begin(shape: Shape, label: &str, more: &str) -> Self {
        let wait = r#"until [ -e "$R" ]; do sleep 0.01; done"#;
        let mut trial = Self::start(shape, label, wait, 60_000, more);
        let seen = trial.service.log_until("hook ended");
        assert!(seen.last().unwrap().contains("before_run"), "{seen:#?}");
        assert!(!trial.harness.is_nothing_left(), "it should live until the run ends");
        trial
    }

    fn start(shape: Shape, label: &str, last: &str, hook_timeout: u32, more: &str) -> Self {
        let harness = Harness::new();
        let ready = harness.path("ready");
        // The hook's parent is its helper.
        let script = format!(
            "export T=100 R='{}'\necho $PPID > ../../helper\n{}\n{last}",
            ready.display(),
            shape.script(),
        );
        let file = format!(
            "---\ntracker:\n  kind: memory\n  provider:\n    board: board.yaml\n\
             workspace:\n  root: ./work\npolling:\n  interval_ms: 100\n\
             hooks:\n  timeout_ms: {hook_timeout}\n  after_run: echo ran >> ../../after_run.txt\n  \
             before_run: |\n    {}\n\
             agent:\n  kind: scripted\n  stop_grace_ms: 50\n{more}---\nWait.\n",
            script.replace('\n', "\n    "),
        );
        harness.write("WORKFLOW.md", &file);
        write_board(&harness, "Todo", label);
        let service = harness.start(&[]);
        Self { harness, service }
    }

    fn board(&self, state: &str, label: &str) {
        write_board(&self.harness, state, label);
    }

    /// Waits until the run is over. At that moment no process may be left.
    fn run_ends(&mut self, how: &str) {
        self.service.log_until(how);
        assert!(self.harness.is_nothing_left(), "somebody outlived the run");
        assert!(!self.harness.path("ready.escaped").exists(), "it ended by itself");
        assert_eq!(self.harness.read("after_run.txt"), "ran\n");
    }
}

fn write_board(harness: &Harness, state: &str, label: &str) {
    let issue =
        format!("issues:\n- {{identifier: MT-1, title: Go, state: {state}, labels: [{label}]}}\n");
    harness.replace("board.yaml", &issue);
}
