//! A task that panics is a failure, never a dead service.

use std::any::Any;
use std::future::Future;
use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use symphony_core::{Failure, FailureKind};

/// Runs a task to its end, also if that is a panic.
pub(crate) async fn caught<T>(task: impl Future<Output = T>) -> Result<T, Failure> {
    AssertUnwindSafe(task).catch_unwind().await.map_err(|panic| {
        let message = format!("a task panicked: {}", text(panic.as_ref()));
        Failure::new(FailureKind::Internal, message)
    })
}

fn text(panic: &(dyn Any + Send)) -> &str {
    panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("without a message")
}
