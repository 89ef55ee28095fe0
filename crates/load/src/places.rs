//! The places of partitions when all are counted through, and lists with one entry a place.
//!
//! Partitions that a topic has when the load begins have places that are computed. Those that are added while it runs get the
//! next free place when they are first met, so nothing moves, and nobody who reads a list waits.

use std::sync::{Mutex, OnceLock, PoisonError};

/// Partitions that are met beyond so many added ones have no place: what comes of them is not counted.
const MOST_ADDED: usize = 1 << 20;
/// Entries of a list's first part for added partitions; each further part has twice as many.
const FIRST_PART: usize = 64;
/// Parts enough for [`MOST_ADDED`].
const PARTS: usize = 15;

/// See the module.
#[derive(Debug)]
pub struct Places {
    /// The place of each topic's first partition, and the end of the last one's.
    firsts: Vec<usize>,
    /// Topic and partition of those that were added, in the order of their places.
    added: Mutex<Vec<(usize, i32)>>,
}

impl Places {
    /// For topics with so many partitions each.
    pub fn new(partitions_by_topic: &[usize]) -> Places {
        let mut firsts = vec![0];
        for partitions in partitions_by_topic {
            firsts.push(firsts[firsts.len() - 1] + partitions);
        }
        Places {
            firsts,
            added: Mutex::default(),
        }
    }

    /// How many partitions there were when the load began.
    pub fn at_start(&self) -> usize {
        self.firsts[self.firsts.len() - 1]
    }

    /// How many partitions the topic with that number had when the load began.
    pub fn of_topic_at_start(&self, topic: usize) -> usize {
        self.firsts[topic + 1] - self.firsts[topic]
    }

    /// The place of a partition of the topic with that number. `None` for a negative number.
    #[inline]
    pub fn of(&self, topic: usize, partition: i32) -> Option<usize> {
        let place = self.firsts[topic] + usize::try_from(partition).ok()?;
        match place < self.firsts[topic + 1] {
            true => Some(place),
            false => self.of_added(topic, partition),
        }
    }

    fn of_added(&self, topic: usize, partition: i32) -> Option<usize> {
        let mut added = self.added.lock().unwrap_or_else(PoisonError::into_inner);
        let known = added.iter().position(|&one| one == (topic, partition));
        let index = match known {
            Some(index) => index,
            None if added.len() >= MOST_ADDED => return None,
            None => {
                added.push((topic, partition));
                added.len() - 1
            }
        };
        Some(self.at_start() + index)
    }
}

/// A list with one entry a place, which grows as partitions are added.
pub struct ByPlace<T> {
    first: Box<[T]>,
    added: [OnceLock<Box<[T]>>; PARTS],
    make: Box<dyn Fn() -> T + Send + Sync>,
}

impl<T> ByPlace<T> {
    /// With such an entry for each partition there is at the start, and for each that is added.
    pub fn new(at_start: usize, make: impl Fn() -> T + Send + Sync + 'static) -> ByPlace<T> {
        ByPlace {
            first: (0..at_start).map(|_| make()).collect(),
            added: [const { OnceLock::new() }; PARTS],
            make: Box::new(make),
        }
    }
}

impl<T> std::ops::Index<usize> for ByPlace<T> {
    type Output = T;

    #[inline]
    fn index(&self, place: usize) -> &T {
        match self.first.get(place) {
            Some(entry) => entry,
            None => {
                let beyond = place - self.first.len();
                // Part k begins behind FIRST_PART × (2^k − 1) entries and has FIRST_PART × 2^k.
                let part = (beyond / FIRST_PART + 1).ilog2() as usize;
                let begins = FIRST_PART * ((1 << part) - 1);
                let entries =
                    self.added[part].get_or_init(|| (0..FIRST_PART << part).map(|_| (self.make)()).collect());
                &entries[beyond - begins]
            }
        }
    }
}

impl<T> std::fmt::Debug for ByPlace<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ByPlace")
            .field("at_start", &self.first.len())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn partitions_of_the_start_are_counted_through_and_added_ones_follow_as_they_are_met() {
        let places = Places::new(&[3, 2]);
        assert_eq!(places.at_start(), 5);
        assert_eq!(
            [(0, 0), (0, 2), (1, 0), (1, 1)].map(|(t, p)| places.of(t, p)),
            [0, 2, 3, 4].map(Some)
        );
        assert_eq!(places.of(1, 7), Some(5));
        assert_eq!(places.of(0, 3), Some(6), "not the first place of the next topic");
        assert_eq!(
            (places.of(1, 7), places.of(0, 3)),
            (Some(5), Some(6)),
            "they stay"
        );
        assert_eq!(places.of(0, -1), None);
    }

    #[test]
    fn a_list_has_an_entry_of_its_own_for_every_place() {
        let list = ByPlace::new(3, || AtomicUsize::new(usize::MAX));
        for place in 0..5000 {
            list[place].store(place, Ordering::Relaxed);
        }
        for place in 0..5000 {
            assert_eq!(list[place].load(Ordering::Relaxed), place);
        }
    }

    #[test]
    fn a_list_reaches_as_far_as_places_go() {
        let list = ByPlace::new(0, || ());
        let () = list[MOST_ADDED - 1];
    }
}
