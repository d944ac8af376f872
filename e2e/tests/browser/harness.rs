//! A service with a dashboard, and a browser in front of it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::json;
use symphony_core::agent::{AgentErrorKind, RateLimitWindow, RateLimits};
use symphony_core::snapshot::Snapshot;
use symphony_core::time::Wall;
use symphony_core::{Blocker, Issue, Label, Settings, StateSet};
use symphony_e2e::{Appearance, Browser};
use symphony_http::{Config, Server};
use symphony_memory::{AgentScript, Gate, MemoryTracker, ScriptStep, ScriptedAgent};
use symphony_runtime::{FixedAgent, FixedTracker, Handle, Service};
use tokio::task::JoinHandle;

/// A title that would like to be more than text.
pub(crate) const HOSTILE: &str =
    "<script>window.hacked = 1</script><img src=x onerror=\"window.hacked = 2\"> \u{1b}[2J\u{202e}";

/// Titles that would like to be more than text, or more than fits.
pub(crate) const HOSTILE_TITLES: [&str; 8] = [
    HOSTILE,
    "{{ issue.title }} {% for x in y %} {{ 7*7 }} ${HOME} `id` $(id)",
    "\u{1b}[2J\u{1b}]0;owned\u{7}\u{9b}31m in red",
    "\u{202e}backwards\u{2066} \u{200f} שלום مرحبا",
    "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaftsvorstandssitzung",
    "👩\u{200d}🚀👨\u{200d}👩\u{200d}👧\u{200d}👦🏳️\u{200d}🌈 e\u{301}\u{301}\u{301} 日本語の題名、とても長い題名",
    "two\nlines\r\nand\ta tab",
    "\u{ad}'\"><b onmouseover=alert(1)>x</b>&amp;&lt;</td></table></main>\u{feff}",
];

/// An active state that is longer than a column.
pub(crate) const LONG_STATE: &str = "AStateWhoseNameHasNoPlaceAtWhichALineCouldBeBroken";

/// A window on a desk, one on a phone, and one between.
pub(crate) const WIDE: Appearance = Appearance { width: 1_280, height: 1_000, dark: false };
pub(crate) const PHONE: Appearance = Appearance { width: 390, height: 844, dark: false };
pub(crate) const NARROW: Appearance = Appearance { width: 800, height: 900, dark: false };

/// Takes a picture of a page, of which nothing may be wider than the window.
pub(crate) async fn take(browser: &Browser, name: &str, look: Appearance) {
    browser.look(look).await;
    let sticks_out = "return [...document.querySelectorAll('body *')].filter((element) =>
        element.getClientRects().length > 0 && !element.closest('.skip, .out, .chip bdi')
        && element.getBoundingClientRect().right > window.innerWidth + 1)
        .map((element) => element.outerHTML.slice(0, 200))";
    assert_eq!(browser.run(sticks_out).await, json!([]), "{name}: wider than the window");
    let scrolls = "return [document.documentElement, ...document.querySelectorAll('.scroll')]
        .some((box) => box.scrollWidth > box.clientWidth)";
    assert_eq!(browser.run(scrolls).await, false, "{name}: can be scrolled sideways");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/screenshots");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join(name), browser.picture().await).unwrap();
}

pub(crate) struct Harness {
    pub(crate) board: MemoryTracker,
    pub(crate) handle: Handle,
    pub(crate) browser: Browser,
    /// Opens for agents that wait to say something.
    pub(crate) gate: Gate,
    pub(crate) url: String,
    server: JoinHandle<()>,
    service: JoinHandle<()>,
    _root: tempfile::TempDir,
}

/// An issue whose label says what its agent does.
pub(crate) fn issue(id: &str, title: &str, label: &str) -> Issue {
    let mut issue = Issue::new(id, &format!("MT-{id}"), title, "In Progress").unwrap();
    issue.labels = Label::list([label]);
    issue.url = Some(format!("https://tracker.example/MT-{id}"));
    issue
}

/// An issue that is not done.
pub(crate) fn blocker(identifier: &str) -> Blocker {
    let (identifier, state) = (Some(identifier.into()), Some("In Progress".into()));
    Blocker { identifier, state, ..Blocker::default() }
}

impl Harness {
    /// A service without issues.
    pub(crate) async fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let (board, gate) = (MemoryTracker::new(), Gate::new());
        let service = Service::builder()
            .settings(settings(root.path().join("work")), "Please do this: {{ issue.title }}")
            .tracker(FixedTracker::new("board", Arc::new(board.clone())))
            .agent(FixedAgent::new("scripted", Arc::new(agent(&gate))))
            .transcripts(root.path().join("logs"))
            .build()
            .await
            .unwrap();
        let handle = service.handle();
        let server = Server::bind(&Config::default()).await.unwrap();
        let url = format!("http://{}", server.address());
        let server = tokio::spawn(server.serve(handle.clone()));
        let service = tokio::spawn(async move {
            service.run().await;
        });
        let browser = Browser::open().await;
        Self { board, handle, browser, gate, url, server, service, _root: root }
    }

    pub(crate) async fn visit(&self, path: &str) {
        self.browser.visit(&format!("{}{path}", self.url)).await;
    }

    /// Puts an issue on the board and tells the service.
    pub(crate) fn add(&self, issue: Issue) {
        self.board.add(issue);
        self.handle.poll_now().unwrap();
    }

    pub(crate) async fn until(&self, is_so: impl Fn(&Snapshot) -> bool) {
        let mut snapshots = self.handle.snapshots();
        let limit = Duration::from_secs(60);
        let waited = tokio::time::timeout(limit, snapshots.wait_for(|now| is_so(now))).await;
        let last = self.handle.last_snapshot();
        assert!(waited.is_ok(), "it did not come about: {last:#?}");
    }

    /// The server goes, the service stays.
    pub(crate) fn end_server(&self) {
        self.server.abort();
    }

    /// Ends everything; the pages must have logged no error, and asked no other server.
    pub(crate) async fn close(self) {
        let complaints = self.browser.complaints().await;
        assert!(complaints.is_empty(), "{complaints:#?}");
        let requests = self.browser.requests().await;
        let others: Vec<&String> =
            requests.iter().filter(|url| !url.starts_with(&self.url)).collect();
        assert!(others.is_empty(), "{others:#?}");
        assert!(requests.len() > 3, "{requests:#?}");
        self.end().await;
    }

    /// Ends everything, whatever the pages say.
    pub(crate) async fn end(self) {
        self.browser.close().await;
        self.handle.shut_down().unwrap();
        self.service.await.unwrap();
        self.server.abort();
    }
}

fn settings(root: PathBuf) -> Settings {
    let (active, done) =
        (StateSet::new(["Todo", "In Progress", LONG_STATE]), StateSet::new(["Done"]));
    let mut settings = Settings::new("board", active, done, root);
    settings.agent.kind = "scripted".to_owned();
    settings.agent.max_concurrent_agents = 6;
    settings.agent.max_retry_backoff = Duration::from_secs(3_600);
    settings
}

/// An agent that does what an issue's label says.
fn agent(gate: &Gate) -> ScriptedAgent {
    let at_work = |script: AgentScript, text: &str| {
        let spend = |script: AgentScript, round: u64| {
            script.spend(21_400 * (1 + round % 3), 1_310).wait(Duration::from_secs(4))
        };
        let script = script.spend(84_200, 2_310).event("notification", text);
        (0..20).fold(script, spend)
    };
    let speaks = AgentScript::new().event("notification", "first word").spend(11_000, 500);
    let speaks = speaks.wait_for(gate).event("notification", "second word").hang();
    ScriptedAgent::new(AgentScript::new().set_state("Done"))
        .for_label("hang", at_work(AgentScript::new(), "reading the code").hang())
        .for_label("test", at_work(AgentScript::new(), "exec_command: cargo test").hang())
        .for_label(
            "limits",
            at_work(AgentScript::new().then(limits()), "writing a test first").hang(),
        )
        .for_label("speak", speaks)
        .for_label(
            "fail",
            AgentScript::new().fail(AgentErrorKind::TurnFailed, "the model is overloaded"),
        )
        .for_label(
            "ask",
            AgentScript::new().ask("Which of the two payment providers is to be kept?"),
        )
}

fn limits() -> ScriptStep {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis();
    let now = Wall::from_unix_millis(now.try_into().unwrap());
    let window = |name: &str, used_percent: f64, minutes: u64, left: u64| RateLimitWindow {
        name: name.to_owned(),
        used_percent,
        window_minutes: Some(minutes),
        resets_at: Some(now + Duration::from_secs(left * 60)),
    };
    let windows = vec![window("primary", 41.0, 300, 150), window("secondary", 88.0, 10_080, 4_000)];
    ScriptStep::RateLimits(RateLimits {
        windows,
        plan: Some("pro".to_owned()),
        ..RateLimits::default()
    })
}
