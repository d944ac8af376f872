//! `agent.*`: how many agents work, and what every kind of agent has.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::table::SettingKey;
use crate::issue::StateName;

/// `agent.*`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AgentSettings {
    /// Which registered backend runs the agent.
    pub kind: String,
    /// How many agents may live at once.
    pub max_concurrent_agents: u32,
    /// How many may live at once whose issue is in a state.
    pub max_concurrent_agents_by_state: BTreeMap<StateName, u32>,
    /// How many turns one run may have.
    pub max_turns: u32,
    /// The longest wait between two attempts.
    pub max_retry_backoff: Duration,
    /// How long an agent has between SIGTERM and SIGKILL.
    pub stop_grace: Duration,
    /// How long an agent that moved its own issue out of the active states may take to end its turn.
    pub finish_grace: Duration,
    /// What every kind of agent has.
    pub common: AgentCommon,
    /// The section of the kind in force, which its factory reads.
    pub section: AgentSection,
}

impl Default for AgentSettings {
    fn default() -> Self {
        Self {
            kind: "codex".to_owned(),
            max_concurrent_agents: 10,
            max_concurrent_agents_by_state: BTreeMap::new(),
            max_turns: 20,
            max_retry_backoff: Duration::from_secs(300),
            stop_grace: Duration::from_secs(5),
            finish_grace: Duration::from_secs(60),
            common: AgentCommon::default(),
            section: AgentSection::default(),
        }
    }
}

/// What every kind of agent has: from its own section, else from `agent.*`, else its default.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct AgentCommon {
    /// What starts the agent, run by `bash -lc` and never rewritten. The backend's own when absent.
    pub command: Option<String>,
    /// The model to use. The agent's own choice when absent.
    pub model: Option<String>,
    /// How hard the model thinks, in the agent's own words. Its own choice when absent.
    pub effort: Option<String>,
    /// What is answered when the agent asks for approval.
    pub approvals: Approvals,
    /// How long a turn may be silent.
    pub turn_timeout: Duration,
    /// How long a response may take.
    pub read_timeout: Duration,
    /// How long a run may be without a sign of life; off when `None`.
    pub stall_timeout: Option<Duration>,
}

impl Default for AgentCommon {
    fn default() -> Self {
        Self {
            command: None,
            model: None,
            effort: None,
            approvals: Approvals::default(),
            turn_timeout: Duration::from_secs(3600),
            read_timeout: Duration::from_secs(5),
            stall_timeout: Some(Duration::from_secs(300)),
        }
    }
}

/// `agent.approvals` (contract 10.6)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Approvals {
    /// Say yes.
    Accept,
    /// Say no, and let the agent go on.
    #[default]
    Decline,
    /// Say no, end the run, and wait for a person.
    Block,
}

/// An agent's own settings: the keys of its profile that a file sets, checked against their shapes.
/// They hold no secret: an agent's credentials are in its environment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct AgentSection(Map<String, Value>);

impl AgentSection {
    /// Returns the value of a key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.0.get(key)
    }

    /// Sets a key, as a file would.
    pub fn set(&mut self, key: impl Into<String>, value: impl Into<Value>) {
        self.0.insert(key.into(), value.into());
    }
}

/// What a kind of agent reads from a workflow file.
///
/// Exhaustive on purpose: a backend writes it as a `static` literal, which a non-exhaustive struct
/// of another crate does not allow.
#[derive(Clone, Copy, Debug)]
pub struct AgentProfile {
    /// The name of its section; empty if it has none.
    pub section: &'static str,
    /// What the section is about, for people.
    pub about: &'static str,
    /// The keys of the section, by their whole paths. One that is called like a key of
    /// [`AgentCommon`] wins over `agent.*`.
    pub keys: &'static [SettingKey],
    /// What holds where a file says nothing.
    pub defaults: fn() -> AgentCommon,
    /// Finds what the shapes of the keys cannot tell.
    pub check: fn(&AgentSettings) -> Vec<AgentSettingProblem>,
}

impl AgentProfile {
    /// The profile of an agent without a section of its own.
    pub const NONE: Self = Self {
        section: "",
        about: "",
        keys: &[],
        defaults: AgentCommon::default,
        check: |_| Vec::new(),
    };
}

/// What is wrong with an agent's settings beyond their shapes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AgentSettingProblem {
    /// The last part of the key's path.
    pub key: &'static str,
    /// What is wrong.
    pub message: String,
    /// What to do about it.
    pub help: Option<String>,
}
