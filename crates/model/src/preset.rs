//! Named workloads with their targets, for `--preset`: those of published studies, so that a cluster can be held against their
//! figures, and those of everyday uses.
//!
//! A preset is a workload file and a driver file as a user would write them; both stand in `crates/model/presets/`.

use crate::spelling::likely_meant;

/// A named workload with its target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preset {
    /// What it is called by, in words joined by hyphens.
    pub name: &'static str,
    /// What it is, in a line.
    pub summary: &'static str,
    /// What was published for this workload, on which hardware; `None` for a workload that no study measured.
    pub published: Option<Published>,
    /// The workload file.
    pub workload: &'static str,
    /// The driver file, without addresses of brokers.
    pub driver: &'static str,
}

/// What a study reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Published {
    /// The figures, and what they were measured on.
    pub figures: &'static str,
    /// Where.
    pub source: &'static str,
}

macro_rules! preset {
    ($name:literal, $summary:literal, $published:expr) => {
        Preset {
            name: $name,
            summary: $summary,
            published: $published,
            workload: include_str!(concat!("../presets/", $name, ".yaml")),
            driver: include_str!(concat!("../presets/", $name, ".driver.yaml")),
        }
    };
}

const KUBERNETES: &str = "https://banzaicloud.github.io/blog/kafka-infra-sizing/";
const VENDOR: &str = "NetApp documentation, Apache Kafka workloads with NFS storage, validation on AFF A900";

/// All presets, the published ones first.
pub const PRESETS: &[Preset] = &[
    preset!(
        "three-topics-512b",
        "3 topics x 12 partitions, RF 3, 512 B records in batches of 500, as fast as they are taken",
        Some(Published {
            figures: "about 500 MB/s into 3 brokers on Kubernetes; about 580 MB/s with a fourth, since partitions were \
                      spread unevenly",
            source: KUBERNETES,
        })
    ),
    preset!(
        "three-topics-100b",
        "3 topics x 12 partitions, RF 3, 100 B records in batches of 500, as fast as they are taken",
        Some(Published {
            figures: "the small records of the same study as three-topics-512b; it gives no figure for them alone",
            source: KUBERNETES,
        })
    ),
    preset!(
        "hundred-partitions",
        "100 partitions, RF 3, 1 KiB records, produced and consumed at once",
        Some(Published {
            figures: "3.4 GB/s in a steady state with RF 3 on 8 brokers, 4.03 GB/s at the peak of producing alone",
            source: VENDOR,
        })
    ),
    preset!(
        "table-3-partitions",
        "3 partitions, 250 B records, acks 1, batch.size 8196, one cell of a hand-made table",
        Some(Published {
            figures: "rates of 50, 100, 500, 1000, 5000, 10000 and 20000 records/s were tried, each with 3 and with 9 \
                      partitions; the whole table is one plimsoll sweep",
            source: "an engineer's tables made with kafka-producer-perf-test",
        })
    ),
    preset!(
        "table-9-partitions",
        "9 partitions, 250 B records, acks 1, batch.size 8196, the other column of that table",
        Some(Published {
            figures: "as table-3-partitions",
            source: "an engineer's tables made with kafka-producer-perf-test",
        })
    ),
    preset!(
        "unloaded-latency",
        "100 records/s of 100 B, none waiting for another: what one record costs",
        None
    ),
    preset!(
        "durable-events",
        "1 KiB records acknowledged by all replicas, lz4, one group that reads them",
        None
    ),
    preset!(
        "fan-out",
        "1 KiB records read by five groups: written once, sent out five times",
        None
    ),
    preset!(
        "exactly-once",
        "transactions of 100 ms, read by a group that sees committed records alone",
        None
    ),
    preset!(
        "keyed-telemetry",
        "200 B records with keys, zstd, 24 partitions: small batches for each partition",
        None
    ),
];

/// The preset of that name.
///
/// # Errors
/// The name that was likely meant, or all names, in words.
pub fn find(name: &str) -> Result<&'static Preset, String> {
    if let Some(preset) = PRESETS.iter().find(|preset| preset.name == name) {
        return Ok(preset);
    }
    let names = || PRESETS.iter().map(|preset| preset.name);
    let near = likely_meant(name, names());
    let hint = match near {
        Some(near) => format!("did you mean {near}?"),
        None => format!("there are {}", names().collect::<Vec<_>>().join(", ")),
    };
    Err(format!("there is no such preset; {hint}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::TargetDraft;
    use crate::workload::WorkloadDraft;

    #[test]
    fn each_preset_is_a_valid_workload_on_a_valid_target_and_called_by_its_name() {
        for preset in PRESETS {
            let workload = WorkloadDraft::from_file(preset.name, preset.workload).resolve();
            let (workload, notices) = workload.unwrap_or_else(|faults| panic!("{}: {faults}", preset.name));
            assert_eq!(workload.name, preset.name);
            assert_eq!(notices, [], "{}", preset.name);
            let mut target = TargetDraft::new();
            target.read_driver_file(preset.name, preset.driver);
            assert!(!target.has_bootstrap_servers(), "{}", preset.name);
            target.set_bootstrap_servers("a:9092", "test");
            let (target, notices) = target
                .resolve()
                .unwrap_or_else(|faults| panic!("{}: {faults}", preset.name));
            assert_eq!(notices, [], "{}", preset.name);
            assert_eq!(target.not_honoured.len(), 0, "{}", preset.name);
            assert!(preset.summary.len() <= 100, "{}", preset.name);
        }
    }

    #[test]
    fn names_are_told_apart_and_a_wrong_one_is_told_with_the_nearest() {
        let mut names: Vec<&str> = PRESETS.iter().map(|preset| preset.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), PRESETS.len());
        assert_eq!(find("fan-out").map(|preset| preset.name), Ok("fan-out"));
        assert_eq!(
            find("fanout").unwrap_err(),
            "there is no such preset; did you mean fan-out?"
        );
        assert!(find("x").unwrap_err().ends_with("keyed-telemetry"));
    }

    /// Batches of 500 records must fit into batch.size, and 501 must not, whatever the stamps hold.
    #[test]
    fn batches_of_the_published_presets_hold_five_hundred_records() {
        for (name, record) in [("three-topics-512b", 512u64), ("three-topics-100b", 100)] {
            let preset = find(name).unwrap();
            let size: u64 = preset
                .driver
                .lines()
                .find_map(|line| line.trim().strip_prefix("batch.size="))
                .unwrap()
                .parse()
                .unwrap();
            // Record batch v2: 61 bytes, and about 8 bytes around each value of that length.
            let of = |records: u64| 61 + records * (record + 8);
            assert!((of(500)..of(535)).contains(&size), "{name}: {size}");
        }
    }
}
