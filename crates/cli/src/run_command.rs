//! `plimsoll run`: from the plan to the summary, the folder of the result and the exit status.

use crate::arguments::RunArguments;
use crate::console::{self, Console};
use crate::embedded::Embedded;
use crate::exit_status::ExitStatus;
use crate::failure::Failure;
use crate::interruption;
use crate::plan::{Disk, EMBEDDED_BROKERS, Plan, Secured};
use crate::progress;
use crate::result_folder::{ResultFolder, SERIES_FILE};
use client::clock::RunClock;
use load::plan::{Ended, Interrupt, LoadError, LoadEvent, Sink};
use model::fault::Notice;
use model::result::{Event, PhaseName, RunResult, Warning};
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::sync::Arc;

/// Runs a workload on a target. `command` is the command line as it was typed, without its secrets.
///
/// # Errors
/// When nothing was measured: the plan is faulty, or the run did not come as far as its load.
pub fn run(arguments: &RunArguments, command: Vec<String>) -> Result<ExitStatus, Failure> {
    let plan = Plan::resolve(arguments, &Disk)?;
    if arguments.dry_run {
        return crate::print(&plan.describe());
    }
    let console = Arc::new(Console::new(arguments.quiet));
    let interrupt = interruption::interrupts_run(Arc::clone(&console))?;
    let clock = RunClock::start();
    let folder = ResultFolder::create(&plan.output, clock.wall_start(), &plan.workload.name);
    let folder = folder.map_err(|error| {
        Failure::failed(format!(
            "{error}; the result of the run would be lost, so nothing was started: choose another --output"
        ))
    })?;
    let mut sink = RunSink {
        console: Arc::clone(&console),
        folder,
    };
    let notices = plan.notices.clone();
    match load(plan, command, clock, &interrupt, &mut sink) {
        Ok(ended) => finish(ended, notices, sink, arguments.json),
        Err(failure) => {
            console.end_progress();
            if let Err(error) = sink.folder.discard() {
                console.warn(&error.to_string());
            }
            Err(failure)
        }
    }
}

/// The run itself. Brokers that were started for it have ended when this returns.
fn load(
    plan: Plan,
    command: Vec<String>,
    clock: RunClock,
    interrupt: &Interrupt,
    sink: &mut RunSink,
) -> Result<Ended, Failure> {
    let console = Arc::clone(&sink.console);
    plan.notices
        .iter()
        .for_each(|notice| console.warn(&notice.to_string()));
    for property in &plan.target.not_honoured {
        console.warn(&format!(
            "{} = {} has no effect: {}",
            property.name, property.value, property.why
        ));
    }
    let embedded = if plan.embedded {
        let embedded = Embedded::start(
            EMBEDDED_BROKERS,
            plan.broker_script.as_deref(),
            plan.broker_request_log.as_deref(),
            plan.broker_secured.as_deref(),
        )?;
        let bootstrap = embedded.bootstrap();
        console.step(&format!(
            "no cluster named: started {EMBEDDED_BROKERS} embedded brokers for this run, in memory, at {bootstrap}"
        ));
        Some(embedded)
    } else {
        None
    };
    let run_id = plan.run_id.unwrap_or_else(new_run_id);
    let secured = match &plan.broker_secured {
        Some(folder) => Some(Secured::read(folder)?),
        None => None,
    };
    let load_plan = plan.for_load(
        run_id,
        command,
        embedded.as_ref().map(Embedded::bootstrap),
        secured,
    )?;
    load::run(load_plan, clock, interrupt, sink).map_err(|error| match error {
        LoadError::Interrupted => Failure {
            status: ExitStatus::Interrupted,
            messages: vec![format!("{error}; nothing was measured")],
        },
        error => Failure::of_error(&error),
    })
}

/// What remains of a run that came as far as its load.
fn finish(ended: Ended, notices: Vec<Notice>, sink: RunSink, as_json: bool) -> Result<ExitStatus, Failure> {
    let Ended {
        mut result,
        sink_error,
    } = ended;
    let RunSink { console, folder } = sink;
    console.end_progress();
    let found_before = notices.iter().map(|notice| Warning {
        code: notice.code.to_owned(),
        text: notice.to_string(),
    });
    result.warnings.splice(0..0, found_before);
    result.files.series = Some(SERIES_FILE.to_owned());
    let mut troubles: Vec<String> = sink_error
        .iter()
        .map(|error| format!("{error}; the run was ended, and its figures stand up to then"))
        .collect();
    let document = report::json::render(&result)
        .map_err(|error| Failure::failed(format!("the result cannot be written as JSON: {error}")))?;
    let written = folder.write_result(&document);
    let place = folder.path().display().to_string();
    let text = match as_json {
        true => String::from_utf8_lossy(&document).into_owned(),
        false => {
            let result_folder = written.is_ok().then_some(place.as_str());
            report::terminal::render(&result, report::terminal::Options { result_folder })
        }
    };
    troubles.extend(written.err().map(|error| error.to_string()));
    if let Err(error) = console::print(&text) {
        troubles.push(format!("the summary cannot be written: {error}"));
    }
    if !troubles.is_empty() {
        return Err(Failure {
            status: ExitStatus::Failed,
            messages: troubles,
        });
    }
    let status = ExitStatus::of_result(&result);
    if let Some(reason) = reason(&result, status) {
        console.error(&reason);
    }
    Ok(status)
}

/// Why the exit status is not 0, in one sentence.
fn reason(result: &RunResult, status: ExitStatus) -> Option<String> {
    let totals = &result.whole_run;
    match status {
        ExitStatus::Done | ExitStatus::Usage => None,
        ExitStatus::Interrupted => {
            Some("the run was interrupted; the figures are those of what ran".to_owned())
        }
        ExitStatus::ObjectiveMissed => {
            let missed = result.objectives.iter().filter(|outcome| !outcome.kept);
            let missed: Vec<&str> = missed.map(|outcome| outcome.objective.as_str()).collect();
            Some(format!("objective missed: {}", missed.join(", ")))
        }
        ExitStatus::Damaged => {
            let found = totals.verification.unwrap_or_default();
            Some(format!(
                "records were damaged: {} lost, {} duplicated, {} reordered, {} corrupt",
                found.lost_count.unwrap_or(0),
                found.duplicated_count,
                found.reordered_count,
                found.corrupt_count
            ))
        }
        ExitStatus::Failed => {
            let failed = totals.refused_count + totals.unknown_count + totals.unfinished_count;
            let because = result.status.reason.clone();
            let failed = (failed > 0 || because.is_none()).then(|| {
                format!(
                    "{failed} of {} records sent were not acknowledged: {} refused, {} unknown, {} unfinished",
                    totals.sent_count, totals.refused_count, totals.unknown_count, totals.unfinished_count
                )
            });
            Some(because.into_iter().chain(failed).collect::<Vec<_>>().join("; "))
        }
    }
}

/// A number that no other run has: the hash keys that the standard library draws at random for the process.
fn new_run_id() -> u64 {
    RandomState::new().hash_one(std::process::id())
}

/// Where the load tells what happens: the console and the interval log.
struct RunSink {
    console: Arc<Console>,
    folder: ResultFolder,
}

impl Sink for RunSink {
    fn take(&mut self, event: LoadEvent<'_>) -> io::Result<()> {
        match event {
            LoadEvent::Step(text) => self.console.step(text),
            LoadEvent::Warning(warning) => self.console.warn(&warning.text),
            LoadEvent::PhaseStarted(phase) => {
                if !self.console.is_terminal() {
                    self.console.step(phase_started(phase));
                }
            }
            LoadEvent::Progress(progress) => {
                let line = match self.console.is_terminal() {
                    true => progress::terminal_line(&progress, self.console.columns()),
                    false => progress::plain_line(&progress),
                };
                self.console.progress(&line);
            }
            LoadEvent::Happened(event) => self.console.step(&happened(event)),
            LoadEvent::Series(lines) => self.folder.append_series(lines)?,
        }
        Ok(())
    }
}

/// What happened, and where, unless the event's own words tell.
fn happened(event: &Event) -> String {
    let broker = event.broker.map(|broker| format!("broker {broker}"));
    let places = event.partition.clone().into_iter().chain(broker);
    let untold: Vec<String> = places.filter(|place| !event.label.contains(place)).collect();
    if untold.is_empty() {
        event.label.clone()
    } else {
        format!("{}: {}", untold.join(", "), event.label)
    }
}

fn phase_started(phase: PhaseName) -> &'static str {
    match phase {
        PhaseName::Prepare => "preparing",
        PhaseName::WarmUp => "warm-up begins",
        PhaseName::Measure => "measuring begins",
        PhaseName::Stop => "waiting for what was sent",
    }
}
