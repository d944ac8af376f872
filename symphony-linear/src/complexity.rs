//! What a query costs, by Linear's rule: a property is a tenth of a point, an object is one, and a
//! connection multiplies what is in it by `first` (contract 11.3). A test keeps this true to the
//! queries.

use crate::queries::{
    LABELS_PER_ISSUE, RELATIONS_PER_ISSUE, REST_PAGE_SIZE, STATES_PER_TEAM, TEAMS_PER_PROJECT,
};

/// The most that one query may cost is 10,000 points. Some are left for what the rule misses.
const MAX_QUERY_POINTS: u64 = 9_500;

/// In tenths of a point, so that nothing is rounded on the way.
const PROPERTY_TENTHS: u64 = 1;
const OBJECT_TENTHS: u64 = 10;

const fn object(properties: u64) -> u64 {
    OBJECT_TENTHS + properties * PROPERTY_TENTHS
}

const STATE_TENTHS: u64 = object(2);
const LABEL_TENTHS: u64 = object(1);
/// Its kind, and the issue at its other end.
const RELATION_TENTHS: u64 = object(1) + object(3) + STATE_TENTHS;

const fn connection(first: i32, node: u64) -> u64 {
    OBJECT_TENTHS + first.unsigned_abs() as u64 * node
}

/// One issue of a poll, with its share of the page.
const ISSUE_TENTHS: u64 = object(11)
    + object(3)
    + object(1)
    + object(2)
    + STATE_TENTHS
    + connection(LABELS_PER_ISSUE, LABEL_TENTHS)
    + connection(RELATIONS_PER_ISSUE, RELATION_TENTHS)
    + object(2);
/// One issue of which the rest is read.
const REST_ISSUE_TENTHS: u64 = object(1)
    + connection(REST_PAGE_SIZE, LABEL_TENTHS)
    + connection(REST_PAGE_SIZE, RELATION_TENTHS);
const TEAM_TENTHS: u64 = object(1) + connection(STATES_PER_TEAM, STATE_TENTHS);
/// A project with its teams, and a team of its own.
const SCOPE_TENTHS: u64 = connection(1, object(1) + connection(TEAMS_PER_PROJECT, TEAM_TENTHS))
    + connection(1, TEAM_TENTHS);

/// How many candidates a page has.
pub(crate) const CANDIDATES_PER_PAGE: i32 = 100;

/// How many issues are read by id in one request, beside candidates or alone.
pub(crate) const fn most_ids(beside_candidates: bool) -> usize {
    let candidates =
        connection(if beside_candidates { CANDIDATES_PER_PAGE } else { 1 }, ISSUE_TENTHS);
    ((MAX_QUERY_POINTS * 10 - SCOPE_TENTHS - candidates - OBJECT_TENTHS) / ISSUE_TENTHS) as usize
}

/// How many issues can have their rest read in one request.
pub(crate) const MAX_RESTS: usize =
    ((MAX_QUERY_POINTS * 10 - OBJECT_TENTHS) / REST_ISSUE_TENTHS) as usize;

/// The points of a poll with pages of these sizes. What it leaves out may be counted all the same.
pub(crate) const fn poll(candidates: i32, claimed: i32) -> u64 {
    (connection(candidates, ISSUE_TENTHS) + connection(claimed, ISSUE_TENTHS) + SCOPE_TENTHS)
        .div_ceil(10)
}

/// The points of reading the rest of this many issues.
pub(crate) const fn rest(issues: i32) -> u64 {
    connection(issues, REST_ISSUE_TENTHS).div_ceil(10)
}

/// The points of a survey.
pub(crate) const SURVEY_POINTS: u64 =
    (object(2) + object(1) + connection(250, LABEL_TENTHS)).div_ceil(10);

#[cfg(test)]
mod tests {
    use cynic::QueryBuilder;
    use serde_json::{Value, json};

    use super::*;
    use crate::queries::{Poll, Rest, Survey};

    /// What Linear's published rule makes of the document that is really sent.
    fn real(query: &str, variables: &Value) -> u64 {
        symphony_linear_fake::points(query, variables).unwrap()
    }

    #[test]
    fn rule_11_3_the_estimate_of_a_poll_is_what_its_document_costs() {
        let query = Poll::build(crate::queries::PollVariables::nothing()).query;
        for (candidates, claimed) in
            [(1, 1), (CANDIDATES_PER_PAGE, 1), (CANDIDATES_PER_PAGE, 20), (1, 150)]
        {
            let sizes = json!({ "candidatesFirst": candidates, "claimedFirst": claimed });
            assert_eq!(poll(candidates, claimed), real(&query, &sizes));
        }
    }

    #[test]
    fn rule_11_3_the_estimates_of_other_reads_are_what_they_cost() {
        let variables = crate::queries::RestVariables {
            filter: crate::queries::IssueFilter::ids([]),
            first: 7,
        };
        let query = Rest::build(variables).query;
        assert_eq!(rest(7), real(&query, &json!({ "first": 7 })));
        let labels = crate::queries::IssueLabelFilter::default();
        let query = Survey::build(crate::queries::SurveyVariables { labels }).query;
        assert_eq!(SURVEY_POINTS, real(&query, &json!({})));
    }

    #[test]
    fn rule_11_3_no_request_comes_near_the_limit_of_a_query() {
        let ids = |beside| i32::try_from(most_ids(beside)).unwrap();
        let rests = i32::try_from(MAX_RESTS).unwrap();
        let dearest =
            [poll(CANDIDATES_PER_PAGE, ids(true)), poll(1, ids(false)), rest(rests), SURVEY_POINTS];
        assert!(dearest.iter().all(|points| *points <= MAX_QUERY_POINTS), "{dearest:?}");
        // As docs/guide/trackers/linear.md says: enough for a good many agents in one request.
        assert_eq!((ids(true), ids(false), rests), (58, 157, 8));
        assert_eq!((poll(CANDIDATES_PER_PAGE, 1), poll(1, 1)), (6_193, 540));
    }
}
