//! The dashboard of `symphony run`, on a terminal.

use std::convert::Infallible;
use std::io::IsTerminal as _;
use std::net::SocketAddr;
use std::sync::Arc;

use symphony_core::settings::ObservabilitySettings;
use symphony_runtime::Handle;
use symphony_tui::{Dashboard, DashboardEnd, LogTail, Options, Owner, Palette, is_for_people};
use tokio::sync::mpsc::UnboundedSender;
use tracing::{error, info, warn};

use crate::local::Local;
use crate::logging::{Diverted, divert};

/// Whether the terminal can show more than lines.
pub(super) fn is_able() -> bool {
    is_for_people()
        && std::env::var_os("TERM").is_some_and(|kind| !kind.is_empty() && kind != "dumb")
}

/// With colours, unless they are not wanted.
pub(super) fn palette() -> Palette {
    Palette { colours: std::env::var_os("NO_COLOR").is_none_or(|no| no.is_empty()) }
}

/// A dashboard, and the log in it.
pub(super) struct Shown {
    // Dropped in this order: first the terminal is given back, then the log goes there again.
    dashboard: Dashboard,
    _log: Option<Diverted>,
    /// Whether another dashboard can reach the service.
    is_served: bool,
}

/// Shows the service on the terminal and passes Ctrl-C on. A service runs on where no dashboard
/// can be shown.
pub(super) fn show(
    handle: &Handle,
    settings: &ObservabilitySettings,
    address: Option<SocketAddr>,
    interrupts: UnboundedSender<()>,
) -> Option<Shown> {
    let lines = LogTail::default();
    // A log that was redirected stays where it goes.
    let log = std::io::stderr().is_terminal().then(|| divert(&lines));
    let options = Options {
        owner: Owner::Service,
        address: address.map(|address| format!("http://{address}/")),
        look: palette(),
        refresh: settings.refresh,
        render_interval: settings.render_interval,
        lines,
        interrupts: Some(interrupts),
    };
    match Dashboard::show(Arc::new(Local::new(handle.clone())), options) {
        Ok(dashboard) => Some(Shown { dashboard, _log: log, is_served: address.is_some() }),
        Err(error) => {
            drop(log);
            warn!(%error, "the terminal cannot show the dashboard; the log goes on here");
            None
        }
    }
}

/// Waits until it is left, and tells so; the service goes on. Dropped, it gives the terminal back.
pub(super) async fn until_left(shown: Option<Shown>) -> Infallible {
    if let Some(mut shown) = shown {
        let left = shown.dashboard.ended().await;
        let is_served = shown.is_served;
        drop(shown);
        match left {
            DashboardEnd::Quit | DashboardEnd::Stopped => {
                let back = if is_served { "; `symphony top` shows it again" } else { "" };
                info!("the dashboard was left; the service goes on, Ctrl-C ends it{back}");
            }
            DashboardEnd::TerminalGone => {
                warn!("the terminal of the dashboard is gone; the service goes on")
            }
            DashboardEnd::Panicked => error!("the dashboard has failed; the service goes on"),
        }
    }
    std::future::pending().await
}
