//! A program run to its end, with the time and the CPU that it took.

use std::io::Read;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeVal;

use super::ensure_not_interrupted;
use crate::process::Process;

/// How long a program may take to end that was asked to.
const GRACE: Duration = Duration::from_secs(10);

/// How often it is looked whether this chore was told to end.
const LOOK: Duration = Duration::from_millis(200);

/// Lines of a failed program's output that are shown.
const TAIL_LINES: usize = 12;

/// What a program did that ended well.
pub struct Ended {
    /// From before it was started to its end.
    pub wall: Duration,
    /// User and system time of the process and of those that it started and waited for.
    pub cpu: Duration,
    pub stdout: String,
    pub stderr: String,
}

/// Runs it to its end, without input. An error where it fails, or where it takes longer than this, after ending it.
///
/// Only one child of this process may end at a time: the CPU is what the kernel books for all that have ended.
pub fn run(command: &mut Command, at_most: Duration) -> Result<Ended> {
    ensure_not_interrupted()?;
    let told = told(command);
    let cpu_before = cpu_of_ended_children()?;
    let start = Instant::now();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("cannot run {told}"))?;
    let process = Process::of_id(child.id())?;
    let (stdout, stderr) = (drain(child.stdout.take()), drain(child.stderr.take()));
    let (sender, ended) = mpsc::channel();
    std::thread::spawn(move || {
        let status = child.wait();
        // Nobody listens any more where it was ended for being too slow.
        sender.send((status, start.elapsed())).unwrap_or_default();
    });
    let (status, wall) = loop {
        match ended.recv_timeout(LOOK) {
            Ok(ended) => break ended,
            Err(RecvTimeoutError::Disconnected) => bail!("{told} cannot be waited for"),
            Err(RecvTimeoutError::Timeout) => {}
        }
        let interrupted = ensure_not_interrupted();
        if interrupted.is_err() || start.elapsed() > at_most {
            process.terminate()?;
            process.finish(GRACE)?;
            interrupted?;
            bail!("{told} did not end within {} s", at_most.as_secs());
        }
    };
    let status = status.with_context(|| format!("{told} cannot be waited for"))?;
    let cpu = cpu_of_ended_children()?.saturating_sub(cpu_before);
    let (stdout, stderr) = (text(stdout), text(stderr));
    ensure_not_interrupted()?;
    ensure!(status.success(), "{}", failure(&told, status, &stdout, &stderr));
    Ok(Ended {
        wall,
        cpu,
        stdout,
        stderr,
    })
}

/// The command as a person would type it, near enough.
fn told(command: &Command) -> String {
    let mut words = vec![command.get_program().to_string_lossy().into_owned()];
    words.extend(
        command
            .get_args()
            .map(|argument| argument.to_string_lossy().into_owned()),
    );
    words.join(" ")
}

fn failure(told: &str, status: ExitStatus, stdout: &str, stderr: &str) -> String {
    let mut message = format!("{told}\n{status}");
    for output in [stdout, stderr] {
        let lines: Vec<&str> = output.lines().collect();
        for line in &lines[lines.len().saturating_sub(TAIL_LINES)..] {
            message.push_str("\n  ");
            message.push_str(line);
        }
    }
    message
}

fn cpu_of_ended_children() -> Result<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).context("getrusage")?;
    Ok(duration(usage.user_time()) + duration(usage.system_time()))
}

fn duration(time: TimeVal) -> Duration {
    let seconds = u64::try_from(time.tv_sec()).unwrap_or_default();
    let microseconds = u64::try_from(time.tv_usec()).unwrap_or_default();
    Duration::from_secs(seconds) + Duration::from_micros(microseconds)
}

fn drain(pipe: Option<impl Read + Send + 'static>) -> Option<JoinHandle<Vec<u8>>> {
    let mut pipe = pipe?;
    Some(std::thread::spawn(move || {
        let mut bytes = Vec::new();
        // What was read before an error is shown still.
        pipe.read_to_end(&mut bytes).unwrap_or_default();
        bytes
    }))
}

fn text(output: Option<JoinHandle<Vec<u8>>>) -> String {
    let bytes = output.and_then(|thread| thread.join().ok()).unwrap_or_default();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    /// One test, for the CPU is that of all children that end meanwhile.
    #[test]
    fn a_programs_time_cpu_output_and_failure_are_told() {
        let busy = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; echo done; echo aside >&2";
        let ended = run(&mut shell(busy), ONE_MINUTE).unwrap();
        assert_eq!(
            (ended.stdout.as_str(), ended.stderr.as_str()),
            ("done\n", "aside\n")
        );
        assert!(ended.cpu > Duration::from_millis(10), "{:?}", ended.cpu);
        let idle = run(&mut shell("sleep 0.3"), ONE_MINUTE).unwrap();
        assert!(idle.wall >= Duration::from_millis(300), "{:?}", idle.wall);
        assert!(idle.cpu < ended.cpu, "{:?}", idle.cpu);
        let failed = run(&mut shell("echo why >&2; exit 3"), ONE_MINUTE).err().unwrap();
        let told = format!("{failed:#}");
        assert!(told.contains("why") && told.contains("exit status: 3"), "{told}");
        let slow = run(&mut shell("exec sleep 60"), Duration::from_millis(100))
            .err()
            .unwrap();
        assert!(format!("{slow:#}").contains("did not end within"), "{slow:#}");
    }

    const ONE_MINUTE: Duration = Duration::from_secs(60);
}
