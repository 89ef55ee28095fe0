//! A broker's disk is filled up by the load itself.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::load::Load;
use crate::kafka;
use crate::workspace::Workspace;

const CLUSTER: &str = "failures-disk";
const RUN: Duration = Duration::from_secs(30);
/// Four megabytes a second fill it within half of the run.
const DISK: &str = "size=48m";
const LOAD: [&str; 5] = [
    "--force",
    "--set",
    "messageSize=8000",
    "--set",
    "producerRate=500",
];

/// A small file system of its own where a stopped node keeps its records. It is taken away with this value.
struct SmallDisk {
    at: PathBuf,
}

impl SmallDisk {
    fn under(directory: &Path) -> Result<SmallDisk> {
        let aside = directory.with_extension("aside");
        fs::rename(directory, &aside)?;
        fs::create_dir(directory)?;
        run(Command::new("mount")
            .args(["-t", "tmpfs", "-o", DISK, "tmpfs"])
            .arg(directory))
        .context("a small disk needs root's rights (CAP_SYS_ADMIN)")?;
        let disk = SmallDisk {
            at: directory.to_owned(),
        };
        run(Command::new("cp").arg("-a").arg(aside.join(".")).arg(directory))?;
        fs::remove_dir_all(&aside)?;
        Ok(disk)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // The node may have its files open still.
        let _ = run(Command::new("umount").arg("--lazy").arg(&self.at));
    }
}

fn run(command: &mut Command) -> Result<()> {
    let output = command.output()?;
    ensure!(
        output.status.success(),
        "{}: {}",
        command.get_program().display(),
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(())
}

/// One of three brokers has no room any more and ends: the others go on, and nothing is refused.
pub fn of_one_broker(workspace: &Workspace) -> Result<()> {
    const NODE: u32 = 2;
    let real = kafka::Running::start(workspace, CLUSTER, 3, &[])?;
    real.stop(NODE)?;
    let disk = SmallDisk::under(&real.data_directory(NODE)?)?;
    real.restart(NODE)?;
    let outcome = Load::on(workspace, real.bootstrap(), RUN)
        .replicated()
        .with(&LOAD)
        .start()?
        .end()?;
    drop(disk);
    outcome.tell();
    outcome.ensure_whole()?;
    let events = outcome.result["events"].as_array().context("no events")?;
    outcome.ensure(
        events.iter().any(|event| event["broker"] == NODE),
        "the result tells of the broker",
    )
}

/// The only broker has no room any more and ends: the run ends in time, says so, and every record is accounted for.
pub fn of_the_only_broker(workspace: &Workspace) -> Result<()> {
    let real = kafka::Running::start(workspace, CLUSTER, 1, &[])?;
    real.stop(1)?;
    let disk = SmallDisk::under(&real.data_directory(1)?)?;
    real.restart(1)?;
    let outcome = Load::on(workspace, real.bootstrap(), RUN)
        .with(&LOAD)
        .with(&["-X", "request.timeout.ms=4000", "-X", "delivery.timeout.ms=8000"])
        .with(&["-X", "max.block.ms=4000"])
        .draining_for(Duration::from_secs(10))
        .start()?
        .end()?;
    drop(disk);
    outcome.tell();
    outcome.ensure_accounted()?;
    outcome.ensure(
        !outcome.status.success(),
        "the exit status says that records failed",
    )?;
    outcome.ensure(
        outcome.count("refused_count") + outcome.count("unknown_count") > 0,
        "records failed",
    )?;
    outcome.ensure(
        ["connection lost", "KAFKA_STORAGE_ERROR", "NOT_LEADER_OR_FOLLOWER"]
            .iter()
            .any(|kind| outcome.has_error(kind)),
        "the result says what the broker said, or that it is gone",
    )
}
