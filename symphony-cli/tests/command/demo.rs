//! `symphony demo`, ended before it is through.

use rustix::process::Signal;

use crate::program::{Harness, files, wait_for};

/// Ends it as soon as this is so of its folder.
fn ended_when(is_so: impl Fn(&Harness) -> bool, signal: Signal) -> Harness {
    let harness = Harness::new();
    let demo = harness.start(&["demo"]);
    wait_for("the demo's folder", || is_so(&harness));
    demo.signal(signal);
    let (code, told) = demo.end();
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("interrupted"), "{told}");
    let left = files(&harness.path("tmp"));
    assert!(left.is_empty(), "after {signal:?}: {left:?}");
    harness
}

#[test]
fn rule_14_2_a_demo_that_is_ended_at_its_start_leaves_no_folder() {
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        ended_when(|harness| !files(&harness.path("tmp")).is_empty(), signal);
    }
}

#[test]
fn rule_14_2_a_demo_that_is_ended_at_work_leaves_no_folder_and_no_process() {
    let at_work = |harness: &Harness| {
        let folders = files(&harness.path("tmp"));
        folders.iter().any(|demo| demo.join("workspaces/DEMO-1/report.md").exists())
    };
    for signal in [Signal::INT, Signal::TERM, Signal::HUP] {
        ended_when(at_work, signal).wait_until_nothing_is_left();
    }
}

#[test]
fn rule_14_2_a_demo_in_a_browser_ends_well_by_a_signal() {
    let harness = Harness::new();
    let demo = harness.start(&["demo", "--port", "0"]);
    wait_for("the demo's folder", || !files(&harness.path("tmp")).is_empty());
    demo.signal(Signal::INT);
    let (code, told) = demo.end();
    assert_eq!(code, Some(0), "{told}");
    assert!(files(&harness.path("tmp")).is_empty());
}
