//! Generated streams (contract 10.4, 10.5, 10.6): whatever a server sends, and however it is cut,
//! there is never a panic or a hang, the end of a turn is never lost, every request is answered
//! exactly once but for questions within a turn, and turns that were not asked for end the session.
//!
//! Each test runs for its share of `SYMPHONY_FUZZ_SECONDS` (10 by default). A failure prints the
//! seed of its case; `SYMPHONY_FUZZ_SEED` begins with it. For a case that ends the process,
//! `SYMPHONY_FUZZ_TRACE` prints every seed before it is used.

#![expect(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "these are tests")]

#[path = "protocol/server.rs"]
#[expect(dead_code, reason = "only a part of it is needed here")]
mod server;

use std::collections::BTreeMap;
use std::env;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use serde_json::{Value, json};
use symphony_core::agent::{AgentErrorKind, AgentSession as _, TurnEnd};
use symphony_core::settings::Approvals;
use symphony_core::tracker::{AgentTools, ToolCall, ToolResult, ToolSpec};
use tokio::io::AsyncWriteExt as _;

use server::{Server, World, prompt};

const TESTS: u32 = 2;
/// In virtual time: longer than any deadline of a session.
const HANG: Duration = Duration::from_secs(100_000);

/// Panics, in whichever task: a session would only see that its reader is gone.
static PANICS: AtomicUsize = AtomicUsize::new(0);

/// Runs cases until the time is up, each with a seed of its own.
fn fuzz<S: Strategy>(name: &str, strategy: &S, check: impl Fn(S::Value)) {
    let number = |name: &str| env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let budget = Duration::from_secs(number("SYMPHONY_FUZZ_SECONDS").unwrap_or(10)) / TESTS;
    let first = number("SYMPHONY_FUZZ_SEED").unwrap_or_else(|| RandomState::new().hash_one(name));
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        PANICS.fetch_add(1, Ordering::Relaxed);
        hook(info);
    }));
    let started = Instant::now();
    let mut cases = 0;
    while cases == 0 || started.elapsed() < budget {
        let seed = first.wrapping_add(cases);
        if env::var_os("SYMPHONY_FUZZ_TRACE").is_some() {
            eprintln!("{name}: seed {seed}");
        }
        let mut bytes = [0; 32];
        bytes[..8].copy_from_slice(&seed.to_le_bytes());
        let config = Config { cases: 1, failure_persistence: None, ..Config::default() };
        let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
        let result = TestRunner::new_with_rng(config, rng).run(strategy, |value| {
            check(value);
            assert_eq!(PANICS.swap(0, Ordering::Relaxed), 0, "a task panicked");
            Ok(())
        });
        if let Err(error) = result {
            panic!("{name}: replay with SYMPHONY_FUZZ_SEED={seed}\n{error}");
        }
        cases += 1;
    }
    println!("{name}: {cases} cases from seed {first}");
}

/// Runs a case in virtual time, in which no wait takes long and a hang is seen.
fn in_virtual_time<F: Future>(case: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_time().start_paused(true).build().unwrap();
    runtime.block_on(async { tokio::time::timeout(HANG, case).await.expect("no hang") })
}

/// One thing a server does in a turn.
#[derive(Clone, Debug)]
enum Deed {
    /// The response to `turn/start`. Only the first one is.
    Accept,
    /// A turn begins.
    Begin(Whose),
    /// The end of a turn: of ours, of another one of ours, of a helper's; without any id.
    End(Whose, &'static str),
    /// A request, by its place in the list of methods.
    Ask(&'static str, Id),
    /// Anything else.
    Say(Vec<u8>),
    Wait(u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Whose {
    Ours,
    Nobodys,
    Other,
    Helper,
}

/// The kinds of ids that a request may have.
#[derive(Clone, Copy, Debug)]
enum Id {
    Fresh,
    Same,
    Text,
}

/// How the stream goes on after the last deed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Last {
    Silence,
    EndOfOutput,
}

#[derive(Clone, Debug)]
struct Script {
    deeds: Vec<Deed>,
    last: Last,
    approvals: Approvals,
    /// Where the bytes are cut.
    pieces: Vec<usize>,
}

/// Requests that leave the turn alone.
const HARMLESS: [&str; 6] = [
    "currentTime/read",
    "item/tool/call",
    "attestation/generate",
    "account/chatgptAuthTokens/refresh",
    "brand/new",
    "",
];
const APPROVALS: [&str; 5] = [
    "item/commandExecution/requestApproval",
    "item/fileChange/requestApproval",
    "item/permissions/requestApproval",
    "execCommandApproval",
    "applyPatchApproval",
];
/// Of those that need a person, the ones to which a model would hear an answer and go on.
const UNANSWERED: [&str; 3] = [
    "item/tool/requestUserInput",
    "mcpServer/elicitation/request",
    "item/permissions/requestApproval",
];
const QUESTIONS: [&str; 2] = ["item/tool/requestUserInput", "mcpServer/elicitation/request"];

fn scripts() -> impl Strategy<Value = Script> {
    let ids = || select(vec![Id::Fresh, Id::Fresh, Id::Same, Id::Text]);
    let whose = select(vec![Whose::Ours, Whose::Nobodys, Whose::Other, Whose::Helper]);
    let begins = select(vec![Whose::Ours, Whose::Other, Whose::Other, Whose::Helper]);
    let status = select(vec!["completed", "failed", "interrupted", "odd"]);
    let deed = prop_oneof![
        3 => Just(Deed::Accept),
        2 => begins.prop_map(Deed::Begin),
        2 => (whose, status).prop_map(|(whose, status)| Deed::End(whose, status)),
        6 => (select(HARMLESS.to_vec()), ids()).prop_map(|(method, id)| Deed::Ask(method, id)),
        3 => (select(APPROVALS.to_vec()), ids()).prop_map(|(method, id)| Deed::Ask(method, id)),
        1 => (select(QUESTIONS.to_vec()), ids()).prop_map(|(method, id)| Deed::Ask(method, id)),
        12 => noise().prop_map(Deed::Say),
        2 => (0..4000_u64).prop_map(Deed::Wait),
    ];
    (
        prop::collection::vec(deed, 0..30),
        select(vec![Last::Silence, Last::EndOfOutput]),
        select(vec![Approvals::Accept, Approvals::Decline, Approvals::Block]),
        prop::collection::vec(1..200_usize, 1..20),
    )
        .prop_map(|(deeds, last, approvals, pieces)| Script { deeds, last, approvals, pieces })
}

/// Lines that mean nothing for the turn.
fn noise() -> impl Strategy<Value = Vec<u8>> {
    let lines = select(vec![
        "",
        "  ",
        "7",
        "null",
        "\"text\"",
        "[]",
        "{}",
        "{",
        "}{",
        "[1,{\"method\":\"turn/completed\"}]",
        "{\"id\":null}",
        "{\"method\":7}",
        "{\"method\":\"x\",\"method\":\"turn/completed\"}",
        "{\"method\":\"turn/completed\"}",
        "{\"method\":\"turn/completed\",\"params\":[]}",
        "{\"method\":\"turn/completed\",\"params\":{\"threadId\":7}}",
        "{\"id\":999,\"result\":{}}",
        "{\"id\":\"4\",\"result\":{\"turn\":{\"id\":\"X\"}}}",
        "{\"id\":-4,\"error\":{}}",
        "{\"method\":\"item/agentMessage/delta\",\"params\":{\"delta\":\"x\"}}",
        "{\"method\":\"item/completed\",\"params\":{\"item\":{\"type\":\"agentMessage\",\"text\":\"hi\"}}}",
        "{\"method\":\"thread/tokenUsage/updated\",\"params\":{\"threadId\":\"T\",\"tokenUsage\":{\"total\":{\"totalTokens\":1e3}}}}",
        "{\"method\":\"account/rateLimits/updated\",\"params\":{\"rateLimits\":{\"primary\":{\"usedPercent\":1e308}}}}",
        "{\"method\":\"error\",\"params\":{\"error\":\"odd\"}}",
        "{\"method\":\"brand/new\",\"params\":{}}",
    ]);
    let bytes = prop::collection::vec(any::<u8>(), 0..40).prop_map(|mut bytes| {
        bytes.retain(|byte| !matches!(byte, b'{' | b'\n'));
        bytes
    });
    prop_oneof![9 => lines.prop_map(|line| line.as_bytes().to_vec()), 1 => bytes]
}

/// A tool that answers at once.
#[derive(Debug)]
struct Quick;

#[async_trait]
impl AgentTools for Quick {
    fn specs(&self) -> Vec<ToolSpec> {
        vec![ToolSpec::new("quick", "Answers.", json!({}))]
    }

    async fn call(&self, _: ToolCall) -> ToolResult {
        ToolResult::success("done")
    }
}

/// What must come of a turn.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Expected {
    Completed,
    Blocked,
    Fails(AgentErrorKind),
}

/// The contract's view of a script, written without looking at the code.
#[derive(Default)]
struct Turns {
    outcome: Option<Expected>,
    accepted: bool,
    over: bool,
    /// An end of ours that came before its start was answered.
    early: Option<Expected>,
    /// Turns that began before that: whether each is ours, and whether it has ended.
    begun: Vec<(bool, bool)>,
    /// Whether the other turn lives, and is known not to be ours.
    is_other_live: bool,
    unrequested: usize,
    /// For each request in the script, whether it is answered.
    answered: Vec<bool>,
}

impl Turns {
    fn of(script: &Script) -> Self {
        let mut turns = Self::default();
        for deed in &script.deeds {
            match deed {
                Deed::Accept => turns.accept(),
                Deed::Begin(whose) => turns.begin(*whose),
                Deed::End(whose, status) => turns.end(*whose, status),
                Deed::Ask(method, _) => turns.ask(method, script.approvals),
                Deed::Say(_) | Deed::Wait(_) => {}
            }
        }
        turns
    }

    fn accept(&mut self) {
        if self.over || std::mem::replace(&mut self.accepted, true) {
            return;
        }
        if let Some(end) = self.early.take() {
            self.settle(end);
            self.over = true;
        }
        for (is_ours, is_over) in std::mem::take(&mut self.begun) {
            if !is_ours {
                self.not_asked_for(is_over);
            }
        }
    }

    fn begin(&mut self, whose: Whose) {
        let is_ours = whose == Whose::Ours;
        if whose == Whose::Helper || is_ours && self.accepted && !self.over {
            return;
        }
        if self.accepted || self.over {
            // Ours that begins again is as little asked for as another; this script knows of one.
            if !is_ours {
                self.not_asked_for(false);
            }
        } else if !self.begun.contains(&(is_ours, false)) {
            self.begun.push((is_ours, false));
            if self.begun.len() > 3 {
                for (_, is_over) in std::mem::take(&mut self.begun) {
                    self.not_asked_for(is_over);
                }
            }
        }
    }

    fn not_asked_for(&mut self, is_over: bool) {
        if self.is_other_live {
            return;
        }
        self.is_other_live = !is_over;
        self.unrequested += 1;
        if self.unrequested >= 3 && !self.over {
            self.settle(Expected::Fails(AgentErrorKind::UnrequestedTurns));
        }
    }

    fn end(&mut self, whose: Whose, status: &str) {
        let end = match status {
            "completed" => Expected::Completed,
            "interrupted" => Expected::Fails(AgentErrorKind::TurnCancelled),
            _ => Expected::Fails(AgentErrorKind::TurnFailed),
        };
        let is_others = matches!(whose, Whose::Other | Whose::Nobodys) && self.is_other_live;
        match whose {
            _ if is_others => self.is_other_live = false,
            Whose::Helper => {}
            _ if self.over => {}
            Whose::Other if !self.accepted => self.note_end(false),
            Whose::Other => {}
            Whose::Ours if !self.accepted => {
                self.note_end(true);
                self.early.get_or_insert(end);
            }
            Whose::Ours | Whose::Nobodys => {
                self.settle(end);
                self.over = true;
            }
        }
    }

    fn note_end(&mut self, ours: bool) {
        for (_, is_over) in self.begun.iter_mut().filter(|(is_ours, _)| *is_ours == ours) {
            *is_over = true;
        }
    }

    fn ask(&mut self, method: &str, approvals: Approvals) {
        let blocks = QUESTIONS.contains(&method)
            || (APPROVALS.contains(&method) && approvals == Approvals::Block);
        if blocks && !self.over {
            self.settle(Expected::Blocked);
        }
        let may_wait = blocks && !UNANSWERED.contains(&method);
        let is_answered = match method {
            "item/tool/requestUserInput" => false,
            _ if blocks && !may_wait => self.over,
            _ => true,
        };
        self.answered.push(is_answered);
    }

    fn settle(&mut self, outcome: Expected) {
        self.outcome.get_or_insert(outcome);
    }

    fn expected(&self, last: Last) -> Expected {
        self.outcome.clone().unwrap_or(match (last, self.accepted) {
            (Last::EndOfOutput, _) => Expected::Fails(AgentErrorKind::ProcessExit),
            (Last::Silence, true) => Expected::Fails(AgentErrorKind::TurnTimeout),
            (Last::Silence, false) => Expected::Fails(AgentErrorKind::ResponseTimeout),
        })
    }
}

/// The bytes of a script, and the ids of the requests in it.
fn bytes_of(script: &Script, turn: &Value) -> (Vec<(Vec<u8>, u64)>, Vec<String>) {
    let mut asked = Vec::new();
    let mut parts = Vec::new();
    let mut line = |bytes: &[u8]| parts.push(([bytes, b"\n"].concat(), 0));
    let mut waits = Vec::new();
    let mut accepted = false;
    for (place, deed) in script.deeds.iter().enumerate() {
        let before = place;
        match deed {
            Deed::Accept => {
                // A second one is a response to nothing; it names another turn.
                let id = if std::mem::replace(&mut accepted, true) { "X" } else { "U" };
                let answer = json!({"id": turn["id"], "result": {"turn": {"id": id}}});
                line(answer.to_string().as_bytes());
            }
            Deed::Begin(whose) => {
                let params = match whose {
                    Whose::Ours => json!({"threadId": "T", "turn": {"id": "U"}}),
                    Whose::Helper => json!({"threadId": "H", "turn": {"id": "U"}}),
                    _ => json!({"threadId": "T", "turn": {"id": "X"}}),
                };
                line(json!({"method": "turn/started", "params": params}).to_string().as_bytes());
            }
            Deed::End(whose, status) => {
                let params = match whose {
                    Whose::Ours => json!({"threadId": "T", "turn": {"id": "U", "status": status}}),
                    Whose::Nobodys => json!({"turn": {"status": status}}),
                    Whose::Other => json!({"threadId": "T", "turn": {"id": "X", "status": status}}),
                    Whose::Helper => {
                        json!({"threadId": "H", "turn": {"id": "U", "status": status}})
                    }
                };
                let end = json!({"method": "turn/completed", "params": params});
                line(end.to_string().as_bytes());
            }
            Deed::Ask(method, id) => {
                let id = match id {
                    Id::Fresh => json!(place + 1000),
                    Id::Same => json!(7),
                    Id::Text => json!(format!("q{place}")),
                };
                asked.push(id.to_string());
                let params = json!({"tool": "quick", "arguments": {}});
                let ask = json!({"id": id, "method": method, "params": params});
                line(ask.to_string().as_bytes());
            }
            Deed::Say(bytes) => line(bytes),
            Deed::Wait(millis) => {
                waits.push((before, *millis));
                line(b"");
            }
        }
    }
    for (place, millis) in waits {
        parts[place].1 = millis;
    }
    (parts, asked)
}

/// Plays a script after the handshake; gives the answers to its requests.
async fn play(server: &mut Server, script: &Script) -> Vec<String> {
    let turn = server.expect("turn/start").await;
    let (parts, asked) = bytes_of(script, &turn);
    let mut pieces = script.pieces.iter().cycle();
    for (bytes, wait) in parts {
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            let size = (*pieces.next().unwrap()).min(rest.len());
            server.raw(&rest[..size]).await;
            rest = &rest[size..];
            if size % 3 == 0 {
                tokio::task::yield_now().await;
            }
        }
        // Shorter than every deadline of the session, all together.
        tokio::time::sleep(Duration::from_millis(wait / 40)).await;
    }
    asked
}

/// Reads answers until the input ends.
async fn answers(server: &mut Server) -> BTreeMap<String, usize> {
    let mut answers = BTreeMap::new();
    while let Some(message) = server.next().await {
        if message.get("method").is_none() {
            let is_one = message.get("result").is_some() != message.get("error").is_some();
            assert!(is_one, "a result or an error: {message}");
            *answers.entry(message["id"].to_string()).or_default() += 1;
        } else if message["method"] == "turn/interrupt" {
            server.answer(&message, json!({})).await;
        }
    }
    answers
}

#[test]
fn rule_10_5_no_end_is_lost_and_rule_10_6_every_request_is_answered_once() {
    fuzz("scripts", &scripts(), |script| {
        let turns = Turns::of(&script);
        let wanted = turns.expected(script.last);
        in_virtual_time(async {
            let mut world = World::new().with(|it| it.agent.common.approvals = script.approvals);
            world.request.tools = Some(Arc::new(Quick));
            let (mut session, mut server, _) = world.opened().await;
            let serve = async {
                let asked = play(&mut server, &script).await;
                // The tools have had their time, and so has all that was said.
                tokio::time::sleep(Duration::from_secs(1)).await;
                if script.last == Last::EndOfOutput {
                    server.output.shutdown().await.unwrap();
                }
                asked
            };
            let (end, asked) = tokio::join!(session.run_turn(prompt()), serve);
            let (closed, answered) = tokio::join!(Box::new(session).close(), answers(&mut server));
            closed.unwrap();
            let got = match end {
                Ok(TurnEnd::Completed) => Expected::Completed,
                Ok(TurnEnd::InputRequired { .. }) => Expected::Blocked,
                Err(error) => Expected::Fails(error.kind),
            };
            assert_eq!(got, wanted, "{script:#?}");
            let mut once = BTreeMap::new();
            for (id, _) in asked.into_iter().zip(&turns.answered).filter(|(_, is)| **is) {
                *once.entry(id).or_default() += 1;
            }
            assert_eq!(answered, once, "{script:#?}");
        });
    });
}

/// A change to bytes.
#[derive(Clone, Debug)]
enum Change {
    Flip(Index, u8),
    Remove(Index, usize),
    Repeat(Index, usize),
    Insert(Index, Vec<u8>),
}

fn changes() -> impl Strategy<Value = Vec<Change>> {
    let at = any::<Index>;
    let change = prop_oneof![
        4 => (at(), any::<u8>()).prop_map(|(at, with)| Change::Flip(at, with)),
        1 => (at(), 1..200_usize).prop_map(|(at, length)| Change::Remove(at, length)),
        1 => (at(), 1..2000_usize).prop_map(|(at, length)| Change::Repeat(at, length)),
        1 => (at(), prop::collection::vec(any::<u8>(), 0..20))
            .prop_map(|(at, bytes)| Change::Insert(at, bytes)),
    ];
    prop::collection::vec(change, 0..40)
}

/// What Codex really sent, damaged.
fn damaged(changes: &[Change]) -> Vec<u8> {
    let recorded = include_str!("recorded.jsonl");
    let mut bytes = recorded.replace("0199a213-81c0-7800-8aa1-bbab2a035a53", "T").into_bytes();
    for change in changes {
        if bytes.is_empty() {
            break;
        }
        match change {
            Change::Flip(at, with) => {
                let at = at.index(bytes.len());
                bytes[at] ^= with;
            }
            Change::Remove(at, length) => {
                let at = at.index(bytes.len());
                bytes.drain(at..bytes.len().min(at + length));
            }
            Change::Repeat(at, length) => {
                let at = at.index(bytes.len());
                let again = bytes[at..bytes.len().min(at + length)].to_vec();
                bytes.splice(at..at, again);
            }
            Change::Insert(at, with) => {
                let at = at.index(bytes.len());
                bytes.splice(at..at, with.iter().copied());
            }
        }
    }
    bytes
}

#[test]
fn rule_10_4_a_damaged_stream_is_never_a_panic_or_a_hang() {
    let streams = (changes(), prop::collection::vec(1..5000_usize, 1..10), any::<bool>());
    fuzz("streams", &streams, |(changes, pieces, ends)| {
        let bytes = damaged(&changes);
        in_virtual_time(async {
            let (mut session, mut server, told) = World::new().opened().await;
            let serve = async {
                server.expect("turn/start").await;
                let mut sizes = pieces.iter().cycle();
                let mut rest = bytes.as_slice();
                while !rest.is_empty() {
                    let size = (*sizes.next().unwrap()).min(rest.len());
                    server.raw(&rest[..size]).await;
                    rest = &rest[size..];
                    tokio::task::yield_now().await;
                }
                if ends {
                    server.output.shutdown().await.unwrap();
                }
            };
            let (end, ()) = tokio::join!(session.run_turn(prompt()), serve);
            let (closed, _) = tokio::join!(Box::new(session).close(), answers(&mut server));
            closed.unwrap();
            if changes.is_empty() {
                assert_eq!(end.unwrap(), TurnEnd::Completed);
            }
            let is_plain = |event: &String| !event.chars().any(char::is_control);
            assert!(told.events().iter().all(is_plain), "{:?}", told.events());
        });
    });
}
