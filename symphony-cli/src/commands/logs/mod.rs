//! `symphony logs`: what was said with an agent in a run, from the file that was kept of it.

mod render;
mod tail;

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anstream::{AutoStream, eprintln, stdout};
use anyhow::{Context as _, anyhow, bail};
use symphony_api::IssueStatus;
use symphony_api::client::{ApiClient, ApiError};
use symphony_core::run::RunId;
use symphony_core::{WorkspaceKey, plain, plain_json};

use super::run::TRANSCRIPTS_FOLDER;
use crate::args::LogsArgs;
use crate::remote;
use render::TranscriptRenderer;
use tail::Tail;

/// How much of a name is shown.
const MAX_NAME_BYTES: usize = 200;

/// How often a file that is followed is looked at.
const FOLLOW_INTERVAL: Duration = Duration::from_millis(200);

/// The end of a file's name, and of that of the half before it.
const EXTENSION: &str = "jsonl";
const EARLIER: &str = "earlier.jsonl";

pub(crate) fn logs(args: &LogsArgs) -> anyhow::Result<ExitCode> {
    let run = args.run.as_deref().map(|run| {
        RunId::parse(run).with_context(|| {
            format!("{} is not a run; they look like 4.12", plain(run, MAX_NAME_BYTES))
        })
    });
    let run = run.transpose()?;
    let folder = match &args.logs_root {
        Some(root) => folder_below(root, &args.issue)?,
        None => folder_of_service(args)?,
    };
    let newest = || {
        runs(&folder).last().copied().with_context(|| {
            let name = plain(&args.issue, MAX_NAME_BYTES);
            format!("nothing that was said about {name} is kept in {}", folder.display())
        })
    };
    let run = run.map_or_else(newest, Ok)?;
    let mut printer = Printer::new(args.json);
    printer.begin(run)?;
    printer.whole(&folder.join(format!("{run}.{EARLIER}"))).or_else(absent_is_fine)?;
    let path = folder.join(format!("{run}.{EXTENSION}"));
    let mut tail = Tail::open(&path).with_context(|| unreadable(&path, &folder))?;
    printer.all(&mut tail)?;
    if !args.follow {
        printer.rest(&tail)?;
        printer.end()?;
        return Ok(ExitCode::SUCCESS);
    }
    follow(&folder, run, tail, &mut printer)
}

fn unreadable(path: &Path, folder: &Path) -> String {
    let kept: Vec<String> = runs(folder).iter().map(RunId::to_string).collect();
    let path = plain(&path.display().to_string(), MAX_NAME_BYTES);
    match kept.is_empty() {
        true => format!("{path} cannot be read"),
        false => format!("{path} cannot be read; kept are the runs {}", kept.join(", ")),
    }
}

fn absent_is_fine(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

/// Prints what is written from now on, until it is interrupted.
fn follow(
    folder: &Path,
    mut run: RunId,
    mut tail: Tail,
    printer: &mut Printer,
) -> anyhow::Result<ExitCode> {
    loop {
        std::thread::sleep(FOLLOW_INTERVAL);
        printer.all(&mut tail)?;
        if let Some(next) = tail.successor() {
            // What was written between the look and the rename.
            printer.all(&mut tail)?;
            tail = next;
        } else if let Some(next) = runs(folder).into_iter().find(|next| *next > run) {
            printer.all(&mut tail)?;
            printer.rest(&tail)?;
            // A file that is gone already is not followed.
            if let Ok(of_next) = Tail::open(&folder.join(format!("{next}.{EXTENSION}"))) {
                (run, tail) = (next, of_next);
                printer.begin(run)?;
            }
        }
    }
}

/// The folder of an issue below the one that `run --logs-root` was given, named in any case.
fn folder_below(root: &Path, issue: &str) -> anyhow::Result<PathBuf> {
    let root = root.join(TRANSCRIPTS_FOLDER);
    for name in [issue, &issue.to_uppercase()] {
        if let Ok(key) = WorkspaceKey::derive(name)
            && root.join(key.as_str()).is_dir()
        {
            return Ok(root.join(key.as_str()));
        }
    }
    let (issue, root) = (plain(issue, MAX_NAME_BYTES), root.display());
    bail!("nothing that was said about {issue} is kept in {root}");
}

/// The folder that a running service names.
fn folder_of_service(args: &LogsArgs) -> anyhow::Result<PathBuf> {
    let client = ApiClient::new(remote::find(args.service.url(), &args.workflow)?)?;
    let asked = super::tokio()?.block_on(ask(&client, &args.issue));
    let status = asked.map_err(|error| about_issue(error, &args.issue))?;
    let Some(log) = status.logs.codex_session_logs.first() else {
        let name = plain(&args.issue, MAX_NAME_BYTES);
        bail!(
            "nothing that was said about {name} is kept: start the service with --logs-root DIR \
             to keep it"
        );
    };
    let folder = Path::new(&log.path).parent().unwrap_or(Path::new("/"));
    if folder.is_dir() {
        return Ok(folder.to_owned());
    }
    let (path, page) = (plain(&log.path, MAX_NAME_BYTES), log.url.as_deref().unwrap_or_default());
    let page = plain(&format!("{}{page}", client.address()), MAX_NAME_BYTES);
    bail!("{path} is on the machine of the service; run this there, or open {page} in a browser")
}

async fn ask(client: &ApiClient, issue: &str) -> Result<IssueStatus, ApiError> {
    let upper = issue.to_uppercase();
    match client.issue(issue).await {
        Err(ApiError::Refused { status: 404, .. }) if upper != issue => client.issue(&upper).await,
        asked => asked,
    }
}

fn about_issue(error: ApiError, issue: &str) -> anyhow::Error {
    match error {
        ApiError::Refused { status: 404, .. } => {
            let name = plain(issue, MAX_NAME_BYTES);
            anyhow!(
                "the service knows no issue {name}; where its runs were kept, name the folder with \
                 --logs-root DIR"
            )
        }
        ApiError::Unreachable(why) => anyhow!(
            "{why}; start the service, name another one with --url, or the folder of its logs with \
             --logs-root"
        ),
        other => remote::with_advice(other),
    }
}

/// The runs that a folder has files of, oldest first.
fn runs(folder: &Path) -> Vec<RunId> {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let run = |name: std::ffi::OsString| RunId::parse(name.to_str()?.strip_suffix(".jsonl")?);
    let mut runs: Vec<RunId> = files.filter_map(|file| run(file.file_name())).collect();
    runs.sort();
    runs
}

/// Prints the lines of one run after another.
struct Printer {
    out: AutoStream<io::StdoutLock<'static>>,
    renderer: Option<TranscriptRenderer>,
    is_empty: bool,
}

impl Printer {
    fn new(is_json: bool) -> Self {
        let renderer = (!is_json).then(TranscriptRenderer::default);
        Self { out: stdout().lock(), renderer, is_empty: true }
    }

    /// Another run begins: where its lines are not for a program, that is told.
    fn begin(&mut self, run: RunId) -> io::Result<()> {
        if let Some(renderer) = &mut self.renderer {
            *renderer = TranscriptRenderer::default();
            self.out.flush()?;
            eprintln!("run {run}");
        }
        Ok(())
    }

    /// Where nothing was printed, that is told.
    fn end(&mut self) -> io::Result<()> {
        self.out.flush()?;
        if self.is_empty {
            eprintln!("nothing was said in it");
        }
        Ok(())
    }

    fn line(&mut self, line: &str) -> io::Result<()> {
        self.is_empty = false;
        match &mut self.renderer {
            None => writeln!(self.out, "{}", plain_json(line)),
            Some(renderer) => {
                renderer.render(line).iter().try_for_each(|line| writeln!(self.out, "{line}"))
            }
        }
    }

    /// Prints what there is now.
    fn all(&mut self, tail: &mut Tail) -> io::Result<()> {
        while tail.read(|line| self.line(line))? {}
        self.out.flush()
    }

    /// Prints what a file ends with.
    fn rest(&mut self, tail: &Tail) -> io::Result<()> {
        tail.rest().map_or(Ok(()), |rest| self.line(&rest))
    }

    /// Prints a file that is not written any more.
    fn whole(&mut self, path: &Path) -> io::Result<()> {
        let mut tail = Tail::open(path)?;
        self.all(&mut tail)?;
        self.rest(&tail)
    }
}
