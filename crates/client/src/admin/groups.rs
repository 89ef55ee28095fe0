//! Consumer groups and what they have committed.

use super::call::{Answer, To};
use super::{Admin, AdminError, TopicPartition};
use crate::rights::Refusal;
use std::collections::BTreeMap;
use wire::codec::Message;
use wire::consumer_protocol::{self, ConsumerProtocolAssignment};
use wire::messages::delete_groups::DeleteGroupsRequest;
use wire::messages::describe_groups::DescribeGroupsRequest;
use wire::messages::find_coordinator::{FindCoordinatorRequest, FindCoordinatorResponse};
use wire::messages::list_groups::ListGroupsRequest;
use wire::messages::offset_fetch::{OffsetFetchRequest, OffsetFetchRequestGroup};
use wire::{ApiKey, ErrorCode};

/// A group as its coordinator lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedGroup {
    /// Its id.
    pub group_id: String,
    /// `consumer` for consumers.
    pub protocol_type: String,
    /// Its state, such as `Stable` or `Empty`; absent before Kafka 2.6.
    pub state: Option<String>,
    /// `classic`, `consumer` or `share`; absent before Kafka 3.8.
    pub kind: Option<String>,
    /// Its coordinator.
    pub coordinator: i32,
}

/// A classic group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupDescription {
    /// Its id.
    pub group_id: String,
    /// Its state, such as `Stable` or `Empty`.
    pub state: String,
    /// `consumer` for consumers.
    pub protocol_type: String,
    /// The assignor in use.
    pub assignor: String,
    /// Its members.
    pub members: Vec<GroupMember>,
}

/// A member of a classic group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMember {
    /// Its id.
    pub member_id: String,
    /// The name of a static member.
    pub group_instance_id: Option<String>,
    /// Its client id.
    pub client_id: String,
    /// The host that it connects from.
    pub client_host: String,
    /// What it is assigned; empty if that cannot be read.
    pub assigned: Vec<TopicPartition>,
}

impl Admin {
    /// All groups that the principal may see, by id.
    ///
    /// # Errors
    ///
    /// When a broker refuses, or does not answer in time.
    pub fn list_groups(&mut self) -> Result<Vec<ListedGroup>, AdminError> {
        let brokers: Vec<i32> = self.cluster()?.brokers.into_keys().collect();
        let until_ns = self.until_ns();
        let calls: Vec<(To, ListGroupsRequest)> = brokers
            .iter()
            .map(|&id| (To::Broker(id), ListGroupsRequest::default()))
            .collect();
        let answers = self.call_many(&calls, ListGroupsRequest::VERSIONS, until_ns);
        let mut groups = Vec::new();
        for (&coordinator, answer) in brokers.iter().zip(answers) {
            let Answer { message, version, .. } = answer?;
            Refusal::check(ApiKey::LIST_GROUPS, message.error_code, None, "")?;
            groups.extend(message.groups.into_iter().map(|group| ListedGroup {
                group_id: group.group_id,
                protocol_type: group.protocol_type,
                state: (version >= 4).then_some(group.group_state),
                kind: (version >= 5).then_some(group.group_type),
                coordinator,
            }));
        }
        groups.sort_by(|a, b| a.group_id.cmp(&b.group_id));
        Ok(groups)
    }

    /// A classic group; `None` if there is no such group.
    ///
    /// # Errors
    ///
    /// The coordinator's refusal, or that it did not answer in time.
    pub fn describe_group(&mut self, group_id: &str) -> Result<Option<GroupDescription>, AdminError> {
        let until_ns = self.until_ns();
        loop {
            let request = DescribeGroupsRequest {
                groups: vec![group_id.to_owned()],
                include_authorized_operations: false,
            };
            let coordinator = self.coordinator(group_id, until_ns)?;
            let answer =
                self.call_within(coordinator, DescribeGroupsRequest::VERSIONS, &request, until_ns)?;
            let Some(group) = answer.message.groups.into_iter().next() else {
                return Ok(None);
            };
            if self.is_worth_repeating(group.error_code, until_ns) {
                self.back_off(true, until_ns)?;
                continue;
            }
            if group.error_code == ErrorCode::GROUP_ID_NOT_FOUND || group.group_state == "Dead" {
                return Ok(None);
            }
            Refusal::check(
                ApiKey::DESCRIBE_GROUPS,
                group.error_code,
                group.error_message,
                group_id,
            )?;
            return Ok(Some(GroupDescription {
                group_id: group.group_id,
                state: group.group_state,
                protocol_type: group.protocol_type,
                assignor: group.protocol_data,
                members: group
                    .members
                    .into_iter()
                    .map(|member| GroupMember {
                        assigned: assigned_in(&member.member_assignment),
                        member_id: member.member_id,
                        group_instance_id: member.group_instance_id,
                        client_id: member.client_id,
                        client_host: member.client_host,
                    })
                    .collect(),
            }));
        }
    }

    /// Deletes groups without members. Each one's outcome stands at its place.
    ///
    /// # Errors
    ///
    /// When a coordinator does not answer in time.
    pub fn delete_groups(&mut self, group_ids: &[String]) -> Result<Vec<Result<(), Refusal>>, AdminError> {
        let until_ns = self.until_ns();
        let mut outcomes = Vec::with_capacity(group_ids.len());
        for group_id in group_ids {
            let outcome = loop {
                let coordinator = self.coordinator(group_id, until_ns)?;
                let request = DeleteGroupsRequest {
                    groups_names: vec![group_id.clone()],
                };
                let answer =
                    self.call_within(coordinator, DeleteGroupsRequest::VERSIONS, &request, until_ns)?;
                let error = answer
                    .message
                    .results
                    .first()
                    .map_or(ErrorCode::NONE, |result| result.error_code);
                if self.is_worth_repeating(error, until_ns) {
                    self.back_off(true, until_ns)?;
                    continue;
                }
                if error == ErrorCode::GROUP_ID_NOT_FOUND && answer.repeated {
                    break Ok(());
                }
                break Refusal::check(ApiKey::DELETE_GROUPS, error, None, group_id);
            };
            outcomes.push(outcome);
        }
        Ok(outcomes)
    }

    /// The offsets that a group has committed.
    ///
    /// # Errors
    ///
    /// The coordinator's refusal, or that it did not answer in time.
    pub fn committed_offsets(&mut self, group_id: &str) -> Result<BTreeMap<TopicPartition, i64>, AdminError> {
        let until_ns = self.until_ns();
        loop {
            let request = OffsetFetchRequest {
                group_id: group_id.to_owned(),
                topics: None,
                groups: vec![OffsetFetchRequestGroup {
                    group_id: group_id.to_owned(),
                    topics: None,
                    ..Default::default()
                }],
                require_stable: false,
            };
            let coordinator = self.coordinator(group_id, until_ns)?;
            // Version 1 cannot ask for all topics.
            let message = self.call_within(coordinator, 2..=9, &request, until_ns)?.message;
            let mut error = message.error_code;
            let mut committed = BTreeMap::new();
            let mut add = |topic: &str, index: i32, offset: i64| {
                if offset >= 0 {
                    committed.insert((topic.to_owned(), index), offset);
                }
            };
            for topic in &message.topics {
                topic
                    .partitions
                    .iter()
                    .for_each(|p| add(&topic.name, p.partition_index, p.committed_offset));
            }
            for group in message.groups.iter().filter(|group| group.group_id == group_id) {
                error = group.error_code;
                for topic in &group.topics {
                    topic
                        .partitions
                        .iter()
                        .for_each(|p| add(&topic.name, p.partition_index, p.committed_offset));
                }
            }
            if !self.is_worth_repeating(error, until_ns) {
                Refusal::check(ApiKey::OFFSET_FETCH, error, None, group_id)?;
                return Ok(committed);
            }
            self.back_off(true, until_ns)?;
        }
    }

    fn coordinator(&mut self, group_id: &str, until_ns: u64) -> Result<To, AdminError> {
        loop {
            let request = FindCoordinatorRequest {
                key: group_id.to_owned(),
                key_type: 0,
                coordinator_keys: vec![group_id.to_owned()],
            };
            let answer = self.call_within(To::Any, FindCoordinatorRequest::VERSIONS, &request, until_ns)?;
            let (error, message, id) = found_coordinator(answer.version, answer.message);
            if error == ErrorCode::NONE {
                return Ok(To::Broker(id));
            }
            if !self.is_worth_repeating(error, until_ns) {
                return Err(Refusal::new(ApiKey::FIND_COORDINATOR, error, message, group_id).into());
            }
            self.back_off(true, until_ns)?;
        }
    }
}

/// Error, explanation and node id in an answer to FindCoordinator about one key.
pub(crate) fn found_coordinator(
    version: i16,
    message: FindCoordinatorResponse,
) -> (ErrorCode, Option<String>, i32) {
    if version < 4 {
        return (message.error_code, message.error_message, message.node_id);
    }
    match message.coordinators.into_iter().next() {
        Some(found) => (found.error_code, found.error_message, found.node_id),
        None => (ErrorCode::COORDINATOR_NOT_AVAILABLE, None, -1),
    }
}

fn assigned_in(bytes: &[u8]) -> Vec<TopicPartition> {
    let Ok(assignment) = consumer_protocol::decode::<ConsumerProtocolAssignment>(bytes) else {
        return Vec::new();
    };
    assignment
        .assigned_partitions
        .into_iter()
        .flat_map(|topic| {
            let name = topic.topic;
            topic
                .partitions
                .into_iter()
                .map(move |partition| (name.clone(), partition))
        })
        .collect()
}
