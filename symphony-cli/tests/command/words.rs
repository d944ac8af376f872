//! What people type: misspelt commands, options before a command, files in the place of issues.

use crate::program::Harness;

const BOARD: &str = "---\ntracker:\n  kind: memory\n  provider:\n    issues:\n      \
    - {identifier: MT-1, title: One, state: Todo}\nagent: {kind: scripted}\n\
    workspace: {root: ./work}\n---\nWork.\n";

#[test]
fn rule_14_1_a_misspelt_command_is_a_usage_error_with_what_was_meant() {
    let harness = Harness::new();
    for (words, wanted) in [
        (&["chek"][..], "did you mean `symphony check`?"),
        (&["docter"], "did you mean `symphony doctor`?"),
        (&["puase"], "did you mean `symphony pause`?"),
        (&["stopp", "MT-1"], "did you mean `symphony stop`?"),
        (&["frobnicate"], "`frobnicate` is neither a command nor a file"),
        (&["issue", "ad", "x"], "tip: a similar subcommand exists: 'add'"),
    ] {
        let shown = harness.run(words);
        assert_eq!(shown.code, Some(2), "{shown:#?}");
        assert!(shown.stderr.contains(wanted), "no {wanted:?} in {shown:#?}");
    }
    harness.write("chek", BOARD);
    let file = harness.run(&["chek", "--no-such-option"]);
    assert!(file.stderr.contains("--no-such-option"), "a file of that name is run: {file:#?}");
}

#[test]
fn rule_14_1_the_filter_of_the_log_stands_before_or_after_a_command() {
    let harness = Harness::new();
    harness.write("WORKFLOW.md", BOARD);
    for words in [&["--log", "debug", "check"][..], &["check", "--log=debug"]] {
        let shown = harness.run(words);
        assert_eq!(shown.code, Some(0), "{shown:#?}");
    }
    let bad = harness.run(&["check", "--log", "a=b=c"]);
    assert_eq!(bad.code, Some(1), "{bad:#?}");
    assert!(bad.stderr.contains("is not a filter"), "{bad:#?}");
    let misplaced = harness.run(&["--port", "1", "check"]);
    assert_eq!(misplaced.code, Some(2), "an option of another command: {misplaced:#?}");
}

#[test]
fn rule_14_1_explain_takes_a_file_alone() {
    let harness = Harness::new();
    harness.write("OTHER.md", BOARD);
    for words in [
        &["explain", "OTHER.md"][..],
        &["explain", "--workflow", "OTHER.md"],
        &["explain", "MT-1", "OTHER.md"],
    ] {
        let shown = harness.run(&[words, &["--offline"]].concat());
        assert_eq!(shown.code, Some(0), "{shown:#?}");
        assert!(shown.stdout.contains("MT-1"), "{shown:#?}");
    }
}

#[test]
fn rule_14_1_a_service_that_was_asked_in_vain_was_asked() {
    let mut harness = Harness::new();
    harness.set("SYMPHONY_URL", "");
    harness.write("WORKFLOW.md", &BOARD.replace("workspace:", "server: {port: 9}\nworkspace:"));
    let shown = harness.run(&["explain"]);
    assert_eq!(shown.code, Some(0), "{shown:#?}");
    assert!(shown.stderr.starts_with("No service answered: http://127.0.0.1:9"), "{shown:#?}");
    let shown = harness.run(&["status", "--url", "127.0.0.1:9"]);
    assert!(shown.stderr.contains("http://127.0.0.1:9 does not answer"), "{shown:#?}");
}
