//! What was run last: one line a tier, kept in `target/x-status.json`.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::workspace::Workspace;

/// How one tier (`check`, `test`, `bench`) ended when it was last run.
#[derive(Serialize, Deserialize)]
struct Ended {
    commit: Option<String>,
    ended_at_unix_seconds: u64,
    took_seconds: u64,
    succeeded: bool,
    summary: String,
}

/// Records how `tier` ended on the commit that is checked out. `summary` is one line for people.
pub fn record(
    workspace: &Workspace,
    tier: &str,
    took: Duration,
    succeeded: bool,
    summary: impl Into<String>,
) -> Result<()> {
    let mut tiers = read(workspace)?;
    let ended_at = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    tiers.insert(
        tier.to_owned(),
        Ended {
            commit: workspace.commit(),
            ended_at_unix_seconds: ended_at.as_secs(),
            took_seconds: took.as_secs(),
            succeeded,
            summary: summary.into(),
        },
    );
    let path = path(workspace);
    std::fs::write(&path, serde_json::to_vec_pretty(&tiers)?)
        .with_context(|| format!("cannot write {}", path.display()))
}

/// `cargo x status`.
pub fn print(workspace: &Workspace) -> Result<ExitCode> {
    let here = workspace.commit();
    println!("now    {}", here.as_deref().unwrap_or("not a git repository"));
    let tiers = read(workspace)?;
    if tiers.is_empty() {
        println!("nothing was run yet: cargo x check, cargo x test, cargo x bench");
    }
    for (tier, ended) in &tiers {
        let outcome = if ended.succeeded { "ok" } else { "FAILED" };
        let commit = ended.commit.as_deref().unwrap_or("no commit");
        let stale = if ended.commit == here {
            ""
        } else {
            ", not what is here now"
        };
        println!(
            "{tier:<6} {outcome}: {} (on {commit}{stale}; {} ago, took {})",
            ended.summary,
            age(ended.ended_at_unix_seconds),
            for_people(Duration::from_secs(ended.took_seconds)),
        );
    }
    Ok(ExitCode::SUCCESS)
}

fn path(workspace: &Workspace) -> PathBuf {
    workspace.target().join("x-status.json")
}

fn read(workspace: &Workspace) -> Result<BTreeMap<String, Ended>> {
    let path = path(workspace);
    match std::fs::read(&path) {
        Ok(bytes) => serde_json::from_slice(&bytes)
            .with_context(|| format!("{} is damaged; remove it", path.display())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(BTreeMap::new()),
        Err(error) => Err(error).with_context(|| format!("cannot read {}", path.display())),
    }
}

fn age(ended_at_unix_seconds: u64) -> String {
    let ended_at = UNIX_EPOCH + Duration::from_secs(ended_at_unix_seconds);
    for_people(SystemTime::now().duration_since(ended_at).unwrap_or_default())
}

/// The two largest units of a duration: `1 h 5 min`, `42 s`.
/// Seconds since 1970.
pub fn now_seconds() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs()
}

pub fn for_people(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match (
        seconds / 86_400,
        seconds / 3_600 % 24,
        seconds / 60 % 60,
        seconds % 60,
    ) {
        (0, 0, 0, seconds) => format!("{seconds} s"),
        (0, 0, minutes, seconds) => format!("{minutes} min {seconds} s"),
        (0, hours, minutes, _) => format!("{hours} h {minutes} min"),
        (days, hours, _, _) => format!("{days} d {hours} h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_told_in_their_two_largest_units() {
        let told = [0, 59, 60, 3_599, 3_600, 86_399, 90_000].map(|s| for_people(Duration::from_secs(s)));
        assert_eq!(
            told,
            [
                "0 s",
                "59 s",
                "1 min 0 s",
                "59 min 59 s",
                "1 h 0 min",
                "23 h 59 min",
                "1 d 1 h"
            ]
        );
    }
}
