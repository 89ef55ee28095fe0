//! Every message, by API and version, for programs that feed decoders with damaged input: how to make one, and how to read one.

use crate::codec::{Layout, Message, Reader, Writer};
use crate::messages::for_each_request;
use crate::sample::{Sample, Source};
use std::ops::RangeInclusive;

/// A message of the control plane, without its type.
#[derive(Clone, Debug)]
pub struct Sampled {
    /// Its name in Kafka's schemas.
    pub name: &'static str,
    /// The versions spoken here.
    pub versions: RangeInclusive<i16>,
    /// Encodes a message in that version, made of a stream of choices.
    pub sample: fn(i16, &[u8]) -> Vec<u8>,
    /// Reads a message in that version; where that succeeds, what it is encoded to, which must come back the same.
    pub again: fn(i16, &[u8]) -> Option<Vec<u8>>,
}

fn sample<M: Message + Sample>(version: i16, choices: &[u8]) -> Vec<u8> {
    let layout = Layout::new(version, M::FLEXIBLE_FROM);
    let mut bytes = Vec::new();
    M::sample(layout, &mut Source::new(choices)).write(layout, &mut Writer::new(&mut bytes));
    bytes
}

fn again<M: Message>(version: i16, bytes: &[u8]) -> Option<Vec<u8>> {
    let message = M::decode(version, &mut Reader::new(bytes)).ok()?;
    let mut encoded = Vec::new();
    message.encode(version, &mut encoded);
    Some(encoded)
}

macro_rules! list {
    ($($request:ident $response:ident,)*) => {
        /// All requests.
        pub fn requests() -> Vec<Sampled> {
            use crate::messages::*;
            vec![$(Sampled {
                name: stringify!($request),
                versions: <$request as Message>::VERSIONS,
                sample: sample::<$request>,
                again: again::<$request>,
            },)*]
        }

        /// All responses.
        pub fn responses() -> Vec<Sampled> {
            use crate::messages::*;
            vec![$(Sampled {
                name: stringify!($response),
                versions: <$response as Message>::VERSIONS,
                sample: sample::<$response>,
                again: again::<$response>,
            },)*]
        }
    };
}

for_each_request!(list);
