//! Record batch v2 (KIP-98): the hot path.
//!
//! | offset | size | field |
//! |---|---|---|
//! | 0 | 8 | base offset (0 when producing) |
//! | 8 | 4 | batch length: bytes after this field |
//! | 12 | 4 | partition leader epoch (−1 when producing) |
//! | 16 | 1 | magic, 2 |
//! | 17 | 4 | CRC-32C over offset 21 to the end |
//! | 21 | 2 | attributes: codec (bits 0–2), timestamp type (3), transactional (4), control (5) |
//! | 23 | 4 | last offset delta |
//! | 27 | 8 | base timestamp, ms |
//! | 35 | 8 | max timestamp, ms |
//! | 43 | 8 | producer id (−1 none) |
//! | 51 | 2 | producer epoch (−1 none) |
//! | 53 | 4 | base sequence (−1 none) |
//! | 57 | 4 | record count |
//! | 61 | … | records, as one compressed stream if the codec is not 0 |
//!
//! [`BatchBuilder`] encodes records into a buffer that is used again and again; [`Batch`] reads one in place. Neither
//! copies a record, and neither does anything per record but move its bytes.

use crate::compress::{Codec, CodecError, Compressor, decompress};
use crate::varint;
use std::fmt;

/// Bytes before the first record.
pub const HEADER_LEN: usize = 61;
/// Bytes of base offset and length, which the length itself does not count.
pub const LOG_OVERHEAD: usize = 12;

const LENGTH_AT: usize = 8;
const LEADER_EPOCH_AT: usize = 12;
const MAGIC_AT: usize = 16;
const CRC_AT: usize = 17;
const ATTRIBUTES_AT: usize = 21;
const LAST_OFFSET_DELTA_AT: usize = 23;
const BASE_TIMESTAMP_AT: usize = 27;
const MAX_TIMESTAMP_AT: usize = 35;
const PRODUCER_ID_AT: usize = 43;
const PRODUCER_EPOCH_AT: usize = 51;
const BASE_SEQUENCE_AT: usize = 53;
const COUNT_AT: usize = 57;

const TIMESTAMP_TYPE_BIT: i16 = 1 << 3;
const TRANSACTIONAL_BIT: i16 = 1 << 4;
const CONTROL_BIT: i16 = 1 << 5;

/// CRC-32C (Castagnoli) of `bytes`, as record batches carry it.
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

/// Record headers, encoded once and then copied behind each record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordHeaders {
    /// Their count and the headers themselves, as a record ends with them.
    encoded: Vec<u8>,
}

impl Default for RecordHeaders {
    fn default() -> Self {
        RecordHeaders { encoded: vec![0] }
    }
}

impl RecordHeaders {
    /// Encodes name and value pairs; a value may be null.
    pub fn new<'a>(headers: impl IntoIterator<Item = (&'a str, Option<&'a [u8]>)>) -> RecordHeaders {
        let mut body = Vec::new();
        let mut count = 0;
        for (name, value) in headers {
            count += 1;
            varint::write_signed(&mut body, name.len() as i64);
            body.extend_from_slice(name.as_bytes());
            write_nullable(&mut body, value);
        }
        let mut encoded = Vec::with_capacity(body.len() + 2);
        varint::write_signed(&mut encoded, count);
        encoded.extend_from_slice(&body);
        RecordHeaders { encoded }
    }

    /// The headers of a record that was read, as they are.
    pub fn of(record: &Record<'_>) -> RecordHeaders {
        let mut encoded = Vec::with_capacity(record.headers.len() + 5);
        varint::write_signed(&mut encoded, record.header_count.into());
        encoded.extend_from_slice(record.headers);
        RecordHeaders { encoded }
    }

    /// Bytes that they add to each record.
    pub fn len_bytes(&self) -> usize {
        self.encoded.len()
    }
}

fn write_nullable(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    match bytes {
        None => varint::write_signed(out, -1),
        Some(bytes) => {
            varint::write_signed(out, bytes.len() as i64);
            out.extend_from_slice(bytes);
        }
    }
}

/// Encodes records into one batch. The buffer is the caller's and comes back with [`SealedBatch::into_buffer`].
#[derive(Debug)]
pub struct BatchBuilder {
    buffer: Vec<u8>,
    count: u32,
    base_timestamp_ms: i64,
    max_timestamp_ms: i64,
}

impl BatchBuilder {
    /// Starts an empty batch in `buffer`, whose contents are dropped and whose capacity is kept.
    pub fn new(mut buffer: Vec<u8>) -> BatchBuilder {
        buffer.clear();
        buffer.resize(HEADER_LEN, 0);
        BatchBuilder {
            buffer,
            count: 0,
            base_timestamp_ms: 0,
            max_timestamp_ms: 0,
        }
    }

    /// How many records it holds.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Bytes so far, header included, before compression.
    pub fn len_bytes(&self) -> usize {
        self.buffer.len()
    }

    /// An upper bound of what one more record of that shape takes: its own bytes and at most 21 of lengths and deltas.
    /// The same bound as the Java client holds against `max.request.size`.
    pub fn record_len_bound(key_len: Option<usize>, value_len: usize, headers: &RecordHeaders) -> usize {
        21 + key_len.unwrap_or(0) + value_len + headers.len_bytes()
    }

    /// Appends one record whose value `write_value` appends in place; it must append exactly `value_len` bytes.
    ///
    /// `timestamp_ms` is the record's CreateTime.
    #[inline]
    pub fn push(
        &mut self,
        timestamp_ms: i64,
        key: Option<&[u8]>,
        value_len: usize,
        headers: &RecordHeaders,
        write_value: impl FnOnce(&mut Vec<u8>),
    ) {
        if self.count == 0 {
            self.base_timestamp_ms = timestamp_ms;
            self.max_timestamp_ms = timestamp_ms;
        }
        self.max_timestamp_ms = self.max_timestamp_ms.max(timestamp_ms);
        let timestamp_delta = timestamp_ms - self.base_timestamp_ms;
        let key_bytes = key.map_or(1, |key| varint::signed_len(key.len() as i64) + key.len());
        let body = 1
            + varint::signed_len(timestamp_delta)
            + varint::signed_len(i64::from(self.count))
            + key_bytes
            + varint::signed_len(value_len as i64)
            + value_len
            + headers.encoded.len();
        let mut head = Head::new();
        head.signed(body as i64);
        head.byte(0);
        head.signed(timestamp_delta);
        head.signed(i64::from(self.count));
        match key {
            None => {
                head.byte(1); // −1, zig-zag
                head.signed(value_len as i64);
                self.buffer.extend_from_slice(head.bytes());
            }
            Some(key) => {
                head.signed(key.len() as i64);
                self.buffer.extend_from_slice(head.bytes());
                self.buffer.extend_from_slice(key);
                let mut head = Head::new();
                head.signed(value_len as i64);
                self.buffer.extend_from_slice(head.bytes());
            }
        }
        let value_at = self.buffer.len();
        write_value(&mut self.buffer);
        debug_assert_eq!(
            self.buffer.len() - value_at,
            value_len,
            "the value that was announced"
        );
        if let [only] = headers.encoded[..] {
            self.buffer.push(only);
        } else {
            self.buffer.extend_from_slice(&headers.encoded);
        }
        self.count += 1;
    }

    /// Overwrites the last bytes of the record that was appended last. With headers whose last value is a placeholder, those
    /// bytes are its value, and each record can have its own there.
    ///
    /// # Panics
    ///
    /// When there are not that many bytes.
    pub fn overwrite_tail(&mut self, bytes: &[u8]) {
        let at = self.buffer.len() - bytes.len();
        self.buffer[at..].copy_from_slice(bytes);
    }

    /// Ends the batch: compresses the records (into `scratch`, which is swapped with the buffer) and writes the header.
    /// The CRC and the producer's numbers are put in by [`SealedBatch::set_producer`], since a batch gets its sequence when
    /// it is first sent, and may get another when the producer's epoch changes.
    ///
    /// A batch that its codec would make larger goes as the codec made it, as the Java client sends it too.
    pub fn seal(
        mut self,
        compressor: &mut Compressor,
        scratch: &mut Vec<u8>,
    ) -> Result<SealedBatch, CodecError> {
        let uncompressed_len = self.buffer.len();
        if compressor.codec() != Codec::None {
            scratch.clear();
            scratch.resize(HEADER_LEN, 0);
            compressor.compress(&self.buffer[HEADER_LEN..], scratch)?;
            std::mem::swap(scratch, &mut self.buffer);
        }
        seal_header(
            &mut self.buffer,
            compressor.codec().id(),
            self.count,
            (self.base_timestamp_ms, self.max_timestamp_ms),
        );
        let mut sealed = SealedBatch {
            buffer: self.buffer,
            count: self.count,
            uncompressed_len,
        };
        sealed.set_producer(-1, -1, -1, false);
        Ok(sealed)
    }
}

/// The few bytes in front of a record's key and value, gathered on the stack and appended in one piece.
struct Head {
    bytes: [u8; 40],
    len: usize,
}

impl Head {
    #[inline]
    fn new() -> Head {
        Head {
            bytes: [0; 40],
            len: 0,
        }
    }

    #[inline]
    fn byte(&mut self, byte: u8) {
        self.bytes[self.len] = byte;
        self.len += 1;
    }

    #[inline]
    fn signed(&mut self, value: i64) {
        let mut value = varint::zigzag(value);
        while value >= 0x80 {
            self.byte(value as u8 | 0x80);
            value >>= 7;
        }
        self.byte(value as u8);
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

fn put<const N: usize>(buffer: &mut [u8], at: usize, bytes: [u8; N]) {
    buffer[at..at + N].copy_from_slice(&bytes);
}

/// A batch that is ready to be sent, but for the producer's numbers and the CRC over them.
#[derive(Clone, Debug)]
pub struct SealedBatch {
    buffer: Vec<u8>,
    count: u32,
    uncompressed_len: usize,
}

impl SealedBatch {
    /// Puts the producer id, epoch and base sequence in (−1 each without idempotence) and computes the CRC.
    pub fn set_producer(
        &mut self,
        producer_id: i64,
        producer_epoch: i16,
        base_sequence: i32,
        transactional: bool,
    ) {
        let mut attributes = i16::from_be_bytes(take(&self.buffer, ATTRIBUTES_AT)) & !TRANSACTIONAL_BIT;
        if transactional {
            attributes |= TRANSACTIONAL_BIT;
        }
        put(&mut self.buffer, ATTRIBUTES_AT, attributes.to_be_bytes());
        put(&mut self.buffer, PRODUCER_ID_AT, producer_id.to_be_bytes());
        put(&mut self.buffer, PRODUCER_EPOCH_AT, producer_epoch.to_be_bytes());
        put(&mut self.buffer, BASE_SEQUENCE_AT, base_sequence.to_be_bytes());
        rewrite_crc(&mut self.buffer);
    }

    /// The whole batch.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer
    }

    /// How many records it holds.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Bytes that the batch had before compression, header included.
    pub fn uncompressed_len_bytes(&self) -> usize {
        self.uncompressed_len
    }

    /// Gives the buffer back for the next batch.
    pub fn into_buffer(self) -> Vec<u8> {
        self.buffer
    }
}

/// The batch with one control record by which a coordinator ends a transaction: a commit marker, or an abort marker. As
/// the coordinator sends it, so without offset and leader epoch.
pub fn end_transaction_marker(
    is_commit: bool,
    producer_id: i64,
    producer_epoch: i16,
    coordinator_epoch: i32,
    timestamp_ms: i64,
) -> Vec<u8> {
    // Key: version, then the type (0 aborts, 1 commits). Value: version, then the coordinator's epoch.
    let key = [0, 0, 0, u8::from(is_commit)];
    let mut value = [0; 6];
    value[2..].copy_from_slice(&coordinator_epoch.to_be_bytes());
    let mut builder = BatchBuilder::new(Vec::with_capacity(HEADER_LEN + 17));
    builder.push(
        timestamp_ms,
        Some(&key),
        value.len(),
        &RecordHeaders::default(),
        |out| {
            out.extend_from_slice(&value);
        },
    );
    let mut bytes = builder.buffer;
    seal_header(
        &mut bytes,
        TRANSACTIONAL_BIT | CONTROL_BIT,
        1,
        (timestamp_ms, timestamp_ms),
    );
    put(&mut bytes, PRODUCER_ID_AT, producer_id.to_be_bytes());
    put(&mut bytes, PRODUCER_EPOCH_AT, producer_epoch.to_be_bytes());
    put(&mut bytes, BASE_SEQUENCE_AT, (-1i32).to_be_bytes());
    rewrite_crc(&mut bytes);
    bytes
}

/// Writes all of a header but the producer's numbers and the CRC.
fn seal_header(
    bytes: &mut [u8],
    attributes: i16,
    count: u32,
    (base_timestamp_ms, max_timestamp_ms): (i64, i64),
) {
    let length = (bytes.len() - LOG_OVERHEAD) as i32;
    put(bytes, LENGTH_AT, length.to_be_bytes());
    put(bytes, LEADER_EPOCH_AT, (-1i32).to_be_bytes());
    bytes[MAGIC_AT] = 2;
    put(bytes, ATTRIBUTES_AT, attributes.to_be_bytes());
    put(bytes, LAST_OFFSET_DELTA_AT, (count as i32 - 1).to_be_bytes());
    put(bytes, BASE_TIMESTAMP_AT, base_timestamp_ms.to_be_bytes());
    put(bytes, MAX_TIMESTAMP_AT, max_timestamp_ms.to_be_bytes());
    put(bytes, COUNT_AT, (count as i32).to_be_bytes());
}

fn take<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("N bytes")
}

/// Why bytes are not a record batch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    /// Fewer bytes than the header, or than the length field says.
    #[error("record batch is cut: {have_bytes} bytes of {want_bytes}")]
    Cut {
        /// Bytes that are there.
        have_bytes: usize,
        /// Bytes that should be.
        want_bytes: usize,
    },
    /// A length field below the header's length.
    #[error("record batch claims a length of {0} bytes, less than its header")]
    Length(i32),
    /// An older message format (magic 0 or 1), or none at all.
    #[error("record batch has magic {0}, not 2")]
    Magic(u8),
    /// The CRC does not fit the bytes.
    #[error("record batch carries CRC-32C {stated:#010x}, its bytes have {computed:#010x}")]
    Crc {
        /// What the batch says.
        stated: u32,
        /// What the bytes give.
        computed: u32,
    },
    /// A codec number that is not assigned.
    #[error("record batch names codec {0}, which does not exist")]
    UnknownCodec(i16),
    /// A record count or last offset delta that cannot be.
    #[error("record batch claims {count} records with a last offset delta of {last_offset_delta}")]
    Count {
        /// The count field.
        count: i32,
        /// The last offset delta field.
        last_offset_delta: i32,
    },
    /// A record that does not fit its own length or the batch.
    #[error("record {index} of the batch is damaged")]
    Record {
        /// Its place in the batch, from 0.
        index: u32,
    },
}

/// One record batch, read where it lies.
#[derive(Clone, Copy)]
pub struct Batch<'a> {
    bytes: &'a [u8],
}

impl fmt::Debug for Batch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch")
            .field("base_offset", &self.base_offset())
            .field("last_offset", &self.last_offset())
            .field("count", &self.count())
            .field("bytes", &self.bytes.len())
            .finish()
    }
}

impl<'a> Batch<'a> {
    /// Reads the batch at the start of `bytes`; what follows it is left alone. Lengths, magic, codec and count are
    /// checked, the CRC is not: see [`Batch::check_crc`].
    pub fn parse(bytes: &'a [u8]) -> Result<Batch<'a>, BatchError> {
        if bytes.len() < HEADER_LEN {
            return Err(BatchError::Cut {
                have_bytes: bytes.len(),
                want_bytes: HEADER_LEN,
            });
        }
        if bytes[MAGIC_AT] != 2 {
            return Err(BatchError::Magic(bytes[MAGIC_AT]));
        }
        let length = i32::from_be_bytes(take(bytes, LENGTH_AT));
        if length < (HEADER_LEN - LOG_OVERHEAD) as i32 {
            return Err(BatchError::Length(length));
        }
        let end = length as usize + LOG_OVERHEAD;
        if bytes.len() < end {
            return Err(BatchError::Cut {
                have_bytes: bytes.len(),
                want_bytes: end,
            });
        }
        let batch = Batch { bytes: &bytes[..end] };
        let attributes = batch.attributes();
        if Codec::from_attributes(attributes).is_none() {
            return Err(BatchError::UnknownCodec(attributes & 7));
        }
        let count = i32::from_be_bytes(take(bytes, COUNT_AT));
        let last_offset_delta = i32::from_be_bytes(take(bytes, LAST_OFFSET_DELTA_AT));
        // Compaction leaves gaps and even empty batches, so the count may be lower than the delta says.
        if count < 0 || last_offset_delta < 0 || i64::from(count) > i64::from(last_offset_delta) + 1 {
            return Err(BatchError::Count {
                count,
                last_offset_delta,
            });
        }
        Ok(batch)
    }

    /// Bytes of the whole batch, header included.
    pub fn len_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// The bytes of the whole batch.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Offset of the first record.
    pub fn base_offset(&self) -> i64 {
        i64::from_be_bytes(take(self.bytes, 0))
    }

    /// Offset of the last record; the next batch starts at the one after it or later.
    pub fn last_offset(&self) -> i64 {
        self.base_offset().saturating_add(self.last_offset_delta().into())
    }

    /// Last offset minus base offset.
    pub fn last_offset_delta(&self) -> i32 {
        i32::from_be_bytes(take(self.bytes, LAST_OFFSET_DELTA_AT))
    }

    /// Epoch of the leader that appended it, −1 when producing.
    pub fn partition_leader_epoch(&self) -> i32 {
        i32::from_be_bytes(take(self.bytes, LEADER_EPOCH_AT))
    }

    /// The attribute bits.
    pub fn attributes(&self) -> i16 {
        i16::from_be_bytes(take(self.bytes, ATTRIBUTES_AT))
    }

    /// The codec of the records.
    pub fn codec(&self) -> Codec {
        Codec::from_attributes(self.attributes()).expect("checked by parse")
    }

    /// Whether the broker set the timestamps (LogAppendTime).
    pub fn is_log_append_time(&self) -> bool {
        self.attributes() & TIMESTAMP_TYPE_BIT != 0
    }

    /// Whether it belongs to a transaction.
    pub fn is_transactional(&self) -> bool {
        self.attributes() & TRANSACTIONAL_BIT != 0
    }

    /// Whether it holds a commit or abort marker instead of records of users.
    pub fn is_control(&self) -> bool {
        self.attributes() & CONTROL_BIT != 0
    }

    /// Timestamp of the first record, ms.
    pub fn base_timestamp_ms(&self) -> i64 {
        i64::from_be_bytes(take(self.bytes, BASE_TIMESTAMP_AT))
    }

    /// Highest timestamp of its records, ms.
    pub fn max_timestamp_ms(&self) -> i64 {
        i64::from_be_bytes(take(self.bytes, MAX_TIMESTAMP_AT))
    }

    /// Producer id, −1 for none.
    pub fn producer_id(&self) -> i64 {
        i64::from_be_bytes(take(self.bytes, PRODUCER_ID_AT))
    }

    /// Producer epoch, −1 for none.
    pub fn producer_epoch(&self) -> i16 {
        i16::from_be_bytes(take(self.bytes, PRODUCER_EPOCH_AT))
    }

    /// Sequence number of the first record, −1 for none.
    pub fn base_sequence(&self) -> i32 {
        i32::from_be_bytes(take(self.bytes, BASE_SEQUENCE_AT))
    }

    /// How many records it says it holds.
    pub fn count(&self) -> u32 {
        i32::from_be_bytes(take(self.bytes, COUNT_AT)) as u32
    }

    /// Holds the CRC against the bytes.
    pub fn check_crc(&self) -> Result<(), BatchError> {
        let stated = u32::from_be_bytes(take(self.bytes, CRC_AT));
        let computed = crc32c(&self.bytes[ATTRIBUTES_AT..]);
        if stated == computed {
            Ok(())
        } else {
            Err(BatchError::Crc { stated, computed })
        }
    }

    /// The bytes behind the header: records, or the codec's stream of them.
    pub fn body(&self) -> &'a [u8] {
        &self.bytes[HEADER_LEN..]
    }

    /// The records. Those of a compressed batch are decoded into `scratch` first, at most `limit_bytes` of them.
    pub fn records<'s>(&self, scratch: &'s mut Vec<u8>, limit_bytes: usize) -> Result<Records<'s>, CodecError>
    where
        'a: 's,
    {
        let bytes: &'s [u8] = match self.codec() {
            Codec::None => self.body(),
            codec => {
                scratch.clear();
                decompress(codec, self.body(), scratch, limit_bytes)?;
                scratch
            }
        };
        Ok(Records {
            rest: bytes,
            count: self.count(),
            index: 0,
        })
    }
}

/// The batches that stand one after the other in `bytes`, as a Fetch response holds them. A batch that is cut at the
/// end is left out: brokers send as many bytes as the consumer asked for.
pub fn batches(bytes: &[u8]) -> Batches<'_> {
    Batches { rest: bytes }
}

/// See [`batches`].
#[derive(Clone, Debug)]
pub struct Batches<'a> {
    rest: &'a [u8],
}

impl<'a> Iterator for Batches<'a> {
    type Item = Result<Batch<'a>, BatchError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.len() < HEADER_LEN {
            return None;
        }
        match Batch::parse(self.rest) {
            Ok(batch) => {
                self.rest = &self.rest[batch.len_bytes()..];
                Some(Ok(batch))
            }
            Err(BatchError::Cut { .. }) => {
                self.rest = &[];
                None
            }
            Err(error) => {
                self.rest = &[];
                Some(Err(error))
            }
        }
    }
}

/// One record, read where it lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Its offset minus the batch's base offset.
    pub offset_delta: i32,
    /// Its timestamp minus the batch's base timestamp, ms.
    pub timestamp_delta_ms: i64,
    /// The key, if it has one.
    pub key: Option<&'a [u8]>,
    /// The value; `None` is a tombstone.
    pub value: Option<&'a [u8]>,
    /// How many headers it says it has.
    pub header_count: u32,
    headers: &'a [u8],
}

impl<'a> Record<'a> {
    /// The value of the first header of that name; `None` when there is none, or its value is null or damaged.
    pub fn header(&self, name: &str) -> Option<&'a [u8]> {
        let mut rest = self.headers;
        for _ in 0..self.header_count {
            let (found, after) = read_bytes(rest)?;
            let (value, after) = read_bytes(after)?;
            if found == Some(name.as_bytes()) {
                return value;
            }
            rest = after;
        }
        None
    }
}

/// The records of one batch, in order. Ends after the count that the batch claims or at the first damaged record.
#[derive(Clone, Debug)]
pub struct Records<'a> {
    rest: &'a [u8],
    count: u32,
    index: u32,
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, BatchError>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.index == self.count {
            return None;
        }
        match read_record(self.rest) {
            Some((record, rest)) => {
                self.rest = rest;
                self.index += 1;
                Some(Ok(record))
            }
            None => {
                let index = self.index;
                self.index = self.count;
                Some(Err(BatchError::Record { index }))
            }
        }
    }
}

#[inline]
fn read_record(bytes: &[u8]) -> Option<(Record<'_>, &[u8])> {
    let (len, taken) = varint::read_i32(bytes)?;
    let body = bytes.get(taken..taken.checked_add(usize::try_from(len).ok()?)?)?;
    let rest = &bytes[taken + body.len()..];
    // The attributes byte is not used by any version.
    let body = body.get(1..)?;
    let (timestamp_delta_ms, taken) = varint::read_i64(body)?;
    let body = &body[taken..];
    let (offset_delta, taken) = varint::read_i32(body)?;
    let (key, body) = read_bytes(&body[taken..])?;
    let (value, body) = read_bytes(body)?;
    let (header_count, taken) = varint::read_i32(body)?;
    let headers = &body[taken..];
    // Each header takes two bytes at least.
    let header_count = u32::try_from(header_count).ok()?;
    if header_count as usize > headers.len() / 2 {
        return None;
    }
    Some((
        Record {
            offset_delta,
            timestamp_delta_ms,
            key,
            value,
            header_count,
            headers,
        },
        rest,
    ))
}

/// A length (−1 is null) and that many bytes.
#[inline]
fn read_bytes(bytes: &[u8]) -> Option<(Option<&[u8]>, &[u8])> {
    let (len, taken) = varint::read_i32(bytes)?;
    let rest = &bytes[taken..];
    if len == -1 {
        return Some((None, rest));
    }
    let len = usize::try_from(len).ok()?;
    if len > rest.len() {
        return None;
    }
    let (value, rest) = rest.split_at(len);
    Some((Some(value), rest))
}

/// Sets the base offset of the batch at the start of `batch`, as a broker does on append. The CRC does not cover it.
///
/// # Panics
///
/// With fewer bytes than a header.
pub fn set_base_offset(batch: &mut [u8], base_offset: i64) {
    put(batch, 0, base_offset.to_be_bytes());
}

/// Sets the partition leader epoch, as a broker does on append. The CRC does not cover it.
///
/// # Panics
///
/// With fewer bytes than a header.
pub fn set_partition_leader_epoch(batch: &mut [u8], leader_epoch: i32) {
    put(batch, LEADER_EPOCH_AT, leader_epoch.to_be_bytes());
}

/// Makes a whole batch one of LogAppendTime: timestamp type, max timestamp, and the CRC over them.
///
/// # Panics
///
/// With fewer bytes than a header.
pub fn set_log_append_time(batch: &mut [u8], timestamp_ms: i64) {
    let attributes = i16::from_be_bytes(take(batch, ATTRIBUTES_AT)) | TIMESTAMP_TYPE_BIT;
    put(batch, ATTRIBUTES_AT, attributes.to_be_bytes());
    put(batch, MAX_TIMESTAMP_AT, timestamp_ms.to_be_bytes());
    rewrite_crc(batch);
}

fn rewrite_crc(batch: &mut [u8]) {
    let crc = crc32c(&batch[ATTRIBUTES_AT..]);
    put(batch, CRC_AT, crc.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Owned = (i64, Option<Vec<u8>>, Vec<u8>);

    fn build(records: &[Owned], codec: Codec, headers: &RecordHeaders) -> SealedBatch {
        let mut builder = BatchBuilder::new(Vec::new());
        for (timestamp_ms, key, value) in records {
            let before = builder.len_bytes();
            builder.push(*timestamp_ms, key.as_deref(), value.len(), headers, |out| {
                out.extend_from_slice(value)
            });
            let bound = BatchBuilder::record_len_bound(key.as_ref().map(Vec::len), value.len(), headers);
            assert!(
                builder.len_bytes() - before <= bound + 10,
                "{} within {bound}",
                builder.len_bytes() - before
            );
        }
        builder
            .seal(&mut Compressor::new(codec, None).unwrap(), &mut Vec::new())
            .unwrap()
    }

    fn read_all(bytes: &[u8]) -> Vec<Owned> {
        let batch = Batch::parse(bytes).unwrap();
        batch.check_crc().unwrap();
        let mut scratch = Vec::new();
        batch
            .records(&mut scratch, 10 << 20)
            .unwrap()
            .map(|record| {
                let record = record.unwrap();
                (
                    batch.base_timestamp_ms() + record.timestamp_delta_ms,
                    record.key.map(<[u8]>::to_vec),
                    record.value.unwrap().to_vec(),
                )
            })
            .collect()
    }

    #[test]
    fn the_crc_is_castagnoli() {
        assert_eq!(crc32c(b"123456789"), 0xE306_9283);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]
        #[test]
        fn records_read_back_as_written(
            records in prop::collection::vec(
                (0i64..4_000_000_000_000, prop::option::of(prop::collection::vec(any::<u8>(), 0..40)), prop::collection::vec(any::<u8>(), 0..300)),
                1..60,
            )
        ) {
            for codec in [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
                let batch = build(&records, codec, &RecordHeaders::default());
                prop_assert_eq!(read_all(batch.bytes()), records.clone());
                prop_assert_eq!(batch.count() as usize, records.len());
            }
        }

        #[test]
        fn no_bytes_make_the_reader_panic(mut bytes: Vec<u8>, whole: bool) {
            if whole && bytes.len() >= HEADER_LEN {
                // Past the checks of the header, so that the records are reached too.
                let length = (bytes.len() - LOG_OVERHEAD) as i32;
                put(&mut bytes, LENGTH_AT, length.to_be_bytes());
                bytes[MAGIC_AT] = 2;
                put(&mut bytes, COUNT_AT, 100i32.to_be_bytes());
                put(&mut bytes, LAST_OFFSET_DELTA_AT, 99i32.to_be_bytes());
                bytes[ATTRIBUTES_AT + 1] &= !0x07;
            }
            for batch in batches(&bytes) {
                let Ok(batch) = batch else { continue };
                let _ = batch.check_crc();
                let mut scratch = Vec::new();
                if let Ok(records) = batch.records(&mut scratch, 1 << 20) {
                    for record in records.flatten() {
                        let _ = record.header("name");
                    }
                }
            }
        }

        #[test]
        fn any_flipped_bit_is_caught(at in ATTRIBUTES_AT..HEADER_LEN + 50, bit in 0u8..8) {
            let mut bytes = build(&[(5, None, vec![7; 60])], Codec::None, &RecordHeaders::default()).into_buffer();
            bytes[at] ^= 1 << bit;
            let caught = Batch::parse(&bytes).and_then(|batch| batch.check_crc()).is_err();
            prop_assert!(caught);
        }
    }

    #[test]
    fn a_second_implementation_reads_what_we_write_and_we_read_what_it_writes() {
        use kafka_protocol::records as other;
        let headers = RecordHeaders::new([("trace", Some(&b"abc"[..])), ("none", None)]);
        let records: Vec<Owned> = (0..500i64)
            .map(|i| {
                (
                    1_700_000_000_000 + i,
                    (i % 3 == 0).then(|| i.to_string().into_bytes()),
                    vec![i as u8; 90],
                )
            })
            .collect();
        for codec in [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
            let mut batch = build(&records, codec, &headers);
            batch.set_producer(4711, 3, 1000, false);
            let decoded =
                other::RecordBatchDecoder::decode(&mut std::io::Cursor::new(batch.bytes().to_vec()))
                    .unwrap()
                    .records;
            assert_eq!(decoded.len(), 500, "{codec}");
            for (theirs, (timestamp, key, value)) in decoded.iter().zip(&records) {
                assert_eq!(theirs.timestamp, *timestamp);
                assert_eq!(theirs.key.as_deref(), key.as_deref());
                assert_eq!(theirs.value.as_deref(), Some(&value[..]));
                assert_eq!((theirs.producer_id, theirs.producer_epoch), (4711, 3));
                assert_eq!(theirs.headers.len(), 2);
            }
            let mut out = Vec::new();
            let compression = match codec {
                Codec::None => other::Compression::None,
                Codec::Gzip => other::Compression::Gzip,
                Codec::Snappy => other::Compression::Snappy,
                Codec::Lz4 => other::Compression::Lz4,
                Codec::Zstd => other::Compression::Zstd,
            };
            let options = other::RecordEncodeOptions {
                version: 2,
                compression,
            };
            other::RecordBatchEncoder::encode(&mut out, &decoded, &options).unwrap();
            assert_eq!(read_all(&out), records, "{codec}");
            let batch = Batch::parse(&out).unwrap();
            let mut scratch = Vec::new();
            let first = batch
                .records(&mut scratch, 1 << 20)
                .unwrap()
                .next()
                .unwrap()
                .unwrap();
            assert_eq!(
                (first.header_count, first.header("trace"), first.header("none")),
                (2, Some(&b"abc"[..]), None)
            );
        }
    }

    #[test]
    fn markers_are_laid_out_as_coordinators_write_them() {
        let marker = end_transaction_marker(true, 4711, 3, 9, 1_700_000_000_000);
        // 61 bytes of header and 17 of the record: what DumpLogSegments of Apache Kafka shows as the size of a marker.
        assert_eq!(marker.len(), 78);
        let batch = Batch::parse(&marker).unwrap();
        batch.check_crc().unwrap();
        assert!(batch.is_control() && batch.is_transactional());
        assert_eq!(
            (batch.producer_id(), batch.producer_epoch(), batch.base_sequence()),
            (4711, 3, -1)
        );
        let mut scratch = Vec::new();
        let record = batch
            .records(&mut scratch, 1000)
            .unwrap()
            .next()
            .unwrap()
            .unwrap();
        assert_eq!(record.key, Some(&[0, 0, 0, 1][..]));
        assert_eq!(record.value, Some(&[0, 0, 0, 0, 0, 9][..]));
        let abort = end_transaction_marker(false, 1, 0, 0, 0);
        let record = Batch::parse(&abort)
            .unwrap()
            .records(&mut scratch, 1000)
            .unwrap()
            .next();
        assert_eq!(record.unwrap().unwrap().key, Some(&[0, 0, 0, 0][..]));
    }

    #[test]
    fn a_batch_cut_at_the_end_is_left_out() {
        let one = build(&[(1, None, vec![1; 10])], Codec::None, &RecordHeaders::default()).into_buffer();
        let mut two = one.repeat(2);
        two.truncate(two.len() - 1);
        let read: Vec<_> = batches(&two).collect();
        assert_eq!(read.len(), 1);
        assert_eq!(read[0].as_ref().unwrap().bytes(), one);
    }

    #[test]
    fn what_a_broker_writes_on_append_keeps_the_batch_whole() {
        let mut batch = build(
            &[(1, None, vec![1; 10]), (2, None, vec![])],
            Codec::None,
            &RecordHeaders::default(),
        )
        .into_buffer();
        set_base_offset(&mut batch, 77);
        set_partition_leader_epoch(&mut batch, 5);
        let read = Batch::parse(&batch).unwrap();
        read.check_crc().unwrap();
        assert_eq!(
            (
                read.base_offset(),
                read.last_offset(),
                read.partition_leader_epoch()
            ),
            (77, 78, 5)
        );
        set_log_append_time(&mut batch, 99);
        let read = Batch::parse(&batch).unwrap();
        read.check_crc().unwrap();
        assert_eq!((read.is_log_append_time(), read.max_timestamp_ms()), (true, 99));
    }

    #[test]
    fn counts_that_cannot_be_are_refused() {
        let mut batch =
            build(&[(1, None, vec![1; 10])], Codec::None, &RecordHeaders::default()).into_buffer();
        put(&mut batch, COUNT_AT, i32::MAX.to_be_bytes());
        assert!(matches!(Batch::parse(&batch), Err(BatchError::Count { .. })));
        put(&mut batch, LAST_OFFSET_DELTA_AT, (i32::MAX - 1).to_be_bytes());
        let mut scratch = Vec::new();
        let read: Vec<_> = Batch::parse(&batch)
            .unwrap()
            .records(&mut scratch, 1000)
            .unwrap()
            .collect();
        assert_eq!(read.len(), 2, "one record, then the damage");
        assert_eq!(read[1], Err(BatchError::Record { index: 1 }));
    }
}
