//! Produce, API key 0, versions 3 to 13; flexible from 9. The hot path: records are never copied.
//!
//! 3 adds the transactional id and has batches of format 2 only, 5 the log's start offset, 7 allows zstd (KIP-110), 8
//! explains errors by record (KIP-467), 10 says who leads now (KIP-951), 12 belongs to transactions v2 (KIP-890), 13 has
//! topic ids instead of names (KIP-516). A partition's records are one batch.

use std::ops::{Range, RangeInclusive};

use crate::codec::{DecodeError, DecodeProblem, Field, Layout, Reader, Uuid, Writer};
use crate::header::{self, RequestHeader, ResponseFrame};
use crate::leader_hints::{LeaderIdAndEpoch, NodeEndpoint};
use crate::schema::messages;
use crate::{ApiKey, ErrorCode};

/// The versions spoken here.
pub const VERSIONS: RangeInclusive<i16> = 3..=13;
/// From this version on the layout is flexible.
pub const FLEXIBLE_FROM: Option<i16> = Some(9);

/// From this version on topics have ids and no names.
const IDS_FROM: i16 = 13;

messages! {
    /// Answers a Produce request.
    message ProduceResponse, versions 3..=13, flexible 9.. {
        /// The outcome for each topic.
        [3..]         responses: Vec<TopicProduceResponse>,
        /// For how many ms a quota holds the client back; from version 6 on the client has to wait by itself.
        [3..]         throttle_time_ms: i32,
        /// Where the leaders listen that are named as `current_leader`.
        [10.., tag 0] node_endpoints: Vec<NodeEndpoint>,
    }

    /// The outcome for a topic.
    struct TopicProduceResponse {
        /// The topic's name.
        [3..=12] name: String,
        /// The topic's id.
        [13..]   topic_id: Uuid,
        /// The outcome for each partition.
        [3..]    partition_responses: Vec<PartitionProduceResponse>,
    }

    /// The outcome for a partition.
    struct PartitionProduceResponse {
        /// The partition's index.
        [3..]         index: i32,
        /// What went wrong.
        [3..]         error_code: ErrorCode,
        /// The offset of the batch's first record; −1 if it was not written.
        [3..]         base_offset: i64,
        /// The broker's time for the batch, in ms since 1970, if the topic has log append time; −1 otherwise.
        [3..]         log_append_time_ms: i64 = -1,
        /// The log's first offset; −1 if not told.
        [5..]         log_start_offset: i64 = -1,
        /// The records for which the batch was refused.
        [8..]         record_errors: Vec<BatchIndexAndErrorMessage>,
        /// The broker's explanation, if it gives one.
        [8..]         error_message: Option<String>,
        /// Who leads the partition, if the broker asked does not.
        [10.., tag 0] current_leader: LeaderIdAndEpoch,
    }

    /// What is wrong with one record.
    struct BatchIndexAndErrorMessage {
        /// The record's place in the batch, from 0.
        [8..] batch_index: i32,
        /// The broker's explanation, if it gives one.
        [8..] batch_index_error_message: Option<String>,
    }
}

/// What stands at the head of a Produce request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProduceHead<'a> {
    /// The number that comes back with the response.
    pub correlation_id: i32,
    /// The name that the client gives itself.
    pub client_id: Option<&'a str>,
    /// The version of the request, one of [`VERSIONS`].
    pub version: i16,
    /// The transactional id of a producer with transactions.
    pub transactional_id: Option<&'a str>,
    /// Which replicas have to write before the broker answers: 0 none, and there is no answer; 1 the leader; −1 all
    /// that are in sync.
    pub acks: i16,
    /// How long the broker may wait for the replicas, in ms.
    pub timeout_ms: i32,
}

/// The partitions of one topic in a Produce request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProduceTopic<'a> {
    /// The topic's name, sent in versions up to 12.
    pub name: &'a str,
    /// The topic's id, sent from version 13 on.
    pub topic_id: Uuid,
    /// The partitions, and how long the batch of each is.
    pub partitions: &'a [ProducePartition],
}

/// The place of one batch in a Produce request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProducePartition {
    /// The partition's index.
    pub index: i32,
    /// The length of the batch, in bytes.
    pub batch_bytes: usize,
}

/// Appends a whole Produce frame without its batches to `out`, and to `cuts` the positions in `out` where the batches
/// belong, in the order of `topics` and their partitions. See [`crate::cuts`].
///
/// The frame's length counts the batches; it is right for frames of less than 2 GiB, which no broker takes anyway.
pub fn encode_produce_request(
    head: &ProduceHead<'_>,
    topics: &[ProduceTopic<'_>],
    out: &mut Vec<u8>,
    cuts: &mut Vec<usize>,
) {
    let version = head.version;
    let layout = Layout::new(version, FLEXIBLE_FROM);
    let start = header::begin_frame(out);
    let mut batches_bytes = 0usize;
    let mut writer = Writer::new(out);
    RequestHeader {
        api_key: ApiKey::PRODUCE,
        api_version: version,
        correlation_id: head.correlation_id,
        client_id: head.client_id,
    }
    .write(&mut writer);
    writer.put_nullable_str(layout, head.transactional_id);
    writer.put_i16(head.acks);
    writer.put_i32(head.timeout_ms);
    writer.put_count(layout, Some(topics.len()));
    for topic in topics {
        if version >= IDS_FROM {
            writer.put(&topic.topic_id.0);
        } else {
            writer.put_str(layout, topic.name);
        }
        writer.put_count(layout, Some(topic.partitions.len()));
        for partition in topic.partitions {
            writer.put_i32(partition.index);
            writer.put_bytes_length(layout, Some(partition.batch_bytes));
            cuts.push(writer.position_bytes());
            batches_bytes = batches_bytes.saturating_add(partition.batch_bytes);
            writer.put_no_tagged(layout);
        }
        writer.put_no_tagged(layout);
    }
    writer.put_no_tagged(layout);
    header::end_frame(out, start, batches_bytes);
}

/// Reads the response to a Produce request of `version`. `frame` is without its length; the correlation id comes back
/// too.
///
/// # Errors
/// If the bytes are not such a response, or more than it.
pub fn decode_produce_response(version: i16, frame: &[u8]) -> Result<(i32, ProduceResponse), DecodeError> {
    header::read_response(ApiKey::PRODUCE, version, frame)
}

/// A whole response frame, for a broker.
pub fn encode_produce_response(correlation_id: i32, version: i16, response: &ProduceResponse) -> Vec<u8> {
    encode_produce_response_frame(correlation_id, version, response).bytes
}

/// As [`encode_produce_response`], for a broker with quotas.
pub fn encode_produce_response_frame(
    correlation_id: i32,
    version: i16,
    response: &ProduceResponse,
) -> ResponseFrame {
    header::append_response(ApiKey::PRODUCE, correlation_id, version, response)
}

/// A Produce request as a broker reads it: the records stay in the frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProduceRequestRef<'a> {
    /// The transactional id of a producer with transactions.
    pub transactional_id: Option<&'a str>,
    /// Which replicas have to write before the broker answers: 0 none, and there is no answer; 1 the leader; −1 all
    /// that are in sync.
    pub acks: i16,
    /// How long the broker may wait for the replicas, in ms.
    pub timeout_ms: i32,
    /// The partitions of all topics, in the frame's order: those of one topic stand together.
    pub partitions: Vec<ProducePartitionRef<'a>>,
}

/// The records for one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProducePartitionRef<'a> {
    /// The topic's name; empty from version 13 on.
    pub topic: &'a str,
    /// The topic's id; zero up to version 12.
    pub topic_id: Uuid,
    /// The partition's index.
    pub index: i32,
    /// Where the records stand, as positions of the reader, so within the frame if the reader came from
    /// [`header::decode_request_header`]. `None` if the client sent null.
    pub records: Option<Range<usize>>,
}

impl<'a> ProduceRequestRef<'a> {
    /// Reads the body of a request, up to the frame's end.
    ///
    /// # Errors
    /// If the bytes are not such a request, or more than it.
    pub fn decode(version: i16, input: &mut Reader<'a>) -> Result<Self, DecodeError> {
        if !VERSIONS.contains(&version) {
            let (oldest, newest) = (*VERSIONS.start(), *VERSIONS.end());
            return Err(input.error(DecodeProblem::UnsupportedVersion {
                version,
                oldest,
                newest,
            }));
        }
        let layout = Layout::new(version, FLEXIBLE_FROM);
        let ids = version >= IDS_FROM;
        let in_field = |field: &'static str| move |error: DecodeError| error.in_field(field);
        let transactional_id = input
            .read_nullable_str(layout)
            .map_err(in_field("ProduceRequest.transactional_id"))?;
        let acks = input.read_i16()?;
        let timeout_ms = input.read_i32()?;
        let tagged = usize::from(layout.flexible);
        let length = layout.count_bytes();
        let name_or_id = if ids { 16 } else { layout.string_length_bytes() };
        let topics = input
            .read_count(layout, name_or_id + length + tagged)
            .map_err(in_field("ProduceRequest.topic_data"))?;
        let mut partitions = Vec::new();
        for _ in 0..topics {
            let (mut topic, mut topic_id) = ("", Uuid::ZERO);
            if ids {
                topic_id = Uuid::read(layout, input)?;
            } else {
                topic = input
                    .read_str(layout)
                    .map_err(in_field("TopicProduceData.name"))?;
            }
            let count = input
                .read_count(layout, 4 + length + tagged)
                .map_err(in_field("TopicProduceData.partition_data"))?;
            for _ in 0..count {
                let index = input.read_i32()?;
                let records = input
                    .read_nullable_bytes(layout)
                    .map_err(in_field("PartitionProduceData.records"))?;
                let end = input.position_bytes();
                let records = records.map(|records| end - records.len()..end);
                input.skip_tagged(layout)?;
                partitions.push(ProducePartitionRef {
                    topic,
                    topic_id,
                    index,
                    records,
                });
            }
            input.skip_tagged(layout)?;
        }
        input.skip_tagged(layout)?;
        input.finish()?;
        Ok(Self {
            transactional_id,
            acks,
            timeout_ms,
            partitions,
        })
    }
}
