//! Embedded brokers of a case's own, which can be told to stop and start, and may stand in a network namespace.

use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::namespace::Namespace;
use crate::workspace::Workspace;

/// Three embedded brokers. They end with this value.
pub struct Embedded<'a> {
    workspace: &'a Workspace,
    namespace: Option<&'a Namespace>,
    child: Child,
    /// Kept open: the child writes to it.
    _stdout: BufReader<ChildStdout>,
    /// Where clients are told to go.
    pub bootstrap: String,
    /// Where each broker listens, where that is another place.
    pub listens: Vec<String>,
    control: String,
}

impl<'a> Embedded<'a> {
    /// On loopback, with further arguments of `plimsoll broker`.
    pub fn start(workspace: &'a Workspace, arguments: &[&str]) -> Result<Embedded<'a>> {
        Self::started(workspace, None, "127.0.0.1:0", arguments)
    }

    /// At the far end of a namespace's link.
    pub fn start_in(workspace: &'a Workspace, namespace: &'a Namespace) -> Result<Embedded<'a>> {
        let listen = format!("{}:9092", namespace.far_address());
        Self::started(workspace, Some(namespace), &listen, &[])
    }

    fn started(
        workspace: &'a Workspace,
        namespace: Option<&'a Namespace>,
        listen: &str,
        arguments: &[&str],
    ) -> Result<Embedded<'a>> {
        let mut child = program(workspace, namespace)
            .args(["broker", "--until-stdin-closes", "--brokers", "3"])
            .args(["--listen", listen, "--control", "127.0.0.1:0"])
            .args(["--property", "default.replication.factor=3"])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot run the release binary")?;
        let mut stdout = BufReader::new(child.stdout.take().context("its output is not piped")?);
        let mut lines = Vec::new();
        for line in stdout.by_ref().lines() {
            lines.push(line?);
            if lines.last().is_some_and(|line| line.starts_with("bootstrap: ")) {
                break;
            }
        }
        let told = |start: &str| {
            let line = lines.iter().find_map(|line| line.strip_prefix(start));
            line.map(str::to_owned)
        };
        let listens = |line: &String| Some(line.split_once(" listens: ")?.1.to_owned());
        let (bootstrap, control) = (told("bootstrap: "), told("control: "));
        let embedded = Embedded {
            workspace,
            namespace,
            child,
            _stdout: stdout,
            bootstrap: bootstrap.unwrap_or_default(),
            listens: lines.iter().filter_map(listens).collect(),
            control: control.unwrap_or_default(),
        };
        ensure!(
            !embedded.bootstrap.is_empty(),
            "the embedded brokers ended at once"
        );
        Ok(embedded)
    }

    /// `plimsoll broker control` with these words.
    pub fn control(&self, words: &[&str]) -> Result<()> {
        let output = program(self.workspace, self.namespace)
            .args(["broker", "control", "--at", &self.control])
            .args(words)
            .stdin(Stdio::null())
            .output()
            .context("cannot run the release binary")?;
        ensure!(
            output.status.success(),
            "broker control {}: {}",
            words.join(" "),
            String::from_utf8_lossy(&output.stderr)
        );
        Ok(())
    }
}

impl Drop for Embedded<'_> {
    fn drop(&mut self) {
        // It has nothing to keep.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The release binary, to be run where the brokers are. `ip netns exec` becomes the program, so the child's id is its own.
fn program(workspace: &Workspace, namespace: Option<&Namespace>) -> Command {
    let binary = workspace.target().join("release/plimsoll");
    match namespace {
        Some(namespace) => {
            let mut command = Command::new("ip");
            command.args(["netns", "exec", namespace.name()]).arg(binary);
            command
        }
        None => Command::new(binary),
    }
}
