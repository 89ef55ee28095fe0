//! The keys of a workload file: one table, from which reading, defaults, help and the messages about misspelt keys come.

/// Who defined a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The Open Messaging Benchmark.
    Omb,
    /// plimsoll.
    Ours,
}

/// One key of the workload file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeySpec {
    /// The key, case and all.
    pub name: &'static str,
    /// Who defined it.
    pub origin: Origin,
    /// What it means, and its unit.
    pub meaning: &'static str,
    /// The value where a file lacks the key; absent where there is none, or it must be given.
    pub default_in_file: Option<&'static str>,
    /// The value of a run without a file; absent where there is none.
    pub default_without_file: Option<&'static str>,
}

const fn omb(
    name: &'static str,
    in_file: Option<&'static str>,
    without: Option<&'static str>,
    meaning: &'static str,
) -> KeySpec {
    KeySpec {
        name,
        origin: Origin::Omb,
        meaning,
        default_in_file: in_file,
        default_without_file: without,
    }
}

const fn ours(
    name: &'static str,
    default: Option<&'static str>,
    without: Option<&'static str>,
    meaning: &'static str,
) -> KeySpec {
    KeySpec {
        name,
        origin: Origin::Ours,
        meaning,
        default_in_file: default,
        default_without_file: without,
    }
}

const KEYS: [KeySpec; 36] = [
    omb(
        "name",
        None,
        Some("run"),
        "name of the workload, shown in the result; the file's name where absent",
    ),
    omb("topics", None, Some("1"), "number of topics"),
    ours(
        "topicNames",
        None,
        None,
        "list of the topics' names; the run makes up names where absent",
    ),
    ours(
        "existingTopics",
        Some("false"),
        Some("false"),
        "true: the topics named exist already, and are left as they are",
    ),
    omb("partitionsPerTopic", None, Some("3"), "partitions of each topic"),
    ours(
        "topicWeights",
        None,
        None,
        "list of whole numbers, one a topic: relative shares of the rate; equal where absent",
    ),
    ours(
        "partitionWeights",
        None,
        None,
        "list of whole numbers, one a partition: relative shares of a topic's records; the partitioner decides where absent",
    ),
    omb(
        "keyDistributor",
        Some("NO_KEY"),
        Some("NO_KEY"),
        "NO_KEY, KEY_ROUND_ROBIN or RANDOM_NANO",
    ),
    omb("messageSize", None, Some("1024"), "bytes of each record's value"),
    omb(
        "useRandomizedPayloads",
        Some("false"),
        Some("false"),
        "true: values from a generated pool",
    ),
    omb(
        "randomBytesRatio",
        Some("0.0"),
        Some("0.0"),
        "share of each pooled value that is random, 0 to 1; the rest is zeros",
    ),
    omb(
        "randomizedPayloadPoolSize",
        Some("0"),
        Some("0"),
        "number of values in the pool",
    ),
    omb(
        "payloadFile",
        None,
        None,
        "file whose content is the value of each record",
    ),
    ours(
        "headers",
        None,
        None,
        "map of header names to values that each record carries",
    ),
    ours(
        "headerCount",
        None,
        None,
        "number of generated headers that each record carries",
    ),
    ours("headerSize", None, None, "bytes of each generated header's value"),
    ours(
        "stamp",
        None,
        None,
        "where the 24-byte stamp goes: value, header or none",
    ),
    omb(
        "producersPerTopic",
        Some("0"),
        Some("1"),
        "producers of each topic; 0 to consume only",
    ),
    omb(
        "producerRate",
        None,
        Some("10000"),
        "records per second over all producers together, or max",
    ),
    ours(
        "transactional",
        Some("false"),
        Some("false"),
        "true: producers write in transactions, as they also do with a transactional.id among their properties",
    ),
    ours(
        "transactionDuration",
        Some("3s"),
        Some("3s"),
        "how long each transaction gathers records before it is committed, such as 500ms",
    ),
    ours(
        "slo",
        None,
        None,
        "objectives that the run has to keep, such as p99 < 20ms, backlog < 1s, errors = 0",
    ),
    omb(
        "subscriptionsPerTopic",
        Some("0"),
        Some("1"),
        "consumer groups of each topic; 0 to produce only",
    ),
    omb(
        "consumerPerSubscription",
        Some("0"),
        Some("1"),
        "consumers of each group",
    ),
    ours(
        "topicsPerConsumer",
        Some("1"),
        Some("1"),
        "topics that each consumer reads",
    ),
    ours(
        "consumerDelayMs",
        None,
        None,
        "milliseconds that each consumer spends on each record",
    ),
    ours(
        "consumerRate",
        None,
        None,
        "records per second that each consumer takes at most",
    ),
    omb(
        "consumerBacklogSizeGB",
        Some("0"),
        Some("0"),
        "GiB of backlog to build before consuming; only 0 is served",
    ),
    omb(
        "backlogDrainRatio",
        Some("1.0"),
        Some("1.0"),
        "share of the backlog to drain, 0 to 1; used with a backlog only",
    ),
    omb(
        "warmupDurationMinutes",
        Some("1"),
        None,
        "whole minutes of load before the measured phase; 0 for none",
    ),
    ours(
        "warmupDuration",
        None,
        Some("5s"),
        "the same as a duration such as 10s",
    ),
    ours(
        "warmupRecords",
        None,
        None,
        "records before the measured phase, instead of a duration",
    ),
    omb(
        "testDurationMinutes",
        None,
        None,
        "whole minutes of the measured phase",
    ),
    ours(
        "testDuration",
        None,
        Some("30s"),
        "the same as a duration such as 90s",
    ),
    ours(
        "testRecords",
        None,
        None,
        "records of the measured phase, instead of a duration",
    ),
    ours(
        "seed",
        Some("1"),
        Some("1"),
        "seed of everything random in the workload",
    ),
];

/// Keys that stand for one another: of each family one at most has effect.
pub(super) const FAMILIES: [[&str; 3]; 2] = [
    ["warmupDurationMinutes", "warmupDuration", "warmupRecords"],
    ["testDurationMinutes", "testDuration", "testRecords"],
];

/// All keys, in the order in which help and results show them.
pub fn keys() -> &'static [KeySpec] {
    &KEYS
}

/// The key of this name, case and all.
pub fn find_key(name: &str) -> Option<&'static KeySpec> {
    KEYS.iter().find(|key| key.name == name)
}

/// What keys that only forks of OMB know mean here: they are told of, and do not stop the run.
pub(super) fn fork_key(name: &str) -> Option<&'static str> {
    Some(match name {
        "existingTopicList" | "existingProduceTopicList" | "existingConsumeTopicList" => {
            "is of a fork of OMB and has no effect; give topicNames and existingTopics: true instead"
        }
        "reset" => {
            "is of a fork of OMB and has no effect; topics that the run did not make are never deleted"
        }
        "drainProducerRate" => "is of a fork of OMB and has no effect; it belongs to its backlog mode",
        "sampleRateMillis" => "is of a fork of OMB and has no effect; samples are taken once a second",
        _ => return None,
    })
}
