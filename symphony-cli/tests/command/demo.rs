//! `symphony demo`, ended before it is through.

use rustix::process::Signal;

use crate::program::{Stage, files, wait_for};

/// Ends it as soon as this is so of its folder.
fn ended_when(is_so: impl Fn(&Stage) -> bool, signal: Signal) -> Stage {
    let stage = Stage::new();
    let demo = stage.start(&["demo"]);
    wait_for("the demo's folder", || is_so(&stage));
    demo.signal(signal);
    let (code, told) = demo.end();
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("interrupted"), "{told}");
    let left = files(&stage.path("tmp"));
    assert!(left.is_empty(), "after {signal:?}: {left:?}");
    stage
}

#[test]
fn rule_14_2_a_demo_that_is_ended_at_its_start_leaves_no_folder() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        ended_when(|stage| !files(&stage.path("tmp")).is_empty(), signal);
    }
}

#[test]
fn rule_14_2_a_demo_that_is_ended_at_work_leaves_no_folder_and_no_process() {
    let at_work = |stage: &Stage| {
        let folders = files(&stage.path("tmp"));
        folders.iter().any(|demo| demo.join("workspaces/DEMO-1/report.md").exists())
    };
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        ended_when(at_work, signal).wait_until_nothing_is_left();
    }
}
