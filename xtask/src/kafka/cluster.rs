//! A cluster that outlives the command that started it.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::net::{Ipv4Addr, TcpStream};
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use super::assembly::{Assembly, Log};
use super::node::{self, Common, Node, ZooKeeper};
use super::{Version, probe, secured};
use crate::process::Process;
use crate::workspace::Workspace;

/// How long a cluster, or a node, may take until it serves.
const PATIENCE: Duration = Duration::from_secs(150);

/// What the user asks for.
pub struct Plan {
    pub name: String,
    pub version: Version,
    pub brokers: u32,
    /// Broker properties over those that are set here.
    pub properties: Vec<(String, String)>,
    /// Listeners with TLS and SASL beside the plain one.
    pub secured: bool,
}

/// A cluster as `target/kafka/run/NAME/cluster.json` holds it.
#[derive(Serialize, Deserialize)]
pub struct Cluster {
    name: String,
    version: Version,
    properties: Vec<(String, String)>,
    nodes: Vec<Node>,
    zookeeper: Option<ZooKeeper>,
    #[serde(skip)]
    directory: PathBuf,
}

/// Held while a cluster's state is changed, so that two commands do not change it at once.
pub struct Lock {
    /// The lock lasts as long as the file is open.
    _file: File,
}

impl Cluster {
    /// Waits until no other command changes the cluster of this name.
    pub fn lock(workspace: &Workspace, name: &str) -> Result<Lock> {
        let locks = workspace.target().join("kafka/locks");
        fs::create_dir_all(&locks).with_context(|| format!("cannot make {}", locks.display()))?;
        let file = File::create(locks.join(name))?;
        file.lock()?;
        Ok(Lock { _file: file })
    }

    /// The cluster of that name, if it was started and not stopped.
    pub fn find(workspace: &Workspace, name: &str) -> Result<Option<Self>> {
        let directory = run_directory(workspace).join(name);
        let path = directory.join(STATE);
        let text = match fs::read(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            text => text.with_context(|| format!("cannot read {}", path.display()))?,
        };
        let cluster: Self =
            serde_json::from_slice(&text).with_context(|| format!("{} is damaged", path.display()))?;
        Ok(Some(Self { directory, ..cluster }))
    }

    /// All clusters that were started and not stopped, by name.
    pub fn all(workspace: &Workspace) -> Result<Vec<Self>> {
        let mut names = BTreeSet::new();
        for entry in fs::read_dir(run_directory(workspace)).into_iter().flatten() {
            names.insert(entry?.file_name().to_string_lossy().into_owned());
        }
        names
            .iter()
            .filter_map(|name| Self::find(workspace, name).transpose())
            .collect()
    }

    /// A cluster with ports, properties and empty directories, of which nothing runs.
    pub fn new(workspace: &Workspace, plan: &Plan) -> Result<Self> {
        let brokers = plan.brokers as usize;
        let secured = if plan.secured { secured::LISTENERS.len() } else { 0 };
        let each = 2 + secured;
        let ports = node::free_ports(each * brokers + 1)?;
        let nodes = (1..)
            .zip(ports.chunks_exact(each))
            .map(|(id, pair)| Node {
                id,
                port: pair[0],
                controller_port: pair[1],
                secured_ports: pair[2..].to_vec(),
                process: None,
            })
            .collect();
        let zookeeper = (!plan.version.is_kraft()).then(|| ZooKeeper {
            port: ports[each * brokers],
            process: None,
        });
        let directory = run_directory(workspace).join(&plan.name);
        // A start that was cut short before it wrote its state leaves a directory, and no process.
        if directory.exists() {
            fs::remove_dir_all(&directory)?;
        }
        let cluster = Self {
            name: plan.name.clone(),
            version: plan.version,
            properties: plan.properties.clone(),
            nodes,
            zookeeper,
            directory,
        };
        cluster.write_properties()?;
        cluster.save()?;
        Ok(cluster)
    }

    pub fn version(&self) -> Version {
        self.version
    }

    /// `host:port,host:port,…`
    pub fn bootstrap(&self) -> String {
        self.nodes.iter().map(Node::address).collect::<Vec<_>>().join(",")
    }

    /// Whether it has listeners with TLS and SASL.
    pub fn is_secured(&self) -> bool {
        self.nodes.iter().any(|node| !node.secured_ports.is_empty())
    }

    /// Where certificates, stores and the clients' properties files stand.
    pub fn secured_directory(&self) -> PathBuf {
        self.directory.join("secured")
    }

    fn make_secured(&self, assembly: &Assembly) -> Result<()> {
        if !self.is_secured() {
            return Ok(());
        }
        secured::make(&self.secured_directory(), assembly.java_path(), |protocol| {
            let place = secured::LISTENERS.iter().position(|known| *known == protocol);
            let ports = self
                .nodes
                .iter()
                .filter_map(|node| node.secured_ports.get(place?));
            ports
                .map(|port| format!("127.0.0.1:{port}"))
                .collect::<Vec<_>>()
                .join(",")
        })
    }

    /// Whether any process of it runs.
    pub fn is_alive(&self) -> bool {
        self.processes().any(Process::is_alive)
    }

    /// Whether all nodes run.
    pub fn is_whole(&self) -> bool {
        self.nodes.iter().all(Node::is_alive)
    }

    /// An error that says what differs, if this is not the cluster that is asked for.
    pub fn ensure_is(&self, plan: &Plan) -> Result<()> {
        let is_asked_for = self.version == plan.version
            && self.nodes.len() == plan.brokers as usize
            && self.properties == plan.properties
            && self.is_secured() == plan.secured;
        ensure!(
            is_asked_for,
            "cluster {} is up with Kafka {}, {} brokers{}; stop it first (cargo x kafka down --name {0}), or take another --name",
            self.name,
            self.version,
            self.nodes.len(),
            self.properties
                .iter()
                .map(|(key, value)| format!(", {key}={value}"))
                .collect::<String>()
        );
        for node in self.nodes.iter().filter(|node| !node.is_alive()) {
            eprintln!(
                "node {} is down; start it again with: cargo x kafka restart {0} --name {}",
                node.id, self.name
            );
        }
        Ok(())
    }

    /// Starts all processes and waits until every node knows every other.
    pub fn start(&mut self, assembly: &Assembly) -> Result<()> {
        self.make_secured(assembly)?;
        if self.version.is_kraft() {
            self.format(assembly)?;
        } else {
            self.start_zookeeper(assembly)?;
        }
        for index in 0..self.nodes.len() {
            self.start_node(assembly, index)?;
        }
        self.await_nodes(0..self.nodes.len())
    }

    /// Waits until all nodes that run serve; at once if they do.
    pub fn await_running(&self) -> Result<()> {
        self.await_nodes((0..self.nodes.len()).filter(|index| self.nodes[*index].is_alive()))
    }

    fn await_nodes(&self, indices: impl Iterator<Item = usize>) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        for index in indices {
            self.await_service(index, deadline)?;
        }
        Ok(())
    }

    /// Kills one node and leaves its data.
    pub fn kill(&self, id: u32) -> Result<()> {
        let node = &self.nodes[self.index_of(id)?];
        match node.process {
            Some(process) if process.is_alive() => process.kill(),
            _ => bail!("node {id} is down already"),
        }
    }

    /// Ends one node in order, and leaves its data.
    pub fn stop(&self, id: u32) -> Result<()> {
        let process = self.process_of(id)?;
        process.terminate()?;
        process.finish(PATIENCE)
    }

    /// Where a node keeps its records.
    pub fn data_directory(&self, id: u32) -> PathBuf {
        self.node_directory(id).join(node::DATA)
    }

    /// Stops one node where it is.
    pub fn pause(&self, id: u32) -> Result<()> {
        self.process_of(id)?.pause()
    }

    /// Lets a paused node go on.
    pub fn resume(&self, id: u32) -> Result<()> {
        self.process_of(id)?.resume()
    }

    fn process_of(&self, id: u32) -> Result<Process> {
        let node = &self.nodes[self.index_of(id)?];
        node.process
            .filter(|process| process.is_alive())
            .with_context(|| format!("node {id} is down"))
    }

    /// Starts one node on the data that it has, after ending it where it runs, and waits until the others know it.
    pub fn restart(&mut self, assembly: &Assembly, id: u32) -> Result<()> {
        let index = self.index_of(id)?;
        if let Some(process) = self.nodes[index].process {
            process.terminate()?;
            process.finish(PATIENCE)?;
        }
        let deadline = Instant::now() + PATIENCE;
        loop {
            let log_bytes =
                fs::metadata(self.node_directory(id).join(node::LOG)).map_or(0, |file| file.len());
            self.start_node(assembly, index)?;
            let Err(error) = self.await_service(index, deadline) else {
                return Ok(());
            };
            // ZooKeeper knows the killed broker until its session has ended; until then a new one gives up.
            let registered_still = self.zookeeper.is_some()
                && !self.nodes[index].is_alive()
                && self.log_since(id, log_bytes).contains("NodeExistsException");
            if !registered_still || Instant::now() > deadline {
                return Err(error);
            }
            std::thread::sleep(Duration::from_secs(1));
        }
    }

    /// Ends all processes, brokers first, and removes all data.
    pub fn down(&self) -> Result<()> {
        // The data goes too, so nobody needs to wait long for an orderly end.
        const GRACE: Duration = Duration::from_secs(10);
        let brokers: Vec<Process> = self.nodes.iter().filter_map(|node| node.process).collect();
        for broker in &brokers {
            broker.terminate()?;
        }
        for broker in &brokers {
            broker.finish(GRACE)?;
        }
        if let Some(process) = self.zookeeper.as_ref().and_then(|zookeeper| zookeeper.process) {
            process.terminate()?;
            process.finish(GRACE)?;
        }
        fs::remove_dir_all(&self.directory)
            .with_context(|| format!("cannot remove {}", self.directory.display()))
    }

    /// One line for the cluster, one for each node.
    pub fn print_status(&self) {
        println!(
            "{}: Apache Kafka {}, {} brokers, in {}",
            self.name,
            self.version,
            self.nodes.len(),
            self.directory.display()
        );
        if let Some(zookeeper) = &self.zookeeper {
            let state = process_state(zookeeper.process);
            println!("  zookeeper  127.0.0.1:{:<5}  {state}", zookeeper.port);
        }
        for node in &self.nodes {
            let knows = match probe::registered_brokers(node.port) {
                Ok(brokers) => format!(", serves, knows {} brokers", brokers.len()),
                Err(_) if node.is_alive() => ", does not serve".to_owned(),
                Err(_) => String::new(),
            };
            println!(
                "  node {:<4}  {:<15}  {}{knows}",
                node.id,
                node.address(),
                process_state(node.process)
            );
        }
    }

    fn processes(&self) -> impl Iterator<Item = Process> {
        let zookeeper = self.zookeeper.iter().filter_map(|zookeeper| zookeeper.process);
        self.nodes.iter().filter_map(|node| node.process).chain(zookeeper)
    }

    fn index_of(&self, id: u32) -> Result<usize> {
        let found = self.nodes.iter().position(|node| node.id == id);
        found.with_context(|| {
            format!(
                "cluster {} has nodes 1 to {}, no node {id}",
                self.name,
                self.nodes.len()
            )
        })
    }

    fn node_directory(&self, id: u32) -> PathBuf {
        self.directory.join(format!("node-{id}"))
    }

    fn write_properties(&self) -> Result<()> {
        let secured = self.secured_directory();
        let common = Common {
            version: self.version,
            nodes: &self.nodes,
            zookeeper_port: self.zookeeper.as_ref().map(|zookeeper| zookeeper.port),
            secured: self.is_secured().then_some(&*secured),
            overrides: &self.properties,
        };
        for node in &self.nodes {
            let directory = self.node_directory(node.id);
            fs::create_dir_all(&directory).with_context(|| format!("cannot make {}", directory.display()))?;
            let text = node::server_properties(node, &common, &directory.join(node::DATA));
            fs::write(directory.join(node::PROPERTIES), text)?;
        }
        Ok(())
    }

    /// Writes the state in one step: a reader sees the old one or the new one.
    fn save(&self) -> Result<()> {
        let path = self.directory.join(STATE);
        let partial = path.with_extension("partial");
        fs::write(&partial, serde_json::to_vec_pretty(self)?)?;
        fs::rename(&partial, &path).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Formats every node's storage with one new cluster id, all at once: each takes a JVM's start.
    fn format(&self, assembly: &Assembly) -> Result<()> {
        let class =
            assembly.first_class(&["kafka.tools.StorageTool", "org.apache.kafka.tools.StorageTool"])?;
        let cluster_id = new_cluster_id()?;
        let mut formatting = Vec::new();
        for node in &self.nodes {
            let mut command = assembly.java(&["-Xmx128m"], Log::Tool);
            command.args([class, "format", "-t", &cluster_id, "-c"]);
            command.arg(self.node_directory(node.id).join(node::PROPERTIES));
            if self.is_secured() {
                command.args(secured::scram_arguments());
            }
            command
                .stdin(Stdio::null())
                .stdout(Stdio::piped())
                .stderr(Stdio::piped());
            formatting.push((node.id, command.spawn().context("cannot run java")?));
        }
        for (id, child) in formatting {
            let output = child.wait_with_output()?;
            let told = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
            ensure!(
                output.status.success(),
                "cannot format the storage of node {id}:\n{}",
                told.trim_end()
            );
        }
        Ok(())
    }

    fn start_zookeeper(&mut self, assembly: &Assembly) -> Result<()> {
        let directory = self.directory.join("zookeeper");
        let zookeeper = self.zookeeper.as_mut().context("this line has no ZooKeeper")?;
        zookeeper.start(assembly, &directory)?;
        let (port, process) = (zookeeper.port, zookeeper.process);
        self.save()?;
        await_true(Instant::now() + PATIENCE, || {
            ensure!(
                process.is_some_and(Process::is_alive),
                "ZooKeeper has ended; {}",
                node::log_tail(&directory)
            );
            Ok(TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok())
        })?
        .then_some(())
        .with_context(|| {
            format!(
                "ZooKeeper does not listen after {} s; {}",
                PATIENCE.as_secs(),
                node::log_tail(&directory)
            )
        })
    }

    fn start_node(&mut self, assembly: &Assembly, index: usize) -> Result<()> {
        let directory = self.node_directory(self.nodes[index].id);
        self.nodes[index].start(assembly, &directory)?;
        self.save()
    }

    /// Waits until the node is known, as alive, to itself and to every node that runs, and knows all of those.
    fn await_service(&self, index: usize, deadline: Instant) -> Result<()> {
        let node = &self.nodes[index];
        let directory = self.node_directory(node.id);
        let serves = await_true(deadline, || {
            ensure!(
                node.is_alive(),
                "node {} has ended; {}",
                node.id,
                node::log_tail(&directory)
            );
            let running: Vec<&Node> = self.nodes.iter().filter(|other| other.is_alive()).collect();
            let known_by = |port: u16| probe::registered_brokers(port).unwrap_or_default();
            let known_to_it = known_by(node.port);
            let knows_all = running
                .iter()
                .all(|other| known_to_it.contains(&(other.id as i32)));
            Ok(knows_all
                && running
                    .iter()
                    .all(|other| known_by(other.port).contains(&(node.id as i32))))
        })?;
        ensure!(
            serves,
            "node {} does not serve after {} s; {}",
            node.id,
            PATIENCE.as_secs(),
            node::log_tail(&directory)
        );
        Ok(())
    }

    /// What the node's log has grown by since it had so many bytes.
    fn log_since(&self, id: u32, bytes: u64) -> String {
        let text = fs::read(self.node_directory(id).join(node::LOG)).unwrap_or_default();
        let start = usize::try_from(bytes).unwrap_or(usize::MAX);
        String::from_utf8_lossy(text.get(start..).unwrap_or_default()).into_owned()
    }
}

const STATE: &str = "cluster.json";

fn run_directory(workspace: &Workspace) -> PathBuf {
    workspace.target().join("kafka/run")
}

fn process_state(process: Option<Process>) -> String {
    match process {
        Some(process) if process.is_alive() => format!("process {}", process.id()),
        _ => "down".to_owned(),
    }
}

/// Asks again and again until it is true or the time is over; which of the two is returned.
fn await_true(deadline: Instant, mut is_true: impl FnMut() -> Result<bool>) -> Result<bool> {
    while !is_true()? {
        if Instant::now() > deadline {
            return Ok(false);
        }
        std::thread::sleep(Duration::from_millis(200));
    }
    Ok(true)
}

/// A random id in Kafka's form: 16 bytes in base64url without padding, hence 22 characters, the last of which holds two
/// bits. It begins with a letter, because a command line would take a leading `-` for an option.
fn new_cluster_id() -> Result<String> {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut random = [0u8; 22];
    File::open("/dev/urandom")
        .and_then(|mut source| source.read_exact(&mut random))
        .context("no /dev/urandom")?;
    let digit = |(position, byte): (usize, u8)| {
        let value = match position {
            0 => byte % 52,
            21 => byte & 0b11_0000,
            _ => byte % 64,
        };
        char::from(DIGITS[usize::from(value)])
    };
    Ok(random.into_iter().enumerate().map(digit).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_id_is_sixteen_bytes_in_base64url_and_no_option() {
        for _ in 0..200 {
            let id = new_cluster_id().unwrap();
            assert_eq!(id.len(), 22);
            assert!(id.starts_with(|c: char| c.is_ascii_alphabetic()), "{id}");
            assert!(
                id.ends_with(['A', 'Q', 'g', 'w']),
                "{id}: bits behind the sixteenth byte"
            );
        }
    }
}
