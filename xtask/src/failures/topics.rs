//! Topics that change under load: partitions are added, and a topic is deleted and made again.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::embedded::Embedded;
use super::load::{Load, Outcome};
use super::real_kafka;
use crate::workspace::Workspace;

const RUN: Duration = Duration::from_secs(20);
const CHANGES_AT: Duration = Duration::from_secs(6);

/// `plimsoll topics …`.
fn topics(workspace: &Workspace, bootstrap: &str, arguments: &[&str]) -> Result<()> {
    let output = Command::new(workspace.target().join("release/plimsoll"))
        .arg("topics")
        .args(arguments)
        .args(["--bootstrap-server", bootstrap])
        .output()
        .context("cannot run the release binary")?;
    ensure!(
        output.status.success(),
        "plimsoll topics {}: {}",
        arguments.join(" "),
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

/// Partitions that are added are produced to and consumed.
pub fn grow(workspace: &Workspace) -> Result<()> {
    let brokers = Embedded::start(workspace, &[])?;
    grow_on(workspace, &brokers.bootstrap, &[])
}

/// The same on real Kafka, by a group of either protocol.
pub fn grow_on_real_kafka(workspace: &Workspace) -> Result<()> {
    let real = real_kafka(workspace)?;
    grow_on(workspace, real.bootstrap(), &[])?;
    grow_on(workspace, real.bootstrap(), &["-X", "group.protocol=consumer"])
}

fn grow_on(workspace: &Workspace, bootstrap: &str, arguments: &[&str]) -> Result<()> {
    const BEFORE: usize = 6;
    const AFTER: usize = 12;
    let mut run = Load::on(workspace, bootstrap, RUN)
        .replicated()
        .with(&["-X", "metadata.max.age.ms=2000"])
        .with(arguments)
        .start()?;
    let (topic, _) = run.names()?;
    run.until(CHANGES_AT)?;
    topics(
        workspace,
        bootstrap,
        &["alter", &topic, "--partitions", &AFTER.to_string()],
    )?;
    let outcome = run.end()?;
    outcome.tell();
    outcome.ensure_whole()?;
    let partitions = outcome.result["partitions"].as_array().context("no partitions")?;
    let used = |first: usize| {
        let behind = partitions.iter().filter(|partition| {
            partition["partition"].as_u64() >= Some(first as u64)
                && partition["acknowledged_count"].as_u64() > Some(0)
        });
        behind.count()
    };
    outcome.ensure(
        used(0) == AFTER && used(BEFORE) == AFTER - BEFORE,
        &format!("all {AFTER} partitions were produced to"),
    )
}

/// A topic that is deleted and made again is another one: the run ends or goes on, says why, and calls nothing lost that was
/// deleted.
pub fn are_made_anew(workspace: &Workspace) -> Result<()> {
    let brokers = Embedded::start(workspace, &[])?;
    made_anew_on(workspace, &brokers.bootstrap)
}

/// The same on real Kafka.
pub fn are_made_anew_on_real_kafka(workspace: &Workspace) -> Result<()> {
    let real = real_kafka(workspace)?;
    made_anew_on(workspace, real.bootstrap())
}

fn made_anew_on(workspace: &Workspace, bootstrap: &str) -> Result<()> {
    let mut run = Load::on(workspace, bootstrap, RUN)
        .replicated()
        .with(&["-X", "metadata.max.age.ms=2000", "-X", "delivery.timeout.ms=8000"])
        .with(&["-X", "request.timeout.ms=4000", "-X", "max.block.ms=4000"])
        .draining_for(Duration::from_secs(15))
        .start()?;
    let (topic, _) = run.names()?;
    run.until(CHANGES_AT)?;
    topics(workspace, bootstrap, &["delete", &topic])?;
    run.until(run.elapsed() + Duration::from_secs(1))?;
    let create = ["create", &topic, "--partitions", "6", "--replication-factor", "3"];
    // It may be there for a while after it was deleted.
    for _ in 0..10 {
        if topics(workspace, bootstrap, &create).is_ok() {
            break;
        }
        std::thread::sleep(Duration::from_millis(300));
    }
    let outcome = run.end()?;
    outcome.tell();
    ensure_made_anew(&outcome)
}

fn ensure_made_anew(outcome: &Outcome) -> Result<()> {
    outcome.ensure_accounted()?;
    let warnings = outcome.result["warnings"].as_array().context("no warnings")?;
    outcome.ensure(
        warnings
            .iter()
            .any(|warning| warning["code"] == "topic-made-again"),
        "a warning says that the topic was deleted or made anew",
    )?;
    let lost = &outcome.result["whole_run"]["verification"]["lost_count"];
    outcome.ensure(
        lost.as_u64().unwrap_or(0) == 0,
        "records that went with the topic are not called lost",
    )
}
