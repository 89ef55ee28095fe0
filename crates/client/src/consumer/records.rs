//! Going through the records of an answer: which batches are to be delivered, and where reading goes on.

use std::collections::{BTreeSet, VecDeque};
use wire::batch::{Batch, BatchError, HEADER_LEN, LOG_OVERHEAD};
use wire::fetch::AbortedTransaction;

/// What stands at a place in the records of a partition.
pub(super) enum Step<'a> {
    Batch { batch: Batch<'a>, from: i64 },
    Damaged { from: i64, next: i64, error: BatchError },
}

/// Goes through the batches of an answer, from a position on. Two walks over the same bytes go the same way.
pub(super) struct Walk<'a> {
    rest: &'a [u8],
    /// The offset of the next record that is wanted.
    pub(super) at: i64,
    /// How far to go on where a damaged batch does not say where it ends.
    step: i64,
    /// The leader epoch of the last batch passed; −1 before the first.
    pub(super) epoch: i32,
}

impl<'a> Walk<'a> {
    pub(super) fn new(records: &'a [u8], at: i64, step: i64) -> Walk<'a> {
        Walk {
            rest: records,
            at,
            step,
            epoch: -1,
        }
    }

    /// Passes over a damaged batch of `length` bytes: up to the next batch if there is one, else by one step.
    fn pass_over(&mut self, length: usize, error: BatchError) -> Step<'a> {
        self.rest = self.rest.get(length..).unwrap_or_default();
        let from = self.at;
        self.at = match Batch::parse(self.rest) {
            Ok(next) if next.base_offset() > from => next.base_offset(),
            _ => from.saturating_add(self.step),
        };
        Step::Damaged {
            from,
            next: self.at,
            error,
        }
    }
}

impl<'a> Iterator for Walk<'a> {
    type Item = Step<'a>;

    fn next(&mut self) -> Option<Step<'a>> {
        loop {
            if self.rest.len() < HEADER_LEN {
                return None;
            }
            match Batch::parse(self.rest) {
                Ok(batch) => {
                    if batch.last_offset() < self.at {
                        self.rest = &self.rest[batch.len_bytes()..];
                        continue;
                    }
                    // A header that is not as producers write it comes from compaction, or is damaged.
                    let is_plain = i64::from(batch.count()) == i64::from(batch.last_offset_delta()) + 1;
                    if !is_plain && let Err(error) = batch.check_crc() {
                        return Some(self.pass_over(batch.len_bytes(), error));
                    }
                    self.rest = &self.rest[batch.len_bytes()..];
                    let from = self.at;
                    self.at = batch.last_offset().saturating_add(1);
                    self.epoch = batch.partition_leader_epoch();
                    return Some(Step::Batch { batch, from });
                }
                // Brokers send as many bytes as were asked for, so the last batch may be cut.
                Err(BatchError::Cut { .. }) => return None,
                Err(error) => {
                    let length = self.rest[8..LOG_OVERHEAD]
                        .try_into()
                        .map_or(0, i32::from_be_bytes);
                    let length = usize::try_from(length).map_or(usize::MAX, |length| length + LOG_OVERHEAD);
                    return Some(self.pass_over(length, error));
                }
            }
        }
    }
}

/// Leaves out what aborted transactions wrote, by the list that comes with an answer and the markers among the records.
pub(super) struct Aborted<'a> {
    /// By first offset.
    coming: VecDeque<&'a AbortedTransaction>,
    producers: BTreeSet<i64>,
}

impl<'a> Aborted<'a> {
    pub(super) fn new(transactions: &'a [AbortedTransaction]) -> Aborted<'a> {
        let mut coming: Vec<&AbortedTransaction> = transactions.iter().collect();
        coming.sort_by_key(|transaction| transaction.first_offset);
        Aborted {
            coming: coming.into(),
            producers: BTreeSet::new(),
        }
    }

    /// Whether the records of the next batch are to be delivered.
    pub(super) fn lets_pass(&mut self, batch: &Batch<'_>, scratch: &mut Vec<u8>) -> bool {
        while let Some(next) = self.coming.front()
            && next.first_offset <= batch.last_offset()
        {
            self.producers.insert(next.producer_id);
            self.coming.pop_front();
        }
        if batch.is_control() {
            if is_abort_marker(batch, scratch) {
                self.producers.remove(&batch.producer_id());
            }
            return false;
        }
        !(batch.is_transactional() && self.producers.contains(&batch.producer_id()))
    }
}

/// The key of a marker is a version and a type, two bytes each: type 0 aborts, 1 commits.
fn is_abort_marker(batch: &Batch<'_>, scratch: &mut Vec<u8>) -> bool {
    /// A marker has one record of a few bytes.
    const MOST_BYTES: usize = 4096;
    let Ok(mut records) = batch.records(scratch, MOST_BYTES) else {
        return false;
    };
    let Some(Ok(record)) = records.next() else {
        return false;
    };
    record.key.and_then(|key| key.get(2..4)) == Some(&[0, 0])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use wire::batch::{BatchBuilder, RecordHeaders};
    use wire::compress::{Codec, Compressor};

    fn batch(base_offset: i64, count: u32) -> Vec<u8> {
        let mut builder = BatchBuilder::new(Vec::new());
        for _ in 0..count {
            builder.push(0, None, 4, &RecordHeaders::default(), |out| {
                out.extend_from_slice(b"abcd")
            });
        }
        let mut compressor = Compressor::new(Codec::None, None).expect("a codec");
        let mut bytes = builder
            .seal(&mut compressor, &mut Vec::new())
            .expect("a batch")
            .into_buffer();
        bytes[..8].copy_from_slice(&base_offset.to_be_bytes());
        bytes
    }

    /// Offsets from which steps were taken, and where the walk ended.
    fn walk(records: &[u8], at: i64, step: i64) -> (Vec<i64>, i64) {
        let mut walk = Walk::new(records, at, step);
        let froms = walk.by_ref().map(|found| match found {
            Step::Batch { from, .. } | Step::Damaged { from, .. } => from,
        });
        (froms.collect(), walk.at)
    }

    proptest! {
        /// Whatever stands in the bytes, a walk ends, never goes back, and goes the same way twice.
        #[test]
        fn a_walk_over_damaged_batches_only_goes_forward(
            counts in proptest::collection::vec(1u32..5, 1..6),
            damages in proptest::collection::vec((0usize..600, any::<u8>()), 0..8),
            at in 0i64..20,
            step in 1i64..9,
        ) {
            let mut records = Vec::new();
            let mut offset = 0;
            for count in counts {
                records.extend(batch(offset, count));
                offset += i64::from(count);
            }
            for (place, byte) in damages {
                let length = records.len();
                records[place % length] = byte;
            }
            let (froms, end) = walk(&records, at, step);
            prop_assert!(froms.is_sorted() && froms.iter().all(|&from| from >= at && from <= end));
            prop_assert_eq!(walk(&records, at, step), (froms, end));
        }

        #[test]
        fn any_bytes_can_be_walked_over(records in proptest::collection::vec(any::<u8>(), 0..300), at in any::<i64>()) {
            let (_, end) = walk(&records, at, 1);
            prop_assert!(end >= at);
        }
    }
}
