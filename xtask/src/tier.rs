//! A tier of several items that goes on where it was cut short: what has passed on this commit is not run again.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::test::Counts;
use crate::workspace::Workspace;

/// How far a tier has come, kept in the target directory until it is over.
#[derive(Serialize, Deserialize)]
pub struct Progress {
    tier: String,
    /// The commit that it runs on; with files that differ from it nothing is taken over.
    commit: Option<String>,
    items: BTreeMap<String, Counts>,
}

impl Progress {
    /// What was kept of a run of this tier on the commit that is checked out; else a new one.
    pub fn of(workspace: &Workspace, tier: &str) -> Result<Self> {
        let commit = workspace.commit().filter(|commit| !commit.ends_with("+changes"));
        let path = path(workspace, tier);
        let kept: Option<Self> = match fs::read(&path) {
            Ok(text) => serde_json::from_slice(&text).ok(),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
        };
        let kept = kept.filter(|kept| commit.is_some() && kept.commit == commit);
        Ok(kept.unwrap_or(Self {
            tier: tier.to_owned(),
            commit,
            items: BTreeMap::new(),
        }))
    }

    /// The counts of an item that has passed.
    pub fn passed(&self, item: &str) -> Option<Counts> {
        self.items.get(item).copied().filter(|counts| counts.failed == 0)
    }

    /// How many items whose names begin so have passed.
    pub fn passed_of(&self, prefix: &str) -> usize {
        let items = self.items.iter().filter(|(item, _)| item.starts_with(prefix));
        items.filter(|(_, counts)| counts.failed == 0).count()
    }

    /// An item has ended; kept at once.
    pub fn ended(&mut self, workspace: &Workspace, item: &str, counts: Counts) -> Result<()> {
        self.items.insert(item.to_owned(), counts);
        let path = path(workspace, &self.tier);
        fs::write(&path, serde_json::to_vec_pretty(self)?)
            .with_context(|| format!("cannot write {}", path.display()))
    }

    /// All items together.
    pub fn sum(&self) -> Counts {
        let mut sum = Counts::default();
        for counts in self.items.values() {
            sum += *counts;
        }
        sum
    }

    /// Each item with its outcome, for the status.
    pub fn told(&self) -> String {
        let told = |(item, counts): (&String, &Counts)| match counts.failed {
            0 => format!("{item} ok"),
            failed => format!("{item} {failed} FAILED"),
        };
        let items: Vec<String> = self.items.iter().map(told).collect();
        format!(": {}", items.join(", "))
    }

    /// All items have run: the next time begins anew.
    pub fn over(&self, workspace: &Workspace) -> Result<()> {
        let path = path(workspace, &self.tier);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                Err(error).with_context(|| format!("cannot remove {}", path.display()))
            }
            _ => Ok(()),
        }
    }
}

fn path(workspace: &Workspace, tier: &str) -> PathBuf {
    let name: String = tier
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '-' })
        .collect();
    workspace.target().join(format!("x-progress-{name}.json"))
}
