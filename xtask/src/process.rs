//! Processes that outlive the chore that started them, told apart from later ones that got the same id.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

/// How long the kernel may take to end a process that was killed.
const KILL_PATIENCE: Duration = Duration::from_secs(20);

/// One process: its id, and when it started (clock ticks since boot), for ids are used again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Process {
    id: u32,
    started_at_ticks: u64,
}

impl Process {
    /// The running process of this id.
    pub fn of_id(id: u32) -> Result<Self> {
        let (_, started_at_ticks) = stat(id).with_context(|| format!("there is no process {id}"))?;
        Ok(Self { id, started_at_ticks })
    }

    /// The process id.
    pub fn id(self) -> u32 {
        self.id
    }

    /// Whether it runs still; one that has ended and that nobody has waited for does not.
    pub fn is_alive(self) -> bool {
        stat(self.id).is_some_and(|(state, started_at)| {
            started_at == self.started_at_ticks && !matches!(state, 'Z' | 'X')
        })
    }

    /// SIGKILL, and waits until it is gone.
    pub fn kill(self) -> Result<()> {
        self.signal("KILL")?;
        ensure!(
            self.wait_end(KILL_PATIENCE),
            "process {} does not end, even after SIGKILL",
            self.id
        );
        Ok(())
    }

    /// Asks for the end: SIGTERM. Nothing happens if it has ended.
    pub fn terminate(self) -> Result<()> {
        self.signal("TERM")
    }

    /// Stops it where it is (SIGSTOP).
    pub fn pause(self) -> Result<()> {
        self.signal("STOP")
    }

    /// Lets it go on (SIGCONT).
    pub fn resume(self) -> Result<()> {
        self.signal("CONT")
    }

    /// Waits for the end that [`terminate`](Self::terminate) asked for, and kills it where it does not come in time.
    pub fn finish(self, grace: Duration) -> Result<()> {
        if self.wait_end(grace) {
            return Ok(());
        }
        eprintln!(
            "process {} ignores SIGTERM for {} s: killing it",
            self.id,
            grace.as_secs()
        );
        self.kill()
    }

    fn signal(self, name: &str) -> Result<()> {
        if !self.is_alive() {
            return Ok(());
        }
        // The shell's own `kill`: the program of that name is in a package that small systems do without.
        let status = Command::new("sh")
            .args(["-c", &format!("kill -{name} {}", self.id)])
            .stderr(Stdio::null())
            .status()
            .context("cannot run sh")?;
        ensure!(
            status.success() || !self.is_alive(),
            "may not send SIG{name} to process {}",
            self.id
        );
        Ok(())
    }

    fn wait_end(self, at_most: Duration) -> bool {
        let start = Instant::now();
        while self.is_alive() {
            if start.elapsed() > at_most {
                return false;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        true
    }
}

/// State and start time out of `/proc/ID/stat` (proc(5), fields 3 and 22); `None` if there is no such process.
fn stat(id: u32) -> Option<(char, u64)> {
    let text = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The second field is the command's name in parentheses, and may itself hold blanks and parentheses.
    let mut fields = text.get(text.rfind(')')? + 1..)?.split_whitespace();
    let state = fields.next()?.chars().next()?;
    let started_at = fields.nth(18)?.parse().ok()?;
    Some((state, started_at))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_has_ended_is_not_alive_though_nobody_waited_for_it() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let process = Process::of_id(child.id()).unwrap();
        assert!(process.is_alive());
        process.kill().unwrap();
        assert!(!process.is_alive());
        child.wait().unwrap();
    }

    #[test]
    fn another_process_with_the_same_id_is_never_taken_for_it_or_killed() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let running = Process::of_id(child.id()).unwrap();
        let earlier = Process {
            started_at_ticks: running.started_at_ticks - 1,
            ..running
        };
        assert!(!earlier.is_alive());
        earlier.kill().unwrap();
        assert!(running.is_alive());
        running.kill().unwrap();
        child.wait().unwrap();
    }
}
