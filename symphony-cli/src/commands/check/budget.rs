//! `symphony check --budget`: what polling will cost, and whether it may.

use std::io::{self, Write};

use symphony_core::budget::BudgetView;
use symphony_core::finding::Finding;
use symphony_core::forecast::{Workload, daily, hourly};
use symphony_core::settings::PollingSettings;
use symphony_core::snapshot::Mode;

/// How long people work.
const HOURS_OF_WORK: u64 = 8;

/// The forecast as a table.
pub(super) fn write_forecast(
    out: &mut impl Write,
    polling: &PollingSettings,
    agents: u32,
) -> io::Result<()> {
    let workload = Workload::with_agents(agents);
    writeln!(out, "\nRequests to the tracker, if a poll is one request:\n")?;
    writeln!(out, "  {:<34} {:>7} {:>7} {:>9}", "", "polls/h", "reads/h", "all/h")?;
    let mut row = |name: &str, mode, workload| {
        let hour = hourly(polling, mode, workload);
        let (polls, reads, all) = (hour.polls, hour.reads, hour.total());
        writeln!(out, "  {name:<34} {polls:>7} {reads:>7} {all:>9}")
    };
    row(&format!("active, {agents} agents at work"), Mode::Active, workload)?;
    row("active, no agent at work", Mode::Active, Workload::with_agents(0))?;
    if polling.activity.is_some() {
        row("idle", Mode::Idle, Workload::with_agents(0))?;
    }
    if polling.activity.is_some() || polling.quiet_hours.is_some() {
        row("dormant, quiet hours", Mode::Dormant, Workload::with_agents(0))?;
    }
    let (usual, most) = (daily(polling, workload, HOURS_OF_WORK), daily(polling, workload, 24));
    writeln!(
        out,
        "\n  A day with {HOURS_OF_WORK} h of work: {usual}. A day and a night of work: {most}."
    )?;
    let minutes = workload.turn.as_secs() / 60;
    writeln!(
        out,
        "  Reads come before starts and after turns; {} turns of {minutes} minutes for each issue \
         are assumed.\n  What agents ask with the tracker's tool comes on top.\n",
        workload.turns
    )
}

/// Whether it may cost that much: by the settings, and by what the tracker says.
pub(super) fn findings(
    polling: &PollingSettings,
    agents: u32,
    known: Option<&BudgetView>,
) -> Vec<Finding> {
    let workload = Workload::with_agents(agents);
    let hour = hourly(polling, Mode::Active, workload).total();
    let day = daily(polling, workload, 24);
    let theirs = known.and_then(|view| view.requests_limit);
    let limits = [
        ("polling.budget.per_hour", "an hour", hour, polling.budget.per_hour.map(u64::from)),
        ("polling.budget.per_day", "a day", day, polling.budget.per_day.map(u64::from)),
        ("the tracker's limit", "an hour", hour, theirs),
    ];
    let mut findings = Vec::new();
    for (whose, span, cost, limit) in limits {
        let Some(limit) = limit else { continue };
        let text = format!("{whose} is {limit} requests {span}; {agents} agents would take {cost}");
        findings.push(if cost > limit {
            Finding::doubtful(
                "budget",
                format!("{text}: polling will be slower than its intervals"),
            )
        } else if cost.saturating_mul(5) > limit.saturating_mul(4) {
            Finding::doubtful(
                "budget",
                format!("{text}, which leaves little for agents' tool calls"),
            )
        } else {
            Finding::fine("budget", text)
        });
    }
    if findings.is_empty() {
        let text = "no limit is known: neither the settings nor the tracker name one";
        findings.push(Finding::fine("budget", text));
    }
    findings
}

#[cfg(test)]
mod tests {
    use symphony_core::finding::Severity;

    use super::*;

    fn severities(polling: &PollingSettings, theirs: Option<u64>) -> Vec<Severity> {
        let view = BudgetView { requests_limit: theirs, ..BudgetView::default() };
        findings(polling, 10, Some(&view)).into_iter().map(|finding| finding.severity).collect()
    }

    #[test]
    fn rule_12_7_a_quota_that_would_be_exceeded_is_told_before() {
        let mut polling = PollingSettings::default();
        // 120 polls, 60 reads after turns, 30 before starts.
        assert_eq!(hourly(&polling, Mode::Active, Workload::with_agents(10)).total(), 210);
        assert_eq!(severities(&polling, None), [Severity::Fine], "no limit");
        assert_eq!(severities(&polling, Some(2_500)), [Severity::Fine]);
        assert_eq!(severities(&polling, Some(240)), [Severity::Doubtful], "little is left");
        polling.budget.per_hour = Some(100);
        polling.budget.per_day = Some(100_000);
        assert_eq!(severities(&polling, None), [Severity::Doubtful, Severity::Fine]);
    }
}
