//! The strategies by which the leader of a classic group divides partitions among its members, as the Java client has them.
//!
//! All are pure: members with what they subscribe to and own, topics with their numbers of partitions, and the same input
//! always gives the same assignment. Racks are not looked at.

use crate::admin::TopicPartition;
use model::client_config::AssignmentStrategy;
use std::collections::{BTreeMap, BTreeSet};
use wire::consumer_protocol::{self, ConsumerProtocolSubscription, TopicPartition as Partitions};
use wire::messages::join_group::JoinGroupResponseMember;

/// What each member gets.
pub type Assignments = BTreeMap<String, BTreeSet<TopicPartition>>;

/// A member as the one that assigns sees it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subscriber {
    /// Its id.
    pub member_id: String,
    /// The name of a static member.
    pub group_instance_id: Option<String>,
    /// What it subscribes to.
    pub topics: Vec<String>,
    /// What it owns, or last owned.
    pub owned: Vec<TopicPartition>,
    /// The generation in which it was given that; −1 if it is not known.
    pub generation: i32,
}

impl Subscriber {
    /// What a member said of itself; one whose words cannot be read gets nothing.
    pub fn of(member: &JoinGroupResponseMember, strategy: AssignmentStrategy) -> Subscriber {
        let subscription: ConsumerProtocolSubscription =
            consumer_protocol::decode(&member.metadata).unwrap_or_default();
        let user_data = subscription.user_data.as_deref().unwrap_or_default();
        let (owned, generation) = match strategy {
            AssignmentStrategy::Sticky => read_sticky_data(user_data).unwrap_or((Vec::new(), -1)),
            _ => {
                // The generation came into the subscription later than into this strategy's own bytes.
                let told = user_data.try_into().map_or(-1, i32::from_be_bytes);
                (
                    flat(subscription.owned_partitions),
                    subscription.generation_id.max(told),
                )
            }
        };
        Subscriber {
            member_id: member.member_id.clone(),
            group_instance_id: member.group_instance_id.clone(),
            topics: subscription.topics,
            owned,
            generation,
        }
    }

    /// Static members come first, by name, so that their ids, which change with each start, do not matter.
    fn rank(&self) -> (bool, &str) {
        match &self.group_instance_id {
            Some(name) => (false, name),
            None => (true, &self.member_id),
        }
    }

    fn reads(&self, topic: &str) -> bool {
        self.topics.iter().any(|read| read == topic)
    }
}

/// What a member was last assigned.
#[derive(Clone, Copy, Debug)]
pub struct Owned<'a> {
    /// The partitions.
    pub partitions: &'a [TopicPartition],
    /// In which generation; −1 for none.
    pub generation: i32,
    /// Whether it has them still, as in a cooperative rebalance, or has given them up to join.
    pub is_kept: bool,
}

/// The bytes in a member's JoinGroup request for one strategy.
pub fn metadata(
    strategy: AssignmentStrategy,
    topics: &[String],
    owned: Owned<'_>,
    rack: Option<&str>,
) -> Vec<u8> {
    let Owned {
        partitions,
        generation,
        is_kept,
    } = owned;
    let owned = by_topic(partitions);
    let is_cooperative = strategy == AssignmentStrategy::CooperativeSticky;
    let user_data = match strategy {
        AssignmentStrategy::Range | AssignmentStrategy::RoundRobin => None,
        AssignmentStrategy::Sticky => (generation >= 0).then(|| write_sticky_data(&owned, generation)),
        AssignmentStrategy::CooperativeSticky => Some(generation.to_be_bytes().to_vec()),
    };
    let subscription = ConsumerProtocolSubscription {
        topics: topics.to_vec(),
        user_data,
        // Who has given up all that it owned before it joins owns nothing, whatever the strategy.
        owned_partitions: if is_cooperative && is_kept {
            owned
        } else {
            Vec::new()
        },
        generation_id: if is_cooperative { generation } else { -1 },
        rack_id: rack.map(str::to_owned),
    };
    // Racks came with version 3 (KIP-881), generations with 2 (KIP-792); members of older versions read what they know of it.
    let version = match (rack, is_cooperative) {
        (Some(_), _) => 3,
        (None, true) => 2,
        (None, false) => 1,
    };
    consumer_protocol::encode(version, &subscription)
}

/// Divides the partitions of `counts` by a strategy. Every member is in the result, also those that get nothing.
pub fn assign(
    strategy: AssignmentStrategy,
    counts: &BTreeMap<String, u32>,
    members: &[Subscriber],
) -> Assignments {
    match strategy {
        AssignmentStrategy::Range => ranges(counts, members),
        AssignmentStrategy::RoundRobin => round_robin(counts, members),
        AssignmentStrategy::Sticky => sticky(counts, members),
        AssignmentStrategy::CooperativeSticky => {
            let mut assignments = sticky(counts, members);
            let owners = owners(counts, members);
            // What another member still owns is given to nobody yet (KIP-429): that member gives it up and joins again, and the
            // next assignment hands it on.
            for (id, own) in &mut assignments {
                own.retain(|partition| owners.get(partition).is_none_or(|owner| owner.member_id == *id));
            }
            assignments
        }
    }
}

fn nothing(members: &[Subscriber]) -> Assignments {
    members
        .iter()
        .map(|member| (member.member_id.clone(), BTreeSet::new()))
        .collect()
}

/// `RangeAssignor`: of each topic, `n` partitions are laid out in order over its `c` subscribers in order; each gets ⌊n / c⌋,
/// and the first n mod c one more. 10 partitions over 3 members: 4, 3, 3.
fn ranges(counts: &BTreeMap<String, u32>, members: &[Subscriber]) -> Assignments {
    let mut assignments = nothing(members);
    for (topic, &count) in counts {
        let mut subscribers: Vec<&Subscriber> = members.iter().filter(|member| member.reads(topic)).collect();
        subscribers.sort_by(|a, b| a.rank().cmp(&b.rank()));
        let share = count as usize / subscribers.len().max(1);
        let extra = count as usize % subscribers.len().max(1);
        for (place, subscriber) in subscribers.iter().enumerate() {
            let first = share * place + place.min(extra);
            let length = share + usize::from(place < extra);
            if let Some(own) = assignments.get_mut(&subscriber.member_id) {
                own.extend((first..first + length).map(|index| (topic.clone(), index as i32)));
            }
        }
    }
    assignments
}

/// `RoundRobinAssignor`: all partitions in order are dealt to the members in turn; a member is passed over for topics that it
/// does not read.
fn round_robin(counts: &BTreeMap<String, u32>, members: &[Subscriber]) -> Assignments {
    let mut assignments = nothing(members);
    let mut order: Vec<&Subscriber> = members.iter().collect();
    order.sort_by(|a, b| a.rank().cmp(&b.rank()));
    let mut turn = 0;
    for (topic, &count) in counts {
        if !order.iter().any(|member| member.reads(topic)) {
            continue;
        }
        for index in 0..count as i32 {
            while !order[turn % order.len()].reads(topic) {
                turn += 1;
            }
            let member = order[turn % order.len()];
            turn += 1;
            if let Some(own) = assignments.get_mut(&member.member_id) {
                own.insert((topic.clone(), index));
            }
        }
    }
    assignments
}

/// Who owns what, of what exists and is read by its owner. Of two that claim a partition the one of the newer generation has
/// it; in the same generation neither can be believed (KIP-792).
fn owners<'a>(
    counts: &BTreeMap<String, u32>,
    members: &'a [Subscriber],
) -> BTreeMap<&'a TopicPartition, &'a Subscriber> {
    let exists = |(topic, index): &TopicPartition| {
        counts
            .get(topic)
            .is_some_and(|&count| u32::try_from(*index).is_ok_and(|index| index < count))
    };
    let mut claims: BTreeMap<&TopicPartition, (i32, Option<&Subscriber>)> = BTreeMap::new();
    for member in members {
        let own = member
            .owned
            .iter()
            .filter(|partition| exists(partition) && member.reads(&partition.0));
        for partition in own {
            claims
                .entry(partition)
                .and_modify(|(generation, owner)| match member.generation.cmp(generation) {
                    std::cmp::Ordering::Greater => (*generation, *owner) = (member.generation, Some(member)),
                    std::cmp::Ordering::Equal => *owner = None,
                    std::cmp::Ordering::Less => {}
                })
                .or_insert((member.generation, Some(member)));
        }
    }
    claims
        .into_iter()
        .filter_map(|(partition, (_, owner))| Some((partition, owner?)))
        .collect()
}

/// `StickyAssignor` (KIP-54) in its outcome: as even as subscriptions allow, and each member keeps what it owned as far as
/// that goes together.
fn sticky(counts: &BTreeMap<String, u32>, members: &[Subscriber]) -> Assignments {
    let mut assignments = nothing(members);
    let mut free: BTreeSet<TopicPartition> = counts
        .iter()
        .flat_map(|(topic, &count)| (0..count as i32).map(move |index| (topic.clone(), index)))
        .collect();
    for (partition, owner) in owners(counts, members) {
        if let Some(own) = assignments.get_mut(&owner.member_id) {
            free.remove(partition);
            own.insert(partition.clone());
        }
    }
    let by_id: BTreeMap<&str, &Subscriber> = members
        .iter()
        .map(|member| (member.member_id.as_str(), member))
        .collect();
    let reads = |id: &str, topic: &str| by_id.get(id).is_some_and(|member| member.reads(topic));
    for partition in free {
        let least = assignments
            .iter_mut()
            .filter(|(id, _)| reads(id, &partition.0))
            .min_by_key(|(_, own)| own.len());
        if let Some((_, own)) = least {
            own.insert(partition);
        }
    }
    while let Some((from, to, partition)) = uneven(&assignments, &reads) {
        if let Some(own) = assignments.get_mut(&from) {
            own.remove(&partition);
        }
        if let Some(own) = assignments.get_mut(&to) {
            own.insert(partition);
        }
    }
    assignments
}

/// A partition that one member should hand to another, which has at least two fewer.
fn uneven(
    assignments: &Assignments,
    reads: &impl Fn(&str, &str) -> bool,
) -> Option<(String, String, TopicPartition)> {
    let mut by_count: Vec<(&String, &BTreeSet<TopicPartition>)> = assignments.iter().collect();
    by_count.sort_by_key(|(_, own)| own.len());
    for (from, own) in by_count.iter().rev() {
        for (to, less) in &by_count {
            if own.len() < less.len() + 2 {
                break;
            }
            if let Some(partition) = own.iter().rev().find(|(topic, _)| reads(to, topic)) {
                return Some(((*from).clone(), (*to).clone(), partition.clone()));
            }
        }
    }
    None
}

/// Partitions by topic, as messages carry them.
pub fn by_topic<'a>(partitions: impl IntoIterator<Item = &'a TopicPartition>) -> Vec<Partitions> {
    let mut topics: BTreeMap<&str, Vec<i32>> = BTreeMap::new();
    for (topic, index) in partitions {
        topics.entry(topic).or_default().push(*index);
    }
    topics
        .into_iter()
        .map(|(topic, partitions)| Partitions {
            topic: topic.to_owned(),
            partitions,
        })
        .collect()
}

/// The reverse of [`by_topic`], in order.
pub fn flat(topics: Vec<Partitions>) -> Vec<TopicPartition> {
    let mut all: Vec<TopicPartition> = topics
        .into_iter()
        .flat_map(|topic| {
            let name = topic.topic;
            topic
                .partitions
                .into_iter()
                .map(move |index| (name.clone(), index))
        })
        .collect();
    all.sort();
    all
}

/// `StickyAssignor`'s own bytes, version 1: topics with partitions, then the generation; big-endian, lists with a count in front.
fn write_sticky_data(owned: &[Partitions], generation: i32) -> Vec<u8> {
    let mut out = (owned.len() as i32).to_be_bytes().to_vec();
    for topic in owned {
        out.extend_from_slice(&(topic.topic.len() as i16).to_be_bytes());
        out.extend_from_slice(topic.topic.as_bytes());
        out.extend_from_slice(&(topic.partitions.len() as i32).to_be_bytes());
        for index in &topic.partitions {
            out.extend_from_slice(&index.to_be_bytes());
        }
    }
    out.extend_from_slice(&generation.to_be_bytes());
    out
}

/// Version 0 lacks the generation.
fn read_sticky_data(bytes: &[u8]) -> Option<(Vec<TopicPartition>, i32)> {
    fn take<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
        let (head, tail) = rest.split_first_chunk::<N>()?;
        *rest = tail;
        Some(*head)
    }
    let mut rest = bytes;
    let mut owned = Vec::new();
    for _ in 0..i32::from_be_bytes(take(&mut rest)?) {
        let length = usize::try_from(i16::from_be_bytes(take(&mut rest)?)).ok()?;
        let (name, tail) = rest.split_at_checked(length)?;
        rest = tail;
        let name = std::str::from_utf8(name).ok()?;
        for _ in 0..i32::from_be_bytes(take(&mut rest)?) {
            owned.push((name.to_owned(), i32::from_be_bytes(take(&mut rest)?)));
        }
    }
    Some((owned, take(&mut rest).map_or(-1, i32::from_be_bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const EVERY: [AssignmentStrategy; 4] = [
        AssignmentStrategy::Range,
        AssignmentStrategy::RoundRobin,
        AssignmentStrategy::Sticky,
        AssignmentStrategy::CooperativeSticky,
    ];

    fn subscriber(member_id: &str, topics: &[&str]) -> Subscriber {
        Subscriber {
            member_id: member_id.to_owned(),
            topics: topics.iter().map(|topic| (*topic).to_owned()).collect(),
            generation: -1,
            ..Subscriber::default()
        }
    }

    fn counts(list: &[(&str, u32)]) -> BTreeMap<String, u32> {
        list.iter()
            .map(|(topic, count)| ((*topic).to_owned(), *count))
            .collect()
    }

    /// `member: topic-partition …`, in order.
    fn told(assignments: &Assignments) -> Vec<String> {
        let tell = |(member, own): (&String, &BTreeSet<TopicPartition>)| {
            let own: Vec<String> = own
                .iter()
                .map(|(topic, index)| format!("{topic}{index}"))
                .collect();
            format!("{member}: {}", own.join(" "))
        };
        assignments.iter().map(tell).collect()
    }

    /// The members after an assignment, in its generation.
    fn after(members: &[Subscriber], assignments: &Assignments, generation: i32) -> Vec<Subscriber> {
        let own = |member: &Subscriber| assignments[&member.member_id].iter().cloned().collect();
        members
            .iter()
            .map(|member| Subscriber {
                owned: own(member),
                generation,
                ..member.clone()
            })
            .collect()
    }

    #[test]
    fn ranges_cut_each_topic_by_itself_and_the_first_members_get_one_more() {
        let members = ["a", "b", "c"].map(|id| subscriber(id, &["t", "u"]));
        assert_eq!(
            told(&ranges(&counts(&[("t", 4), ("u", 2)]), &members)),
            ["a: t0 t1 u0", "b: t2 u1", "c: t3"]
        );
        let apart = [
            subscriber("a", &["t"]),
            subscriber("b", &["u"]),
            subscriber("c", &["t", "u"]),
        ];
        assert_eq!(
            told(&ranges(&counts(&[("t", 3), ("u", 3)]), &apart)),
            ["a: t0 t1", "b: u0 u1", "c: t2 u2"]
        );
        assert_eq!(
            told(&ranges(&counts(&[("t", 1)]), &members)),
            ["a: t0", "b: ", "c: "]
        );
    }

    #[test]
    fn static_members_come_first_by_their_names() {
        let mut members = vec![subscriber("zz", &["t"]), subscriber("a", &["t"])];
        members[0].group_instance_id = Some("one".to_owned());
        assert_eq!(
            told(&ranges(&counts(&[("t", 3)]), &members)),
            ["a: t2", "zz: t0 t1"]
        );
        assert_eq!(
            told(&round_robin(&counts(&[("t", 3)]), &members)),
            ["a: t1", "zz: t0 t2"]
        );
    }

    #[test]
    fn round_robin_deals_all_partitions_in_turn() {
        // The two examples of RoundRobinAssignor's documentation.
        let members = ["C0", "C1"].map(|id| subscriber(id, &["t0-", "t1-"]));
        assert_eq!(
            told(&round_robin(&counts(&[("t0-", 3), ("t1-", 3)]), &members)),
            ["C0: t0-0 t0-2 t1-1", "C1: t0-1 t1-0 t1-2"]
        );
        let apart = [
            subscriber("C0", &["t0-"]),
            subscriber("C1", &["t0-", "t1-"]),
            subscriber("C2", &["t0-", "t1-", "t2-"]),
        ];
        assert_eq!(
            told(&round_robin(
                &counts(&[("t0-", 1), ("t1-", 2), ("t2-", 3)]),
                &apart
            )),
            ["C0: t0-0", "C1: t1-0", "C2: t1-1 t2-0 t2-1 t2-2"]
        );
    }

    #[test]
    fn sticky_keeps_what_it_can() {
        let topics = counts(&[("t", 6)]);
        let members = ["a", "b", "c"].map(|id| subscriber(id, &["t"]));
        let first = sticky(&topics, &members);
        let members = after(&members, &first, 1);
        // One goes: the others keep theirs and share what it had.
        let left = [members[0].clone(), members[2].clone()];
        let second = sticky(&topics, &left);
        for member in &left {
            assert!(
                member
                    .owned
                    .iter()
                    .all(|own| second[&member.member_id].contains(own))
            );
            assert_eq!(second[&member.member_id].len(), 3);
        }
        // One comes: it takes only what balance needs.
        let mut more = after(&left, &second, 2);
        more.push(subscriber("d", &["t"]));
        let third = sticky(&topics, &more);
        assert_eq!(third["d"].len(), 2);
        assert!(third["a"].is_subset(&second["a"]) && third["c"].is_subset(&second["c"]));
    }

    #[test]
    fn of_two_that_claim_a_partition_the_newer_generation_is_believed() {
        let topics = counts(&[("t", 2)]);
        let claim = |id: &str, generation| Subscriber {
            owned: vec![("t".to_owned(), 0)],
            generation,
            ..subscriber(id, &["t"])
        };
        assert_eq!(
            told(&sticky(&topics, &[claim("a", 3), claim("b", 4)])),
            ["a: t1", "b: t0"]
        );
        assert_eq!(
            told(&sticky(&topics, &[claim("a", 5), claim("b", 4)])),
            ["a: t0", "b: t1"]
        );
        // Neither keeps it for having claimed it: both are dealt to anew.
        assert_eq!(
            told(&sticky(&topics, &[claim("a", 4), claim("b", 4)])),
            ["a: t0", "b: t1"]
        );
    }

    #[test]
    fn cooperative_transfers_take_two_rounds() {
        let topics = counts(&[("t", 4)]);
        let strategy = AssignmentStrategy::CooperativeSticky;
        let one = [subscriber("a", &["t"])];
        let first = assign(strategy, &topics, &one);
        let mut members = after(&one, &first, 1);
        members.push(subscriber("b", &["t"]));
        let second = assign(strategy, &topics, &members);
        assert_eq!(
            told(&second),
            ["a: t0 t1", "b: "],
            "a has not given the others up yet"
        );
        let members = after(&members, &second, 2);
        assert_eq!(
            told(&assign(strategy, &topics, &members)),
            ["a: t0 t1", "b: t2 t3"]
        );
    }

    #[test]
    fn an_outdated_claim_holds_nothing_back() {
        let claim = |id: &str, generation| Subscriber {
            owned: vec![("t".to_owned(), 0)],
            generation,
            ..subscriber(id, &["t"])
        };
        let members = [claim("a", 3), claim("b", 4)];
        let assigned = assign(
            AssignmentStrategy::CooperativeSticky,
            &counts(&[("t", 2)]),
            &members,
        );
        assert_eq!(told(&assigned), ["a: t1", "b: t0"]);
    }

    #[test]
    fn members_read_what_each_strategy_says_of_them() {
        let owned = [("t".to_owned(), 1), ("t".to_owned(), 2), ("u".to_owned(), 0)];
        let read = |strategy, is_kept| {
            let told = Owned {
                partitions: &owned,
                generation: 7,
                is_kept,
            };
            let member = JoinGroupResponseMember {
                member_id: "m".to_owned(),
                metadata: metadata(strategy, &["t".to_owned()], told, None),
                ..JoinGroupResponseMember::default()
            };
            let subscriber = Subscriber::of(&member, strategy);
            assert_eq!(subscriber.topics, ["t"]);
            (subscriber.owned, subscriber.generation)
        };
        assert_eq!(read(AssignmentStrategy::Range, false), (vec![], -1));
        assert_eq!(read(AssignmentStrategy::Sticky, false), (owned.to_vec(), 7));
        assert_eq!(
            read(AssignmentStrategy::CooperativeSticky, true),
            (owned.to_vec(), 7)
        );
        assert_eq!(
            read(AssignmentStrategy::CooperativeSticky, false),
            (vec![], 7),
            "given up, as with the default list"
        );
        assert_eq!(read_sticky_data(&[0, 0, 0, 9, 0]), None);
        assert_eq!(read_sticky_data(&[0, 0, 0, 0]), Some((vec![], -1)), "version 0");
    }

    proptest! {
        #[test]
        fn every_partition_goes_to_one_that_reads_it_and_nothing_moves_without_need(
            topics in prop::collection::vec(0..9_u32, 1..4),
            readers in prop::collection::vec(0..8_u8, 1..6),
        ) {
            let names = ["t", "u", "v"];
            let counts: BTreeMap<String, u32> = names.iter().zip(&topics).map(|(name, count)| ((*name).to_owned(), *count)).collect();
            let members: Vec<Subscriber> = readers
                .iter()
                .enumerate()
                .map(|(place, bits)| {
                    let read: Vec<&str> = names.iter().enumerate().filter(|(bit, _)| bits >> bit & 1 == 1).map(|(_, name)| *name).collect();
                    subscriber(&format!("m{place}"), &read)
                })
                .collect();
            let are_equal = readers.iter().all(|bits| bits == &readers[0]);
            for strategy in EVERY {
                let assignments = assign(strategy, &counts, &members);
                for (topic, &count) in &counts {
                    let is_read = members.iter().any(|member| member.reads(topic));
                    for index in 0..count as i32 {
                        let partition = (topic.clone(), index);
                        let owners: Vec<&Subscriber> = members.iter().filter(|member| assignments[&member.member_id].contains(&partition)).collect();
                        prop_assert_eq!(owners.len(), usize::from(is_read), "{:?} {:?}", strategy, partition);
                        prop_assert!(owners.iter().all(|owner| owner.reads(topic)));
                    }
                }
                if strategy != AssignmentStrategy::Range && are_equal {
                    let sizes: Vec<usize> = assignments.values().map(BTreeSet::len).collect();
                    prop_assert!(sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 1, "{:?}", sizes);
                }
                let again = assign(strategy, &counts, &after(&members, &assignments, 1));
                prop_assert_eq!(again, assignments);
            }
        }
    }
}
