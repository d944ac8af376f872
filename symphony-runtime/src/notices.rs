//! The stream of notices that a subscriber reads.

use std::sync::Arc;

use symphony_core::orchestrator::Notice;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

/// The notices of a running service, in order, from the moment of subscribing on.
///
/// The service does not wait for its subscribers: one that reads too slowly misses the oldest
/// notices, is told how many, and goes on with the next. What they were about is in
/// [`Handle::snapshot`](crate::Handle::snapshot).
#[derive(Debug)]
pub struct NoticeStream(broadcast::Receiver<Arc<Notice>>);

/// What a subscriber reads.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum NoticeItem {
    /// Something happened.
    Notice(Arc<Notice>),
    /// The subscriber was too slow, and has missed this many notices.
    Missed(u64),
}

impl NoticeStream {
    pub(crate) const fn new(receiver: broadcast::Receiver<Arc<Notice>>) -> Self {
        Self(receiver)
    }

    /// Waits for the next item. Returns `None` once the service has ended and everything was read.
    ///
    /// Cancel-safe: dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<NoticeItem> {
        match self.0.recv().await {
            Ok(notice) => Some(NoticeItem::Notice(notice)),
            Err(RecvError::Lagged(missed)) => Some(NoticeItem::Missed(missed)),
            Err(RecvError::Closed) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use symphony_core::orchestrator::NoticeKind;

    use super::*;

    #[tokio::test]
    async fn rule_13_2_a_subscriber_that_lags_is_told_and_goes_on_to_the_end() {
        let (sender, receiver) = broadcast::channel(2);
        let mut stream = NoticeStream::new(receiver);
        let notice = |what| Arc::new(Notice::new(what));
        for what in
            [NoticeKind::Paused, NoticeKind::Resumed, NoticeKind::Paused, NoticeKind::Reloaded]
        {
            sender.send(notice(what)).unwrap();
        }
        drop(sender);
        assert_eq!(stream.next().await, Some(NoticeItem::Missed(2)));
        assert_eq!(stream.next().await, Some(NoticeItem::Notice(notice(NoticeKind::Paused))));
        assert_eq!(stream.next().await, Some(NoticeItem::Notice(notice(NoticeKind::Reloaded))));
        assert_eq!(stream.next().await, None);
    }
}
