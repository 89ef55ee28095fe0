//! The error codes of the protocol: name, meaning, and what a client may do about each.

use std::fmt;

use crate::codec::{DecodeError, Field, Layout, Reader, Writer};

/// An error code as it stands in responses. Codes that are not known here are kept as they are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ErrorCode(pub i16);

/// What a client does when it meets the code.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Then {
    /// Gives up, or does something that only the caller can know.
    Stop,
    /// Asks again.
    Retry,
    /// Asks for metadata, then asks again.
    Refresh,
    /// Looks for the coordinator, then asks again.
    FindCoordinator,
}

macro_rules! error_codes {
    ($($code:literal $name:ident $then:ident $meaning:literal)*) => {
        impl ErrorCode {
            $(
                #[doc = $meaning]
                pub const $name: Self = Self($code);
            )*

            /// Every code that is known here, in ascending order.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            fn row(self) -> Option<(&'static str, Then, &'static str)> {
                match self.0 {
                    $($code => Some((stringify!($name), Then::$then, $meaning)),)*
                    _ => None,
                }
            }
        }
    };
}

error_codes! {
    -1 UNKNOWN_SERVER_ERROR Stop "The broker failed in a way that it has no code for; its log says more."
    0 NONE Stop "No error."
    1 OFFSET_OUT_OF_RANGE Stop "The offset is below the log's start or beyond its end."
    2 CORRUPT_MESSAGE Retry "A record batch arrived damaged: its checksum, size or format is wrong."
    3 UNKNOWN_TOPIC_OR_PARTITION Refresh "The broker does not have this topic or partition, or may not say that it has."
    4 INVALID_FETCH_SIZE Stop "The fetch size asked for is not valid."
    5 LEADER_NOT_AVAILABLE Refresh "The partition has no leader at the moment, as while one is being elected."
    6 NOT_LEADER_OR_FOLLOWER Refresh "The broker asked does not lead this partition, or holds no replica of it."
    7 REQUEST_TIMED_OUT Retry "The request's own timeout passed before it was done, as when replicas are slow to follow."
    8 BROKER_NOT_AVAILABLE Stop "The broker is not available."
    9 REPLICA_NOT_AVAILABLE Refresh "The replica is not available on this broker."
    10 MESSAGE_TOO_LARGE Stop "The batch is larger than the topic's max.message.bytes."
    11 STALE_CONTROLLER_EPOCH Stop "The controller has moved to another node since."
    12 OFFSET_METADATA_TOO_LARGE Stop "The text that comes with a committed offset is too long."
    13 NETWORK_EXCEPTION Refresh "The connection was lost before an answer came."
    14 COORDINATOR_LOAD_IN_PROGRESS Retry "The coordinator is still loading its state."
    15 COORDINATOR_NOT_AVAILABLE FindCoordinator "There is no coordinator at the moment."
    16 NOT_COORDINATOR FindCoordinator "The broker asked is not the coordinator."
    17 INVALID_TOPIC_EXCEPTION Stop "The topic's name is not valid, or what is asked may not be done to this topic."
    18 RECORD_LIST_TOO_LARGE Stop "The batch is larger than a log segment may be."
    19 NOT_ENOUGH_REPLICAS Retry "Fewer replicas are in sync than min.insync.replicas asks for; nothing was written."
    20 NOT_ENOUGH_REPLICAS_AFTER_APPEND Retry "Written, but fewer replicas are in sync than min.insync.replicas asks for."
    21 INVALID_REQUIRED_ACKS Stop "acks must be 0, 1 or -1."
    22 ILLEGAL_GENERATION Stop "The group has moved on to another generation."
    23 INCONSISTENT_GROUP_PROTOCOL Stop "The member's assignors or protocol type do not go with those of the group."
    24 INVALID_GROUP_ID Stop "The group's name is not valid."
    25 UNKNOWN_MEMBER_ID Stop "The coordinator does not know this member of the group."
    26 INVALID_SESSION_TIMEOUT Stop "The session timeout is outside what the brokers allow."
    27 REBALANCE_IN_PROGRESS Stop "The group is rebalancing; the member has to join again."
    28 INVALID_COMMIT_OFFSET_SIZE Stop "The committed offsets are too large to be stored."
    29 TOPIC_AUTHORIZATION_FAILED Stop "The principal may not do this to the topic."
    30 GROUP_AUTHORIZATION_FAILED Stop "The principal may not use the group."
    31 CLUSTER_AUTHORIZATION_FAILED Stop "The principal may not do this to the cluster."
    32 INVALID_TIMESTAMP Stop "A record's timestamp is further from the broker's clock than the topic allows."
    33 UNSUPPORTED_SASL_MECHANISM Stop "The broker does not offer this SASL mechanism."
    34 ILLEGAL_SASL_STATE Stop "The request is not allowed at this stage of authentication."
    35 UNSUPPORTED_VERSION Stop "The broker does not serve this version of the request."
    36 TOPIC_ALREADY_EXISTS Stop "A topic of this name exists."
    37 INVALID_PARTITIONS Stop "The number of partitions is not valid."
    38 INVALID_REPLICATION_FACTOR Stop "The replication factor is below 1 or above the number of brokers."
    39 INVALID_REPLICA_ASSIGNMENT Stop "The replicas are not assigned to brokers in a valid way."
    40 INVALID_CONFIG Stop "A setting's name or value is not valid."
    41 NOT_CONTROLLER Retry "The broker asked is not the controller."
    42 INVALID_REQUEST Stop "The request contradicts itself or the protocol."
    43 UNSUPPORTED_FOR_MESSAGE_FORMAT Stop "The broker's message format is too old for this."
    44 POLICY_VIOLATION Stop "A policy that the brokers' operator set forbids it."
    45 OUT_OF_ORDER_SEQUENCE_NUMBER Stop "A batch of an idempotent producer does not follow the last one that was written."
    46 DUPLICATE_SEQUENCE_NUMBER Stop "The batch had been written before; this copy was dropped."
    47 INVALID_PRODUCER_EPOCH Stop "A newer producer with the same id has taken over."
    48 INVALID_TXN_STATE Stop "The transaction's state does not allow this."
    49 INVALID_PRODUCER_ID_MAPPING Stop "The producer id is not the one that belongs to the transactional id."
    50 INVALID_TRANSACTION_TIMEOUT Stop "The transaction timeout is above transaction.max.timeout.ms."
    51 CONCURRENT_TRANSACTIONS Retry "The producer's previous transaction is still being completed."
    52 TRANSACTION_COORDINATOR_FENCED Stop "A newer transaction coordinator has taken over."
    53 TRANSACTIONAL_ID_AUTHORIZATION_FAILED Stop "The principal may not use the transactional id."
    54 SECURITY_DISABLED Stop "The brokers have no authorizer, so there are no ACLs."
    55 OPERATION_NOT_ATTEMPTED Stop "Not tried, because another part of the request failed."
    56 KAFKA_STORAGE_ERROR Refresh "The broker cannot read or write the disk that holds the log."
    57 LOG_DIR_NOT_FOUND Stop "The log directory is not one of the broker's."
    58 SASL_AUTHENTICATION_FAILED Stop "The credentials were refused."
    59 UNKNOWN_PRODUCER_ID Stop "The broker remembers nothing of this producer, as when retention removed all its records."
    60 REASSIGNMENT_IN_PROGRESS Stop "The partition's replicas are being moved."
    61 DELEGATION_TOKEN_AUTH_DISABLED Stop "Delegation tokens are switched off."
    62 DELEGATION_TOKEN_NOT_FOUND Stop "The broker does not have this delegation token."
    63 DELEGATION_TOKEN_OWNER_MISMATCH Stop "The delegation token belongs to another principal."
    64 DELEGATION_TOKEN_REQUEST_NOT_ALLOWED Stop "Delegation tokens may not be asked for on such a connection."
    65 DELEGATION_TOKEN_AUTHORIZATION_FAILED Stop "The principal may not do this to delegation tokens."
    66 DELEGATION_TOKEN_EXPIRED Stop "The delegation token has expired."
    67 INVALID_PRINCIPAL_TYPE Stop "The principal's type is not supported."
    68 NON_EMPTY_GROUP Stop "The group still has members."
    69 GROUP_ID_NOT_FOUND Stop "There is no such group."
    70 FETCH_SESSION_ID_NOT_FOUND Retry "The broker does not have this fetch session any more."
    71 INVALID_FETCH_SESSION_EPOCH Retry "The fetch session's epoch is not the one that was due."
    72 LISTENER_NOT_FOUND Refresh "The leader has no listener of the kind that the client is connected to."
    73 TOPIC_DELETION_DISABLED Stop "The brokers are set not to delete topics."
    74 FENCED_LEADER_EPOCH Refresh "The client knows an older leader epoch than the broker."
    75 UNKNOWN_LEADER_EPOCH Retry "The client knows a newer leader epoch than the broker."
    76 UNSUPPORTED_COMPRESSION_TYPE Stop "The client's version of the request does not go with the topic's compression."
    77 STALE_BROKER_EPOCH Stop "The broker has registered anew since."
    78 OFFSET_NOT_AVAILABLE Retry "A new leader does not know its high watermark yet."
    79 MEMBER_ID_REQUIRED Stop "The member has to join again with the id that this answer gives it."
    80 PREFERRED_LEADER_NOT_AVAILABLE Refresh "The preferred leader is not available."
    81 GROUP_MAX_SIZE_REACHED Stop "The group has as many members as it may have."
    82 FENCED_INSTANCE_ID Stop "Another member with the same group.instance.id has taken over."
    83 ELIGIBLE_LEADERS_NOT_AVAILABLE Refresh "No replica that may become leader is available."
    84 ELECTION_NOT_NEEDED Refresh "The partition's leader is the one that was to be elected."
    85 NO_REASSIGNMENT_IN_PROGRESS Stop "No replicas of the partition are being moved."
    86 GROUP_SUBSCRIBED_TO_TOPIC Stop "The group's members are subscribed to the topic, so its offsets may not be deleted."
    87 INVALID_RECORD Stop "The broker found a record that it does not accept."
    88 UNSTABLE_OFFSET_COMMIT Retry "The offsets belong to a transaction that has not ended."
    89 THROTTLING_QUOTA_EXCEEDED Retry "A quota on changes of topics or partitions is used up for now."
    90 PRODUCER_FENCED Stop "A newer producer with the same transactional id has taken over."
    91 RESOURCE_NOT_FOUND Stop "There is no such resource."
    92 DUPLICATE_RESOURCE Stop "The request names a resource twice."
    93 UNACCEPTABLE_CREDENTIAL Stop "The credential does not meet the brokers' demands."
    94 INCONSISTENT_VOTER_SET Stop "The controllers' sets of voters differ."
    95 INVALID_UPDATE_VERSION Stop "The version to update to is not valid."
    96 FEATURE_UPDATE_FAILED Stop "A feature's level could not be changed."
    97 PRINCIPAL_DESERIALIZATION_FAILURE Stop "A forwarded request's principal could not be read."
    98 SNAPSHOT_NOT_FOUND Stop "There is no such snapshot."
    99 POSITION_OUT_OF_RANGE Stop "The position lies outside the snapshot."
    100 UNKNOWN_TOPIC_ID Refresh "The broker does not have a topic of this id."
    101 DUPLICATE_BROKER_REGISTRATION Stop "A broker of this id is registered."
    102 BROKER_ID_NOT_REGISTERED Stop "No broker of this id is registered."
    103 INCONSISTENT_TOPIC_ID Refresh "The topic of this name has another id, as after it was deleted and created again."
    104 INCONSISTENT_CLUSTER_ID Stop "The cluster has another id."
    105 TRANSACTIONAL_ID_NOT_FOUND Stop "There is no such transactional id."
    106 FETCH_SESSION_TOPIC_ID_ERROR Retry "Topic names and topic ids were mixed in one fetch session."
    107 INELIGIBLE_REPLICA Stop "The replica may not join the in-sync replicas."
    108 NEW_LEADER_ELECTED Stop "The change brought a new leader with it."
    109 OFFSET_MOVED_TO_TIERED_STORAGE Stop "The offset has moved to tiered storage."
    110 FENCED_MEMBER_EPOCH Stop "The coordinator has fenced the member; it has to join anew."
    111 UNRELEASED_INSTANCE_ID Stop "A member with the same group.instance.id has not left yet."
    112 UNSUPPORTED_ASSIGNOR Stop "The coordinator does not have the assignor asked for."
    113 STALE_MEMBER_EPOCH Stop "The member's epoch is out of date."
    114 MISMATCHED_ENDPOINT_TYPE Stop "The request went to a controller where a broker was meant, or the other way round."
    115 UNSUPPORTED_ENDPOINT_TYPE Stop "The broker cannot describe endpoints of this type."
    116 UNKNOWN_CONTROLLER_ID Stop "No controller of this id is known."
    117 UNKNOWN_SUBSCRIPTION_ID Stop "The telemetry subscription's id is out of date."
    118 TELEMETRY_TOO_LARGE Stop "The telemetry is larger than the broker takes."
    119 INVALID_REGISTRATION Stop "The controller has turned the broker's registration down."
    120 TRANSACTION_ABORTABLE Stop "The transaction has to be aborted; a new one may be begun."
    121 INVALID_RECORD_STATE Stop "The record's state in the share group does not allow this."
    122 SHARE_SESSION_NOT_FOUND Retry "The broker does not have this share session."
    123 INVALID_SHARE_SESSION_EPOCH Retry "The share session's epoch is not the one that was due."
    124 FENCED_STATE_EPOCH Stop "The share coordinator's state epoch is not the one that was due."
    125 INVALID_VOTER_KEY Stop "The voter's key is not that of the receiving node."
    126 DUPLICATE_VOTER Stop "The voter is in the set already."
    127 VOTER_NOT_FOUND Stop "The voter is not in the set."
    128 INVALID_REGULAR_EXPRESSION Stop "The regular expression is not valid."
    129 REBOOTSTRAP_REQUIRED Stop "The client has to start anew from its bootstrap servers."
    130 STREAMS_INVALID_TOPOLOGY Stop "The streams topology is not valid."
    131 STREAMS_INVALID_TOPOLOGY_EPOCH Stop "The streams topology's epoch is not valid."
    132 STREAMS_TOPOLOGY_FENCED Stop "The streams topology's epoch is out of date."
    133 SHARE_SESSION_LIMIT_REACHED Retry "The broker has as many share sessions as it may have."
    134 GROUP_DELETION_FAILED Stop "The group could not be deleted."
    135 STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED Stop "The description of the streams topology could not be stored."
    136 CONTROLLER_ID_NOT_REGISTERED Stop "No controller of this id is registered."
}

impl ErrorCode {
    /// Whether there is an error at all.
    pub fn is_error(self) -> bool {
        self != Self::NONE
    }

    /// `Ok` if there is no error.
    ///
    /// # Errors
    /// The code itself, if it is one.
    pub fn into_result(self) -> Result<(), Self> {
        if self.is_error() { Err(self) } else { Ok(()) }
    }

    /// Kafka's name of the code, for example `NOT_LEADER_OR_FOLLOWER`; `UNKNOWN_ERROR_CODE` if it is not known here.
    pub fn name(self) -> &'static str {
        self.row().map_or("UNKNOWN_ERROR_CODE", |(name, ..)| name)
    }

    /// One sentence on what it means.
    pub fn describe(self) -> &'static str {
        self.row()
            .map_or("A code that this version does not know.", |(.., meaning)| meaning)
    }

    /// Whether the same request may succeed later, perhaps at another broker.
    pub fn is_retriable(self) -> bool {
        self.row().is_some_and(|(_, then, _)| then != Then::Stop)
    }

    /// Whether the client has to ask for metadata before it tries again.
    pub fn refreshes_metadata(self) -> bool {
        self.row().is_some_and(|(_, then, _)| then == Then::Refresh)
    }

    /// Whether the client has to look for the coordinator before it tries again.
    pub fn refreshes_coordinator(self) -> bool {
        self.row()
            .is_some_and(|(_, then, _)| then == Then::FindCoordinator)
    }
}

impl fmt::Display for ErrorCode {
    /// The name; codes that are not known come with their number.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.row() {
            Some((name, ..)) => f.write_str(name),
            None => write!(f, "UNKNOWN_ERROR_CODE({})", self.0),
        }
    }
}

impl fmt::Debug for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for ErrorCode {}

impl Field for ErrorCode {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_the_numbers_that_another_implementation_gives_them() {
        use kafka_protocol::ResponseError;
        for &code in ErrorCode::ALL {
            let theirs = ResponseError::try_from_code(code.0).map(|error| format!("{error:?}"));
            match theirs {
                None => assert_eq!(code, ErrorCode::NONE),
                // Newer than theirs.
                Some(name) if name.starts_with("Unknown(") => assert!(code.0 > 100, "{code}"),
                Some(name) => {
                    let ours = code.name().replace('_', "").to_lowercase();
                    assert!(ours.starts_with(&name.to_lowercase()), "{code} is {name} there");
                }
            }
        }
    }

    #[test]
    fn what_a_client_does_follows_the_java_client() {
        let refreshing: Vec<i16> = ErrorCode::ALL
            .iter()
            .filter(|code| code.refreshes_metadata())
            .map(|code| code.0)
            .collect();
        assert_eq!(refreshing, [3, 5, 6, 9, 13, 56, 72, 74, 80, 83, 84, 100, 103]);
        let retriable = ErrorCode::ALL.iter().filter(|code| code.is_retriable()).count();
        assert_eq!(retriable, 13 + 2 + 14 + 3);
        assert!(!ErrorCode::NONE.is_retriable() && !ErrorCode(999).is_retriable());
        assert_eq!(ErrorCode(999).to_string(), "UNKNOWN_ERROR_CODE(999)");
        assert_eq!(ErrorCode(-1).name(), "UNKNOWN_SERVER_ERROR");
    }
}
