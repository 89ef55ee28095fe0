//! The 24 bytes that a record carries so that it can be accounted for.
//!
//! | bytes | field | type |
//! |---|---|---|
//! | 0..4 | producer | u32, big-endian |
//! | 4..12 | sequence | u64, big-endian |
//! | 12..20 | due, ns since the run's start | u64, big-endian |
//! | 20..24 | check | u32, big-endian |
//!
//! The check ties the stamp to its run and to the payload that follows it:
//!
//! ```text
//! sum   = run_id·0xC2B2AE3D27D4EB4F + producer·0x9E3779B97F4A7C15
//!       + sequence·0xD6E8FEB86659FD93 + due_ns·0xA0761D6478BD642F
//!       + 0xE7037ED1A0B428DB                                        (all modulo 2^64)
//! check = (sum >> 32) XOR crc32c(payload)
//! ```
//!
//! `crc32c(payload)` is CRC-32C (Castagnoli) over the record's bytes after the stamp, 0 for none; it is handed in, since
//! a sender of pooled payloads computes it once a payload. The sum is multilinear: to change one bit of one field moves it
//! by 2^b times an odd constant, and the constants are such that this always reaches the upper half, so every single
//! flipped bit is caught for certain, in the stamp as in the payload; other damage passes once in 2^32.

/// Bytes that a stamp takes.
pub const STAMP_BYTES: usize = 24;

const RUN_ID_FACTOR: u64 = 0xC2B2_AE3D_27D4_EB4F;
const PRODUCER_FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
const SEQUENCE_FACTOR: u64 = 0xD6E8_FEB8_6659_FD93;
const DUE_FACTOR: u64 = 0xA076_1D64_78BD_642F;
const OFFSET: u64 = 0xE703_7ED1_A0B4_28DB;

/// Who sent a record, which of its records it is, and when it was due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// The producer's number within the run.
    pub producer: u32,
    /// The record's number within its producer, from zero.
    pub sequence: u64,
    /// When it was due, in nanoseconds since the run's start. In a closed loop, which has no due times: when it was
    /// appended.
    pub due_ns: u64,
}

impl Stamp {
    /// Writes the stamp of a record of run `run_id`, whose payload after the stamp has the CRC-32C `payload_crc`.
    #[inline]
    pub fn encode(&self, run_id: u64, payload_crc: u32, into: &mut [u8; STAMP_BYTES]) {
        into[0..4].copy_from_slice(&self.producer.to_be_bytes());
        into[4..12].copy_from_slice(&self.sequence.to_be_bytes());
        into[12..20].copy_from_slice(&self.due_ns.to_be_bytes());
        into[20..24].copy_from_slice(&(self.sum(run_id) ^ payload_crc).to_be_bytes());
    }

    /// Reads the stamp at the start of `bytes`, checked or not. None when there are fewer than [`STAMP_BYTES`].
    #[inline]
    pub fn parse(bytes: &[u8]) -> Option<ParsedStamp> {
        let bytes: &[u8; STAMP_BYTES] = bytes.first_chunk()?;
        let [a, b, c, d, sequence_and_on @ ..] = *bytes;
        let [due_and_check @ .., e, f, g, h] = sequence_and_on;
        let (sequence, due_ns) = due_and_check.split_at(8);
        let stamp = Stamp {
            producer: u32::from_be_bytes([a, b, c, d]),
            sequence: u64::from_be_bytes(sequence.try_into().ok()?),
            due_ns: u64::from_be_bytes(due_ns.try_into().ok()?),
        };
        Some(ParsedStamp {
            stamp,
            check: u32::from_be_bytes([e, f, g, h]),
        })
    }

    #[inline]
    fn sum(&self, run_id: u64) -> u32 {
        let sum = run_id
            .wrapping_mul(RUN_ID_FACTOR)
            .wrapping_add(u64::from(self.producer).wrapping_mul(PRODUCER_FACTOR))
            .wrapping_add(self.sequence.wrapping_mul(SEQUENCE_FACTOR))
            .wrapping_add(self.due_ns.wrapping_mul(DUE_FACTOR))
            .wrapping_add(OFFSET);
        (sum >> 32) as u32
    }
}

/// A stamp as it was found, with its check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParsedStamp {
    /// What the stamp says.
    pub stamp: Stamp,
    check: u32,
}

impl ParsedStamp {
    /// Whether this record was written by run `run_id` and arrived whole; `payload_crc` is the CRC-32C of the record's
    /// bytes after the stamp.
    #[inline]
    pub fn verify(&self, run_id: u64, payload_crc: u32) -> bool {
        self.stamp.sum(run_id) ^ payload_crc == self.check
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const RUN_ID: u64 = 0x0123_4567_89AB_CDEF;
    const PAYLOAD_CRC: u32 = 0xE306_9283;

    fn encoded(stamp: &Stamp) -> [u8; STAMP_BYTES] {
        let mut bytes = [0; STAMP_BYTES];
        stamp.encode(RUN_ID, PAYLOAD_CRC, &mut bytes);
        bytes
    }

    #[test]
    fn the_bytes_are_those_that_the_module_describes() {
        let stamp = Stamp {
            producer: 7,
            sequence: 1_000_000,
            due_ns: 30_000_000_000,
        };
        let sum = u128::from(RUN_ID) * 0xC2B2_AE3D_27D4_EB4F
            + 7 * 0x9E37_79B9_7F4A_7C15
            + 1_000_000 * 0xD6E8_FEB8_6659_FD93
            + 30_000_000_000 * 0xA076_1D64_78BD_642F
            + 0xE703_7ED1_A0B4_28DB;
        let check = ((sum >> 32) as u32) ^ PAYLOAD_CRC;
        let mut expected = Vec::new();
        expected.extend([0, 0, 0, 7]);
        expected.extend([0, 0, 0, 0, 0, 0x0F, 0x42, 0x40]);
        expected.extend([0, 0, 0, 6, 0xFC, 0x23, 0xAC, 0x00]);
        expected.extend(check.to_be_bytes());
        assert_eq!(encoded(&stamp).as_slice(), expected);
    }

    #[test]
    fn fewer_bytes_than_a_stamp_are_none() {
        assert_eq!(Stamp::parse(&[0; STAMP_BYTES - 1]), None);
        assert_eq!(Stamp::parse(&[]), None);
    }

    /// The proof that the module's text leans on: the move of the sum, as a signed number, is at least 2^32 for each bit.
    #[test]
    fn a_flipped_bit_of_any_field_moves_the_sum_by_at_least_half_of_its_width() {
        for factor in [RUN_ID_FACTOR, PRODUCER_FACTOR, SEQUENCE_FACTOR, DUE_FACTOR] {
            for bit in 0..64 {
                let moved = (factor << bit).cast_signed();
                assert!(moved.unsigned_abs() >= 1 << 32, "{factor:#x} at bit {bit}");
            }
        }
    }

    proptest! {
        #[test]
        fn a_stamp_is_read_as_it_was_written(
            producer in any::<u32>(), sequence in any::<u64>(), due_ns in any::<u64>(), rest in any::<[u8; 9]>(),
        ) {
            let stamp = Stamp { producer, sequence, due_ns };
            let record = [encoded(&stamp).as_slice(), rest.as_slice()].concat();
            let parsed = Stamp::parse(&record).expect("long enough");
            prop_assert_eq!(parsed.stamp, stamp);
            prop_assert!(parsed.verify(RUN_ID, PAYLOAD_CRC));
        }

        #[test]
        fn any_flipped_bit_is_caught(producer in any::<u32>(), sequence in any::<u64>(), due_ns in any::<u64>()) {
            let whole = encoded(&Stamp { producer, sequence, due_ns });
            for bit in 0..STAMP_BYTES * 8 {
                let mut damaged = whole;
                damaged[bit / 8] ^= 1 << (bit % 8);
                let parsed = Stamp::parse(&damaged).expect("long enough");
                prop_assert!(!parsed.verify(RUN_ID, PAYLOAD_CRC), "bit {bit}");
            }
            let parsed = Stamp::parse(&whole).expect("long enough");
            for bit in 0..32 {
                prop_assert!(!parsed.verify(RUN_ID, PAYLOAD_CRC ^ 1 << bit), "payload bit {bit}");
            }
            for bit in 0..64 {
                prop_assert!(!parsed.verify(RUN_ID ^ 1 << bit, PAYLOAD_CRC), "run id bit {bit}");
            }
        }
    }
}
