//! What `symphony --version` says besides the number: the commit, and its date.
//!
//! `SYMPHONY_COMMIT` and `SOURCE_DATE_EPOCH` win, then the checkout, then `commit.txt`, into which
//! `git archive` writes both. Without any of them there is only the number.

use std::path::Path;
use std::process::Command;

fn main() {
    let (commit, seconds) = checkout().or_else(archive).unzip();
    let variable = |name: &str| {
        println!("cargo:rerun-if-env-changed={name}");
        std::env::var(name).ok().filter(|value| !value.is_empty())
    };
    let commit = variable("SYMPHONY_COMMIT").or(commit);
    let seconds = match variable("SOURCE_DATE_EPOCH") {
        Some(given) => given.parse().ok(),
        None => seconds,
    };
    println!("cargo:rerun-if-changed=build.rs");
    let details: Vec<String> = commit.into_iter().chain(seconds.map(date)).collect();
    let number = std::env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let version = match details.is_empty() {
        true => number,
        false => format!("{number} ({})", details.join(" ")),
    };
    println!("cargo:rustc-env=SYMPHONY_VERSION={version}");
}

/// The commit of the checkout, and its time. A checkout that only has this folder somewhere below
/// it, as where an archive was unpacked, is not ours.
fn checkout() -> Option<(String, i64)> {
    let root = git(&["rev-parse", "--show-toplevel"])?;
    if Path::new(&root).canonicalize().ok() != Path::new("..").canonicalize().ok() {
        return None;
    }
    // Both change with every commit and checkout, and with nothing else. A path that is not there
    // would make every build run this again.
    for path in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(&["rev-parse", "--git-path", path])
            && Path::new(&path).exists()
        {
            println!("cargo:rerun-if-changed={path}");
        }
    }
    read(&git(&["log", "-1", "--format=%H %ct"])?)
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

/// What `git archive` has written.
fn archive() -> Option<(String, i64)> {
    println!("cargo:rerun-if-changed=commit.txt");
    read(std::fs::read_to_string("commit.txt").ok()?.trim())
}

/// Reads a commit and its time, as seconds since 1970.
fn read(text: &str) -> Option<(String, i64)> {
    let (commit, seconds) = text.split_once(' ')?;
    let is_commit = commit.len() >= 12 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    Some((is_commit.then(|| commit[..12].to_owned())?, seconds.parse().ok()?))
}

/// The day in the calendar, in UTC.
fn date(seconds: i64) -> String {
    // Days since 0000-03-01, so that a leap day is the last one of its year.
    let days = seconds.div_euclid(86_400) + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let leaps = day_of_era / 1_460 - day_of_era / 36_524 + day_of_era / 146_096;
    let year_of_era = (day_of_era - leaps) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}
