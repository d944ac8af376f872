//! Symphony's dashboard in a terminal (contract 13.4).
//!
//! It draws the shapes of the API, [`Status`](symphony_api::Status) and
//! [`IssueStatus`](symphony_api::IssueStatus), and speaks to a [`StatusSource`]: a service in
//! this process, or one far away. It blocks no caller: [`Dashboard`] has a thread of its own, and
//! a terminal that blocks or goes away is its problem alone.

mod app;
mod dashboard;
mod draw;
mod keys;
mod lines;
mod run;
mod source;
mod terminal;
pub mod text;

pub use app::{App, AppAction, IssueList, Owner};
pub use dashboard::{Dashboard, DashboardEnd, Options};
pub use draw::{Palette, draw, phase, problems, warnings};
pub use keys::{Key, KeyDecoder};
pub use lines::LogTail;
pub use source::{Link, SourceCommand, SourceRefusal, SourceView, StatusSource};
pub use terminal::is_for_people;
