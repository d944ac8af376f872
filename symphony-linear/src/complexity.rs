//! What a query costs, by Linear's rule: a property is a tenth of a point, an object is one, and a
//! connection multiplies what is in it by `first` (contract 11.3). A test keeps this true to the
//! queries.

use crate::queries::{LABELS, RELATIONS, REST, STATES, TEAMS};

/// The most that one query may cost is 10,000 points. Some are left for what the rule misses.
const MOST: u64 = 9_500;

/// In tenths of a point, so that nothing is rounded on the way.
const PROPERTY: u64 = 1;
const OBJECT: u64 = 10;

const fn object(properties: u64) -> u64 {
    OBJECT + properties * PROPERTY
}

const STATE: u64 = object(2);
const LABEL: u64 = object(1);
/// Its kind, and the issue at its other end.
const RELATION: u64 = object(1) + object(3) + STATE;

const fn connection(first: i32, node: u64) -> u64 {
    OBJECT + first.unsigned_abs() as u64 * node
}

/// One issue of a poll, with its share of the page.
const ISSUE: u64 = object(11)
    + object(3)
    + object(1)
    + object(2)
    + STATE
    + connection(LABELS, LABEL)
    + connection(RELATIONS, RELATION)
    + object(2);
/// One issue of which the rest is read.
const REST_ISSUE: u64 = object(1) + connection(REST, LABEL) + connection(REST, RELATION);
const TEAM: u64 = object(1) + connection(STATES, STATE);
/// A project with its teams, and a team of its own.
const SCOPE: u64 = connection(1, object(1) + connection(TEAMS, TEAM)) + connection(1, TEAM);

/// How many candidates a page has.
pub(crate) const CANDIDATES: i32 = 100;

/// How many issues are read by id in one request, beside candidates or alone.
pub(crate) const fn most_ids(beside_candidates: bool) -> usize {
    let candidates = connection(if beside_candidates { CANDIDATES } else { 1 }, ISSUE);
    ((MOST * 10 - SCOPE - candidates - OBJECT) / ISSUE) as usize
}

/// How many issues can have their rest read in one request.
pub(crate) const MOST_RESTS: usize = ((MOST * 10 - OBJECT) / REST_ISSUE) as usize;

/// The points of a poll with pages of these sizes. What it leaves out may be counted all the same.
pub(crate) const fn poll(candidates: i32, claimed: i32) -> u64 {
    (connection(candidates, ISSUE) + connection(claimed, ISSUE) + SCOPE).div_ceil(10)
}

/// The points of reading the rest of this many issues.
pub(crate) const fn rest(issues: i32) -> u64 {
    connection(issues, REST_ISSUE).div_ceil(10)
}

/// The points of a survey.
pub(crate) const SURVEY: u64 = (object(2) + object(1) + connection(250, LABEL)).div_ceil(10);

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
        for (candidates, claimed) in [(1, 1), (CANDIDATES, 1), (CANDIDATES, 20), (1, 150)] {
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
        assert_eq!(SURVEY, real(&query, &json!({})));
    }

    #[test]
    fn rule_11_3_no_request_comes_near_the_limit_of_a_query() {
        let ids = |beside| i32::try_from(most_ids(beside)).unwrap();
        let rests = i32::try_from(MOST_RESTS).unwrap();
        let dearest = [poll(CANDIDATES, ids(true)), poll(1, ids(false)), rest(rests), SURVEY];
        assert!(dearest.iter().all(|points| *points <= MOST), "{dearest:?}");
        // As docs/guide/trackers/linear.md says: enough for a good many agents in one request.
        assert_eq!((ids(true), ids(false), rests), (58, 157, 8));
        assert_eq!((poll(CANDIDATES, 1), poll(1, 1)), (6_193, 540));
    }
}
