//! What tells our processes from others: a variable in the environment, and a resource limit.
//!
//! A daemon can empty its environment, leave its group and its session, and change its parent. It
//! keeps its resource limits. Linux does not use one of them (file locks, since 2.4.25), so its value
//! is free to carry a number: every process below a command inherits it, and none can raise it again.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::sync::OnceLock;

use rustix::process::Pid;

use crate::process::ProcessId;

/// The variable that carries the mark.
pub const MARK_VARIABLE: &str = "SYMPHONY_MARK";

/// Whose a process is: a service, which keeps its name across restarts, and one of its runs.
///
/// ```
/// use symphony_host::Mark;
///
/// assert_eq!(Mark::new("a1b2", "7-12").to_string(), "a1b2/7-12");
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mark {
    service: String,
    run: String,
}

impl Mark {
    /// A mark. A slash or a NUL in a name becomes `_`.
    #[must_use]
    pub fn new(service: &str, run: &str) -> Self {
        let clean = |name: &str| name.replace(['/', '\0'], "_");
        Self { service: clean(service), run: clean(run) }
    }

    /// The mark of one command of the run, for the environment.
    pub(crate) fn of_command(&self, number: u32) -> OsString {
        format!("{self}/{number}").into()
    }

    /// The same for the limit.
    pub(crate) fn tag(&self, number: u32) -> Tag {
        Tag::new(&self.service, number)
    }
}

impl std::fmt::Display for Mark {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.service, self.run)
    }
}

/// The number in the limit: 7 bits of level, 36 of the service, 20 of the command.
///
/// A limit only goes down. So that a service can run below another one, each level of nesting takes
/// its values below those of the level above; to compare, the level is left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag(u64);

const LEVEL: u32 = 56;
const SERVICE: u32 = 20;

impl Tag {
    pub(crate) fn new(service: &str, number: u32) -> Self {
        let number = u64::from(number) & ((1 << SERVICE) - 1);
        Self(Self::of_service(service).0 | number)
    }

    fn of_service(service: &str) -> Self {
        // FNV-1a, folded: the value must be the same in the next version of this program.
        let hash = service.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        Self(((hash ^ (hash >> 36)) & ((1 << 36) - 1)) << SERVICE)
    }

    /// The limit to set below one whose own limit is `above`; none when there is no level left.
    fn below(self, above: Option<u64>) -> Option<u64> {
        let level = above.map_or(126, |limit| (limit >> LEVEL).min(127)).checked_sub(1)?;
        (level > 0).then_some(level << LEVEL | self.0)
    }

    /// Decodes a limit; `None` for one that is not a tag.
    fn read(limit: u64) -> Option<Self> {
        (1..126).contains(&(limit >> LEVEL)).then_some(Self(limit & ((1 << LEVEL) - 1)))
    }

    pub(crate) fn from_number(number: u64) -> Self {
        Self(number & ((1 << LEVEL) - 1))
    }

    pub(crate) const fn number(self) -> u64 {
        self.0
    }

    pub(crate) const fn number_of_service(self) -> u64 {
        self.0 >> SERVICE
    }

    pub(crate) const fn number_of_command(self) -> u64 {
        self.0 & ((1 << SERVICE) - 1)
    }

    const fn is_of(self, service: Self) -> bool {
        self.number_of_service() == service.number_of_service()
    }
}

/// Puts the tag on a process, for it and all that it will start. Says whether that worked.
#[cfg(target_os = "linux")]
pub(crate) fn put(tag: Tag, pid: Option<Pid>) -> bool {
    use rustix::process::{Resource, Rlimit, getrlimit, prlimit};
    let Some(limit) = tag.below(getrlimit(Resource::Locks).maximum) else { return false };
    let limit = Rlimit { current: Some(limit), maximum: Some(limit) };
    prlimit(pid, Resource::Locks, limit).is_ok()
        && tag_of(pid.unwrap_or_else(rustix::process::getpid)) == Some(tag)
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn put(_tag: Tag, _pid: Option<Pid>) -> bool {
    false
}

/// Whether a tag can be put here: this system has the limit, and there is a level left.
pub(crate) fn is_possible() -> bool {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{Resource, getpid, getrlimit};
        static POSSIBLE: OnceLock<bool> = OnceLock::new();
        *POSSIBLE.get_or_init(|| {
            let level = Tag(0).below(getrlimit(Resource::Locks).maximum);
            level.is_some() && limit_of(getpid()).is_some()
        })
    }
    #[cfg(not(target_os = "linux"))]
    false
}

/// The tag of a process, also of one that has ended and waits to be collected.
#[cfg(target_os = "linux")]
fn tag_of(pid: Pid) -> Option<Tag> {
    Tag::read(limit_of(pid)?.parse().ok()?)
}

/// The limit as the kernel prints it; none for a process that is gone.
fn limit_of(pid: Pid) -> Option<String> {
    let limits = fs::read_to_string(format!("/proc/{}/limits", pid.as_raw_nonzero())).ok()?;
    let locks = limits.lines().find_map(|line| line.strip_prefix("Max file locks"))?;
    locks.split_ascii_whitespace().nth(1).map(Into::into)
}

/// Whether a process has a lower limit than this one, and so a tag of this one's, or none any more;
/// `None` for a process that is gone. What has a tag cannot get a higher limit than that.
#[cfg(target_os = "linux")]
pub(crate) fn is_limited(pid: Pid) -> Option<bool> {
    use rustix::process::{Resource, getrlimit};
    let own = getrlimit(Resource::Locks).maximum.unwrap_or(u64::MAX);
    let limit = limit_of(pid)?;
    Some(limit.parse().unwrap_or(u64::MAX) < own)
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn is_limited(_pid: Pid) -> Option<bool> {
    Some(false)
}

fn environment_says(pid: Pid, is_it: impl Fn(&[u8]) -> bool) -> Option<bool> {
    let environment = match fs::read(format!("/proc/{}/environ", pid.as_raw_nonzero())) {
        Ok(environment) => environment,
        // Another user's.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Some(false),
        Err(_) => return None,
    };
    let mut lines = environment.split(|&byte| byte == 0);
    Some(lines.any(|line| {
        let value = line.strip_prefix(MARK_VARIABLE.as_bytes());
        value.and_then(|value| value.strip_prefix(b"=")).is_some_and(&is_it)
    }))
}

/// How to recognise the processes of one command, or of a whole service.
#[derive(Clone, Debug)]
pub(crate) enum Trace {
    Command { tag: Tag, mark: OsString },
    Service { tag: Tag, prefix: String },
}

impl Trace {
    pub(crate) fn command(mark: &Mark, number: u32) -> Self {
        Self::Command { tag: mark.tag(number), mark: mark.of_command(number) }
    }

    pub(crate) fn service(service: &str) -> Self {
        let mark = Mark::new(service, "");
        Self::Service { tag: Tag::of_service(&mark.service), prefix: mark.to_string() }
    }

    /// Whether a recorded process is one of these: it carries the tag, or the variable if it has shed
    /// the tag.
    #[cfg(target_os = "linux")]
    pub(crate) fn is_named_by(&self, process: ProcessId) -> bool {
        let says =
            |pid| self.carried_by(pid) == Some(true) || self.in_environment_of(pid) == Some(true);
        // Looked at once more: the number may have changed hands meanwhile.
        process.raw().is_some_and(|pid| says(pid) && process.row().is_some())
    }

    /// Where neither can be read, the record has to do.
    #[cfg(not(target_os = "linux"))]
    pub(crate) fn is_named_by(&self, process: ProcessId) -> bool {
        process.row().is_some()
    }

    /// Whether a process carries it; `None` for one that is gone. The variable counts only where no
    /// tag can be put: it is what people see, and what a daemon can shed.
    pub(crate) fn carried_by(&self, pid: Pid) -> Option<bool> {
        if is_possible() {
            let tag = Tag::read(limit_of(pid)?.parse().unwrap_or(0));
            return Some(tag.is_some_and(|tag| match self {
                Self::Command { tag: ours, .. } => tag == *ours,
                Self::Service { tag: ours, .. } => tag.is_of(*ours),
            }));
        }
        self.in_environment_of(pid)
    }

    fn in_environment_of(&self, pid: Pid) -> Option<bool> {
        environment_says(pid, |value| match self {
            Self::Command { mark, .. } => value == mark.as_bytes(),
            Self::Service { prefix, .. } => value.starts_with(prefix.as_bytes()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_names_its_service_and_its_command() {
        let tag = Tag::new("alpha", 7);
        assert_eq!(tag, Tag::new("alpha", 7));
        assert_ne!(tag, Tag::new("alpha", 8));
        assert_ne!(tag, Tag::new("beta", 7));
        assert!(tag.is_of(Tag::of_service("alpha")));
        assert!(!tag.is_of(Tag::of_service("beta")));
    }

    #[test]
    fn a_tag_is_the_same_in_every_version_of_this_program() {
        assert_eq!(Tag::new("symphony", 3).number(), 0x0077_e418_cb40_0003);
    }

    #[test]
    fn each_level_of_nesting_lies_below_the_one_above() {
        let (outer, inner) = (Tag::new("outer", u32::MAX), Tag::new("inner", 0));
        let mut above = None;
        for _ in 0..60 {
            let first = outer.below(above).unwrap();
            let second = inner.below(Some(first)).unwrap();
            assert!(second < first);
            assert_eq!((Tag::read(first), Tag::read(second)), (Some(outer), Some(inner)));
            above = Some(second);
        }
    }

    #[test]
    fn a_limit_that_another_process_set_is_not_a_tag() {
        for limit in [0, 1, 1024, u64::from(u32::MAX), (1 << 56) - 1, u64::MAX] {
            assert_eq!(Tag::read(limit), None, "{limit}");
        }
        assert_eq!(Tag::new("x", 1).below(Some(1024)), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn where_no_tag_can_be_put_the_variable_tells() {
        let mut child = std::process::Command::new("sleep")
            .arg("10")
            .env(MARK_VARIABLE, "alpha/1/2")
            .spawn()
            .unwrap();
        let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
        // A process that has just been started has no environment for a moment.
        let mut tries = 0..1_000_000;
        while environment_says(pid, |value| value == b"alpha/1/2") != Some(true) {
            assert!(tries.next().is_some());
            std::thread::yield_now();
        }
        assert_eq!(environment_says(pid, |value| value == b"beta/1/2"), Some(false));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(environment_says(pid, |value| value == b"alpha/1/2"), None);
    }
}
