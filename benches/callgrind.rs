//! Counting instructions, which no neighbour can disturb. The program runs itself under valgrind,
//! and only what happens inside [`counted_by_callgrind`] counts.

use std::process::Command;

use crate::{instructions, wakeup};

/// The flag with which the program is told to run one case.
pub(crate) const CASE: &str = "--case";

/// Runs one case, under valgrind or not.
pub(crate) fn run(case: &str, size: usize) {
    wakeup::run(case, size);
    instructions::run(case, size);
}

/// The gate that callgrind watches.
#[inline(never)]
pub(crate) fn counted_by_callgrind<R>(work: impl FnOnce() -> R) -> R {
    std::hint::black_box(work())
}

/// The instructions of one case, or why they cannot be counted.
pub(crate) fn count(case: &str, size: usize) -> Result<u64, String> {
    let program = std::env::current_exe().map_err(|error| error.to_string())?;
    let file = std::env::temp_dir().join(format!("symphony-{}-{case}-{size}", std::process::id()));
    let done = Command::new("valgrind")
        .args(["--tool=callgrind", "--toggle-collect=*counted_by_callgrind*"])
        .arg(format!("--callgrind-out-file={}", file.display()))
        .arg(program)
        .args([CASE, case, &size.to_string()])
        .output()
        .map_err(|error| format!("valgrind: {error}"))?;
    let counts = std::fs::read_to_string(&file).map_err(|error| error.to_string());
    drop(std::fs::remove_file(&file));
    if !done.status.success() {
        return Err(format!("valgrind: {}", String::from_utf8_lossy(&done.stderr)));
    }
    let counts = counts?;
    let total = counts.lines().find_map(|line| line.strip_prefix("totals: "));
    let total = total.and_then(|number| number.trim().parse().ok());
    total.ok_or_else(|| "callgrind wrote no total".to_owned())
}
