//! What is wrong, in one line each: it stands above everything else.

use symphony_api::{ProblemStatus, Status};
use symphony_core::plain;
use symphony_core::time::Wall;

use crate::app::App;
use crate::source::Link;
use crate::text::{time_of_day, until};

/// What is wrong with a dashboard's connection, then with the service.
pub(super) fn all(app: &App) -> Vec<String> {
    let mut out = Vec::new();
    match &app.link {
        Link::Lost(why) => {
            out.push(format!("no connection: {}; what is shown is old", plain(why, 300)));
        }
        Link::Ended => {
            out.push("the service has ended; what is shown is its last state".to_owned());
        }
        Link::Live | Link::Connecting => {}
    }
    if let Some(status) = app.status.as_deref() {
        out.extend(problems(status, app.clock()));
    }
    out
}

/// Everything that keeps a service from doing its work, worst first.
#[must_use]
pub fn problems(status: &Status, now: Wall) -> Vec<String> {
    let mut out = Vec::new();
    let summary = &status.summary;
    if summary.shutting_down {
        out.push(format!("the service ends: {} runs are being stopped", status.running.len()));
    }
    if let Some(error) = &summary.storage_error {
        out.push(format!(
            "storage: nothing starts until what must survive a restart is written: {error}"
        ));
    }
    out.extend(summary.problems.iter().map(|problem| file_line("workflow file", problem)));
    for job in &summary.polling.jobs {
        if let Some(error) = &job.error {
            out.push(format!("tracker, {}: {error}", job.job));
        }
    }
    for hold in &summary.holds {
        let (at, left) = (time_of_day(hold.until), until(now, hold.until));
        out.push(format!("{} is held until {at} (in {left}): {}", hold.agent, hold.error));
    }
    if let Some(held) = summary.polling.budget.as_ref().and_then(|budget| budget.held_ms) {
        out.push(format!("the tracker refuses requests for {} s", held.div_ceil(1_000)));
    }
    for row in status.running.iter().filter(|row| row.stop_overdue) {
        let name = plain(&row.issue.identifier, 60);
        out.push(format!("{name} was told to stop and is still there after its bound"));
    }
    if summary.paused {
        out.push("paused: nothing starts until it is resumed".to_owned());
    }
    let doubtful = summary.warnings.iter();
    out.extend(doubtful.map(|warning| file_line("doubtful in the workflow file", warning)));
    out
}

/// Tells in one line what is wrong or doubtful in the workflow file, and where.
fn file_line(what: &str, problem: &ProblemStatus) -> String {
    let line = problem.line.map(|line| format!(" (line {line})")).unwrap_or_default();
    let path = problem.path.as_ref().map(|path| format!("{path}: ")).unwrap_or_default();
    let help = problem.help.as_ref().map(|help| format!("; {help}")).unwrap_or_default();
    format!("{what}{line}: {path}{}{help}", problem.message)
}
