//! Effects and replies that wait until what was decided before them is kept (contract 16.1).

use std::collections::VecDeque;

use symphony_core::orchestrator::Effect;
use symphony_core::run::RunId;
use tokio::sync::oneshot;

use crate::loader::Loaded;

/// What waits for the store, in the order in which it was decided.
#[derive(Debug, Default)]
pub(crate) struct StoreGate {
    /// The last step with writes, and the last one whose writes are kept.
    issued: u64,
    committed: u64,
    effects: VecDeque<(u64, GatedEffect)>,
    replies: VecDeque<(u64, oneshot::Sender<()>)>,
}

/// An effect that waits, with the settings that were in force when it was decided.
#[derive(Debug)]
pub(crate) struct GatedEffect {
    pub(crate) effect: Effect,
    pub(crate) loaded: Loaded,
}

impl StoreGate {
    /// Counts a step with writes. Returns its number.
    pub(crate) const fn issue(&mut self) -> u64 {
        self.issued += 1;
        self.issued
    }

    /// Whether all that was decided so far is kept.
    pub(crate) const fn is_open(&self) -> bool {
        self.committed >= self.issued
    }

    /// Lets an effect of the last step wait.
    pub(crate) fn hold(&mut self, effect: Effect, loaded: &Loaded) {
        let loaded = loaded.clone();
        self.effects.push_back((self.issued, GatedEffect { effect, loaded }));
    }

    /// Replies to the command of the last step as soon as that is kept.
    pub(crate) fn reply(&mut self, reply: oneshot::Sender<()>) {
        if self.is_open() {
            let _ = reply.send(());
        } else {
            self.replies.push_back((self.issued, reply));
        }
    }

    /// Notes that all up to this step is kept. Returns the effects that have waited for it.
    pub(crate) fn commit(&mut self, sequence: u64) -> Vec<GatedEffect> {
        self.committed = self.committed.max(sequence);
        let kept = self.replies.iter().take_while(|(of, _)| *of <= sequence).count();
        for (_, reply) in self.replies.drain(..kept) {
            let _ = reply.send(());
        }
        let free = self.effects.iter().take_while(|(of, _)| *of <= sequence).count();
        self.effects.drain(..free).map(|(_, gated)| gated).collect()
    }

    /// Replies to every command: the last of them is kept.
    pub(crate) fn reply_to_all(self) {
        for (_, reply) in self.replies {
            let _ = reply.send(());
        }
    }

    /// Removes what waits of a run that is told to stop. Returns whether its start was among it.
    pub(crate) fn stop(&mut self, run: RunId) -> bool {
        self.finish(run);
        let waiting = self.effects.len();
        self.effects.retain(
            |(_, gated)| !matches!(&gated.effect, Effect::Start(start) if start.run == run),
        );
        self.effects.len() < waiting
    }

    /// Removes the turn that waits of a run that is told to finish.
    pub(crate) fn finish(&mut self, run: RunId) {
        self.effects.retain(
            |(_, gated)| !matches!(&gated.effect, Effect::NextTurn { run: of, .. } if *of == run),
        );
    }
}
