//! WriteTxnMarkers (27), version 1: ends a transaction that hangs, as `kafka-transactions abort` does it.
//!
//! The brokers here write the markers of their own coordinator without it. Left out: the epochs of other coordinators, of
//! which there are none.

use super::Context;
use crate::cluster::Cluster;
use crate::log::Marker;
use wire::ErrorCode;
use wire::messages::write_txn_markers::{
    WritableTxnMarkerPartitionResult, WritableTxnMarkerResult, WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest, WriteTxnMarkersResponse,
};

pub(super) fn serve(
    cluster: &mut Cluster,
    context: &Context<'_>,
    request: WriteTxnMarkersRequest,
) -> WriteTxnMarkersResponse {
    let results = request.markers.into_iter().map(|asked| {
        let marker = Marker {
            producer_id: asked.producer_id,
            producer_epoch: asked.producer_epoch,
            coordinator_epoch: asked.coordinator_epoch,
            is_commit: asked.transaction_result,
        };
        let topics = asked.topics.into_iter().map(|topic| {
            let partitions = topic.partition_indexes.into_iter().map(|index| {
                let outcome = write(cluster, context, &topic.name, index, &marker);
                WritableTxnMarkerPartitionResult {
                    partition_index: index,
                    error_code: outcome.err().unwrap_or(ErrorCode::NONE),
                }
            });
            WritableTxnMarkerTopicResult {
                partitions: partitions.collect(),
                name: topic.name.clone(),
            }
        });
        WritableTxnMarkerResult {
            producer_id: asked.producer_id,
            topics: topics.collect(),
        }
    });
    WriteTxnMarkersResponse {
        markers: results.collect(),
    }
}

fn write(
    cluster: &mut Cluster,
    context: &Context<'_>,
    topic: &str,
    index: i32,
    marker: &Marker,
) -> Result<(), ErrorCode> {
    let key = cluster
        .topic_key(topic)
        .ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?;
    let partition = cluster.topic_at(key).and_then(|topic| topic.partition(index));
    partition
        .ok_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION)?
        .check_leader(context.broker, -1)?;
    cluster.append_marker(context.now, (key, index), marker)?;
    Ok(())
}
