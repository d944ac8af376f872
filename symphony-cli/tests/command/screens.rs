//! What the dashboard shows on terminals of the usual sizes: warnings, hostile titles, a thousand
//! issues (contract 2.3, 13.1, 13.4).

use symphony_tui::text::width;

use crate::program::Harness;
use crate::terminal::Terminal;

const SIZES: [(u16, u16); 2] = [(80, 24), (120, 40)];

/// A board with these issues, as lines of YAML, and these settings.
fn workflow(issues: &str, settings: &str) -> String {
    format!(
        "---\ntracker:\n  kind: memory\n  provider:\n    issues:\n{issues}\
         workspace: {{root: ./work}}\n{settings}agent: {{kind: scripted}}\n---\nWait.\n"
    )
}

/// Waits until the screen is drawn for a size: the first line and the last one tell.
fn resize(terminal: &Terminal<'_>, (columns, rows): (u16, u16)) -> String {
    terminal.resize(columns, rows);
    terminal.wait_until("a picture of this size", |shown| {
        let lines: Vec<&str> = shown.lines().collect();
        lines.len() == usize::from(rows)
            && lines[0].starts_with("Symphony live")
            && width(lines[0]) == usize::from(columns)
            && lines.last().is_some_and(|line| line.starts_with("Enter open"))
    })
}

#[test]
fn rule_2_3_warnings_come_and_go_on_the_terminal_dashboard() {
    let harness = Harness::new();
    let issue = "      - {identifier: MT-1, title: Wait, state: Todo, labels: [hang]}\n";
    harness.write("WORKFLOW.md", &workflow(issue, "server:\n  colour: blue\n  maxTurns: 5\n"));
    let Some(terminal) = Terminal::run(&harness, "symphony run --port 0") else { return };
    terminal.wait_for("▶MT-1");
    for size in SIZES {
        let shown = resize(&terminal, size);
        let told: Vec<&str> = shown.lines().filter(|line| line.starts_with("? ")).collect();
        assert_eq!(told.len(), 2, "{shown}");
        let wanted = "? warning, workflow file (line 9): server.colour: is unknown and ignored";
        assert_eq!(told[0], wanted, "{shown}");
        assert!(shown.contains("mean `agent.max_turns`?"), "the remedy is not cut off: {shown}");
        assert!(!shown.contains("\n! "), "nothing is wrong: {shown}");
    }
    harness.replace("WORKFLOW.md", &workflow(issue, "polling: {interval_ms: often}\n"));
    let shown = terminal.wait_for("! workflow file (line 8): polling.interval_ms: ");
    assert!(
        shown.contains("? warning, workflow file (line 9)"),
        "of the version in force: {shown}"
    );
    harness.replace("WORKFLOW.md", &workflow(issue, ""));
    terminal.wait_until("a clean picture", |shown| {
        !shown.contains("workflow file (line") && shown.contains("▶MT-1")
    });
    terminal.press(&["q"]);
    terminal.wait_for("the service goes on, Ctrl-C ends it; `symphony top` shows it again");
}

/// Titles that would like to be more than text, and what of each must be seen on a screen.
const TITLES: [(&str, &str); 8] = [
    ("{{ issue.title }} {% for x in y %} {{ 7*7 }} $(id)", "{{ issue.title }} {%"),
    ("<script>alert(1)</script>", "<script>alert(1)</sc"),
    ("\\e[2J\\e]0;owned\\a\\x9b31m", "\\u{1b}[2J\\u{1b}]0;"),
    ("\\u202ebackwards\\u2066", "\\u{202e}backwards"),
    ("Donaudampfschifffahrtselektrizitaetenhauptbetriebswerk", "Donaudampfschifffa"),
    (
        "\u{1f469}\\u200d\u{1f680} e\\u0301 日本語の題名 とても長い題名",
        "\u{1f469}\\u{200d}\u{1f680}",
    ),
    ("two\\nlines\\r\\tand a tab", "two\\nlines\\r\\tand"),
    ("soft\\u00adhyphen\\ufeff and mark", "soft\\u{ad}hyphen"),
];

/// Eight runs, forty issues that wait, and the rest blocked by the first.
fn crowd() -> String {
    let issue = |number: usize| {
        let rest = match number {
            1..=8 => "labels: [hang]",
            9..=48 => "labels: [fail]",
            _ => "blocked_by: [MT-1]",
        };
        let title = TITLES[number % 8].0;
        format!("      - {{identifier: MT-{number}, title: \"{title}\", state: Todo, {rest}}}\n")
    };
    (1..=1_000).map(issue).collect()
}

#[test]
fn rule_13_4_a_thousand_hostile_issues_fit_screens_of_80_and_120_columns() {
    let harness = Harness::new();
    harness.write("WORKFLOW.md", &workflow(&crowd(), ""));
    let Some(terminal) = Terminal::run(&harness, "symphony run") else { return };
    terminal.wait_for("Waiting 40");
    terminal.press(&["p"]);
    terminal.wait_for("! paused");
    for size in SIZES {
        let shown = resize(&terminal, size);
        assert!(shown.contains(" ISSUE ") && shown.contains(" TITLE"), "{shown}");
        for (number, (_, wanted)) in (1..).zip(TITLES.iter().cycle().skip(1).take(8)) {
            let row = shown.lines().find(|line| {
                line.trim_start_matches([' ', '▶']).starts_with(&format!("MT-{number} "))
            });
            assert!(row.is_some_and(|row| row.contains(wanted)), "no {wanted:?} in\n{shown}");
        }
        for (keys, list) in
            [("Tab", "Waiting 40"), ("Tab", "Blocked 0"), ("Tab", "Not started 952")]
        {
            terminal.press(&[keys]);
            let shown = terminal.wait_for(&format!("▶ {list}"));
            assert!(list.ends_with(" 0") || shown.contains(" TITLE"), "{shown}");
            assert_is_whole(&terminal, size, &shown);
        }
        // From one end to the other, and what is looked for.
        terminal.press(&["End"]);
        terminal.wait_until("the last row", |shown| {
            shown.contains("▶MT-") && !shown.contains("▶MT-100 ")
        });
        terminal.press(&["/", "s", "o", "f", "t", "Enter"]);
        let shown = terminal.wait_for("only: soft");
        assert!(!shown.contains("Donaudampf"), "{shown}");
        assert_is_whole(&terminal, size, &shown);
        terminal.press(&["Escape", "Home"]);
        terminal.wait_for("▶MT-100 ");
        terminal.press(&["Enter"]);
        let shown = terminal.wait_for("nothing yet: starts, ");
        assert!(
            shown.contains("Title       Donaudampfschifffahrtselektrizitaetenhauptbetriebswerk\n"),
            "{shown}"
        );
        terminal.press(&["Escape", "Tab"]);
        terminal.wait_for("▶ Running 8");
    }
    let title = terminal.tmux(&["display-message", "-p", "#{pane_title}"]).stdout;
    assert!(!String::from_utf8_lossy(&title).contains("owned"), "a title steered the terminal");
}

/// No line is longer than the screen is wide, and the screen shows what is meant and nothing else:
/// drawn anew, it is the same.
fn assert_is_whole(terminal: &Terminal<'_>, (columns, rows): (u16, u16), shown: &str) {
    assert_eq!(shown.lines().count(), usize::from(rows), "{shown}");
    for line in shown.lines() {
        assert!(width(line) <= usize::from(columns), "{line:?} in\n{shown}");
    }
    let before = lists(shown);
    terminal.press(&["C-l"]);
    terminal.wait_until("the same, drawn anew", |shown| lists(shown) == before);
}

/// Returns the words of the lists, without numbers: times go on.
fn lists(shown: &str) -> Vec<String> {
    let is_heading = |line: &&str| line.contains("Running ") && line.contains('8');
    let lines = shown.lines().skip_while(|line| !is_heading(line));
    let lines = lines.take_while(|line| !line.starts_with("─ Log") && !line.starts_with("Enter"));
    let is_time = |word: &str| word == "now" || word.starts_with(|c: char| c.is_ascii_digit());
    let still = |line: &str| -> Vec<String> {
        line.split_whitespace().filter(|word| !is_time(word)).map(str::to_owned).collect()
    };
    lines.map(|line| still(line).join(" ")).collect()
}
