//! Finds out which commit is built, for `--version`. Without Git, or outside this project's own repository, the version
//! stands alone.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let version = env!("CARGO_PKG_VERSION");
    let described = match commit() {
        Some(commit) => format!("{version} (commit {commit})"),
        None => version.to_owned(),
    };
    // Cargo reads these lines from the standard output.
    let lines = ["build.rs".to_owned()]
        .into_iter()
        .chain(git_files())
        .map(|path| format!("cargo::rerun-if-changed={path}"));
    let told: Vec<String> = lines
        .chain([format!("cargo::rustc-env=PLIMSOLL_VERSION={described}")])
        .collect();
    let written = std::io::Write::write_all(&mut std::io::stdout(), (told.join("\n") + "\n").as_bytes());
    written.expect("Cargo reads what a build script says");
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then(|| text.trim().to_owned())
}

fn commit() -> Option<String> {
    let root = PathBuf::from(git(&["rev-parse", "--show-toplevel"])?)
        .canonicalize()
        .ok()?;
    let ours = Path::new("../..").canonicalize().ok()?;
    if root != ours {
        return None;
    }
    git(&["rev-parse", "--short=10", "HEAD"])
}

/// What changes with each commit, so that the version is not that of an old one.
fn git_files() -> Vec<String> {
    let head = git(&["rev-parse", "--git-path", "HEAD"]);
    let branch = git(&["symbolic-ref", "--quiet", "HEAD"]);
    let branch = branch.and_then(|branch| git(&["rev-parse", "--git-path", &branch]));
    head.into_iter()
        .chain(branch)
        .filter(|path| Path::new(path).exists())
        .collect()
}
