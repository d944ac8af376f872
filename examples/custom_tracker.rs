//! A tracker of your own: a text file, one issue a line.
//!
//!     cargo run --example custom_tracker      a service that works through the file
//!     cargo test --example custom_tracker     the conformance kit: does it keep the contract?
//!
//! An adapter has three parts: [`ReadIssues`], of which [`TwoReads`] makes a tracker, [`AgentTools`]
//! that agents change things with, and a [`TrackerFactory`] that makes both from a workflow file. To
//! write one for another tracker, copy this file, put your requests where it reads and writes the
//! text, and let the kit at the end say what is missing. Contract sections 1 and 11 have the rules.
//! A tracker that can answer for a list and for single issues in one request implements `Tracker`.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use serde_json::json;
use symphony::core::issue::MalformedIssue;
use symphony::core::orchestrator::NoticeKind;
use symphony::core::tracker::{
    AgentTools, BuiltTracker, IssuesById, ReadIssues, ToolCall, ToolResult, ToolSpec,
    TrackerContext, TrackerError, TrackerErrorKind, TrackerFactory, TrackerProfile, TwoReads,
    Unreadable,
};
use symphony::core::{Issue, IssueId, Label, Scope, StateName, StateSet};
use symphony::memory::{AgentScript, ScriptedAgent, ScriptedFactory};
use symphony::{NoticeItem, Service, ServiceEnd};

const WORKFLOW: &str = "---
tracker:
  kind: todo
  provider:
    file: todo.txt
polling:
  interval_ms: 200
workspace:
  root: ./workspaces
agent:
  kind: scripted
---
Please do this: {{ issue.title }}.
";

const TODO: &str = "\
# identifier | state | title | labels
MT-1 | Todo | Fix the door | wood
MT-2 | Todo | Paint it | wood, paint
MT-3 | Someday | Sell the house
";

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    symphony::host::init(); // agents and hooks end with this program, however it ends
    let folder = tempfile::tempdir()?;
    std::fs::write(folder.path().join("WORKFLOW.md"), WORKFLOW)?;
    std::fs::write(folder.path().join("todo.txt"), TODO)?;

    let agent = ScriptedAgent::new(AgentScript::new().say("on it").set_state("Done"));
    let service = Service::builder()
        .workflow(folder.path().join("WORKFLOW.md"))
        .tracker(TodoFactory::default())
        .agent(ScriptedFactory::new(agent))
        .build()
        .await?;
    let handle = service.handle();
    let mut notices = handle.subscribe()?;
    let running = tokio::spawn(service.run());

    let mut done = 0;
    while let Some(item) = notices.next().await {
        // A program that reads too slowly is told how many notices it missed.
        let NoticeItem::Notice(notice) = item else { continue };
        if matches!(notice.what, NoticeKind::Cleaned) {
            done += 1;
            if done == 2 {
                handle.shut_down()?;
            }
        }
    }
    assert_eq!(running.await?, ServiceEnd::Drained);
    print!("{}", std::fs::read_to_string(folder.path().join("todo.txt"))?);
    Ok(())
}

/// The file. With another tracker this is the client: it makes requests, and nothing else does.
#[derive(Debug)]
struct TodoFile {
    path: PathBuf,
    /// Held while the file is changed: two agents at once must not undo each other's work.
    writing: Mutex<()>,
    reads: AtomicU64,
}

impl TodoFile {
    fn new(path: PathBuf) -> Self {
        Self { path, writing: Mutex::default(), reads: AtomicU64::new(0) }
    }

    /// One request. The category of an error tells the scheduler what to make of it (11.2).
    fn text(&self) -> Result<String, TrackerError> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        let bytes = std::fs::read(&self.path).map_err(|error| {
            let message = format!("cannot read {}", self.path.display());
            TrackerError::new(TrackerErrorKind::Request, message).with_source(error)
        })?;
        String::from_utf8(bytes).map_err(|error| {
            let message = format!("{} is not text", self.path.display());
            TrackerError::new(TrackerErrorKind::Response, message).with_source(error)
        })
    }

    /// Moves an issue, and replaces the file atomically: a reader never sees half of it.
    fn move_to(&self, identifier: &str, state: &StateName) -> Result<(), TrackerError> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut text = String::new();
        for line in self.text()?.lines() {
            let mut fields: Vec<&str> = line.split('|').collect();
            if fields.len() > 1 && fields[0].trim() == identifier {
                fields[1] = state.as_str();
                text += &fields.into_iter().map(str::trim).collect::<Vec<_>>().join(" | ");
            } else {
                text += line;
            }
            text += "\n";
        }
        let new = self.path.with_extension("new");
        let written = std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, &self.path));
        written.map_err(|error| {
            let message = format!("cannot write {}", self.path.display());
            TrackerError::new(TrackerErrorKind::Request, message).with_source(error)
        })
    }
}

/// The issue on a line. One without an identifier, a title or a state is none (1.3).
fn issue(line: &str) -> Result<Issue, MalformedIssue> {
    let mut fields = line.split('|').map(str::trim);
    let mut next = || fields.next().unwrap_or_default();
    let (identifier, state, title, labels) = (next(), next(), next(), next());
    // A real tracker has a stable id besides what people call the issue. Here they are the same.
    let mut issue = Issue::new(identifier, identifier, title, state)?;
    issue.labels = Label::list(labels.split(','));
    Ok(issue)
}

fn issues(text: &str) -> impl Iterator<Item = Result<Issue, MalformedIssue>> {
    let lines = text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    lines.map(issue)
}

/// The adapter.
#[derive(Clone, Debug)]
struct TodoTracker {
    file: Arc<TodoFile>,
    /// The states that an agent may move its issue to.
    states: Vec<StateName>,
}

impl TodoTracker {
    /// Reads where it may block. A call that is dropped meanwhile harms nothing.
    async fn read(&self) -> Result<String, TrackerError> {
        let file = Arc::clone(&self.file);
        tokio::task::spawn_blocking(move || file.text()).await.unwrap_or_else(|error| {
            Err(TrackerError::new(TrackerErrorKind::Request, "the read ended").with_source(error))
        })
    }
}

#[async_trait]
impl ReadIssues for TodoTracker {
    async fn by_states(&self, states: &StateSet) -> Result<Vec<Issue>, TrackerError> {
        let text = self.read().await?;
        let mut found = Vec::new();
        for issue in issues(&text) {
            match issue {
                Ok(issue) if states.contains(&issue.state) => found.push(issue),
                Ok(_) => {}
                // The others are worked on all the same.
                Err(error) => tracing::warn!(missing = ?error.missing, "a line is not an issue"),
            }
        }
        Ok(found)
    }

    async fn by_ids(&self, ids: &[IssueId]) -> Result<IssuesById, TrackerError> {
        let mut answer = IssuesById::default();
        for issue in issues(&self.read().await?) {
            match issue {
                Ok(issue) if ids.contains(&issue.id) => answer.found.push(issue),
                // Left out would mean gone, and end its run. This means "not known now".
                Err(error) if ids.contains(&error.id) => {
                    let message = error.to_string();
                    answer.unreadable.push(Unreadable { id: error.id, message });
                }
                Ok(_) | Err(_) => {}
            }
        }
        Ok(answer)
    }

    fn tools(&self) -> Option<Arc<dyn AgentTools>> {
        Some(Arc::new(self.clone()))
    }
}

/// What agents may do. It runs in the service: an agent needs no access of its own.
#[async_trait]
impl AgentTools for TodoTracker {
    fn specs(&self) -> Vec<ToolSpec> {
        let states: Vec<&str> = self.states.iter().map(StateName::as_str).collect();
        let schema = json!({
            "type": "object",
            "properties": { "state": { "type": "string", "enum": states } },
            "required": ["state"],
        });
        let description = "Moves the issue you work on to another state.";
        vec![ToolSpec::new("update_issue", description, schema)]
    }

    async fn call(&self, call: ToolCall) -> ToolResult {
        let failure = |text: String| ToolResult::failure(text);
        if call.name != "update_issue" {
            return failure("there is only the tool update_issue".to_owned());
        }
        // What an agent sends is a stranger's text: only a state that we know gets into the file.
        let wanted = call.arguments.get("state").and_then(|state| state.as_str());
        let wanted = StateName::from(wanted.unwrap_or_default());
        let Some(state) = self.states.iter().find(|state| **state == wanted).cloned() else {
            return failure(format!("state must be one of {:?}", self.states));
        };
        let (file, identifier) = (Arc::clone(&self.file), call.issue.identifier.clone());
        let moved = move || file.move_to(identifier.as_str(), &state);
        match tokio::task::spawn_blocking(moved).await {
            Ok(Ok(())) => ToolResult::success("moved").with_change(true),
            Ok(Err(error)) => failure(error.to_string()),
            Err(error) => failure(error.to_string()),
        }
    }
}

/// Makes trackers for workflow files that say `tracker.kind: todo`.
#[derive(Debug)]
struct TodoFactory {
    profile: TrackerProfile,
}

impl Default for TodoFactory {
    fn default() -> Self {
        let (active, terminal) = (StateSet::new(["Todo", "Doing"]), StateSet::new(["Done"]));
        let mut profile = TrackerProfile::new(active, terminal);
        profile.provider_keys = vec!["file"]; // `symphony check` warns of others
        Self { profile }
    }
}

impl TrackerFactory for TodoFactory {
    fn kind(&self) -> &str {
        "todo"
    }

    fn profile(&self) -> &TrackerProfile {
        &self.profile
    }

    fn build(&self, cx: &TrackerContext<'_>) -> Result<BuiltTracker, TrackerError> {
        let file = cx.tracker.provider.raw().get("file").and_then(|file| file.as_str());
        let Some(file) = file.filter(|file| !file.trim().is_empty()) else {
            let message = "tracker.provider.file: must be the path of a text file";
            return Err(TrackerError::new(TrackerErrorKind::InvalidConfig, message));
        };
        // A relative path leads from the workflow file, wherever the service was started.
        let path = cx.folder.unwrap_or(Path::new(".")).join(file);
        let states = [&cx.tracker.active_states, &cx.tracker.terminal_states];
        let states = states.into_iter().flat_map(|states| states.names().iter().cloned()).collect();
        let scope = Scope::from(format!("todo:{}", path.display())); // whose workspaces these are
        let tracker = TodoTracker { file: Arc::new(TodoFile::new(path)), states };
        // With a token in `$TODO_TOKEN`, `with_secret_names` would hide it from agents and hooks.
        Ok(BuiltTracker::new(Arc::new(TwoReads(tracker)), scope))
    }
}

/// The kit: one test per rule. The fixture makes the world that a test needs, and says what cannot
/// be made. With a tracker on the network this is a fake server, or an account for tests.
#[cfg(test)]
mod tests {
    use std::future::Future;

    use symphony::core::conformance::tracker::{Fault, Seed};
    use symphony::core::conformance::{Able, TrackerFixture, Unable};
    use symphony::core::tracker::Tracker;

    use super::*;

    struct Board {
        folder: tempfile::TempDir,
        tracker: TodoTracker,
        runtime: tokio::runtime::Runtime,
    }

    impl Board {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let file = Arc::new(TodoFile::new(folder.path().join("todo.txt")));
            std::fs::write(&file.path, "").unwrap();
            let states = ["Todo", "Doing", "Done"].map(StateName::from).to_vec();
            let runtime = tokio::runtime::Runtime::new().unwrap();
            Self { folder, tracker: TodoTracker { file, states }, runtime }
        }

        /// Changes the line of an issue.
        fn edit(&self, id: &IssueId, change: impl Fn(&mut Vec<String>)) {
            let path = &self.tracker.file.path;
            let text = std::fs::read_to_string(path).unwrap();
            let edited = text.lines().map(|line| {
                let mut fields: Vec<String> = line.split(" | ").map(str::to_owned).collect();
                if fields[0] == id.as_str() {
                    change(&mut fields);
                }
                fields.join(" | ") + "\n"
            });
            std::fs::write(path, edited.collect::<String>()).unwrap();
        }
    }

    impl TrackerFixture for Board {
        fn block_on<F: Future>(&self, future: F) -> F::Output {
            self.runtime.block_on(future)
        }

        fn tracker(&self) -> Arc<dyn Tracker> {
            Arc::new(TwoReads(self.tracker.clone()))
        }

        fn states(&self) -> [StateName; 2] {
            ["Todo", "Done"].map(StateName::from)
        }

        fn put(&self, seed: Seed) -> Able<IssueId> {
            if seed.priority.is_some() || seed.created_at.is_some() {
                return Err(Unable("the file has neither priorities nor dates"));
            }
            if !seed.blocked_by.is_empty() || !seed.dispatchable {
                return Err(Unable("the file has neither blockers nor assignees"));
            }
            let path = &self.tracker.file.path;
            let text = std::fs::read_to_string(path).unwrap();
            let id = format!("MT-{}", text.lines().count());
            let (state, title, labels) = (&seed.state, &seed.title, seed.labels.join(","));
            std::fs::write(path, format!("{text}{id} | {state} | {title} | {labels}\n")).unwrap();
            Ok(id.into())
        }

        fn move_to(&self, id: &IssueId, state: &StateName) {
            self.edit(id, |fields| fields[1] = state.to_string());
        }

        fn remove(&self, id: &IssueId) {
            self.edit(id, |fields| *fields = vec!["# gone".to_owned()]);
        }

        fn requests(&self) -> u64 {
            self.tracker.file.reads.load(Ordering::Relaxed)
        }

        fn put_outside(&self, _: Seed) -> Able<IssueId> {
            Err(Unable("all of the file is in scope"))
        }

        fn spoil(&self, id: &IssueId) -> Able {
            self.edit(id, |fields| fields[2].clear());
            Ok(())
        }

        fn fail(&self, fault: Option<Fault>) -> Able {
            let (path, kept) = (&self.tracker.file.path, self.folder.path().join("kept"));
            match fault {
                None => std::fs::rename(kept, path).unwrap(),
                Some(Fault::Unreachable) => std::fs::rename(path, kept).unwrap(),
                Some(Fault::Nonsense) => {
                    std::fs::rename(path, kept).unwrap();
                    std::fs::write(path, b"\xff\xfe").unwrap();
                }
                Some(_) => return Err(Unable("a file has no status, no limits and no pages")),
            }
            Ok(())
        }

        fn page_size(&self) -> Able<usize> {
            Err(Unable("the file is read in one piece"))
        }

        fn move_call(&self, issue: &Arc<Issue>, state: &StateName) -> Able<ToolCall> {
            let (name, issue) = ("update_issue".to_owned(), Arc::clone(issue));
            Ok(ToolCall { name, arguments: json!({ "state": state }), issue })
        }
    }

    symphony::core::tracker_conformance!(Board::new(), skip: {
        rule_1_1_priority_and_creation_time_come_back: "the file has neither priorities nor dates",
        rule_1_1_blockers_are_named: "the file has no blockers",
        rule_1_1_a_blockers_state_comes_back_also_after_it_moved: "the file has no blockers",
        rule_1_1_an_issue_that_is_not_dispatchable_is_read_and_says_so: "the file has no assignees",
        rule_11_1_a_list_is_complete_beyond_one_page: "the file is read in one piece",
        rule_11_1_a_failed_page_fails_the_list: "the file is read in one piece",
        rule_11_1_a_read_by_id_is_complete_beyond_one_page: "the file is read in one piece",
        rule_11_1_what_is_out_of_scope_is_omitted: "all of the file is in scope",
        rule_11_8_what_is_out_of_scope_is_not_found: "all of the file is in scope",
        rule_11_2_an_error_status_is_a_status_error: "a file has no status",
        rule_11_2_a_rate_limit_says_when_to_come_back: "a file has no limits",
    });

    /// What the kit cannot know: which states there are, and what a file makes of a line end.
    #[test]
    fn an_agent_moves_its_issue_only_to_a_state_that_exists() {
        let board = Board::new();
        let [todo, done] = board.states();
        let [mine, other] = [0, 1].map(|_| board.put(Seed::new("Mend it", &todo)).unwrap());
        let issue = Issue::new(mine.as_str(), mine.as_str(), "Mend it", "Todo").unwrap();
        let call = |state: &str| {
            let (name, issue) = ("update_issue".to_owned(), Arc::new(issue.clone()));
            let call = ToolCall { name, arguments: json!({ "state": state }), issue };
            board.block_on(board.tracker.call(call)).success
        };
        assert!(!call("Done | MT-1 | Todo\nMT-9 | Todo | Mine too"));
        assert!(call("done"));
        let found = board.block_on(board.tracker.by_ids(&[mine, other])).unwrap();
        let states: Vec<StateName> = found.found.into_iter().map(|issue| issue.state).collect();
        assert_eq!(states, [done, todo]);
    }
}
