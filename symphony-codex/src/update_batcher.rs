//! Coalesces a session's updates: at most one batch every 500 ms, with a heartbeat.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use symphony_core::agent::{AgentEvent, AgentUpdate, RateLimits, ThreadId, Tokens, Updates};
use symphony_core::time::Wall;
use tokio::time::Instant;

use crate::text::one_line;
use crate::wire::Id;

/// At most one batch of updates in this time (contract 10.4).
const FLUSH_INTERVAL: Duration = Duration::from_millis(500);
/// At most so many events in a batch. What comes after takes the place of the last.
const MAX_BATCH_EVENTS: usize = 4;
/// At most so many conversations are counted, and ours: an agent may have helpers with their own.
/// A count is a total, so none of them can be forgotten without counting it again when it is told
/// again; and what is remembered needs a bound.
const MAX_THREADS: usize = 4096;
/// At most so many of their counts in a batch. At the end of a turn all of them are told.
const MAX_BATCH_COUNTS: usize = 64;
/// At most so many different warnings of a session are shown.
const MAX_WARNINGS: usize = 32;
/// The length of a summary.
const MAX_SUMMARY_BYTES: usize = 300;

/// Updates that wait for their time.
#[derive(Debug)]
pub(crate) struct UpdateBatcher {
    updates: Updates,
    events: Vec<AgentUpdate>,
    /// Each conversation's count, and whether it is still to be sent.
    usage: BTreeMap<Id, (Tokens, bool)>,
    /// Whether there were more conversations than are counted.
    has_uncounted: bool,
    limits: Option<Arc<RateLimits>>,
    /// The last known limits: updates of them are sparse.
    pub(crate) known_limits: Option<Arc<RateLimits>>,
    is_alive: bool,
    /// Whether the agent waits for us, and whether that was told.
    owes: bool,
    told_owes: bool,
    /// Warnings that were shown: one that comes with each turn would hide what the agent does.
    warnings: BTreeSet<String>,
    /// Whether a tool changed the tracker, and whether this turn has told that.
    changed: bool,
    told_change: bool,
    next: Instant,
}

impl UpdateBatcher {
    pub(crate) fn new(updates: Updates) -> Self {
        Self {
            updates,
            events: Vec::new(),
            usage: BTreeMap::new(),
            has_uncounted: false,
            limits: None,
            known_limits: None,
            is_alive: false,
            owes: false,
            told_owes: false,
            warnings: BTreeSet::new(),
            changed: false,
            told_change: false,
            next: Instant::now(),
        }
    }

    /// Notes that a line came.
    pub(crate) fn alive(&mut self) {
        self.is_alive = true;
    }

    /// Queues an event; in a full batch it replaces the last one.
    pub(crate) fn event(&mut self, name: &str, summary: &str) {
        self.is_alive = true;
        if self.events.len() == MAX_BATCH_EVENTS {
            self.events.pop();
        }
        self.events.push(event(name, summary));
    }

    /// Shows a warning, once in a session.
    pub(crate) fn warning(&mut self, summary: &str) {
        self.is_alive = true;
        let summary = one_line(summary, MAX_SUMMARY_BYTES);
        if self.warnings.len() < MAX_WARNINGS && self.warnings.insert(summary.clone()) {
            self.event("notification", &summary);
        }
    }

    /// Records what a conversation has used; ours is always counted.
    pub(crate) fn usage(&mut self, thread: Id, total: Tokens, is_ours: bool) {
        self.is_alive = true;
        if is_ours || self.usage.len() < MAX_THREADS || self.usage.contains_key(&thread) {
            self.usage.insert(thread, (total, true));
        } else if !std::mem::replace(&mut self.has_uncounted, true) {
            let note = format!("more than {MAX_THREADS} conversations: the others are not counted");
            self.send(event("notification", &note)); // in a batch it could be pushed out
        }
    }

    pub(crate) fn limits(&mut self, limits: RateLimits) {
        self.is_alive = true;
        let limits = Arc::new(limits);
        self.known_limits = Some(Arc::clone(&limits));
        self.limits = Some(limits);
    }

    /// Records whether the agent waits for a tool.
    pub(crate) fn owes(&mut self, owes: bool) {
        self.is_alive = true;
        self.owes = owes;
    }

    /// Notes that a tool has changed the tracker. The first change of a turn is sent at once, because
    /// the next poll may already see it.
    pub(crate) fn changed(&mut self) {
        self.is_alive = true;
        self.changed = true;
        if !std::mem::replace(&mut self.told_change, true) {
            self.flush();
        }
    }

    /// A turn begins.
    pub(crate) fn turn_begins(&mut self) {
        self.told_change = false;
    }

    /// Sends one update now, after the events that wait: none is overtaken.
    pub(crate) fn send(&mut self, update: AgentUpdate) {
        for event in self.events.drain(..) {
            self.updates.send(event);
        }
        self.updates.send(update);
    }

    /// When to flush; `None` while nothing waits.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.is_alive.then_some(self.next)
    }

    /// Sends what waits, if it is time.
    pub(crate) fn flush_if_due(&mut self, now: Instant) {
        if self.is_alive && self.next <= now {
            self.flush();
        }
    }

    /// Sends what waits, and not too many counts.
    pub(crate) fn flush(&mut self) {
        self.send_batch(MAX_BATCH_COUNTS);
    }

    /// Sends all that waits.
    pub(crate) fn flush_all(&mut self) {
        self.send_batch(usize::MAX);
    }

    fn send_batch(&mut self, most: usize) {
        if !std::mem::take(&mut self.is_alive) {
            return;
        }
        self.next = Instant::now() + FLUSH_INTERVAL;
        let mut is_told = self.limits.is_some() || !self.events.is_empty();
        let mut counts = self.usage.iter_mut().filter(|(_, (_, is_new))| *is_new);
        for (thread, (total, is_new)) in counts.by_ref().take(most) {
            (*is_new, is_told) = (false, true);
            let thread = ThreadId::from(thread.as_str());
            self.updates.send(AgentUpdate::Usage { thread, total: (*total).into() });
        }
        self.is_alive = counts.next().is_some();
        is_told |= self.send_owes();
        if !is_told {
            self.updates.send(AgentUpdate::Alive);
        }
        if let Some(limits) = self.limits.take() {
            self.updates.send(AgentUpdate::RateLimits(limits));
        }
        for event in self.events.drain(..) {
            self.updates.send(event);
        }
    }

    /// Sends whether the agent waits for a tool, and whether a tool has changed the tracker. Returns
    /// `false` when neither is new.
    fn send_owes(&mut self) -> bool {
        let mut is_told = false;
        let mut told = |update| {
            self.updates.send(update);
            is_told = true;
        };
        if std::mem::take(&mut self.changed) {
            if !std::mem::replace(&mut self.told_owes, false) {
                told(AgentUpdate::ToolBegan);
            }
            told(AgentUpdate::ToolEnded { changed_issue: true });
        }
        match (std::mem::replace(&mut self.told_owes, self.owes), self.owes) {
            (false, true) => told(AgentUpdate::ToolBegan),
            (true, false) => told(AgentUpdate::ToolEnded { changed_issue: false }),
            _ => {}
        }
        is_told
    }
}

/// An event for people.
pub(crate) fn event(name: &str, summary: &str) -> AgentUpdate {
    let (name, summary) = (name.to_owned(), one_line(summary, MAX_SUMMARY_BYTES));
    AgentUpdate::Event(Arc::new(AgentEvent { name, summary, at: now() }))
}

/// The wall clock.
pub(crate) fn now() -> Wall {
    SystemTime::now().into()
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[test]
    fn rule_10_4_events_keep_their_order_and_a_warning_is_shown_once() {
        let told = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&told);
        let mut news = UpdateBatcher::new(Updates::new(move |update| {
            if let AgentUpdate::Event(event) = update {
                kept.lock().unwrap().push(event.summary.clone());
            }
        }));
        for _ in 0..2 {
            news.warning("warning: model metadata is missing");
            news.event("notification", "reads");
            news.send(event("notification", "writes"));
        }
        news.flush();
        let told = told.lock().unwrap().join(", ");
        assert_eq!(told, "warning: model metadata is missing, reads, writes, reads, writes");
    }
}
