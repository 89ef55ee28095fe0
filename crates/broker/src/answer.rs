//! What goes back to a client: bytes of our own, with slices of the log between them.

use crate::buffer::Slice;
use crate::request_log::Noted;
use wire::header::ResponseFrame;

/// Slices below this are copied: an entry in a vectored write costs more than moving so few bytes.
const COPY_BELOW_BYTES: usize = 1024;

/// One response frame, length field included.
#[derive(Debug, Default)]
pub(crate) struct Answer {
    /// All bytes that are not the log's, one after the other.
    owned: Vec<u8>,
    /// The frame's parts in order.
    pieces: Vec<Piece>,
    len_bytes: usize,
    /// Where among the owned bytes `throttle_time_ms` stands, if the frame has it.
    throttle_time_at: Option<usize>,
    /// For how many ms nothing more is read from the client once the answer has left.
    throttle_ms: u32,
    /// The request that it answers, where that is written down.
    pub(crate) noted: Option<Box<Noted>>,
}

/// A part of an answer.
#[derive(Debug)]
pub(crate) enum Piece {
    /// So many of the owned bytes, behind those of the piece before.
    Owned(usize),
    /// Bytes of the log.
    Stored(Slice),
}

impl Answer {
    /// An answer without any bytes of the log. What it says of being held back is done.
    pub(crate) fn from_frame(frame: ResponseFrame) -> Answer {
        let said = frame
            .throttle_time_at
            .and_then(|at| frame.bytes.get(at..)?.first_chunk().copied());
        let throttle_ms = said.map_or(0, |bytes| u32::try_from(i32::from_be_bytes(bytes)).unwrap_or(0));
        Answer {
            len_bytes: frame.bytes.len(),
            pieces: vec![Piece::Owned(frame.bytes.len())],
            owned: frame.bytes,
            throttle_time_at: frame.throttle_time_at,
            throttle_ms,
            noted: None,
        }
    }

    /// An empty one, in which `throttle_time_ms` will stand at a place within the first bytes.
    pub(crate) fn with_capacity(owned_bytes: usize, slices: usize, throttle_time_at: usize) -> Answer {
        Answer {
            owned: Vec::with_capacity(owned_bytes),
            pieces: Vec::with_capacity(2 * slices + 1),
            throttle_time_at: Some(throttle_time_at),
            ..Answer::default()
        }
    }

    /// Holds the client back for so many ms, or for as long as it already is, if that is longer. The answer says so, if it
    /// can.
    pub(crate) fn throttle(&mut self, ms: u32) {
        if ms <= self.throttle_ms {
            return;
        }
        self.throttle_ms = ms;
        let field = self
            .throttle_time_at
            .and_then(|at| self.owned.get_mut(at..)?.first_chunk_mut::<4>());
        if let Some(field) = field {
            *field = i32::try_from(ms).unwrap_or(i32::MAX).to_be_bytes();
        }
    }

    /// For how many ms nothing more is read from the client once the answer has left.
    pub(crate) fn throttle_ms(&self) -> u32 {
        self.throttle_ms
    }

    /// Appends a copy of `bytes`.
    pub(crate) fn push_bytes(&mut self, bytes: &[u8]) {
        self.owned.extend_from_slice(bytes);
        self.len_bytes += bytes.len();
        match self.pieces.last_mut() {
            Some(Piece::Owned(len)) => *len += bytes.len(),
            _ => self.pieces.push(Piece::Owned(bytes.len())),
        }
    }

    /// Appends bytes of the log.
    pub(crate) fn push_slice(&mut self, slice: Slice) {
        if slice.len_bytes() < COPY_BELOW_BYTES {
            slice.with(|bytes| self.push_bytes(bytes));
        } else {
            self.len_bytes += slice.len_bytes();
            self.pieces.push(Piece::Stored(slice));
        }
    }

    /// Bytes of the whole frame.
    pub(crate) fn len_bytes(&self) -> usize {
        self.len_bytes
    }

    pub(crate) fn owned(&self) -> &[u8] {
        &self.owned
    }

    pub(crate) fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// All bytes in one piece.
    #[cfg(test)]
    pub(crate) fn to_vec(&self) -> Vec<u8> {
        let mut all = Vec::new();
        let mut at = 0;
        for piece in &self.pieces {
            match piece {
                Piece::Owned(len) => {
                    all.extend_from_slice(&self.owned[at..at + len]);
                    at += len;
                }
                Piece::Stored(slice) => slice.with(|bytes| all.extend_from_slice(bytes)),
            }
        }
        all
    }
}
