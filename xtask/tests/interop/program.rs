//! Programs run to their end, in bounded time.

use std::io::{Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// What a program did.
pub struct Ended {
    told: String,
    status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

impl Ended {
    /// Whether it ended well.
    pub fn is_success(&self) -> bool {
        self.status.success()
    }

    /// Its standard output, if it ended well.
    #[track_caller]
    pub fn succeeded(self) -> String {
        assert!(self.status.success(), "{self}");
        self.stdout
    }

    /// All that it said, if it ended with this status.
    #[track_caller]
    pub fn failed_with(self, code: i32) -> String {
        assert_eq!(self.status.code(), Some(code), "{self}");
        self.stdout + &self.stderr
    }
}

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{}\n{}\nstdout:\n{}\nstderr:\n{}",
            self.told, self.status, self.stdout, self.stderr
        )
    }
}

/// Runs it to its end with `input` on its standard input, and kills it, and fails, after `at_most`.
#[track_caller]
pub fn run(command: &mut Command, input: &str, at_most: Duration) -> Ended {
    let told = format!("{command:?}");
    let child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = child.unwrap_or_else(|error| panic!("{told}: {error}"));
    let (stdout, stderr) = (drain(child.stdout.take()), drain(child.stderr.take()));
    let mut stdin = child.stdin.take().expect("its input is piped");
    let input = input.to_owned();
    // A program may end without reading its input.
    let feeder = std::thread::spawn(move || drop(stdin.write_all(input.as_bytes())));
    let status = wait(&mut child, at_most);
    let text =
        |thread: JoinHandle<Vec<u8>>| String::from_utf8_lossy(&thread.join().expect("read")).into_owned();
    feeder.join().expect("fed");
    let (stdout, stderr) = (text(stdout), text(stderr));
    match status {
        Some(status) => Ended {
            told,
            status,
            stdout,
            stderr,
        },
        None => panic!("{told}\ndid not end within {at_most:?}\nstdout:\n{stdout}\nstderr:\n{stderr}"),
    }
}

/// Waits for the end; kills it and returns `None` where that does not come in time.
pub fn wait(child: &mut Child, at_most: Duration) -> Option<ExitStatus> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("a child can be waited for") {
            return Some(status);
        }
        if start.elapsed() > at_most {
            // It may have ended since; then there is nothing to kill.
            let _ = child.kill();
            let _ = child.wait();
            return None;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn drain(pipe: Option<impl Read + Send + 'static>) -> JoinHandle<Vec<u8>> {
    let mut pipe = pipe.expect("its output is piped");
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes).expect("a pipe can be read");
        bytes
    })
}
