//! ListGroups, API key 16, versions 0 to 5; flexible from 3.
//!
//! 4 filters by state (KIP-518), 5 by type (KIP-848). Every broker has to be asked: each knows only its own groups.

use crate::ErrorCode;
use crate::schema::messages;

messages! {
    /// Asks which groups a broker coordinates.
    request ListGroupsRequest, LIST_GROUPS, versions 0..=5, flexible 3..,
        answered by ListGroupsResponse {
        /// Lists only groups in these states; empty lists all.
        [4..] states_filter: Vec<String>,
        /// Lists only groups of these types; empty lists all.
        [5..] types_filter: Vec<String>,
    }

    /// Answers [`ListGroupsRequest`].
    response ListGroupsResponse {
        /// For how many ms a quota holds the client back; newer brokers leave the waiting to the client.
        [1..] throttle_time_ms: i32,
        /// What went wrong.
        [0..] error_code: ErrorCode,
        /// The groups.
        [0..] groups: Vec<ListedGroup>,
    }

    /// One element of [`ListGroupsResponse::groups`].
    struct ListedGroup {
        /// The group.
        [0..] group_id: String,
        /// `consumer` for consumers.
        [0..] protocol_type: String,
        /// The group's state, for example `Stable` or `Empty`.
        [4..] group_state: String,
        /// `classic`, `consumer`, `share` or `streams`.
        [5..] group_type: String,
    }
}
