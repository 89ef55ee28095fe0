//! The result document: a whole one, its round trip, and the page that describes it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use model::result::*;
use serde_json::Value;

const S: u64 = 1_000_000_000;
const MS: u64 = 1_000_000;

fn docs(file: &str) -> PathBuf {
    // Tests run in their package's directory.
    PathBuf::from("../../docs").join(file)
}

fn settings_of(settings: &[(&str, &str, &str)]) -> BTreeMap<String, Setting> {
    let setting = |value: &str, source: &str| Setting {
        value: value.to_owned(),
        source: source.to_owned(),
    };
    settings
        .iter()
        .map(|(key, value, source)| ((*key).to_owned(), setting(value, source)))
        .collect()
}

fn totals(seconds: u64, failures: u64, group: &str) -> Totals {
    let due = 10_000 * seconds;
    let acknowledged = due - failures;
    Totals {
        due_count: Some(due),
        unsent_count: Some(0),
        sent_count: due,
        acknowledged_count: Some(acknowledged),
        written_count: None,
        refused_count: failures,
        unknown_count: 0,
        unfinished_count: 0,
        payload_bytes: Some(acknowledged * 512),
        wire_bytes: Some(acknowledged * 330),
        confirmed_count: Some(acknowledged),
        transactions: Some(Transactions {
            committed_count: 3 * seconds / 10,
            aborted_count: 1,
            undecided_count: Some(0),
            aborted_records_count: 0,
            undecided_records_count: Some(0),
            markers_count: 12 * (3 * seconds / 10 + 1),
        }),
        consumed: vec![Consumed {
            group: group.to_owned(),
            records_count: acknowledged,
            payload_bytes: Some(acknowledged * 512),
            records_per_second: Some(acknowledged as f64 / seconds as f64),
        }],
        verification: Some(Verification {
            checked_count: acknowledged,
            lost_count: Some(0),
            unread_count: Some(0),
            expired_count: Some(0),
            committed_ahead_count: Some(0),
            duplicated_count: 0,
            redelivered_count: 0,
            reordered_count: 0,
            corrupt_count: 0,
            foreign_count: 0,
        }),
        acknowledged_per_second: Some(acknowledged as f64 / seconds as f64),
        payload_bytes_per_second: Some(acknowledged as f64 * 512.0 / seconds as f64),
        confirmed_per_second: Some(acknowledged as f64 / seconds as f64),
    }
}

fn latency(metric: Metric, count: u64, p50_ns: u64) -> LatencySummary {
    LatencySummary {
        metric,
        count,
        min_ns: p50_ns / 4,
        p50_ns,
        p95_ns: p50_ns * 2,
        p99_ns: p50_ns * 3,
        p99_9_ns: p50_ns * 8,
        p99_99_ns: p50_ns * 14,
        max_ns: p50_ns * 20,
        mean_ns: p50_ns as f64 * 1.25,
        censored_count: (metric == Metric::Response).then_some(0),
        negative_count: (metric == Metric::EndToEnd).then_some(0),
    }
}

/// A result in which every field is present.
fn full() -> RunResult {
    let partition = |partition: u32, count: u64| Partition {
        topic: "plimsoll-7f3a-0".to_owned(),
        partition,
        leader: Some(partition as i32 % 3 + 1),
        acknowledged_count: count,
        payload_bytes: Some(count * 512),
        service_p50_ns: Some(2 * MS),
        service_p99_ns: Some(7 * MS),
    };
    let broker = |id: i32| Broker {
        id,
        requests_count: 12_400,
        produced_bytes: 66_000_000,
        fetched_bytes: Some(66_100_000),
        service_p50_ns: Some(2 * MS),
        service_p99_ns: Some(7 * MS),
        service_max_ns: Some(41 * MS),
        throttle_ns: Some(0),
    };
    let failures = 120;
    RunResult {
        schema_version: SCHEMA_VERSION,
        kind: ResultKind::Run,
        tool: Tool {
            name: "plimsoll".to_owned(),
            version: "0.1.0".to_owned(),
        },
        run_id: "7f3a91c2".to_owned(),
        name: "orders".to_owned(),
        started_at: "2026-05-04T10:15:30Z".to_owned(),
        command: ["plimsoll", "run", "orders.yaml", "--target", "kafka.yaml"]
            .map(str::to_owned)
            .to_vec(),
        reproduce: Some("plimsoll run --set topics=1 --set producerRate=10000/s -X acks=all".to_owned()),
        status: Status {
            state: State::Partial,
            reason: Some("interrupted by Ctrl-C".to_owned()),
        },
        workload: settings_of(&[
            ("topics", "1", "orders.yaml:2"),
            ("producerRate", "10000", "--set"),
        ]),
        target: Target {
            name: Some("Kafka".to_owned()),
            bootstrap_servers: vec!["broker1:9092".to_owned()],
            embedded: false,
            producer: settings_of(&[
                ("acks", "all", "kafka.yaml:12"),
                ("compression.type", "zstd", "kafka.yaml:13"),
                ("linger.ms", "5", "Kafka default"),
            ]),
            consumer: settings_of(&[("enable.auto.commit", "false", "OMB default")]),
            admin: settings_of(&[("request.timeout.ms", "30000", "Kafka default")]),
            topic_config: settings_of(&[("min.insync.replicas", "2", "kafka.yaml:9")]),
            not_honoured: vec![NotHonoured {
                name: "ssl.truststore.password".to_owned(),
                value: "[hidden]".to_owned(),
                why: "it belongs to security.protocol SSL or SASL_SSL, and connections are PLAINTEXT"
                    .to_owned(),
            }],
        },
        cluster: Some(Cluster {
            cluster_id: Some("MkU3OEVBNTcwNTJENDM2Qg".to_owned()),
            kafka_version: Some("4.1 or newer".to_owned()),
            brokers: vec![ClusterBroker {
                id: 1,
                host: "broker1".to_owned(),
                port: 9092,
                rack: Some("a".to_owned()),
            }],
            topic_configs: vec![TopicConfigs {
                topic: "plimsoll-7f3a-0".to_owned(),
                configs: settings_of(&[("min.insync.replicas", "2", "DYNAMIC_TOPIC_CONFIG")]),
            }],
            broker_configs: vec![BrokerConfigs {
                broker: 1,
                configs: settings_of(&[("num.io.threads", "8", "DEFAULT_CONFIG")]),
            }],
        }),
        host: Host {
            hostname: Some("load1".to_owned()),
            cpus_count: Some(8),
            cpu_model: Some("Example CPU".to_owned()),
            memory_bytes: Some(32 << 30),
            kernel: Some("6.1.0".to_owned()),
            clock_source: Some("tsc".to_owned()),
            cgroup_quota_cpus: Some(4.0),
        },
        clock_domain: ClockDomain::Compared,
        clocks: Some(Clocks {
            wall_offset_ns: Some(-250_000_000),
            bound_ns: Some(700_000),
            exchanges_count: 71,
            unplaced_count: 0,
        }),
        topics: vec![Topic {
            name: "plimsoll-7f3a-0".to_owned(),
            partitions_count: 3,
            replication_factor_count: Some(3),
            created_by_us: true,
            kept: false,
        }],
        groups: vec![Group {
            name: "plimsoll-7f3a-g0".to_owned(),
            consumers_count: 3,
            created_by_us: true,
            kept: false,
            revocations_count: Some(0),
            unassigned_ns: Some(0),
        }],
        phases: vec![
            Phase {
                name: PhaseName::WarmUp,
                start_ns: S,
                end_ns: 11 * S,
                short: false,
                totals: Some(totals(10, 0, "plimsoll-7f3a-g0")),
                latencies: Vec::new(),
                batching: None,
                backlog_max_count: None,
            },
            Phase {
                name: PhaseName::Measure,
                start_ns: 11 * S,
                end_ns: 41 * S,
                short: true,
                totals: Some(totals(30, failures, "plimsoll-7f3a-g0")),
                latencies: vec![
                    latency(Metric::Response, 300_000, 7 * MS),
                    latency(Metric::Queue, 299_880, 4 * MS),
                    latency(Metric::Service, 299_880, 2_400_000),
                    latency(Metric::EndToEnd, 299_880, 9 * MS),
                    latency(Metric::ScheduleLag, 300_000, 41_000),
                    latency(Metric::Commit, 9, 3_000_000),
                    latency(Metric::Abort, 1, 3_000_000),
                ],
                batching: Some(Batching {
                    batches_count: 37_200,
                    requests_count: 37_230,
                    average_batch_bytes: Some(2_660.2),
                    average_batch_records: Some(8.06),
                    requests_per_second: Some(1_241.0),
                    compression_ratio: Some(0.63),
                    retries_count: Some(30),
                }),
                backlog_max_count: Some(1_204),
            },
        ],
        whole_run: totals(40, failures, "plimsoll-7f3a-g0"),
        partitions: vec![partition(0, 100_400), partition(1, 99_900), partition(2, 99_580)],
        skew: Skew::of(&[100_400, 99_900, 99_580]),
        brokers: vec![broker(1), broker(2), broker(3)],
        generator: Some(Generator {
            threads: vec![ThreadRole {
                role: "producer".to_owned(),
                threads_count: 2,
                cpu_user_ns: 900 * MS,
                cpu_system_ns: 1_400 * MS,
            }],
            cpu_seconds_per_million_records: Some(7.7),
            busiest_thread_utilisation_ratio: Some(0.06),
            process_utilisation_ratio: Some(0.03),
            cgroup: Some(CgroupThrottling {
                periods_count: Some(300),
                throttled_periods_count: 2,
                throttled_ns: 11 * MS,
            }),
            buffer_full_ns: Some(0),
            buffer_full_ratio: Some(0.0),
            throttle_ns: Some(0),
            peak_100ms_per_second: Some(10_020.0),
            late: Some(LateSends {
                records_count: 12,
                threshold_ns: 10 * MS,
            }),
        }),
        errors: vec![ErrorGroup {
            kind: "NOT_ENOUGH_REPLICAS".to_owned(),
            count: 15,
            records_count: Some(failures),
            first_at_ns: 20 * S,
            last_at_ns: Some(21 * S),
            broker: Some(2),
            message: "Messages are rejected since there are fewer in-sync replicas than required.".to_owned(),
            hint: Some("min.insync.replicas is 2; see which broker left the ISR at that time".to_owned()),
        }],
        warnings: vec![Warning {
            code: "configs-not-described".to_owned(),
            text: "the principal may not describe configs, so those of topics and brokers are not known"
                .to_owned(),
        }],
        events: vec![Event {
            time_ns: 20 * S,
            kind: "leader-changed".to_owned(),
            broker: Some(3),
            partition: Some("plimsoll-7f3a-0-1".to_owned()),
            label: "the leader of plimsoll-7f3a-0-1 went from broker 2 to broker 3".to_owned(),
        }],
        memory: Some(Memory {
            rss_start_bytes: Some(40 << 20),
            rss_at_10_percent_bytes: Some(44 << 20),
            rss_at_90_percent_bytes: Some(45 << 20),
            rss_end_bytes: Some(45 << 20),
            rss_peak_bytes: Some(46 << 20),
        }),
        verdict: Some(Verdict {
            sustained: Some(false),
            limited_by: LimitedBy::Cluster,
            evidence: vec![Evidence {
                code: "refused-records".to_owned(),
                text: "120 records were refused by the brokers".to_owned(),
                figure: Some(120.0),
                unit: Some("records".to_owned()),
            }],
        }),
        objectives: vec![
            ObjectiveOutcome {
                objective: "p99 < 20ms".to_owned(),
                measured: Some(7_000_000.0),
                unit: "ns".to_owned(),
                kept: true,
            },
            ObjectiveOutcome {
                objective: "errors = 0".to_owned(),
                measured: Some(120.0),
                unit: "records".to_owned(),
                kept: false,
            },
        ],
        files: Files {
            series: Some("series.hlog".to_owned()),
        },
    }
}

#[test]
fn a_document_reads_back_as_it_was_written() {
    let text = full().to_json().expect("JSON");
    assert_eq!(RunResult::from_json(&text).expect("a result"), full());
}

#[test]
fn what_was_not_measured_is_absent() {
    let unmeasured = RunResult {
        cluster: None,
        phases: vec![Phase {
            name: PhaseName::Prepare,
            start_ns: 0,
            end_ns: S,
            short: false,
            totals: None,
            latencies: Vec::new(),
            batching: None,
            backlog_max_count: None,
        }],
        whole_run: Totals::default(),
        generator: None,
        verdict: None,
        memory: None,
        ..full()
    };
    let text = unmeasured.to_json().expect("JSON");
    assert_eq!(RunResult::from_json(&text).expect("a result"), unmeasured);
    let value: Value = serde_json::from_str(&text).expect("JSON");
    assert!(!text.contains("null"), "{text}");
    for key in ["cluster", "generator", "verdict", "memory"] {
        assert!(value.get(key).is_none(), "{key}");
    }
    let whole_run: Vec<&String> = value["whole_run"]
        .as_object()
        .expect("an object")
        .keys()
        .collect();
    assert_eq!(
        whole_run,
        ["refused_count", "sent_count", "unfinished_count", "unknown_count"]
    );
}

#[test]
fn a_field_of_a_later_version_does_not_stop_a_reader() {
    let text = full()
        .to_json()
        .expect("JSON")
        .replacen("\"tool\"", "\"colour\": \"red\",\n  \"tool\"", 1);
    assert_eq!(RunResult::from_json(&text).expect("a result"), full());
}

#[test]
fn no_text_that_is_no_result_makes_the_reader_panic() {
    let text = full().to_json().expect("JSON");
    for end in (0..text.len()).step_by(97) {
        assert!(RunResult::from_json(&text[..end]).is_err(), "{end}");
    }
}

#[test]
fn the_sample_in_the_docs_is_the_full_document() {
    let path = docs("sample-result.json");
    let written = full().to_json().expect("JSON");
    if std::env::var_os("INSTA_UPDATE").is_some_and(|update| update == "always") {
        std::fs::write(&path, &written).expect("docs can be written");
    }
    assert_eq!(
        std::fs::read_to_string(&path).expect("docs/sample-result.json"),
        written
    );
}

#[test]
fn skew_is_the_fullest_partition_over_the_mean() {
    assert_eq!(Skew::of(&[]), None);
    assert_eq!(Skew::of(&[0, 0]), None);
    let skew = Skew::of(&[30, 0, 10, 0]).expect("records");
    assert_eq!((skew.partitions_count, skew.used_partitions_count), (4, 2));
    assert_eq!(
        (skew.max_count, skew.min_count, skew.max_over_mean_ratio),
        (30, 0, 3.0)
    );
    assert_eq!(
        Skew::of(&[u64::MAX, u64::MAX])
            .expect("records")
            .max_over_mean_ratio,
        1.0
    );
}

/// Every path of a document: `phases[].start_ns`; `{key}` where the keys are names that users or Kafka give.
fn paths(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    const NAMED: [&str; 6] = [
        "workload",
        "target.producer",
        "target.consumer",
        "target.admin",
        "target.topic_config",
        "configs",
    ];
    if !path.is_empty() {
        found.insert(path.to_owned());
    }
    match value {
        Value::Object(fields) => {
            let is_named = NAMED.contains(&path) || path.ends_with(".configs");
            for (key, field) in fields {
                let key = if is_named { "{key}" } else { key };
                paths(
                    field,
                    &if path.is_empty() {
                        key.to_owned()
                    } else {
                        format!("{path}.{key}")
                    },
                    found,
                );
            }
        }
        Value::Array(items) => {
            for item in items.iter().filter(|item| item.is_object()) {
                paths(item, &format!("{path}[]"), found);
            }
        }
        _ => {}
    }
}

/// Paths as the page names them: objects that stand in several places have one table of their own.
fn as_described(path: &str) -> Option<String> {
    let path = path.trim_end_matches("[]");
    let tail = |whole: &str, of: &str, name: &str| whole.strip_prefix(of).map(|rest| format!("{name}{rest}"));
    if let Some((_, rest)) = path.split_once(".{key}") {
        return (!rest.is_empty()).then(|| format!("setting{rest}"));
    }
    if path == "whole_run" || path == "phases[].totals" {
        return Some(path.to_owned());
    }
    tail(path, "whole_run.", "totals.")
        .or_else(|| tail(path, "phases[].totals.", "totals."))
        .or(Some(path.to_owned()))
}

#[test]
fn the_page_describes_every_field_and_no_other() {
    let page = std::fs::read_to_string(docs("result-schema.md")).expect("docs/result-schema.md");
    let mut value = serde_json::to_value(full()).expect("JSON");
    // The one field that excludes another: with acks=0 records are written and never acknowledged.
    value["whole_run"]["written_count"] = 1.into();
    let mut all = BTreeSet::new();
    paths(&value, "", &mut all);
    let fields: BTreeSet<String> = all.iter().filter_map(|path| as_described(path)).collect();
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    let described: Vec<(&str, &str)> = rows.filter_map(|row| row.split_once("` | ")).collect();
    let names: BTreeSet<String> = described.iter().map(|(name, _)| (*name).to_owned()).collect();
    assert_eq!(
        fields.difference(&names).collect::<Vec<_>>(),
        Vec::<&String>::new(),
        "fields that the page lacks"
    );
    assert_eq!(
        names.difference(&fields).collect::<Vec<_>>(),
        Vec::<&String>::new(),
        "rows without a field"
    );
    for (name, rest) in described {
        assert!(
            rest.split(" | ").count() == 2 && rest.len() > 12,
            "{name} needs a type and a meaning: {rest}"
        );
    }
}
