//! The arguments of the commands that look at a running service or steer it.

use std::path::{Path, PathBuf};

use crate::command_name::is_workflow_name;

/// Which service is asked. The token is not an argument: other users could see it.
#[derive(Debug, clap::Args)]
#[command(after_help = TOKEN_HELP)]
pub(crate) struct ServiceArgs {
    /// Where the service answers, such as http://127.0.0.1:4000
    ///
    /// Without it, the service that uses the workspace root of the workflow file is asked, by its
    /// socket there.
    #[arg(long, env = "SYMPHONY_URL", hide_env_values = true, value_name = "URL")]
    url: Option<String>,
}

impl ServiceArgs {
    /// The address that was given. A variable without a value gives none.
    pub(crate) fn url(&self) -> Option<&str> {
        self.url.as_deref().map(str::trim).filter(|url| !url.is_empty())
    }
}

/// Where the token comes from.
const TOKEN_HELP: &str = "Over a port, a service that wants a token gets the one in SYMPHONY_TOKEN, or the \
                     one that server.token of the workflow file names. Its socket needs none.";

#[derive(Debug, clap::Args)]
pub(crate) struct TopArgs {
    /// The workflow file of the service
    #[arg(default_value = "WORKFLOW.md")]
    pub(crate) workflow: PathBuf,
    #[command(flatten)]
    pub(crate) service: ServiceArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct StatusArgs {
    /// The workflow file of the service
    #[arg(default_value = "WORKFLOW.md")]
    pub(crate) workflow: PathBuf,
    /// Print what `GET /api/v1/state` answers, as it is
    #[arg(long)]
    pub(crate) json: bool,
    /// Print it again and again until Ctrl-C, every two seconds unless a number is given
    #[arg(long, short, value_name = "SECONDS", num_args = 0..=1, require_equals = true)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) watch: Option<Option<u32>>,
    #[command(flatten)]
    pub(crate) service: ServiceArgs,
}

/// A command to the service as a whole.
#[derive(Debug, clap::Args)]
pub(crate) struct SteerArgs {
    /// The workflow file of the service
    #[arg(default_value = "WORKFLOW.md")]
    pub(crate) workflow: PathBuf,
    /// Print the receipt of the API as it is
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) service: ServiceArgs,
}

/// A command about one issue.
#[derive(Debug, clap::Args)]
pub(crate) struct SteerIssueArgs {
    /// The issue: its identifier, such as MT-1, in any case
    pub(crate) issue: String,
    #[command(flatten)]
    pub(crate) of: SteerArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct LogsArgs {
    /// The issue: its identifier, such as MT-1, in any case
    pub(crate) issue: String,
    /// The workflow file of the service
    #[arg(default_value = "WORKFLOW.md")]
    pub(crate) workflow: PathBuf,
    /// Keep reading until Ctrl-C: what is said next, and then the next run
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// The run, such as 4.12; the last one without it
    #[arg(long, value_name = "RUN", conflicts_with = "follow")]
    pub(crate) run: Option<String>,
    /// Print the lines of the file as they are: one JSON object each
    #[arg(long)]
    pub(crate) json: bool,
    /// Ask no service: read what was kept below this folder, the one that `run` was given
    #[arg(long, value_name = "DIR")]
    pub(crate) logs_root: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) service: ServiceArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ExplainArgs {
    /// The issue: its identifier, such as MT-1. Without it, every candidate is explained
    issue: Option<String>,
    /// The workflow file [default: WORKFLOW.md]; also alone, if its name ends with .md
    workflow: Option<PathBuf>,
    /// The same as an option
    #[arg(long = "workflow", value_name = "FILE", conflicts_with = "workflow")]
    named_workflow: Option<PathBuf>,
    /// Ask no service: only rehearse what one would do that was started now
    #[arg(long)]
    pub(crate) offline: bool,
    /// Print it as JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) service: ServiceArgs,
}

impl ExplainArgs {
    /// The issue, where one was named.
    pub(crate) fn issue(&self) -> Option<&str> {
        self.issue.as_deref().filter(|_| !self.is_file_alone())
    }

    /// The workflow file.
    pub(crate) fn workflow(&self) -> &Path {
        let alone = self.issue.as_deref().filter(|_| self.is_file_alone()).map(Path::new);
        let named = self.workflow.as_deref().or(self.named_workflow.as_deref());
        named.or(alone).unwrap_or(Path::new("WORKFLOW.md"))
    }

    fn is_file_alone(&self) -> bool {
        let is_file = self.issue.as_deref().is_some_and(is_workflow_name);
        is_file && self.workflow.is_none() && self.named_workflow.is_none()
    }
}
