//! The snapshot: everything that is shown, as data (contract 13.2).

use std::sync::Arc;

use crate::snapshot::{Polling, Reason, ServiceRow, Slots, Snapshot};
use crate::time::Now;

use super::Orchestrator;
use super::claims::Claim;

impl Orchestrator {
    /// Everything, as of now. Costs about as much as copying its rows.
    #[must_use]
    pub fn snapshot(&self, now: Now) -> Snapshot {
        let eligibility = self.eligibility();
        let candidates = self.view.get_or_init(|| Arc::new(eligibility.overview()));
        let some_go = candidates.reasons.contains_key(Reason::NextRead.as_str());
        let (polling, pacing, pace) =
            (&self.settings().polling, &self.pacing, self.schedule().job_pace());
        let has_claims = self.claims.values().any(Claim::is_refreshed);
        let interval = if self.claims.is_empty() {
            pace.candidates
        } else {
            pace.candidates.min(pace.refresh)
        };
        let mut snapshot = Snapshot {
            now,
            running: Vec::new(),
            waiting: Vec::new(),
            blocked: Vec::new(),
            checking: Vec::new(),
            cleaning: Vec::new(),
            slots: Slots {
                limit: self.settings().agent.max_concurrent_agents,
                ..self.claims.slots().clone()
            },
            totals: self.totals.with_live(self.claims.live_runtime(now.mono)),
            rate_limits: pacing.holds.rate_limits().cloned(),
            holds: pacing.holds.rows().cloned().collect(),
            polling: Polling {
                mode: pacing.mode(polling, now.mono),
                quiet: pacing.is_quiet(),
                jobs: self.reads.jobs.rows(&pace, has_claims),
                requests_today: pacing.requests.of(now.wall.day()),
                projected_today: pacing.requests.projected(now, interval),
                budget: pacing.requests.budget().cloned(),
                webhook: self.backlog.deliveries.view(now.mono),
            },
            verdict: eligibility.verdict(some_go),
            candidates: Arc::clone(candidates),
            paused: self.lifecycle.is_paused(),
            shutting_down: self.lifecycle.is_shutting_down(),
            storage: self.lifecycle.storage().cloned(),
            problems: self.lifecycle.problems().to_vec(),
            warnings: Arc::clone(&self.configuration.warnings),
            service: ServiceRow {
                workflow: None,
                tracker: self.settings().tracker.kind.clone(),
                scope: self.configuration.scope.clone(),
            },
        };
        self.claims.add_rows(&mut snapshot);
        snapshot
    }
}
