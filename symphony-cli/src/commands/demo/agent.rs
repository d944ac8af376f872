//! `symphony demo-agent`: an app-server that needs no model, for the demo.
//!
//! It speaks the protocol of the real one over its standard streams, as far as Symphony uses it, and
//! does what the issue's name tells it to do.

use std::fs::OpenOptions;
use std::io::{BufRead, Lines, StdinLock, Write as _, stdin, stdout};
use std::process::ExitCode;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, bail};
use serde_json::{Value, json};

use crate::args::DemoAgentArgs;

/// The one conversation.
const THREAD_ID: &str = "demo-thread";
/// The server's own requests have names, the client's have numbers.
const CALL_ID: &str = "call";

/// One thing that the agent does.
enum DemoAction {
    /// Moves its issue, with the tracker's tool.
    Move(&'static str),
    Say(&'static str),
    /// Writes a line into its report.
    Write(String),
    Think(Duration),
    /// So many tokens of input and output.
    Spend(u64, u64),
    Fail(&'static str),
}

/// Serves until its input ends.
pub(crate) fn serve(args: &DemoAgentArgs) -> anyhow::Result<ExitCode> {
    let mut agent = Agent {
        input: stdin().lock().lines(),
        name: String::new(),
        turn: 0,
        spent: (0, 0),
        slower: args.slower,
    };
    while let Some(message) = agent.next()? {
        agent.answer(&message)?;
    }
    Ok(ExitCode::SUCCESS)
}

struct Agent {
    input: Lines<StdinLock<'static>>,
    /// What the client called the conversation: the issue's identifier and title.
    name: String,
    turn: u32,
    spent: (u64, u64),
    /// How many times longer it thinks.
    slower: u32,
}

impl Agent {
    fn next(&mut self) -> anyhow::Result<Option<Value>> {
        let Some(line) = self.input.next() else { return Ok(None) };
        let line = line.context("cannot read a message")?;
        serde_json::from_str(&line).map(Some).context("that is not a message")
    }

    fn answer(&mut self, message: &Value) -> anyhow::Result<()> {
        let id = &message["id"];
        let params = &message["params"];
        let result = match message["method"].as_str() {
            Some("initialize") => json!({"userAgent": "symphony/0.166.0 (demo)"}),
            Some("thread/start") => json!({"thread": {"id": THREAD_ID}}),
            Some("thread/name/set") => {
                self.name = params["name"].as_str().unwrap_or_default().to_owned();
                json!({})
            }
            Some("turn/start") if params["threadId"] == THREAD_ID => {
                self.turn += 1;
                let turn = json!({"id": self.turn.to_string(), "status": "inProgress"});
                send(&json!({"id": id, "result": {"turn": turn}}))?;
                return self.work();
            }
            _ if id.is_null() => return Ok(()), // told, not asked
            _ => {
                let error = json!({"code": -32600, "message": "not in a demo"});
                return send(&json!({"id": id, "error": error}));
            }
        };
        send(&json!({"id": id, "result": result}))
    }

    /// One turn, from its start to its end.
    fn work(&mut self) -> anyhow::Result<()> {
        let mut error = None;
        for does in self.script()? {
            match does {
                DemoAction::Move(state) => self.call("update_issue", &json!({"state": state}))?,
                DemoAction::Say(text) => {
                    let item = json!({"type": "agentMessage", "id": "said", "text": text});
                    let turn = self.turn.to_string();
                    let said = json!({"threadId": THREAD_ID, "turnId": turn, "item": item});
                    notify("item/completed", &said)?;
                }
                DemoAction::Write(line) => writeln!(report()?, "{line}")?,
                DemoAction::Think(time) => thread::sleep(time.saturating_mul(self.slower)),
                DemoAction::Spend(input, output) => self.spend(input, output)?,
                DemoAction::Fail(why) => error = Some(json!({"message": why})),
            }
        }
        let status = if error.is_some() { "failed" } else { "completed" };
        let turn = json!({"id": self.turn.to_string(), "status": status, "error": error});
        notify("turn/completed", &json!({"threadId": THREAD_ID, "turn": turn}))
    }

    /// What this turn is to do.
    fn script(&self) -> anyhow::Result<Vec<DemoAction>> {
        let (issue, title) = self.name.split_once(": ").unwrap_or((&self.name, ""));
        let a_moment = || DemoAction::Think(Duration::from_millis(250));
        let write = |line: &str| DemoAction::Write(line.to_owned());
        let nobody = "Nobody answers.";
        Ok(match (issue, self.turn) {
            ("DEMO-4", _) if !std::fs::read_to_string("report.md")?.contains(nobody) => vec![
                DemoAction::Move("In Progress"),
                DemoAction::Say("calling the shop"),
                a_moment(),
                write(nobody),
                DemoAction::Spend(900, 60),
                DemoAction::Fail("the line went dead"),
            ],
            ("DEMO-5", 1) => vec![
                DemoAction::Move("In Progress"),
                DemoAction::Say("first coat"),
                a_moment(),
                write("The first coat is on."),
                DemoAction::Spend(1_200, 300),
            ],
            ("DEMO-5", _) => vec![
                DemoAction::Say("second coat"),
                a_moment(),
                write("The second coat is on."),
                DemoAction::Spend(1_500, 280),
                DemoAction::Move("Done"),
            ],
            _ => vec![
                DemoAction::Move("In Progress"),
                DemoAction::Say("at work"),
                a_moment(),
                DemoAction::Write(format!("{title}: done.")),
                DemoAction::Spend(1_000, 200),
                DemoAction::Say("finished"),
                DemoAction::Move("Done"),
            ],
        })
    }

    /// Calls a tool of the tracker and waits for its result.
    fn call(&mut self, tool: &str, arguments: &Value) -> anyhow::Result<()> {
        let turn = self.turn.to_string();
        send(&json!({"id": CALL_ID, "method": "item/tool/call", "params": {
            "threadId": THREAD_ID, "turnId": turn, "callId": CALL_ID, "namespace": null,
            "tool": tool, "arguments": arguments,
        }}))?;
        while let Some(message) = self.next()? {
            if message["id"] == CALL_ID {
                if message["result"]["success"] == true {
                    return Ok(());
                }
                bail!("the tool {tool} said: {}", message["result"]);
            }
            self.answer(&message)?;
        }
        bail!("the input ended in the middle of a call");
    }

    fn spend(&mut self, input: u64, output: u64) -> anyhow::Result<()> {
        self.spent = (self.spent.0 + input, self.spent.1 + output);
        let (input, output) = self.spent;
        let total = json!({
            "inputTokens": input, "cachedInputTokens": 0, "outputTokens": output,
            "reasoningOutputTokens": 0, "totalTokens": input + output,
        });
        let usage = json!({"total": total, "last": total});
        let turn = self.turn.to_string();
        let params = json!({"threadId": THREAD_ID, "turnId": turn, "tokenUsage": usage});
        notify("thread/tokenUsage/updated", &params)
    }
}

fn report() -> anyhow::Result<std::fs::File> {
    let file = OpenOptions::new().append(true).create(true).open("report.md");
    file.context("the report cannot be written")
}

fn notify(method: &str, params: &Value) -> anyhow::Result<()> {
    send(&json!({"method": method, "params": params}))
}

fn send(message: &Value) -> anyhow::Result<()> {
    let mut out = stdout().lock();
    writeln!(out, "{message}")?;
    Ok(out.flush()?)
}
