//! plimsoll beside Kafka's own tools and librdkafka's, on real Apache Kafka.
//!
//! Each tool runs twice in a round, with N and with 4 N records. The longer run gives its rate; the slope between both gives
//! CPU per record, so that the start of a process, which takes a JVM a second, is in no tool's figure. N is each tool's own,
//! such that its runs take about the same time: a fast tool's would otherwise end before they have filled its buffer twice.

use std::fmt;
use std::time::Duration;

use anyhow::{Context, Error, Result, ensure};

use super::expectation::{Bound, Expectation};
use super::figures::{Figure, Ratios, Rounds, Row, Section};
use super::{Bench, Findings, ensure_not_interrupted, kafka_perf_tools};
use crate::kafka;
use crate::workspace::Workspace;

/// The cluster that is measured, apart from one that a person has started.
const CLUSTER: &str = "bench";
const BROKERS: u32 = 3;
const PARTITIONS: u32 = 12;

const LINGER_MS: u32 = 5;
const BUFFER_MEMORY_BYTES: u64 = 32 << 20;
const MAX_REQUEST_BYTES: u64 = 1 << 20;
/// The Java client's default, and the most that idempotence allows.
const MAX_IN_FLIGHT: u32 = 5;

/// The most that the longer run of one tool may write, copies included: disks are to hold all tools' runs, and memory too.
const LONG_RUN_BYTES: u64 = 2 << 30;

/// Size of the records that are consumed.
const CONSUMED_RECORD_BYTES: u64 = 100;
/// So many of them for each second that a measurement is to take: what a Java consumer reads in one.
const CONSUMED_RECORDS_PER_SECOND: u64 = 1_600_000;
/// But no more than this.
const CONSUMED_RECORDS_AT_MOST: u64 = 20_000_000;

/// Starts of plimsoll in one round.
const STARTS: u32 = 3;

/// How many brokers must have a record before it is acknowledged.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Acks {
    One,
    All,
}

impl Acks {
    /// The value of Kafka's property.
    pub fn value(self) -> &'static str {
        match self {
            Self::One => "1",
            Self::All => "all",
        }
    }
}

/// A size as cases are named: `100 B`, `16 KiB`, `1 MiB`.
pub fn bytes(bytes: u64) -> String {
    match bytes {
        mebi if mebi > 0 && mebi.is_multiple_of(1 << 20) => format!("{} MiB", mebi >> 20),
        kibi if kibi > 0 && kibi.is_multiple_of(1 << 10) => format!("{} KiB", kibi >> 10),
        bytes => format!("{bytes} B"),
    }
}

/// What is produced in one run, the same for every tool.
pub struct Producing<'a> {
    pub bootstrap: &'a str,
    pub topic: &'a str,
    pub records_count: u64,
    pub record_bytes: u64,
    pub batch_bytes: u64,
    pub acks: Acks,
    /// It needs acks=all.
    pub idempotent: bool,
}

impl Producing<'_> {
    /// The client's settings by Kafka's names.
    pub fn properties(&self) -> [(&'static str, String); 7] {
        [
            ("acks", self.acks.value().to_owned()),
            ("enable.idempotence", self.idempotent.to_string()),
            ("batch.size", self.batch_bytes.to_string()),
            ("linger.ms", LINGER_MS.to_string()),
            ("buffer.memory", BUFFER_MEMORY_BYTES.to_string()),
            ("max.request.size", MAX_REQUEST_BYTES.to_string()),
            ("max.in.flight.requests.per.connection", MAX_IN_FLIGHT.to_string()),
        ]
    }
}

/// What is consumed in one run, the same for every tool.
pub struct Consuming<'a> {
    pub bootstrap: &'a str,
    pub topic: &'a str,
    /// A group of this run's own.
    pub group: &'a str,
    pub records_count: u64,
}

/// What one run of a tool gave.
#[derive(Clone, Copy)]
pub struct Measured {
    pub records_count: u64,
    /// As the tool tells it.
    pub records_per_second: Option<f64>,
    /// The process's life.
    pub wall: Duration,
    /// The process's CPU.
    pub cpu: Duration,
}

/// Two runs of a tool, the longer with about four times the records.
struct Pair {
    short: Measured,
    long: Measured,
}

impl Pair {
    fn more_records(&self) -> Option<f64> {
        let more = self.long.records_count.checked_sub(self.short.records_count)?;
        (more > 0).then_some(more as f64)
    }

    fn slope_cpu_seconds_per_million_records(&self) -> Option<f64> {
        let more_cpu = self.long.cpu.as_secs_f64() - self.short.cpu.as_secs_f64();
        Some(more_cpu * 1e6 / self.more_records()?)
    }

    /// `None` where the longer run took no longer.
    fn slope_records_per_second(&self) -> Option<f64> {
        let more_seconds = self.long.wall.as_secs_f64() - self.short.wall.as_secs_f64();
        (more_seconds > 0.0).then_some(self.more_records()? / more_seconds)
    }

    fn add_to(&self, rounds: &mut Rounds, record_bytes: u64) {
        let rate = self.long.records_per_second;
        rounds.add(Figure::RecordsPerSecond, rate);
        rounds.add(
            Figure::PayloadBytesPerSecond,
            rate.map(|rate| rate * record_bytes as f64),
        );
        rounds.add(Figure::SlopeRecordsPerSecond, self.slope_records_per_second());
        rounds.add(
            Figure::SlopeCpuSecondsPerMillionRecords,
            self.slope_cpu_seconds_per_million_records(),
        );
        let of_process = self.long.cpu.as_secs_f64() * 1e6 / self.long.records_count as f64;
        rounds.add(Figure::ProcessCpuSecondsPerMillionRecords, Some(of_process));
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Tool {
    Plimsoll,
    Java,
    Librdkafka,
}

const TOOLS: [Tool; 3] = [Tool::Plimsoll, Tool::Java, Tool::Librdkafka];

impl fmt::Display for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Plimsoll => "plimsoll",
            Self::Java => "Kafka's own",
            Self::Librdkafka => "librdkafka",
        })
    }
}

/// One row of cases: what is produced, and to what topic.
struct Case {
    record_bytes: u64,
    batch_bytes: u64,
    acks: Acks,
    idempotent: bool,
    replication_factor: u32,
    /// Records of the first runs, which warm the brokers up and say how many a measurement takes.
    warm_up_records: u64,
}

const CASES: [Case; 5] = [
    Case {
        record_bytes: 100,
        batch_bytes: 16 << 10,
        acks: Acks::One,
        idempotent: false,
        replication_factor: 1,
        warm_up_records: 500_000,
    },
    Case {
        record_bytes: 100,
        batch_bytes: 256 << 10,
        acks: Acks::One,
        idempotent: false,
        replication_factor: 1,
        warm_up_records: 1_000_000,
    },
    Case {
        record_bytes: 512,
        batch_bytes: 16 << 10,
        acks: Acks::All,
        idempotent: true,
        replication_factor: 3,
        warm_up_records: 100_000,
    },
    Case {
        record_bytes: 512,
        batch_bytes: 16 << 10,
        acks: Acks::All,
        idempotent: false,
        replication_factor: 3,
        warm_up_records: 100_000,
    },
    Case {
        record_bytes: 1024,
        batch_bytes: 256 << 10,
        acks: Acks::One,
        idempotent: false,
        replication_factor: 1,
        warm_up_records: 200_000,
    },
];

impl Case {
    fn name(&self) -> String {
        format!(
            "{} · batch {} · RF {} · acks {}{}",
            bytes(self.record_bytes),
            bytes(self.batch_bytes),
            self.replication_factor,
            self.acks.value(),
            if self.idempotent { ", idempotent" } else { "" }
        )
    }

    /// Records of the shorter run of a tool with this rate, so that the longer one, of four times as many, takes about twice
    /// the time that a measurement is to take.
    fn records(&self, records_per_second: f64, seconds: u32) -> u64 {
        let at_most = LONG_RUN_BYTES / 4 / (self.record_bytes * u64::from(self.replication_factor));
        ((records_per_second * f64::from(seconds) / 2.0) as u64).clamp(1_000, at_most)
    }
}

/// A cluster that goes down, data and all, when this value is dropped.
struct Cluster<'a> {
    workspace: &'a Workspace,
    bootstrap: String,
}

impl<'a> Cluster<'a> {
    fn up(workspace: &'a Workspace) -> Result<Self> {
        // One that a killed bench has left would not be fresh.
        kafka::down(workspace, CLUSTER)?;
        let plan = kafka::Plan {
            name: CLUSTER.to_owned(),
            version: kafka::DEFAULT_VERSION.parse().map_err(Error::msg)?,
            brokers: BROKERS,
            properties: Vec::new(),
            secured: false,
        };
        eprintln!("starting Apache Kafka {}", plan.version);
        let bootstrap = kafka::up(workspace, &plan)?;
        Ok(Self { workspace, bootstrap })
    }
}

impl Drop for Cluster<'_> {
    fn drop(&mut self) {
        if let Err(error) = kafka::down(self.workspace, CLUSTER) {
            eprintln!("{error:#}; try: cargo x kafka down --name {CLUSTER}");
        }
    }
}

/// Measures producing, consuming, and starting.
pub fn measure(bench: &Bench<'_>) -> Result<Findings> {
    let cluster = Cluster::up(bench.workspace)?;
    let mut on_cluster = OnCluster {
        bench,
        bootstrap: &cluster.bootstrap,
        notes: Vec::new(),
    };
    on_cluster.measure()
}

/// The measurements of one cluster.
struct OnCluster<'a> {
    bench: &'a Bench<'a>,
    bootstrap: &'a str,
    notes: Vec<String>,
}

impl OnCluster<'_> {
    fn measure(&mut self) -> Result<Findings> {
        if self.bench.rdkafka_performance.is_none() {
            self.note(
                "librdkafka is missing: build its examples/rdkafka_performance and name it with --rdkafka-performance".to_owned(),
            );
        }
        let tools = self.tools();
        let rows = |case: &str| {
            let row = |tool: &Tool| Row {
                case: case.to_owned(),
                tool: tool.to_string(),
                rounds: Rounds::default(),
            };
            tools.iter().map(row).collect::<Vec<_>>()
        };
        eprintln!("warming the brokers up");
        let mut records = Vec::new();
        for case in &CASES {
            records.push(self.warm_up(case)?);
        }
        let held =
            (CONSUMED_RECORDS_PER_SECOND * u64::from(self.bench.seconds)).min(CONSUMED_RECORDS_AT_MOST);
        self.hold(held)?;
        self.with_plimsoll(|plimsoll, bootstrap| {
            plimsoll.create_topic(bootstrap, STARTING_TOPIC, PARTITIONS, 1)
        })?;

        let consuming = format!("{CONSUMED_RECORD_BYTES} B, a group of one");
        let starting = "one record, RF 1";
        let mut produced: Vec<Vec<Row>> = CASES.iter().map(|case| rows(&case.name())).collect();
        let mut consumed = rows(&consuming);
        let mut started = rows(starting);
        let bench = self.bench;
        let cut_short = bench.rounds(|round| {
            for ((case, records), rows) in CASES.iter().zip(&records).zip(&mut produced) {
                self.produce(case, records, round, rows)?;
            }
            self.consume(held, round, &mut consumed)?;
            self.start(round, &mut started)
        })?;
        if let Some(note) = cut_short {
            self.note(note);
        }

        let producing = self.producing_section(produced.into_iter().flatten().collect());
        let consuming_section = consuming_section(consumed, &consuming);
        let starting_section = starting_section(started);
        let mut expectations = expectations(&producing);
        expectations.push(Expectation::of(
            "real Kafka, from plimsoll's start to its end, one record acknowledged",
            Some(Figure::ProcessSeconds),
            Bound::AtMost(0.2),
            starting_section.median(starting, &Tool::Plimsoll.to_string(), Figure::ProcessSeconds),
        ));
        Ok(Findings {
            sections: vec![producing, consuming_section, starting_section],
            expectations,
            notes: std::mem::take(&mut self.notes),
        })
    }

    /// The tools that are here.
    fn tools(&self) -> Vec<Tool> {
        let is_here = |tool: &Tool| *tool != Tool::Librdkafka || self.bench.rdkafka_performance.is_some();
        TOOLS.into_iter().filter(is_here).collect()
    }

    fn note(&mut self, note: String) {
        eprintln!("{note}");
        self.notes.push(format!("real Kafka: {note}"));
    }

    fn with_plimsoll<T>(&self, act: impl FnOnce(&super::Plimsoll, &str) -> Result<T>) -> Result<T> {
        act(&self.bench.plimsoll, self.bootstrap)
    }

    /// A failure of plimsoll ends the bench; another tool's is noted, and its column stays empty.
    fn of_peer<T>(&mut self, tool: Tool, case: &str, outcome: Result<T>) -> Result<Option<T>> {
        ensure_not_interrupted()?;
        match outcome {
            Ok(found) => Ok(Some(found)),
            Err(error) if tool == Tool::Plimsoll => Err(error),
            Err(error) => {
                self.note(format!("{case}: {tool} failed: {error:#}"));
                Ok(None)
            }
        }
    }

    /// Lets each tool produce a little, and returns how many records the shorter run of its measurements takes. A tool that
    /// fails here is left out of this case.
    fn warm_up(&mut self, case: &Case) -> Result<Vec<(Tool, u64)>> {
        let topic = "bench-warm-up";
        let mut records = Vec::new();
        self.create(topic, case.replication_factor)?;
        for tool in self.tools() {
            let outcome = self.produce_once(tool, case, topic, case.warm_up_records);
            let measured = self.of_peer(tool, &case.name(), outcome)?;
            if let Some(rate) = measured.and_then(|measured| measured.records_per_second) {
                records.push((tool, case.records(rate, self.bench.seconds)));
            }
        }
        self.delete(topic)?;
        Ok(records)
    }

    fn create(&self, topic: &str, replication_factor: u32) -> Result<()> {
        self.with_plimsoll(|plimsoll, bootstrap| {
            plimsoll.create_topic(bootstrap, topic, PARTITIONS, replication_factor)
        })
    }

    fn delete(&self, topic: &str) -> Result<()> {
        self.with_plimsoll(|plimsoll, bootstrap| plimsoll.delete_topic(bootstrap, topic))
    }

    fn produce(&mut self, case: &Case, records: &[(Tool, u64)], round: u32, rows: &mut [Row]) -> Result<()> {
        let topic = format!("bench-produce-{round}");
        self.create(&topic, case.replication_factor)?;
        for (tool, records) in in_turn(records, round) {
            let outcome = pair(records, |count| self.produce_once(tool, case, &topic, count));
            if let Some(pair) = self.of_peer(tool, &case.name(), outcome)? {
                tell(&case.name(), tool, &pair);
                pair.add_to(rounds_of(rows, tool)?, case.record_bytes);
            }
        }
        self.delete(&topic)
    }

    fn produce_once(&self, tool: Tool, case: &Case, topic: &str, records_count: u64) -> Result<Measured> {
        let producing = Producing {
            bootstrap: self.bootstrap,
            topic,
            records_count,
            record_bytes: case.record_bytes,
            batch_bytes: case.batch_bytes,
            acks: case.acks,
            idempotent: case.idempotent,
        };
        self.produce_with(tool, &producing)
    }

    fn produce_with(&self, tool: Tool, producing: &Producing<'_>) -> Result<Measured> {
        match tool {
            Tool::Java => kafka_perf_tools::produce(self.bench.workspace, producing),
            Tool::Librdkafka => self.librdkafka()?.produce(producing),
            Tool::Plimsoll => {
                let run = self.bench.plimsoll.run(&plimsoll_produces(producing))?;
                ensure!(
                    run.acknowledged_count() == Some(producing.records_count),
                    "plimsoll has {:?} of {} records acknowledged",
                    run.acknowledged_count(),
                    producing.records_count
                );
                Ok(Measured {
                    records_count: producing.records_count,
                    records_per_second: run.acknowledged_per_second(),
                    wall: run.ended.wall,
                    cpu: run.ended.cpu,
                })
            }
        }
    }

    fn librdkafka(&self) -> Result<&super::RdkafkaPerformance> {
        self.bench
            .rdkafka_performance
            .as_ref()
            .context("librdkafka is missing")
    }

    /// Fills the topic that is consumed.
    fn hold(&self, records_count: u64) -> Result<()> {
        self.create(HELD_TOPIC, 1)?;
        let producing = Producing {
            bootstrap: self.bootstrap,
            topic: HELD_TOPIC,
            records_count,
            record_bytes: CONSUMED_RECORD_BYTES,
            batch_bytes: 16 << 10,
            acks: Acks::One,
            idempotent: false,
        };
        self.produce_with(Tool::Plimsoll, &producing).map(drop)
    }

    fn consume(&mut self, held: u64, round: u32, rows: &mut [Row]) -> Result<()> {
        for tool in in_turn(&self.tools(), round) {
            let outcome = pair(held / 4, |count| self.consume_once(tool, round, count));
            if let Some(pair) = self.of_peer(tool, "consuming", outcome)? {
                tell("consuming", tool, &pair);
                pair.add_to(rounds_of(rows, tool)?, CONSUMED_RECORD_BYTES);
            }
        }
        Ok(())
    }

    fn consume_once(&self, tool: Tool, round: u32, records_count: u64) -> Result<Measured> {
        let consuming = Consuming {
            bootstrap: self.bootstrap,
            topic: HELD_TOPIC,
            group: &format!("bench-{round}-{records_count}"),
            records_count,
        };
        match tool {
            Tool::Java => kafka_perf_tools::consume(self.bench.workspace, &consuming),
            Tool::Librdkafka => self.librdkafka()?.consume(&consuming),
            Tool::Plimsoll => {
                let run = self.bench.plimsoll.run(&plimsoll_consumes(&consuming))?;
                ensure!(
                    run.consumed_count() >= records_count,
                    "plimsoll has consumed {} of {records_count} records",
                    run.consumed_count()
                );
                Ok(Measured {
                    records_count: run.consumed_count(),
                    records_per_second: run.consumed_per_second(),
                    wall: run.ended.wall,
                    cpu: run.ended.cpu,
                })
            }
        }
    }

    /// The life of a process that sends one record to a topic that is there.
    fn start(&mut self, round: u32, rows: &mut [Row]) -> Result<()> {
        for tool in in_turn(&self.tools(), round) {
            // The others' starts are shown for comparison alone.
            for _ in 0..if tool == Tool::Plimsoll { STARTS } else { 1 } {
                let producing = Producing {
                    bootstrap: self.bootstrap,
                    topic: STARTING_TOPIC,
                    records_count: 1,
                    record_bytes: 100,
                    batch_bytes: 16 << 10,
                    acks: Acks::One,
                    idempotent: false,
                };
                let outcome = match tool {
                    Tool::Plimsoll => self.start_plimsoll(&producing),
                    _ => self
                        .produce_with(tool, &producing)
                        .map(|measured| (measured.wall, measured.cpu, None)),
                };
                if let Some((wall, cpu, acknowledged)) = self.of_peer(tool, "starting", outcome)? {
                    eprintln!("  starting: {tool} {} ms", wall.as_millis());
                    let rounds = rounds_of(rows, tool)?;
                    rounds.add(Figure::ProcessSeconds, Some(wall.as_secs_f64()));
                    rounds.add(Figure::AcknowledgedSeconds, acknowledged);
                    rounds.add(Figure::ProcessCpuSeconds, Some(cpu.as_secs_f64()));
                }
            }
        }
        Ok(())
    }

    fn start_plimsoll(&self, producing: &Producing<'_>) -> Result<(Duration, Duration, Option<f64>)> {
        let run = self.bench.plimsoll.run(&plimsoll_produces(producing))?;
        ensure!(
            run.acknowledged_count() == Some(1),
            "the one record was not acknowledged"
        );
        Ok((run.ended.wall, run.ended.cpu, run.measured_end_seconds()))
    }

    fn producing_section(&self, rows: Vec<Row>) -> Section {
        let mut section = Section {
            title: format!("Producing to Apache Kafka {}, as fast as it acknowledges", kafka::DEFAULT_VERSION),
            settings: vec![
                format!(
                    "{BROKERS} brokers and the generator on this machine, {PARTITIONS} partitions, one producer, linger.ms {LINGER_MS}, buffer.memory {}",
                    bytes(BUFFER_MEMORY_BYTES)
                ),
                format!(
                    "max.request.size {}, {MAX_IN_FLIGHT} in flight (librdkafka, where not idempotent: unbounded, its default)",
                    bytes(MAX_REQUEST_BYTES)
                ),
                "records/s: the tool's own figure of its longer run; by slope: between runs of N and 4 N records".to_owned(),
            ],
            columns: COMPARED.to_vec(),
            rows,
            ratios: Vec::new(),
        };
        if let Some(librdkafka) = &self.bench.rdkafka_performance {
            section
                .settings
                .push(format!("librdkafka {}", librdkafka.version()));
        }
        section.ratios = CASES.iter().map(|case| ratios(&section, &case.name())).collect();
        section
    }
}

const HELD_TOPIC: &str = "bench-held";
const STARTING_TOPIC: &str = "bench-starting";

/// The columns where tools are compared.
const COMPARED: [Figure; 5] = [
    Figure::RecordsPerSecond,
    Figure::PayloadBytesPerSecond,
    Figure::SlopeRecordsPerSecond,
    Figure::SlopeCpuSecondsPerMillionRecords,
    Figure::ProcessCpuSecondsPerMillionRecords,
];

fn consuming_section(rows: Vec<Row>, case: &str) -> Section {
    let mut section = Section {
        title: format!("Consuming from Apache Kafka {}", kafka::DEFAULT_VERSION),
        settings: vec![
            format!("{PARTITIONS} partitions, RF 1, batches of 16 KiB, from the earliest record on"),
            "records/s: without joining the group; kafka-consumer-perf-test does not check CRCs".to_owned(),
        ],
        columns: COMPARED.to_vec(),
        rows,
        ratios: Vec::new(),
    };
    section.ratios = vec![ratios(&section, case)];
    section
}

fn starting_section(rows: Vec<Row>) -> Section {
    Section {
        title: "From a process's start to its first acknowledged record, and to its end".to_owned(),
        settings: vec![format!(
            "a topic that is there, with {PARTITIONS} partitions; acks 1"
        )],
        columns: vec![
            Figure::ProcessSeconds,
            Figure::AcknowledgedSeconds,
            Figure::ProcessCpuSeconds,
        ],
        rows,
        ratios: Vec::new(),
    }
}

/// plimsoll's medians over the others' in one case.
fn ratios(section: &Section, case: &str) -> Ratios {
    let over = |tool: Tool, figure: Figure| {
        let median = |tool: Tool| section.median(case, &tool.to_string(), figure);
        Some(median(Tool::Plimsoll)? / median(tool).filter(|other| *other > 0.0)?)
    };
    Ratios {
        case: case.to_owned(),
        rate_over_java: over(Tool::Java, Figure::RecordsPerSecond),
        rate_over_librdkafka: over(Tool::Librdkafka, Figure::RecordsPerSecond),
        cpu_over_java: over(Tool::Java, Figure::SlopeCpuSecondsPerMillionRecords),
        cpu_over_librdkafka: over(Tool::Librdkafka, Figure::SlopeCpuSecondsPerMillionRecords),
    }
}

/// What is expected beside the other tools, case by case.
fn expectations(producing: &Section) -> Vec<Expectation> {
    let of_case = |ratios: &Ratios| {
        let expected = [
            (
                "rate over librdkafka's",
                Bound::AtLeast(1.0),
                ratios.rate_over_librdkafka,
            ),
            (
                "CPU per record over the Java tool's",
                Bound::AtMost(0.1),
                ratios.cpu_over_java,
            ),
            (
                "CPU per record over librdkafka's",
                Bound::AtMost(0.5),
                ratios.cpu_over_librdkafka,
            ),
        ];
        expected.map(|(what, bound, measured)| {
            Expectation::of(
                format!("real Kafka, {}: {what}", ratios.case),
                None,
                bound,
                measured,
            )
        })
    };
    producing.ratios.iter().flat_map(of_case).collect()
}

fn plimsoll_produces(producing: &Producing<'_>) -> Vec<String> {
    let mut arguments = words([
        "--bootstrap-server",
        producing.bootstrap,
        "--topic",
        producing.topic,
        "--existing",
        "--subscriptions",
        "0",
        "--rate",
        "max",
    ]);
    arguments.extend(["--records".to_owned(), producing.records_count.to_string()]);
    arguments.extend(["--record-size".to_owned(), producing.record_bytes.to_string()]);
    for (name, value) in producing.properties() {
        arguments.extend(["-X".to_owned(), format!("{name}={value}")]);
    }
    arguments
}

fn plimsoll_consumes(consuming: &Consuming<'_>) -> Vec<String> {
    let mut arguments = words([
        "--bootstrap-server",
        consuming.bootstrap,
        "--topic",
        consuming.topic,
        "--existing",
        "--from",
        "earliest",
        "--producers-per-topic",
        "0",
        "--subscriptions",
        "1",
        "--consumers-per-subscription",
        "1",
    ]);
    arguments.extend(["--records".to_owned(), consuming.records_count.to_string()]);
    arguments
}

fn words<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(str::to_owned).to_vec()
}

/// One run of N records and one of 4 N.
fn pair(records: u64, mut run: impl FnMut(u64) -> Result<Measured>) -> Result<Pair> {
    Ok(Pair {
        short: run(records)?,
        long: run(4 * records)?,
    })
}

/// The tools in an order that changes from round to round, so that none always has the brokers as another left them.
fn in_turn<T: Clone>(tools: &[T], round: u32) -> Vec<T> {
    let mut tools = tools.to_vec();
    let first = round as usize % tools.len().max(1);
    tools.rotate_left(first);
    tools
}

fn rounds_of(rows: &mut [Row], tool: Tool) -> Result<&mut Rounds> {
    let row = rows.iter_mut().find(|row| row.tool == tool.to_string());
    Ok(&mut row.with_context(|| format!("{tool} has no row"))?.rounds)
}

fn tell(case: &str, tool: Tool, pair: &Pair) {
    let rate = pair
        .long
        .records_per_second
        .map(|rate| Figure::RecordsPerSecond.show(rate));
    eprintln!(
        "  {case}: {tool} {}/s, {} records in {:.1} s",
        rate.unwrap_or_default(),
        pair.long.records_count,
        pair.long.wall.as_secs_f64()
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(records_count: u64, wall_ms: u64, cpu_ms: u64) -> Measured {
        Measured {
            records_count,
            records_per_second: None,
            wall: Duration::from_millis(wall_ms),
            cpu: Duration::from_millis(cpu_ms),
        }
    }

    #[test]
    fn a_start_of_a_second_is_not_in_the_slope() {
        // A start of 1 s with 0.8 s of CPU, then 2 s and 0.5 s of CPU for each million.
        let pair = Pair {
            short: measured(1_000_000, 3_000, 1_300),
            long: measured(4_000_000, 9_000, 2_800),
        };
        let cpu = pair.slope_cpu_seconds_per_million_records().unwrap();
        assert!((cpu - 0.5).abs() < 1e-9, "{cpu}");
        assert_eq!(pair.slope_records_per_second(), Some(500_000.0));
    }

    #[test]
    fn there_is_no_slope_without_more_records_or_more_time() {
        let pair = Pair {
            short: measured(10, 100, 100),
            long: measured(10, 50, 100),
        };
        assert_eq!(pair.slope_cpu_seconds_per_million_records(), None);
        let pair = Pair {
            short: measured(10, 100, 100),
            long: measured(40, 100, 130),
        };
        assert_eq!(pair.slope_records_per_second(), None);
    }

    #[test]
    fn every_tool_comes_first_in_some_round() {
        let first: Vec<String> = (0..3)
            .map(|round| in_turn(&TOOLS, round)[0].to_string())
            .collect();
        assert_eq!(first, ["plimsoll", "Kafka's own", "librdkafka"]);
        assert!(in_turn::<Tool>(&[], 2).is_empty());
    }

    #[test]
    fn the_longer_run_takes_twice_the_time_and_bounded_space() {
        let case = &CASES[4];
        assert_eq!(case.records(100_000.0, 5), 250_000);
        assert_eq!(4 * case.records(1e9, 60) * case.record_bytes, LONG_RUN_BYTES);
        assert_eq!(case.records(0.0, 1), 1_000);
    }

    #[test]
    fn sizes_are_named_in_the_largest_unit_that_fits() {
        assert_eq!(
            [0, 100, 1024, 16 << 10, 1 << 20, 1000].map(bytes),
            ["0 B", "100 B", "1 KiB", "16 KiB", "1 MiB", "1000 B"]
        );
    }

    #[test]
    fn ratios_are_those_of_medians_and_absent_without_the_peer() {
        let row = |tool: Tool, rate: f64, cpu: f64| {
            let mut rounds = Rounds::default();
            rounds.add(Figure::RecordsPerSecond, Some(rate));
            rounds.add(Figure::SlopeCpuSecondsPerMillionRecords, Some(cpu));
            Row {
                case: "c".to_owned(),
                tool: tool.to_string(),
                rounds,
            }
        };
        let section = Section {
            title: String::new(),
            settings: Vec::new(),
            columns: COMPARED.to_vec(),
            rows: vec![row(Tool::Plimsoll, 600.0, 0.25), row(Tool::Java, 200.0, 4.0)],
            ratios: Vec::new(),
        };
        let section = Section {
            ratios: vec![ratios(&section, "c")],
            ..section
        };
        let found = &section.ratios[0];
        assert_eq!(
            (found.rate_over_java, found.cpu_over_java),
            (Some(3.0), Some(0.0625))
        );
        assert_eq!(
            (found.rate_over_librdkafka, found.cpu_over_librdkafka),
            (None, None)
        );
        let met: Vec<_> = expectations(&section)
            .iter()
            .map(|expectation| expectation.met)
            .collect();
        assert_eq!(met, [None, Some(true), None]);
    }
}
