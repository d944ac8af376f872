//! A board file: read when it changes, written when an agent changes its issue.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use symphony_core::tracker::{Tracker, TrackerErrorKind, TrackerExt};
use symphony_core::{Blocker, Issue, Label, StateKind, StateSet};
use symphony_memory::{Comment, MemoryTracker};
use tempfile::TempDir;

use super::reads::poll;
use super::tool::{call, code};
use super::{at, clock, identifiers, ids};

/// A folder with a board file in it.
struct Fixture {
    folder: TempDir,
}

impl Fixture {
    fn with(text: &str) -> Self {
        let fixture = Self { folder: TempDir::new().unwrap() };
        fixture.write(text);
        fixture
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("board.yaml")
    }

    fn write(&self, text: &str) {
        fs::write(self.path(), text).unwrap();
    }

    fn text(&self) -> String {
        fs::read_to_string(self.path()).unwrap()
    }

    fn open(&self) -> MemoryTracker {
        MemoryTracker::open(self.path(), clock()).unwrap()
    }
}

async fn in_state(board: &MemoryTracker, state: &str) -> Vec<String> {
    let found = board.fetch_issues_by_states(&StateSet::new([state])).await.unwrap();
    identifiers(&found).into_iter().map(str::to_owned).collect()
}

async fn failure(board: &MemoryTracker) -> (TrackerErrorKind, String) {
    let error = board.fetch_issues_by_ids(&ids(&["MT-1"])).await.unwrap_err();
    (error.kind, error.message)
}

const TWO: &str = "\
# The team's board
states: [Todo, {name: Review, kind: started}, {name: Done, kind: completed}]
issues:
  # First the door.
  - identifier: MT-1   # squeaks
    title: Fix the door
    state: Todo
    labels: [Bug]

  # Then the window.
  - identifier: MT-2
    title: Paint the window
    state: Todo
    blocked_by: [MT-1]
    estimate: 3
";

#[tokio::test]
async fn rule_11_5_a_board_file_says_everything_about_an_issue() {
    let fixture = Fixture::with(
        r#"
issues:
  - id: abc
    identifier: MT-7
    title: Fix the door
    state: In Progress
    state_kind: started
    description: |
      It squeaks.
    priority: "2"
    labels: [Bug, " bug ", UI, ""]
    blocked_by: [MT-8]
    url: https://example.com/7
    branch_name: fix-door
    assignee_id: ada
    native_ref: {page: 3}
    dispatchable: false
    created_at: 2026-02-01T10:00:00+01:00
    updated_at: 2026-02-02T09:00:00Z
    colour: green
  - identifier: 8
    title: 2026
    state: Todo
    description: null
"#,
    );
    let mut full = Issue::new("abc", "MT-7", "Fix the door", "In Progress").unwrap();
    full.state_kind = Some(StateKind::Started);
    full.description = Some("It squeaks.\n".to_owned());
    full.priority = Some(2);
    full.labels = Label::list(["bug", "ui"]);
    full.blocked_by = vec![Blocker { identifier: Some("MT-8".into()), ..Blocker::default() }];
    full.url = Some("https://example.com/7".to_owned());
    full.branch_name = Some("fix-door".to_owned());
    full.assignee_id = Some("ada".to_owned());
    full.native_ref = json!({ "page": 3 }).as_object().cloned();
    full.dispatchable = false;
    full.kept_back_by = Some("dispatchable is false on the board".to_owned());
    full.created_at = symphony_core::time::Wall::parse("2026-02-01T09:00:00Z");
    full.updated_at = symphony_core::time::Wall::parse("2026-02-02T09:00:00Z");
    let mut sparse = Issue::new("8", "8", "2026", "Todo").unwrap();
    sparse.updated_at = Some(at(0));
    assert_eq!(fixture.open().issues(), [sparse, full]);
}

#[tokio::test]
async fn rule_11_5_a_board_file_is_read_again_when_it_changes() {
    let fixture = Fixture::with(TWO);
    let board = fixture.open();
    assert_eq!(in_state(&board, "todo").await, ["MT-1", "MT-2"]);
    let untouched = board.issue("MT-2");
    // The same length, within the same instant: only the content tells.
    fixture.write(&TWO.replacen("state: Todo", "state: Done", 1));
    assert_eq!(in_state(&board, "todo").await, ["MT-2"]);
    let moved = board.issue("MT-1").unwrap();
    assert_eq!((moved.state_kind, moved.updated_at), (Some(StateKind::Completed), Some(at(1))));
    assert_eq!(board.issue("MT-2").unwrap().updated_at, untouched.unwrap().updated_at);
    fixture.write("- {identifier: MT-3, title: New, state: Todo}");
    assert_eq!(in_state(&board, "todo").await, ["MT-3"]);
    assert_eq!(identifiers(&board.issues()), ["MT-3"]);
    fixture.write("[]");
    assert_eq!(in_state(&board, "todo").await, [""; 0]);
}

#[tokio::test]
async fn rule_11_5_an_editor_that_replaces_the_file_is_followed() {
    let fixture = Fixture::with(TWO);
    let board = fixture.open();
    let beside = fixture.folder.path().join("board.yaml~");
    fs::write(&beside, TWO.replace("state: Todo", "state: Done")).unwrap();
    fs::rename(&beside, fixture.path()).unwrap();
    assert_eq!(in_state(&board, "done").await, ["MT-1", "MT-2"]);
}

#[tokio::test]
async fn rule_11_5_a_broken_edit_fails_reads_and_keeps_the_last_good_board() {
    let fixture = Fixture::with(TWO);
    let board = fixture.open();
    let path = fixture.path().display().to_string();
    fixture.write("issues:\n  - identifier: MT-1\n    title: [oops\n    state: Todo\n");
    for _ in 0..2 {
        let (kind, message) = failure(&board).await;
        assert_eq!(kind, TrackerErrorKind::Response);
        assert!(message.starts_with(&format!("{path}:")), "{message}");
    }
    let polled = board.poll(&poll(Some(&["Todo"]), &["MT-1"])).await;
    assert!(polled.candidates.unwrap().is_err());
    assert!(polled.by_id.is_err());
    assert_eq!(identifiers(&board.issues()), ["MT-1", "MT-2"]);
    fixture.write(TWO);
    assert_eq!(in_state(&board, "todo").await, ["MT-1", "MT-2"]);
}

#[tokio::test]
async fn rule_11_5_a_half_written_file_is_not_an_empty_board() {
    let fixture = Fixture::with(TWO);
    let board = fixture.open();
    for nothing in ["", "\n", "# The team's board\n", "---\n"] {
        fixture.write(nothing);
        let (kind, message) = failure(&board).await;
        assert_eq!(kind, TrackerErrorKind::Response, "{nothing:?}");
        assert!(message.contains("issues: []"), "it says what to write: {message}");
    }
    assert_eq!(identifiers(&board.issues()), ["MT-1", "MT-2"]);
    fixture.write("issues: []");
    assert_eq!(in_state(&board, "todo").await, [""; 0]);
}

#[tokio::test]
async fn rule_11_5_a_broken_board_is_told_by_file_and_line() {
    let fixture = Fixture::with(TWO);
    let board = fixture.open();
    let path = fixture.path().display().to_string();
    let list = "issues:\n- {identifier: A, title: a, state: Todo}\n\n# again\n- identifier: A\n";
    for (text, line, part) in [
        ("issues:\n  - identifier: A\n  title: B\n", ":3", ""),
        ("issues: []\nissues: []\n", ":1", "duplicate"),
        ("just words", ":1", "must be a map with `issues`, or a list of issues"),
        (list, ":5", "\"A\" stands twice, in issues[0] and issues[1]"),
        ("issues: 5", "", "issues must be a list, got 5"),
        ("states: Todo", "", "states must be a list of names or of {name, kind}, got \"Todo\""),
        ("states: [{name: Todo, kind: eager}]", "", "states must be a list"),
    ] {
        fixture.write(text);
        let (kind, message) = failure(&board).await;
        assert_eq!(kind, TrackerErrorKind::Response);
        assert!(message.starts_with(&format!("{path}{line}: ")), "{text}: {message}");
        assert!(message.contains(part), "{text}: {message}");
    }
    fs::write(fixture.path(), b"issues:\n- \xff").unwrap();
    assert_eq!(failure(&board).await.1, format!("{path}:2: is not UTF-8"));
}

#[tokio::test]
async fn rule_11_5_a_file_that_is_gone_is_a_failed_request() {
    let fixture = Fixture::with(TWO);
    let board = fixture.open();
    let gone =
        (TrackerErrorKind::Request, format!("cannot read the board {}", fixture.path().display()));
    fs::remove_file(fixture.path()).unwrap();
    assert_eq!(failure(&board).await, gone);
    fs::create_dir(fixture.path()).unwrap();
    assert_eq!(failure(&board).await, gone, "a folder is no board");
    fs::remove_dir(fixture.path()).unwrap();
    fixture.write(TWO);
    assert_eq!(in_state(&board, "todo").await, ["MT-1", "MT-2"]);
}

#[tokio::test]
async fn rule_1_3_a_record_that_cannot_be_read_spoils_no_other() {
    let fixture = Fixture::with(TWO);
    let board = fixture.open();
    fixture.write(
        "issues:
  - {identifier: MT-1, title: ' ', state: Todo}
  - {identifier: MT-2, title: Fine, state: Todo}
  - {identifier: MT-3, title: T, state: Todo, priority: high, created_at: yesterday}
  - {title: Nobody can ask for this, state: Todo}
  -
",
    );
    assert_eq!(in_state(&board, "todo").await, ["MT-2"]);
    let by_id = board.fetch_issues_by_ids(&ids(&["MT-1", "MT-2", "MT-3"])).await.unwrap();
    assert_eq!(identifiers(&by_id.found), ["MT-2"]);
    let why: Vec<_> = by_id.unreadable.iter().map(|one| (one.id.as_str(), &*one.message)).collect();
    let expected = [
        ("MT-1", "has no title"),
        (
            "MT-3",
            "priority must be an integer, got \"high\"; \
             created_at must be an RFC 3339 time, got \"yesterday\"",
        ),
    ];
    assert_eq!(why, expected);
    fixture.write(TWO);
    assert_eq!(in_state(&board, "todo").await, ["MT-1", "MT-2"]);
}

#[tokio::test]
async fn rule_11_5_what_an_agent_changes_is_written_back_and_nothing_else_is_touched() {
    let fixture = Fixture::with(TWO);
    fs::set_permissions(fixture.path(), fs::Permissions::from_mode(0o640)).unwrap();
    let board = fixture.open();
    let first = board.issue("MT-1").unwrap();
    let arguments =
        json!({ "state": "review", "labels": ["ui"], "comment": "Please look:\n- here" });
    assert!(call(&board, first, arguments).await.success);
    let expected = TWO.replace(
        "  - identifier: MT-1   # squeaks
    title: Fix the door
    state: Todo
    labels: [Bug]
",
        &format!(
            "  - identifier: MT-1
    title: Fix the door
    state: Review
    labels:
    - ui
    comments:
    - at: {}
      text: |-
        Please look:
        - here
    updated_at: {}
",
            at(0),
            at(1)
        ),
    );
    assert_eq!(fixture.text(), expected);
    assert_eq!(fs::metadata(fixture.path()).unwrap().permissions().mode() & 0o777, 0o640);
    assert_eq!(
        fs::read_dir(fixture.folder.path()).unwrap().count(),
        1,
        "nothing is left beside it"
    );

    // Another life finds the same.
    let again = fixture.open();
    assert_eq!(again.issue("MT-1"), board.issue("MT-1"));
    let said = Comment { at: at(0), text: "Please look:\n- here".to_owned() };
    assert_eq!(again.comments("MT-1"), [said]);
    assert_eq!(again.issue("MT-1").unwrap().state_kind, Some(StateKind::Started));

    // And the next change comes on top.
    let second = board.issue("MT-2").unwrap();
    assert!(call(&board, second, json!({ "state": "Done" })).await.success);
    assert!(fixture.text().starts_with("# The team's board\n"));
    assert!(fixture.text().contains("  # Then the window.\n  - identifier: MT-2\n"));
    assert!(fixture.text().contains("    estimate: 3\n"), "what we do not know is kept");
    assert_eq!(in_state(&board, "done").await, ["MT-2"]);
}

#[tokio::test]
async fn rule_11_5_a_persons_edit_and_an_agents_change_both_stand() {
    let fixture = Fixture::with(TWO);
    let board = fixture.open();
    let first = board.issue("MT-1").unwrap();
    fixture.write(&TWO.replace("Paint the window", "Clean the window"));
    assert!(call(&board, first, json!({ "state": "Done" })).await.success);
    assert!(fixture.text().contains("title: Clean the window"));
    assert_eq!(in_state(&board, "done").await, ["MT-1"]);
    assert_eq!(board.issue("MT-2").unwrap().title, "Clean the window");
}

#[tokio::test]
async fn rule_11_5_a_broken_board_is_not_written_over() {
    let fixture = Fixture::with(TWO);
    let board = fixture.open();
    let first = board.issue("MT-1").unwrap();
    fixture.write("issues: [");
    let result = call(&board, first, json!({ "state": "Done" })).await;
    assert_eq!((result.success, code(&result)), (false, "tracker_response".to_owned()));
    assert_eq!(fixture.text(), "issues: [");
    assert_eq!(board.issue("MT-1").unwrap().state, "todo".into());
}

#[tokio::test]
async fn rule_11_5_what_cannot_be_written_does_not_happen() {
    let fixture = Fixture::with(TWO);
    let board = fixture.open();
    let first = board.issue("MT-1").unwrap();
    // Something that cannot be removed stands where the new text goes.
    let beside = fixture.folder.path().join(format!(".board.yaml.{}.new", std::process::id()));
    fs::create_dir(&beside).unwrap();
    let result = call(&board, first.clone(), json!({ "state": "Done" })).await;
    assert_eq!((result.success, code(&result)), (false, "tracker_request".to_owned()));
    assert_eq!(board.issue("MT-1"), Some(first.clone()));
    assert_eq!(fixture.text(), TWO);
    fs::remove_dir(&beside).unwrap();
    assert!(call(&board, first, json!({ "state": "Done" })).await.success);
}

#[tokio::test]
async fn rule_11_5_a_board_with_the_longest_name_there_is_can_be_written() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("b".repeat(255));
    fs::write(&path, TWO).unwrap();
    let board = MemoryTracker::open(&path, clock()).unwrap();
    let issue = board.issue("MT-1").unwrap();
    let result = call(&board, issue, json!({ "state": "Done" })).await;
    assert!(result.success, "{result:?}");
    assert!(fs::read_to_string(&path).unwrap().contains("state: Done"));
}

#[tokio::test]
async fn rule_11_5_a_linked_board_stays_a_link() {
    let fixture = Fixture::with(TWO);
    let link = fixture.folder.path().join("link.yaml");
    symlink(fixture.path(), &link).unwrap();
    let board = MemoryTracker::open(&link, clock()).unwrap();
    let first = board.issue("MT-1").unwrap();
    assert!(call(&board, first, json!({ "state": "Done" })).await.success);
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(fixture.text().contains("state: Done"));
}

#[tokio::test]
async fn rule_11_5_without_write_back_changes_stay_until_the_record_is_edited() {
    let fixture = Fixture::with(TWO);
    let board = fixture.open();
    board.set_write_back(false);
    for id in ["MT-1", "MT-2"] {
        let issue = board.issue(id).unwrap();
        assert!(call(&board, issue, json!({ "state": "Done" })).await.success);
    }
    assert_eq!(fixture.text(), TWO);
    assert_eq!(in_state(&board, "done").await, ["MT-1", "MT-2"]);
    fixture.write(&TWO.replace("Paint the window", "Clean the window"));
    assert_eq!(in_state(&board, "done").await, ["MT-1"], "what was edited is as written");
    assert_eq!(in_state(&board, "todo").await, ["MT-2"]);
}

#[tokio::test]
async fn rule_11_5_agents_that_change_their_issues_at_once_all_get_their_way() {
    let record = |n| format!("- {{identifier: MT-{n}, title: Issue {n}, state: Todo}}\n");
    let fixture = Fixture::with(&(0..20).map(record).collect::<String>());
    let board = fixture.open();
    let calls: Vec<_> = board
        .issues()
        .into_iter()
        .map(|issue| {
            let board = board.clone();
            tokio::spawn(async move { call(&board, issue, json!({ "state": "Done" })).await })
        })
        .collect();
    for call in calls {
        assert!(call.await.unwrap().success);
    }
    assert_eq!(in_state(&board, "done").await.len(), 20);
    assert_eq!(in_state(&fixture.open(), "done").await.len(), 20);
}

#[tokio::test]
async fn rule_11_5_a_call_that_changes_nothing_writes_nothing() {
    let fixture = Fixture::with(TWO);
    let board = fixture.open();
    let first = board.issue("MT-1").unwrap();
    let same = json!({ "state": "Todo", "labels": ["bug"] });
    assert!(call(&board, first.clone(), same).await.success);
    assert_eq!(fixture.text(), TWO);
    assert_eq!(board.issue("MT-1"), Some(first));
}

#[tokio::test]
async fn rule_11_5_a_kind_declared_later_holds_for_every_issue() {
    let fixture = Fixture::with("- {identifier: MT-1, title: Door, state: Done}");
    let board = fixture.open();
    assert_eq!(board.issue("MT-1").unwrap().state_kind, None);
    fixture.write(
        "states: [{name: done, kind: completed}]
issues:
  - {identifier: MT-1, title: Door, state: Done}
  - {identifier: MT-2, title: Gate, state: Todo, blocked_by: MT-1}
",
    );
    assert_eq!(in_state(&board, "done").await, ["MT-1"]);
    assert_eq!(board.issue("MT-1").unwrap().state_kind, Some(StateKind::Completed));
    let blockers = board.issue("MT-2").unwrap().blocked_by;
    assert_eq!(blockers[0].state_kind, Some(StateKind::Completed));
}

#[test]
fn rule_1_3_a_record_that_cannot_be_read_is_one_log_line() {
    let fixture = Fixture::with(
        "- {identifier: MT-1, state: Todo}\n- 5\n- {identifier: B, title: b, state: c}",
    );
    let lines = Arc::new(AtomicUsize::new(0));
    let count = Count(Arc::clone(&lines));
    let board = tracing::subscriber::with_default(count, || fixture.open());
    assert_eq!(lines.load(Ordering::Relaxed), 2);
    assert_eq!(identifiers(&board.issues()), ["B"]);
}

/// Counts warnings.
struct Count(Arc<AtomicUsize>);

impl tracing::Subscriber for Count {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        *metadata.level() == tracing::Level::WARN
    }

    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }

    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}

    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}

    fn event(&self, _: &tracing::Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn enter(&self, _: &tracing::span::Id) {}

    fn exit(&self, _: &tracing::span::Id) {}
}

#[tokio::test]
async fn rule_11_5_changes_in_rust_stay_in_the_process() {
    let fixture = Fixture::with(TWO);
    let board = fixture.open();
    board.add(super::issue(9, "Todo"));
    board.set_state("MT-1", "Done");
    assert_eq!(in_state(&board, "done").await, ["MT-1"]);
    let ninth = board.issue("9").unwrap();
    assert!(call(&board, ninth, json!({ "state": "Done" })).await.success, "not in the file");
    assert_eq!(fixture.text(), TWO);
    fixture.write(&TWO.replace("Paint the window", "Clean the window"));
    assert_eq!(
        in_state(&board, "done").await,
        ["9".to_owned(), "MT-1".to_owned()]
            .map(|id| { board.issue(&id).unwrap().identifier.to_string() })
    );
}

#[tokio::test]
async fn rule_11_5_a_board_in_another_shape_is_written_all_the_same() {
    for text in [
        "issues: [{identifier: MT-1, title: Door, state: Todo}, {identifier: X, title: Y, state: Z}]",
        "- &door\n  identifier: MT-1\n  title: Door\n  state: Todo\n- {<<: *door, identifier: X}\n",
        "---\r\nissues:\r\n- identifier: MT-1\r\n  title: Door\r\n  state: Todo\r\n- identifier: X\r\n  title: Y\r\n  state: Z\r\n",
        "issues:\n- identifier: MT-1\n  title: \"Door\n\n    and gate\"\n  state: Todo\n- {identifier: X, title: Y, state: Z}",
        "{\"issues\": [{\"identifier\": \"MT-1\", \"title\": \"Door\", \"state\": \"Todo\"}]}",
        "issues:\n-\n  identifier: MT-1\n  title: Door\n  state: Todo\n-\n  identifier: X\n  title: Y\n  state: Z\nstates: [Done]\n",
    ] {
        let fixture = Fixture::with(text);
        let board = fixture.open();
        let before = board.issues();
        let result = call(&board, before[0].clone(), json!({ "state": "Done" })).await;
        assert!(result.success, "{text}: {}", result.text);
        let mut expected = before;
        expected[0].state = "Done".into();
        expected[0].updated_at = Some(at(1));
        assert_eq!(board.issues(), expected, "{text}");
        assert_eq!(fixture.open().issues(), expected, "{text}\nbecame\n{}", fixture.text());
        assert_eq!(text.contains("\r\n"), fixture.text().contains("\r\n"), "line ends stay");
    }
}
