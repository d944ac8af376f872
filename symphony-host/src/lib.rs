//! Where Symphony's commands run: hooks, agents, and everything they start.
//!
//! An agent's tree does not stay in one place. It makes groups and sessions, daemons that change
//! their parent, and servers with an empty environment. Killing "the child", its group or what
//! carries a mark leaves some of it running, and it goes on writing into a workspace that belongs
//! to the next run. Here a run is a [`ProcessScope`], and when it is closed nothing of it is left.
//!
//! - [`Host`] is the place, [`LocalHost`] this machine. [`HostCommand`] says what to run: a program or a
//!   script, its folder, and changes to the environment.
//! - [`ProcessScope::start`] gives a [`RunningCommand`] with its streams; [`ProcessScope::run`] runs to the end, with a
//!   [`RunLimit`] and bounded output; [`ProcessScope::close`] returns when everything has ended, or says what
//!   cannot be ended.
//! - Each command runs below a helper, a second process of the same program: call [`init`] first
//!   thing in `main`. It collects orphans, ends the tree when told, and also when the service is
//!   gone.
//! - [`Host::end_leftovers`] ends what an earlier life of the service left, by [`ProcessId`]
//!   records and by [`Mark`], never by folder.
//! - [`harden`] closes the service to its agents.
//! - [`Guarantees`] says what of this holds here. `docs/operate/processes.md` says why, where, and at
//!   which cost.
//!
//! ```standalone_crate
//! use std::{sync::Arc, time::Duration};
//! use symphony_host::{HostCommand, LocalHost, Mark, ProcessScope, Shell};
//!
//! fn main() {
//!     symphony_host::init();
//!     tokio::runtime::Runtime::new().unwrap().block_on(async {
//!         let scope = ProcessScope::new(Arc::new(LocalHost::new()), Mark::new("example", "1"));
//!         let agent = HostCommand::script(Shell::Bash, "sleep 1000 & sleep 1000", "/").with_stdin();
//!         let mut running = scope.start(&agent).await.unwrap();
//!         running.stop(Duration::from_secs(5)).await.unwrap(); // both are gone
//!     });
//! }
//! ```

mod capture;
mod cgroup;
mod command;
mod guarantees;
mod harden;
mod helper;
mod host;
mod local;
mod mark;
mod process;
mod running;
mod scope;
mod streams;
mod supervisor;
mod targets;
mod wire;

pub use capture::{Captured, MAX_TAIL_BYTES};
pub use command::{Folder, HostCommand, Shell};
pub use guarantees::Guarantees;
pub use harden::harden;
pub use helper::init;
pub use host::{EarlierLife, Host, SpawnError, SweepError, is_exhaustion};
pub use local::LocalHost;
pub use mark::{MARK_VARIABLE, Mark};
pub use process::{NotAProcessId, ProcessId};
pub use running::{
    CommandState, Control, Exit, Input, Output, RunningCommand, StopOrder, Survivor, Survivors,
    supervision,
};
pub use scope::{Finished, ProcessScope, RunError, RunLimit};
