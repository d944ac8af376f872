//! The demo as lines: which issue, what happened, and why.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Instant;

use anstream::println;
use anstyle::{AnsiColor, Style};
use symphony_api::{NoticeLevel, NoticeText};
use symphony_core::orchestrator::{BlockReason, Notice, NoticeKind};
use symphony_core::run::RunId;
use symphony_core::snapshot::{Reason, Snapshot};
use symphony_core::{Identifier, Issue, Settings};
use symphony_runtime::{Handle, plain};

const GOOD: Style = AnsiColor::Green.on_default();
const BAD: Style = AnsiColor::Yellow.on_default();
const DIM: Style = Style::new().dimmed();
const BOLD: Style = Style::new().bold();

/// The event of an agent that says something.
const MESSAGE_EVENT: &str = "notification";

/// What has been shown already.
pub(super) struct DemoView {
    began: Instant,
    titles: BTreeMap<Identifier, String>,
    /// How many of its events each run has shown.
    shown: BTreeMap<RunId, usize>,
    /// Why each issue was last seen waiting.
    reasons: BTreeMap<Identifier, Reason>,
    runs: BTreeMap<Identifier, u32>,
}

impl DemoView {
    pub(super) fn new(issues: Vec<Issue>) -> Self {
        let titles = issues.into_iter().map(|issue| (issue.identifier, issue.title)).collect();
        Self {
            began: Instant::now(),
            titles,
            shown: BTreeMap::new(),
            reasons: BTreeMap::new(),
            runs: BTreeMap::new(),
        }
    }

    pub(super) fn show_intro(&self, settings: &Settings) {
        let (issues, agents) = (self.titles.len(), settings.agent.max_concurrent_agents);
        println!(
            "{BOLD}Symphony demo{BOLD:#}: {issues} issues, at most {agents} agents at a time."
        );
        println!(
            "Workspaces, hooks, agents' processes and the scheduler are real; the agents follow a script.\n"
        );
    }

    /// Where a browser shows it.
    pub(super) fn point_at(&self, address: SocketAddr) {
        println!("{BOLD}Dashboard{BOLD:#}: http://{address}/ (Ctrl-C ends the demo)\n");
    }

    /// Nothing is left to do, and people may still look.
    pub(super) fn show_waiting(&self) {
        println!("\nEverything is done. The dashboard stays until Ctrl-C.");
    }

    fn line(&self, who: Option<&Identifier>, style: Style, what: &str) {
        let at = self.began.elapsed().as_secs_f32();
        let who = who.map_or("", Identifier::as_str);
        println!("{DIM}{at:6.2}s{DIM:#}  {BOLD}{who:<7}{BOLD:#} {style}{what}{style:#}");
    }

    /// Something happened.
    pub(super) fn show_notice(&mut self, notice: &Notice, handle: &Handle) {
        let who = notice.issue.as_ref().map(|issue| issue.identifier.clone());
        if let (Some(who), Some(run)) = (&who, notice.run) {
            self.show_messages(who, run, handle);
        }
        let Some(what) = self.describe(notice) else { return };
        self.line(who.as_ref(), style(notice), &plain(&what, 200));
    }

    /// A notice as a line of the demo; a start names the issue, which is not known by heart.
    fn describe(&mut self, notice: &Notice) -> Option<String> {
        let text = NoticeText::from(&notice.what);
        match &notice.what {
            NoticeKind::Started { attempt, .. } => {
                let who = &notice.issue.as_ref()?.identifier;
                *self.runs.entry(who.clone()).or_default() += 1;
                let again = attempt.map(|number| format!(" (attempt {number})"));
                let title = self.titles.get(who).map_or("", String::as_str);
                Some(format!("{}{}: {title}", text.title, again.unwrap_or_default()))
            }
            NoticeKind::Waiting { failure: None, .. }
            | NoticeKind::Blocked { why: BlockReason::Operator } => None,
            NoticeKind::Continued { .. }
            | NoticeKind::Ended { .. }
            | NoticeKind::Waiting { .. }
            | NoticeKind::Blocked { .. }
            | NoticeKind::Cleaned
            | NoticeKind::CleaningFailed { .. }
            | NoticeKind::ReadFailed { .. } => Some(text.line()),
            _ => None,
        }
    }

    /// Things are like this now.
    pub(super) fn show(&mut self, snapshot: &Snapshot, handle: &Handle) {
        for row in &snapshot.running {
            self.show_messages(&row.issue.identifier, row.run, handle);
        }
        for row in &snapshot.candidates.first {
            let worth_telling = matches!(row.reason, Reason::BlockedBy(_) | Reason::NoSlot);
            if worth_telling && self.reasons.get(&row.identifier) != Some(&row.reason) {
                self.reasons.insert(row.identifier.clone(), row.reason.clone());
                let why = format!("waits: {}", plain(&row.reason.to_string(), 200));
                self.line(Some(&row.identifier), DIM, &why);
            }
        }
    }

    /// What an agent has said since it was last looked at.
    fn show_messages(&mut self, who: &Identifier, run: RunId, handle: &Handle) {
        let events = handle.events(run);
        let shown = self.shown.insert(run, events.len()).unwrap_or_default();
        for event in events.iter().skip(shown).filter(|event| event.name == MESSAGE_EVENT) {
            let said = format!("  \"{}\"", plain(&event.summary, 200));
            self.line(Some(who), DIM, &said);
        }
    }

    /// All there is to say at the end.
    pub(super) fn show_summary(&self, last: &Snapshot, issues: &[Issue], saved: usize) {
        println!("\n{BOLD}{:<8} {:<22} {:<6} {}{BOLD:#}", "issue", "title", "state", "runs");
        for issue in issues {
            let runs = self.runs.get(&issue.identifier).copied().unwrap_or_default();
            let (name, title) = (plain(issue.identifier.as_str(), 40), plain(&issue.title, 40));
            println!("{name:<8} {title:<22} {:<6} {runs}", plain(issue.state.as_str(), 40));
        }
        let totals = &last.totals;
        println!(
            "\n{} runs, {} of them failed, {} tokens, {:.1} s of agents' time in {:.1} s.",
            totals.started,
            totals.failed,
            totals.tokens.total,
            totals.runtime.as_secs_f32(),
            self.began.elapsed().as_secs_f32(),
        );
        println!("{saved} reports saved by the before_remove hook; no workspace is left.");
        println!("\nNext: `symphony init` writes a WORKFLOW.md of your own.");
    }
}

fn style(notice: &Notice) -> Style {
    let text = NoticeText::from(&notice.what);
    match notice.what {
        NoticeKind::Cleaned => GOOD,
        _ if text.level >= NoticeLevel::Warn || text.fields.error.is_some() => BAD,
        _ => Style::new(),
    }
}
