//! `cargo x test --failures`: the binary under load while something fails that a seed does not draw: the network breaks, is
//! slow or goes silent, a cluster is restarted one broker after the other, coordinators go, producer ids expire, a disk fills
//! up, topics grow or are made anew, the client itself stands still.
//!
//! Each case makes what it needs (network namespaces, mounts, clusters), takes it away again, and is over within minutes. What
//! holds of every run is in [`accounts`](crate::accounts); each case says what else must hold of it.

mod coordinators;
mod disk_full;
mod embedded;
mod expired_ids;
mod load;
mod namespace;
mod network;
mod proxy;
mod restarts;
mod slow_network;
mod stale_metadata;
mod topics;

use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Result, ensure};

use crate::kafka;
use crate::status;
use crate::test::{Counts, counted, ended, prepare_interop};
use crate::tier::Progress;
use crate::workspace::Workspace;

const TIER: &str = "test --failures";
/// A real cluster that several cases use, one after the other.
const CLUSTER: &str = "failures";

/// A case's name, and what it does. It fails with what does not hold.
type Case = (&'static str, fn(&Workspace) -> Result<()>);

const CASES: [Case; 20] = [
    ("network cut", network::is_cut),
    ("network silent", network::is_silent),
    ("network delay", slow_network::delays),
    ("network splits and cuts", slow_network::splits_and_cuts),
    ("network rate", slow_network::is_limited),
    (
        "network rate of each broker",
        slow_network::is_limited_to_each_broker,
    ),
    ("rolling restart embedded", restarts::of_embedded_brokers),
    ("rolling restart", restarts::of_real_kafka),
    ("group coordinator", coordinators::of_a_classic_group),
    ("group coordinator KIP-848", coordinators::of_a_consumer_group),
    ("transaction coordinator", coordinators::of_transactions),
    ("expired producer id", expired_ids::of_an_idempotent_producer),
    (
        "expired transactional id",
        expired_ids::of_a_transactional_producer,
    ),
    ("disk full", disk_full::of_one_broker),
    ("disk full everywhere", disk_full::of_the_only_broker),
    ("partitions added", topics::grow),
    ("partitions added to real Kafka", topics::grow_on_real_kafka),
    ("topic made anew", topics::are_made_anew),
    (
        "topic made anew on real Kafka",
        topics::are_made_anew_on_real_kafka,
    ),
    ("metadata stale", stale_metadata::after_a_pause),
];

/// Runs the cases, or those that are named. What passed on this commit, in a run that was cut short, is not run again.
pub fn run(workspace: &Workspace, only: &[String]) -> Result<ExitCode> {
    for name in only {
        ensure!(
            CASES.iter().any(|(case, _)| case == name),
            "there is no case {name:?}; there are: {}",
            CASES.map(|(case, _)| case).join(", ")
        );
    }
    let start = Instant::now();
    prepare_interop(workspace)?;
    if !only.is_empty() {
        let mut counts = Counts::default();
        for (name, case) in CASES
            .iter()
            .filter(|(name, _)| only.iter().any(|one| one == name))
        {
            counts += one(workspace, name, *case);
        }
        kafka::down(workspace, CLUSTER)?;
        return ended(workspace, "test --failures --case", start, counts, "");
    }
    let mut progress = Progress::of(workspace, TIER)?;
    for (name, case) in CASES {
        if progress.passed(name).is_some() {
            eprintln!("{name}: passed before on this commit");
            continue;
        }
        let counts = one(workspace, name, case);
        progress.ended(workspace, name, counts)?;
    }
    kafka::down(workspace, CLUSTER)?;
    let counts = progress.sum();
    let besides = progress.told();
    progress.over(workspace)?;
    ended(workspace, TIER, start, counts, &besides)
}

/// Three real brokers, all of which run.
fn real_kafka(workspace: &Workspace) -> Result<kafka::Running<'_>> {
    let properties = [("group.initial.rebalance.delay.ms", "200")];
    kafka::Running::join(workspace, CLUSTER, 3, &properties)
}

fn one(workspace: &Workspace, name: &str, case: fn(&Workspace) -> Result<()>) -> Counts {
    eprintln!("{name}");
    let start = Instant::now();
    let counts = counted(name, case(workspace).map(|()| Counts { passed: 1, failed: 0 }));
    let outcome = if counts.failed == 0 { "ok" } else { "FAILED" };
    eprintln!("{name}: {outcome}, {}", status::for_people(start.elapsed()));
    counts
}
