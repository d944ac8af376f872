//! Every candidate that is not running has one reason, and it is true (contract 5.5).

use std::collections::BTreeMap;
use std::sync::Arc;

use symphony_core::Issue;
use symphony_core::snapshot::{CandidatesView, Explanation, Reason, Unstarted, Verdict};

use crate::claims::View;
use crate::dispatch::Holder;
use crate::eligibility::obstacle;
use crate::oracle::Oracle;
use crate::violation::{Check, ensure};

impl Oracle {
    /// Judges the whole explanation, and the short form of it in the snapshot.
    pub(crate) fn check_reasons(&self, explanation: &Explanation, view: &CandidatesView) -> Check {
        if self.kept.stale {
            return Ok(());
        }
        let rows = &explanation.unstarted;
        ensure!(
            explanation.read_at == self.kept.read_at,
            "the list's age is shown (5.5)",
            "{:?} instead of {:?}",
            explanation.read_at,
            self.kept.read_at
        );
        ensure!(
            view.read_at == self.kept.read_at && view.more == self.kept.more,
            "the list's age is shown (5.5)",
            "{view:?}"
        );
        for issue in &self.kept.list {
            let shown = rows.iter().filter(|row| row.id == issue.id).count();
            let running = self.is_running(&issue.id);
            ensure!(
                shown == usize::from(!running),
                "every unstarted candidate has one reason (5.5)",
                "{} has {shown}, running {running}",
                issue.id
            );
        }
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for row in rows {
            *counts.entry(row.reason.as_str().to_owned()).or_default() += 1;
            self.check_reason(row)?;
        }
        ensure!(
            view.reasons == counts,
            "reasons are counted (5.5)",
            "{:?} instead of {counts:?}",
            view.reasons
        );
        ensure!(
            view.total == self.kept.list.len(),
            "reasons are counted (5.5)",
            "{} instead of {}",
            view.total,
            self.kept.list.len()
        );
        // What another list shows, or what is over, comes last.
        let elsewhere = |row: &&Unstarted| row.is_claimed || row.reason.is_over();
        let shown_here = rows.iter().filter(|row| !elsewhere(row));
        let expected = shown_here.chain(rows.iter().filter(elsewhere)).take(200);
        ensure!(
            view.first.iter().eq(expected),
            "reasons are counted (5.5)",
            "the first are others"
        );
        self.check_verdict(&explanation.verdict, rows)
    }

    fn check_reason(&self, row: &Unstarted) -> Check {
        let Some(listed) = self.kept.list.iter().find(|issue| issue.id == row.id) else {
            ensure!(
                false,
                "every unstarted candidate has one reason (5.5)",
                "{row:?} is not a candidate"
            );
            return Ok(());
        };
        // Later reads may have told more of it than the list.
        let newer = self.kept.newer.get(&row.id).into_iter().flatten().map(|(_, view)| view);
        let claim = self.claims.get(&row.id).map(|entry| Some(Arc::clone(&entry.issue)));
        let listed = Some(Arc::clone(listed));
        let views = std::iter::once(&listed).chain(newer).chain(claim.as_ref());
        let mut expected: Vec<Reason> =
            views.flat_map(|view| self.reasons(view.as_deref(), row)).collect();
        if self.kept.failed.contains_key(&row.id) {
            expected.extend([Reason::Budget, Reason::CheckFailed, Reason::Unreadable]);
        }
        if self.pace.checks_wait(self.now.mono) {
            expected.extend([Reason::Budget, Reason::CheckFailed]);
        }
        // Which of several full hosts is named, and which of two holders, is left open.
        if matches!(row.reason, Reason::HostSlot(_)) {
            expected.extend(
                expected
                    .iter()
                    .any(|reason| matches!(reason, Reason::HostSlot(_)))
                    .then(|| row.reason.clone()),
            );
        }
        if matches!(row.reason, Reason::WorkspaceHeld(_))
            && expected.iter().any(|reason| matches!(reason, Reason::WorkspaceHeld(_)))
        {
            return Ok(());
        }
        // Where it is open which record it has, so is what is in its way.
        if self.has_record(&row.id).is_none() {
            return Ok(());
        }
        // What was let go waits for the next list, whatever else stands in its way.
        if self.was_claimed.contains(&row.id) {
            expected.push(Reason::NextRead);
        }
        // A stray's issue was let go because it is over; that its record is malformed besides is the
        // lesser news.
        if matches!(row.reason, Reason::Terminal(_)) && expected.contains(&Reason::Malformed) {
            return Ok(());
        }
        ensure!(
            expected.contains(&row.reason),
            "reasons are true (5.5)",
            "{row:?}, expected one of {expected:?}"
        );
        Ok(())
    }

    /// The reason of one view of the issue; two where the holder of its workspace is left open.
    fn reasons(&self, issue: Option<&Issue>, row: &Unstarted) -> Vec<Reason> {
        match self.claims.get(&row.id).map(|entry| &entry.view) {
            Some(View::Waiting { until: Some(at), .. }) => return vec![Reason::WaitingUntil(*at)],
            Some(View::Checking { .. } | View::Cleaning { .. }) => return vec![Reason::Claimed],
            Some(View::Blocked { why }) => return vec![Reason::NeedsPerson(why.clone())],
            Some(View::Waiting { until: None, .. } | View::Running { .. }) | None => {}
        }
        let Some(issue) = issue else {
            return vec![Reason::Gone];
        };
        if let Some(reason) =
            obstacle(issue, self.settings(), self.has_record(&issue.id) == Some(true))
        {
            // What was noted while it had a workspace stays true without one.
            let noted = obstacle(issue, self.settings(), true);
            return [reason].into_iter().chain(noted).collect();
        }
        match self.key_of(issue).and_then(|key| self.holder(&issue.id, &key)) {
            Some(Holder::Sure(other)) => vec![Reason::WorkspaceHeld(other)],
            Some(Holder::Perhaps(other)) => vec![Reason::WorkspaceHeld(other), self.gate(issue)],
            None => vec![self.gate(issue)],
        }
    }

    /// What the service as a whole has against a start, in the order of [`Reason`].
    fn gate(&self, issue: &Issue) -> Reason {
        let agent = &self.settings().agent.kind;
        if self.shutting_down {
            Reason::ShuttingDown
        } else if !self.valid {
            Reason::InvalidWorkflow
        } else if self.paused {
            Reason::Paused
        } else if self.storage {
            Reason::Storage
        } else if self.holds.holds(agent, self.now.mono) {
            let until = self.holds.all.get(agent).and_then(|hold| hold.until.first());
            Reason::Hold(until.copied().unwrap_or_default())
        } else if self.free_slots() == 0 {
            Reason::NoSlot
        } else if !self.state_slot(&issue.state) {
            Reason::StateSlot(issue.state.clone())
        } else if !self.host_slot(&issue.id) {
            let recorded = self.records.get(&issue.id).into_iter().flatten().flatten().next();
            let host = recorded.map(|record| record.host.clone());
            Reason::HostSlot(
                host.or_else(|| self.settings().hosts.first().map(|host| host.id.clone()))
                    .unwrap_or_else(symphony_core::HostId::local),
            )
        } else {
            Reason::NextRead
        }
    }

    /// "Nothing eligible", "poll failed" and "blocked by a bad file" are different answers.
    fn check_verdict(&self, verdict: &Verdict, rows: &[Unstarted]) -> Check {
        let checking =
            self.claims.values().any(|entry| matches!(entry.view, View::Checking { .. }));
        let starting = checking || rows.iter().any(|row| row.reason == Reason::NextRead);
        let fits = match verdict {
            Verdict::ShuttingDown => self.shutting_down,
            Verdict::InvalidWorkflow(_) => !self.valid,
            Verdict::Paused => self.paused,
            Verdict::Storage(_) => self.storage,
            Verdict::Held(_) => self.holds.all.contains_key(&self.settings().agent.kind),
            Verdict::NotPolledYet => self.kept.read_at.is_none(),
            Verdict::PollFailed(_) => self.kept.list_failed,
            Verdict::Full => self.free_slots() == 0,
            Verdict::Starting => starting,
            Verdict::NothingEligible => {
                !self.kept.list.is_empty() && !rows.iter().any(|row| row.reason == Reason::NextRead)
            }
            Verdict::NoCandidates => self.kept.list.is_empty(),
            other => unreachable!("the simulation does not know {other:?}"),
        };
        ensure!(fits, "the verdict is true (5.5)", "{verdict:?}: {rows:?}");
        let masked = (self.shutting_down && *verdict != Verdict::ShuttingDown)
            || (!self.shutting_down
                && !self.valid
                && !matches!(verdict, Verdict::InvalidWorkflow(_)));
        ensure!(
            !masked,
            "the verdict is true (5.5)",
            "{verdict:?}, shutting down {}, valid {}",
            self.shutting_down,
            self.valid
        );
        Ok(())
    }
}
