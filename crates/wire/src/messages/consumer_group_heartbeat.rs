//! ConsumerGroupHeartbeat, API key 68, versions 0 to 1; flexible from 0.
//!
//! KIP-848. With version 1 the client makes the member id itself (KIP-1082) and may subscribe by regular expression.

use crate::ErrorCode;
use crate::codec::Uuid;
use crate::schema::messages;

messages! {
    /// Joins, stays in and leaves a group of the new protocol (KIP-848).
    request ConsumerGroupHeartbeatRequest, CONSUMER_GROUP_HEARTBEAT, versions 0..=1, flexible 0..,
        answered by ConsumerGroupHeartbeatResponse {
        /// The group.
        [0..] group_id: String,
        /// The member; empty where it has no id yet.
        [0..] member_id: String,
        /// The member's epoch; 0 joins, −1 leaves, −2 leaves for a while as a static member.
        [0..] member_epoch: i32,
        /// The name of a static member; null for others, or if unchanged.
        [0..] instance_id: Option<String>,
        /// The member's rack; null if it has none, or if unchanged.
        [0..] rack_id: Option<String>,
        /// How long the member may take to give partitions up, in ms; −1 if unchanged.
        [0..] rebalance_timeout_ms: i32 = -1,
        /// The topics that the member subscribes to; null if unchanged.
        [0..] subscribed_topic_names: Option<Vec<String>>,
        /// The regular expression (RE2/J) that the member subscribes by; null if none, or if unchanged.
        [1..] subscribed_topic_regex: Option<String>,
        /// The assignor that the coordinator is to use; null for its default, or if unchanged.
        [0..] server_assignor: Option<String>,
        /// The partitions that the member owns; null if unchanged.
        [0..] topic_partitions: Option<Vec<TopicPartitions>>,
    }

    /// One element of [`ConsumerGroupHeartbeatRequest::topic_partitions`].
    struct TopicPartitions {
        /// The topic's id; zero if not known.
        [0..] topic_id: Uuid,
        /// The partitions.
        [0..] partitions: Vec<i32>,
    }

    /// Answers [`ConsumerGroupHeartbeatRequest`].
    response ConsumerGroupHeartbeatResponse {
        /// For how many ms a quota holds the client back; newer brokers leave the waiting to the client.
        [0..] throttle_time_ms: i32,
        /// What went wrong.
        [0..] error_code: ErrorCode,
        /// The broker's explanation, if it gives one.
        [0..] error_message: Option<String>,
        /// The member, where the coordinator gave it its id.
        [0..] member_id: Option<String>,
        /// The member's epoch.
        [0..] member_epoch: i32,
        /// The pause between two heartbeats, in ms, as the coordinator wants it.
        [0..] heartbeat_interval_ms: i32,
        /// What the member is given; null if nothing has changed.
        [0..] assignment: Option<Assignment>,
    }

    /// What [`ConsumerGroupHeartbeatResponse::assignment`] holds.
    struct Assignment {
        /// The partitions, by topic.
        [0..] topic_partitions: Vec<TopicPartitions>,
    }
}
