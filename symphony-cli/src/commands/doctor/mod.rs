//! `symphony doctor`: what `check` says, and whether this machine is ready.

mod bundle;
mod clock;
mod machine;
mod scrub;
mod service;

use std::io::Write as _;
use std::process::ExitCode;

use anstream::stdout;
use serde_json::json;
use symphony_core::Settings;
use symphony_core::finding::{Finding, Severity};
use symphony_runtime::{Inspection, plain, read_leniently};

use super::check::{examine, findings_json, problems_json, write_finding};
use crate::args::{DoctorArgs, VERSION};
use crate::{adapters, report};

/// How much of a name is shown.
const MAX_NAME_BYTES: usize = 1024;

/// Everything that was found.
struct Diagnosis {
    inspection: Inspection,
    /// What the file says, as far as it can be read.
    settings: Option<Settings>,
    findings: Vec<Finding>,
}

pub(crate) fn doctor(args: &DoctorArgs) -> anyhow::Result<ExitCode> {
    let diagnosis = Diagnosis::new(args)?;
    if args.json {
        diagnosis.write_json(args)?;
    } else {
        diagnosis.write_text(args)?;
    }
    if let Some(path) = &args.bundle {
        bundle::write(path, &diagnosis, args)?;
        if !args.json {
            let path = plain(&path.display().to_string(), MAX_NAME_BYTES);
            writeln!(stdout().lock(), "\nWrote {path}; read it before you pass it on")?;
        }
    }
    Ok(if diagnosis.is_wrong() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

impl Diagnosis {
    fn new(args: &DoctorArgs) -> anyhow::Result<Self> {
        let inspection = super::inspect(&args.workflow, None);
        let settings = match &inspection.settings {
            Some(settings) => Some(Settings::clone(settings)),
            None => read_leniently(&args.workflow, &adapters::registry()),
        };
        let mut findings = vec![Finding::fine("version", VERSION), machine::git()];
        if let Some(settings) = &settings {
            let root = &settings.workspace.root;
            findings.extend(machine::root(root));
            findings.extend(machine::space(root));
            findings.extend(super::tokio()?.block_on(service::findings(settings)));
            findings.push(super::tokio()?.block_on(clock::finding(settings, args.offline)));
        }
        if let Some(usable) = &inspection.usable {
            findings.extend(examine(usable, args.offline)?);
        }
        Ok(Self { inspection, settings, findings })
    }

    fn is_wrong(&self) -> bool {
        let is_wrong = |finding: &Finding| finding.severity == Severity::Wrong;
        self.inspection.usable.is_none() || self.findings.iter().any(is_wrong)
    }

    fn write_text(&self, args: &DoctorArgs) -> anyhow::Result<()> {
        let mut out = stdout().lock();
        let inspection = &self.inspection;
        report::write(&mut out, &args.workflow, &inspection.text, &inspection.problems)?;
        let name = plain(&args.workflow.display().to_string(), MAX_NAME_BYTES);
        let can = if inspection.usable.is_some() { "can" } else { "cannot" };
        writeln!(out, "{name} {can} be used")?;
        self.findings.iter().try_for_each(|finding| write_finding(&mut out, finding))?;
        if self.is_wrong() {
            writeln!(out, "\nIt would not work as things are: see the errors above")?;
        }
        Ok(())
    }

    fn write_json(&self, args: &DoctorArgs) -> anyhow::Result<()> {
        let found = json!({
            "file": args.workflow.display().to_string(),
            "version": VERSION,
            "usable": self.inspection.usable.is_some(),
            "problems": problems_json(&self.inspection.problems),
            "findings": findings_json(&self.findings),
        });
        report::write_json(&found)
    }
}
