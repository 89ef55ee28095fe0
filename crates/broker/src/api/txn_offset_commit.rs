//! TxnOffsetCommit (28), versions 0 to 5: commits a group's offsets with a producer's transaction.
//!
//! From version 5 on, the commit itself makes the group part of the transaction (KIP-890). Nothing left out.

use super::Context;
use super::offset_commit::check_offset;
use crate::cluster::Cluster;
use crate::group::{CommittedOffset, Speaker};
use crate::transaction::ProducerKey;
use wire::ErrorCode;
use wire::messages::txn_offset_commit::{
    TxnOffsetCommitRequest, TxnOffsetCommitRequestPartition, TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic,
};

/// From this version on, the commit adds the group to the transaction.
const ADDS_FROM: i16 = 5;

pub(super) fn serve(
    cluster: &mut Cluster,
    context: &Context<'_>,
    request: TxnOffsetCommitRequest,
) -> TxnOffsetCommitResponse {
    let admitted = admit(cluster, context, &request);
    let (group, producer_id) = (&request.group_id, request.producer_id);
    let topics = request.topics.into_iter().map(|topic| {
        let partitions = topic.partitions.into_iter().map(|partition| {
            let partition_index = partition.partition_index;
            let outcome = admitted
                .and_then(|()| commit(cluster, context.now, group, producer_id, &topic.name, partition));
            TxnOffsetCommitResponsePartition {
                partition_index,
                error_code: outcome.err().unwrap_or(ErrorCode::NONE),
            }
        });
        TxnOffsetCommitResponseTopic {
            partitions: partitions.collect(),
            name: topic.name,
        }
    });
    TxnOffsetCommitResponse {
        topics: topics.collect(),
        ..TxnOffsetCommitResponse::default()
    }
}

fn admit(
    cluster: &mut Cluster,
    context: &Context<'_>,
    request: &TxnOffsetCommitRequest,
) -> Result<(), ErrorCode> {
    let group = &request.group_id;
    cluster.check_coordinator(group, context.broker)?;
    let is_member = !request.member_id.is_empty() || request.generation_id_or_member_epoch >= 0;
    if is_member {
        let speaker = Speaker {
            member_id: &request.member_id,
            instance_id: request.group_instance_id.as_deref(),
            generation: request.generation_id_or_member_epoch,
        };
        cluster.with_group(context.now, group, |group, now, _| group.may_commit(now, speaker))?;
    }
    let producer = ProducerKey {
        id: request.producer_id,
        epoch: request.producer_epoch,
    };
    let id = &request.transactional_id;
    let outcome = if context.to.version >= ADDS_FROM {
        cluster.add_to_transaction(context.now, id, producer, &[], Some(group))
    } else {
        cluster.is_group_in_transaction(id, producer, group)
    };
    outcome.map_err(|error| match error {
        // What Kafka tells a producer here, whatever its coordinator of transactions calls it.
        ErrorCode::PRODUCER_FENCED => ErrorCode::INVALID_PRODUCER_EPOCH,
        ErrorCode::CONCURRENT_TRANSACTIONS if context.to.version < ADDS_FROM => {
            ErrorCode::COORDINATOR_LOAD_IN_PROGRESS
        }
        error => error,
    })
}

fn commit(
    cluster: &mut Cluster,
    now: u64,
    group: &str,
    producer_id: i64,
    topic: &str,
    partition: TxnOffsetCommitRequestPartition,
) -> Result<(), ErrorCode> {
    let metadata = partition.committed_metadata.unwrap_or_default();
    check_offset(cluster, topic, partition.partition_index, &metadata)?;
    let committed = CommittedOffset {
        offset: partition.committed_offset,
        leader_epoch: partition.committed_leader_epoch,
        metadata,
    };
    let place = (topic.to_owned(), partition.partition_index);
    cluster.with_group(now, group, |group, _, _| {
        group.commit_in_transaction(producer_id, place, committed);
    });
    Ok(())
}
