//! DeleteRecords (21), versions 0 to 2: moves the start of a log. Nothing left out.

use super::Context;
use crate::cluster::Cluster;
use wire::ErrorCode;
use wire::messages::delete_records::{
    DeleteRecordsPartitionResult, DeleteRecordsRequest, DeleteRecordsResponse, DeleteRecordsTopicResult,
};

/// The offset that stands for the high watermark.
const HIGH_WATERMARK: i64 = -1;

pub(super) fn serve(
    cluster: &mut Cluster,
    context: &Context<'_>,
    request: DeleteRecordsRequest,
) -> DeleteRecordsResponse {
    let topics = request.topics.into_iter().map(|topic| DeleteRecordsTopicResult {
        partitions: topic
            .partitions
            .into_iter()
            .map(|partition| {
                let outcome = delete(
                    cluster,
                    context.broker,
                    &topic.name,
                    partition.partition_index,
                    partition.offset,
                );
                DeleteRecordsPartitionResult {
                    partition_index: partition.partition_index,
                    low_watermark: outcome.unwrap_or(-1),
                    error_code: outcome.err().unwrap_or(ErrorCode::NONE),
                }
            })
            .collect(),
        name: topic.name,
    });
    DeleteRecordsResponse {
        topics: topics.collect(),
        ..DeleteRecordsResponse::default()
    }
}

fn delete(
    cluster: &mut Cluster,
    broker: i32,
    topic: &str,
    index: i32,
    offset: i64,
) -> Result<i64, ErrorCode> {
    let unknown = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
    let key = cluster.topic_key(topic).ok_or(unknown)?;
    let partition = cluster
        .topic_at_mut(key)
        .and_then(|topic| topic.partition_mut(index))
        .ok_or(unknown)?;
    partition.check_leader(broker, -1)?;
    let offset = if offset == HIGH_WATERMARK {
        partition.high_watermark()
    } else {
        offset
    };
    if !(0..=partition.high_watermark()).contains(&offset) {
        return Err(ErrorCode::OFFSET_OUT_OF_RANGE);
    }
    partition.delete_before(offset);
    Ok(partition.log().start_offset())
}
