//! Values that name something outside the file: variables and paths (contract 2.4).

use std::path::{Component, Path, PathBuf};

use symphony_core::env::Env;
use symphony_core::settings::{env_reference, resolve};

/// Where relative paths and `~` lead.
#[derive(Clone, Copy)]
pub(super) struct Base<'a> {
    pub(super) env: &'a dyn Env,
    pub(super) home: Option<&'a Path>,
    pub(super) folder: &'a Path,
}

/// Why a path leads nowhere.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Astray {
    /// The variable is unset or empty.
    Unset(String),
    /// More follows a variable, or stands in its brackets.
    Embedded { name: String, rest: String },
    /// It needs a home folder, and none is known.
    NoHome,
    /// It begins with another user's `~name`.
    OtherHome,
    /// The file's own folder is not absolute.
    Relative,
}

impl Base<'_> {
    /// The absolute path that a text stands for, with `.` and `..` taken out.
    pub(super) fn path(self, text: &str) -> Result<PathBuf, Astray> {
        if let Some((name, rest)) = embedded(text) {
            return Err(Astray::Embedded { name: name.to_owned(), rest: rest.to_owned() });
        }
        let text = resolve(text, self.env)
            .ok_or_else(|| Astray::Unset(env_reference(text).unwrap_or_default().to_owned()))?;
        let text = text.trim();
        let path = match text.strip_prefix('~') {
            None => self.folder.join(text),
            Some(rest) if rest.is_empty() || rest.starts_with('/') => {
                let home = self.home.ok_or(Astray::NoHome)?;
                home.join(rest.trim_start_matches('/'))
            }
            Some(_) => return Err(Astray::OtherHome),
        };
        let path = normalised(&path);
        if path.is_absolute() { Ok(path) } else { Err(Astray::Relative) }
    }
}

impl Astray {
    pub(super) fn message(&self) -> String {
        match self {
            Self::Unset(name) => format!("the environment variable {name} is not set"),
            Self::Embedded { .. } => {
                "only a whole value $NAME or ${NAME} is looked up, and here more follows it"
                    .to_owned()
            }
            Self::NoHome => "begins with ~, but the home folder is not known".to_owned(),
            Self::OtherHome => "begins with ~ and a name: write the folder out".to_owned(),
            Self::Relative => {
                "must be absolute, because the folder of the workflow file is not".to_owned()
            }
        }
    }
}

impl Astray {
    /// Returns what to write instead.
    pub(super) fn help(&self) -> Option<String> {
        match self {
            Self::Embedded { name, rest } if name == "HOME" && rest.starts_with('/') => {
                Some(format!("write `~{rest}`"))
            }
            Self::Embedded { name, .. } => Some(format!(
                "write the folder out, or set a variable such as {name} to the whole path"
            )),
            Self::Unset(_) | Self::NoHome | Self::OtherHome | Self::Relative => None,
        }
    }
}

/// The variable at the start of a text and what stands behind it, as in `$HOME/work` or
/// `${TMPDIR:-/tmp}/work`.
fn embedded(text: &str) -> Option<(&str, &str)> {
    let text = text.trim();
    let inside = text.strip_prefix("${").or_else(|| text.strip_prefix('$'))?;
    if env_reference(text).is_some() {
        return None;
    }
    let is_part = |char: char| char.is_ascii_alphanumeric() || char == '_';
    let (name, rest) = inside.split_at(inside.find(|char| !is_part(char)).unwrap_or(inside.len()));
    Some((name, rest.trim_start_matches('}')))
}

/// Takes out `.` and `..` without looking at the disk.
fn normalised(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                out.pop();
            }
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_path_leads_from_the_files_folder() {
        let env = BTreeMap::from(
            [("ROOT", "/srv/work"), ("TILDE", "~/w"), ("REL", "../w"), ("EMPTY", "")]
                .map(|(name, value)| (name.to_owned(), value.to_owned())),
        );
        let base = Base {
            env: &env,
            home: Some(Path::new("/home/ada")),
            folder: Path::new("/code/project"),
        };
        let path = |text| base.path(text).map(|path| path.display().to_string());
        assert_eq!(path("/a/./b/../c/"), Ok("/a/c".to_owned()));
        assert_eq!(path("work"), Ok("/code/project/work".to_owned()));
        assert_eq!(path(" ./work "), Ok("/code/project/work".to_owned()));
        assert_eq!(path("../../../.."), Ok("/".to_owned()));
        assert_eq!(path("~"), Ok("/home/ada".to_owned()));
        assert_eq!(path("~/w"), Ok("/home/ada/w".to_owned()));
        assert_eq!(path("~//etc"), Ok("/home/ada/etc".to_owned()));
        assert_eq!(path("$ROOT"), Ok("/srv/work".to_owned()));
        assert_eq!(path("${ROOT}"), Ok("/srv/work".to_owned()));
        assert_eq!(path("$TILDE"), Ok("/home/ada/w".to_owned()));
        assert_eq!(path("$REL"), Ok("/code/w".to_owned()));
        assert_eq!(path("$EMPTY"), Err(Astray::Unset("EMPTY".to_owned())));
        assert_eq!(path("$UNSET"), Err(Astray::Unset("UNSET".to_owned())));
        assert_eq!(path("~bob/w"), Err(Astray::OtherHome));
        let (name, rest) = ("ROOT".to_owned(), "/a/b".to_owned());
        assert_eq!(path(" ${ROOT}/a/b"), Err(Astray::Embedded { name, rest }));
        let (name, rest) = ("TMPDIR".to_owned(), ":-/tmp}/w".to_owned());
        assert_eq!(path("${TMPDIR:-/tmp}/w"), Err(Astray::Embedded { name, rest }));
        assert_eq!(path("a/$ROOT/b"), Ok("/code/project/a/$ROOT/b".to_owned()));
        assert_eq!(Base { home: None, ..base }.path("~/w"), Err(Astray::NoHome));
        let relative = Base { folder: Path::new("here"), ..base };
        assert_eq!(relative.path("w"), Err(Astray::Relative));
        assert_eq!(relative.path("/w"), Ok(PathBuf::from("/w")));
    }
}
