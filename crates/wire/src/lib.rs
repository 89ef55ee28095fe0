//! The Kafka protocol as bytes in and bytes out: no sockets, no clocks.
//!
//! * [`batch`]: record batch v2, the hot path: encoding in place, decoding without a copy.
//! * [`compress`]: the four codecs in the framing that Kafka gives them.
//! * [`messages`]: requests and responses of the control plane, one file per API.
//! * [`produce`], [`fetch`]: the two APIs that carry records, which stay where they are ([`cuts`]).
//! * [`header`]: whole frames of them all; [`versions`]: which version to speak.
//! * [`throttle`]: for how long a quota holds a client back, as answers say it.
//! * [`consumer_protocol`]: what the members of a classic group tell each other.

pub mod batch;
pub mod codec;
pub mod compress;
pub mod consumer_protocol;
pub mod cuts;
pub mod fetch;
pub mod header;
pub mod leader_hints;
pub mod messages;
pub mod produce;
pub mod sasl;
pub mod stores;
pub mod throttle;
pub mod varint;
pub mod versions;

mod api_key;
mod error_code;
#[cfg(feature = "fuzzing")]
pub mod fuzzing;
#[cfg(test)]
mod hostile;
#[cfg(any(test, feature = "fuzzing"))]
mod sample;
mod schema;
#[cfg(test)]
mod second_opinion;

pub use api_key::ApiKey;
pub use codec::{DecodeError, Message, Reader, Request, Uuid};
pub use error_code::ErrorCode;
