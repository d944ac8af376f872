//! A panic gives the terminal back (contract 13.4), on a real one: tmux is the person.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use symphony_api::IssueStatus;
use symphony_core::time::Wall;
use symphony_tui::{
    Dashboard, DashboardEnd, Link, LogTail, Options, Owner, Palette, SourceRefusal, SourceView,
    StatusSource,
};

/// Shows something once, and then is broken.
#[derive(Debug, Default)]
struct Broken(AtomicBool);

#[async_trait]
impl StatusSource for Broken {
    fn latest(&self) -> SourceView {
        assert!(!self.0.swap(true, Ordering::SeqCst), "something is broken");
        SourceView { status: None, link: Link::Connecting, clock: Wall::default() }
    }

    async fn changed(&self) {}

    async fn issue(&self, _: &str) -> Result<IssueStatus, SourceRefusal> {
        std::future::pending().await
    }

    async fn command(&self, _: &symphony_tui::SourceCommand) -> Result<(), SourceRefusal> {
        Ok(())
    }
}

#[test]
#[ignore = "run by the other test, in a terminal"]
fn in_a_terminal() {
    if !symphony_tui::is_for_people() {
        return; // with all that is ignored, say
    }
    let options = Options {
        address: None,
        owner: Owner::Service,
        look: Palette { colours: true },
        refresh: Duration::from_millis(300),
        render_interval: Duration::from_millis(10),
        lines: LogTail::default(),
        interrupts: None,
    };
    let mut shown = Dashboard::show(Arc::new(Broken::default()), options).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    assert_eq!(runtime.block_on(shown.ended()), DashboardEnd::Panicked);
    drop(shown);
    println!("the program goes on");
}

#[test]
fn rule_13_4_a_panic_gives_the_terminal_back_and_is_told() {
    if Command::new("tmux").arg("-V").output().is_err() {
        println!("NOT RUN: tmux is not installed");
        return;
    }
    let socket = std::env::temp_dir().join(format!("symphony-tui-{}", std::process::id()));
    let tmux = |arguments: &[&str]| {
        let mut command = Command::new("tmux");
        command.arg("-S").arg(&socket).args(["-f", "/dev/null"]).args(arguments);
        let output = command.env_remove("TMUX").env("LC_ALL", "C.UTF-8").output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let program = std::env::current_exe().unwrap();
    let script = format!(
        "RUST_BACKTRACE=0 '{}' --ignored --exact in_a_terminal --nocapture; \
         stty -a | grep -q ' icanon' && stty -a | grep -q ' echo ' && echo sane; sleep 1000",
        program.display()
    );
    tmux(&["new-session", "-d", "-x", "100", "-y", "30", &script]);
    let began = Instant::now();
    let mut shown = String::new();
    while !shown.contains("sane") && began.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(20));
        shown = tmux(&["capture-pane", "-p"]);
    }
    tmux(&["kill-server"]);
    for wanted in ["something is broken", "the program goes on", "sane"] {
        assert!(shown.contains(wanted), "no {wanted:?} in\n{shown}");
    }
    assert!(!shown.contains("Symphony connecting"), "its picture is still there:\n{shown}");
}
