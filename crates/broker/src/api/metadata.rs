//! Metadata (3), versions 0 to 13: brokers, topics, leaders; creates topics that are asked for by name where the client
//! and `auto.create.topics.enable` allow it.
//!
//! Left out: authorized operations, which are never told.

use super::{Context, create_topics};
use crate::cluster::{Cluster, Topic};
use crate::partition::Partition;
use wire::messages::metadata::{
    MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataResponseBroker,
    MetadataResponsePartition, MetadataResponseTopic,
};
use wire::{ErrorCode, Uuid};

pub(super) fn serve(
    cluster: &mut Cluster,
    context: &Context<'_>,
    request: MetadataRequest,
) -> MetadataResponse {
    let version = context.to.version;
    let everything = request
        .topics
        .as_ref()
        .is_none_or(|topics| version == 0 && topics.is_empty());
    let topics = if everything {
        cluster.topics().map(|topic| describe(cluster, topic)).collect()
    } else {
        let wanted = request.topics.unwrap_or_default();
        // Before version 4 clients could not say no.
        let may_create = version < 4 || request.allow_auto_topic_creation;
        wanted
            .into_iter()
            .map(|topic| one(cluster, context, topic, may_create))
            .collect()
    };
    MetadataResponse {
        brokers: cluster
            .nodes
            .up()
            .map(|node| MetadataResponseBroker {
                node_id: node.id,
                host: node.host.clone(),
                port: node.port.into(),
                ..MetadataResponseBroker::default()
            })
            .collect(),
        cluster_id: Some(cluster.id.clone()),
        controller_id: cluster.controller_id(),
        topics,
        ..MetadataResponse::default()
    }
}

fn one(
    cluster: &mut Cluster,
    context: &Context<'_>,
    wanted: MetadataRequestTopic,
    may_create: bool,
) -> MetadataResponseTopic {
    let Some(name) = wanted.name else {
        return match cluster.topic_by_id(wanted.topic_id) {
            Some(topic) => describe(cluster, topic),
            None => unknown(None, wanted.topic_id, ErrorCode::UNKNOWN_TOPIC_ID),
        };
    };
    if let Some(topic) = cluster.topic(&name) {
        return describe(cluster, topic);
    }
    if create_topics::check_name(&name).is_err() {
        return unknown(Some(name), Uuid::ZERO, ErrorCode::INVALID_TOPIC_EXCEPTION);
    }
    if !(may_create && cluster.settings.creates_topics) {
        return unknown(Some(name), Uuid::ZERO, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION);
    }
    match create_topics::create_by_default(cluster, context.now, &name) {
        Ok(()) => match cluster.topic(&name) {
            Some(topic) => describe(cluster, topic),
            None => unknown(Some(name), Uuid::ZERO, ErrorCode::UNKNOWN_TOPIC_OR_PARTITION),
        },
        Err((error, _)) => unknown(Some(name), Uuid::ZERO, error),
    }
}

fn unknown(name: Option<String>, topic_id: Uuid, error_code: ErrorCode) -> MetadataResponseTopic {
    // Before version 12 the name may not be null; one that is not known is the empty one.
    let name = name.or_else(|| Some(String::new()));
    MetadataResponseTopic {
        error_code,
        name,
        topic_id,
        ..MetadataResponseTopic::default()
    }
}

fn describe(cluster: &Cluster, topic: &Topic) -> MetadataResponseTopic {
    MetadataResponseTopic {
        name: Some(topic.name.clone()),
        topic_id: topic.id,
        partitions: topic
            .partitions
            .iter()
            .zip(0..)
            .map(|(partition, index)| describe_partition(cluster, partition, index))
            .collect(),
        ..MetadataResponseTopic::default()
    }
}

fn describe_partition(cluster: &Cluster, partition: &Partition, index: i32) -> MetadataResponsePartition {
    MetadataResponsePartition {
        error_code: if partition.leader().is_some() {
            ErrorCode::NONE
        } else {
            ErrorCode::LEADER_NOT_AVAILABLE
        },
        partition_index: index,
        leader_id: partition.leader().unwrap_or(-1),
        leader_epoch: partition.leader_epoch(),
        replica_nodes: partition.replicas().collect(),
        isr_nodes: partition.in_sync().collect(),
        offline_replicas: offline(cluster, partition),
    }
}

/// Replicas on brokers that do not run.
pub(super) fn offline(cluster: &Cluster, partition: &Partition) -> Vec<i32> {
    partition
        .replicas()
        .filter(|id| cluster.nodes.get(*id).is_none_or(|node| !node.is_up))
        .collect()
}
