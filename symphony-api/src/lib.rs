//! The wire format of a running Symphony (contract 13.2, 13.3): what its API answers, the events of
//! its stream, its errors, and notices in words.
//!
//! The server writes these types; the dashboards, `symphony status` and third-party programs read
//! them. Times are RFC 3339, deadlines are times, and foreign text is bounded and holds nothing that
//! could steer a screen (13.1). Only the two names of an issue are as the tracker has them: they are
//! keys.
//!
//! The feature `client` adds `client`: requests to a service, and its state merged from the event
//! stream.

#[cfg(feature = "client")]
pub mod client;
mod error;
mod notice;
mod receipt;
mod status;
mod stream;
mod when;

pub use error::{ErrorBody, ErrorDetail};
pub use notice::{NoticeFields, NoticeLevel, NoticeText};
pub use receipt::{CommandReceipt, DeliveryReceipt};
pub use status::{
    Attempts, BlockedStatus, BudgetStatus, CandidatesStatus, CheckingStatus, CleaningStatus,
    ExplanationStatus, HoldStatus, IssueCounts, IssueExplanation, IssueHead, IssueHistory,
    IssueStage, IssueStatus, JobStatus, PollingStatus, ProblemStatus, RateLimitStatus,
    RateLimitsStatus, RetryStatus, RunStatus, RunningStatus, ServiceStatus, SessionLog,
    SlotsStatus, Status, StatusOf, Summary, TimelineEntry, TokensStatus, TotalsStatus,
    TranscriptFiles, UnstartedStatus, VerdictStatus, WebhookStatus, WorkspaceStatus, link,
    obstacle, reason_in_words,
};
pub use stream::{NoticeEvent, RowList, StateChange, StreamEventKind};
