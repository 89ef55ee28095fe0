//! OffsetFetch, API key 9, versions 1 to 9; flexible from 6.
//!
//! 2 asks for all topics by null, 5 adds leader epochs, 7 stable offsets (KIP-447), 8 many groups at once (KIP-709), 9 the
//! new group protocol (KIP-848). Version 10, by topic id, is not spoken.

use crate::ErrorCode;
use crate::schema::messages;

messages! {
    /// Asks for groups' committed offsets.
    request OffsetFetchRequest, OFFSET_FETCH, versions 1..=9, flexible 6..,
        answered by OffsetFetchResponse {
        /// The group.
        [1..=7]           group_id: String,
        /// The topics; null is all that have offsets.
        [1..=7, null 2..] topics: Option<Vec<OffsetFetchRequestTopic>>,
        /// The groups.
        [8..]             groups: Vec<OffsetFetchRequestGroup>,
        /// Whether to refuse rather than to ignore offsets of transactions that have not ended.
        [7..]             require_stable: bool,
    }

    /// One element of [`OffsetFetchRequest::topics`].
    struct OffsetFetchRequestTopic {
        /// The name.
        [1..=7] name: String,
        /// The partitions' indexes.
        [1..=7] partition_indexes: Vec<i32>,
    }

    /// One element of [`OffsetFetchRequest::groups`].
    struct OffsetFetchRequestGroup {
        /// The group.
        [8..] group_id: String,
        /// The member; null asks from outside of the group.
        [9..] member_id: Option<String>,
        /// The member's epoch; −1 asks from outside of the group.
        [9..] member_epoch: i32 = -1,
        /// The topics; null is all that have offsets.
        [8..] topics: Option<Vec<OffsetFetchRequestTopics>>,
    }

    /// One element of [`OffsetFetchRequestGroup::topics`].
    struct OffsetFetchRequestTopics {
        /// The name.
        [8..] name: String,
        /// The partitions' indexes.
        [8..] partition_indexes: Vec<i32>,
    }

    /// Answers [`OffsetFetchRequest`].
    response OffsetFetchResponse {
        /// For how many ms a quota holds the client back; newer brokers leave the waiting to the client.
        [3..]   throttle_time_ms: i32,
        /// The topics.
        [1..=7] topics: Vec<OffsetFetchResponseTopic>,
        /// What went wrong.
        [2..=7] error_code: ErrorCode,
        /// The groups.
        [8..]   groups: Vec<OffsetFetchResponseGroup>,
    }

    /// One element of [`OffsetFetchResponse::topics`].
    struct OffsetFetchResponseTopic {
        /// The name.
        [1..=7] name: String,
        /// The partitions.
        [1..=7] partitions: Vec<OffsetFetchResponsePartition>,
    }

    /// One element of [`OffsetFetchResponseTopic::partitions`].
    struct OffsetFetchResponsePartition {
        /// The partition's index.
        [1..=7] partition_index: i32,
        /// The offset of the next record to read; −1 if none is committed.
        [1..=7] committed_offset: i64,
        /// The leader epoch of the last record before the offset; −1 if not known.
        [5..=7] committed_leader_epoch: i32 = -1,
        /// The text that was kept with the offset.
        [1..=7] metadata: Option<String>,
        /// What went wrong.
        [1..=7] error_code: ErrorCode,
    }

    /// One element of [`OffsetFetchResponse::groups`].
    struct OffsetFetchResponseGroup {
        /// The group.
        [8..] group_id: String,
        /// The topics.
        [8..] topics: Vec<OffsetFetchResponseTopics>,
        /// What went wrong.
        [8..] error_code: ErrorCode,
    }

    /// One element of [`OffsetFetchResponseGroup::topics`].
    struct OffsetFetchResponseTopics {
        /// The name.
        [8..] name: String,
        /// The partitions.
        [8..] partitions: Vec<OffsetFetchResponsePartitions>,
    }

    /// One element of [`OffsetFetchResponseTopics::partitions`].
    struct OffsetFetchResponsePartitions {
        /// The partition's index.
        [8..] partition_index: i32,
        /// The offset of the next record to read; −1 if none is committed.
        [8..] committed_offset: i64,
        /// The leader epoch of the last record before the offset; −1 if not known.
        [8..] committed_leader_epoch: i32 = -1,
        /// The text that was kept with the offset.
        [8..] metadata: Option<String>,
        /// What went wrong.
        [8..] error_code: ErrorCode,
    }
}
