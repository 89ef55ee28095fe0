//! Files and settings as users write them: workloads, drivers, properties, JAAS lines, broker scripts, units.

use super::Target;
use crate::mutation::{Random, damage};
use model::broker_script::BrokerScript;
use model::target::TargetDraft;
use model::workload::WorkloadDraft;

const KINDS: usize = 6;

const WORKLOAD: &str = "name: w\ntopics: 3\npartitionsPerTopic: 12\nmessageSize: 512\nproducersPerTopic: 1\n\
    producerRate: 10000\nsubscriptionsPerTopic: 1\nconsumerPerSubscription: 2\ntestDurationMinutes: 1\n\
    headers: {a: b, c: 'd'}\npartitionWeights: [1, 2, 3]\ntransactional: true\ntransactionDuration: 200ms\n";
const DRIVER: &str = "name: k\nreplicationFactor: 3\ntopicConfig: |\n  min.insync.replicas=2\ncommonConfig: |\n  \
    bootstrap.servers=localhost:9092\nproducerConfig: |\n  acks=all\n  linger.ms=1\nconsumerConfig: |\n  \
    auto.offset.reset=earliest\n";
const PROPERTIES: &str =
    "# comment\nbootstrap.servers=b1:9092,[::1]:9092\nacks = all\nclient.id:\\u0061\\\n  b\n";
const JAAS: &str =
    "org.apache.kafka.common.security.scram.ScramLoginModule required username=\"a\" password=\"b=;\\\"c\";";
const SCRIPT: &str = "seed: 1\nrules:\n  - { api: Produce, delay: 20ms, from: 2s, for: 1s }\n  - { stall: true, every: 20s, for: 2s }\n\
    \x20 - { broker: 2, bytes_per_second: 2MB }\n  - { api: Fetch, error: NOT_LEADER_OR_FOLLOWER, every_nth: 10 }\n";
const UNITS: &str = "10000/s 1.5GB 250ms 2h30m 12KiB";

pub fn files() -> Target {
    let (apis, errors) = broker::known_names();
    Target {
        name: "files",
        input,
        run: Box::new(move |input| {
            let [kind, bytes @ ..] = input else { return };
            let text = String::from_utf8_lossy(bytes);
            match usize::from(*kind) % KINDS {
                0 => drop(WorkloadDraft::from_file("w.yaml", &text).resolve()),
                1 => {
                    let mut draft = TargetDraft::new();
                    draft.read_driver_file("d.yaml", &text);
                    let _ = draft.resolve();
                }
                2 => {
                    let mut draft = TargetDraft::new();
                    draft.read_properties_file("c.properties", &text);
                    let _ = draft.resolve();
                }
                3 => drop(text.parse_jaas()),
                4 => drop(BrokerScript::parse("s.yaml", &text, &apis, &errors)),
                _ => {
                    for word in text.split(' ') {
                        let _ = model::units::parse_duration(word);
                        let _ = word.parse::<model::units::ByteSize>();
                        let _ = word.parse::<model::units::TargetRate>();
                    }
                }
            }
        }),
    }
}

trait Jaas {
    fn parse_jaas(&self) -> Result<(), String>;
}

impl Jaas for str {
    /// By way of the properties, as users give it.
    fn parse_jaas(&self) -> Result<(), String> {
        let mut draft = TargetDraft::new();
        draft.set_property("bootstrap.servers=b:9092", "-X");
        draft.set_property("security.protocol=SASL_PLAINTEXT", "-X");
        draft.set_property("sasl.mechanism=SCRAM-SHA-256", "-X");
        draft.set_property(&format!("sasl.jaas.config={self}"), "-X");
        draft.resolve().map(drop).map_err(|faults| faults.to_string())
    }
}

/// What means something to a parser.
const MARKS: [&str; 32] = [
    "[",
    "]",
    "{",
    "}",
    ": ",
    "- ",
    "\n",
    ",",
    "\"",
    "'",
    "|",
    ">",
    "&a ",
    "*a",
    ", *a",
    "!!t ",
    "#",
    "\\",
    "\\u",
    "---\n",
    "=",
    ";",
    "-1",
    "18446744073709551616",
    "1e400",
    "NaN",
    "99999999999999999999d",
    "ms",
    "%",
    "null",
    "\u{feff}",
    "\u{e9}",
];

fn input(random: &mut Random) -> Vec<u8> {
    let kind = random.below(KINDS);
    let text = [WORKLOAD, DRIVER, PROPERTIES, JAAS, SCRIPT, UNITS][kind];
    let mut bytes = text.as_bytes().to_vec();
    for _ in 0..random.below(4) {
        let at = random.below(bytes.len() + 1);
        let mark = *random.pick(&MARKS);
        let times = if random.below(32) == 0 {
            random.below(3000)
        } else {
            1
        };
        bytes.splice(at..at, mark.repeat(times).into_bytes());
    }
    // A long text with a name, and that name many times over.
    if random.below(64) == 0 {
        let (long, times) = (random.below(20_000), random.below(3000));
        bytes.extend_from_slice(format!("x: [&a {}{}]\n", "y".repeat(long), ", *a".repeat(times)).as_bytes());
    }
    damage(&mut bytes, random);
    damage(&mut bytes, random);
    [&[kind as u8], &bytes[..]].concat()
}
