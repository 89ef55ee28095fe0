//! Keys of records, as OMB's distributors give them.
//!
//! A table of 10,000 keys, each 7 random bytes in base64url without padding: 10 characters. `KEY_ROUND_ROBIN` goes
//! through the table from its second entry on; `RANDOM_NANO` draws from it.

use client::partitioner::{Random, partition_of_key};
use model::workload::KeyDistributor;

const KEYS: usize = 10_000;
const KEY_BYTES: usize = 10;
const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// The table of keys of a run.
#[derive(Debug)]
pub struct KeyTable {
    keys: Vec<[u8; KEY_BYTES]>,
}

impl KeyTable {
    /// A table that is the same for the same seed.
    pub fn new(seed: u64) -> KeyTable {
        let mut random = Random::seeded(seed ^ 0x6b65_7973);
        let key = |random: &mut Random| {
            let bits = random.next_u64() >> 8;
            // 56 bits are nine groups of six and one of two, which base64 pads with zero bits at its end.
            std::array::from_fn(|place| {
                let group = (u128::from(bits) << 4) >> (54 - 6 * place);
                ALPHABET[(group & 63) as usize]
            })
        };
        KeyTable {
            keys: (0..KEYS).map(|_| key(&mut random)).collect(),
        }
    }

    /// Bytes of a key.
    pub const fn key_bytes() -> usize {
        KEY_BYTES
    }

    fn get(&self, index: usize) -> &[u8; KEY_BYTES] {
        &self.keys[index]
    }
}

/// One producer's way through the table, with the partition of each key for its topic.
#[derive(Debug)]
pub struct KeyCursor {
    distributor: KeyDistributor,
    next: usize,
    random: Random,
    partitions: usize,
    partition_of: Vec<u32>,
}

impl KeyCursor {
    /// `None` for a workload without keys.
    pub fn new(distributor: KeyDistributor, seed: u64) -> Option<KeyCursor> {
        (distributor != KeyDistributor::NoKey).then(|| KeyCursor {
            distributor,
            next: 0,
            random: Random::seeded(seed),
            partitions: 0,
            partition_of: Vec::new(),
        })
    }

    /// Index of the next record's key and its partition among `partitions`; the cursor goes on with [`KeyCursor::advance`].
    #[inline]
    pub fn peek(&mut self, table: &KeyTable, partitions: usize) -> (usize, usize) {
        if self.partitions != partitions {
            self.partitions = partitions;
            self.partition_of = table
                .keys
                .iter()
                .map(|key| partition_of_key(key, partitions) as u32)
                .collect();
        }
        let index = match self.distributor {
            KeyDistributor::RandomNano => self.next,
            _ => (self.next + 1) % KEYS,
        };
        (index, self.partition_of[index] as usize)
    }

    /// The record was appended.
    #[inline]
    pub fn advance(&mut self) {
        self.next = match self.distributor {
            KeyDistributor::RandomNano => self.random.below(KEYS),
            _ => (self.next + 1) % KEYS,
        };
    }

    /// The key at that index.
    #[inline]
    pub fn key<'t>(&self, table: &'t KeyTable, index: usize) -> &'t [u8] {
        table.get(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn keys_are_ten_characters_of_base64url_and_differ() {
        let table = KeyTable::new(1);
        assert!(
            table
                .keys
                .iter()
                .all(|key| key.iter().all(|byte| ALPHABET.contains(byte)))
        );
        assert!(table.keys.iter().collect::<HashSet<_>>().len() > 9_990);
        // 7 bytes leave two bits in the tenth character, so it is one of four.
        assert!(table.keys.iter().all(|key| b"AQgw".contains(&key[9])));
        assert_eq!(table.keys, KeyTable::new(1).keys);
        assert_ne!(table.keys, KeyTable::new(2).keys);
    }

    #[test]
    fn round_robin_starts_at_the_second_key_and_comes_round() {
        let table = KeyTable::new(1);
        let mut cursor = KeyCursor::new(KeyDistributor::KeyRoundRobin, 1).unwrap();
        let mut indices = Vec::new();
        for _ in 0..KEYS + 1 {
            indices.push(cursor.peek(&table, 12).0);
            cursor.advance();
        }
        assert_eq!(
            (indices[0], indices[1], indices[KEYS - 1], indices[KEYS]),
            (1, 2, 0, 1)
        );
    }

    #[test]
    fn a_key_stays_on_its_partition_and_all_partitions_are_hit() {
        let table = KeyTable::new(1);
        for distributor in [KeyDistributor::KeyRoundRobin, KeyDistributor::RandomNano] {
            let mut cursor = KeyCursor::new(distributor, 1).unwrap();
            let mut hit = HashSet::new();
            for _ in 0..5_000 {
                let (index, partition) = cursor.peek(&table, 100);
                assert_eq!(partition, partition_of_key(cursor.key(&table, index), 100));
                hit.insert(partition);
                cursor.advance();
            }
            assert_eq!(hit.len(), 100);
        }
    }

    #[test]
    fn there_is_no_cursor_without_keys() {
        assert!(KeyCursor::new(KeyDistributor::NoKey, 1).is_none());
    }
}
