//! What is measured and how it is judged: pure functions of values, without a clock and without a socket.
//!
//! Time is handed in, as u64 nanoseconds since the run's start. The start of load is the origin of every schedule.
//!
//! * [`schedule`] says when record k of a workload is due, [`share`] splits that among producers without a counter,
//!   [`phases`] cuts it into warm-up and measurement.
//! * [`histogram`] records latencies, whole runs of records at once; [`interval_log`] writes them down second by second,
//!   [`tail`] says how far their percentiles can be trusted. [`rates`] is what was achieved, window by window.
//! * [`stamp`] is what a record carries; [`sequence_set`] and [`partition_order`] find what is missing, doubled or out of
//!   order; [`offset_index`] stands in where records carry no stamp.
//! * [`limit_search`] decides which rate to try next when the highest one that is sustained is sought.
//! * [`clock_offset`] relates the clocks of two hosts, with a bound.
//! * [`verdict`] judges a run by its figures; [`trend`] tells it whether a backlog grows.

pub mod clock_offset;
pub mod histogram;
pub mod interval_log;
pub mod limit_search;
pub mod offset_index;
pub mod partition_order;
pub mod phases;
pub mod rates;
pub mod schedule;
pub mod sequence_set;
pub mod share;
pub mod stamp;
pub mod tail;
pub mod trend;
pub mod verdict;

pub use histogram::{LatencyHistogram, LatencySummary};
pub use interval_log::{IntervalLog, Tag};
pub use offset_index::OffsetIndex;
pub use partition_order::PartitionOrder;
pub use phases::{PhaseLength, ScheduledPhase};
pub use rates::{AchievedRate, WindowCounts};
pub use schedule::{ConstantRate, Schedule};
pub use sequence_set::SequenceSet;
pub use share::Share;
pub use stamp::Stamp;
pub use trend::{Slope, Trend};
pub use verdict::{Figures, judge};
