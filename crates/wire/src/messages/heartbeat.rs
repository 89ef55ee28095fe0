//! Heartbeat, API key 12, versions 0 to 4; flexible from 4.
//!
//! 3 static members (KIP-345).

use crate::ErrorCode;
use crate::schema::messages;

messages! {
    /// Says that a member is alive (classic protocol).
    request HeartbeatRequest, HEARTBEAT, versions 0..=4, flexible 4..,
        answered by HeartbeatResponse {
        /// The group.
        [0..] group_id: String,
        /// The group's generation; −1 if there is none.
        [0..] generation_id: i32,
        /// The member; empty where it has no id yet.
        [0..] member_id: String,
        /// The name of a static member; null for others.
        [3..] group_instance_id: Option<String>,
    }

    /// Answers [`HeartbeatRequest`].
    response HeartbeatResponse {
        /// For how many ms a quota holds the client back; newer brokers leave the waiting to the client.
        [1..] throttle_time_ms: i32,
        /// What went wrong.
        [0..] error_code: ErrorCode,
    }
}
