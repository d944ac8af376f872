//! One live run, as its worker reports it.

use std::collections::BTreeMap;
use std::time::Duration;

use symphony_core::agent::{AgentErrorKind, AgentUpdate, Opened, Question, ThreadId, Tokens};
use symphony_core::orchestrator::{Effect, Event, Phase, RunEnd, RunEvent};
use symphony_core::run::RunId;
use symphony_core::{Failure, FailureKind, WorkspaceRecord};

use super::{Harness, id};

pub(crate) struct Run<'a> {
    harness: &'a mut Harness,
    run: RunId,
}

impl<'a> Run<'a> {
    pub(super) fn of(harness: &'a mut Harness, name: &str) -> Self {
        let issue = id(name);
        let live = harness.runs.iter().find(|(_, run)| run.start.issue.id == issue);
        let run = *live.unwrap_or_else(|| panic!("{name} does not run")).0;
        Self { harness, run }
    }

    pub(crate) fn id(&self) -> RunId {
        self.run
    }

    /// The conversation that [`works`](Self::works) opens: a new one, unless it was to go on.
    pub(crate) fn thread(&self) -> ThreadId {
        let resumed = self.harness.runs[&self.run].start.resume.clone();
        resumed.unwrap_or_else(|| ThreadId::from(format!("thread-{}", self.run.number)))
    }

    pub(super) fn is_at_work(&self) -> bool {
        self.harness.runs[&self.run].turns > 0
    }

    fn news(self, news: RunEvent) -> Self {
        self.harness.event(Event::Run { run: self.run, news });
        self
    }

    pub(crate) fn enters(self, phase: Phase) -> Self {
        self.news(RunEvent::Phase(phase))
    }

    /// Its workspace exists.
    pub(crate) fn has_workspace(self) -> Self {
        let start = &self.harness.runs[&self.run].start;
        let record = start.record.clone().unwrap_or_else(|| WorkspaceRecord {
            issue: start.issue.id.clone(),
            identifier: start.issue.identifier.clone(),
            scope: self.harness.configuration.scope.clone(),
            host: start.host.clone(),
            key: start.key.clone(),
            path: format!("/symphony/{}", start.key).into(),
        });
        self.news(RunEvent::Workspace(record))
    }

    /// It goes through all phases up to its first turn.
    pub(crate) fn works(self) -> Self {
        let session = AgentUpdate::Session {
            thread: self.thread(),
            session_id: format!("{}-1", self.thread()).into(),
            pid: Some(4242),
        };
        let run = self
            .enters(Phase::PreparingWorkspace)
            .has_workspace()
            .enters(Phase::BuildingPrompt)
            .enters(Phase::LaunchingAgent)
            .enters(Phase::InitializingSession)
            .opens_as_asked()
            .says(session)
            .enters(Phase::StreamingTurn);
        if let Some(live) = run.harness.runs.get_mut(&run.run) {
            live.turns = 1;
        }
        run
    }

    /// Its session is open; the order of its first turn is taken.
    fn opens_as_asked(self) -> Self {
        let opened = Opened::new(self.thread());
        let run = self.opens(opened);
        let is_first = |effect: &Effect| matches!(effect, Effect::NextTurn { run: of, turn: 1, .. } if *of == run.run);
        run.harness.effects.retain(|effect| !is_first(effect));
        run
    }

    /// The answer to its last turn has not reached it yet.
    pub(crate) fn awaits_answer(self) -> Self {
        self.harness.runs.get_mut(&self.run).expect("live").awaits_answer = true;
        self
    }

    pub(crate) fn opens(self, opened: Opened) -> Self {
        self.harness.runs.get_mut(&self.run).expect("live").awaits_answer = true;
        self.news(RunEvent::Opened(opened))
    }

    pub(crate) fn says(self, update: AgentUpdate) -> Self {
        self.news(RunEvent::Agent(update))
    }

    /// The conversation has used so many tokens in all.
    pub(crate) fn has_used(self, thread: &str, tokens: u64) -> Self {
        let total = Tokens { input: tokens, total: tokens, ..Tokens::default() };
        self.says(AgentUpdate::Usage { thread: thread.into(), total: total.into() })
    }

    pub(crate) fn turn_ends(self) -> Self {
        self.harness.runs.get_mut(&self.run).expect("live").awaits_answer = true;
        self.news(RunEvent::TurnEnded)
    }

    /// It ends as it was told to.
    pub(crate) fn ends_well(self) {
        let live = &self.harness.runs[&self.run];
        assert!(live.finishing, "only a run that was told to finish can");
        self.ends(RunEnd::Succeeded);
    }

    /// It stops as it was told to.
    pub(crate) fn stops(self) {
        let live = &self.harness.runs[&self.run];
        assert!(live.stopped, "only a run that was told to stop does");
        self.ends(RunEnd::Cancelled);
    }

    /// Its agent's process ends.
    pub(crate) fn fails(self) {
        self.fails_as(AgentErrorKind::ProcessExit, None);
    }

    pub(crate) fn fails_as(self, kind: AgentErrorKind, retry_after_ms: Option<u64>) {
        let failure = Failure::new(FailureKind::Agent(kind), "it broke")
            .with_retry_after(retry_after_ms.map(Duration::from_millis));
        self.ends(RunEnd::Failed(failure));
    }

    /// It ends with a question.
    pub(crate) fn asks(self, question: &str) {
        let question = Question::text("q-1", question);
        self.ends(RunEnd::InputRequired { question });
    }

    pub(crate) fn ends(self, end: RunEnd) {
        self.harness.runs.remove(&self.run);
        self.news(RunEvent::Ended(end));
    }
}

/// The run that an effect is for.
pub(super) fn target_run(effect: &Effect) -> Option<RunId> {
    match effect {
        Effect::NextTurn { run, .. } | Effect::Finish { run } | Effect::Stop { run, .. } => {
            Some(*run)
        }
        _ => None,
    }
}

/// What an effect tells a run, in a few words; `None` for other effects.
pub(super) fn spell(effect: &Effect, names: &BTreeMap<RunId, String>) -> Option<String> {
    let name = &names[&target_run(effect)?];
    match effect {
        Effect::NextTurn { turn, .. } => Some(format!("next turn {name}: {turn}")),
        Effect::Finish { .. } => Some(format!("finish {name}")),
        Effect::Stop { why, .. } => Some(format!("stop {name}: {why:?}")),
        _ => None,
    }
}
