//! `cargo x check`: what can be said of the sources without running them.

use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::{Context, Result, ensure};

use crate::status;
use crate::workspace::Workspace;

#[derive(clap::Args)]
pub struct Arguments {
    /// Install cargo-deny under the target directory where it is missing: it takes minutes to build
    #[arg(long)]
    deny: bool,
}

/// Runs every check, also after one has failed, so that one run shows all there is to mend.
pub fn run(workspace: &Workspace, arguments: &Arguments) -> Result<ExitCode> {
    let start = Instant::now();
    let clippy_of = |targets: &[&str]| {
        let mut command = workspace.cargo();
        command
            .arg("clippy")
            .args(targets)
            .args(["--quiet", "--", "-D", "warnings"]);
        command
    };
    let cargo = |arguments: &[&str]| {
        let mut command = workspace.cargo();
        command.args(arguments);
        command
    };
    let mut checks = vec![
        ("formatting", cargo(&["fmt", "--all", "--", "--check"])),
        ("clippy", clippy_of(&["--workspace", "--all-targets"])),
        // `--all-targets` passes over what plain `cargo test` passes over.
        (
            "clippy of the interop tests",
            clippy_of(&["--package", "xtask", "--test", "interop"]),
        ),
        (
            "house rules",
            cargo(&["test", "--quiet", "--package", "xtask", "--test", "tidy"]),
        ),
    ];
    match cargo_deny(workspace, arguments.deny)? {
        Some(program) => {
            let deny = |arguments: &[&str]| {
                let mut command = Command::new(&program);
                command
                    .args(["--log-level", "warn"])
                    .args(arguments)
                    .current_dir(workspace.root());
                command
            };
            checks.push((
                "licences, bans and sources",
                deny(&["check", "licenses", "bans", "sources"]),
            ));
            if deny(&["fetch", "db"]).output()?.status.success() {
                checks.push(("advisories", deny(&["check", "--disable-fetch", "advisories"])));
            } else {
                eprintln!("the advisory database cannot be reached: advisories are not checked");
            }
        }
        None => eprintln!(
            "cargo-deny is not installed: licences and advisories are not checked (--deny installs it)"
        ),
    }
    let mut failed = Vec::new();
    for (name, mut command) in checks {
        eprintln!("check: {name}");
        let status = command
            .status()
            .with_context(|| format!("cannot run the check {name}"))?;
        if !status.success() {
            failed.push(name);
        }
    }
    let summary = match failed.as_slice() {
        [] => "everything holds".to_owned(),
        failed => format!("{} failed", failed.join(", ")),
    };
    println!("check: {summary}");
    status::record(workspace, "check", start.elapsed(), failed.is_empty(), summary)?;
    Ok(if failed.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

/// `cargo-deny`: the one that Cargo would run, or the one under the target directory, which is installed if asked for.
fn cargo_deny(workspace: &Workspace, install: bool) -> Result<Option<PathBuf>> {
    let tools = workspace.target().join("tools");
    let runs = |program: &PathBuf| {
        Command::new(program)
            .arg("--version")
            .output()
            .is_ok_and(|run| run.status.success())
    };
    let installed = [PathBuf::from("cargo-deny"), tools.join("bin/cargo-deny")]
        .into_iter()
        .find(runs);
    if installed.is_some() || !install {
        return Ok(installed);
    }
    eprintln!("installing cargo-deny under {}", tools.display());
    let status = workspace
        .cargo()
        .args(["install", "--quiet", "--locked", "--root"])
        .arg(&tools)
        .arg("cargo-deny")
        .status()?;
    ensure!(status.success(), "cargo-deny cannot be installed");
    Ok(Some(tools.join("bin/cargo-deny")))
}
