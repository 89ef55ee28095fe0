//! DescribeLogDirs (35), versions 1 to 4: how many bytes each replica on this broker has.
//!
//! There is no directory: the one that is named stands for memory. Its total is what all brokers of the process may use
//! together. How much of it is usable is left out (−1, not told): the oldest records make way for new ones, so it never
//! fills up, and a tool that holds a load against the free space would be misled. Followers are positions in their leader's
//! log, so what they show takes no memory.

use super::Context;
use crate::cluster::Cluster;
use std::collections::{BTreeMap, HashMap, HashSet};
use wire::messages::describe_log_dirs::{
    DescribeLogDirsPartition, DescribeLogDirsRequest, DescribeLogDirsResponse, DescribeLogDirsResult,
    DescribeLogDirsTopic,
};

/// The name under which memory is shown.
const MEMORY: &str = "/memory";

pub(super) fn serve(
    cluster: &mut Cluster,
    context: &Context<'_>,
    request: DescribeLogDirsRequest,
) -> DescribeLogDirsResponse {
    let wanted: Option<HashMap<String, HashSet<i32>>> = request.topics.map(|topics| {
        topics
            .into_iter()
            .map(|topic| (topic.topic, topic.partitions.into_iter().collect()))
            .collect()
    });
    let is_wanted = |topic: &str, index: i32| match &wanted {
        None => true,
        Some(wanted) => wanted
            .get(topic)
            .is_some_and(|partitions| partitions.contains(&index)),
    };
    let mut topics: BTreeMap<&str, Vec<DescribeLogDirsPartition>> = BTreeMap::new();
    for (topic, index, len_bytes, lag) in cluster.replicas_on(context.broker) {
        if is_wanted(&topic.name, index) {
            topics
                .entry(&topic.name)
                .or_default()
                .push(DescribeLogDirsPartition {
                    partition_index: index,
                    partition_size: len_bytes as i64,
                    offset_lag: lag,
                    is_future_key: false,
                });
        }
    }
    let topics = topics.into_iter().map(|(name, partitions)| DescribeLogDirsTopic {
        name: name.to_owned(),
        partitions,
    });
    let result = DescribeLogDirsResult {
        log_dir: MEMORY.to_owned(),
        topics: topics.collect(),
        total_bytes: cluster.memory_bytes as i64,
        usable_bytes: -1,
        ..DescribeLogDirsResult::default()
    };
    DescribeLogDirsResponse {
        results: vec![result],
        ..DescribeLogDirsResponse::default()
    }
}
