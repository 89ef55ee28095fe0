//! The requests that are served, one file per API. Each opens with the versions served and with what is left out.
//!
//! What is not in [`SERVED`] ends the connection, as Kafka does it; ApiVersions says beforehand what is.

mod add_offsets_to_txn;
mod add_partitions_to_txn;
mod alter_client_quotas;
mod alter_configs;
mod api_versions;
mod consumer_group_describe;
mod consumer_group_heartbeat;
mod create_partitions;
mod create_topics;
mod delete_groups;
mod delete_records;
mod delete_topics;
mod describe_client_quotas;
mod describe_cluster;
mod describe_configs;
mod describe_groups;
mod describe_log_dirs;
mod describe_producers;
mod describe_topic_partitions;
mod describe_transactions;
mod elect_leaders;
mod end_txn;
pub(crate) mod fetch;
mod find_coordinator;
mod heartbeat;
mod incremental_alter_configs;
mod init_producer_id;
pub(crate) mod join_group;
mod leave_group;
mod list_groups;
mod list_offsets;
mod list_transactions;
mod metadata;
mod offset_commit;
mod offset_delete;
mod offset_fetch;
mod offset_for_leader_epoch;
pub(crate) mod produce;
pub(crate) mod sasl_authenticate;
pub(crate) mod sasl_handshake;
pub(crate) mod sync_group;
mod txn_offset_commit;
mod write_txn_markers;

use crate::answer::Answer;
use crate::buffer::Buffer;
use crate::cluster::{Cluster, Timer};
use crate::login::{Asked, Login};
use crate::quota::{ANONYMOUS, Client};
use crate::reply::{ConnectionId, ReplyTo};
use crate::waiting::{Awaited, WaitingRequest};
use model::broker_script::{Lie, Selected};
use std::ops::Range;
use std::sync::Arc;
use wire::codec::{Message, Reader, Request};
use wire::header::{decode_request_body, decode_request_header, encode_response_frame};
use wire::{ApiKey, ErrorCode};

/// What is served: API, oldest and newest version.
///
/// Produce is advertised from 0 although it begins at 3, as Kafka 4 does it for old clients of librdkafka, which take a
/// higher minimum for a lack of compression (KAFKA-18659).
pub(crate) const SERVED: &[(ApiKey, i16, i16)] = &[
    (ApiKey::PRODUCE, 0, 13),
    (ApiKey::FETCH, 4, 18),
    (ApiKey::LIST_OFFSETS, 1, 10),
    (ApiKey::METADATA, 0, 13),
    (ApiKey::OFFSET_COMMIT, 2, 9),
    (ApiKey::OFFSET_FETCH, 1, 9),
    (ApiKey::FIND_COORDINATOR, 0, 6),
    (ApiKey::JOIN_GROUP, 0, 9),
    (ApiKey::HEARTBEAT, 0, 4),
    (ApiKey::LEAVE_GROUP, 0, 5),
    (ApiKey::SYNC_GROUP, 0, 5),
    (ApiKey::DESCRIBE_GROUPS, 0, 6),
    (ApiKey::LIST_GROUPS, 0, 5),
    (ApiKey::SASL_HANDSHAKE, 0, 1),
    (ApiKey::API_VERSIONS, 0, 4),
    (ApiKey::CREATE_TOPICS, 2, 7),
    (ApiKey::DELETE_TOPICS, 1, 6),
    (ApiKey::DELETE_RECORDS, 0, 2),
    (ApiKey::INIT_PRODUCER_ID, 0, 5),
    (ApiKey::OFFSET_FOR_LEADER_EPOCH, 2, 4),
    (ApiKey::ADD_PARTITIONS_TO_TXN, 0, 3),
    (ApiKey::ADD_OFFSETS_TO_TXN, 0, 4),
    (ApiKey::END_TXN, 0, 5),
    (ApiKey::WRITE_TXN_MARKERS, 1, 1),
    (ApiKey::TXN_OFFSET_COMMIT, 0, 5),
    (ApiKey::DESCRIBE_CONFIGS, 1, 4),
    (ApiKey::ALTER_CONFIGS, 0, 2),
    (ApiKey::DESCRIBE_LOG_DIRS, 1, 4),
    (ApiKey::SASL_AUTHENTICATE, 0, 2),
    (ApiKey::CREATE_PARTITIONS, 0, 3),
    (ApiKey::DELETE_GROUPS, 0, 2),
    (ApiKey::ELECT_LEADERS, 0, 2),
    (ApiKey::INCREMENTAL_ALTER_CONFIGS, 0, 1),
    (ApiKey::OFFSET_DELETE, 0, 0),
    (ApiKey::DESCRIBE_CLIENT_QUOTAS, 0, 1),
    (ApiKey::ALTER_CLIENT_QUOTAS, 0, 1),
    (ApiKey::DESCRIBE_CLUSTER, 0, 2),
    (ApiKey::DESCRIBE_PRODUCERS, 0, 0),
    (ApiKey::DESCRIBE_TRANSACTIONS, 0, 0),
    (ApiKey::LIST_TRANSACTIONS, 0, 1),
    (ApiKey::CONSUMER_GROUP_HEARTBEAT, 0, 1),
    (ApiKey::CONSUMER_GROUP_DESCRIBE, 0, 1),
    (ApiKey::DESCRIBE_TOPIC_PARTITIONS, 0, 0),
];

/// Who asks what of whom, and when.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Context<'a> {
    pub(crate) now: u64,
    /// The broker that was asked.
    pub(crate) broker: i32,
    pub(crate) to: ReplyTo,
    /// The name that the client gives itself.
    pub(crate) client_id: &'a str,
    /// As whom it has logged in.
    pub(crate) user: &'a str,
    /// The address that it comes from.
    pub(crate) client_host: &'a str,
    /// What of the request fails because a script says so.
    pub(crate) failing: &'a [Failing],
}

impl Context<'_> {
    /// Whose quotas the request is held against.
    pub(crate) fn client(&self) -> Client {
        Client {
            user: self.user.to_owned(),
            client_id: self.client_id.to_owned(),
        }
    }
}

/// What becomes of a request.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// It is answered.
    Answer(Answer),
    /// It is answered, and the connection ends with that.
    Last(Answer),
    /// It will be answered.
    Later,
    /// It asks for no answer (acks = 0). Nothing more is read from the client for so many ms.
    Silent(u32),
    /// It cannot be served, and there is no way to say so but to end the connection.
    Hangup,
}

/// Where a frame lies and which connection it came by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame<'a> {
    pub(crate) buffer: &'a Arc<Buffer>,
    /// Without its length field.
    pub(crate) range: &'a Range<usize>,
    pub(crate) connection: ConnectionId,
    pub(crate) broker: i32,
    pub(crate) client_host: &'a str,
    /// What is done with its first batch in place of what is acknowledged.
    pub(crate) lie: Option<Lie>,
    /// What of it fails because a script says so.
    pub(crate) failing: &'a [Failing],
}

impl Frame<'_> {
    /// Bytes of the request, without its length field.
    fn len_bytes(&self) -> usize {
        self.range.len()
    }
}

/// Partitions of a Produce or Fetch request that fail because a script says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failing {
    pub(crate) partitions: Selected,
    pub(crate) error: ErrorCode,
    /// Whether what is asked is done all the same.
    pub(crate) is_after: bool,
}

/// The error with which the first of `failing` has a partition fail, among those that fail before or after.
fn failure(failing: &[Failing], topic: &str, index: i32, is_after: bool) -> Option<ErrorCode> {
    let first = failing
        .iter()
        .find(|failing| failing.partitions.has(topic, index));
    first
        .filter(|failing| failing.is_after == is_after)
        .map(|failing| failing.error)
}

/// Serves one request. Everything that takes long (checksums) is done before `lock` is asked for the cluster. `login` is the
/// connection's, where it has to log in.
pub(crate) fn serve<C>(
    frame: Frame<'_>,
    now: u64,
    mut login: Option<&mut Login>,
    lock: impl FnOnce() -> C,
) -> Outcome
where
    C: std::ops::DerefMut<Target = Cluster>,
{
    let bytes = frame.buffer.read();
    if let Some(login) = login.as_mut().filter(|login| login.awaits_bare_token()) {
        let token = bytes.get(frame.range.clone()).unwrap_or_default();
        return login.bare_token(token, now);
    }
    let Some(Ok((header, mut input))) = bytes.get(frame.range.clone()).map(decode_request_header) else {
        return Outcome::Hangup;
    };
    let to = ReplyTo {
        connection: frame.connection,
        correlation_id: header.correlation_id,
        version: header.api_version,
    };
    let is_served = is_served(header.api_key, header.api_version);
    if let Some(login) = login.as_mut() {
        let asked = Asked {
            key: header.api_key,
            is_served,
            to,
            now,
        };
        if let Some(outcome) = login.serve(asked, &mut input) {
            return outcome;
        }
    }
    if !is_served {
        return refuse(header.api_key, to);
    }
    let context = Context {
        now,
        broker: frame.broker,
        to,
        client_id: header.client_id.unwrap_or_default(),
        user: login
            .as_ref()
            .and_then(|login| login.principal())
            .unwrap_or(ANONYMOUS),
        client_host: frame.client_host,
        failing: frame.failing,
    };
    if header.api_key == ApiKey::PRODUCE {
        let asked = produce::Asked {
            now,
            broker: frame.broker,
            to,
            client: context.client(),
            request_bytes: frame.len_bytes(),
            failing: frame.failing,
        };
        let Ok(produce) = produce::Produce::read(to.version, &mut input, frame.buffer, frame.range.start)
        else {
            return Outcome::Hangup;
        };
        // Where the topic has LogAppendTime, the batch is written to on append.
        drop(bytes);
        let checked = produce.check().with_lie(frame.lie);
        return produce::serve(&mut lock(), asked, checked);
    }
    dispatch(&mut lock(), &context, header.api_key, &mut input).unwrap_or(Outcome::Hangup)
}

fn is_served(key: ApiKey, version: i16) -> bool {
    let is_produce_of_old = key == ApiKey::PRODUCE && version < *wire::produce::VERSIONS.start();
    !is_produce_of_old
        && SERVED
            .iter()
            .any(|(served, oldest, newest)| *served == key && (*oldest..=*newest).contains(&version))
}

fn refuse(key: ApiKey, to: ReplyTo) -> Outcome {
    if key != ApiKey::API_VERSIONS {
        return Outcome::Hangup;
    }
    let response = api_versions::response(ErrorCode::UNSUPPORTED_VERSION);
    Outcome::Answer(encode::<wire::messages::ApiVersionsRequest>(
        ReplyTo { version: 0, ..to },
        &response,
    ))
}

fn dispatch(
    cluster: &mut Cluster,
    context: &Context<'_>,
    key: ApiKey,
    input: &mut Reader<'_>,
) -> Option<Outcome> {
    match key {
        ApiKey::FETCH => return Some(fetch::serve(cluster, context, decode(context, input)?)),
        ApiKey::JOIN_GROUP => {
            join_group::serve(cluster, context, decode(context, input)?);
            return Some(Outcome::Later);
        }
        ApiKey::SYNC_GROUP => {
            sync_group::serve(cluster, context, decode(context, input)?);
            return Some(Outcome::Later);
        }
        _ => {}
    }
    let answer = match key {
        ApiKey::ADD_OFFSETS_TO_TXN => answer(cluster, context, input, add_offsets_to_txn::serve),
        ApiKey::ADD_PARTITIONS_TO_TXN => answer(cluster, context, input, add_partitions_to_txn::serve),
        ApiKey::ALTER_CLIENT_QUOTAS => answer(cluster, context, input, alter_client_quotas::serve),
        ApiKey::ALTER_CONFIGS => answer(cluster, context, input, alter_configs::serve),
        ApiKey::API_VERSIONS => answer(cluster, context, input, |_, _, request| {
            api_versions::serve(request)
        }),
        ApiKey::CONSUMER_GROUP_DESCRIBE => answer(cluster, context, input, consumer_group_describe::serve),
        ApiKey::CONSUMER_GROUP_HEARTBEAT => answer(cluster, context, input, consumer_group_heartbeat::serve),
        ApiKey::CREATE_PARTITIONS => answer(cluster, context, input, create_partitions::serve),
        ApiKey::CREATE_TOPICS => answer(cluster, context, input, create_topics::serve),
        ApiKey::DELETE_GROUPS => answer(cluster, context, input, delete_groups::serve),
        ApiKey::DELETE_RECORDS => answer(cluster, context, input, delete_records::serve),
        ApiKey::DELETE_TOPICS => answer(cluster, context, input, delete_topics::serve),
        ApiKey::DESCRIBE_CLIENT_QUOTAS => answer(cluster, context, input, describe_client_quotas::serve),
        ApiKey::DESCRIBE_CLUSTER => answer(cluster, context, input, describe_cluster::serve),
        ApiKey::DESCRIBE_CONFIGS => answer(cluster, context, input, describe_configs::serve),
        ApiKey::DESCRIBE_GROUPS => answer(cluster, context, input, describe_groups::serve),
        ApiKey::DESCRIBE_LOG_DIRS => answer(cluster, context, input, describe_log_dirs::serve),
        ApiKey::DESCRIBE_TOPIC_PARTITIONS => {
            answer(cluster, context, input, describe_topic_partitions::serve)
        }
        ApiKey::DESCRIBE_PRODUCERS => answer(cluster, context, input, describe_producers::serve),
        ApiKey::DESCRIBE_TRANSACTIONS => answer(cluster, context, input, describe_transactions::serve),
        ApiKey::END_TXN => answer(cluster, context, input, end_txn::serve),
        ApiKey::LIST_TRANSACTIONS => answer(cluster, context, input, list_transactions::serve),
        ApiKey::TXN_OFFSET_COMMIT => answer(cluster, context, input, txn_offset_commit::serve),
        ApiKey::WRITE_TXN_MARKERS => answer(cluster, context, input, write_txn_markers::serve),
        ApiKey::ELECT_LEADERS => answer(cluster, context, input, elect_leaders::serve),
        ApiKey::FIND_COORDINATOR => answer(cluster, context, input, find_coordinator::serve),
        ApiKey::HEARTBEAT => answer(cluster, context, input, heartbeat::serve),
        ApiKey::INCREMENTAL_ALTER_CONFIGS => {
            answer(cluster, context, input, incremental_alter_configs::serve)
        }
        ApiKey::INIT_PRODUCER_ID => answer(cluster, context, input, init_producer_id::serve),
        ApiKey::LEAVE_GROUP => answer(cluster, context, input, leave_group::serve),
        ApiKey::LIST_GROUPS => answer(cluster, context, input, list_groups::serve),
        ApiKey::LIST_OFFSETS => answer(cluster, context, input, list_offsets::serve),
        ApiKey::METADATA => answer(cluster, context, input, metadata::serve),
        ApiKey::OFFSET_COMMIT => answer(cluster, context, input, offset_commit::serve),
        ApiKey::OFFSET_DELETE => answer(cluster, context, input, offset_delete::serve),
        ApiKey::OFFSET_FETCH => answer(cluster, context, input, offset_fetch::serve),
        ApiKey::OFFSET_FOR_LEADER_EPOCH => answer(cluster, context, input, offset_for_leader_epoch::serve),
        ApiKey::SASL_AUTHENTICATE => answer(cluster, context, input, |_, _, request| {
            sasl_authenticate::serve(request)
        }),
        ApiKey::SASL_HANDSHAKE => answer(cluster, context, input, |_, _, request| {
            sasl_handshake::serve(request)
        }),
        _ => None,
    };
    answer.map(Outcome::Answer)
}

fn decode<M: Message>(context: &Context<'_>, input: &mut Reader<'_>) -> Option<M> {
    decode_request_body(context.to.version, input).ok()
}

fn answer<R: Request>(
    cluster: &mut Cluster,
    context: &Context<'_>,
    input: &mut Reader<'_>,
    serve: impl FnOnce(&mut Cluster, &Context<'_>, R) -> R::Response,
) -> Option<Answer> {
    let response = serve(cluster, context, decode(context, input)?);
    Some(encode::<R>(context.to, &response))
}

/// A response in the layout that the request asked for.
fn encode<R: Request>(to: ReplyTo, response: &R::Response) -> Answer {
    Answer::from_frame(encode_response_frame::<R>(
        to.correlation_id,
        to.version,
        response,
    ))
}

/// Books partitions that are to be created or deleted on a client, and notes for how long that holds it back (KIP-599).
///
/// # Errors
/// If its quota is used up and the request has a version, from `strict_from` on, whose clients try again by themselves.
fn book_mutations(
    cluster: &mut Cluster,
    context: &Context<'_>,
    partitions: usize,
    strict_from: i16,
    throttle_time_ms: &mut i32,
) -> Result<(), create_topics::Refusal> {
    let is_strict = context.to.version >= strict_from;
    let windows = cluster.settings.controller_quota_windows;
    let booked = cluster
        .quotas
        .mutate(&context.client(), partitions, is_strict, windows, context.now);
    let (Ok(ms) | Err(ms)) = booked;
    *throttle_time_ms = (*throttle_time_ms).max(i32::try_from(ms).unwrap_or(i32::MAX));
    booked.map(drop).map_err(|_| {
        let error = ErrorCode::THROTTLING_QUOTA_EXCEEDED;
        (error, error.describe().to_owned())
    })
}

/// Makes a request wait until `deadline` at the latest.
fn wait(cluster: &mut Cluster, request: WaitingRequest) -> u64 {
    let deadline = request.deadline;
    let id = cluster.waiting.insert(request);
    cluster.at(deadline, Timer::Waiting(id));
    id
}

/// Takes a request out of those that wait.
fn stop_waiting(cluster: &mut Cluster, id: u64) -> Option<WaitingRequest> {
    let request = cluster.waiting.remove(id)?;
    cluster.cancel(request.deadline, Timer::Waiting(id));
    match &request.awaited {
        Awaited::Fetch(fetch) => fetch::unregister(cluster, id, fetch),
        Awaited::Produce(produce) => produce::unregister(cluster, id, produce),
    }
    Some(request)
}

/// A request has waited as long as it may.
pub(crate) fn time_is_up(cluster: &mut Cluster, now: u64, id: u64) {
    if let Some(request) = stop_waiting(cluster, id) {
        finish(cluster, now, request);
    }
}

/// Something has changed that a waiting request may have to be told.
pub(crate) fn look_again(cluster: &mut Cluster, now: u64, id: u64) {
    let is_done = match cluster.waiting.get_mut(id).map(|request| &request.awaited) {
        // What a fetch may read has changed: it is answered as it stands.
        Some(Awaited::Fetch(_)) => true,
        Some(Awaited::Produce(_)) => produce::is_decided(cluster, id),
        None => false,
    };
    if is_done {
        time_is_up(cluster, now, id);
    }
}

/// Leaders or in-sync replicas have changed.
pub(crate) fn look_at_all_again(cluster: &mut Cluster, now: u64) {
    for id in cluster.waiting.ids() {
        look_again(cluster, now, id);
    }
}

/// Nobody reads the answers of this connection any more.
pub(crate) fn forget_connection(cluster: &mut Cluster, connection: ConnectionId) {
    if let Some(id) = cluster.waiting.on(connection) {
        stop_waiting(cluster, id);
    }
}

fn finish(cluster: &mut Cluster, now: u64, request: WaitingRequest) {
    let to = request.to;
    let answer = match request.awaited {
        Awaited::Fetch(fetch) => Some(fetch::answer(cluster, now, to, fetch)),
        Awaited::Produce(produce) => produce::answer(cluster, now, to, produce),
    };
    if let Some(answer) = answer {
        cluster.complete(to, answer);
    }
}
