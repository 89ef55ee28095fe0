//! The one clock of a process: nanoseconds since its run began.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A monotonic origin shared by every thread of a process, so that stamps of producers and consumers can be subtracted.
///
/// Monotonic time cannot be compared across hosts; `wall_ms` gives the wall-clock time that belongs to a monotonic one, as
/// read once at the origin, for record timestamps.
#[derive(Clone, Copy, Debug)]
pub struct RunClock {
    origin: Instant,
    wall_origin: Duration,
}

impl RunClock {
    /// A clock that starts now.
    pub fn start() -> RunClock {
        let wall_origin = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        RunClock {
            origin: Instant::now(),
            wall_origin,
        }
    }

    /// Nanoseconds since the start.
    #[inline]
    pub fn now_ns(&self) -> u64 {
        self.origin.elapsed().as_nanos() as u64
    }

    /// The wall-clock time at `at_ns`, in ms since 1970.
    #[inline]
    pub fn wall_ms(&self, at_ns: u64) -> i64 {
        (self.wall_origin + Duration::from_nanos(at_ns)).as_millis() as i64
    }

    /// The wall-clock time of the start, since 1970.
    pub fn wall_start(&self) -> Duration {
        self.wall_origin
    }
}
