//! A network of two ends: this one, and one in a network namespace of its own.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

/// Where the kernel's namespaces stand by name.
const NAMES: &str = "/run/netns";
const PREFIX: &str = "plimsoll-failures-";

/// A network namespace with a link to it. It is removed with this value, whatever is left in it.
///
/// The addresses are of 198.18.0.0/15, which is kept for benchmarks of network devices (RFC 2544): no network has them.
pub struct Namespace {
    name: String,
    near_link: String,
    network: u8,
}

const FAR_LINK: &str = "far";

impl Namespace {
    /// Makes it, and removes what a chore that was killed has left.
    pub fn make() -> Result<Namespace> {
        let id = std::process::id();
        remove_left()?;
        let namespace = Namespace {
            name: format!("{PREFIX}{id}"),
            near_link: format!("plimsoll{id}"),
            network: (id % 250) as u8 + 1,
        };
        ip(&["netns", "add", &namespace.name])
            .context("a network namespace needs root's rights (CAP_NET_ADMIN and CAP_SYS_ADMIN)")?;
        let (near, far) = (
            format!("{}/30", namespace.near_address()),
            format!("{}/30", namespace.far_address()),
        );
        let link = &namespace.near_link;
        ip(&[
            "link",
            "add",
            link,
            "type",
            "veth",
            "peer",
            "name",
            FAR_LINK,
            "netns",
            &namespace.name,
        ])?;
        ip(&["addr", "add", &near, "dev", link])?;
        ip(&["link", "set", link, "up"])?;
        // While the link is down its own route is gone: nothing may take another way out.
        ip(&[
            "route",
            "add",
            "unreachable",
            &namespace.subnet(),
            "metric",
            "4000",
        ])?;
        namespace.far(&["link", "set", "lo", "up"])?;
        namespace.far(&["addr", "add", &far, "dev", FAR_LINK])?;
        namespace.far(&["link", "set", FAR_LINK, "up"])?;
        Ok(namespace)
    }

    /// Its name for `ip netns`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The address of this end.
    pub fn near_address(&self) -> String {
        format!("198.18.{}.1", self.network)
    }

    /// The address in the namespace.
    pub fn far_address(&self) -> String {
        format!("198.18.{}.2", self.network)
    }

    fn subnet(&self) -> String {
        format!("198.18.{}.0/30", self.network)
    }

    /// Takes this end of the link down, or up: while it is down the kernel says that there is no way.
    pub fn set_near_link(&self, is_up: bool) -> Result<()> {
        let state = if is_up { "up" } else { "down" };
        ip(&["link", "set", &self.near_link, state])
    }

    /// Lets all that the far end sends vanish, or no longer: what is sent to it arrives, and nothing comes back, not even a
    /// reset.
    pub fn set_silent(&self, is_silent: bool) -> Result<()> {
        let verb = if is_silent { "add" } else { "del" };
        let near = format!("{}/32", self.near_address());
        self.far(&["route", verb, "blackhole", &near])
    }

    /// Limits what goes to the far end to so many bits a second (tc-tbf(8)), headers of Ethernet, IP and TCP included.
    pub fn limit(&self, bits_per_second: u64) -> Result<()> {
        let rate = format!("{bits_per_second}bit");
        let shape = ["tbf", "rate", &rate, "burst", "64kb", "latency", "100ms"];
        let mut arguments = vec!["qdisc", "add", "dev", &self.near_link, "root"];
        arguments.extend(shape);
        run("tc", &arguments)
    }

    fn far(&self, arguments: &[&str]) -> Result<()> {
        let mut all = vec!["-n", &self.name];
        all.extend(arguments);
        ip(&all)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // What could not be made cannot be removed.
        remove(&self.name, &self.near_link, &self.subnet());
    }
}

fn remove(name: &str, near_link: &str, subnet: &str) {
    for arguments in [
        ["link", "del", near_link].as_slice(),
        &["route", "del", "unreachable", subnet, "metric", "4000"],
        &["netns", "del", name],
    ] {
        let _ = Command::new("ip")
            .args(arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status();
    }
}

/// Removes namespaces whose chore is gone.
fn remove_left() -> Result<()> {
    let entries = match fs::read_dir(NAMES) {
        Ok(entries) => entries,
        Err(_) => return Ok(()),
    };
    for entry in entries {
        let name = entry?.file_name().to_string_lossy().into_owned();
        let Some(id) = name.strip_prefix(PREFIX).and_then(|id| id.parse::<u32>().ok()) else {
            continue;
        };
        if !Path::new(&format!("/proc/{id}")).exists() {
            let subnet = format!("198.18.{}.0/30", id % 250 + 1);
            remove(&name, &format!("plimsoll{id}"), &subnet);
        }
    }
    Ok(())
}

fn ip(arguments: &[&str]) -> Result<()> {
    run("ip", arguments)
}

fn run(program: &str, arguments: &[&str]) -> Result<()> {
    let output = match Command::new(program).args(arguments).output() {
        Ok(output) => output,
        Err(error) => bail!("cannot run {program}, of Debian's package iproute2: {error}"),
    };
    ensure!(
        output.status.success(),
        "{program} {}: {}",
        arguments.join(" "),
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(())
}
