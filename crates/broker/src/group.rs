//! The classic consumer group protocol, as the coordinator of one group lives it.
//!
//! A group is a state machine over (now, request). Joins and syncs are never answered by the call itself but through
//! [`Replies`], at once or when the other members have come. A group without members may be taken over by the newer protocol
//! (KIP-848), which is [`ConsumerGroup`]; offsets are the same for both.

use crate::consumer_group::{Beat, ConsumerGroup, Heartbeat, Refused, Topics};
use crate::reply::ReplyTo;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use wire::ErrorCode;

/// Nanoseconds in a millisecond.
const MS_NS: u64 = 1_000_000;

/// Where a group stands in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GroupState {
    /// No members; perhaps offsets.
    Empty,
    /// Members are asked to join again.
    PreparingRebalance,
    /// All have joined; the leader is to say who gets what.
    CompletingRebalance,
    /// Everyone has an assignment.
    Stable,
}

impl GroupState {
    /// As ListGroups and DescribeGroups name it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            GroupState::Empty => "Empty",
            GroupState::PreparingRebalance => "PreparingRebalance",
            GroupState::CompletingRebalance => "CompletingRebalance",
            GroupState::Stable => "Stable",
        }
    }
}

/// An assignment strategy that a member offers, with what it says for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Protocol {
    pub(crate) name: String,
    pub(crate) metadata: Vec<u8>,
}

/// A request to join.
#[derive(Clone, Debug)]
pub(crate) struct Join {
    /// Empty for a member that has no id yet.
    pub(crate) member_id: String,
    pub(crate) instance_id: Option<String>,
    pub(crate) client_id: String,
    pub(crate) client_host: String,
    pub(crate) session_timeout_ns: u64,
    pub(crate) rebalance_timeout_ns: u64,
    pub(crate) protocol_type: String,
    pub(crate) protocols: Vec<Protocol>,
    /// Whether the client knows how to come back with the id it is given (JoinGroup 4, KIP-394).
    pub(crate) can_rejoin_with_id: bool,
    /// Whether the client knows that a leader may be told to assign nothing (JoinGroup 9, KIP-814).
    pub(crate) knows_skip_assignment: bool,
    /// What a new member's id is to end in, so that it is unlike all others.
    pub(crate) fresh_id: String,
}

/// The answer to a join.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Joined {
    pub(crate) error: ErrorCode,
    pub(crate) generation: i32,
    pub(crate) protocol_type: Option<String>,
    pub(crate) protocol: Option<String>,
    pub(crate) leader: String,
    pub(crate) member_id: String,
    pub(crate) skip_assignment: bool,
    /// For the leader alone: (member id, instance id, metadata) of everyone.
    pub(crate) members: Vec<(String, Option<String>, Vec<u8>)>,
}

/// The answer to a sync.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Synced {
    pub(crate) error: ErrorCode,
    pub(crate) protocol_type: Option<String>,
    pub(crate) protocol: Option<String>,
    pub(crate) assignment: Vec<u8>,
}

/// Answers that a call brought about, for the caller and for others.
#[derive(Debug, Default)]
pub(crate) struct Replies {
    pub(crate) joined: Vec<(ReplyTo, Joined)>,
    pub(crate) synced: Vec<(ReplyTo, Synced)>,
}

/// Who is speaking, as heartbeats, syncs and commits say it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Speaker<'a> {
    pub(crate) member_id: &'a str,
    pub(crate) instance_id: Option<&'a str>,
    pub(crate) generation: i32,
}

/// A committed offset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CommittedOffset {
    pub(crate) offset: i64,
    pub(crate) leader_epoch: i32,
    pub(crate) metadata: String,
}

/// One member.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) instance_id: Option<String>,
    pub(crate) client_id: String,
    pub(crate) client_host: String,
    session_timeout_ns: u64,
    rebalance_timeout_ns: u64,
    protocols: Vec<Protocol>,
    pub(crate) assignment: Vec<u8>,
    /// When it is taken for dead, unless it waits for an answer.
    expires_at: u64,
    joining: Option<ReplyTo>,
    syncing: Option<ReplyTo>,
    knows_skip_assignment: bool,
}

impl Member {
    fn metadata(&self, protocol: &str) -> &[u8] {
        self.protocols
            .iter()
            .find(|offered| offered.name == protocol)
            .map_or(&[], |offered| &offered.metadata)
    }

    /// While a member waits for us, it cannot send heartbeats.
    fn is_waiting(&self) -> bool {
        self.joining.is_some() || self.syncing.is_some()
    }

    /// What it says for the group's protocol.
    pub(crate) fn metadata_for(&self, protocol: Option<&str>) -> Vec<u8> {
        protocol
            .map(|protocol| self.metadata(protocol).to_vec())
            .unwrap_or_default()
    }
}

/// One group.
#[derive(Debug)]
pub(crate) struct Group {
    state: GroupState,
    protocol_type: Option<String>,
    protocol: Option<String>,
    generation: i32,
    leader: Option<String>,
    /// By member id; ordered, so that equal histories give equal answers.
    members: BTreeMap<String, Member>,
    /// Instance id to member id.
    instances: HashMap<String, String>,
    /// Members that were given an id and have not come back with it, with the time at which they are forgotten.
    pending: HashMap<String, u64>,
    /// When the join phase ends at the latest.
    rebalance_deadline: Option<u64>,
    /// While the first members of an empty group gather: until when more are awaited, although all are there.
    gathering_until: Option<u64>,
    /// Members that have not synced by then are taken out.
    sync_deadline: Option<u64>,
    /// How long an empty group gathers (group.initial.rebalance.delay.ms).
    initial_delay_ns: u64,
    offsets: BTreeMap<(String, i32), CommittedOffset>,
    /// Offsets in transactions that have not ended, by producer id.
    pending_offsets: BTreeMap<i64, BTreeMap<(String, i32), CommittedOffset>>,
    is_touched: bool,
    /// The members that speak the newer protocol, in place of those here.
    consumer: Option<Box<ConsumerGroup>>,
}

impl Group {
    pub(crate) fn new(initial_delay_ns: u64) -> Group {
        Group {
            state: GroupState::Empty,
            protocol_type: None,
            protocol: None,
            generation: 0,
            leader: None,
            members: BTreeMap::new(),
            instances: HashMap::new(),
            pending: HashMap::new(),
            rebalance_deadline: None,
            gathering_until: None,
            sync_deadline: None,
            initial_delay_ns,
            offsets: BTreeMap::new(),
            pending_offsets: BTreeMap::new(),
            is_touched: false,
            consumer: None,
        }
    }

    /// The group by the newer protocol, if it speaks that.
    pub(crate) fn consumer(&self) -> Option<&ConsumerGroup> {
        self.consumer.as_deref()
    }

    /// As ListGroups names its type.
    pub(crate) fn type_name(&self) -> &'static str {
        match self.consumer {
            Some(_) => "consumer",
            None => "classic",
        }
    }

    /// As ListGroups names its state.
    pub(crate) fn state_name(&self) -> &'static str {
        match &self.consumer {
            Some(consumer) => consumer.state_name(),
            None => self.state.name(),
        }
    }

    /// Whether it has no members.
    pub(crate) fn is_empty(&self) -> bool {
        match &self.consumer {
            Some(consumer) => consumer.members.is_empty(),
            None => self.state == GroupState::Empty,
        }
    }

    /// A heartbeat by the newer protocol. A classic group without members becomes one of that.
    pub(crate) fn consumer_heartbeat(
        &mut self,
        now: u64,
        beat: Heartbeat,
        topics: &Topics<'_>,
        session_timeout_ns: u64,
    ) -> Result<Beat, Refused> {
        let joins = beat.member_epoch == 0;
        if self.consumer.is_none() && (!joins || self.state != GroupState::Empty) {
            return Err(Refused {
                error: if joins {
                    ErrorCode::GROUP_ID_NOT_FOUND
                } else {
                    ErrorCode::UNKNOWN_MEMBER_ID
                },
                reason: "the group is not a consumer group".to_owned(),
            });
        }
        let consumer = self
            .consumer
            .get_or_insert_with(|| Box::new(ConsumerGroup::new(session_timeout_ns)));
        let outcome = consumer.heartbeat(now, beat, topics);
        if outcome.is_ok() {
            self.is_touched = true;
            self.protocol_type = Some("consumer".to_owned());
        } else if consumer.members.is_empty() && consumer.epoch == 0 {
            self.consumer = None;
        }
        outcome
    }

    pub(crate) fn state(&self) -> GroupState {
        self.state
    }

    pub(crate) fn protocol_type(&self) -> Option<&str> {
        self.protocol_type.as_deref()
    }

    /// The strategy that was agreed on, while it holds.
    pub(crate) fn protocol(&self) -> Option<&str> {
        self.protocol
            .as_deref()
            .filter(|_| self.state == GroupState::Stable)
    }

    pub(crate) fn members(&self) -> &BTreeMap<String, Member> {
        &self.members
    }

    pub(crate) fn offsets(&self) -> &BTreeMap<(String, i32), CommittedOffset> {
        &self.offsets
    }

    pub(crate) fn offsets_mut(&mut self) -> &mut BTreeMap<(String, i32), CommittedOffset> {
        self.is_touched = true;
        &mut self.offsets
    }

    /// Keeps an offset that is committed with a producer's transaction, until that ends.
    pub(crate) fn commit_in_transaction(
        &mut self,
        producer_id: i64,
        place: (String, i32),
        committed: CommittedOffset,
    ) {
        self.is_touched = true;
        self.pending_offsets
            .entry(producer_id)
            .or_default()
            .insert(place, committed);
    }

    /// A producer's transaction has ended: its offsets count, or never were.
    pub(crate) fn end_transaction(&mut self, producer_id: i64, is_commit: bool) {
        let pending = self.pending_offsets.remove(&producer_id).unwrap_or_default();
        if is_commit {
            self.offsets.extend(pending);
        }
    }

    /// Whether a transaction that has not ended holds an offset of this partition.
    pub(crate) fn is_unstable(&self, topic: &str, partition: i32) -> bool {
        self.pending_offsets.values().any(|pending| {
            pending
                .keys()
                .any(|(name, index)| name == topic && *index == partition)
        })
    }

    /// Forgets what was committed for a topic that is gone.
    pub(crate) fn forget_topic(&mut self, topic: &str) {
        self.offsets.retain(|(name, _), _| name != topic);
        for pending in self.pending_offsets.values_mut() {
            pending.retain(|(name, _), _| name != topic);
        }
    }

    /// Whether nobody has ever joined it or committed to it. Other groups stay until they are deleted, as a client that
    /// has emptied one expects it.
    pub(crate) fn is_untouched(&self) -> bool {
        !self.is_touched && self.pending.is_empty()
    }

    /// When [`Group::tick`] is next needed.
    pub(crate) fn next_deadline(&self) -> Option<u64> {
        if let Some(consumer) = &self.consumer {
            return consumer.next_deadline();
        }
        let sessions = self
            .members
            .values()
            .filter(|member| !member.is_waiting())
            .map(|member| member.expires_at);
        let pending = self.pending.values().copied();
        let phases = [
            self.gathering_until.or(self.rebalance_deadline),
            self.sync_deadline,
        ];
        sessions.chain(pending).chain(phases.into_iter().flatten()).min()
    }

    /// Lets time pass: forgets members that were silent too long, ends phases that took too long.
    pub(crate) fn tick(&mut self, now: u64, replies: &mut Replies) {
        if let Some(consumer) = &mut self.consumer {
            return consumer.tick(now);
        }
        self.pending.retain(|_, expires_at| *expires_at > now);
        let is_silent = |member: &Member| !member.is_waiting() && member.expires_at <= now;
        let silent: Vec<String> = self
            .members
            .iter()
            .filter(|(_, member)| is_silent(member))
            .map(|(id, _)| id.clone())
            .collect();
        let mut is_changed = !silent.is_empty();
        for member_id in silent {
            self.remove(&member_id, ErrorCode::UNKNOWN_MEMBER_ID, replies);
        }
        if self.state == GroupState::CompletingRebalance
            && self.sync_deadline.is_some_and(|deadline| deadline <= now)
        {
            let late: Vec<String> = self
                .members
                .iter()
                .filter(|(_, member)| member.syncing.is_none())
                .map(|(id, _)| id.clone())
                .collect();
            for member_id in late {
                self.remove(&member_id, ErrorCode::UNKNOWN_MEMBER_ID, replies);
            }
            is_changed = true;
        }
        if is_changed {
            self.rebalance(now, replies);
        }
        if self.state == GroupState::PreparingRebalance {
            if self.gathering_until.is_some_and(|until| until <= now) {
                self.gathering_until = None;
            }
            if self.rebalance_deadline.is_some_and(|deadline| deadline <= now) {
                self.complete_join(now, replies);
            } else {
                self.try_complete_join(now, replies);
            }
        }
    }

    /// A member joins, or joins again.
    pub(crate) fn join(&mut self, now: u64, to: ReplyTo, join: Join, replies: &mut Replies) {
        if let Some(refused) = self.admit(now, to, join, replies) {
            replies.joined.push((to, refused));
        }
    }

    /// Lets a member in, unless there is a reason not to; the refusal is given back then.
    fn admit(&mut self, now: u64, to: ReplyTo, join: Join, replies: &mut Replies) -> Option<Joined> {
        let refuse = |error, member_id: &str| Joined {
            error,
            generation: -1,
            member_id: member_id.to_owned(),
            ..Joined::default()
        };
        if !self.accepts(&join) {
            return Some(refuse(ErrorCode::INCONSISTENT_GROUP_PROTOCOL, &join.member_id));
        }
        if let Some(instance_id) = &join.instance_id {
            match self.instances.get(instance_id) {
                Some(known) if join.member_id.is_empty() => {
                    let known = known.clone();
                    self.replace_static(now, to, join, &known, replies);
                    return None;
                }
                Some(known) if *known != join.member_id => {
                    return Some(refuse(ErrorCode::FENCED_INSTANCE_ID, &join.member_id));
                }
                None if !join.member_id.is_empty() => {
                    return Some(refuse(ErrorCode::UNKNOWN_MEMBER_ID, &join.member_id));
                }
                _ => {}
            }
        }
        if join.member_id.is_empty() {
            let member_id = join.new_member_id();
            if join.instance_id.is_none() && join.can_rejoin_with_id {
                self.pending
                    .insert(member_id.clone(), now.saturating_add(join.session_timeout_ns));
                return Some(refuse(ErrorCode::MEMBER_ID_REQUIRED, &member_id));
            }
            self.add(now, to, member_id, join, replies);
            return None;
        }
        if self.pending.remove(&join.member_id).is_some() {
            self.add(now, to, join.member_id.clone(), join, replies);
            return None;
        }
        if !self.members.contains_key(&join.member_id) {
            return Some(refuse(ErrorCode::UNKNOWN_MEMBER_ID, &join.member_id));
        }
        self.join_again(now, to, join, replies);
        None
    }

    /// Whether everyone could agree with what the join offers.
    fn accepts(&self, join: &Join) -> bool {
        if self
            .consumer
            .as_ref()
            .is_some_and(|consumer| !consumer.members.is_empty())
        {
            return false;
        }
        if join.protocol_type.is_empty() || join.protocols.is_empty() {
            return false;
        }
        let others: Vec<&Member> = self
            .members
            .iter()
            .filter(|(id, _)| **id != join.member_id)
            .map(|(_, member)| member)
            .collect();
        if self.members.is_empty() {
            return true;
        }
        self.protocol_type.as_deref() == Some(&join.protocol_type)
            && join.protocols.iter().any(|offered| {
                others
                    .iter()
                    .all(|member| member.protocols.iter().any(|known| known.name == offered.name))
            })
    }

    fn add(&mut self, now: u64, to: ReplyTo, member_id: String, join: Join, replies: &mut Replies) {
        self.is_touched = true;
        self.consumer = None;
        if self.members.is_empty() {
            self.protocol_type = Some(join.protocol_type.clone());
        }
        if let Some(instance_id) = &join.instance_id {
            self.instances.insert(instance_id.clone(), member_id.clone());
        }
        self.leader.get_or_insert_with(|| member_id.clone());
        self.members.insert(
            member_id,
            Member {
                instance_id: join.instance_id,
                client_id: join.client_id,
                client_host: join.client_host,
                session_timeout_ns: join.session_timeout_ns,
                rebalance_timeout_ns: join.rebalance_timeout_ns,
                protocols: join.protocols,
                assignment: Vec::new(),
                expires_at: now.saturating_add(join.session_timeout_ns),
                joining: Some(to),
                syncing: None,
                knows_skip_assignment: join.knows_skip_assignment,
            },
        );
        // A group that is gathering gives each newcomer the full delay again, up to the rebalance timeout.
        if let (Some(_), Some(deadline)) = (self.gathering_until, self.rebalance_deadline) {
            self.gathering_until = Some(now.saturating_add(self.initial_delay_ns).min(deadline));
        }
        self.rebalance(now, replies);
    }

    fn join_again(&mut self, now: u64, to: ReplyTo, join: Join, replies: &mut Replies) {
        let is_leader = self.leader.as_deref() == Some(&join.member_id);
        let Some(member) = self.members.get_mut(&join.member_id) else {
            return;
        };
        let is_changed = member.protocols != join.protocols;
        let repeats_answer = match self.state {
            // The answer to its last join was lost.
            GroupState::CompletingRebalance => !is_changed,
            // Only the leader, or a member with something new to say, makes everyone join again.
            GroupState::Stable => !is_changed && !is_leader,
            GroupState::PreparingRebalance | GroupState::Empty => false,
        };
        member.expires_at = now.saturating_add(join.session_timeout_ns);
        if repeats_answer {
            let joined = self.joined(&join.member_id);
            replies.joined.push((to, joined));
            return;
        }
        if let Some(earlier) = member.joining.replace(to) {
            replies.joined.push((
                earlier,
                Joined {
                    error: ErrorCode::REBALANCE_IN_PROGRESS,
                    ..Joined::default()
                },
            ));
        }
        member.session_timeout_ns = join.session_timeout_ns;
        member.rebalance_timeout_ns = join.rebalance_timeout_ns;
        member.protocols = join.protocols;
        member.knows_skip_assignment = join.knows_skip_assignment;
        self.rebalance(now, replies);
    }

    /// A static member is back under a new member id (KIP-345): if it still says the same, nobody else needs to know.
    fn replace_static(&mut self, now: u64, to: ReplyTo, join: Join, old_id: &str, replies: &mut Replies) {
        let Some(mut member) = self.members.remove(old_id) else {
            return;
        };
        let fenced = ErrorCode::FENCED_INSTANCE_ID;
        if let Some(earlier) = member.joining.take() {
            replies.joined.push((
                earlier,
                Joined {
                    error: fenced,
                    member_id: old_id.to_owned(),
                    ..Joined::default()
                },
            ));
        }
        if let Some(earlier) = member.syncing.take() {
            replies.synced.push((
                earlier,
                Synced {
                    error: fenced,
                    ..Synced::default()
                },
            ));
        }
        let new_id = join.new_member_id();
        let was_leader = self.leader.as_deref() == Some(old_id);
        let chosen = self.protocol.clone().unwrap_or_default();
        let says_the_same = member.metadata(&chosen)
            == join
                .protocols
                .iter()
                .find(|offered| offered.name == chosen)
                .map_or(&[][..], |offered| &offered.metadata);
        member.expires_at = now.saturating_add(join.session_timeout_ns);
        member.session_timeout_ns = join.session_timeout_ns;
        member.rebalance_timeout_ns = join.rebalance_timeout_ns;
        member.protocols = join.protocols;
        member.knows_skip_assignment = join.knows_skip_assignment;
        member.client_id = join.client_id;
        member.client_host = join.client_host;
        if let Some(instance_id) = &member.instance_id {
            self.instances.insert(instance_id.clone(), new_id.clone());
        }
        if was_leader {
            self.leader = Some(new_id.clone());
        }
        let stays = self.state == GroupState::Stable && says_the_same;
        if !stays {
            member.joining = Some(to);
        }
        self.members.insert(new_id.clone(), member);
        if !stays {
            self.rebalance(now, replies);
            return;
        }
        let mut joined = self.joined(&new_id);
        if was_leader && !joined.skip_assignment {
            // An older client would assign anew if it were told that it leads.
            joined.leader = old_id.to_owned();
            joined.members.clear();
        }
        replies.joined.push((to, joined));
    }

    /// Starts or restarts the join phase, or goes on with it.
    fn rebalance(&mut self, now: u64, replies: &mut Replies) {
        let was = self.state;
        match was {
            GroupState::PreparingRebalance => {
                self.try_complete_join(now, replies);
                return;
            }
            GroupState::CompletingRebalance => {
                for member in self.members.values_mut() {
                    if let Some(to) = member.syncing.take() {
                        member.expires_at = now.saturating_add(member.session_timeout_ns);
                        replies.synced.push((
                            to,
                            Synced {
                                error: ErrorCode::REBALANCE_IN_PROGRESS,
                                ..Synced::default()
                            },
                        ));
                    }
                }
            }
            GroupState::Empty | GroupState::Stable => {}
        }
        self.state = GroupState::PreparingRebalance;
        self.sync_deadline = None;
        let timeout = self
            .members
            .values()
            .map(|member| member.rebalance_timeout_ns)
            .max()
            .unwrap_or(0);
        self.rebalance_deadline = Some(now.saturating_add(timeout));
        self.gathering_until = (was == GroupState::Empty && self.initial_delay_ns > 0)
            .then(|| now.saturating_add(self.initial_delay_ns.min(timeout)));
        self.try_complete_join(now, replies);
    }

    fn try_complete_join(&mut self, now: u64, replies: &mut Replies) {
        let everyone_is_here =
            self.members.values().all(|member| member.joining.is_some()) && self.pending.is_empty();
        if everyone_is_here && self.gathering_until.is_none() {
            self.complete_join(now, replies);
        }
    }

    fn complete_join(&mut self, now: u64, replies: &mut Replies) {
        // Static members may be away until their session ends; the others had their chance.
        let absent: Vec<String> = self
            .members
            .iter()
            .filter(|(_, member)| member.joining.is_none() && member.instance_id.is_none())
            .map(|(id, _)| id.clone())
            .collect();
        for member_id in absent {
            self.remove(&member_id, ErrorCode::UNKNOWN_MEMBER_ID, replies);
        }
        self.gathering_until = None;
        self.rebalance_deadline = None;
        self.generation = self.generation.wrapping_add(1).max(1);
        if self.members.is_empty() {
            self.state = GroupState::Empty;
            self.protocol = None;
            self.leader = None;
            return;
        }
        let leads = self.leader.as_ref().and_then(|leader| self.members.get(leader));
        if leads.is_none_or(|leader| leader.joining.is_none()) {
            let present = self.members.iter().find(|(_, member)| member.joining.is_some());
            self.leader = present.or(self.members.iter().next()).map(|(id, _)| id.clone());
        }
        self.protocol = self.elect_protocol();
        self.state = GroupState::CompletingRebalance;
        let timeout = self
            .members
            .values()
            .map(|member| member.rebalance_timeout_ns)
            .max()
            .unwrap_or(0);
        self.sync_deadline = Some(now.saturating_add(timeout));
        for member_id in self.members.keys().cloned().collect::<Vec<_>>() {
            let Some(member) = self.members.get_mut(&member_id) else {
                continue;
            };
            member.assignment.clear();
            member.expires_at = now.saturating_add(member.session_timeout_ns);
            if let Some(to) = member.joining.take() {
                let mut joined = self.joined(&member_id);
                joined.skip_assignment = false;
                replies.joined.push((to, joined));
            }
        }
    }

    /// The strategy that most members like best, among those that all know.
    fn elect_protocol(&self) -> Option<String> {
        let mut votes: BTreeMap<&str, usize> = BTreeMap::new();
        let known_by_all = |name: &str| {
            self.members
                .values()
                .all(|member| member.protocols.iter().any(|known| known.name == name))
        };
        for member in self.members.values() {
            if let Some(first) = member
                .protocols
                .iter()
                .find(|offered| known_by_all(&offered.name))
            {
                *votes.entry(&first.name).or_default() += 1;
            }
        }
        votes
            .into_iter()
            .max_by_key(|(_, count)| *count)
            .map(|(name, _)| name.to_owned())
    }

    fn joined(&self, member_id: &str) -> Joined {
        let leads = self.leader.as_deref() == Some(member_id);
        let knows_skip = self
            .members
            .get(member_id)
            .is_some_and(|member| member.knows_skip_assignment);
        let protocol = self.protocol.clone().unwrap_or_default();
        let members = self.members.iter().filter(|_| leads).map(|(id, member)| {
            (
                id.clone(),
                member.instance_id.clone(),
                member.metadata(&protocol).to_vec(),
            )
        });
        Joined {
            error: ErrorCode::NONE,
            generation: self.generation,
            protocol_type: self.protocol_type.clone(),
            leader: self.leader.clone().unwrap_or_default(),
            member_id: member_id.to_owned(),
            skip_assignment: leads && knows_skip && self.state == GroupState::Stable,
            members: members.collect(),
            protocol: Some(protocol),
        }
    }

    /// A member asks for its assignment; the leader brings everyone's.
    pub(crate) fn sync(
        &mut self,
        now: u64,
        to: ReplyTo,
        speaker: Speaker<'_>,
        protocol: (Option<&str>, Option<&str>),
        assignments: Vec<(String, Vec<u8>)>,
        replies: &mut Replies,
    ) {
        if let Err(error) = self.check(speaker).and_then(|()| self.check_protocol(protocol)) {
            replies.synced.push((
                to,
                Synced {
                    error,
                    ..Synced::default()
                },
            ));
            return;
        }
        match self.state {
            GroupState::Empty => {
                replies.synced.push((
                    to,
                    Synced {
                        error: ErrorCode::UNKNOWN_MEMBER_ID,
                        ..Synced::default()
                    },
                ));
            }
            GroupState::PreparingRebalance => {
                replies.synced.push((
                    to,
                    Synced {
                        error: ErrorCode::REBALANCE_IN_PROGRESS,
                        ..Synced::default()
                    },
                ));
            }
            GroupState::CompletingRebalance => {
                if let Some(member) = self.members.get_mut(speaker.member_id) {
                    member.syncing = Some(to);
                }
                if self.leader.as_deref() == Some(speaker.member_id) {
                    self.assign(now, assignments, replies);
                }
            }
            GroupState::Stable => {
                if let Some(member) = self.members.get_mut(speaker.member_id) {
                    member.expires_at = now.saturating_add(member.session_timeout_ns);
                }
                let synced = self.synced(speaker.member_id);
                replies.synced.push((to, synced));
            }
        }
    }

    fn assign(&mut self, now: u64, assignments: Vec<(String, Vec<u8>)>, replies: &mut Replies) {
        for (member_id, assignment) in assignments {
            if let Some(member) = self.members.get_mut(&member_id) {
                member.assignment = assignment;
            }
        }
        self.state = GroupState::Stable;
        self.sync_deadline = None;
        for member_id in self.members.keys().cloned().collect::<Vec<_>>() {
            let Some(member) = self.members.get_mut(&member_id) else {
                continue;
            };
            if let Some(to) = member.syncing.take() {
                member.expires_at = now.saturating_add(member.session_timeout_ns);
                let synced = self.synced(&member_id);
                replies.synced.push((to, synced));
            }
        }
    }

    fn synced(&self, member_id: &str) -> Synced {
        Synced {
            error: ErrorCode::NONE,
            protocol_type: self.protocol_type.clone(),
            protocol: self.protocol.clone(),
            assignment: self
                .members
                .get(member_id)
                .map(|member| member.assignment.clone())
                .unwrap_or_default(),
        }
    }

    /// A member says that it lives.
    pub(crate) fn heartbeat(&mut self, now: u64, speaker: Speaker<'_>) -> ErrorCode {
        if let Err(error) = self.check(speaker) {
            return error;
        }
        if let Some(member) = self.members.get_mut(speaker.member_id) {
            member.expires_at = now.saturating_add(member.session_timeout_ns);
        }
        match self.state {
            GroupState::PreparingRebalance => ErrorCode::REBALANCE_IN_PROGRESS,
            _ => ErrorCode::NONE,
        }
    }

    /// A member goes, named by its member id or, if that is empty, by its instance id.
    pub(crate) fn leave(
        &mut self,
        now: u64,
        member_id: &str,
        instance_id: Option<&str>,
        replies: &mut Replies,
    ) -> ErrorCode {
        if let Some(consumer) = &mut self.consumer {
            return if consumer.remove_member(member_id, instance_id) {
                ErrorCode::NONE
            } else {
                ErrorCode::UNKNOWN_MEMBER_ID
            };
        }
        let member_id = match instance_id.map(|instance_id| self.instances.get(instance_id)) {
            Some(None) => return ErrorCode::UNKNOWN_MEMBER_ID,
            Some(Some(known)) if !member_id.is_empty() && known != member_id => {
                return ErrorCode::FENCED_INSTANCE_ID;
            }
            Some(Some(known)) => known.clone(),
            None => member_id.to_owned(),
        };
        if self.pending.remove(&member_id).is_some() {
            if self.state == GroupState::PreparingRebalance {
                self.try_complete_join(now, replies);
            }
            return ErrorCode::NONE;
        }
        if !self.members.contains_key(&member_id) {
            return ErrorCode::UNKNOWN_MEMBER_ID;
        }
        self.remove(&member_id, ErrorCode::UNKNOWN_MEMBER_ID, replies);
        self.rebalance(now, replies);
        ErrorCode::NONE
    }

    /// Whether `speaker` may commit offsets; if so, it is taken for alive.
    pub(crate) fn may_commit(&mut self, now: u64, speaker: Speaker<'_>) -> Result<(), ErrorCode> {
        if let Some(consumer) = &self.consumer {
            return consumer.may_commit(speaker.member_id, speaker.generation);
        }
        if speaker.generation < 0 && speaker.member_id.is_empty() && speaker.instance_id.is_none() {
            // Someone who manages partitions itself, or a tool: only while nobody else does.
            return match self.state {
                GroupState::Empty => Ok(()),
                _ => Err(ErrorCode::UNKNOWN_MEMBER_ID),
            };
        }
        self.check(speaker)?;
        if let Some(member) = self.members.get_mut(speaker.member_id) {
            member.expires_at = now.saturating_add(member.session_timeout_ns);
        }
        match self.state {
            GroupState::CompletingRebalance => Err(ErrorCode::REBALANCE_IN_PROGRESS),
            _ => Ok(()),
        }
    }

    fn check(&self, speaker: Speaker<'_>) -> Result<(), ErrorCode> {
        if let Some(instance_id) = speaker.instance_id {
            match self.instances.get(instance_id) {
                None => return Err(ErrorCode::UNKNOWN_MEMBER_ID),
                Some(known) if known != speaker.member_id => return Err(ErrorCode::FENCED_INSTANCE_ID),
                Some(_) => {}
            }
        }
        if !self.members.contains_key(speaker.member_id) {
            return Err(ErrorCode::UNKNOWN_MEMBER_ID);
        }
        if speaker.generation != self.generation {
            return Err(ErrorCode::ILLEGAL_GENERATION);
        }
        Ok(())
    }

    fn check_protocol(
        &self,
        (protocol_type, protocol): (Option<&str>, Option<&str>),
    ) -> Result<(), ErrorCode> {
        let differs = |theirs: Option<&str>, ours: &Option<String>| matches!((theirs, ours), (Some(theirs), Some(ours)) if theirs != ours);
        if differs(protocol_type, &self.protocol_type) || differs(protocol, &self.protocol) {
            return Err(ErrorCode::INCONSISTENT_GROUP_PROTOCOL);
        }
        Ok(())
    }

    /// The topics that members subscribe to, as consumers say it; `None` where a member cannot be understood.
    pub(crate) fn subscribed_topics(
        &self,
        topics_of: impl Fn(&[u8]) -> Option<Vec<String>>,
    ) -> Option<BTreeSet<String>> {
        let mut topics = BTreeSet::new();
        for member in self.members.values() {
            for protocol in &member.protocols {
                topics.extend(topics_of(&protocol.metadata)?);
            }
        }
        Some(topics)
    }

    fn remove(&mut self, member_id: &str, reason: ErrorCode, replies: &mut Replies) {
        let Some(member) = self.members.remove(member_id) else {
            return;
        };
        if let Some(instance_id) = &member.instance_id {
            self.instances.remove(instance_id);
        }
        if self.leader.as_deref() == Some(member_id) {
            self.leader = self.members.keys().next().cloned();
        }
        if let Some(to) = member.joining {
            replies.joined.push((
                to,
                Joined {
                    error: reason,
                    generation: -1,
                    ..Joined::default()
                },
            ));
        }
        if let Some(to) = member.syncing {
            replies.synced.push((
                to,
                Synced {
                    error: reason,
                    ..Synced::default()
                },
            ));
        }
    }
}

impl Join {
    fn new_member_id(&self) -> String {
        let name = self.instance_id.as_deref().unwrap_or(&self.client_id);
        format!("{name}-{}", self.fresh_id)
    }
}

/// Milliseconds as a client states them; what is negative counts as zero.
pub(crate) fn ms_to_ns(ms: i64) -> u64 {
    u64::try_from(ms).unwrap_or(0).saturating_mul(MS_NS)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000 * MS_NS;

    struct Bench {
        group: Group,
        replies: Replies,
        now: u64,
        requests: i32,
    }

    impl Bench {
        fn new(initial_delay_ns: u64) -> Bench {
            Bench {
                group: Group::new(initial_delay_ns),
                replies: Replies::default(),
                now: 0,
                requests: 0,
            }
        }

        fn to(&mut self) -> ReplyTo {
            self.requests += 1;
            ReplyTo::for_test(self.requests)
        }

        fn join(&mut self, member_id: &str, instance: Option<&str>, protocols: &[&str]) -> ReplyTo {
            let to = self.to();
            let join = Join {
                member_id: member_id.to_owned(),
                instance_id: instance.map(str::to_owned),
                client_id: "client".to_owned(),
                client_host: "/127.0.0.1".to_owned(),
                session_timeout_ns: 10 * SECOND,
                rebalance_timeout_ns: 60 * SECOND,
                protocol_type: "consumer".to_owned(),
                protocols: protocols
                    .iter()
                    .map(|name| Protocol {
                        name: (*name).to_owned(),
                        metadata: format!("{name}!").into_bytes(),
                    })
                    .collect(),
                can_rejoin_with_id: true,
                knows_skip_assignment: false,
                fresh_id: format!("id{}", self.requests),
            };
            self.group.join(self.now, to, join, &mut self.replies);
            to
        }

        /// Joins as clients do: once without an id, once with the id given.
        fn enter(&mut self) -> (ReplyTo, String) {
            let first = self.join("", None, &["range"]);
            let given = self.joined(first).expect("an id at once");
            assert_eq!(given.error, ErrorCode::MEMBER_ID_REQUIRED);
            (self.join(&given.member_id, None, &["range"]), given.member_id)
        }

        fn sync(&mut self, member_id: &str, generation: i32, assignments: &[(&str, &str)]) -> ReplyTo {
            let to = self.to();
            let speaker = Speaker {
                member_id,
                instance_id: None,
                generation,
            };
            let assignments = assignments
                .iter()
                .map(|(id, parts)| ((*id).to_owned(), parts.as_bytes().to_vec()))
                .collect();
            self.group.sync(
                self.now,
                to,
                speaker,
                (Some("consumer"), None),
                assignments,
                &mut self.replies,
            );
            to
        }

        fn joined(&mut self, to: ReplyTo) -> Option<Joined> {
            let index = self.replies.joined.iter().position(|(other, _)| *other == to)?;
            Some(self.replies.joined.remove(index).1)
        }

        fn synced(&mut self, to: ReplyTo) -> Option<Synced> {
            let index = self.replies.synced.iter().position(|(other, _)| *other == to)?;
            Some(self.replies.synced.remove(index).1)
        }

        fn beat(&mut self, member_id: &str, generation: i32) -> ErrorCode {
            self.group.heartbeat(
                self.now,
                Speaker {
                    member_id,
                    instance_id: None,
                    generation,
                },
            )
        }

        fn pass(&mut self, seconds: u64) {
            self.now += seconds * SECOND;
            self.group.tick(self.now, &mut self.replies);
        }

        /// A group of two in generation 2, stable: (leader, follower).
        fn pair(&mut self) -> (String, String) {
            let (to, leader) = self.enter();
            assert_eq!(self.joined(to).expect("alone").generation, 1);
            let (second, follower) = self.enter();
            assert_eq!(self.beat(&leader, 1), ErrorCode::REBALANCE_IN_PROGRESS);
            let first = self.join(&leader, None, &["range"]);
            let joined = self.joined(first).expect("both are here");
            assert_eq!(
                (joined.generation, joined.leader.as_str(), joined.members.len()),
                (2, leader.as_str(), 2)
            );
            assert!(self.joined(second).expect("both are here").members.is_empty());
            let waiting = self.sync(&follower, 2, &[]);
            assert_eq!(self.synced(waiting), None);
            let leading = self.sync(&leader, 2, &[(&leader, "a"), (&follower, "b")]);
            assert_eq!(self.synced(leading).expect("leader").assignment, b"a");
            assert_eq!(self.synced(waiting).expect("follower").assignment, b"b");
            assert_eq!(self.group.state(), GroupState::Stable);
            (leader, follower)
        }
    }

    #[test]
    fn two_members_join_sync_and_live() {
        let mut bench = Bench::new(0);
        let (leader, follower) = bench.pair();
        assert_eq!(bench.beat(&leader, 2), ErrorCode::NONE);
        assert_eq!(bench.beat(&follower, 1), ErrorCode::ILLEGAL_GENERATION);
        assert_eq!(bench.beat("nobody", 2), ErrorCode::UNKNOWN_MEMBER_ID);
    }

    #[test]
    fn who_is_silent_is_taken_out_and_the_others_join_again() {
        let mut bench = Bench::new(0);
        let (leader, follower) = bench.pair();
        bench.pass(6);
        assert_eq!(bench.beat(&follower, 2), ErrorCode::NONE);
        assert_eq!(bench.group.next_deadline(), Some(10 * SECOND));
        bench.pass(5);
        assert_eq!(bench.beat(&leader, 2), ErrorCode::UNKNOWN_MEMBER_ID);
        assert_eq!(bench.beat(&follower, 2), ErrorCode::REBALANCE_IN_PROGRESS);
        let to = bench.join(&follower, None, &["range"]);
        let joined = bench.joined(to).expect("alone now");
        assert_eq!((joined.generation, joined.leader), (3, follower));
    }

    #[test]
    fn who_does_not_join_again_in_time_is_left_behind() {
        let mut bench = Bench::new(0);
        let (leader, follower) = bench.pair();
        let again = bench.join(&leader, None, &["range"]);
        assert_eq!(bench.joined(again), None);
        for _ in 0..11 {
            assert_eq!(bench.beat(&follower, 2), ErrorCode::REBALANCE_IN_PROGRESS);
            bench.pass(5);
        }
        assert_eq!(bench.joined(again), None, "the follower lives and may still join");
        bench.beat(&follower, 2);
        bench.pass(5);
        assert_eq!(bench.joined(again).expect("60 s are over").members.len(), 1);
        assert_eq!(bench.beat(&follower, 3), ErrorCode::UNKNOWN_MEMBER_ID);
    }

    #[test]
    fn who_does_not_sync_in_time_is_taken_out() {
        let mut bench = Bench::new(0);
        let (to, leader) = bench.enter();
        bench.joined(to);
        for _ in 0..6 {
            bench.pass(9);
            assert_eq!(bench.beat(&leader, 1), ErrorCode::NONE);
        }
        bench.pass(6);
        assert_eq!(bench.group.state(), GroupState::Empty);
    }

    #[test]
    fn who_leaves_makes_the_others_join_again() {
        let mut bench = Bench::new(0);
        let (leader, follower) = bench.pair();
        assert_eq!(
            bench.group.leave(bench.now, &follower, None, &mut bench.replies),
            ErrorCode::NONE
        );
        assert_eq!(bench.beat(&leader, 2), ErrorCode::REBALANCE_IN_PROGRESS);
        assert_eq!(
            bench.group.leave(bench.now, &leader, None, &mut bench.replies),
            ErrorCode::NONE
        );
        assert_eq!(bench.group.state(), GroupState::Empty);
        assert_eq!(
            bench.group.leave(bench.now, &leader, None, &mut bench.replies),
            ErrorCode::UNKNOWN_MEMBER_ID
        );
    }

    #[test]
    fn an_empty_group_gathers_before_it_starts() {
        let mut bench = Bench::new(3 * SECOND);
        let (first, _) = bench.enter();
        bench.pass(2);
        let (second, _) = bench.enter();
        bench.pass(2);
        assert_eq!(
            bench.joined(first),
            None,
            "the second one gave it three seconds more"
        );
        bench.pass(1);
        assert_eq!(bench.joined(first).expect("gathered").generation, 1);
        assert_eq!(bench.joined(second).expect("gathered").generation, 1);
    }

    #[test]
    fn an_id_that_is_not_used_is_forgotten_and_holds_up_nobody_for_ever() {
        let mut bench = Bench::new(0);
        bench.join("", None, &["range"]);
        let (to, _) = bench.enter();
        assert_eq!(bench.joined(to), None, "somebody was given an id and is awaited");
        bench.pass(10);
        assert_eq!(bench.joined(to).expect("awaited long enough").generation, 1);
    }

    #[test]
    fn protocols_must_have_something_in_common() {
        let mut bench = Bench::new(0);
        let to = bench.join("", Some("static"), &["range", "roundrobin"]);
        assert_eq!(
            bench.joined(to).expect("alone").protocol.as_deref(),
            Some("range")
        );
        let to = bench.join("", None, &["sticky"]);
        assert_eq!(
            bench.joined(to).expect("refused").error,
            ErrorCode::INCONSISTENT_GROUP_PROTOCOL
        );
        let to = bench.join("", Some("other"), &["roundrobin"]);
        assert_eq!(bench.joined(to), None);
        let first = bench.group.instances["static"].clone();
        let again = bench.join(&first, Some("static"), &["range", "roundrobin"]);
        assert_eq!(
            bench.joined(again).expect("both").protocol.as_deref(),
            Some("roundrobin")
        );
    }

    #[test]
    fn a_static_member_comes_back_without_a_rebalance() {
        let mut bench = Bench::new(0);
        let to = bench.join("", Some("one"), &["range"]);
        let old_id = bench.joined(to).expect("alone").member_id;
        bench.sync(&old_id, 1, &[(&old_id, "everything")]);
        let to = bench.join("", Some("one"), &["range"]);
        let joined = bench.joined(to).expect("at once");
        assert_ne!(joined.member_id, old_id);
        assert_eq!((joined.generation, joined.leader), (1, old_id.clone()));
        let synced = bench.sync(&joined.member_id, 1, &[]);
        assert_eq!(bench.synced(synced).expect("stable").assignment, b"everything");
        let to = bench.join(&old_id, Some("one"), &["range"]);
        assert_eq!(
            bench.joined(to).expect("fenced").error,
            ErrorCode::FENCED_INSTANCE_ID
        );
        assert_eq!(
            bench.group.leave(bench.now, "", Some("one"), &mut bench.replies),
            ErrorCode::NONE
        );
        assert_eq!(bench.group.state(), GroupState::Empty);
    }

    #[test]
    fn offsets_are_committed_by_members_or_while_there_are_none() {
        let mut bench = Bench::new(0);
        let nobody = Speaker {
            member_id: "",
            instance_id: None,
            generation: -1,
        };
        assert_eq!(bench.group.may_commit(0, nobody), Ok(()));
        let (leader, _) = bench.pair();
        assert_eq!(
            bench.group.may_commit(0, nobody),
            Err(ErrorCode::UNKNOWN_MEMBER_ID)
        );
        let speaker = Speaker {
            member_id: &leader,
            instance_id: None,
            generation: 2,
        };
        assert_eq!(bench.group.may_commit(0, speaker), Ok(()));
        let old = Speaker {
            generation: 1,
            ..speaker
        };
        assert_eq!(bench.group.may_commit(0, old), Err(ErrorCode::ILLEGAL_GENERATION));
    }
}
