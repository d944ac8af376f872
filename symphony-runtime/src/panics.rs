//! A task that panics is a failure, never a dead service.

use std::any::Any;
use std::future::Future;
use std::panic::AssertUnwindSafe;

use futures_util::FutureExt;
use symphony_core::{Failure, FailureKind};
use tokio_util::task::AbortOnDropHandle;

/// Runs a step of third-party code and turns a panic into a failure.
///
/// What the step borrowed is used afterwards only to be closed.
pub(crate) async fn catch_panic<T>(step: impl Future<Output = T>) -> Result<T, Failure> {
    AssertUnwindSafe(step).catch_unwind().await.map_err(|panic| failure(panic.as_ref()))
}

/// Runs a whole task on its own, also if it panics while it is dropped. Ends with its owner.
pub(crate) async fn isolated<T: Send + 'static>(
    task: impl Future<Output = T> + Send + 'static,
) -> Result<T, Failure> {
    AbortOnDropHandle::new(tokio::spawn(task)).await.map_err(|error| match error.try_into_panic() {
        Ok(panic) => failure(panic.as_ref()),
        Err(_) => Failure::new(FailureKind::Internal, "a task was given up: the service ends"),
    })
}

fn failure(panic: &(dyn Any + Send)) -> Failure {
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("without a message");
    Failure::new(FailureKind::Internal, format!("a task panicked: {text}"))
}
