//! The summary that a run ends with: text for a terminal of 80 columns, the answer first.
//!
//! What was not measured is shown as a dash, with the reason where there is one; each warning stands beside what it
//! concerns.

mod accounting;
mod headline;
mod latency;
mod load;
mod troubles;
mod verdict;

use model::result::{PhaseName, RunResult, State, Totals};

use crate::wrap::wrapped;

/// What the summary says besides the result.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options<'a> {
    /// The folder that the result was written to, where it was.
    pub result_folder: Option<&'a str>,
}

/// The summary of a run, ended by a line feed.
pub fn render(result: &RunResult, options: Options<'_>) -> String {
    let mut text = headline::section(result);
    let sections = [
        if has_load(result) {
            accounting::section(result)
        } else {
            String::new()
        },
        latency::section(result),
        load::producing(result),
        load::brokers(result),
        load::generator(result),
        verdict::objectives(result),
        verdict::section(result),
        troubles::errors(result),
        troubles::warnings(result),
        troubles::left_behind(result),
    ];
    for section in sections.iter().filter(|section| !section.is_empty()) {
        text.push('\n');
        text.push_str(section);
    }
    if let Some(folder) = options.result_folder {
        text.push('\n');
        text.push_str(&wrapped("Result    ", folder));
        if let Some(series) = &result.files.series {
            text.push_str(&wrapped("Series    ", &format!("{folder}/{series}")));
        }
    }
    text
}

/// What sort of run it was, where the sections' words depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Manner {
    /// Records were sent.
    produces: bool,
    /// As fast as acknowledged: no schedule, and no due times.
    closed_loop: bool,
    /// No acknowledgements were asked for.
    acks_0: bool,
    /// Records were read.
    consumes: bool,
}

impl Manner {
    fn of(result: &RunResult) -> Self {
        let setting = |key: &str| result.workload.get(key).map(|setting| setting.value.as_str());
        let produces = setting("producersPerTopic") != Some("0");
        let acks = result
            .target
            .producer
            .get("acks")
            .map(|setting| setting.value.as_str());
        let totals = &result.whole_run;
        Manner {
            produces,
            closed_loop: produces && setting("producerRate") == Some("max"),
            acks_0: produces && (acks == Some("0") || totals.written_count.is_some()),
            consumes: setting("subscriptionsPerTopic") != Some("0")
                && setting("consumerPerSubscription") != Some("0"),
        }
    }
}

/// The measured phase's accounting, where the run came so far.
fn measured(result: &RunResult) -> Option<&Totals> {
    result.measured().and_then(|phase| phase.totals.as_ref())
}

/// The time over which records were sent or read, from the first phase with load to the last.
fn loaded_ns(result: &RunResult) -> Option<u64> {
    let is_loaded = |name: PhaseName| matches!(name, PhaseName::WarmUp | PhaseName::Measure);
    let loaded = || result.phases.iter().filter(|phase| is_loaded(phase.name));
    let start_ns = loaded().map(|phase| phase.start_ns).min()?;
    let end_ns = loaded().map(|phase| phase.end_ns).max()?;
    Some(end_ns.saturating_sub(start_ns))
}

/// Whether a record was sent or read at all.
fn has_load(result: &RunResult) -> bool {
    measured(result).is_some() || result.whole_run.sent_count > 0 || !result.whole_run.consumed.is_empty()
}

fn is_complete(result: &RunResult) -> bool {
    result.status.state == State::Complete
}
