//! Produce (0), versions 3 to 13: acks 0, 1 and all, idempotent producers, topics by name or by id.
//!
//! In transactions, a partition has to have been added before (up to version 11) or is added by the write (from 12 on,
//! KIP-890). The bytes of a request are held against `producer_byte_rate` when it is answered, with acks = 0 when it has been
//! carried out. Left out: errors by record, because records are not looked at one by one.

use super::fetch::{Readable, endpoints, wake};
use super::{Failing, Outcome, failure, wait};
use crate::answer::Answer;
use crate::buffer::{Buffer, Slice};
use crate::cluster::{Cluster, TopicKey};
use crate::group::ms_to_ns;
use crate::log::{ProducedBatch, ProducedError};
use crate::partition::Refused;
use crate::quota::{Client, Kind};
use crate::reply::ReplyTo;
use crate::transaction::ProducerKey;
use crate::waiting::{Awaited, WaitingRequest};
use model::broker_script::Lie;
use std::sync::Arc;
use wire::codec::Reader;
use wire::leader_hints::LeaderIdAndEpoch;
use wire::produce::{
    PartitionProduceResponse, ProduceRequestRef, ProduceResponse, TopicProduceResponse,
    encode_produce_response_frame,
};
use wire::{DecodeError, ErrorCode, Uuid};

const ALL: i16 = -1;

/// A produce request whose records lie in a buffer of ours.
#[derive(Debug)]
pub(crate) struct Produce<B = Option<Slice>> {
    acks: i16,
    timeout_ms: i32,
    transactional_id: Option<String>,
    topics: Vec<ProduceTopic<B>>,
}

#[derive(Debug)]
struct ProduceTopic<B> {
    name: String,
    id: Uuid,
    partitions: Vec<(i32, B)>,
}

/// A request whose batches have been checked.
pub(crate) type Checked = Produce<Result<ProducedBatch, ProducedError>>;

impl Produce {
    /// Reads the request that `input` stands at; the frame begins at `frame_start` of `buffer`.
    pub(crate) fn read(
        version: i16,
        input: &mut Reader<'_>,
        buffer: &Arc<Buffer>,
        frame_start: usize,
    ) -> Result<Produce, DecodeError> {
        let request = ProduceRequestRef::decode(version, input)?;
        let mut topics: Vec<ProduceTopic<Option<Slice>>> = Vec::new();
        for partition in request.partitions {
            let slice = partition.records.map(|range| {
                Slice::new(
                    Arc::clone(buffer),
                    frame_start + range.start..frame_start + range.end,
                )
            });
            match topics.last_mut() {
                Some(last) if last.name == partition.topic && last.id == partition.topic_id => {
                    last.partitions.push((partition.index, slice));
                }
                _ => topics.push(ProduceTopic {
                    name: partition.topic.to_owned(),
                    id: partition.topic_id,
                    partitions: vec![(partition.index, slice)],
                }),
            }
        }
        Ok(Produce {
            acks: request.acks,
            timeout_ms: request.timeout_ms,
            transactional_id: request.transactional_id.map(str::to_owned),
            topics,
        })
    }

    /// Checks all batches, CRC included: the long part of the work.
    pub(crate) fn check(self) -> Checked {
        let check = |slice: Option<Slice>| {
            slice.map_or_else(
                || Err(ProducedError::Invalid("there are no records".to_owned())),
                ProducedBatch::check,
            )
        };
        let topics = self.topics.into_iter().map(|topic| ProduceTopic {
            name: topic.name,
            id: topic.id,
            partitions: topic
                .partitions
                .into_iter()
                .map(|(index, slice)| (index, check(slice)))
                .collect(),
        });
        Produce {
            acks: self.acks,
            timeout_ms: self.timeout_ms,
            transactional_id: self.transactional_id,
            topics: topics.collect(),
        }
    }
}

impl Checked {
    /// The same with a lie about its first batch.
    pub(super) fn with_lie(mut self, lie: Option<Lie>) -> Checked {
        let mut batches = self.topics.iter_mut().flat_map(|topic| &mut topic.partitions);
        if let Some((_, Ok(batch))) = batches.next() {
            batch.lie = lie;
        }
        self
    }
}

/// Who asks what of whom, and when.
#[derive(Debug)]
pub(super) struct Asked<'a> {
    pub(super) now: u64,
    pub(super) broker: i32,
    pub(super) to: ReplyTo,
    pub(super) client: Client,
    pub(super) request_bytes: usize,
    /// What of it fails because a script says so.
    pub(super) failing: &'a [Failing],
}

/// A produce request that waits for replicas.
#[derive(Debug)]
pub(crate) struct WaitingProduce {
    broker: i32,
    client: Client,
    request_bytes: usize,
    response: ProduceResponse,
    open: Vec<Open>,
    /// What fails although it was done, by place in the response.
    failing_after: Vec<((usize, usize), ErrorCode)>,
}

/// A batch that is appended and not yet committed.
#[derive(Clone, Copy, Debug)]
struct Open {
    topic: TopicKey,
    partition: i32,
    /// The high watermark that commits it.
    end_offset: i64,
    /// Its place in the response.
    answer: (usize, usize),
}

/// Appends what a request brings.
pub(super) fn serve(cluster: &mut Cluster, asked: Asked<'_>, produce: Checked) -> Outcome {
    let Asked { now, broker, to, .. } = asked;
    let mut response = ProduceResponse::default();
    let mut open = Vec::new();
    let mut failing_after = Vec::new();
    for (topic_at, topic) in produce.topics.into_iter().enumerate() {
        let key = if topic.id.is_zero() {
            cluster.topic_key(&topic.name)
        } else {
            cluster.topic_key_by_id(topic.id)
        };
        let unknown = if topic.id.is_zero() {
            ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
        } else {
            ErrorCode::UNKNOWN_TOPIC_ID
        };
        let named = key.filter(|_| !asked.failing.is_empty());
        let named = named.and_then(|key| Some(cluster.topic_at(key)?.name.clone()));
        let name = named.as_deref().unwrap_or(&topic.name);
        let mut partition_responses = Vec::with_capacity(topic.partitions.len());
        for (partition_at, (index, batch)) in topic.partitions.into_iter().enumerate() {
            let id = produce.transactional_id.as_deref();
            if let Some(error) = failure(asked.failing, name, index, false) {
                // As in Kafka the partition is in the transaction before anyone looks at the batch.
                if let (Some(id), Ok(batch), Some(key)) = (id, &batch, key)
                    && batch.is_transactional
                {
                    let _ = join_transaction(cluster, now, (broker, to.version), id, (key, index), batch);
                }
                partition_responses.push(failed(index, error));
                continue;
            }
            if let Some(error) = failure(asked.failing, name, index, true) {
                failing_after.push(((topic_at, partition_at), error));
            }
            let outcome = admit(produce.acks, id, batch).and_then(|batch| {
                let key = key.ok_or(Refused::from(unknown))?;
                if let Some(id) = id.filter(|_| batch.is_transactional) {
                    join_transaction(cluster, now, (broker, to.version), id, (key, index), &batch)?;
                }
                append(cluster, now, broker, (key, index), &batch, produce.acks == ALL)
            });
            match outcome {
                Ok((answer, end_offset)) => {
                    if let (Some(end_offset), Some(topic)) = (end_offset, key) {
                        open.push(Open {
                            topic,
                            partition: index,
                            end_offset,
                            answer: (topic_at, partition_at),
                        });
                    }
                    partition_responses.push(answer);
                }
                Err(refused) => partition_responses.push(refusal(cluster, key, index, refused)),
            }
        }
        response.responses.push(TopicProduceResponse {
            name: topic.name,
            topic_id: topic.id,
            partition_responses,
        });
    }
    if produce.acks == 0 {
        let all = response
            .responses
            .iter()
            .flat_map(|topic| &topic.partition_responses);
        // Without an answer, closing is the only way to say that something went wrong.
        let is_refused = all.into_iter().any(|answer| answer.error_code.is_error());
        let payer = (broker, &asked.client);
        let throttle_ms = cluster.book(now, payer, Kind::Produce, asked.request_bytes);
        return if is_refused {
            Outcome::Hangup
        } else {
            Outcome::Silent(throttle_ms)
        };
    }
    let waiting = WaitingProduce {
        broker,
        client: asked.client,
        request_bytes: asked.request_bytes,
        response,
        open,
        failing_after,
    };
    if waiting.open.is_empty() {
        return answer(cluster, now, to, waiting).map_or(Outcome::Hangup, Outcome::Answer);
    }
    let deadline = now.saturating_add(ms_to_ns(produce.timeout_ms.into()));
    let places = waiting.open.iter().map(|open| (open.topic, open.partition));
    let places: Vec<(TopicKey, i32)> = places.collect();
    let awaited = Awaited::Produce(waiting);
    let id = wait(
        cluster,
        WaitingRequest {
            to,
            deadline,
            awaited,
        },
    );
    for (key, index) in places {
        if let Some(partition) = cluster
            .topic_at_mut(key)
            .and_then(|topic| topic.partition_mut(index))
        {
            partition.waiting_produces.push(id);
        }
    }
    Outcome::Later
}

/// Whether a batch may be appended at all, wherever it goes.
fn admit(
    acks: i16,
    transactional_id: Option<&str>,
    batch: Result<ProducedBatch, ProducedError>,
) -> Result<ProducedBatch, Refused> {
    if !(ALL..=1).contains(&acks) {
        return Err(ErrorCode::INVALID_REQUIRED_ACKS.into());
    }
    let with_reason = |error, reason| {
        Err(Refused {
            error,
            reason: Some(reason),
        })
    };
    match batch {
        Err(ProducedError::Corrupt(reason)) => with_reason(ErrorCode::CORRUPT_MESSAGE, reason),
        Err(ProducedError::Invalid(reason)) => with_reason(ErrorCode::INVALID_RECORD, reason),
        Ok(batch) if batch.is_transactional && transactional_id.is_none() => with_reason(
            ErrorCode::INVALID_PRODUCER_ID_MAPPING,
            format!(
                "producer {} wrote a transactional batch without saying its transactional id",
                batch.producer_id
            ),
        ),
        Ok(batch) => Ok(batch),
    }
}

/// From this version on, a write adds its partition to the transaction.
const ADDS_FROM: i16 = 12;
/// From this version on, clients know that a transaction may have to be aborted without being fenced.
const KNOWS_ABORTABLE_FROM: i16 = 11;

/// Holds a batch against the transaction that it says it belongs to.
fn join_transaction(
    cluster: &mut Cluster,
    now: u64,
    (broker, version): (i32, i16),
    id: &str,
    place: (TopicKey, i32),
    batch: &ProducedBatch,
) -> Result<(), Refused> {
    // Only what a leader would take is worth asking the coordinator for.
    let (key, index) = place;
    let partition = cluster
        .topic_at(key)
        .and_then(|topic| topic.partition(index))
        .ok_or(Refused::from(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION))?;
    partition.check_leader(broker, -1)?;
    let producer = ProducerKey {
        id: batch.producer_id,
        epoch: batch.producer_epoch,
    };
    let outcome = if version >= ADDS_FROM {
        cluster.add_to_transaction(now, id, producer, &[place], None)
    } else {
        cluster.is_in_transaction(id, producer, place)
    };
    outcome.map_err(|error| {
        // As Kafka translates what its coordinator says for a producer.
        let error = match error {
            ErrorCode::INVALID_TXN_STATE if version >= KNOWS_ABORTABLE_FROM => {
                ErrorCode::TRANSACTION_ABORTABLE
            }
            ErrorCode::PRODUCER_FENCED => ErrorCode::INVALID_PRODUCER_EPOCH,
            ErrorCode::CONCURRENT_TRANSACTIONS if version < ADDS_FROM => ErrorCode::NOT_ENOUGH_REPLICAS,
            error => error,
        };
        Refused {
            error,
            reason: Some(format!(
                "the partition is not part of an open transaction of {id}, producer {}, epoch {}",
                producer.id, producer.epoch
            )),
        }
    })
}

/// Appends one batch; gives its answer and, if it has to wait for replicas, the offset that they are to reach.
fn append(
    cluster: &mut Cluster,
    now: u64,
    broker: i32,
    (key, index): (TopicKey, i32),
    batch: &ProducedBatch,
    waits_for_all: bool,
) -> Result<(PartitionProduceResponse, Option<i64>), Refused> {
    let now_ms = cluster.wall_ms(now);
    let unknown = || Refused::from(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
    let (topic, nodes) = cluster.topic_and_nodes(key).ok_or_else(unknown)?;
    let place = usize::try_from(index)
        .ok()
        .and_then(|index| topic.partitions.get_mut(index));
    let partition = place.ok_or_else(unknown)?;
    let before = Readable::of(partition);
    let appended = partition.append(
        broker,
        batch,
        waits_for_all,
        &topic.settings,
        nodes,
        (now, now_ms),
    )?;
    let after = partition.high_watermark();
    let news = before.news(partition);
    let log_start_offset = partition.log().start_offset();
    if appended.grown_bytes > 0 {
        cluster.arrived(now, key, index, appended.base_offset, appended.grown_bytes);
    }
    wake(cluster, now, key, index, news);
    let answer = PartitionProduceResponse {
        index,
        base_offset: appended.base_offset,
        log_append_time_ms: appended.log_append_time_ms,
        log_start_offset,
        ..PartitionProduceResponse::default()
    };
    let is_open = waits_for_all && after < appended.end_offset;
    Ok((answer, is_open.then_some(appended.end_offset)))
}

fn refusal(
    cluster: &Cluster,
    key: Option<TopicKey>,
    index: i32,
    refused: Refused,
) -> PartitionProduceResponse {
    let mut answer = PartitionProduceResponse {
        index,
        error_code: refused.error,
        base_offset: -1,
        error_message: refused.reason,
        ..PartitionProduceResponse::default()
    };
    let partition = key.and_then(|key| cluster.topic_at(key)?.partition(index));
    if let Some(partition) = partition.filter(|_| refused.error == ErrorCode::NOT_LEADER_OR_FOLLOWER) {
        answer.current_leader = LeaderIdAndEpoch {
            leader_id: partition.leader().unwrap_or(-1),
            leader_epoch: partition.leader_epoch(),
        };
    }
    answer
}

/// What a script has said of a partition.
fn failed(index: i32, error_code: ErrorCode) -> PartitionProduceResponse {
    PartitionProduceResponse {
        index,
        error_code,
        base_offset: -1,
        ..PartitionProduceResponse::default()
    }
}

fn encode(cluster: &Cluster, to: ReplyTo, mut response: ProduceResponse) -> Answer {
    let answers = response
        .responses
        .iter()
        .flat_map(|topic| &topic.partition_responses);
    let moved = answers
        .map(|answer| &answer.current_leader)
        .filter(|leader| leader.leader_id >= 0);
    response.node_endpoints = endpoints(cluster, moved);
    Answer::from_frame(encode_produce_response_frame(
        to.correlation_id,
        to.version,
        &response,
    ))
}

/// Takes a request off the lists of the partitions that it waits for.
pub(super) fn unregister(cluster: &mut Cluster, id: u64, produce: &WaitingProduce) {
    for open in &produce.open {
        if let Some(partition) = cluster
            .topic_at_mut(open.topic)
            .and_then(|topic| topic.partition_mut(open.partition))
        {
            partition.waiting_produces.retain(|other| *other != id);
        }
    }
}

/// Whether nothing of a request is open any more.
pub(super) fn is_decided(cluster: &mut Cluster, id: u64) -> bool {
    let Some((broker, open)) = cluster
        .waiting
        .get_mut(id)
        .and_then(|request| match &request.awaited {
            Awaited::Produce(produce) => Some((produce.broker, produce.open.clone())),
            Awaited::Fetch(_) => None,
        })
    else {
        return false;
    };
    open.iter().all(|open| decide(cluster, broker, open).is_some())
}

/// What has become of an appended batch; `None` while it is open.
fn decide(cluster: &Cluster, broker: i32, open: &Open) -> Option<ErrorCode> {
    let Some(topic) = cluster.topic_at(open.topic) else {
        return Some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
    };
    let Some(partition) = topic.partition(open.partition) else {
        return Some(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
    };
    if partition.leader() != Some(broker) {
        return Some(ErrorCode::NOT_LEADER_OR_FOLLOWER);
    }
    if partition.high_watermark() < open.end_offset {
        return None;
    }
    let is_enough = partition.in_sync().count() >= topic.settings.min_insync_replicas;
    Some(if is_enough {
        ErrorCode::NONE
    } else {
        ErrorCode::NOT_ENOUGH_REPLICAS_AFTER_APPEND
    })
}

/// Answers a request that waited; what is still open has timed out.
pub(super) fn answer(
    cluster: &mut Cluster,
    now: u64,
    to: ReplyTo,
    mut waiting: WaitingProduce,
) -> Option<Answer> {
    for open in &waiting.open {
        let error = decide(cluster, waiting.broker, open).unwrap_or(ErrorCode::REQUEST_TIMED_OUT);
        let (topic_at, partition_at) = open.answer;
        let topic = waiting.response.responses.get_mut(topic_at)?;
        topic.partition_responses.get_mut(partition_at)?.error_code = error;
    }
    for ((topic_at, partition_at), error) in waiting.failing_after {
        let topic = waiting.response.responses.get_mut(topic_at)?;
        let partition = topic.partition_responses.get_mut(partition_at)?;
        *partition = failed(partition.index, error);
    }
    let payer = (waiting.broker, &waiting.client);
    let throttle_ms = cluster.book(now, payer, Kind::Produce, waiting.request_bytes);
    waiting.response.throttle_time_ms = i32::try_from(throttle_ms).unwrap_or(i32::MAX);
    Some(encode(cluster, to, waiting.response))
}
