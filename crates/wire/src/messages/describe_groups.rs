//! DescribeGroups, API key 15, versions 0 to 6; flexible from 5.
//!
//! 3 adds authorized operations, 4 static members; 6 answers GROUP_ID_NOT_FOUND where older versions say `Dead` (KIP-1043).

use crate::ErrorCode;
use crate::schema::messages;

messages! {
    /// Asks for the state and members of classic groups.
    request DescribeGroupsRequest, DESCRIBE_GROUPS, versions 0..=6, flexible 5..,
        answered by DescribeGroupsResponse {
        /// The groups.
        [0..] groups: Vec<String>,
        /// Whether to say what the principal may do.
        [3..] include_authorized_operations: bool,
    }

    /// Answers [`DescribeGroupsRequest`].
    response DescribeGroupsResponse {
        /// For how many ms a quota holds the client back; newer brokers leave the waiting to the client.
        [1..] throttle_time_ms: i32,
        /// The groups.
        [0..] groups: Vec<DescribedGroup>,
    }

    /// One element of [`DescribeGroupsResponse::groups`].
    struct DescribedGroup {
        /// What went wrong.
        [0..] error_code: ErrorCode,
        /// The broker's explanation, if it gives one.
        [6..] error_message: Option<String>,
        /// The group.
        [0..] group_id: String,
        /// The group's state, for example `Stable` or `Empty`.
        [0..] group_state: String,
        /// `consumer` for consumers.
        [0..] protocol_type: String,
        /// The assignor in use.
        [0..] protocol_data: String,
        /// The members.
        [0..] members: Vec<DescribedGroupMember>,
        /// What the principal may do, a bit for each operation; `i32::MIN` if that was not asked for.
        [3..] authorized_operations: i32 = i32::MIN,
    }

    /// One element of [`DescribedGroup::members`].
    struct DescribedGroupMember {
        /// The member; empty where it has no id yet.
        [0..] member_id: String,
        /// The name of a static member; null for others.
        [4..] group_instance_id: Option<String>,
        /// The member's client id.
        [0..] client_id: String,
        /// The host that the member connects from.
        [0..] client_host: String,
        /// What the member said when it joined, in the embedded protocol's bytes.
        [0..] member_metadata: Vec<u8>,
        /// What the member was given, in the embedded protocol's bytes.
        [0..] member_assignment: Vec<u8>,
    }
}
