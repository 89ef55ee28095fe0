//! Embedded brokers for a run without a cluster: this program again, as a child process, so that it is known whose CPU was
//! used.

use crate::failure::{Failure, system_error};
use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// How long brokers may take to end in order, and how often that is looked at.
const ENDED_WITHIN: Duration = Duration::from_secs(3);
const LOOK: Duration = Duration::from_millis(2);

/// Brokers in a child process. It ends when this value is dropped, and by itself when this process is gone, since its
/// standard input closes then.
#[derive(Debug)]
pub struct Embedded {
    child: Child,
    /// Kept open: the child writes to it.
    _stdout: BufReader<ChildStdout>,
    bootstrap: String,
}

impl Embedded {
    /// Starts so many brokers on free ports of loopback and waits until they serve.
    ///
    /// # Errors
    /// When the system grants no process or the brokers do not come up; the child has told why on the standard error.
    pub fn start(
        brokers: usize,
        script: Option<&Path>,
        request_log: Option<&Path>,
        secured: Option<&Path>,
    ) -> Result<Embedded, Failure> {
        let program = std::env::current_exe();
        let count = brokers.to_string();
        let replication_factor = format!("default.replication.factor={}", brokers.min(3));
        let started = program.and_then(|program| {
            Command::new(program)
                .args(["broker", "--until-stdin-closes", "--listen", "127.0.0.1:0"])
                .args(["--brokers", &count, "--property", &replication_factor])
                .args(script.iter().flat_map(|path| [Path::new("--script"), *path]))
                .args(request_log.iter().flat_map(|path| [Path::new("--request-log"), *path]))
                .args(secured.iter().flat_map(|path| [Path::new("--secured"), *path]))
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                // Ctrl-C at a terminal goes to the whole group: the brokers must be there until the run has ended in order.
                .process_group(0)
                .spawn()
        });
        let mut child = started.map_err(|error| not_started(&system_error(&error)))?;
        let Some(stdout) = child.stdout.take() else {
            return Err(not_started("its output cannot be read"));
        };
        let mut stdout = BufReader::new(stdout);
        let bootstrap = bootstrap_of(&mut stdout);
        let embedded = Embedded {
            child,
            _stdout: stdout,
            bootstrap: bootstrap.clone().unwrap_or_default(),
        };
        match bootstrap {
            Some(_) => Ok(embedded),
            None => Err(not_started("they ended at once")),
        }
    }

    /// Their addresses, `host:port,…`.
    pub fn bootstrap(&self) -> &str {
        &self.bootstrap
    }
}

fn not_started(why: &str) -> Failure {
    Failure::failed(format!(
        "the embedded brokers could not be started: {why}; name a cluster with --bootstrap-server to do without them"
    ))
}

fn bootstrap_of(stdout: &mut impl BufRead) -> Option<String> {
    stdout
        .lines()
        .map_while(Result::ok)
        .find_map(|line| Some(line.strip_prefix("bootstrap: ")?.to_owned()))
}

impl Drop for Embedded {
    #[expect(clippy::disallowed_methods, reason = "a bounded wait for another process")]
    fn drop(&mut self) {
        // The end of their input ends them in order, so that a request log is whole. One that has ended already cannot be
        // killed.
        drop(self.child.stdin.take());
        let began = Instant::now();
        while self.child.try_wait().is_ok_and(|ended| ended.is_none()) && began.elapsed() < ENDED_WITHIN {
            std::thread::sleep(LOOK);
        }
        self.child.kill().unwrap_or_default();
        self.child.wait().map(drop).unwrap_or_default();
    }
}
