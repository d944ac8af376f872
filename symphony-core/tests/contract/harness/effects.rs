//! The effects and notices since the last call: each call takes what it returns.

use symphony_core::orchestrator::{Effect, NoticeKind, Start};
use symphony_core::store::{Rows, Write};

use super::{Harness, board, name, run};

impl Harness {
    fn take<T>(&mut self, pick: impl Fn(&Effect) -> Option<T>) -> Vec<T> {
        let picked = self.effects.iter().filter_map(&pick).collect();
        self.effects.retain(|effect| pick(effect).is_none());
        picked
    }

    /// Everything, as it is.
    pub(crate) fn effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// New reads, answered or not.
    pub(crate) fn asked(&mut self) -> Vec<String> {
        self.take(|effect| match effect {
            Effect::Read { poll, .. } => Some(board::spell(poll)),
            _ => None,
        })
    }

    /// New starts: `MT-1`, `MT-1 attempt 2`.
    pub(crate) fn starts(&mut self) -> Vec<String> {
        let starts = self.started();
        let spell = |start: &Start| match start.attempt {
            None => name(&start.issue.id),
            Some(attempt) => format!("{} attempt {attempt}", name(&start.issue.id)),
        };
        starts.iter().map(spell).collect()
    }

    /// New starts, in full.
    pub(crate) fn started(&mut self) -> Vec<Start> {
        self.take(|effect| match effect {
            Effect::Start(start) => Some(start.clone()),
            _ => None,
        })
    }

    /// What live runs were told: `next turn MT-1: 2`, `finish MT-1`, `stop MT-1: Stalled`.
    pub(crate) fn told(&mut self) -> Vec<String> {
        let names = std::mem::take(&mut self.names);
        let told = self.take(|effect| run::spell(effect, &names));
        self.names = names;
        told
    }

    /// What was written since the last call.
    pub(crate) fn writes(&mut self) -> Vec<Write> {
        std::mem::take(&mut self.writes)
    }

    /// All that was written, as another life would find it.
    pub(crate) fn rows(&self) -> Rows {
        self.rows.of_scope(&self.configuration.scope)
    }

    /// How often the workflow file was to be looked at.
    pub(crate) fn rechecks(&mut self) -> usize {
        self.take(|effect| matches!(effect, Effect::RecheckWorkflow).then_some(())).len()
    }

    /// New runs of an embedder's jobs.
    pub(crate) fn job_runs(&mut self) -> Vec<String> {
        self.take(|effect| match effect {
            Effect::RunJob { name } => Some(name.to_string()),
            _ => None,
        })
    }

    /// Everything in order, in the spellings above; the rest is left out.
    pub(crate) fn effects_in_order(&mut self) -> Vec<String> {
        let names = std::mem::take(&mut self.names);
        let wanted = self.take(|effect| match effect {
            Effect::Read { poll, .. } => Some(board::spell(poll)),
            Effect::Start(start) => Some(format!("start {}", name(&start.issue.id))),
            _ => run::spell(effect, &names),
        });
        self.names = names;
        wanted
    }

    /// What happened since last looked.
    pub(crate) fn notices(&mut self) -> Vec<NoticeKind> {
        self.notices.drain(..).map(|notice| notice.what).collect()
    }
}
