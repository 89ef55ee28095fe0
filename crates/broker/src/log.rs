//! A partition's log: record batches in order of offset, in memory.
//!
//! A batch stays as its producer sent it. Base offset and leader epoch, which the broker sets and the CRC does not cover,
//! are kept beside it and put in front when the batch is served, so that bytes which many may read are never written.

use crate::answer::Answer;
use crate::buffer::Slice;
use model::broker_script::Lie;
use std::collections::VecDeque;
use std::ops::Range;
use wire::batch::{Batch, BatchError, LOG_OVERHEAD};

/// Base offset, length and leader epoch: what a served batch has from here, not from its producer.
pub(crate) const HEAD_LEN: usize = LOG_OVERHEAD + 4;

/// No timestamp, as Kafka writes it.
pub(crate) const NO_TIMESTAMP: i64 = -1;

/// A valid record batch that a producer sent, not yet in a log.
#[derive(Clone, Debug)]
pub(crate) struct ProducedBatch {
    pub(crate) slice: Slice,
    pub(crate) last_offset_delta: u32,
    pub(crate) base_timestamp_ms: i64,
    pub(crate) max_timestamp_ms: i64,
    pub(crate) producer_id: i64,
    pub(crate) producer_epoch: i16,
    pub(crate) base_sequence: i32,
    pub(crate) is_transactional: bool,
    /// What is done with it in place of what is acknowledged.
    pub(crate) lie: Option<Lie>,
}

/// The marker by which a coordinator ends a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Marker {
    pub(crate) producer_id: i64,
    pub(crate) producer_epoch: i16,
    pub(crate) coordinator_epoch: i32,
    pub(crate) is_commit: bool,
}

impl Marker {
    /// The batch that holds it.
    pub(crate) fn to_bytes(self, now_ms: i64) -> Vec<u8> {
        wire::batch::end_transaction_marker(
            self.is_commit,
            self.producer_id,
            self.producer_epoch,
            self.coordinator_epoch,
            now_ms,
        )
    }
}

/// Why bytes that were produced are refused before a log sees them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ProducedError {
    /// The CRC does not fit: damaged on its way.
    Corrupt(String),
    /// Not one well-formed batch of the current format.
    Invalid(String),
}

impl ProducedBatch {
    /// The batch that holds a marker; `slice` is its bytes.
    pub(crate) fn of_marker(slice: Slice, marker: &Marker, now_ms: i64) -> ProducedBatch {
        ProducedBatch {
            slice,
            last_offset_delta: 0,
            base_timestamp_ms: now_ms,
            max_timestamp_ms: now_ms,
            producer_id: marker.producer_id,
            producer_epoch: marker.producer_epoch,
            base_sequence: -1,
            is_transactional: true,
            lie: None,
        }
    }

    /// Checks what a producer sent for one partition: exactly one batch of format 2, whole, with a fitting CRC, numbered
    /// without gaps. Its records are not looked at.
    pub(crate) fn check(slice: Slice) -> Result<ProducedBatch, ProducedError> {
        let mut produced = slice.with(|bytes| {
            let batch = Batch::parse(bytes).map_err(|error| ProducedError::Invalid(error.to_string()))?;
            if batch.len_bytes() != bytes.len() {
                return Err(ProducedError::Invalid(format!(
                    "{} bytes follow the record batch; a produce request holds exactly one for each partition",
                    bytes.len() - batch.len_bytes()
                )));
            }
            batch.check_crc().map_err(|error: BatchError| ProducedError::Corrupt(error.to_string()))?;
            if batch.count() == 0 || i64::from(batch.last_offset_delta()) + 1 != i64::from(batch.count()) {
                return Err(ProducedError::Invalid(format!(
                    "record batch holds {} records with a last offset delta of {}",
                    batch.count(),
                    batch.last_offset_delta()
                )));
            }
            if batch.is_control() {
                return Err(ProducedError::Invalid("clients may not write control batches".to_owned()));
            }
            Ok(ProducedBatch {
                slice: slice.clone(),
                last_offset_delta: batch.last_offset_delta() as u32,
                base_timestamp_ms: batch.base_timestamp_ms(),
                max_timestamp_ms: batch.max_timestamp_ms(),
                producer_id: batch.producer_id(),
                producer_epoch: batch.producer_epoch(),
                base_sequence: batch.base_sequence(),
                is_transactional: batch.is_transactional(),
                lie: None,
            })
        })?;
        if produced.is_transactional && produced.producer_id < 0 {
            return Err(ProducedError::Invalid(
                "a transactional batch needs a producer id".to_owned(),
            ));
        }
        // A producer may say that the broker is to set the time; only the topic decides that.
        produced.max_timestamp_ms = produced.max_timestamp_ms.max(NO_TIMESTAMP);
        Ok(produced)
    }
}

/// A batch in the log.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) base_offset: i64,
    last_offset_delta: u32,
    leader_epoch: i32,
    /// Highest timestamp of its records, or the time of its append where they have none.
    timestamp_ms: i64,
    slice: Slice,
}

impl Entry {
    pub(crate) fn last_offset(&self) -> i64 {
        self.base_offset + i64::from(self.last_offset_delta)
    }

    pub(crate) fn len_bytes(&self) -> usize {
        self.slice.len_bytes()
    }

    /// Puts the batch into `answer` as consumers are to see it.
    fn serve(&self, answer: &mut Answer) {
        let mut head = [0; HEAD_LEN];
        head[..8].copy_from_slice(&self.base_offset.to_be_bytes());
        head[8..12].copy_from_slice(&((self.slice.len_bytes() - LOG_OVERHEAD) as i32).to_be_bytes());
        head[12..].copy_from_slice(&self.leader_epoch.to_be_bytes());
        answer.push_bytes(&head);
        answer.push_slice(self.slice.clone().skip(HEAD_LEN));
    }

    /// The first record that `wanted` accepts by its timestamp, as (offset, timestamp).
    fn find_record(&self, wanted: impl Fn(i64) -> bool) -> Option<(i64, i64)> {
        // Enough for any batch that max.message.bytes lets in, and a bound on what a bad one can ask for.
        const DECODED_LIMIT_BYTES: usize = 256 << 20;
        self.slice.with(|bytes| {
            let batch = Batch::parse(bytes).ok()?;
            if batch.is_log_append_time() {
                return wanted(batch.max_timestamp_ms())
                    .then_some((self.base_offset, batch.max_timestamp_ms()));
            }
            let mut scratch = Vec::new();
            batch
                .records(&mut scratch, DECODED_LIMIT_BYTES)
                .ok()?
                .map_while(Result::ok)
                .find_map(|record| {
                    let timestamp_ms = batch
                        .base_timestamp_ms()
                        .saturating_add(record.timestamp_delta_ms);
                    wanted(timestamp_ms)
                        .then_some((self.base_offset + i64::from(record.offset_delta), timestamp_ms))
                })
        })
    }
}

/// An offset found by time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FoundOffset {
    pub(crate) offset: i64,
    pub(crate) timestamp_ms: i64,
    pub(crate) leader_epoch: i32,
}

/// Batches to serve, found by [`Log::select`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Selection {
    entries: Range<usize>,
    /// Their bytes together.
    pub(crate) len_bytes: usize,
}

/// The batches of one partition.
#[derive(Debug, Default)]
pub(crate) struct Log {
    entries: VecDeque<Entry>,
    start_offset: i64,
    end_offset: i64,
    len_bytes: usize,
    epochs: EpochHistory,
}

impl Log {
    /// Offset of the first record that may be read.
    pub(crate) fn start_offset(&self) -> i64 {
        self.start_offset
    }

    /// Offset that the next record will get.
    pub(crate) fn end_offset(&self) -> i64 {
        self.end_offset
    }

    /// Bytes of all batches.
    pub(crate) fn len_bytes(&self) -> usize {
        self.len_bytes
    }

    /// Which leader epoch wrote what.
    pub(crate) fn epochs(&self) -> &EpochHistory {
        &self.epochs
    }

    /// Tells the log that a leader of `epoch` writes from here on.
    pub(crate) fn begin_epoch(&mut self, epoch: i32) {
        self.epochs.begin(epoch, self.end_offset);
    }

    /// Appends a batch and gives its base offset.
    pub(crate) fn append(&mut self, batch: &ProducedBatch, leader_epoch: i32, now_ms: i64) -> i64 {
        let base_offset = self.end_offset;
        let timestamp_ms = if batch.max_timestamp_ms >= 0 {
            batch.max_timestamp_ms
        } else {
            now_ms
        };
        self.end_offset = base_offset + i64::from(batch.last_offset_delta) + 1;
        self.len_bytes += batch.slice.len_bytes();
        self.entries.push_back(Entry {
            base_offset,
            last_offset_delta: batch.last_offset_delta,
            leader_epoch,
            timestamp_ms,
            slice: batch.slice.clone(),
        });
        base_offset
    }

    /// The batches from the one that holds `from` to the last that ends below `until`, at most `max_bytes` of them; the
    /// first is taken at any size if `at_least_one` (KIP-74).
    pub(crate) fn select(&self, from: i64, until: i64, max_bytes: usize, at_least_one: bool) -> Selection {
        let first = self.entries.partition_point(|entry| entry.last_offset() < from);
        let mut selection = Selection {
            entries: first..first,
            len_bytes: 0,
        };
        for entry in self.entries.range(first..) {
            let is_forced = at_least_one && selection.entries.is_empty();
            if entry.last_offset() >= until
                || (selection.len_bytes + entry.len_bytes() > max_bytes && !is_forced)
            {
                break;
            }
            selection.len_bytes += entry.len_bytes();
            selection.entries.end += 1;
        }
        selection
    }

    /// The offset behind the last batch of `selection`, or `from` where it has none.
    pub(crate) fn end_of(&self, selection: &Selection, from: i64) -> i64 {
        let last = selection.entries.end.checked_sub(1);
        last.filter(|_| !selection.entries.is_empty())
            .and_then(|last| self.entries.get(last))
            .map_or(from, |entry| entry.last_offset() + 1)
    }

    /// Puts the batches of `selection` into `answer`.
    pub(crate) fn serve(&self, selection: &Selection, answer: &mut Answer) {
        for entry in self.entries.range(selection.entries.clone()) {
            entry.serve(answer);
        }
    }

    /// The first record below `until` with a timestamp of `timestamp_ms` or later.
    pub(crate) fn find_by_time(&self, timestamp_ms: i64, until: i64) -> Option<FoundOffset> {
        self.below(until)
            .filter(|entry| entry.timestamp_ms >= timestamp_ms)
            .find_map(|entry| {
                let (offset, timestamp_ms) = entry.find_record(|time| time >= timestamp_ms)?;
                let found = FoundOffset {
                    offset,
                    timestamp_ms,
                    leader_epoch: entry.leader_epoch,
                };
                (offset >= self.start_offset).then_some(found)
            })
    }

    /// The first record with the highest timestamp below `until`.
    pub(crate) fn find_max_timestamp(&self, until: i64) -> Option<FoundOffset> {
        let highest = self.below(until).map(|entry| entry.timestamp_ms).max()?;
        self.find_by_time(highest, until)
    }

    fn below(&self, until: i64) -> impl Iterator<Item = &Entry> {
        self.entries
            .iter()
            .take_while(move |entry| entry.last_offset() < until)
    }

    /// Forgets whole batches below `offset`, and makes it the start offset even inside a batch.
    pub(crate) fn delete_before(&mut self, offset: i64) {
        let offset = offset.min(self.end_offset);
        while self
            .entries
            .front()
            .is_some_and(|entry| entry.last_offset() < offset)
        {
            self.pop_front();
        }
        self.start_offset = self.start_offset.max(offset);
        self.epochs.forget_before(self.start_offset);
    }

    /// Forgets batches from the front as long as they end below `until` and are older than `timestamp_ms`.
    pub(crate) fn expire(&mut self, timestamp_ms: i64, until: i64) {
        while let Some(first) = self.entries.front()
            && first.timestamp_ms < timestamp_ms
            && first.last_offset() < until
        {
            self.evict_first();
        }
    }

    /// Forgets batches from the front as long as they end below `until` and `keep_bytes` or more remain.
    pub(crate) fn shrink(&mut self, keep_bytes: u64, until: i64) {
        while let Some(first) = self.entries.front()
            && (self.len_bytes - first.len_bytes()) as u64 >= keep_bytes
            && first.last_offset() < until
        {
            self.evict_first();
        }
    }

    /// Forgets the batch that starts at `base_offset` and all before it; false if that is gone already.
    pub(crate) fn evict_through(&mut self, base_offset: i64) -> bool {
        if self
            .entries
            .front()
            .is_none_or(|first| first.base_offset > base_offset)
        {
            return false;
        }
        while self
            .entries
            .front()
            .is_some_and(|first| first.base_offset <= base_offset)
        {
            self.evict_first();
        }
        true
    }

    /// Cuts the log so that it ends at `offset`, as a follower does that disagrees with a new leader.
    pub(crate) fn truncate(&mut self, offset: i64) {
        while self
            .entries
            .back()
            .is_some_and(|entry| entry.base_offset >= offset)
        {
            if let Some(entry) = self.entries.pop_back() {
                self.len_bytes -= entry.len_bytes();
            }
        }
        self.end_offset = self.end_offset.min(offset.max(self.start_offset));
        self.epochs.forget_from(self.end_offset);
    }

    /// Whether the batch that starts at `base_offset` has not been forgotten.
    pub(crate) fn holds(&self, base_offset: i64) -> bool {
        base_offset < self.end_offset
            && self
                .entries
                .front()
                .is_some_and(|first| first.base_offset <= base_offset)
    }

    fn evict_first(&mut self) {
        if let Some(entry) = self.pop_front() {
            self.start_offset = self.start_offset.max(entry.last_offset() + 1);
            self.epochs.forget_before(self.start_offset);
        }
    }

    fn pop_front(&mut self) -> Option<Entry> {
        let entry = self.entries.pop_front()?;
        self.len_bytes -= entry.len_bytes();
        Some(entry)
    }
}

/// At which offset each leader epoch began.
#[derive(Debug, Default)]
pub(crate) struct EpochHistory {
    /// (epoch, its first offset), ascending in both.
    starts: Vec<(i32, i64)>,
}

impl EpochHistory {
    fn begin(&mut self, epoch: i32, offset: i64) {
        // An epoch in which nothing was written leaves no trace.
        while self.starts.last().is_some_and(|(_, start)| *start >= offset) {
            self.starts.pop();
        }
        self.starts.push((epoch, offset));
    }

    /// The largest epoch that is not above `epoch`, and the offset at which it ended; `None` for an epoch of the future.
    /// `start_offset` and `end_offset` are the log's, `current` the leader's epoch.
    pub(crate) fn end_of(
        &self,
        epoch: i32,
        current: i32,
        start_offset: i64,
        end_offset: i64,
    ) -> Option<(i32, i64)> {
        if epoch == current {
            return Some((epoch, end_offset));
        }
        if epoch > current || epoch < 0 {
            return None;
        }
        let next = self.starts.partition_point(|(other, _)| *other <= epoch);
        let end = self.starts.get(next).map_or(end_offset, |(_, start)| *start);
        match next.checked_sub(1).and_then(|index| self.starts.get(index)) {
            Some((found, _)) => Some((*found, end)),
            None => Some((epoch, start_offset)),
        }
    }

    /// The epoch that wrote the record at `offset`.
    pub(crate) fn at(&self, offset: i64) -> Option<i32> {
        let next = self.starts.partition_point(|(_, start)| *start <= offset);
        self.starts.get(next.checked_sub(1)?).map(|(epoch, _)| *epoch)
    }

    fn forget_before(&mut self, offset: i64) {
        let keep = self
            .starts
            .partition_point(|(_, start)| *start <= offset)
            .saturating_sub(1);
        if keep > 0 {
            self.starts.drain(..keep);
        }
    }

    fn forget_from(&mut self, offset: i64) {
        while self.starts.len() > 1 && self.starts.last().is_some_and(|(_, start)| *start >= offset) {
            self.starts.pop();
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::buffer::Pool;
    use std::sync::Arc;
    use wire::batch::{BatchBuilder, RecordHeaders};
    use wire::compress::{Codec, Compressor};

    /// A sealed batch with one record for each timestamp.
    pub(crate) fn batch_bytes(timestamps_ms: &[i64], value_bytes: usize, codec: Codec) -> Vec<u8> {
        let mut builder = BatchBuilder::new(Vec::new());
        for timestamp in timestamps_ms {
            builder.push(*timestamp, None, value_bytes, &RecordHeaders::new([]), |out| {
                out.resize(out.len() + value_bytes, 7);
            });
        }
        let mut compressor = Compressor::new(codec, None).expect("codec");
        builder
            .seal(&mut compressor, &mut Vec::new())
            .expect("sealed")
            .bytes()
            .to_vec()
    }

    pub(crate) fn produced(pool: &Arc<Pool>, timestamps_ms: &[i64], value_bytes: usize) -> ProducedBatch {
        let bytes = batch_bytes(timestamps_ms, value_bytes, Codec::None);
        ProducedBatch::check(Slice::copied(pool, &bytes)).expect("valid")
    }

    /// A log with three batches of two records each, one second apart, epoch 3.
    fn three_batches() -> Log {
        let pool = Pool::new(0);
        let mut log = Log::default();
        log.begin_epoch(3);
        for second in 0..3 {
            let times = [second * 1000, second * 1000 + 500];
            assert_eq!(log.append(&produced(&pool, &times, 2000), 3, 0), second * 2);
        }
        log
    }

    fn served(log: &Log, selection: &Selection) -> Vec<(i64, i32, u32)> {
        let mut answer = Answer::default();
        log.serve(selection, &mut answer);
        let bytes = answer.to_vec();
        assert_eq!(bytes.len(), selection.len_bytes);
        wire::batch::batches(&bytes)
            .map(|batch| {
                let batch = batch.expect("valid");
                batch.check_crc().expect("the CRC still fits");
                (batch.base_offset(), batch.partition_leader_epoch(), batch.count())
            })
            .collect()
    }

    #[test]
    fn batches_are_served_with_their_offset_and_epoch() {
        let log = three_batches();
        let all = log.select(0, log.end_offset(), usize::MAX, false);
        assert_eq!(served(&log, &all), [(0, 3, 2), (2, 3, 2), (4, 3, 2)]);
        // From the middle of a batch the whole batch comes; the end is where the high watermark stands.
        assert_eq!(served(&log, &log.select(3, 5, usize::MAX, false)), [(2, 3, 2)]);
        assert_eq!(served(&log, &log.select(6, 6, usize::MAX, true)), []);
    }

    #[test]
    fn a_limit_cuts_between_batches_but_never_starves() {
        let log = three_batches();
        let one = log.select(0, 6, usize::MAX, false).len_bytes / 3;
        assert_eq!(served(&log, &log.select(0, 6, one * 2 + 5, false)).len(), 2);
        assert_eq!(served(&log, &log.select(0, 6, 1, true)).len(), 1);
        assert_eq!(served(&log, &log.select(0, 6, 1, false)).len(), 0);
    }

    #[test]
    fn offsets_are_found_by_time_to_the_record() {
        let log = three_batches();
        let offset = |time| log.find_by_time(time, 6).map(|found| found.offset);
        assert_eq!(offset(-5), Some(0));
        assert_eq!(offset(1), Some(1));
        assert_eq!(offset(1500), Some(3));
        assert_eq!(offset(2501), None);
        assert_eq!(
            log.find_by_time(2000, 4),
            None,
            "above the high watermark there is nothing"
        );
        let last = log.find_max_timestamp(6).expect("records");
        assert_eq!((last.offset, last.timestamp_ms, last.leader_epoch), (5, 2500, 3));
    }

    #[test]
    fn time_is_found_inside_compressed_batches() {
        let pool = Pool::new(0);
        let mut log = Log::default();
        let bytes = batch_bytes(&[10, 20, 30], 100, Codec::Zstd);
        log.append(
            &ProducedBatch::check(Slice::copied(&pool, &bytes)).expect("valid"),
            0,
            0,
        );
        assert_eq!(
            log.find_by_time(15, 3)
                .map(|found| (found.offset, found.timestamp_ms)),
            Some((1, 20))
        );
    }

    #[test]
    fn what_is_deleted_moves_the_start_and_gives_up_bytes() {
        let mut log = three_batches();
        let one = log.len_bytes() / 3;
        log.delete_before(3);
        assert_eq!((log.start_offset(), log.len_bytes()), (3, 2 * one));
        log.expire(2000, 6);
        assert_eq!((log.start_offset(), log.len_bytes()), (4, one));
        log.shrink(1, 6);
        assert_eq!(log.len_bytes(), one, "one byte is to be kept, so the batch stays");
        log.shrink(0, 4);
        assert_eq!(log.len_bytes(), one, "nothing above the high watermark goes");
        assert!(log.evict_through(4));
        assert!(!log.evict_through(4));
        assert_eq!((log.start_offset(), log.end_offset(), log.len_bytes()), (6, 6, 0));
    }

    #[test]
    fn truncation_cuts_what_a_new_leader_does_not_have() {
        let mut log = three_batches();
        log.truncate(2);
        assert_eq!(log.end_offset(), 2);
        log.begin_epoch(4);
        let pool = Pool::new(0);
        assert_eq!(log.append(&produced(&pool, &[9], 10), 4, 0), 2);
        assert_eq!(log.epochs().end_of(3, 4, 0, 3), Some((3, 2)));
        assert_eq!(log.epochs().end_of(4, 4, 0, 3), Some((4, 3)));
        assert_eq!(log.epochs().end_of(5, 4, 0, 3), None);
        assert_eq!(
            log.epochs().end_of(1, 4, 0, 3),
            Some((1, 0)),
            "before the first epoch ends at the start"
        );
    }

    #[test]
    fn what_is_not_one_good_batch_is_refused() {
        let pool = Pool::new(0);
        let good = batch_bytes(&[1, 2], 10, Codec::None);
        let check = |bytes: &[u8]| ProducedBatch::check(Slice::copied(&pool, bytes)).err();
        assert_eq!(check(&good), None);
        let mut flipped = good.clone();
        flipped[70] ^= 1;
        assert!(matches!(check(&flipped), Some(ProducedError::Corrupt(_))));
        let mut twice = good.clone();
        twice.extend_from_slice(&good);
        assert!(matches!(check(&twice), Some(ProducedError::Invalid(_))));
        assert!(matches!(
            check(&good[..good.len() - 1]),
            Some(ProducedError::Invalid(_))
        ));
        assert!(matches!(check(&[]), Some(ProducedError::Invalid(_))));
        let mut old = good;
        old[16] = 1;
        assert!(matches!(check(&old), Some(ProducedError::Invalid(_))));
    }
}
