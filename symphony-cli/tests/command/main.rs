//! The `symphony` command as a person meets it: what it prints, and how it exits (contract 14).
#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails loudly")]

mod checking;
mod corpus;
mod demo;
mod echoes;
mod endurance;
mod finding;
mod kills;
mod linear;
mod logs;
mod looking;
#[cfg(all(feature = "kill-points", debug_assertions))]
mod matrix;
mod observers;
mod program;
mod restarts;
mod roots;
mod screens;
mod service;
mod state;
mod terminal;
#[cfg(feature = "otel")]
mod traces;
mod warnings;
mod words;
// The same shapes as in the tests of the host.
#[path = "../../../symphony-host/tests/processes/shapes.rs"]
mod shapes;

use program::{Harness, files};

#[test]
fn rule_14_1_the_demo_does_all_its_work_and_leaves_nothing_behind() {
    let mut harness = Harness::new();
    let demo = harness.run(&["demo"]);
    let shown = &demo.stdout;
    assert_eq!(demo.code, Some(0), "{demo:#?}");
    for number in 1..=8 {
        let done = shown
            .lines()
            .any(|line| line.starts_with(&format!("DEMO-{number} ")) && line.contains(" Done "));
        assert!(done, "DEMO-{number} is not done in\n{shown}");
    }
    for wanted in ["blocked by DEMO-1", "every slot is taken", "the line went dead", "turn 2 of"] {
        assert!(shown.contains(wanted), "no {wanted:?} in\n{shown}");
    }
    assert!(!shown.contains('\u{1b}'), "colours only on a terminal");
    harness.wait_until_nothing_is_left();
    assert!(files(&harness.path("tmp")).is_empty(), "a file is left");
}

#[test]
fn rule_14_1_the_demo_can_be_kept_and_its_file_is_a_good_one() {
    let harness = Harness::new();
    assert_eq!(harness.run(&["demo", "--keep"]).code, Some(0));
    let kept = files(&harness.path("tmp")).pop().unwrap();
    let report = std::fs::read_to_string(kept.join("finished/DEMO-4.md")).unwrap();
    assert!(report.contains("Nobody answers."), "{report}");
    assert!(report.contains("Attempt 1 begins."), "{report}");
    let checked = harness.run_in(kept.to_str().unwrap(), &["check"]);
    assert_eq!(checked.code, Some(0), "{checked:#?}");
}

#[test]
fn rule_14_1_what_init_writes_is_accepted_by_check_and_runs() {
    let harness = Harness::new();
    assert_eq!(harness.run(&["init"]).code, Some(0));
    let checked = harness.run(&["check", "--show"]);
    assert_eq!(checked.code, Some(0), "{checked:#?}");
    assert!(checked.stdout.contains("WORKFLOW.md can be used\n"), "{checked:#?}");
    assert!(checked.stdout.contains("max_concurrent_agents: 2"), "{checked:#?}");
    let prompt = harness.run(&["prompt", "mt-2"]).stdout;
    assert!(prompt.starts_with("You are working on MT-2: Paint the window"), "{prompt}");
    let again = harness.run(&["init"]);
    assert_eq!(again.code, Some(1));
    assert!(again.stderr.contains("--force"), "it says what to do: {again:#?}");
    assert_eq!(harness.run(&["init", "--force"]).code, Some(0));
}

#[test]
fn rule_2_2_check_shows_every_problem_with_its_place() {
    let harness = Harness::new();
    let file = "---\ntracker:\n  kind: memory\nagent:\n  kind: scripted\n  max_turns: 0\n  \
        max_turn: 3\n---\nHi {{ issue.titel }}\n";
    harness.write("WORKFLOW.md", file);
    let checked = harness.run(&["check"]);
    assert_eq!(checked.code, Some(1));
    for wanted in [
        "error[invalid_setting]: agent.max_turns: must be a positive integer, got 0",
        "WORKFLOW.md:6:3",
        "error[template_parse_error]: `issue` has no field `titel`",
        "WORKFLOW.md:9:7",
        "did you mean `issue.title`?",
        "error[misspelt_key]: agent.max_turn: ",
        "did you mean `agent.max_turns`?",
        "cannot be used: 3 errors",
    ] {
        assert!(checked.stdout.contains(wanted), "no {wanted:?} in {checked:#?}");
    }
}

#[test]
fn rule_14_1_check_asks_the_agent_unless_it_is_offline() {
    let mut harness = Harness::new();
    let file =
        "---\ntracker:\n  kind: memory\ncodex:\n  command: touch ran; no-such-codex\n---\nHi\n";
    harness.write("WORKFLOW.md", file);
    let offline = harness.run(&["check", "--offline"]);
    assert_eq!(offline.code, Some(0), "{offline:#?}");
    let asked = harness.run(&["check"]);
    assert_eq!(asked.code, Some(1), "{asked:#?}");
    for wanted in ["codex      error: ", "was not found; install Codex", "would not work"] {
        assert!(asked.stdout.contains(wanted), "no {wanted:?} in {asked:#?}");
    }
    harness.wait_until_nothing_is_left();
}

#[test]
fn rule_12_7_check_forecasts_what_polling_will_cost() {
    let harness = Harness::new();
    let file = "---\ntracker:\n  kind: memory\npolling:\n  budget: {per_hour: 250}\n---\nHi\n";
    harness.write("WORKFLOW.md", file);
    for (option, warning) in [
        ("--budget=2", "2 agents would take 138\n"),
        ("--budget", "warning: polling.budget.per_hour is 250 requests an hour; 10 agents"),
        ("--budget=20", "20 agents would take 300: polling will be slower"),
    ] {
        let shown = harness.run(&["check", "--offline", option]);
        assert_eq!(shown.code, Some(0), "{shown:#?}");
        assert!(shown.stdout.contains(warning), "no {warning:?} in {shown:#?}");
    }
}

#[test]
fn rule_12_2_a_persons_command_is_activity() {
    let harness = Harness::new();
    let file = "---\ntracker:\n  kind: memory\nagent: {kind: scripted}\npolling:\n  \
        activity_file: at-work\n---\nHi\n";
    harness.write("WORKFLOW.md", file);
    assert_eq!(harness.run(&["check", "--offline"]).code, Some(0));
    assert!(!harness.path("at-work").exists(), "a file that is not trusted names no file to touch");
    assert_eq!(harness.run(&["check"]).code, Some(0));
    assert!(harness.path("at-work").exists());
}

#[test]
fn rule_4_1_a_bad_file_is_a_startup_failure() {
    let harness = Harness::new();
    let missing = harness.run(&[]);
    assert_eq!(missing.code, Some(1));
    for wanted in ["missing_workflow_file", "symphony init"] {
        assert!(missing.stderr.contains(wanted), "no {wanted:?} in {missing:#?}");
    }
    harness.write("bad.md", "---\ntracker:\n  kind: jira\nworkspace:\n  root: ./work\n---\n");
    let bad = harness.run(&["run", "bad.md"]);
    assert_eq!(bad.code, Some(1));
    assert!(bad.stderr.contains("unsupported_tracker_kind"), "{bad:#?}");
    assert!(!harness.path("work").exists(), "nothing was begun");
}

#[test]
fn rule_4_1_a_workflow_path_that_is_not_a_file_fails_the_start_without_a_hang() {
    let harness = Harness::new();
    let shown = harness.run(&["run", "home/pipe"]);
    assert_eq!(shown.code, Some(1), "{shown:#?}");
    assert!(shown.stderr.contains("it is not a file"), "{shown:#?}");
}

#[test]
fn rule_14_1_init_replaces_a_file_as_a_whole_or_not_at_all() {
    let harness = Harness::new();
    harness.write("WORKFLOW.md", "mine\n");
    let program = env!("CARGO_BIN_EXE_symphony");
    // As on a full disk: nothing can be written.
    let script =
        format!("cd '{}'; ulimit -f 0; '{program}' init --force", harness.path("").display());
    let status = std::process::Command::new("sh").args(["-c", &script]).status().unwrap();
    assert!(!status.success());
    assert_eq!(harness.read("WORKFLOW.md"), "mine\n");
    std::os::unix::fs::symlink("WORKFLOW.md", harness.path("link.md")).unwrap();
    assert_eq!(harness.run(&["init", "link.md"]).code, Some(1));
    assert_eq!(harness.run(&["init", "--force", "link.md"]).code, Some(0));
    assert!(harness.path("link.md").is_symlink(), "a link stays a link");
    assert!(harness.read("WORKFLOW.md").contains("kind: memory"), "what it leads to is replaced");
}

#[test]
fn rule_13_1_check_shows_a_strangers_file_and_its_name_and_steers_no_screen() {
    let harness = Harness::new();
    let file = "---\ntracker:\n  kind: memory\n  active_states: [\"To\u{202e}do\"]\n\
        hooks: {after_run: \"a\u{2066}b\\e[2J\"}\n\"ke\\e[31my\": 1\nagent: {kind: scripted}\n---\nHi\n";
    let name = "a\u{1b}[31mb.md";
    harness.write(name, file);
    let checked = harness.run(&["check", "--offline", "--show", name]);
    assert_eq!(checked.code, Some(0), "{checked:#?}");
    for mark in ['\u{202e}', '\u{2066}', '\u{1b}'] {
        assert!(!checked.stdout.contains(mark), "{mark:?} is in {checked:#?}");
    }
}

#[test]
fn rule_14_4_an_agent_that_is_only_checked_does_not_read_the_environment_either() {
    let harness = Harness::new().without_root();
    let look = "service=$(cut -d' ' -f4 /proc/$PPID/stat); head -c 1 /proc/$service/environ";
    let file = format!(
        "---\ntracker:\n  kind: memory\ncodex:\n  command: exec 2> \"$HOME/../seen.txt\"; {look}\n---\nHi\n"
    );
    harness.write("WORKFLOW.md", &file);
    assert_eq!(harness.run(&["check"]).code, Some(1), "it is no Codex");
    let seen = harness.read("seen.txt");
    assert!(seen.contains("Permission denied"), "{seen}");
}

#[test]
fn rule_14_1_the_flag_of_other_implementations_is_accepted() {
    let harness = Harness::new();
    let flag = "--i-understand-that-this-will-be-running-without-the-usual-guardrails";
    let output = harness.run(&["no-such-file.md", flag]);
    assert_eq!(output.code, Some(1), "not a usage error: {output:#?}");
    let help = harness.run(&["--help"]).stdout;
    assert!(help.contains("symphony demo") && !help.contains("guardrails"), "{help}");
}

#[test]
fn rule_2_2_check_shows_no_value_of_an_unknown_key_or_of_a_secret() {
    let harness = Harness::new();
    let key = "lin_api_SECRETsecret0123456789";
    for (yaml, shown) in [
        (format!("apiKey: {key}"), "  apiKey: ***"),
        (format!("colour: {key}"), "  colour: ***"),
        (format!("active_stats: {key}"), "  active_stats: ***"),
        (format!("colour: x\nreview:\n  gate: {key}\n  gate: {key}"), "  gate: ***"),
        (format!("colour={key}: x"), "  colour=***"),
        (format!("api_key: {key}\n  api_key: {key}"), "  api_key: ***"),
        (format!("provider: {{api_key: {key}, apiKey: {key}}}"), "api_key: ***, apiKey: ***"),
        (
            format!("provider: {{api_key: {key}, tool: 7, x: {key}}}"),
            "api_key: ***, tool: ***, x: ***",
        ),
        (format!("api_key: \"{key}"), "quoted scalar"),
        (format!("api_key:\n    - {key}: x: y"), "    ***"),
        (format!("x: y\nrunner: {{kind: claude, arguments: {key}}}"), "runner: {kind: ***"),
        (format!("provider:\n    webhook_secret: {}\n    slug: {key}", &key[..10]), "slug: ***"),
    ] {
        let file = format!("---\ntracker:\n  kind: linear\n  {yaml}\n---\nGo.\n");
        harness.write("WORKFLOW.md", &file);
        let started = harness.run(&["run"]);
        let checked = harness.run(&["check", "--offline", "--show"]);
        assert!(checked.stdout.contains(shown), "{yaml}: no {shown:?} in {}", checked.stdout);
        assert!(checked.stdout.contains('^'), "{yaml}: {}", checked.stdout);
        let all = checked.stdout + &checked.stderr + &started.stdout + &started.stderr;
        assert!(!all.contains(&key[..12]), "{yaml}: {all}");
    }
}
