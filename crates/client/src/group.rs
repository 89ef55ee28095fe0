//! A member of a consumer group, as a state machine: finding the coordinator, joining, assigning when it leads, heartbeats,
//! commits and leaving.
//!
//! It speaks Kafka's classic protocol, eager (a member gives up all its partitions before it joins again) or cooperative (it
//! gives up only what it loses), and the newer one of KIP-848, in which the coordinator assigns. A JoinGroup stays at the coordinator until all members have joined, so a group has connections of its own: fetches must
//! not wait behind it.
//!
//! A [`Group`] without topics joins nothing: it only commits and reads offsets, as a consumer with partitions of its own
//! choice does.

mod assignor;

use crate::admin::{TopicPartition, found_coordinator};
use crate::cluster::{Cluster, ClusterConfig, ClusterEvent, Node, SendError, nanos};
use crate::net::{ConnId, Frame, NetAction, NetEvent};
use crate::rights::Refusal;
use assignor::{Owned, Subscriber};
use model::client_config::{AssignmentStrategy, ConsumerConfig, GroupProtocol};
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::time::Duration;
use wire::codec::{Message, Reader, Uuid};
use wire::consumer_protocol::{self, ConsumerProtocolAssignment, PROTOCOL_TYPE};
use wire::messages::consumer_group_heartbeat::{
    self, ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse,
};
use wire::messages::find_coordinator::{FindCoordinatorRequest, FindCoordinatorResponse};
use wire::messages::heartbeat::{HeartbeatRequest, HeartbeatResponse};
use wire::messages::join_group::{
    JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse, JoinGroupResponseMember,
};
use wire::messages::leave_group::{LeaveGroupRequest, MemberIdentity};
use wire::messages::offset_commit::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitRequestTopic, OffsetCommitResponse,
};
use wire::messages::offset_fetch::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
    OffsetFetchResponse,
};
use wire::messages::sync_group::{SyncGroupRequest, SyncGroupRequestAssignment, SyncGroupResponse};
use wire::{ApiKey, DecodeError, ErrorCode};

/// No answer of a coordinator is larger.
const MAX_FRAME_BYTES: usize = 64 << 20;
/// A JoinGroup may be answered this much later than the rebalance timeout, as in the Java client.
const JOIN_LAPSE: Duration = Duration::from_secs(5);
/// `member_epoch` of a member that joins a group of the newer protocol, and of one that leaves it.
const JOINS: i32 = 0;
const LEAVES: i32 = -1;
/// How often a leader looks for a subscribed topic that does not exist.
const MISSING_TOPIC_LOOK_NS: u64 = 1_000_000_000;

/// A position to be committed: the offset of the next record to be read.
pub type Commit = (TopicPartition, i64);

/// What a group tells its user.
#[derive(Debug, Clone, PartialEq)]
pub enum GroupEvent {
    /// The group rebalances: the user may commit, has to give up its partitions, and then calls [`Group::rejoin`].
    RebalanceStarted {
        /// Whether the member keeps its partitions meanwhile, and is told with the next assignment which to give up.
        keeps: bool,
    },
    /// The coordinator has thrown the member out: its partitions belong to others and no commit would be taken. It
    /// joins anew by itself.
    Lost {
        /// What the coordinator said.
        error: ErrorCode,
    },
    /// The member has its partitions.
    Assigned {
        /// The group's generation.
        generation: i32,
        /// The partitions, by topic and index.
        partitions: Vec<TopicPartition>,
        /// Whether the member keeps those that it has and that are among them. Those that are not are to be given up, and then
        /// [`Group::rejoin`] is to be called.
        keeps: bool,
    },
    /// A commit has ended.
    Committed {
        /// What was to be committed.
        commits: Vec<Commit>,
        /// Whether it was.
        result: Result<(), String>,
    },
    /// The committed offsets that were asked for; `None` where there is none.
    Offsets(Vec<(TopicPartition, Option<i64>)>),
    /// It cannot go on, and why.
    Failed {
        /// For the user.
        reason: String,
    },
    /// It has left, or has given up leaving.
    Left,
}

/// Where a member stands.
#[derive(Debug)]
enum State {
    /// Joins nothing.
    Apart,
    /// Is to join, not before that time.
    Outside { join_at_ns: u64 },
    /// The user has to give up its partitions.
    Revoking,
    /// JoinGroup is at the coordinator.
    Joining,
    /// In the new generation, without an assignment yet.
    Joined { duty: Duty },
    /// SyncGroup is at the coordinator.
    Syncing,
    /// A member with an assignment.
    Stable,
    /// Leaves as soon as what is to be committed is committed, not beyond that time.
    Leaving { until_ns: u64, is_sent: bool },
    /// Has left.
    Gone,
}

/// What a member has to do before it asks for its assignment.
#[derive(Debug)]
enum Duty {
    /// Nothing: another one leads.
    None,
    /// To assign, once metadata is there.
    Assign(Vec<JoinGroupResponseMember>),
    /// To watch the topics of an assignment that stands: a static leader came back (KIP-814).
    Watch(Vec<JoinGroupResponseMember>),
}

#[derive(Debug)]
enum Asked {
    Coordinator,
    Join {
        epoch: u64,
    },
    Sync {
        epoch: u64,
    },
    Heartbeat {
        epoch: u64,
    },
    Beat {
        epoch: u64,
        owned: Option<Vec<TopicPartition>>,
    },
    Commit {
        generation: i32,
        commits: Vec<Commit>,
    },
    Offsets {
        partitions: Vec<TopicPartition>,
    },
    Leave,
}

#[derive(Debug)]
struct Settings {
    group_id: String,
    group_instance_id: Option<String>,
    protocol: GroupProtocol,
    rack: Option<String>,
    session_timeout_ns: u64,
    rebalance_timeout_ns: u64,
    heartbeat_interval_ns: u64,
    retry_backoff_ns: u64,
    request_timeout_ns: u64,
}

/// See the module.
#[derive(Debug)]
pub struct Group {
    settings: Settings,
    topics: Vec<String>,
    cluster: Cluster<Asked>,
    coordinator: Option<i32>,
    is_finding: bool,
    find_at_ns: u64,
    state: State,
    member_id: String,
    generation: i32,
    protocol: Option<String>,
    /// What it was last assigned, and in which generation.
    owned: Vec<TopicPartition>,
    owned_generation: i32,
    /// In the newer protocol: what it was given, while the names of the topics are sought.
    given: Option<Vec<(Uuid, Vec<i32>)>>,
    /// In the newer protocol: whether the coordinator is to be told what the member owns.
    owes_owned: bool,
    /// Rises whenever answers about the membership that are on their way lose their meaning.
    epoch: u64,
    heartbeat_at_ns: u64,
    is_heartbeating: bool,
    /// When the coordinator last was certain to know the member.
    alive_ns: u64,
    /// Where this member leads: how many partitions each subscribed topic had when it assigned them.
    assigned_counts: Option<BTreeMap<String, u32>>,
    /// Which topics those were, by their ids.
    assigned_ids: BTreeMap<String, Uuid>,
    missing_topic_look_ns: u64,
    commit_wanted: Option<Vec<Commit>>,
    commit_at_ns: u64,
    commits_in_flight: usize,
    offsets_wanted: Option<Vec<TopicPartition>>,
    offsets_at_ns: u64,
    offsets_in_flight: bool,
    has_failed: bool,
    events: VecDeque<GroupEvent>,
}

impl Group {
    /// A member of `config`'s group that subscribes to `topics`, or none that only commits if there are none. `owner` numbers
    /// its connections on the thread; it must differ from that of the user's own connections.
    pub fn new(group_id: &str, config: &ConsumerConfig, topics: Vec<String>, owner: u32) -> Group {
        let connection = &config.connection;
        let mut cluster = Cluster::new(ClusterConfig::new(connection, owner, MAX_FRAME_BYTES));
        cluster.watch_topics(topics.iter().map(String::as_str));
        Group {
            settings: Settings {
                group_id: group_id.to_owned(),
                group_instance_id: config.group_instance_id.clone(),
                protocol: config.group_protocol.clone(),
                rack: config.client_rack.clone(),
                session_timeout_ns: nanos(config.session_timeout),
                rebalance_timeout_ns: nanos(config.max_poll_interval),
                heartbeat_interval_ns: nanos(config.heartbeat_interval),
                retry_backoff_ns: nanos(connection.retry_backoff),
                request_timeout_ns: nanos(connection.request_timeout),
            },
            state: if topics.is_empty() {
                State::Apart
            } else {
                State::Outside { join_at_ns: 0 }
            },
            topics,
            cluster,
            coordinator: None,
            is_finding: false,
            find_at_ns: 0,
            member_id: String::new(),
            generation: -1,
            protocol: None,
            owned: Vec::new(),
            owned_generation: -1,
            given: None,
            owes_owned: false,
            epoch: 0,
            heartbeat_at_ns: 0,
            is_heartbeating: false,
            alive_ns: 0,
            assigned_counts: None,
            assigned_ids: BTreeMap::new(),
            missing_topic_look_ns: 0,
            commit_wanted: None,
            commit_at_ns: 0,
            commits_in_flight: 0,
            offsets_wanted: None,
            offsets_at_ns: 0,
            offsets_in_flight: false,
            has_failed: false,
            events: VecDeque::new(),
        }
    }

    /// The member's id, as the coordinator gave it; empty before that.
    pub fn member_id(&self) -> &str {
        &self.member_id
    }

    /// The generation that it is a member of; −1 for none.
    pub fn generation(&self) -> i32 {
        self.generation
    }

    /// Whether it is a member with an assignment.
    pub fn is_stable(&self) -> bool {
        matches!(self.state, State::Stable)
    }

    /// Whether it has left.
    pub fn is_gone(&self) -> bool {
        matches!(self.state, State::Gone) || self.has_failed
    }

    /// The next thing that its user should know.
    pub fn next_event(&mut self) -> Option<GroupEvent> {
        self.events.pop_front()
    }

    /// What is to be done on the network; the caller drains it.
    pub fn actions(&mut self) -> &mut Vec<NetAction> {
        self.cluster.actions()
    }

    /// Why no broker can be spoken with at all, if that is so.
    pub fn unusable(&self) -> Option<&str> {
        self.cluster.unusable()
    }

    /// Commits these positions. What was to be committed and has not been sent is replaced.
    pub fn commit(&mut self, commits: Vec<Commit>) {
        if !commits.is_empty() {
            self.commit_wanted = Some(commits);
            self.commit_at_ns = 0;
        }
    }

    /// Whether a commit is under way.
    pub fn is_committing(&self) -> bool {
        self.commit_wanted.is_some() || self.commits_in_flight > 0
    }

    /// Asks for the committed offsets of these partitions.
    pub fn fetch_offsets(&mut self, partitions: Vec<TopicPartition>) {
        self.offsets_wanted = (!partitions.is_empty()).then_some(partitions);
        self.offsets_at_ns = 0;
    }

    /// Says that the partitions are given up that were to be, after [`GroupEvent::RebalanceStarted`] or
    /// [`GroupEvent::Assigned`].
    pub fn rejoin(&mut self, now_ns: u64) {
        if !matches!(self.state, State::Revoking) {
            return;
        }
        if self.is_new_protocol() {
            self.state = State::Stable;
            self.owes_owned = true;
            self.heartbeat_at_ns = now_ns;
        } else {
            self.state = State::Outside { join_at_ns: now_ns };
        }
    }

    fn is_new_protocol(&self) -> bool {
        matches!(self.settings.protocol, GroupProtocol::Consumer(_))
    }

    /// Whether members keep their partitions through a rebalance: where all strategies of this one allow it, as the Java client
    /// decides it.
    fn is_cooperative(&self) -> bool {
        match &self.settings.protocol {
            GroupProtocol::Consumer(_) => true,
            GroupProtocol::Classic(strategies) => strategies
                .iter()
                .all(|strategy| *strategy == AssignmentStrategy::CooperativeSticky),
        }
    }

    /// The strategy that the group has agreed on.
    fn strategy(&self) -> AssignmentStrategy {
        AssignmentStrategy::ALL
            .into_iter()
            .find(|strategy| Some(strategy.protocol_name()) == self.protocol.as_deref())
            .unwrap_or(AssignmentStrategy::Range)
    }

    /// Leaves the group once what is to be committed is committed, and gives up at `until_ns`. A static member leaves too:
    /// it is not coming back.
    pub fn leave(&mut self, now_ns: u64, until_ns: u64) {
        if self.is_gone() || matches!(self.state, State::Leaving { .. }) {
            return;
        }
        if matches!(self.state, State::Joining | State::Syncing) {
            // The coordinator reads nothing of this connection before it has answered the request that waits there.
            self.hang_up(now_ns);
        }
        self.epoch += 1;
        self.state = State::Leaving {
            until_ns,
            is_sent: false,
        };
        self.offsets_wanted = None;
    }

    /// Closes all connections at once.
    pub fn abandon(&mut self, now_ns: u64) {
        self.cluster.close(now_ns);
        self.drop_connection_events();
        self.state = State::Gone;
    }

    /// Something happened on a connection of ours. Frames that have been read are added to `read`.
    pub fn on_net(&mut self, conn: ConnId, event: NetEvent, now_ns: u64, read: &mut Vec<Frame>) {
        self.cluster.on_net(conn, event, now_ns);
        self.take_events(now_ns, read);
    }

    /// Time passes. Gives the time at which there is something to do next, if nothing happens until then.
    pub fn tick(&mut self, now_ns: u64, read: &mut Vec<Frame>) -> u64 {
        if self.is_gone() {
            return u64::MAX;
        }
        self.cluster.tick(now_ns);
        self.take_events(now_ns, read);
        let look_ns = self.drive(now_ns);
        // A deadline that the cluster cannot act on yet must not make the caller spin.
        look_ns.min(
            self.cluster
                .next_deadline_ns()
                .unwrap_or(u64::MAX)
                .max(now_ns + 1_000_000),
        )
    }

    /// Closes all connections, and takes up again what was on its way on them.
    fn hang_up(&mut self, now_ns: u64) {
        self.cluster.close(now_ns);
        self.take_events(now_ns, &mut Vec::new());
        self.coordinator_is_lost(now_ns);
    }

    fn drop_connection_events(&mut self) {
        while self.cluster.next_event().is_some() {}
        self.is_finding = false;
        self.is_heartbeating = false;
        self.offsets_in_flight = false;
        self.commits_in_flight = 0;
    }

    /// Does what can be done now, and says when to look again.
    fn drive(&mut self, now_ns: u64) -> u64 {
        if let State::Leaving { until_ns, is_sent } = self.state {
            let has_nothing_to_leave = self.member_id.is_empty() && !self.is_committing() && !is_sent;
            if has_nothing_to_leave || now_ns >= until_ns {
                self.go(now_ns);
                return u64::MAX;
            }
        }
        let is_needed =
            !matches!(self.state, State::Apart) || self.is_committing() || self.offsets_wanted.is_some();
        if !is_needed {
            return u64::MAX;
        }
        let Some(coordinator) = self.find_coordinator(now_ns) else {
            return self.bounded_by_leaving(self.find_at_ns.max(now_ns + 10_000_000));
        };
        let mut look_ns = u64::MAX;
        look_ns = look_ns.min(self.send_commit(coordinator, now_ns));
        look_ns = look_ns.min(self.send_offset_fetch(coordinator, now_ns));
        look_ns = look_ns.min(self.drive_membership(coordinator, now_ns));
        self.bounded_by_leaving(look_ns)
    }

    fn bounded_by_leaving(&self, look_ns: u64) -> u64 {
        match self.state {
            State::Leaving { until_ns, .. } => look_ns.min(until_ns),
            _ => look_ns,
        }
    }

    fn go(&mut self, now_ns: u64) {
        if let Some(commits) = self.commit_wanted.take() {
            let result = Err("the coordinator could not be reached in time".to_owned());
            self.events.push_back(GroupEvent::Committed { commits, result });
        }
        self.cluster.close(now_ns);
        self.drop_connection_events();
        self.state = State::Gone;
        self.events.push_back(GroupEvent::Left);
    }

    /// The coordinator, if it is known and connected; else sees to it that it will be.
    fn find_coordinator(&mut self, now_ns: u64) -> Option<Node> {
        if let Some(id) = self.coordinator {
            let node = Node::Broker(id);
            if self.cluster.is_ready(node, now_ns) {
                return Some(node);
            }
            let is_known = self.cluster.metadata().brokers.contains_key(&id);
            let has_failed = self.cluster.retry_at_ns(node).is_some();
            if is_known && !has_failed {
                return None;
            }
            self.cluster.want_metadata();
            self.coordinator_is_lost(now_ns.saturating_add(self.settings.retry_backoff_ns));
        }
        if !self.is_finding && now_ns >= self.find_at_ns {
            match self.cluster.any_ready() {
                None => self.cluster.want_metadata(),
                Some(node) => {
                    let group_id = &self.settings.group_id;
                    let request = FindCoordinatorRequest {
                        key: group_id.clone(),
                        key_type: 0,
                        coordinator_keys: vec![group_id.clone()],
                    };
                    match self.cluster.send(node, &request, Asked::Coordinator, now_ns) {
                        Ok(()) => self.is_finding = true,
                        Err(error) => self.fail(error.to_string()),
                    }
                }
            }
        }
        None
    }

    /// It is sought again from `find_at_ns` on. A member that was joining begins anew.
    fn coordinator_is_lost(&mut self, find_at_ns: u64) {
        self.coordinator = None;
        self.find_at_ns = find_at_ns;
        if matches!(self.state, State::Joining | State::Syncing | State::Joined { .. }) {
            self.join_again(find_at_ns);
        }
    }

    fn join_again(&mut self, at_ns: u64) {
        self.epoch += 1;
        self.state = State::Outside { join_at_ns: at_ns };
    }

    fn send_commit(&mut self, coordinator: Node, now_ns: u64) -> u64 {
        // What is committed before joining again goes at once: the coordinator handles it before the JoinGroup.
        let goes_at_once = matches!(self.state, State::Outside { .. } | State::Leaving { .. });
        if self.commit_wanted.is_none() || (self.commits_in_flight > 0 && !goes_at_once) {
            return u64::MAX;
        }
        // Who goes on reading while it joins would commit behind the join, by then in the old generation.
        let is_joining = matches!(self.state, State::Joining | State::Joined { .. } | State::Syncing);
        if is_joining && !self.is_new_protocol() {
            return u64::MAX;
        }
        if now_ns < self.commit_at_ns {
            return self.commit_at_ns;
        }
        let Some(commits) = self.commit_wanted.take() else {
            return u64::MAX;
        };
        let mut topics: Vec<OffsetCommitRequestTopic> = Vec::new();
        for ((topic, partition), offset) in &commits {
            let partition = OffsetCommitRequestPartition {
                partition_index: *partition,
                committed_offset: *offset,
                committed_metadata: Some(String::new()),
                ..Default::default()
            };
            match topics.iter_mut().find(|known| known.name == *topic) {
                Some(known) => known.partitions.push(partition),
                None => topics.push(OffsetCommitRequestTopic {
                    name: topic.clone(),
                    partitions: vec![partition],
                }),
            }
        }
        let request = OffsetCommitRequest {
            group_id: self.settings.group_id.clone(),
            generation_id_or_member_epoch: self.generation,
            member_id: self.member_id.clone(),
            group_instance_id: self.instance_id_of_member(),
            retention_time_ms: -1,
            topics,
        };
        let tag = Asked::Commit {
            generation: self.generation,
            commits,
        };
        match self.cluster.send(coordinator, &request, tag, now_ns) {
            Ok(()) => self.commits_in_flight += 1,
            Err(error) => self.fail(error.to_string()),
        }
        u64::MAX
    }

    fn send_offset_fetch(&mut self, coordinator: Node, now_ns: u64) -> u64 {
        if self.offsets_wanted.is_none() || self.offsets_in_flight {
            return u64::MAX;
        }
        if now_ns < self.offsets_at_ns {
            return self.offsets_at_ns;
        }
        let Some(partitions) = self.offsets_wanted.take() else {
            return u64::MAX;
        };
        let mut by_topic: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
        for (topic, partition) in &partitions {
            by_topic.entry(topic).or_default().push(*partition);
        }
        // Up to version 7 the request names one group's topics, from 8 on any number of groups (KIP-709).
        let topics = by_topic
            .iter()
            .map(|(&name, indexes)| OffsetFetchRequestTopic {
                name: name.to_owned(),
                partition_indexes: indexes.clone(),
            })
            .collect();
        let grouped = by_topic
            .iter()
            .map(|(&name, indexes)| OffsetFetchRequestTopics {
                name: name.to_owned(),
                partition_indexes: indexes.clone(),
            })
            .collect();
        let group_id = &self.settings.group_id;
        let request = OffsetFetchRequest {
            group_id: group_id.clone(),
            topics: Some(topics),
            groups: vec![OffsetFetchRequestGroup {
                group_id: group_id.clone(),
                topics: Some(grouped),
                member_id: self.is_new_protocol().then(|| self.member_id.clone()),
                member_epoch: if self.is_new_protocol() {
                    self.generation
                } else {
                    -1
                },
            }],
            require_stable: true,
        };
        match self
            .cluster
            .send(coordinator, &request, Asked::Offsets { partitions }, now_ns)
        {
            Ok(()) => self.offsets_in_flight = true,
            Err(error) => self.fail(error.to_string()),
        }
        u64::MAX
    }

    fn drive_membership(&mut self, coordinator: Node, now_ns: u64) -> u64 {
        match &self.state {
            State::Apart | State::Revoking | State::Joining | State::Syncing | State::Gone => u64::MAX,
            State::Outside { join_at_ns } if now_ns < *join_at_ns => *join_at_ns,
            State::Outside { .. } if self.is_new_protocol() => {
                self.send_beat(coordinator, JOINS, now_ns);
                u64::MAX
            }
            State::Outside { .. } => {
                self.send_join(coordinator, now_ns);
                u64::MAX
            }
            State::Joined { .. } => {
                self.do_duty(coordinator, now_ns);
                u64::MAX
            }
            State::Stable if self.is_new_protocol() => self.keep_beating(coordinator, now_ns),
            State::Stable => self.keep_alive(coordinator, now_ns),
            State::Leaving { until_ns, is_sent } => {
                let until_ns = *until_ns;
                if !self.is_committing() && !is_sent {
                    if self.is_new_protocol() {
                        self.state = State::Leaving {
                            until_ns,
                            is_sent: true,
                        };
                        self.send_beat(coordinator, LEAVES, now_ns);
                    } else {
                        self.send_leave(coordinator, until_ns, now_ns);
                    }
                }
                u64::MAX
            }
        }
    }

    fn send_join(&mut self, coordinator: Node, now_ns: u64) {
        let GroupProtocol::Classic(strategies) = &self.settings.protocol else {
            return;
        };
        // With an eager strategy what is told is what it last owned, for the sticky one to give it back.
        let owned = Owned {
            partitions: &self.owned,
            generation: self.owned_generation,
            is_kept: self.is_cooperative(),
        };
        let protocols = strategies
            .iter()
            .map(|&strategy| JoinGroupRequestProtocol {
                name: strategy.protocol_name().to_owned(),
                metadata: assignor::metadata(strategy, &self.topics, owned, self.settings.rack.as_deref()),
            })
            .collect();
        let milliseconds = |ns: u64| i32::try_from(ns / 1_000_000).unwrap_or(i32::MAX);
        let request = JoinGroupRequest {
            group_id: self.settings.group_id.clone(),
            session_timeout_ms: milliseconds(self.settings.session_timeout_ns),
            rebalance_timeout_ms: milliseconds(self.settings.rebalance_timeout_ns),
            member_id: self.member_id.clone(),
            group_instance_id: self.settings.group_instance_id.clone(),
            protocol_type: PROTOCOL_TYPE.to_owned(),
            protocols,
            reason: None,
        };
        let timeout_ns = self.settings.request_timeout_ns.max(
            self.settings
                .rebalance_timeout_ns
                .saturating_add(nanos(JOIN_LAPSE)),
        );
        let versions = <JoinGroupRequest as Message>::VERSIONS;
        let tag = Asked::Join { epoch: self.epoch };
        match self
            .cluster
            .send_within(coordinator, versions, &request, tag, now_ns, timeout_ns)
        {
            Ok(()) => self.state = State::Joining,
            Err(error) => self.fail(error.to_string()),
        }
    }

    /// Asks for the assignment, and brings it along if it is this member's to make. That needs metadata of all topics; while it
    /// is on its way, nothing is done.
    fn do_duty(&mut self, coordinator: Node, now_ns: u64) {
        let State::Joined { duty } = &self.state else {
            return;
        };
        let mut assignments = Vec::new();
        if let Duty::Assign(members) | Duty::Watch(members) = duty {
            let strategy = self.strategy();
            let members: Vec<Subscriber> = members
                .iter()
                .map(|member| Subscriber::of(member, strategy))
                .collect();
            let topics: BTreeSet<&String> = members.iter().flat_map(|member| &member.topics).collect();
            let metadata = self.cluster.metadata();
            if !topics.iter().all(|topic| metadata.topics.contains_key(*topic)) {
                return;
            }
            let counts: BTreeMap<String, u32> = topics
                .iter()
                .map(|&topic| (topic.clone(), self.partitions_of(topic)))
                .collect();
            if matches!(duty, Duty::Assign(_)) {
                assignments = assignor::assign(strategy, &counts, &members)
                    .into_iter()
                    .map(in_bytes)
                    .collect();
            }
            let topics = &self.cluster.metadata().topics;
            let id = |topic: &String| topics.get(topic).map_or(Uuid::ZERO, |info| info.topic_id);
            self.assigned_ids = counts.keys().map(|topic| (topic.clone(), id(topic))).collect();
            self.assigned_counts = Some(counts);
        }
        self.send_sync(coordinator, assignments, now_ns);
    }

    fn partitions_of(&self, topic: &str) -> u32 {
        self.cluster
            .metadata()
            .topics
            .get(topic)
            .map_or(0, |info| info.partitions.len() as u32)
    }

    fn send_sync(&mut self, coordinator: Node, assignments: Vec<SyncGroupRequestAssignment>, now_ns: u64) {
        let request = SyncGroupRequest {
            group_id: self.settings.group_id.clone(),
            generation_id: self.generation,
            member_id: self.member_id.clone(),
            group_instance_id: self.settings.group_instance_id.clone(),
            protocol_type: Some(PROTOCOL_TYPE.to_owned()),
            protocol_name: self.protocol.clone(),
            assignments,
        };
        match self
            .cluster
            .send(coordinator, &request, Asked::Sync { epoch: self.epoch }, now_ns)
        {
            Ok(()) => self.state = State::Syncing,
            Err(error) => self.fail(error.to_string()),
        }
    }

    fn keep_alive(&mut self, coordinator: Node, now_ns: u64) -> u64 {
        let session_ends_ns = self.alive_ns.saturating_add(self.settings.session_timeout_ns);
        if now_ns >= session_ends_ns {
            // Whoever coordinates by now will say whether the member still counts; a connection that is stuck would not.
            self.alive_ns = now_ns;
            self.hang_up(now_ns);
            return now_ns + 1_000_000;
        }
        if self.has_to_assign_anew(now_ns) {
            self.start_rebalance();
            return u64::MAX;
        }
        let mut look_ns = session_ends_ns;
        if self
            .assigned_counts
            .as_ref()
            .is_some_and(|counts| counts.values().any(|&count| count == 0))
        {
            look_ns = look_ns.min(self.missing_topic_look_ns.max(now_ns + 1_000_000));
        }
        if self.is_heartbeating {
            return look_ns;
        }
        if now_ns < self.heartbeat_at_ns {
            return look_ns.min(self.heartbeat_at_ns);
        }
        let request = HeartbeatRequest {
            group_id: self.settings.group_id.clone(),
            generation_id: self.generation,
            member_id: self.member_id.clone(),
            group_instance_id: self.settings.group_instance_id.clone(),
        };
        match self.cluster.send(
            coordinator,
            &request,
            Asked::Heartbeat { epoch: self.epoch },
            now_ns,
        ) {
            Ok(()) => {
                self.is_heartbeating = true;
                self.heartbeat_at_ns = now_ns.saturating_add(self.settings.heartbeat_interval_ns);
            }
            Err(error) => self.fail(error.to_string()),
        }
        look_ns
    }

    /// A leader has to, when a subscribed topic has another number of partitions than it assigned.
    fn has_to_assign_anew(&mut self, now_ns: u64) -> bool {
        let Some(counts) = &self.assigned_counts else {
            return false;
        };
        let metadata = self.cluster.metadata();
        // A topic that is missing from one answer may be there in the next, and a broker may lag: only more partitions are news,
        // or another number of them in a topic that was made again.
        let has_grown = counts.iter().any(|(topic, &count)| {
            let Some(info) = metadata.topics.get(topic) else {
                return false;
            };
            let before = self.assigned_ids.get(topic).copied().unwrap_or_default();
            let is_made_again = !before.is_zero() && !info.topic_id.is_zero() && before != info.topic_id;
            let now = info.partitions.len();
            now > count as usize || (is_made_again && now > 0 && now < count as usize)
        });
        if !has_grown && now_ns >= self.missing_topic_look_ns && counts.values().any(|&count| count == 0) {
            self.missing_topic_look_ns = now_ns + MISSING_TOPIC_LOOK_NS;
            self.cluster.want_metadata();
        }
        has_grown
    }

    fn send_leave(&mut self, coordinator: Node, until_ns: u64, now_ns: u64) {
        let request = LeaveGroupRequest {
            group_id: self.settings.group_id.clone(),
            member_id: self.member_id.clone(),
            members: vec![MemberIdentity {
                member_id: self.member_id.clone(),
                group_instance_id: self.settings.group_instance_id.clone(),
                reason: Some("the consumer is being closed".to_owned()),
            }],
        };
        match self.cluster.send(coordinator, &request, Asked::Leave, now_ns) {
            Ok(()) => {
                self.state = State::Leaving {
                    until_ns,
                    is_sent: true,
                }
            }
            Err(_) => self.go(now_ns),
        }
    }

    /// A static member's name goes along only while it is a member.
    fn instance_id_of_member(&self) -> Option<String> {
        self.settings
            .group_instance_id
            .clone()
            .filter(|_| !self.member_id.is_empty())
    }

    fn start_rebalance(&mut self) {
        self.epoch += 1;
        self.is_heartbeating = false;
        self.assigned_counts = None;
        self.state = State::Revoking;
        let keeps = self.is_cooperative();
        self.events.push_back(GroupEvent::RebalanceStarted { keeps });
    }

    /// The coordinator does not count it as a member of this generation any more.
    fn be_thrown_out(&mut self, error: ErrorCode, now_ns: u64) {
        self.epoch += 1;
        self.is_heartbeating = false;
        self.assigned_counts = None;
        self.generation = -1;
        self.owned.clear();
        self.owned_generation = -1;
        self.given = None;
        // In the newer protocol the id is the member's own for as long as it lives.
        if error == ErrorCode::UNKNOWN_MEMBER_ID && !self.is_new_protocol() {
            self.member_id.clear();
        }
        self.offsets_wanted = None;
        if let Some(commits) = self.commit_wanted.take() {
            self.events.push_back(GroupEvent::Committed {
                commits,
                result: Err(error.to_string()),
            });
        }
        self.state = State::Outside { join_at_ns: now_ns };
        self.events.push_back(GroupEvent::Lost { error });
    }

    fn fail(&mut self, reason: String) {
        if !self.has_failed {
            self.has_failed = true;
            self.events.push_back(GroupEvent::Failed { reason });
        }
    }

    fn refuse(&mut self, api: ApiKey, error: ErrorCode, message: Option<String>) {
        let refusal = Refusal::new(api, error, message, &self.settings.group_id);
        let hint = match error {
            ErrorCode::INCONSISTENT_GROUP_PROTOCOL => {
                "; the group's members use another protocol, or partition.assignment.strategy has none that all of them have"
            }
            ErrorCode::INVALID_SESSION_TIMEOUT => {
                "; session.timeout.ms must lie between the brokers' group.min.session.timeout.ms and \
                 group.max.session.timeout.ms"
            }
            ErrorCode::UNSUPPORTED_ASSIGNOR => {
                "; group.remote.assignor must be one of the brokers' group.consumer.assignors"
            }
            ErrorCode::GROUP_ID_NOT_FOUND => {
                "; the group has members of the classic protocol; use another group or that protocol"
            }
            ErrorCode::GROUP_MAX_SIZE_REACHED => "; the brokers' group.max.size allows no more members",
            ErrorCode::FENCED_INSTANCE_ID => "; group.instance.id must be another one for each consumer",
            _ => "",
        };
        self.fail(format!("group {refusal}{hint}"));
    }

    fn take_events(&mut self, now_ns: u64, read: &mut Vec<Frame>) {
        while let Some(event) = self.cluster.next_event() {
            match event {
                ClusterEvent::Answer {
                    tag,
                    version,
                    frame,
                    body_at,
                    ..
                } => {
                    let mut body = Reader::new(&frame.bytes()[body_at..]);
                    if let Err((api, error)) = self.on_answer(tag, version, &mut body, now_ns) {
                        self.fail(format!("the answer to {api} cannot be read: {error}"));
                    }
                    read.push(frame);
                }
                ClusterEvent::Lost { tag, .. } => self.on_lost(tag, now_ns),
                ClusterEvent::Ready(_) | ClusterEvent::MetadataUpdated | ClusterEvent::Written { .. } => {}
            }
        }
    }

    fn on_lost(&mut self, tag: Asked, now_ns: u64) {
        let again_ns = now_ns.saturating_add(self.settings.retry_backoff_ns);
        match tag {
            Asked::Coordinator => {
                self.is_finding = false;
                self.find_at_ns = again_ns;
                return;
            }
            Asked::Join { epoch } | Asked::Sync { epoch } => {
                if epoch == self.epoch {
                    self.join_again(again_ns);
                }
            }
            Asked::Heartbeat { .. } => {
                self.is_heartbeating = false;
                self.heartbeat_at_ns = now_ns;
            }
            Asked::Beat { epoch, owned } => {
                self.is_heartbeating = false;
                self.heartbeat_at_ns = now_ns;
                self.owes_owned |= owned.is_some();
                match self.state {
                    State::Leaving { .. } => return self.go(now_ns),
                    State::Joining if epoch == self.epoch => self.join_again(again_ns),
                    _ => {}
                }
            }
            Asked::Commit { commits, generation } => {
                self.commits_in_flight = self.commits_in_flight.saturating_sub(1);
                if generation == self.generation {
                    self.commit_wanted.get_or_insert(commits);
                    self.commit_at_ns = again_ns;
                } else {
                    let result = Err("the connection was lost during a rebalance".to_owned());
                    self.events.push_back(GroupEvent::Committed { commits, result });
                }
            }
            Asked::Offsets { partitions } => {
                self.offsets_in_flight = false;
                self.want_offsets_again(partitions, again_ns);
            }
            Asked::Leave => return self.go(now_ns),
        }
        self.coordinator_is_lost(again_ns);
    }

    fn want_offsets_again(&mut self, partitions: Vec<TopicPartition>, at_ns: u64) {
        // A newer question replaces one that is asked again.
        if !matches!(
            self.state,
            State::Leaving { .. } | State::Outside { .. } | State::Joining
        ) {
            self.offsets_wanted.get_or_insert(partitions);
            self.offsets_at_ns = at_ns;
        }
    }

    fn on_answer(
        &mut self,
        tag: Asked,
        version: i16,
        body: &mut Reader<'_>,
        now_ns: u64,
    ) -> Result<(), (ApiKey, DecodeError)> {
        match tag {
            Asked::Coordinator => {
                self.is_finding = false;
                let response = FindCoordinatorResponse::decode(version, body)
                    .map_err(|error| (ApiKey::FIND_COORDINATOR, error))?;
                self.on_coordinator(version, response, now_ns);
            }
            Asked::Join { epoch } => {
                let response =
                    JoinGroupResponse::decode(version, body).map_err(|error| (ApiKey::JOIN_GROUP, error))?;
                if epoch == self.epoch {
                    self.on_joined(response, now_ns);
                }
            }
            Asked::Sync { epoch } => {
                let response =
                    SyncGroupResponse::decode(version, body).map_err(|error| (ApiKey::SYNC_GROUP, error))?;
                if epoch == self.epoch {
                    self.on_synced(response, now_ns)?;
                }
            }
            Asked::Heartbeat { epoch } => {
                let response =
                    HeartbeatResponse::decode(version, body).map_err(|error| (ApiKey::HEARTBEAT, error))?;
                if epoch == self.epoch {
                    self.is_heartbeating = false;
                    self.on_heartbeat(response.error_code, now_ns);
                }
            }
            Asked::Beat { epoch, owned } => {
                let response = ConsumerGroupHeartbeatResponse::decode(version, body)
                    .map_err(|error| (ApiKey::CONSUMER_GROUP_HEARTBEAT, error))?;
                if epoch == self.epoch {
                    self.on_beat(response, owned, now_ns);
                }
            }
            Asked::Commit { generation, commits } => {
                self.commits_in_flight = self.commits_in_flight.saturating_sub(1);
                let response = OffsetCommitResponse::decode(version, body)
                    .map_err(|error| (ApiKey::OFFSET_COMMIT, error))?;
                self.on_committed(generation, commits, &response, now_ns);
            }
            Asked::Offsets { partitions } => {
                self.offsets_in_flight = false;
                let response = OffsetFetchResponse::decode(version, body)
                    .map_err(|error| (ApiKey::OFFSET_FETCH, error))?;
                self.on_offsets(partitions, response, now_ns);
            }
            Asked::Leave => self.go(now_ns),
        }
        Ok(())
    }

    fn on_coordinator(&mut self, version: i16, response: FindCoordinatorResponse, now_ns: u64) {
        let (error, message, id) = found_coordinator(version, response);
        match error {
            ErrorCode::NONE => {
                self.coordinator = Some(id);
                if !self.cluster.metadata().brokers.contains_key(&id) {
                    self.cluster.want_metadata();
                }
            }
            // A coordinator that is not there yet: Kafka creates the topic of offsets with the first group.
            error if error.is_retriable() => {
                self.find_at_ns = now_ns.saturating_add(self.settings.retry_backoff_ns)
            }
            error => self.refuse(ApiKey::FIND_COORDINATOR, error, message),
        }
    }

    fn on_joined(&mut self, response: JoinGroupResponse, now_ns: u64) {
        let again_ns = now_ns.saturating_add(self.settings.retry_backoff_ns);
        match response.error_code {
            ErrorCode::NONE => {}
            ErrorCode::MEMBER_ID_REQUIRED => {
                self.member_id = response.member_id;
                return self.join_again(now_ns);
            }
            // Who kept partitions while it joined has lost them.
            error @ (ErrorCode::UNKNOWN_MEMBER_ID | ErrorCode::ILLEGAL_GENERATION)
                if self.is_cooperative() && !self.owned.is_empty() =>
            {
                return self.be_thrown_out(error, now_ns);
            }
            ErrorCode::UNKNOWN_MEMBER_ID => {
                self.member_id.clear();
                return self.join_again(now_ns);
            }
            ErrorCode::REBALANCE_IN_PROGRESS | ErrorCode::ILLEGAL_GENERATION => {
                return self.join_again(again_ns);
            }
            error if error.refreshes_coordinator() => return self.coordinator_is_lost(now_ns),
            error if error.is_retriable() => return self.join_again(again_ns),
            error => return self.refuse(ApiKey::JOIN_GROUP, error, None),
        }
        self.member_id = response.member_id;
        self.generation = response.generation_id;
        self.protocol = response.protocol_name;
        self.assigned_counts = None;
        let duty = if response.leader != self.member_id {
            Duty::None
        } else {
            let topics: BTreeSet<String> = response
                .members
                .iter()
                .flat_map(|member| Subscriber::of(member, AssignmentStrategy::Range).topics)
                .collect();
            self.cluster.watch_topics(topics.iter().map(String::as_str));
            if response.skip_assignment {
                Duty::Watch(response.members)
            } else {
                Duty::Assign(response.members)
            }
        };
        self.state = State::Joined { duty };
    }

    fn on_synced(&mut self, response: SyncGroupResponse, now_ns: u64) -> Result<(), (ApiKey, DecodeError)> {
        let again_ns = now_ns.saturating_add(self.settings.retry_backoff_ns);
        match response.error_code {
            ErrorCode::NONE => {}
            ErrorCode::REBALANCE_IN_PROGRESS => {
                self.join_again(now_ns);
                return Ok(());
            }
            error @ (ErrorCode::UNKNOWN_MEMBER_ID | ErrorCode::ILLEGAL_GENERATION)
                if self.is_cooperative() && !self.owned.is_empty() =>
            {
                self.be_thrown_out(error, now_ns);
                return Ok(());
            }
            ErrorCode::UNKNOWN_MEMBER_ID | ErrorCode::ILLEGAL_GENERATION => {
                self.generation = -1;
                if response.error_code == ErrorCode::UNKNOWN_MEMBER_ID {
                    self.member_id.clear();
                }
                self.join_again(now_ns);
                return Ok(());
            }
            error if error.refreshes_coordinator() => {
                self.coordinator_is_lost(now_ns);
                return Ok(());
            }
            error if error.is_retriable() => {
                self.join_again(again_ns);
                return Ok(());
            }
            error => {
                self.refuse(ApiKey::SYNC_GROUP, error, None);
                return Ok(());
            }
        }
        // A member without partitions may be given no bytes at all.
        let assignment: ConsumerProtocolAssignment = if response.assignment.is_empty() {
            ConsumerProtocolAssignment::default()
        } else {
            consumer_protocol::decode(&response.assignment).map_err(|error| (ApiKey::SYNC_GROUP, error))?
        };
        let partitions = assignor::flat(assignment.assigned_partitions);
        let keeps = self.is_cooperative();
        let loses = keeps && self.owned.iter().any(|own| !partitions.contains(own));
        self.owned.clone_from(&partitions);
        self.owned_generation = self.generation;
        // Who loses something joins again once it is given up, so that it can be handed on.
        self.state = if loses { State::Revoking } else { State::Stable };
        self.alive_ns = now_ns;
        self.is_heartbeating = false;
        self.heartbeat_at_ns = now_ns.saturating_add(self.settings.heartbeat_interval_ns);
        self.events.push_back(GroupEvent::Assigned {
            generation: self.generation,
            partitions,
            keeps,
        });
        Ok(())
    }

    fn on_heartbeat(&mut self, error: ErrorCode, now_ns: u64) {
        match error {
            ErrorCode::NONE => self.alive_ns = now_ns,
            ErrorCode::REBALANCE_IN_PROGRESS => {
                self.alive_ns = now_ns;
                if self.is_stable() {
                    self.start_rebalance();
                }
            }
            ErrorCode::UNKNOWN_MEMBER_ID | ErrorCode::ILLEGAL_GENERATION => self.be_thrown_out(error, now_ns),
            error if error.refreshes_coordinator() => {
                self.heartbeat_at_ns = now_ns;
                self.coordinator_is_lost(now_ns);
            }
            error if error.is_retriable() => {
                self.heartbeat_at_ns = now_ns.saturating_add(self.settings.retry_backoff_ns);
            }
            error => self.refuse(ApiKey::HEARTBEAT, error, None),
        }
    }

    /// A heartbeat of the newer protocol (KIP-848), which also joins and leaves.
    fn send_beat(&mut self, coordinator: Node, member_epoch: i32, now_ns: u64) {
        let GroupProtocol::Consumer(assignor) = &self.settings.protocol else {
            return;
        };
        if self.member_id.is_empty() {
            match fresh_member_id() {
                Ok(id) => self.member_id = id,
                Err(error) => return self.fail(error),
            }
        }
        let joins = member_epoch == JOINS;
        let owned = match member_epoch {
            JOINS => Some(Vec::new()),
            LEAVES => None,
            _ => self.owes_owned.then(|| self.owned.clone()),
        };
        let milliseconds = |ns: u64| i32::try_from(ns / 1_000_000).unwrap_or(i32::MAX);
        let request = ConsumerGroupHeartbeatRequest {
            group_id: self.settings.group_id.clone(),
            member_id: self.member_id.clone(),
            member_epoch,
            instance_id: self.settings.group_instance_id.clone(),
            rack_id: self.settings.rack.clone().filter(|_| joins),
            rebalance_timeout_ms: if joins {
                milliseconds(self.settings.rebalance_timeout_ns)
            } else {
                -1
            },
            subscribed_topic_names: joins.then(|| self.topics.clone()),
            server_assignor: assignor.clone().filter(|_| joins),
            topic_partitions: owned.as_ref().map(|owned| self.by_topic_id(owned)),
            ..Default::default()
        };
        let tag = Asked::Beat {
            epoch: self.epoch,
            owned,
        };
        match self.cluster.send(coordinator, &request, tag, now_ns) {
            Ok(()) => {
                self.is_heartbeating = true;
                self.owes_owned = false;
                if joins {
                    self.state = State::Joining;
                }
            }
            Err(SendError::Unsupported(unsupported)) => self.fail(format!(
                "group.protocol=consumer needs brokers of Kafka 4.0 or newer: {unsupported}; set it to classic"
            )),
            Err(error) => self.fail(error.to_string()),
        }
    }

    fn by_topic_id(&self, owned: &[TopicPartition]) -> Vec<consumer_group_heartbeat::TopicPartitions> {
        let topics = &self.cluster.metadata().topics;
        assignor::by_topic(owned)
            .into_iter()
            .filter_map(|topic| {
                Some(consumer_group_heartbeat::TopicPartitions {
                    topic_id: topics.get(&topic.topic)?.topic_id,
                    partitions: topic.partitions,
                })
            })
            .collect()
    }

    fn keep_beating(&mut self, coordinator: Node, now_ns: u64) -> u64 {
        self.adopt(now_ns);
        if !matches!(self.state, State::Stable) {
            return u64::MAX;
        }
        let look_ns = if self.given.is_some() {
            now_ns + 10_000_000
        } else {
            u64::MAX
        };
        if self.is_heartbeating {
            return look_ns;
        }
        if now_ns < self.heartbeat_at_ns {
            return look_ns.min(self.heartbeat_at_ns);
        }
        self.send_beat(coordinator, self.generation, now_ns);
        look_ns
    }

    fn on_beat(
        &mut self,
        response: ConsumerGroupHeartbeatResponse,
        owned: Option<Vec<TopicPartition>>,
        now_ns: u64,
    ) {
        self.is_heartbeating = false;
        if let State::Leaving { .. } = self.state {
            return self.go(now_ns);
        }
        let again_ns = now_ns.saturating_add(self.settings.retry_backoff_ns);
        match response.error_code {
            ErrorCode::NONE => {}
            ErrorCode::UNKNOWN_MEMBER_ID | ErrorCode::FENCED_MEMBER_EPOCH => {
                if matches!(self.state, State::Joining) {
                    return self.join_again(again_ns);
                }
                return self.be_thrown_out(response.error_code, now_ns);
            }
            error if error.is_retriable() => {
                self.owes_owned |= owned.is_some();
                self.heartbeat_at_ns = again_ns;
                if matches!(self.state, State::Joining) {
                    self.join_again(again_ns);
                }
                if error.refreshes_coordinator() {
                    self.coordinator_is_lost(now_ns);
                }
                return;
            }
            // The member that has the name may be about to leave.
            ErrorCode::UNRELEASED_INSTANCE_ID => return self.join_again(again_ns),
            error => {
                return self.refuse(ApiKey::CONSUMER_GROUP_HEARTBEAT, error, response.error_message);
            }
        }
        if let Some(id) = response.member_id.filter(|id| !id.is_empty()) {
            self.member_id = id;
        }
        self.alive_ns = now_ns;
        self.generation = response.member_epoch;
        let interval_ns = u64::try_from(response.heartbeat_interval_ms).unwrap_or(0) * 1_000_000;
        self.heartbeat_at_ns = now_ns.saturating_add(interval_ns.max(1_000_000));
        self.state = State::Stable;
        if let Some(assignment) = response.assignment {
            let given = assignment.topic_partitions.into_iter();
            self.given = Some(given.map(|topic| (topic.topic_id, topic.partitions)).collect());
            self.adopt(now_ns);
        }
    }

    /// Takes over what the coordinator gives, once the topics' names are known.
    fn adopt(&mut self, now_ns: u64) {
        let Some(given) = self.given.take() else {
            return;
        };
        let names: HashMap<Uuid, &String> = self
            .cluster
            .metadata()
            .topics
            .iter()
            .map(|(name, info)| (info.topic_id, name))
            .collect();
        if given.iter().any(|(id, _)| !names.contains_key(id)) {
            self.given = Some(given);
            if now_ns >= self.missing_topic_look_ns {
                self.missing_topic_look_ns = now_ns + MISSING_TOPIC_LOOK_NS / 10;
                self.cluster.want_metadata();
            }
            return;
        }
        let mut partitions: Vec<TopicPartition> = given
            .iter()
            .flat_map(|(id, indexes)| indexes.iter().map(|&index| (names[id].clone(), index)))
            .collect();
        partitions.sort();
        // What it has already needs nothing; the first assignment is news even if it is empty.
        if self.owned_generation >= 0 && partitions == self.owned {
            return;
        }
        self.owned.clone_from(&partitions);
        self.owned_generation = self.generation;
        self.state = State::Revoking;
        self.events.push_back(GroupEvent::Assigned {
            generation: self.generation,
            partitions,
            keeps: true,
        });
    }

    fn on_committed(
        &mut self,
        generation: i32,
        commits: Vec<Commit>,
        response: &OffsetCommitResponse,
        now_ns: u64,
    ) {
        let first = response
            .topics
            .iter()
            .flat_map(|topic| topic.partitions.iter().map(move |partition| (topic, partition)))
            .find(|(_, partition)| partition.error_code.is_error());
        let Some((topic, partition)) = first else {
            if generation >= 0 && generation == self.generation {
                self.alive_ns = now_ns;
            }
            self.events.push_back(GroupEvent::Committed {
                commits,
                result: Ok(()),
            });
            return;
        };
        let error = partition.error_code;
        // Committed in the epoch before: in the newer protocol the member is the same.
        if error == ErrorCode::STALE_MEMBER_EPOCH && self.generation >= 0 && generation != self.generation {
            self.commit_wanted.get_or_insert(commits);
            self.commit_at_ns = now_ns;
            return;
        }
        let is_current = generation == self.generation;
        if error.is_retriable() && error != ErrorCode::UNKNOWN_TOPIC_OR_PARTITION && is_current {
            if error.refreshes_coordinator() {
                self.coordinator_is_lost(now_ns);
            }
            self.commit_wanted.get_or_insert(commits);
            self.commit_at_ns = now_ns.saturating_add(self.settings.retry_backoff_ns);
            return;
        }
        let subject = match error {
            ErrorCode::GROUP_AUTHORIZATION_FAILED => self.settings.group_id.clone(),
            _ => topic.name.clone(),
        };
        let refusal = Refusal::new(ApiKey::OFFSET_COMMIT, error, None, &subject);
        self.events.push_back(GroupEvent::Committed {
            commits,
            result: Err(refusal.to_string()),
        });
        if !is_current || !self.is_stable() {
            return;
        }
        match error {
            ErrorCode::REBALANCE_IN_PROGRESS => self.start_rebalance(),
            ErrorCode::UNKNOWN_MEMBER_ID
            | ErrorCode::ILLEGAL_GENERATION
            | ErrorCode::FENCED_MEMBER_EPOCH
            | ErrorCode::STALE_MEMBER_EPOCH => self.be_thrown_out(error, now_ns),
            ErrorCode::FENCED_INSTANCE_ID | ErrorCode::GROUP_AUTHORIZATION_FAILED => {
                self.refuse(ApiKey::OFFSET_COMMIT, error, None);
            }
            _ => {}
        }
    }

    fn on_offsets(&mut self, partitions: Vec<TopicPartition>, response: OffsetFetchResponse, now_ns: u64) {
        let mut found: BTreeMap<TopicPartition, (i64, ErrorCode)> = BTreeMap::new();
        let mut error = response.error_code;
        for topic in response.topics {
            for partition in topic.partitions {
                let key = (topic.name.clone(), partition.partition_index);
                found.insert(key, (partition.committed_offset, partition.error_code));
            }
        }
        for group in response.groups {
            error = group.error_code;
            for topic in group.topics {
                for partition in topic.partitions {
                    let key = (topic.name.clone(), partition.partition_index);
                    found.insert(key, (partition.committed_offset, partition.error_code));
                }
            }
        }
        // Up to version 1 an error of the whole answer stands with each partition.
        let error = if error.is_error() {
            error
        } else {
            found
                .values()
                .map(|(_, error)| *error)
                .find(|error| error.is_error())
                .unwrap_or(ErrorCode::NONE)
        };
        match error {
            ErrorCode::NONE => {
                let offsets = partitions
                    .into_iter()
                    .map(|key| {
                        let offset = found
                            .get(&key)
                            .map(|(offset, _)| *offset)
                            .filter(|&offset| offset >= 0);
                        (key, offset)
                    })
                    .collect();
                self.events.push_back(GroupEvent::Offsets(offsets));
            }
            // The epoch has changed since it was asked.
            ErrorCode::STALE_MEMBER_EPOCH if self.is_new_protocol() => {
                self.want_offsets_again(partitions, now_ns.saturating_add(self.settings.retry_backoff_ns));
            }
            error if error.refreshes_coordinator() => {
                self.coordinator_is_lost(now_ns);
                self.want_offsets_again(partitions, now_ns.saturating_add(self.settings.retry_backoff_ns));
            }
            error if error.is_retriable() => {
                self.want_offsets_again(partitions, now_ns.saturating_add(self.settings.retry_backoff_ns));
            }
            error if error == ErrorCode::TOPIC_AUTHORIZATION_FAILED => {
                let topic = found
                    .iter()
                    .find(|(_, (_, error))| error.is_error())
                    .map_or("", |((topic, _), _)| topic);
                let refusal = Refusal::new(ApiKey::OFFSET_FETCH, error, None, topic);
                self.fail(refusal.to_string());
            }
            error => self.refuse(ApiKey::OFFSET_FETCH, error, None),
        }
    }
}

/// A member id of the newer protocol, which is the member's to make (KIP-1082).
fn fresh_member_id() -> Result<String, String> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| format!("the system has no random bytes: {error}"))?;
    Ok(Uuid(bytes).to_string())
}

/// One member's part of an assignment, as SyncGroup carries it.
fn in_bytes((member_id, own): (String, BTreeSet<TopicPartition>)) -> SyncGroupRequestAssignment {
    let assignment = ConsumerProtocolAssignment {
        assigned_partitions: assignor::by_topic(&own),
        user_data: None,
    };
    SyncGroupRequestAssignment {
        member_id,
        assignment: consumer_protocol::encode(1, &assignment),
    }
}
