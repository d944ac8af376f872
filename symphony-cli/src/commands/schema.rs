//! `symphony schema`: the JSON Schema of the front matter, for editors.

use std::io::Write as _;
use std::process::ExitCode;

use symphony_workflow::json_schema;

use crate::adapters;

pub(crate) fn schema() -> anyhow::Result<ExitCode> {
    let registry = adapters::registry();
    let schema = json_schema(registry.agents().map(|agent| agent.profile()));
    let mut out = std::io::stdout().lock();
    serde_json::to_writer_pretty(&mut out, &schema).map_err(std::io::Error::from)?;
    writeln!(out)?;
    Ok(ExitCode::SUCCESS)
}
