//! Notifications as lines for people.

use serde::Deserialize;

use crate::update_batcher::UpdateBatcher;
use crate::wire::{Item, ItemTold, Payload};

/// Shows what is worth it. Most lines only say that the agent lives.
pub(crate) fn show(updates: &mut UpdateBatcher, method: &str, params: Payload<'_>) {
    match method {
        "item/started" => {
            if let Some(ItemTold { item }) = params.read()
                && let Some(command) = item.command
            {
                updates.event("notification", &format!("runs `{command}`"));
            }
        }
        "item/completed" => {
            if let Some(ItemTold { item }) = params.read()
                && let Some(summary) = summary(&item)
            {
                updates.event("notification", &summary);
            }
        }
        "warning" | "guardianWarning" | "configWarning" | "deprecationNotice" => {
            #[derive(Default, Deserialize)]
            struct Warning {
                message: Option<String>,
                summary: Option<String>,
            }
            let warning: Warning = params.read().unwrap_or_default();
            let text = warning.message.or(warning.summary).unwrap_or_default();
            updates.warning(&format!("{method}: {text}"));
        }
        "thread/compacted" | "model/rerouted" | "turn/plan/updated" => {
            updates.event("notification", method);
        }
        method if is_quiet(method) => {}
        method => updates.event("other_message", method),
    }
}

/// What comes often, or says nothing that is not said elsewhere.
fn is_quiet(method: &str) -> bool {
    const FAMILIES: [&str; 14] = [
        "account/",
        "app/",
        "command/",
        "fs/",
        "hook/",
        "item/",
        "mcpServer/",
        "model/",
        "process/",
        "remoteControl/",
        "serverRequest/",
        "skills/",
        "thread/",
        "turn/",
    ];
    FAMILIES.iter().any(|family| method.starts_with(family))
}

fn summary(item: &Item) -> Option<String> {
    match item.kind.as_str() {
        "agentMessage" | "plan" => item.text.clone().filter(|text| !text.trim().is_empty()),
        "commandExecution" => {
            let command = item.command.as_deref().unwrap_or_default();
            let code = item.exit_code.map_or("no exit code".into(), |code| format!("exit {code}"));
            Some(format!("ran `{command}`: {code}"))
        }
        "fileChange" => {
            Some(format!("changed {} file(s)", item.changes.as_ref().map_or(0, Vec::len)))
        }
        "mcpToolCall" | "dynamicToolCall" | "collabAgentToolCall" => {
            Some(format!("called {}", item.tool.as_deref().unwrap_or("a tool")))
        }
        "webSearch" => {
            Some(format!("searched the web: {}", item.query.as_deref().unwrap_or_default()))
        }
        _ => None,
    }
}
