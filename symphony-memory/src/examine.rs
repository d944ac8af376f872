//! What `symphony check` tells of a board: how many issues are on it, and what is probably not meant.

use serde_json::Value;
use symphony_core::finding::Finding;
use symphony_core::policy::{self, Standing};
use symphony_core::settings::TrackerSettings;
use symphony_core::{Issue, StateName};

use crate::board::MemoryBoard;
use crate::record::KEYS;

/// How many doubts are listed one by one.
const MAX_LISTED: usize = 20;

/// A state this close to a known one was probably meant to be that.
const MIN_LIKENESS: f64 = 0.6;

/// Looks at every issue of a board.
pub(crate) fn findings(board: &MemoryBoard, settings: &TrackerSettings) -> Vec<Finding> {
    let issues: Vec<Issue> =
        board.issues().filter_map(|issue| board.read(&issue.id)?.ok()).collect();
    let is_active = |issue: &&Issue| policy::standing(issue, settings) == Standing::Active;
    let active = issues.iter().filter(is_active).count();
    let mut found =
        vec![Finding::fine("issues", format!("{} on the board, {active} active", issues.len()))];
    let mut doubts: Vec<Finding> = board
        .unreadable()
        .map(|(id, why)| Finding::doubtful(id.as_str(), format!("cannot be read: {why}")))
        .collect();
    for issue in &issues {
        let texts = doubts_about(issue, board, settings);
        let named = |text| Finding::doubtful(issue.identifier.as_str(), text);
        doubts.extend(texts.into_iter().map(named));
    }
    let more = doubts.len().saturating_sub(MAX_LISTED);
    found.extend(doubts.into_iter().take(MAX_LISTED));
    if more > 0 {
        found.push(Finding::doubtful("board", format!("{more} more are like that")));
    }
    found
}

fn doubts_about(issue: &Issue, board: &MemoryBoard, settings: &TrackerSettings) -> Vec<String> {
    let mut doubts = Vec::new();
    if let Some(meant) = meant_state(&issue.state, board, settings) {
        let (state, meant) = (issue.state.as_str(), meant.as_str());
        doubts.push(format!(
            "is in `{state}`, which is neither active nor terminal; did you mean `{meant}`?"
        ));
    }
    let missing = issue.blocked_by.iter().filter(|blocker| blocker.state.is_none());
    for name in missing.filter_map(|blocker| blocker.identifier.as_ref()) {
        doubts.push(format!("is blocked by {name}, which is not on the board"));
    }
    let written = board.raw_record(&issue.id).and_then(Value::as_object);
    for key in written.into_iter().flat_map(|record| record.keys()) {
        if !KEYS.contains(&key.as_str()) {
            doubts.push(format!("has the key {key:?}, which nothing reads"));
        }
    }
    doubts
}

/// The state that was probably meant by one that is neither known to the settings nor declared.
fn meant_state<'a>(
    state: &StateName,
    board: &MemoryBoard,
    settings: &'a TrackerSettings,
) -> Option<&'a StateName> {
    let (active, terminal) = (&settings.active_states, &settings.terminal_states);
    if active.contains(state) || terminal.contains(state) || board.declares(state) {
        return None;
    }
    let likeness =
        |name: &StateName| strsim::normalized_damerau_levenshtein(state.key(), name.key());
    let known = active.names().iter().chain(terminal.names());
    let closest = known.max_by(|a, b| likeness(a).total_cmp(&likeness(b)));
    closest.filter(|name| likeness(name) >= MIN_LIKENESS)
}
