//! The Kafka protocol as bytes in and bytes out: no sockets, no clocks.
//!
//! * [`batch`]: record batch v2, the hot path: encoding in place, decoding without a copy.
//! * [`compress`]: the four codecs in the framing that Kafka gives them.

pub mod batch;
pub mod compress;
pub mod varint;
