//! Contract section 16 with the real program: killed at every commit of a life, before it, after it
//! and after what it allows, and told to end there. What the next life does is judged from outside:
//! by what the agent was told, by what the person was acknowledged, and by the sums.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::Value;

use crate::program::{Harness, Service, files, wait_for};
use crate::restarts::{Moments, seed, variable};

const FILE: &str = "---\ntracker:\n  kind: memory\n  provider:\n    board: board.yaml\n\
    workspace:\n  root: ./work\npolling:\n  interval_ms: 100\n  jobs: {sweep_ms: 100}\n\
    agent:\n  kind: scripted\n  stop_grace_ms: 50\n  max_retry_backoff_ms: 200\n  \
    max_concurrent_agents: 1\n---\nDo {{ issue.identifier }} as its title says.\n";

/// One that takes two turns, one that asks, one that fails until a person gives up.
const BOARD: &str = "issues:\n\
    - {identifier: MT-1, title: One, state: Todo, priority: 1, labels: [two-turns]}\n\
    - {identifier: MT-2, title: Two, state: Todo, priority: 2, labels: [ask]}\n\
    - {identifier: MT-3, title: Three, state: Todo, priority: 3, labels: [fail]}\n";

/// What a turn of the first issue costs.
const TOKENS_OF_A_TURN: u64 = 1_000;

/// How long a service lives at most before it is killed at random.
const LONGEST_LIFE: u64 = 1_000;

/// A life has fewer commits than this.
const MAX_COMMITS: u64 = 60;

/// A life has at least so many: fewer would show less than is claimed.
const MIN_COMMITS: u64 = 16;

#[test]
fn rule_16_3_killed_before_any_commit_it_goes_on_without_a_doubled_prompt() {
    column("before");
}

#[test]
fn rule_16_3_killed_after_any_commit_it_goes_on_without_a_doubled_prompt() {
    column("committed");
}

#[test]
fn rule_16_3_killed_after_what_any_commit_allows_it_goes_on_without_a_doubled_prompt() {
    column("performed");
}

#[test]
fn rule_16_4_told_to_end_at_any_commit_it_goes_on_without_a_doubled_prompt() {
    column("terminate");
}

/// `SYMPHONY_KILLS=200` kills more often; `SYMPHONY_KILLS_SEED=<n>` repeats the moments of a run.
#[test]
fn rule_16_3_killed_at_random_moments_nothing_is_lost_and_nothing_doubled() {
    let (mut kills, seed) = (variable("SYMPHONY_KILLS").unwrap_or(6), seed());
    println!("{kills} kills; repeat with SYMPHONY_KILLS_SEED={seed}");
    let mut moments = Moments(seed);
    let name = format!("seed {seed}");
    while kills > 0 {
        let mut trial = Trial::new(&name);
        let (service, url) = loop {
            let (service, url) = trial.next_life();
            let span = Duration::from_millis(moments.next(LONGEST_LIFE));
            if kills == 0 || trial.live_for(&url, span) {
                break (service, url);
            }
            service.signal(Signal::KILL);
            assert_eq!(service.end().0, None, "{name}");
            kills -= 1;
        };
        assert!(trial.live(&url), "{name}");
        let tokens = state_tokens(&url);
        service.stop();
        trial.judge(tokens, false);
    }
}

/// Lives and dies at one commit after the other, until a life has no such commit any more.
fn column(moment: &str) {
    for commit in 1..MAX_COMMITS {
        let trial = format!("{commit}:{moment}");
        if !Trial::new(&trial).run() {
            assert!(commit > MIN_COMMITS, "a life of {} commits", commit - 1);
            println!("{} commits, {moment}", commit - 1);
            return;
        }
    }
    panic!("a life never ends");
}

/// A service that ends at one commit, and the next one.
struct Trial<'t> {
    name: &'t str,
    harness: Harness,
    /// Whether starts are paused, as far as the person was acknowledged.
    paused: Option<bool>,
    /// Whether the person has paused and resumed.
    has_paused: bool,
    retried: bool,
}

impl<'t> Trial<'t> {
    fn new(name: &'t str) -> Self {
        let mut harness = Harness::new();
        let memory = harness.path("memory").display().to_string();
        harness.set("SYMPHONY_STAND_IN_MEMORY", &memory);
        harness.write("WORKFLOW.md", FILE);
        harness.write("board.yaml", BOARD);
        std::fs::create_dir(memory).unwrap();
        Self { name, harness, paused: Some(false), has_paused: false, retried: false }
    }

    /// Returns whether the first life ended at its commit.
    fn run(mut self) -> bool {
        self.harness.set("SYMPHONY_KILL_AT", self.name);
        let (first, url) = self.start();
        let is_clean = self.name.ends_with("terminate");
        if self.live(&url) {
            first.signal(Signal::TERM);
            // The kill may come as late as this.
            if first.end().0 == Some(0) {
                return false;
            }
        } else {
            assert_eq!(first.end().0, is_clean.then_some(0), "{}", self.name);
        }

        self.harness.set("SYMPHONY_KILL_AT", "0:before");
        let (second, url) = self.next_life();
        assert!(self.live(&url), "{}", self.name);
        let tokens = state_tokens(&url);
        second.stop();
        self.judge(tokens, is_clean);
        true
    }

    /// Begins a life that remembers what was acknowledged in the last one.
    fn next_life(&mut self) -> (Service, String) {
        let (service, url) = self.start();
        let state = state(&url).unwrap();
        if let Some(paused) = self.paused {
            assert_eq!(state["paused"], paused, "{}", self.name);
        }
        self.paused = state["paused"].as_bool();
        (service, url)
    }

    fn start(&self) -> (Service, String) {
        let mut service = self.harness.start(&["run", "--port", "0"]);
        let seen = service.log_until("dashboard and API are served");
        let (_, address) = seen.last().unwrap().split_once("address=").unwrap();
        (service, format!("http://{}", address.split_whitespace().next().unwrap()))
    }

    /// Does what a person does until everything is done. Returns whether that came about.
    fn live(&mut self, url: &str) -> bool {
        let mut is_done = false;
        wait_for(&format!("the end of all work, {}", self.name), || {
            let Some(state) = state(url) else { return true };
            is_done = self.act(url, &state);
            is_done
        });
        is_done
    }

    /// The same for a while.
    fn live_for(&mut self, url: &str, span: Duration) -> bool {
        let end = Instant::now() + span;
        while Instant::now() < end {
            if state(url).is_some_and(|state| self.act(url, &state)) {
                return true;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        false
    }

    /// The person's next step. Returns whether there is none.
    fn act(&mut self, url: &str, state: &Value) -> bool {
        if self.is_done("MT-1") && !self.has_paused {
            self.order(url, "/api/v1/pause", true);
            self.order(url, "/api/v1/resume", false);
            self.has_paused = self.paused == Some(false);
        }
        let row = |list: &str, identifier: &str| {
            let rows = state[list].as_array()?;
            rows.iter().find(|row| row["issue_identifier"] == identifier).cloned()
        };
        if row("blocked", "MT-2").is_some() {
            match self.asked("MT-2").len() {
                // What was asked, and not kept, is asked again without the person.
                0 | 1 if !self.retried => {
                    self.retried = post(url, "/api/v1/MT-2/retry") == Some(202);
                }
                0 | 1 => {}
                _ => self.close("MT-2"),
            }
        }
        if row("retrying", "MT-3").is_some_and(|row| row["attempt"].as_u64() >= Some(2)) {
            self.close("MT-3");
        }
        let all_are_done = ["MT-1", "MT-2", "MT-3"].iter().all(|name| self.is_done(name));
        let work = files(&self.harness.path("work"));
        let is_empty = !work.iter().any(|path| path.to_string_lossy().contains("/MT-"));
        all_are_done && self.has_paused && is_empty && state["paused"] == false
    }

    /// Gives an order to pause or to go on, and notes whether it was acknowledged.
    fn order(&mut self, url: &str, path: &str, pauses: bool) {
        let is_acknowledged = post(url, path) == Some(202);
        self.paused = is_acknowledged.then_some(pauses);
    }

    fn close(&self, identifier: &str) {
        let board = self.harness.read("board.yaml");
        let mut board: serde_yaml::Value = serde_yaml::from_str(&board).unwrap();
        for issue in board["issues"].as_sequence_mut().unwrap() {
            if issue["identifier"] == identifier {
                issue["state"] = "Done".into();
            }
        }
        self.harness.replace("board.yaml", &serde_yaml::to_string(&board).unwrap());
    }

    fn is_done(&self, identifier: &str) -> bool {
        let board = self.harness.read("board.yaml");
        let board: serde_yaml::Value = serde_yaml::from_str(&board).unwrap();
        let mut issues = board["issues"].as_sequence().unwrap().iter();
        issues.any(|issue| issue["identifier"] == identifier && issue["state"] == "Done")
    }

    /// What an issue's agents remember, conversation by conversation.
    fn conversations(&self, identifier: &str) -> Vec<Vec<Value>> {
        let all = files(&self.harness.path("memory")).into_iter();
        let name = format!("{identifier}-");
        let of = all.filter(|path| path.file_name().unwrap().to_string_lossy().starts_with(&name));
        of.map(|path| remarks(&path)).collect()
    }

    /// What an issue's agents were told, with the ids that it was told with.
    fn asked(&self, identifier: &str) -> Vec<(String, String)> {
        let all = self.conversations(identifier).into_iter().flatten();
        let asked = all.filter_map(|remark| {
            let asked = remark.get("asked")?;
            let text = |name: &str| asked[name].as_str().unwrap().to_owned();
            Some((text("client_id"), text("prompt")))
        });
        asked.collect()
    }

    fn judge(&self, tokens: u64, is_clean: bool) {
        for identifier in ["MT-1", "MT-2", "MT-3"] {
            let mut ids: Vec<_> = self.asked(identifier).into_iter().map(|(id, _)| id).collect();
            let all = ids.len();
            ids.sort();
            ids.dedup();
            assert_eq!(ids.len(), all, "{}: a turn of {identifier} was asked twice", self.name);
            for conversation in self.conversations(identifier) {
                self.judge_conversation(identifier, &conversation);
            }
        }
        // After a failure a new conversation begins; else only where nothing was asked in the old.
        for identifier in ["MT-1", "MT-2"] {
            let begun = self.conversations(identifier);
            let asked = begun.iter().filter(|remarks| remarks.iter().any(is_asked)).count();
            assert_eq!(asked, 1, "{}: the conversations of {identifier}: {begun:#?}", self.name);
        }
        assert!(self.asked("MT-2").len() >= 2, "{}: the retry was forgotten", self.name);
        let used = self.conversations("MT-1").into_iter().flatten();
        let used = used.filter_map(|remark| remark["used"]["total"].as_u64()).max();
        let used = used.unwrap();
        let missing = used.checked_sub(tokens);
        let most = if is_clean { 0 } else { TOKENS_OF_A_TURN };
        assert!(
            missing.is_some_and(|missing| missing <= most),
            "{}: {tokens} of {used} tokens are counted",
            self.name
        );
    }

    /// A turn that was cut off is followed by what says so, and never by the prompt.
    fn judge_conversation(&self, identifier: &str, remarks: &[Value]) {
        let prompt = format!("Do {identifier} as its title says.");
        let mut is_cut_off = false;
        for remark in remarks {
            if let Some(asked) = remark.get("asked") {
                let text = asked["prompt"].as_str().unwrap();
                if is_cut_off {
                    let is_told = text.starts_with("Symphony was restarted");
                    assert!(
                        is_told && !text.contains(&prompt),
                        "{}: after a cut {identifier} was told {text:?}",
                        self.name
                    );
                }
                is_cut_off = true;
            } else if remark.get("ended").is_some() {
                is_cut_off = false;
            }
        }
    }
}

fn is_asked(remark: &Value) -> bool {
    remark.get("asked").is_some()
}

fn remarks(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn state(url: &str) -> Option<Value> {
    let (_, body) = request(url, "GET", "/api/v1/state")?;
    serde_json::from_str(&body).ok()
}

fn state_tokens(url: &str) -> u64 {
    state(url).unwrap()["codex_totals"]["total_tokens"].as_u64().unwrap()
}

/// Gives a command. Returns the status of the answer, if there is one.
fn post(url: &str, path: &str) -> Option<u16> {
    request(url, "POST", path).map(|(status, _)| status)
}

/// Asks the service, which may be ended at any moment.
fn request(url: &str, method: &str, path: &str) -> Option<(u16, String)> {
    let host = url.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(host).ok()?;
    let head = format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n");
    write!(stream, "{head}Content-Length: 0\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
}
