//! What holds on a host, in words for people.

use std::fmt;

/// What a host promises about the processes of a command.
///
/// Its text form is a line for each promise, to be shown to people.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Guarantees {
    /// When a run ends, everything below its commands has ended: also what left its group and its
    /// session, lost its parent, or emptied its environment.
    pub whole_tree: bool,
    /// That also happens when the service itself is killed.
    pub service_killed: bool,
    /// That also happens when a helper is killed while the service lives.
    pub helper_killed: bool,
    /// And the kernel does that in one step: each command has a control group (cgroup v2) of its
    /// own. An extra that few places allow.
    pub control_groups: bool,
    /// Commands get no descriptor of the service, whatever code opened it.
    pub descriptors_closed: bool,
}

impl Guarantees {
    /// Whether all of it is promised, the extra aside.
    #[must_use]
    pub fn is_full(self) -> bool {
        self.missing().next().is_none()
    }

    /// Returns what is not promised, a sentence each, the extra aside.
    pub fn missing(self) -> impl Iterator<Item = &'static str> {
        self.promises().into_iter().filter(|(holds, _)| !holds).map(|(_, promise)| promise)
    }

    fn promises(self) -> [(bool, &'static str); 4] {
        [
            (self.whole_tree, "when a run ends, every process below its commands ends"),
            (self.service_killed, "when the service is killed, every process of its runs ends"),
            (self.helper_killed, "when a helper is killed, every process below it ends"),
            (self.descriptors_closed, "commands inherit no open file of the service"),
        ]
    }
}

impl fmt::Display for Guarantees {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (holds, promise) in self.promises() {
            writeln!(f, "{} {promise}", if holds { "yes" } else { "NO " })?;
        }
        if self.control_groups {
            writeln!(f, "yes each command has a control group of its own")?;
        }
        Ok(())
    }
}
