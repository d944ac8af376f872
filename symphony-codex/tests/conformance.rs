//! The conformance kit of the core, on sessions with a real process that speaks the protocol.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up fails")]

use std::cell::Cell;
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use symphony_codex::CodexAgent;
use symphony_core::agent::AgentBackend;
use symphony_core::conformance::{Able, AgentFixture, agent};
use symphony_core::{Settings, StateSet};
use symphony_host::LocalHost;
use tempfile::TempDir;
use tokio::runtime::Runtime;

/// Greets, counts tokens, and does with a turn what `turn` says.
const SERVER: &str = r#"
echo $$ >> ../pids
over() { echo "{\"method\":\"turn/completed\",\"params\":{\"threadId\":\"T$$\",\"turn\":{\"id\":\"$id\",\"status\":\"$1\"}}}"; }
used() { echo "{\"method\":\"thread/tokenUsage/updated\",\"params\":{\"threadId\":\"T$$\",\"tokenUsage\":{\"total\":{\"totalTokens\":$id}}}}"; }
asks() { echo '{"id":"q","method":"item/tool/requestUserInput","params":{"questions":[{"question":"Which gate?"}]}}'; }
while read -r line; do
    id=${line#*'"id":'}; id=${id%%[,\}]*}
    case $line in
        *'"initialized"'* | *'"result"'*) ;;
        *'"thread/start"'*) echo "{\"id\":$id,\"result\":{\"thread\":{\"id\":\"T$$\"}}}" ;;
        *'"turn/start"'*) echo "{\"id\":$id,\"result\":{\"turn\":{\"id\":\"$id\"}}}"; used; turn ;;
        *) echo "{\"id\":$id,\"result\":{}}" ;;
    esac
done
"#;

struct Codex {
    runtime: Runtime,
    folder: TempDir,
    script: Cell<agent::SessionScript>,
}

impl Codex {
    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = { runtime }.worker_threads(1).enable_all().build().unwrap();
        let folder = tempfile::Builder::new().prefix("codex-").tempdir().unwrap();
        std::fs::create_dir(folder.path().join("MT-1")).unwrap();
        Self { runtime, folder, script: Cell::new(agent::SessionScript::Complete) }
    }

    /// The servers that were started and live.
    fn live(&self) -> usize {
        let pids = std::fs::read_to_string(self.folder.path().join("pids")).unwrap_or_default();
        let is_alive = |pid: &&str| {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            !stat.is_empty() && !stat.contains(") Z ")
        };
        pids.lines().filter(is_alive).count()
    }
}

impl AgentFixture for Codex {
    fn block_on<F: Future>(&self, future: F) -> F::Output {
        let limit = Duration::from_secs(60);
        self.runtime.block_on(async { tokio::time::timeout(limit, future).await.unwrap() })
    }

    fn backend(&self) -> Arc<dyn AgentBackend> {
        Arc::new(CodexAgent::new(Arc::new(LocalHost::without_helper())))
    }

    fn settings(&self) -> Arc<Settings> {
        let (active, over) = (StateSet::new(["Todo"]), StateSet::new(["Done"]));
        let root = self.folder.path().to_owned();
        let mut settings = Settings::new("memory", active, over, root);
        let turn = match self.script.get() {
            agent::SessionScript::Complete => "over completed",
            agent::SessionScript::Fail => "over failed",
            agent::SessionScript::Ask => "asks",
            agent::SessionScript::Hang => ":",
        };
        settings.agent.common.command = Some(format!("turn() {{ {turn}; }}\n{SERVER}"));
        settings.agent.stop_grace = Duration::from_millis(100);
        settings.into()
    }

    fn workspace(&self) -> PathBuf {
        self.folder.path().join("MT-1")
    }

    fn script(&self, turns: agent::SessionScript) -> Able {
        self.script.set(turns);
        Ok(())
    }

    fn alive(&self) -> usize {
        self.block_on(async {
            for _ in 0..200 {
                if self.live() == 0 {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        });
        self.live()
    }
}

symphony_core::agent_conformance!(Codex::new());
