//! Which sequence numbers of one producer have been seen.
//!
//! All numbers below a low watermark have been; above it, chunks of 4,096 numbers hold one bit each. A chunk that is full
//! is dropped: it joins its neighbours as one pair of numbers. So the memory is bounded by what is out of order or
//! missing (about 600 bytes per chunk that has both seen and unseen numbers), not by how many records there were.

use std::collections::BTreeMap;
use std::ops::Range;

const CHUNK: u64 = 4_096;
const WORDS: usize = (CHUNK / 64) as usize;

/// A set of sequence numbers, made for numbers that come nearly in order.
///
/// `u64::MAX` is not a sequence number: runs are cut before it.
#[derive(Clone, Debug, Default)]
pub struct SequenceSet {
    // All numbers below have been seen; this one has not.
    low: u64,
    // Chunks with some numbers seen and some not, by number / CHUNK. In the chunk of the low watermark the bits below the
    // watermark are set.
    chunks: BTreeMap<u64, Box<Chunk>>,
    // Full chunks above the watermark: from chunk → to chunk, exclusive. Neighbours are joined.
    full: BTreeMap<u64, u64>,
}

/// What [`SequenceSet::insert_run`] found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Inserted {
    /// Numbers that had not been seen before.
    pub new: u64,
    /// Numbers that had.
    pub already: u64,
}

/// What [`SequenceSet::missing_in`] found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Missing {
    /// How many numbers have not been seen.
    pub count: u64,
    /// The first of the ranges that they form, rising, at most as many as were asked for.
    pub ranges: Vec<Range<u64>>,
}

impl SequenceSet {
    /// An empty set.
    pub fn new() -> SequenceSet {
        SequenceSet::default()
    }

    /// Adds one number. True when it had not been seen.
    pub fn insert(&mut self, sequence: u64) -> bool {
        self.insert_run(sequence, 1).new == 1
    }

    /// Adds `count` numbers from `first` on.
    pub fn insert_run(&mut self, first: u64, count: u64) -> Inserted {
        let end = first.saturating_add(count);
        let unseen_from = first.max(self.low);
        if unseen_from >= end {
            return Inserted {
                new: 0,
                already: end - first,
            };
        }
        let new = if unseen_from == self.low && self.chunks.is_empty() && self.full.is_empty() {
            self.low = end;
            end - unseen_from
        } else {
            let new = self.insert_above_low(unseen_from, end);
            self.raise_low();
            new
        };
        Inserted {
            new,
            already: end - first - new,
        }
    }

    /// Whether the number has been seen.
    pub fn contains(&self, sequence: u64) -> bool {
        let chunk = sequence / CHUNK;
        sequence < self.low
            || self.full_end(chunk).is_some()
            || self
                .chunks
                .get(&chunk)
                .is_some_and(|chunk| chunk.contains(sequence % CHUNK))
    }

    /// All numbers below this one have been seen, and it has not.
    pub fn low_watermark(&self) -> u64 {
        self.low
    }

    /// Which numbers of `first..end` have not been seen: how many, and the first `most_ranges` ranges of them. The work
    /// grows with what is stored, not with the length of the range.
    pub fn missing_in(&self, first: u64, end: u64, most_ranges: usize) -> Missing {
        let mut missing = MissingRanges::new(most_ranges);
        self.for_each_run(first, end, |run, seen| {
            if !seen {
                missing.add(run);
            }
        });
        missing.finish()
    }

    /// Which numbers of this set are not in `other`: of the numbers that were acknowledged, those that were never
    /// delivered.
    pub fn not_in(&self, other: &SequenceSet, most_ranges: usize) -> Missing {
        let mut missing = MissingRanges::new(most_ranges);
        self.for_each_run(0, u64::MAX, |run, seen| {
            if seen {
                other.for_each_run(run.start, run.end, |run, seen_there| {
                    if !seen_there {
                        missing.add(run);
                    }
                });
            }
        });
        missing.finish()
    }

    // Calls `each` for the runs of seen and of unseen numbers that `first..end` is made of, rising. Neighbouring runs may
    // be of one kind.
    fn for_each_run(&self, first: u64, end: u64, mut each: impl FnMut(Range<u64>, bool)) {
        let mut at = first;
        while at < end {
            let chunk = at / CHUNK;
            if at < self.low {
                let stop = self.low.min(end);
                each(at..stop, true);
                at = stop;
            } else if let Some(full_end) = self.full_end(chunk) {
                let stop = full_end.saturating_mul(CHUNK).min(end);
                each(at..stop, true);
                at = stop;
            } else if let Some(bits) = self.chunks.get(&chunk) {
                let start = chunk * CHUNK;
                let stop = start.saturating_add(CHUNK).min(end);
                bits.for_each_run(at - start, stop - start, |run, seen| {
                    each(start + run.start..start + run.end, seen);
                });
                at = stop;
            } else {
                let stop = self
                    .next_stored_chunk(chunk)
                    .map_or(end, |next| (next * CHUNK).min(end));
                each(at..stop, false);
                at = stop;
            }
        }
    }

    /// About how much memory the set holds, in bytes.
    pub fn memory_bytes(&self) -> usize {
        // A tree node holds 11 entries and is at least about half full.
        const ENTRY: usize = 2 * size_of::<(u64, u64)>();
        size_of::<SequenceSet>() + self.chunks.len() * (size_of::<Chunk>() + ENTRY) + self.full.len() * ENTRY
    }

    // The numbers of `first..end` are all at or above the watermark. Returns how many were new.
    fn insert_above_low(&mut self, first: u64, end: u64) -> u64 {
        let mut new = 0;
        let mut at = first;
        while at < end {
            let chunk = at / CHUNK;
            let chunk_start = chunk * CHUNK;
            if let Some(full_end) = self.full_end(chunk) {
                at = full_end.saturating_mul(CHUNK).min(end);
                continue;
            }
            if at == chunk_start && end - at >= CHUNK && !self.chunks.contains_key(&chunk) {
                // Whole chunks of a long run, up to the next one that is stored, need no bits.
                let whole_end = self
                    .next_stored_chunk(chunk)
                    .map_or(end / CHUNK, |next| next.min(end / CHUNK));
                new += (whole_end - chunk) * CHUNK;
                self.join_full(chunk, whole_end);
                at = whole_end * CHUNK;
                continue;
            }
            let stop = chunk_start.saturating_add(CHUNK).min(end);
            let low_in_chunk = self.low.saturating_sub(chunk_start);
            let bits = self
                .chunks
                .entry(chunk)
                .or_insert_with(|| Box::new(Chunk::seen_below(low_in_chunk)));
            new += bits.insert(at - chunk_start, stop - chunk_start);
            if bits.seen == CHUNK {
                self.chunks.remove(&chunk);
                self.join_full(chunk, chunk + 1);
            }
            at = stop;
        }
        new
    }

    // Moves the watermark over all that has been seen without a gap.
    fn raise_low(&mut self) {
        loop {
            let chunk = self.low / CHUNK;
            if let Some(full_end) = self.full.remove(&chunk) {
                self.low = full_end.saturating_mul(CHUNK);
            } else {
                if let Some(bits) = self.chunks.get(&chunk) {
                    // A chunk that is stored has an unseen number.
                    let seen_from_start = bits.first_unseen(self.low % CHUNK);
                    self.low = chunk * CHUNK + seen_from_start;
                    if bits.seen == seen_from_start {
                        // Nothing above the watermark: the watermark alone says it all.
                        self.chunks.remove(&chunk);
                    }
                }
                return;
            }
        }
    }

    fn join_full(&mut self, from: u64, to: u64) {
        let mut from = from;
        let mut to = to;
        if let Some(next_end) = self.full.remove(&to) {
            to = next_end;
        }
        if let Some((&before, &before_end)) = self.full.range(..from).next_back()
            && before_end == from
        {
            from = before;
        }
        self.full.insert(from, to);
    }

    // The end of the full chunks that `chunk` is one of.
    fn full_end(&self, chunk: u64) -> Option<u64> {
        self.full
            .range(..=chunk)
            .next_back()
            .map(|(_, &end)| end)
            .filter(|&end| chunk < end)
    }

    fn next_stored_chunk(&self, chunk: u64) -> Option<u64> {
        let partial = self.chunks.range(chunk..).next().map(|(&chunk, _)| chunk);
        let full = self.full.range(chunk..).next().map(|(&chunk, _)| chunk);
        match (partial, full) {
            (Some(partial), Some(full)) => Some(partial.min(full)),
            (partial, full) => partial.or(full),
        }
    }
}

struct MissingRanges {
    missing: Missing,
    // The range that may still grow.
    open: Option<Range<u64>>,
    most_ranges: usize,
}

impl MissingRanges {
    fn new(most_ranges: usize) -> MissingRanges {
        MissingRanges {
            missing: Missing::default(),
            open: None,
            most_ranges,
        }
    }

    // Ranges come rising; one that begins where the last ended makes it longer.
    fn add(&mut self, range: Range<u64>) {
        self.missing.count += range.end - range.start;
        match &mut self.open {
            Some(open) if open.end == range.start => open.end = range.end,
            _ => {
                self.close();
                self.open = Some(range);
            }
        }
    }

    fn close(&mut self) {
        if let Some(range) = self.open.take()
            && self.missing.ranges.len() < self.most_ranges
        {
            self.missing.ranges.push(range);
        }
    }

    fn finish(mut self) -> Missing {
        self.close();
        self.missing
    }
}

#[derive(Clone, Debug)]
struct Chunk {
    bits: [u64; WORDS],
    seen: u64,
}

impl Chunk {
    fn seen_below(end: u64) -> Chunk {
        let mut chunk = Chunk {
            bits: [0; WORDS],
            seen: 0,
        };
        chunk.insert(0, end);
        chunk
    }

    fn contains(&self, at: u64) -> bool {
        self.bits[(at / 64) as usize] >> (at % 64) & 1 == 1
    }

    // Sets the bits `from..to` and returns how many were not set.
    fn insert(&mut self, from: u64, to: u64) -> u64 {
        let mut new = 0;
        for_each_word(from, to, |word, mask| {
            new += u64::from((mask & !self.bits[word]).count_ones());
            self.bits[word] |= mask;
        });
        self.seen += new;
        new
    }

    // The first number from `from` on that is not set; CHUNK when there is none.
    fn first_unseen(&self, from: u64) -> u64 {
        self.run_end(from, CHUNK, true)
    }

    // Calls `each` for the longest runs of bits of one kind that `from..to` is made of, with whether they are set.
    fn for_each_run(&self, from: u64, to: u64, mut each: impl FnMut(Range<u64>, bool)) {
        let mut at = from;
        while at < to {
            let seen = self.contains(at);
            let end = self.run_end(at, to, seen);
            each(at..end, seen);
            at = end;
        }
    }

    // Where the run of bits that are all `seen`, which starts at `from`, ends; at most `to`.
    fn run_end(&self, from: u64, to: u64, seen: bool) -> u64 {
        let mut at = from;
        while at < to {
            let word = self.bits[(at / 64) as usize];
            let others = if seen { !word } else { word } >> (at % 64);
            if others != 0 {
                return (at + u64::from(others.trailing_zeros())).min(to);
            }
            at = (at / 64 + 1) * 64;
        }
        to
    }
}

fn for_each_word(from: u64, to: u64, mut each: impl FnMut(usize, u64)) {
    let mut at = from;
    while at < to {
        let word_start = at / 64 * 64;
        let stop = to.min(word_start + 64);
        let width = stop - at;
        let mask = if width == 64 {
            u64::MAX
        } else {
            ((1 << width) - 1) << (at - word_start)
        };
        each((at / 64) as usize, mask);
        at = stop;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn fifty_million_numbers_in_order_take_no_more_memory_than_one() {
        let mut set = SequenceSet::new();
        let mut first = 0;
        while first < 50_000_000 {
            assert_eq!(set.insert_run(first, 160), Inserted { new: 160, already: 0 });
            first += 160;
        }
        assert_eq!(set.low_watermark(), 50_000_000);
        assert!(set.memory_bytes() < 256);
    }

    #[test]
    fn one_lost_number_early_does_not_keep_all_that_comes_after_it() {
        let mut set = SequenceSet::new();
        set.insert_run(0, 1_000);
        let mut first = 1_001;
        while first < 10_000_000 {
            set.insert_run(first, 999);
            first += 999;
        }
        assert_eq!(set.low_watermark(), 1_000);
        assert!(set.memory_bytes() < 4_096, "{}", set.memory_bytes());
        assert_eq!(
            set.missing_in(0, first, 10),
            Missing {
                count: 1,
                ranges: std::iter::once(1_000..1_001).collect()
            }
        );
        assert!(set.insert(1_000));
        assert_eq!(set.low_watermark(), first);
    }

    #[test]
    fn runs_of_several_partitions_in_turn_are_joined() {
        let mut set = SequenceSet::new();
        for round in 0..1_000_u64 {
            for partition in (0..12).rev() {
                let first = (round * 12 + partition) * 160;
                assert_eq!(set.insert_run(first, 160), Inserted { new: 160, already: 0 });
            }
        }
        assert_eq!(set.low_watermark(), 1_000 * 12 * 160);
        assert!(set.memory_bytes() < 256);
    }

    #[test]
    fn numbers_seen_twice_are_counted_as_such() {
        let mut set = SequenceSet::new();
        assert_eq!(set.insert_run(10, 10), Inserted { new: 10, already: 0 });
        assert_eq!(set.insert_run(5, 10), Inserted { new: 5, already: 5 });
        assert!(!set.insert(7));
        assert!(set.insert(0));
        assert!(set.contains(0) && !set.contains(1) && set.contains(19) && !set.contains(20));
        assert_eq!(
            set.missing_in(0, 30, 1),
            Missing {
                count: 14,
                ranges: std::iter::once(1..5).collect()
            }
        );
    }

    #[test]
    fn far_and_hostile_numbers_cost_no_more_than_near_ones() {
        let mut set = SequenceSet::new();
        assert!(set.insert(u64::MAX - 1));
        assert!(!set.insert(u64::MAX));
        assert_eq!(
            set.insert_run(1 << 62, 1 << 61),
            Inserted {
                new: 1 << 61,
                already: 0
            }
        );
        assert_eq!(set.insert_run(u64::MAX - 5, u64::MAX).new, 4);
        assert!(set.memory_bytes() < 4_096);
        let missing = set.missing_in(0, u64::MAX, 2);
        assert_eq!(missing.count, u64::MAX - (1 << 61) - 5);
        assert_eq!(missing.ranges, [0..1 << 62, (1 << 62) + (1 << 61)..u64::MAX - 5]);
        assert_eq!(set.insert_run(0, u64::MAX).new, missing.count);
        assert_eq!(set.missing_in(0, u64::MAX, 2), Missing::default());
    }

    /// The plain way to hold a set: one flag for each number.
    const MODEL_NUMBERS: usize = 50_000;

    fn model_missing(model: &[bool], first: u64, end: u64) -> Missing {
        let mut missing = Missing::default();
        for sequence in (first..end).filter(|&sequence| !model[sequence as usize]) {
            missing.count += 1;
            match missing.ranges.last_mut() {
                Some(last) if last.end == sequence => last.end += 1,
                _ => missing.ranges.push(sequence..sequence + 1),
            }
        }
        missing
    }

    proptest! {
        #[test]
        fn the_set_is_a_set(
            runs in prop::collection::vec((0..40_000_u64, prop_oneof![0..200_u64, 3_000..10_000_u64]), 1..60),
            ask in (0..40_000_u64, 0..40_000_u64),
        ) {
            let mut set = SequenceSet::new();
            let mut model = vec![false; MODEL_NUMBERS];
            for (first, count) in runs {
                let part = &mut model[first as usize..(first + count) as usize];
                let new = part.iter().filter(|seen| !**seen).count() as u64;
                part.fill(true);
                prop_assert_eq!(set.insert_run(first, count), Inserted { new, already: count - new });
            }
            let low = model.iter().position(|seen| !seen).expect("the last is never seen");
            prop_assert_eq!(set.low_watermark(), low as u64);
            prop_assert_eq!(set.missing_in(ask.0, ask.1, usize::MAX), model_missing(&model, ask.0, ask.1));
            for sequence in (0..MODEL_NUMBERS).step_by(37) {
                prop_assert_eq!(set.contains(sequence as u64), model[sequence]);
            }
        }

        #[test]
        fn what_one_set_has_and_another_has_not_is_found(
            here in prop::collection::vec((0..40_000_u64, 0..9_000_u64), 0..12),
            there in prop::collection::vec((0..40_000_u64, 0..9_000_u64), 0..12),
        ) {
            let (mut set, mut other) = (SequenceSet::new(), SequenceSet::new());
            // Flags of what is not in the difference, which is then what the model misses.
            let mut model = vec![true; MODEL_NUMBERS];
            for (first, count) in here {
                set.insert_run(first, count);
                model[first as usize..(first + count) as usize].fill(false);
            }
            for (first, count) in there {
                other.insert_run(first, count);
                model[first as usize..(first + count) as usize].fill(true);
            }
            prop_assert_eq!(set.not_in(&other, usize::MAX), model_missing(&model, 0, MODEL_NUMBERS as u64));
        }

        #[test]
        fn numbers_in_any_order_end_as_one(order in Just((0..200_u64).collect::<Vec<_>>()).prop_shuffle()) {
            let mut set = SequenceSet::new();
            for block in &order {
                prop_assert_eq!(set.insert_run(block * 97, 97).new, 97);
            }
            prop_assert_eq!(set.low_watermark(), 200 * 97);
            prop_assert!(set.chunks.len() <= 1 && set.full.is_empty());
        }
    }
}
