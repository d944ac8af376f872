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

/// The keys, by section.
const FOREIGN_KEYS: &[(&str, Counterpart)] = &[
    ("agents", ONE_AGENT),
    ("dashboard", Key("server")),
    ("limits", Key("agent.max_concurrent_agents")),
    ("prompts", Absent("the prompt is the text below the front matter")),
    ("repo", NO_CLONE),
    ("repository", NO_CLONE),
    ("runner", Key("agent.kind")),
    ("trackers", Absent("a file has one tracker: `tracker`")),
    ("tui", Key("observability")),
    ("work", Absent("states and limits of work are in `tracker` and `agent`")),
    ("agent.backend", Key("agent.kind")),
    ("agent.default", ONE_AGENT),
    ("agent.max_concurrent", Key("agent.max_concurrent_agents")),
    ("agent.max_runs", Key("agent.max_concurrent_agents")),
    ("agent.provider", Key("agent.kind")),
    ("agent.retry_max_backoff_ms", Key("agent.max_retry_backoff_ms")),
    ("agent.runner", Key("agent.kind")),
    ("agent.type", Key("agent.kind")),
    ("codex.reasoning_effort", Key("codex.effort")),
    ("server.bind", Key("server.host")),
    ("tracker.active_statuses", Key("tracker.active_states")),
    ("tracker.api_token", Key("tracker.provider.api_key")),
    ("tracker.archive_state", Absent("issues are not archived")),
    ("tracker.inactive_states", Absent("a state that is neither active nor terminal is inactive")),
    ("tracker.label", Key("tracker.required_labels")),
    ("tracker.labels", Key("tracker.required_labels")),
    ("tracker.project_slugs", Absent("a file has one project: `tracker.provider.project_slug`")),
    ("tracker.terminal_statuses", Key("tracker.terminal_states")),
    ("tracker.token", Key("tracker.provider.api_key")),
    ("workspace.base_branch", NO_CLONE),
    ("workspace.hooks", Absent("`hooks` is a section of its own, beside `workspace`")),
    ("workspace.repo", NO_CLONE),
    ("workspace.root_dir", Key("workspace.root")),
];

/// Returns what there is here in the place of a key, which is spelt as our keys are.
pub(super) fn counterpart(path: &str) -> Option<Counterpart> {
    let found = FOREIGN_KEYS.iter().find(|(foreign, _)| *foreign == path);
    found.map(|(_, counterpart)| *counterpart)
}

impl Counterpart {
    /// What to do about a key of others.
    pub(super) fn help(self) -> String {
        match self {
            Key(path) => format!("did you mean `{path}`?"),
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
}
