//! LeaveGroup, API key 13, versions 0 to 5; flexible from 4.
//!
//! 3 lets several members leave at once (KIP-345), 5 gives reasons (KIP-800).

use crate::ErrorCode;
use crate::schema::messages;

messages! {
    /// Leaves a group (classic protocol).
    request LeaveGroupRequest, LEAVE_GROUP, versions 0..=5, flexible 4..,
        answered by LeaveGroupResponse {
        /// The group.
        [0..]   group_id: String,
        /// The member; empty where it has no id yet.
        [0..=2] member_id: String,
        /// The members.
        [3..]   members: Vec<MemberIdentity>,
    }

    /// One element of [`LeaveGroupRequest::members`].
    struct MemberIdentity {
        /// The member; empty where it has no id yet.
        [3..] member_id: String,
        /// The name of a static member; null for others.
        [3..] group_instance_id: Option<String>,
        /// Why, for the broker's log.
        [5..] reason: Option<String>,
    }

    /// Answers [`LeaveGroupRequest`].
    response LeaveGroupResponse {
        /// For how many ms a quota holds the client back; newer brokers leave the waiting to the client.
        [1..] throttle_time_ms: i32,
        /// What went wrong.
        [0..] error_code: ErrorCode,
        /// The members.
        [3..] members: Vec<MemberResponse>,
    }

    /// One element of [`LeaveGroupResponse::members`].
    struct MemberResponse {
        /// The member; empty where it has no id yet.
        [3..] member_id: String,
        /// The name of a static member; null for others.
        [3..] group_instance_id: Option<String>,
        /// What went wrong.
        [3..] error_code: ErrorCode,
    }
}
