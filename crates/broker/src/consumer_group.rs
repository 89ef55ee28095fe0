//! The consumer group protocol of KIP-848, as the coordinator of one group lives it: members say what they subscribe to and
//! what they own, the coordinator decides who is to have what, and each member is led there by its heartbeats.
//!
//! A member gives up what it is to lose before it gets anything new, and nobody gets a partition that another member has
//! not given up. A group is a state machine over (now, request); topics are handed in.

use crate::cluster::TopicKey;
use std::collections::{BTreeMap, BTreeSet};
use wire::ErrorCode;

/// A partition.
pub(crate) type Place = (TopicKey, i32);

/// The topics that there are, by name: key and number of partitions.
pub(crate) type Topics<'a> = BTreeMap<&'a str, (TopicKey, i32)>;

/// `member_epoch` of a member that joins, that leaves, and that leaves for a while as a static member.
const JOINS: i32 = 0;
const LEAVES: i32 = -1;
const LEAVES_FOR_A_WHILE: i32 = -2;

/// The strategies of the coordinator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Assignor {
    /// Partitions stay where they are as far as balance allows it.
    Uniform,
    /// Each topic's partitions are divided in order among the members that read it.
    Range,
}

impl Assignor {
    fn of(name: &str) -> Option<Assignor> {
        match name {
            "uniform" => Some(Assignor::Uniform),
            "range" => Some(Assignor::Range),
            _ => None,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Assignor::Uniform => "uniform",
            Assignor::Range => "range",
        }
    }
}

/// A heartbeat; what is `None` has not changed since the last one.
#[derive(Clone, Debug, Default)]
pub(crate) struct Heartbeat {
    pub(crate) member_id: String,
    pub(crate) member_epoch: i32,
    pub(crate) instance_id: Option<String>,
    pub(crate) rack_id: Option<String>,
    /// Negative if unchanged.
    pub(crate) rebalance_timeout_ms: i32,
    pub(crate) subscribed_names: Option<Vec<String>>,
    pub(crate) subscribed_regex: Option<String>,
    pub(crate) server_assignor: Option<String>,
    pub(crate) owned: Option<BTreeSet<Place>>,
    pub(crate) client_id: String,
    pub(crate) client_host: String,
}

/// The answer to a heartbeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Beat {
    pub(crate) member_epoch: i32,
    /// What the member is to own now; `None` if that has not changed.
    pub(crate) assignment: Option<BTreeSet<Place>>,
}

/// Why a heartbeat is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) error: ErrorCode,
    pub(crate) reason: String,
}

fn refuse<T>(error: ErrorCode, reason: impl Into<String>) -> Result<T, Refused> {
    Err(Refused {
        error,
        reason: reason.into(),
    })
}

/// One member.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) instance_id: Option<String>,
    pub(crate) rack_id: Option<String>,
    pub(crate) client_id: String,
    pub(crate) client_host: String,
    pub(crate) epoch: i32,
    previous_epoch: i32,
    pub(crate) subscribed_names: BTreeSet<String>,
    pub(crate) subscribed_regex: Option<String>,
    regex: Option<regex_lite::Regex>,
    server_assignor: Option<Assignor>,
    /// What it was told to own.
    pub(crate) assigned: BTreeSet<Place>,
    /// What it was told to give up and may still own.
    revoking: BTreeSet<Place>,
    rebalance_timeout_ns: u64,
    expires_at: u64,
    /// When it is thrown out if it has not given up what it is to lose.
    revoked_by: Option<u64>,
}

impl Member {
    fn reads(&self, topic: &str) -> bool {
        self.subscribed_names.contains(topic)
            || self.regex.as_ref().is_some_and(|regex| regex.is_match(topic))
    }
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct ConsumerGroup {
    pub(crate) epoch: i32,
    /// The group's epoch when `target` was computed.
    pub(crate) assignment_epoch: i32,
    pub(crate) members: BTreeMap<String, Member>,
    /// What each member is to own in the end.
    target: BTreeMap<String, BTreeSet<Place>>,
    /// Topics read by the members, when `target` was computed.
    known_topics: BTreeMap<String, (TopicKey, i32)>,
    session_timeout_ns: u64,
}

impl ConsumerGroup {
    pub(crate) fn new(session_timeout_ns: u64) -> ConsumerGroup {
        ConsumerGroup {
            session_timeout_ns,
            ..ConsumerGroup::default()
        }
    }

    /// As ListGroups names it.
    pub(crate) fn state_name(&self) -> &'static str {
        if self.members.is_empty() {
            return "Empty";
        }
        if self.assignment_epoch < self.epoch {
            return "Assigning";
        }
        let is_there = |member: &Member| member.epoch == self.assignment_epoch && member.revoking.is_empty();
        let is_whole = |(id, member): (&String, &Member)| Some(&member.assigned) == self.target.get(id);
        if self.members.values().all(is_there) && self.members.iter().all(is_whole) {
            "Stable"
        } else {
            "Reconciling"
        }
    }

    /// The strategy in force: the one that most members ask for.
    pub(crate) fn assignor(&self) -> Assignor {
        let mut wanted: BTreeMap<Assignor, usize> = BTreeMap::new();
        for assignor in self.members.values().filter_map(|member| member.server_assignor) {
            *wanted.entry(assignor).or_default() += 1;
        }
        let most = wanted.into_iter().max_by_key(|(_, count)| *count);
        most.map_or(Assignor::Uniform, |(assignor, _)| assignor)
    }

    /// What a member is to own in the end.
    pub(crate) fn target_of(&self, member_id: &str) -> BTreeSet<Place> {
        self.target.get(member_id).cloned().unwrap_or_default()
    }

    /// The topics that members read.
    pub(crate) fn is_read(&self, topic: &str) -> bool {
        self.members.values().any(|member| member.reads(topic))
    }

    /// Whether the member may commit offsets in this epoch.
    pub(crate) fn may_commit(&self, member_id: &str, epoch: i32) -> Result<(), ErrorCode> {
        if epoch < 0 && self.members.is_empty() {
            return Ok(());
        }
        let member = self.members.get(member_id).ok_or(ErrorCode::UNKNOWN_MEMBER_ID)?;
        if member.epoch == epoch {
            Ok(())
        } else {
            Err(ErrorCode::STALE_MEMBER_EPOCH)
        }
    }

    /// When [`ConsumerGroup::tick`] is next needed.
    pub(crate) fn next_deadline(&self) -> Option<u64> {
        let times = |member: &Member| Some(member.expires_at).into_iter().chain(member.revoked_by);
        self.members.values().flat_map(times).min()
    }

    /// Throws out members that were silent, or have held on to partitions, for too long.
    pub(crate) fn tick(&mut self, now: u64) {
        let is_over =
            |member: &Member| member.expires_at <= now || member.revoked_by.is_some_and(|by| by <= now);
        let over: Vec<String> = self
            .members
            .iter()
            .filter(|(_, member)| is_over(member))
            .map(|(id, _)| id.clone())
            .collect();
        for member_id in over {
            self.remove(&member_id);
        }
    }

    /// A member joins, stays, or leaves.
    pub(crate) fn heartbeat(
        &mut self,
        now: u64,
        beat: Heartbeat,
        topics: &Topics<'_>,
    ) -> Result<Beat, Refused> {
        match beat.member_epoch {
            LEAVES | LEAVES_FOR_A_WHILE => return self.leave(now, &beat),
            JOINS => self.join(now, &beat)?,
            _ => self.check(&beat)?,
        }
        // One that says everything of itself, as after a lost answer, wants to be told everything.
        let says_all = beat.owned.is_some()
            && beat.rebalance_timeout_ms >= 0
            && (beat.subscribed_names.is_some() || beat.subscribed_regex.is_some());
        let is_full = beat.member_epoch == JOINS || says_all;
        self.update(now, &beat)?;
        self.assign_anew(topics);
        Ok(self.reconcile(now, &beat, is_full))
    }

    fn join(&mut self, now: u64, beat: &Heartbeat) -> Result<(), Refused> {
        if beat.rebalance_timeout_ms < 0 {
            return refuse(
                ErrorCode::INVALID_REQUEST,
                "RebalanceTimeoutMs must be provided to join",
            );
        }
        if beat.subscribed_names.is_none() && beat.subscribed_regex.is_none() {
            return refuse(
                ErrorCode::INVALID_REQUEST,
                "a subscription must be provided to join",
            );
        }
        if beat.owned.as_ref().is_some_and(|owned| !owned.is_empty()) {
            return refuse(
                ErrorCode::INVALID_REQUEST,
                "TopicPartitions must be empty when joining",
            );
        }
        let known = beat
            .instance_id
            .as_deref()
            .and_then(|instance_id| self.of_instance(instance_id));
        match known {
            Some(known) if known == beat.member_id => {}
            Some(known) => {
                let has_left = self
                    .members
                    .get(&known)
                    .is_some_and(|member| member.epoch == LEAVES_FOR_A_WHILE);
                if !has_left {
                    return refuse(
                        ErrorCode::UNRELEASED_INSTANCE_ID,
                        format!("the instance id is still that of member {known}"),
                    );
                }
                // The static member is back under another id, and has what it had.
                if let Some(mut member) = self.members.remove(&known) {
                    member.epoch = JOINS;
                    member.previous_epoch = JOINS;
                    member.assigned.clear();
                    member.revoking.clear();
                    self.members.insert(beat.member_id.clone(), member);
                }
                if let Some(target) = self.target.remove(&known) {
                    self.target.insert(beat.member_id.clone(), target);
                }
            }
            None => {}
        }
        let expires_at = now.saturating_add(self.session_timeout_ns);
        self.members
            .entry(beat.member_id.clone())
            .or_insert_with(|| Member {
                instance_id: beat.instance_id.clone(),
                rack_id: None,
                client_id: String::new(),
                client_host: String::new(),
                epoch: JOINS,
                previous_epoch: JOINS,
                subscribed_names: BTreeSet::new(),
                subscribed_regex: None,
                regex: None,
                server_assignor: None,
                assigned: BTreeSet::new(),
                revoking: BTreeSet::new(),
                rebalance_timeout_ns: 0,
                expires_at,
                revoked_by: None,
            });
        Ok(())
    }

    /// Whether the member is who it says, where it says to be.
    fn check(&self, beat: &Heartbeat) -> Result<(), Refused> {
        if let Some(instance_id) = &beat.instance_id {
            match self.of_instance(instance_id) {
                Some(known) if known != beat.member_id => {
                    return refuse(
                        ErrorCode::FENCED_INSTANCE_ID,
                        format!("the instance id is that of member {known}"),
                    );
                }
                _ => {}
            }
        }
        let Some(member) = self.members.get(&beat.member_id) else {
            return refuse(
                ErrorCode::UNKNOWN_MEMBER_ID,
                format!("there is no member {}", beat.member_id),
            );
        };
        if beat.member_epoch == member.epoch {
            return Ok(());
        }
        // The answer with the new epoch was lost: that is all right as long as it owns nothing beyond what it was told.
        let is_behind = beat.member_epoch == member.previous_epoch
            && beat
                .owned
                .as_ref()
                .is_some_and(|owned| owned.is_subset(&member.assigned));
        if is_behind {
            return Ok(());
        }
        refuse(
            ErrorCode::FENCED_MEMBER_EPOCH,
            format!(
                "the member's epoch is {}, not {}; it has to give up its partitions and join anew",
                member.epoch, beat.member_epoch
            ),
        )
    }

    fn leave(&mut self, now: u64, beat: &Heartbeat) -> Result<Beat, Refused> {
        if let Some(instance_id) = &beat.instance_id
            && self
                .of_instance(instance_id)
                .is_some_and(|known| known != beat.member_id)
        {
            return refuse(
                ErrorCode::FENCED_INSTANCE_ID,
                "the instance id is another member's",
            );
        }
        let Some(member) = self.members.get_mut(&beat.member_id) else {
            return refuse(
                ErrorCode::UNKNOWN_MEMBER_ID,
                format!("there is no member {}", beat.member_id),
            );
        };
        if beat.member_epoch == LEAVES_FOR_A_WHILE && member.instance_id.is_some() {
            // Its partitions wait for it, until its session is over.
            member.epoch = LEAVES_FOR_A_WHILE;
            member.previous_epoch = LEAVES_FOR_A_WHILE;
            member.revoking.clear();
            member.revoked_by = None;
            member.expires_at = now.saturating_add(self.session_timeout_ns);
        } else {
            self.remove(&beat.member_id);
        }
        Ok(Beat {
            member_epoch: beat.member_epoch,
            assignment: None,
        })
    }

    /// A member is thrown out by an administrator; false if there is none of that name.
    pub(crate) fn remove_member(&mut self, member_id: &str, instance_id: Option<&str>) -> bool {
        let member_id = match instance_id {
            Some(instance_id) => self.of_instance(instance_id),
            None => Some(member_id.to_owned()),
        };
        member_id.is_some_and(|member_id| self.remove(&member_id))
    }

    fn remove(&mut self, member_id: &str) -> bool {
        let is_there = self.members.remove(member_id).is_some();
        if is_there {
            self.target.remove(member_id);
            self.epoch += 1;
        }
        is_there
    }

    fn of_instance(&self, instance_id: &str) -> Option<String> {
        self.members
            .iter()
            .find(|(_, member)| member.instance_id.as_deref() == Some(instance_id))
            .map(|(id, _)| id.clone())
    }

    /// Takes what a heartbeat says of the member. A change of what it subscribes to raises the group's epoch.
    fn update(&mut self, now: u64, beat: &Heartbeat) -> Result<(), Refused> {
        let assignor = match beat.server_assignor.as_deref() {
            None => None,
            Some(name) => match Assignor::of(name) {
                Some(assignor) => Some(assignor),
                None => {
                    self.forget_newcomer(beat);
                    return refuse(
                        ErrorCode::UNSUPPORTED_ASSIGNOR,
                        format!(
                            "ServerAssignor {name} is not supported. Supported assignors: uniform, range."
                        ),
                    );
                }
            },
        };
        let regex = match beat.subscribed_regex.as_deref() {
            None | Some("") => None,
            Some(pattern) => match regex_lite::Regex::new(&format!("^(?:{pattern})$")) {
                Ok(regex) => Some(regex),
                Err(error) => {
                    self.forget_newcomer(beat);
                    return refuse(
                        ErrorCode::INVALID_REGULAR_EXPRESSION,
                        format!("SubscribedTopicRegex {pattern}: {error}"),
                    );
                }
            },
        };
        let session_timeout_ns = self.session_timeout_ns;
        let Some(member) = self.members.get_mut(&beat.member_id) else {
            return Ok(());
        };
        member.expires_at = now.saturating_add(session_timeout_ns);
        member.client_id.clone_from(&beat.client_id);
        member.client_host.clone_from(&beat.client_host);
        let mut is_changed = beat.member_epoch == JOINS && member.epoch == JOINS;
        if beat.rebalance_timeout_ms >= 0 {
            member.rebalance_timeout_ns = crate::group::ms_to_ns(beat.rebalance_timeout_ms.into());
        }
        if beat.instance_id.is_some() {
            member.instance_id.clone_from(&beat.instance_id);
        }
        if beat.rack_id.is_some() {
            member.rack_id.clone_from(&beat.rack_id);
        }
        if let Some(names) = &beat.subscribed_names {
            let names: BTreeSet<String> = names.iter().cloned().collect();
            is_changed |= names != member.subscribed_names;
            member.subscribed_names = names;
        }
        if let Some(pattern) = &beat.subscribed_regex {
            let pattern = Some(pattern.clone()).filter(|pattern| !pattern.is_empty());
            is_changed |= pattern != member.subscribed_regex;
            member.subscribed_regex = pattern;
            member.regex = regex;
        }
        if assignor.is_some() {
            is_changed |= assignor != member.server_assignor;
            member.server_assignor = assignor;
        }
        if is_changed {
            self.epoch += 1;
        }
        Ok(())
    }

    /// One that was refused when it joined has never been there.
    fn forget_newcomer(&mut self, beat: &Heartbeat) {
        let is_new = self
            .members
            .get(&beat.member_id)
            .is_some_and(|member| member.epoch == JOINS && member.subscribed_names.is_empty());
        if beat.member_epoch == JOINS && is_new {
            self.members.remove(&beat.member_id);
            self.target.remove(&beat.member_id);
        }
    }

    /// Decides anew who is to have what, if members or topics have changed.
    fn assign_anew(&mut self, topics: &Topics<'_>) {
        let read: BTreeMap<String, (TopicKey, i32)> = topics
            .iter()
            .filter(|(name, _)| self.is_read(name))
            .map(|(name, topic)| ((*name).to_owned(), *topic))
            .collect();
        if read != self.known_topics {
            self.known_topics = read;
            self.epoch += 1;
        }
        if self.assignment_epoch == self.epoch {
            return;
        }
        self.target = match self.assignor() {
            Assignor::Uniform => self.uniform(),
            Assignor::Range => self.range(),
        };
        self.assignment_epoch = self.epoch;
    }

    fn range(&self) -> BTreeMap<String, BTreeSet<Place>> {
        let mut target: BTreeMap<String, BTreeSet<Place>> = self.nothing();
        for (name, &(key, partitions)) in &self.known_topics {
            let readers: Vec<&String> = self
                .members
                .iter()
                .filter(|(_, member)| member.reads(name))
                .map(|(id, _)| id)
                .collect();
            let partitions = partitions as usize;
            for (place, reader) in readers.iter().enumerate() {
                let (each, more) = (partitions / readers.len(), partitions % readers.len());
                let start = each * place + place.min(more);
                let count = each + usize::from(place < more);
                let own = target.entry((*reader).clone()).or_default();
                own.extend((start..start + count).map(|index| (key, index as i32)));
            }
        }
        target
    }

    /// Keeps what each member was to have, gives what is free to whoever has least, and then evens out.
    fn uniform(&self) -> BTreeMap<String, BTreeSet<Place>> {
        let names: BTreeMap<TopicKey, &str> = self
            .known_topics
            .iter()
            .map(|(name, (key, _))| (*key, name.as_str()))
            .collect();
        let reads = |id: &str, (key, _): &Place| {
            let member = self.members.get(id);
            names
                .get(key)
                .is_some_and(|name| member.is_some_and(|member| member.reads(name)))
        };
        let mut free: BTreeSet<Place> = self
            .known_topics
            .values()
            .flat_map(|&(key, partitions)| (0..partitions).map(move |index| (key, index)))
            .collect();
        let mut target = self.nothing();
        for (id, own) in &mut target {
            let kept = self.target.get(id).into_iter().flatten();
            for place in kept.filter(|place| reads(id, place)) {
                if free.remove(place) {
                    own.insert(*place);
                }
            }
        }
        for place in free {
            let least = target
                .iter()
                .filter(|(id, _)| reads(id, &place))
                .min_by_key(|(_, own)| own.len())
                .map(|(id, _)| id.clone());
            if let Some(own) = least.and_then(|id| target.get_mut(&id)) {
                own.insert(place);
            }
        }
        while let Some((from, to, place)) = uneven(&target, &reads) {
            if let Some(own) = target.get_mut(&from) {
                own.remove(&place);
            }
            if let Some(own) = target.get_mut(&to) {
                own.insert(place);
            }
        }
        target
    }

    fn nothing(&self) -> BTreeMap<String, BTreeSet<Place>> {
        self.members
            .keys()
            .map(|id| (id.clone(), BTreeSet::new()))
            .collect()
    }

    /// Leads a member a step further towards what it is to own.
    fn reconcile(&mut self, now: u64, beat: &Heartbeat, is_full: bool) -> Beat {
        let target = self.target_of(&beat.member_id);
        let assignment_epoch = self.assignment_epoch;
        let held_by_others: BTreeSet<Place> = self
            .members
            .iter()
            .filter(|(id, _)| **id != beat.member_id)
            .flat_map(|(_, member)| member.assigned.iter().chain(&member.revoking))
            .copied()
            .collect();
        let Some(member) = self.members.get_mut(&beat.member_id) else {
            return Beat {
                member_epoch: beat.member_epoch,
                assignment: None,
            };
        };
        let before = member.assigned.clone();
        if beat.member_epoch == JOINS {
            // Whoever joins owns nothing.
            member.assigned.clear();
            member.revoking.clear();
        }
        if !member.revoking.is_empty() {
            let has_given_up = beat
                .owned
                .as_ref()
                .is_some_and(|owned| owned.is_disjoint(&member.revoking));
            if has_given_up {
                member.revoking.clear();
                member.revoked_by = None;
            }
        }
        if member.revoking.is_empty() {
            let lost: BTreeSet<Place> = member.assigned.difference(&target).copied().collect();
            if lost.is_empty() {
                let free = target.iter().filter(|place| !held_by_others.contains(place));
                member.assigned = free.copied().collect();
                if member.epoch != assignment_epoch {
                    member.previous_epoch = member.epoch;
                    member.epoch = assignment_epoch;
                }
            } else {
                member.assigned = member.assigned.intersection(&target).copied().collect();
                member.revoking = lost;
                member.revoked_by = Some(now.saturating_add(member.rebalance_timeout_ns));
            }
        }
        let is_told = is_full || before != member.assigned;
        Beat {
            member_epoch: member.epoch,
            assignment: is_told.then(|| member.assigned.clone()),
        }
    }
}

/// A partition that one member should hand to another, so that they are more even.
fn uneven(
    target: &BTreeMap<String, BTreeSet<Place>>,
    reads: &impl Fn(&str, &Place) -> bool,
) -> Option<(String, String, Place)> {
    let mut by_count: Vec<(&String, &BTreeSet<Place>)> = target.iter().collect();
    by_count.sort_by_key(|(_, own)| own.len());
    for (from, own) in by_count.iter().rev() {
        for (to, less) in &by_count {
            if own.len() < less.len() + 2 {
                break;
            }
            if let Some(place) = own.iter().rev().find(|place| reads(to, place)) {
                return Some(((*from).clone(), (*to).clone(), *place));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: u64 = 1_000_000_000;

    fn topics(list: &[(&'static str, i32)]) -> Topics<'static> {
        list.iter()
            .zip(0..)
            .map(|((name, partitions), key)| (*name, (key, *partitions)))
            .collect()
    }

    fn joining(id: &str, names: &[&str]) -> Heartbeat {
        Heartbeat {
            member_id: id.to_owned(),
            rebalance_timeout_ms: 30_000,
            subscribed_names: Some(names.iter().map(|name| (*name).to_owned()).collect()),
            ..Heartbeat::default()
        }
    }

    fn beating(id: &str, member_epoch: i32, owned: Option<&BTreeSet<Place>>) -> Heartbeat {
        Heartbeat {
            member_id: id.to_owned(),
            member_epoch,
            rebalance_timeout_ms: -1,
            owned: owned.cloned(),
            ..Heartbeat::default()
        }
    }

    fn group() -> ConsumerGroup {
        ConsumerGroup::new(45 * SECOND)
    }

    #[test]
    fn the_first_member_gets_everything_and_the_second_what_the_first_gives_up() {
        let topics = topics(&[("t", 4)]);
        let mut group = group();
        let one = group.heartbeat(0, joining("one", &["t"]), &topics).expect("in");
        let all: BTreeSet<Place> = (0..4).map(|index| (0, index)).collect();
        assert_eq!((one.member_epoch, one.assignment.as_ref()), (2, Some(&all)));
        assert_eq!(group.state_name(), "Stable");

        let two = group.heartbeat(0, joining("two", &["t"]), &topics).expect("in");
        assert_eq!((two.member_epoch, two.assignment), (3, Some(BTreeSet::new())));
        assert_eq!(group.state_name(), "Reconciling");
        // The first is told what it keeps, and stays in its epoch until it says that it has given up the rest.
        let told = group.heartbeat(0, beating("one", 2, None), &topics).expect("on");
        let kept = told.assignment.expect("less than before");
        assert_eq!((told.member_epoch, kept.len()), (2, 2));
        let again = group.heartbeat(0, beating("one", 2, None), &topics).expect("on");
        assert_eq!(again.assignment, None, "it was told");
        let waits = group.heartbeat(0, beating("two", 3, None), &topics).expect("on");
        assert_eq!(waits.assignment, None, "nothing is free yet");
        let done = group
            .heartbeat(0, beating("one", 2, Some(&kept)), &topics)
            .expect("on");
        assert_eq!(
            (done.member_epoch, done.assignment),
            (3, None),
            "it has what it is to have"
        );
        let gets = group.heartbeat(0, beating("two", 3, None), &topics).expect("on");
        let got = gets.assignment.expect("the rest");
        assert!(got.is_disjoint(&kept) && got.len() == 2);
        assert_eq!(group.state_name(), "Stable");
    }

    #[test]
    fn who_is_silent_or_holds_on_is_thrown_out() {
        let topics = topics(&[("t", 2)]);
        let mut group = group();
        group.heartbeat(0, joining("one", &["t"]), &topics).expect("in");
        group.heartbeat(0, joining("two", &["t"]), &topics).expect("in");
        group
            .heartbeat(SECOND, beating("one", 2, None), &topics)
            .expect("told to give up one");
        assert_eq!(group.next_deadline(), Some(31 * SECOND));
        group.tick(31 * SECOND);
        assert_eq!(group.members.keys().collect::<Vec<_>>(), ["two"]);
        let refused = group.heartbeat(31 * SECOND, beating("one", 2, None), &topics);
        assert_eq!(
            refused.map_err(|refused| refused.error),
            Err(ErrorCode::UNKNOWN_MEMBER_ID)
        );
        let two = group
            .heartbeat(32 * SECOND, beating("two", 3, None), &topics)
            .expect("on");
        assert_eq!(two.assignment.map(|own| own.len()), Some(2));
        group.tick(80 * SECOND);
        assert_eq!(group.state_name(), "Empty");
    }

    #[test]
    fn epochs_that_do_not_fit_are_fenced_and_a_lost_answer_is_made_good() {
        let topics = topics(&[("t", 1)]);
        let mut group = group();
        let one = group.heartbeat(0, joining("one", &["t"]), &topics).expect("in");
        let error = |group: &mut ConsumerGroup, beat| {
            group
                .heartbeat(0, beat, &topics)
                .map_err(|refused| refused.error)
                .err()
        };
        assert_eq!(
            error(&mut group, beating("one", one.member_epoch + 1, None)),
            Some(ErrorCode::FENCED_MEMBER_EPOCH)
        );
        assert_eq!(group.may_commit("one", one.member_epoch), Ok(()));
        assert_eq!(
            group.may_commit("one", one.member_epoch - 1),
            Err(ErrorCode::STALE_MEMBER_EPOCH)
        );
        assert_eq!(
            group.may_commit("other", one.member_epoch),
            Err(ErrorCode::UNKNOWN_MEMBER_ID)
        );
        // It joins again, as after an answer that was lost.
        let again = group.heartbeat(0, joining("one", &["t"]), &topics).expect("in");
        assert_eq!(again.assignment.map(|own| own.len()), Some(1));
    }

    #[test]
    fn what_is_not_valid_is_refused_and_leaves_no_member() {
        let topics = topics(&[("t", 1)]);
        let mut group = group();
        let mut error = |beat: Heartbeat| {
            let refused = group.heartbeat(0, beat, &topics).expect_err("refused");
            assert!(group.members.is_empty(), "{refused:?}");
            refused.error
        };
        let none = Heartbeat {
            subscribed_names: None,
            ..joining("one", &[])
        };
        assert_eq!(error(none), ErrorCode::INVALID_REQUEST);
        let odd = Heartbeat {
            server_assignor: Some("best".to_owned()),
            ..joining("one", &["t"])
        };
        assert_eq!(error(odd), ErrorCode::UNSUPPORTED_ASSIGNOR);
        let broken = Heartbeat {
            subscribed_regex: Some("(".to_owned()),
            ..joining("one", &[])
        };
        assert_eq!(error(broken), ErrorCode::INVALID_REGULAR_EXPRESSION);
    }

    #[test]
    fn a_static_member_comes_back_to_its_partitions() {
        let topics = topics(&[("t", 4)]);
        let mut group = group();
        let named = |id: &str| Heartbeat {
            instance_id: Some("fixed".to_owned()),
            ..joining(id, &["t"])
        };
        let first = group.heartbeat(0, named("one"), &topics).expect("in");
        let refused = group
            .heartbeat(0, named("two"), &topics)
            .expect_err("it is still there");
        assert_eq!(refused.error, ErrorCode::UNRELEASED_INSTANCE_ID);
        let away = Heartbeat {
            member_epoch: LEAVES_FOR_A_WHILE,
            ..named("one")
        };
        group.heartbeat(0, away, &topics).expect("gone for a while");
        let other = group.heartbeat(0, joining("other", &["t"]), &topics).expect("in");
        assert_eq!(other.assignment, Some(BTreeSet::new()), "they are kept for it");
        let back = group.heartbeat(0, named("two"), &topics).expect("in");
        let own = back.assignment.expect("its partitions");
        assert!(own.is_subset(&first.assignment.expect("all")) && own.len() == 2);
    }

    #[test]
    fn new_topics_and_partitions_are_given_out_and_expressions_find_them() {
        let mut group = group();
        let by_regex = Heartbeat {
            subscribed_names: None,
            subscribed_regex: Some("t-.*".to_owned()),
            ..joining("one", &[])
        };
        let none = topics(&[("other", 3)]);
        let one = group.heartbeat(0, by_regex, &none).expect("in");
        assert_eq!(one.assignment, Some(BTreeSet::new()));
        let some = topics(&[("other", 3), ("t-a", 2)]);
        let next = group
            .heartbeat(0, beating("one", one.member_epoch, None), &some)
            .expect("on");
        assert_eq!(next.assignment.map(|own| own.len()), Some(2));
        let more = topics(&[("other", 3), ("t-a", 3)]);
        let last = group
            .heartbeat(0, beating("one", next.member_epoch, None), &more)
            .expect("on");
        assert_eq!(last.assignment.map(|own| own.len()), Some(3));
    }

    #[test]
    fn range_divides_each_topic_in_order() {
        let topics = topics(&[("a", 5), ("b", 1)]);
        let mut group = group();
        for id in ["one", "two"] {
            let beat = Heartbeat {
                server_assignor: Some("range".to_owned()),
                ..joining(id, &["a", "b"])
            };
            group.heartbeat(0, beat, &topics).expect("in");
        }
        let one: Vec<Place> = group.target_of("one").into_iter().collect();
        let two: Vec<Place> = group.target_of("two").into_iter().collect();
        assert_eq!(one, [(0, 0), (0, 1), (0, 2), (1, 0)]);
        assert_eq!(two, [(0, 3), (0, 4)]);
    }

    proptest! {
        #[test]
        fn whatever_members_do_nobody_owns_what_another_owns_and_all_is_owned_in_the_end(
            steps in proptest::collection::vec((0..4_usize, 0..6_u8), 1..60),
        ) {
            let all = topics(&[("a", 5), ("b", 3)]);
            let mut group = group();
            // What each member believes: its epoch and its partitions.
            let mut believed: BTreeMap<usize, (i32, BTreeSet<Place>)> = BTreeMap::new();
            let act = |group: &mut ConsumerGroup, who: usize, what: u8, believed: &mut BTreeMap<usize, (i32, BTreeSet<Place>)>| {
                let id = format!("m{who}");
                let beat = match believed.get(&who) {
                    None => joining(&id, if who.is_multiple_of(2) { &["a", "b"] } else { &["a"] }),
                    Some(_) if what == 0 => beating(&id, LEAVES, None),
                    Some((epoch, owned)) => beating(&id, *epoch, Some(owned)),
                };
                let leaves = beat.member_epoch == LEAVES;
                let answer = group.heartbeat(0, beat, &all).expect("a member in good standing");
                if leaves {
                    believed.remove(&who);
                    return;
                }
                let owned = answer.assignment.or_else(|| believed.get(&who).map(|(_, owned)| owned.clone()));
                believed.insert(who, (answer.member_epoch, owned.unwrap_or_default()));
            };
            for (who, what) in steps {
                act(&mut group, who, what, &mut believed);
                let mut seen = BTreeSet::new();
                for (_, owned) in believed.values() {
                    for place in owned {
                        prop_assert!(seen.insert(*place), "{place:?} has two owners");
                    }
                }
            }
            for _ in 0..4 {
                for who in believed.keys().copied().collect::<Vec<_>>() {
                    act(&mut group, who, 1, &mut believed);
                }
            }
            let owned: usize = believed.values().map(|(_, owned)| owned.len()).sum();
            let expected = match (believed.is_empty(), believed.keys().any(|who| who.is_multiple_of(2))) {
                (true, _) => 0,
                (false, true) => 8,
                (false, false) => 5,
            };
            prop_assert_eq!(owned, expected);
            prop_assert!(["Stable", "Empty"].contains(&group.state_name()));
        }
    }
}
