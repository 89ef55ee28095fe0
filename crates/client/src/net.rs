//! Sockets: the only file of the client that touches them.
//!
//! A [`Net`] belongs to one thread and serves any number of clients on it. It turns readiness into [`NetEvent`]s and carries
//! out [`NetAction`]s; what they mean is decided by the state machines above, which never see a socket. The stream
//! below is a [`Transport`], so that an encrypted one can take the place of a plain one without touching anything else.

use crate::clock::RunClock;
use crate::security::{Secured, TlsFailure};
use mio::event::Source;
use mio::{Events, Interest, Poll, Token};
use model::client_config::HostPort;
use std::collections::{HashMap, VecDeque};
use std::io::{self, IoSlice, Read, Write};
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use wire::batch::SealedBatch;

/// Names one connection attempt; never used twice on a [`Net`]. `owner` is the client that it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ConnId {
    /// The client, as its thread numbers them.
    pub owner: u32,
    /// The client's own count of connections.
    pub serial: u32,
}

/// Socket options of a connection; `None` leaves the system's choice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SocketOptions {
    /// SO_SNDBUF (`send.buffer.bytes`).
    pub send_buffer_bytes: Option<usize>,
    /// SO_RCVBUF (`receive.buffer.bytes`).
    pub receive_buffer_bytes: Option<usize>,
    /// A frame that claims more than this ends the connection.
    pub max_frame_bytes: usize,
}

/// A request on its way: header bytes with places at which record batches go, so that no batch is copied.
#[derive(Debug)]
pub struct Outgoing {
    /// Everything but the batches.
    pub head: Vec<u8>,
    /// Where in `head` each of the batches goes, rising.
    pub cuts: Vec<usize>,
    /// The batches.
    pub bodies: Vec<Arc<SealedBatch>>,
    /// Comes back with [`NetEvent::Written`].
    pub correlation: i32,
}

impl Outgoing {
    /// A request without batches.
    pub fn plain(head: Vec<u8>, correlation: i32) -> Outgoing {
        Outgoing {
            head,
            cuts: Vec::new(),
            bodies: Vec::new(),
            correlation,
        }
    }

    /// Bytes on the wire.
    pub fn len_bytes(&self) -> usize {
        self.head.len() + self.bodies.iter().map(|body| body.bytes().len()).sum::<usize>()
    }

    /// The pieces in order, after the first `skip` bytes, at most `most` of them.
    fn slices<'a>(&'a self, mut skip: usize, most: usize, out: &mut Vec<IoSlice<'a>>) {
        let mut add = |piece: &'a [u8]| {
            if skip >= piece.len() {
                skip -= piece.len();
            } else if out.len() < most {
                out.push(IoSlice::new(&piece[skip..]));
                skip = 0;
            }
        };
        let mut from = 0;
        for (&cut, body) in self.cuts.iter().zip(&self.bodies) {
            add(&self.head[from..cut]);
            add(body.bytes());
            from = cut;
        }
        add(&self.head[from..]);
    }
}

/// What a client wants done.
#[derive(Debug)]
pub enum NetAction {
    /// Open a connection.
    Connect {
        /// Its name from now on.
        conn: ConnId,
        /// Where to.
        address: HostPort,
        /// Which of the addresses that the name resolves to, modulo their number.
        attempt: u32,
        /// Socket options.
        options: SocketOptions,
        /// Whether and how it is encrypted.
        secured: Secured,
    },
    /// Send a request on an open connection.
    Send {
        /// The connection.
        conn: ConnId,
        /// The request.
        request: Outgoing,
    },
    /// Close it; no event follows.
    Close {
        /// The connection.
        conn: ConnId,
    },
}

/// Why a connection ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CloseReason {
    /// The name has no address.
    Unresolved {
        /// What the resolver said.
        error: String,
    },
    /// No connection could be opened.
    Refused {
        /// What the system said.
        error: String,
    },
    /// The peer closed it.
    ByPeer,
    /// Reading or writing failed.
    Failed {
        /// What the system said.
        error: String,
    },
    /// The peer announced a frame that is not one of Kafka's.
    BadFrame {
        /// The length that it claimed.
        claimed_bytes: u32,
    },
    /// TLS failed: the certificate, or the broker's opinion of ours, or no TLS at all on that port.
    Tls {
        /// What is wrong, and what to do.
        error: String,
        /// Whether the next attempt would fail in the same way.
        is_final: bool,
    },
    /// The broker does not take our login, or none could be made.
    NotAuthenticated {
        /// What is wrong, and what to do.
        error: String,
    },
    /// The broker speaks TLS and we do not.
    SpeaksTls,
    /// The broker let us ask for its versions, and closed at the first request that needs a login.
    ExpectsSasl,
    /// A time-out of ours.
    TimedOut {
        /// Which one.
        what: &'static str,
    },
}

impl std::fmt::Display for CloseReason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            CloseReason::Unresolved { error } => write!(f, "the name does not resolve ({error})"),
            CloseReason::Refused { error } => write!(f, "cannot connect ({error})"),
            CloseReason::ByPeer => write!(f, "closed by the broker"),
            CloseReason::Failed { error } => write!(f, "connection failed ({error})"),
            CloseReason::BadFrame { claimed_bytes } => {
                write!(
                    f,
                    "the peer does not speak Kafka on this port (frame of {claimed_bytes} bytes)"
                )
            }
            CloseReason::Tls { error, .. } | CloseReason::NotAuthenticated { error } => f.write_str(error),
            CloseReason::SpeaksTls => write!(
                f,
                "what answers there speaks TLS; set security.protocol=SSL or SASL_SSL"
            ),
            CloseReason::ExpectsSasl => write!(
                f,
                "closed by the broker at the first request after the versions; it may expect SASL: set \
                 security.protocol=SASL_PLAINTEXT or SASL_SSL"
            ),
            CloseReason::TimedOut { what } => write!(f, "timed out ({what})"),
        }
    }
}

/// One answer, without its length prefix. Give it back with [`Net::recycle`] when it has been read.
#[derive(Debug, Default)]
pub struct Frame {
    buffer: Vec<u8>,
    len: usize,
}

impl Frame {
    /// The bytes, from the correlation id on.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[..self.len]
    }

    /// A frame of those bytes, for tests on a network of their own.
    pub fn from_bytes(bytes: Vec<u8>) -> Frame {
        Frame {
            len: bytes.len(),
            buffer: bytes,
        }
    }
}

/// What happened on the network.
#[derive(Debug)]
pub enum NetEvent {
    /// The connection is open.
    Connected,
    /// The last byte of a request has been given to the kernel.
    Written {
        /// The request's.
        correlation: i32,
        /// When the call that gave it began.
        at_ns: u64,
    },
    /// An answer.
    Frame(Frame),
    /// The connection is gone.
    Closed(CloseReason),
}

/// What the system said, without its number.
fn words(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

/// The reason of an end that the transport gives.
fn reason_of(error: &io::Error, otherwise: fn(String) -> CloseReason) -> CloseReason {
    match error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<TlsFailure>())
    {
        Some(failure) => CloseReason::Tls {
            error: failure.words.clone(),
            is_final: failure.is_final,
        },
        None => otherwise(words(error)),
    }
}

fn refused(error: String) -> CloseReason {
    CloseReason::Refused { error }
}

fn failed(error: String) -> CloseReason {
    CloseReason::Failed { error }
}

/// A byte stream to a broker that does not block: plain TCP, or TLS over it.
pub trait Transport: Send {
    /// What the poll loop watches.
    fn source(&mut self) -> &mut dyn Source;
    /// Goes on with opening: `Ok(true)` once data may flow, `Ok(false)` while it is under way.
    fn open(&mut self) -> io::Result<bool>;
    /// Reads what is there; 0 is the end.
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize>;
    /// Writes as much as fits.
    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize>;
    /// Whether bytes that it has taken wait for the socket.
    fn has_unsent(&self) -> bool {
        false
    }
    /// Gives the socket what waits for it, as far as it takes it.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct PlainTransport {
    stream: mio::net::TcpStream,
}

impl Transport for PlainTransport {
    fn source(&mut self) -> &mut dyn Source {
        &mut self.stream
    }

    fn open(&mut self) -> io::Result<bool> {
        if let Some(error) = self.stream.take_error()? {
            return Err(error);
        }
        match self.stream.peer_addr() {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.stream.read(into)
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.stream.write_vectored(slices)
    }
}

const READ_BUFFER_BYTES: usize = 64 * 1024;
/// Frames above this are read straight into their own buffer.
const LARGE_FRAME_BYTES: usize = 32 * 1024;
/// A large frame's buffer grows by this much ahead of the bytes that have come.
const GROWTH_BYTES: usize = 4 * 1024 * 1024;
/// Read from one connection before the others get their turn.
const READ_TURN_BYTES: usize = 4 * 1024 * 1024;
const MOST_SLICES: usize = 64;
const POOLED_FRAMES: usize = 32;

struct Conn {
    id: ConnId,
    transport: Box<dyn Transport>,
    open: bool,
    readable: bool,
    /// The peer has said that nothing follows what is there to be read.
    is_ending: bool,
    writable: bool,
    max_frame_bytes: usize,
    outgoing: VecDeque<Outgoing>,
    /// Bytes of the front request that are written.
    written: usize,
    /// Bytes read and not yet made into frames: `read_from..read_to`.
    read_buffer: Vec<u8>,
    read_from: usize,
    read_to: usize,
    /// A large frame that is coming in: its buffer, how much is there, how much it will be.
    large: Option<(Vec<u8>, usize, usize)>,
}

/// The sockets of one thread.
pub struct Net {
    clock: RunClock,
    poll: Poll,
    events: Events,
    conns: HashMap<usize, Conn>,
    tokens: HashMap<ConnId, usize>,
    next_token: usize,
    pending: Vec<(ConnId, NetEvent)>,
    pool: Vec<Vec<u8>>,
    resolved: HashMap<HostPort, Vec<SocketAddr>>,
    timer: Timer,
    bytes_read: u64,
    bytes_written: u64,
}

impl std::fmt::Debug for Net {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Net")
            .field("connections", &self.conns.len())
            .finish_non_exhaustive()
    }
}

const TIMER_TOKEN: Token = Token(0);
const WAKER_TOKEN: Token = Token(1);

impl Net {
    /// An empty set of sockets whose stamps are `clock`'s.
    ///
    /// # Errors
    ///
    /// When the system grants no poll handle (too many open files).
    pub fn new(clock: RunClock) -> io::Result<Net> {
        let poll = Poll::new()?;
        let timer = Timer::new(&poll)?;
        Ok(Net {
            clock,
            poll,
            events: Events::with_capacity(256),
            conns: HashMap::new(),
            tokens: HashMap::new(),
            next_token: 2,
            pending: Vec::new(),
            pool: Vec::new(),
            resolved: HashMap::new(),
            timer,
            bytes_read: 0,
            bytes_written: 0,
        })
    }

    /// A handle by which another thread ends a wait of this one.
    pub fn waker(&self) -> io::Result<mio::Waker> {
        mio::Waker::new(self.poll.registry(), WAKER_TOKEN)
    }

    /// The clock of its stamps.
    pub fn clock(&self) -> RunClock {
        self.clock
    }

    /// Bytes read from and written to all sockets so far.
    pub fn bytes(&self) -> (u64, u64) {
        (self.bytes_read, self.bytes_written)
    }

    /// Carries out what a client asked for. Requests are written at once as far as the kernel takes them.
    pub fn act(&mut self, actions: &mut Vec<NetAction>) {
        for action in actions.drain(..) {
            match action {
                NetAction::Connect {
                    conn,
                    address,
                    attempt,
                    options,
                    secured,
                } => {
                    if let Err(reason) = self.connect(conn, &address, attempt, options, &secured) {
                        self.pending.push((conn, NetEvent::Closed(reason)));
                    }
                }
                NetAction::Send { conn, request } => {
                    let Some(&token) = self.tokens.get(&conn) else {
                        continue;
                    };
                    let state = self
                        .conns
                        .get_mut(&token)
                        .expect("tokens and connections go together");
                    state.outgoing.push_back(request);
                    if state.writable {
                        self.write(token);
                    }
                }
                NetAction::Close { conn } => {
                    if let Some(token) = self.tokens.get(&conn).copied() {
                        self.remove(token);
                    }
                }
            }
        }
    }

    /// Waits until something happens, but not beyond `until_ns` (`None`: for as long as it takes), and appends what
    /// happened to `out`. With `until_ns` in the past it only looks.
    pub fn poll(&mut self, until_ns: Option<u64>, out: &mut Vec<(ConnId, NetEvent)>) -> io::Result<()> {
        let busy = !self.pending.is_empty() || self.conns.values().any(|conn| conn.readable);
        let wait_ns = match until_ns {
            _ if busy => Some(0),
            Some(until_ns) => Some(until_ns.saturating_sub(self.clock.now_ns())),
            None => None,
        };
        match self.timer.wait(&mut self.poll, &mut self.events, wait_ns) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            other => other?,
        }
        for event in &self.events {
            let Some(conn) = self.conns.get_mut(&event.token().0) else {
                continue;
            };
            conn.readable |= event.is_readable() || event.is_read_closed() || event.is_error();
            conn.is_ending |= event.is_read_closed() || event.is_error();
            conn.writable |= event.is_writable();
        }
        let ready: Vec<usize> = self
            .conns
            .iter()
            .filter(|(_, c)| {
                c.readable || (c.writable && (!c.open || !c.outgoing.is_empty() || c.transport.has_unsent()))
            })
            .map(|(&t, _)| t)
            .collect();
        for token in ready {
            self.serve(token);
        }
        out.append(&mut self.pending);
        Ok(())
    }

    /// Takes a frame's buffer back.
    pub fn recycle(&mut self, frame: Frame) {
        if self.pool.len() < POOLED_FRAMES {
            self.pool.push(frame.buffer);
        }
    }

    fn connect(
        &mut self,
        conn: ConnId,
        address: &HostPort,
        attempt: u32,
        options: SocketOptions,
        secured: &Secured,
    ) -> Result<(), CloseReason> {
        let resolved = match self.resolved.get(address) {
            Some(resolved) => resolved,
            None => {
                let found: Vec<SocketAddr> = (address.host.as_str(), address.port)
                    .to_socket_addrs()
                    .map_err(|error| CloseReason::Unresolved { error: words(&error) })?
                    .collect();
                self.resolved.entry(address.clone()).or_insert(found)
            }
        };
        let Some(&target) = resolved.get(attempt as usize % resolved.len().max(1)) else {
            return Err(CloseReason::Unresolved {
                error: "no addresses".to_owned(),
            });
        };
        let refused = |error: io::Error| CloseReason::Refused { error: words(&error) };
        let stream = open_socket(target, options).map_err(refused)?;
        let stream = mio::net::TcpStream::from_std(stream);
        let mut transport: Box<dyn Transport> = match &secured.tls {
            None => Box::new(PlainTransport { stream }),
            Some(tls) => {
                let failed = |error| CloseReason::Tls {
                    error,
                    is_final: true,
                };
                Box::new(tls.transport(stream, &address.host).map_err(failed)?)
            }
        };
        let token = self.next_token;
        self.next_token += 1;
        self.poll
            .registry()
            .register(
                transport.source(),
                Token(token),
                Interest::READABLE | Interest::WRITABLE,
            )
            .map_err(refused)?;
        self.tokens.insert(conn, token);
        self.conns.insert(
            token,
            Conn {
                id: conn,
                transport,
                open: false,
                readable: false,
                is_ending: false,
                writable: false,
                max_frame_bytes: options.max_frame_bytes,
                outgoing: VecDeque::new(),
                written: 0,
                read_buffer: vec![0; READ_BUFFER_BYTES],
                read_from: 0,
                read_to: 0,
                large: None,
            },
        );
        Ok(())
    }

    fn remove(&mut self, token: usize) {
        if let Some(mut conn) = self.conns.remove(&token) {
            self.tokens.remove(&conn.id);
            let _ = self.poll.registry().deregister(conn.transport.source());
        }
    }

    fn close(&mut self, token: usize, reason: CloseReason) {
        if let Some(conn) = self.conns.get(&token) {
            self.pending.push((conn.id, NetEvent::Closed(reason)));
        }
        self.remove(token);
    }

    fn serve(&mut self, token: usize) {
        let Some(conn) = self.conns.get_mut(&token) else {
            return;
        };
        if !conn.open {
            match conn.transport.open() {
                Ok(true) => {
                    conn.open = true;
                    conn.writable = true;
                    self.pending.push((conn.id, NetEvent::Connected));
                }
                Ok(false) => {
                    conn.readable = false;
                    conn.writable = false;
                    return;
                }
                Err(error) => {
                    let reason = reason_of(&error, refused);
                    // A name may have moved to another address since it was resolved.
                    self.resolved.clear();
                    return self.close(token, reason);
                }
            }
        }
        // Answers first: an answer that waits behind our own writing would be booked as the broker's time.
        if self.conns.get(&token).is_some_and(|conn| conn.readable) {
            self.read(token);
        }
        let Some(conn) = self.conns.get_mut(&token) else {
            return;
        };
        if conn.writable && !conn.outgoing.is_empty() {
            self.write(token);
        } else if conn.writable && conn.transport.has_unsent() {
            match conn.transport.flush() {
                // An edge will come when the socket takes more.
                Ok(()) => conn.writable = !conn.transport.has_unsent(),
                Err(error) => {
                    let reason = reason_of(&error, failed);
                    self.close(token, reason);
                }
            }
        }
    }

    fn write(&mut self, token: usize) {
        let Some(conn) = self.conns.get_mut(&token) else {
            return;
        };
        while !conn.outgoing.is_empty() {
            let mut slices = Vec::with_capacity(MOST_SLICES);
            let mut skip = conn.written;
            for request in &conn.outgoing {
                request.slices(skip, MOST_SLICES, &mut slices);
                skip = 0;
                if slices.len() == MOST_SLICES {
                    break;
                }
            }
            // The stamp is that of the call's begin. On loopback, and with a fast broker, the answer may be there before the
            // call is back, and what the broker did meanwhile must not be taken for time in our own queue.
            let at_ns = self.clock.now_ns();
            match conn.transport.write_vectored(&slices) {
                Ok(count) => {
                    drop(slices);
                    self.bytes_written += count as u64;
                    conn.written += count;
                    while let Some(front) = conn.outgoing.front()
                        && conn.written >= front.len_bytes()
                    {
                        conn.written -= front.len_bytes();
                        self.pending.push((
                            conn.id,
                            NetEvent::Written {
                                correlation: front.correlation,
                                at_ns,
                            },
                        ));
                        conn.outgoing.pop_front();
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    conn.writable = false;
                    return;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    let reason = reason_of(&error, failed);
                    return self.close(token, reason);
                }
            }
        }
    }

    fn read(&mut self, token: usize) {
        let Some(conn) = self.conns.get_mut(&token) else {
            return;
        };
        let mut turn = 0;
        while turn < READ_TURN_BYTES {
            let result = match &mut conn.large {
                Some((buffer, have, want)) => {
                    let room = (*want).min(buffer.len().max(*have + GROWTH_BYTES));
                    if buffer.len() < room {
                        buffer.resize(room, 0);
                    }
                    conn.transport.read(&mut buffer[*have..room])
                }
                None => {
                    if conn.read_from > 0 {
                        conn.read_buffer.copy_within(conn.read_from..conn.read_to, 0);
                        conn.read_to -= conn.read_from;
                        conn.read_from = 0;
                    }
                    conn.transport.read(&mut conn.read_buffer[conn.read_to..])
                }
            };
            match result {
                Ok(0) => return self.close(token, CloseReason::ByPeer),
                Ok(count) => {
                    turn += count;
                    self.bytes_read += count as u64;
                    match &mut conn.large {
                        Some((_, have, want)) => {
                            *have += count;
                            if have == want {
                                let (buffer, len, _) = conn.large.take().expect("it is the one being read");
                                self.pending
                                    .push((conn.id, NetEvent::Frame(Frame { buffer, len })));
                            }
                        }
                        None => {
                            conn.read_to += count;
                            let drained = conn.read_to < conn.read_buffer.len();
                            if let Err(claimed_bytes) = cut_frames(conn, &mut self.pool, &mut self.pending) {
                                let reason = match claimed_bytes {
                                    // The length field of a TLS record of alerts or of a handshake, of any version.
                                    0x1503_0000..=0x1503_ffff | 0x1603_0000..=0x1603_ffff => {
                                        CloseReason::SpeaksTls
                                    }
                                    _ => CloseReason::BadFrame { claimed_bytes },
                                };
                                return self.close(token, reason);
                            }
                            if drained && conn.large.is_none() && !conn.is_ending {
                                // A short read means that the socket is empty: an edge will come with the next bytes. The end
                                // that came along with these bytes has had its edge.
                                conn.readable = false;
                                return;
                            }
                        }
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    conn.readable = false;
                    return;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    let reason = reason_of(&error, failed);
                    return self.close(token, reason);
                }
            }
        }
    }
}

/// Makes frames of what has been read; a length that no frame may have is the error.
fn cut_frames(
    conn: &mut Conn,
    pool: &mut Vec<Vec<u8>>,
    pending: &mut Vec<(ConnId, NetEvent)>,
) -> Result<(), u32> {
    loop {
        let unread = &conn.read_buffer[conn.read_from..conn.read_to];
        let Some((prefix, rest)) = unread.split_first_chunk::<4>() else {
            return Ok(());
        };
        let claimed_bytes = u32::from_be_bytes(*prefix);
        let want = claimed_bytes as usize;
        if want > conn.max_frame_bytes || want < 4 {
            return Err(claimed_bytes);
        }
        if rest.len() < want && want <= LARGE_FRAME_BYTES {
            return Ok(());
        }
        let mut buffer = take_buffer(pool, want);
        let have = rest.len().min(want);
        if buffer.len() < have {
            buffer.resize(have, 0);
        }
        buffer[..have].copy_from_slice(&rest[..have]);
        conn.read_from += 4 + have;
        if have == want {
            pending.push((conn.id, NetEvent::Frame(Frame { buffer, len: want })));
        } else {
            conn.large = Some((buffer, have, want));
            return Ok(());
        }
    }
}

/// A buffer that was used before, of the size that fits best, since new pages cost their first touch.
fn take_buffer(pool: &mut Vec<Vec<u8>>, want: usize) -> Vec<u8> {
    let best = pool
        .iter()
        .enumerate()
        .min_by_key(|(_, buffer)| {
            if buffer.len() >= want {
                (0, buffer.len())
            } else {
                (1, usize::MAX - buffer.len())
            }
        })
        .map(|(index, _)| index);
    match best {
        // A small frame must not take a large buffer away from the large ones.
        Some(index) if want > LARGE_FRAME_BYTES || pool[index].len() <= 2 * LARGE_FRAME_BYTES => {
            pool.swap_remove(index)
        }
        _ => Vec::new(),
    }
}

fn open_socket(target: SocketAddr, options: SocketOptions) -> io::Result<std::net::TcpStream> {
    let socket = socket2::Socket::new(
        socket2::Domain::for_address(target),
        socket2::Type::STREAM,
        Some(socket2::Protocol::TCP),
    )?;
    socket.set_nonblocking(true)?;
    socket.set_tcp_nodelay(true)?;
    if let Some(bytes) = options.send_buffer_bytes {
        socket.set_send_buffer_size(bytes)?;
    }
    if let Some(bytes) = options.receive_buffer_bytes {
        socket.set_recv_buffer_size(bytes)?;
    }
    match socket.connect(&target.into()) {
        Ok(()) => {}
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::INPROGRESS.raw_os_error()) => {}
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
        Err(error) => return Err(error),
    }
    Ok(socket.into())
}

/// Waits to the nanosecond: poll time-outs are whole milliseconds, so a timer descriptor among the sockets ends the wait.
#[cfg(target_os = "linux")]
struct Timer {
    fd: std::os::fd::OwnedFd,
}

#[cfg(target_os = "linux")]
impl Timer {
    fn new(poll: &Poll) -> io::Result<Timer> {
        use rustix::time::{TimerfdClockId, TimerfdFlags, timerfd_create};
        use std::os::fd::AsRawFd;
        let fd = timerfd_create(
            TimerfdClockId::Monotonic,
            TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC,
        )?;
        poll.registry().register(
            &mut mio::unix::SourceFd(&fd.as_raw_fd()),
            TIMER_TOKEN,
            Interest::READABLE,
        )?;
        Ok(Timer { fd })
    }

    fn wait(&self, poll: &mut Poll, events: &mut Events, wait_ns: Option<u64>) -> io::Result<()> {
        use rustix::time::{Itimerspec, TimerfdTimerFlags, Timespec, timerfd_settime};
        match wait_ns {
            Some(0) => poll.poll(events, Some(std::time::Duration::ZERO)),
            None => poll.poll(events, None),
            Some(wait_ns) => {
                let value = Timespec {
                    tv_sec: (wait_ns / 1_000_000_000) as i64,
                    tv_nsec: (wait_ns % 1_000_000_000) as _,
                };
                let interval = Timespec {
                    tv_sec: 0,
                    tv_nsec: 0,
                };
                timerfd_settime(
                    &self.fd,
                    TimerfdTimerFlags::empty(),
                    &Itimerspec {
                        it_interval: interval,
                        it_value: value,
                    },
                )?;
                poll.poll(events, None)
            }
        }
    }
}

/// Elsewhere the system's own time-out has to do.
#[cfg(not(target_os = "linux"))]
struct Timer;

#[cfg(not(target_os = "linux"))]
impl Timer {
    fn new(_: &Poll) -> io::Result<Timer> {
        Ok(Timer)
    }

    fn wait(&self, poll: &mut Poll, events: &mut Events, wait_ns: Option<u64>) -> io::Result<()> {
        poll.poll(events, wait_ns.map(std::time::Duration::from_nanos))
    }
}
