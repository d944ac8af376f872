//! A file that names another agent, by keys of another program, and says neither `agent.kind` nor
//! `codex`: the default agent is not what it means (contract 2.10).

use serde_json::Value;

use super::read::Reader;
use crate::front_matter::{Entry, Map, Node, dotted};
use symphony_core::plain;
use symphony_core::problem::{Position, Problem, ProblemKind};

/// Agents of others, as files call them: in lower case, without what joins words.
const OTHER_AGENTS: [&str; 32] = [
    "aider",
    "amp",
    "anthropic",
    "antigravity",
    "auggie",
    "claude",
    "claudecli",
    "claudecode",
    "cline",
    "copilot",
    "copilotcli",
    "crush",
    "cursor",
    "cursoragent",
    "cursorcli",
    "devin",
    "droid",
    "gemini",
    "geminicli",
    "goose",
    "grok",
    "jules",
    "kimi",
    "kimicli",
    "kiro",
    "kirocli",
    "mimocode",
    "opencode",
    "openhands",
    "pi",
    "qwen",
    "qwencode",
];

/// Keys whose whole value is the name of an agent.
const SELECTORS: [&str; 7] = [
    "runner",
    "runner.kind",
    "runner.type",
    "agent.provider",
    "agent.backend",
    "agent.type",
    "agent.runner",
];

/// Keys whose value is a command, or a name that may also be the author's own.
const HINTS: [&str; 22] = [
    "agent",
    "agent.command",
    "agent.default",
    "agent.name",
    "agent_runtime",
    "agent_runtime.command",
    "agent_runtime.kind",
    "agent_runtime.provider",
    "backend",
    "backend.kind",
    "coding_agent",
    "coding_agent.command",
    "coding_agent.kind",
    "executor",
    "executor.command",
    "executor.kind",
    "llm.provider",
    "provider",
    "runner.command",
    "runtime",
    "runtime.command",
    "runtime.provider",
];

/// Keys within a list of agents that name one.
const MEMBERS: [&str; 6] = ["kind", "type", "backend", "provider", "command", "default"];

/// What packages and wrappers add to an agent's name.
const SUFFIXES: [&str; 3] = ["acp", "ai", "sh"];

/// How far down such a list is looked at.
const MAX_DEPTH: usize = 4;

/// How much of a foreign name is shown.
const MAX_NAME_BYTES: usize = 60;

/// What a file says of its agent in one place.
struct Mention {
    path: String,
    at: Option<Position>,
    agent: AgentName,
}

/// Which agent a text names.
#[derive(Clone, Debug, PartialEq, Eq)]
enum AgentName {
    Codex,
    /// Another known agent, by its name.
    Known(String),
    /// Something else. It is not shown: the value of an unknown key may be anything.
    Unknown,
}

/// Refuses a file that means another agent. One with `agent.kind` or a section `codex` has decided.
pub(super) fn refuse(r: &mut Reader<'_>, default: &str) {
    if r.root().entry("codex").is_some() {
        return;
    }
    let selected: Vec<Mention> = SELECTORS.iter().filter_map(|path| mention(r, path)).collect();
    let mut hinted: Vec<Mention> = HINTS.iter().filter_map(|path| mention(r, path)).collect();
    if let Some(Entry { value: Node::Map(agents), .. }) = r.entry("agents") {
        listed(agents, "agents", 1, &mut hinted);
    }
    hinted.extend(r.root().entries().iter().filter_map(section));
    let is_known = |mention: &&Mention| matches!(mention.agent, AgentName::Known(_));
    let names_codex =
        selected.iter().chain(&hinted).any(|mention| mention.agent == AgentName::Codex);
    // What selects an agent decides; a section or a command counts where nothing names Codex.
    let meant = selected.iter().find(is_known).or_else(|| {
        let mut others = hinted.iter().filter(is_known).chain(&selected);
        others.next().filter(|_| !names_codex)
    });
    if let Some(mention) = meant {
        let problem = mention.problem(default);
        r.note(problem);
    }
}

impl Mention {
    fn problem(&self, default: &str) -> Problem {
        let agent = match &self.agent {
            AgentName::Known(name) => format!("the agent {name}"),
            AgentName::Codex | AgentName::Unknown => "another agent".to_owned(),
        };
        let message = format!(
            "names {agent}, but without agent.kind it is {default} that would run; \
             add `agent.kind: {default}` if that is meant"
        );
        let help = format!("write `kind: {default}` below `agent:`");
        let problem = Problem::new(ProblemKind::AnotherAgent, message).with_help(help);
        problem.with_path(self.path.as_str()).with_position(self.at)
    }
}

/// What the text at a path says of the agent.
fn mention(r: &Reader<'_>, path: &str) -> Option<Mention> {
    let entry = r.entry(path)?;
    of_text(path.to_owned(), entry)
}

fn of_text(path: String, entry: &Entry) -> Option<Mention> {
    let Node::Scalar(Value::String(text)) = &entry.value else { return None };
    let mut named = text.split_whitespace().filter_map(agent_of);
    Some(Mention { path, at: Some(entry.at), agent: named.next().unwrap_or(AgentName::Unknown) })
}

/// The agent that a word of a command names: a program, with or without its path, or a package.
///
/// The first such word decides. So what starts the program (`npx -y`, `timeout 1h`, `bash -lc`)
/// need not be known, and folders that are called like an agent come too late to matter.
fn agent_of(word: &str) -> Option<AgentName> {
    let word = word.trim_matches(['"', '\'', '`', '(', ')', ';']);
    let name = word.rsplit('/').next().unwrap_or(word);
    let name = name.split('@').find(|part| !part.is_empty())?;
    let folded = folded(name);
    // Codex's own account is OpenAI's.
    if folded.contains("codex") || folded == "openai" {
        return Some(AgentName::Codex);
    }
    let stripped = SUFFIXES.iter().find_map(|suffix| folded.strip_suffix(suffix));
    let is_known = |name: &str| OTHER_AGENTS.contains(&name);
    let is_other = is_known(&folded) || stripped.is_some_and(is_known);
    is_other.then(|| AgentName::Known(plain(name, MAX_NAME_BYTES)))
}

/// A section of another agent's.
fn section(entry: &Entry) -> Option<Mention> {
    let is_known = !entry.value.is_null() && OTHER_AGENTS.contains(&folded(&entry.key).as_str());
    let (path, agent) =
        (dotted(&[&entry.key]), AgentName::Known(plain(&entry.key, MAX_NAME_BYTES)));
    is_known.then_some(Mention { path, at: Some(entry.at), agent })
}

/// What a list of agents names, at any of its levels.
fn listed(map: &Map, path: &str, depth: usize, found: &mut Vec<Mention>) {
    for entry in map.entries() {
        let path = format!("{path}.{}", dotted(&[&entry.key]));
        match &entry.value {
            Node::Map(inner) if depth < MAX_DEPTH => listed(inner, &path, depth + 1, found),
            _ if MEMBERS.contains(&entry.key.as_str()) => found.extend(of_text(path, entry)),
            _ => {}
        }
    }
}

/// A name in lower case, without what joins its words.
fn folded(name: &str) -> String {
    name.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_2_10_the_first_word_that_is_an_agent_names_it() {
        let named = |command: &str| command.split_whitespace().find_map(agent_of);
        for (command, expected) in [
            ("claude -p --verbose", "claude"),
            ("A=1 B='x' exec /usr/bin/cursor-agent --force", "cursor-agent"),
            ("npx -y @google/gemini-cli", "gemini-cli"),
            ("npx --yes @anthropic-ai/claude-code@latest", "claude-code"),
            ("npx opencode-ai", "opencode-ai"),
            ("bash -lc \"claude -p\"", "claude"),
            ("timeout 1h claude", "claude"),
            ("cd x && pnpm dlx claude-code-acp", "claude-code-acp"),
            ("sudo -u a claude --add-dir ~/src/codex", "claude"),
            ("./claude.sh", "claude.sh"),
            ("\"opencode\" serve", "opencode"),
        ] {
            assert_eq!(named(command), Some(AgentName::Known(expected.to_owned())), "{command}");
        }
        for command in [
            "codex app-server",
            "codex exec --profile claude",
            "/opt/bin/codex",
            "npx @openai/codex@0.166 app-server",
            "./run-codex.sh",
        ] {
            assert_eq!(named(command), Some(AgentName::Codex), "{command}");
        }
        for command in ["", "echo", "@", "./agent.sh --fast"] {
            assert_eq!(named(command), None, "{command}");
        }
    }
}
