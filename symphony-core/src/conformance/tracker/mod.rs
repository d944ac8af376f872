//! The rules of contract sections 1 and 11 for a [`Tracker`]: polls, errors, tools, and how
//! [`Tracker::find`] answers a person who names an issue.

mod faults;
mod finds;
mod polls;
mod reads;
mod records;
mod tools;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use super::{Able, Deviation, Rule, RuleResult, Unable, broken};
use crate::issue::{Issue, IssueId, StateName};
use crate::settings::StateSet;
use crate::time::Wall;
use crate::tracker::{
    CandidateQuery, Candidates, IssuesById, Poll, Polled, Purpose, ToolCall, Tracker, TrackerError,
    TrackerExt,
};

pub use faults::*;
pub use finds::*;
pub use polls::*;
pub use reads::*;
pub use records::*;
pub use tools::*;

/// A tracker with a world around it that tests can set up and look into.
///
/// Each rule gets a fresh one with an empty world. What it cannot do it says with
/// [`Unable`]; the rules that need it then have to be named in `skip`, or they fail.
pub trait TrackerFixture {
    /// Runs a future to its end. With a time limit, an adapter that hangs fails instead.
    fn block_on<F: Future>(&self, future: F) -> F::Output;

    /// The adapter, reading this world.
    fn tracker(&self) -> Arc<dyn Tracker>;

    /// Two different states of this world, as the tracker spells them.
    fn states(&self) -> [StateName; 2];

    /// Puts an issue into the tracker's scope. The tracker may choose the id.
    ///
    /// # Errors
    /// The tracker has no place for something in the seed.
    fn put(&self, seed: Seed) -> Able<IssueId>;

    /// Moves an issue to another state.
    fn move_to(&self, id: &IssueId, state: &StateName);

    /// Makes an issue disappear.
    fn remove(&self, id: &IssueId);

    /// How many requests the tracker has been sent.
    fn requests(&self) -> u64;

    /// Puts an issue where the adapter's scope does not reach, such as another project.
    ///
    /// # Errors
    /// The tracker has no such place.
    fn put_outside(&self, seed: Seed) -> Able<IssueId>;

    /// Makes the stored record of an issue unusable, for example by an empty title.
    ///
    /// # Errors
    /// The world cannot hold such a record.
    fn spoil(&self, id: &IssueId) -> Able;

    /// From now on requests fail like this; `None` heals.
    ///
    /// # Errors
    /// The world cannot fail like this.
    fn fail(&self, fault: Option<Fault>) -> Able;

    /// How many issues fit into one page.
    ///
    /// # Errors
    /// The tracker answers in one piece, or a page is too large for a test.
    fn page_size(&self) -> Able<usize>;

    /// The call of one of the tracker's tools by which an agent moves its own issue, which is given,
    /// to another state.
    ///
    /// # Errors
    /// No tool can do that, which is what is assumed unless the fixture says otherwise.
    fn move_call(&self, _issue: &Arc<Issue>, _state: &StateName) -> Able<ToolCall> {
        Err(Unable("the fixture names no tool that moves an issue"))
    }
}

/// An issue to put into the world.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Seed {
    /// The title.
    pub title: String,
    /// The state.
    pub state: StateName,
    /// Labels, as a person wrote them.
    pub labels: Vec<String>,
    /// The priority.
    pub priority: Option<i64>,
    /// When it was created; any time when absent.
    pub created_at: Option<Wall>,
    /// Issues that must be done first.
    pub blocked_by: Vec<IssueId>,
    /// Whether the tracker's own rules, such as the assignee, let it be worked on.
    pub dispatchable: bool,
}

impl Seed {
    /// An issue with nothing optional.
    #[must_use]
    pub fn new(title: &str, state: &StateName) -> Self {
        Self {
            title: title.to_owned(),
            state: state.clone(),
            labels: Vec::new(),
            priority: None,
            created_at: None,
            blocked_by: Vec::new(),
            dispatchable: true,
        }
    }
}

/// A way in which requests fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The tracker cannot be reached.
    Unreachable,
    /// It answers that something is wrong on its side, like HTTP 500.
    Status,
    /// It answers something that is not an answer, like a proxy's page.
    Nonsense,
    /// It refuses for a while, and says for how long.
    RateLimited(Duration),
    /// The first page arrives, the next one cannot be reached.
    LaterPage,
}

/// A fixture in use: its tracker, called to the end, with errors as broken rules.
struct TrackerTrial<'f, F> {
    fixture: &'f F,
    tracker: Arc<dyn Tracker>,
    open: StateName,
    other: StateName,
}

impl<'f, F: TrackerFixture> TrackerTrial<'f, F> {
    fn new(fixture: &'f F) -> Self {
        let [open, other] = fixture.states();
        Self { fixture, tracker: fixture.tracker(), open, other }
    }

    fn put(&self, title: &str) -> Able<IssueId> {
        self.fixture.put(Seed::new(title, &self.open))
    }

    fn put_many(&self, count: usize) -> Able<Vec<IssueId>> {
        (0..count).map(|n| self.put(&format!("Issue {n}"))).collect()
    }

    fn try_list(&self, states: &StateSet) -> Result<Vec<Issue>, TrackerError> {
        self.fixture.block_on(self.tracker.fetch_issues_by_states(states))
    }

    fn try_by_ids(&self, ids: &[IssueId]) -> Result<IssuesById, TrackerError> {
        self.fixture.block_on(self.tracker.fetch_issues_by_ids(ids))
    }

    fn poll(&self, candidates: Option<CandidateQuery>, ids: Vec<IssueId>) -> Polled {
        let purpose = if candidates.is_some() { Purpose::Candidates } else { Purpose::Refresh };
        let poll = Poll { purpose, candidates, ids };
        self.fixture.block_on(self.tracker.poll(&poll))
    }

    fn list(&self, states: &StateSet) -> Result<Vec<Issue>, Deviation> {
        self.try_list(states).map_err(|error| failed("the list read", &error))
    }

    fn list_open(&self) -> Result<Vec<Issue>, Deviation> {
        self.list(&StateSet::new([self.open.clone()]))
    }

    fn by_ids(&self, ids: &[IssueId]) -> Result<IssuesById, Deviation> {
        self.try_by_ids(ids).map_err(|error| failed("the read by id", &error))
    }

    fn query(&self, enough: usize) -> CandidateQuery {
        CandidateQuery { states: StateSet::new([self.open.clone()]), enough }
    }

    /// The one issue of this id, read by id.
    fn one(&self, id: &IssueId) -> Result<Issue, Deviation> {
        let mut answer = self.by_ids(std::slice::from_ref(id))?;
        match (answer.found.pop(), answer.found.pop()) {
            (Some(issue), None) => Ok(issue),
            (None, _) => Err(broken(format!("issue {id} was not found by its id: {answer:?}"))),
            (Some(_), Some(_)) => Err(broken(format!("issue {id} was found more than once"))),
        }
    }

    /// How many requests this makes.
    fn counted(&self, act: impl FnOnce() -> RuleResult) -> Result<u64, Deviation> {
        let before = self.fixture.requests();
        act()?;
        Ok(self.fixture.requests().saturating_sub(before))
    }
}

fn candidates(polled: &Polled) -> Result<&Candidates, Deviation> {
    match &polled.candidates {
        Some(Ok(candidates)) => Ok(candidates),
        Some(Err(error)) => Err(failed("the candidates of the poll", error)),
        None => Err(broken("the poll was asked for candidates and brought none")),
    }
}

fn by_id(polled: &Polled) -> Result<&IssuesById, Deviation> {
    polled.by_id.as_ref().map_err(|error| failed("the read by id in the poll", error))
}

fn failed(what: &str, error: &TrackerError) -> Deviation {
    broken(format!("{what} failed: {}: {error}", error.kind.as_str()))
}

/// Sorted, because the order of an answer means nothing.
fn ids<'i>(issues: impl IntoIterator<Item = &'i Issue>) -> Vec<IssueId> {
    let mut ids: Vec<_> = issues.into_iter().map(|issue| issue.id.clone()).collect();
    ids.sort();
    ids
}

fn sorted(mut ids: Vec<IssueId>) -> Vec<IssueId> {
    ids.sort();
    ids
}

/// Every rule with its name, for a run outside the test harness.
#[must_use]
pub fn rules<F: TrackerFixture>() -> Vec<Rule<F>> {
    crate::__tracker_rules!(__conformance_list,)
}

/// One test per rule for a tracker adapter.
///
/// The argument is an expression that makes a fresh `conformance::TrackerFixture`; it is evaluated
/// once per test. Rules that the fixture cannot set up follow, each with the reason:
/// `skip: { rule_name: "why", .. }`. Their tests are `#[ignore]`d.
#[macro_export]
macro_rules! tracker_conformance {
    ($fixture:expr $(, skip: { $($skipped:ident: $why:literal),* $(,)? })? $(,)?) => {
        $crate::__conformance_skips! { ($) tracker; $($($skipped: $why),*)? }
        $crate::__tracker_rules!(__conformance_tests, tracker, $fixture);
    };
}

#[doc(hidden)]
pub mod names {
    crate::__tracker_rules!(__conformance_names,);
}

#[doc(hidden)]
#[macro_export]
macro_rules! __tracker_rules {
    ($then:ident, $($args:tt)*) => {
        $crate::$then! { $($args)*;
            rule_1_1_an_issue_comes_back_as_it_was_put,
            rule_1_1_priority_and_creation_time_come_back,
            rule_1_1_labels_are_trimmed_lowercased_and_without_duplicates,
            rule_1_1_blockers_are_named,
            rule_1_1_a_blockers_state_comes_back_also_after_it_moved,
            rule_1_1_an_issue_that_is_not_dispatchable_is_read_and_says_so,
            rule_1_2_states_are_found_whatever_their_case_and_space,
            rule_1_2_states_come_back_in_the_trackers_spelling,
            rule_1_3_a_list_drops_a_malformed_record_and_keeps_the_others,
            rule_1_3_a_malformed_record_read_by_id_is_unreadable_and_spoils_no_other,
            rule_11_1_no_states_make_no_request,
            rule_11_1_a_poll_for_nothing_makes_no_request,
            rule_11_1_a_list_holds_the_issues_of_its_states_and_no_others,
            rule_11_1_a_list_is_complete_beyond_one_page,
            rule_11_1_a_failed_page_fails_the_list,
            rule_11_1_a_read_by_id_finds_issues_in_any_state,
            rule_11_1_a_read_by_id_is_complete_beyond_one_page,
            rule_11_1_ids_are_a_set,
            rule_11_1_an_issue_that_is_gone_is_omitted,
            rule_11_1_what_is_out_of_scope_is_omitted,
            rule_11_1_answers_are_current,
            rule_11_1_calls_side_by_side_do_not_mix,
            rule_11_1_a_dropped_call_harms_nothing,
            rule_11_1_a_poll_brings_candidates_and_ids_apart,
            rule_11_1_a_poll_without_candidates_brings_none,
            rule_11_1_a_poll_takes_no_more_requests_than_two_reads,
            rule_11_1_a_poll_counts_its_requests,
            rule_11_1_an_unreadable_issue_does_not_spoil_a_poll,
            rule_11_1_a_poll_that_stops_early_brings_the_first_in_order_and_says_so,
            rule_11_2_an_unreachable_tracker_is_a_request_error,
            rule_11_2_an_error_status_is_a_status_error,
            rule_11_2_nonsense_is_a_response_error,
            rule_11_2_a_rate_limit_says_when_to_come_back,
            rule_11_2_a_failed_poll_is_an_error_in_every_part,
            rule_11_2_a_failure_is_not_remembered,
            rule_11_8_an_issue_is_found_by_identifier_and_by_id_in_any_state,
            rule_11_8_an_unknown_name_finds_nothing,
            rule_11_8_what_is_out_of_scope_is_not_found,
            rule_11_8_a_search_that_fails_is_an_error,
            rule_11_8_a_malformed_record_is_an_error,
            rule_10_7_tools_have_distinct_names_and_object_schemas,
            rule_10_7_an_unknown_tool_is_a_failure_result,
            rule_10_7_wrong_arguments_are_a_failure_result,
            rule_10_7_a_tool_that_moves_an_issue_moves_its_own_and_no_other,
        }
    };
}
