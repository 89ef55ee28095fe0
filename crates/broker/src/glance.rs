//! What a script of the measuring rig needs to know of a request.

use crate::api::Frame;
use crate::cluster::Cluster;
use crate::rig::Described;
use wire::codec::Message;
use wire::fetch::FetchRequest;
use wire::header::decode_request_header;
use wire::produce::ProduceRequestRef;
use wire::{ApiKey, Uuid};

/// A partition that a request names.
#[derive(Debug)]
struct Named {
    /// Empty where it is named by id and was not looked for.
    topic: String,
    id: Uuid,
    index: i32,
    batch_bytes: u64,
}

/// What is read of a request before it is served.
#[derive(Debug)]
pub(crate) struct Glance {
    pub(crate) api: ApiKey,
    pub(crate) version: i16,
    pub(crate) correlation_id: i32,
    partitions: Vec<Named>,
    /// The fetch session that it goes on with: what that holds is asked for, too.
    session_id: Option<i32>,
    pub(crate) batch_bytes: u64,
    waits_for_all: bool,
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
            partitions: Vec::new(),
            session_id: None,
            batch_bytes: 0,
            waits_for_all: false,
        };
        match header.api_key {
            ApiKey::PRODUCE => {
                let request = ProduceRequestRef::decode(header.api_version, &mut input).ok()?;
                glance.waits_for_all = request.acks == -1;
                for partition in request.partitions {
                    let batch_bytes = partition.records.map_or(0, |range| range.len() as u64);
                    glance.batch_bytes += batch_bytes;
                    glance.partitions.push(Named {
                        topic: partition.topic.to_owned(),
                        id: partition.topic_id,
                        index: partition.index,
                        batch_bytes,
                    });
                }
            }
            ApiKey::FETCH => {
                let request = FetchRequest::decode(header.api_version, &mut input).ok()?;
                glance.session_id = (request.session_epoch > 0).then_some(request.session_id);
                for topic in request.topics {
                    let named = topic.partitions.iter().map(|partition| Named {
                        topic: topic.topic.clone(),
                        id: topic.topic_id,
                        index: partition.partition,
                        batch_bytes: 0,
                    });
                    glance.partitions.extend(named);
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
            let held = held.map(|(topic, id, index)| Named {
                topic: topic.to_owned(),
                id,
                index,
                batch_bytes: 0,
            });
            self.partitions.extend(held);
        }
        for named in &mut self.partitions {
            if named.topic.is_empty()
                && let Some(topic) = cluster.topic_by_id(named.id)
            {
                named.topic.clone_from(&topic.name);
            }
        }
    }

    pub(crate) fn described(&self, broker: i32) -> Described<'_> {
        Described {
            broker,
            api: self.api,
            partitions: self
                .partitions
                .iter()
                .map(|named| (named.topic.as_str(), named.index))
                .collect(),
            batch_bytes: self.batch_bytes,
            waits_for_all: self.waits_for_all,
        }
    }

    /// Bytes of the batches for partitions that `follower` follows and is in sync in; `None` if there is no such partition.
    pub(crate) fn followed_bytes(&self, cluster: &Cluster, follower: i32) -> Option<u64> {
        let followed = self.partitions.iter().filter(|named| {
            let topic = if named.id.is_zero() {
                cluster.topic(&named.topic)
            } else {
                cluster.topic_by_id(named.id)
            };
            let partition = topic.and_then(|topic| topic.partition(named.index));
            partition.is_some_and(|partition| {
                partition.leader() != Some(follower) && partition.in_sync().any(|id| id == follower)
            })
        });
        followed
            .map(|named| named.batch_bytes)
            .reduce(|sum, bytes| sum + bytes)
    }
}
