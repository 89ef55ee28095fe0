//! The program in a process of its own, in a folder of its own.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// A folder of one test, removed with this value.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new(test: &str) -> Scratch {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}-{}", std::process::id()));
        fs::create_dir_all(&path).expect("a folder for the test");
        Scratch(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    pub fn write(&self, name: &str, content: impl AsRef<[u8]>) {
        fs::write(self.0.join(name), content).expect("a file for the test");
    }

    /// The program with these arguments, to be run here.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_plimsoll"));
        command.args(arguments).current_dir(&self.0).stdin(Stdio::null());
        command
    }

    /// Runs the program to its end.
    #[track_caller]
    pub fn run(&self, arguments: &[&str]) -> Ended {
        finish(
            self.command(arguments)
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .expect("plimsoll runs"),
        )
    }

    /// The folders of results that there are.
    pub fn results(&self) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(self.0.join("plimsoll-runs")) else {
            return Vec::new();
        };
        entries
            .map(|entry| entry.expect("a readable entry").path())
            .collect()
    }

    /// The one result that there is.
    #[track_caller]
    pub fn result(&self) -> serde_json::Value {
        let results = self.results();
        let [result] = results.as_slice() else {
            panic!("one result is expected: {results:?}")
        };
        let text = fs::read_to_string(result.join("result.json")).expect("result.json");
        serde_json::from_str(&text).expect("result.json is JSON")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What is left under the target folder harms nobody.
        fs::remove_dir_all(&self.0).unwrap_or_default();
    }
}

/// A process that has ended.
#[derive(Debug)]
pub struct Ended {
    pub status: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Ended {
    #[track_caller]
    pub fn succeeded(self) -> Ended {
        assert_eq!(self.status, Some(0), "{}\n{}", self.stdout, self.stderr);
        self
    }
}

/// Waits for a process whose output is piped, but not for ever.
#[track_caller]
pub fn finish(mut child: Child) -> Ended {
    fn drain(pipe: Option<impl Read + Send + 'static>) -> std::thread::JoinHandle<String> {
        std::thread::spawn(move || {
            let mut text = String::new();
            if let Some(mut pipe) = pipe {
                pipe.read_to_string(&mut text).expect("output in UTF-8");
            }
            text
        })
    }
    let (stdout, stderr) = (drain(child.stdout.take()), drain(child.stderr.take()));
    let status = wait(&mut child, Duration::from_secs(120));
    Ended {
        status,
        stdout: stdout.join().expect("its output"),
        stderr: stderr.join().expect("its errors"),
    }
}

/// The exit status, `None` where a signal ended it. A process that takes longer is killed.
#[track_caller]
pub fn wait(child: &mut Child, within: Duration) -> Option<i32> {
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("a process to wait for") {
            return status.code();
        }
        if begun.elapsed() > within {
            child.kill().expect("it can be killed");
            panic!("it did not end within {within:?}");
        }
        pause(Duration::from_millis(10));
    }
}

/// Waits. A test that watches another process has nothing to be woken by.
#[expect(
    clippy::disallowed_methods,
    reason = "another process is watched from outside"
)]
pub fn pause(time: Duration) {
    std::thread::sleep(time);
}

/// Sends a signal by its name.
#[track_caller]
pub fn signal(child: &Child, name: &str) {
    let sent = Command::new("sh")
        .args(["-c", &format!("kill -{name} {}", child.id())])
        .status();
    assert!(sent.expect("sh runs").success());
}

/// `plimsoll broker` on free ports of loopback, ended with this value.
pub struct Brokers {
    pub child: Child,
    pub stdout: BufReader<ChildStdout>,
    pub bootstrap: String,
}

impl Brokers {
    #[track_caller]
    pub fn start(arguments: &[&str]) -> Brokers {
        let mut child = Command::new(env!("CARGO_BIN_EXE_plimsoll"))
            .args(["broker", "--listen", "127.0.0.1:0"])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("plimsoll broker runs");
        let mut stdout = BufReader::new(child.stdout.take().expect("its output is piped"));
        let mut line = String::new();
        let bootstrap = loop {
            line.clear();
            assert!(
                stdout.read_line(&mut line).expect("text") > 0,
                "no bootstrap line"
            );
            if let Some(servers) = line.strip_prefix("bootstrap: ") {
                break servers.trim().to_owned();
            }
        };
        Brokers {
            child,
            stdout,
            bootstrap,
        }
    }

    /// The names of all topics.
    #[track_caller]
    pub fn topics(&self) -> Vec<String> {
        let scratch = Scratch::new(&format!("topics-of-{}", self.child.id()));
        let told = scratch
            .run(&["topics", "list", "--json", "--bootstrap-server", &self.bootstrap])
            .succeeded();
        let topics: serde_json::Value = serde_json::from_str(&told.stdout).expect("JSON");
        let name = |topic: &serde_json::Value| topic["name"].as_str().expect("a name").to_owned();
        topics
            .as_array()
            .expect("a list")
            .iter()
            .map(name)
            .filter(|name| !name.starts_with("__"))
            .collect()
    }
}

impl Drop for Brokers {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to kill.
        self.child.kill().unwrap_or_default();
        self.child.wait().map(drop).unwrap_or_default();
    }
}
