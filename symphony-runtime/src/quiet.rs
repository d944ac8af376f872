//! Quiet hours: when they begin and end on the wall clock (contract 12.3).

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use symphony_core::Settings;
use symphony_core::orchestrator::Event;
use symphony_core::settings::QuietHours;
use symphony_core::time::Wall;
use tokio::sync::watch;

use crate::clock::wall_now;
use crate::driver::Inbox;

/// How often the clock is looked at: it may be set, and summer may begin.
const CLOCK_CHECK_INTERVAL: Duration = Duration::from_secs(20);

/// The zone in which the hours are meant.
pub(crate) fn zone(hours: &QuietHours) -> Result<TimeZone, jiff::Error> {
    match &hours.timezone {
        Some(name) => TimeZone::get(name),
        None => TimeZone::try_system(),
    }
}

/// Whether the hours are on at a moment. What counts is what a clock on the wall shows, so a
/// boundary in the hour that summer skips is passed, and one in the hour that comes twice holds.
pub(crate) fn is_on(hours: &QuietHours, now: Wall) -> bool {
    let (Ok(zone), Ok(now)) = (zone(hours), Timestamp::from_millisecond(now.as_unix_millis()))
    else {
        return false;
    };
    let local = now.to_zoned(zone);
    let minute =
        u16::from(local.hour().unsigned_abs()) * 60 + u16::from(local.minute().unsigned_abs());
    if hours.from <= hours.to {
        (hours.from..hours.to).contains(&minute)
    } else {
        minute >= hours.from || minute < hours.to
    }
}

/// Tells when they begin and end.
pub(crate) async fn watch(mut settings: watch::Receiver<Arc<Settings>>, inbox: Inbox) {
    let mut was_on = false;
    loop {
        let hours = settings.borrow_and_update().polling.quiet_hours.clone();
        let on = hours.as_ref().is_some_and(|hours| is_on(hours, wall_now()));
        if on != was_on {
            inbox.send(Event::QuietHours { on });
            was_on = on;
        }
        let changed = match hours {
            Some(_) => tokio::time::timeout(CLOCK_CHECK_INTERVAL, settings.changed())
                .await
                .unwrap_or(Ok(())),
            None => settings.changed().await,
        };
        if changed.is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hours(from: u16, to: u16, zone: &str) -> QuietHours {
        QuietHours { from, to, timezone: Some(zone.to_owned()) }
    }

    fn on(hours: &QuietHours, at: &str) -> bool {
        is_on(hours, Wall::parse(at).unwrap())
    }

    #[test]
    fn rule_12_3_quiet_hours_go_across_midnight() {
        let night = hours(22 * 60, 6 * 60, "UTC");
        assert!(!on(&night, "2026-03-01T21:59:59Z"));
        assert!(on(&night, "2026-03-01T22:00:00Z"));
        assert!(on(&night, "2026-03-02T05:59:59Z"));
        assert!(!on(&night, "2026-03-02T06:00:00Z"));
        let noon = hours(12 * 60, 13 * 60 + 30, "UTC");
        assert!(on(&noon, "2026-03-02T13:29:00Z"));
        assert!(!on(&noon, "2026-03-02T13:30:00Z"));
    }

    #[test]
    fn rule_12_3_quiet_hours_follow_the_clock_on_the_wall_through_daylight_saving() {
        let night = hours(2 * 60 + 30, 6 * 60, "Europe/Berlin");
        // In winter 02:30 is 01:30 UTC, in summer it is 00:30 UTC.
        assert!(!on(&night, "2026-02-01T01:29:00Z"));
        assert!(on(&night, "2026-02-01T01:30:00Z"));
        assert!(!on(&night, "2026-07-01T00:29:00Z"));
        assert!(on(&night, "2026-07-01T00:30:00Z"));
        // 29 March 2026: 02:00 becomes 03:00 at 01:00 UTC, and 02:30 never comes.
        assert!(!on(&night, "2026-03-29T00:59:59Z"));
        assert!(on(&night, "2026-03-29T01:00:00Z"));
        assert!(!on(&night, "2026-03-29T04:00:00Z"));
        // 25 October 2026: 02:30 comes twice.
        assert!(on(&night, "2026-10-25T00:30:00Z"));
        assert!(on(&night, "2026-10-25T01:30:00Z"));
    }

    #[test]
    fn an_unknown_zone_is_an_error() {
        assert!(zone(&hours(0, 1, "Mars/Olympus")).is_err());
    }
}
