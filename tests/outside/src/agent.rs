//! An agent that only says that it is through.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use symphony_core::Settings;
use symphony_core::agent::{
    AgentBackend, AgentError, AgentFactory, AgentSession, AgentUpdate, SessionRequest, Turn,
    TurnEnd, Updates,
};
use symphony_core::async_trait;
use symphony_core::env::Env;

use crate::pause;

/// Opens sessions, and counts those that are open.
#[derive(Clone, Debug, Default)]
pub struct Yes {
    open: Arc<AtomicUsize>,
}

impl Yes {
    /// How many sessions are open.
    #[must_use]
    pub fn open_sessions(&self) -> usize {
        self.open.load(Ordering::SeqCst)
    }
}

/// Counts while it lives.
#[derive(Debug)]
struct Open(Arc<AtomicUsize>);

impl Drop for Open {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

struct Session {
    _open: Open,
    run: String,
    updates: Updates,
}

#[async_trait]
impl AgentBackend for Yes {
    async fn open(&self, request: SessionRequest) -> Result<Box<dyn AgentSession>, AgentError> {
        self.open.fetch_add(1, Ordering::SeqCst);
        let open = Open(Arc::clone(&self.open));
        pause().await;
        Ok(Box::new(Session {
            _open: open,
            run: request.run.to_string(),
            updates: request.updates,
        }))
    }
}

#[async_trait]
impl AgentSession for Session {
    async fn run_turn(&mut self, turn: Turn) -> Result<TurnEnd, AgentError> {
        self.updates.send(AgentUpdate::Session {
            thread: self.run.as_str().into(),
            session_id: format!("{}-{}", self.run, turn.number).into(),
            pid: None,
        });
        pause().await;
        Ok(TurnEnd::Completed)
    }

    async fn close(self: Box<Self>) -> Result<(), AgentError> {
        Ok(())
    }
}

impl AgentFactory for Yes {
    fn kind(&self) -> &str {
        "yes"
    }

    fn build(&self, _: &Settings, _: &dyn Env) -> Result<Arc<dyn AgentBackend>, AgentError> {
        Ok(Arc::new(self.clone()))
    }
}
