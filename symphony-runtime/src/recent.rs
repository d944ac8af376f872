//! The last things that happened to each issue, for people who look at one. Kept here and not in
//! the core, which has no use for them.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use symphony_api::{IssueHead, IssueHistory, NoticeText, RunStatus, TimelineEntry};
use symphony_core::agent::AgentEvent;
use symphony_core::orchestrator::{IssueName, Notice, NoticeKind};
use symphony_core::run::RunId;
use symphony_core::time::Wall;
use symphony_core::{Identifier, IssueId};

/// How many events of an issue are kept.
const MAX_EVENTS_PER_ISSUE: usize = 200;

/// How many of its runs.
const MAX_RUNS_PER_ISSUE: usize = 20;

/// How many events in all: beyond it, the issue that was silent for longest is forgotten.
const MAX_EVENTS: usize = 200_000;

/// The last events and runs of the latest issues.
#[derive(Debug, Default)]
pub(crate) struct RecentIssues(Mutex<Issues>);

#[derive(Debug, Default)]
struct Issues {
    issues: BTreeMap<IssueId, History>,
    /// Which issue a run is about.
    runs: BTreeMap<RunId, IssueId>,
    /// How many events there are in all.
    events: usize,
    /// Grows with every event.
    ticks: u64,
}

/// What happened to one issue.
#[derive(Debug)]
struct History {
    name: IssueName,
    /// The issue as it was last read: its page keeps its title when all else is over.
    last_read: Option<IssueHead>,
    events: VecDeque<Happening>,
    runs: VecDeque<(RunId, RunStatus)>,
    last_tick: u64,
}

impl History {
    /// Whether a run of it lives.
    fn lives(&self) -> bool {
        self.runs.back().is_some_and(|(_, run)| run.ended_at.is_none())
    }
}

#[derive(Debug)]
enum Happening {
    Agent(RunId, Arc<AgentEvent>),
    Notice { at: Wall, run: Option<RunId>, code: &'static str, message: String },
}

impl Happening {
    fn to_entry(&self) -> TimelineEntry {
        match self {
            Self::Agent(run, event) => TimelineEntry::of_agent(*run, event),
            Self::Notice { at, run, code, message } => {
                TimelineEntry::of_notice(*at, *run, code, message)
            }
        }
    }
}

impl RecentIssues {
    fn lock(&self) -> MutexGuard<'_, Issues> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An agent did something.
    pub(crate) fn add_event(&self, run: RunId, event: &Arc<AgentEvent>) {
        let mut recent = self.lock();
        if let Some(issue) = recent.runs.get(&run).cloned() {
            recent.push(&issue, Happening::Agent(run, Arc::clone(event)));
        }
    }

    /// Something happened to an issue.
    pub(crate) fn add_notice(&self, now: Wall, notice: &Notice, text: &NoticeText) {
        let Some(name) = &notice.issue else { return };
        let mut recent = self.lock();
        let history = recent.issues.entry(name.id.clone()).or_insert_with(|| History {
            name: name.clone(),
            last_read: None,
            events: VecDeque::new(),
            runs: VecDeque::new(),
            last_tick: 0,
        });
        history.name.clone_from(name);
        if let Some(issue) = &notice.last_read {
            history.last_read = Some(IssueHead::from(&**issue));
        }
        match (&notice.what, notice.run) {
            (NoticeKind::Started { attempt, .. }, Some(run)) => {
                history.runs.push_back((run, RunStatus::started(run, *attempt, now)));
                let forgotten =
                    (history.runs.len() > MAX_RUNS_PER_ISSUE).then(|| history.runs.pop_front());
                recent.runs.insert(run, name.id.clone());
                if let Some(Some((oldest, _))) = forgotten {
                    recent.runs.remove(&oldest);
                }
            }
            (NoticeKind::Ended { outcome, end, .. }, Some(run)) => {
                let known = history.runs.iter_mut().rev().find(|(id, _)| *id == run);
                if let Some((_, status)) = known {
                    status.end(*outcome, end, now);
                }
            }
            _ => {}
        }
        let (code, message) = (text.code, text.message().to_owned());
        recent.push(&name.id, Happening::Notice { at: now, run: notice.run, code, message });
    }

    /// The last things an agent did in a run, oldest first.
    pub(crate) fn events_of(&self, run: RunId) -> Vec<Arc<AgentEvent>> {
        let recent = self.lock();
        let issue = recent.runs.get(&run).and_then(|issue| recent.issues.get(issue));
        let events = issue.into_iter().flat_map(|history| &history.events);
        let of_run = events.filter_map(|happening| match happening {
            Happening::Agent(id, event) if *id == run => Some(Arc::clone(event)),
            _ => None,
        });
        of_run.collect()
    }

    /// An issue by its human key.
    pub(crate) fn find(&self, identifier: &Identifier) -> Option<IssueId> {
        let recent = self.lock();
        let mut known = recent.issues.values().map(|history| &history.name);
        known.find(|name| name.identifier == *identifier).map(|name| name.id.clone())
    }

    /// Whether anything is known of an issue.
    pub(crate) fn has_issue(&self, issue: &IssueId) -> bool {
        self.lock().issues.contains_key(issue)
    }

    /// What happened to an issue and its runs, oldest first.
    pub(crate) fn history(&self, issue: &IssueId) -> IssueHistory {
        let recent = self.lock();
        let Some(history) = recent.issues.get(issue) else { return IssueHistory::default() };
        let events = history.events.iter().map(Happening::to_entry).collect();
        let runs = history.runs.iter().map(|(_, run)| run.clone()).collect();
        IssueHistory { events, runs, last_read: history.last_read.clone() }
    }
}

impl Issues {
    fn push(&mut self, issue: &IssueId, happening: Happening) {
        let Some(history) = self.issues.get_mut(issue) else { return };
        self.ticks += 1;
        history.last_tick = self.ticks;
        history.events.push_back(happening);
        if history.events.len() > MAX_EVENTS_PER_ISSUE {
            history.events.pop_front();
            return;
        }
        self.events += 1;
        if self.events > MAX_EVENTS {
            self.forget_one();
        }
    }

    fn forget_one(&mut self) {
        // One that is worked on goes last: what follows would be lost too.
        let oldest =
            self.issues.iter().min_by_key(|(_, history)| (history.lives(), history.last_tick));
        let Some(id) = oldest.map(|(id, _)| id.clone()) else { return };
        if let Some(history) = self.issues.remove(&id) {
            self.events -= history.events.len();
            history.runs.iter().for_each(|(run, _)| drop(self.runs.remove(run)));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use symphony_core::orchestrator::{Outcome, RunEnd};
    use symphony_core::{Failure, FailureKind, Issue, StateName};

    use super::*;

    fn add(recent: &RecentIssues, at: Wall, notice: &Notice) {
        recent.add_notice(at, notice, &NoticeText::from(&notice.what));
    }

    fn notice(issue: &str, number: u64, what: NoticeKind) -> Notice {
        let name =
            IssueName { id: issue.into(), identifier: format!("MT-{issue}").as_str().into() };
        let title = format!("Title {number}");
        let read = Issue::new(issue, name.identifier.as_str(), &title, "Todo").unwrap();
        let run = Some(RunId { boot: 1, number });
        let mut notice = Notice::new(what);
        (notice.issue, notice.last_read, notice.run) = (Some(name), Some(Arc::new(read)), run);
        notice
    }

    fn started(issue: &str, number: u64) -> Notice {
        notice(issue, number, NoticeKind::Started { attempt: None, state: StateName::from("Todo") })
    }

    fn event(name: usize) -> Arc<AgentEvent> {
        Arc::new(AgentEvent { name: name.to_string(), summary: String::new(), at: Wall::default() })
    }

    #[test]
    fn rule_13_2_the_last_events_of_a_run_are_kept() {
        let recent = RecentIssues::default();
        let run = RunId { boot: 1, number: 1 };
        add(&recent, Wall::default(), &started("1", 1));
        (0..MAX_EVENTS_PER_ISSUE + 3).for_each(|name| recent.add_event(run, &event(name)));
        let kept = recent.events_of(run);
        assert_eq!((kept.len(), kept[0].name.as_str()), (MAX_EVENTS_PER_ISSUE, "3"));
        recent.add_event(RunId { boot: 1, number: 2 }, &event(0));
        assert_eq!(
            recent.history(&"1".into()).events.len(),
            MAX_EVENTS_PER_ISSUE,
            "an unknown run has no events"
        );
    }

    #[test]
    fn rule_13_3_an_issue_tells_of_its_runs_and_how_they_ended() {
        let recent = RecentIssues::default();
        let at = Wall::from_unix_millis;
        let end = RunEnd::Failed(Failure::new(FailureKind::Stalled, "silent\u{1b}"));
        let outcome = Outcome::Failed;
        add(&recent, at(1), &started("1", 1));
        let took = Duration::from_secs(2);
        add(&recent, at(2), &notice("1", 1, NoticeKind::Ended { outcome, end, took }));
        add(&recent, at(3), &started("1", 2));
        let IssueHistory { events, runs, last_read } = recent.history(&"1".into());
        assert_eq!(last_read.unwrap().title, "Title 2", "as it was last read");
        let names: Vec<&str> = events.iter().map(|entry| entry.event.as_str()).collect();
        assert_eq!(names, ["run_started", "run_failed", "run_started"]);
        assert_eq!(runs.len(), 2);
        assert_eq!(runs[0].ended_at, Some(at(2)));
        assert_eq!(runs[0].outcome.as_deref(), Some("failed"));
        assert_eq!(runs[0].error.as_deref(), Some("stalled: silent\\u{1b}"));
        assert_eq!((runs[1].ended_at, runs[1].started_at), (None, at(3)));
        assert_eq!(recent.find(&"MT-1".into()), Some("1".into()));
    }

    #[test]
    fn what_is_kept_is_bounded_and_the_oldest_goes_first() {
        let recent = RecentIssues::default();
        let issues = MAX_EVENTS / MAX_EVENTS_PER_ISSUE + 2;
        for issue in 0..issues as u64 {
            add(&recent, Wall::default(), &started(&issue.to_string(), issue));
            let run = RunId { boot: 1, number: issue };
            (0..MAX_EVENTS_PER_ISSUE).for_each(|name| recent.add_event(run, &event(name)));
        }
        let inner = recent.lock();
        assert!(inner.events <= MAX_EVENTS);
        let counted: usize = inner.issues.values().map(|history| history.events.len()).sum();
        assert_eq!(inner.events, counted);
        assert!(!inner.issues.contains_key(&IssueId::from("0")));
        assert_eq!(inner.runs.len(), inner.issues.len());
    }

    #[test]
    fn an_issue_that_is_worked_on_is_forgotten_last() {
        let recent = RecentIssues::default();
        add(&recent, Wall::default(), &started("live", 0));
        for issue in 1..=(MAX_EVENTS / MAX_EVENTS_PER_ISSUE + 2) as u64 {
            add(&recent, Wall::default(), &started(&issue.to_string(), issue));
            let run = RunId { boot: 1, number: issue };
            (0..MAX_EVENTS_PER_ISSUE).for_each(|name| recent.add_event(run, &event(name)));
            let (outcome, end) = (Outcome::Succeeded, RunEnd::Succeeded);
            let took = Duration::from_secs(1);
            add(
                &recent,
                Wall::default(),
                &notice(&issue.to_string(), issue, NoticeKind::Ended { outcome, end, took }),
            );
        }
        let inner = recent.lock();
        assert!(inner.events <= MAX_EVENTS && inner.issues.contains_key(&IssueId::from("live")));
        assert!(!inner.issues.contains_key(&IssueId::from("1")));
    }

    #[test]
    fn the_runs_of_an_issue_are_bounded() {
        let recent = RecentIssues::default();
        (0..100).for_each(|number| add(&recent, Wall::default(), &started("1", number)));
        assert_eq!(recent.history(&"1".into()).runs.len(), MAX_RUNS_PER_ISSUE);
        assert_eq!(recent.lock().runs.len(), MAX_RUNS_PER_ISSUE);
    }
}
