//! What consumers of a classic group tell each other through the coordinator: subscriptions and assignments.
//!
//! The bytes stand in JoinGroup's `metadata` and SyncGroup's `assignment`, and begin with two bytes of version. Versions 0
//! to 3: 1 adds the partitions that a member owns (KIP-429), 2 the generation they are from (KIP-792), 3 the member's rack
//! (KIP-881). A newer version is read as version 3, and what follows is passed over, so that members of different
//! versions can share a group.

use crate::codec::{DecodeError, Message, Reader};
use crate::schema::messages;

/// The protocol type that consumers join with.
pub const PROTOCOL_TYPE: &str = "consumer";

messages! {
    /// What a member subscribes to.
    message ConsumerProtocolSubscription, versions 0..=3, flexible never {
        /// The topics' names.
        [0..] topics: Vec<String>,
        /// Bytes for the assignor.
        [0..] user_data: Option<Vec<u8>>,
        /// The partitions that the member owns, by topic.
        [1..] owned_partitions: Vec<TopicPartition>,
        /// The generation that they were assigned in; −1 if there was none.
        [2..] generation_id: i32 = -1,
        /// The member's rack.
        [3..] rack_id: Option<String>,
    }

    /// What a member is assigned.
    message ConsumerProtocolAssignment, versions 0..=3, flexible never {
        /// The partitions, by topic.
        [0..] assigned_partitions: Vec<TopicPartition>,
        /// Bytes from the assignor.
        [0..] user_data: Option<Vec<u8>>,
    }

    /// A topic and some of its partitions.
    struct TopicPartition {
        /// The topic's name.
        [0..] topic: String,
        /// The partitions' indexes.
        [0..] partitions: Vec<i32>,
    }
}

/// The bytes of a subscription or assignment, version first.
pub fn encode<M: Message>(version: i16, message: &M) -> Vec<u8> {
    let mut out = version.to_be_bytes().to_vec();
    message.encode(version, &mut out);
    out
}

/// Reads a subscription or assignment.
///
/// # Errors
/// If the bytes are not one.
pub fn decode<M: Message>(bytes: &[u8]) -> Result<M, DecodeError> {
    let mut input = Reader::new(bytes);
    let version = input.read_i16()?;
    M::decode(version.min(*M::VERSIONS.end()), &mut input)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subscription_stands_in_bytes_as_the_java_client_writes_it() {
        let subscription = ConsumerProtocolSubscription {
            topics: vec!["t".to_owned()],
            owned_partitions: vec![TopicPartition {
                topic: "t".to_owned(),
                partitions: vec![2],
            }],
            ..Default::default()
        };
        let bytes = encode(1, &subscription);
        let expected = [
            &[0, 1][..],
            &[0, 0, 0, 1, 0, 1, b't'],
            &[0xff; 4],
            &[0, 0, 0, 1, 0, 1, b't', 0, 0, 0, 1, 0, 0, 0, 2],
        ];
        assert_eq!(bytes, expected.concat());
        assert_eq!(decode(&bytes), Ok(subscription));
    }

    #[test]
    fn newer_versions_are_read_as_the_newest_known() {
        let assignment = ConsumerProtocolAssignment {
            assigned_partitions: vec![TopicPartition {
                topic: "t".to_owned(),
                partitions: vec![0, 1],
            }],
            user_data: Some(vec![1]),
        };
        let mut bytes = encode(3, &assignment);
        bytes[1] = 9;
        bytes.extend_from_slice(b"what version 9 adds");
        assert_eq!(decode(&bytes), Ok(assignment));
        assert!(decode::<ConsumerProtocolAssignment>(&[0xff, 0xff]).is_err());
    }
}
