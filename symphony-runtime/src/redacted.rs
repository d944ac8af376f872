//! A tracker whose every word passes the redactor before anything else sees it (contract 11.7).
//!
//! Whatever answers in a tracker's place may repeat the key that it was sent. The loader puts this
//! around every tracker that a factory builds, so errors, issues, findings and results of tools are
//! clean before they become a log line, a status, a page, a prompt or an agent's input.

use std::borrow::Cow;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Map, Value};
use symphony_core::budget::Spent;
use symphony_core::finding::Finding;
use symphony_core::redact::Redactor;
use symphony_core::tracker::{
    AgentTools, IssuesById, Poll, Polled, ToolCall, ToolResult, ToolSpec, Tracker, TrackerError,
};
use symphony_core::webhook::Webhook;
use symphony_core::{Blocker, Issue, Label, Settings};

use crate::clock::wall_now;

/// A tracker without the secrets it might repeat.
#[derive(Debug)]
pub(crate) struct Redacted {
    tracker: Arc<dyn Tracker>,
    words: Arc<Words>,
}

impl Redacted {
    pub(crate) fn new(tracker: Arc<dyn Tracker>, redactor: Redactor) -> Self {
        Self { tracker, words: Arc::new(Words(redactor)) }
    }
}

#[async_trait]
impl Tracker for Redacted {
    async fn poll(&self, poll: &Poll) -> Polled {
        let mut polled = self.tracker.poll(poll).await;
        match &mut polled.candidates {
            Some(Ok(candidates)) => self.words.issues(&mut candidates.issues),
            Some(Err(error)) => self.words.error(error),
            None => {}
        }
        self.words.by_id(&mut polled.by_id);
        polled
    }

    async fn find(&self, name: &str) -> Result<Option<Issue>, TrackerError> {
        let mut found = self.tracker.find(name).await;
        match &mut found {
            Ok(issue) => self.words.issues(issue.as_mut_slice()),
            Err(error) => self.words.error(error),
        }
        found
    }

    fn tools(&self) -> Option<Arc<dyn AgentTools>> {
        let tools = self.tracker.tools()?;
        Some(Arc::new(RedactedTools { tools, words: Arc::clone(&self.words) }))
    }

    /// Says no words: a refusal is one of three, and a delivery names ids.
    fn webhook(&self) -> Option<Arc<dyn Webhook>> {
        self.tracker.webhook()
    }

    fn resume(&self, spent: &Spent) {
        self.tracker.resume(spent);
    }

    async fn examine(&self, settings: &Settings) -> Vec<Finding> {
        let mut findings = self.tracker.examine(settings).await;
        for finding in &mut findings {
            self.words.text(&mut finding.subject);
            self.words.text(&mut finding.text);
        }
        findings
    }
}

/// The tools of a tracker, whose results are the tracker's words too.
#[derive(Debug)]
struct RedactedTools {
    tools: Arc<dyn AgentTools>,
    words: Arc<Words>,
}

#[async_trait]
impl AgentTools for RedactedTools {
    fn specs(&self) -> Vec<ToolSpec> {
        self.tools.specs()
    }

    async fn call(&self, call: ToolCall) -> ToolResult {
        let mut result = self.tools.call(call).await;
        self.words.text(&mut result.text);
        result
    }
}

/// Takes secrets out of what a tracker says. Text without one is neither copied nor replaced.
#[derive(Debug)]
struct Words(Redactor);

impl Words {
    /// What is to stand in the place of a text, if it holds a secret.
    fn replacement_for<T: for<'t> From<&'t str>>(&self, text: &str) -> Option<T> {
        match self.0.clean(text) {
            Cow::Borrowed(_) => None,
            Cow::Owned(clean) => Some(T::from(&clean)),
        }
    }

    fn text(&self, text: &mut String) {
        if let Some(clean) = self.replacement_for(text) {
            *text = clean;
        }
    }

    fn by_id(&self, read: &mut Result<IssuesById, TrackerError>) {
        match read {
            Ok(by_id) => {
                self.issues(&mut by_id.found);
                by_id.unreadable.iter_mut().for_each(|unread| self.text(&mut unread.message));
            }
            Err(error) => self.error(error),
        }
    }

    /// A cause is told with the message, so one that holds a secret goes with it.
    fn error(&self, error: &mut TrackerError) {
        let chain = error.to_failure(wall_now()).message;
        if let Some(clean) = self.replacement_for(&chain) {
            error.message = clean;
            error.source = None;
        }
    }

    fn issues(&self, issues: &mut [Issue]) {
        issues.iter_mut().for_each(|issue| self.issue(issue));
    }

    fn issue(&self, issue: &mut Issue) {
        let Issue { id, identifier, state, .. } = issue;
        if let Some(clean) = self.replacement_for(id.as_str()) {
            *id = clean;
        }
        if let Some(clean) = self.replacement_for(identifier.as_str()) {
            *identifier = clean;
        }
        if let Some(clean) = self.replacement_for(state.as_str()) {
            *state = clean;
        }
        self.text(&mut issue.title);
        let texts = [&mut issue.description, &mut issue.branch_name, &mut issue.url];
        texts.into_iter().flatten().for_each(|text| self.text(text));
        let texts = [&mut issue.assignee_id, &mut issue.kept_back_by];
        texts.into_iter().flatten().for_each(|text| self.text(text));
        let holds_one = |label: &Label| self.replacement_for::<String>(label.as_str()).is_some();
        if issue.labels.iter().any(holds_one) {
            issue.labels =
                Label::list(issue.labels.iter().map(|label| self.0.clean(label.as_str())));
        }
        issue.blocked_by.iter_mut().for_each(|blocker| self.blocker(blocker));
        issue.native_ref.iter_mut().for_each(|reference| self.members(reference));
    }

    fn blocker(&self, blocker: &mut Blocker) {
        let Blocker { id, identifier, state, .. } = blocker;
        if let Some(clean) = id.as_ref().and_then(|id| self.replacement_for(id.as_str())) {
            *id = Some(clean);
        }
        if let Some(clean) = identifier.as_ref().and_then(|id| self.replacement_for(id.as_str())) {
            *identifier = Some(clean);
        }
        if let Some(clean) = state.as_ref().and_then(|state| self.replacement_for(state.as_str())) {
            *state = Some(clean);
        }
    }

    fn members(&self, object: &mut Map<String, Value>) {
        object.values_mut().for_each(|value| self.value(value));
    }

    fn value(&self, value: &mut Value) {
        match value {
            Value::String(text) => self.text(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.value(item)),
            Value::Object(object) => self.members(object),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use symphony_core::tracker::{
        CandidateQuery, Candidates, Purpose, TrackerErrorKind, TrackerExt, Unreadable,
    };

    use symphony_core::StateSet;

    use super::*;

    const KEY: &str = "key-0123456789";

    /// Says the key wherever it can.
    #[derive(Debug)]
    struct Parrot {
        fails: bool,
    }

    impl Parrot {
        fn said<T>(&self, said: T) -> Result<T, TrackerError> {
            let cause = std::io::Error::other(format!("{KEY} is refused"));
            let error = TrackerError::new(TrackerErrorKind::Status, "no").with_source(cause);
            if self.fails { Err(error) } else { Ok(said) }
        }
    }

    fn issue() -> Issue {
        let mut issue = Issue::new(KEY, KEY, KEY, KEY).unwrap();
        let text = Some(format!("of {KEY}"));
        (issue.description, issue.branch_name) = (text.clone(), text.clone());
        (issue.url, issue.assignee_id) = (text.clone(), text.clone());
        issue.kept_back_by = text;
        issue.labels = Label::list([format!("a {KEY}"), "b".to_owned()]);
        issue.native_ref = json!({"a": [{"b": KEY}, 1, null]}).as_object().cloned();
        let (id, state) = (Some(KEY.into()), Some(KEY.into()));
        let blocker = Blocker { id, identifier: Some(KEY.into()), state, state_kind: None };
        issue.blocked_by = vec![blocker];
        issue
    }

    #[async_trait]
    impl Tracker for Parrot {
        async fn poll(&self, poll: &Poll) -> Polled {
            let list = Candidates::new(vec![issue()], false);
            let id = poll.ids.first().cloned().unwrap_or_else(|| "1".into());
            let unreadable = vec![Unreadable { id, message: KEY.to_owned() }];
            let candidates = poll.candidates.is_some().then(|| self.said(list));
            Polled::new(candidates, self.said(IssuesById::new(vec![issue()], unreadable)))
        }

        fn tools(&self) -> Option<Arc<dyn AgentTools>> {
            Some(Arc::new(Parrot { fails: self.fails }))
        }

        async fn examine(&self, _: &Settings) -> Vec<Finding> {
            vec![Finding::fine(KEY, KEY)]
        }
    }

    #[async_trait]
    impl AgentTools for Parrot {
        fn specs(&self) -> Vec<ToolSpec> {
            Vec::new()
        }

        async fn call(&self, call: ToolCall) -> ToolResult {
            ToolResult::success(call.arguments.to_string())
        }
    }

    fn redacted(fails: bool) -> Redacted {
        Redacted::new(Arc::new(Parrot { fails }), Redactor::new([KEY.to_owned()]))
    }

    #[tokio::test]
    async fn rule_11_7_every_word_of_any_tracker_passes_the_redactor() {
        let states = StateSet::new(["Todo"]);
        let settings = Settings::new("parrot", states.clone(), states.clone(), "/tmp".into());
        for fails in [false, true] {
            let tracker = redacted(fails);
            let candidates = Some(CandidateQuery { states: states.clone(), enough: 1 });
            let poll = Poll { purpose: Purpose::Candidates, candidates, ids: vec!["1".into()] };
            let polled = tracker.poll(&poll).await;
            let error = polled.by_id.as_ref().err();
            let told = error.map(|error| error.to_failure(wall_now()).message);
            let expected = fails.then(|| "no: [redacted] is refused".to_owned());
            assert_eq!(told, expected, "the message and its cause");
            let text = json!({"token": KEY, "other": 1});
            let call = ToolCall { name: "x".into(), arguments: text, issue: Arc::new(issue()) };
            let result = tracker.tools().unwrap().call(call).await;
            assert_eq!(result.text, r#"{"other":1,"token":"[redacted]"}"#);
            let findings = tracker.examine(&settings).await;
            let found = tracker.find("MT-1").await;
            let all = format!("{polled:?} {found:?} {findings:?} {tracker:?}");
            assert!(!all.contains(KEY) && all.contains("[redacted]"), "{all}");
        }
    }

    #[tokio::test]
    async fn rule_11_7_what_holds_no_secret_stays_as_it_is() {
        let tracker = Redacted::new(
            Arc::new(Parrot { fails: false }),
            Redactor::new(["another-0123456789".to_owned()]),
        );
        let found = tracker.fetch_issues_by_states(&StateSet::new(["Todo"])).await.unwrap();
        assert_eq!(found, [issue()]);
        let candidates = Candidates::new(found, false);
        let title = candidates.issues[0].title.as_ptr();
        let mut issues = candidates.issues;
        tracker.words.issues(&mut issues);
        assert_eq!(issues[0].title.as_ptr(), title, "not copied");
    }
}
