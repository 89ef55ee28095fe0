//! `cargo x bench`: what plimsoll reaches and what it costs, with embedded brokers and beside other tools on real Kafka.
//!
//! Everything is measured as `plimsoll run` does it: stamps, histograms, series and the default payload are on. Each figure
//! is the median over rounds, and a round takes all cases and tools in turn, so that a disturbance of the machine falls on
//! all of them. Figures are printed as tables, and every round's are written to `target/bench.json`.

mod child;
mod embedded;
mod expectation;
mod figures;
mod kafka_perf_tools;
mod plimsoll;
mod rdkafka_performance;
mod real_kafka;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde::Serialize;

use crate::status;
use crate::workspace::Workspace;
use expectation::Expectation;
use figures::Section;
use plimsoll::Plimsoll;
use rdkafka_performance::RdkafkaPerformance;

/// How long one program may take, whatever it does.
const ONE_PROGRAM: Duration = Duration::from_secs(300);

/// Set by SIGINT and SIGTERM: what runs is ended, and brokers are brought down before this process ends.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

#[derive(clap::Args)]
pub struct Arguments {
    /// One part alone
    #[arg(long, value_enum)]
    only: Option<Part>,
    /// Rounds; each figure is the median over them
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=99))]
    rounds: u32,
    /// Length of one measurement with embedded brokers; those on real Kafka take about twice as long
    #[arg(long, value_name = "S", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=60))]
    seconds: u32,
    /// No round begins that would probably end later than this after the start
    #[arg(long, value_name = "MINUTES", default_value_t = 45, value_parser = clap::value_parser!(u32).range(1..=1440))]
    at_most: u32,
    /// librdkafka's rdkafka_performance; else that of target/peers/librdkafka, or the one on the PATH
    #[arg(long, value_name = "PATH")]
    rdkafka_performance: Option<PathBuf>,
    /// Measure this plimsoll, instead of building the one that is here
    #[arg(long, value_name = "PATH")]
    binary: Option<PathBuf>,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// Embedded brokers
    Embedded,
    /// Real Kafka, beside other tools
    Kafka,
}

/// What the parts share: what is to be measured, for how long, and until when.
struct Bench<'a> {
    workspace: &'a Workspace,
    plimsoll: Plimsoll,
    rdkafka_performance: Option<RdkafkaPerformance>,
    rounds: u32,
    seconds: u32,
    deadline: Instant,
}

/// What one part found.
#[derive(Default)]
struct Findings {
    sections: Vec<Section>,
    expectations: Vec<Expectation>,
    /// What the reader must know: peers that are missing, rounds that were left out.
    notes: Vec<String>,
}

/// `target/bench.json`.
#[derive(Serialize)]
struct Report {
    commit: Option<String>,
    plimsoll: String,
    kafka: &'static str,
    librdkafka: Option<String>,
    cpus_count: Option<usize>,
    load_average_before: Option<f64>,
    rounds_count: u32,
    measurement_seconds: u32,
    took_seconds: u64,
    sections: Vec<Section>,
    expectations: Vec<Expectation>,
    notes: Vec<String>,
}

/// `cargo x bench`. It fails where something could not be measured that should have been; an expectation that is not met
/// is told, and is no failure, since it depends on the machine.
pub fn run(workspace: &Workspace, arguments: &Arguments) -> Result<ExitCode> {
    let start = Instant::now();
    let outcome = measure(workspace, arguments, start);
    let (succeeded, summary) = match &outcome {
        Ok(summary) => (true, summary.clone()),
        Err(error) => (
            false,
            format!("{error:#}").lines().next().unwrap_or_default().to_owned(),
        ),
    };
    status::record(workspace, "bench", start.elapsed(), succeeded, summary)?;
    println!("bench: {}", outcome?);
    Ok(ExitCode::SUCCESS)
}

/// Runs the parts; a one-line summary.
fn measure(workspace: &Workspace, arguments: &Arguments, start: Instant) -> Result<String> {
    // Children get a terminal's Ctrl-C too; their end is then this chore's end.
    ctrlc::set_handler(|| INTERRUPTED.store(true, Ordering::Relaxed)).context("signals cannot be handled")?;
    let program = match &arguments.binary {
        Some(program) => {
            fs::canonicalize(program).with_context(|| format!("there is no {}", program.display()))?
        }
        None => built(workspace)?,
    };
    let folder = workspace.target().join("bench");
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    let plimsoll = Plimsoll::new(program, &folder);
    let version = plimsoll.version()?;
    let cpus_count = std::thread::available_parallelism().ok().map(usize::from);
    let load_average_before = load_average();
    let mut all = Findings::default();
    if let (Some(load), Some(cpus)) = (load_average_before, cpus_count)
        && load > 0.25 * cpus as f64
    {
        all.notes.push(format!(
            "the machine was busy before the start, with a load average of {load:.1} on {cpus} CPUs: the figures are too low"
        ));
    }
    let rdkafka_performance = match (arguments.only, &arguments.rdkafka_performance) {
        (Some(Part::Embedded), _) => None,
        (_, named) => RdkafkaPerformance::find(workspace, named.as_deref())?,
    };
    let bench = Bench {
        workspace,
        plimsoll,
        rdkafka_performance,
        rounds: arguments.rounds,
        seconds: arguments.seconds,
        deadline: start + Duration::from_secs(60 * u64::from(arguments.at_most)),
    };
    println!(
        "{version}; medians over rounds; spread: largest less smallest over the median, of the first column"
    );
    type Measure = fn(&Bench<'_>) -> Result<Findings>;
    let parts: [(Part, Measure); 2] = [
        (Part::Embedded, embedded::measure),
        (Part::Kafka, real_kafka::measure),
    ];
    for (part, measure) in parts {
        if arguments.only.is_none_or(|only| only == part) {
            let found = measure(&bench)?;
            for section in &found.sections {
                print!("\n{section}");
            }
            all.sections.extend(found.sections);
            all.expectations.extend(found.expectations);
            all.notes.extend(found.notes);
        }
    }
    fs::remove_dir_all(&folder).with_context(|| format!("cannot remove {}", folder.display()))?;
    print!("\n{}", expectation::table(&all.expectations));
    for note in &all.notes {
        println!("note: {note}");
    }
    let summary = expectation::summary(&all.expectations);
    let report = Report {
        commit: workspace.commit(),
        plimsoll: version,
        kafka: crate::kafka::DEFAULT_VERSION,
        librdkafka: bench.rdkafka_performance.map(|found| found.version().to_owned()),
        cpus_count,
        load_average_before,
        rounds_count: arguments.rounds,
        measurement_seconds: arguments.seconds,
        took_seconds: start.elapsed().as_secs(),
        sections: all.sections,
        expectations: all.expectations,
        notes: all.notes,
    };
    let path = workspace.target().join("bench.json");
    fs::write(&path, serde_json::to_vec_pretty(&report)?)
        .with_context(|| format!("cannot write {}", path.display()))?;
    println!("every round's figures: {}", path.display());
    Ok(summary)
}

impl Bench<'_> {
    /// Calls `round` for each round that there is time for, with the round's number from 0. A note where some are left out.
    fn rounds(&self, mut round: impl FnMut(u32) -> Result<()>) -> Result<Option<String>> {
        let mut longest = Duration::ZERO;
        for number in 0..self.rounds {
            let start = Instant::now();
            if number > 0 && start + longest > self.deadline {
                return Ok(Some(format!(
                    "the time was up after {number} of {} rounds: --at-most gives more",
                    self.rounds
                )));
            }
            eprintln!("round {} of {}", number + 1, self.rounds);
            round(number)?;
            longest = longest.max(start.elapsed());
        }
        Ok(None)
    }
}

/// The release binary of the sources that are here.
fn built(workspace: &Workspace) -> Result<PathBuf> {
    eprintln!("building the release binary");
    let status = workspace
        .cargo()
        .args(["build", "--release", "--package", "cli"])
        .status()?;
    ensure!(status.success(), "the release binary cannot be built");
    Ok(workspace.target().join("release/plimsoll"))
}

/// An error once this chore was told to end.
fn ensure_not_interrupted() -> Result<()> {
    if INTERRUPTED.load(Ordering::Relaxed) {
        bail!("interrupted");
    }
    Ok(())
}

/// Processes that ran or wanted to, over the last minute (proc(5), `/proc/loadavg`).
fn load_average() -> Option<f64> {
    let text = fs::read_to_string(Path::new("/proc/loadavg")).ok()?;
    text.split_whitespace().next()?.parse().ok()
}
