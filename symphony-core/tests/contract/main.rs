//! The orchestrator, rule by rule: each test is named for the rule of `docs/design/contract.md` it shows.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "the harness fails its test this way"
)]

mod day;
mod harness;

mod answers;
mod claims;
mod commands;
mod corners;
mod decisions;
mod deliveries;
mod durability;
mod economy;
mod eligibility;
mod finish;
mod holds;
mod jobs;
mod limits;
mod reconciliation;
mod reload;
mod retry;
mod shutdown;
mod snapshot;
mod sweep;
mod turns;
