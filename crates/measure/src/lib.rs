//! What is measured and how it is judged: pure functions of values, without a clock and without a socket.
//!
//! Time is handed in, as u64 nanoseconds since the run's start. The start of load is the origin of every schedule.
//!
//! * [`schedule`] says when record k of a workload is due, [`share`] splits that among producers without a counter.
//! * [`histogram`] records latencies, whole runs of records at once.
//! * [`stamp`] is what a record carries, [`sequence_set`] which records have been seen.

pub mod histogram;
pub mod schedule;
pub mod sequence_set;
pub mod share;
pub mod stamp;

pub use histogram::{LatencyHistogram, LatencySummary};
pub use schedule::{ConstantRate, Schedule};
pub use sequence_set::SequenceSet;
pub use share::Share;
pub use stamp::Stamp;
