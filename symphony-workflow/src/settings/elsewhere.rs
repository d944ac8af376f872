//! What other implementations call things: keys that are not ours, and not slips of ours either
//! (contract 2.3).

/// What there is here in the place of a key of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counterpart {
    /// Our key of the same meaning.
    Key(&'static str),
    /// What to know where no key has that meaning.
    Absent(&'static str),
}

use Counterpart::{Absent, Key};

const NO_CLONE: Counterpart =
    Absent("nothing is cloned unless a hook does it: see `hooks.after_create`");
const ONE_AGENT: Counterpart =
    Absent("one agent works on all issues of a file: `agent.kind` names it");
const NO_TURN_HOOK: Counterpart =
    Absent("hooks run around a run, not around each of its turns: see `hooks.before_run`");
const NO_RUN_LIMIT: Counterpart = Absent(
    "a run is limited by `agent.max_turns`, and each turn by `agent.turn_timeout_ms`, in milliseconds",
);
const NO_ATTEMPT_LIMIT: Counterpart = Absent(
    "an issue is tried again while it is active, after waits of up to `agent.max_retry_backoff_ms`",
);
const NO_TOKEN_LIMIT: Counterpart = Absent("tokens are counted and shown, and not limited");
const NO_CONTAINER: Counterpart = Absent(
    "agents run on this machine as its user: see the threat model for how to set them apart",
);
const NO_FILTER: Counterpart =
    Absent("issues are chosen by `tracker.active_states` and `tracker.required_labels`");
const NO_MOVES: Counterpart =
    Absent("issues are moved by the agent, not by Symphony: say in the prompt when it is to do so");
const STATES: Counterpart =
    Absent("states are named by `tracker.active_states` and `tracker.terminal_states`");
const LOG_FOLDER: Counterpart =
    Absent("the log is written to a folder by `symphony run --logs-root DIR`");

/// The keys, by section.
const FOREIGN_KEYS: &[(&str, Counterpart)] = &[
    ("agents", ONE_AGENT),
    ("branch", NO_CLONE),
    ("container", NO_CONTAINER),
    ("dashboard", Key("server")),
    ("docker", NO_CONTAINER),
    ("limits", Key("agent.max_concurrent_agents")),
    (
        "linear",
        Absent("`tracker.kind: linear` chooses it, and `tracker.provider` has its settings"),
    ),
    ("logs", Key("logging")),
    ("max_concurrency", Key("agent.max_concurrent_agents")),
    ("model", Key("agent.model")),
    ("poll_interval_ms", Key("polling.interval_ms")),
    ("prompts", Absent("the prompt is the text below the front matter")),
    ("provider", Absent("`tracker.kind` names the tracker, and `agent.kind` the agent")),
    ("repo", NO_CLONE),
    ("repository", NO_CLONE),
    ("retry", NO_ATTEMPT_LIMIT),
    ("runner", Key("agent.kind")),
    ("sandbox", Key("codex.thread_sandbox")),
    ("stages", STATES),
    ("states", STATES),
    ("trackers", Absent("a file has one tracker: `tracker`")),
    ("tui", Key("observability")),
    ("version", Absent("a workflow file has no version")),
    ("work", Absent("states and limits of work are in `tracker` and `agent`")),
    ("workers", Key("agent.max_concurrent_agents")),
    ("agent.backend", Key("agent.kind")),
    ("agent.concurrency", Key("agent.max_concurrent_agents")),
    ("agent.default", ONE_AGENT),
    ("agent.handoff_state", NO_MOVES),
    ("agent.hook_timeout_ms", Key("hooks.timeout_ms")),
    ("agent.log_dir", LOG_FOLDER),
    ("agent.max_attempts", NO_ATTEMPT_LIMIT),
    ("agent.max_concurrency", Key("agent.max_concurrent_agents")),
    ("agent.max_concurrent", Key("agent.max_concurrent_agents")),
    ("agent.max_retries", NO_ATTEMPT_LIMIT),
    ("agent.max_runs", Key("agent.max_concurrent_agents")),
    ("agent.max_tokens", NO_TOKEN_LIMIT),
    ("agent.max_total_tokens", NO_TOKEN_LIMIT),
    ("agent.max_total_turns", Key("agent.max_turns")),
    ("agent.provider", Key("agent.kind")),
    ("agent.reasoning_effort", Key("agent.effort")),
    ("agent.retry_max_attempts", NO_ATTEMPT_LIMIT),
    ("agent.retry_max_backoff_ms", Key("agent.max_retry_backoff_ms")),
    ("agent.run_timeout_ms", NO_RUN_LIMIT),
    ("agent.runner", Key("agent.kind")),
    ("agent.timeout", NO_RUN_LIMIT),
    ("agent.timeout_ms", NO_RUN_LIMIT),
    ("agent.timeout_seconds", NO_RUN_LIMIT),
    ("agent.type", Key("agent.kind")),
    ("codex.reasoning_effort", Key("codex.effort")),
    ("codex.run_timeout_ms", NO_RUN_LIMIT),
    ("codex.sandbox", Key("codex.thread_sandbox")),
    ("hooks.after_turn", NO_TURN_HOOK),
    ("hooks.before_turn", NO_TURN_HOOK),
    ("logging.dir", LOG_FOLDER),
    ("logging.file", LOG_FOLDER),
    ("logging.path", LOG_FOLDER),
    ("logging.root", LOG_FOLDER),
    ("polling.poll_interval_ms", Key("polling.interval_ms")),
    ("server.bind", Key("server.host")),
    ("tracker.active_statuses", Key("tracker.active_states")),
    ("tracker.api_token", Key("tracker.provider.api_key")),
    ("tracker.api_url", Key("tracker.provider.endpoint")),
    ("tracker.archive_after_days", Absent("issues are not archived")),
    ("tracker.archive_state", Absent("issues are not archived")),
    ("tracker.archive_states", Absent("issues are not archived")),
    ("tracker.archived_states", Absent("issues are not archived")),
    ("tracker.assignee_id", Key("tracker.provider.assignee")),
    ("tracker.base_url", Key("tracker.provider.endpoint")),
    ("tracker.exclude_labels", NO_FILTER),
    ("tracker.in_progress_state", NO_MOVES),
    ("tracker.inactive_states", Absent("a state that is neither active nor terminal is inactive")),
    ("tracker.label", Key("tracker.required_labels")),
    ("tracker.labels", Key("tracker.required_labels")),
    ("tracker.project", Key("tracker.provider.project_slug")),
    ("tracker.project_slugs", Absent("a file has one project: `tracker.provider.project_slug`")),
    ("tracker.query_filter", NO_FILTER),
    ("tracker.review_state", NO_MOVES),
    ("tracker.team", Key("tracker.provider.team_key")),
    ("tracker.terminal_statuses", Key("tracker.terminal_states")),
    ("tracker.token", Key("tracker.provider.api_key")),
    ("tracker.type", Key("tracker.kind")),
    ("workspace.base_branch", NO_CLONE),
    ("workspace.branch_prefix", NO_CLONE),
    ("workspace.checkout_kind", NO_CLONE),
    ("workspace.clone_branch", NO_CLONE),
    ("workspace.hooks", Absent("`hooks` is a section of its own, beside `workspace`")),
    ("workspace.path", Key("workspace.root")),
    ("workspace.repo", NO_CLONE),
    ("workspace.root_dir", Key("workspace.root")),
];

/// Words that are two letters off a word of our keys and mean something else: a key that has one of
/// them in the other's place is meant as it is written.
const OTHER_WORDS: [&str; 46] = [
    "archive", "bots", "broker", "bucket", "call", "comment", "common", "docker", "effect",
    "export", "inactive", "inline", "install", "levels", "lines", "load", "loading", "login",
    "marker", "min", "move", "native", "ports", "promote", "recover", "rerun", "resolve", "roots",
    "run", "runs", "send", "shell", "skill", "stack", "stage", "start", "state", "survey",
    "thread", "tooling", "trace", "track", "turn", "wall", "workdir", "works",
];

/// Whether a key differs from one of ours by a word that is not a slip.
pub(super) fn has_another_word(spelt: &str, ours: &str) -> bool {
    let (spelt, ours): (Vec<&str>, Vec<&str>) =
        (spelt.split('_').collect(), ours.split('_').collect());
    let is_another = |(spelt, ours): (&&str, &&str)| {
        strsim::damerau_levenshtein(spelt, ours) >= 2 && OTHER_WORDS.contains(spelt)
    };
    spelt.len() == ours.len() && spelt.iter().zip(&ours).any(is_another)
}

/// Returns what there is here in the place of a key, which is spelt as our keys are.
pub(super) fn counterpart(path: &str) -> Option<Counterpart> {
    let own = path.strip_prefix("tracker.provider.").map(|key| format!("tracker.{key}"));
    let path = own.as_deref().unwrap_or(path);
    let found = FOREIGN_KEYS.iter().find(|(foreign, _)| *foreign == path);
    found.map(|(_, counterpart)| *counterpart)
}

/// Asks whether a key of ours was meant.
pub(super) fn did_you_mean(path: &str) -> String {
    format!("did you mean `{path}`?")
}

impl Counterpart {
    /// What to do about a key of others.
    pub(super) fn help(self) -> String {
        match self {
            Key(path) => did_you_mean(path),
            Absent(why) => why.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::keys::{self, KeyTable};

    #[test]
    fn what_others_call_something_leads_to_a_key_of_ours() {
        let agents = [&symphony_codex::PROFILE];
        let table = KeyTable::new(agents);
        for (foreign, counterpart) in FOREIGN_KEYS {
            assert!(table.find(foreign).is_none() && !table.is_section(foreign), "{foreign}");
            if let Key(path) = counterpart {
                let is_provider = keys::parent(path) == "tracker.provider";
                let is_ours = table.find(path).is_some() || table.is_section(path);
                assert!(is_ours || is_provider, "{path}");
            }
        }
    }

    #[test]
    fn a_word_of_its_own_is_two_letters_off_one_of_ours() {
        let table = KeyTable::new([&symphony_codex::PROFILE]);
        let members =
            table.keys().map(|key| key.path).chain(table.sections().map(|(path, _)| path));
        let ours: Vec<&str> = members.flat_map(|path| keys::leaf(path).split('_')).collect();
        for word in OTHER_WORDS {
            let is_near = |ours: &&str| strsim::damerau_levenshtein(word, ours) == 2;
            assert!(ours.iter().any(is_near), "{word}");
        }
        assert!(has_another_word("min_turns", "max_turns"));
        assert!(!has_another_word("active_state", "active_states"));
        assert!(!has_another_word("max_turnz", "max_turns"));
    }
}
