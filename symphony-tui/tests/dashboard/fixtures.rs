//! Services in this and that state, as the API would tell of them.

use std::sync::Arc;

use serde_json::{Value, json};
use symphony_api::{IssueStatus, Status};
use symphony_core::time::Wall;
use symphony_tui::{App, Link, Owner, SourceView};

/// The time of all fixtures.
pub(crate) const NOW: &str = "2026-03-02T09:30:00Z";

/// A title that wants to be more than a title: escape sequences, marks that turn the reading
/// direction, lines, wide and combining characters, letters that read from right to left. As the
/// API tells it, it is plain already.
pub(crate) const HOSTILE: &str = "\u{1b}[2J\u{1b}]0;owned\u{7}\u{202e}evil\r\n日本語 e\u{301}\u{301} שלום 👩\u{200d}🚀 \u{9b}31m";

pub(crate) fn running(number: u32, phase: &str, turns: u32, last: &str, title: &str) -> Value {
    json!({
        "issue_id": format!("id-{number}"), "issue_identifier": format!("MT-{number}"),
        "title": title, "issue_url": format!("https://linear.app/x/issue/MT-{number}"),
        "state": "In Progress", "session_id": format!("thread{number}-{turns}"),
        "turn_count": turns, "max_turns": 20, "phase": phase, "stopping": null,
        "stop_overdue": false, "run": format!("3.{number}"), "attempt": null, "host": "local",
        "workspace_key": format!("MT-{number}"), "pid": 4000 + number,
        "last_event": "notification", "last_message": last,
        "started_at": "2026-03-02T09:27:48Z", "last_event_at": "2026-03-02T09:29:55Z",
        "tokens": tokens(1_000 * u64::from(number) * u64::from(turns)),
    })
}

fn tokens(total: u64) -> Value {
    json!({
        "input_tokens": total / 5 * 4, "output_tokens": total / 5, "total_tokens": total,
        "cached_input_tokens": total / 2, "reasoning_output_tokens": total / 10,
    })
}

fn waiting(number: u32, attempt: u32, due: Option<&str>, error: Option<&str>) -> Value {
    json!({
        "issue_id": format!("id-{number}"), "issue_identifier": format!("MT-{number}"),
        "title": "Tidy the cellar", "issue_url": null, "state": "Todo", "attempt": attempt,
        "due_at": due, "error": error, "unchanged_ends": 0,
    })
}

fn blocked(number: u32, question: Option<&str>) -> Value {
    json!({
        "issue_id": format!("id-{number}"), "issue_identifier": format!("MT-{number}"),
        "title": "Choose a colour", "issue_url": null, "state": "In Progress",
        "reason": if question.is_some() { "question" } else { "operator" },
        "question": question, "since": "2026-03-02T08:12:00Z",
    })
}

fn unstarted(number: u32, reason: &str, message: &str) -> Value {
    json!({
        "issue_id": format!("id-{number}"), "issue_identifier": format!("MT-{number}"),
        "title": "Oil the hinges", "state": "Todo", "is_listed_elsewhere": false,
        "reason": reason, "message": message, "until": null,
    })
}

/// A candidate that another list shows.
fn listed_elsewhere(number: u32, reason: &str, message: &str) -> Value {
    let mut row = unstarted(number, reason, message);
    row["is_listed_elsewhere"] = json!(true);
    row
}

/// Nothing to do, and nothing wrong.
fn empty() -> Value {
    let mut totals = tokens(0);
    let more = json!({
        "seconds_running": 0.0, "runs_started": 0, "runs_done": 0, "runs_succeeded": 0, "runs_out_of_turns": 0,
        "runs_failed": 0, "runs_cancelled": 0, "runs_input_required": 0,
    });
    totals.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let job = |job: &str, due: &str| {
        json!({"job": job, "in_progress": false, "due_at": due,
               "last_run_at": "2026-03-02T09:29:42Z", "error": null})
    };
    json!({
        "generated_at": NOW,
        "counts": {"running": 0, "retrying": 0, "blocked": 0, "checking": 0, "cleaning": 0,
                   "candidates": 0},
        "codex_totals": totals, "rate_limits": null,
        "verdict": {"code": "no_candidates", "message": "there are no candidates"},
        "slots": {"used": 0, "limit": 10, "by_state": {}, "by_host": {}},
        "holds": [],
        "polling": {
            "mode": "active", "quiet": false,
            "jobs": [job("candidates", "2026-03-02T09:30:12Z"), job("refresh", "2026-03-02T09:30:12Z"),
                     job("sweep", "2026-03-02T10:14:00Z")],
            "requests_today": {"candidates": 143, "check": 12}, "projected_today": 2_880,
            "budget": null,
        },
        "candidates": {"read_at": "2026-03-02T09:29:42Z", "total": 0, "more": false,
                       "reasons": {}, "first": []},
        "checking": [], "cleaning": [], "paused": false, "shutting_down": false, "problems": [],
        "warnings": [],
        "service": {"workflow": "/srv/door/WORKFLOW.md", "tracker": "linear", "scope": "linear project door"},
        "running": [], "retrying": [], "blocked": [],
    })
}

/// A service with its hands full.
fn busy() -> Value {
    let mut state = empty();
    state["running"] = json!([
        running(1, "streaming_turn", 3, "cargo test: 41 passed", "Fix the door"),
        running(2, "streaming_turn", 1, "reading src/window.rs", "Paint the window"),
        running(3, "preparing_workspace", 0, "", "Sweep the chimney"),
        running(4, "streaming_turn", 12, "日本語のメッセージ、とても長い", "日本語の題名"),
    ]);
    state["running"][2]["last_event"] = Value::Null;
    state["running"][3]["stopping"] = json!("operator");
    state["retrying"] = json!([
        waiting(5, 2, Some("2026-03-02T09:30:18Z"), Some("process_exit: Codex ended with code 1")),
        waiting(6, 1, Some("2026-03-02T09:30:01Z"), None),
        waiting(7, 4, None, Some("no available orchestrator slots")),
    ]);
    state["blocked"] = json!([blocked(8, Some("Which green: the old one, or that of the door?"))]);
    state["candidates"] = json!({
        "read_at": "2026-03-02T09:29:42Z", "total": 9, "more": false,
        "reasons": {"blocked_by": 1, "missing_label": 1, "no_slot": 1, "waiting_until": 2},
        "unclaimed": {"blocked_by": 1, "missing_label": 1, "no_slot": 1},
        "first": [
            unstarted(11, "blocked_by", "blocked by MT-1"),
            unstarted(12, "missing_label", "lacks the label agent"),
            unstarted(13, "no_slot", "every slot is taken"),
            listed_elsewhere(5, "waiting_until", "waits for its next attempt"),
        ],
    });
    state["counts"] = json!({"running": 4, "retrying": 3, "blocked": 1, "checking": 1,
                             "cleaning": 0, "candidates": 9});
    state["slots"] = json!({"used": 4, "limit": 10, "by_state": {"in progress": 4}, "by_host": {}});
    state["verdict"] = json!({"code": "starting", "message": "something is about to start"});
    state["rate_limits"] = json!({"limit_id": "codex", "plan": "pro", "windows": [
        {"name": "primary", "used_percent": 43.0, "window_minutes": 300,
         "resets_at": "2026-03-02T11:40:00Z"},
        {"name": "secondary", "used_percent": 8.0, "window_minutes": 10_080, "resets_at": null},
    ]});
    state["polling"]["budget"] = json!({
        "requests_left": 2_310, "requests_limit": 2_500, "points_left": null, "points_limit": null,
        "day_left": null, "resets_at": null, "held_ms": null, "waiting": 0, "tools": {},
    });
    let totals = &mut state["codex_totals"];
    for (name, value) in [
        ("input_tokens", json!(1_010_000)),
        ("output_tokens", json!(224_500)),
        ("total_tokens", json!(1_234_500)),
        ("seconds_running", json!(7_993.4)),
        ("runs_started", json!(31)),
        ("runs_done", json!(21)),
        ("runs_succeeded", json!(2)),
        ("runs_out_of_turns", json!(1)),
        ("runs_failed", json!(2)),
        ("runs_input_required", json!(1)),
    ] {
        totals[name] = value;
    }
    state
}

/// A service that everything has happened to.
fn problems() -> Value {
    let mut state = busy();
    state["problems"] = json!([{
        "code": "invalid_setting", "path": "agent.max_turns", "line": 6, "column": 3,
        "message": "must be a positive integer, got 0", "help": "set it to 1 or more",
    }]);
    state["warnings"] = json!([{
        "code": "unknown_key", "path": "agent.max_concurent_agents", "line": 9, "column": 3,
        "message": "is not a known key", "help": "did you mean max_concurrent_agents?",
    }]);
    state["polling"]["jobs"][0]["error"] =
        json!("tracker_request: the tracker did not answer within 30000 ms");
    state["polling"]["budget"]["held_ms"] = json!(41_200);
    state["polling"]["webhook"] = json!({
        "last_at": "2026-11-17T09:10:00Z", "received": 12, "missed": 1, "healthy": false, "waiting": 0,
    });
    state["holds"] = json!([{"agent": "codex", "until": "2026-03-02T11:40:00Z", "probe": null,
                             "error": "usage_limit: you have reached your limit"}]);
    state["rate_limits"]["windows"][0]["used_percent"] = json!(100.0);
    state["running"][3]["stop_overdue"] = json!(true);
    state["paused"] = json!(true);
    state["verdict"] = json!({"code": "invalid_workflow",
                              "message": "the workflow file cannot be used"});
    state
}

/// A service at which nothing is wrong, and whose workflow file has two warnings.
fn warnings() -> Value {
    let mut state = empty();
    let warning = |path: &str, line: u32, help: Value| {
        json!({"code": "unknown_key", "path": path, "line": line, "column": 3,
               "message": "is unknown and ignored", "help": help})
    };
    let help = json!("did you mean `agent.max_turns`?");
    state["warnings"] =
        json!([warning("agent.maxTurns", 9, help), warning("server.colour", 12, Value::Null)]);
    state
}

/// Blocked ones of both kinds, one with much to ask.
fn questions() -> Value {
    let mut state = empty();
    let long = "May I delete the folder `old`? It holds 12 files that nothing refers to any more, \
                but one of them was edited yesterday, so somebody may still need it.";
    state["blocked"] = json!([blocked(8, Some(long)), blocked(9, None)]);
    state["counts"]["blocked"] = json!(2);
    state
}

/// Foreign text wherever there is any, as bad as it gets, names included.
fn hostile(plain: &str) -> Value {
    let mut state = busy();
    for list in ["running", "retrying", "blocked"] {
        let row = &mut state[list][0];
        row["title"] = json!(plain);
        row["state"] = json!(plain);
        // Names are keys: they come as the tracker has them.
        row["issue_identifier"] = json!(HOSTILE);
    }
    state["running"][0]["last_message"] = json!(plain);
    state["retrying"][0]["error"] = json!(plain);
    state["blocked"][0]["question"] = json!(plain);
    let first = &mut state["candidates"]["first"][0];
    first["issue_identifier"] = json!(HOSTILE);
    first["message"] = json!(plain);
    state
}

pub(crate) fn status(name: &str) -> Status {
    let state = match name {
        "empty" => empty(),
        "busy" => busy(),
        "problems" => problems(),
        "questions" => questions(),
        "warnings" => warnings(),
        "rogue" => hostile(HOSTILE),
        _ => hostile(&symphony_core::plain(HOSTILE, 200)),
    };
    serde_json::from_value(state).unwrap()
}

pub(crate) fn seen(status: Status) -> SourceView {
    SourceView {
        status: Some(Arc::new(status)),
        link: Link::Live,
        clock: Wall::parse(NOW).unwrap(),
    }
}

/// A dashboard that has seen this, and what was used in the minutes before.
pub(crate) fn app(name: &str) -> App {
    let mut app = App::new(Owner::Service).at(Some("http://127.0.0.1:4000/".to_owned()));
    let status = status(name);
    let total = status.summary.codex_totals.tokens.total_tokens;
    for (ago, left) in [(90, 9), (70, 8), (50, 5), (30, 4), (20, 1)] {
        let mut before = status.clone();
        before.summary.codex_totals.tokens.total_tokens = total - total / 100 * left;
        let clock = Wall::parse(NOW).unwrap() - std::time::Duration::from_secs(ago);
        app.update(SourceView { clock, ..seen(before) });
    }
    app.update(seen(status));
    app
}

/// One issue, with a past.
pub(crate) fn issue() -> IssueStatus {
    let event = |at: &str, event: &str, message: &str| json!({"at": at, "event": event, "message": message, "run": "3.1"});
    let run = running(1, "streaming_turn", 3, "cargo test: 41 passed", "Fix the door");
    serde_json::from_value(json!({
        "issue_identifier": "MT-1", "issue_id": "id-1", "status": "running",
        "title": "Fix the door", "issue_url": "https://linear.app/x/issue/MT-1",
        "workspace": {"path": "/srv/symphony/MT-1"},
        "attempts": {"restart_count": 1, "current_retry_attempt": 1, "runs": [
            {"run": "2.7", "attempt": null, "started_at": "2026-03-02T09:20:00Z",
             "ended_at": "2026-03-02T09:26:30Z", "outcome": "failed",
             "error": "process_exit: Codex ended with code 1"},
            {"run": "3.1", "attempt": 1, "started_at": "2026-03-02T09:27:48Z",
             "ended_at": null, "outcome": null, "error": null},
        ]},
        "running": run, "retry": null, "blocked": null, "checking": null, "cleaning": null,
        "unstarted": null, "logs": {"codex_session_logs": []},
        "recent_events": [
            event("2026-03-02T09:20:00Z", "run_started", "in Todo"),
            event("2026-03-02T09:26:30Z", "run_failed", "after 390.0 s: process_exit: Codex ended with code 1"),
            event("2026-03-02T09:26:30Z", "waiting", "for attempt 1, after process_exit"),
            event("2026-03-02T09:27:48Z", "run_started", "attempt 1, in In Progress"),
            event("2026-03-02T09:29:10Z", "turn_started", "turn 3 of at most 20"),
            event("2026-03-02T09:29:55Z", "notification", "cargo test: 41 passed"),
        ],
        "last_error": "process_exit: Codex ended with code 1",
        "tracked": {"state": "In Progress", "priority": 2},
    }))
    .unwrap()
}

/// One issue that has not been started.
pub(crate) fn untouched() -> IssueStatus {
    serde_json::from_value(json!({
        "issue_identifier": "MT-11", "issue_id": "id-11", "status": "candidate",
        "title": "Oil the hinges", "issue_url": null, "workspace": null,
        "attempts": {"restart_count": 0, "current_retry_attempt": null, "runs": []},
        "running": null, "retry": null, "blocked": null, "checking": null, "cleaning": null,
        "unstarted": unstarted(11, "blocked_by", "blocked by MT-1"),
        "logs": {"codex_session_logs": []}, "recent_events": [], "last_error": null,
        "tracked": {"state": "Todo"},
    }))
    .unwrap()
}

/// What a log says.
pub(crate) fn log() -> Vec<String> {
    let lines = [
        "09:29:42 polled candidates=9",
        "09:29:43 MT-3 run started run=3.3",
        "09:29:55 WARN MT-5 run failed after 8.2 s: process_exit: Codex ended with code 1 run=3.5",
    ];
    lines.map(str::to_owned).to_vec()
}
