//! The four codecs of Kafka, each in the framing that Kafka's own client writes and reads.
//!
//! | codec | framing |
//! |---|---|
//! | gzip | RFC 1952; several members may follow one another |
//! | snappy | written as snappy-java streams (8-byte magic, two versions, blocks of at most 32 KiB input); a bare raw block is read too, as librdkafka writes it |
//! | lz4 | LZ4 frame, version 1, independent blocks of 64 KiB (Java refuses linked ones), no checksums of content |
//! | zstd | plain frames |
//!
//! Decoding never trusts a declared size: output grows as bytes are decoded, up to the limit that the caller gives.

use std::fmt;
use std::io::{self, Read, Write};

/// A codec, as the low three bits of a record batch's attributes number it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Codec {
    /// 0: records as they are.
    #[default]
    None,
    /// 1: gzip.
    Gzip,
    /// 2: snappy.
    Snappy,
    /// 3: LZ4.
    Lz4,
    /// 4: Zstandard (KIP-110; needs Produce 7 and Fetch 10).
    Zstd,
}

impl Codec {
    /// The codec of a batch's attributes; numbers 5 to 7 are not assigned.
    pub fn from_attributes(attributes: i16) -> Option<Codec> {
        Some(match attributes & 0x07 {
            0 => Codec::None,
            1 => Codec::Gzip,
            2 => Codec::Snappy,
            3 => Codec::Lz4,
            4 => Codec::Zstd,
            _ => return None,
        })
    }

    /// The number in the attributes.
    pub fn id(self) -> i16 {
        self as i16
    }

    /// The name that `compression.type` gives it.
    pub fn name(self) -> &'static str {
        match self {
            Codec::None => "none",
            Codec::Gzip => "gzip",
            Codec::Snappy => "snappy",
            Codec::Lz4 => "lz4",
            Codec::Zstd => "zstd",
        }
    }

    /// The codec of that `compression.type`.
    pub fn from_name(name: &str) -> Option<Codec> {
        [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd]
            .into_iter()
            .find(|codec| codec.name() == name)
    }
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Why bytes could not be compressed or decompressed.
#[derive(Debug, thiserror::Error)]
pub enum CodecError {
    /// The stream is not what the codec writes.
    #[error("{codec} stream is damaged")]
    Damaged {
        /// The codec that the batch named.
        codec: Codec,
        /// What the decoder found.
        #[source]
        source: io::Error,
    },
    /// The stream holds more than the reader is willing to hold.
    #[error("{codec} stream decodes to more than {limit_bytes} bytes")]
    TooLarge {
        /// The codec that the batch named.
        codec: Codec,
        /// The reader's limit.
        limit_bytes: usize,
    },
    /// The encoder failed.
    #[error("{codec} could not compress")]
    Encoder {
        /// The codec asked for.
        codec: Codec,
        /// What the encoder said.
        #[source]
        source: io::Error,
    },
}

const XERIAL_MAGIC: [u8; 8] = [0x82, b'S', b'N', b'A', b'P', b'P', b'Y', 0];
const XERIAL_HEADER_LEN: usize = 16;
const XERIAL_BLOCK_LEN: usize = 32 * 1024;

/// A codec at a level, with the working memory that is kept from batch to batch.
pub struct Compressor {
    codec: Codec,
    level: i32,
    zstd: Option<zstd::bulk::Compressor<'static>>,
    snappy: snap::raw::Encoder,
}

impl fmt::Debug for Compressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compressor")
            .field("codec", &self.codec)
            .field("level", &self.level)
            .finish_non_exhaustive()
    }
}

impl Compressor {
    /// A compressor for `codec`. `level` is that of `compression.{gzip,zstd}.level`; `None` is the codec's default
    /// (gzip 6, zstd 3). Snappy has no levels, and LZ4 has only its fast compressor, which is what Java's default
    /// level 9 is too.
    pub fn new(codec: Codec, level: Option<i32>) -> Result<Compressor, CodecError> {
        let level = level.unwrap_or(match codec {
            Codec::Zstd => 3,
            _ => 6,
        });
        let zstd = match codec {
            Codec::Zstd => Some(
                zstd::bulk::Compressor::new(level).map_err(|source| CodecError::Encoder { codec, source })?,
            ),
            _ => None,
        };
        Ok(Compressor {
            codec,
            level,
            zstd,
            snappy: snap::raw::Encoder::new(),
        })
    }

    /// The codec that this one writes.
    pub fn codec(&self) -> Codec {
        self.codec
    }

    /// Appends the compressed form of `input` to `out`.
    pub fn compress(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<(), CodecError> {
        let codec = self.codec;
        let encoder = |source| CodecError::Encoder { codec, source };
        match codec {
            Codec::None => out.extend_from_slice(input),
            Codec::Gzip => {
                let level = flate2::Compression::new(self.level.clamp(0, 9) as u32);
                let mut gzip = flate2::write::GzEncoder::new(out, level);
                gzip.write_all(input).map_err(encoder)?;
                gzip.finish().map_err(encoder)?;
            }
            Codec::Snappy => {
                out.extend_from_slice(&XERIAL_MAGIC);
                out.extend_from_slice(&1i32.to_be_bytes());
                out.extend_from_slice(&1i32.to_be_bytes());
                for block in input.chunks(XERIAL_BLOCK_LEN) {
                    let start = out.len();
                    out.resize(start + 4 + snap::raw::max_compress_len(block.len()), 0);
                    let written = self
                        .snappy
                        .compress(block, &mut out[start + 4..])
                        .map_err(|error| encoder(io::Error::other(error)))?;
                    out[start..start + 4].copy_from_slice(&(written as u32).to_be_bytes());
                    out.truncate(start + 4 + written);
                }
            }
            Codec::Lz4 => {
                let mut info = lz4_flex::frame::FrameInfo::new();
                info.block_mode = lz4_flex::frame::BlockMode::Independent;
                info.block_size = lz4_flex::frame::BlockSize::Max64KB;
                let mut frame = lz4_flex::frame::FrameEncoder::with_frame_info(info, out);
                frame.write_all(input).map_err(encoder)?;
                frame.finish().map_err(|error| encoder(io::Error::other(error)))?;
            }
            Codec::Zstd => {
                let zstd = self.zstd.as_mut().expect("made with the compressor");
                let start = out.len();
                out.resize(start + zstd::zstd_safe::compress_bound(input.len()), 0);
                let written = zstd
                    .compress_to_buffer(input, &mut out[start..])
                    .map_err(encoder)?;
                out.truncate(start + written);
            }
        }
        Ok(())
    }
}

/// Appends what `input` decodes to, at most `limit_bytes` of it, to `out`.
///
/// # Errors
///
/// [`CodecError::Damaged`] when the bytes are not what the codec writes, [`CodecError::TooLarge`] when they decode to
/// more than the limit. `out` may then hold a part.
pub fn decompress(
    codec: Codec,
    input: &[u8],
    out: &mut Vec<u8>,
    limit_bytes: usize,
) -> Result<(), CodecError> {
    match codec {
        Codec::None => {
            if input.len() > limit_bytes {
                return Err(CodecError::TooLarge { codec, limit_bytes });
            }
            out.extend_from_slice(input);
            Ok(())
        }
        Codec::Gzip => read_bounded(
            codec,
            flate2::bufread::MultiGzDecoder::new(input),
            out,
            limit_bytes,
        ),
        Codec::Zstd => {
            let decoder = zstd::stream::read::Decoder::with_buffer(input)
                .map_err(|source| CodecError::Damaged { codec, source })?;
            read_bounded(codec, decoder, out, limit_bytes)
        }
        Codec::Lz4 => {
            let mut rest = input;
            let end = out.len().saturating_add(limit_bytes);
            while !rest.is_empty() {
                let room = end - out.len();
                read_bounded(codec, lz4_flex::frame::FrameDecoder::new(&mut rest), out, room).map_err(
                    |error| match error {
                        CodecError::TooLarge { .. } => CodecError::TooLarge { codec, limit_bytes },
                        other => other,
                    },
                )?;
            }
            Ok(())
        }
        Codec::Snappy => decompress_snappy(input, out, limit_bytes),
    }
}

fn read_bounded(
    codec: Codec,
    from: impl Read,
    out: &mut Vec<u8>,
    limit_bytes: usize,
) -> Result<(), CodecError> {
    let start = out.len();
    from.take(limit_bytes as u64 + 1)
        .read_to_end(out)
        .map_err(|source| CodecError::Damaged { codec, source })?;
    if out.len() - start > limit_bytes {
        return Err(CodecError::TooLarge { codec, limit_bytes });
    }
    Ok(())
}

fn decompress_snappy(input: &[u8], out: &mut Vec<u8>, limit_bytes: usize) -> Result<(), CodecError> {
    let codec = Codec::Snappy;
    let damaged = |what: &'static str| CodecError::Damaged {
        codec,
        source: io::Error::new(io::ErrorKind::InvalidData, what),
    };
    let end = out.len().saturating_add(limit_bytes);
    let mut decoder = snap::raw::Decoder::new();
    let mut block = |bytes: &[u8], out: &mut Vec<u8>| {
        let len = snap::raw::decompress_len(bytes).map_err(|error| CodecError::Damaged {
            codec,
            source: io::Error::other(error),
        })?;
        if len > end - out.len() {
            return Err(CodecError::TooLarge { codec, limit_bytes });
        }
        // A snappy element of 3 bytes yields at most 64 bytes, so a block that claims more than that is lying.
        if len > bytes.len().saturating_mul(64) {
            return Err(damaged("block claims more than its bytes can yield"));
        }
        let start = out.len();
        out.resize(start + len, 0);
        decoder
            .decompress(bytes, &mut out[start..])
            .map_err(|error| CodecError::Damaged {
                codec,
                source: io::Error::other(error),
            })?;
        Ok(())
    };
    if !input.starts_with(&XERIAL_MAGIC) {
        return block(input, out);
    }
    let mut rest = input;
    while !rest.is_empty() {
        // Streams may be concatenated: each brings its own header.
        if rest.starts_with(&XERIAL_MAGIC) {
            rest = rest
                .get(XERIAL_HEADER_LEN..)
                .ok_or_else(|| damaged("stream header is cut"))?;
            continue;
        }
        let (len, after) = rest
            .split_first_chunk::<4>()
            .ok_or_else(|| damaged("block length is cut"))?;
        let len = u32::from_be_bytes(*len) as usize;
        let bytes = after.get(..len).ok_or_else(|| damaged("block is cut"))?;
        block(bytes, out)?;
        rest = &after[len..];
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ALL: [Codec; 5] = [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd];

    fn packed(codec: Codec, input: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        Compressor::new(codec, None)
            .unwrap()
            .compress(input, &mut out)
            .unwrap();
        out
    }

    fn unpacked(codec: Codec, input: &[u8], limit: usize) -> Result<Vec<u8>, CodecError> {
        let mut out = Vec::new();
        decompress(codec, input, &mut out, limit).map(|()| out)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn every_codec_gives_back_what_it_was_given(input: Vec<u8>, times in 1usize..2000) {
            let input = input.repeat(times);
            let input = &input[..input.len().min(300_000)];
            for codec in ALL {
                let twice = [packed(codec, input), packed(codec, input)].concat();
                prop_assert_eq!(unpacked(codec, &packed(codec, input), input.len()).unwrap(), input);
                // Several frames may stand one after the other.
                prop_assert_eq!(unpacked(codec, &twice, 2 * input.len()).unwrap(), input.repeat(2));
            }
        }

        #[test]
        fn no_bytes_make_a_decoder_panic(input: Vec<u8>) {
            for codec in ALL {
                let _ = unpacked(codec, &input, 1 << 20);
                let _ = unpacked(codec, &[&XERIAL_MAGIC[..], &input].concat(), 1 << 20);
                let _ = unpacked(codec, &[&[0x04, 0x22, 0x4d, 0x18][..], &input].concat(), 1 << 20);
                let _ = unpacked(codec, &[&[0x28, 0xb5, 0x2f, 0xfd][..], &input].concat(), 1 << 20);
            }
        }
    }

    #[test]
    fn a_bomb_stops_at_the_limit() {
        for codec in ALL {
            let bomb = packed(codec, &vec![0; 10 << 20]);
            assert!(
                matches!(unpacked(codec, &bomb, 1 << 20), Err(CodecError::TooLarge { .. })),
                "{codec}"
            );
        }
    }

    #[test]
    fn a_bare_snappy_block_is_read() {
        let raw = snap::raw::Encoder::new()
            .compress_vec(b"plain and raw, as librdkafka writes it")
            .unwrap();
        assert_eq!(
            unpacked(Codec::Snappy, &raw, 100).unwrap(),
            b"plain and raw, as librdkafka writes it"
        );
    }

    #[test]
    fn lz4_blocks_are_independent_and_of_64_kib() {
        let frame = packed(Codec::Lz4, &[7; 100_000]);
        assert_eq!(&frame[..4], &[0x04, 0x22, 0x4d, 0x18]);
        assert_eq!(
            frame[4] & 0b1110_0000,
            0b0110_0000,
            "version 1, independent blocks"
        );
        assert_eq!(frame[5] >> 4, 4, "blocks of 64 KiB");
    }
}
