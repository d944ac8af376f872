//! The conformance kit, on adapters that are right and on adapters with one mistake each.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod agents;
mod board;
mod hooks;
mod stores;

use std::collections::BTreeSet;

use board::{Fixture, Mistake};
use symphony_core::conformance::{Deviation, Rule, tracker};

mod correct {
    symphony_core::tracker_conformance!(super::Fixture::new());
}

/// The names of the rules that are broken; a rule that is skipped counts as neither.
fn broken<F>(rules: Vec<Rule<F>>, fixture: impl Fn() -> F) -> Vec<&'static str> {
    let rules = rules.into_iter();
    let rules = rules.filter(|(_, check)| matches!(check(&fixture()), Err(Deviation::Broken(_))));
    rules.map(|(name, _)| name).collect()
}

/// Every mistake, with the rules that it breaks.
const CAUGHT: &[(Mistake, &[&str])] = &[
    (Mistake::AsksForNoStates, &["rule_11_1_no_states_make_no_request"]),
    (Mistake::PollsForNothing, &["rule_11_1_a_poll_for_nothing_makes_no_request"]),
    (
        Mistake::ReadsTheFirstPage,
        &["rule_11_1_a_list_is_complete_beyond_one_page", "rule_11_1_a_failed_page_fails_the_list"],
    ),
    (Mistake::ReadsTheFirstIds, &["rule_11_1_a_read_by_id_is_complete_beyond_one_page"]),
    (Mistake::KeepsAPartOfTheList, &["rule_11_1_a_failed_page_fails_the_list"]),
    (Mistake::RepeatsIds, &["rule_11_1_ids_are_a_set"]),
    (Mistake::ReportsTheGoneAsUnreadable, &["rule_11_1_an_issue_that_is_gone_is_omitted"]),
    (Mistake::IgnoresTheScope, &["rule_11_1_what_is_out_of_scope_is_omitted"]),
    (
        Mistake::ListsOtherStates,
        &[
            "rule_11_1_a_list_holds_the_issues_of_its_states_and_no_others",
            "rule_11_1_answers_are_current",
            "rule_11_1_calls_side_by_side_do_not_mix",
            "rule_11_1_a_poll_brings_candidates_and_ids_apart",
        ],
    ),
    (
        Mistake::ReadsOpenIssuesOnly,
        &[
            "rule_11_1_a_read_by_id_finds_issues_in_any_state",
            "rule_11_1_answers_are_current",
            "rule_11_1_calls_side_by_side_do_not_mix",
            "rule_11_1_a_poll_brings_candidates_and_ids_apart",
            FINDING,
            MOVING,
        ],
    ),
    (Mistake::KeepsRawLabels, &["rule_1_1_labels_are_trimmed_lowercased_and_without_duplicates"]),
    (Mistake::ForgetsBlockers, &["rule_1_1_blockers_are_named", STANDING]),
    (Mistake::HidesBlockerStates, &[STANDING]),
    (Mistake::KeepsBlockerStates, &[STANDING]),
    (
        Mistake::HidesTheUndispatchable,
        &["rule_1_1_an_issue_that_is_not_dispatchable_is_read_and_says_so"],
    ),
    (Mistake::ComparesStatesExactly, &["rule_1_2_states_are_found_whatever_their_case_and_space"]),
    (Mistake::EchoesTheAskedState, &["rule_1_2_states_come_back_in_the_trackers_spelling"]),
    (
        Mistake::FailsAListWithABadRecord,
        &["rule_1_3_a_list_drops_a_malformed_record_and_keeps_the_others"],
    ),
    (Mistake::ListsABadRecord, &["rule_1_3_a_list_drops_a_malformed_record_and_keeps_the_others"]),
    (
        Mistake::OmitsABadRecord,
        &[
            "rule_1_3_a_malformed_record_read_by_id_is_unreadable_and_spoils_no_other",
            "rule_11_1_an_unreadable_issue_does_not_spoil_a_poll",
        ],
    ),
    (Mistake::ChangesTheTitle, &["rule_1_1_an_issue_comes_back_as_it_was_put"]),
    (Mistake::ForgetsThePriority, &["rule_1_1_priority_and_creation_time_come_back", EARLY]),
    (Mistake::AnswersFromACache, &[STANDING, "rule_11_1_answers_are_current", FINDING, MOVING]),
    (Mistake::LeaksDroppedCalls, &["rule_11_1_a_dropped_call_harms_nothing"]),
    (Mistake::SharesABuffer, &["rule_11_1_calls_side_by_side_do_not_mix"]),
    (Mistake::PollsThrice, &["rule_11_1_a_poll_takes_no_more_requests_than_two_reads"]),
    (Mistake::MiscountsAPoll, &["rule_11_1_a_poll_counts_its_requests"]),
    (Mistake::AlwaysPollsCandidates, &["rule_11_1_a_poll_without_candidates_brings_none"]),
    (
        Mistake::PollsEachIssueOnce,
        &[
            "rule_11_1_a_poll_brings_candidates_and_ids_apart",
            "rule_11_1_an_unreadable_issue_does_not_spoil_a_poll",
        ],
    ),
    (Mistake::SpoilsAPoll, &["rule_11_1_an_unreadable_issue_does_not_spoil_a_poll"]),
    (Mistake::StopsSilently, &[EARLY]),
    (Mistake::StopsInAnotherOrder, &[EARLY]),
    (Mistake::StopsTooEarly, &[EARLY]),
    (Mistake::PollsAnEmptyList, &["rule_11_2_a_failed_poll_is_an_error_in_every_part"]),
    (
        Mistake::HasOneCategory,
        &[
            "rule_11_2_an_unreachable_tracker_is_a_request_error",
            "rule_11_2_nonsense_is_a_response_error",
            "rule_11_2_a_rate_limit_says_when_to_come_back",
        ],
    ),
    (Mistake::MistakesStatusForNonsense, &["rule_11_2_an_error_status_is_a_status_error"]),
    (Mistake::ForgetsWhenToReturn, &["rule_11_2_a_rate_limit_says_when_to_come_back"]),
    (Mistake::RemembersAFailure, &["rule_11_2_a_failure_is_not_remembered"]),
    (Mistake::HasTwoToolsOfOneName, &["rule_10_7_tools_have_distinct_names_and_object_schemas"]),
    (Mistake::AcceptsAnyTool, &["rule_10_7_an_unknown_tool_is_a_failure_result"]),
    (Mistake::AcceptsAnyArguments, &["rule_10_7_wrong_arguments_are_a_failure_result"]),
    (Mistake::MovesNothing, &[MOVING]),
    (Mistake::MovesAnotherIssue, &[MOVING]),
    (Mistake::HidesItsChange, &[MOVING]),
    (Mistake::FindsByIdAlone, &[FINDING]),
    (Mistake::FindsOpenIssuesOnly, &[FINDING]),
    (Mistake::FindsBeginnings, &["rule_11_8_an_unknown_name_finds_nothing"]),
    (
        Mistake::FindsAnotherIssue,
        &["rule_11_8_an_unknown_name_finds_nothing", "rule_11_8_what_is_out_of_scope_is_not_found"],
    ),
    (Mistake::FindsBeyondItsScope, &["rule_11_8_what_is_out_of_scope_is_not_found"]),
    (Mistake::FindsNothingWhenItFails, &["rule_11_8_a_search_that_fails_is_an_error"]),
    (Mistake::FindsNoBadRecord, &["rule_11_8_a_malformed_record_is_an_error"]),
];

const STANDING: &str = "rule_1_1_a_blockers_state_comes_back_also_after_it_moved";
const MOVING: &str = "rule_10_7_a_tool_that_moves_an_issue_moves_its_own_and_no_other";

const FINDING: &str = "rule_11_8_an_issue_is_found_by_identifier_and_by_id_in_any_state";

const EARLY: &str = "rule_11_1_a_poll_that_stops_early_brings_the_first_in_order_and_says_so";

#[test]
fn rule_11_6_each_wrong_tracker_breaks_exactly_the_rules_it_should() {
    let found = |mistake| broken(tracker::rules(), || Fixture::with(Some(mistake)));
    let wrong = CAUGHT.iter().map(|(mistake, expected)| (mistake, found(*mistake), *expected));
    let wrong: Vec<_> = wrong.filter(|(_, found, expected)| found != expected).collect();
    assert!(wrong.is_empty(), "mistake, broken rules, expected ones: {wrong:#?}");
}

#[test]
fn rule_11_6_two_mistakes_do_not_hide_each_other() {
    let both = [Mistake::HidesBlockerStates, Mistake::MovesNothing];
    let found = broken(tracker::rules(), || Fixture::with(both));
    assert_eq!(found, [STANDING, MOVING]);
}

#[test]
fn rule_11_6_a_rule_is_skipped_only_if_it_is_named_and_named_only_if_it_is_skipped() {
    use symphony_core::conformance::{Broken, Unable, kept, skipped};
    let unable = || Err(Deviation::Skipped(Unable("a board has one page")));
    let broken = || Err(Deviation::Broken(Broken("it is not".to_owned())));
    assert_eq!(kept("rule_x", Ok(())), Ok(()));
    let said = "cannot be set up: a board has one page. If that is how it is, add: \
                skip: { rule_x: \"a board has one page\" }";
    assert_eq!(kept("rule_x", unable()), Err(Broken(said.to_owned())));
    assert_eq!(kept("rule_x", broken()), Err(Broken("it is not".to_owned())));
    assert_eq!(skipped(unable()), Ok(()));
    assert_eq!(skipped(broken()), Err(Broken("it is not".to_owned())));
    let said = "can be set up, and is kept: take it out of `skip`";
    assert_eq!(skipped(Ok(())), Err(Broken(said.to_owned())));
}

#[test]
fn rule_11_6_every_rule_for_trackers_catches_something() {
    let caught: BTreeSet<_> = CAUGHT.iter().flat_map(|(_, rules)| *rules).copied().collect();
    let rules = tracker::rules::<Fixture>().into_iter();
    let idle: Vec<_> = rules.map(|(name, _)| name).filter(|name| !caught.contains(name)).collect();
    assert_eq!(idle, Vec::<&str>::new());
}
