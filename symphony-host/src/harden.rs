//! What a program that is nothing but the service does to itself when it starts.

use std::io;
use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

static FILE_LIMIT_BEFORE: OnceLock<Option<u64>> = OnceLock::new();

/// Closes this process to its agents, and makes room for many of them (contract 14.4).
///
/// - Not dumpable (Linux): processes of the same user cannot read its memory or its environment,
///   nor trace it. It leaves no core file either.
/// - The soft limit of open files is raised to the hard one; commands get the old one back.
/// - Files that were open when it was started are not passed on to children.
///
/// To be called after [`init`](crate::init) and before threads are started. A program that only
/// embeds the service may leave it out.
///
/// # Errors
/// The system refuses.
pub fn harden() -> io::Result<()> {
    close_fds::set_fds_cloexec(3, &[]);
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};
        set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    }
    let limit = getrlimit(Resource::Nofile);
    FILE_LIMIT_BEFORE.get_or_init(|| limit.current);
    // macOS names a maximum that it does not accept.
    let most = if cfg!(target_os = "macos") { Some(10_240) } else { None };
    let current = limit.maximum.into_iter().chain(most).min();
    setrlimit(Resource::Nofile, Rlimit { current, ..limit })?;
    Ok(())
}

/// The soft limit of open files before it was raised.
pub(crate) fn soft_limit_before() -> Option<u64> {
    FILE_LIMIT_BEFORE.get().copied().flatten()
}
