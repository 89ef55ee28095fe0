//! Fetch (1), versions 4 to 18: by name or by id, with `min_bytes` and `max_wait_ms`.
//!
//! Records are served as they lie in the log, up to the high watermark, or to the last stable offset for those who read
//! committed records only, in fetch sessions (KIP-227) too. Bytes of answers are held against `consumer_byte_rate`: one that
//! exceeds it is replaced by an empty one, and does not count, as in Kafka. Left out: racks and preferred replicas; followers'
//! fetches from elsewhere.

use super::{Context, Failing, Outcome, failure, finish, stop_waiting, wait};
use crate::answer::Answer;
use crate::cluster::{Cluster, TopicKey};
use crate::fetch_session::{Told, Use};
use crate::group::ms_to_ns;
use crate::log::Selection;
use crate::partition::Partition;
use crate::quota::{Client, Kind};
use crate::reply::ReplyTo;
use crate::waiting::{Awaited, WaitingRequest};
use wire::fetch::{
    AbortedTransaction, FetchPartition, FetchRequest, FetchResponseHead, FetchResponsePartition,
    FetchResponseTopic, FetchTopic, encode_fetch_response, throttle_time_at,
};
use wire::leader_hints::{LeaderIdAndEpoch, NodeEndpoint};
use wire::{ErrorCode, Uuid};

/// Kafka's own limit for one answer (fetch.max.bytes of brokers).
const MOST_BYTES: usize = 55 << 20;

/// `isolation_level` of a consumer that wants committed records only.
pub(super) const READ_COMMITTED: i8 = 1;

/// The first version with fetch sessions.
const SESSIONS_FROM: i16 = 7;
/// The first version that names topics by their ids.
const IDS_FROM: i16 = 13;

/// A fetch that waits for records.
#[derive(Debug)]
pub(crate) struct WaitingFetch {
    broker: i32,
    asked_at: u64,
    session: Use,
    client: Client,
    request: FetchRequest,
    /// What fails because a script says so, although it was looked for.
    failing: Vec<Failing>,
    /// Bytes that make it worth an answer, and how many of them are there.
    wanted_bytes: usize,
    found_bytes: usize,
}

pub(super) fn serve(cluster: &mut Cluster, context: &Context<'_>, mut request: FetchRequest) -> Outcome {
    let version = context.to.version;
    let session = if version < SESSIONS_FROM {
        Use::Without
    } else {
        let sessions = &mut cluster.fetch_sessions;
        match sessions.take(context.broker, version >= IDS_FROM, &mut request, context.now) {
            Ok(session) => session,
            Err(error) => return Outcome::Answer(encode(cluster, context.to, (error, 0), &request, &[])),
        }
    };
    let client = context.client();
    // More at once would be held back for certain, and never read.
    let windows = cluster.settings.quota_windows;
    if let Some(most) = cluster.quotas.most_at_once(Kind::Fetch, &client, windows) {
        let most = i32::try_from(most).unwrap_or(i32::MAX);
        request.max_bytes = request.max_bytes.min(most);
        request.min_bytes = request.min_bytes.min(request.max_bytes);
    }
    let mut found = find(cluster, context.broker, &request);
    fail(cluster, &request, &mut found, context.failing, false);
    let found_bytes: usize = found.iter().map(Found::len_bytes).sum();
    let wanted_bytes = usize::try_from(request.min_bytes).unwrap_or(0);
    let is_due = request.max_wait_ms <= 0
        || found.is_empty()
        || found_bytes >= wanted_bytes
        || found.iter().any(|found| found.error.is_error());
    let waiting = WaitingFetch {
        broker: context.broker,
        asked_at: context.now,
        session,
        client,
        failing: context.failing.to_vec(),
        request,
        wanted_bytes,
        found_bytes,
    };
    if is_due {
        return Outcome::Answer(settle(cluster, context.now, context.to, &waiting, found));
    }
    let request = &waiting.request;
    let deadline = context.now.saturating_add(ms_to_ns(request.max_wait_ms.into()));
    let places: Vec<(TopicKey, i32)> = found.iter().filter_map(|found| found.place).collect();
    let awaited = Awaited::Fetch(waiting);
    let id = wait(
        cluster,
        WaitingRequest {
            to: context.to,
            deadline,
            awaited,
        },
    );
    for (key, index) in places {
        if let Some(partition) = cluster
            .topic_at_mut(key)
            .and_then(|topic| topic.partition_mut(index))
        {
            partition.waiting_fetches.push(id);
        }
    }
    Outcome::Later
}

/// Answers with what there is.
pub(super) fn answer(cluster: &mut Cluster, now: u64, to: ReplyTo, waiting: WaitingFetch) -> Answer {
    let found = find(cluster, waiting.broker, &waiting.request);
    settle(cluster, now, to, &waiting, found)
}

/// Answers with what was found, unless the client's quota does not allow it now.
fn settle(
    cluster: &mut Cluster,
    now: u64,
    to: ReplyTo,
    waiting: &WaitingFetch,
    mut found: Vec<Found>,
) -> Answer {
    let request = &waiting.request;
    fail(cluster, request, &mut found, &waiting.failing, true);
    if !cluster.quotas.are_set() {
        return conclude(cluster, to, waiting, found);
    }
    // Booked before it is told to the session, which has to know what the client was really told.
    let bytes = encode(cluster, to, (ErrorCode::NONE, 0), request, &found).len_bytes();
    let payer = (waiting.broker, &waiting.client);
    let throttle_ms = cluster.book(now, payer, Kind::Fetch, bytes);
    if throttle_ms == 0 {
        return conclude(cluster, to, waiting, found);
    }
    let windows = cluster.settings.quota_windows;
    cluster.quotas.unbook(payer, Kind::Fetch, bytes, windows, now);
    // The session goes on, with no news in it; one that was to be opened is not.
    let id = match waiting.session {
        Use::Within(id) => id,
        Use::Opens | Use::Without => 0,
    };
    let nothing = FetchRequest {
        topics: Vec::new(),
        ..FetchRequest::default()
    };
    let mut answer = encode(cluster, to, (ErrorCode::NONE, id), &nothing, &[]);
    answer.throttle(throttle_ms);
    answer
}

/// Answers in the session that the request is of, or opens one.
fn conclude(cluster: &mut Cluster, to: ReplyTo, fetch: &WaitingFetch, mut found: Vec<Found>) -> Answer {
    let request = &fetch.request;
    let id = match fetch.session {
        Use::Without => 0,
        Use::Opens => {
            let slots = cluster.settings.fetch_session_slots;
            let is_by_id = to.version >= IDS_FROM;
            let sessions = &mut cluster.fetch_sessions;
            sessions.open(
                fetch.broker,
                is_by_id,
                request,
                (slots, fetch.asked_at),
                &mut cluster.random,
            )
        }
        Use::Within(id) => id,
    };
    if id != 0 {
        let is_within = fetch.session == Use::Within(id);
        let sessions = &mut cluster.fetch_sessions;
        found.retain(|found| {
            let told = (!found.error.is_error()).then_some(Told {
                high_watermark: found.high_watermark,
                log_start_offset: found.log_start_offset,
            });
            let topic = &request.topics[found.topic];
            let is_news = sessions.tell(id, topic, found.index, told, found.len_bytes() > 0);
            is_news || !is_within
        });
    }
    encode(cluster, to, (ErrorCode::NONE, id), request, &found)
}

/// Has those partitions fail of which a script says so.
fn fail(cluster: &Cluster, request: &FetchRequest, found: &mut [Found], failing: &[Failing], is_after: bool) {
    if failing.is_empty() {
        return;
    }
    for found in found {
        let topic = &request.topics[found.topic];
        let known = key_of(cluster, topic).and_then(|key| cluster.topic_at(key));
        let name = known.map_or(topic.topic.as_str(), |known| known.name.as_str());
        if let Some(error) = failure(failing, name, found.index, is_after) {
            *found = Found {
                topic: found.topic,
                ..Found::failed(found.index, error)
            };
        }
    }
}

/// Takes a fetch off the lists of the partitions that it wants.
pub(super) fn unregister(cluster: &mut Cluster, id: u64, fetch: &WaitingFetch) {
    for topic in &fetch.request.topics {
        let Some(key) = key_of(cluster, topic) else {
            continue;
        };
        for wanted in &topic.partitions {
            if let Some(partition) = cluster
                .topic_at_mut(key)
                .and_then(|topic| topic.partition_mut(wanted.partition))
            {
                partition.waiting_fetches.retain(|other| *other != id);
            }
        }
    }
}

/// Up to where a partition can be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Readable {
    high_watermark: i64,
    last_stable_offset: i64,
}

/// Bytes that have become readable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct News {
    bytes: usize,
    /// For those who read committed records only.
    stable_bytes: usize,
}

impl Readable {
    pub(crate) fn of(partition: &Partition) -> Readable {
        Readable {
            high_watermark: partition.high_watermark(),
            last_stable_offset: partition.last_stable_offset(),
        }
    }

    /// What has become readable since, where anyone waits for it.
    pub(crate) fn news(self, partition: &Partition) -> News {
        if partition.waiting_fetches.is_empty() {
            return News::default();
        }
        let between = |from: i64, until: i64| match until > from {
            true => partition.log().select(from, until, usize::MAX, false).len_bytes,
            false => 0,
        };
        News {
            bytes: between(self.high_watermark, partition.high_watermark()),
            stable_bytes: between(self.last_stable_offset, partition.last_stable_offset()),
        }
    }
}

/// Tells those who wait at a partition what more can be read.
pub(crate) fn wake(cluster: &mut Cluster, now: u64, key: TopicKey, index: i32, news: News) {
    if news == News::default() {
        return;
    }
    let Some(partition) = cluster.topic_at(key).and_then(|topic| topic.partition(index)) else {
        return;
    };
    for id in partition.waiting_fetches.clone() {
        let is_due = match cluster.waiting.get_mut(id).map(|request| &mut request.awaited) {
            Some(Awaited::Fetch(fetch)) => {
                let bytes = if fetch.request.isolation_level == READ_COMMITTED {
                    news.stable_bytes
                } else {
                    news.bytes
                };
                fetch.found_bytes += bytes;
                bytes > 0 && fetch.found_bytes >= fetch.wanted_bytes
            }
            _ => false,
        };
        if is_due && let Some(request) = stop_waiting(cluster, id) {
            finish(cluster, now, request);
        }
    }
}

/// What there is for one partition of a request.
#[derive(Debug)]
struct Found {
    /// The topic's place in the request.
    topic: usize,
    index: i32,
    place: Option<(TopicKey, i32)>,
    error: ErrorCode,
    high_watermark: i64,
    last_stable_offset: i64,
    log_start_offset: i64,
    leader: Option<LeaderIdAndEpoch>,
    selection: Option<Selection>,
    /// For those who read committed records only.
    aborted: Option<Vec<AbortedTransaction>>,
}

impl Found {
    fn failed(index: i32, error: ErrorCode) -> Found {
        Found {
            topic: 0,
            index,
            place: None,
            error,
            high_watermark: -1,
            last_stable_offset: -1,
            log_start_offset: -1,
            leader: None,
            selection: None,
            aborted: None,
        }
    }

    fn len_bytes(&self) -> usize {
        self.selection.as_ref().map_or(0, |selection| selection.len_bytes)
    }
}

fn key_of(cluster: &Cluster, topic: &FetchTopic) -> Option<TopicKey> {
    if topic.topic_id == Uuid::ZERO {
        cluster.topic_key(&topic.topic)
    } else {
        cluster.topic_key_by_id(topic.topic_id)
    }
}

/// What there is for each partition, in the order of the request.
fn find(cluster: &Cluster, broker: i32, request: &FetchRequest) -> Vec<Found> {
    let mut room = usize::try_from(request.max_bytes).unwrap_or(0).min(MOST_BYTES);
    let mut is_first = true;
    let mut all = Vec::with_capacity(request.topics.iter().map(|topic| topic.partitions.len()).sum());
    for (place, topic) in request.topics.iter().enumerate() {
        let key = key_of(cluster, topic);
        for wanted in &topic.partitions {
            let mut found = match key {
                Some(key) => {
                    let is_committed = request.isolation_level == READ_COMMITTED;
                    find_one(cluster, broker, key, wanted, (room, is_first), is_committed)
                }
                None if topic.topic_id.is_zero() => {
                    Found::failed(wanted.partition, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)
                }
                None => Found::failed(wanted.partition, ErrorCode::UNKNOWN_TOPIC_ID),
            };
            found.topic = place;
            room = room.saturating_sub(found.len_bytes());
            is_first &= found.len_bytes() == 0;
            all.push(found);
        }
    }
    all
}

fn find_one(
    cluster: &Cluster,
    broker: i32,
    key: TopicKey,
    wanted: &FetchPartition,
    (room, is_first): (usize, bool),
    is_committed: bool,
) -> Found {
    let index = wanted.partition;
    let Some(partition) = cluster.topic_at(key).and_then(|topic| topic.partition(index)) else {
        return Found::failed(index, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
    };
    if let Err(error) = partition.check_leader(broker, wanted.current_leader_epoch) {
        let leader = LeaderIdAndEpoch {
            leader_id: partition.leader().unwrap_or(-1),
            leader_epoch: partition.leader_epoch(),
        };
        return Found {
            leader: Some(leader),
            ..Found::failed(index, error)
        };
    }
    let log = partition.log();
    if !(log.start_offset()..=log.end_offset()).contains(&wanted.fetch_offset) {
        return Found {
            log_start_offset: log.start_offset(),
            high_watermark: partition.high_watermark(),
            ..Found::failed(index, ErrorCode::OFFSET_OUT_OF_RANGE)
        };
    }
    let limit = room.min(usize::try_from(wanted.partition_max_bytes).unwrap_or(0));
    let last_stable_offset = partition.last_stable_offset();
    let until = if is_committed {
        last_stable_offset
    } else {
        partition.high_watermark()
    };
    let selection = log.select(wanted.fetch_offset, until, limit, is_first);
    let aborted = is_committed.then(|| {
        let end = log.end_of(&selection, wanted.fetch_offset);
        partition.aborted(wanted.fetch_offset, end)
    });
    Found {
        topic: 0,
        index,
        place: Some((key, index)),
        error: ErrorCode::NONE,
        high_watermark: partition.high_watermark(),
        last_stable_offset,
        log_start_offset: log.start_offset(),
        leader: None,
        selection: Some(selection),
        aborted,
    }
}

fn encode(
    cluster: &Cluster,
    to: ReplyTo,
    (error_code, session_id): (ErrorCode, i32),
    request: &FetchRequest,
    found: &[Found],
) -> Answer {
    let partitions: Vec<FetchResponsePartition<'_>> = found
        .iter()
        .map(|found| FetchResponsePartition {
            index: found.index,
            error_code: found.error,
            high_watermark: found.high_watermark,
            last_stable_offset: found.last_stable_offset,
            log_start_offset: found.log_start_offset,
            diverging_epoch: None,
            current_leader: found.leader.as_ref(),
            aborted_transactions: found.aborted.as_deref(),
            preferred_read_replica: -1,
            records_bytes: found.len_bytes(),
        })
        .collect();
    let mut rest = partitions.as_slice();
    let mut topics = Vec::with_capacity(request.topics.len());
    for of_topic in found.chunk_by(|one, next| one.topic == next.topic) {
        let (partitions, others) = rest.split_at(of_topic.len());
        rest = others;
        let topic = &request.topics[of_topic[0].topic];
        topics.push(FetchResponseTopic {
            name: &topic.topic,
            topic_id: topic.topic_id,
            partitions,
        });
    }
    let node_endpoints = endpoints(cluster, found.iter().filter_map(|found| found.leader.as_ref()));
    let head = FetchResponseHead {
        correlation_id: to.correlation_id,
        version: to.version,
        throttle_time_ms: 0,
        error_code,
        session_id,
        node_endpoints: &node_endpoints,
    };
    let (mut frame, mut cuts) = (Vec::new(), Vec::new());
    encode_fetch_response(&head, &topics, &mut frame, &mut cuts);
    let slices = found.len();
    let mut answer = Answer::with_capacity(frame.len() + slices * 64, slices, throttle_time_at(to.version));
    let mut at = 0;
    for (cut, found) in cuts.into_iter().zip(found) {
        answer.push_bytes(&frame[at..cut]);
        at = cut;
        let partition = found
            .place
            .and_then(|(key, index)| cluster.topic_at(key)?.partition(index));
        if let (Some(partition), Some(selection)) = (partition, &found.selection) {
            partition.log().serve(selection, &mut answer);
        }
    }
    answer.push_bytes(&frame[at..]);
    answer
}

/// Where the brokers listen that are named as leaders.
pub(super) fn endpoints<'a>(
    cluster: &Cluster,
    leaders: impl Iterator<Item = &'a LeaderIdAndEpoch>,
) -> Vec<NodeEndpoint> {
    let mut ids: Vec<i32> = leaders.map(|leader| leader.leader_id).collect();
    ids.sort_unstable();
    ids.dedup();
    ids.into_iter()
        .filter_map(|id| cluster.nodes.get(id))
        .map(|node| NodeEndpoint {
            node_id: node.id,
            host: node.host.clone(),
            port: node.port.into(),
            ..NodeEndpoint::default()
        })
        .collect()
}
