//! plimsoll's producers and consumers with its own embedded brokers.

use anyhow::{Result, ensure};

use super::expectation::{Bound, Expectation};
use super::figures::{Figure, Rounds, Row, Section};
use super::plimsoll::Run;
use super::real_kafka::{Acks, bytes};
use super::{Bench, Findings};

const RECORD_BYTES: [u64; 2] = [100, 1024];
const BATCH_BYTES: [u64; 2] = [16 * KIB, 1024 * KIB];
const KIB: u64 = 1024;

/// A request holds a batch for each of the partitions that a broker leads.
const MAX_REQUEST_BYTES: u64 = 4 * 1024 * KIB;

/// Memory of the brokers that hold what is consumed.
const BROKER_MEMORY: &str = "2GiB";

/// How much is put there: none of it may have gone before it is read.
const HELD_BYTES: u64 = 1536 * 1024 * KIB;

/// What a record takes in a batch besides its value: lengths, deltas, attributes.
const RECORD_OVERHEAD_BYTES: u64 = 12;

/// One row of the first table.
#[derive(Clone, Copy)]
struct Producing {
    record_bytes: u64,
    batch_bytes: u64,
    acks: Acks,
}

impl Producing {
    /// All combinations.
    fn cases() -> Vec<Self> {
        let mut cases = Vec::new();
        for record_bytes in RECORD_BYTES {
            for batch_bytes in BATCH_BYTES {
                for acks in [Acks::One, Acks::All] {
                    cases.push(Self {
                        record_bytes,
                        batch_bytes,
                        acks,
                    });
                }
            }
        }
        cases
    }

    fn name(self) -> String {
        format!(
            "{} · acks {}",
            name(self.record_bytes, self.batch_bytes),
            self.acks.value()
        )
    }

    fn settings(self) -> Vec<String> {
        let mut arguments = vec![
            "--rate".to_owned(),
            "max".to_owned(),
            "--record-size".to_owned(),
            self.record_bytes.to_string(),
        ];
        for property in [
            format!("batch.size={}", self.batch_bytes),
            format!("acks={}", self.acks.value()),
            // It needs acks=all, and is the default with it.
            format!("enable.idempotence={}", self.acks == Acks::All),
            format!("max.request.size={MAX_REQUEST_BYTES}"),
        ] {
            arguments.extend(["-X".to_owned(), property]);
        }
        arguments
    }
}

fn name(record_bytes: u64, batch_bytes: u64) -> String {
    format!("{} · batch {}", bytes(record_bytes), bytes(batch_bytes))
}

/// Records of this size that the brokers can hold.
fn held_records(record_bytes: u64) -> u64 {
    HELD_BYTES / (record_bytes + RECORD_OVERHEAD_BYTES)
}

fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    text.split_whitespace().map(str::to_owned)
}

/// Rows in the order of the cases, without figures.
fn rows(cases: impl IntoIterator<Item = String>) -> Vec<Row> {
    let row = |case| Row {
        case,
        tool: "plimsoll".to_owned(),
        rounds: Rounds::default(),
    };
    cases.into_iter().map(row).collect()
}

/// Measures producing, producing and consuming at once, and consuming.
pub fn measure(bench: &Bench<'_>) -> Result<Findings> {
    let producing = Producing::cases();
    let mut consuming_cases = Vec::new();
    for record_bytes in RECORD_BYTES {
        for batch_bytes in BATCH_BYTES {
            consuming_cases.push(Producing {
                record_bytes,
                batch_bytes,
                acks: Acks::One,
            });
        }
    }
    let name_of = |case: &Producing| name(case.record_bytes, case.batch_bytes);
    let mut produced = rows(producing.iter().map(|case| case.name()));
    let mut both = rows(consuming_cases.iter().map(name_of));
    let mut consumed = rows(consuming_cases.iter().map(name_of));
    eprintln!("embedded brokers");
    let cut_short = bench.rounds(|_| {
        for (case, row) in producing.iter().zip(&mut produced) {
            produce(bench, *case, &mut row.rounds)?;
        }
        for (case, row) in consuming_cases.iter().zip(&mut both) {
            produce_and_consume(bench, *case, &mut row.rounds)?;
        }
        for (case, row) in consuming_cases.iter().zip(&mut consumed) {
            consume(bench, *case, &mut row.rounds)?;
        }
        Ok(())
    })?;
    let seconds = bench.seconds;
    let producing = Section {
        title: format!("Producing to embedded brokers, as fast as they acknowledge ({seconds} s after 1 s of warm-up)"),
        settings: vec![
            "plimsoll run: 3 brokers in a child process, 1 topic of 3 partitions with 3 replicas, linger.ms 5".to_owned(),
            "idempotent with acks all, not with acks 1; CPU is the generator's alone, the brokers' is not in it".to_owned(),
        ],
        columns: vec![
            Figure::RecordsPerSecond,
            Figure::PayloadBytesPerSecond,
            Figure::GeneratorCpuSecondsPerMillionRecords,
            Figure::ServiceP50Seconds,
            Figure::ServiceP99Seconds,
        ],
        rows: produced,
        ratios: Vec::new(),
    };
    let mut expectations = vec![
        expectation(&producing, RECORD_BYTES[0], Figure::RecordsPerSecond, 5e6),
        expectation(&producing, RECORD_BYTES[1], Figure::PayloadBytesPerSecond, 1.2e9),
    ];
    let both = Section {
        title: "Producing, consuming and verifying at once".to_owned(),
        settings: vec![
            format!(
                "3 brokers with {BROKER_MEMORY}, which hold all records; acks 1; every record is verified"
            ),
            "CPU is that of producers and consumers, over records sent and consumed counted apart".to_owned(),
        ],
        columns: vec![
            Figure::RecordsPerSecond,
            Figure::PayloadBytesPerSecond,
            Figure::ConsumedRecordsPerSecond,
            Figure::GeneratorCpuSecondsPerMillionRecords,
        ],
        rows: both,
        ratios: Vec::new(),
    };
    let consuming = Section {
        title: "Consuming what one embedded broker holds".to_owned(),
        settings: vec![
            "one consumer of a topic with 3 partitions, from the earliest record on".to_owned(),
            "receive.buffer.bytes -1, the system's own choice: Kafka's default of 64 KiB makes the two ends wait for one another"
                .to_owned(),
        ],
        columns: vec![
            Figure::RecordsPerSecond,
            Figure::PayloadBytesPerSecond,
            Figure::GeneratorCpuSecondsPerMillionRecords,
        ],
        rows: consumed,
        ratios: Vec::new(),
    };
    // What can be written can be read as fast.
    for case in consuming_cases {
        let rate = |section: &Section, row: &str| section.median(row, "plimsoll", Figure::RecordsPerSecond);
        let ratio = rate(&consuming, &name_of(&case))
            .zip(rate(&producing, &case.name()))
            .map(|(consumed, produced)| consumed / produced);
        let what = format!("embedded brokers, {}: consumed over produced", name_of(&case));
        expectations.push(Expectation::of(what, None, Bound::AtLeast(1.0), ratio));
    }
    Ok(Findings {
        sections: vec![producing, both, consuming],
        expectations,
        notes: cut_short
            .into_iter()
            .map(|note| format!("embedded brokers: {note}"))
            .collect(),
    })
}

/// What is expected with the largest batches and acks 1.
fn expectation(section: &Section, record_bytes: u64, figure: Figure, least: f64) -> Expectation {
    let case = Producing {
        record_bytes,
        batch_bytes: BATCH_BYTES[1],
        acks: Acks::One,
    };
    let measured = section.median(&case.name(), "plimsoll", figure);
    let what = format!("embedded brokers, {}", case.name());
    Expectation::of(what, Some(figure), Bound::AtLeast(least), measured)
}

fn produce(bench: &Bench<'_>, case: Producing, rounds: &mut Rounds) -> Result<()> {
    let mut arguments = case.settings();
    arguments.extend(words("--subscriptions 0 --warmup 1s --duration"));
    arguments.push(format!("{}s", bench.seconds));
    let run = bench.plimsoll.run(&arguments)?;
    add_producing(rounds, &run);
    let service = run.service_seconds();
    rounds.add(Figure::ServiceP50Seconds, service.map(|(p50, _)| p50));
    rounds.add(Figure::ServiceP99Seconds, service.map(|(_, p99)| p99));
    tell(&case.name(), "produced", run.acknowledged_per_second());
    Ok(())
}

fn produce_and_consume(bench: &Bench<'_>, case: Producing, rounds: &mut Rounds) -> Result<()> {
    let broker = bench.plimsoll.broker(3, BROKER_MEMORY)?;
    let records = held_records(case.record_bytes);
    let mut arguments = case.settings();
    arguments.extend(words(
        "--subscriptions 1 --consumers-per-subscription 1 --partitions 3 --bootstrap-server",
    ));
    arguments.extend([
        broker.bootstrap().to_owned(),
        "--records".to_owned(),
        records.to_string(),
    ]);
    let run = bench.plimsoll.run(&arguments)?;
    ensure!(
        run.acknowledged_count() == Some(records)
            && run.consumed_count() == records
            && run.checked_count() == Some(records),
        "{records} records were due, {} acknowledged, {} consumed and {} verified",
        run.acknowledged_count().unwrap_or_default(),
        run.consumed_count(),
        run.checked_count().unwrap_or_default()
    );
    add_producing(rounds, &run);
    rounds.add(Figure::ConsumedRecordsPerSecond, run.consumed_per_second());
    tell(
        &case.name(),
        "produced and consumed",
        run.acknowledged_per_second(),
    );
    Ok(())
}

fn consume(bench: &Bench<'_>, case: Producing, rounds: &mut Rounds) -> Result<()> {
    let broker = bench.plimsoll.broker(1, BROKER_MEMORY)?;
    let records = held_records(case.record_bytes).to_string();
    let common = [
        "--topic",
        "held",
        "--bootstrap-server",
        broker.bootstrap(),
        "--records",
        &records,
    ];
    let mut load = case.settings();
    load.extend(common.map(str::to_owned));
    load.extend(words("--keep --partitions 3 --subscriptions 0"));
    bench.plimsoll.run(&load)?;
    let mut arguments: Vec<String> = common.map(str::to_owned).to_vec();
    arguments.extend(words(
        "--existing --from earliest --producers-per-topic 0 --subscriptions 1",
    ));
    arguments.extend(words("--consumers-per-subscription 1 -X receive.buffer.bytes=-1"));
    let run = bench.plimsoll.run(&arguments)?;
    rounds.add(Figure::RecordsPerSecond, run.consumed_per_second());
    rounds.add(Figure::PayloadBytesPerSecond, run.consumed_bytes_per_second());
    rounds.add(
        Figure::GeneratorCpuSecondsPerMillionRecords,
        run.cpu_seconds_per_million_records(),
    );
    tell(&case.name(), "consumed", run.consumed_per_second());
    Ok(())
}

fn add_producing(rounds: &mut Rounds, run: &Run) {
    rounds.add(Figure::RecordsPerSecond, run.acknowledged_per_second());
    rounds.add(Figure::PayloadBytesPerSecond, run.payload_bytes_per_second());
    rounds.add(
        Figure::GeneratorCpuSecondsPerMillionRecords,
        run.cpu_seconds_per_million_records(),
    );
}

fn tell(case: &str, what: &str, records_per_second: Option<f64>) {
    if let Some(rate) = records_per_second {
        eprintln!("  {case}: {what} {}/s", Figure::RecordsPerSecond.show(rate));
    }
}
