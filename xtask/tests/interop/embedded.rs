//! Embedded brokers: `plimsoll broker` as a child process.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use crate::program;

/// Brokers in a process of their own, which ends with this value.
pub struct Embedded {
    child: Child,
    /// Kept open: a broker that prints must find a reader.
    _stdout: BufReader<ChildStdout>,
    /// `host:port,…`
    pub bootstrap: String,
}

impl Embedded {
    /// Starts so many brokers on free ports of loopback.
    #[track_caller]
    pub fn start(brokers: u32) -> Self {
        let mut child = Command::new(crate::plimsoll())
            .args([
                "broker",
                "--brokers",
                &brokers.to_string(),
                "--listen",
                "127.0.0.1:0",
            ])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("plimsoll broker runs");
        let mut stdout = BufReader::new(child.stdout.take().expect("its output is piped"));
        let mut line = String::new();
        let bootstrap = loop {
            line.clear();
            let read = stdout.read_line(&mut line).expect("its output is text");
            assert!(read > 0, "plimsoll broker ended without a bootstrap line");
            if let Some(servers) = line.strip_prefix("bootstrap: ") {
                break servers.trim().to_owned();
            }
        };
        Self {
            child,
            _stdout: stdout,
            bootstrap,
        }
    }

    /// SIGTERM, as a user or a supervisor ends it; returns its exit status, or `None` if a signal had to end it.
    pub fn terminate(mut self) -> Option<i32> {
        let kill = Command::new("sh")
            .args(["-c", &format!("kill -TERM {}", self.child.id())])
            .status();
        assert!(kill.expect("sh runs").success());
        program::wait(&mut self.child, Duration::from_secs(5)).and_then(|status| status.code())
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn each_broker_has_a_port_of_its_own_and_all_end_on_sigterm() {
    let brokers = Embedded::start(3);
    let mut addresses: Vec<&str> = brokers.bootstrap.split(',').collect();
    addresses.sort_unstable();
    addresses.dedup();
    assert_eq!(addresses.len(), 3, "{}", brokers.bootstrap);
    assert_eq!(brokers.terminate(), Some(0));
}
