//! The transactions of one partition: which are open, which ended, which were aborted, and up to where a consumer with
//! `isolation.level=read_committed` may read (the last stable offset, KIP-98).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use wire::fetch::AbortedTransaction;

/// A transaction whose marker is in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ended {
    producer_id: i64,
    first_offset: i64,
    marker_offset: i64,
    is_abort: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Transactions {
    /// First offset of each producer's open transaction.
    open: BTreeMap<i64, i64>,
    /// The same offsets in order.
    starts: BTreeSet<i64>,
    /// Ended, while the marker may not be on all in-sync replicas, or for what read-committed consumers have to leave out.
    ended: VecDeque<Ended>,
}

impl Transactions {
    /// A producer wrote at `offset` in a transaction.
    pub(crate) fn written(&mut self, producer_id: i64, offset: i64) {
        if let std::collections::btree_map::Entry::Vacant(place) = self.open.entry(producer_id) {
            place.insert(offset);
            self.starts.insert(offset);
        }
    }

    /// First offset of a producer's open transaction.
    pub(crate) fn open_since(&self, producer_id: i64) -> Option<i64> {
        self.open.get(&producer_id).copied()
    }

    /// A marker ended a producer's transaction, if it had one here.
    pub(crate) fn ended(&mut self, producer_id: i64, marker_offset: i64, is_abort: bool) {
        if let Some(first_offset) = self.open.remove(&producer_id) {
            self.starts.remove(&first_offset);
            self.ended.push_back(Ended {
                producer_id,
                first_offset,
                marker_offset,
                is_abort,
            });
        }
    }

    /// The offset below which every transaction has ended, and its marker is on all in-sync replicas.
    pub(crate) fn last_stable_offset(&self, high_watermark: i64) -> i64 {
        let undecided = self.starts.first().copied();
        let unreplicated = self
            .ended
            .iter()
            .rev()
            .take_while(|ended| ended.marker_offset >= high_watermark)
            .map(|ended| ended.first_offset)
            .min();
        let lowest = undecided.into_iter().chain(unreplicated).min();
        lowest.map_or(high_watermark, |offset| offset.min(high_watermark))
    }

    /// Forgets what no consumer has to be told: committed transactions below the high watermark, and all that lies below the
    /// log's start.
    pub(crate) fn forget(&mut self, start_offset: i64, high_watermark: i64) {
        // In order of markers; the front is looked at each time, so that it costs nothing where there is nothing to do.
        while let Some(first) = self.ended.front()
            && (first.marker_offset < start_offset
                || (!first.is_abort && first.marker_offset < high_watermark))
        {
            self.ended.pop_front();
        }
    }

    /// The aborted transactions among the records from `from` to below `until`.
    pub(crate) fn aborted(&self, from: i64, until: i64) -> Vec<AbortedTransaction> {
        self.ended
            .iter()
            .filter(|ended| ended.is_abort && ended.marker_offset >= from && ended.first_offset < until)
            .map(|ended| AbortedTransaction {
                producer_id: ended.producer_id,
                first_offset: ended.first_offset,
            })
            .collect()
    }

    /// Takes back what was written from `offset` on: transactions that ended there are open again, those that began there
    /// have never been.
    pub(crate) fn truncate(&mut self, offset: i64) {
        while let Some(last) = self.ended.back().copied()
            && last.marker_offset >= offset
        {
            self.ended.pop_back();
            self.written(last.producer_id, last.first_offset);
        }
        self.open.retain(|_, first_offset| *first_offset < offset);
        self.starts.split_off(&offset);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_open_transaction_holds_the_last_stable_offset() {
        let mut transactions = Transactions::default();
        assert_eq!(transactions.last_stable_offset(10), 10);
        transactions.written(1, 10);
        transactions.written(2, 12);
        transactions.written(1, 14);
        assert_eq!(transactions.last_stable_offset(16), 10);
        transactions.ended(1, 16, false);
        assert_eq!(transactions.last_stable_offset(17), 12);
        assert_eq!(
            transactions.last_stable_offset(16),
            10,
            "a marker that is not everywhere decides nothing"
        );
        transactions.ended(2, 17, true);
        assert_eq!(transactions.last_stable_offset(18), 18);
    }

    #[test]
    fn consumers_are_told_of_aborted_transactions_that_they_meet() {
        let mut transactions = Transactions::default();
        for (producer_id, first, marker, is_abort) in [(1, 0, 5, true), (2, 6, 9, false), (3, 10, 14, true)] {
            transactions.written(producer_id, first);
            transactions.ended(producer_id, marker, is_abort);
        }
        let told = |from, until| {
            let aborted = transactions.aborted(from, until);
            aborted
                .iter()
                .map(|aborted| aborted.producer_id)
                .collect::<Vec<_>>()
        };
        assert_eq!(told(0, 20), [1, 3]);
        assert_eq!(told(5, 10), [1]);
        assert!(told(6, 10).is_empty());
        assert_eq!(told(14, 15), [3]);
        transactions.forget(6, 15);
        assert_eq!(transactions.ended.len(), 1);
    }

    #[test]
    fn a_truncated_marker_leaves_its_transaction_open() {
        let mut transactions = Transactions::default();
        transactions.written(1, 4);
        transactions.ended(1, 8, true);
        transactions.written(2, 6);
        transactions.truncate(7);
        assert_eq!(
            (transactions.open_since(1), transactions.open_since(2)),
            (Some(4), Some(6))
        );
        assert!(transactions.aborted(0, 100).is_empty());
        transactions.truncate(5);
        assert_eq!(
            (transactions.open_since(2), transactions.last_stable_offset(5)),
            (None, 4)
        );
    }
}
