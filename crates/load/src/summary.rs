//! From what was gathered to the result document. Pure but for the host's description.

use crate::coordinate::Gathered;
use crate::host;
use crate::plan::LoadPlan;
use crate::recorder::{LATE_NS, METRICS, PhaseSheet, TransactionSheet};
use crate::shared::Shared;
use crate::verify::GroupBook;
use client::clock::RunClock;
use measure::tail::fewest_samples;
use measure::verdict::{Figures, judge};
use model::client_config::Acks;
use model::result::{
    Batching, Broker, ClockDomain, Clocks, Consumed, ErrorGroup, Evidence, Files, Generator, Group,
    LateSends, LatencySummary, Memory, Metric, ObjectiveOutcome, Partition, Phase, PhaseName, ResultKind,
    RunResult, SCHEMA_VERSION, Skew, State, Status, ThreadRole as RoleUse, Tool, Topic, Totals, Transactions,
    Verification, Warning,
};
use model::workload::{ConsumerPace, StampPlacement};

/// A measured phase shorter than this says little about a steady state.
const SHORT_NS: u64 = 60_000_000_000;
/// More than this many times the mean on one partition is worth a warning.
const SKEW_RATIO: f64 = 2.0;
/// A send buffer that was full for more than this part of the time shows queueing of our own, not the cluster's latency.
const BUFFER_FULL_RATIO: f64 = 0.5;

/// Makes the result.
pub fn make(plan: &LoadPlan, gathered: Gathered, clock: RunClock) -> RunResult {
    let shared = gathered.shared.clone();
    let acks_none = plan.target.producer.config.acks == Acks::None;
    let measure = shared
        .phases
        .iter()
        .position(|phase| phase.name == PhaseName::Measure)
        .unwrap_or(0);
    let scheduled = gathered.schedule.is_some();
    let produces = plan.workload.produces();
    let mut warnings = gathered.warnings.clone();

    let mut phases = vec![Phase {
        name: PhaseName::Prepare,
        start_ns: 0,
        end_ns: gathered.start_ns,
        short: false,
        totals: None,
        latencies: Vec::new(),
        batching: None,
        backlog_max_count: None,
    }];
    let mut start_ns = 0;
    for (place, load_phase) in shared.phases.iter().enumerate() {
        let end_ns = gathered
            .phase_ends_ns
            .get(place)
            .copied()
            .unwrap_or(start_ns)
            .max(start_ns);
        let length_ns = end_ns - start_ns;
        let sheet = &gathered.phases[place];
        let confirmed = confirmed_between(&gathered, place, place + 1);
        let mut totals = totals(&gathered, sheet, Some(place), acks_none, length_ns, confirmed);
        totals.verification = None;
        phases.push(Phase {
            name: load_phase.name,
            start_ns: gathered.start_ns + start_ns,
            end_ns: gathered.start_ns + end_ns,
            short: load_phase.name == PhaseName::Measure && length_ns < SHORT_NS,
            totals: Some(totals),
            latencies: latencies(sheet),
            batching: produces.then(|| batching(sheet, length_ns)),
            backlog_max_count: gathered
                .backlog_max
                .filter(|_| load_phase.name == PhaseName::Measure),
        });
        start_ns = end_ns;
    }
    phases.push(Phase {
        name: PhaseName::Stop,
        start_ns: gathered.start_ns + start_ns,
        end_ns: gathered.end_ns.max(gathered.start_ns + start_ns),
        short: false,
        totals: None,
        latencies: Vec::new(),
        batching: None,
        backlog_max_count: None,
    });

    let mut all = PhaseSheet::default();
    for sheet in &gathered.phases {
        all.add(sheet);
    }
    let confirmed = confirmed_between(&gathered, 0, gathered.confirmed.len().saturating_sub(1));
    let mut whole_run = totals(&gathered, &all, None, acks_none, start_ns, confirmed);
    whole_run.verification = verification(plan, &gathered);

    let measured_ns = phases
        .iter()
        .find(|phase| phase.name == PhaseName::Measure)
        .map_or(0, Phase::duration_ns);
    let sheet = &gathered.phases[measure];
    let partitions = partitions(&gathered, sheet, plan);
    let counts: Vec<u64> = partitions
        .iter()
        .map(|partition| partition.acknowledged_count)
        .collect();
    let skew = produces.then(|| Skew::of(&counts)).flatten();
    let generator = generator(&gathered, sheet, measure, measured_ns, plan, scheduled);
    let objectives = phases
        .iter()
        .find(|phase| phase.name == PhaseName::Measure)
        .map(|phase| plan.workload.objectives.hold_against(phase))
        .unwrap_or_default();
    let missed: Vec<&ObjectiveOutcome> = plan
        .workload
        .objectives
        .terms()
        .iter()
        .zip(&objectives)
        .filter(|(term, outcome)| !outcome.kept && !term.is_of_response_p99())
        .map(|(_, outcome)| outcome)
        .collect();
    let verdict = (measured_ns > 0 && (sheet.sent > 0 || !sheet.consumed.is_empty())).then(|| {
        let mut figures = figures(
            plan,
            &gathered,
            sheet,
            measure,
            measured_ns,
            &generator,
            scheduled,
        );
        figures.other_objective_missed = (!objectives.is_empty()).then_some(!missed.is_empty());
        let mut verdict = judge(&figures);
        verdict.evidence.extend(missed.iter().map(|outcome| Evidence {
            code: "objective-missed".to_owned(),
            text: match outcome.measured {
                Some(_) => format!("the objective {} was missed", outcome.objective),
                None => format!(
                    "the objective {} cannot be held against anything: it was not measured",
                    outcome.objective
                ),
            },
            figure: outcome.measured,
            unit: outcome.measured.map(|_| outcome.unit.clone()),
        }));
        verdict
    });

    warn(plan, &mut warnings, &phases, &generator, skew, scheduled, &shared);
    if let (true, Some(written), Some(confirmed)) =
        (acks_none, whole_run.written_count, whole_run.confirmed_count)
        && written != confirmed
    {
        warnings.push(Warning {
                code: "acks-0-gap".to_owned(),
                text: format!(
                    "acks=0: {written} records were written to sockets, and the brokers' end offsets grew by {confirmed}: {} never \
                     arrived, and nothing told the producer",
                    written.saturating_sub(confirmed)
                ),
            });
    }
    warnings.extend(markers_repeated(&whole_run));
    if let Some(expired) = whole_run
        .verification
        .and_then(|found| found.expired_count)
        .filter(|&count| count > 0)
    {
        warnings.push(Warning {
            code: "retention-overtook".to_owned(),
            text: format!(
                "retention removed {expired} records before their consumers came to read them: consumers were slower than \
                 producers for longer than the log is kept"
            ),
        });
    }
    let (clock_domain, clocks) = clocks(&gathered);
    if let Some(warning) = clocks.and_then(|clocks| clock_warning(clock_domain, clocks, &phases)) {
        warnings.push(warning);
    }
    let status = match (&gathered.failure, gathered.interrupted) {
        (Some(why), _) => Status {
            state: State::Failed,
            reason: Some(why.clone()),
        },
        (None, true) => Status {
            state: State::Partial,
            reason: Some("interrupted".to_owned()),
        },
        (None, false) => Status {
            state: State::Complete,
            reason: None,
        },
    };
    let stall_ns = sheet
        .latency
        .iter()
        .flatten()
        .filter_map(|histogram| histogram.max_ns())
        .max();
    RunResult {
        schema_version: SCHEMA_VERSION,
        kind: ResultKind::Run,
        tool: Tool {
            name: "plimsoll".to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        },
        run_id: format!("{:016x}", plan.run_id),
        name: plan.workload.name.clone(),
        started_at: rfc3339(clock.wall_start()),
        command: plan.command.clone(),
        reproduce: plan.reproduce.clone(),
        status,
        workload: model::result::settings(&plan.workload.values),
        target: plan.target.for_result(plan.embedded),
        cluster: Some(gathered.prepared.cluster.clone()),
        host: host::describe(),
        clock_domain,
        clocks,
        topics: topics(&gathered),
        groups: groups(plan, &gathered),
        phases,
        whole_run,
        partitions,
        skew,
        brokers: brokers(sheet, plan.workload.consumes()),
        generator: Some(generator),
        errors: errors(&gathered, stall_ns),
        warnings,
        events: gathered.events.clone(),
        memory: Some(Memory { ..gathered.memory }),
        verdict,
        objectives,
        files: Files {
            series: Some("series.hlog".to_owned()),
        },
    }
}

/// A coordinator that takes over a transaction while it ends writes markers again in partitions that had them; nobody is told,
/// so they cannot be taken off what is confirmed.
fn markers_repeated(whole_run: &Totals) -> Option<Warning> {
    let transactions = whole_run.transactions?;
    let accounted = whole_run.acknowledged_count? + whole_run.unknown_count + whole_run.unfinished_count;
    let beyond = whole_run.confirmed_count?.saturating_sub(accounted);
    let is_nothing_else = transactions.aborted_count == 0 && beyond <= transactions.markers_count;
    (beyond > 0 && is_nothing_else).then(|| Warning {
        code: "markers-repeated".to_owned(),
        text: format!(
            "the end offsets grew by {beyond} more than by records and the markers of transactions that were told: a coordinator that \
             takes over from another writes the markers of transactions that were just ending again"
        ),
    })
}

/// What the end offsets grew by between two samples, on topics that nobody else writes to, and the time between them.
fn confirmed_between(gathered: &Gathered, from: usize, to: usize) -> Option<(u64, f64)> {
    if !gathered.prepared.created || from == to || gathered.shared.shares.is_empty() {
        return None;
    }
    let (before, after) = (
        gathered.confirmed.get(from)?.as_ref()?,
        gathered.confirmed.get(to)?.as_ref()?,
    );
    Some((
        after.grown_since(before)?,
        after.at_ns.saturating_sub(before.at_ns) as f64 / 1e9,
    ))
}

fn totals(
    gathered: &Gathered,
    sheet: &PhaseSheet,
    phase: Option<usize>,
    acks_none: bool,
    length_ns: u64,
    confirmed: Option<(u64, f64)>,
) -> Totals {
    let produced = !gathered.shared.shares.is_empty();
    let sum = |each: &dyn Fn(&crate::producing::ProducerEnd) -> Option<u64>| {
        let mut sum = None;
        for end in &gathered.producer_ends {
            sum = Some(sum.unwrap_or(0) + each(end)?);
        }
        sum
    };
    let of = |list: &Option<Vec<u64>>| {
        let list = list.as_ref()?;
        Some(phase.map_or_else(|| list.iter().sum(), |phase| list[phase]))
    };
    let delivered = if acks_none {
        sheet.written
    } else {
        sheet.acknowledged
    };
    let seconds = length_ns as f64 / 1e9;
    let rate = |count: f64| (seconds > 0.0).then_some(count / seconds);
    let (acknowledged, written) = if acks_none {
        (None, Some(sheet.written))
    } else {
        (Some(sheet.acknowledged), None)
    };
    // A subscription is one group on each topic (or on several together); as a whole it reads every topic once.
    let mut consumed: Vec<(usize, Consumed)> = Vec::new();
    for book in &gathered.books {
        let (records, bytes) = sheet.consumed.get(&book.index).copied().unwrap_or_default();
        let place = consumed
            .iter()
            .position(|(place, _)| *place == book.place_in_topic)
            .unwrap_or_else(|| {
                let groups = gathered
                    .books
                    .iter()
                    .filter(|other| other.place_in_topic == book.place_in_topic)
                    .count();
                let group = match groups {
                    1 => book.name.clone(),
                    _ => format!("subscription {} ({groups} groups)", book.place_in_topic),
                };
                consumed.push((
                    book.place_in_topic,
                    Consumed {
                        group,
                        records_count: 0,
                        payload_bytes: Some(0),
                        records_per_second: None,
                    },
                ));
                consumed.len() - 1
            });
        let entry = &mut consumed[place].1;
        entry.records_count += records;
        entry.payload_bytes = entry.payload_bytes.map(|sum| sum + bytes);
        entry.records_per_second = rate(entry.records_count as f64);
    }
    let consumed = consumed.into_iter().map(|(_, consumed)| consumed).collect();
    Totals {
        due_count: sum(&|end| of(&end.due)),
        unsent_count: sum(&|end| of(&end.unsent)),
        sent_count: sheet.sent,
        acknowledged_count: acknowledged.filter(|_| produced),
        written_count: written.filter(|_| produced),
        refused_count: sheet.refused,
        unknown_count: sheet.unknown,
        unfinished_count: sheet.unfinished,
        payload_bytes: produced.then_some(sheet.payload_bytes),
        wire_bytes: produced.then_some(sheet.wire_bytes),
        confirmed_count: confirmed.map(|(count, _)| count.saturating_sub(sheet.transactions.markers)),
        transactions: transactions(&sheet.transactions),
        consumed,
        verification: None,
        acknowledged_per_second: rate(delivered as f64).filter(|_| produced),
        payload_bytes_per_second: rate(sheet.payload_bytes as f64).filter(|_| produced),
        // Over the time between the samples themselves, which a slow answer sets apart from the phase's own.
        confirmed_per_second: confirmed
            .filter(|&(_, seconds)| seconds > 0.0)
            .map(|(count, seconds)| count.saturating_sub(sheet.transactions.markers) as f64 / seconds),
    }
}

/// `None` where no transaction ended.
fn transactions(sheet: &TransactionSheet) -> Option<Transactions> {
    let found = |count: u64| (count > 0).then_some(count);
    (sheet.committed + sheet.aborted + sheet.undecided > 0).then(|| Transactions {
        committed_count: sheet.committed,
        aborted_count: sheet.aborted,
        undecided_count: found(sheet.undecided),
        aborted_records_count: sheet.aborted_records,
        undecided_records_count: found(sheet.undecided_records),
        markers_count: sheet.markers,
    })
}

fn latencies(sheet: &PhaseSheet) -> Vec<LatencySummary> {
    METRICS
        .iter()
        .zip(&sheet.latency)
        .filter_map(|(&metric, histogram)| {
            let summary = histogram.as_ref()?.summary()?;
            Some(LatencySummary {
                metric,
                count: summary.count,
                min_ns: summary.min_ns,
                p50_ns: summary.p50_ns,
                p95_ns: summary.p95_ns,
                p99_ns: summary.p99_ns,
                p99_9_ns: summary.p99_9_ns,
                p99_99_ns: summary.p99_99_ns,
                max_ns: summary.max_ns,
                mean_ns: summary.mean_ns as f64,
                censored_count: (summary.censored_count > 0).then_some(summary.censored_count),
                negative_count: (summary.negative_count > 0).then_some(summary.negative_count),
            })
        })
        .collect()
}

fn batching(sheet: &PhaseSheet, length_ns: u64) -> Batching {
    let batches = sheet.batches as f64;
    let records = (sheet.acknowledged + sheet.written) as f64;
    let some = sheet.batches > 0;
    Batching {
        batches_count: sheet.batches,
        requests_count: sheet.requests,
        average_batch_bytes: some.then(|| sheet.wire_bytes as f64 / batches),
        average_batch_records: some.then(|| records / batches),
        requests_per_second: (length_ns > 0).then(|| sheet.requests as f64 / (length_ns as f64 / 1e9)),
        compression_ratio: (sheet.uncompressed_bytes > 0)
            .then(|| sheet.wire_bytes as f64 / sheet.uncompressed_bytes as f64),
        retries_count: Some(sheet.retried_batches),
    }
}

/// How the sender's clock is related to ours.
fn clocks(gathered: &Gathered) -> (ClockDomain, Option<Clocks>) {
    let Some(sender_clock) = &gathered.shared.sender_clock else {
        return (ClockDomain::OneProcess, None);
    };
    let told = gathered.told.unwrap_or_default();
    let clocks = Clocks {
        wall_offset_ns: told.wall_offset_ns,
        bound_ns: told.bound_ns,
        exchanges_count: told.exchanges,
        unplaced_count: sender_clock.unplaced(),
    };
    let is_compared =
        told.wall_offset_ns.is_some() && clocks.unplaced_count == 0 && !told.has_several_senders;
    let domain = if is_compared {
        ClockDomain::Compared
    } else {
        ClockDomain::Unknown
    };
    (domain, Some(clocks))
}

fn clock_warning(domain: ClockDomain, clocks: Clocks, phases: &[Phase]) -> Option<Warning> {
    if domain == ClockDomain::Unknown {
        return Some(Warning {
            code: "clocks-not-compared".to_owned(),
            text: format!(
                "the clock of the run that sends is not known ({} answers came from it, {} records came without): end-to-end \
                 latency rests on the wall clocks of two processes and is not valid; give both runs the same --run-id, let \
                 exactly one of them produce, and let both read and write the topic by which they compare clocks",
                clocks.exchanges_count, clocks.unplaced_count
            ),
        });
    }
    let negative: u64 = phases
        .iter()
        .filter_map(|phase| phase.latency(Metric::EndToEnd)?.negative_count)
        .sum();
    (negative > 0).then(|| Warning {
        code: "negative-end-to-end".to_owned(),
        text: format!(
            "{negative} records came before they were due by the clocks' comparison, which is exact to {:.3} ms; they count \
             with an end-to-end latency of zero",
            clocks.bound_ns.unwrap_or_default() as f64 / 1e6
        ),
    })
}

fn verification(plan: &LoadPlan, gathered: &Gathered) -> Option<Verification> {
    let is_sent_by_another = gathered.shared.sender_clock.is_some();
    if !gathered.shared.verifies && !is_sent_by_another {
        return None;
    }
    let mut sum = Verification::default();
    for book in &gathered.books {
        let found = book.found();
        sum.checked_count += found.checked;
        sum.reordered_count += found.reordered;
        sum.duplicated_count += found.duplicated;
        sum.redelivered_count += found.redelivered;
        sum.corrupt_count += found.corrupt;
        sum.foreign_count += found.foreign;
        let is_made_anew = |topic: &usize| gathered.prepared.made_anew.contains(topic);
        if is_sent_by_another || book.topics.iter().any(is_made_anew) {
            // What was acknowledged is known to the run that sent; and what went with a topic is not told from what was lost.
            continue;
        }
        let mut missing = 0;
        // The producers of a topic come round with the number of topics.
        let topics = gathered.prepared.names.len();
        for end in gathered
            .producer_ends
            .iter()
            .filter(|end| book.topics.contains(&(end.index as usize % topics)))
        {
            missing += book.missing(end.index, &end.acknowledged);
        }
        // What lies behind the group's last position was not read; only what it passed by is lost.
        let unread = unread(gathered, book);
        // What retention took before the group came to it is told apart too.
        let expired = book.expired().min(missing);
        sum.expired_count = Some(sum.expired_count.unwrap_or(0) + expired);
        let lost = (missing - expired).saturating_sub(unread.unwrap_or(0));
        sum.lost_count = Some(sum.lost_count.unwrap_or(0) + lost);
        sum.unread_count = unread.map(|unread| sum.unread_count.unwrap_or(0) + unread.min(missing - expired));
    }
    debug_assert!(plan.workload.consumes());
    sum.committed_ahead_count = gathered.committed_ahead;
    Some(sum)
}

/// Offsets at the ends of a group's partitions that it had not read at the end.
fn unread(gathered: &Gathered, book: &GroupBook) -> Option<u64> {
    let ends = gathered.confirmed.last()?.as_ref()?;
    let of_topic = |topic: usize| {
        ends.of_topic(topic)
            .filter_map(|(partition, end)| Some((gathered.shared.places.of(topic, partition)?, end)))
            .map(|(place, end)| (end - book.next_offset(place)).max(0) as u64)
            .sum::<u64>()
    };
    Some(book.topics.iter().map(|&topic| of_topic(topic)).sum())
}

/// Partitions of the topic with that number, those included that were added while the load ran.
fn partitions_at_end(gathered: &Gathered, topic: usize) -> usize {
    let ends = gathered.confirmed.iter().rev().flatten().next();
    let at_end = ends
        .and_then(|ends| ends.topics.get(topic))
        .map_or(0, |topic| topic.offsets.len());
    at_end.max(gathered.prepared.partitions[topic])
}

fn partitions(gathered: &Gathered, sheet: &PhaseSheet, plan: &LoadPlan) -> Vec<Partition> {
    if !plan.workload.produces() {
        return Vec::new();
    }
    let key_bytes = if plan.workload.key_distributor == model::workload::KeyDistributor::NoKey {
        0
    } else {
        10
    };
    let record_bytes = plan.workload.message_size.bytes() + key_bytes;
    let mut list = Vec::new();
    let topics = gathered.prepared.names.len();
    for (topic, name) in gathered.prepared.names.iter().enumerate() {
        let leaders = gathered
            .producer_ends
            .iter()
            .find(|end| end.index as usize % topics == topic);
        for partition in 0..partitions_at_end(gathered, topic) as i32 {
            let found = sheet.partitions.get(&(topic, partition));
            let count = found.map_or(0, |found| found.acknowledged);
            let service = found
                .and_then(|found| found.service.as_ref())
                .and_then(|histogram| histogram.summary());
            list.push(Partition {
                topic: name.clone(),
                partition: partition as u32,
                leader: leaders
                    .as_ref()
                    .and_then(|end| end.leaders.get(partition as usize).copied().flatten()),
                acknowledged_count: count,
                payload_bytes: Some(count * record_bytes),
                service_p50_ns: service.as_ref().map(|summary| summary.p50_ns),
                service_p99_ns: service.as_ref().map(|summary| summary.p99_ns),
            });
        }
    }
    list
}

fn brokers(sheet: &PhaseSheet, consumes: bool) -> Vec<Broker> {
    sheet
        .brokers
        .iter()
        .map(|(&id, broker)| {
            let service = broker.service.summary();
            Broker {
                id,
                requests_count: broker.requests,
                produced_bytes: broker.bytes,
                fetched_bytes: consumes.then_some(broker.fetched_bytes),
                service_p50_ns: service.as_ref().map(|summary| summary.p50_ns),
                service_p99_ns: service.as_ref().map(|summary| summary.p99_ns),
                service_max_ns: service.as_ref().map(|summary| summary.max_ns),
                throttle_ns: Some(broker.throttle_ns + broker.fetch_throttle_ns).filter(|&ns| ns > 0),
            }
        })
        .collect()
}

fn generator(
    gathered: &Gathered,
    sheet: &PhaseSheet,
    measure: usize,
    measured_ns: u64,
    plan: &LoadPlan,
    scheduled: bool,
) -> Generator {
    let mut threads: Vec<RoleUse> = Vec::new();
    let mut busiest_ns = None;
    let mut total_ns = None;
    for used in gathered.threads.values() {
        let Some(role) = used.role else { continue };
        let cpu = used.by_phase[measure];
        busiest_ns = busiest_ns.max(Some(cpu.total_ns()));
        total_ns = Some(total_ns.unwrap_or(0) + cpu.total_ns());
        let place = threads
            .iter()
            .position(|row| row.role == role.name())
            .unwrap_or_else(|| {
                threads.push(RoleUse {
                    role: role.name().to_owned(),
                    threads_count: 0,
                    cpu_user_ns: 0,
                    cpu_system_ns: 0,
                });
                threads.len() - 1
            });
        let row = &mut threads[place];
        row.threads_count += 1;
        row.cpu_user_ns += cpu.user_ns;
        row.cpu_system_ns += cpu.system_ns;
    }
    threads.sort_by(|a, b| b.role.cmp(&a.role));
    let consumed: u64 = sheet.consumed.values().map(|(records, _)| records).sum();
    let records = sheet.acknowledged + sheet.written + consumed;
    let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get) as f64;
    let process = gathered
        .process_cpu
        .get(measure)
        .zip(gathered.process_cpu.get(measure + 1));
    let process_ns = process.and_then(|(before, after)| Some((*after)?.since((*before)?).total_ns()));
    let allowed = host::describe()
        .cgroup_quota_cpus
        .map_or(cpus, |quota| quota.min(cpus));
    let producers = gathered.shared.shares.len() as u64;
    let ratio = |part: u64, whole: u64| (whole > 0).then(|| part as f64 / whole as f64);
    let throttling = gathered
        .throttling
        .get(measure)
        .zip(gathered.throttling.get(measure + 1));
    Generator {
        threads,
        cpu_seconds_per_million_records: total_ns
            .filter(|_| records > 0)
            .map(|ns| ns as f64 / 1e9 / (records as f64 / 1e6)),
        busiest_thread_utilisation_ratio: busiest_ns.and_then(|ns| ratio(ns, measured_ns)),
        process_utilisation_ratio: process_ns
            .filter(|_| measured_ns > 0)
            .map(|ns| ns as f64 / (measured_ns as f64 * allowed)),
        cgroup: throttling.and_then(|(before, after)| host::throttling_between(*before, *after)),
        buffer_full_ns: plan.workload.produces().then_some(sheet.buffer_full_ns),
        buffer_full_ratio: plan
            .workload
            .produces()
            .then(|| ratio(sheet.buffer_full_ns, measured_ns * producers))
            .flatten(),
        throttle_ns: (!sheet.brokers.is_empty()).then(|| {
            let brokers = sheet.brokers.values();
            brokers
                .map(|broker| broker.throttle_ns + broker.fetch_throttle_ns)
                .sum()
        }),
        peak_100ms_per_second: gathered
            .rates
            .get(measure)
            .and_then(|rate| rate.peak_per_second())
            .map(|peak| peak as f64),
        late: scheduled.then_some(LateSends {
            records_count: sheet.late,
            threshold_ns: LATE_NS,
        }),
    }
}

fn figures(
    plan: &LoadPlan,
    gathered: &Gathered,
    sheet: &PhaseSheet,
    measure: usize,
    measured_ns: u64,
    generator: &Generator,
    scheduled: bool,
) -> Figures {
    let summary = |metric: Metric| {
        let place = METRICS.iter().position(|&other| other == metric)?;
        sheet.latency[place].as_ref()?.summary()
    };
    let sum = |list: fn(&crate::producing::ProducerEnd) -> &Option<Vec<u64>>| {
        gathered
            .producer_ends
            .iter()
            .map(|end| list(end).as_ref().map(|list| list[measure]))
            .sum::<Option<u64>>()
    };
    let produces = plan.workload.produces();
    let paced = plan.workload.consumer_pace != ConsumerPace::Unlimited;
    let seconds = measured_ns as f64 / 1e9;
    // Each client waits by itself. A producer's answers to requests that were in flight together each tell the same wait.
    let ratio = |throttle_ns: u64, clients: usize| {
        (throttle_ns as f64 / (measured_ns as f64 * clients.max(1) as f64)).min(1.0)
    };
    let consumers = gathered.books.len() * plan.workload.consumers_per_subscription as usize;
    let throttled = sheet.brokers.values().map(|broker| {
        let producing = ratio(broker.throttle_ns, gathered.shared.shares.len());
        producing.max(ratio(broker.fetch_throttle_ns, consumers))
    });
    let busiest = generator.busiest_thread_utilisation_ratio;
    Figures {
        closed_loop: !scheduled,
        planned_per_second: match plan.workload.producer_rate {
            Some(model::units::TargetRate::Fixed(rate)) => Some(rate.per_second()),
            _ => None,
        },
        achieved_per_second: (produces && seconds > 0.0)
            .then(|| (sheet.acknowledged + sheet.written) as f64 / seconds),
        due_count: if scheduled { sum(|end| &end.due) } else { None },
        unsent_count: if scheduled { sum(|end| &end.unsent) } else { None },
        sent_count: produces.then_some(sheet.sent),
        // Readers of committed records never get what was aborted.
        failed_count: produces.then_some(
            sheet.refused
                + sheet.unknown
                + sheet.unfinished
                + sheet.transactions.aborted_records
                + sheet.transactions.undecided_records,
        ),
        backlog_slope: if paced || !plan.workload.consumes() {
            None
        } else {
            gathered.backlog.slope()
        },
        response_p99_ns: summary(Metric::Response).map(|summary| summary.p99_ns),
        objective_p99_ns: plan
            .workload
            .objectives
            .response_p99()
            .and_then(|time| u64::try_from(time.as_nanos()).ok()),
        other_objective_missed: None,
        schedule_lag_p99_ns: summary(Metric::ScheduleLag).map(|summary| summary.p99_ns),
        queue_p50_ns: summary(Metric::Queue).map(|summary| summary.p50_ns),
        linger_ns: u64::try_from(plan.target.producer.config.linger.as_nanos()).ok(),
        service_p50_ns: summary(Metric::Service).map(|summary| summary.p50_ns),
        service_p99_ns: summary(Metric::Service).map(|summary| summary.p99_ns),
        busiest_thread_ratio: busiest,
        busiest_thread_waiting_ratio: busiest_waiting(gathered, measure, measured_ns),
        generator_cpu_ratio: generator.process_utilisation_ratio,
        cgroup_throttled_ratio: generator.cgroup.and_then(|cgroup| {
            cgroup
                .periods_count
                .filter(|&periods| periods > 0)
                .map(|periods| cgroup.throttled_periods_count as f64 / periods as f64)
        }),
        buffer_full_ratio: generator.buffer_full_ratio,
        in_flight_full_ratio: None,
        quota_throttled_ratio: throttled.filter(|_| measured_ns > 0).reduce(f64::max),
    }
}

/// For how much of the phase the busiest thread could have run and had no CPU.
fn busiest_waiting(gathered: &Gathered, measure: usize, measured_ns: u64) -> Option<f64> {
    let busiest = gathered
        .threads
        .values()
        .max_by_key(|used| used.by_phase[measure].total_ns())?;
    (measured_ns > 0).then(|| busiest.by_phase[measure].waiting_ns as f64 / measured_ns as f64)
}

fn topics(gathered: &Gathered) -> Vec<Topic> {
    let prepared = &gathered.prepared;
    prepared
        .names
        .iter()
        .enumerate()
        .map(|(place, name)| Topic {
            name: name.clone(),
            partitions_count: partitions_at_end(gathered, place) as u32,
            replication_factor_count: prepared.replication_factors[place],
            created_by_us: prepared.created,
            kept: !prepared.created || gathered.topics_left.contains(name),
        })
        .collect()
}

fn groups(plan: &LoadPlan, gathered: &Gathered) -> Vec<Group> {
    gathered
        .books
        .iter()
        .map(|book| Group {
            name: book.name.clone(),
            consumers_count: plan.workload.consumers_per_subscription,
            created_by_us: true,
            kept: gathered.groups_left.contains(&book.name),
            revocations_count: Some(book.rebalanced().0),
            unassigned_ns: Some(book.rebalanced().1),
        })
        .collect()
}

fn errors(gathered: &Gathered, stall_ns: Option<u64>) -> Vec<ErrorGroup> {
    let mut list: Vec<ErrorGroup> = gathered
        .errors
        .iter()
        .map(|(kind, sheet)| ErrorGroup {
            kind: kind.clone(),
            count: sheet.count,
            records_count: (sheet.records > 0).then_some(sheet.records),
            first_at_ns: gathered.start_ns + sheet.first_ns,
            last_at_ns: Some(gathered.start_ns + sheet.last_ns),
            broker: sheet.broker,
            message: sheet.message.clone(),
            hint: hint(kind, &sheet.message, stall_ns),
        })
        .collect();
    list.sort_by(|a, b| b.count.cmp(&a.count).then_with(|| a.kind.cmp(&b.kind)));
    list
}

fn hint(kind: &str, message: &str, stall_ns: Option<u64>) -> Option<String> {
    let stall = stall_ns.map_or_else(String::new, |ns| {
        format!("; the longest latency measured was {:.1} s", ns as f64 / 1e9)
    });
    Some(match kind {
        "delivery.timeout.ms" => {
            format!("delivery.timeout.ms was too short for how long the brokers did not answer{stall}; raise it, or find the stall")
        }
        "max.block.ms" => "the cluster takes less than is asked of it: lower the rate, or raise buffer.memory to ride out bursts".to_owned(),
        // Brokers of Kafka 3.6 and later say it so that clients of any age try again (KIP-890); no replica is missing.
        "NOT_ENOUGH_REPLICAS" if message.contains("added to the transaction") => {
            "the brokers could not reach the transactions' coordinator: look for a broker that was down then".to_owned()
        }
        "NOT_ENOUGH_REPLICAS" | "NOT_ENOUGH_REPLICAS_AFTER_APPEND" => {
            "fewer replicas are in sync than min.insync.replicas asks for: look for a broker that is down or slow".to_owned()
        }
        "MESSAGE_TOO_LARGE" => "raise the topic's max.message.bytes, or make the records smaller".to_owned(),
        "TOPIC_AUTHORIZATION_FAILED" => "the principal needs the ACLs WRITE and DESCRIBE on the topic".to_owned(),
        _ => return None,
    })
}

#[allow(clippy::too_many_arguments, reason = "reads one figure of each")]
fn warn(
    plan: &LoadPlan,
    warnings: &mut Vec<Warning>,
    phases: &[Phase],
    generator: &Generator,
    skew: Option<Skew>,
    scheduled: bool,
    shared: &Shared,
) {
    let mut add = |code: &str, text: String| {
        warnings.push(Warning {
            code: code.to_owned(),
            text,
        })
    };
    let measured = phases.iter().find(|phase| phase.name == PhaseName::Measure);
    if let Some(response) = measured.and_then(|phase| phase.latency(Metric::Response)) {
        for (quantile, name) in [(0.999, "p99.9"), (0.99, "p99")] {
            if fewest_samples(quantile).is_some_and(|fewest| response.count < fewest) {
                add(
                    "too-few-samples",
                    format!(
                        "{} records are too few for {name}: it is not told apart from max",
                        response.count
                    ),
                );
                break;
            }
        }
    }
    let full = generator
        .buffer_full_ratio
        .filter(|&ratio| ratio > BUFFER_FULL_RATIO);
    if let Some(ratio) = full {
        add(
            "buffer-full",
            format!(
                "the send buffer (buffer.memory) was full {:.0} % of the time: queue time is the wait in our own buffer, service \
                 time is the cluster's",
                ratio * 100.0
            ),
        );
    }
    if let Some(skew) = skew.filter(|skew| skew.max_over_mean_ratio > SKEW_RATIO) {
        add(
            "skew",
            format!(
                "partitions were loaded unevenly: {:.1} × the mean on the fullest, {} of {} used",
                skew.max_over_mean_ratio, skew.used_partitions_count, skew.partitions_count
            ),
        );
    }
    if plan.target.producer.config.acks == Acks::None && plan.workload.produces() {
        add(
            "acks-0",
            "acks=0: no broker acknowledged anything; response and service time do not exist".to_owned(),
        );
    }
    let stamp = crate::coordinate::stamp_placement(&plan.workload);
    if stamp == StampPlacement::None && plan.workload.produces() && plan.workload.consumes() {
        let why = if plan.workload.message_size.bytes() < 24 {
            "records under 24 bytes have no room for a stamp"
        } else {
            "records carry no stamp"
        };
        add(
            "no-stamp",
            format!("{why}: loss, order and damage were not verified; give --stamp header to verify them"),
        );
    }
    if let (Some(late), true) = (generator.late, scheduled)
        && late.records_count > 0
    {
        add(
            "late-sends",
            format!(
                "{} records were handed over more than {} ms after they were due; they kept their due time, were sent as soon as \
                     possible, and none was skipped; the highest rate in 100 ms was {:.0}/s",
                late.records_count,
                late.threshold_ns / 1_000_000,
                generator.peak_100ms_per_second.unwrap_or_default()
            ),
        );
    }
    if let Some(totals) = measured.and_then(|phase| phase.totals.as_ref())
        && let (Some(wire), true) = (totals.wire_bytes, shared.places.at_start() > 0)
    {
        let copies = u64::from(plan.target.replication_factor.unwrap_or(1).max(1));
        let retention = "retention was not reached".to_owned();
        if !plan.embedded {
            add(
                "page-cache",
                format!(
                    "{:.2} GB were written to the brokers in the measured phase, replicas included, and {retention}: a run that \
                     writes more than their memory may be slower",
                    (wire * copies) as f64 / 1e9
                ),
            );
        }
    }
}

/// Seconds since 1970 as RFC 3339 in UTC.
fn rfc3339(since_1970: std::time::Duration) -> String {
    let seconds = since_1970.as_secs();
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Howard Hinnant's civil_from_days: eras of 400 years, years that begin in March.
    let shifted = days as i64 + 719_468;
    let era = shifted.div_euclid(146_097);
    let day_of_era = shifted.rem_euclid(146_097);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 {
        shifted_month + 3
    } else {
        shifted_month - 9
    };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z",
        rest / 3600,
        rest % 3600 / 60,
        rest % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn times_are_written_as_the_calendar_has_them() {
        let check = |seconds, text: &str| assert_eq!(rfc3339(Duration::from_secs(seconds)), text);
        check(0, "1970-01-01T00:00:00Z");
        check(951_782_400, "2000-02-29T00:00:00Z");
        check(1_700_000_000, "2023-11-14T22:13:20Z");
        check(4_102_444_799, "2099-12-31T23:59:59Z");
    }

    #[test]
    fn an_expired_batch_is_told_what_to_do_about_it() {
        let hint = hint("delivery.timeout.ms", "", Some(5_000_000_000)).unwrap();
        assert!(
            hint.contains("delivery.timeout.ms") && hint.contains("5.0 s"),
            "{hint}"
        );
    }

    #[test]
    fn a_coordinator_that_is_away_is_not_taken_for_replicas_that_are() {
        let message = "Unable to verify the partition has been added to the transaction. Underlying error: NOT_COORDINATOR";
        let told = |message| hint("NOT_ENOUGH_REPLICAS", message, None).unwrap();
        assert!(told(message).contains("coordinator"));
        assert!(told("fewer in-sync replicas than required").contains("min.insync.replicas"));
    }

    #[test]
    fn offsets_beyond_records_and_markers_are_told_and_taken_for_markers_only_where_they_can_be() {
        let with = |confirmed: u64, aborted: u64| Totals {
            acknowledged_count: Some(100),
            unknown_count: 1,
            confirmed_count: Some(confirmed),
            transactions: Some(Transactions {
                markers_count: 12,
                aborted_count: aborted,
                ..Default::default()
            }),
            ..Totals::default()
        };
        assert_eq!(markers_repeated(&with(101, 0)), None);
        let warning = markers_repeated(&with(103, 0)).unwrap();
        assert!(warning.text.contains("grew by 2 more"), "{}", warning.text);
        assert_eq!(
            markers_repeated(&with(103, 1)),
            None,
            "it may be what was refused of an aborted one"
        );
        assert_eq!(
            markers_repeated(&with(114, 0)),
            None,
            "more than there can be markers"
        );
    }
}
