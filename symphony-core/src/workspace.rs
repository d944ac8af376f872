//! Workspace names and records (contract 6.5, 9.1). The folders themselves belong to the runtime.

use std::any::Any;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::issue::{Identifier, IssueId};
use crate::text::text_newtype;

text_newtype! {
    /// Where commands run and workspaces live. One host for now: [`HostId::local`].
    HostId
}

impl HostId {
    /// This machine.
    #[must_use]
    pub fn local() -> Self {
        Self::from("local")
    }

    /// Whether it is this machine.
    pub(crate) fn is_local(&self) -> bool {
        self.as_str() == "local"
    }
}

text_newtype! {
    /// What a tracker instance can see, such as one project of one workspace: ids of different
    /// scopes have nothing to do with each other.
    Scope
}

/// The name of an issue's folder: safe as one path component, on every file system.
///
/// ```
/// use symphony_core::WorkspaceKey;
/// assert_eq!(WorkspaceKey::derive("MT-42").unwrap().as_str(), "MT-42");
/// let key = WorkspaceKey::derive("../etc").unwrap();
/// assert!(key.as_str().starts_with(".._etc--"));
/// assert!(WorkspaceKey::derive("..").is_err());
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct WorkspaceKey(Arc<str>);

/// Longer ones are cut (contract 9.1).
pub(crate) const MAX_NAME_BYTES: usize = 100;
const DIGEST_CHARS: usize = 18;

impl WorkspaceKey {
    /// Derives the key of an identifier (contract 9.1).
    ///
    /// # Errors
    /// [`InvalidKey`] for an empty identifier, `.` and `..`.
    pub fn derive(identifier: &str) -> Result<Self, InvalidKey> {
        let mut name: String =
            identifier.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
        if name.is_empty() || name == "." || name == ".." {
            return Err(InvalidKey(identifier.to_owned()));
        }
        if name != identifier || needs_digest(&name) {
            name.truncate(MAX_NAME_BYTES);
            name.push_str("--");
            for byte in &Sha256::digest(identifier.as_bytes())[..8] {
                name.push_str(&format!("{byte:02x}"));
            }
        }
        Ok(Self(name.into()))
    }

    /// A name read back from a record or a folder.
    ///
    /// # Errors
    /// [`InvalidKey`] for anything that [`derive`](Self::derive) cannot have produced.
    pub fn parse(name: &str) -> Result<Self, InvalidKey> {
        let derived = name.chars().all(is_plain)
            && match without_digest(name) {
                None => !matches!(name, "" | "." | "..") && !needs_digest(name),
                // It was hashed because it was changed, cut, or looked like a hashed one.
                Some(prefix) => {
                    prefix.len() <= MAX_NAME_BYTES
                        && (prefix.contains('_')
                            || prefix.len() == MAX_NAME_BYTES
                            || needs_digest(prefix))
                }
            };
        if derived { Ok(Self(name.into())) } else { Err(InvalidKey(name.to_owned())) }
    }

    /// The folder's name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The form in which two keys are the same folder on a file system that ignores case.
    #[must_use]
    pub fn folded(&self) -> String {
        self.0.to_ascii_lowercase()
    }

    /// The folded key of an identifier that is its own key, without a new piece of memory; `None`
    /// for one that has to be derived.
    pub(crate) fn folded_plain<'a>(
        identifier: &str,
        buffer: &'a mut [u8; MAX_NAME_BYTES],
    ) -> Option<&'a str> {
        let is_own_key = identifier.bytes().all(|byte| is_plain(char::from(byte)))
            && !matches!(identifier, "" | "." | "..")
            && !needs_digest(identifier);
        let folded = buffer.get_mut(..identifier.len()).filter(|_| is_own_key)?;
        folded.copy_from_slice(identifier.as_bytes());
        folded.make_ascii_lowercase();
        std::str::from_utf8(folded).ok()
    }
}

impl fmt::Display for WorkspaceKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for WorkspaceKey {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        Self::parse(&name).map_err(serde::de::Error::custom)
    }
}

/// Whether a plain name cannot stand for itself: it is too long, or it looks like a hashed one,
/// which would let an identifier name another issue's folder.
fn needs_digest(name: &str) -> bool {
    name.len() > MAX_NAME_BYTES || without_digest(name).is_some()
}

/// What stands before `--` and 16 hex digits, if the name ends like that.
fn without_digest(name: &str) -> Option<&str> {
    let (prefix, digest) = name.split_at_checked(name.len().checked_sub(DIGEST_CHARS)?)?;
    let mut digits = digest.strip_prefix("--")?.bytes();
    let hex = digits.all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    (hex && !prefix.is_empty()).then_some(prefix)
}

fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')
}

/// A name that cannot be a workspace folder.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} cannot name a workspace folder")]
pub struct InvalidKey(pub String);

/// An open handle on a workspace: still the same folder when its path has come to mean another.
///
/// What it is depends on the host that opened it, such as a file descriptor: the core passes it on.
///
/// ```
/// use symphony_core::workspace::OpenFolder;
/// # use std::sync::Arc;
/// let folder = OpenFolder::new(Arc::new(7_u32));
/// assert_eq!(folder.downcast::<u32>().as_deref(), Some(&7));
/// assert_eq!(folder.downcast::<String>(), None);
/// ```
#[derive(Clone)]
pub struct OpenFolder(Arc<dyn Any + Send + Sync>);

impl OpenFolder {
    /// Wraps a host's handle.
    #[must_use]
    pub fn new(handle: Arc<impl Any + Send + Sync>) -> Self {
        Self(handle)
    }

    /// Returns the handle, if it is of this type.
    #[must_use]
    pub fn downcast<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        Arc::clone(&self.0).downcast().ok()
    }
}

impl fmt::Debug for OpenFolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenFolder").finish_non_exhaustive()
    }
}

/// What is written beside a workspace when it is created, so that it can be found, owned and
/// removed later, also by another life of the service (contract 4.2, 9.6).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkspaceRecord {
    /// The issue it belongs to.
    pub issue: IssueId,
    /// The identifier it had when the folder was created.
    pub identifier: Identifier,
    /// The tracker scope the id is valid in.
    pub scope: Scope,
    /// The machine the folder is on.
    pub host: HostId,
    /// The folder's name.
    pub key: WorkspaceKey,
    /// The folder.
    pub path: PathBuf,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_9_1_a_plain_identifier_folds_to_the_folded_form_of_its_key() {
        let long = "X".repeat(MAX_NAME_BYTES);
        let longer = "X".repeat(MAX_NAME_BYTES + 1);
        let plain = ["MT-42", "a.b_C-9", "...", "-", long.as_str()];
        let derived = ["", ".", "..", "A/B", "Stra\u{df}e", "a b", longer.as_str()];
        for identifier in plain.into_iter().chain(derived) {
            let folded =
                WorkspaceKey::folded_plain(identifier, &mut [0; MAX_NAME_BYTES]).map(str::to_owned);
            let key = WorkspaceKey::derive(identifier).ok();
            let own = key.filter(|key| key.as_str() == identifier).map(|key| key.folded());
            assert_eq!(folded, own, "{identifier}");
            assert_eq!(folded.is_some(), plain.contains(&identifier), "{identifier}");
        }
    }
}
