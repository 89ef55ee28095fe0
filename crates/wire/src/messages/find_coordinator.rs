//! FindCoordinator, API key 10, versions 0 to 6; flexible from 3.
//!
//! 1 adds the key's type, 4 asks for many keys at once (KIP-699), 6 share groups (KIP-932).

use crate::ErrorCode;
use crate::schema::messages;

messages! {
    /// Asks which broker coordinates a group or transactional id.
    request FindCoordinatorRequest, FIND_COORDINATOR, versions 0..=6, flexible 3..,
        answered by FindCoordinatorResponse {
        /// The group or transactional id.
        [0..=3] key: String,
        /// 0 a group, 1 a transactional id, 2 a share group's partition.
        [1..]   key_type: i8,
        /// The groups or transactional ids whose coordinator is sought.
        [4..]   coordinator_keys: Vec<String>,
    }

    /// Answers [`FindCoordinatorRequest`].
    response FindCoordinatorResponse {
        /// For how many ms a quota holds the client back; newer brokers leave the waiting to the client.
        [1..]   throttle_time_ms: i32,
        /// What went wrong.
        [0..=3] error_code: ErrorCode,
        /// The broker's explanation, if it gives one.
        [1..=3] error_message: Option<String>,
        /// The broker's node id.
        [0..=3] node_id: i32,
        /// The host name or address.
        [0..=3] host: String,
        /// The port.
        [0..=3] port: i32,
        /// A coordinator for each key.
        [4..]   coordinators: Vec<Coordinator>,
    }

    /// One element of [`FindCoordinatorResponse::coordinators`].
    struct Coordinator {
        /// The group or transactional id.
        [4..] key: String,
        /// The broker's node id.
        [4..] node_id: i32,
        /// The host name or address.
        [4..] host: String,
        /// The port.
        [4..] port: i32,
        /// What went wrong.
        [4..] error_code: ErrorCode,
        /// The broker's explanation, if it gives one.
        [4..] error_message: Option<String>,
    }
}
