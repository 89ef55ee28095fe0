//! ElectLeaders (43), versions 0 to 2: gives the lead back to first replicas, for partitions that are named or for all.
//!
//! Left out: unclean elections, which are refused; `unclean.leader.election.enable` decides about those.

use super::{Context, look_at_all_again};
use crate::cluster::Cluster;
use wire::ErrorCode;
use wire::messages::elect_leaders::{
    ElectLeadersRequest, ElectLeadersResponse, PartitionResult, ReplicaElectionResult,
};

const PREFERRED: i8 = 0;

pub(super) fn serve(
    cluster: &mut Cluster,
    context: &Context<'_>,
    request: ElectLeadersRequest,
) -> ElectLeadersResponse {
    if request.election_type != PREFERRED {
        return ElectLeadersResponse {
            error_code: ErrorCode::INVALID_REQUEST,
            ..ElectLeadersResponse::default()
        };
    }
    let is_for_all = request.topic_partitions.is_none();
    let wanted: Vec<(String, Vec<i32>)> = match request.topic_partitions {
        Some(named) => named
            .into_iter()
            .map(|topic| (topic.topic, topic.partitions))
            .collect(),
        None => cluster
            .topics()
            .map(|topic| (topic.name.clone(), (0..topic.partitions.len() as i32).collect()))
            .collect(),
    };
    let mut results = Vec::with_capacity(wanted.len());
    for (topic, partitions) in wanted {
        let mut partition_result = Vec::with_capacity(partitions.len());
        for partition_id in partitions {
            let error_code = elect(cluster, context.now, &topic, partition_id)
                .err()
                .unwrap_or(ErrorCode::NONE);
            // Who asks for all wants to hear of those that were elected, not of those that were in place.
            if !(is_for_all && error_code == ErrorCode::ELECTION_NOT_NEEDED) {
                let error_message = error_code.is_error().then(|| error_code.describe().to_owned());
                partition_result.push(PartitionResult {
                    partition_id,
                    error_code,
                    error_message,
                });
            }
        }
        if !partition_result.is_empty() {
            results.push(ReplicaElectionResult {
                topic,
                partition_result,
            });
        }
    }
    look_at_all_again(cluster, context.now);
    ElectLeadersResponse {
        replica_election_results: results,
        ..ElectLeadersResponse::default()
    }
}

fn elect(cluster: &mut Cluster, now: u64, topic: &str, index: i32) -> Result<(), ErrorCode> {
    let unknown = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
    let key = cluster.topic_key(topic).ok_or(unknown)?;
    let (topic, nodes) = cluster.topic_and_nodes(key).ok_or(unknown)?;
    let partition = topic.partition_mut(index).ok_or(unknown)?;
    if partition.leader().is_some() && partition.leader() == partition.replicas().next() {
        return Err(ErrorCode::ELECTION_NOT_NEEDED);
    }
    match partition.prefer_first(nodes, now) {
        true => Ok(()),
        false => Err(ErrorCode::PREFERRED_LEADER_NOT_AVAILABLE),
    }
}
