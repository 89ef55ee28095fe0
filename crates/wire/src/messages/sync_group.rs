//! SyncGroup, API key 14, versions 0 to 5; flexible from 4.
//!
//! 3 static members (KIP-345), 5 names protocol type and assignor.

use crate::ErrorCode;
use crate::schema::messages;

messages! {
    /// Hands in the leader's assignment and asks for one's own (classic protocol).
    request SyncGroupRequest, SYNC_GROUP, versions 0..=5, flexible 4..,
        answered by SyncGroupResponse {
        /// The group.
        [0..] group_id: String,
        /// The group's generation; −1 if there is none.
        [0..] generation_id: i32,
        /// The member; empty where it has no id yet.
        [0..] member_id: String,
        /// The name of a static member; null for others.
        [3..] group_instance_id: Option<String>,
        /// `consumer` for consumers.
        [5..] protocol_type: Option<String>,
        /// The assignor that was chosen.
        [5..] protocol_name: Option<String>,
        /// What each member is given; only the leader of the group fills it.
        [0..] assignments: Vec<SyncGroupRequestAssignment>,
    }

    /// One element of [`SyncGroupRequest::assignments`].
    struct SyncGroupRequestAssignment {
        /// The member; empty where it has no id yet.
        [0..] member_id: String,
        /// What the member is given, in the embedded protocol's bytes.
        [0..] assignment: Vec<u8>,
    }

    /// Answers [`SyncGroupRequest`].
    response SyncGroupResponse {
        /// For how many ms a quota holds the client back; newer brokers leave the waiting to the client.
        [1..] throttle_time_ms: i32,
        /// What went wrong.
        [0..] error_code: ErrorCode,
        /// `consumer` for consumers.
        [5..] protocol_type: Option<String>,
        /// The assignor that was chosen.
        [5..] protocol_name: Option<String>,
        /// What the member is given, in the embedded protocol's bytes.
        [0..] assignment: Vec<u8>,
    }
}
