//! Producers that pause for longer than brokers remember them, and brokers that say that they do not know a producer.

use std::fs;
use std::time::Duration;

use anyhow::Result;

use super::embedded::Embedded;
use super::load::Load;
use crate::kafka;
use crate::workspace::Workspace;

const CLUSTER: &str = "failures-expiry";
/// Brokers forget producers and transactional ids after 3 s, and look for such as often as they can.
const FORGETFUL: [(&str, &str); 4] = [
    ("producer.id.expiration.ms", "3000"),
    ("producer.id.expiration.check.interval.ms", "500"),
    ("transactional.id.expiration.ms", "3000"),
    (
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        "500",
    ),
];

/// An idempotent producer stands still for longer than the brokers remember it, and goes on exactly once. Then embedded
/// brokers refuse now and then because they do not know the producer, or its last sequence number, as brokers before 2.5 do.
pub fn of_an_idempotent_producer(workspace: &Workspace) -> Result<()> {
    let real = kafka::Running::start(workspace, CLUSTER, 1, &FORGETFUL)?;
    let mut run = Load::on(workspace, real.bootstrap(), Duration::from_secs(25)).start()?;
    run.until(Duration::from_secs(5))?;
    run.process()?.pause()?;
    std::thread::sleep(Duration::from_secs(8));
    run.process()?.resume()?;
    let outcome = run.end()?;
    outcome.tell();
    outcome.ensure_whole()?;
    drop(real);

    let script = workspace.target().join("failures/unknown-producer.yaml");
    let rules = ["UNKNOWN_PRODUCER_ID", "OUT_OF_ORDER_SEQUENCE_NUMBER"]
        .map(|error| format!("  - {{ api: Produce, error: {error}, every_nth: 97 }}\n"));
    fs::create_dir_all(workspace.target().join("failures"))?;
    fs::write(&script, format!("rules:\n{}", rules.concat()))?;
    let brokers = Embedded::start(workspace, &["--script", &script.to_string_lossy()])?;
    let run = Load::on(workspace, &brokers.bootstrap, Duration::from_secs(10))
        .replicated()
        .start()?;
    let outcome = run.end()?;
    outcome.tell();
    outcome.ensure_sound()?;
    outcome.ensure(
        outcome.has_error("UNKNOWN_PRODUCER_ID") || outcome.has_error("OUT_OF_ORDER_SEQUENCE_NUMBER"),
        "the result names what the brokers said",
    )
}

/// A producer with so little to write that its transactional id is forgotten between two transactions. Clients are to end there
/// (KIP-1050): the run ends with the broker's reason, and what it sent is accounted for.
pub fn of_a_transactional_producer(workspace: &Workspace) -> Result<()> {
    let real = kafka::Running::start(workspace, CLUSTER, 1, &FORGETFUL)?;
    let outcome = Load::on(workspace, real.bootstrap(), Duration::from_secs(40))
        .in_transactions()
        .with(&["--set", "producerRate=0.1"])
        .start()?
        .end()?;
    outcome.tell();
    outcome.ensure_accounted()?;
    outcome.ensure(outcome.count("acknowledged_count") > 0, "it wrote before that")?;
    let has_failed = outcome.result["status"]["state"] == "failed" && !outcome.status.success();
    outcome.ensure(has_failed, "the run failed")?;
    let reason = outcome.result["status"]["reason"].as_str().unwrap_or_default();
    outcome.ensure(
        reason.contains("INVALID_PRODUCER_ID_MAPPING") && outcome.told.contains(reason),
        "the broker's reason is in the result, and told",
    )
}
