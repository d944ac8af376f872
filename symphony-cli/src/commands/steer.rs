//! `symphony pause`, `resume`, `refresh`, `clear-holds`, `stop` and `retry`: the commands of the API.

use std::io::Write as _;
use std::process::ExitCode;

use anstream::stdout;
use anyhow::{Context as _, anyhow, bail};
use symphony_api::CommandReceipt;
use symphony_api::client::{ApiClient, ApiError};
use symphony_core::{plain, plain_json};

use crate::args::{SteerArgs, SteerIssueArgs};
use crate::remote;

/// How much of a text is shown.
const MAX_TEXT_BYTES: usize = 500;

/// A command to the service as a whole.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ServiceCommand {
    Pause,
    Resume,
    Refresh,
    ClearHolds,
}

/// A command about one issue.
#[derive(Clone, Copy, Debug)]
pub(crate) enum IssueCommand {
    Stop,
    Retry,
}

impl ServiceCommand {
    const fn path(self) -> &'static str {
        match self {
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::Refresh => "refresh",
            Self::ClearHolds => "clear-holds",
        }
    }
}

impl IssueCommand {
    const fn path(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Retry => "retry",
        }
    }
}

/// Commands the service as a whole.
pub(crate) fn service(command: ServiceCommand, args: &SteerArgs) -> anyhow::Result<ExitCode> {
    let client = ApiClient::new(remote::find(args.service.url(), &args.workflow)?)?;
    let sent = super::tokio()?.block_on(client.command(&[command.path()]));
    print(&client, args, &sent.map_err(remote::with_advice)?)
}

/// Commands one issue.
pub(crate) fn issue(command: IssueCommand, args: &SteerIssueArgs) -> anyhow::Result<ExitCode> {
    if matches!(args.issue.as_str(), "" | "." | "..") {
        bail!("that is not an issue's identifier; give one such as MT-1");
    }
    let client = ApiClient::new(remote::find(args.of.service.url(), &args.of.workflow)?)?;
    let sent = super::tokio()?.block_on(send(&client, &args.issue, command));
    let body = sent.map_err(|error| about_issue(error, &args.issue))?;
    print(&client, &args.of, &body)
}

/// Sends a command about an issue as people name it, in any case.
async fn send(
    client: &ApiClient,
    name: &str,
    command: IssueCommand,
) -> Result<impl AsRef<[u8]>, ApiError> {
    let upper = name.to_uppercase();
    match client.command(&[name, command.path()]).await {
        Err(ApiError::Refused { status: 404, .. }) if upper != name => {
            client.command(&[&upper, command.path()]).await
        }
        sent => sent,
    }
}

/// Says what to do about a refusal on the command line.
fn about_issue(error: ApiError, name: &str) -> anyhow::Error {
    let name = plain(name, MAX_TEXT_BYTES);
    match error {
        ApiError::Refused { status: 404, .. } => anyhow!(
            "the service knows no issue {name}; `symphony status` lists what it works on, and \
             `symphony explain {name}` says why not on this one"
        ),
        ApiError::Refused { status: 409, message } => {
            anyhow!("{name}: {message}; `symphony explain {name}` says how it stands")
        }
        other => remote::with_advice(other),
    }
}

/// Says what the service says that happens now.
fn print(
    client: &ApiClient,
    args: &SteerArgs,
    body: &impl AsRef<[u8]>,
) -> anyhow::Result<ExitCode> {
    let receipt: CommandReceipt = serde_json::from_slice(body.as_ref())
        .with_context(|| format!("{} answers something else than a receipt", client.address()))?;
    let mut out = stdout().lock();
    if args.json {
        writeln!(out, "{}", plain_json(&String::from_utf8_lossy(body.as_ref())))?;
    } else if receipt.message.is_empty() {
        writeln!(out, "accepted")?; // by an older service
    } else {
        writeln!(out, "{}", plain(&receipt.message, MAX_TEXT_BYTES))?;
    }
    Ok(ExitCode::SUCCESS)
}
