//! A Kafka client made of state machines: `(now, input) → actions`, with the sockets in one file.

pub mod clock;
pub mod cluster;
pub mod net;
pub mod partitioner;
pub mod producer;

pub use wire::batch;
pub use wire::compress;
