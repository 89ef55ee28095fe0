//! Record batches of every codec: header, CRC, compressed body, records, headers.

use super::Target;
use crate::mutation::{Random, damage};
use wire::batch::{BatchBuilder, RecordHeaders, batches as batches_of, crc32c};
use wire::compress::{Codec, Compressor};

/// More than that is never decoded from one input.
const DECODED_LIMIT_BYTES: usize = 4 << 20;

const CODECS: [Codec; 5] = [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd];

pub fn batches() -> Target {
    Target {
        name: "batches",
        input: |random| {
            let mut bytes = sound_batch(random);
            if random.below(2) == 0 {
                let more = sound_batch(random);
                bytes.extend_from_slice(&more);
            }
            // What no CRC vouches for never reaches the records, so half of them get one that fits.
            damage(&mut bytes, random);
            if random.below(2) == 0 && bytes.len() > 21 {
                let crc = crc32c(&bytes[21..]);
                bytes[17..21].copy_from_slice(&crc.to_be_bytes());
            }
            bytes
        },
        run: Box::new(read_all),
    }
}

/// A batch as a producer would send it.
pub fn sound_batch(random: &mut Random) -> Vec<u8> {
    let codec = *random.pick(&CODECS);
    let headers = match random.below(3) {
        0 => RecordHeaders::new([("trace", Some(&b"abc"[..])), ("none", None)]),
        _ => RecordHeaders::default(),
    };
    let mut builder = BatchBuilder::new(Vec::new());
    for index in 0..1 + random.below(8) {
        let count = random.below(60);
        let value = random.bytes(count);
        let key = (random.below(2) == 0).then_some(&b"key"[..]);
        builder.push(
            1_700_000_000_000 + index as i64,
            key,
            value.len(),
            &headers,
            |out| {
                out.extend_from_slice(&value);
            },
        );
    }
    let mut compressor = Compressor::new(codec, None).expect("every codec has a default level");
    let mut sealed = builder.seal(&mut compressor, &mut Vec::new()).expect("it fits");
    sealed.set_producer(
        random.below(3) as i64 - 1,
        0,
        random.below(3) as i32 - 1,
        random.below(4) == 0,
    );
    sealed.into_buffer()
}

/// Reads all that can be read.
pub fn read_all(bytes: &[u8]) {
    for batch in batches_of(bytes).flatten() {
        let _ = batch.check_crc();
        let mut scratch = Vec::new();
        if let Ok(records) = batch.records(&mut scratch, DECODED_LIMIT_BYTES) {
            for record in records.flatten() {
                let _ = record.header("trace");
            }
        }
        assert!(
            scratch.len() <= DECODED_LIMIT_BYTES,
            "{} bytes were decoded",
            scratch.len()
        );
    }
}
