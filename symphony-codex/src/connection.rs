//! The session's side of the conversation: what it asks of the reading task, and what it hears.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::Value;
use serde_json::value::RawValue;
use symphony_core::agent::{AgentUpdate, SteerNote};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{mpsc, oneshot};
use tokio_util::task::AbortOnDropHandle;

use crate::lines::LineReader;
use crate::outbox::Outbox;
use crate::reader::{ReaderParts, SessionReader};
use crate::turn::End;
use crate::wire::{Id, RpcError};

/// The response to a request.
pub(crate) type RpcReply = Result<Box<RawValue>, RpcError>;

/// The session's side of the conversation. Dropping it ends the conversation.
#[derive(Debug)]
pub(crate) struct CodexConnection {
    asks: mpsc::UnboundedSender<ReaderRequest>,
    heard: Arc<AtomicBool>,
    reader: AbortOnDropHandle<()>,
    writer: AbortOnDropHandle<()>,
}

/// What the session wants of the reading task.
#[derive(Debug)]
pub(crate) enum ReaderRequest {
    Request { method: &'static str, params: Value, reply: oneshot::Sender<RpcReply> },
    Turn(TurnAsked),
    Steer { note: SteerNote, reply: oneshot::Sender<RpcReply> },
    Notify { method: &'static str },
    Thread { id: Id },
    Tell { update: AgentUpdate },
    Close { interrupted: oneshot::Sender<()> },
}

/// A turn that the session wants.
#[derive(Debug)]
pub(crate) struct TurnAsked {
    pub(crate) params: Value,
    pub(crate) reply: oneshot::Sender<RpcReply>,
    pub(crate) end: oneshot::Sender<End>,
}

/// Sends notes to live turns. It does not keep the conversation open.
#[derive(Clone, Debug)]
pub(crate) struct NoteSender(mpsc::WeakUnboundedSender<ReaderRequest>);

impl NoteSender {
    /// Sends `turn/steer`. The response never comes if the conversation is over.
    pub(crate) fn send(&self, note: SteerNote) -> oneshot::Receiver<RpcReply> {
        let (reply, response) = oneshot::channel();
        if let Some(asks) = self.0.upgrade() {
            let _ = asks.send(ReaderRequest::Steer { note, reply });
        }
        response
    }
}

impl CodexConnection {
    /// Begins to read and to write.
    pub(crate) fn new(
        output: impl AsyncRead + Send + Unpin + 'static,
        input: impl AsyncWrite + Send + Unpin + 'static,
        parts: ReaderParts,
    ) -> Self {
        let (asks, asked) = mpsc::unbounded_channel();
        let (outbox, writer) = Outbox::new(input, parts.transcript.clone());
        let heard = Arc::new(AtomicBool::new(false));
        let reader = SessionReader::new(parts, outbox, Arc::clone(&heard));
        let reader =
            AbortOnDropHandle::new(tokio::spawn(reader.run(LineReader::new(output), asked)));
        Self { asks, heard, reader, writer }
    }

    /// Sends a request. The response never comes if the conversation is over.
    pub(crate) fn request(
        &self,
        method: &'static str,
        params: Value,
    ) -> oneshot::Receiver<RpcReply> {
        let (reply, response) = oneshot::channel();
        self.ask(ReaderRequest::Request { method, params, reply });
        response
    }

    /// Sends `turn/start`. The end may come before the response, and instead of it.
    pub(crate) fn turn(
        &self,
        params: Value,
    ) -> (oneshot::Receiver<RpcReply>, oneshot::Receiver<End>) {
        let (reply, response) = oneshot::channel();
        let (end, ended) = oneshot::channel();
        self.ask(ReaderRequest::Turn(TurnAsked { params, reply, end }));
        (response, ended)
    }

    /// Returns a sender of notes to live turns, for as long as the conversation lasts.
    pub(crate) fn notes(&self) -> NoteSender {
        NoteSender(self.asks.downgrade())
    }

    pub(crate) fn notify(&self, method: &'static str) {
        self.ask(ReaderRequest::Notify { method });
    }

    /// From now on this is the conversation whose turns count, until another is opened.
    pub(crate) fn set_thread(&self, id: Id) {
        self.ask(ReaderRequest::Thread { id });
    }

    /// Sends an update, behind those of the lines that came before.
    pub(crate) fn tell(&self, update: AgentUpdate) {
        self.ask(ReaderRequest::Tell { update });
    }

    /// Whether the server has said anything at all.
    pub(crate) fn has_heard(&self) -> bool {
        self.heard.load(Ordering::Relaxed)
    }

    /// Interrupts a live turn, waits until it has ended but no longer than this, and closes the
    /// server's input.
    pub(crate) async fn close(self, limit: Duration) {
        let (interrupted, ended) = oneshot::channel();
        self.ask(ReaderRequest::Close { interrupted });
        let _ = tokio::time::timeout(limit, ended).await;
        let Self { writer, reader, .. } = self;
        drop(reader); // and with it the way to the writer, which then closes its end
        let _ = tokio::time::timeout(limit, writer).await;
    }

    fn ask(&self, ask: ReaderRequest) {
        // A reader task that ended drops the request and its reply channel, which ends the wait.
        let _ = self.asks.send(ask);
    }
}
