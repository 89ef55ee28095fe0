//! Kafka's command-line tools, by the names of their scripts.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail};
use clap::Args;

use super::assembly::{Assembly, Log};
use super::cluster::Cluster;
use super::{DEFAULT_VERSION, Version};
use crate::workspace::Workspace;

/// The scripts of Kafka's `bin/`, each with its main class: where it is in the newest release, and where it was before.
const TOOLS: [(&str, &[&str]); 23] = [
    (
        "kafka-acls",
        &["org.apache.kafka.tools.AclCommand", "kafka.admin.AclCommand"],
    ),
    (
        "kafka-broker-api-versions",
        &[
            "org.apache.kafka.tools.BrokerApiVersionsCommand",
            "kafka.admin.BrokerApiVersionsCommand",
        ],
    ),
    (
        "kafka-configs",
        &[
            "org.apache.kafka.tools.ConfigCommand",
            "kafka.admin.ConfigCommand",
        ],
    ),
    (
        "kafka-console-consumer",
        &[
            "org.apache.kafka.tools.consumer.ConsoleConsumer",
            "kafka.tools.ConsoleConsumer",
        ],
    ),
    (
        "kafka-console-producer",
        &[
            "org.apache.kafka.tools.ConsoleProducer",
            "kafka.tools.ConsoleProducer",
        ],
    ),
    (
        "kafka-consumer-groups",
        &[
            "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
            "kafka.admin.ConsumerGroupCommand",
        ],
    ),
    (
        "kafka-consumer-perf-test",
        &[
            "org.apache.kafka.tools.ConsumerPerformance",
            "kafka.tools.ConsumerPerformance",
        ],
    ),
    (
        "kafka-delete-records",
        &[
            "org.apache.kafka.tools.DeleteRecordsCommand",
            "kafka.admin.DeleteRecordsCommand",
        ],
    ),
    (
        "kafka-dump-log",
        &[
            "org.apache.kafka.tools.DumpLogSegments",
            "kafka.tools.DumpLogSegments",
        ],
    ),
    (
        "kafka-e2e-latency",
        &[
            "org.apache.kafka.tools.EndToEndLatency",
            "kafka.tools.EndToEndLatency",
        ],
    ),
    (
        "kafka-features",
        &[
            "org.apache.kafka.tools.FeatureCommand",
            "kafka.admin.FeatureCommand",
        ],
    ),
    (
        "kafka-get-offsets",
        &[
            "org.apache.kafka.tools.GetOffsetShell",
            "kafka.tools.GetOffsetShell",
        ],
    ),
    ("kafka-groups", &["org.apache.kafka.tools.GroupsCommand"]),
    (
        "kafka-leader-election",
        &[
            "org.apache.kafka.tools.LeaderElectionCommand",
            "kafka.admin.LeaderElectionCommand",
        ],
    ),
    (
        "kafka-log-dirs",
        &[
            "org.apache.kafka.tools.LogDirsCommand",
            "kafka.admin.LogDirsCommand",
        ],
    ),
    (
        "kafka-metadata-quorum",
        &[
            "org.apache.kafka.tools.MetadataQuorumCommand",
            "kafka.admin.MetadataQuorumCommand",
        ],
    ),
    (
        "kafka-producer-perf-test",
        &["org.apache.kafka.tools.ProducerPerformance"],
    ),
    (
        "kafka-reassign-partitions",
        &[
            "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
            "kafka.admin.ReassignPartitionsCommand",
        ],
    ),
    (
        "kafka-share-groups",
        &["org.apache.kafka.tools.consumer.group.ShareGroupCommand"],
    ),
    (
        "kafka-topics",
        &["org.apache.kafka.tools.TopicCommand", "kafka.admin.TopicCommand"],
    ),
    (
        "kafka-transactions",
        &["org.apache.kafka.tools.TransactionsCommand"],
    ),
    (
        "kafka-verifiable-consumer",
        &["org.apache.kafka.tools.VerifiableConsumer"],
    ),
    (
        "kafka-verifiable-producer",
        &["org.apache.kafka.tools.VerifiableProducer"],
    ),
];

#[derive(Args)]
#[command(override_usage = "cargo x kafka tool [--version V] [--name CLUSTER] TOOL [ARGUMENTS]…")]
pub struct Arguments {
    /// Release of the tool; that of the cluster which is up, where none is named
    #[arg(long)]
    version: Option<Version>,
    /// The cluster whose release is taken
    #[arg(long, default_value = "default", value_parser = super::cluster_name)]
    name: String,
    /// The tool (kafka-topics, kafka-producer-perf-test, …) or the full name of a class, and all that it is to be given
    #[arg(
        value_name = "TOOL",
        trailing_var_arg = true,
        allow_hyphen_values = true,
        required = true
    )]
    tool: Vec<OsString>,
}

/// Becomes the tool: its input, output, signals and exit status are its own.
pub fn run(workspace: &Workspace, arguments: Arguments) -> Result<ExitCode> {
    let version = match arguments.version {
        Some(version) => version,
        None => match Cluster::find(workspace, &arguments.name)? {
            Some(cluster) => cluster.version(),
            None => DEFAULT_VERSION.parse().map_err(anyhow::Error::msg)?,
        },
    };
    let (tool, tool_arguments) = arguments.tool.split_first().context("a tool is expected")?;
    let tool = tool.to_str().context("a tool's name is expected")?;
    let mut command = command(workspace, version, tool)?;
    Err(command.args(tool_arguments).exec()).context("cannot run java")
}

/// The command that runs a tool of this release, by the name of its script or the full name of its class. It wants the
/// tool's own arguments yet.
pub fn command(workspace: &Workspace, version: Version, tool: &str) -> Result<Command> {
    let assembly = Assembly::of(workspace, version)?;
    let class = match TOOLS
        .iter()
        .find(|(name, _)| *name == tool.trim_end_matches(".sh"))
    {
        Some((_, classes)) => assembly.first_class(classes)?,
        None if tool.contains('.') => tool,
        None => bail!(
            "there is no tool {tool}; there are:\n  {}",
            TOOLS.map(|(name, _)| name).join("\n  ")
        ),
    };
    let heap = std::env::var("KAFKA_HEAP_OPTS").unwrap_or_else(|_| default_heap(tool).to_owned());
    let heap_options: Vec<&str> = heap.split_whitespace().collect();
    let mut command = assembly.java(&heap_options, Log::Tool);
    command.arg(class);
    Ok(command)
}

/// The heap that Kafka's script of that name gives it.
fn default_heap(tool: &str) -> &'static str {
    match tool {
        "kafka-console-consumer"
        | "kafka-console-producer"
        | "kafka-consumer-perf-test"
        | "kafka-producer-perf-test"
        | "kafka-verifiable-consumer"
        | "kafka-verifiable-producer" => "-Xmx512M",
        _ => "-Xmx256M",
    }
}
