//! The section `codex` of a workflow file: what is Codex's own, and what it changes of `agent.*`.

use serde_json::{Value, json};
use symphony_core::Settings;
use symphony_core::agent::{AgentError, AgentErrorKind};
use symphony_core::settings::{
    AgentCommon, AgentProfile, AgentSettingProblem, AgentSettings, SettingKey,
    SettingShape as Shape,
};

/// What starts the app-server when nothing else is said.
const COMMAND: &str = "codex app-server";

/// The keys of the section `codex`.
#[rustfmt::skip]
const KEYS: &[SettingKey] = &[
    SettingKey::new("codex.command", Shape::Text, || json!(COMMAND),
        "What starts the agent. Run by `bash -lc`, which expands variables."),
    SettingKey::optional("codex.model", Shape::Text, "The model to use. Codex's own choice when absent."),
    SettingKey::optional("codex.effort", Shape::Text,
        "How hard the model thinks, such as `high`. Codex's own choice when absent."),
    SettingKey::new("codex.approval_policy", Shape::TextOrMap, || CodexSettings::default().approval_policy,
        "Passed on to Codex."),
    SettingKey::new("codex.thread_sandbox", Shape::TextOrMap, || CodexSettings::default().thread_sandbox,
        "Passed on to Codex."),
    SettingKey::optional("codex.turn_sandbox_policy", Shape::TextOrMap,
        "Passed on to Codex. Writing in the workspace without network when absent."),
    SettingKey::new("codex.approvals", Shape::APPROVALS, || json!(AgentCommon::default().approvals),
        "What is answered when the agent asks for approval."),
    SettingKey::new("codex.questions", Shape::OnlyOff("questions of an agent cannot be answered yet"),
        || json!("off"),
        "Whether the agent is told that it may ask people. Only `off`, until questions can be answered."),
    SettingKey::new("codex.turn_timeout_ms", Shape::MILLIS, || millis(AgentCommon::default().turn_timeout),
        "How long a turn may be silent."),
    SettingKey::new("codex.read_timeout_ms", Shape::MILLIS, || millis(AgentCommon::default().read_timeout),
        "How long a response may take; ten times that while a session starts."),
    SettingKey::new("codex.stall_timeout_ms", Shape::MILLIS_OR_OFF,
        || millis(AgentCommon::default().stall_timeout.unwrap_or_default()),
        "How long a run may be without a sign of life. Off when zero or less."),
];

/// What a workflow file may say about Codex.
pub static PROFILE: AgentProfile = AgentProfile {
    section: "codex",
    about: "How the Codex agent is run.",
    keys: KEYS,
    defaults,
    check,
};

fn defaults() -> AgentCommon {
    let mut common = AgentCommon::default();
    common.command = Some(COMMAND.to_owned());
    common
}

fn millis(time: std::time::Duration) -> Value {
    json!(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}

/// Finds a command that starts Codex's terminal program, which speaks no protocol.
fn check(settings: &AgentSettings) -> Vec<AgentSettingProblem> {
    let command = command(settings);
    let is_variable =
        |word: &&str| word.split_once('=').is_some_and(|(name, _)| !name.contains('/'));
    let mut words =
        command.split_whitespace().skip_while(|word| is_variable(word) || *word == "exec");
    // A wrapper beside the file, or what a variable holds, may be anything.
    let program = words.next().unwrap_or_default().trim_matches(['"', '\'']);
    let is_codex = program == "codex" || (program.starts_with('/') && program.ends_with("/codex"));
    if !is_codex || command.contains('$') || words.any(|word| word == "app-server") {
        return Vec::new();
    }
    vec![AgentSettingProblem {
        key: "command",
        message: "starts Codex without `app-server`, the part of it that Symphony talks to"
            .to_owned(),
        help: Some(format!(
            "write `{COMMAND}`, with the options that you need before `app-server`"
        )),
    }]
}

/// What starts the app-server.
pub(crate) fn command(settings: &AgentSettings) -> &str {
    settings.common.command.as_deref().unwrap_or(COMMAND)
}

/// What is Codex's own in a workflow file.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CodexSettings {
    pub(crate) approval_policy: Value,
    pub(crate) thread_sandbox: Value,
    /// When absent, writing in the workspace without network.
    pub(crate) turn_sandbox_policy: Option<Value>,
}

impl Default for CodexSettings {
    fn default() -> Self {
        Self {
            approval_policy: json!("never"),
            thread_sandbox: json!("workspace-write"),
            turn_sandbox_policy: None,
        }
    }
}

impl CodexSettings {
    /// Reads the section. What a file says was checked before; settings made in code are checked here.
    pub(crate) fn of(settings: &Settings) -> Result<Self, AgentError> {
        let section = &settings.agent.section;
        let invalid = |message: String| AgentError::new(AgentErrorKind::InvalidConfig, message);
        if let Some(problem) = check(&settings.agent).first() {
            return Err(invalid(format!("codex.{}: {}", problem.key, problem.message)));
        }
        let policy = |key: &str| match section.get(key) {
            Some(policy @ (Value::String(_) | Value::Object(_))) => Ok(Some(policy.clone())),
            None | Some(Value::Null) => Ok(None),
            Some(_) => Err(invalid(format!("codex.{key}: must be text or a map"))),
        };
        let is_off = |questions: &Value| questions == "off" || questions == &Value::Bool(false);
        if !section.get("questions").is_none_or(is_off) {
            return Err(invalid("codex.questions: must be off".to_owned()));
        }
        let default = Self::default();
        Ok(Self {
            approval_policy: policy("approval_policy")?.unwrap_or(default.approval_policy),
            thread_sandbox: policy("thread_sandbox")?.unwrap_or(default.thread_sandbox),
            turn_sandbox_policy: policy("turn_sandbox_policy")?,
        })
    }
}
