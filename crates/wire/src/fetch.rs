//! Fetch, API key 1, versions 4 to 18; flexible from 12. The hot path: records are never copied.
//!
//! 4 adds the isolation level, 5 the log's start offset, 7 fetch sessions (KIP-227), 9 leader epochs (KIP-320), 10 allows
//! zstd (KIP-110), 11 racks and a preferred replica (KIP-392), 12 tells of diverging logs (KIP-595), 13 has topic ids
//! instead of names (KIP-516), 15 moves the replica id (KIP-903), 16 says where the leaders are (KIP-951), 17 and 18 are
//! for followers.

use std::ops::RangeInclusive;

use crate::codec::{DecodeError, DecodeProblem, Field, Layout, Reader, Uuid, Writer};
use crate::header;
use crate::leader_hints::{LeaderIdAndEpoch, NodeEndpoint};
use crate::schema::messages;
use crate::{ApiKey, ErrorCode};

/// The versions spoken here.
pub const VERSIONS: RangeInclusive<i16> = 4..=18;
/// From this version on the layout is flexible.
pub const FLEXIBLE_FROM: Option<i16> = Some(12);

const LOG_START_FROM: i16 = 5;
const SESSIONS_FROM: i16 = 7;
const PREFERRED_REPLICA_FROM: i16 = 11;
const IDS_FROM: i16 = 13;
const ENDPOINTS_FROM: i16 = 16;

/// Tags of a partition's fields, from version 12 on.
const DIVERGING_EPOCH: u32 = 0;
const CURRENT_LEADER: u32 = 1;
/// Tag of a response's field, from version 16 on.
const NODE_ENDPOINTS: u32 = 0;

messages! {
    /// Asks for records.
    message FetchRequest, versions 4..=18, flexible 12.. {
        /// The cluster's id; brokers among themselves send it.
        [12.., tag 0] cluster_id: Option<String>,
        /// −1 for clients; a follower's node id otherwise.
        [4..=14]      replica_id: i32 = -1,
        /// What a follower says of itself.
        [15.., tag 1] replica_state: ReplicaState,
        /// How long the broker may wait for `min_bytes` to come together, in ms.
        [4..]         max_wait_ms: i32,
        /// How many bytes are worth an answer.
        [4..]         min_bytes: i32,
        /// How many bytes the answer may have; a first batch that is larger comes all the same (KIP-74).
        [4..]         max_bytes: i32 = i32::MAX,
        /// 0 read uncommitted, 1 read committed.
        [4..]         isolation_level: i8,
        /// The fetch session; 0 if there is none.
        [7..]         session_id: i32,
        /// The request's number in the session: 0 opens one, −1 does without.
        [7..]         session_epoch: i32 = -1,
        /// The partitions to fetch, by topic. In a session, only those that are new or changed.
        [4..]         topics: Vec<FetchTopic>,
        /// The partitions that leave the session.
        [7..]         forgotten_topics_data: Vec<ForgottenTopic>,
        /// The client's rack, by which the broker may send it to a near replica.
        [11..]        rack_id: String,
    }

    /// What a follower says of itself.
    struct ReplicaState {
        /// The follower's node id; −1 for clients.
        [15..] replica_id: i32 = -1,
        /// The follower's epoch; −1 if there is none.
        [15..] replica_epoch: i64 = -1,
    }

    /// The partitions of a topic.
    struct FetchTopic {
        /// The topic's name.
        [4..=12] topic: String,
        /// The topic's id.
        [13..]   topic_id: Uuid,
        /// The partitions.
        [4..]    partitions: Vec<FetchPartition>,
    }

    /// From where to read a partition.
    struct FetchPartition {
        /// The partition's index.
        [4..]         partition: i32,
        /// The leader epoch that the client knows, by which a broker finds out who is behind; −1 does without.
        [9..]         current_leader_epoch: i32 = -1,
        /// The first offset to read.
        [4..]         fetch_offset: i64,
        /// The epoch of the last record that a follower has; −1 does without.
        [12..]        last_fetched_epoch: i32 = -1,
        /// A follower's first offset; −1 for clients.
        [5..]         log_start_offset: i64 = -1,
        /// How many bytes of this partition the answer may have.
        [4..]         partition_max_bytes: i32,
        /// A follower's log directory.
        [17.., tag 0] replica_directory_id: Uuid,
        /// The high watermark that a follower knows.
        [18.., tag 1] high_watermark: i64 = i64::MAX,
    }

    /// The partitions of a topic that leave the session.
    struct ForgottenTopic {
        /// The topic's name.
        [7..=12] topic: String,
        /// The topic's id.
        [13..]   topic_id: Uuid,
        /// The partitions' indexes.
        [7..]    partitions: Vec<i32>,
    }

    /// Where the client's log parts from the leader's.
    struct EpochEndOffset {
        /// The largest epoch that both have; −1 if not known.
        [0..] epoch: i32 = -1,
        /// The offset after its last record; −1 if not known.
        [0..] end_offset: i64 = -1,
    }

    /// A transaction among the records that was aborted.
    struct AbortedTransaction {
        /// The producer id.
        [0..] producer_id: i64,
        /// The offset of the transaction's first record.
        [0..] first_offset: i64,
    }
}

/// A whole request frame, length and header included.
pub fn encode_fetch_request(
    correlation_id: i32,
    client_id: Option<&str>,
    version: i16,
    request: &FetchRequest,
) -> Vec<u8> {
    let mut out = Vec::new();
    header::append_request(
        ApiKey::FETCH,
        correlation_id,
        client_id,
        version,
        request,
        &mut out,
    );
    out
}

/// A Fetch response as a client reads it: the records stay in the frame.
#[derive(Debug, Clone, PartialEq)]
pub struct FetchResponseRef<'a> {
    /// The number of the request.
    pub correlation_id: i32,
    /// For how many ms a quota holds the client back; from version 8 on the client has to wait by itself.
    pub throttle_time_ms: i32,
    /// What went wrong with the whole request. In versions below 7 there is no such error.
    pub error_code: ErrorCode,
    /// The fetch session; 0 if there is none.
    pub session_id: i32,
    /// The partitions of all topics, in the frame's order.
    pub partitions: Vec<FetchPartitionRef<'a>>,
    /// Where the leaders listen that are named as `current_leader`.
    pub node_endpoints: Vec<NodeEndpoint>,
}

/// What a client gets of one partition.
#[derive(Debug, Clone, PartialEq)]
pub struct FetchPartitionRef<'a> {
    /// The topic's name; empty from version 13 on.
    pub topic: &'a str,
    /// The topic's id; zero up to version 12.
    pub topic_id: Uuid,
    /// The partition's index.
    pub index: i32,
    /// What went wrong.
    pub error_code: ErrorCode,
    /// The offset after the last record that all in-sync replicas have; −1 with an error.
    pub high_watermark: i64,
    /// The offset up to which no transaction is open; −1 if not told.
    pub last_stable_offset: i64,
    /// The log's first offset; −1 if not told.
    pub log_start_offset: i64,
    /// Where the client's log parts from the leader's.
    pub diverging_epoch: Option<EpochEndOffset>,
    /// Who leads the partition, if the broker asked does not.
    pub current_leader: Option<LeaderIdAndEpoch>,
    /// The transactions among the records that were aborted; only read committed gets them.
    pub aborted_transactions: Vec<AbortedTransaction>,
    /// The replica to fetch from instead; −1 for this one.
    pub preferred_read_replica: i32,
    /// Record batches; the first may begin before the offset asked for, the last may be cut off.
    pub records: &'a [u8],
}

impl<'a> FetchResponseRef<'a> {
    /// Reads the response to a Fetch request of `version`. `frame` is without its length.
    ///
    /// # Errors
    /// If the bytes are not such a response, or more than it.
    pub fn decode(version: i16, frame: &'a [u8]) -> Result<Self, DecodeError> {
        let mut input = Reader::new(frame);
        if !VERSIONS.contains(&version) {
            let (oldest, newest) = (*VERSIONS.start(), *VERSIONS.end());
            return Err(input.error(DecodeProblem::UnsupportedVersion {
                version,
                oldest,
                newest,
            }));
        }
        let layout = Layout::new(version, FLEXIBLE_FROM);
        let correlation_id = header::read_response_header(ApiKey::FETCH, version, &mut input)?;
        let input = &mut input;
        let mut response = Self {
            correlation_id,
            throttle_time_ms: input.read_i32()?,
            error_code: ErrorCode::NONE,
            session_id: 0,
            partitions: Vec::new(),
            node_endpoints: Vec::new(),
        };
        if version >= SESSIONS_FROM {
            response.error_code = ErrorCode::read(layout, input)?;
            response.session_id = input.read_i32()?;
        }
        let length = layout.count_bytes();
        let name_or_id = if version >= IDS_FROM {
            16
        } else {
            layout.string_length_bytes()
        };
        let topics = input
            .read_count(layout, name_or_id + length)
            .map_err(|error| error.in_field("FetchResponse.responses"))?;
        for _ in 0..topics {
            let (mut topic, mut topic_id) = ("", Uuid::ZERO);
            if version >= IDS_FROM {
                topic_id = Uuid::read(layout, input)?;
            } else {
                topic = input
                    .read_str(layout)
                    .map_err(|error| error.in_field("FetchableTopicResponse.topic"))?;
            }
            // Index, error, high watermark, last stable offset, and the lengths of two lists.
            let count = input
                .read_count(layout, 4 + 2 + 8 + 8 + 2 * length)
                .map_err(|error| error.in_field("FetchableTopicResponse.partitions"))?;
            for _ in 0..count {
                response
                    .partitions
                    .push(FetchPartitionRef::read(layout, topic, topic_id, input)?);
            }
            input.skip_tagged(layout)?;
        }
        input.read_tagged(layout, |tag, input| {
            if tag == NODE_ENDPOINTS && version >= ENDPOINTS_FROM {
                response.node_endpoints = Field::read(layout, input)?;
                return Ok(true);
            }
            Ok(false)
        })?;
        input.finish()?;
        Ok(response)
    }
}

impl<'a> FetchPartitionRef<'a> {
    fn read(
        layout: Layout,
        topic: &'a str,
        topic_id: Uuid,
        input: &mut Reader<'a>,
    ) -> Result<Self, DecodeError> {
        let version = layout.version;
        let index = input.read_i32()?;
        let error_code = ErrorCode::read(layout, input)?;
        let high_watermark = input.read_i64()?;
        let last_stable_offset = input.read_i64()?;
        let log_start_offset = if version >= LOG_START_FROM {
            input.read_i64()?
        } else {
            -1
        };
        let aborted_transactions = Option::<Vec<AbortedTransaction>>::read(layout, input)
            .map_err(|error| error.in_field("PartitionData.aborted_transactions"))?
            .unwrap_or_default();
        let preferred_read_replica = if version >= PREFERRED_REPLICA_FROM {
            input.read_i32()?
        } else {
            -1
        };
        let records = input
            .read_nullable_bytes(layout)
            .map_err(|error| error.in_field("PartitionData.records"))?
            .unwrap_or_default();
        let (mut diverging_epoch, mut current_leader) = (None, None);
        input.read_tagged(layout, |tag, input| {
            match tag {
                DIVERGING_EPOCH => diverging_epoch = Some(Field::read(layout, input)?),
                CURRENT_LEADER => current_leader = Some(Field::read(layout, input)?),
                _ => return Ok(false),
            }
            Ok(true)
        })?;
        Ok(Self {
            topic,
            topic_id,
            index,
            error_code,
            high_watermark,
            last_stable_offset,
            log_start_offset,
            diverging_epoch,
            current_leader,
            aborted_transactions,
            preferred_read_replica,
            records,
        })
    }
}

/// What stands at the head of a Fetch response.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FetchResponseHead<'a> {
    /// The number of the request.
    pub correlation_id: i32,
    /// The version of the request, one of [`VERSIONS`].
    pub version: i16,
    /// For how many ms a quota holds the client back.
    pub throttle_time_ms: i32,
    /// What went wrong with the whole request; not sent in versions below 7.
    pub error_code: ErrorCode,
    /// The fetch session; 0 if there is none.
    pub session_id: i32,
    /// Where the leaders listen that are named as `current_leader`.
    pub node_endpoints: &'a [NodeEndpoint],
}

/// The partitions of one topic in a Fetch response.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FetchResponseTopic<'a> {
    /// The topic's name, sent in versions up to 12.
    pub name: &'a str,
    /// The topic's id, sent from version 13 on.
    pub topic_id: Uuid,
    /// The partitions.
    pub partitions: &'a [FetchResponsePartition<'a>],
}

/// What a broker answers for one partition.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FetchResponsePartition<'a> {
    /// The partition's index.
    pub index: i32,
    /// What went wrong.
    pub error_code: ErrorCode,
    /// The offset after the last record that all in-sync replicas have; −1 with an error.
    pub high_watermark: i64,
    /// The offset up to which no transaction is open; −1 if not told.
    pub last_stable_offset: i64,
    /// The log's first offset; −1 if not told.
    pub log_start_offset: i64,
    /// Where the client's log parts from the leader's; sent from version 12 on.
    pub diverging_epoch: Option<&'a EpochEndOffset>,
    /// Who leads the partition, if this broker does not; sent from version 12 on.
    pub current_leader: Option<&'a LeaderIdAndEpoch>,
    /// The transactions among the records that were aborted; `None` unless the client reads committed.
    pub aborted_transactions: Option<&'a [AbortedTransaction]>,
    /// The replica to fetch from instead; −1 for this one.
    pub preferred_read_replica: i32,
    /// How many bytes of record batches belong here.
    pub records_bytes: usize,
}

/// Where in a Fetch response frame, length included, the four bytes of `throttle_time_ms` stand: first behind the header.
pub const fn throttle_time_at(version: i16) -> usize {
    // Length and correlation id, then the empty list of tagged fields.
    8 + Layout::new(version, FLEXIBLE_FROM).flexible as usize
}

/// Appends a whole Fetch response frame without its records to `out`, and to `cuts` the positions in `out` where the
/// records belong, in the order of `topics` and their partitions, one each, also where `records_bytes` is 0. See
/// [`crate::cuts`].
///
/// The frame's length counts the records; it is right for frames of less than 2 GiB.
pub fn encode_fetch_response(
    head: &FetchResponseHead<'_>,
    topics: &[FetchResponseTopic<'_>],
    out: &mut Vec<u8>,
    cuts: &mut Vec<usize>,
) {
    let version = head.version;
    let layout = Layout::new(version, FLEXIBLE_FROM);
    let start = header::begin_frame(out);
    let mut records_bytes = 0usize;
    let mut writer = Writer::new(out);
    header::write_response_header(ApiKey::FETCH, version, head.correlation_id, &mut writer);
    writer.put_i32(head.throttle_time_ms);
    if version >= SESSIONS_FROM {
        writer.put_i16(head.error_code.0);
        writer.put_i32(head.session_id);
    }
    writer.put_count(layout, Some(topics.len()));
    for topic in topics {
        if version >= IDS_FROM {
            writer.put(&topic.topic_id.0);
        } else {
            writer.put_str(layout, topic.name);
        }
        writer.put_count(layout, Some(topic.partitions.len()));
        for partition in topic.partitions {
            partition.write(layout, &mut writer, cuts);
            records_bytes = records_bytes.saturating_add(partition.records_bytes);
        }
        writer.put_no_tagged(layout);
    }
    if layout.flexible {
        let tagged = version >= ENDPOINTS_FROM && !head.node_endpoints.is_empty();
        writer.put_unsigned(tagged.into());
        if tagged {
            writer.put_tagged(NODE_ENDPOINTS, |out| {
                out.put_count(layout, Some(head.node_endpoints.len()));
                for endpoint in head.node_endpoints {
                    endpoint.write(layout, out);
                }
            });
        }
    }
    header::end_frame(out, start, records_bytes);
}

impl FetchResponsePartition<'_> {
    fn write(&self, layout: Layout, out: &mut Writer<'_>, cuts: &mut Vec<usize>) {
        let version = layout.version;
        out.put_i32(self.index);
        out.put_i16(self.error_code.0);
        out.put_i64(self.high_watermark);
        out.put_i64(self.last_stable_offset);
        if version >= LOG_START_FROM {
            out.put_i64(self.log_start_offset);
        }
        out.put_count(layout, self.aborted_transactions.map(<[_]>::len));
        for transaction in self.aborted_transactions.unwrap_or_default() {
            transaction.write(layout, out);
        }
        if version >= PREFERRED_REPLICA_FROM {
            out.put_i32(self.preferred_read_replica);
        }
        out.put_bytes_length(layout, Some(self.records_bytes));
        cuts.push(out.position_bytes());
        if layout.flexible {
            let tagged = u64::from(self.diverging_epoch.is_some()) + u64::from(self.current_leader.is_some());
            out.put_unsigned(tagged);
            if let Some(epoch) = self.diverging_epoch {
                out.put_tagged(DIVERGING_EPOCH, |out| epoch.write(layout, out));
            }
            if let Some(leader) = self.current_leader {
                out.put_tagged(CURRENT_LEADER, |out| leader.write(layout, out));
            }
        }
    }
}
