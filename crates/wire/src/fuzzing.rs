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
    /// Reads a message in that version; where that succeeds, whether encoding and reading it again gives the same.
    pub comes_back: fn(i16, &[u8]) -> Option<bool>,
}

fn sample<M: Message + Sample>(version: i16, choices: &[u8]) -> Vec<u8> {
    let layout = Layout::new(version, M::FLEXIBLE_FROM);
    let mut bytes = Vec::new();
    M::sample(layout, &mut Source::new(choices)).write(layout, &mut Writer::new(&mut bytes));
    bytes
}

fn comes_back<M: Message>(version: i16, bytes: &[u8]) -> Option<bool> {
    let message = M::decode(version, &mut Reader::new(bytes)).ok()?;
    let mut encoded = Vec::new();
    message.encode(version, &mut encoded);
    let mut input = Reader::new(&encoded);
    let again = M::decode(version, &mut input);
    // A number that is none equals nothing, itself included, but it is told the same.
    let is_same = again.is_ok_and(|again| again == message || format!("{again:?}") == format!("{message:?}"));
    Some(is_same && input.finish().is_ok())
}

macro_rules! sampled {
    ($($message:ident)*) => {
        vec![$(Sampled {
            name: stringify!($message),
            versions: <$message as Message>::VERSIONS,
            sample: sample::<$message>,
            comes_back: comes_back::<$message>,
        },)*]
    };
}

macro_rules! list {
    ($($request:ident $response:ident,)*) => {
        /// All requests but Produce, which is read where it lies.
        pub fn requests() -> Vec<Sampled> {
            use crate::fetch::FetchRequest;
            use crate::messages::*;
            sampled![$($request)* FetchRequest]
        }

        /// All responses but Fetch, which is read where it lies.
        pub fn responses() -> Vec<Sampled> {
            use crate::messages::*;
            use crate::produce::ProduceResponse;
            sampled![$($response)* ProduceResponse]
        }

        /// What the members of a classic group write to each other, without the version in front.
        pub fn consumer_protocol() -> Vec<Sampled> {
            use crate::consumer_protocol::{ConsumerProtocolAssignment, ConsumerProtocolSubscription};
            sampled![ConsumerProtocolSubscription ConsumerProtocolAssignment]
        }
    };
}

for_each_request!(list);
