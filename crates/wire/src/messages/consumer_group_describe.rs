//! ConsumerGroupDescribe, API key 69, versions 0 to 1; flexible from 0.
//!
//! KIP-848. 1 adds the member's type.

use crate::ErrorCode;
use crate::codec::Uuid;
use crate::schema::messages;

messages! {
    /// Asks for the state and members of groups of the new protocol (KIP-848).
    request ConsumerGroupDescribeRequest, CONSUMER_GROUP_DESCRIBE, versions 0..=1, flexible 0..,
        answered by ConsumerGroupDescribeResponse {
        /// The groups.
        [0..] group_ids: Vec<String>,
        /// Whether to say what the principal may do.
        [0..] include_authorized_operations: bool,
    }

    /// Answers [`ConsumerGroupDescribeRequest`].
    response ConsumerGroupDescribeResponse {
        /// For how many ms a quota holds the client back; newer brokers leave the waiting to the client.
        [0..] throttle_time_ms: i32,
        /// The groups.
        [0..] groups: Vec<DescribedGroup>,
    }

    /// One element of [`ConsumerGroupDescribeResponse::groups`].
    struct DescribedGroup {
        /// What went wrong.
        [0..] error_code: ErrorCode,
        /// The broker's explanation, if it gives one.
        [0..] error_message: Option<String>,
        /// The group.
        [0..] group_id: String,
        /// The group's state, for example `Stable` or `Empty`.
        [0..] group_state: String,
        /// The group's epoch.
        [0..] group_epoch: i32,
        /// The epoch of the assignment that the group is moving to.
        [0..] assignment_epoch: i32,
        /// The assignor in use.
        [0..] assignor_name: String,
        /// The members.
        [0..] members: Vec<Member>,
        /// What the principal may do, a bit for each operation; `i32::MIN` if that was not asked for.
        [0..] authorized_operations: i32 = i32::MIN,
    }

    /// One element of [`DescribedGroup::members`].
    struct Member {
        /// The member; empty where it has no id yet.
        [0..] member_id: String,
        /// The name of a static member; null for others, or if unchanged.
        [0..] instance_id: Option<String>,
        /// The member's rack; null if it has none, or if unchanged.
        [0..] rack_id: Option<String>,
        /// The member's epoch.
        [0..] member_epoch: i32,
        /// The member's client id.
        [0..] client_id: String,
        /// The host that the member connects from.
        [0..] client_host: String,
        /// The topics that the member subscribes to.
        [0..] subscribed_topic_names: Vec<String>,
        /// The regular expression (RE2/J) that the member subscribes by; null if none, or if unchanged.
        [0..] subscribed_topic_regex: Option<String>,
        /// What the member is given.
        [0..] assignment: Assignment,
        /// What the member is to have in the end.
        [0..] target_assignment: Assignment,
        /// −1 not known, 0 classic, 1 consumer.
        [1..] member_type: i8 = -1,
    }

    /// A topic and its partitions.
    struct TopicPartitions {
        /// The topic's id; zero if not known.
        [0..] topic_id: Uuid,
        /// The topic's name.
        [0..] topic_name: String,
        /// The partitions.
        [0..] partitions: Vec<i32>,
    }

    /// The partitions that a member has, by topic.
    struct Assignment {
        /// The partitions, by topic.
        [0..] topic_partitions: Vec<TopicPartitions>,
    }
}
