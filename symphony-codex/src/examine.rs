//! A look at the Codex of the settings: does it start, which version is it, does it know the
//! policies.
//!
//! Codex reads the parameters of a request before it looks for the conversation they are about. So
//! the policies are sent for a conversation that does not exist: nothing is begun, and no model is
//! asked.

use std::sync::Arc;

use serde_json::{Value, json};
use symphony_core::agent::{AgentError, AgentErrorKind, SessionRequest, Updates};
use symphony_core::finding::Finding;
use symphony_core::orchestrator::RunId;
use symphony_core::{Issue, Settings};
use symphony_host::Host;

use crate::process::Process;
use crate::session::CodexSession;
use crate::text::one_line;

/// The version that this crate is tested with.
const TESTED: &str = "0.166";
/// A conversation that does not exist.
const NOBODY: &str = "00000000-0000-0000-0000-000000000000";

pub(crate) async fn examine(
    host: &Arc<dyn Host>,
    settings: &Arc<Settings>,
    hidden_env: &Arc<[String]>,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Err(error) = look(host, settings, hidden_env, &mut findings).await {
        findings.push(Finding::wrong("codex", error.to_string()));
    }
    findings
}

async fn look(
    host: &Arc<dyn Host>,
    settings: &Arc<Settings>,
    hidden_env: &Arc<[String]>,
    findings: &mut Vec<Finding>,
) -> Result<(), AgentError> {
    let unusable =
        |error| AgentError::new(AgentErrorKind::InvalidWorkspace, "no issue").caused_by(error);
    let issue = Issue::new("check", "CHECK", "Is Codex there?", "Todo").map_err(unusable)?;
    let (run, nowhere) = (RunId { boot: 0, number: 0 }, Updates::new(|_| {}));
    let folder = std::env::temp_dir();
    let mut request =
        SessionRequest::new(run, Arc::new(issue), folder, Arc::clone(settings), nowhere);
    request.hidden_env = Arc::clone(hidden_env);
    let (process, output, input) = Process::launch(host, &request).await?;
    let mut session = CodexSession::begin(output, input, Some(process), request)?;
    let looked = session.look(settings, findings).await;
    session.end().await?;
    looked
}

impl CodexSession {
    async fn look(
        &mut self,
        settings: &Settings,
        findings: &mut Vec<Finding>,
    ) -> Result<(), AgentError> {
        let greeted = self.greet().await?;
        findings.push(version(&greeted));
        let codex = &settings.codex;
        let policies = [
            ("codex.approval_policy", "thread/resume", "approvalPolicy", &codex.approval_policy),
            ("codex.thread_sandbox", "thread/resume", "sandbox", &codex.thread_sandbox),
            ("codex.turn_sandbox_policy", "turn/start", "sandboxPolicy", &self.sandbox_policy()),
        ];
        for (setting, method, member, policy) in policies {
            let params = json!({"threadId": NOBODY, "input": [], member: policy});
            match self.ask::<Value>(method, params, self.patience()).await {
                Err(error) if error.kind != AgentErrorKind::ResponseError => return Err(error),
                Err(error) => findings.extend(unknown(setting, &error.message)),
                Ok(_) => {}
            }
        }
        Ok(())
    }
}

/// That the conversation does not exist is as it should be; that the request makes no sense is not.
fn unknown(setting: &str, message: &str) -> Option<Finding> {
    let (_, reason) = message.split_once("Invalid request: ")?;
    Some(Finding::wrong("policy", format!("{setting}: {reason}")))
}

/// `symphony/0.166.0 (Debian 12.0.0; x86_64) ...`: the client's name, and then Codex's version.
fn version(greeted: &Value) -> Finding {
    let agent = greeted.get("userAgent").and_then(Value::as_str).unwrap_or_default();
    let version = agent.split_once('/').and_then(|(_, rest)| rest.split_whitespace().next());
    match version.map(|version| one_line(version, 40)) {
        Some(version) if version.starts_with(TESTED) => {
            Finding::fine("codex", format!("version {version}"))
        }
        Some(version) => {
            let text = format!("version {version}; Symphony is tested with {TESTED}");
            Finding::doubtful("codex", text)
        }
        None => Finding::doubtful("codex", "it does not say which version it is"),
    }
}
