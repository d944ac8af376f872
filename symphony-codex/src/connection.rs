//! The session's side of the conversation: what it asks of the reading task, and what it hears.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use serde_json::value::RawValue;
use symphony_core::agent::AgentUpdate;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{mpsc, oneshot};
use tokio_util::task::AbortOnDropHandle;

use crate::life::Life;
use crate::lines::Lines;
use crate::outbox::Outbox;
use crate::reader::{Parts, Reader};
use crate::turn::End;
use crate::wire::{Id, RpcError};

/// The response to a request.
pub(crate) type Reply = Result<Box<RawValue>, RpcError>;

/// The session's side of the conversation. Dropped, it ends it.
#[derive(Debug)]
pub(crate) struct Connection {
    asks: mpsc::UnboundedSender<Ask>,
    life: Arc<Life>,
    next_id: u64,
    reader: AbortOnDropHandle<()>,
    writer: AbortOnDropHandle<()>,
}

/// What the session wants of the reading task.
#[derive(Debug)]
pub(crate) enum Ask {
    Request { id: u64, method: &'static str, params: Value, reply: oneshot::Sender<Reply> },
    Turn { id: u64, params: Value, reply: oneshot::Sender<Reply>, end: oneshot::Sender<End> },
    Notify { method: &'static str },
    Thread { id: Id },
    Tell { update: AgentUpdate },
    Close { id: u64, interrupted: oneshot::Sender<()> },
}

impl Connection {
    /// Begins to read and to write.
    pub(crate) fn new(
        output: impl AsyncRead + Send + Unpin + 'static,
        input: impl AsyncWrite + Send + Unpin + 'static,
        parts: Parts,
    ) -> Self {
        let (asks, asked) = mpsc::unbounded_channel();
        let (outbox, writer) = Outbox::new(input, parts.transcript.clone());
        let life = Arc::new(Life::new());
        let reader = Reader::new(parts, outbox, Arc::clone(&life));
        let reader = AbortOnDropHandle::new(tokio::spawn(reader.run(Lines::new(output), asked)));
        Self { asks, life, next_id: 0, reader, writer }
    }

    fn fresh_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    /// Sends a request. The response never comes if the conversation is over.
    pub(crate) fn request(
        &mut self,
        method: &'static str,
        params: Value,
    ) -> oneshot::Receiver<Reply> {
        let (reply, response) = oneshot::channel();
        let id = self.fresh_id();
        self.ask(Ask::Request { id, method, params, reply });
        response
    }

    /// Sends `turn/start`. The end may come before the response, and instead of it.
    pub(crate) fn turn(
        &mut self,
        params: Value,
    ) -> (oneshot::Receiver<Reply>, oneshot::Receiver<End>) {
        let (reply, response) = oneshot::channel();
        let (end, ended) = oneshot::channel();
        let id = self.fresh_id();
        self.ask(Ask::Turn { id, params, reply, end });
        (response, ended)
    }

    pub(crate) fn notify(&self, method: &'static str) {
        self.ask(Ask::Notify { method });
    }

    /// From now on this is the conversation whose turns count.
    pub(crate) fn set_thread(&self, id: Id) {
        self.ask(Ask::Thread { id });
    }

    /// Sends an update, behind those of the lines that came before.
    pub(crate) fn tell(&self, update: AgentUpdate) {
        self.ask(Ask::Tell { update });
    }

    pub(crate) fn life(&self) -> Arc<Life> {
        Arc::clone(&self.life)
    }

    /// Interrupts a live turn, waits until it has ended but no longer than this, and closes the
    /// server's input.
    pub(crate) async fn close(mut self, patience: Duration) {
        let (interrupted, ended) = oneshot::channel();
        let id = self.fresh_id();
        self.ask(Ask::Close { id, interrupted });
        let _ = tokio::time::timeout(patience, ended).await;
        let Self { writer, reader, .. } = self;
        drop(reader); // and with it the way to the writer, which then closes its end
        let _ = tokio::time::timeout(patience, writer).await;
    }

    fn ask(&self, ask: Ask) {
        // Whoever does not listen any more has dropped the replies, which is an answer.
        let _ = self.asks.send(ask);
    }
}
