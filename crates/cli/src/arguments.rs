//! The command line, as it is typed: one definition for parsing, help and completion. What it means is found in `plan` and
//! in the commands.

use crate::exit_status::TABLE;
use clap::builder::styling::Styles;
use clap::{Args, Parser, Subcommand, ValueEnum, ValueHint};
use load::plan::StartFrom;
use model::units::ByteSize;
use std::path::PathBuf;

/// The version, and the commit where it is known.
pub const VERSION: &str = env!("PLIMSOLL_VERSION");

const EXAMPLES: &str = "\
Examples:
  plimsoll run
  plimsoll run workload.yaml --target driver-kafka.yaml
  plimsoll run --bootstrap-server a:9092,b:9092 --topics 3 --partitions 12 \\
      --record-size 512 --rate 50000 --warmup 10s --duration 60s -X acks=all
  plimsoll run --bootstrap-server a:9092 --rate max --duration 60s
  plimsoll run --preset durable-events --bootstrap-server a:9092
  plimsoll run --bootstrap-server a:9092 --topic orders --producers-per-topic 0 --from earliest";

/// Loads a Kafka cluster and says truthfully what it did.
#[derive(Debug, Parser)]
#[command(name = "plimsoll", version = VERSION, after_help = TABLE, styles = Styles::plain())]
pub struct CommandLine {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Load a cluster with a workload and report what happened
    ///
    /// Without a cluster, three embedded brokers are started for the time of the run. What a workload file gives is
    /// overridden by --set and by the options named below.
    #[command(after_help = format!("{EXAMPLES}\n\n{TABLE}"))]
    Run(Box<RunArguments>),
    /// Run embedded brokers, in memory, for trial and rehearsal
    #[command(after_help = TABLE)]
    Broker(BrokerArguments),
    /// List, describe, create, alter and delete topics
    #[command(after_help = TABLE)]
    Topics(TopicsArguments),
    /// List the workloads that --preset knows by name, or show one as files
    #[command(after_help = TABLE)]
    Presets(PresetsArguments),
    /// Print a completion script for a shell
    Completion {
        /// The shell.
        shell: clap_complete::Shell,
    },
}

/// Which cluster, and how to connect to it.
#[derive(Args, Clone, Debug, Default)]
pub struct ClusterArguments {
    /// Brokers to ask first, such as a:9092,b:9092
    #[arg(long, value_name = "HOST:PORT,…", help_heading = "Cluster", value_hint = ValueHint::Hostname)]
    pub bootstrap_server: Option<String>,
    /// File of Kafka client properties
    #[arg(long, value_name = "FILE", help_heading = "Cluster", value_hint = ValueHint::FilePath)]
    pub command_config: Option<PathBuf>,
    /// Kafka client property, such as acks=all; overrides files
    #[arg(short = 'X', value_name = "NAME=VALUE", help_heading = "Cluster")]
    pub property: Vec<String>,
}

/// `plimsoll run`. Values stay text here, so that everything that is wrong with them is told at once.
#[derive(Args, Clone, Debug, Default)]
pub struct RunArguments {
    /// Workload file (YAML, as the Open Messaging Benchmark's)
    #[arg(value_name = "WORKLOAD", value_hint = ValueHint::FilePath)]
    pub workload: Option<PathBuf>,
    /// Named workload with its client settings, of those that `plimsoll presets` lists
    #[arg(
        long,
        value_name = "NAME",
        conflicts_with = "workload",
        help_heading = "Workload"
    )]
    pub preset: Option<String>,

    /// The cluster.
    #[command(flatten)]
    pub cluster: ClusterArguments,
    /// Target file (YAML, as the Open Messaging Benchmark's Kafka driver files)
    #[arg(long, value_name = "FILE", help_heading = "Cluster", value_hint = ValueHint::FilePath)]
    pub target: Option<PathBuf>,

    /// Key of the workload file, such as producerRate=5000
    #[arg(long, value_name = "KEY=VALUE", help_heading = "Workload")]
    pub set: Vec<String>,
    /// Name of the run
    #[arg(long, value_name = "NAME", value_parser = value, allow_hyphen_values = true, help_heading = "Workload")]
    pub name: Option<String>,
    /// Number of topics to create
    #[arg(long, value_name = "N", value_parser = value, allow_hyphen_values = true, help_heading = "Workload")]
    pub topics: Option<String>,
    /// Name of a topic; repeat it for several
    #[arg(long, value_name = "NAME", value_parser = value, allow_hyphen_values = true, help_heading = "Workload")]
    pub topic: Vec<String>,
    /// Use the topics named as they are: they are neither created nor deleted
    #[arg(long, help_heading = "Workload")]
    pub existing: bool,
    /// Partitions of each topic
    #[arg(long, value_name = "N", value_parser = value, allow_hyphen_values = true, help_heading = "Workload")]
    pub partitions: Option<String>,
    /// Copies of each partition; the cluster's default if not given
    #[arg(long, value_name = "N", value_parser = value, allow_hyphen_values = true, help_heading = "Workload")]
    pub replication_factor: Option<String>,
    /// Config of topics to create, such as min.insync.replicas=2
    #[arg(long, value_name = "NAME=VALUE", help_heading = "Workload")]
    pub topic_config: Vec<String>,
    /// Size of each record's value, such as 512 or 1KiB
    #[arg(long, value_name = "SIZE", value_parser = value, allow_hyphen_values = true, help_heading = "Workload")]
    pub record_size: Option<String>,
    /// File whose content is the value of each record
    #[arg(long, value_name = "FILE", help_heading = "Workload", value_hint = ValueHint::FilePath)]
    pub payload_file: Option<PathBuf>,
    /// Where the 24-byte stamp of each record goes: value, header or none
    #[arg(long, value_name = "WHERE", value_parser = value, help_heading = "Workload")]
    pub stamp: Option<String>,
    /// NO_KEY, KEY_ROUND_ROBIN or RANDOM_NANO
    #[arg(long, value_name = "HOW", value_parser = value, help_heading = "Workload")]
    pub key_distributor: Option<String>,
    /// Producers of each topic; 0 to consume only
    #[arg(long, value_name = "N", value_parser = value, allow_hyphen_values = true, help_heading = "Workload")]
    pub producers_per_topic: Option<String>,
    /// Consumer groups of each topic; 0 to produce only
    #[arg(
        long, alias = "subscriptions-per-topic", value_name = "N", value_parser = value, allow_hyphen_values = true,
        help_heading = "Workload"
    )]
    pub subscriptions: Option<String>,
    /// Consumers of each group
    #[arg(long, value_name = "N", value_parser = value, allow_hyphen_values = true, help_heading = "Workload")]
    pub consumers_per_subscription: Option<String>,
    /// Records per second over all producers, or max
    #[arg(long, value_name = "RATE", value_parser = value, allow_hyphen_values = true, help_heading = "Workload")]
    pub rate: Option<String>,
    /// Objectives that the run has to keep, such as 'p99 < 20ms, errors = 0'; exit status 3 if one is missed
    #[arg(long, value_name = "OBJECTIVES", value_parser = value, allow_hyphen_values = true, help_heading = "Workload")]
    pub slo: Option<String>,
    /// Load before the measured phase, such as 10s; 0 for none
    #[arg(
        long, value_name = "TIME", value_parser = value, allow_hyphen_values = true, help_heading = "Workload",
        conflicts_with = "warmup_records"
    )]
    pub warmup: Option<String>,
    /// Records before the measured phase, instead of a time
    #[arg(long, value_name = "N", value_parser = value, allow_hyphen_values = true, help_heading = "Workload")]
    pub warmup_records: Option<String>,
    /// Length of the measured phase, such as 60s
    #[arg(
        long, value_name = "TIME", value_parser = value, allow_hyphen_values = true, help_heading = "Workload",
        conflicts_with = "records"
    )]
    pub duration: Option<String>,
    /// Records of the measured phase, instead of a time
    #[arg(long, value_name = "N", value_parser = value, allow_hyphen_values = true, help_heading = "Workload")]
    pub records: Option<String>,
    /// Seed of everything that is random in the workload
    #[arg(long, value_name = "N", value_parser = value, allow_hyphen_values = true, help_heading = "Workload")]
    pub seed: Option<String>,

    /// Where consumers of existing topics start; auto.offset.reset if not given
    #[arg(long, value_enum, help_heading = "Run")]
    pub from: Option<From>,
    /// How long records that were sent are awaited at the end [default: 30s]
    #[arg(long, value_name = "TIME", value_parser = value, allow_hyphen_values = true, help_heading = "Run")]
    pub drain_timeout: Option<String>,
    /// Threads for producers and for consumers; by the number of CPUs if not given
    #[arg(long, value_name = "N", value_parser = value, allow_hyphen_values = true, help_heading = "Run")]
    pub threads: Option<String>,
    /// A word that another run was given too: one of the two produces, the other consumes and verifies
    #[arg(long, value_name = "WORD", value_parser = value, allow_hyphen_values = true, help_heading = "Run")]
    pub run_id: Option<String>,
    /// Script for the embedded brokers, as of plimsoll broker --script
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Run")]
    pub broker_script: Option<PathBuf>,
    /// Where the embedded brokers write down each request, as of plimsoll broker --request-log
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, help_heading = "Run")]
    pub broker_request_log: Option<PathBuf>,
    /// Embedded brokers with TLS and SASL, certificates and users in this folder, as of plimsoll broker --secured
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath, help_heading = "Run")]
    pub broker_secured: Option<PathBuf>,
    /// Keep the topics and groups that the run makes
    #[arg(long, help_heading = "Run")]
    pub keep: bool,
    /// Run although the brokers' disks may fill up
    #[arg(long, help_heading = "Run")]
    pub force: bool,
    /// Print what would be run, each value with its source, and do nothing
    #[arg(long, help_heading = "Run")]
    pub dry_run: bool,

    /// Where the folder of the result is made
    #[arg(long, value_name = "FOLDER", default_value = "plimsoll-runs", help_heading = "Output", value_hint = ValueHint::DirPath)]
    pub output: PathBuf,
    /// Print the result as JSON instead of the summary
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    /// No steps and no progress on the standard error
    #[arg(long, help_heading = "Output")]
    pub quiet: bool,
}

/// Where consumers of existing topics start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum From {
    /// At the first record that is there.
    Earliest,
    /// At the records that come after they are assigned.
    Latest,
}

impl std::convert::From<From> for StartFrom {
    fn from(from: From) -> StartFrom {
        match from {
            From::Earliest => StartFrom::Earliest,
            From::Latest => StartFrom::Latest,
        }
    }
}

/// A value that may be a negative number, so that it is refused by what it means, but no option.
fn value(text: &str) -> Result<String, String> {
    let is_number = |rest: &str| rest.starts_with(|c: char| c.is_ascii_digit() || c == '.');
    match text.strip_prefix('-') {
        Some(rest) if !is_number(rest) => {
            Err("a value is needed here, and this is another option".to_owned())
        }
        _ => Ok(text.to_owned()),
    }
}

/// `plimsoll broker`.
#[derive(Args, Clone, Debug)]
pub struct BrokerArguments {
    /// How many brokers
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub brokers: usize,
    /// Where the first one listens; the others take the ports after it, or, with port 0, any free ones
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:9092")]
    pub listen: String,
    /// The host name or address that clients are told, if not the one listened at
    #[arg(long, value_name = "HOST")]
    pub advertised_host: Option<String>,
    /// Where clients are told to find each broker, one address a broker, if something stands in between
    #[arg(
        long,
        value_name = "HOST:PORT,…",
        value_delimiter = ',',
        conflicts_with = "advertised_host"
    )]
    pub advertised: Vec<String>,
    /// Memory for the records of all brokers; the oldest go when it is full
    #[arg(long, value_name = "SIZE", default_value = "1GiB")]
    pub memory: ByteSize,
    /// How much of it is touched at the start, so that the first records need not wait for it
    #[arg(long, value_name = "SIZE", default_value = "0B")]
    pub prefault: ByteSize,
    /// Threads that serve connections; by the number of CPUs if not given
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,
    /// Broker property by Kafka's name, such as num.partitions=6; overrides the file
    #[arg(long, value_name = "NAME=VALUE")]
    pub property: Vec<String>,
    /// File of broker properties, such as those of TLS and SASL
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub property_file: Option<PathBuf>,
    /// Folder in which certificates, a user and client.properties are made, for brokers with TLS and SASL
    #[arg(long, value_name = "FOLDER", value_hint = ValueHint::DirPath)]
    pub secured: Option<PathBuf>,
    /// Script by which answers are delayed, stalled, limited, replaced by errors or never given, and brokers go down
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub script: Option<PathBuf>,
    /// Where each request is written down with the times at which it came and was answered
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub request_log: Option<PathBuf>,
    /// Where `plimsoll broker control` is listened for; port 0 for any free one
    #[arg(long, value_name = "HOST:PORT")]
    pub control: Option<String>,
    /// Ends when the standard input does, so that it cannot outlive the run that started it.
    #[arg(long, hide = true)]
    pub until_stdin_closes: bool,
    /// What is said to brokers that run.
    #[command(subcommand)]
    pub command: Option<BrokerCommand>,
}

/// What is said to brokers that run with `--control`.
#[derive(Clone, Debug, Subcommand)]
pub enum BrokerCommand {
    /// Tell running brokers to stop, start, pause or resume one of them, or to follow another script
    Control(ControlArguments),
}

/// `plimsoll broker control`.
#[derive(Args, Clone, Debug)]
pub struct ControlArguments {
    /// Where the brokers listen for it: what they were given, or print, as --control
    #[arg(long, value_name = "HOST:PORT")]
    pub at: String,
    /// What to do.
    #[command(subcommand)]
    pub action: ControlAction,
}

/// What running brokers are told.
#[derive(Clone, Debug, Subcommand)]
pub enum ControlAction {
    /// Stop a broker as if its process were killed; its records stay
    Stop {
        /// Its id
        broker: i32,
    },
    /// Start a broker that was stopped
    Start {
        /// Its id
        broker: i32,
    },
    /// Stop serving a broker's connections without closing them
    Pause {
        /// Its id
        broker: i32,
    },
    /// Go on with a broker that was paused
    Resume {
        /// Its id
        broker: i32,
    },
    /// Follow a script from now on
    Script {
        /// Its file
        #[arg(value_hint = ValueHint::FilePath)]
        file: PathBuf,
    },
    /// Follow no script any more
    ClearScript,
    /// Write to the file what the request log holds in memory
    FlushLog,
    /// Show which brokers are up
    Status,
}

/// `plimsoll presets`.
#[derive(Args, Clone, Debug)]
pub struct PresetsArguments {
    /// What to do with presets; they are listed if not given.
    #[command(subcommand)]
    pub command: Option<PresetsCommand>,
}

/// What to do with presets.
#[derive(Clone, Debug, Subcommand)]
pub enum PresetsCommand {
    /// Show a preset's workload file and driver file, and what was published for it
    Show {
        /// Its name
        name: String,
    },
}

/// `plimsoll topics`.
#[derive(Args, Debug)]
pub struct TopicsArguments {
    /// What to do with topics.
    #[command(subcommand)]
    pub command: TopicsCommand,
}

/// What to do with topics.
#[derive(Debug, Subcommand)]
pub enum TopicsCommand {
    /// List the topics that there are
    List {
        /// The cluster.
        #[command(flatten)]
        cluster: ClusterArguments,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show partitions, leaders, replicas and configs of topics
    Describe {
        /// The topics; all if none is named
        names: Vec<String>,
        /// The cluster.
        #[command(flatten)]
        cluster: ClusterArguments,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Create a topic
    Create {
        /// Its name
        name: String,
        /// The cluster.
        #[command(flatten)]
        cluster: ClusterArguments,
        /// How many partitions; the cluster's default if not given
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
        partitions: Option<u32>,
        /// Copies of each partition; the cluster's default if not given
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
        replication_factor: Option<u16>,
        /// Config, such as retention.ms=60000
        #[arg(long, value_name = "NAME=VALUE", value_parser = assignment)]
        config: Vec<(String, String)>,
        /// A topic of that name is left as it is
        #[arg(long)]
        if_not_exists: bool,
    },
    /// Add partitions to a topic, or change its configs
    Alter {
        /// Its name
        name: String,
        /// The cluster.
        #[command(flatten)]
        cluster: ClusterArguments,
        /// How many partitions it is to have; more than now
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
        partitions: Option<u32>,
        /// Config to set, such as retention.ms=60000
        #[arg(long, value_name = "NAME=VALUE", value_parser = assignment)]
        config: Vec<(String, String)>,
        /// Config to set back to its default
        #[arg(long, value_name = "NAME")]
        delete_config: Vec<String>,
    },
    /// Delete topics with all their records
    Delete {
        /// The topics
        #[arg(required = true)]
        names: Vec<String>,
        /// The cluster.
        #[command(flatten)]
        cluster: ClusterArguments,
        /// A topic that does not exist is no error
        #[arg(long)]
        if_exists: bool,
    },
}

fn assignment(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.trim().is_empty() => {
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        }
        _ => Err("it is not NAME=VALUE".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_consistent() {
        CommandLine::command().debug_assert();
    }

    #[test]
    fn a_negative_number_is_a_value_and_an_option_is_none() {
        assert_eq!(value("-5s"), Ok("-5s".to_owned()));
        assert_eq!(value("max"), Ok("max".to_owned()));
        assert!(value("--keep").is_err() && value("-X").is_err());
    }
}
