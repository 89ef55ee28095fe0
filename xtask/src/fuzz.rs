//! `cargo x fuzz`: every decoder of both sides fed with damaged input, each target for so long.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::status;
use crate::test::{Counts, counted, ended};
use crate::tier::Progress;
use crate::workspace::Workspace;

/// How much longer than it was told to run a target may take before it is taken to hang.
const GRACE: Duration = Duration::from_secs(60);
/// Targets at a time: the machine that has the least has two CPUs.
const AT_A_TIME: usize = 2;

#[derive(clap::Args)]
pub struct Arguments {
    /// Seconds for each target, two of which run at a time; goes on where it stopped
    #[arg(long, default_value_t = 300)]
    seconds: u64,
    /// What all inputs follow from; by default the time of day, so that each run sees others
    #[arg(long)]
    seed: Option<u64>,
    /// Only this target
    #[arg(long)]
    target: Option<String>,
    /// Runs the inputs that once were findings, or this file, and makes none
    #[arg(long, num_args = 0..=1, default_missing_value = "fuzz/regressions")]
    replay: Option<String>,
}

/// Runs all targets; those that passed on this commit, in a run that was cut short, are not run again.
pub fn run(workspace: &Workspace, arguments: &Arguments) -> Result<ExitCode> {
    let start = Instant::now();
    let built = workspace
        .cargo()
        .args(["build", "--profile", "fuzz", "--package", "fuzz"])
        .status()?;
    ensure!(built.success(), "the fuzz targets cannot be built");
    let program = workspace.target().join("fuzz/fuzz");
    let listed = Command::new(&program).arg("--list").output()?;
    let listed = String::from_utf8(listed.stdout)?;
    let targets: Vec<&str> = listed
        .lines()
        .filter(|name| arguments.target.as_deref().is_none_or(|wanted| wanted == *name))
        .collect();
    ensure!(
        !targets.is_empty(),
        "there is no such target; there are: {}",
        listed.replace('\n', " ")
    );
    if let Some(path) = &arguments.replay {
        let mut counts = Counts::default();
        for target in targets {
            let outcome = replay(workspace, &program, target, path);
            counts += counted(target, outcome);
        }
        return ended(workspace, "fuzz --replay", start, counts, "");
    }
    let seed = arguments.seed.unwrap_or_else(status::now_seconds);
    eprintln!("seed {seed}, {} s a target", arguments.seconds);
    // What has passed for a shorter time, or alone, has not passed this.
    let tier = match &arguments.target {
        Some(target) => format!("fuzz {target}"),
        None => "fuzz".to_owned(),
    };
    let mut progress = Progress::of(workspace, &format!("{tier} {}", arguments.seconds))?;
    let open: Vec<&str> = targets
        .iter()
        .copied()
        .filter(|target| match progress.passed(target) {
            Some(_) => {
                eprintln!("{target}: passed before on this commit");
                false
            }
            None => true,
        })
        .collect();
    let mut all_inputs = 0;
    for some in open.chunks(AT_A_TIME) {
        let outcomes = std::thread::scope(|scope| {
            let running: Vec<_> = some
                .iter()
                .map(|target| scope.spawn(|| feed(workspace, &program, target, seed, arguments.seconds)))
                .collect();
            running
                .into_iter()
                .map(|thread| thread.join().expect("no panic in it"))
                .collect::<Vec<_>>()
        });
        for (target, outcome) in some.iter().zip(outcomes) {
            let outcome = outcome.map(|(counts, inputs)| {
                all_inputs += inputs;
                counts
            });
            progress.ended(workspace, target, counted(target, outcome))?;
        }
    }
    let counts = progress.sum();
    let besides = format!(
        "{}, {} s each, seed {seed}, {all_inputs} inputs",
        progress.told(),
        arguments.seconds
    );
    progress.over(workspace)?;
    ended(workspace, &tier, start, counts, &besides)
}

/// The inputs that are kept for a target, or the one at `path`.
fn replay(workspace: &Workspace, program: &Path, target: &str, path: &str) -> Result<Counts> {
    let status = Command::new(program)
        .args([target, "--replay", path])
        .current_dir(workspace.root())
        .stdin(Stdio::null())
        .status()?;
    ensure!(status.success(), "{target} ended with {status}");
    Ok(Counts { passed: 1, failed: 0 })
}

/// Feeds one target, after what once was a finding; a new one is kept under `fuzz/regressions/`. Gives the number of inputs too.
fn feed(
    workspace: &Workspace,
    program: &Path,
    target: &str,
    seed: u64,
    seconds: u64,
) -> Result<(Counts, u64)> {
    replay(workspace, program, target, "fuzz/regressions")?;
    let progress = workspace.target().join(format!("fuzz-{target}.number"));
    let length = Duration::from_secs(seconds);
    let (seed, seconds) = (seed.to_string(), seconds.to_string());
    let common = [target, "--seed", &seed];
    let mut child = Command::new(program)
        .args(common)
        .args(["--seconds", &seconds, "--progress", &progress.to_string_lossy()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    let is_over = ends_within(&mut child, length + GRACE)?;
    if !is_over {
        child.kill()?;
    }
    let output = child.wait_with_output()?;
    if output.status.success() {
        let text = String::from_utf8_lossy(&output.stdout);
        let inputs: u64 = text.trim().parse().context("the target tells no number")?;
        let rate = inputs / length.as_secs().max(1);
        println!("{target}: {inputs} inputs in {seconds} s, {rate} a second");
        return Ok((Counts { passed: 1, failed: 0 }, inputs));
    }
    let kept = fs::read(&progress).with_context(|| format!("cannot read {}", progress.display()))?;
    let number = u64::from_le_bytes(kept.try_into().ok().context("no whole number was kept")?);
    let name = format!("fuzz/regressions/{target}-{seed}-{number}");
    let written = Command::new(program)
        .args(common)
        .args(["--from", &number.to_string(), "--write", &name])
        .current_dir(workspace.root())
        .status()?;
    ensure!(
        written.success(),
        "{target}: input {number} of seed {seed} cannot be written"
    );
    let said = match is_over {
        true => String::from_utf8_lossy(&output.stderr),
        false => "it does not come to an end".into(),
    };
    eprintln!(
        "{target}: a finding: {}\n{}\nit is kept; run it again with: cargo x fuzz --target {target} --replay {name}",
        output.status,
        said.trim()
    );
    Ok((Counts { passed: 0, failed: 1 }, number))
}

/// Waits for a process, and says whether it has ended by then. What it says meanwhile fits into its pipes.
fn ends_within(child: &mut Child, limit: Duration) -> Result<bool> {
    let start = Instant::now();
    while child.try_wait()?.is_none() {
        if start.elapsed() > limit {
            return Ok(false);
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(true)
}
