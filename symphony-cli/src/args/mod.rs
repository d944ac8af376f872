//! The command line, and the help that teaches it.

mod service;

use std::path::PathBuf;

use clap::{ArgAction, Parser, Subcommand, ValueEnum};
use clap_complete::Shell;
use symphony_core::settings;

pub(crate) use service::{ExplainArgs, LogsArgs, StatusArgs, SteerArgs, SteerIssueArgs, TopArgs};

/// The number, and where they are known the commit and its date.
pub(crate) const VERSION: &str = env!("SYMPHONY_VERSION");

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
///   symphony doctor    see whether this machine is ready
#[derive(Debug, Parser)]
#[command(name = "symphony", version = VERSION, verbatim_doc_comment)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct Args {
    #[command(flatten)]
    pub(crate) run: RunArgs,
    /// What is logged: a level, or filters such as `info,symphony_runtime=debug`
    ///
    /// For `run`, wins over SYMPHONY_LOG and `logging.level` of the file, and is `info` unless one
    /// of them is set; other commands log nothing without it.
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
    /// Print what was said with an agent about an issue
    ///
    /// What the agent said, the commands it ran, the tokens it took. Such files are kept by a
    /// service with `--logs-root`.
    Logs(LogsArgs),
    /// Start nothing until `resume`; what runs goes on
    Pause(SteerArgs),
    /// Start issues again after `pause`
    Resume(SteerArgs),
    /// End the run of an issue, and keep the issue blocked until `retry`
    Stop(SteerIssueArgs),
    /// Try a waiting or blocked issue now
    Retry(SteerIssueArgs),
    /// Poll the tracker now
    Refresh(SteerArgs),
    /// Try agents again that refuse for now, because of a usage limit, say
    ClearHolds(SteerArgs),
    /// Say whether this machine is ready: what `check` says, and port, folders, space, git, clock
    Doctor(DoctorArgs),
    /// Change the board of the memory tracker
    #[command(subcommand)]
    Issue(IssueSubcommand),
    /// Print the JSON Schema of the front matter, for editors
    ///
    /// Write it beside the workflow file, and name it in the first line of the front matter:
    ///
    ///   symphony schema > symphony.schema.json
    ///
    ///   # yaml-language-server: $schema=./symphony.schema.json
    #[command(verbatim_doc_comment)]
    Schema,
    /// Print the completions of a shell
    ///
    ///   bash        symphony completions bash > ~/.local/share/bash-completion/completions/symphony
    ///   zsh         symphony completions zsh > a folder of $fpath/_symphony
    ///   fish        symphony completions fish > ~/.config/fish/completions/symphony.fish
    ///   elvish      symphony completions elvish, into rc.elv
    ///   powershell  symphony completions powershell, into $PROFILE
    #[command(verbatim_doc_comment)]
    Completions(CompletionsArgs),
    /// Print the manual page, for `man -l -`, or write one for each command
    Man(ManArgs),
}

#[derive(Debug, Subcommand)]
pub(crate) enum IssueSubcommand {
    /// Add an issue to the board
    ///
    /// The board file is changed, or the list in the workflow file; a running service sees it with
    /// its next poll. Remarks and layout stay as they are. Only for `tracker.kind: memory`.
    Add(IssueAddArgs),
}

#[derive(Debug, clap::Args)]
pub(crate) struct IssueAddArgs {
    /// What is to be done, in a line
    pub(crate) title: String,
    /// The workflow file
    #[arg(default_value = "WORKFLOW.md")]
    pub(crate) workflow: PathBuf,
    /// The text below the title; `-` reads it from standard input
    #[arg(long, short, value_name = "TEXT")]
    pub(crate) description: Option<String>,
    /// Its state; the first one of `tracker.active_states` without it
    #[arg(long, short)]
    pub(crate) state: Option<String>,
    /// A label; may be given several times
    #[arg(long, short, value_name = "LABEL")]
    pub(crate) label: Vec<String>,
    /// 1 is the most urgent, 4 the least
    #[arg(long, short)]
    pub(crate) priority: Option<i64>,
    /// Its identifier; the next number without it, such as MT-3 after MT-2
    #[arg(long, short)]
    pub(crate) identifier: Option<String>,
    /// An issue that must be done first; may be given several times
    #[arg(long, value_name = "ISSUE")]
    pub(crate) blocked_by: Vec<String>,
    /// Print the record as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct CompletionsArgs {
    /// Which shell
    pub(crate) shell: Shell,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ManArgs {
    /// Write `symphony.1`, `symphony-check.1` and so on into this folder, which is made if need be
    #[arg(long, value_name = "DIR")]
    pub(crate) dir: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DoctorArgs {
    /// The workflow file
    #[arg(default_value = "WORKFLOW.md")]
    pub(crate) workflow: PathBuf,
    /// Ask no tracker and run no agent's command
    #[arg(long)]
    pub(crate) offline: bool,
    /// Print it as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
    /// Also write it into a new file, with versions, settings and the end of the log, for a report:
    /// secrets are taken out, and so are prompt, hooks and issues
    #[arg(long, value_name = "FILE")]
    pub(crate) bundle: Option<PathBuf>,
    /// Where `run` was told to keep its logs: the bundle has the end of `symphony.log` there
    #[arg(long, value_name = "DIR", requires = "bundle")]
    pub(crate) logs_root: Option<PathBuf>,
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
    /// Which tracker it reads; Linear where a project is named
    #[arg(long, value_enum, default_value_t)]
    #[arg(default_value_if("project", clap::builder::ArgPredicate::IsPresent, "linear"))]
    pub(crate) tracker: TrackerKind,
    /// The project of Linear: the end of its address, or all of it
    #[arg(long, value_name = "PROJECT")]
    pub(crate) project: Option<String>,
    /// The repository that agents work on: each issue gets a clone, a branch and a pull request
    #[arg(long, value_name = "URL")]
    pub(crate) repo: Option<String>,
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
