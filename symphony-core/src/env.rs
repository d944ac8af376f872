//! The environment as an argument: the core reads no variable of its own.

use std::collections::BTreeMap;

/// Looks up environment variables.
pub trait Env {
    /// The variable's value, if it is set and is text.
    fn var(&self, name: &str) -> Option<String>;
}

/// A fixed environment.
///
/// ```
/// use std::collections::BTreeMap;
/// use symphony_core::env::Env;
/// let env = BTreeMap::from([("HOME".to_owned(), "/home/ada".to_owned())]);
/// assert_eq!(env.var("HOME").as_deref(), Some("/home/ada"));
/// ```
impl Env for BTreeMap<String, String> {
    fn var(&self, name: &str) -> Option<String> {
        self.get(name).cloned()
    }
}
