//! What the values of records hold.
//!
//! Values are slots of one pool that is made once, so that a record costs a copy and no computation. The pool of the default
//! payload is larger than what a codec looks back over within a batch, so that repetition is not found out: its letters
//! are drawn evenly from A–Z, log2(26) = 4.70 bits a byte, which no codec gets below 0.588 of the raw size at any batch
//! size. Real text of logs and events lies about there too, which is why the Java tool draws the same alphabet.

use client::partitioner::Random;
use measure::stamp::STAMP_BYTES;
use model::workload::{Payload, StampPlacement};

/// The pool of a generated payload is at least this large.
const POOL_BYTES: usize = 4 << 20;
/// Slots are never fewer than this, however large the records.
const LEAST_SLOTS: usize = 8;

/// The values of all records of a run.
#[derive(Debug)]
pub struct PayloadPool {
    bytes: Vec<u8>,
    slot_bytes: usize,
    slots: usize,
    crcs: Vec<u32>,
    value_bytes: usize,
    stamp_in_value: bool,
}

impl PayloadPool {
    /// Makes the pool. `file` is the content of the payload file, where the workload names one.
    pub fn new(
        payload: &Payload,
        value_bytes: usize,
        placement: StampPlacement,
        file: Option<&[u8]>,
        seed: u64,
    ) -> PayloadPool {
        let stamp_in_value = placement == StampPlacement::Value && value_bytes >= STAMP_BYTES;
        let slot_bytes = value_bytes - if stamp_in_value { STAMP_BYTES } else { 0 };
        let mut random = Random::seeded(seed);
        let (bytes, slots) = match (payload, file) {
            (Payload::File(_), Some(content)) => (content[content.len() - slot_bytes..].to_vec(), 1),
            (
                Payload::Randomized {
                    random_bytes_ratio,
                    pool_size,
                },
                _,
            ) => {
                let slots = (*pool_size).max(1) as usize;
                // As OMB makes them: that share of the whole value is random and stands in front, behind the stamp.
                let random_bytes = ((value_bytes as f64 * random_bytes_ratio) as usize).min(slot_bytes);
                let mut bytes = vec![0; slots * slot_bytes];
                for slot in bytes.chunks_exact_mut(slot_bytes.max(1)) {
                    fill_random(&mut slot[..random_bytes], &mut random);
                }
                (bytes, slots)
            }
            _ => {
                let slots = (POOL_BYTES / slot_bytes.max(1)).max(LEAST_SLOTS);
                let mut bytes = vec![0; slots * slot_bytes];
                for letter in &mut bytes {
                    *letter = b'A' + random.below(26) as u8;
                }
                (bytes, slots)
            }
        };
        let crcs = match slot_bytes {
            0 => vec![client::batch::crc32c(&[]); slots],
            _ => bytes
                .chunks_exact(slot_bytes)
                .map(client::batch::crc32c)
                .collect(),
        };
        PayloadPool {
            bytes,
            slot_bytes,
            slots,
            crcs,
            value_bytes,
            stamp_in_value,
        }
    }

    /// Bytes of each value.
    pub fn value_bytes(&self) -> usize {
        self.value_bytes
    }

    /// Whether the first bytes of each value are the stamp's.
    pub fn stamp_in_value(&self) -> bool {
        self.stamp_in_value
    }

    /// The payload of the record with this number, behind the stamp if that is in the value, and its CRC-32C.
    #[inline]
    pub fn slot(&self, number: u64) -> (&[u8], u32) {
        let slot = (number % self.slots as u64) as usize;
        (
            &self.bytes[slot * self.slot_bytes..(slot + 1) * self.slot_bytes],
            self.crcs[slot],
        )
    }
}

fn fill_random(bytes: &mut [u8], random: &mut Random) {
    for chunk in bytes.chunks_mut(8) {
        chunk.copy_from_slice(&random.next_u64().to_le_bytes()[..chunk.len()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use client::batch::{BatchBuilder, RecordHeaders};
    use client::compress::{Codec, Compressor};
    use measure::stamp::Stamp;

    /// Size of a zstd batch over its raw size, filled with stamped records up to `batch_bytes`.
    fn zstd_ratio(pool: &PayloadPool, batch_bytes: usize) -> f64 {
        let headers = RecordHeaders::default();
        let mut builder = BatchBuilder::new(Vec::new());
        let mut sequence = 1_000_000;
        while builder.len_bytes() < batch_bytes {
            let (payload, crc) = pool.slot(sequence);
            builder.push(1_700_000_000_000, None, pool.value_bytes(), &headers, |out| {
                if pool.stamp_in_value() {
                    let mut stamp = [0; STAMP_BYTES];
                    Stamp {
                        producer: 3,
                        sequence,
                        due_ns: sequence * 10_000,
                    }
                    .encode(77, crc, &mut stamp);
                    out.extend_from_slice(&stamp);
                }
                out.extend_from_slice(payload);
            });
            sequence += 1;
        }
        let raw = builder.len_bytes();
        let sealed = builder
            .seal(&mut Compressor::new(Codec::Zstd, None).unwrap(), &mut Vec::new())
            .unwrap();
        sealed.bytes().len() as f64 / raw as f64
    }

    #[test]
    fn the_default_compresses_as_text_does_at_any_batch_size() {
        for value_bytes in [100, 512, 1024, 10_000] {
            let pool = PayloadPool::new(&Payload::Text, value_bytes, StampPlacement::Value, None, 1);
            let (small, large) = (zstd_ratio(&pool, 16 << 10), zstd_ratio(&pool, 1 << 20));
            assert!(
                (0.55..0.70).contains(&small) && (0.55..0.70).contains(&large),
                "{value_bytes} B: {small} {large}"
            );
            assert!(
                (small / large - 1.0).abs() < 0.05,
                "{value_bytes} B: {small} at 16 KiB, {large} at 1 MiB"
            );
        }
    }

    #[test]
    fn half_random_bytes_compress_to_about_half() {
        let payload = Payload::Randomized {
            random_bytes_ratio: 0.5,
            pool_size: 1000,
        };
        let pool = PayloadPool::new(&payload, 512, StampPlacement::Value, None, 1);
        let ratio = zstd_ratio(&pool, 16 << 10);
        assert!((0.50..0.60).contains(&ratio), "{ratio}");
    }

    #[test]
    fn neighbouring_records_differ_and_all_slots_are_used() {
        let pool = PayloadPool::new(&Payload::Text, 100, StampPlacement::Value, None, 1);
        assert_ne!(pool.slot(0), pool.slot(1));
        assert_eq!(pool.slot(0), pool.slot(pool.slots as u64));
        assert_eq!(pool.slot(5).0.len(), 76);
        assert_eq!(pool.slot(5).1, client::batch::crc32c(pool.slot(5).0));
    }

    #[test]
    fn a_users_file_is_sent_as_it_is_unless_the_stamp_is_asked_for() {
        let file = [b'x'; 50];
        let payload = Payload::File("p".into());
        let whole = PayloadPool::new(&payload, 50, StampPlacement::None, Some(&file), 1);
        assert_eq!(whole.slot(9).0, file);
        let stamped = PayloadPool::new(&payload, 50, StampPlacement::Value, Some(&file), 1);
        assert_eq!(stamped.slot(9).0, &file[24..]);
    }

    #[test]
    fn records_too_small_for_a_stamp_have_none() {
        for value_bytes in [0, 10, 23] {
            let pool = PayloadPool::new(&Payload::Text, value_bytes, StampPlacement::Value, None, 1);
            assert!(!pool.stamp_in_value());
            assert_eq!(pool.slot(3).0.len(), value_bytes);
        }
    }
}
