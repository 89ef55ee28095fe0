//! One broker of a cluster: its ports, its properties, its process.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use super::Version;
use super::assembly::{Assembly, Log};
use super::secured;
use crate::process::Process;

/// Heap of one node: three of them fit a small machine.
const NODE_HEAP: &str = "-Xmx400m";

/// Heap of ZooKeeper.
const ZOOKEEPER_HEAP: &str = "-Xmx128m";

/// What Kafka's old line needs beside its brokers.
#[derive(Serialize, Deserialize)]
pub struct ZooKeeper {
    pub port: u16,
    pub process: Option<Process>,
}

impl ZooKeeper {
    /// Starts it in `directory`, where its log and data stand.
    pub fn start(&mut self, assembly: &Assembly, directory: &Path) -> Result<()> {
        fs::create_dir_all(directory)?;
        let properties = directory.join("zookeeper.properties");
        fs::write(
            &properties,
            format!(
                "dataDir={}\nclientPort={}\nclientPortAddress=127.0.0.1\nmaxClientCnxns=0\nadmin.enableServer=false\n",
                directory.join("data").display(),
                self.port
            ),
        )?;
        let mut command = assembly.java(&[ZOOKEEPER_HEAP], Log::Node);
        command
            .arg("org.apache.zookeeper.server.quorum.QuorumPeerMain")
            .arg(&properties);
        self.process = Some(start_detached(command, directory)?);
        Ok(())
    }
}

/// One broker; in the KRaft line it is a controller too.
#[derive(Clone, Serialize, Deserialize)]
pub struct Node {
    pub id: u32,
    pub port: u16,
    pub controller_port: u16,
    /// Ports of the listeners with TLS and SASL, where there are such.
    #[serde(default)]
    pub secured_ports: Vec<u16>,
    pub process: Option<Process>,
}

impl Node {
    /// Whether its process runs.
    pub fn is_alive(&self) -> bool {
        self.process.is_some_and(Process::is_alive)
    }

    /// `host:port` for clients.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// Starts it in `directory`, where its properties, log and data stand.
    pub fn start(&mut self, assembly: &Assembly, directory: &Path) -> Result<()> {
        let mut command = assembly.java(&[NODE_HEAP], Log::Node);
        command.arg("kafka.Kafka").arg(directory.join(PROPERTIES));
        self.process = Some(start_detached(command, directory)?);
        Ok(())
    }
}

/// Name of a node's properties file in its directory.
pub const PROPERTIES: &str = "server.properties";

/// Name of the directory of a node's records in its directory.
pub const DATA: &str = "data";

/// Name of a process's log in its directory.
pub const LOG: &str = "log.txt";

/// What all nodes of a cluster have in common, as far as their properties tell.
pub struct Common<'a> {
    pub version: Version,
    pub nodes: &'a [Node],
    pub zookeeper_port: Option<u16>,
    /// Where the certificates of listeners with TLS and SASL stand, if there are such.
    pub secured: Option<&'a Path>,
    pub overrides: &'a [(String, String)],
}

/// The broker properties of one node, as the text of a properties file.
pub fn server_properties(node: &Node, common: &Common<'_>, data: &Path) -> String {
    let brokers = common.nodes.len();
    let mut properties = BTreeMap::<&str, String>::new();
    let mut client_listener = format!("PLAINTEXT://{}", node.address());
    for (protocol, port) in secured::LISTENERS.iter().zip(&node.secured_ports) {
        let _ = write!(client_listener, ",{protocol}://127.0.0.1:{port}");
    }
    properties.insert("advertised.listeners", client_listener.clone());
    properties.insert("log.dirs", data.display().to_string());
    // Each node in a rack of its own, so that a consumer can be near one of them.
    properties.insert("broker.rack", format!("r{}", node.id));
    if common.version.chooses_replicas() {
        let selector = "org.apache.kafka.common.replica.RackAwareReplicaSelector";
        properties.insert("replica.selector.class", selector.to_owned());
    }
    // A group of one should not wait three seconds for a second member.
    properties.insert("group.initial.rebalance.delay.ms", "0".to_owned());
    let (replicas, in_sync) = (brokers.min(3).to_string(), brokers.min(2).to_string());
    properties.insert("offsets.topic.num.partitions", "8".to_owned());
    properties.insert("offsets.topic.replication.factor", replicas.clone());
    properties.insert("transaction.state.log.num.partitions", "8".to_owned());
    properties.insert("transaction.state.log.replication.factor", replicas.clone());
    properties.insert("transaction.state.log.min.isr", in_sync.clone());
    // The default of 128 MB is a third of the heap.
    properties.insert("log.cleaner.dedupe.buffer.size", (16 * 1024 * 1024).to_string());
    if common.version.is_kraft() {
        let voters = common
            .nodes
            .iter()
            .map(|n| format!("{}@127.0.0.1:{}", n.id, n.controller_port));
        properties.insert("controller.quorum.voters", voters.collect::<Vec<_>>().join(","));
        properties.insert("process.roles", "broker,controller".to_owned());
        properties.insert("node.id", node.id.to_string());
        properties.insert("controller.listener.names", "CONTROLLER".to_owned());
        properties.insert(
            "listeners",
            format!(
                "{client_listener},CONTROLLER://127.0.0.1:{}",
                node.controller_port
            ),
        );
        properties.insert(
            "listener.security.protocol.map",
            "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SSL:SSL,SASL_SSL:SASL_SSL,SASL_PLAINTEXT:SASL_PLAINTEXT".to_owned(),
        );
    } else {
        properties.insert("broker.id", node.id.to_string());
        properties.insert("listeners", client_listener);
    }
    if common.version.logs_with_log4j2() {
        // Share groups came with 4.0 (KIP-932).
        properties.insert("share.coordinator.state.topic.num.partitions", "8".to_owned());
        properties.insert("share.coordinator.state.topic.replication.factor", replicas);
        properties.insert("share.coordinator.state.topic.min.isr", in_sync);
    }
    if let Some(port) = common.zookeeper_port {
        properties.insert("zookeeper.connect", format!("127.0.0.1:{port}"));
        // A broker that was killed can come back when its session has ended, not before.
        properties.insert("zookeeper.session.timeout.ms", "6000".to_owned());
    }
    let of_listeners = common.secured.map(secured::broker_properties).unwrap_or_default();
    for (key, value) in of_listeners.iter().chain(common.overrides) {
        properties.insert(key, value.clone());
    }
    properties.iter().fold(String::new(), |mut text, (key, value)| {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{key}={value}");
        text
    })
}

/// So many different loopback ports that are free now, below those that the kernel hands out to clients: a node that was
/// killed finds its port free when it is started again.
pub fn free_ports(count: usize) -> Result<Vec<u16>> {
    const LOWEST: u16 = 10_000;
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let ephemeral = range
        .split_whitespace()
        .next()
        .and_then(|low| low.parse().ok())
        .unwrap_or(32_768);
    let candidates = if ephemeral > LOWEST + 1_000 {
        LOWEST..ephemeral
    } else {
        LOWEST..u16::MAX
    };
    // Clusters that are started at the same moment look at different places.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let first = (now.subsec_nanos() ^ std::process::id().wrapping_mul(7919)) as usize % candidates.len();
    let free: Vec<TcpListener> = candidates
        .clone()
        .skip(first)
        .chain(candidates.take(first))
        .filter_map(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok())
        .take(count)
        .collect();
    anyhow::ensure!(free.len() == count, "fewer than {count} free ports on loopback");
    free.iter()
        .map(|listener| Ok(listener.local_addr()?.port()))
        .collect()
}

/// The last lines of the log in `directory`, for an error message.
pub fn log_tail(directory: &Path) -> String {
    const LINES: usize = 25;
    let text = fs::read(directory.join(LOG)).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    format!(
        "its log ends:\n{}",
        lines[lines.len().saturating_sub(LINES)..].join("\n")
    )
}

/// Starts it with its log in `directory`, in a process group of its own, so that Ctrl-C in the terminal does not reach it.
fn start_detached(mut command: Command, directory: &Path) -> Result<Process> {
    let log: File = OpenOptions::new()
        .create(true)
        .append(true)
        .open(directory.join(LOG))?;
    let child = command
        .current_dir(directory)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .process_group(0)
        .spawn()
        .with_context(|| format!("cannot run {}", command.get_program().display()))?;
    Process::of_id(child.id())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(count: u32) -> Vec<Node> {
        let node = |id| Node {
            id,
            port: 9000 + id as u16,
            controller_port: 9100 + id as u16,
            secured_ports: Vec::new(),
            process: None,
        };
        (1..=count).map(node).collect()
    }

    fn text(version: &str, count: u32, overrides: &[(&str, &str)]) -> String {
        let nodes = nodes(count);
        let version: Version = version.parse().unwrap();
        let overrides: Vec<_> = overrides
            .iter()
            .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
            .collect();
        let zookeeper_port = (!version.is_kraft()).then_some(2181);
        let common = Common {
            version,
            nodes: &nodes,
            zookeeper_port,
            secured: None,
            overrides: &overrides,
        };
        server_properties(&nodes[0], &common, Path::new("/data"))
    }

    #[test]
    fn a_kraft_node_is_a_voter_among_all_nodes() {
        let text = text("4.4.0", 3, &[]);
        assert!(
            text.contains("controller.quorum.voters=1@127.0.0.1:9101,2@127.0.0.1:9102,3@127.0.0.1:9103\n")
        );
        assert!(text.contains("listeners=PLAINTEXT://127.0.0.1:9001,CONTROLLER://127.0.0.1:9101\n"));
        assert!(!text.contains("zookeeper"));
    }

    #[test]
    fn a_node_of_the_old_line_knows_zookeeper_and_no_controllers() {
        let text = text("2.8.2", 1, &[]);
        assert!(text.contains("zookeeper.connect=127.0.0.1:2181\n"));
        assert!(text.contains("broker.id=1\n"));
        assert!(!text.contains("controller.quorum"));
    }

    #[test]
    fn internal_topics_have_no_more_replicas_than_there_are_brokers() {
        assert!(text("4.4.0", 1, &[]).contains("offsets.topic.replication.factor=1\n"));
        assert!(text("4.4.0", 2, &[]).contains("transaction.state.log.replication.factor=2\n"));
        assert!(text("4.4.0", 5, &[]).contains("offsets.topic.replication.factor=3\n"));
    }

    #[test]
    fn each_node_is_a_rack_and_consumers_are_sent_to_theirs_from_2_4_on() {
        for (version, chooses) in [("2.1.1", false), ("2.4.1", true), ("4.4.0", true)] {
            let text = text(version, 1, &[]);
            assert!(text.contains("broker.rack=r1\n"));
            assert_eq!(text.contains("RackAwareReplicaSelector"), chooses, "{version}");
        }
    }

    #[test]
    fn a_property_that_the_user_names_wins() {
        let text = text("4.4.0", 3, &[("offsets.topic.num.partitions", "1"), ("x.y", "z")]);
        assert!(text.contains("offsets.topic.num.partitions=1\n") && text.contains("x.y=z\n"));
        assert_eq!(text.matches("offsets.topic.num.partitions=").count(), 1);
    }

    #[test]
    fn free_ports_are_all_different() {
        let mut ports = free_ports(20).unwrap();
        ports.sort_unstable();
        ports.dedup();
        assert_eq!(ports.len(), 20);
    }
}
