//! Contract 10.2 and 14.4: where the tracker's secret must not be seen.

use std::os::unix::process::CommandExt as _;
use std::process::{Command, Output};
use std::sync::Arc;

use symphony_host::{Host, LocalHost};
use tokio::runtime::Runtime;

use crate::trial::server;

const SECRET: &str = "lin_api_secret";
const NOBODY: u32 = 65534;

/// Whether this program was started as the service of a trial.
pub(crate) fn is_service() -> bool {
    std::env::var_os("TRIAL_HARDENED").is_some()
}

/// The service: its agent looks wherever the secret may be, and says what it sees.
pub(crate) fn serve() {
    if std::env::var("TRIAL_HARDENED").as_deref() == Ok("true") {
        symphony_host::harden().unwrap();
    }
    let look = format!(
        "env; set; echo profile $PROFILE
        for pid in {service} $(cut -d' ' -f4 /proc/$$/stat) $$; do
            tr '\\0' ' ' < /proc/$pid/cmdline; echo
        done
        for pid in {service} $(cut -d' ' -f4 /proc/$$/stat); do
            cat /proc/$pid/environ; head -c 1 /proc/$pid/mem
        done
        ls -l /proc/{service}/fd",
        service = std::process::id()
    );
    // What it sees goes to a file, to its stderr and so into the error, and into an update.
    let turn = format!(
        "({look}) > seen 2>&1
        cat seen >&2
        echo \"{{\\\"method\\\":\\\"warning\\\",\\\"params\\\":{{\\\"message\\\":\\\"$TRIAL_KEY\\\"}}}}\"
        exit 1"
    );
    let mut trial = server(&turn);
    trial.request.hidden_env = Arc::from(["TRIAL_KEY".to_owned()]);
    let host: Arc<dyn Host> = Arc::new(LocalHost::new());
    let trial = trial.on(&host);
    Runtime::new().unwrap().block_on(async {
        let error = trial.run().await.unwrap_err();
        println!("error: {error:?}");
        println!("told: {:?}", trial.told.lock().unwrap());
        println!("request: {:?}", trial.request);
        let seen = std::fs::read(trial.workspace().join("seen")).unwrap();
        println!("seen: {}", String::from_utf8_lossy(&seen));
    });
}

/// This program again as a service with a secret, in a home whose profile exports it again. Where
/// the tests run as root, by an unprivileged user: root reads everything.
fn service(hardened: bool) -> Output {
    let home = tempfile::Builder::new().prefix("codex-").tempdir().unwrap();
    let profile = format!("export TRIAL_KEY={SECRET} PROFILE=ran\n");
    std::fs::write(home.path().join(".bash_profile"), profile).unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .env("HOME", home.path())
        .env("TMPDIR", home.path())
        .env("TRIAL_KEY", SECRET)
        .env("TRIAL_HARDENED", hardened.to_string());
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(home.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        command.uid(NOBODY).gid(NOBODY);
    } else {
        println!("not root: the agent is of the same user as the service, as it is in service");
    }
    let output = command.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    output
}

pub(crate) fn rule_10_2_the_trackers_secret_is_hidden() {
    let output = service(true);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("profile ran"), "the login profile has run: {text}");
    assert!(text.contains("PROFILE=ran"), "and its other variables are there: {text}");
    assert!(text.contains("bash -lc unset -v TRIAL_KEY"), "the command lines were seen: {text}");
    for what in ["environ", "mem"] {
        let refused = text.matches(&format!("/{what}: Permission denied")).count();
        let refused =
            refused.max(text.matches(&format!("/{what}' for reading: Permission")).count());
        assert!(refused >= 2, "of the service and of the helper: {text}");
    }
    for stream in [&output.stdout, &output.stderr] {
        assert!(!String::from_utf8_lossy(stream).contains(SECRET), "{text}");
    }
}

/// What makes the other test worth something.
pub(crate) fn a_service_that_is_not_hardened_is_read() {
    let text = String::from_utf8(service(false).stdout).unwrap();
    assert!(text.contains(SECRET), "{text}");
}
