//! What the client knows of the cluster is out of date when it comes to use it.

use std::time::Duration;

use anyhow::Result;

use super::embedded::Embedded;
use super::load::Load;
use crate::workspace::Workspace;

/// The client stands still while all leaders move twice: it goes on exactly once, in order, and nothing is refused. What was
/// due meanwhile is sent late, and its response times say so.
pub fn after_a_pause(workspace: &Workspace) -> Result<()> {
    const STANDS_STILL_AT: Duration = Duration::from_secs(5);
    const STEP: Duration = Duration::from_secs(1);
    let brokers = Embedded::start(workspace, &[])?;
    let mut run = Load::on(workspace, &brokers.bootstrap, Duration::from_secs(20))
        .replicated()
        .start()?;
    run.until(STANDS_STILL_AT)?;
    let client = run.process()?;
    client.pause()?;
    let moves = || {
        for broker in ["1", "2", "3"] {
            brokers.control(&["stop", broker])?;
            std::thread::sleep(STEP);
            brokers.control(&["start", broker])?;
            std::thread::sleep(STEP);
        }
        anyhow::Ok(())
    };
    let moved = moves();
    client.resume()?;
    moved?;
    let outcome = run.end()?;
    outcome.tell();
    outcome.ensure_whole()?;
    let longest = outcome.latency_ns("response", "max_ns")?;
    outcome.ensure(
        longest >= 6 * STEP.as_nanos() as u64,
        "what was due while the client stood still was as late as that",
    )
}
