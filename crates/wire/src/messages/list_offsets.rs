//! ListOffsets, API key 2, versions 1 to 10; flexible from 6.
//!
//! 2 adds the isolation level, 4 leader epochs, 7 the largest timestamp (KIP-734), 8 and 9 tiered storage (KIP-405,
//! KIP-1005), 10 a timeout (KIP-1075). Version 0, which knew lists of offsets, is not spoken.

use crate::ErrorCode;
use crate::schema::messages;

messages! {
    /// Asks partition leaders for offsets: earliest, latest, or by time.
    request ListOffsetsRequest, LIST_OFFSETS, versions 1..=10, flexible 6..,
        answered by ListOffsetsResponse {
        /// −1 for clients; a follower's node id otherwise.
        [1..]  replica_id: i32,
        /// 0 read uncommitted, 1 read committed.
        [2..]  isolation_level: i8,
        /// The topics.
        [1..]  topics: Vec<ListOffsetsTopic>,
        /// How long the broker may take, in ms.
        [10..] timeout_ms: i32,
    }

    /// One element of [`ListOffsetsRequest::topics`].
    struct ListOffsetsTopic {
        /// The name.
        [1..] name: String,
        /// The partitions.
        [1..] partitions: Vec<ListOffsetsPartition>,
    }

    /// One element of [`ListOffsetsTopic::partitions`].
    struct ListOffsetsPartition {
        /// The partition's index.
        [1..] partition_index: i32,
        /// The leader epoch that the client knows, by which a broker finds out who is behind; −1 does without.
        [4..] current_leader_epoch: i32 = -1,
        /// The time to look for, in ms since 1970, or −1 latest, −2 earliest, −3 the largest timestamp (v7), −4 earliest
        /// local (v8), −5 latest tiered (v9).
        [1..] timestamp: i64,
    }

    /// Answers [`ListOffsetsRequest`].
    response ListOffsetsResponse {
        /// For how many ms a quota holds the client back; newer brokers leave the waiting to the client.
        [2..] throttle_time_ms: i32,
        /// The topics.
        [1..] topics: Vec<ListOffsetsTopicResponse>,
    }

    /// One element of [`ListOffsetsResponse::topics`].
    struct ListOffsetsTopicResponse {
        /// The name.
        [1..] name: String,
        /// The partitions.
        [1..] partitions: Vec<ListOffsetsPartitionResponse>,
    }

    /// One element of [`ListOffsetsTopicResponse::partitions`].
    struct ListOffsetsPartitionResponse {
        /// The partition's index.
        [1..] partition_index: i32,
        /// What went wrong.
        [1..] error_code: ErrorCode,
        /// The timestamp of the record found, in ms since 1970; −1 if none.
        [1..] timestamp: i64 = -1,
        /// The offset; −1 if there is none.
        [1..] offset: i64 = -1,
        /// The leader epoch; −1 if not known.
        [4..] leader_epoch: i32 = -1,
    }
}
