//! `symphony issue add`, and what `symphony init` makes of a project and a repository.

use std::os::unix::fs::PermissionsExt;

use serde_json::Value;

use crate::looking::harness;
use crate::program::{Harness, Shown, wait_for};

fn add(harness: &Harness, words: &[&str]) -> Shown {
    harness.run(&[&["issue", "add"], words].concat())
}

fn fails_with(shown: &Shown, wanted: &str) {
    assert_eq!((shown.code, shown.stdout.as_str()), (Some(1), ""), "{shown:#?}");
    assert!(shown.stderr.contains(wanted), "no {wanted:?} in {shown:#?}");
}

#[test]
fn rule_14_10_an_issue_is_added_to_the_workflow_file_and_nothing_else_changes() {
    let harness = Harness::new();
    assert_eq!(harness.run(&["init"]).code, Some(0));
    let before = harness.read("WORKFLOW.md");
    let path = harness.path("WORKFLOW.md");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
    let title = "Oil: the \"hinges\" # and {{ more }}";
    let words =
        ["--description", "One.\n\n  # Two\n- three: 'x'", "--label", "a b", "--label", "c"];
    let shown =
        add(&harness, &[&[title], &words[..], &["-p", "2", "--blocked-by", "mt-1"]].concat());
    assert_eq!(shown.code, Some(0), "{shown:#?}");
    assert_eq!(shown.stdout, format!("MT-3: {title} (in `Todo`), added to WORKFLOW.md\n"));
    let after = harness.read("WORKFLOW.md");
    let added: Vec<&str> = after.lines().filter(|line| !before.contains(line)).collect();
    assert!(added.len() > 5, "{added:?}");
    let kept: Vec<&str> = after.lines().filter(|line| before.contains(line)).collect();
    let old: Vec<&str> = before.lines().collect();
    assert!(old.iter().all(|line| kept.contains(line)), "a line is gone: {after}");
    let start = before.find("blocked_by: [MT-1]        # starts when MT-1 is done\n").unwrap();
    assert_eq!(after[..start], before[..start]);
    assert!(after.ends_with(&before[before.find("  # active_states").unwrap()..]));
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    let checked = harness.run(&["check", "--show"]).stdout;
    assert!(checked.contains("issues     3 on the board"), "{checked}");
    let prompt = harness.run(&["prompt", "MT-3"]).stdout;
    assert!(prompt.contains("  # Two\n- three: 'x'"), "{prompt}");
    let again = add(&harness, &["More", "--json", "--state", "Someday"]);
    let record: Value = serde_json::from_str(&again.stdout).unwrap();
    assert_eq!((&record["identifier"], &record["state"]), (&"MT-4".into(), &"Someday".into()));
    let elsewhere = add(&harness, &["More", "--state", "Someday"]).stdout;
    assert!(elsewhere.contains("no agent starts on it"), "{elsewhere}");
    let all = harness.read("WORKFLOW.md");
    fails_with(&add(&harness, &["x", "--identifier", "mt-2"]), "mt-2 is on the board already");
    fails_with(&add(&harness, &["x", "--blocked-by", "MT-9"]), "MT-9 is not on the board");
    fails_with(&add(&harness, &["a\nb"]), "the title must be some text on one line");
    fails_with(&add(&harness, &[" "]), "the title must be some text on one line");
    fails_with(&add(&harness, &["x", "no-such.md"]), "no-such.md cannot be used");
    assert_eq!(harness.read("WORKFLOW.md"), all, "nothing was changed");
}

#[test]
fn rule_14_10_a_board_file_gets_the_issue_and_a_running_service_works_on_it() {
    let harness = harness("");
    harness.write(
        "WORKFLOW.md",
        "---\ntracker: {kind: memory, provider: {board: link.yaml}}\npolling: {interval_ms: 100}\n\
         agent: {kind: scripted}\nworkspace: {root: ./work}\n---\nHi\n",
    );
    let board = "# mine\nissues:  # all\n- title: One   # the first\n  identifier: A-1\n  state: Done\n\nstates: [Todo]\n";
    harness.write("board.yaml", board);
    std::os::unix::fs::symlink("board.yaml", harness.path("link.yaml")).unwrap();
    let mut service = harness.start(&["run"]);
    service.log_until("service starts");
    let shown = harness.shell("echo 'from a pipe' | symphony issue add Two -d - -l hang");
    assert_eq!(shown.code, Some(0), "{shown:#?}");
    assert!(shown.stdout.starts_with("A-2: Two (in `Todo`), added to "), "{shown:#?}");
    service.log_until("run started");
    let wanted = board.replace(
        "\nstates:",
        "- identifier: A-2\n  title: Two\n  state: Todo\n  labels:\n  - hang\n  description: from a pipe\n\nstates:",
    );
    assert_eq!(harness.read("board.yaml"), wanted);
    assert!(harness.path("link.yaml").is_symlink());
    wait_for("the run", || harness.run(&["status"]).stdout.contains("A-2"));
    service.stop();
}

#[test]
fn rule_14_10_issues_that_are_added_at_once_are_all_there() {
    let harness = harness("");
    let count = |harness: &Harness| harness.read("WORKFLOW.md").matches("title: ").count();
    let before = count(&harness);
    let all = harness.shell(
        "for i in 1 2 3 4 5 6 7 8; do symphony issue add \"T $i\" & jobs=\"$jobs $!\"; done; \
         for job in $jobs; do wait $job || exit 1; done",
    );
    assert_eq!(all.code, Some(0), "{all:#?}");
    assert_eq!(count(&harness), before + 8);
}

#[test]
fn rule_14_10_an_id_of_the_board_is_not_taken_twice() {
    let harness = harness("");
    harness.write(
        "WORKFLOW.md",
        "---\ntracker: {kind: memory, provider: {board: board.yaml}}\nagent: {kind: scripted}\n---\nHi\n",
    );
    let board = "issues:\n- {id: 7, identifier: MT-1, title: One, state: Todo}\n\
                 - {id: MT-2, identifier: MT-1b, title: Two, state: Todo}\n";
    harness.write("board.yaml", board);
    fails_with(&add(&harness, &["x", "--identifier", "7"]), "7 is on the board already");
    assert!(add(&harness, &["x"]).stdout.starts_with("MT-3: "));
    assert_eq!(harness.run(&["check"]).code, Some(0));
}

#[test]
fn rule_14_10_a_description_that_is_too_long_is_refused_and_not_cut() {
    let harness = harness("");
    let before = harness.read("WORKFLOW.md");
    let shown = harness.shell("head -c 1048577 /dev/zero | tr '\\0' x | symphony issue add T -d -");
    fails_with(&shown, "the description is longer than 1048576 bytes");
    assert_eq!(harness.read("WORKFLOW.md"), before);
}

#[test]
fn rule_14_10_what_cannot_be_added_to_is_left_alone_and_the_lines_are_shown() {
    let mut harness = Harness::new();
    let file = |provider: &str| {
        format!(
            "---\ntracker:\n  kind: memory\n  provider: {provider}\nagent: {{kind: scripted}}\n---\nHi\n"
        )
    };
    for provider in [
        "{issues: [{identifier: MT-1, title: One, state: Todo}]}",
        "{states: [Todo]}",
        "\n    issues: &all\n      - {identifier: MT-1, title: One, state: Todo}",
        // Its last lines are a part of the text, so another one would shorten it.
        "\n    issues:\n      - identifier: MT-1\n        title: One\n        state: Todo\n        \
         description: |+\n          One.\n\n\n    states: [Todo]",
    ] {
        harness.write("WORKFLOW.md", &file(provider));
        let shown = add(&harness, &["Two\u{202e}"]);
        fails_with(&shown, "so nothing was changed; add the lines above to it by hand");
        assert!(shown.stderr.contains("  title: Two\\u{202e}\n"), "{shown:#?}");
        assert_eq!(harness.read("WORKFLOW.md"), file(provider));
    }
    harness.set("LINEAR_API_KEY", "lin_api_0123456789");
    let linear = ["init", "--force", "--project", "website-1fa66498be91"];
    assert_eq!(harness.run(&linear).code, Some(0));
    fails_with(
        &add(&harness, &["x"]),
        "tracker.kind linear are not kept here; add the issue over there",
    );
}

#[test]
fn rule_14_1_init_takes_a_project() {
    let mut harness = Harness::new();
    harness.set("LINEAR_API_KEY", "lin_api_0123456789");
    let address = "https://linear.app/acme/project/website-1fa66498be91/overview";
    let made = harness.run(&["init", "--project", address]);
    assert_eq!(made.code, Some(0), "{made:#?}");
    assert!(harness.read("WORKFLOW.md").contains("    project_slug: website-1fa66498be91  "));
    let checked = harness.run(&["check", "--offline"]);
    assert_eq!(checked.code, Some(0), "{checked:#?}");
    let wrong = harness.run(&["init", "--force", "--project", "a: b"]);
    assert!(wrong.stderr.contains("is not a project of Linear"), "{wrong:#?}");
    let memory = harness.run(&["init", "--force", "--tracker", "memory", "--project", "x"]);
    assert!(memory.stderr.contains("--project is for --tracker linear"), "{memory:#?}");
}

#[test]
fn rule_14_1_init_with_a_repository_makes_a_branch_of_what_an_agent_leaves() {
    let harness = harness("");
    let git = "git -c user.name=x -c user.email=x@example.com";
    // `lib` is a submodule, of which a clone gets an empty folder.
    let made = harness.shell(&format!(
        "{git} init -q -b main code && echo old > code/old.txt && echo gone > code/gone && \
         cd code && {git} add . && git update-index --add --cacheinfo \
         160000,0123456789012345678901234567890123456789,lib && \
         {git} commit -qm one && {git} config receive.denyCurrentBranch ignore"
    ));
    assert_eq!(made.code, Some(0), "{made:#?}");
    harness.write("home/.gitconfig", "[user]\nname = x\nemail = x@example.com\n");
    assert_eq!(harness.run(&["init", "--force", "--repo", "code"]).code, Some(0));
    let checked = harness.run(&["check"]);
    assert_eq!(checked.code, Some(0), "{checked:#?}");
    // An agent that may write in its folder makes it another clone, and others below, with commands
    // in their settings.
    let nasty = "config core.fsmonitor \"touch $PWD/../../ran\"";
    harness.replace(
        "WORKFLOW.md",
        &harness.read("WORKFLOW.md").replace(
            "  after_run: |\n",
            &format!(
                "  before_run: |\n    set -e\n    rm .git && git init -q . && git {nasty}\n    \
                 for below in lib own; do git init -q $below && \
                 git -C $below commit -q --allow-empty -m x && git -C $below {nasty}; done\n    \
                 rm gone && mkdir gone && echo new > gone/new\n  \
                 after_run: |\n    gh() {{ git status; }}\n"
            ),
        ),
    );
    let mut service = harness.start(&["run"]);
    service.log_until("workspace removed");
    service.stop();
    assert!(!harness.path("ran").exists(), "git obeyed what an agent has written");
    assert!(!harness.path("workspaces.git/MT-1").exists(), "it goes with the workspace");
    let log = harness.shell(
        "cd code && git log --format=%s agent/MT-1 && git show agent/MT-1:old.txt && \
         git ls-tree -r --name-only agent/MT-1",
    );
    let wanted = "MT-1: Fix the door\none\nold\ngone/new\nlib\nold.txt\nstand-in.txt\n";
    assert_eq!(log.stdout, wanted, "{log:#?}");
}
