//! Feeds one target with damaged input for so long, in one process: `cargo x fuzz` runs all of them.
//!
//! An input follows from the seed and its number, so a finding is found again by the two. Memory is bounded: a target that asks
//! for more than an input can be worth ends the process. So is the time that an input takes.

mod mutation;
mod target;

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use cap::Cap;
use clap::Parser;

use mutation::Random;
use target::Target;

#[global_allocator]
static ALLOCATOR: Cap<std::alloc::System> = Cap::new(std::alloc::System, usize::MAX);

/// What any input may cost, and what each of its bytes may cost beyond. A byte may stand for an element of a list.
const FREE_BYTES: usize = 64 << 20;
const BYTES_PER_BYTE: usize = 1024;

/// No input may keep a target busy for longer, on a machine that does other things as well.
const LONGEST: Duration = Duration::from_secs(20);

#[derive(Parser)]
struct Arguments {
    /// The target; all names are listed by `--list`
    #[arg(required_unless_present = "list")]
    target: Option<String>,
    /// Names all targets
    #[arg(long)]
    list: bool,
    /// For how long inputs are made
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// What all inputs follow from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The first input's number
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Where the number of the input at hand is kept, so that it is known after an abrupt end
    #[arg(long)]
    progress: Option<PathBuf>,
    /// Runs the inputs of this file or directory and makes none
    #[arg(long)]
    replay: Option<PathBuf>,
    /// Writes the input of the number `--from` to this file and runs nothing
    #[arg(long)]
    write: Option<PathBuf>,
}

fn main() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    if arguments.list {
        for target in Target::all() {
            tell(target.name);
        }
        return Ok(ExitCode::SUCCESS);
    }
    let name = arguments.target.unwrap_or_default();
    let mut target =
        Target::named(&name).with_context(|| format!("there is no target {name}; see --list"))?;
    let make = target.input;
    let input = |number: u64| {
        let mut random = Random::new(arguments.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ number);
        make(&mut random)
    };
    if let Some(path) = &arguments.write {
        fs::write(path, input(arguments.from))?;
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(path) = &arguments.replay {
        for file in files(path, &name)? {
            tell(&format!("{}", file.display()));
            execute(&mut target, &fs::read(&file)?);
        }
        return Ok(ExitCode::SUCCESS);
    }
    let progress = arguments.progress.map(fs::File::create).transpose()?;
    let (start, length) = (Instant::now(), Duration::from_secs(arguments.seconds));
    let mut number = arguments.from;
    while !number.is_multiple_of(64) || start.elapsed() < length {
        if let Some(progress) = &progress {
            progress.write_all_at(&number.to_le_bytes(), 0)?;
        }
        execute(&mut target, &input(number));
        number += 1;
    }
    tell(&format!("{}", number - arguments.from));
    Ok(ExitCode::SUCCESS)
}

/// A panic, an allocation beyond the bound, or too long a time ends the process with a status other than 0.
fn execute(target: &mut Target, input: &[u8]) {
    let bound = FREE_BYTES + BYTES_PER_BYTE * input.len();
    // A target that keeps what it is given is bounded by itself.
    let _ = ALLOCATOR.set_limit(ALLOCATOR.allocated() + bound);
    let start = Instant::now();
    (target.run)(input);
    let took = start.elapsed();
    let _ = ALLOCATOR.set_limit(usize::MAX);
    assert!(took < LONGEST, "an input took {took:?}");
}

/// The file, or the target's files in the directory.
fn files(path: &Path, name: &str) -> Result<Vec<PathBuf>> {
    if path.is_file() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path).with_context(|| format!("cannot read {}", path.display()))? {
        let file = entry?.path();
        let is_of_target = file
            .file_name()
            .is_some_and(|file| file.to_string_lossy().starts_with(&format!("{name}-")));
        if is_of_target {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}

#[expect(clippy::print_stdout, reason = "its answer to whoever runs it")]
fn tell(text: &str) {
    println!("{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_once_was_a_finding_is_none_now() {
        for mut target in Target::all() {
            for file in files(Path::new("regressions"), target.name).expect("a readable directory") {
                (target.run)(&fs::read(&file).expect("a readable file"));
            }
        }
    }

    #[test]
    fn the_same_seed_makes_the_same_inputs_and_none_of_the_first_is_a_finding() {
        for mut target in Target::all() {
            for seed in 0..30 {
                let input = (target.input)(&mut Random::new(seed));
                assert_eq!(input, (target.input)(&mut Random::new(seed)));
                (target.run)(&input);
            }
        }
    }
}
