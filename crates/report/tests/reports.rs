//! Whole results as the reports show them. The golden pages are read like code: each is a run that a user may have.

use model::result::*;
use report::terminal::{self, Options};
use report::{csv, json};

const S: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;

/// The sample of the docs, in which every field is present.
fn sample() -> RunResult {
    RunResult::from_json(include_str!("../../../docs/sample-result.json")).expect("docs/sample-result.json")
}

/// A run of 60 s in which all went well.
fn clean() -> RunResult {
    let mut result = sample();
    result.status = Status {
        state: State::Complete,
        reason: None,
    };
    result.clock_domain = ClockDomain::OneProcess;
    result.clocks = None;
    result.objectives.clear();
    result.errors.clear();
    result.warnings.clear();
    result.events.clear();
    result.target.not_honoured.clear();
    result.verdict = Some(Verdict {
        sustained: Some(true),
        limited_by: LimitedBy::Nothing,
        evidence: Vec::new(),
    });
    let phase = measured(&mut result);
    phase.end_ns = phase.start_ns + 60 * S;
    phase.short = false;
    let totals = Totals {
        refused_count: 0,
        ..phase.totals.clone().expect("totals")
    };
    phase.totals = Some(scaled(totals, 600_000));
    for latency in &mut phase.latencies {
        latency.count = 600_000;
    }
    result.whole_run = scaled(result.whole_run.clone(), 700_000);
    result.whole_run.refused_count = 0;
    let generator = result.generator.as_mut().expect("a generator");
    generator.cgroup = None;
    generator.late = None;
    result
}

fn scaled(mut totals: Totals, records: u64) -> Totals {
    totals.due_count = Some(records);
    totals.sent_count = records;
    totals.acknowledged_count = Some(records);
    totals.confirmed_count = Some(records);
    totals.consumed[0].records_count = records;
    totals.consumed[0].records_per_second = Some(10_000.0);
    totals.acknowledged_per_second = Some(10_000.0);
    totals.confirmed_per_second = Some(10_000.0);
    totals.payload_bytes_per_second = Some(5_120_000.0);
    totals
}

fn measured(result: &mut RunResult) -> &mut Phase {
    result
        .phases
        .iter_mut()
        .find(|phase| phase.name == PhaseName::Measure)
        .expect("a measured phase")
}

fn totals(result: &mut RunResult) -> &mut Totals {
    measured(result).totals.as_mut().expect("totals")
}

fn set(result: &mut RunResult, key: &str, value: &str) {
    let setting = Setting {
        value: value.to_owned(),
        source: "--set".to_owned(),
    };
    result.workload.insert(key.to_owned(), setting);
}

fn evidence(code: &str, text: &str) -> Evidence {
    Evidence {
        code: code.to_owned(),
        text: text.to_owned(),
        figure: None,
        unit: None,
    }
}

fn page(result: &RunResult) -> String {
    let text = terminal::render(
        result,
        Options {
            result_folder: Some("plimsoll-runs/2026-05-04T10-15-30-orders"),
        },
    );
    for line in text.lines() {
        assert!(line.chars().count() <= 80, "wider than the terminal: {line}");
        assert_eq!(line, line.trim_end(), "blanks at the end");
    }
    assert!(text.ends_with('\n') && !text.contains("\n\n\n"));
    text
}

#[test]
fn a_clean_run() {
    insta::assert_snapshot!(page(&clean()));
}

#[test]
fn an_interrupted_run_with_every_field() {
    insta::assert_snapshot!(page(&sample()));
}

/// P02, P43: the cluster stood still for 2 s; the tail shows it, and what was sent late is told.
#[test]
fn a_stalled_run() {
    let mut result = clean();
    let phase = measured(&mut result);
    for latency in &mut phase.latencies {
        if latency.metric != Metric::ScheduleLag {
            latency.p99_ns = 1_240 * MS;
            latency.p99_9_ns = 1_980 * MS;
            latency.max_ns = 2_104 * MS;
        }
    }
    let generator = result.generator.as_mut().expect("a generator");
    generator.late = Some(LateSends {
        records_count: 19_850,
        threshold_ns: 10 * MS,
    });
    generator.peak_100ms_per_second = Some(81_300.0);
    generator.buffer_full_ratio = Some(0.031);
    insta::assert_snapshot!(page(&result));
}

/// P01: unthrottled, so most of the time is spent in the send buffer, and no due times exist.
#[test]
fn a_run_at_rate_max() {
    let mut result = clean();
    set(&mut result, "producerRate", "max");
    for totals in [
        &mut result.whole_run,
        result.phases[1].totals.as_mut().expect("totals"),
    ] {
        totals.due_count = None;
        totals.unsent_count = None;
    }
    let phase = measured(&mut result);
    phase
        .latencies
        .retain(|latency| matches!(latency.metric, Metric::Queue | Metric::Service | Metric::EndToEnd));
    let totals = phase.totals.as_mut().expect("totals");
    totals.acknowledged_per_second = Some(1_204_300.0);
    totals.confirmed_per_second = Some(1_204_280.0);
    totals.payload_bytes_per_second = Some(616_600_000.0);
    let queue = phase
        .latencies
        .iter_mut()
        .find(|latency| latency.metric == Metric::Queue)
        .expect("queue");
    queue.p50_ns = 310 * MS;
    result.generator.as_mut().expect("a generator").buffer_full_ratio = Some(0.93);
    result.verdict = Some(Verdict {
        sustained: None,
        limited_by: LimitedBy::Cluster,
        evidence: vec![evidence(
            "in-flight-full",
            "requests in flight were at their limit 97 % of the time",
        )],
    });
    insta::assert_snapshot!(page(&result));
}

/// P30: without acknowledgements the brokers' end offsets alone tell what arrived.
#[test]
fn a_run_without_acknowledgements() {
    let mut result = clean();
    result.target.producer.insert(
        "acks".to_owned(),
        Setting {
            value: "0".to_owned(),
            source: "-X".to_owned(),
        },
    );
    for totals in [
        &mut result.whole_run,
        result.phases[1].totals.as_mut().expect("totals"),
    ] {
        totals.written_count = totals.acknowledged_count.take();
        totals.confirmed_count = totals.written_count.map(|written| written - 41_200);
        totals.consumed.clear();
        totals.verification = None;
    }
    set(&mut result, "subscriptionsPerTopic", "0");
    measured(&mut result)
        .latencies
        .retain(|latency| matches!(latency.metric, Metric::Queue | Metric::ScheduleLag));
    insta::assert_snapshot!(page(&result));
}

/// Records that were acknowledged and are gone come right after the headline.
#[test]
fn a_run_that_lost_records() {
    let mut result = clean();
    for totals in [
        &mut result.whole_run,
        result.phases[1].totals.as_mut().expect("totals"),
    ] {
        let verification = totals.verification.as_mut().expect("verified");
        verification.lost_count = Some(12);
        verification.duplicated_count = 3;
        verification.redelivered_count = 500;
        totals.confirmed_count = totals.acknowledged_count.map(|count| count - 9);
    }
    insta::assert_snapshot!(page(&result));
}

/// P06: the generator was the limit, and the headline says so.
#[test]
fn a_run_that_its_generator_limited() {
    let mut result = clean();
    let t = totals(&mut result);
    t.unsent_count = Some(240_000);
    t.sent_count = 360_000;
    t.acknowledged_per_second = Some(6_000.0);
    t.payload_bytes_per_second = Some(3_072_000.0);
    t.confirmed_per_second = None;
    t.confirmed_count = None;
    t.acknowledged_count = Some(360_000);
    let phase = measured(&mut result);
    phase.latencies[0].censored_count = Some(240_000);
    let generator = result.generator.as_mut().expect("a generator");
    generator.busiest_thread_utilisation_ratio = Some(0.992);
    generator.cgroup = Some(CgroupThrottling {
        periods_count: Some(600),
        throttled_periods_count: 412,
        throttled_ns: 21 * S,
    });
    result.verdict = Some(Verdict {
        sustained: Some(false),
        limited_by: LimitedBy::Generator,
        evidence: vec![
            evidence(
                "thread-busy",
                "the busiest thread ran 99.2 % of the time, from 95 % on it is the limit",
            ),
            evidence("schedule-lag", "schedule lag p99 was 24 s, and may be 1 ms"),
        ],
    });
    insta::assert_snapshot!(page(&result));
}

/// P44: what a quota adds is called by its name. P40: a skew above two is flagged.
#[test]
fn a_throttled_and_skewed_run() {
    let mut result = clean();
    result.generator.as_mut().expect("a generator").throttle_ns = Some(171 * S);
    result.brokers[1].throttle_ns = Some(171 * S);
    for (partition, count) in result.partitions.iter_mut().zip([900, 60, 40]) {
        partition.acknowledged_count = count;
    }
    result.skew = Skew::of(&[900, 60, 40]);
    result.verdict = Some(Verdict {
        sustained: Some(false),
        limited_by: LimitedBy::Quota,
        evidence: vec![evidence(
            "quota",
            "brokers throttled this client 88 % of the time",
        )],
    });
    insta::assert_snapshot!(page(&result));
}

/// A handful of records: percentiles that so few values cannot give are marked.
#[test]
fn a_run_of_few_records() {
    let mut result = clean();
    for latency in &mut measured(&mut result).latencies {
        latency.count = 100;
    }
    let text = page(&result);
    let row = text
        .lines()
        .find(|line| line.starts_with("  response"))
        .expect("a row");
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(
        cells[1..],
        [
            "7.00", "ms", "14.0", "ms", ">140", "ms", ">140", "ms", "140", "ms", "100"
        ]
    );
    assert!(text.contains("> : so few values"));
}

#[test]
fn a_run_that_only_reads() {
    let mut result = clean();
    set(&mut result, "producersPerTopic", "0");
    for totals in [
        &mut result.whole_run,
        result.phases[1].totals.as_mut().expect("totals"),
    ] {
        *totals = Totals {
            consumed: totals.consumed.clone(),
            ..Totals::default()
        };
    }
    let phase = measured(&mut result);
    phase.latencies.clear();
    phase.batching = None;
    result.skew = None;
    result.verdict = None;
    insta::assert_snapshot!(page(&result));
}

#[test]
fn a_run_that_failed_before_it_measured() {
    let mut result = clean();
    result.status = Status {
        state: State::Failed,
        reason: Some("topic orders: replication factor 3 is above the 1 broker of the cluster".to_owned()),
    };
    result.phases.truncate(1);
    result.phases[0] = Phase {
        name: PhaseName::Prepare,
        start_ns: 0,
        end_ns: S,
        short: false,
        totals: None,
        latencies: Vec::new(),
        batching: None,
        backlog_max_count: None,
    };
    result.whole_run = Totals::default();
    result.partitions.clear();
    result.brokers.clear();
    (result.skew, result.generator, result.verdict, result.memory) = (None, None, None, None);
    insta::assert_snapshot!(page(&result));
}

#[test]
fn what_was_kept_is_told_with_the_command_that_removes_it() {
    let mut result = clean();
    result.topics[0].kept = true;
    result.groups[0].kept = true;
    let text = page(&result);
    assert!(text.contains("Kept      topics plimsoll-7f3a-0\n"), "{text}");
    assert!(
        text.contains("remove  plimsoll topics delete --bootstrap-server broker1:9092 plimsoll-7f3a-0"),
        "{text}"
    );
    assert!(text.contains("Kept      groups plimsoll-7f3a-g0\n"), "{text}");
}

#[test]
fn many_partitions_brokers_and_groups_stay_a_page() {
    let mut result = clean();
    let partition = result.partitions[0].clone();
    result.partitions = (0..3_000)
        .map(|number| Partition {
            partition: number,
            ..partition.clone()
        })
        .collect();
    let broker = result.brokers[0].clone();
    result.brokers = (0..100).map(|id| Broker { id, ..broker.clone() }).collect();
    for totals in [
        &mut result.whole_run,
        result.phases[1].totals.as_mut().expect("totals"),
    ] {
        let group = totals.consumed[0].clone();
        let named = |number: u64| Consumed {
            group: format!("g{number}"),
            records_count: number,
            ..group.clone()
        };
        totals.consumed = (0..20).map(named).collect();
    }
    let text = page(&result);
    assert!(text.lines().count() < 80, "{text}");
    assert!(text.contains("consumed, least of 20 groups"), "{text}");
    assert!(text.contains("and 88 more, with fewer requests"), "{text}");
}

#[test]
fn hostile_words_keep_the_page_within_its_columns() {
    let mut result = sample();
    result.name = "a very long name ".repeat(40);
    result.topics[0].name = "t".repeat(60);
    for partition in &mut result.partitions {
        partition.topic = "t".repeat(249);
    }
    result.errors[0].message = "many words ".repeat(100);
    result.phases[1].totals.as_mut().expect("totals").consumed[0].group = "g".repeat(200);
    let text = page(&result);
    assert!(text.contains("a very long name"), "{text}");
}

#[test]
fn equal_results_give_equal_bytes() {
    let result = sample();
    let options = Options::default();
    assert_eq!(
        terminal::render(&result, options),
        terminal::render(&result.clone(), options)
    );
    let bytes = json::render(&result).expect("JSON");
    assert_eq!(
        String::from_utf8(bytes).expect("UTF-8"),
        include_str!("../../../docs/sample-result.json")
    );
}

#[test]
fn csv_has_one_row_a_run_and_one_a_partition() {
    let mut result = sample();
    result.name = "with, comma and \"quotes\"".to_owned();
    insta::assert_snapshot!(csv::summary(&result));
    insta::assert_snapshot!(csv::partitions(&result));
}

#[test]
fn csv_leaves_unmeasured_fields_empty() {
    let mut result = sample();
    result.phases.clear();
    (result.skew, result.generator, result.verdict) = (None, None, None);
    let text = csv::summary(&result);
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(rows[0].len(), rows[1].len());
    let at = |name: &str| rows[0].iter().position(|column| *column == name).expect(name);
    for name in [
        "acknowledged_count",
        "response_p99_ns",
        "lost_count",
        "sustained",
        "throttle_ns",
    ] {
        assert_eq!(rows[1][at(name)], "", "{name}");
    }
}
