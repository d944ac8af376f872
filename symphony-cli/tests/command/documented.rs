//! Every command's help, what is generated from the commands, and the command lines of the pages.

use std::collections::BTreeSet;
use std::path::Path;

use crate::program::{Harness, files, wait_for};

/// The commands, as the help of a command lists them.
fn commands_below(harness: &Harness, command: &[&str]) -> Vec<String> {
    let help = harness.run(&[command, &["--help"]].concat());
    assert_eq!(help.code, Some(0), "{help:#?}");
    let (_, list) = help.stdout.split_once("Commands:\n").unwrap_or_default();
    let names = list.lines().take_while(|line| !line.is_empty());
    let is_name = |line: &&str| line.starts_with("  ") && !line.starts_with("   ");
    let name = |line: &str| line.split_whitespace().next().unwrap().to_owned();
    names.filter(is_name).map(name).filter(|name| name != "help").collect()
}

/// The words of every command, such as `issue add`.
fn all_commands(harness: &Harness) -> Vec<String> {
    let mut all = Vec::new();
    for command in commands_below(harness, &[]) {
        let below = commands_below(harness, &[&command]);
        all.extend(below.iter().map(|below| format!("{command} {below}")));
        all.push(command);
    }
    all
}

/// The options of a text, such as `--json`.
fn options(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
    let options = words.filter(|word| word.len() > 2 && word.starts_with("--"));
    options.map(str::to_owned).collect()
}

fn page(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join(name);
    std::fs::read_to_string(path).unwrap()
}

/// The lines of the shell blocks of a page that run the command, without remarks.
fn typed(page: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut is_shell = false;
    for line in page.lines() {
        if line.starts_with("```") {
            is_shell = !is_shell && (line == "```sh" || line == "```shell");
        } else if is_shell {
            let line = line.split(" # ").next().unwrap().trim();
            let line = line.replace("cargo run -p symphony-cli -- ", "symphony ");
            if line.starts_with("symphony") {
                lines.push(line);
            }
        }
    }
    lines
}

#[test]
fn rule_14_1_every_command_has_help_that_teaches() {
    let harness = Harness::new();
    let all = all_commands(&harness);
    assert!(all.len() >= 21, "{all:?}");
    for command in &all {
        let words: Vec<&str> = command.split(' ').collect();
        for words in [[&words[..], &["--help"]].concat(), [&["help"], &words[..]].concat()] {
            let help = harness.run(&words);
            assert_eq!(help.code, Some(0), "{help:#?}");
            assert!(help.stdout.contains(&format!("Usage: symphony {command}")), "{help:#?}");
            let first = help.stdout.lines().next().unwrap();
            assert!(first.len() > 15 && first.len() <= 100, "{command}: {first}");
        }
    }
    let general = harness.run(&["--help"]).stdout;
    assert!(!general.contains("demo-agent"), "{general}");
}

#[test]
fn rule_14_1_completions_and_manual_pages_have_every_command() {
    let mut harness = Harness::new();
    harness.set("SYMPHONY_URL", "http://nowhere.example");
    let all = all_commands(&harness);
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = harness.run(&["completions", shell]);
        assert_eq!((script.code, script.stderr.as_str()), (Some(0), ""));
        for word in all.iter().flat_map(|command| command.split(' ')).chain(["--logs-root"]) {
            let word = if shell == "fish" { word.trim_start_matches('-') } else { word };
            assert!(script.stdout.contains(word), "no {word} for {shell}");
        }
        for hidden in ["guardrails", "demo-agent", "nowhere"] {
            assert!(!script.stdout.contains(hidden), "{hidden} for {shell}");
        }
        harness.write(shell, &script.stdout);
    }
    // A shell that is not installed reads nothing.
    for shell in ["bash", "fish", "zsh"] {
        let read =
            harness.shell(&format!("command -v {shell} > found || exit 0; {shell} -n {shell}"));
        assert_eq!((read.code, read.stderr.as_str()), (Some(0), ""), "{shell}");
    }
    assert_eq!(harness.run(&["completions", "tcsh"]).code, Some(2));
    let made = harness.run(&["man", "--dir", "share/man1"]);
    assert_eq!((made.code, made.stdout.as_str()), (Some(0), ""), "{made:#?}");
    let names = files(&harness.path("share/man1"));
    let names = names.iter().map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned());
    let names: BTreeSet<String> = names.collect();
    let pages = all.iter().map(|command| format!("symphony-{}", command.replace(' ', "-")));
    let pages: BTreeSet<String> = pages.chain(["symphony".to_owned()]).collect();
    assert_eq!(names, pages);
    for page in &pages {
        let text = harness.read(&format!("share/man1/{page}.1"));
        assert!(text.contains(".SH SYNOPSIS") && !text.contains("nowhere"), "{page}: {text}");
        let name = page.replace('-', "\\-");
        assert!(text.contains(&name), "{page}: {text}");
    }
    let one = harness.run(&["man"]).stdout;
    assert_eq!(one, harness.read("share/man1/symphony.1"));
    let taken = harness.run(&["man", "--dir", "bash"]);
    assert_eq!(taken.code, Some(1), "{taken:#?}");
    assert!(taken.stderr.contains("cannot write into bash"), "{taken:#?}");
}

#[test]
fn rule_14_1_the_page_of_the_command_line_names_every_command_with_its_options() {
    let harness = Harness::new();
    let page = page("docs/guide/cli.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `symphony "));
    let mut named = BTreeSet::new();
    for row in rows {
        let usage = row.split('`').next().unwrap().replace("\\|", " ");
        let words = usage.split(' ').take_while(|word| {
            *word == "[run]" || word.starts_with(|c: char| c.is_ascii_lowercase())
        });
        let command = words.collect::<Vec<_>>().join(" ").replace(['[', ']'], "");
        if command == "help" {
            continue;
        }
        let words: Vec<&str> = command.split(' ').collect();
        let help = harness.run(&[&words[..], &["--help"]].concat()).stdout;
        let (_, listed) = help.split_once("Options:\n").unwrap();
        let lines = listed.lines().filter(|line| line.trim_start().starts_with('-'));
        let mut wanted = options(&lines.collect::<Vec<_>>().join("\n"));
        for everywhere in ["--help", "--version", "--log"] {
            wanted.remove(everywhere);
        }
        assert_eq!(options(&usage), wanted, "{command}");
        named.insert(command);
    }
    let all: BTreeSet<String> = all_commands(&harness).into_iter().collect();
    assert_eq!(named, all.into_iter().filter(|command| command != "issue").collect());
}

#[test]
fn rule_14_1_every_command_line_of_the_pages_does_what_it_says() {
    let mut harness = Harness::new();
    harness.set("SYMPHONY_URL", "");
    harness.set("SYMPHONY_TOKEN", "");
    assert_eq!(harness.run(&["init"]).code, Some(0));
    let file = harness.read("WORKFLOW.md");
    let first = "title: Fix the door\n";
    let hanging = file.replace(first, &format!("{first}        labels: [hang]\n"));
    harness.write("WORKFLOW.md", &hanging);
    let mut service = harness.start(&["run", "--logs-root", "./logs"]);
    service.log_until("run started");
    wait_for("the run", || harness.run(&["status"]).stdout.contains("1 of 2 agents"));
    let lines = [typed(&page("docs/guide/cli.md")), typed(&page("docs/guide/trackers/memory.md"))];
    let lines = lines.concat();
    assert!(lines.len() > 20, "{lines:#?}");
    for line in &lines {
        // What goes on until Ctrl-C: the first words that it prints.
        let stays = [("--follow", "run "), ("--watch", "Symphony at ")];
        if let Some((_, wanted)) = stays.iter().find(|(option, _)| line.contains(option)) {
            let mut stays = harness.start_shell(&format!("exec {line} 2>&1"));
            stays.until(wanted);
            stays.interrupt();
        } else {
            // A command counts a moment later: a run that is stopped has not ended yet.
            let is_soon = line.starts_with("symphony retry");
            let shown = || harness.shell(line);
            if is_soon {
                wait_for(line, || shown().code == Some(0));
            } else {
                let shown = shown();
                assert_eq!(shown.code, Some(0), "{line}: {shown:#?}");
            }
        }
    }
    service.stop();
    assert!(harness.read("WORKFLOW.md").contains("title: Oil the hinges\n"));
}

#[test]
fn rule_14_1_every_command_line_of_the_readme_does_what_it_says() {
    let mut harness = Harness::new();
    harness.set("SYMPHONY_URL", "");
    let lines = typed(&page("README.md"));
    assert!(lines.len() >= 6, "{lines:#?}");
    for line in &lines {
        let line = line.replace("4000", "0");
        if line.contains("--port") {
            let mut stays = harness.start_shell(&format!("exec {line} 2>&1"));
            stays.until("dashboard and API are served");
            stays.interrupt();
        } else {
            let shown = harness.shell(&line);
            assert_eq!(shown.code, Some(0), "{line}: {shown:#?}");
        }
    }
}

/// The Markdown files below a path.
fn pages_below(path: &Path) -> Vec<String> {
    if !path.is_dir() {
        let is_page = path.extension().is_some_and(|ending| ending == "md");
        return is_page.then(|| std::fs::read_to_string(path).unwrap()).into_iter().collect();
    }
    files(path).iter().flat_map(|below| pages_below(below)).collect()
}

/// The words behind the command, up to what is for the shell, in the form in which they are typed.
fn words_of(line: &str) -> Option<String> {
    let words = line.strip_prefix("symphony ")?.split([';', '>', '&', '#']).next()?;
    let words = words.split(" | ").next()?.replace("\\|", " ").replace(['[', ']'], "");
    let stand_ins = [
        ("=SECONDS", "=5"),
        ("=AGENTS", "=5"),
        (" N", " 1"),
        // Of several only one is typed.
        ("text json", "text"),
        ("memory linear", "memory"),
        ("--quiet --json", "--quiet"),
        ("help COMMAND", "run"),
        ("SHELL", "bash"),
        ("--workflow FILE --url", "--url"),
    ];
    let typed = stand_ins.iter().fold(words, |words, (from, to)| words.replace(from, to));
    Some(typed.trim().to_owned())
}

/// The command as a page names it, in blocks for a shell and within sentences.
fn named_anywhere(page: &str) -> BTreeSet<String> {
    let mut named: BTreeSet<String> =
        typed(page).iter().filter_map(|line| words_of(line)).collect();
    let mut is_block = false;
    for line in page.lines() {
        if line.trim_start().starts_with("```") {
            is_block = !is_block;
        } else if !is_block {
            named.extend(line.split('`').skip(1).step_by(2).filter_map(words_of));
        }
    }
    named
}

#[test]
fn rule_14_1_every_page_names_commands_and_options_that_there_are() {
    let harness = Harness::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let places = ["docs", "deploy", "README.md", "CONTRIBUTING.md", "SECURITY.md"];
    let pages = places.iter().flat_map(|place| pages_below(&root.join(place)));
    let named: BTreeSet<String> = pages.flat_map(|page| named_anywhere(&page)).collect();
    assert!(named.len() >= 60, "{named:#?}");
    for words in &named {
        let asked = harness.shell(&format!("symphony {words} --help"));
        assert_eq!(asked.code, Some(0), "symphony {words}: {asked:#?}");
    }
}
