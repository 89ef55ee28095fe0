//! The numbers by which requests name their API.

use std::fmt;

use crate::codec::{DecodeError, Field, Layout, Reader, Writer};

/// The number of an API. Numbers that are not known here are kept as they are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ApiKey(pub i16);

macro_rules! api_keys {
    ($($key:literal $name:ident $constant:ident)*) => {
        impl ApiKey {
            $(
                #[doc = concat!("The API ", stringify!($name), ".")]
                pub const $constant: Self = Self($key);
            )*

            /// Every API that is known here, in ascending order.
            pub const ALL: &[Self] = &[$(Self::$constant),*];

            /// The API's name, if it is known.
            pub fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($key => Some(stringify!($name)),)*
                    _ => None,
                }
            }
        }
    };
}

api_keys! {
    0 Produce PRODUCE
    1 Fetch FETCH
    2 ListOffsets LIST_OFFSETS
    3 Metadata METADATA
    4 LeaderAndIsr LEADER_AND_ISR
    5 StopReplica STOP_REPLICA
    6 UpdateMetadata UPDATE_METADATA
    7 ControlledShutdown CONTROLLED_SHUTDOWN
    8 OffsetCommit OFFSET_COMMIT
    9 OffsetFetch OFFSET_FETCH
    10 FindCoordinator FIND_COORDINATOR
    11 JoinGroup JOIN_GROUP
    12 Heartbeat HEARTBEAT
    13 LeaveGroup LEAVE_GROUP
    14 SyncGroup SYNC_GROUP
    15 DescribeGroups DESCRIBE_GROUPS
    16 ListGroups LIST_GROUPS
    17 SaslHandshake SASL_HANDSHAKE
    18 ApiVersions API_VERSIONS
    19 CreateTopics CREATE_TOPICS
    20 DeleteTopics DELETE_TOPICS
    21 DeleteRecords DELETE_RECORDS
    22 InitProducerId INIT_PRODUCER_ID
    23 OffsetForLeaderEpoch OFFSET_FOR_LEADER_EPOCH
    24 AddPartitionsToTxn ADD_PARTITIONS_TO_TXN
    25 AddOffsetsToTxn ADD_OFFSETS_TO_TXN
    26 EndTxn END_TXN
    27 WriteTxnMarkers WRITE_TXN_MARKERS
    28 TxnOffsetCommit TXN_OFFSET_COMMIT
    29 DescribeAcls DESCRIBE_ACLS
    30 CreateAcls CREATE_ACLS
    31 DeleteAcls DELETE_ACLS
    32 DescribeConfigs DESCRIBE_CONFIGS
    33 AlterConfigs ALTER_CONFIGS
    34 AlterReplicaLogDirs ALTER_REPLICA_LOG_DIRS
    35 DescribeLogDirs DESCRIBE_LOG_DIRS
    36 SaslAuthenticate SASL_AUTHENTICATE
    37 CreatePartitions CREATE_PARTITIONS
    38 CreateDelegationToken CREATE_DELEGATION_TOKEN
    39 RenewDelegationToken RENEW_DELEGATION_TOKEN
    40 ExpireDelegationToken EXPIRE_DELEGATION_TOKEN
    41 DescribeDelegationToken DESCRIBE_DELEGATION_TOKEN
    42 DeleteGroups DELETE_GROUPS
    43 ElectLeaders ELECT_LEADERS
    44 IncrementalAlterConfigs INCREMENTAL_ALTER_CONFIGS
    45 AlterPartitionReassignments ALTER_PARTITION_REASSIGNMENTS
    46 ListPartitionReassignments LIST_PARTITION_REASSIGNMENTS
    47 OffsetDelete OFFSET_DELETE
    48 DescribeClientQuotas DESCRIBE_CLIENT_QUOTAS
    49 AlterClientQuotas ALTER_CLIENT_QUOTAS
    50 DescribeUserScramCredentials DESCRIBE_USER_SCRAM_CREDENTIALS
    51 AlterUserScramCredentials ALTER_USER_SCRAM_CREDENTIALS
    52 Vote VOTE
    53 BeginQuorumEpoch BEGIN_QUORUM_EPOCH
    54 EndQuorumEpoch END_QUORUM_EPOCH
    55 DescribeQuorum DESCRIBE_QUORUM
    56 AlterPartition ALTER_PARTITION
    57 UpdateFeatures UPDATE_FEATURES
    58 Envelope ENVELOPE
    59 FetchSnapshot FETCH_SNAPSHOT
    60 DescribeCluster DESCRIBE_CLUSTER
    61 DescribeProducers DESCRIBE_PRODUCERS
    62 BrokerRegistration BROKER_REGISTRATION
    63 BrokerHeartbeat BROKER_HEARTBEAT
    64 UnregisterBroker UNREGISTER_BROKER
    65 DescribeTransactions DESCRIBE_TRANSACTIONS
    66 ListTransactions LIST_TRANSACTIONS
    67 AllocateProducerIds ALLOCATE_PRODUCER_IDS
    68 ConsumerGroupHeartbeat CONSUMER_GROUP_HEARTBEAT
    69 ConsumerGroupDescribe CONSUMER_GROUP_DESCRIBE
    70 ControllerRegistration CONTROLLER_REGISTRATION
    71 GetTelemetrySubscriptions GET_TELEMETRY_SUBSCRIPTIONS
    72 PushTelemetry PUSH_TELEMETRY
    73 AssignReplicasToDirs ASSIGN_REPLICAS_TO_DIRS
    74 ListConfigResources LIST_CONFIG_RESOURCES
    75 DescribeTopicPartitions DESCRIBE_TOPIC_PARTITIONS
    76 ShareGroupHeartbeat SHARE_GROUP_HEARTBEAT
    77 ShareGroupDescribe SHARE_GROUP_DESCRIBE
    78 ShareFetch SHARE_FETCH
    79 ShareAcknowledge SHARE_ACKNOWLEDGE
    80 AddRaftVoter ADD_RAFT_VOTER
    81 RemoveRaftVoter REMOVE_RAFT_VOTER
    82 UpdateRaftVoter UPDATE_RAFT_VOTER
    83 InitializeShareGroupState INITIALIZE_SHARE_GROUP_STATE
    84 ReadShareGroupState READ_SHARE_GROUP_STATE
    85 WriteShareGroupState WRITE_SHARE_GROUP_STATE
    86 DeleteShareGroupState DELETE_SHARE_GROUP_STATE
    87 ReadShareGroupStateSummary READ_SHARE_GROUP_STATE_SUMMARY
    88 StreamsGroupHeartbeat STREAMS_GROUP_HEARTBEAT
    89 StreamsGroupDescribe STREAMS_GROUP_DESCRIBE
    90 DescribeShareGroupOffsets DESCRIBE_SHARE_GROUP_OFFSETS
    91 AlterShareGroupOffsets ALTER_SHARE_GROUP_OFFSETS
    92 DeleteShareGroupOffsets DELETE_SHARE_GROUP_OFFSETS
    93 StreamsGroupTopologyDescriptionUpdate STREAMS_GROUP_TOPOLOGY_DESCRIPTION_UPDATE
    94 UnregisterController UNREGISTER_CONTROLLER
}

impl fmt::Display for ApiKey {
    /// The name; numbers that are not known are shown as such.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "API {}", self.0),
        }
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Field for ApiKey {
    fn write(&self, _: Layout, out: &mut Writer<'_>) {
        out.put_i16(self.0);
    }

    fn read(_: Layout, input: &mut Reader<'_>) -> Result<Self, DecodeError> {
        input.read_i16().map(Self)
    }

    fn least_bytes(_: Layout) -> usize {
        2
    }
}
