//! What a script of the measuring rig needs to know of a request, and the answers that it gives in a request's place.

use crate::answer::Answer;
use crate::api::Frame;
use crate::cluster::Cluster;
use crate::rig::Described;
use wire::codec::Message;
use wire::fetch::{
    FetchRequest, FetchResponseHead, FetchResponsePartition, FetchResponseTopic, encode_fetch_response,
};
use wire::header::decode_request_header;
use wire::produce::{
    PartitionProduceResponse, ProduceRequestRef, ProduceResponse, TopicProduceResponse,
    encode_produce_response,
};
use wire::{ApiKey, ErrorCode, Uuid};

/// What is read of a request before it is served.
#[derive(Debug)]
pub(crate) struct Glance {
    pub(crate) api: ApiKey,
    pub(crate) version: i16,
    pub(crate) correlation_id: i32,
    topics: Vec<String>,
    partitions: Vec<(String, Uuid, i32)>,
    /// The fetch session that it goes on with: what that holds is asked for, too.
    session_id: Option<i32>,
    pub(crate) batch_bytes: u64,
    waits_for_all: bool,
    asks_for_no_answer: bool,
}

impl Glance {
    /// Looks at a request; `None` for one that cannot be read, which is not the rig's business.
    pub(crate) fn at(frame: &Frame<'_>) -> Option<Glance> {
        let bytes = frame.buffer.read();
        let (header, mut input) = decode_request_header(bytes.get(frame.range.clone())?).ok()?;
        let mut glance = Glance {
            api: header.api_key,
            version: header.api_version,
            correlation_id: header.correlation_id,
            topics: Vec::new(),
            partitions: Vec::new(),
            session_id: None,
            batch_bytes: 0,
            waits_for_all: false,
            asks_for_no_answer: false,
        };
        match header.api_key {
            ApiKey::PRODUCE => {
                let request = ProduceRequestRef::decode(header.api_version, &mut input).ok()?;
                glance.waits_for_all = request.acks == -1;
                glance.asks_for_no_answer = request.acks == 0;
                for partition in request.partitions {
                    glance.batch_bytes += partition.records.map_or(0, |range| range.len() as u64);
                    let place = (partition.topic.to_owned(), partition.topic_id, partition.index);
                    glance.partitions.push(place);
                }
            }
            ApiKey::FETCH => {
                let request = FetchRequest::decode(header.api_version, &mut input).ok()?;
                glance.session_id = (request.session_epoch > 0).then_some(request.session_id);
                for topic in request.topics {
                    let name = topic.topic;
                    let places = topic.partitions.iter();
                    let places = places.map(|partition| (name.clone(), topic.topic_id, partition.partition));
                    glance.partitions.extend(places);
                }
            }
            _ => {}
        }
        Some(glance)
    }

    /// Finds the topics that the request is about without naming them: by their ids, or by a fetch session of `broker`.
    pub(crate) fn find_topics(&mut self, cluster: &Cluster, broker: i32) {
        if let Some(id) = self.session_id.take() {
            let held = cluster.fetch_sessions.held(broker, id);
            let held = held.map(|(name, id, index)| (name.to_owned(), id, index));
            self.partitions.extend(held);
            // Those that changed are in both.
            self.partitions.sort();
            self.partitions.dedup();
        }
        for (name, id, _) in &mut self.partitions {
            if name.is_empty()
                && let Some(topic) = cluster.topic_by_id(*id)
            {
                name.clone_from(&topic.name);
            }
        }
        self.topics = self.partitions.iter().map(|(name, ..)| name.clone()).collect();
        self.topics.dedup();
    }

    pub(crate) fn described(&self, broker: i32) -> Described<'_> {
        Described {
            broker,
            api: self.api,
            topics: self.topics.iter().map(String::as_str).collect(),
            batch_bytes: self.batch_bytes,
            waits_for_all: self.waits_for_all,
        }
    }

    /// Whether `follower` is in sync in a partition that the request writes to, and does not lead it.
    pub(crate) fn has_in_sync(&self, cluster: &Cluster, follower: i32) -> bool {
        self.partitions.iter().any(|(name, _, index)| {
            let partition = cluster.topic(name).and_then(|topic| topic.partition(*index));
            partition.is_some_and(|partition| {
                partition.leader() != Some(follower) && partition.in_sync().any(|id| id == follower)
            })
        })
    }

    /// The answer that says that every partition failed with `error`; `None` where the request asks for none, or is not one
    /// of those that have such an answer.
    pub(crate) fn failed(&self, frame: &Frame<'_>, error: ErrorCode) -> Option<Answer> {
        let bytes = frame.buffer.read();
        let (header, mut input) = decode_request_header(bytes.get(frame.range.clone())?).ok()?;
        match header.api_key {
            ApiKey::PRODUCE if !self.asks_for_no_answer => {
                let request = ProduceRequestRef::decode(header.api_version, &mut input).ok()?;
                let mut response = ProduceResponse::default();
                for partition in request.partitions {
                    let is_same = response.responses.last().is_some_and(|topic| {
                        topic.name == partition.topic && topic.topic_id == partition.topic_id
                    });
                    if !is_same {
                        response.responses.push(TopicProduceResponse {
                            name: partition.topic.to_owned(),
                            topic_id: partition.topic_id,
                            partition_responses: Vec::new(),
                        });
                    }
                    if let Some(topic) = response.responses.last_mut() {
                        topic.partition_responses.push(PartitionProduceResponse {
                            index: partition.index,
                            error_code: error,
                            base_offset: -1,
                            ..PartitionProduceResponse::default()
                        });
                    }
                }
                let frame = encode_produce_response(header.correlation_id, header.api_version, &response);
                Some(Answer::from_bytes(frame))
            }
            ApiKey::FETCH => {
                let request = FetchRequest::decode(header.api_version, &mut input).ok()?;
                let partitions: Vec<Vec<FetchResponsePartition<'_>>> = request
                    .topics
                    .iter()
                    .map(|topic| {
                        topic
                            .partitions
                            .iter()
                            .map(|wanted| failed_partition(wanted.partition, error))
                            .collect()
                    })
                    .collect();
                let topics: Vec<FetchResponseTopic<'_>> = request
                    .topics
                    .iter()
                    .zip(&partitions)
                    .map(|(topic, partitions)| FetchResponseTopic {
                        name: &topic.topic,
                        topic_id: topic.topic_id,
                        partitions,
                    })
                    .collect();
                let head = FetchResponseHead {
                    correlation_id: header.correlation_id,
                    version: header.api_version,
                    throttle_time_ms: 0,
                    error_code: ErrorCode::NONE,
                    session_id: 0,
                    node_endpoints: &[],
                };
                let (mut frame, mut cuts) = (Vec::new(), Vec::new());
                encode_fetch_response(&head, &topics, &mut frame, &mut cuts);
                Some(Answer::from_bytes(frame))
            }
            _ => None,
        }
    }
}

fn failed_partition(index: i32, error_code: ErrorCode) -> FetchResponsePartition<'static> {
    FetchResponsePartition {
        index,
        error_code,
        high_watermark: -1,
        last_stable_offset: -1,
        log_start_offset: -1,
        diverging_epoch: None,
        current_leader: None,
        aborted_transactions: None,
        preferred_read_replica: -1,
        records_bytes: 0,
    }
}
