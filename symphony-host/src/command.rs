//! What to run, where, and with which environment.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;

/// A command to be started on a [`Host`](crate::Host).
///
/// It inherits the service's environment with the changes made here.
///
/// ```
/// use symphony_host::{HostCommand, Shell};
///
/// let hook = HostCommand::script(Shell::Sh, "git fetch && ./setup", "/tmp")
///     .set("SYMPHONY_HOOK", "before_run")
///     .remove("LINEAR_API_KEY")
///     .merge_output();
/// ```
#[derive(Clone)]
pub struct HostCommand {
    program: Program,
    folder: Folder,
    /// What each name becomes; none for a name that is removed.
    changes: BTreeMap<OsString, Option<OsString>>,
    stdin: Stdin,
    stderr: Stderr,
}

#[derive(Clone, Debug)]
enum Program {
    Argv(Vec<OsString>),
    Script { shell: Shell, text: String },
}

/// A shell that runs a script after the person's login profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shell {
    /// `sh -lc`, for hooks.
    Sh,
    /// `bash -lc`, for agents.
    Bash,
}

impl Shell {
    /// The program.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Sh => "sh",
            Self::Bash => "bash",
        }
    }
}

/// The folder a command starts in. An open handle is still the same folder when a path has come to
/// mean another one.
#[derive(Clone, Debug)]
pub enum Folder {
    /// By its path.
    Path(PathBuf),
    /// By an open handle.
    Handle(Arc<OwnedFd>),
}

impl Folder {
    /// Its path, for people: what a handle is called by now.
    pub(crate) fn path(&self) -> PathBuf {
        match self {
            Self::Path(path) => path.clone(),
            Self::Handle(handle) => {
                let link = format!("/proc/self/fd/{}", handle.as_raw_fd());
                std::fs::read_link(link).unwrap_or_else(|_| "the open folder".into())
            }
        }
    }
}

impl<P: Into<PathBuf>> From<P> for Folder {
    fn from(path: P) -> Self {
        Self::Path(path.into())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stdin {
    Empty,
    Piped,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stderr {
    Apart,
    Merged,
}

impl HostCommand {
    /// A program with its arguments.
    pub fn new<A: Into<OsString>>(
        argv: impl IntoIterator<Item = A>,
        folder: impl Into<Folder>,
    ) -> Self {
        Self::with(Program::Argv(argv.into_iter().map(Into::into).collect()), folder.into())
    }

    /// A shell script. Its text is handed to the shell as it is.
    pub fn script(shell: Shell, text: impl Into<String>, folder: impl Into<Folder>) -> Self {
        Self::with(Program::Script { shell, text: text.into() }, folder.into())
    }

    const fn with(program: Program, folder: Folder) -> Self {
        let changes = BTreeMap::new();
        Self { program, folder, changes, stdin: Stdin::Empty, stderr: Stderr::Apart }
    }

    /// Sets a variable.
    #[must_use]
    pub fn set(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.changes.insert(name.into(), Some(value.into()));
        self
    }

    /// Removes a variable; from a script also if the login profile exports it again.
    #[must_use]
    pub fn remove(mut self, name: impl Into<OsString>) -> Self {
        self.changes.insert(name.into(), None);
        self
    }

    /// Gives it a stdin to write to; without, it reads an empty one.
    #[must_use]
    pub const fn with_stdin(mut self) -> Self {
        self.stdin = Stdin::Piped;
        self
    }

    /// Lets stderr flow into stdout, so that the lines of both keep their order.
    #[must_use]
    pub const fn merge_output(mut self) -> Self {
        self.stderr = Stderr::Merged;
        self
    }

    pub(crate) const fn folder(&self) -> &Folder {
        &self.folder
    }

    pub(crate) const fn stdin(&self) -> Stdin {
        self.stdin
    }

    pub(crate) const fn stderr(&self) -> Stderr {
        self.stderr
    }

    pub(crate) fn changes(&self) -> impl Iterator<Item = (&OsStr, Option<&OsStr>)> {
        self.changes.iter().map(|(name, value)| (name.as_os_str(), value.as_deref()))
    }

    /// The program and its arguments.
    pub(crate) fn argv(&self) -> Vec<OsString> {
        match &self.program {
            Program::Argv(argv) => argv.clone(),
            Program::Script { shell, text } => {
                let removed = self.changes().filter(|(_, value)| value.is_none());
                let script = unset(removed.filter_map(|(name, _)| name.to_str())) + text;
                vec![shell.as_str().into(), "-lc".into(), script.into()]
            }
        }
    }
}

/// Without the values of variables: some are secrets.
impl fmt::Debug for HostCommand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (set, removed): (Vec<_>, Vec<_>) =
            self.changes().partition(|(_, value)| value.is_some());
        let names = |changes: Vec<(&OsStr, _)>| -> Vec<OsString> {
            changes.into_iter().map(|(name, _)| name.into()).collect()
        };
        f.debug_struct("HostCommand")
            .field("program", &self.program)
            .field("folder", &self.folder)
            .field("set", &names(set))
            .field("removed", &names(removed))
            .finish_non_exhaustive()
    }
}

/// What goes before a script, on its first line so that its line numbers stay right: the profile
/// has run by then. A profile that made a name read-only must not let it through: nothing runs.
fn unset<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<_> = names.filter(|name| is_shell_name(name)).collect();
    if names.is_empty() {
        return String::new();
    }
    format!("unset -v {} || exit 126; ", names.join(" "))
}

/// Others cannot be exported by a profile, and must not be read as code.
fn is_shell_name(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        && name.bytes().next().is_some_and(|first| !first.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script_of(command: &HostCommand) -> String {
        command.argv().pop().unwrap().into_string().unwrap()
    }

    #[test]
    fn a_program_runs_as_given() {
        let command = HostCommand::new(["git", "log"], "/tmp").remove("KEY");
        assert_eq!(command.argv(), ["git", "log"]);
    }

    #[test]
    fn rule_10_2_removed_names_are_unset_after_the_profile_and_the_command_is_not_touched() {
        let text = "FOO=1 codex app-server # 'a\n$HOME";
        let command = HostCommand::script(Shell::Bash, text, "/tmp");
        assert_eq!(command.argv(), ["bash", "-lc", text]);
        let command = command.set("A", "1").remove("KEY").remove("B_2");
        assert_eq!(script_of(&command), format!("unset -v B_2 KEY || exit 126; {text}"));
    }

    #[test]
    fn a_value_is_not_printed() {
        let command = HostCommand::new(["env"], "/").set("KEY", "secret").remove("OTHER");
        let text = format!("{command:?}");
        assert!(text.contains("KEY") && text.contains("OTHER") && !text.contains("secret"));
    }

    #[test]
    fn the_last_change_of_a_name_counts() {
        let command = HostCommand::script(Shell::Sh, "x", "/tmp").remove("A").set("A", "1");
        assert_eq!(script_of(&command), "x");
    }

    #[test]
    fn a_name_is_never_read_as_code() {
        let names = ["", "1A", "A B", "A;reboot", "$(reboot)", "-f", "A=1", "É"];
        let command =
            names.iter().fold(HostCommand::script(Shell::Sh, "x", "/tmp"), |command, name| {
                command.remove(*name)
            });
        assert_eq!(script_of(&command), "x");
    }
}
