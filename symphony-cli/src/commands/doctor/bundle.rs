//! The support file of `symphony doctor --bundle`: text to send with a question, without secrets,
//! prompt, hooks and issues.

use std::fmt::Write as _;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use anyhow::{Context as _, bail};
use serde_yaml::{Mapping, Value};
use symphony_core::Settings;
use symphony_core::finding::Severity;
use symphony_core::redact::{Redactor, is_secret_name};
use symphony_core::settings::env_reference;
use symphony_runtime::plain;

use super::Diagnosis;
use super::scrub::scrubbed;
use crate::adapters;
use crate::args::{DoctorArgs, VERSION};
use crate::commands::CliEnv;
use crate::commands::check::front_matter::front_matter;

/// How much of the end of the log is looked at, and how many lines of it are taken over.
const MAX_LOG_BYTES: u64 = 128 * 1024;
const MAX_LOG_LINES: usize = 200;

/// How much of a line is taken over.
const MAX_LINE_BYTES: usize = 2_000;

const HEAD: &str = "Symphony support file. Secrets, the prompt, the scripts of hooks and the issues \
                    of an inline board are left out. Read it before you pass it on.\n";

/// Writes a file that was not there, readable by its owner alone.
pub(super) fn write(path: &Path, diagnosis: &Diagnosis, args: &DoctorArgs) -> anyhow::Result<()> {
    let text = text(diagnosis, args)?;
    let opened = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let mut file = match opened {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            bail!("{} is there already; name another file", path.display())
        }
        opened => opened.with_context(|| {
            let path = path.display();
            format!("{path} cannot be written: name a file in a folder of yours")
        })?,
    };
    file.write_all(text.as_bytes())?;
    Ok(())
}

/// Puts the sections together. Every line passes the redactor, whatever it comes from.
fn text(diagnosis: &Diagnosis, args: &DoctorArgs) -> anyhow::Result<String> {
    let redactor = redactor(diagnosis);
    let mut all = HEAD.to_owned();
    let mut section = |name: &str, text: &str| {
        let _ = write!(all, "\n## {name}\n");
        for line in scrubbed(text.lines().map(|line| redactor.redact(line))) {
            let _ = writeln!(all, "{}", plain(&line, MAX_LINE_BYTES));
        }
    };
    section("Version", &versions());
    section("Findings", &findings(diagnosis));
    section("Problems of the workflow file", &problems(diagnosis));
    if let Some(settings) = &diagnosis.settings {
        section("Settings", &settings_of(settings)?);
    }
    section("Log", &log(args));
    Ok(all)
}

fn versions() -> String {
    let system = rustix::system::uname();
    let part = |part: &std::ffi::CStr| part.to_string_lossy().into_owned();
    let (name, release) = (part(system.sysname()), part(system.release()));
    format!("symphony {VERSION}\n{name} {release} {}\n", part(system.machine()))
}

fn findings(diagnosis: &Diagnosis) -> String {
    let line = |finding: &symphony_core::finding::Finding| {
        let word = match finding.severity {
            Severity::Fine => "",
            Severity::Doubtful => "warning: ",
            Severity::Wrong => "error: ",
        };
        format!("{}: {word}{}\n", finding.subject, finding.text.replace('\n', " "))
    };
    diagnosis.findings.iter().map(line).collect()
}

/// Where they are and what they are called: the message may quote a value.
fn problems(diagnosis: &Diagnosis) -> String {
    let problems = diagnosis.inspection.problems.iter();
    let line = |problem: &symphony_core::problem::Problem| {
        let at = problem.at.map(|at| format!("line {}: ", at.line)).unwrap_or_default();
        let path = problem.path.as_deref().unwrap_or("the file");
        format!("{at}{path}: {}\n", problem.kind.as_str())
    };
    problems.map(line).collect()
}

/// The settings in force, without what only the owner of the file is to know.
fn settings_of(settings: &Settings) -> anyhow::Result<String> {
    let mut all = front_matter(settings, &adapters::registry());
    if let Some(Value::Mapping(hooks)) = all.get_mut("hooks") {
        for (_, value) in hooks.iter_mut() {
            if let Value::String(script) = value {
                *value = format!("(a script of {} lines)", script.lines().count()).into();
            }
        }
    }
    let provider = all.get_mut("tracker").and_then(|tracker| tracker.get_mut("provider"));
    if let Some(Value::Mapping(provider)) = provider {
        for (_, value) in provider.iter_mut() {
            if let Value::Sequence(items) = value {
                *value = format!("(a list of {})", items.len()).into();
            }
        }
    }
    mask(&mut all);
    Ok(serde_yaml::to_string(&all)?)
}

/// Masks what is called like a secret, at any depth.
fn mask(map: &mut Mapping) {
    for (key, value) in map.iter_mut() {
        if key.as_str().is_some_and(is_secret_name) {
            *value = "***".into();
        } else {
            mask_within(value);
        }
    }
}

fn mask_within(value: &mut Value) {
    match value {
        Value::Mapping(map) => mask(map),
        Value::Sequence(items) => items.iter_mut().for_each(mask_within),
        _ => {}
    }
}

/// The end of the log, where its folder was named.
fn log(args: &DoctorArgs) -> String {
    let Some(folder) = &args.logs_root else {
        return "not named; --logs-root DIR adds the end of DIR/symphony.log\n".to_owned();
    };
    let path = folder.join("symphony.log");
    let read = || {
        let mut file = File::open(&path)?;
        let length = file.metadata()?.len();
        let start = length.saturating_sub(MAX_LOG_BYTES);
        file.seek(SeekFrom::Start(start))?;
        let mut bytes = Vec::new();
        file.take(MAX_LOG_BYTES).read_to_end(&mut bytes)?;
        std::io::Result::Ok((String::from_utf8_lossy(&bytes).into_owned(), start > 0))
    };
    match read() {
        Ok((text, is_cut)) => {
            // The first line of a part has no beginning, and may be half a secret.
            let lines: Vec<&str> = text.lines().skip(usize::from(is_cut)).collect();
            let last = lines.len().saturating_sub(MAX_LOG_LINES);
            lines[last..].join("\n")
        }
        Err(error) => format!("{} cannot be read: {error}\n", path.display()),
    }
}

/// Every secret value that is known here: of the tracker, of the server, and of every variable
/// that is called like one.
fn redactor(diagnosis: &Diagnosis) -> Redactor {
    let called_so = std::env::vars().filter(|(name, _)| is_secret_name(name));
    let mut values: Vec<String> = called_so.map(|(_, value)| value).collect();
    let Some(settings) = &diagnosis.settings else { return Redactor::new(values) };
    if let Some(token) = &settings.server.token {
        let variable = env_reference(token).and_then(|name| std::env::var(name).ok());
        values.extend(variable.or_else(|| Some(token.clone())));
    }
    let registry = adapters::registry();
    let factory = registry.tracker(&settings.tracker.kind);
    let keys = factory.map_or(&[][..], |factory| &factory.profile().secret_keys);
    let names: &[String] =
        diagnosis.inspection.usable.as_ref().map_or(&[], |usable| &usable.hidden_env);
    Redactor::of_tracker(&settings.tracker.provider, keys, names, &CliEnv).with_values(values)
}
