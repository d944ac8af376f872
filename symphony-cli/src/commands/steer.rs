//! `symphony pause`, `resume`, `refresh`, `clear-holds`, `stop` and `retry`: the commands of the API.

use std::io::Write as _;
use std::process::ExitCode;

use anstream::stdout;
use anyhow::{Context as _, anyhow};
use symphony_api::CommandReceipt;
use symphony_api::client::{ApiClient, ApiError};
use symphony_core::plain;

use crate::args::{SteerArgs, SteerIssueArgs};
use crate::remote;

/// How much of a name is shown.
const MAX_NAME_BYTES: usize = 200;

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

    /// What happens now; where it was so already, that.
    const fn told(self, is_coalesced: bool) -> &'static str {
        match (self, is_coalesced) {
            (Self::Pause, false) => {
                "paused: what runs goes on, and nothing starts until `symphony resume`"
            }
            (Self::Pause, true) => "paused already; `symphony resume` starts again",
            (Self::Resume, false) => "resumed",
            (Self::Resume, true) => "was not paused",
            (Self::Refresh, false) => "the tracker is polled now",
            (Self::Refresh, true) => "the tracker is about to be polled already",
            (Self::ClearHolds, false) => "agents that refused are tried again",
            (Self::ClearHolds, true) => "no agent refuses",
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

    fn told(self, issue: &str) -> String {
        match self {
            Self::Stop => {
                format!("{issue} is stopped, and stays so until `symphony retry {issue}`")
            }
            Self::Retry => format!("{issue} is tried again now"),
        }
    }
}

/// Commands the service as a whole.
pub(crate) fn service(command: ServiceCommand, args: &SteerArgs) -> anyhow::Result<ExitCode> {
    let client = ApiClient::new(remote::find(args.service.url(), &args.workflow)?)?;
    let sent = super::tokio()?.block_on(client.command(&[command.path()]));
    let body = sent.map_err(remote::with_advice)?;
    let receipt = receipt(&client, &body)?;
    print(&body, args.json, command.told(receipt.coalesced))
}

/// Commands one issue.
pub(crate) fn issue(command: IssueCommand, args: &SteerIssueArgs) -> anyhow::Result<ExitCode> {
    let client = ApiClient::new(remote::find(args.of.service.url(), &args.of.workflow)?)?;
    let sent = super::tokio()?.block_on(send(&client, &args.issue, command));
    let (name, body) = sent.map_err(|error| about_issue(error, &args.issue, command))?;
    receipt(&client, &body)?;
    print(&body, args.of.json, &command.told(&plain(&name, MAX_NAME_BYTES)))
}

/// Sends a command about an issue as people name it, in any case, and says which name was known.
async fn send(
    client: &ApiClient,
    name: &str,
    command: IssueCommand,
) -> Result<(String, Vec<u8>), ApiError> {
    let upper = name.to_uppercase();
    match client.command(&[name, command.path()]).await {
        Err(ApiError::Refused { status: 404, .. }) if upper != name => {
            let body = client.command(&[&upper, command.path()]).await?;
            Ok((upper, body.to_vec()))
        }
        sent => sent.map(|body| (name.to_owned(), body.to_vec())),
    }
}

/// Says what to do about a refusal on the command line.
fn about_issue(error: ApiError, name: &str, command: IssueCommand) -> anyhow::Error {
    let name = plain(name, MAX_NAME_BYTES);
    match error {
        ApiError::Refused { status: 404, .. } => anyhow!(
            "the service does not work on {name}; `symphony status` lists what it works on, and \
             `symphony explain {name}` says why not on this one"
        ),
        ApiError::Refused { status: 409, message } => match command {
            IssueCommand::Stop => anyhow!("{name}: {message}"),
            IssueCommand::Retry => {
                anyhow!("{name}: {message}; `symphony explain {name}` says how it stands")
            }
        },
        other => remote::with_advice(other),
    }
}

fn receipt(client: &ApiClient, body: &[u8]) -> anyhow::Result<CommandReceipt> {
    let other = || format!("{} answers something else than a receipt", client.address());
    serde_json::from_slice(body).with_context(other)
}

fn print(body: &[u8], is_json: bool, told: &str) -> anyhow::Result<ExitCode> {
    let mut out = stdout().lock();
    if is_json {
        out.write_all(body)?;
        writeln!(out)?;
    } else {
        writeln!(out, "{told}")?;
    }
    Ok(ExitCode::SUCCESS)
}
