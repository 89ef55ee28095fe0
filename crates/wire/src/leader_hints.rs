//! Where a partition's leader has gone, as Produce and Fetch tell it with an error (KIP-951).

use crate::schema::messages;

messages! {
    /// A leader and since when.
    struct LeaderIdAndEpoch {
        /// The leader's node id; −1 if not known.
        [0..] leader_id: i32 = -1,
        /// The leader epoch; −1 if not known.
        [0..] leader_epoch: i32 = -1,
    }

    /// Where a node listens.
    struct NodeEndpoint {
        /// The broker's node id.
        [0..] node_id: i32,
        /// The host name or address.
        [0..] host: String,
        /// The port.
        [0..] port: i32,
        /// The broker's rack.
        [0..] rack: Option<String>,
    }
}
