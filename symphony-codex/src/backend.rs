//! The backend: one app-server per session.

use std::sync::Arc;

use async_trait::async_trait;
use symphony_core::Settings;
use symphony_core::agent::{AgentBackend, AgentError, AgentFactory, AgentSession, SessionRequest};
use symphony_core::env::Env;
use symphony_core::finding::Finding;
use symphony_core::settings::AgentProfile;
use symphony_host::{Host, LocalHost};

use crate::examine::examine;
use crate::process::Process;
use crate::session::CodexSession;
use crate::settings::{CodexSettings, PROFILE};

/// Launches an app-server for every session.
#[derive(Clone, Debug)]
pub struct CodexAgent {
    host: Arc<dyn Host>,
}

impl CodexAgent {
    /// Launches on this host.
    #[must_use]
    pub fn new(host: Arc<dyn Host>) -> Self {
        Self { host }
    }
}

#[async_trait]
impl AgentBackend for CodexAgent {
    async fn open(&self, request: SessionRequest) -> Result<Box<dyn AgentSession>, AgentError> {
        CodexSettings::of(&request.settings)?; // before there is anything to end
        let (process, output, input) = Process::launch(&self.host, &request).await?;
        Ok(Box::new(CodexSession::open(output, input, Some(process), request).await?))
    }

    async fn examine(&self, settings: &Arc<Settings>, hidden_env: &Arc<[String]>) -> Vec<Finding> {
        examine(&self.host, settings, hidden_env).await
    }
}

/// What `agent.kind` calls this agent.
pub const CODEX: &str = "codex";

/// Builds [`CodexAgent`]s for `agent.kind: codex`.
#[derive(Clone, Debug)]
pub struct CodexFactory {
    host: Arc<dyn Host>,
}

impl CodexFactory {
    /// Agents run on this machine. The program should have called [`symphony_host::init`].
    #[must_use]
    pub fn new() -> Self {
        Self::on(Arc::new(LocalHost::new()))
    }

    /// Agents run on this host.
    #[must_use]
    pub fn on(host: Arc<dyn Host>) -> Self {
        Self { host }
    }
}

impl Default for CodexFactory {
    fn default() -> Self {
        Self::new()
    }
}

impl AgentFactory for CodexFactory {
    fn kind(&self) -> &str {
        CODEX
    }

    fn profile(&self) -> &AgentProfile {
        &PROFILE
    }

    fn build(&self, settings: &Settings, _: &dyn Env) -> Result<Arc<dyn AgentBackend>, AgentError> {
        CodexSettings::of(settings)?;
        Ok(Arc::new(CodexAgent::new(Arc::clone(&self.host))))
    }
}
