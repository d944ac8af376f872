//! What is ours: a project, a team, its states (contract 11.3).

use serde_json::json;
use symphony_core::tracker::{TrackerErrorKind, TrackerExt};
use symphony_linear_fake::{Fake, FakeIssue};

use crate::harness::{factory, settings, tracker, tracker_with, try_build};
use crate::polls::{candidates, poll, refresh};

#[tokio::test]
async fn rule_11_3_moved_and_trashed_issues_are_out_of_scope_and_archived_ones_are_over() {
    let fake = Fake::new();
    let archived = Some("2026-02-18T13:00:00Z".to_owned());
    fake.put([
        FakeIssue::new(1),
        FakeIssue { project: Some("def456".to_owned()), ..FakeIssue::new(2) },
        FakeIssue { project: None, ..FakeIssue::new(3) },
        FakeIssue { trashed: true, archived_at: archived.clone(), ..FakeIssue::new(4) },
        FakeIssue { archived_at: archived.clone(), ..FakeIssue::new(5) },
        FakeIssue { archived_at: archived, state: "Done".to_owned(), ..FakeIssue::new(6) },
    ]);
    let ids = ["id-1", "id-2", "id-3", "id-4", "id-5", "id-6", "id-7"];
    let polled = tracker(&fake).poll(&refresh(&ids)).await;
    let by_id = polled.by_id.unwrap();
    let found: Vec<_> = by_id.found.iter().map(|issue| issue.id.as_str()).collect();
    // The last one is to be cleaned up, so it must be seen.
    assert_eq!(found, ["id-1", "id-6"]);
    assert!(by_id.unreadable.is_empty());
}

#[tokio::test]
async fn rule_11_3_a_project_is_named_by_its_slug_as_the_address_has_it_or_by_its_end() {
    let fake = Fake::new();
    fake.put([FakeIssue::new(1)]);
    for slug in ["abc123", "symphony-abc123", "my-long-name-abc123"] {
        let tracker = tracker_with(&fake, &json!({ "project_slug": slug }));
        assert_eq!(candidates(tracker.poll(&poll(5, &[])).await).issues.len(), 1, "{slug}");
        let by_id = tracker.fetch_issues_by_ids(&["id-1".into()]).await.unwrap();
        assert_eq!(by_id.found.len(), 1, "{slug}");
    }
}

#[tokio::test]
async fn rule_11_3_a_team_is_named_by_its_key_and_narrows_a_project() {
    let fake = Fake::new();
    let other = FakeIssue { team: "XX".to_owned(), ..FakeIssue::new(2) };
    fake.put([FakeIssue::new(1), other, FakeIssue { project: None, ..FakeIssue::new(3) }]);
    let found = async |provider| {
        let tracker = tracker_with(&fake, &provider);
        let polled = tracker.poll(&poll(5, &["id-1", "id-2", "id-3"])).await;
        let by_id = polled.by_id.as_ref().unwrap().found.len();
        (candidates(polled).issues.len(), by_id)
    };
    assert_eq!(found(json!({ "project_slug": null, "team_key": "mt" })).await, (2, 2));
    assert_eq!(found(json!({ "team_key": "MT" })).await, (1, 1));
    assert_eq!(found(json!({})).await, (2, 2));
}

#[tokio::test]
async fn rule_11_3_a_project_that_does_not_exist_is_an_error_until_it_does() {
    let fake = Fake::new();
    fake.put([FakeIssue { project: Some("new777".to_owned()), ..FakeIssue::new(1) }]);
    let tracker = tracker_with(&fake, &json!({ "project_slug": "new777" }));
    for _ in 0..2 {
        let polled = tracker.poll(&poll(5, &["id-1"])).await;
        let error = polled.candidates.unwrap().unwrap_err();
        assert_eq!(error.kind, TrackerErrorKind::InvalidConfig);
        let message = "tracker.provider.project_slug: Linear has no project \"new777\" that this \
                       key can see";
        assert_eq!(error.message, message);
        assert!(polled.by_id.is_ok(), "what runs is looked after all the same");
    }
    let mt = vec!["MT".to_owned()];
    fake.change(|world| world.projects.push(("new777".to_owned(), "New".to_owned(), mt)));
    assert_eq!(candidates(tracker.poll(&poll(5, &[])).await).issues.len(), 1);
}

#[tokio::test]
async fn rule_1_2_state_names_are_found_in_any_case_without_a_request_of_their_own() {
    let fake = Fake::new();
    fake.put([FakeIssue::new(1), FakeIssue { state: "Done".to_owned(), ..FakeIssue::new(2) }]);
    let mut settings = settings(&json!({}));
    settings.tracker.active_states = symphony_core::StateSet::new(["tODO", " in progress "]);
    let tracker = try_build(&factory(&fake), &settings, &[]).unwrap().tracker;
    let mut poll = poll(5, &[]);
    poll.candidates.as_mut().unwrap().states = settings.tracker.active_states;
    let polled = tracker.poll(&poll).await;
    assert_eq!(polled.requests, 1);
    let list = candidates(polled);
    assert_eq!(list.issues.len(), 1);
    assert_eq!(list.issues[0].state.as_str(), "Todo");
}

#[tokio::test]
async fn rule_11_3_whatever_is_over_stays_ours_in_the_archive() {
    let fake = Fake::new();
    // Linear archives duplicates of itself, as it does what is completed or canceled.
    fake.change(|world| {
        world.teams[0].states.push(("Duplicate".to_owned(), "duplicate".to_owned()));
    });
    let over = |n, state: &str| FakeIssue {
        archived_at: Some("2026-02-18T13:00:00Z".to_owned()),
        state: state.to_owned(),
        ..FakeIssue::new(n)
    };
    fake.put([over(1, "Done"), over(2, "Canceled"), over(3, "Duplicate")]);
    let by_id = tracker(&fake).poll(&refresh(&["id-1", "id-2", "id-3"])).await.by_id.unwrap();
    assert_eq!(by_id.found.len(), 3, "{by_id:?}");
}
