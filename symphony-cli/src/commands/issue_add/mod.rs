//! `symphony issue add`: one more issue on the board of the memory tracker.

mod insert;

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, fchown};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anstream::{eprintln, stdout};
use anyhow::{Context as _, anyhow, bail};
use serde_yaml::{Mapping, Value};
use symphony_core::plain;
use symphony_core::settings::Settings;
use symphony_core::tracker::TrackerContext;
use symphony_memory::{BoardLock, MEMORY, board_path, lock_board};
use symphony_runtime::{Usable, inspect};

use super::CliEnv;
use crate::args::IssueAddArgs;
use crate::{adapters, report};
use insert::{ListAt, append};

/// How much of a name is shown.
const MAX_NAME_BYTES: usize = 200;

/// No description is longer.
const MAX_DESCRIPTION_BYTES: u64 = 1 << 20;

/// What the first issue of a board is called.
const FIRST_IDENTIFIER: &str = "MT-1";

/// The file with the list of issues, as it was read.
struct BoardText {
    path: PathBuf,
    text: String,
    /// The bytes of the text that are YAML.
    yaml: std::ops::Range<usize>,
    /// The keys that lead to the list.
    keys: &'static [&'static str],
    list: Option<ListAt>,
    /// Of the board file, where there is one.
    _locked: Option<BoardLock>,
}

pub(crate) fn add(args: &IssueAddArgs) -> anyhow::Result<ExitCode> {
    // Several commands at once add one after the other.
    let _locked = args.workflow.exists().then(|| lock(&args.workflow)).transpose()?;
    let usable = load(&args.workflow)?;
    let settings = usable.settings();
    if settings.tracker.kind != MEMORY {
        let kind = plain(&settings.tracker.kind, MAX_NAME_BYTES);
        bail!("the issues of tracker.kind {kind} are not kept here; add the issue over there");
    }
    let board = BoardText::open(&args.workflow, &usable)?;
    let mut root: Value = serde_yaml::from_str(&board.text[board.yaml.clone()])
        .with_context(|| format!("{} cannot be read", board.path.display()))?;
    let record = record(args, settings, issues_of(&mut root, board.keys)?)?;
    let new = board.with(&record, root)?;
    board.replace(&new)?;
    tell(args, settings, &record, &board.path)
}

fn load(workflow: &Path) -> anyhow::Result<Usable> {
    let inspection = inspect(workflow, &adapters::registry());
    inspection.usable.ok_or_else(|| {
        report::to_stderr(workflow, &inspection.text, &inspection.problems);
        anyhow!("{} cannot be used; see above", workflow.display())
    })
}

impl BoardText {
    /// Reads the board file, or the workflow file where that has the list.
    fn open(workflow: &Path, usable: &Usable) -> anyhow::Result<Self> {
        let settings = usable.settings();
        let mut cx = TrackerContext::new(&settings.tracker, &settings.polling.budget, &CliEnv);
        cx.folder = workflow.parent();
        if let Some(path) = board_path(&cx)? {
            let locked = Some(lock(&path)?);
            let text = read(&path)?;
            let line = text.lines().position(|line| line.starts_with("issues:"));
            let is_map = serde_yaml::from_str(&text).is_ok_and(|root: Value| root.is_mapping());
            let (keys, list): (&[&str], _) = match (line, is_map) {
                (_, false) => (&[], Some(ListAt::Top)),
                (line, true) => (&["issues"], line.map(ListAt::Key)),
            };
            let yaml = 0..text.len();
            return Ok(Self { path, yaml, text, keys, list, _locked: locked });
        }
        let text = read(workflow)?;
        let position = usable.workflow.places.position("tracker.provider.issues");
        let line = position.and_then(|at| usize::try_from(at.line).ok()?.checked_sub(1));
        let yaml = front_matter(&text).with_context(|| {
            format!("{} has no front matter to add an issue to", workflow.display())
        })?;
        let root: Value = serde_yaml::from_str(&text[yaml.clone()])?;
        let keys: &[&str] = match root["tracker"].get("provider").and_then(|it| it.get("issues")) {
            Some(_) => &["tracker", "provider", "issues"],
            None => &["tracker", "issues"], // the older place
        };
        let (path, list) = (workflow.to_owned(), line.map(ListAt::Key));
        Ok(Self { path, text, yaml, keys, list, _locked: None })
    }

    /// The text with one more issue. What cannot be added without a change elsewhere is refused.
    fn with(&self, record: &Mapping, mut root: Value) -> anyhow::Result<String> {
        let added = self.list.and_then(|list| append(&self.text, list, record));
        let issues = issues_of(&mut root, self.keys)?;
        issues.push(Value::Mapping(record.clone()));
        let is_meant = |text: &String| {
            let more = text.len() - self.text.len();
            let yaml = self.yaml.start..self.yaml.end + more;
            let read = text.get(yaml).and_then(|yaml| serde_yaml::from_str::<Value>(yaml).ok());
            read.as_ref() == Some(&root)
        };
        if let Some(text) = added.filter(|text| text.len() >= self.text.len()).filter(is_meant) {
            return Ok(text);
        }
        eprintln!("{}\n", report::for_a_screen(&serde_yaml::to_string(&[record])?));
        bail!(
            "the list of issues in {} is not written as one item below the other, so nothing was \
             changed; add the lines above to it by hand",
            plain(&self.path.display().to_string(), MAX_NAME_BYTES)
        );
    }

    /// Writes beside the file and renames over it: a reader sees the old or the new.
    fn replace(&self, text: &str) -> anyhow::Result<()> {
        let cannot = || format!("{} cannot be written", self.path.display());
        // A link stays a link: what it leads to is replaced.
        let target = self.path.canonicalize().with_context(cannot)?;
        let old = fs::metadata(&target).with_context(cannot)?;
        let folder = target.parent().unwrap_or(Path::new("/"));
        let mut file = tempfile::NamedTempFile::new_in(folder).with_context(cannot)?;
        file.write_all(text.as_bytes()).with_context(cannot)?;
        // Root may add an issue to the file of a service's user.
        let _ = fchown(file.as_file(), Some(old.uid()), Some(old.gid()));
        file.as_file().set_permissions(old.permissions()).with_context(cannot)?;
        file.as_file().sync_all().with_context(cannot)?;
        if read(&self.path)? != self.text {
            bail!("{} was changed a moment ago; try again", self.path.display());
        }
        file.persist(&target).with_context(cannot)?;
        Ok(())
    }
}

fn lock(path: &Path) -> anyhow::Result<BoardLock> {
    lock_board(path).with_context(|| format!("{} cannot be changed", path.display()))
}

fn read(path: &Path) -> anyhow::Result<String> {
    fs::read_to_string(path).with_context(|| format!("{} cannot be read", path.display()))
}

/// The bytes between the two fences.
fn front_matter(text: &str) -> Option<std::ops::Range<usize>> {
    let mut at = 0;
    let mut start = None;
    for line in text.split_inclusive('\n') {
        let is_fence = line.trim_end() == "---" || line.trim_end() == "\u{feff}---";
        match start {
            None if is_fence => start = Some(at + line.len()),
            None => return None,
            Some(start) if is_fence => return Some(start..at),
            Some(_) => {}
        }
        at += line.len();
    }
    None
}

/// The list that keys lead to. What is null becomes a list.
fn issues_of<'v>(root: &'v mut Value, keys: &[&str]) -> anyhow::Result<&'v mut Vec<Value>> {
    let mut at = root;
    for key in keys {
        let map = at.as_mapping_mut().context("the board is not a map")?;
        at = map.entry(Value::from(*key)).or_insert(Value::Null);
    }
    if at.is_null() {
        *at = Value::Sequence(Vec::new());
    }
    at.as_sequence_mut().context("the issues of the board are not a list")
}

/// The record as it is written down.
fn record(args: &IssueAddArgs, settings: &Settings, issues: &[Value]) -> anyhow::Result<Mapping> {
    let one_line = |what: &str, text: &str| {
        let text = text.trim().to_owned();
        match text.is_empty() || text.chars().any(char::is_control) {
            true => Err(anyhow!("{what} must be some text on one line")),
            false => Ok(text),
        }
    };
    let (known, ids) = (values(issues, "identifier"), values(issues, "id"));
    let identifier = match &args.identifier {
        Some(given) => one_line("--identifier", given)?,
        None => next_identifier(&known, &ids),
    };
    // It is the new issue's id too, of which no board has two.
    if known.iter().chain(&ids).any(|known| known.eq_ignore_ascii_case(&identifier)) {
        bail!("{} is on the board already; choose another", plain(&identifier, MAX_NAME_BYTES));
    }
    let blocker = |name: &String| {
        let known = known.iter().find(|known| known.eq_ignore_ascii_case(name));
        let missing =
            || anyhow!("--blocked-by: {} is not on the board", plain(name, MAX_NAME_BYTES));
        known.cloned().ok_or_else(missing)
    };
    let blockers: Result<Vec<String>, _> = args.blocked_by.iter().map(blocker).collect();
    let state = match &args.state {
        Some(state) => one_line("--state", state)?,
        None => match settings.tracker.active_states.names().first() {
            Some(state) => state.as_str().to_owned(),
            None => bail!("tracker.active_states names none; choose one with --state"),
        },
    };
    let labels: Result<Vec<String>, _> =
        args.label.iter().map(|label| one_line("--label", label)).collect();
    let mut record = Mapping::new();
    record.insert("identifier".into(), identifier.into());
    record.insert("title".into(), one_line("the title", &args.title)?.into());
    record.insert("state".into(), state.into());
    if let Some(priority) = args.priority {
        record.insert("priority".into(), priority.into());
    }
    for (key, names) in [("labels", labels?), ("blocked_by", blockers?)] {
        if !names.is_empty() {
            record.insert(key.into(), names.into());
        }
    }
    if let Some(description) = description(args)? {
        record.insert("description".into(), description.into());
    }
    Ok(record)
}

fn description(args: &IssueAddArgs) -> anyhow::Result<Option<String>> {
    let text = match args.description.as_deref() {
        Some("-") => {
            let mut text = String::new();
            let read = std::io::stdin().take(MAX_DESCRIPTION_BYTES + 1).read_to_string(&mut text);
            read.context("standard input cannot be read as text")?;
            text
        }
        Some(text) => text.to_owned(),
        None => return Ok(None),
    };
    if u64::try_from(text.len()).unwrap_or(u64::MAX) > MAX_DESCRIPTION_BYTES {
        bail!("the description is longer than {MAX_DESCRIPTION_BYTES} bytes; shorten it");
    }
    Ok(Some(text.trim_end().to_owned()).filter(|text| !text.is_empty()))
}

/// What the issues have below a key, where that is a text or a number.
fn values(issues: &[Value], key: &str) -> Vec<String> {
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    issues.iter().filter_map(|issue| text(issue.get(key)?)).collect()
}

/// The number after the highest one, also of an id, called as the last issue is.
fn next_identifier(known: &[String], ids: &[String]) -> String {
    let numbered = |name: &str| {
        let prefix = name.trim_end_matches(|c: char| c.is_ascii_digit()).to_owned();
        let number: u64 = name[prefix.len()..].parse().ok()?;
        Some((prefix, number))
    };
    let Some((prefix, _)) = known.iter().rev().find_map(|name| numbered(name)) else {
        return FIRST_IDENTIFIER.to_owned();
    };
    let all = known.iter().chain(ids);
    let same = all.filter_map(|name| numbered(name)).filter(|(it, _)| *it == prefix);
    let highest = same.map(|(_, number)| number).max().unwrap_or_default();
    format!("{prefix}{}", highest.saturating_add(1))
}

/// Says what was added, and where no agent will start on it, that.
fn tell(
    args: &IssueAddArgs,
    settings: &Settings,
    record: &Mapping,
    path: &Path,
) -> anyhow::Result<ExitCode> {
    if args.json {
        report::write_json(record)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut out = stdout().lock();
    let text = |key: &str| plain(record[key].as_str().unwrap_or_default(), MAX_NAME_BYTES);
    let (name, state) = (text("identifier"), text("state"));
    let path = plain(&path.display().to_string(), MAX_NAME_BYTES);
    writeln!(out, "{name}: {} (in `{state}`), added to {path}", text("title"))?;
    if !settings.tracker.active_states.contains(&state.as_str().into()) {
        writeln!(out, "`{state}` is not one of tracker.active_states: no agent starts on it")?;
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_14_10_an_issue_gets_the_next_number() {
        for (known, ids, wanted) in [
            (&[][..], &[][..], "MT-1"),
            (&["MT-1", "MT-9", "MT-2"], &[], "MT-10"),
            (&["A-7", "B-2"], &["A-9", "B-4"], "B-5"),
            (&["A-7", "door"], &[], "A-8"),
            (&["door"], &[], "MT-1"),
            (&["7"], &[], "8"),
        ] {
            let owned = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
            assert_eq!(next_identifier(&owned(known), &owned(ids)), wanted, "{known:?}");
        }
    }

    #[test]
    fn rule_14_10_front_matter_stands_between_two_fences() {
        let found = |text: &str| front_matter(text).map(|at| text[at].to_owned());
        assert_eq!(found("---\na: 1\n---\nHi\n---\n").as_deref(), Some("a: 1\n"));
        assert_eq!(found("\u{feff}---\r\na: 1\r\n---\r\n").as_deref(), Some("a: 1\r\n"));
        assert_eq!(found("Hi\n---\na\n---\n"), None);
        assert_eq!(found("---\na: 1\n"), None);
    }
}
