//! What a partition remembers of idempotent producers (KIP-98): epoch and the last batches of each.

use std::collections::{HashMap, VecDeque};

/// No marker was written.
const NO_COORDINATOR: i32 = -1;

/// A producer may have five requests in flight, so a repeated batch is one of its last five.
const REMEMBERED_BATCHES: usize = 5;

/// Sequence numbers of one batch, and where it went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Remembered {
    base_sequence: i32,
    last_sequence: i32,
    base_offset: i64,
}

#[derive(Debug)]
struct Producer {
    epoch: i16,
    batches: VecDeque<Remembered>,
    last_seen_ms: i64,
    /// Of the coordinator that wrote the last marker.
    coordinator_epoch: i32,
}

/// What DescribeProducers tells of a producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ActiveProducer {
    pub(crate) producer_id: i64,
    pub(crate) producer_epoch: i16,
    /// −1 if it has written nothing in this epoch.
    pub(crate) last_sequence: i32,
    pub(crate) last_seen_ms: i64,
    pub(crate) coordinator_epoch: i32,
}

/// A batch of an idempotent producer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sequenced {
    pub(crate) producer_id: i64,
    pub(crate) producer_epoch: i16,
    pub(crate) base_sequence: i32,
    pub(crate) last_offset_delta: u32,
}

impl Sequenced {
    /// Sequence numbers go from 2³¹ − 1 on to 0.
    fn last_sequence(&self) -> i32 {
        (((self.base_sequence as u32).wrapping_add(self.last_offset_delta)) & i32::MAX as u32) as i32
    }
}

/// What is to become of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Judgement {
    /// It is the next one: append it.
    Next,
    /// It is in the log already, at this offset.
    Duplicate {
        /// Offset of its first record.
        base_offset: i64,
    },
    /// Something before it is missing.
    OutOfOrder {
        /// The sequence number that would have been right.
        expected: i32,
    },
    /// A newer instance of this producer has written since.
    Fenced {
        /// The epoch of the newer one.
        current: i16,
    },
}

/// The producers of one partition.
#[derive(Debug, Default)]
pub(crate) struct Producers {
    by_id: HashMap<i64, Producer>,
}

impl Producers {
    /// Holds a batch against what is known of its producer.
    pub(crate) fn judge(&self, batch: &Sequenced) -> Judgement {
        // A producer that is not known may begin anywhere: its records may have been deleted since.
        let Some(producer) = self.by_id.get(&batch.producer_id) else {
            return Judgement::Next;
        };
        if batch.producer_epoch < producer.epoch {
            return Judgement::Fenced {
                current: producer.epoch,
            };
        }
        if batch.producer_epoch > producer.epoch {
            return match batch.base_sequence {
                0 => Judgement::Next,
                _ => Judgement::OutOfOrder { expected: 0 },
            };
        }
        let same = |known: &&Remembered| {
            known.base_sequence == batch.base_sequence && known.last_sequence == batch.last_sequence()
        };
        if let Some(known) = producer.batches.iter().find(same) {
            return Judgement::Duplicate {
                base_offset: known.base_offset,
            };
        }
        let expected = producer
            .batches
            .back()
            .map_or(0, |last| last.last_sequence.wrapping_add(1) & i32::MAX);
        if batch.base_sequence == expected {
            Judgement::Next
        } else {
            Judgement::OutOfOrder { expected }
        }
    }

    /// Whether a coordinator may end a transaction in this epoch; a newer one may have written since.
    pub(crate) fn judge_marker(&self, producer_id: i64, producer_epoch: i16) -> bool {
        self.by_id
            .get(&producer_id)
            .is_none_or(|producer| producer_epoch >= producer.epoch)
    }

    /// Notes that a marker was appended. One of a newer epoch fences the producer, which begins anew with sequence 0.
    pub(crate) fn marked(
        &mut self,
        producer_id: i64,
        producer_epoch: i16,
        coordinator_epoch: i32,
        now_ms: i64,
    ) {
        let producer = self.by_id.entry(producer_id).or_insert_with(|| Producer {
            epoch: producer_epoch,
            batches: VecDeque::new(),
            last_seen_ms: now_ms,
            coordinator_epoch,
        });
        if producer.epoch != producer_epoch {
            producer.epoch = producer_epoch;
            producer.batches.clear();
        }
        producer.last_seen_ms = now_ms;
        producer.coordinator_epoch = coordinator_epoch;
    }

    /// The producers that are remembered, in order of id.
    pub(crate) fn active(&self) -> Vec<ActiveProducer> {
        let mut all: Vec<ActiveProducer> = self
            .by_id
            .iter()
            .map(|(id, producer)| ActiveProducer {
                producer_id: *id,
                producer_epoch: producer.epoch,
                last_sequence: producer.batches.back().map_or(-1, |batch| batch.last_sequence),
                last_seen_ms: producer.last_seen_ms,
                coordinator_epoch: producer.coordinator_epoch,
            })
            .collect();
        all.sort_unstable_by_key(|producer| producer.producer_id);
        all
    }

    /// Notes that a batch was appended.
    pub(crate) fn remember(&mut self, batch: &Sequenced, base_offset: i64, now_ms: i64) {
        let producer = self.by_id.entry(batch.producer_id).or_insert_with(|| Producer {
            epoch: batch.producer_epoch,
            batches: VecDeque::with_capacity(REMEMBERED_BATCHES),
            last_seen_ms: now_ms,
            coordinator_epoch: NO_COORDINATOR,
        });
        if producer.epoch != batch.producer_epoch {
            producer.epoch = batch.producer_epoch;
            producer.batches.clear();
        }
        if producer.batches.len() == REMEMBERED_BATCHES {
            producer.batches.pop_front();
        }
        producer.last_seen_ms = now_ms;
        producer.batches.push_back(Remembered {
            base_sequence: batch.base_sequence,
            last_sequence: batch.last_sequence(),
            base_offset,
        });
    }

    /// Forgets producers that have not written since `before_ms`, but for those that `keeps` says are needed.
    pub(crate) fn expire(&mut self, before_ms: i64, keeps: impl Fn(i64) -> bool) {
        self.by_id
            .retain(|id, producer| producer.last_seen_ms >= before_ms || keeps(*id));
    }

    /// Forgets batches from `offset` on, which a truncation took away.
    pub(crate) fn truncate(&mut self, offset: i64) {
        for producer in self.by_id.values_mut() {
            producer.batches.retain(|batch| batch.base_offset < offset);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(epoch: i16, base_sequence: i32, records: u32) -> Sequenced {
        Sequenced {
            producer_id: 9,
            producer_epoch: epoch,
            base_sequence,
            last_offset_delta: records - 1,
        }
    }

    /// Ten batches of ten records each: sequences 0 to 99 at offsets 1000 to 1099.
    fn ten_batches() -> Producers {
        let mut producers = Producers::default();
        for index in 0..10 {
            let batch = batch(2, index * 10, 10);
            assert_eq!(producers.judge(&batch), Judgement::Next);
            producers.remember(&batch, 1000 + i64::from(index) * 10, 50);
        }
        producers
    }

    #[test]
    fn the_last_five_are_known_again() {
        let producers = ten_batches();
        assert_eq!(
            producers.judge(&batch(2, 50, 10)),
            Judgement::Duplicate { base_offset: 1050 }
        );
        assert_eq!(
            producers.judge(&batch(2, 90, 10)),
            Judgement::Duplicate { base_offset: 1090 }
        );
        assert_eq!(
            producers.judge(&batch(2, 40, 10)),
            Judgement::OutOfOrder { expected: 100 }
        );
        assert_eq!(
            producers.judge(&batch(2, 90, 5)),
            Judgement::OutOfOrder { expected: 100 }
        );
    }

    #[test]
    fn gaps_are_out_of_order_and_old_epochs_fenced() {
        let producers = ten_batches();
        assert_eq!(
            producers.judge(&batch(2, 110, 10)),
            Judgement::OutOfOrder { expected: 100 }
        );
        assert_eq!(
            producers.judge(&batch(1, 100, 10)),
            Judgement::Fenced { current: 2 }
        );
        assert_eq!(producers.judge(&batch(3, 0, 10)), Judgement::Next);
        assert_eq!(
            producers.judge(&batch(3, 5, 10)),
            Judgement::OutOfOrder { expected: 0 }
        );
    }

    #[test]
    fn sequences_wrap_to_zero() {
        let mut producers = Producers::default();
        let last = batch(0, i32::MAX - 4, 10);
        assert_eq!(last.last_sequence(), 4);
        producers.remember(&last, 0, 0);
        assert_eq!(producers.judge(&batch(0, 5, 1)), Judgement::Next);
        let to_the_end = batch(1, i32::MAX, 1);
        producers.remember(&to_the_end, 10, 0);
        assert_eq!(producers.judge(&batch(1, 0, 1)), Judgement::Next);
    }

    #[test]
    fn a_marker_of_a_newer_epoch_fences_and_one_of_an_older_is_refused() {
        let mut producers = ten_batches();
        assert!(producers.judge_marker(9, 2) && !producers.judge_marker(9, 1));
        producers.marked(9, 2, 0, 60);
        assert_eq!(producers.judge(&batch(2, 100, 1)), Judgement::Next);
        producers.marked(9, 3, 0, 61);
        assert_eq!(
            producers.judge(&batch(2, 100, 1)),
            Judgement::Fenced { current: 3 }
        );
        assert_eq!(
            producers.judge(&batch(3, 100, 1)),
            Judgement::OutOfOrder { expected: 0 }
        );
        assert_eq!(producers.judge(&batch(3, 0, 1)), Judgement::Next);
        assert_eq!(producers.active()[0].last_sequence, -1);
    }

    #[test]
    fn forgotten_producers_may_begin_anywhere() {
        let mut producers = ten_batches();
        producers.truncate(1090);
        assert_eq!(producers.judge(&batch(2, 90, 10)), Judgement::Next);
        producers.expire(51, |_| false);
        assert_eq!(producers.judge(&batch(0, 77, 1)), Judgement::Next);
    }
}
