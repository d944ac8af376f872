//! The command line, and the help that teaches it.

use std::path::{Path, PathBuf};

use clap::{ArgAction, Parser, Subcommand, ValueEnum};
use symphony_core::settings;

use crate::command_name::is_workflow_name;

/// Turns an issue tracker into finished work.
///
/// Symphony polls a tracker, decides which issues to work on, gives each its own workspace folder,
/// runs a coding agent there, and looks after it until the issue is done. The policy is one file in
/// your repository: WORKFLOW.md.
///
///   symphony demo      see it work, without network and keys
///   symphony init      write a WORKFLOW.md to begin with
///   symphony check     see whether it can be used, and what it means
///   symphony           run it
///   symphony status    see what it does; `top` keeps looking, `explain` says why something waits
#[derive(Debug, Parser)]
#[command(name = "symphony", version, verbatim_doc_comment, args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) run: RunArgs,
    /// What is logged: a level, or filters such as `info,symphony_runtime=debug`. For `run`, wins
    /// over SYMPHONY_LOG and `logging.level` of the file, and is `info` unless one of them is set;
    /// other commands log nothing without it
    #[arg(long, global = true, value_name = "FILTER")]
    pub(crate) log: Option<String>,
    #[command(subcommand)]
    pub(crate) command: Option<CliCommand>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CliCommand {
    /// Run a workflow file until Ctrl-C (what `symphony` alone does)
    Run(RunArgs),
    /// Say everything that is wrong or doubtful in a workflow file, and ask its tracker and agent
    Check(CheckArgs),
    /// See it work: eight issues, scripted agents, real workspaces and hooks
    Demo(DemoArgs),
    /// Speak Codex's protocol without a model: the demo's agent
    #[command(hide = true)]
    DemoAgent(DemoAgentArgs),
    /// Write a commented WORKFLOW.md to begin with
    Init(InitArgs),
    /// Show what an agent would be told about an issue
    Prompt(PromptArgs),
    /// Look at a running service: the dashboard in this terminal
    Top(TopArgs),
    /// Print what a running service does
    Status(StatusArgs),
    /// Say why an issue is not worked on, or why nothing starts
    ///
    /// Asks the running service. Where none answers, it is a dry run: the tracker is read once, the
    /// scheduler says what it would start and why it would not start the rest, and nothing is
    /// started, locked or written but the activity file, if there is one.
    Explain(ExplainArgs),
    /// Look at what survives a restart, or back it up
    #[cfg(feature = "sqlite")]
    State(StateArgs),
}

#[cfg(feature = "sqlite")]
#[derive(Debug, clap::Args)]
pub(crate) struct StateArgs {
    #[command(subcommand)]
    pub(crate) command: StateCommand,
}

#[cfg(feature = "sqlite")]
#[derive(Debug, Subcommand)]
pub(crate) enum StateCommand {
    /// Print what is kept, also while the service runs
    Show {
        /// The workflow file of the service
        #[arg(default_value = "WORKFLOW.md")]
        workflow: PathBuf,
    },
    /// Copy what is kept to a new file, also while the service runs
    Backup {
        /// The file to make
        file: PathBuf,
        /// The workflow file of the service
        #[arg(default_value = "WORKFLOW.md")]
        workflow: PathBuf,
    },
}

#[derive(Debug, clap::Args)]
pub(crate) struct RunArgs {
    /// The workflow file
    #[arg(default_value = "WORKFLOW.md")]
    pub(crate) workflow: PathBuf,
    /// Serve the dashboard and the API on this port; 0 takes any free one. Wins over `server.port`
    #[arg(long)]
    pub(crate) port: Option<u16>,
    /// Write plain log lines also where a terminal could show the dashboard
    #[arg(long)]
    pub(crate) no_dashboard: bool,
    /// Start also where another service on this machine works on the same issues. For services that
    /// something else keeps apart, such as `tracker.required_labels`
    #[arg(long)]
    pub(crate) allow_second: bool,
    #[command(flatten)]
    pub(crate) logging: LoggingArgs,
    /// Accepted for the sake of older scripts; it changes nothing
    #[arg(long = "i-understand-that-this-will-be-running-without-the-usual-guardrails")]
    #[arg(hide = true, action = ArgAction::SetTrue)]
    pub(crate) _acknowledged: bool,
}

#[derive(Debug, Default, clap::Args)]
pub(crate) struct LoggingArgs {
    /// Also write the log to files in this folder, which are rotated, and what is said with each
    /// agent
    #[arg(long, value_name = "DIR")]
    pub(crate) logs_root: Option<PathBuf>,
    /// How log lines look. Wins over `logging.format` of the file, which is `text` unless set
    #[arg(long, value_enum)]
    pub(crate) log_format: Option<LogFormatArg>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum LogFormatArg {
    /// Lines for people
    Text,
    /// One JSON object per line
    Json,
}

impl From<LogFormatArg> for settings::LogFormat {
    fn from(format: LogFormatArg) -> Self {
        match format {
            LogFormatArg::Text => Self::Text,
            LogFormatArg::Json => Self::Json,
        }
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct CheckArgs {
    /// The workflow file
    #[arg(default_value = "WORKFLOW.md")]
    pub(crate) workflow: PathBuf,
    /// Also print every setting that is in force, with its default where the file names none, as
    /// front matter that can be pasted back; secrets are masked
    #[arg(long)]
    pub(crate) show: bool,
    /// Print it as one JSON object
    #[arg(long, conflicts_with = "budget")]
    pub(crate) json: bool,
    /// Print what is wrong or doubtful, and nothing else
    #[arg(long, short, conflicts_with = "json")]
    pub(crate) quiet: bool,
    /// Fail also where something is only doubtful: exit code 1 with any warning
    #[arg(long)]
    pub(crate) strict: bool,
    /// Look at the file alone: ask no tracker and run no agent's command. For a file that you do
    /// not trust yet, or without a network
    #[arg(long)]
    pub(crate) offline: bool,
    /// Also forecast the requests to the tracker with so many agents at work: as many as may run at
    /// a time unless a number is given
    #[arg(long, value_name = "AGENTS", num_args = 0..=1, require_equals = true)]
    pub(crate) budget: Option<Option<u32>>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DemoArgs {
    /// Keep the demo's folder: its WORKFLOW.md, and what the agents made
    #[arg(long)]
    pub(crate) keep: bool,
    /// Also serve the dashboard on this port; the agents then take their time, and the demo stays
    /// until Ctrl-C. 0 takes any free port
    #[arg(long)]
    pub(crate) port: Option<u16>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DemoAgentArgs {
    /// How many times longer everything takes
    #[arg(long, default_value_t = 1)]
    pub(crate) slower: u32,
}

#[derive(Debug, clap::Args)]
pub(crate) struct InitArgs {
    /// Where to write it
    #[arg(default_value = "WORKFLOW.md")]
    pub(crate) workflow: PathBuf,
    /// Which tracker it reads
    #[arg(long, value_enum, default_value_t)]
    pub(crate) tracker: TrackerKind,
    /// Replace a file that is there already
    #[arg(long)]
    pub(crate) force: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum TrackerKind {
    /// Issues in the file itself, or in a board file beside it
    #[default]
    Memory,
    /// A project or a team of Linear
    Linear,
}

#[derive(Debug, clap::Args)]
pub(crate) struct PromptArgs {
    /// The issue: its identifier, such as MT-1, or the tracker's id
    pub(crate) issue: String,
    /// The workflow file
    #[arg(default_value = "WORKFLOW.md")]
    pub(crate) workflow: PathBuf,
    /// As it would be for this attempt; the first one without it
    #[arg(long)]
    pub(crate) attempt: Option<u32>,
    /// As it would be for this turn of a run
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) turn: u32,
}

/// Which service is asked. The token is not an argument: other users could see it.
#[derive(Debug, clap::Args)]
#[command(after_help = TOKEN_HELP)]
pub(crate) struct ServiceArgs {
    /// Where the service answers, such as http://127.0.0.1:4000. Without it, where `server.host`
    /// and `server.port` of the workflow file say
    #[arg(long, env = "SYMPHONY_URL", value_name = "URL")]
    url: Option<String>,
}

impl ServiceArgs {
    /// The address that was given. A variable without a value gives none.
    pub(crate) fn url(&self) -> Option<&str> {
        self.url.as_deref().map(str::trim).filter(|url| !url.is_empty())
    }
}

/// Where the token comes from.
const TOKEN_HELP: &str = "A service that wants a token gets the one in SYMPHONY_TOKEN, or the one that \
                     server.token of the workflow file names.";

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
