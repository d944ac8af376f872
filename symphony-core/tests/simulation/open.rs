//! Findings that are reported and not yet mended: while one is listed here, its rule is not
//! enforced. The list is empty when all is well.

/// The snapshot counts a candidate that is listed twice as two.
pub(crate) const TOTAL_COUNTS_DUPLICATES: bool = true;
/// A report of another thread's tokens replaces the run's own thread, and with it what is resumed.
pub(crate) const USAGE_REPLACES_THREAD: bool = true;
/// Requests of a read that a reload made obsolete are not counted.
pub(crate) const STALE_REQUESTS_UNCOUNTED: bool = true;
/// After midnight the requests of the day before are shown until the next read.
pub(crate) const YESTERDAY_IS_SHOWN: bool = true;
/// An identifier that cannot name a folder is not the first of its reasons.
pub(crate) const OBSTACLE_ORDER: bool = true;
/// A candidate whose workspace is being removed makes the verdict "starting".
pub(crate) const CLEANING_IS_STARTING: bool = true;
/// What was noted of a candidate when it was released stays its reason after the cause is gone.
pub(crate) const NOTES_OUTLIVE_THEIR_CAUSE: bool = true;
/// A wish for the next poll that comes with a refresh puts candidates off, again and again.
pub(crate) const REFRESH_PUTS_CANDIDATES_OFF: bool = true;
/// A candidate that was read before its start in another state than listed, and finds that state's
/// slots taken, is chosen and read again at once, without end.
pub(crate) const STATE_SLOT_STORM: bool = true;
