//! A real browser, driven over WebDriver on loopback.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};

/// Longer than anything here takes.
const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// A window of Chromium without a screen.
#[derive(Debug)]
pub struct Browser {
    driver: Child,
    port: u16,
    session: String,
    /// The browser itself, which outlives a driver that is killed.
    process: Option<Pid>,
    _profile: tempfile::TempDir,
}

/// What a window looks like.
#[derive(Clone, Copy, Debug)]
pub struct Appearance {
    /// Its width.
    pub width: u32,
    /// Its height.
    pub height: u32,
    /// Whether the person prefers dark pages.
    pub dark: bool,
}

impl Browser {
    /// Opens a window.
    ///
    /// # Panics
    /// The browser or its driver is not installed, or does not start.
    pub async fn open() -> Self {
        let (driver, port) = start_driver().await;
        let profile = tempfile::Builder::new().prefix("browser-").tempdir().unwrap();
        let args = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--hide-scrollbars",
            "--force-device-scale-factor=1",
        ];
        let folder = format!("--user-data-dir={}", profile.path().display());
        let args: Vec<&str> = args.into_iter().chain([folder.as_str()]).collect();
        let wanted = json!({"capabilities": {"alwaysMatch": {
            "browserName": "chrome",
            "goog:chromeOptions": {"binary": "/usr/bin/chromium", "args": args},
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        }}});
        let answer = ask(port, "POST", "/session", Some(&wanted)).await;
        let session = answer["sessionId"].as_str().unwrap().to_owned();
        let process = answer["capabilities"]["goog:processID"].as_i64();
        let process = process.and_then(|pid| Pid::from_raw(pid.try_into().ok()?));
        assert!(process.is_some(), "the driver does not say which process the browser is");
        Self { driver, port, session, process, _profile: profile }
    }

    async fn say(&self, method: &str, path: &str, body: Option<&Value>) -> Value {
        ask(self.port, method, &format!("/session/{}{path}", self.session), body).await
    }

    /// Goes to a page and waits until it is there.
    pub async fn visit(&self, url: &str) {
        self.say("POST", "/url", Some(&json!({ "url": url }))).await;
    }

    /// Opens a tab and looks at it.
    ///
    /// # Panics
    /// The browser opens none.
    pub async fn new_tab(&self) {
        let tab = self.say("POST", "/window/new", Some(&json!({"type": "tab"}))).await;
        let name = tab["handle"].as_str().unwrap();
        self.say("POST", "/window", Some(&json!({ "handle": name }))).await;
    }

    /// Looks at the tab that was there first.
    ///
    /// # Panics
    /// The browser has none.
    pub async fn first_tab(&self) {
        let tabs = self.say("GET", "/window/handles", None).await;
        let name = tabs[0].as_str().unwrap();
        self.say("POST", "/window", Some(&json!({ "handle": name }))).await;
    }

    /// What a script in the page returns.
    pub async fn run(&self, script: &str) -> Value {
        let body = json!({"script": script, "args": []});
        self.say("POST", "/execute/sync", Some(&body)).await
    }

    /// Waits until an expression in the page is true.
    ///
    /// # Panics
    /// It does not become true.
    pub async fn until(&self, expression: &str) {
        let script = format!("return Boolean({expression})");
        let wait = async {
            while self.run(&script).await != true {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        if tokio::time::timeout(TEST_TIMEOUT, wait).await.is_err() {
            let page = self.run("return document.body.innerText").await;
            panic!("it did not come about: {expression}\n{page}");
        }
    }

    /// Presses these keys, one after the other.
    pub async fn press(&self, keys: &str) {
        let strokes = keys.chars().flat_map(|key| {
            [json!({"type": "keyDown", "value": key}), json!({"type": "keyUp", "value": key})]
        });
        let strokes: Vec<Value> = strokes.collect();
        let body = json!({"actions": [{"type": "key", "id": "keyboard", "actions": strokes}]});
        self.say("POST", "/actions", Some(&body)).await;
    }

    /// Answers the question that the page asks in a dialogue.
    pub async fn accept(&self) {
        self.say("POST", "/alert/accept", Some(&json!({}))).await;
    }

    /// Makes the window look so.
    pub async fn look(&self, look: Appearance) {
        let size = json!({"width": look.width, "height": look.height, "deviceScaleFactor": 1,
            "mobile": look.width < 600});
        self.tell("Emulation.setDeviceMetricsOverride", &size).await;
        let scheme = if look.dark { "dark" } else { "light" };
        let media = json!({"features": [
            {"name": "prefers-color-scheme", "value": scheme},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]});
        self.tell("Emulation.setEmulatedMedia", &media).await;
    }

    /// What the window shows, as PNG.
    pub async fn picture(&self) -> Vec<u8> {
        let answer = self.tell("Page.captureScreenshot", &json!({"format": "png"})).await;
        STANDARD.decode(answer["data"].as_str().unwrap()).unwrap()
    }

    async fn tell(&self, command: &str, params: &Value) -> Value {
        let body = json!({"cmd": command, "params": params});
        self.say("POST", "/goog/cdp/execute", Some(&body)).await
    }

    /// What pages have complained about since it was last asked.
    pub async fn complaints(&self) -> Vec<String> {
        let lines = self.say("POST", "/se/log", Some(&json!({"type": "browser"}))).await;
        let lines = lines.as_array().unwrap().iter();
        lines.map(|line| line["message"].as_str().unwrap_or_default().to_owned()).collect()
    }

    /// Every address on a network that pages have asked for since it was last asked.
    pub async fn requests(&self) -> Vec<String> {
        let lines = self.say("POST", "/se/log", Some(&json!({"type": "performance"}))).await;
        let lines = lines.as_array().unwrap().iter();
        let events = lines.filter_map(|line| {
            let event: Value = serde_json::from_str(line["message"].as_str()?).ok()?;
            let event = &event["message"];
            let url = match event["method"].as_str()? {
                "Network.requestWillBeSent" => &event["params"]["request"]["url"],
                "Network.webSocketCreated" => &event["params"]["url"],
                _ => return None,
            };
            url.as_str().map(str::to_owned)
        });
        let is_inside = |url: &String| url.starts_with("data:") || url.starts_with("chrome:");
        events.filter(|url| !is_inside(url)).collect()
    }

    /// Closes the window and waits until the browser is gone.
    pub async fn close(mut self) {
        self.say("DELETE", "", None).await;
        self.process = None;
        let _ = self.driver.kill().await;
    }
}

impl Drop for Browser {
    /// A test that failed leaves no browser behind.
    fn drop(&mut self) {
        if let Some(process) = self.process {
            let _ = kill_process(process, Signal::KILL);
        }
    }
}

/// How often a driver may find its port taken.
const MAX_DRIVER_STARTS: usize = 10;

/// Starts a driver, and the port that it listens on. It looks for a free port and then listens:
/// another that starts at the same time may have found the same one, and then it ends.
async fn start_driver() -> (Child, u16) {
    let program = PathBuf::from("/usr/bin/chromedriver");
    assert!(program.exists(), "ChromeDriver is not installed; run scripts/apt");
    for _ in 0..MAX_DRIVER_STARTS {
        let mut driver = Command::new(&program)
            .arg("--port=0")
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(driver.stdout.take().unwrap()).lines();
        while let Some(line) = lines.next_line().await.unwrap() {
            let port = line.split_once("started successfully on port ");
            if let Some(port) = port.and_then(|(_, port)| port.trim_end_matches('.').parse().ok()) {
                // Later output is not needed, but must be drained.
                tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
                return (driver, port);
            }
        }
    }
    panic!("ChromeDriver finds no port to listen on");
}

/// One request to the driver, and the value of its answer.
async fn ask(port: u16, method: &str, path: &str, body: Option<&Value>) -> Value {
    let body = body.map(Value::to_string).unwrap_or_default();
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\
         Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let exchange = async {
        let mut stream = BufReader::new(TcpStream::connect(("127.0.0.1", port)).await.unwrap());
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut length = 0;
        loop {
            let mut line = String::new();
            stream.read_line(&mut line).await.unwrap();
            let line = line.trim().to_ascii_lowercase();
            match line.strip_prefix("content-length:") {
                Some(number) => length = number.trim().parse().unwrap(),
                None if line.is_empty() => break,
                None => {}
            }
        }
        let mut answer = vec![0; length];
        stream.read_exact(&mut answer).await.unwrap();
        answer
    };
    let answer = tokio::time::timeout(TEST_TIMEOUT, exchange).await;
    let answer = answer.unwrap_or_else(|_| panic!("no answer to {method} {path} {body}"));
    let json: Value = serde_json::from_slice(&answer).unwrap();
    let value = &json["value"];
    assert!(value["error"].is_null(), "{method} {path} {body}: {value}");
    value.clone()
}
