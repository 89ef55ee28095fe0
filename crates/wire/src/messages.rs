//! The requests and responses of the control plane, one file per API.
//!
//! Fields are named as in Kafka's schemas. [`crate::produce`] and [`crate::fetch`] are apart, because they carry records.

pub mod add_offsets_to_txn;
pub mod add_partitions_to_txn;
pub mod alter_client_quotas;
pub mod alter_configs;
pub mod api_versions;
pub mod consumer_group_describe;
pub mod consumer_group_heartbeat;
pub mod create_partitions;
pub mod create_topics;
pub mod delete_groups;
pub mod delete_records;
pub mod delete_topics;
pub mod describe_acls;
pub mod describe_client_quotas;
pub mod describe_cluster;
pub mod describe_configs;
pub mod describe_groups;
pub mod describe_log_dirs;
pub mod describe_producers;
pub mod describe_topic_partitions;
pub mod describe_transactions;
pub mod elect_leaders;
pub mod end_txn;
pub mod find_coordinator;
pub mod heartbeat;
pub mod incremental_alter_configs;
pub mod init_producer_id;
pub mod join_group;
pub mod leave_group;
pub mod list_groups;
pub mod list_offsets;
pub mod list_transactions;
pub mod metadata;
pub mod offset_commit;
pub mod offset_delete;
pub mod offset_fetch;
pub mod offset_for_leader_epoch;
pub mod sasl_authenticate;
pub mod sasl_handshake;
pub mod sync_group;
pub mod txn_offset_commit;
pub mod write_txn_markers;

pub use add_offsets_to_txn::{AddOffsetsToTxnRequest, AddOffsetsToTxnResponse};
pub use add_partitions_to_txn::{AddPartitionsToTxnRequest, AddPartitionsToTxnResponse};
pub use alter_client_quotas::{AlterClientQuotasRequest, AlterClientQuotasResponse};
pub use alter_configs::{AlterConfigsRequest, AlterConfigsResponse};
pub use api_versions::{ApiVersionsRequest, ApiVersionsResponse};
pub use consumer_group_describe::{ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse};
pub use consumer_group_heartbeat::{ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse};
pub use create_partitions::{CreatePartitionsRequest, CreatePartitionsResponse};
pub use create_topics::{CreateTopicsRequest, CreateTopicsResponse};
pub use delete_groups::{DeleteGroupsRequest, DeleteGroupsResponse};
pub use delete_records::{DeleteRecordsRequest, DeleteRecordsResponse};
pub use delete_topics::{DeleteTopicsRequest, DeleteTopicsResponse};
pub use describe_acls::{DescribeAclsRequest, DescribeAclsResponse};
pub use describe_client_quotas::{DescribeClientQuotasRequest, DescribeClientQuotasResponse};
pub use describe_cluster::{DescribeClusterRequest, DescribeClusterResponse};
pub use describe_configs::{DescribeConfigsRequest, DescribeConfigsResponse};
pub use describe_groups::{DescribeGroupsRequest, DescribeGroupsResponse};
pub use describe_log_dirs::{DescribeLogDirsRequest, DescribeLogDirsResponse};
pub use describe_producers::{DescribeProducersRequest, DescribeProducersResponse};
pub use describe_topic_partitions::{DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse};
pub use describe_transactions::{DescribeTransactionsRequest, DescribeTransactionsResponse};
pub use elect_leaders::{ElectLeadersRequest, ElectLeadersResponse};
pub use end_txn::{EndTxnRequest, EndTxnResponse};
pub use find_coordinator::{FindCoordinatorRequest, FindCoordinatorResponse};
pub use heartbeat::{HeartbeatRequest, HeartbeatResponse};
pub use incremental_alter_configs::{IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse};
pub use init_producer_id::{InitProducerIdRequest, InitProducerIdResponse};
pub use join_group::{JoinGroupRequest, JoinGroupResponse};
pub use leave_group::{LeaveGroupRequest, LeaveGroupResponse};
pub use list_groups::{ListGroupsRequest, ListGroupsResponse};
pub use list_offsets::{ListOffsetsRequest, ListOffsetsResponse};
pub use list_transactions::{ListTransactionsRequest, ListTransactionsResponse};
pub use metadata::{MetadataRequest, MetadataResponse};
pub use offset_commit::{OffsetCommitRequest, OffsetCommitResponse};
pub use offset_delete::{OffsetDeleteRequest, OffsetDeleteResponse};
pub use offset_fetch::{OffsetFetchRequest, OffsetFetchResponse};
pub use offset_for_leader_epoch::{OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse};
pub use sasl_authenticate::{SaslAuthenticateRequest, SaslAuthenticateResponse};
pub use sasl_handshake::{SaslHandshakeRequest, SaslHandshakeResponse};
pub use sync_group::{SyncGroupRequest, SyncGroupResponse};
pub use txn_offset_commit::{TxnOffsetCommitRequest, TxnOffsetCommitResponse};
pub use write_txn_markers::{WriteTxnMarkersRequest, WriteTxnMarkersResponse};

/// Hands the list of all requests and their responses to another macro, after what else that macro is to get.
macro_rules! for_each_request {
    ($macro:ident $($first:tt)*) => {
        $macro! { $($first)*
            AddOffsetsToTxnRequest AddOffsetsToTxnResponse,
            AddPartitionsToTxnRequest AddPartitionsToTxnResponse,
            AlterClientQuotasRequest AlterClientQuotasResponse,
            AlterConfigsRequest AlterConfigsResponse,
            ApiVersionsRequest ApiVersionsResponse,
            ConsumerGroupDescribeRequest ConsumerGroupDescribeResponse,
            ConsumerGroupHeartbeatRequest ConsumerGroupHeartbeatResponse,
            CreatePartitionsRequest CreatePartitionsResponse,
            CreateTopicsRequest CreateTopicsResponse,
            DeleteGroupsRequest DeleteGroupsResponse,
            DeleteRecordsRequest DeleteRecordsResponse,
            DeleteTopicsRequest DeleteTopicsResponse,
            DescribeAclsRequest DescribeAclsResponse,
            DescribeClientQuotasRequest DescribeClientQuotasResponse,
            DescribeClusterRequest DescribeClusterResponse,
            DescribeConfigsRequest DescribeConfigsResponse,
            DescribeGroupsRequest DescribeGroupsResponse,
            DescribeLogDirsRequest DescribeLogDirsResponse,
            DescribeProducersRequest DescribeProducersResponse,
            DescribeTopicPartitionsRequest DescribeTopicPartitionsResponse,
            DescribeTransactionsRequest DescribeTransactionsResponse,
            ElectLeadersRequest ElectLeadersResponse,
            EndTxnRequest EndTxnResponse,
            FindCoordinatorRequest FindCoordinatorResponse,
            HeartbeatRequest HeartbeatResponse,
            IncrementalAlterConfigsRequest IncrementalAlterConfigsResponse,
            InitProducerIdRequest InitProducerIdResponse,
            JoinGroupRequest JoinGroupResponse,
            LeaveGroupRequest LeaveGroupResponse,
            ListGroupsRequest ListGroupsResponse,
            ListOffsetsRequest ListOffsetsResponse,
            ListTransactionsRequest ListTransactionsResponse,
            MetadataRequest MetadataResponse,
            OffsetCommitRequest OffsetCommitResponse,
            OffsetDeleteRequest OffsetDeleteResponse,
            OffsetFetchRequest OffsetFetchResponse,
            OffsetForLeaderEpochRequest OffsetForLeaderEpochResponse,
            SaslAuthenticateRequest SaslAuthenticateResponse,
            SaslHandshakeRequest SaslHandshakeResponse,
            SyncGroupRequest SyncGroupResponse,
            TxnOffsetCommitRequest TxnOffsetCommitResponse,
            WriteTxnMarkersRequest WriteTxnMarkersResponse,
        }
    };
}

pub(crate) use for_each_request;
