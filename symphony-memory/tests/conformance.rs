//! The conformance kit on the board in the process, the board in a file, and the scripted agent.
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up fails")]

use std::cell::RefCell;
use std::fs;
use std::future::Future;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::{Map, Value, json};
use symphony_core::agent::{AgentBackend, AgentErrorKind};
use symphony_core::conformance::tracker::{Fault as Trouble, Seed};
use symphony_core::conformance::{Able, AgentFixture, TrackerFixture, Unable, agent};
use symphony_core::tracker::{ToolCall, Tracker, TrackerErrorKind};
use symphony_core::{Blocker, Issue, IssueId, Label, Settings, StateName, StateSet};
use symphony_memory::{
    AgentScript, BoardClock, Faults, MemoryFault, MemoryTracker, Requests, ScriptStep,
    ScriptedAgent, UPDATE_ISSUE,
};
use tempfile::TempDir;
use tokio::runtime::Runtime;

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap()
}

/// A rule that hangs fails instead.
fn block_on<F: Future>(runtime: &Runtime, future: F) -> F::Output {
    let limit = Duration::from_secs(60);
    runtime.block_on(async { tokio::time::timeout(limit, future).await.unwrap() })
}

fn fail(faults: &Faults, trouble: Option<Trouble>) -> Able {
    faults.clear();
    let fault = match trouble {
        None => return Ok(()),
        Some(Trouble::Unreachable) => MemoryFault::fail(TrackerErrorKind::Request),
        Some(Trouble::Status) => MemoryFault::fail(TrackerErrorKind::Status),
        Some(Trouble::Nonsense) => MemoryFault::fail(TrackerErrorKind::Response),
        Some(Trouble::RateLimited(span)) => {
            MemoryFault::rate_limited(Some(BoardClock::system().now() + span))
        }
        Some(Trouble::LaterPage) => return Err(Unable("a board has one page")),
    };
    faults.always(Requests::Reads, fault);
    Ok(())
}

fn states() -> [StateName; 2] {
    ["In Progress", "Done"].map(StateName::from)
}

/// By the tool `update_issue`.
fn move_call(issue: &Arc<Issue>, state: &StateName) -> ToolCall {
    let (name, arguments) = (UPDATE_ISSUE.to_owned(), json!({ "state": state }));
    ToolCall { name, arguments, issue: Arc::clone(issue) }
}

const ONE_SCOPE: Unable = Unable("all of a board is in scope");
const ONE_PAGE: Unable = Unable("a board has one page");

/// A board that is changed through its Rust API.
struct InProcess {
    runtime: Runtime,
    board: MemoryTracker,
}

impl InProcess {
    fn new() -> Self {
        Self { runtime: runtime(), board: MemoryTracker::new() }
    }
}

impl TrackerFixture for InProcess {
    fn block_on<F: Future>(&self, future: F) -> F::Output {
        block_on(&self.runtime, future)
    }

    fn tracker(&self) -> Arc<dyn Tracker> {
        Arc::new(self.board.clone())
    }

    fn states(&self) -> [StateName; 2] {
        states()
    }

    fn put(&self, seed: Seed) -> Able<IssueId> {
        let id = format!("id-{}", self.board.subscribe().borrow().issues().count());
        let identifier = id.to_uppercase();
        let mut issue = Issue::new(&id, &identifier, &seed.title, seed.state.as_str()).unwrap();
        issue.labels = Label::list(&seed.labels);
        issue.priority = seed.priority;
        issue.created_at = seed.created_at;
        let blocker = |id: IssueId| Blocker { id: Some(id), ..Blocker::default() };
        issue.blocked_by = seed.blocked_by.into_iter().map(blocker).collect();
        issue.dispatchable = seed.dispatchable;
        self.board.add(issue);
        Ok(id.into())
    }

    fn move_to(&self, id: &IssueId, state: &StateName) {
        assert!(self.board.set_state(id.as_str(), state.as_str()));
    }

    fn remove(&self, id: &IssueId) {
        self.board.remove(id.as_str()).unwrap();
    }

    fn requests(&self) -> u64 {
        self.board.requests()
    }

    fn put_outside(&self, _: Seed) -> Able<IssueId> {
        Err(ONE_SCOPE)
    }

    fn spoil(&self, id: &IssueId) -> Able {
        assert!(self.board.update(id.as_str(), |issue| issue.title.clear()));
        Ok(())
    }

    fn fail(&self, trouble: Option<Trouble>) -> Able {
        fail(self.board.faults(), trouble)
    }

    fn page_size(&self) -> Able<usize> {
        Err(ONE_PAGE)
    }

    fn move_call(&self, issue: &Arc<Issue>, state: &StateName) -> Able<ToolCall> {
        Ok(move_call(issue, state))
    }
}

mod in_process {
    symphony_core::tracker_conformance!(super::InProcess::new(), skip: {
        rule_11_1_a_list_is_complete_beyond_one_page: "a board has one page",
        rule_11_1_a_failed_page_fails_the_list: "a board has one page",
        rule_11_1_a_read_by_id_is_complete_beyond_one_page: "a board has one page",
        rule_11_1_what_is_out_of_scope_is_omitted: "all of a board is in scope",
        rule_11_8_what_is_out_of_scope_is_not_found: "all of a board is in scope",
    });
}

/// A board file that a person edits.
struct OnFile {
    runtime: Runtime,
    folder: TempDir,
    records: RefCell<Vec<Map<String, Value>>>,
    board: MemoryTracker,
}

impl OnFile {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("board.yaml");
        fs::write(&path, "issues: []").unwrap();
        let board = MemoryTracker::open(path, BoardClock::system()).unwrap();
        Self { runtime: runtime(), folder, records: RefCell::default(), board }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("board.yaml")
    }

    fn save(&self) {
        let text = serde_yaml::to_string(&json!({ "issues": *self.records.borrow() })).unwrap();
        fs::write(self.path(), text).unwrap();
    }

    fn set(&self, id: &IssueId, key: &str, value: &str) {
        for record in self.records.borrow_mut().iter_mut() {
            if record["id"] == *id.as_str() {
                record.insert(key.to_owned(), value.into());
            }
        }
        self.save();
    }
}

impl TrackerFixture for OnFile {
    fn block_on<F: Future>(&self, future: F) -> F::Output {
        block_on(&self.runtime, future)
    }

    fn tracker(&self) -> Arc<dyn Tracker> {
        Arc::new(self.board.clone())
    }

    fn states(&self) -> [StateName; 2] {
        states()
    }

    fn put(&self, seed: Seed) -> Able<IssueId> {
        let number = self.records.borrow().len();
        let identifier = |id: &IssueId| id.as_str().to_uppercase();
        let id = IssueId::from(format!("id-{number}"));
        let record = json!({
            "id": id,
            "identifier": identifier(&id),
            "title": seed.title,
            "state": seed.state,
            "labels": seed.labels,
            "priority": seed.priority,
            "created_at": seed.created_at.map(|at| at.to_string()),
            "blocked_by": seed.blocked_by.iter().map(identifier).collect::<Vec<_>>(),
            "dispatchable": seed.dispatchable,
        });
        self.records.borrow_mut().push(record.as_object().unwrap().clone());
        self.save();
        Ok(id)
    }

    fn move_to(&self, id: &IssueId, state: &StateName) {
        self.set(id, "state", state.as_str());
    }

    fn remove(&self, id: &IssueId) {
        self.records.borrow_mut().retain(|record| record["id"] != *id.as_str());
        self.save();
    }

    fn requests(&self) -> u64 {
        self.board.requests()
    }

    fn put_outside(&self, _: Seed) -> Able<IssueId> {
        Err(ONE_SCOPE)
    }

    fn spoil(&self, id: &IssueId) -> Able {
        self.set(id, "title", " ");
        Ok(())
    }

    fn fail(&self, trouble: Option<Trouble>) -> Able {
        match trouble {
            None => self.save(),
            Some(Trouble::Unreachable) => fs::remove_file(self.path()).unwrap(),
            Some(Trouble::Nonsense) => fs::write(self.path(), "<html>").unwrap(),
            Some(_) => return Err(Unable("a file has no status, limit or pages")),
        }
        Ok(())
    }

    fn page_size(&self) -> Able<usize> {
        Err(ONE_PAGE)
    }

    fn move_call(&self, issue: &Arc<Issue>, state: &StateName) -> Able<ToolCall> {
        Ok(move_call(issue, state))
    }
}

mod on_file {
    symphony_core::tracker_conformance!(super::OnFile::new(), skip: {
        rule_11_1_a_list_is_complete_beyond_one_page: "a board has one page",
        rule_11_1_a_failed_page_fails_the_list: "a board has one page",
        rule_11_1_a_read_by_id_is_complete_beyond_one_page: "a board has one page",
        rule_11_1_what_is_out_of_scope_is_omitted: "all of a board is in scope",
        rule_11_8_what_is_out_of_scope_is_not_found: "all of a board is in scope",
        rule_11_2_an_error_status_is_a_status_error: "a file has no status",
        rule_11_2_a_rate_limit_says_when_to_come_back: "a file has no limit",
    });
}

/// Agents that do what the kit says.
struct Scripted {
    runtime: Runtime,
    workspace: TempDir,
    script: Arc<Mutex<AgentScript>>,
    agent: ScriptedAgent,
}

impl Scripted {
    fn new() -> Self {
        let script = Arc::new(Mutex::new(AgentScript::new()));
        let current = Arc::clone(&script);
        Self {
            runtime: runtime(),
            workspace: TempDir::new().unwrap(),
            script,
            agent: ScriptedAgent::choosing(move |_| current.lock().unwrap().clone()),
        }
    }
}

impl AgentFixture for Scripted {
    fn block_on<F: Future>(&self, future: F) -> F::Output {
        block_on(&self.runtime, future)
    }

    fn backend(&self) -> Arc<dyn AgentBackend> {
        Arc::new(self.agent.clone())
    }

    fn settings(&self) -> Arc<Settings> {
        let states = StateSet::new(["Todo"]);
        let root = self.workspace.path().to_owned();
        Arc::new(Settings::new("memory", states.clone(), states, root))
    }

    fn workspace(&self) -> PathBuf {
        self.workspace.path().to_owned()
    }

    fn script(&self, turns: agent::SessionScript) -> Able {
        // Waits that are over at once still give the kit somewhere to drop the future.
        let pause = ScriptStep::Wait(Duration::from_millis(1));
        let every_turn = |script: AgentScript| {
            let script = script.say("working").then(pause.clone()).spend(10, 5);
            match turns {
                agent::SessionScript::Complete => script.write("notes.md", "done\n"),
                agent::SessionScript::Fail => script.fail(AgentErrorKind::TurnFailed, "no"),
                agent::SessionScript::Ask => script.ask("red or blue?"),
                agent::SessionScript::Hang => script.stall(),
            }
        };
        let script = AgentScript::new().on_open(pause.clone()).on_close(pause.clone());
        let script = every_turn(every_turn(every_turn(script).next_turn()).next_turn());
        *self.script.lock().unwrap() = script;
        Ok(())
    }

    fn alive(&self) -> usize {
        self.agent.live_agents()
    }
}

mod scripted_agent {
    symphony_core::agent_conformance!(super::Scripted::new());
}
