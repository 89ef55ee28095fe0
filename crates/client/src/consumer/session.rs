//! The fetch session with one broker (KIP-227): after a first Fetch in full, the broker remembers what is asked for, and each
//! request names only what has changed since.

use std::sync::Arc;
use wire::codec::Uuid;
use wire::fetch::{FetchPartition, FetchRequest, FetchTopic, ForgottenTopic};

/// The first version of Fetch with sessions.
pub(super) const SESSIONS_FROM: i16 = 7;
/// The first version of Fetch that names topics by their ids (KIP-516).
pub(super) const IDS_FROM: i16 = 13;

/// A partition as it is to be asked for. `place` is the consumer's number for it, which holds for one assignment.
#[derive(Clone, Debug)]
pub(super) struct Wanted {
    pub(super) place: usize,
    pub(super) topic: Arc<str>,
    pub(super) topic_id: Uuid,
    pub(super) partition: FetchPartition,
}

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Session {
    /// What the broker calls it; 0 while there is none.
    id: i32,
    /// The number of the next request in it; 0 asks for a new one and closes the one named.
    epoch: i32,
    /// The assignment that the places belong to.
    assignment: u64,
    /// Whether topics go by their ids: the two kinds cannot be mixed in a session.
    is_by_id: bool,
    /// What the broker has been told, by place.
    told: Vec<Option<Wanted>>,
}

impl Session {
    /// Writes into `request` which partitions are to be fetched: all, or what differs from what the broker knows.
    pub(super) fn ask(
        &mut self,
        version: i16,
        assignment: u64,
        wanted: Vec<Wanted>,
        request: &mut FetchRequest,
    ) {
        if version < SESSIONS_FROM {
            *self = Session::default();
            request.topics = by_topic(&wanted);
            return;
        }
        let is_by_id = version >= IDS_FROM;
        if self.assignment != assignment || self.is_by_id != is_by_id {
            self.epoch = 0;
            self.assignment = assignment;
            self.is_by_id = is_by_id;
        }
        request.session_id = self.id;
        request.session_epoch = self.epoch;
        if self.epoch == 0 {
            self.told.clear();
            request.topics = by_topic(&wanted);
            wanted.into_iter().for_each(|wanted| self.tell(wanted));
            return;
        }
        let mut is_wanted = vec![false; self.told.len()];
        let mut changed = Vec::new();
        let mut forgotten = Vec::new();
        for wanted in wanted {
            if let Some(is_wanted) = is_wanted.get_mut(wanted.place) {
                *is_wanted = true;
            }
            match self.told.get(wanted.place) {
                Some(Some(told))
                    if told.partition == wanted.partition && told.topic_id == wanted.topic_id =>
                {
                    continue;
                }
                // By its new id it is another partition, and the one of before has to go.
                Some(Some(told)) if told.topic_id != wanted.topic_id && is_by_id => {
                    forgotten.push(told.clone());
                }
                _ => {}
            }
            changed.push(wanted.clone());
            self.tell(wanted);
        }
        for (told, is_wanted) in self.told.iter_mut().zip(is_wanted) {
            if !is_wanted {
                forgotten.extend(told.take());
            }
        }
        request.topics = by_topic(&changed);
        for told in forgotten {
            let index = told.partition.partition;
            match request.forgotten_topics_data.last_mut() {
                Some(last) if *last.topic == *told.topic && last.topic_id == told.topic_id => {
                    last.partitions.push(index);
                }
                _ => request.forgotten_topics_data.push(ForgottenTopic {
                    topic: told.topic.to_string(),
                    topic_id: told.topic_id,
                    partitions: vec![index],
                }),
            }
        }
    }

    fn tell(&mut self, wanted: Wanted) {
        let place = wanted.place;
        if place >= self.told.len() {
            self.told.resize(place + 1, None);
        }
        self.told[place] = Some(wanted);
    }

    /// The broker has answered in the session `id`, or in none, which is 0.
    pub(super) fn is_answered(&mut self, version: i16, id: i32) {
        if version < SESSIONS_FROM {
            return;
        }
        if id == 0 || (self.epoch > 0 && id != self.id) {
            // Its cache is full, or it has closed the session: whole requests, each of which may open one.
            self.id = 0;
            self.epoch = 0;
        } else {
            self.id = id;
            self.epoch = if self.epoch == i32::MAX { 1 } else { self.epoch + 1 };
        }
    }

    /// The broker does not have the session (FETCH_SESSION_ID_NOT_FOUND).
    pub(super) fn is_unknown(&mut self) {
        self.id = 0;
        self.epoch = 0;
    }

    /// What the broker remembers is not certain: it is to close the session and open a new one.
    pub(super) fn is_in_doubt(&mut self) {
        self.epoch = 0;
    }
}

/// The order of partitions counts, so a topic's partitions are only put together where they are neighbours.
fn by_topic(all: &[Wanted]) -> Vec<FetchTopic> {
    let mut topics: Vec<FetchTopic> = Vec::new();
    for wanted in all {
        match topics.last_mut() {
            Some(topic) if *topic.topic == *wanted.topic && topic.topic_id == wanted.topic_id => {
                topic.partitions.push(wanted.partition.clone());
            }
            _ => topics.push(FetchTopic {
                topic: wanted.topic.to_string(),
                topic_id: wanted.topic_id,
                partitions: vec![wanted.partition.clone()],
            }),
        }
    }
    topics
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEW: i16 = 17;

    fn wanted(place: usize, offset: i64) -> Wanted {
        Wanted {
            place,
            topic: Arc::from("t"),
            topic_id: Uuid([7; 16]),
            partition: FetchPartition {
                partition: place as i32,
                fetch_offset: offset,
                ..FetchPartition::default()
            },
        }
    }

    /// Session and epoch of the request, the partitions that it lists with their offsets, and those that it takes off.
    type Asked = ((i32, i32), Vec<(i32, i64)>, Vec<i32>);

    fn ask(session: &mut Session, version: i16, assignment: u64, all: &[(usize, i64)]) -> Asked {
        let mut request = FetchRequest::default();
        let all = all.iter().map(|&(place, offset)| wanted(place, offset)).collect();
        session.ask(version, assignment, all, &mut request);
        let listed = request.topics.iter().flat_map(|topic| &topic.partitions);
        (
            (request.session_id, request.session_epoch),
            listed
                .map(|partition| (partition.partition, partition.fetch_offset))
                .collect(),
            request
                .forgotten_topics_data
                .iter()
                .flat_map(|topic| topic.partitions.clone())
                .collect(),
        )
    }

    #[test]
    fn a_session_names_only_what_has_changed() {
        let mut session = Session::default();
        let whole = vec![(0, 0), (1, 0), (2, 0)];
        let first = ask(&mut session, NEW, 1, &[(0, 0), (1, 0), (2, 0)]);
        assert_eq!(first, ((0, 0), whole, vec![]));
        session.is_answered(NEW, 40);
        let second = ask(&mut session, NEW, 1, &[(0, 0), (1, 5), (2, 0)]);
        assert_eq!(second, ((40, 1), vec![(1, 5)], vec![]));
        session.is_answered(NEW, 40);
        let third = ask(&mut session, NEW, 1, &[(0, 0), (1, 5), (3, 9)]);
        assert_eq!(third, ((40, 2), vec![(3, 9)], vec![2]));
        session.is_answered(NEW, 40);
        // One that was away is named anew.
        let fourth = ask(&mut session, NEW, 1, &[(0, 0), (1, 5), (2, 0), (3, 9)]);
        assert_eq!(fourth, ((40, 3), vec![(2, 0)], vec![]));
    }

    #[test]
    fn requests_are_whole_where_there_is_no_session() {
        let mut session = Session::default();
        for _ in 0..2 {
            let asked = ask(&mut session, NEW, 1, &[(0, 3)]);
            assert_eq!(asked, ((0, 0), vec![(0, 3)], vec![]));
            session.is_answered(NEW, 0);
        }
        // Versions without sessions carry the fields' defaults.
        let asked = ask(&mut session, 6, 1, &[(0, 3)]);
        assert_eq!(asked, ((0, -1), vec![(0, 3)], vec![]));
        session.is_answered(6, 0);
    }

    #[test]
    fn what_is_not_certain_is_asked_for_anew() {
        let mut session = Session::default();
        ask(&mut session, NEW, 1, &[(0, 0)]);
        session.is_answered(NEW, 5);
        session.is_in_doubt();
        assert_eq!(ask(&mut session, NEW, 1, &[(0, 0)]).0, (5, 0));
        session.is_answered(NEW, 6);
        assert_eq!(ask(&mut session, NEW, 1, &[(0, 0)]), ((6, 1), vec![], vec![]));
        session.is_unknown();
        assert_eq!(ask(&mut session, NEW, 1, &[(0, 0)]).0, (0, 0));
        session.is_answered(NEW, 7);
        // Places mean other partitions after an assignment.
        assert_eq!(
            ask(&mut session, NEW, 2, &[(0, 0)]),
            ((7, 0), vec![(0, 0)], vec![])
        );
        session.is_answered(NEW, 8);
        // Names and ids do not go together.
        assert_eq!(
            ask(&mut session, 12, 2, &[(0, 0)]),
            ((8, 0), vec![(0, 0)], vec![])
        );
        session.is_answered(12, 9);
        // The broker has closed it by itself.
        session.is_answered(12, 0);
        assert_eq!(ask(&mut session, 12, 2, &[(0, 0)]).0, (0, 0));
    }

    #[test]
    fn a_topic_made_again_leaves_the_session_by_its_old_id() {
        let mut session = Session::default();
        ask(&mut session, NEW, 1, &[(0, 4)]);
        session.is_answered(NEW, 5);
        let mut anew = wanted(0, 0);
        anew.topic_id = Uuid([8; 16]);
        let mut request = FetchRequest::default();
        session.ask(NEW, 1, vec![anew], &mut request);
        assert_eq!(request.topics[0].topic_id, Uuid([8; 16]));
        assert_eq!(request.forgotten_topics_data.len(), 1);
        assert_eq!(request.forgotten_topics_data[0].topic_id, Uuid([7; 16]));
    }

    #[test]
    fn the_number_of_requests_wraps_to_one() {
        let mut session = Session {
            id: 3,
            epoch: i32::MAX,
            ..Session::default()
        };
        session.is_answered(NEW, 3);
        assert_eq!((session.id, session.epoch), (3, 1));
    }
}
