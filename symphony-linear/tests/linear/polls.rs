//! How many requests reads take, and what they bring (contract 11.1, 11.3, 12.5).

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde_json::json;
use symphony_core::tracker::{
    CandidateQuery, Candidates, Poll, Polled, Purpose, TrackerErrorKind, TrackerExt,
};
use symphony_core::{IssueId, Label, StateKind, StateSet};
use symphony_linear::{Bounds, Bytes, LinearFactory, NoReply, PAGE_SIZE, Reply, Transport};
use symphony_linear_fake::{Fake, FakeFault, FakeIssue};

use crate::harness::{InProcess, settings, tracker, tracker_with, try_build};

pub(crate) fn poll(enough: usize, ids: &[&str]) -> Poll {
    let states = StateSet::new(["Todo", "In Progress"]);
    Poll {
        purpose: Purpose::Candidates,
        candidates: Some(CandidateQuery { states, enough }),
        ids: ids.iter().map(|id| IssueId::from(*id)).collect(),
    }
}

pub(crate) fn refresh(ids: &[&str]) -> Poll {
    Poll { purpose: Purpose::Refresh, candidates: None, ..poll(0, ids) }
}

pub(crate) fn candidates(polled: Polled) -> Candidates {
    polled.candidates.unwrap().unwrap()
}

fn names(list: &Candidates) -> Vec<&str> {
    list.issues.iter().map(|issue| issue.identifier.as_str()).collect()
}

#[tokio::test]
async fn rule_11_1_a_poll_for_candidates_and_claimed_issues_is_one_request() {
    let fake = Fake::new();
    fake.put((1..=30).map(FakeIssue::new));
    let tracker = tracker(&fake);
    let ids: Vec<String> = (1..=20).map(|n| format!("id-{n}")).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    for round in 1..=3 {
        let polled = tracker.poll(&poll(15, &ids)).await;
        assert_eq!((polled.requests, fake.requests()), (1, round));
        assert_eq!(polled.by_id.as_ref().unwrap().found.len(), 20);
        assert_eq!(candidates(polled).issues.len(), 30);
    }
}

#[tokio::test]
async fn rule_11_3_an_issue_is_found_by_name_in_whatever_state() {
    let fake = Fake::new();
    let closed = FakeIssue { state: "Backlog".to_owned(), ..FakeIssue::new(2) };
    let elsewhere = FakeIssue { project: None, ..FakeIssue::new(3) };
    fake.put([FakeIssue::new(1), closed, elsewhere]);
    let tracker = tracker(&fake);
    for (name, wanted) in [
        ("MT-1", Some("MT-1")),
        ("mt-2", Some("MT-2")),
        ("id-2", None),
        ("MT-3", None),
        ("MT-4", None),
        ("nonsense", None),
    ] {
        let found = tracker.find(name).await.unwrap();
        assert_eq!(found.as_ref().map(|issue| issue.identifier.as_str()), wanted, "{name}");
    }
}

#[tokio::test]
async fn rule_11_8_a_server_that_answers_another_issue_found_nothing() {
    let fake = Fake::new();
    let end = json!({ "hasNextPage": false, "endCursor": null });
    let node = json!({
        "id": "id-2", "identifier": "MT-2", "title": "Other", "project": { "slugId": "abc123" },
        "description": null, "priority": 0, "branchName": null, "url": null, "createdAt": null,
        "updatedAt": null, "archivedAt": null, "trashed": null, "assignee": null,
        "team": { "id": "t", "key": "MT" },
        "state": { "id": "s", "name": "Todo", "type": "unstarted" },
        "labels": { "nodes": [], "pageInfo": end },
        "inverseRelations": { "nodes": [], "pageInfo": end },
    });
    let page = json!({ "nodes": [node], "pageInfo": end });
    let body = json!({ "data": { "claimed": page } }).to_string();
    fake.fail(Some(FakeFault::answer(200, &body)));
    let tracker = tracker(&fake);
    assert!(tracker.find("MT-2").await.unwrap().is_some());
    assert_eq!(tracker.find("MT-1").await.unwrap(), None);
}

#[tokio::test]
async fn rule_11_3_an_issue_is_read_in_full() {
    let fake = Fake::new();
    fake.put([FakeIssue::new(1)]);
    let issue = FakeIssue {
        title: "Mend the gate".to_owned(),
        description: Some("It squeaks.".to_owned()),
        priority: 2,
        state: "In Progress".to_owned(),
        assignee: Some("ada@example.com".to_owned()),
        labels: vec!["Bug".to_owned(), "UI ".to_owned()],
        blocked_by: vec!["id-1".to_owned()],
        related: vec!["id-1".to_owned()],
        ..FakeIssue::new(2)
    };
    fake.put([issue]);
    let answer = tracker(&fake).fetch_issues_by_ids(&["id-2".into()]).await.unwrap();
    let [issue] = &answer.found[..] else { panic!("{answer:?}") };
    assert_eq!(issue.identifier.as_str(), "MT-2");
    assert_eq!(issue.title, "Mend the gate");
    assert_eq!(issue.description.as_deref(), Some("It squeaks."));
    assert_eq!(issue.priority, Some(2));
    assert_eq!((issue.state.as_str(), issue.state_kind), ("In Progress", Some(StateKind::Started)));
    assert_eq!(issue.branch_name.as_deref(), Some("mt-2-branch"));
    assert_eq!(issue.url.as_deref(), Some("https://linear.app/company/issue/MT-2"));
    assert_eq!(issue.assignee_id.as_deref(), Some("user-ada"));
    assert_eq!(issue.labels, Label::list(["bug", "ui"]));
    assert_eq!(issue.created_at.unwrap().to_string(), "2026-02-18T12:00:00Z");
    assert!(issue.updated_at.is_some() && issue.dispatchable);
    assert_eq!(issue.native_ref.as_ref().unwrap()["team_id"], "team-MT");
    // What is related in another way does not block.
    let [blocker] = &issue.blocked_by[..] else { panic!("{:?}", issue.blocked_by) };
    assert_eq!(blocker.identifier.as_ref().unwrap().as_str(), "MT-1");
    assert_eq!(blocker.state_kind, Some(StateKind::Unstarted));
}

#[tokio::test]
async fn rule_5_2_a_blocker_in_the_trash_blocks_nothing() {
    let fake = Fake::new();
    fake.put([
        FakeIssue { trashed: true, ..FakeIssue::new(1) },
        FakeIssue { blocked_by: vec!["id-1".to_owned()], ..FakeIssue::new(2) },
    ]);
    let answer = tracker(&fake).fetch_issues_by_ids(&["id-2".into()]).await.unwrap();
    assert!(answer.found[0].blocked_by.is_empty());
}

#[tokio::test]
async fn rule_11_1_pages_are_read_until_they_cannot_matter() {
    let fake = Fake::new();
    let urgent = |n| FakeIssue { priority: if n > 250 { 1 } else { 3 }, ..FakeIssue::new(n) };
    let created = |n: usize| format!("2026-02-18T{:02}:{:02}:00Z", n / 60, n % 60);
    fake.put((1..=300).map(|n| FakeIssue { created_at: created(n), ..urgent(n) }));
    let tracker = tracker(&fake);
    let few = tracker.poll(&poll(15, &[])).await;
    assert_eq!(few.requests, 1);
    let few = candidates(few);
    assert!(few.more && few.issues.len() >= 15);
    assert!(names(&few).contains(&"MT-251"), "the urgent ones come first: {:?}", names(&few));
    // A caller that wants more gets more, and one that wants all gets all.
    let many = tracker.poll(&poll(150, &[])).await;
    assert_eq!(many.requests, 2);
    assert!(candidates(many).issues.len() >= 150);
    let all = tracker.poll(&poll(usize::MAX, &[])).await;
    assert_eq!(all.requests, 3);
    let all = candidates(all);
    assert_eq!((all.issues.len(), all.more), (300, false));
}

#[tokio::test]
async fn rule_11_1_a_server_that_sorts_the_other_way_is_read_to_its_end_and_then_asked_rightly() {
    let fake = Fake::new();
    fake.set_urgent_last(true);
    let priority = |n: usize| u8::try_from(1 + n % 4).unwrap();
    fake.put((1..=250).map(|n| FakeIssue { priority: priority(n), ..FakeIssue::new(n) }));
    let tracker = tracker(&fake);
    let first = tracker.poll(&poll(10, &[])).await;
    assert_eq!(first.requests, 3);
    let first = candidates(first);
    assert_eq!((first.issues.len(), first.more), (250, false), "pages of one list have one order");
    let second = tracker.poll(&poll(10, &[])).await;
    assert_eq!(second.requests, 1);
    let second = candidates(second);
    assert!(second.more && second.issues.iter().all(|issue| issue.priority <= Some(2)));
}

#[tokio::test]
async fn rule_11_1_a_list_of_one_priority_proves_no_order_and_is_read_to_its_end() {
    let fake = Fake::new();
    let created = |n: usize| format!("2026-02-18T{:02}:{:02}:00Z", n / 60, n % 60);
    fake.put(
        (1..=PAGE_SIZE + 1).map(|n| FakeIssue { created_at: created(n), ..FakeIssue::new(n) }),
    );
    // For all that the first page shows, an urgent one could be on the second.
    fake.set_urgent_last(true);
    fake.change(|world| world.issues[PAGE_SIZE].priority = 1);
    fake.change(|world| world.issues[..PAGE_SIZE].iter_mut().for_each(|issue| issue.priority = 4));
    let polled = tracker(&fake).poll(&poll(10, &[])).await;
    assert_eq!(polled.requests, 2);
    let list = candidates(polled);
    assert_eq!(list.issues.len(), PAGE_SIZE + 1);
    assert!(list.issues.iter().any(|issue| issue.priority == Some(1)));
}

#[tokio::test]
async fn rule_11_1_issues_without_a_priority_and_urgent_ones_alone_prove_no_order() {
    for first in [[4, 0], [1, 0], [1, 1]] {
        let fake = Fake::new();
        fake.set_urgent_last(true);
        let some = |n: usize| FakeIssue { priority: first[n % 2], ..FakeIssue::new(n) };
        fake.put((1..=PAGE_SIZE + 20).map(some));
        let tracker = tracker(&fake);
        candidates(tracker.poll(&poll(10, &[])).await);
        // Whatever that list looked like, an urgent issue behind many others is found.
        fake.change(|world| world.issues.iter_mut().for_each(|issue| issue.priority = 4));
        fake.change(|world| world.issues[3].priority = 1);
        let created = |n: usize| format!("2026-02-18T{:02}:{:02}:00Z", n / 60, n % 60);
        fake.change(|world| {
            (0..).zip(&mut world.issues).for_each(|(n, issue)| issue.created_at = created(n));
        });
        let list = candidates(tracker.poll(&poll(10, &[])).await);
        assert!(names(&list).contains(&"MT-4"), "{first:?}: {} without it", list.issues.len());
    }
}

#[tokio::test]
async fn rule_11_1_the_order_is_turned_although_issues_without_a_priority_come_last() {
    let fake = Fake::new();
    fake.set_urgent_last(true);
    let priority = |n: usize| if n > PAGE_SIZE / 2 { 0 } else { u8::try_from(1 + n % 4).unwrap() };
    fake.put((1..=3 * PAGE_SIZE).map(|n| FakeIssue { priority: priority(n), ..FakeIssue::new(n) }));
    let tracker = tracker(&fake);
    assert!(!candidates(tracker.poll(&poll(10, &[])).await).more);
    let second = tracker.poll(&poll(10, &[])).await;
    assert_eq!(second.requests, 1);
    assert!(candidates(second).more);
}

#[tokio::test]
async fn rule_11_3_labels_and_relations_beyond_one_page_are_read_too() {
    let fake = Fake::new();
    let labels: Vec<String> = (0..40).map(|n| format!("label-{n}")).collect();
    let blockers: Vec<String> = (2..=30).map(|n| format!("id-{n}")).collect();
    fake.put([FakeIssue { labels, ..FakeIssue::new(1) }]);
    fake.put((2..=30).map(FakeIssue::new));
    fake.put([FakeIssue { blocked_by: blockers, ..FakeIssue::new(31) }]);
    let polled = tracker(&fake).poll(&poll(50, &["id-31"])).await;
    // One for the poll, one for the rest of each part.
    assert_eq!(polled.requests, 3);
    assert_eq!(polled.by_id.as_ref().unwrap().found[0].blocked_by.len(), 29);
    let list = candidates(polled);
    let labelled = list.issues.iter().find(|issue| issue.identifier.as_str() == "MT-1").unwrap();
    assert_eq!(labelled.labels.len(), 40);
}

#[tokio::test]
async fn rule_11_3_an_issue_with_more_labels_than_can_be_read_is_unreadable_and_not_cut() {
    let fake = Fake::new();
    let labels: Vec<String> = (0..300).map(|n| format!("label-{n}")).collect();
    fake.put([FakeIssue { labels, ..FakeIssue::new(1) }, FakeIssue::new(2)]);
    let polled = tracker(&fake).poll(&poll(50, &["id-1", "id-2"])).await;
    let by_id = polled.by_id.as_ref().unwrap();
    assert_eq!((by_id.found.len(), by_id.unreadable.len()), (1, 1));
    assert!(by_id.unreadable[0].message.contains("250 labels"), "{by_id:?}");
    assert_eq!(names(&candidates(polled)), ["MT-2"]);
}

#[tokio::test]
async fn rule_11_1_more_ids_than_fit_into_a_request_are_read_in_several() {
    let fake = Fake::new();
    fake.put((1..=400).map(FakeIssue::new));
    let ids: Vec<String> = (1..=400).map(|n| format!("id-{n}")).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    let polled = tracker(&fake).poll(&refresh(&ids)).await;
    assert_eq!(polled.by_id.unwrap().found.len(), 400);
    assert_eq!(polled.requests, 3);
    assert!(fake.made().iter().all(|made| made.points <= 10_000));
}

#[tokio::test]
async fn rule_11_3_the_assignee_is_me_an_id_or_an_email_and_costs_no_request() {
    let fake = Fake::new();
    let assigned =
        |n, email: &str| FakeIssue { assignee: Some(email.to_owned()), ..FakeIssue::new(n) };
    fake.put([assigned(1, "robot@example.com"), assigned(2, "ada@example.com"), FakeIssue::new(3)]);
    for (who, expected) in
        [("me", "MT-1"), ("@me", "MT-1"), ("user-ada", "MT-2"), ("ADA@example.com", "MT-2")]
    {
        let tracker = tracker_with(&fake, &json!({ "assignee": who }));
        let polled = tracker.poll(&poll(10, &[])).await;
        assert_eq!(polled.requests, 1, "{who}");
        let list = candidates(polled);
        assert_eq!(list.issues.len(), 3, "others are seen, so that people can be told why");
        let ours: Vec<_> = list.issues.iter().filter(|issue| issue.dispatchable).collect();
        assert_eq!(ours.len(), 1, "{who}");
        assert_eq!(ours[0].identifier.as_str(), expected);
    }
}

#[tokio::test]
async fn rule_1_3_a_record_without_an_id_makes_a_read_by_id_fail_and_none_look_gone() {
    let fake = Fake::new();
    fake.put([FakeIssue::new(1), FakeIssue::new(2)]);
    let tracker = tracker(&fake);
    fake.change(|world| world.issues[0].spoiled.push("identifier".to_owned()));
    let by_id = tracker.fetch_issues_by_ids(&["id-1".into(), "id-2".into()]).await.unwrap();
    assert_eq!((by_id.found.len(), by_id.unreadable[0].id.as_str()), (1, "id-1"));
    assert!(by_id.unreadable[0].message.contains("identifier"), "{by_id:?}");
}

#[tokio::test]
async fn rule_1_3_a_record_that_came_without_a_part_is_unreadable_and_not_another_issue() {
    let fake = Fake::new();
    fake.put([FakeIssue { labels: vec!["agent".to_owned()], ..FakeIssue::new(1) }]);
    for part in ["labels", "inverseRelations", "team"] {
        fake.change(|world| world.issues[0].spoiled = vec![part.to_owned()]);
        let tracker = tracker_with(&fake, &json!({ "team_key": "MT" }));
        let by_id = tracker.fetch_issues_by_ids(&["id-1".into()]).await.unwrap();
        assert_eq!((by_id.found.len(), by_id.unreadable.len()), (0, 1), "{part}: {by_id:?}");
        assert!(candidates(tracker.poll(&poll(10, &[])).await).issues.is_empty(), "{part}");
    }
}

#[tokio::test]
async fn rule_5_2_a_blocker_that_cannot_be_seen_is_not_done() {
    let relation = |kind: &str| json!({ "type": kind, "issue": null });
    let record = json!({
        "id": "id-1", "identifier": "MT-1", "title": "T", "description": null, "priority": 0,
        "branchName": null, "url": null, "createdAt": null, "updatedAt": null,
        "archivedAt": null, "trashed": null, "assignee": null,
        "project": { "slugId": "abc123" }, "team": { "id": "t", "key": "MT" },
        "state": { "name": "Todo", "type": "unstarted" }, "labels": { "nodes": [] },
        "inverseRelations": { "nodes": [relation("blocks"), relation("related")] },
    });
    let info = json!({ "hasNextPage": false, "endCursor": null });
    let page = json!({ "nodes": [record], "pageInfo": info });
    let body = json!({ "data": { "claimed": page } }).to_string();
    let fake = Fake::new();
    fake.fail(Some(FakeFault::answer(200, &body)));
    let answer = tracker(&fake).fetch_issues_by_ids(&["id-1".into()]).await.unwrap();
    assert_eq!(answer.found[0].blocked_by.len(), 1, "{answer:?}");
    assert_eq!(answer.found[0].blocked_by[0].state, None);
}

/// A Linear that takes its time.
#[derive(Debug)]
struct Slow(InProcess);

#[async_trait]
impl Transport for Slow {
    async fn post(&self, body: Bytes, bounds: Bounds) -> Result<Reply, NoReply> {
        tokio::time::sleep(Duration::from_secs(12)).await;
        self.0.post(body, bounds).await
    }
}

#[tokio::test(start_paused = true)]
async fn rule_8_3_claimed_issues_are_not_lost_with_slow_pages_of_candidates() {
    let fake = Fake::new();
    fake.put((1..=3 * PAGE_SIZE).map(FakeIssue::new));
    let mut settings = settings(&json!({}));
    settings.tracker.timeout = Duration::from_secs(30);
    let slow = fake.clone();
    let factory =
        LinearFactory::connecting(move |_, _| Ok(Arc::new(Slow(InProcess(slow.clone())))));
    let tracker = try_build(&factory, &settings, &[]).unwrap().tracker;
    // The service gives the whole read as long as one request may take.
    let poll = poll(usize::MAX, &["id-1"]);
    let polled = tokio::time::timeout(settings.tracker.timeout, tracker.poll(&poll)).await;
    let polled = polled.expect("it ends by itself, with what is known");
    assert_eq!(polled.by_id.unwrap().found.len(), 1);
    let error = polled.candidates.unwrap().unwrap_err();
    assert_eq!(error.kind, TrackerErrorKind::Request);
    assert_eq!(polled.requests, 3, "what was begun is counted");
}
