//! The kit of `symphony-core` on everything in this crate, without a runtime.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use outside::agent::Yes;
use outside::hooks::Functions;
use outside::tracker::{Paper, PaperFactory, PaperTracker};
use symphony_core::agent::AgentBackend;
use symphony_core::conformance::tracker::{Fault, Seed};
use symphony_core::conformance::{
    Able, AgentFixture, HooksFixture, TrackerFixture, Unable, agent, hooks,
};
use symphony_core::hooks::{Hook, HookContext, WorkspaceHooks};
use symphony_core::settings::Provider;
use symphony_core::tracker::{
    Tracker, TrackerContext, TrackerErrorKind, TrackerExt, TrackerFactory, TwoReads,
};
use symphony_core::{Issue, IssueId, Settings, StateName};

/// Nothing here waits for the world outside, so polling again is enough.
fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let mut cx = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut cx) {
            return output;
        }
    }
}

fn settings() -> Settings {
    let profile = PaperFactory::default().profile().clone();
    let root = PathBuf::from("/tmp/outside");
    Settings::new("paper", profile.active_states, profile.terminal_states, root)
}

struct Board(Paper);

impl Board {
    fn new() -> Self {
        Self(Paper::new(""))
    }

    fn edit(&self, id: &IssueId, change: impl Fn(&mut Vec<String>)) {
        let text = self.0.text();
        let lines = text.lines().map(|line| {
            let mut fields: Vec<String> = line.split('|').map(str::to_owned).collect();
            if fields[0] == id.as_str() {
                change(&mut fields);
            }
            fields.join("|")
        });
        let text: String = lines.map(|line| line + "\n").collect();
        self.0.write(Some(text));
    }
}

impl TrackerFixture for Board {
    fn block_on<F: Future>(&self, future: F) -> F::Output {
        block_on(future)
    }

    fn tracker(&self) -> Arc<dyn Tracker> {
        Arc::new(TwoReads(PaperTracker::new(self.0.clone())))
    }

    fn states(&self) -> [StateName; 2] {
        ["Todo", "Done"].map(StateName::from)
    }

    fn put(&self, seed: Seed) -> Able<IssueId> {
        if seed.priority.is_some() || seed.created_at.is_some() {
            return Err(Unable("a paper has neither priorities nor dates"));
        }
        if !seed.blocked_by.is_empty() || !seed.dispatchable {
            return Err(Unable("a paper has neither blockers nor assignees"));
        }
        let text = self.0.text();
        let id = format!("{}", text.lines().count());
        let (state, title, labels) = (&seed.state, &seed.title, seed.labels.join(","));
        self.0.write(Some(format!("{text}{id}|P-{id}|{state}|{title}|{labels}\n")));
        Ok(id.into())
    }

    fn move_to(&self, id: &IssueId, state: &StateName) {
        self.edit(id, |fields| fields[2] = state.to_string());
    }

    fn remove(&self, id: &IssueId) {
        self.edit(id, |fields| fields.clear());
    }

    fn requests(&self) -> u64 {
        self.0.reads()
    }

    fn put_outside(&self, _: Seed) -> Able<IssueId> {
        Err(Unable("a paper has one scope"))
    }

    fn spoil(&self, id: &IssueId) -> Able {
        self.edit(id, |fields| fields[3].clear());
        Ok(())
    }

    fn fail(&self, fault: Option<Fault>) -> Able {
        thread_local!(static LOST: RefCell<String> = RefCell::default());
        match fault {
            None => LOST.with_borrow(|text| self.0.write(Some(text.clone()))),
            Some(Fault::Unreachable) => {
                LOST.set(self.0.text());
                self.0.write(None);
            }
            Some(_) => return Err(Unable("a paper can only be lost")),
        }
        Ok(())
    }

    fn page_size(&self) -> Able<usize> {
        Err(Unable("a paper has one page"))
    }
}

mod tracker_rules {
    symphony_core::tracker_conformance!(super::Board::new(), skip: {
        rule_1_1_priority_and_creation_time_come_back: "a paper has neither priorities nor dates",
        rule_1_1_blockers_are_named: "a paper has no blockers",
        rule_1_1_a_blockers_state_comes_back_also_after_it_moved: "a paper has no blockers",
        rule_1_1_an_issue_that_is_not_dispatchable_is_read_and_says_so: "a paper has no assignees",
        rule_11_1_a_list_is_complete_beyond_one_page: "a paper has one page",
        rule_11_1_a_failed_page_fails_the_list: "a paper has one page",
        rule_11_1_a_read_by_id_is_complete_beyond_one_page: "a paper has one page",
        rule_11_1_what_is_out_of_scope_is_omitted: "a paper has one scope",
        rule_11_8_what_is_out_of_scope_is_not_found: "a paper has one scope",
        rule_11_2_an_error_status_is_a_status_error: "a paper can only be lost",
        rule_11_2_nonsense_is_a_response_error: "a paper can only be lost",
        rule_11_2_a_rate_limit_says_when_to_come_back: "a paper can only be lost",
        rule_10_7_tools_have_distinct_names_and_object_schemas: "a paper has no tools",
        rule_10_7_an_unknown_tool_is_a_failure_result: "a paper has no tools",
        rule_10_7_wrong_arguments_are_a_failure_result: "a paper has no tools",
        rule_10_7_a_tool_that_moves_an_issue_moves_its_own_and_no_other: "a paper has no tools",
    });
}

#[derive(Default)]
struct Agent(Yes);

impl AgentFixture for Agent {
    fn block_on<F: Future>(&self, future: F) -> F::Output {
        block_on(future)
    }

    fn backend(&self) -> Arc<dyn AgentBackend> {
        Arc::new(self.0.clone())
    }

    fn settings(&self) -> Arc<Settings> {
        Arc::new(settings())
    }

    fn workspace(&self) -> PathBuf {
        PathBuf::from("/tmp/outside/MT-1")
    }

    fn script(&self, turns: agent::SessionScript) -> Able {
        match turns {
            agent::SessionScript::Complete => Ok(()),
            _ => Err(Unable("it always says yes")),
        }
    }

    fn alive(&self) -> usize {
        self.0.open_sessions()
    }
}

mod agent_rules {
    symphony_core::agent_conformance!(super::Agent::default(), skip: {
        rule_10_5_a_failed_turn_is_an_error: "it always says yes",
        rule_10_6_a_question_ends_the_turn_and_is_kept: "it always says yes",
        rule_10_8_token_totals_never_fall: "it uses none",
        rule_10_9_close_ends_a_turn_that_hangs: "it always says yes",
        rule_10_11_a_note_needs_a_live_turn: "the agent takes no notes",
    });
}

#[derive(Default)]
struct Told {
    scripts: RefCell<BTreeMap<Hook, hooks::HookScript>>,
    begun: Arc<Mutex<Vec<Hook>>>,
}

impl HooksFixture for Told {
    fn block_on<F: Future>(&self, future: F) -> F::Output {
        block_on(future)
    }

    fn hooks(&self) -> Arc<dyn WorkspaceHooks> {
        let mut functions = Functions::default();
        for (hook, script) in self.scripts.borrow().clone() {
            let begun = Arc::clone(&self.begun);
            functions = functions.on(hook, move |_| {
                begun.lock().unwrap().push(hook);
                match script {
                    hooks::HookScript::Fail => Err("no".to_owned()),
                    _ => Ok(()),
                }
            });
        }
        Arc::new(functions)
    }

    fn context(&self) -> HookContext {
        let issue = Issue::new("1", "P-1", "Mend the gate", "Todo").unwrap();
        let settings = Arc::new(settings());
        HookContext::new(Arc::new(issue), PathBuf::from("/tmp/outside/P-1"), settings)
    }

    fn configure(&self, hook: Hook, script: hooks::HookScript) -> Able {
        if script == hooks::HookScript::Hang {
            return Err(Unable("a function cannot be ended"));
        }
        self.scripts.borrow_mut().insert(hook, script);
        Ok(())
    }

    fn begun(&self) -> Vec<Hook> {
        self.begun.lock().unwrap().clone()
    }

    fn alive(&self) -> usize {
        0
    }
}

mod hook_rules {
    symphony_core::hooks_conformance!(super::Told::default(), skip: {
        rule_9_5_a_hook_that_hangs_times_out_and_is_gone: "a function cannot be ended",
        rule_9_5_a_dropped_hook_leaves_nothing: "a function cannot be ended",
    });
}

#[test]
fn a_factory_builds_a_tracker_from_a_file_s_settings_and_the_environment() {
    let factory = PaperFactory::default();
    let mut settings = settings();
    let env = BTreeMap::from([("BOARD".to_owned(), "7 | P-7 | Todo | Mend it".to_owned())]);
    let mut build = |board: &str| {
        let raw = [("board".to_owned(), board.into())].into_iter().collect();
        settings.tracker.provider = Provider::new(raw);
        let cx = TrackerContext::new(&settings.tracker, &settings.polling.budget, &env);
        factory.build(&cx)
    };
    let built = build("$BOARD").unwrap();
    let found = block_on(built.tracker.fetch_issues_by_ids(&["7".into()])).unwrap();
    assert_eq!(found.found, [Issue::new("7", "P-7", "Mend it", "Todo").unwrap()]);
    let error = build("$NOWHERE").unwrap_err();
    assert_eq!(error.kind, TrackerErrorKind::InvalidConfig);
    assert_eq!(factory.kind(), "paper");
    assert!(factory.profile().active_states.contains(&"todo".into()));
}
