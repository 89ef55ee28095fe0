//! A Kafka client made of state machines: `(now, input) → actions`, with the sockets in one file.

pub mod admin;
pub mod clock;
pub mod cluster;
pub mod consumer;
pub mod group;
pub mod net;
pub mod partitioner;
pub mod producer;
pub mod rights;
pub mod security;

pub use wire::batch;
pub use wire::compress;
