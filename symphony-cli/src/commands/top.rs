//! `symphony top`: the dashboard of a service elsewhere.

use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use symphony_api::client::ApiClient;
use symphony_core::settings::ObservabilitySettings;
use symphony_tui::{Dashboard, DashboardEnd, LogTail, Options, Owner};

use super::dashboard;
use super::signals::Signals;
use crate::args::TopArgs;
use crate::remote::{self, Remote};

pub(crate) fn top(args: &TopArgs) -> anyhow::Result<ExitCode> {
    let address = remote::find(args.service.url(), &args.workflow)?;
    if !dashboard::is_able() {
        bail!("this terminal cannot show a dashboard; `symphony status` prints lines");
    }
    let client = ApiClient::new(address)?;
    let runtime = super::tokio()?;
    let done = runtime.block_on(watch(client));
    runtime.shutdown_background();
    done
}

async fn watch(client: ApiClient) -> anyhow::Result<ExitCode> {
    // A service that does not answer now is an error; there is no wait for it.
    client.get(&["state"]).await.map_err(remote::with_advice)?;
    let mut signals = Signals::new()?;
    let pace = ObservabilitySettings::default();
    let lines = LogTail::default();
    let address = client.address().to_string();
    let source = Arc::new(Remote::new(client, lines.clone()));
    let options = Options {
        owner: Owner::Visitor,
        address: Some(address),
        look: dashboard::palette(),
        refresh: pace.refresh,
        render_interval: pace.render_interval,
        lines,
        interrupts: None,
    };
    let mut shown = Dashboard::show(source, options).context("the terminal cannot be used")?;
    tokio::select! {
        left = shown.ended() => match left {
            DashboardEnd::Quit | DashboardEnd::Stopped => Ok(ExitCode::SUCCESS),
            DashboardEnd::TerminalGone => bail!("the terminal is gone"),
            DashboardEnd::Panicked => bail!("the dashboard has failed; `symphony status` may still work"),
        },
        _ = signals.next() => Ok(ExitCode::SUCCESS),
    }
}
