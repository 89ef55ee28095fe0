//! Record batches of every codec: header, CRC, compressed body, records, headers.

use super::Target;
use crate::mutation::{Random, damage};
use wire::batch::{
    Batch, BatchBuilder, HEADER_LEN, LOG_OVERHEAD, Record, RecordHeaders, batches as batches_of, crc32c,
};
use wire::compress::{Codec, Compressor};

/// More than that is never decoded from one input.
const DECODED_LIMIT_BYTES: usize = 4 << 20;

const CODECS: [Codec; 5] = [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd];

pub fn batches() -> Target {
    Target {
        name: "batches",
        input: |random| {
            let mut bytes = match random.below(2) {
                0 => damaged_records(random),
                _ => sound_batch(random),
            };
            if random.below(2) == 0 {
                let more = sound_batch(random);
                bytes.extend_from_slice(&more);
            }
            // What no CRC vouches for never reaches the records, so half of them get one that fits.
            if random.below(2) == 0 {
                damage(&mut bytes, random);
            }
            if random.below(2) == 0 && bytes.len() > 21 {
                let crc = crc32c(&bytes[21..]);
                bytes[17..21].copy_from_slice(&crc.to_be_bytes());
            }
            bytes
        },
        run: Box::new(read_all),
    }
}

/// A batch whose records were damaged before they were compressed, so that the codec's stream is sound.
fn damaged_records(random: &mut Random) -> Vec<u8> {
    let codec = *random.pick(&CODECS);
    let mut bytes = batch_of(random, Codec::None);
    let mut records = bytes.split_off(HEADER_LEN);
    damage(&mut records, random);
    let mut compressor = Compressor::new(codec, None).expect("every codec has a default level");
    compressor.compress(&records, &mut bytes).expect("it fits");
    let length = (bytes.len() - LOG_OVERHEAD) as u32;
    bytes[8..12].copy_from_slice(&length.to_be_bytes());
    bytes[21..23].copy_from_slice(&codec.id().to_be_bytes());
    bytes
}

/// A batch as a producer would send it.
pub fn sound_batch(random: &mut Random) -> Vec<u8> {
    let codec = *random.pick(&CODECS);
    batch_of(random, codec)
}

fn batch_of(random: &mut Random, codec: Codec) -> Vec<u8> {
    let headers = match random.below(3) {
        0 => RecordHeaders::new([("trace", Some(&b"abc"[..])), ("none", None)]),
        _ => RecordHeaders::default(),
    };
    let mut builder = BatchBuilder::new(Vec::new());
    for index in 0..1 + random.below(8) {
        // Now and then one that compresses to next to nothing, and beyond what is let through.
        let value = match random.below(1000) {
            0 => vec![0; random.below(2 * DECODED_LIMIT_BYTES)],
            count => random.bytes(count % 60),
        };
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
        let records = batch.records(&mut scratch, DECODED_LIMIT_BYTES);
        // One byte more tells that there is too much, and is given to nobody.
        let at_most = DECODED_LIMIT_BYTES + usize::from(records.is_err());
        if let Ok(records) = records {
            let records: Result<Vec<_>, _> = records
                .inspect(|record| {
                    let _ = record.as_ref().map(|record| record.header("trace"));
                })
                .collect();
            if let Ok(records) = records {
                comes_back(batch.codec(), &records);
            }
        }
        assert!(scratch.len() <= at_most, "{} bytes were decoded", scratch.len());
    }
}

/// Writes the records into a batch of their own and reads that. Tombstones and gaps of offsets are not what a producer writes,
/// nor are times that lie further from each other than a number holds.
fn comes_back(codec: Codec, records: &[Record<'_>]) {
    let first_delta = records.first().map_or(0, |record| record.timestamp_delta_ms);
    let is_ours = |(record, offset): (&Record<'_>, i32)| {
        record.value.is_some()
            && record.offset_delta == offset
            && record.timestamp_delta_ms.checked_sub(first_delta).is_some()
    };
    if records.is_empty() || !records.iter().zip(0..).all(is_ours) {
        return;
    }
    let mut builder = BatchBuilder::new(Vec::new());
    for record in records {
        let value = record.value.unwrap_or_default();
        let headers = RecordHeaders::of(record);
        builder.push(
            record.timestamp_delta_ms,
            record.key,
            value.len(),
            &headers,
            |out| {
                out.extend_from_slice(value);
            },
        );
    }
    let mut compressor = Compressor::new(codec, None).expect("every codec has a default level");
    let sealed = builder.seal(&mut compressor, &mut Vec::new()).expect("it fits");
    let batch = Batch::parse(sealed.bytes()).expect("our own batch");
    assert_eq!(batch.check_crc(), Ok(()));
    let mut scratch = Vec::new();
    // Lengths may have been written longer than they need be, never shorter than we write them.
    let again = batch
        .records(&mut scratch, 2 * DECODED_LIMIT_BYTES)
        .expect("our own stream");
    let again: Vec<_> = again.map(|record| record.expect("our own record")).collect();
    assert_eq!(again.len(), records.len());
    for (again, record) in again.iter().zip(records) {
        assert_eq!(
            (again.key, again.value, again.header_count, again.offset_delta),
            (record.key, record.value, record.header_count, record.offset_delta)
        );
        assert_eq!(
            batch.base_timestamp_ms() + again.timestamp_delta_ms,
            record.timestamp_delta_ms
        );
        assert_eq!(RecordHeaders::of(again), RecordHeaders::of(record));
    }
}
