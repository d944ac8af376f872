//! A new orchestrator, made of the rows that were written so far, stands where the living one does:
//! after every crash, and now and then (16.4). And rows survive being encoded.

use std::time::Duration;

use symphony_core::orchestrator::{Restored, Step};
use symphony_core::store::{ClaimRow, ClaimStage, DueTime, Rows, Write};
use symphony_core::time::Now;
use symphony_core::{FailureKind, Orchestrator, Settings};

use crate::oracle::backoff;
use crate::violation::{Check, ensure};
use crate::world::World;

impl World {
    /// Makes a life of everything that was written, and compares what it would write with what the
    /// rows say (16.4).
    pub(crate) fn check_restart(&mut self) -> Check {
        let (now, config) = (self.now(), self.oracle.config.clone());
        let rows = self.ledger.complete().of_scope(&config.scope);
        let workspaces = symphony_core::orchestrator::Workspaces::default();
        let restored = Restored { boot: u64::MAX, rows: rows.clone(), workspaces };
        let (_, step) = Orchestrator::new(config.clone(), restored, now);
        let mut after = self.ledger.complete();
        step.writes.iter().for_each(|write| after.apply(write));
        let mut after = after.of_scope(&config.scope);
        let mut expected = mapped(rows, &config.settings, now);
        (after.polls, expected.polls) = (None, None);
        for (new, mapped) in after.claims.iter().zip(&expected.claims) {
            ensure!(new == mapped, "a restart forgets nothing (16.4)", "{new:?}, not {mapped:?}");
        }
        ensure!(
            after == expected,
            "a restart forgets nothing (16.4)",
            "{after:?} instead of {expected:?}"
        );
        Ok(())
    }

    /// Rows survive being encoded and decoded.
    pub(crate) fn check_encoding(&self, step: &Step) -> Check {
        for write in &step.writes {
            let again = serde_json::to_string(write)
                .and_then(|text| serde_json::from_str::<Write>(&text))
                .map_err(|error| error.to_string());
            ensure!(
                again.as_ref() == Ok(write),
                "a row survives encoding (16.1)",
                "{write:?} became {again:?}"
            );
        }
        Ok(())
    }
}

/// What a restart makes of rows.
fn mapped(mut rows: Rows, settings: &Settings, now: Now) -> Rows {
    for row in &mut rows.claims {
        map_claim(row, settings, now);
    }
    rows.totals.interrupted += rows.open_runs.len() as u64;
    rows.open_runs.clear();
    rows
}

fn map_claim(row: &mut ClaimRow, settings: &Settings, now: Now) {
    match row.stage {
        ClaimStage::Waiting => {
            row.due = row.due.filter(|due| !due.rest(now.wall).is_zero());
        }
        ClaimStage::Running => {
            row.stage = ClaimStage::Waiting;
            row.interruptions += 1;
            let message = "the service ended while the agent was at work";
            row.failure = Some(symphony_core::Failure::new(FailureKind::Interrupted, message));
            let wait = interruption_delay(row.interruptions, settings);
            row.due = (!wait.is_zero()).then(|| DueTime::after(wait, now.wall));
        }
        ClaimStage::Blocked => {
            row.since = row.since.or(Some(now.wall));
            if row.question.is_none() {
                (row.thread, row.agent, row.asked) = (None, None, None);
                row.unanswered = false;
                row.interruptions = 0;
                row.counted.clear();
            }
        }
    }
}

/// The wait of a claim that was interrupted so many times in a row: from the third on, that of the
/// first attempt, the second, and so on.
pub(crate) fn interruption_delay(interruptions: u32, settings: &Settings) -> Duration {
    match interruptions {
        0..=2 => Duration::ZERO,
        more => backoff(settings, more - 2),
    }
}
