//! A look at the Codex of the settings: how long its shell takes, does it start, which version is it,
//! does it know the policies.
//!
//! Codex reads the parameters of a request before it looks for the conversation they are about. So
//! the policies are sent for a conversation that does not exist: nothing is begun, and no model is
//! asked.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use symphony_core::agent::{AgentError, AgentErrorKind, SessionRequest, Updates};
use symphony_core::finding::Finding;
use symphony_core::run::RunId;
use symphony_core::{Issue, Settings};
use symphony_host::{Host, Mark, ProcessScope, Shell};

use crate::process::Process;
use crate::session::CodexSession;
use crate::text::one_line;

/// The version that this crate is tested with.
const TESTED_VERSION: &str = "0.166";
/// A login that takes longer is worth a word.
const SLOW_LOGIN_AFTER: Duration = Duration::from_secs(1);
/// A conversation that does not exist.
const UNKNOWN_THREAD: &str = "00000000-0000-0000-0000-000000000000";

pub(crate) async fn examine(
    host: &Arc<dyn Host>,
    settings: &Arc<Settings>,
    hidden_env: &Arc<[String]>,
) -> Vec<Finding> {
    let mut findings = vec![login_shell(host).await];
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
        |error| AgentError::new(AgentErrorKind::InvalidWorkspace, "no issue").with_source(error);
    let issue = Issue::new("check", "CHECK", "Is Codex there?", "Todo").map_err(unusable)?;
    let (run, nowhere) = (RunId { boot: 0, number: 0 }, Updates::new(|_| {}));
    let folder = std::env::temp_dir();
    let mut request =
        SessionRequest::new(run, Arc::new(issue), folder, Arc::clone(settings), nowhere);
    request.hidden_env = Arc::clone(hidden_env);
    request.service = nobody_else().into();
    let (process, output, input) = Process::launch(host, &request).await?;
    let mut session = CodexSession::begin(output, input, Some(process), request)?;
    let looked = session.look(findings).await;
    session.end().await?;
    looked
}

impl CodexSession {
    async fn look(&mut self, findings: &mut Vec<Finding>) -> Result<(), AgentError> {
        let greeted = self.greet().await?;
        findings.push(version(&greeted));
        let codex = self.codex.clone();
        let policies = [
            ("codex.approval_policy", "thread/resume", "approvalPolicy", &codex.approval_policy),
            ("codex.thread_sandbox", "thread/resume", "sandbox", &codex.thread_sandbox),
            ("codex.turn_sandbox_policy", "turn/start", "sandboxPolicy", &self.sandbox_policy()),
        ];
        for (setting, method, member, policy) in policies {
            let params = json!({"threadId": UNKNOWN_THREAD, "input": [], member: policy});
            match self.ask::<Value>(method, params, self.handshake_timeout()).await {
                Err(error) if error.kind != AgentErrorKind::ResponseError => return Err(error),
                Err(error) => findings.extend(unknown(setting, &error.message)),
                Ok(_) => {}
            }
        }
        Ok(())
    }
}

/// A name for what is started here and for nothing else: what carries a name is ended by it, and two
/// people may look at once.
fn nobody_else() -> String {
    static LOOKS: AtomicU32 = AtomicU32::new(0);
    let look = LOOKS.fetch_add(1, Ordering::Relaxed);
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    format!("check {} {} {look}", std::process::id(), since.as_nanos())
}

/// How long `bash -lc` takes to start on this host: what the person's login profile costs every agent
/// before it runs. Doubtful from a second on.
pub async fn login_shell(host: &Arc<dyn Host>) -> Finding {
    let scope = ProcessScope::new(Arc::clone(host), Mark::new(&nobody_else(), "login"));
    let measured = scope.login_time(Shell::Bash).await;
    match measured {
        Ok(took) => login_of(took),
        Err(error) => Finding::wrong("shell", format!("`bash -lc` does not run: {error}")),
    }
}

fn login_of(took: Duration) -> Finding {
    let text = format!("`bash -lc` starts in {} ms", took.as_millis());
    if took <= SLOW_LOGIN_AFTER {
        return Finding::fine("shell", text);
    }
    let advice = "every agent waits for it; see what its profile does";
    Finding::doubtful("shell", format!("{text}: {advice}"))
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
        Some(version) if version.starts_with(TESTED_VERSION) => {
            Finding::fine("codex", format!("version {version}"))
        }
        Some(version) => {
            let text = format!("version {version}; Symphony is tested with {TESTED_VERSION}");
            Finding::doubtful("codex", text)
        }
        None => Finding::doubtful("codex", "it does not say which version it is"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_login_is_worth_a_word() {
        let fine = login_of(Duration::from_millis(108));
        assert_eq!(fine, Finding::fine("shell", "`bash -lc` starts in 108 ms"));
        let slow = login_of(Duration::from_millis(1001));
        assert!(slow.text.starts_with("`bash -lc` starts in 1001 ms: every agent waits for it"));
        assert_ne!(slow.severity, fine.severity);
    }

    #[tokio::test]
    async fn the_login_shell_is_measured() {
        let host: Arc<dyn Host> = Arc::new(symphony_host::LocalHost::without_helper());
        assert!(login_shell(&host).await.text.starts_with("`bash -lc` starts in "));
    }
}
