//! The seam for a lock on what the tracker shows (contract 16.6): the command has one, the library
//! none.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use symphony_core::{Scope, Settings};

/// Keeps other services from working on the same issues.
pub trait ScopeGuard: fmt::Debug + Send + Sync {
    /// Takes a scope before these settings are in force: at the start, and on a reload to another
    /// scope or to other active states. A service may hold several for a while, also of one scope.
    ///
    /// It may block for a moment.
    ///
    /// # Errors
    /// Why another service has it, for people, with what to do about it.
    fn take(&self, scope: &Scope, settings: &Settings) -> Result<HeldScope, String>;
}

/// A scope that is held until all clones of this are dropped: when these settings are not in force
/// any more, and no run lives that began with them.
#[derive(Clone)]
pub struct HeldScope(#[expect(dead_code, reason = "it is dropped")] Arc<dyn Any + Send + Sync>);

impl HeldScope {
    /// Holds the scope until this value is dropped.
    pub fn new(lock: impl Any + Send + Sync) -> Self {
        Self(Arc::new(lock))
    }
}

impl fmt::Debug for HeldScope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HeldScope")
    }
}
