//! Where the sources and Cargo's output stand, and on which commit.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

/// The workspace that a chore works on.
pub struct Workspace {
    root: PathBuf,
    target: PathBuf,
}

impl Workspace {
    /// Asks Cargo for the target directory, so that `CARGO_TARGET_DIR` and `build.target-dir` mean what they mean there.
    ///
    /// Cargo says at run time where the sources are: a target directory that several clones share may hold a program that
    /// was built in another one.
    pub fn locate() -> Result<Self> {
        let manifest = std::env::var_os("CARGO_MANIFEST_DIR")
            .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
        let root = manifest.parent().context("xtask has no parent directory")?;
        let output = cargo()
            .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
            .current_dir(root)
            .output()
            .context("cannot run cargo metadata")?;
        ensure!(
            output.status.success(),
            "cargo metadata: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let metadata: serde_json::Value = serde_json::from_slice(&output.stdout)?;
        let target = metadata["target_directory"]
            .as_str()
            .context("cargo metadata names no target directory")?;
        Ok(Self {
            root: root.to_owned(),
            target: PathBuf::from(target),
        })
    }

    /// The directory of the workspace's `Cargo.toml`.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Cargo's output directory.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// `cargo`, to be run in the workspace's root.
    pub fn cargo(&self) -> Command {
        let mut command = cargo();
        command.current_dir(&self.root);
        command
    }

    /// The commit that is checked out, with `+changes` behind it where files differ from it; `None` outside a repository.
    pub fn commit(&self) -> Option<String> {
        let git = |arguments: &[&str]| {
            let output = Command::new("git")
                .args(arguments)
                .current_dir(&self.root)
                .output()
                .ok()?;
            output
                .status
                .success()
                .then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
        };
        let commit = git(&["rev-parse", "--short=12", "HEAD"])?;
        let changes = git(&["status", "--porcelain"])?;
        Some(if changes.is_empty() {
            commit
        } else {
            format!("{commit}+changes")
        })
    }
}

/// The `cargo` that runs this chore, so that its toolchain is the same.
fn cargo() -> Command {
    Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
}
