//! Fetch sessions (KIP-227): what consumers have said that they read, so that they need not say it again.
//!
//! A session belongs to one broker. Each request in it carries the next number, names what has changed, and is answered with
//! the partitions that have news. Those that were given records go behind the others, so that all have their turn.

use crate::random::Random;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use wire::fetch::{FetchPartition, FetchRequest, FetchTopic, ForgottenTopic};
use wire::{ErrorCode, Uuid};

/// A session that nobody has used for so long makes room for another (min.incremental.fetch.session.eviction.ms).
const UNUSED_NS: u64 = 120_000_000_000;
/// What all sessions of a broker together may remember; beyond it requests have to name everything.
const MOST_PARTITIONS: usize = 500_000;

/// The longest name that a topic can have.
const LONGEST_NAME: usize = 249;

/// The epoch of a request that opens a session.
const OPENS: i32 = 0;
/// The epoch of a request that does without one, and closes the one that it names.
const WITHOUT: i32 = -1;

/// A topic as the session's requests name it, and a partition of it.
type Key = (Arc<str>, Uuid, i32);

/// What a partition's last answer said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Told {
    pub(crate) high_watermark: i64,
    pub(crate) log_start_offset: i64,
}

#[derive(Debug)]
struct Held {
    key: Key,
    wanted: FetchPartition,
    /// `None` before the first answer and after an error: the next answer has it in any case.
    told: Option<Told>,
}

#[derive(Debug)]
struct Session {
    broker: i32,
    /// The number of the next request.
    epoch: i32,
    is_by_id: bool,
    last_used: u64,
    /// In the order in which answers are filled.
    held: BTreeMap<u64, Held>,
    places: HashMap<Key, u64>,
    next_place: u64,
}

impl Session {
    /// Takes in the partitions of a topic. One whose name no topic can have is not kept.
    fn hold_all(&mut self, topic: &FetchTopic) {
        if topic.topic.len() > LONGEST_NAME {
            return;
        }
        // One name for all of them.
        let name: Arc<str> = Arc::from(topic.topic.as_str());
        for wanted in &topic.partitions {
            self.hold((Arc::clone(&name), topic.topic_id, wanted.partition), wanted);
        }
    }

    fn hold(&mut self, key: Key, wanted: &FetchPartition) {
        if let Some(held) = self.places.get(&key).and_then(|place| self.held.get_mut(place)) {
            held.wanted = wanted.clone();
            return;
        }
        let place = self.next_place;
        self.next_place += 1;
        self.places.insert(key.clone(), place);
        let held = Held {
            key,
            wanted: wanted.clone(),
            told: None,
        };
        self.held.insert(place, held);
    }

    fn forget(&mut self, topic: &ForgottenTopic) {
        let name: Arc<str> = Arc::from(topic.topic.as_str());
        for index in &topic.partitions {
            let key = (Arc::clone(&name), topic.topic_id, *index);
            if let Some(place) = self.places.remove(&key) {
                self.held.remove(&place);
            }
        }
    }

    /// What a request in full would say.
    fn topics(&self) -> Vec<FetchTopic> {
        let mut topics: Vec<FetchTopic> = Vec::new();
        for held in self.held.values() {
            let (name, id, _) = &held.key;
            match topics.last_mut() {
                Some(topic) if *topic.topic == **name && topic.topic_id == *id => {
                    topic.partitions.push(held.wanted.clone());
                }
                _ => topics.push(FetchTopic {
                    topic: name.to_string(),
                    topic_id: *id,
                    partitions: vec![held.wanted.clone()],
                }),
            }
        }
        topics
    }
}

/// How a request is to be answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Use {
    /// With all partitions, and in no session.
    Without,
    /// With all partitions, and a session may be opened.
    Opens,
    /// With the partitions that have news.
    Within(i32),
}

/// The sessions of all brokers.
#[derive(Debug, Default)]
pub(crate) struct Sessions {
    by_id: HashMap<i32, Session>,
}

impl Sessions {
    /// Takes a request in, and completes it with what its session holds. `is_by_id` says that topics go by their ids.
    pub(crate) fn take(
        &mut self,
        broker: i32,
        is_by_id: bool,
        request: &mut FetchRequest,
        now: u64,
    ) -> Result<Use, ErrorCode> {
        let (id, epoch) = (request.session_id, request.session_epoch);
        if epoch == OPENS || epoch == WITHOUT {
            if self
                .by_id
                .get(&id)
                .is_some_and(|session| session.broker == broker)
            {
                self.by_id.remove(&id);
            }
            return Ok(if epoch == OPENS { Use::Opens } else { Use::Without });
        }
        let others = self.partitions_of(broker);
        let session = self
            .by_id
            .get_mut(&id)
            .filter(|session| session.broker == broker)
            .ok_or(ErrorCode::FETCH_SESSION_ID_NOT_FOUND)?;
        if session.is_by_id != is_by_id {
            return Err(ErrorCode::FETCH_SESSION_TOPIC_ID_ERROR);
        }
        let added: usize = request.topics.iter().map(|topic| topic.partitions.len()).sum();
        if session.epoch != epoch || others + added > MOST_PARTITIONS {
            return Err(ErrorCode::INVALID_FETCH_SESSION_EPOCH);
        }
        session.epoch = if epoch == i32::MAX { 1 } else { epoch + 1 };
        session.last_used = now;
        request.topics.iter().for_each(|topic| session.hold_all(topic));
        request
            .forgotten_topics_data
            .iter()
            .for_each(|topic| session.forget(topic));
        request.topics = session.topics();
        Ok(Use::Within(id))
    }

    /// Opens a session for what a request names, if there is room for it: its id, else 0.
    pub(crate) fn open(
        &mut self,
        broker: i32,
        is_by_id: bool,
        request: &FetchRequest,
        (slots, now): (usize, u64),
        random: &mut Random,
    ) -> i32 {
        let partitions: usize = request.topics.iter().map(|topic| topic.partitions.len()).sum();
        if self.partitions_of(broker) + partitions > MOST_PARTITIONS {
            return 0;
        }
        let ours = self.by_id.iter().filter(|(_, session)| session.broker == broker);
        if ours.clone().count() >= slots {
            let oldest = ours.min_by_key(|(id, session)| (session.last_used, **id));
            match oldest.map(|(id, session)| (*id, now.saturating_sub(session.last_used))) {
                Some((id, unused_ns)) if unused_ns >= UNUSED_NS => self.by_id.remove(&id),
                _ => return 0,
            };
        }
        let mut session = Session {
            broker,
            epoch: 1,
            is_by_id,
            last_used: now,
            held: BTreeMap::new(),
            places: HashMap::new(),
            next_place: 0,
        };
        request.topics.iter().for_each(|topic| session.hold_all(topic));
        let id = loop {
            let id = (random.number() >> 33) as i32;
            if id > 0 && !self.by_id.contains_key(&id) {
                break id;
            }
        };
        self.by_id.insert(id, session);
        id
    }

    /// What the answer says of a partition: whether it has to be in it. `told` is `None` for an error.
    pub(crate) fn tell(
        &mut self,
        id: i32,
        topic: &FetchTopic,
        index: i32,
        told: Option<Told>,
        has_records: bool,
    ) -> bool {
        let Some(session) = self.by_id.get_mut(&id) else {
            return true;
        };
        let key: Key = (Arc::from(topic.topic.as_str()), topic.topic_id, index);
        let Some(place) = session.places.get(&key).copied() else {
            return true;
        };
        let Some(held) = session.held.get_mut(&place) else {
            return true;
        };
        let is_news = has_records || told.is_none() || held.told != told;
        held.told = told;
        if has_records && let Some(held) = session.held.remove(&place) {
            let behind = session.next_place;
            session.next_place += 1;
            session.places.insert(key, behind);
            session.held.insert(behind, held);
        }
        is_news
    }

    /// The partitions that a request in a session is about, besides those that it names.
    pub(crate) fn held(&self, broker: i32, id: i32) -> impl Iterator<Item = (&str, Uuid, i32)> {
        let session = self
            .by_id
            .get(&id)
            .filter(move |session| session.broker == broker);
        let held = session.into_iter().flat_map(|session| session.held.values());
        held.map(|held| (&*held.key.0, held.key.1, held.key.2))
    }

    /// A broker that goes down forgets its sessions.
    pub(crate) fn forget_broker(&mut self, broker: i32) {
        self.by_id.retain(|_, session| session.broker != broker);
    }

    fn partitions_of(&self, broker: i32) -> usize {
        let ours = self.by_id.values().filter(|session| session.broker == broker);
        ours.map(|session| session.held.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(session_id: i32, session_epoch: i32, partitions: &[(i32, i64)]) -> FetchRequest {
        let partitions = partitions
            .iter()
            .map(|&(partition, fetch_offset)| FetchPartition {
                partition,
                fetch_offset,
                ..FetchPartition::default()
            });
        FetchRequest {
            session_id,
            session_epoch,
            topics: vec![FetchTopic {
                topic: "t".to_owned(),
                topic_id: Uuid::ZERO,
                partitions: partitions.collect(),
            }],
            ..FetchRequest::default()
        }
    }

    fn wanted(request: &FetchRequest) -> Vec<(i32, i64)> {
        let all = request.topics.iter().flat_map(|topic| &topic.partitions);
        all.map(|wanted| (wanted.partition, wanted.fetch_offset))
            .collect()
    }

    #[test]
    fn a_session_remembers_adds_changes_and_forgets() {
        let mut sessions = Sessions::default();
        let mut first = request(0, 0, &[(0, 0), (1, 0)]);
        assert_eq!(sessions.take(1, false, &mut first, 0), Ok(Use::Opens));
        let id = sessions.open(1, false, &first, (10, 0), &mut Random::new(1));
        assert!(id > 0);
        let mut second = request(id, 1, &[(1, 7), (2, 3)]);
        assert_eq!(sessions.take(1, false, &mut second, 0), Ok(Use::Within(id)));
        assert_eq!(wanted(&second), [(0, 0), (1, 7), (2, 3)]);
        let mut third = request(id, 2, &[]);
        third.forgotten_topics_data = vec![ForgottenTopic {
            topic: "t".to_owned(),
            topic_id: Uuid::ZERO,
            partitions: vec![0, 5],
        }];
        assert_eq!(sessions.take(1, false, &mut third, 0), Ok(Use::Within(id)));
        assert_eq!(wanted(&third), [(1, 7), (2, 3)]);
        // By number, by broker, and by the way in which topics are named.
        let refused = |sessions: &mut Sessions, broker, is_by_id, epoch| {
            sessions.take(broker, is_by_id, &mut request(id, epoch, &[]), 0)
        };
        assert_eq!(
            refused(&mut sessions, 1, false, 2),
            Err(ErrorCode::INVALID_FETCH_SESSION_EPOCH)
        );
        assert_eq!(
            refused(&mut sessions, 2, false, 3),
            Err(ErrorCode::FETCH_SESSION_ID_NOT_FOUND)
        );
        assert_eq!(
            refused(&mut sessions, 1, true, 3),
            Err(ErrorCode::FETCH_SESSION_TOPIC_ID_ERROR)
        );
        assert_eq!(
            sessions.take(1, false, &mut request(id, -1, &[]), 0),
            Ok(Use::Without)
        );
        assert_eq!(
            refused(&mut sessions, 1, false, 3),
            Err(ErrorCode::FETCH_SESSION_ID_NOT_FOUND)
        );
    }

    #[test]
    fn only_news_is_told_and_whoever_was_given_records_goes_behind() {
        let mut sessions = Sessions::default();
        let first = request(0, 0, &[(0, 0), (1, 0)]);
        let id = sessions.open(1, false, &first, (10, 0), &mut Random::new(1));
        let topic = &first.topics[0];
        let at = |high_watermark| {
            Some(Told {
                high_watermark,
                log_start_offset: 0,
            })
        };
        assert!(sessions.tell(id, topic, 0, at(0), false), "the first is news");
        assert!(!sessions.tell(id, topic, 0, at(0), false));
        assert!(sessions.tell(id, topic, 0, at(4), false));
        assert!(sessions.tell(id, topic, 0, at(4), true));
        assert!(sessions.tell(id, topic, 0, None, false), "errors are news");
        assert!(sessions.tell(id, topic, 0, None, false));
        assert!(sessions.tell(id, topic, 0, at(4), false), "and their end is");
        let mut next = request(id, 1, &[]);
        assert_eq!(sessions.take(1, false, &mut next, 0), Ok(Use::Within(id)));
        assert_eq!(wanted(&next), [(1, 0), (0, 0)]);
    }

    #[test]
    fn names_are_kept_once_and_impossible_ones_not_at_all() {
        let mut sessions = Sessions::default();
        let partitions: Vec<(i32, i64)> = (0..100).map(|partition| (partition, 0)).collect();
        let mut whole = request(0, 0, &partitions);
        let id = sessions.open(1, false, &whole, (10, 0), &mut Random::new(1));
        let held = |sessions: &Sessions, id| sessions.held(1, id).count();
        assert_eq!(held(&sessions, id), 100);
        let names = sessions.by_id[&id].held.values().map(|held| &held.key.0);
        assert!(names.clone().all(|name| Arc::strong_count(name) >= 200));
        whole.topics[0].topic = "x".repeat(250);
        let id = sessions.open(1, false, &whole, (10, 0), &mut Random::new(2));
        assert_eq!(held(&sessions, id), 0);
    }

    #[test]
    fn slots_are_given_again_when_their_sessions_are_old() {
        let mut sessions = Sessions::default();
        let mut random = Random::new(3);
        let whole = request(0, 0, &[(0, 0)]);
        let first = sessions.open(1, false, &whole, (1, 0), &mut random);
        assert!(first > 0);
        assert_eq!(
            sessions.open(1, false, &whole, (1, UNUSED_NS - 1), &mut random),
            0
        );
        // Another broker has slots of its own.
        assert!(sessions.open(2, false, &whole, (1, 0), &mut random) > 0);
        let second = sessions.open(1, false, &whole, (1, UNUSED_NS), &mut random);
        assert!(second > 0 && second != first);
        sessions.forget_broker(1);
        let mut gone = request(second, 1, &[]);
        assert_eq!(
            sessions.take(1, false, &mut gone, 0),
            Err(ErrorCode::FETCH_SESSION_ID_NOT_FOUND)
        );
        assert_eq!(sessions.open(1, false, &whole, (0, 0), &mut random), 0);
    }
}
