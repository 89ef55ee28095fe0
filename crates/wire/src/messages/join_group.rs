//! JoinGroup, API key 11, versions 0 to 9; flexible from 6.
//!
//! 1 separates the rebalance timeout; from 4 on the first try is answered with MEMBER_ID_REQUIRED (KIP-394); 5 static
//! members (KIP-345), 7 names the protocol type, 8 reasons (KIP-800), 9 lets the leader skip the assignment (KIP-814).

use crate::ErrorCode;
use crate::schema::messages;

messages! {
    /// Joins a group (classic protocol).
    request JoinGroupRequest, JOIN_GROUP, versions 0..=9, flexible 6..,
        answered by JoinGroupResponse {
        /// The group.
        [0..] group_id: String,
        /// After how long without a heartbeat a member is taken for dead, in ms.
        [0..] session_timeout_ms: i32,
        /// How long a member may take to join again, in ms.
        [1..] rebalance_timeout_ms: i32 = -1,
        /// The member; empty where it has no id yet.
        [0..] member_id: String,
        /// The name of a static member; null for others.
        [5..] group_instance_id: Option<String>,
        /// `consumer` for consumers.
        [0..] protocol_type: String,
        /// The assignors that the member supports, the preferred one first, and what it says to each.
        [0..] protocols: Vec<JoinGroupRequestProtocol>,
        /// Why, for the broker's log.
        [8..] reason: Option<String>,
    }

    /// One element of [`JoinGroupRequest::protocols`].
    struct JoinGroupRequestProtocol {
        /// The name.
        [0..] name: String,
        /// What the member says to the one that assigns, in the embedded protocol's bytes.
        [0..] metadata: Vec<u8>,
    }

    /// Answers [`JoinGroupRequest`].
    response JoinGroupResponse {
        /// For how many ms a quota holds the client back; newer brokers leave the waiting to the client.
        [2..]           throttle_time_ms: i32,
        /// What went wrong.
        [0..]           error_code: ErrorCode,
        /// The group's generation; −1 if there is none.
        [0..]           generation_id: i32 = -1,
        /// `consumer` for consumers.
        [7..]           protocol_type: Option<String>,
        /// The assignor that was chosen.
        [0.., null 7..] protocol_name: Option<String>,
        /// The member that assigns for all.
        [0..]           leader: String,
        /// Whether the leader need not assign, as the group's assignment stands.
        [9..]           skip_assignment: bool,
        /// The member; empty where it has no id yet.
        [0..]           member_id: String,
        /// All members; only the leader of the group gets them.
        [0..]           members: Vec<JoinGroupResponseMember>,
    }

    /// One element of [`JoinGroupResponse::members`].
    struct JoinGroupResponseMember {
        /// The member; empty where it has no id yet.
        [0..] member_id: String,
        /// The name of a static member; null for others.
        [5..] group_instance_id: Option<String>,
        /// What the member says to the one that assigns, in the embedded protocol's bytes.
        [0..] metadata: Vec<u8>,
    }
}
