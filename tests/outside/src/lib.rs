//! What an author outside the workspace would write: a tracker, an agent and hooks, each as small
//! as it can be.

pub mod agent;
pub mod hooks;
pub mod tracker;

/// Waits once, so that others get their turn, without the help of any runtime.
pub(crate) async fn pause() {
    let mut waited = false;
    std::future::poll_fn(|cx| {
        if waited {
            return std::task::Poll::Ready(());
        }
        waited = true;
        cx.waker().wake_by_ref();
        std::task::Poll::Pending
    })
    .await;
}
