//! `cargo x kafka`: real Apache Kafka on loopback.
//!
//! Everything stands under `target/kafka/`: `VERSION/libs/` holds the jars, `run/NAME/` a cluster's properties, logs, data,
//! and `cluster.json`, which names its processes. `down` ends those processes and no others, and removes `run/NAME/`.

mod assembly;
mod cluster;
mod node;
mod probe;
mod secured;
mod tool;
mod version;

use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use clap::Args;

use crate::workspace::Workspace;
use assembly::Assembly;
use cluster::Cluster;
pub use cluster::Plan;
pub use tool::command as tool_command;
pub use version::Version;

/// The release that is run where none is named.
pub const DEFAULT_VERSION: &str = "4.4.0";

#[derive(clap::Subcommand)]
pub enum Command {
    /// Start a cluster and wait until it serves; the last line printed is its bootstrap line
    Up(Up),
    /// What is up: versions, nodes, bootstrap lines
    Status,
    /// Stop a cluster's processes and remove its data
    Down(Named),
    /// Kill one node (SIGKILL); its data stays
    Kill(OneNode),
    /// Start one node again on its data, after ending it if it runs
    Restart(OneNode),
    /// Run one of Kafka's Java tools, such as kafka-topics, or a class by its full name
    Tool(tool::Arguments),
}

#[derive(Args)]
pub struct Named {
    /// The cluster, where there are several
    #[arg(long, default_value = "default", value_parser = cluster_name)]
    name: String,
}

#[derive(Args)]
pub struct OneNode {
    /// The node's id: 1 to the number of brokers
    node: u32,
    #[command(flatten)]
    cluster: Named,
}

#[derive(Args)]
pub struct Up {
    /// Release of Apache Kafka, 2.1 or later
    #[arg(long, default_value = DEFAULT_VERSION)]
    version: Version,
    /// Number of brokers
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=32))]
    brokers: u32,
    /// A broker property, over those that are set here; may be repeated
    #[arg(long = "property", value_name = "KEY=VALUE", value_parser = property)]
    properties: Vec<(String, String)>,
    /// Listeners with TLS and SASL too; properties files of clients for them stand in the cluster's directory, secured/
    #[arg(long)]
    secured: bool,
    #[command(flatten)]
    cluster: Named,
}

/// `cargo x kafka …`.
pub fn run(workspace: &Workspace, command: Command) -> Result<ExitCode> {
    match command {
        Command::Up(up) => {
            let plan = Plan {
                name: up.cluster.name,
                version: up.version,
                brokers: up.brokers,
                properties: up.properties,
                secured: up.secured,
            };
            println!("bootstrap: {}", self::up(workspace, &plan)?);
        }
        Command::Status => status(workspace)?,
        Command::Down(named) => {
            if down(workspace, &named.name)? {
                println!("cluster {} is stopped, its data removed", named.name);
            } else {
                println!("no cluster {} is up", named.name);
            }
        }
        Command::Kill(one) => {
            existing(workspace, &one.cluster)?.kill(one.node)?;
            println!(
                "node {} is killed; start it again with: cargo x kafka restart {0}",
                one.node
            );
        }
        Command::Restart(one) => {
            let _lock = Cluster::lock(workspace, &one.cluster.name)?;
            let mut cluster = existing(workspace, &one.cluster)?;
            let assembly = Assembly::of(workspace, cluster.version())?;
            cluster.restart(&assembly, one.node)?;
            println!("node {} serves again", one.node);
        }
        Command::Tool(arguments) => return tool::run(workspace, arguments),
    }
    Ok(ExitCode::SUCCESS)
}

/// Starts the cluster, unless it is up already, and returns its bootstrap servers once all of its brokers are registered.
pub fn up(workspace: &Workspace, plan: &Plan) -> Result<String> {
    let _lock = Cluster::lock(workspace, &plan.name)?;
    let mut cluster = match Cluster::find(workspace, &plan.name)? {
        Some(cluster) if cluster.is_alive() => {
            cluster.ensure_is(plan)?;
            eprintln!("cluster {} is up already", plan.name);
            // Its start may have been cut short while it waited.
            cluster.await_running()?;
            return Ok(cluster.bootstrap());
        }
        Some(cluster) => {
            eprintln!(
                "cluster {} was not stopped, and nothing of it runs any more: starting anew",
                plan.name
            );
            cluster.down()?;
            Cluster::new(workspace, plan)?
        }
        None => Cluster::new(workspace, plan)?,
    };
    let started = Assembly::of(workspace, plan.version).and_then(|assembly| cluster.start(&assembly));
    if let Err(error) = started {
        // What the failure was is in the error, log tail included; a half of a cluster is of no use.
        cluster.down()?;
        return Err(error);
    }
    Ok(cluster.bootstrap())
}

/// Where certificates, stores and clients' properties files of a cluster with TLS and SASL stand.
pub fn secured_directory(workspace: &Workspace, name: &str) -> Result<std::path::PathBuf> {
    let cluster = Cluster::find(workspace, name)?;
    Ok(cluster
        .with_context(|| format!("no cluster {name} is up"))?
        .secured_directory())
}

/// Ends the cluster of that name and removes its data; `false` if there is none.
pub fn down(workspace: &Workspace, name: &str) -> Result<bool> {
    let _lock = Cluster::lock(workspace, name)?;
    let Some(cluster) = Cluster::find(workspace, name)? else {
        return Ok(false);
    };
    cluster.down()?;
    Ok(true)
}

/// Kills a node (SIGKILL); its data stays.
pub fn kill(workspace: &Workspace, name: &str, node: u32) -> Result<()> {
    named(workspace, name)?.kill(node)
}

/// Starts a node again on its data, and waits until it serves.
pub fn restart(workspace: &Workspace, name: &str, node: u32) -> Result<()> {
    let _lock = Cluster::lock(workspace, name)?;
    let mut cluster = named(workspace, name)?;
    let assembly = Assembly::of(workspace, cluster.version())?;
    cluster.restart(&assembly, node)
}

/// Stops a node where it is (SIGSTOP): its connections stay open, and nothing is answered.
pub fn pause(workspace: &Workspace, name: &str, node: u32) -> Result<()> {
    named(workspace, name)?.pause(node)
}

/// Lets a paused node go on.
pub fn resume(workspace: &Workspace, name: &str, node: u32) -> Result<()> {
    named(workspace, name)?.resume(node)
}

/// Ends a node in order (SIGTERM), waits until it is gone, and leaves its data.
pub fn stop(workspace: &Workspace, name: &str, node: u32) -> Result<()> {
    named(workspace, name)?.stop(node)
}

/// A cluster that is up as long as this value.
pub struct Running<'a> {
    workspace: &'a Workspace,
    name: String,
    bootstrap: String,
    is_kept: bool,
}

impl<'a> Running<'a> {
    /// The same, but one of this name that is whole is taken as it is, and stays up when this value is dropped.
    pub fn join(
        workspace: &'a Workspace,
        name: &str,
        brokers: u32,
        properties: &[(&str, &str)],
    ) -> Result<Running<'a>> {
        let cluster = Cluster::find(workspace, name)?.filter(Cluster::is_whole);
        let mut running = match cluster {
            Some(cluster) => Running {
                workspace,
                name: name.to_owned(),
                bootstrap: cluster.bootstrap(),
                is_kept: true,
            },
            None => Running::start(workspace, name, brokers, properties)?,
        };
        running.is_kept = true;
        Ok(running)
    }

    /// Starts the newest release anew, under that name, with these broker properties.
    pub fn start(
        workspace: &'a Workspace,
        name: &str,
        brokers: u32,
        properties: &[(&str, &str)],
    ) -> Result<Running<'a>> {
        // One that an interrupted chore has left is not fresh.
        down(workspace, name)?;
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        let plan = Plan {
            name: name.to_owned(),
            version: DEFAULT_VERSION.parse().map_err(anyhow::Error::msg)?,
            brokers,
            properties: properties.iter().map(owned).collect(),
            secured: false,
        };
        eprintln!("starting Apache Kafka {}", plan.version);
        let bootstrap = up(workspace, &plan)?;
        Ok(Running {
            workspace,
            name: plan.name,
            bootstrap,
            is_kept: false,
        })
    }

    /// `host:port,host:port,…`
    pub fn bootstrap(&self) -> &str {
        &self.bootstrap
    }

    /// See [`kill`].
    pub fn kill(&self, node: u32) -> Result<()> {
        kill(self.workspace, &self.name, node)
    }

    /// See [`stop`].
    pub fn stop(&self, node: u32) -> Result<()> {
        stop(self.workspace, &self.name, node)
    }

    /// See [`restart`].
    pub fn restart(&self, node: u32) -> Result<()> {
        restart(self.workspace, &self.name, node)
    }

    /// See [`pause`].
    pub fn pause(&self, node: u32) -> Result<()> {
        pause(self.workspace, &self.name, node)
    }

    /// See [`resume`].
    pub fn resume(&self, node: u32) -> Result<()> {
        resume(self.workspace, &self.name, node)
    }

    /// Where a node keeps its records, the cluster's metadata among them.
    pub fn data_directory(&self, node: u32) -> Result<std::path::PathBuf> {
        Ok(named(self.workspace, &self.name)?.data_directory(node))
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        if self.is_kept {
            return;
        }
        // What cannot be stopped now is stopped before the next start.
        let _ = down(self.workspace, &self.name);
    }
}

/// The broker that coordinates a group or, else, a transactional id.
pub fn coordinator(bootstrap: &str, key: &str, is_group: bool) -> Result<u32> {
    probe::coordinator(bootstrap, key, is_group).with_context(|| format!("no coordinator of {key} is known"))
}

fn named(workspace: &Workspace, name: &str) -> Result<Cluster> {
    Cluster::find(workspace, name)?.with_context(|| format!("no cluster {name} is up"))
}

fn status(workspace: &Workspace) -> Result<()> {
    let clusters = Cluster::all(workspace)?;
    if clusters.is_empty() {
        println!("no cluster is up");
    }
    for cluster in clusters {
        cluster.print_status();
        println!("bootstrap: {}", cluster.bootstrap());
    }
    Ok(())
}

fn existing(workspace: &Workspace, named: &Named) -> Result<Cluster> {
    match Cluster::find(workspace, &named.name)? {
        Some(cluster) => Ok(cluster),
        None => bail!("no cluster {} is up: cargo x kafka up", named.name),
    }
}

/// A cluster's name becomes a directory's.
fn cluster_name(text: &str) -> Result<String, String> {
    let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if text.starts_with(|c: char| c.is_ascii_alphanumeric()) && text.chars().all(fits) {
        Ok(text.to_owned())
    } else {
        Err("letters, digits, '-', '_' and '.', beginning with a letter or digit".to_owned())
    }
}

fn property(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => Ok((key.trim().to_owned(), value.trim().to_owned())),
        _ => Err("KEY=VALUE is expected".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_name_cannot_leave_its_directory() {
        assert!(cluster_name("fault-test_2.8").is_ok());
        for name in ["", ".", "..", "a/b", "../x", "-x", "a b"] {
            assert!(cluster_name(name).is_err(), "{name:?}");
        }
    }

    #[test]
    fn the_value_of_a_property_may_hold_equals_signs() {
        assert_eq!(property("a.b=c=d"), Ok(("a.b".to_owned(), "c=d".to_owned())));
        assert_eq!(property("a="), Ok(("a".to_owned(), String::new())));
        assert!(property("a.b").is_err());
        assert!(property("=c").is_err());
    }
}
