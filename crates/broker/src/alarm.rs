//! A wait that ends to the nanosecond, for a thread that also waits for sockets: poll itself counts in milliseconds.

use mio::{Interest, Poll, Token};
use std::io;
#[cfg(target_os = "linux")]
use std::os::fd::{AsRawFd, OwnedFd};

/// A timer among the things that a poll waits for.
#[derive(Debug)]
pub(crate) struct Alarm {
    #[cfg(target_os = "linux")]
    fd: OwnedFd,
}

#[cfg(target_os = "linux")]
impl Alarm {
    /// Whether there are alarms on this system.
    pub(crate) const RINGS: bool = true;

    pub(crate) fn new(poll: &Poll, token: Token) -> io::Result<Alarm> {
        use rustix::time::{TimerfdClockId, TimerfdFlags, timerfd_create};
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let fd = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        let mut source = mio::unix::SourceFd(&fd.as_raw_fd());
        poll.registry().register(&mut source, token, Interest::READABLE)?;
        Ok(Alarm { fd })
    }

    /// Rings once, so many nanoseconds from now. What was set before is forgotten.
    pub(crate) fn ring_in(&self, ns: u64) {
        use rustix::time::{Itimerspec, TimerfdTimerFlags, Timespec, timerfd_settime};
        // A timer of no time at all would never ring.
        let ns = ns.max(1);
        let time = |ns: u64| Timespec {
            tv_sec: (ns / 1_000_000_000) as i64,
            tv_nsec: (ns % 1_000_000_000) as _,
        };
        let value = Itimerspec {
            it_interval: time(0),
            it_value: time(ns),
        };
        // It cannot fail with a timer of ours and a time within its range; then the next wake-up is later.
        timerfd_settime(&self.fd, TimerfdTimerFlags::empty(), &value)
            .map(drop)
            .unwrap_or_default();
    }
}

#[cfg(not(target_os = "linux"))]
impl Alarm {
    pub(crate) const RINGS: bool = false;

    pub(crate) fn new(_: &Poll, _: Token) -> io::Result<Alarm> {
        Ok(Alarm {})
    }

    pub(crate) fn ring_in(&self, _: u64) {}
}
