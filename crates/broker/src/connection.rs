//! One client's connection: frames in, answers out.
//!
//! Requests are read straight into buffers that become the log. A large frame gets a buffer of its own and is read exactly
//! to its end, so that nothing behind it has to be moved; small frames share one. As in Kafka, requests are answered in
//! order, and while one waits for its answer the next is not looked at.

use crate::answer::{Answer, Piece};
use crate::buffer::{Buffer, Pool, SMALLEST_BYTES};
use crate::channel::Channel;
use crate::login::Login;
use crate::request_log::Noted;
use crate::rig::Hold;
use std::collections::VecDeque;
use std::io::{self, IoSlice, Write};
use std::ops::Range;
use std::sync::{Arc, RwLockReadGuard};

/// The largest buffer that several small frames share.
const SHARED_BYTES: usize = 256 << 10;
/// A larger one is shared only where it lies ready: one connection holds it until it is full.
const LARGEST_SHARED_BYTES: usize = 5 << 18;
/// Small frames are read at most so many bytes at once, so that they are still in the cache when they are checked.
const MOST_READ_BYTES: usize = 256 << 10;
/// Frames from here on are read exactly to their end.
const LARGE_FRAME_BYTES: usize = 48 << 10;
/// A claim of a larger frame is believed only as bytes arrive.
const TRUSTED_BYTES: usize = 64 << 10;
/// Answers are not piled up beyond this; the client is to read first.
const MOST_UNSENT_BYTES: usize = 4 << 20;
/// Pieces in one vectored write.
const MOST_PIECES: usize = 128;
/// A frame's length field.
const LENGTH_BYTES: usize = 4;

/// What reading brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Filled {
    /// So many bytes.
    Bytes(usize),
    /// Nothing for now.
    Nothing,
    /// The client has closed.
    End,
}

/// What a script says of a request whose answer is awaited.
#[derive(Debug, Default)]
pub(crate) struct Pending {
    /// How its answer is held.
    pub(crate) hold: Hold,
    /// For how many ms the client is held back.
    pub(crate) throttle_ms: u32,
    /// The request, where it is written down.
    pub(crate) noted: Option<Box<Noted>>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Connection {
    channel: Channel,
    /// Where clients have to log in: how far this one is.
    pub(crate) login: Option<Login>,
    /// The broker that the client talks to.
    pub(crate) broker: i32,
    /// The client's address.
    pub(crate) host: String,
    /// When its last whole request came, or it was opened. Bytes that never become one do not count, nor do requests before the
    /// login is complete.
    pub(crate) last_request_at: u64,
    /// Whether a request waits for its answer.
    pub(crate) is_waiting: bool,
    /// It is never answered again.
    pub(crate) is_silenced: bool,
    /// It ends when what is to be sent is sent.
    pub(crate) is_ending: bool,
    /// The client has closed its side; what it sent before may not be read yet.
    pub(crate) is_read_closed: bool,
    /// What a script says of the request that waits.
    pub(crate) pending: Option<Pending>,
    /// Answers that may not leave yet, with the time at which each may; they leave in the order of their requests.
    held: VecDeque<(u64, Answer)>,
    held_bytes: usize,
    most_frame_bytes: usize,
    /// How many of them will hold the client back once they have left.
    held_throttles: usize,
    /// Until then nothing more is read, because an answer has told the client to hold back.
    muted_until: u64,
    input: Input,
    output: Output,
}

impl Connection {
    pub(crate) fn new(
        channel: Channel,
        login: Option<Login>,
        broker: i32,
        host: String,
        most_frame_bytes: usize,
    ) -> Connection {
        let most_at_first = login.as_ref().map_or(most_frame_bytes, Login::most_frame_bytes);
        Connection {
            channel,
            login,
            broker,
            host,
            last_request_at: 0,
            is_waiting: false,
            is_silenced: false,
            is_ending: false,
            is_read_closed: false,
            held_bytes: 0,
            held_throttles: 0,
            muted_until: 0,
            pending: None,
            held: VecDeque::new(),
            most_frame_bytes,
            input: Input::new(most_at_first.min(most_frame_bytes)),
            output: Output::default(),
        }
    }

    /// Whether the client has logged in, or need not.
    pub(crate) fn is_admitted(&self) -> bool {
        self.login.as_ref().is_none_or(Login::is_complete)
    }

    /// Reads once.
    ///
    /// # Errors
    /// Those of the socket.
    pub(crate) fn fill(&mut self, pool: &Arc<Pool>) -> io::Result<Filled> {
        let channel = &mut self.channel;
        let filled = self.input.read_with(pool, |free| {
            loop {
                match channel.read(free) {
                    Ok(0) => return Ok(Filled::End),
                    Ok(count) => return Ok(Filled::Bytes(count)),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(Filled::Nothing),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
        })?;
        if filled == Filled::Nothing {
            self.input.rest();
        }
        Ok(filled)
    }

    /// The next whole request, unless the client has to read or wait for an answer first.
    ///
    /// # Errors
    /// If what comes is not a frame.
    pub(crate) fn next_frame(&mut self, now: u64) -> Result<Option<Request>, FrameError> {
        if self.is_waiting || self.is_silenced || self.is_ending || self.is_full() || self.is_muted(now) {
            return Ok(None);
        }
        if self.is_admitted() {
            self.input.most_frame_bytes = self.most_frame_bytes;
        }
        self.input.next_frame()
    }

    /// Whether so much waits to be sent that no more is asked of it for now.
    pub(crate) fn is_full(&self) -> bool {
        self.output.unsent_bytes + self.held_bytes > MOST_UNSENT_BYTES
    }

    /// Whether the client is held back.
    pub(crate) fn is_muted(&self, now: u64) -> bool {
        self.held_throttles > 0 || now < self.muted_until
    }

    /// Reads nothing more for so many ms. Gives the time at which that ends.
    pub(crate) fn mute(&mut self, throttle_ms: u32, now: u64) -> Option<u64> {
        if throttle_ms == 0 {
            return None;
        }
        let until = now.saturating_add(u64::from(throttle_ms) * 1_000_000);
        self.muted_until = self.muted_until.max(until);
        Some(self.muted_until)
    }

    /// Queues an answer. Gives the time at which the client is no longer held back for it.
    pub(crate) fn push(&mut self, answer: Answer, now: u64) -> Option<u64> {
        let throttle_ms = answer.throttle_ms();
        self.output.push(answer);
        self.mute(throttle_ms, now)
    }

    /// Queues an answer that may leave at `at`, or when the one before it may, if that is later. Gives the time.
    pub(crate) fn hold(&mut self, answer: Answer, at: u64) -> u64 {
        let at = self.held.back().map_or(at, |(before, _)| at.max(*before));
        self.held_bytes += answer.len_bytes();
        self.held_throttles += usize::from(answer.throttle_ms() > 0);
        self.held.push_back((at, answer));
        at
    }

    /// Whether an answer has to wait for those that are held.
    pub(crate) fn is_holding(&self) -> bool {
        !self.held.is_empty()
    }

    /// Lets go what may leave by `until`. Gives the time at which the client is no longer held back for it.
    pub(crate) fn release(&mut self, until: u64, now: u64) -> Option<u64> {
        let mut muted_until = None;
        while let Some((at, _)) = self.held.front()
            && *at <= until
        {
            if let Some((_, answer)) = self.held.pop_front() {
                self.held_bytes -= answer.len_bytes();
                self.held_throttles -= usize::from(answer.throttle_ms() > 0);
                muted_until = self.push(answer, now).or(muted_until);
            }
        }
        muted_until
    }

    /// The requests whose answers have been sent since the last call.
    pub(crate) fn take_sent(&mut self) -> Vec<Noted> {
        // What is encrypted and waits has not left; which answers it is part of is not known.
        if self.channel.has_unsent() {
            return Vec::new();
        }
        std::mem::take(&mut self.output.sent)
    }

    /// The requests that will not be answered when the connection ends now.
    pub(crate) fn take_unanswered(&mut self) -> Vec<Noted> {
        let queued = std::mem::take(&mut self.output.answers).into_iter();
        let held = std::mem::take(&mut self.held)
            .into_iter()
            .map(|(_, answer)| answer);
        let waiting = self.pending.take().and_then(|pending| pending.noted);
        let noted = queued.chain(held).filter_map(|answer| answer.noted);
        let unsent = std::mem::take(&mut self.output.sent);
        let noted = noted.chain(waiting).map(|noted| *noted);
        unsent.into_iter().chain(noted).collect()
    }

    /// Sends what is queued, as far as the socket takes it; true if all is sent.
    ///
    /// # Errors
    /// Those of the socket.
    pub(crate) fn flush(&mut self) -> io::Result<bool> {
        Ok(self.output.flush(&mut self.channel)? && self.channel.flush()?)
    }

    /// Whether it ends as soon as what is queued is sent: nothing is held.
    pub(crate) fn is_at_end(&self) -> bool {
        self.is_ending && self.held.is_empty()
    }

    /// Tells the client that the connection ends in order.
    pub(crate) fn say_goodbye(&mut self) {
        self.channel.say_goodbye();
    }

    /// Whether the client has closed its side and sent nothing more.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.channel.has_ended()
    }
}

/// Where a whole request lies, without its length field.
pub(crate) type Request = (Arc<Buffer>, Range<usize>);

/// A length that no frame can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameError;

/// The bytes that have come and are not yet served.
#[derive(Debug)]
struct Input {
    buffer: Option<Arc<Buffer>>,
    /// Where the next frame starts.
    start: usize,
    /// Where the bytes end.
    filled: usize,
    /// Size of the last frame, its length field included: the next is likely to be as large.
    last_frame_bytes: usize,
    /// Size of the next buffer for small frames.
    shared_bytes: usize,
    most_frame_bytes: usize,
}

impl Input {
    fn new(most_frame_bytes: usize) -> Input {
        Input {
            buffer: None,
            start: 0,
            filled: 0,
            last_frame_bytes: LENGTH_BYTES,
            shared_bytes: SMALLEST_BYTES,
            most_frame_bytes,
        }
    }

    /// Bytes of the frame that has begun, its length field included; `None` while that is not whole.
    fn begun_frame_bytes(&self) -> Option<i64> {
        let buffer = self.buffer.as_ref()?;
        let length = buffer
            .read()
            .get(self.start..self.filled)?
            .first_chunk::<LENGTH_BYTES>()
            .copied()?;
        Some(i64::from(i32::from_be_bytes(length)) + LENGTH_BYTES as i64)
    }

    fn read_with(
        &mut self,
        pool: &Arc<Pool>,
        read: impl FnOnce(&mut [u8]) -> io::Result<Filled>,
    ) -> io::Result<Filled> {
        let begun = self
            .begun_frame_bytes()
            .and_then(|bytes| usize::try_from(bytes).ok());
        // What is to fit into the buffer from `start` on, and up to where it is read at once.
        let (wanted, is_exact) = match begun {
            Some(bytes) => (bytes, bytes >= LARGE_FRAME_BYTES),
            None => (self.last_frame_bytes, self.last_frame_bytes >= LARGE_FRAME_BYTES),
        };
        let buffer = self.make_room(pool, wanted);
        let end = match is_exact {
            true => self.start + wanted,
            false => self.filled + MOST_READ_BYTES,
        };
        let end = end.max(self.filled + 1).min(buffer.len_bytes());
        let filled = read(&mut buffer.write()[self.filled..end])?;
        if let Filled::Bytes(count) = filled {
            self.filled += count;
        }
        Ok(filled)
    }

    /// A buffer into which `wanted` bytes fit from `start` on, or as many of them as are believed in. Bytes of a frame
    /// that has begun move along.
    fn make_room(&mut self, pool: &Arc<Pool>, wanted: usize) -> Arc<Buffer> {
        let begun = self.filled - self.start;
        if let Some(buffer) = &self.buffer {
            let has_room = buffer.len_bytes() - self.start >= wanted && buffer.len_bytes() > self.filled;
            let is_believed_later =
                begun < buffer.len_bytes() - self.start && buffer.len_bytes() >= TRUSTED_BYTES;
            if has_room || is_believed_later {
                return Arc::clone(buffer);
            }
            // Full: more of these small frames come, so the next buffer may be larger.
            if wanted < LARGE_FRAME_BYTES {
                self.shared_bytes = (self.shared_bytes * 2).min(SHARED_BYTES);
            }
        }
        let size = if wanted >= LARGE_FRAME_BYTES {
            wanted.min(TRUSTED_BYTES.max(4 * begun).max(self.last_frame_bytes))
        } else {
            wanted.max(self.shared_bytes)
        };
        let size = size.max(begun + 1);
        let next = if size == SHARED_BYTES {
            // Where large batches came before, their buffers are there and have been touched.
            pool.take_between(size, LARGEST_SHARED_BYTES)
        } else {
            pool.take(size)
        };
        if let Some(buffer) = self.buffer.take().filter(|_| begun > 0) {
            next.write()[..begun].copy_from_slice(&buffer.read()[self.start..self.filled]);
        }
        (self.start, self.filled) = (0, begun);
        self.buffer = Some(Arc::clone(&next));
        next
    }

    fn next_frame(&mut self) -> Result<Option<Request>, FrameError> {
        let Some(frame_bytes) = self.begun_frame_bytes() else {
            return Ok(None);
        };
        let frame_bytes = usize::try_from(frame_bytes).map_err(|_| FrameError)?;
        if !(LENGTH_BYTES..=self.most_frame_bytes + LENGTH_BYTES).contains(&frame_bytes) {
            return Err(FrameError);
        }
        let end = self.start + frame_bytes;
        let Some(buffer) = self.buffer.as_ref().filter(|_| end <= self.filled) else {
            return Ok(None);
        };
        let frame = (Arc::clone(buffer), self.start + LENGTH_BYTES..end);
        self.last_frame_bytes = frame_bytes;
        self.start = end;
        Ok(Some(frame))
    }

    /// Nothing more comes for now: a buffer that nobody else holds goes back, so that idle connections have none.
    fn rest(&mut self) {
        let is_idle = self.start == self.filled;
        if is_idle
            && self
                .buffer
                .as_ref()
                .is_some_and(|buffer| Arc::strong_count(buffer) == 1)
        {
            self.buffer = None;
            (self.start, self.filled) = (0, 0);
        }
    }
}

/// Answers that are not yet sent.
#[derive(Debug, Default)]
struct Output {
    answers: VecDeque<Answer>,
    /// How far the first answer is sent.
    at: Position,
    unsent_bytes: usize,
    /// Requests that are written down and whose answers are sent.
    sent: Vec<Noted>,
}

/// A place in an answer.
#[derive(Clone, Copy, Debug, Default)]
struct Position {
    /// The piece.
    piece: usize,
    /// Bytes of that piece that are sent.
    in_piece: usize,
    /// Owned bytes of the pieces before.
    owned: usize,
}

impl Output {
    fn push(&mut self, answer: Answer) {
        self.unsent_bytes += answer.len_bytes();
        self.answers.push_back(answer);
    }

    fn flush(&mut self, stream: &mut impl Write) -> io::Result<bool> {
        while !self.answers.is_empty() {
            match self.write(stream) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => self.advance(count),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    fn write(&self, stream: &mut impl Write) -> io::Result<usize> {
        let pieces = self.unsent_pieces();
        // Each buffer is locked once: a thread that asked twice could wait for a writer that waits for it.
        let mut guards: Vec<(*const Buffer, RwLockReadGuard<'_, Box<[u8]>>)> = Vec::new();
        let mut guard_of = Vec::with_capacity(pieces.len());
        for piece in &pieces {
            guard_of.push(match piece {
                Unsent::Owned(_) => usize::MAX,
                Unsent::Stored(buffer, _) => {
                    let address = Arc::as_ptr(buffer);
                    guards
                        .iter()
                        .rposition(|(other, _)| *other == address)
                        .unwrap_or_else(|| {
                            guards.push((address, buffer.read()));
                            guards.len() - 1
                        })
                }
            });
        }
        let slices: Vec<IoSlice<'_>> = pieces
            .iter()
            .zip(guard_of)
            .map(|(piece, guard)| match piece {
                Unsent::Owned(bytes) => IoSlice::new(bytes),
                Unsent::Stored(_, range) => IoSlice::new(&guards[guard].1[range.clone()]),
            })
            .collect();
        match slices.as_slice() {
            [single] => stream.write(single),
            several => stream.write_vectored(several),
        }
    }

    fn unsent_pieces(&self) -> Vec<Unsent<'_>> {
        let mut unsent = Vec::new();
        let mut at = self.at;
        for answer in &self.answers {
            for piece in &answer.pieces()[at.piece..] {
                match piece {
                    Piece::Owned(len) => {
                        unsent.push(Unsent::Owned(
                            &answer.owned()[at.owned + at.in_piece..at.owned + len],
                        ));
                        at.owned += len;
                    }
                    Piece::Stored(slice) => {
                        let range = slice.range();
                        unsent.push(Unsent::Stored(
                            slice.buffer(),
                            range.start + at.in_piece..range.end,
                        ));
                    }
                }
                at.in_piece = 0;
                if unsent.len() == MOST_PIECES {
                    return unsent;
                }
            }
            at = Position::default();
        }
        unsent
    }

    fn advance(&mut self, mut count: usize) {
        self.unsent_bytes -= count;
        while let Some(answer) = self.answers.front() {
            let Some(piece) = answer.pieces().get(self.at.piece) else {
                let answer = self.answers.pop_front();
                self.sent
                    .extend(answer.and_then(|answer| answer.noted).map(|noted| *noted));
                self.at = Position::default();
                continue;
            };
            let (len, owned) = match piece {
                Piece::Owned(len) => (*len, *len),
                Piece::Stored(slice) => (slice.len_bytes(), 0),
            };
            let left = len - self.at.in_piece;
            if count < left {
                self.at.in_piece += count;
                return;
            }
            count -= left;
            self.at = Position {
                piece: self.at.piece + 1,
                in_piece: 0,
                owned: self.at.owned + owned,
            };
        }
    }
}

/// A piece of an answer, or what is left of it.
#[derive(Debug)]
enum Unsent<'a> {
    Owned(&'a [u8]),
    Stored(&'a Arc<Buffer>, Range<usize>),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::Slice;
    use std::io::Read;
    use wire::header::ResponseFrame;

    /// An answer that holds nobody back.
    fn plain(bytes: Vec<u8>) -> Answer {
        Answer::from_frame(ResponseFrame {
            bytes,
            throttle_time_at: None,
        })
    }

    /// Feeds `bytes` in reads of at most `step` and gives the frames that come out, and how many bytes were moved.
    fn frames(bytes: &[u8], step: usize) -> Result<Vec<Vec<u8>>, FrameError> {
        let pool = Pool::new(1 << 20);
        let mut input = Input::new(100 << 20);
        let mut rest = bytes;
        let mut frames = Vec::new();
        while !rest.is_empty() {
            let filled = input.read_with(&pool, |free| {
                let count = free.len().min(step).min(rest.len());
                free[..count].copy_from_slice(&rest[..count]);
                rest = &rest[count..];
                Ok(Filled::Bytes(count))
            });
            assert!(matches!(filled, Ok(Filled::Bytes(1..))), "a read always has room");
            while let Some((buffer, range)) = input.next_frame()? {
                frames.push(buffer.read()[range].to_vec());
            }
        }
        Ok(frames)
    }

    fn stream_of(sizes: &[usize]) -> (Vec<u8>, Vec<Vec<u8>>) {
        let frames: Vec<Vec<u8>> = sizes
            .iter()
            .enumerate()
            .map(|(number, size)| {
                (0..*size)
                    .map(|at| (at as u8).wrapping_mul(31).wrapping_add(number as u8))
                    .collect()
            })
            .collect();
        let mut bytes = Vec::new();
        for frame in &frames {
            bytes.extend_from_slice(&(frame.len() as i32).to_be_bytes());
            bytes.extend_from_slice(frame);
        }
        (bytes, frames)
    }

    #[test]
    fn frames_come_out_whole_however_they_come_in() {
        let sizes = [
            0, 1, 10, 4096, 20_000, 47_000, 50_000, 300_000, 300_000, 7, 1_100_000, 6_000_000, 3, 300_000, 9,
        ];
        let (bytes, expected) = stream_of(&sizes);
        for step in [1 + 65_536, 1000, 262_144, usize::MAX] {
            assert_eq!(frames(&bytes, step), Ok(expected.clone()), "in steps of {step}");
        }
        let (bytes, expected) = stream_of(&[5, 0, 100]);
        assert_eq!(frames(&bytes, 1), Ok(expected));
    }

    #[test]
    fn impossible_lengths_are_refused_and_claims_take_no_memory() {
        assert_eq!(frames(&(-1_i32).to_be_bytes(), 9), Err(FrameError));
        assert_eq!(frames(&i32::MAX.to_be_bytes(), 9), Err(FrameError));
        let pool = Pool::new(0);
        let mut input = Input::new(100 << 20);
        for chunk in [&(90_i32 << 20).to_be_bytes()[..], &[7; 100]] {
            let mut chunk = chunk;
            let filled = input.read_with(&pool, |free| Ok(Filled::Bytes(chunk.read(free)?)));
            assert!(matches!(filled, Ok(Filled::Bytes(_))));
            assert_eq!(input.next_frame().map(|frame| frame.is_some()), Ok(false));
        }
        assert!(
            pool.in_use_bytes() <= 2 * TRUSTED_BYTES,
            "{} bytes",
            pool.in_use_bytes()
        );
    }

    #[test]
    fn an_idle_connection_holds_no_buffer() {
        let pool = Pool::new(1 << 20);
        let mut input = Input::new(1 << 20);
        let (bytes, _) = stream_of(&[10]);
        let mut bytes = bytes.as_slice();
        let filled = input.read_with(&pool, |free| Ok(Filled::Bytes(bytes.read(free)?)));
        assert!(filled.is_ok());
        let frame = input.next_frame();
        input.rest();
        assert_eq!(pool.in_use_bytes(), SMALLEST_BYTES, "the frame is still in use");
        drop(frame);
        input.rest();
        assert_eq!(pool.in_use_bytes(), 0);
    }

    /// Takes at most so many bytes a time.
    struct Narrow(Vec<u8>, usize);

    impl Write for Narrow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.write_vectored(&[IoSlice::new(bytes)])
        }

        fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
            let all: Vec<u8> = slices
                .iter()
                .flat_map(|slice| slice.iter().copied())
                .take(self.1)
                .collect();
            self.0.extend_from_slice(&all);
            Ok(all.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn answers_go_out_in_order_however_little_the_socket_takes() {
        let pool = Pool::new(1 << 20);
        let stored = |byte: u8, len: usize| Slice::copied(&pool, &vec![byte; len]);
        let make = || {
            let mut answer = Answer::default();
            answer.push_bytes(b"head");
            for number in 0..100 {
                answer.push_slice(stored(number, 1500));
                answer.push_bytes(b"between");
                answer.push_slice(stored(number, 3));
            }
            answer
        };
        for limit in [7, 5000, usize::MAX] {
            let mut output = Output::default();
            let mut expected = Vec::new();
            for _ in 0..3 {
                for answer in [make(), plain(vec![9; 5])] {
                    expected.extend_from_slice(&answer.to_vec());
                    output.push(answer);
                }
            }
            let mut narrow = Narrow(Vec::new(), limit);
            assert!(matches!(output.flush(&mut narrow), Ok(true)));
            assert_eq!(output.unsent_bytes, 0);
            assert!(narrow.0 == expected, "with {limit} bytes a time");
        }
    }
}
