//! What the parts of this crate that are met per batch or per record cost. `cargo bench -p measure` prints ns for each.

#![expect(clippy::print_stdout, reason = "a bench is a program, and prints its figures")]

use std::hint::black_box;
use std::time::{Duration, Instant};

use measure::{ConstantRate, LatencyHistogram, Schedule, SequenceSet, Share, Stamp};

const SECOND_NS: u64 = 1_000_000_000;

fn main() {
    due_runs();
    due_times();
    stamps();
    sequences();
}

fn due_runs() {
    for (name, rate, producers, count) in [
        (
            "record_due_run, 10,000 records over 10 ms at 1 M/s",
            1_000_000,
            1,
            10_000,
        ),
        (
            "record_due_run, 10,000 records over 10 ms at 3 × 999,983/s",
            2_999_949,
            3,
            10_000,
        ),
        (
            "record_due_run, 160 records over 16 µs at 10 M/s",
            10_000_000,
            1,
            160,
        ),
        (
            "record_due_run, 32 records over 3.2 ms at 10,000/s",
            10_000,
            1,
            32,
        ),
    ] {
        let rate = ConstantRate::new(rate, 1).expect("a rate");
        let share = Share::of(Schedule::Constant(rate), 0, producers).expect("a share");
        let mut histogram = LatencyHistogram::new();
        let mut first = share.due_count(100 * SECOND_NS);
        report(name, || {
            let at_ns = share.due_ns(first + count) + 2_000_000;
            histogram.record_due_run(&share, first, count, at_ns);
            first += count;
        });
        black_box(histogram.count());
    }
}

fn due_times() {
    let rate = ConstantRate::new(3_000_000, 1).expect("a rate");
    let share = Share::of(Schedule::Constant(rate), 1, 3).expect("a share");
    let mut times = share.due_times(100_000_000);
    report("due time of the next record, carried along", || {
        black_box(times.next());
    });
    let mut sequence = 100_000_000;
    report("due time of a record, computed", || {
        black_box(share.due_ns(black_box(sequence)));
        sequence += 1;
    });
}

fn stamps() {
    let mut bytes = [0; 24];
    let mut stamp = Stamp {
        producer: 3,
        sequence: 0,
        due_ns: 0,
    };
    report("stamp, encode", || {
        stamp.sequence += 1;
        stamp.due_ns += 333;
        stamp.encode(7, 0xE306_9283, black_box(&mut bytes));
    });
    report("stamp, parse and verify", || {
        let parsed = Stamp::parse(black_box(&bytes)).expect("long enough");
        black_box(parsed.verify(7, 0xE306_9283));
    });
}

fn sequences() {
    let mut set = SequenceSet::new();
    let mut first = 0;
    report("SequenceSet::insert_run, 160 in order", || {
        black_box(set.insert_run(first, 160));
        first += 160;
    });
    let mut set = SequenceSet::new();
    let mut batch = 0_u64;
    report(
        "SequenceSet::insert_run, 160 of twelve partitions in reverse turn",
        || {
            let first = (batch / 12 * 12 + 11 - batch % 12) * 160;
            black_box(set.insert_run(first, 160));
            batch += 1;
        },
    );
    let mut set = SequenceSet::new();
    set.insert(1);
    let mut first = 2;
    report("SequenceSet::insert_run, 160 in order after one lost", || {
        black_box(set.insert_run(first, 160));
        first += 160;
    });
}

/// The best of ten slices of 20 ms each: the machine's other work only ever adds.
fn report(name: &str, mut operation: impl FnMut()) {
    let mut best = f64::INFINITY;
    for _ in 0..10 {
        let start = Instant::now();
        let mut count = 0_u32;
        let elapsed = loop {
            for _ in 0..100 {
                operation();
            }
            count += 100;
            let elapsed = start.elapsed();
            if elapsed > Duration::from_millis(20) {
                break elapsed;
            }
        };
        best = best.min(elapsed.as_nanos() as f64 / f64::from(count));
    }
    println!("{best:10.1} ns  {name}");
}
