//! Whether a run sustained its rate, and what held it back: rules over its figures.
//!
//! The generator is a suspect before the cluster is. In this order, the first that holds is named:
//!
//! 1. a **quota**, where brokers throttled the client and the rate was missed, or there was none to meet;
//! 2. the **generator**, where its control group was throttled: then its latencies are its own;
//! 3. the **generator**, where it had no CPU left: its busiest thread ran or waited for a CPU nearly all of the time, or
//!    all its CPUs were busy;
//! 4. the **generator**, where it was late against its schedule although no send buffer was full and the brokers answered
//!    faster than it was late;
//! 5. the **cluster**, where the rate was missed, or there was none to meet, and the generator is cleared of the above;
//! 6. **nothing**, where the rate was met.
//!
//! A rate that was met from a queue that stood in the producers all along, as one of an overloaded warm-up does, is not
//! called sustained: what is measured is the queue, and whether it drains takes longer than the run to say.
//!
//! A figure that was not measured clears nobody: where it would be needed, the limit is unknown.

use model::result::{Evidence, LimitedBy, Verdict};

use crate::trend::Slope;

/// Of the planned rate, what must have been achieved. Below it a cluster is taken to be saturated (the stop rule of AWS's
/// performance testing framework for Apache Kafka).
pub const ACHIEVED_RATIO: f64 = 0.995;
/// Of the records that were sent, how many may have failed.
pub const FAILED_RATIO: f64 = 1e-6;
/// A consumer backlog grows when the lower end of its slope is above this part of the rate.
pub const BACKLOG_RATIO: f64 = 0.002;
/// From this part of the time on a thread, or all CPUs of the generator, are taken to be busy.
pub const BUSY_RATIO: f64 = 0.95;
/// From this part of its periods on a control group's CPU limit is felt in the 99th percentile.
pub const CGROUP_THROTTLED_RATIO: f64 = 0.01;
/// From this part of the time on a broker's throttling is a bound.
pub const QUOTA_THROTTLED_RATIO: f64 = 0.01;
/// The 99th percentile of schedule lag that is always allowed.
pub const SCHEDULE_LAG_NS: u64 = 1_000_000;
/// The part of the objective that the 99th percentile of schedule lag may be.
pub const SCHEDULE_LAG_RATIO: f64 = 0.05;
/// Full buffers explain a 99th percentile of schedule lag from this part of the time on: half of the records beyond it.
pub const BUFFER_FULL_RATIO: f64 = 0.005;
/// In a closed loop, the part of the time for which requests or buffers must have been at their limit for the cluster to be
/// what was waited for.
pub const WINDOW_FULL_RATIO: f64 = 0.5;
/// A median of queue time, without linger, from which on a queue stands in the producers.
pub const STANDING_QUEUE_NS: u64 = 1_000_000_000;

/// What was measured of the measuring phase. Not measured is None.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Figures {
    /// There was no rate to meet: as fast as the cluster acknowledges, or as a backlog can be read.
    pub closed_loop: bool,
    /// The rate that was asked for, in records per second.
    pub planned_per_second: Option<f64>,
    /// The rate at which records were acknowledged during the phase (written, with acks=0), in records per second.
    pub achieved_per_second: Option<f64>,
    /// Records due in the phase.
    pub due_count: Option<u64>,
    /// Records due in the phase that were not sent by its end.
    pub unsent_count: Option<u64>,
    /// Records due in the phase that were sent.
    pub sent_count: Option<u64>,
    /// Of those sent, how many were refused, have an unknown outcome or had none in time.
    pub failed_count: Option<u64>,
    /// How the backlog of the slowest group changed, in records per second. None where consumers were slowed on purpose.
    pub backlog_slope: Option<Slope>,
    /// The 99th percentile of response time.
    pub response_p99_ns: Option<u64>,
    /// What it was to be at most.
    pub objective_p99_ns: Option<u64>,
    /// Whether a term of the objectives was missed that is not about the 99th percentile of response time.
    pub other_objective_missed: Option<bool>,
    /// The 99th percentile of schedule lag.
    pub schedule_lag_p99_ns: Option<u64>,
    /// The median of queue time.
    pub queue_p50_ns: Option<u64>,
    /// How long records may wait on purpose (`linger.ms`).
    pub linger_ns: Option<u64>,
    /// The median of service time.
    pub service_p50_ns: Option<u64>,
    /// The 99th percentile of service time.
    pub service_p99_ns: Option<u64>,
    /// The part of the time for which the generator's busiest thread ran, not counting the spin before a due time.
    pub busiest_thread_ratio: Option<f64>,
    /// The part of the time for which that thread could have run and had no CPU.
    pub busiest_thread_waiting_ratio: Option<f64>,
    /// The CPU time of all of the generator as a part of what its CPU set and its control group's limit allow.
    pub generator_cpu_ratio: Option<f64>,
    /// The part of its control group's periods that ended throttled.
    pub cgroup_throttled_ratio: Option<f64>,
    /// The part of the time for which a producer's buffer was full.
    pub buffer_full_ratio: Option<f64>,
    /// The part of the time for which requests in flight were at their limit; when consuming, for which fetches were
    /// awaited although there was a backlog.
    pub in_flight_full_ratio: Option<f64>,
    /// The part of the time for which a broker throttled the client, at the broker that did so most.
    pub quota_throttled_ratio: Option<f64>,
}

/// Judges a run by its figures. The evidence has all that is out of bounds, what decided first.
pub fn judge(figures: &Figures) -> Verdict {
    let (limited_by, deciding) = limit(figures);
    let found = findings(figures);
    let (first, rest): (Vec<_>, Vec<_>) = found
        .into_iter()
        .partition(|(finding, _)| deciding.contains(finding));
    Verdict {
        sustained: sustained(figures),
        limited_by,
        evidence: first
            .into_iter()
            .chain(rest)
            .map(|(_, evidence)| evidence)
            .collect(),
    }
}

/// What can be out of bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Finding {
    Quota,
    Cgroup,
    ThreadBusy,
    AllCpusBusy,
    ScheduleLag,
    BufferFull,
    InFlightFull,
    RateMissed,
    Unsent,
    Backlog,
    Failed,
    Objective,
    Standing,
    Queueing,
}

fn limit(figures: &Figures) -> (LimitedBy, &'static [Finding]) {
    use Finding::{
        AllCpusBusy, Backlog, BufferFull, Cgroup, Failed, InFlightFull, Quota, RateMissed, ScheduleLag,
        Standing, ThreadBusy, Unsent,
    };
    let missed = figures.rate_missed() == Some(true) || figures.backlog_grew() == Some(true);
    let bound_by_something = figures.closed_loop || missed;
    let late = figures.late() == Some(true);

    if bound_by_something && figures.quota_throttled() == Some(true) {
        return (LimitedBy::Quota, &[Quota]);
    }
    if figures.cgroup_throttled() == Some(true) {
        return (LimitedBy::Generator, &[Cgroup]);
    }
    if (bound_by_something || late) && figures.busy() == Some(true) {
        return (LimitedBy::Generator, &[ThreadBusy, AllCpusBusy]);
    }
    if figures.closed_loop {
        return match (figures.busy(), figures.window_full()) {
            (Some(false), Some(true)) => (LimitedBy::Cluster, &[InFlightFull, BufferFull]),
            _ => (LimitedBy::Unknown, &[]),
        };
    }
    if missed && figures.failed_too_many() == Some(true) {
        // What was handed over and not taken is what is missing, however late some of it was handed over.
        return (LimitedBy::Cluster, &[Failed, RateMissed]);
    }
    if late && figures.late_beyond_the_cluster() == Some(true) {
        return (LimitedBy::Generator, &[ScheduleLag]);
    }
    if missed {
        // Full buffers are the cluster's doing whatever else was measured; otherwise the generator must be cleared.
        let full = figures.buffer_full() == Some(true);
        let cleared = figures.busy() == Some(false) && figures.late().is_some();
        return if full || cleared {
            (LimitedBy::Cluster, &[BufferFull, RateMissed, Unsent, Backlog])
        } else {
            (LimitedBy::Unknown, &[])
        };
    }
    match figures.rate_missed() {
        Some(_) if figures.queue_stands() == Some(true) => (LimitedBy::Unknown, &[Standing]),
        Some(_) => (LimitedBy::Nothing, &[]),
        None => (LimitedBy::Unknown, &[]),
    }
}

fn sustained(figures: &Figures) -> Option<bool> {
    if figures.closed_loop {
        return None;
    }
    let rate_missed = figures.rate_missed()?;
    if rate_missed || figures.backlog_grew() == Some(true) || figures.failed() == Some(true) {
        return Some(false);
    }
    // From here on the rate is known to be kept. What the generator, or a quota, added to latency is not the cluster's: of
    // such a run it cannot be told what the cluster would have done.
    let disturbed = figures.cgroup_throttled() == Some(true)
        || figures.quota_throttled() == Some(true)
        || figures.queue_stands() == Some(true)
        || (figures.late() == Some(true)
            && (figures.busy() == Some(true) || figures.late_beyond_the_cluster() != Some(false)));
    (!disturbed).then_some(figures.objective_missed() != Some(true))
}

impl Figures {
    fn rate_missed(&self) -> Option<bool> {
        let unsent = match (self.unsent_count, self.due_count) {
            (Some(unsent), Some(due)) => Some(unsent as f64 > due as f64 * (1.0 - ACHIEVED_RATIO)),
            _ => None,
        };
        let slow = match (self.achieved_per_second, self.planned_per_second) {
            (Some(achieved), Some(planned)) => Some(achieved < planned * ACHIEVED_RATIO),
            _ => None,
        };
        either(unsent, slow)
    }

    fn backlog_grew(&self) -> Option<bool> {
        let rate = self.planned_per_second.or(self.achieved_per_second)?;
        Some(self.backlog_slope?.lower_per_second > rate * BACKLOG_RATIO)
    }

    fn failed(&self) -> Option<bool> {
        Some(self.failed_count? as f64 > self.sent_count? as f64 * FAILED_RATIO)
    }

    /// So many failed that the rate was missed by them alone.
    fn failed_too_many(&self) -> Option<bool> {
        Some(self.failed_count? as f64 > self.sent_count? as f64 * (1.0 - ACHIEVED_RATIO))
    }

    fn objective_missed(&self) -> Option<bool> {
        either(self.response_p99_missed(), self.other_objective_missed)
    }

    fn response_p99_missed(&self) -> Option<bool> {
        Some(self.response_p99_ns? > self.objective_p99_ns?)
    }

    fn quota_throttled(&self) -> Option<bool> {
        Some(self.quota_throttled_ratio? >= QUOTA_THROTTLED_RATIO)
    }

    fn cgroup_throttled(&self) -> Option<bool> {
        Some(self.cgroup_throttled_ratio? >= CGROUP_THROTTLED_RATIO)
    }

    fn thread_busy(&self) -> Option<bool> {
        let waiting = self.busiest_thread_waiting_ratio.unwrap_or(0.0);
        Some(self.busiest_thread_ratio? + waiting >= BUSY_RATIO)
    }

    fn all_cpus_busy(&self) -> Option<bool> {
        Some(self.generator_cpu_ratio? >= BUSY_RATIO)
    }

    fn busy(&self) -> Option<bool> {
        either(self.thread_busy(), self.all_cpus_busy())
    }

    fn schedule_lag_bound_ns(&self) -> u64 {
        let of_objective = self
            .objective_p99_ns
            .map_or(0, |ns| (ns as f64 * SCHEDULE_LAG_RATIO) as u64);
        SCHEDULE_LAG_NS.max(of_objective)
    }

    fn late(&self) -> Option<bool> {
        Some(self.schedule_lag_p99_ns? > self.schedule_lag_bound_ns())
    }

    fn buffer_full(&self) -> Option<bool> {
        Some(self.buffer_full_ratio? >= BUFFER_FULL_RATIO)
    }

    // Given that it was late: whether neither full buffers nor slow answers account for it.
    fn late_beyond_the_cluster(&self) -> Option<bool> {
        let buffer_full = self.buffer_full()?;
        let answers_are_slower = self.service_p99_ns? >= self.schedule_lag_p99_ns?;
        Some(!buffer_full && !answers_are_slower)
    }

    fn window_full(&self) -> Option<bool> {
        let full = |ratio: Option<f64>| ratio.map(|ratio| ratio >= WINDOW_FULL_RATIO);
        either(full(self.in_flight_full_ratio), full(self.buffer_full_ratio))
    }

    fn queue_stands(&self) -> Option<bool> {
        let on_purpose_ns = self.linger_ns.unwrap_or(0);
        let queue_ns = self.queue_p50_ns?.saturating_sub(on_purpose_ns);
        Some(!self.closed_loop && queue_ns >= STANDING_QUEUE_NS)
    }

    // The send buffer, not the cluster, is where the time went. Five times leaves room for linger and batching.
    fn queueing(&self) -> Option<bool> {
        Some(self.queue_p50_ns? > self.service_p50_ns?.saturating_mul(5) && self.buffer_full() == Some(true))
    }
}

/// True when one is; unknown when neither is known.
fn either(a: Option<bool>, b: Option<bool>) -> Option<bool> {
    match (a, b) {
        (None, None) => None,
        (a, b) => Some(a == Some(true) || b == Some(true)),
    }
}

fn findings(figures: &Figures) -> Vec<(Finding, Evidence)> {
    let mut found = Vec::new();
    let mut add = |finding, holds: Option<bool>, evidence: Option<Evidence>| {
        if let (Some(true), Some(evidence)) = (holds, evidence) {
            found.push((finding, evidence));
        }
    };
    let f = figures;
    add(
        Finding::Quota,
        f.quota_throttled(),
        f.quota_throttled_ratio.map(quota_text),
    );
    add(
        Finding::Cgroup,
        f.cgroup_throttled(),
        f.cgroup_throttled_ratio.map(cgroup_text),
    );
    add(
        Finding::ThreadBusy,
        f.thread_busy(),
        f.busiest_thread_ratio.map(|ratio| thread_text(f, ratio)),
    );
    add(
        Finding::AllCpusBusy,
        f.all_cpus_busy(),
        f.generator_cpu_ratio.map(all_cpus_text),
    );
    add(
        Finding::ScheduleLag,
        f.late(),
        f.schedule_lag_p99_ns.map(|lag_ns| lag_text(f, lag_ns)),
    );
    add(
        Finding::BufferFull,
        f.buffer_full(),
        f.buffer_full_ratio.map(buffer_text),
    );
    let in_flight_full = f.in_flight_full_ratio.map(|ratio| ratio >= WINDOW_FULL_RATIO);
    add(
        Finding::InFlightFull,
        in_flight_full,
        f.in_flight_full_ratio.map(in_flight_text),
    );
    add(Finding::RateMissed, f.rate_missed(), rate_text(f));
    add(
        Finding::Unsent,
        f.unsent_count.map(|unsent| unsent > 0),
        unsent_text(f),
    );
    add(
        Finding::Backlog,
        f.backlog_grew(),
        f.backlog_slope.map(backlog_text),
    );
    add(
        Finding::Failed,
        f.failed_count.map(|failed| failed > 0),
        failed_text(f),
    );
    add(Finding::Objective, f.response_p99_missed(), objective_text(f));
    // Where something else was out of bounds, it is what the queue comes from.
    add(
        Finding::Standing,
        Some(limit(f).1.contains(&Finding::Standing)),
        f.queue_p50_ns.map(standing_text),
    );
    add(Finding::Queueing, f.queueing(), queueing_text(f));
    found
}

fn quota_text(ratio: f64) -> Evidence {
    let text = format!(
        "a broker throttled this client for {} of the time: a quota, not the cluster's capacity",
        percent(ratio)
    );
    evidence("quota-throttled", text, ratio, "ratio")
}

fn cgroup_text(ratio: f64) -> Evidence {
    let text = format!(
        "the generator's CPU limit (cgroup) stopped it in {} of its periods: latencies are limited by the client",
        percent(ratio)
    );
    evidence("cgroup-throttled", text, ratio, "ratio")
}

fn thread_text(figures: &Figures, ratio: f64) -> Evidence {
    let waiting = match figures.busiest_thread_waiting_ratio {
        Some(waiting) if waiting >= 0.01 => format!(" and waited for a CPU for {}", percent(waiting)),
        _ => String::new(),
    };
    let text = format!(
        "the load generator's busiest thread ran for {} of the time{waiting}",
        percent(ratio)
    );
    evidence("generator-thread-busy", text, ratio, "ratio")
}

fn all_cpus_text(ratio: f64) -> Evidence {
    let text = format!(
        "the load generator used {} of the CPU time that it may use",
        percent(ratio)
    );
    evidence("generator-cpu-busy", text, ratio, "ratio")
}

fn lag_text(figures: &Figures, lag_ns: u64) -> Evidence {
    let text = format!(
        "records were handed to the producer late: schedule lag p99 {}, allowed {}",
        duration(lag_ns),
        duration(figures.schedule_lag_bound_ns())
    );
    evidence("schedule-lag", text, lag_ns as f64, "ns")
}

fn buffer_text(ratio: f64) -> Evidence {
    let text = format!("the send buffer was full for {} of the time", percent(ratio));
    evidence("send-buffer-full", text, ratio, "ratio")
}

fn in_flight_text(ratio: f64) -> Evidence {
    let text = format!(
        "requests in flight were at their limit for {} of the time",
        percent(ratio)
    );
    evidence("in-flight-full", text, ratio, "ratio")
}

fn rate_text(figures: &Figures) -> Option<Evidence> {
    let (achieved, planned) = (figures.achieved_per_second?, figures.planned_per_second?);
    let text = format!(
        "{achieved:.0} records per second were acknowledged, {} of the {planned:.0} asked for",
        percent(achieved / planned)
    );
    Some(evidence("rate-missed", text, achieved, "records per second"))
}

fn unsent_text(figures: &Figures) -> Option<Evidence> {
    let unsent = figures.unsent_count?;
    let of_due = figures
        .due_count
        .map_or(String::new(), |due| format!(" of {due}"));
    let text = format!("{unsent}{of_due} records that were due had not been sent when the phase ended");
    Some(evidence("records-unsent", text, unsent as f64, "records"))
}

fn backlog_text(slope: Slope) -> Evidence {
    let text = format!(
        "the consumers' backlog grew by {:.0} records per second ({:.0} at least)",
        slope.per_second, slope.lower_per_second
    );
    evidence("backlog-grew", text, slope.per_second, "records per second")
}

fn failed_text(figures: &Figures) -> Option<Evidence> {
    let failed = figures.failed_count?;
    let of_sent = figures
        .sent_count
        .map_or(String::new(), |sent| format!(" of {sent} sent"));
    let text = format!(
        "{failed} records{of_sent} were refused, have an unknown outcome or were not answered in time"
    );
    Some(evidence("records-failed", text, failed as f64, "records"))
}

fn objective_text(figures: &Figures) -> Option<Evidence> {
    let (response_ns, objective_ns) = (figures.response_p99_ns?, figures.objective_p99_ns?);
    let text = format!(
        "response time p99 {} is above the objective of {}",
        duration(response_ns),
        duration(objective_ns)
    );
    Some(evidence("objective-missed", text, response_ns as f64, "ns"))
}

fn standing_text(queue_ns: u64) -> Evidence {
    let text = format!(
        "half of the records waited in their producer for {} or longer: a queue that has not drained since it was built up, so \
         that all latencies are its own; a longer warm-up or a lower rate shows the cluster's",
        duration(queue_ns)
    );
    evidence("standing-queue", text, queue_ns as f64, "ns")
}

fn queueing_text(figures: &Figures) -> Option<Evidence> {
    let (queue_ns, service_ns) = (figures.queue_p50_ns?, figures.service_p50_ns?);
    let text = format!(
        "the time went by in the sender's own buffer: queue time p50 {}, the cluster's service time p50 {}",
        duration(queue_ns),
        duration(service_ns)
    );
    Some(evidence("queueing-in-sender", text, queue_ns as f64, "ns"))
}

fn evidence(code: &str, text: String, figure: f64, unit: &str) -> Evidence {
    Evidence {
        code: code.to_owned(),
        text,
        figure: Some(figure),
        unit: Some(unit.to_owned()),
    }
}

fn percent(ratio: f64) -> String {
    let percent = ratio * 100.0;
    if percent < 10.0 {
        format!("{percent:.1} %")
    } else {
        format!("{percent:.0} %")
    }
}

fn duration(ns: u64) -> String {
    match ns {
        0..1_000_000 => format!("{} µs", ns / 1_000),
        1_000_000..1_000_000_000 => format!("{:.1} ms", ns as f64 / 1e6),
        _ => format!("{:.2} s", ns as f64 / 1e9),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_rate_that_is_met_from_a_standing_queue_is_not_called_sustained() {
        for (queue_ms, linger_ms, expected) in [
            (5_650, 5, None),
            (1_005, 5, None),
            (1_004, 5, Some(true)),
            (3_000, 2_500, Some(true)),
        ] {
            let figures = Figures {
                queue_p50_ns: Some(queue_ms * MS),
                linger_ns: Some(linger_ms * MS),
                ..calm()
            };
            let verdict = judge(&figures);
            assert_eq!(verdict.sustained, expected, "{queue_ms} ms");
            let is_told = verdict.evidence.iter().any(|told| told.code == "standing-queue");
            assert_eq!(is_told, expected.is_none());
            let limited_by = match expected {
                None => LimitedBy::Unknown,
                Some(_) => LimitedBy::Nothing,
            };
            assert_eq!(verdict.limited_by, limited_by);
        }
        // As fast as the cluster takes them, queues stand in any case.
        let closed = Figures {
            closed_loop: true,
            queue_p50_ns: Some(5_000 * MS),
            ..calm()
        };
        assert!(
            judge(&closed)
                .evidence
                .iter()
                .all(|told| told.code != "standing-queue")
        );
    }

    /// An open-loop run that met its rate with everything measured and nothing out of bounds.
    fn calm() -> Figures {
        Figures {
            closed_loop: false,
            planned_per_second: Some(50_000.0),
            achieved_per_second: Some(49_990.0),
            due_count: Some(3_000_000),
            unsent_count: Some(0),
            sent_count: Some(3_000_000),
            failed_count: Some(0),
            backlog_slope: Some(slope(-5.0)),
            response_p99_ns: Some(12 * MS),
            objective_p99_ns: None,
            other_objective_missed: None,
            schedule_lag_p99_ns: Some(MS / 5),
            queue_p50_ns: Some(5 * MS),
            linger_ns: Some(5 * MS),
            service_p50_ns: Some(2 * MS),
            service_p99_ns: Some(6 * MS),
            busiest_thread_ratio: Some(0.3),
            busiest_thread_waiting_ratio: Some(0.01),
            generator_cpu_ratio: Some(0.2),
            cgroup_throttled_ratio: Some(0.0),
            buffer_full_ratio: Some(0.0),
            in_flight_full_ratio: Some(0.1),
            quota_throttled_ratio: Some(0.0),
        }
    }

    /// As fast as the cluster acknowledges, with a generator that has time left.
    fn flat_out() -> Figures {
        Figures {
            closed_loop: true,
            planned_per_second: None,
            due_count: None,
            unsent_count: None,
            response_p99_ns: None,
            schedule_lag_p99_ns: None,
            queue_p50_ns: Some(400 * MS),
            buffer_full_ratio: Some(0.97),
            in_flight_full_ratio: Some(0.98),
            busiest_thread_ratio: Some(0.6),
            ..calm()
        }
    }

    /// The rate was five times what could be reached.
    fn overloaded() -> Figures {
        Figures {
            achieved_per_second: Some(10_000.0),
            unsent_count: Some(2_400_000),
            sent_count: Some(600_000),
            schedule_lag_p99_ns: Some(40_000 * MS),
            queue_p50_ns: Some(3_000 * MS),
            buffer_full_ratio: Some(0.9),
            ..calm()
        }
    }

    fn slope(per_second: f64) -> Slope {
        Slope {
            lower_per_second: per_second - 10.0,
            per_second,
            upper_per_second: per_second + 10.0,
        }
    }

    fn check(figures: Figures, sustained: Option<bool>, limited_by: LimitedBy, codes: &[&str]) {
        let verdict = judge(&figures);
        let found: Vec<&str> = verdict
            .evidence
            .iter()
            .map(|evidence| evidence.code.as_str())
            .collect();
        assert_eq!(
            (verdict.sustained, verdict.limited_by, found.as_slice()),
            (sustained, limited_by, codes)
        );
    }

    #[test]
    fn a_rate_that_was_met_is_sustained_and_limited_by_nothing() {
        check(calm(), Some(true), LimitedBy::Nothing, &[]);
    }

    #[test]
    fn a_busy_generator_that_meets_its_rate_on_time_limits_nothing() {
        check(
            Figures {
                busiest_thread_ratio: Some(0.97),
                ..calm()
            },
            Some(true),
            LimitedBy::Nothing,
            &["generator-thread-busy"],
        );
    }

    #[test]
    fn an_overloaded_cluster_is_the_limit_when_its_back_pressure_fills_the_buffers() {
        check(
            overloaded(),
            Some(false),
            LimitedBy::Cluster,
            &[
                "send-buffer-full",
                "rate-missed",
                "records-unsent",
                "schedule-lag",
                "queueing-in-sender",
            ],
        );
    }

    #[test]
    fn a_generator_whose_thread_has_no_time_left_is_the_limit() {
        let figures = Figures {
            busiest_thread_ratio: Some(0.99),
            buffer_full_ratio: Some(0.0),
            ..overloaded()
        };
        check(
            figures,
            Some(false),
            LimitedBy::Generator,
            &[
                "generator-thread-busy",
                "schedule-lag",
                "rate-missed",
                "records-unsent",
            ],
        );
    }

    #[test]
    fn a_generator_that_shares_its_cpu_is_the_limit_though_no_thread_of_it_is_busy() {
        let sharing = Figures {
            busiest_thread_ratio: Some(0.5),
            busiest_thread_waiting_ratio: Some(0.47),
            buffer_full_ratio: Some(0.0),
            ..overloaded()
        };
        check(
            sharing,
            Some(false),
            LimitedBy::Generator,
            &[
                "generator-thread-busy",
                "schedule-lag",
                "rate-missed",
                "records-unsent",
            ],
        );
        let pinned = Figures {
            generator_cpu_ratio: Some(0.98),
            buffer_full_ratio: Some(0.0),
            ..overloaded()
        };
        check(
            pinned,
            Some(false),
            LimitedBy::Generator,
            &[
                "generator-cpu-busy",
                "schedule-lag",
                "rate-missed",
                "records-unsent",
            ],
        );
    }

    #[test]
    fn a_late_generator_is_the_limit_when_buffers_had_room_and_answers_came_fast() {
        let late = Figures {
            schedule_lag_p99_ns: Some(50 * MS),
            ..calm()
        };
        check(late, None, LimitedBy::Generator, &["schedule-lag"]);
    }

    #[test]
    fn lateness_below_the_brokers_own_answer_time_is_no_limit() {
        let slightly_late = Figures {
            schedule_lag_p99_ns: Some(3 * MS),
            ..calm()
        };
        check(slightly_late, Some(true), LimitedBy::Nothing, &["schedule-lag"]);
    }

    #[test]
    fn lateness_within_a_twentieth_of_the_objective_is_allowed() {
        let wide = Figures {
            schedule_lag_p99_ns: Some(9 * MS),
            objective_p99_ns: Some(200 * MS),
            ..calm()
        };
        check(wide, Some(true), LimitedBy::Nothing, &[]);
        let narrow = Figures {
            objective_p99_ns: Some(100 * MS),
            ..wide
        };
        check(narrow, None, LimitedBy::Generator, &["schedule-lag"]);
    }

    #[test]
    fn a_stall_of_the_cluster_is_not_blamed_on_the_generator() {
        // Two seconds of sixty: the lag's 99th percentile is in the stall, and so are the full buffers.
        let stalled = Figures {
            schedule_lag_p99_ns: Some(900 * MS),
            buffer_full_ratio: Some(0.02),
            response_p99_ns: Some(1_700 * MS),
            ..calm()
        };
        check(
            stalled,
            Some(true),
            LimitedBy::Nothing,
            &["schedule-lag", "send-buffer-full"],
        );
    }

    #[test]
    fn a_control_group_that_stops_the_generator_makes_its_latencies_its_own() {
        let throttled = Figures {
            cgroup_throttled_ratio: Some(0.4),
            ..calm()
        };
        check(throttled, None, LimitedBy::Generator, &["cgroup-throttled"]);
        let and_overloaded = Figures {
            cgroup_throttled_ratio: Some(0.4),
            buffer_full_ratio: Some(0.0),
            ..overloaded()
        };
        check(
            and_overloaded,
            Some(false),
            LimitedBy::Generator,
            &[
                "cgroup-throttled",
                "schedule-lag",
                "rate-missed",
                "records-unsent",
            ],
        );
    }

    #[test]
    fn a_quota_is_named_and_not_taken_for_the_clusters_capacity() {
        let open = Figures {
            quota_throttled_ratio: Some(0.9),
            ..overloaded()
        };
        check(
            open,
            Some(false),
            LimitedBy::Quota,
            &[
                "quota-throttled",
                "schedule-lag",
                "send-buffer-full",
                "rate-missed",
                "records-unsent",
                "queueing-in-sender",
            ],
        );
        let closed = Figures {
            quota_throttled_ratio: Some(0.9),
            ..flat_out()
        };
        check(
            closed,
            None,
            LimitedBy::Quota,
            &[
                "quota-throttled",
                "send-buffer-full",
                "in-flight-full",
                "queueing-in-sender",
            ],
        );
    }

    #[test]
    fn a_quota_that_was_touched_while_the_rate_was_met_limits_nothing_and_leaves_doubt() {
        check(
            Figures {
                quota_throttled_ratio: Some(0.05),
                ..calm()
            },
            None,
            LimitedBy::Nothing,
            &["quota-throttled"],
        );
    }

    #[test]
    fn in_a_closed_loop_whoever_has_no_time_left_is_the_limit() {
        check(
            flat_out(),
            None,
            LimitedBy::Cluster,
            &["send-buffer-full", "in-flight-full", "queueing-in-sender"],
        );
        let busy = Figures {
            busiest_thread_ratio: Some(0.98),
            buffer_full_ratio: Some(0.0),
            in_flight_full_ratio: Some(0.2),
            ..flat_out()
        };
        check(busy, None, LimitedBy::Generator, &["generator-thread-busy"]);
        let idle_with_room = Figures {
            buffer_full_ratio: Some(0.0),
            in_flight_full_ratio: Some(0.2),
            ..flat_out()
        };
        check(idle_with_room, None, LimitedBy::Unknown, &[]);
    }

    #[test]
    fn a_growing_backlog_is_not_sustained() {
        let behind = Figures {
            backlog_slope: Some(slope(5_000.0)),
            ..calm()
        };
        check(behind, Some(false), LimitedBy::Cluster, &["backlog-grew"]);
        let by_the_consumers = Figures {
            busiest_thread_ratio: Some(0.99),
            ..behind
        };
        check(
            by_the_consumers,
            Some(false),
            LimitedBy::Generator,
            &["generator-thread-busy", "backlog-grew"],
        );
        let hardly = Figures {
            backlog_slope: Some(slope(90.0)),
            ..calm()
        };
        check(hardly, Some(true), LimitedBy::Nothing, &[]);
    }

    #[test]
    fn failed_records_and_a_missed_objective_are_not_sustained() {
        let failing = Figures {
            failed_count: Some(4),
            ..calm()
        };
        check(failing, Some(false), LimitedBy::Nothing, &["records-failed"]);
        let one_in_a_million = Figures {
            failed_count: Some(3),
            ..calm()
        };
        check(
            one_in_a_million,
            Some(true),
            LimitedBy::Nothing,
            &["records-failed"],
        );
        let slow = Figures {
            objective_p99_ns: Some(10 * MS),
            ..calm()
        };
        check(slow, Some(false), LimitedBy::Nothing, &["objective-missed"]);
    }

    #[test]
    fn a_missed_objective_is_not_the_clusters_when_the_generator_was_late() {
        let late = Figures {
            objective_p99_ns: Some(10 * MS),
            response_p99_ns: Some(60 * MS),
            schedule_lag_p99_ns: Some(50 * MS),
            ..calm()
        };
        check(
            late,
            None,
            LimitedBy::Generator,
            &["schedule-lag", "objective-missed"],
        );
    }

    #[test]
    fn what_was_not_measured_clears_nobody() {
        check(Figures::default(), None, LimitedBy::Unknown, &[]);
        check(
            Figures {
                closed_loop: true,
                ..Figures::default()
            },
            None,
            LimitedBy::Unknown,
            &[],
        );
        let missed = Figures {
            planned_per_second: Some(50_000.0),
            achieved_per_second: Some(10_000.0),
            ..Figures::default()
        };
        check(missed, Some(false), LimitedBy::Unknown, &["rate-missed"]);
        let generator_not_measured = Figures {
            busiest_thread_ratio: None,
            generator_cpu_ratio: None,
            ..flat_out()
        };
        check(
            generator_not_measured,
            None,
            LimitedBy::Unknown,
            &["send-buffer-full", "in-flight-full", "queueing-in-sender"],
        );
    }

    #[test]
    fn a_cluster_that_is_gone_is_the_limit_however_late_the_generator_was() {
        let figures = Figures {
            planned_per_second: Some(10_000.0),
            achieved_per_second: Some(5_000.0),
            due_count: Some(60_000),
            unsent_count: Some(0),
            sent_count: Some(60_000),
            failed_count: Some(30_000),
            schedule_lag_p99_ns: Some(40_000_000),
            busiest_thread_ratio: Some(0.1),
            ..Figures::default()
        };
        let verdict = judge(&figures);
        assert_eq!(
            (verdict.sustained, verdict.limited_by),
            (Some(false), LimitedBy::Cluster)
        );
    }

    #[test]
    fn each_finding_is_one_sentence_with_its_figure() {
        let verdict = judge(&Figures {
            quota_throttled_ratio: Some(0.9),
            cgroup_throttled_ratio: Some(0.025),
            busiest_thread_ratio: Some(0.6),
            busiest_thread_waiting_ratio: Some(0.39),
            generator_cpu_ratio: Some(0.96),
            backlog_slope: Some(slope(5_000.0)),
            failed_count: Some(7),
            objective_p99_ns: Some(MS / 2),
            in_flight_full_ratio: Some(0.75),
            service_p50_ns: Some(MS / 4),
            ..overloaded()
        });
        let texts: Vec<&str> = verdict
            .evidence
            .iter()
            .map(|evidence| evidence.text.as_str())
            .collect();
        assert_eq!(
            texts,
            [
                "a broker throttled this client for 90 % of the time: a quota, not the cluster's capacity",
                "the generator's CPU limit (cgroup) stopped it in 2.5 % of its periods: latencies are limited by the client",
                "the load generator's busiest thread ran for 60 % of the time and waited for a CPU for 39 %",
                "the load generator used 96 % of the CPU time that it may use",
                "records were handed to the producer late: schedule lag p99 40.00 s, allowed 1.0 ms",
                "the send buffer was full for 90 % of the time",
                "requests in flight were at their limit for 75 % of the time",
                "10000 records per second were acknowledged, 20 % of the 50000 asked for",
                "2400000 of 3000000 records that were due had not been sent when the phase ended",
                "the consumers' backlog grew by 5000 records per second (4990 at least)",
                "7 records of 600000 sent were refused, have an unknown outcome or were not answered in time",
                "response time p99 12.0 ms is above the objective of 500 µs",
                "the time went by in the sender's own buffer: queue time p50 3.00 s, the cluster's service time p50 250 µs",
            ]
        );
        let quota = &verdict.evidence[0];
        assert_eq!((quota.figure, quota.unit.as_deref()), (Some(0.9), Some("ratio")));
    }
}
