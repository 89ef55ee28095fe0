//! DeleteGroups, API key 42, versions 0 to 2; flexible from 2.
//!
//! KIP-229. Sent to each group's coordinator.

use crate::ErrorCode;
use crate::schema::messages;

messages! {
    /// Deletes groups that have no members.
    request DeleteGroupsRequest, DELETE_GROUPS, versions 0..=2, flexible 2..,
        answered by DeleteGroupsResponse {
        /// The groups to delete.
        [0..] groups_names: Vec<String>,
    }

    /// Answers [`DeleteGroupsRequest`].
    response DeleteGroupsResponse {
        /// For how many ms a quota holds the client back; newer brokers leave the waiting to the client.
        [0..] throttle_time_ms: i32,
        /// The outcome for each.
        [0..] results: Vec<DeletableGroupResult>,
    }

    /// One element of [`DeleteGroupsResponse::results`].
    struct DeletableGroupResult {
        /// The group.
        [0..] group_id: String,
        /// What went wrong.
        [0..] error_code: ErrorCode,
    }
}
