//! The broker that coordinates a group, or a producer's transactions, is stopped under load; another takes over.

use std::time::Duration;

use anyhow::{Result, ensure};

use super::load::{Load, Outcome, Running};
use super::real_kafka;
use crate::kafka;
use crate::workspace::Workspace;

const RUN: Duration = Duration::from_secs(35);
const STOPS_AT: Duration = Duration::from_secs(8);
const AWAY: Duration = Duration::from_secs(8);

/// A group of the classic protocol: its positions go on, and nothing is skipped.
pub fn of_a_classic_group(workspace: &Workspace) -> Result<()> {
    of_a_group(workspace, &["-X", "session.timeout.ms=10000"])
}

/// The same of a group of the consumer protocol (KIP-848).
pub fn of_a_consumer_group(workspace: &Workspace) -> Result<()> {
    of_a_group(workspace, &["-X", "group.protocol=consumer"])
}

fn of_a_group(workspace: &Workspace, arguments: &[&str]) -> Result<()> {
    let real = real_kafka(workspace)?;
    let run = Load::on(workspace, real.bootstrap(), RUN)
        .replicated()
        .with(&[
            "-X",
            "enable.auto.commit=true",
            "-X",
            "auto.commit.interval.ms=500",
        ])
        .with(arguments)
        .start()?;
    let (_, group) = run.names()?;
    let outcome = without_coordinator(run, &real, &group, true)?;
    outcome.tell();
    outcome.ensure_whole()
}

/// A producer that writes in transactions: each is committed or aborted, and nothing of an aborted one is read.
pub fn of_transactions(workspace: &Workspace) -> Result<()> {
    const ID: &str = "plimsoll-failures";
    let real = real_kafka(workspace)?;
    let run = Load::on(workspace, real.bootstrap(), RUN)
        .replicated()
        .in_transactions()
        .with(&["-X", &format!("transactional.id={ID}")])
        .start()?;
    let outcome = without_coordinator(run, &real, ID, false)?;
    outcome.tell();
    let transactions = &outcome.result["whole_run"]["transactions"];
    eprintln!("  transactions: {transactions}");
    outcome.ensure_whole()?;
    outcome.ensure(
        transactions["committed_count"]
            .as_u64()
            .is_some_and(|count| count > 20),
        "transactions went on",
    )
}

fn without_coordinator(
    mut run: Running,
    real: &kafka::Running<'_>,
    key: &str,
    is_group: bool,
) -> Result<Outcome> {
    run.until(STOPS_AT)?;
    let before = kafka::coordinator(real.bootstrap(), key, is_group)?;
    real.stop(before)?;
    run.until(run.elapsed() + AWAY)?;
    let after = kafka::coordinator(real.bootstrap(), key, is_group)?;
    eprintln!("  {key} was coordinated by broker {before}, then by broker {after}");
    ensure!(
        before != after,
        "broker {before} coordinates {key} though it is stopped"
    );
    real.restart(before)?;
    run.end()
}
