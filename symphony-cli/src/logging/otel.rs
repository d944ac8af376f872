//! Runs as OpenTelemetry traces: a run is a trace, its phases and turns are spans. Sent by OTLP over
//! HTTP to where `OTEL_EXPORTER_OTLP_ENDPOINT` says, and nowhere if it says nothing.
//!
//! A thread of its own sends them. A collector that is away or hangs loses spans and blocks nothing.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context as _;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::SpanExporter;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{SdkTracerProvider, SpanData, SpanExporter as Exporter};
use symphony_core::plain;
use tracing::{Metadata, Subscriber, info, warn};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::filter_fn;
use tracing_subscriber::registry::LookupSpan;

/// Where traces go; the second is for them alone, and wins.
const ENDPOINT_VARIABLES: [&str; 2] =
    ["OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"];

/// What the service is called unless `OTEL_SERVICE_NAME` says otherwise.
const SERVICE_NAME: &str = "symphony";

/// Whose spans are sent.
const SPAN_TARGET: &str = "symphony_runtime";

/// How long the last spans may take when the program ends.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// Sends spans for as long as it lives, and the last of them when it is dropped.
pub(super) struct Tracing(Option<SdkTracerProvider>);

impl Drop for Tracing {
    fn drop(&mut self) {
        if let Some(provider) = &self.0 {
            // What the collector does not take by then is lost.
            let _ = provider.shutdown_with_timeout(FLUSH_TIMEOUT);
        }
    }
}

/// Sends spans where the environment says.
pub(super) fn start<S>() -> anyhow::Result<(Option<impl Layer<S>>, Tracing)>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    let is_set = |name| std::env::var(name).is_ok_and(|value| !value.trim().is_empty());
    if !ENDPOINT_VARIABLES.into_iter().any(is_set) {
        return Ok((None, Tracing(None)));
    }
    let exporter = SpanExporter::builder().with_http().build();
    let exporter =
        exporter.with_context(|| format!("{}: no traces can be sent", ENDPOINT_VARIABLES[0]))?;
    let mut resource = Resource::builder();
    if !is_set("OTEL_SERVICE_NAME") {
        resource = resource.with_service_name(SERVICE_NAME);
    }
    let provider = SdkTracerProvider::builder()
        .with_batch_exporter(Telling { exporter, is_failing: AtomicBool::new(false) })
        .with_resource(resource.build())
        .build();
    let layer = tracing_opentelemetry::layer()
        .with_tracer(provider.tracer(SERVICE_NAME))
        .with_context_activation(false)
        .with_level(false)
        .with_location(false)
        .with_target(false)
        .with_threads(false)
        .with_tracked_inactivity(false)
        .with_filter(filter_fn(is_ours));
    Ok((Some(layer), Tracing(Some(provider))))
}

/// Spans of runs, and not what is logged in them.
fn is_ours(metadata: &Metadata<'_>) -> bool {
    metadata.is_span() && metadata.target().starts_with(SPAN_TARGET)
}

/// An exporter that says when the collector is away, and when it is back: once each.
#[derive(Debug)]
struct Telling {
    exporter: SpanExporter,
    is_failing: AtomicBool,
}

impl Exporter for Telling {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        let spans = batch.len();
        let result = self.exporter.export(batch).await;
        let was_failing = self.is_failing.swap(result.is_err(), Ordering::Relaxed);
        match &result {
            Err(error) if !was_failing => {
                let error = plain(&error.to_string(), 500);
                warn!(spans, error, "the collector takes no traces; they are lost until it does");
            }
            Ok(()) if was_failing => info!("the collector takes traces again"),
            _ => {}
        }
        result
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}
