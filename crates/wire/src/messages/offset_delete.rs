//! OffsetDelete, API key 47, versions 0 to 0; never flexible.
//!
//! KIP-496. Topics that the group's members are subscribed to are refused.

use crate::ErrorCode;
use crate::schema::messages;

messages! {
    /// Deletes a group's committed offsets (KIP-496).
    request OffsetDeleteRequest, OFFSET_DELETE, versions 0..=0, flexible never,
        answered by OffsetDeleteResponse {
        /// The group.
        [0..] group_id: String,
        /// The topics.
        [0..] topics: Vec<OffsetDeleteRequestTopic>,
    }

    /// One element of [`OffsetDeleteRequest::topics`].
    struct OffsetDeleteRequestTopic {
        /// The name.
        [0..] name: String,
        /// The partitions.
        [0..] partitions: Vec<OffsetDeleteRequestPartition>,
    }

    /// One element of [`OffsetDeleteRequestTopic::partitions`].
    struct OffsetDeleteRequestPartition {
        /// The partition's index.
        [0..] partition_index: i32,
    }

    /// Answers [`OffsetDeleteRequest`].
    response OffsetDeleteResponse {
        /// What went wrong.
        [0..] error_code: ErrorCode,
        /// For how many ms a quota holds the client back; newer brokers leave the waiting to the client.
        [0..] throttle_time_ms: i32,
        /// The topics.
        [0..] topics: Vec<OffsetDeleteResponseTopic>,
    }

    /// One element of [`OffsetDeleteResponse::topics`].
    struct OffsetDeleteResponseTopic {
        /// The name.
        [0..] name: String,
        /// The partitions.
        [0..] partitions: Vec<OffsetDeleteResponsePartition>,
    }

    /// One element of [`OffsetDeleteResponseTopic::partitions`].
    struct OffsetDeleteResponsePartition {
        /// The partition's index.
        [0..] partition_index: i32,
        /// What went wrong.
        [0..] error_code: ErrorCode,
    }
}
