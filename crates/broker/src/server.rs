//! Threads, listeners and sockets around the [`Cluster`].
//!
//! Each thread has its own poll loop and its own connections; the first one accepts for all and keeps the time. The
//! cluster is behind one lock, held for about a microsecond a request: checksums, reading and writing are done without it.
//! Answers that another thread's request made possible travel through mailboxes.

use crate::alarm::Alarm;
use crate::answer::Answer;
use crate::api::{self, Failing, Frame, Outcome};
use crate::buffer::Pool;
use crate::channel::Channel;
use crate::cluster::Cluster;
use crate::connection::{Connection, Filled, Pending};
use crate::glance::Glance;
use crate::login::Login;
use crate::reply::ConnectionId;
use crate::request_log::{Noted, RequestLog};
use crate::rig::{Fate, Rig};
use crate::security::Security;
use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token, Waker};
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::net::SocketAddr;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

const WAKER: Token = Token(usize::MAX);
const ALARM: Token = Token(usize::MAX - 1);
/// Listeners have the tokens from here on, by broker.
const LISTENERS: usize = usize::MAX / 2;
/// A connection that has brought so many bytes lets the others have a turn.
const TURN_BYTES: usize = 4 << 20;

/// What a thread is told by others.
#[derive(Debug)]
pub(crate) enum Letter {
    /// Serve this connection to a broker.
    Connection {
        stream: TcpStream,
        broker: i32,
        peer: SocketAddr,
    },
    /// Send this on a connection.
    Answer(usize, Answer),
    /// Accept connections to a broker, and say so.
    Open {
        listener: TcpListener,
        broker: i32,
        done: Sender<io::Result<()>>,
    },
    /// Send all answers that are held, and say so.
    LetGo { done: Sender<io::Result<()>> },
    /// Go on with the connections of a broker that was paused.
    Resume { broker: i32 },
    /// Close a broker's listener and connections, and say so.
    Close {
        broker: i32,
        done: Sender<io::Result<()>>,
    },
}

#[derive(Debug)]
struct Mailbox {
    /// `None` when the thread has ended: whoever waits for what a letter asks for then waits no longer.
    letters: Mutex<Option<Vec<Letter>>>,
    waker: Waker,
}

/// What the threads have in common.
#[derive(Debug)]
pub(crate) struct Shared {
    cluster: Mutex<Cluster>,
    pool: Arc<Pool>,
    started_at: Instant,
    mailboxes: Vec<Mailbox>,
    is_stopping: AtomicBool,
    /// When the first thread looks at the time again; written under the cluster's lock.
    ticks_at: AtomicU64,
    most_frame_bytes: usize,
    security: Security,
    /// The script, while there is one.
    rig: Mutex<Option<Rig>>,
    /// Whether there is a script, so that requests need not ask the lock.
    is_rigged: AtomicBool,
    log: Option<RequestLog>,
    paused: Mutex<BTreeSet<i32>>,
    has_paused: AtomicBool,
}

impl Shared {
    /// Follows a script from now on, or none.
    pub(crate) fn follow(&self, rig: Option<Rig>) {
        self.is_rigged.store(rig.is_some(), Ordering::Release);
        *self.rig.lock().unwrap_or_else(PoisonError::into_inner) = rig;
    }

    /// Stops serving a broker's connections, or goes on.
    pub(crate) fn pause(&self, broker: i32, is_paused: bool) {
        let mut paused = self.paused.lock().unwrap_or_else(PoisonError::into_inner);
        if is_paused {
            paused.insert(broker);
        } else {
            paused.remove(&broker);
        }
        self.has_paused.store(!paused.is_empty(), Ordering::Release);
        drop(paused);
        if !is_paused {
            (0..self.threads()).for_each(|thread| self.post(thread, Letter::Resume { broker }));
        }
    }

    pub(crate) fn is_paused(&self, broker: i32) -> bool {
        self.has_paused.load(Ordering::Acquire)
            && self
                .paused
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .contains(&broker)
    }

    /// What was written down so far is in its file.
    pub(crate) fn flush_log(&self) {
        if let Some(log) = &self.log {
            log.flush();
        }
    }

    /// What the script says of a request, and what is to be written down of it.
    fn judge(&self, frame: &Frame<'_>, connection: u64, now: u64) -> Judged {
        let is_rigged = self.is_rigged.load(Ordering::Acquire);
        if !is_rigged && self.log.is_none() {
            return Judged::default();
        }
        let Some(mut glance) = Glance::at(frame) else {
            return Judged::default();
        };
        let noted = self.log.as_ref().map(|_| {
            Box::new(Noted {
                received: now,
                broker: frame.broker,
                api: glance.api,
                version: glance.version,
                connection,
                correlation_id: glance.correlation_id,
                request_bytes: frame.range.len(),
                batch_bytes: glance.batch_bytes,
            })
        });
        let mut judged = Judged {
            pending: Pending {
                noted,
                ..Pending::default()
            },
            ..Judged::default()
        };
        let mut rig = self.rig.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(rig) = rig.as_mut() else {
            return judged;
        };
        let lock_cluster = || self.cluster.lock().unwrap_or_else(PoisonError::into_inner);
        if rig.looks_at_topics() {
            glance.find_topics(&lock_cluster(), frame.broker);
        }
        let judgement = rig.judge(&glance.described(frame.broker), now, |follower| {
            glance.followed_bytes(&lock_cluster(), follower)
        });
        judged.pending.hold = judgement.hold;
        judged.pending.throttle_ms = judgement.throttle_ms;
        judged.fate = judgement.fate;
        judged.failing = judgement.failing;
        judged
    }

    /// When an answer that is ready may leave; `None` for at once.
    fn release_at(&self, pending: &Pending, now: u64) -> Option<u64> {
        if pending.hold.is_none() {
            return None;
        }
        let rig = self.rig.lock().unwrap_or_else(PoisonError::into_inner);
        let at = rig.as_ref()?.release_at(&pending.hold, now);
        (at > now).then_some(at)
    }

    /// Nanoseconds since the start.
    pub(crate) fn now(&self) -> u64 {
        u64::try_from(self.started_at.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    /// Hands the cluster to `act`, then delivers what that made possible.
    pub(crate) fn with_cluster<T>(&self, act: impl FnOnce(&mut Cluster, u64) -> T) -> T {
        let mut outbox = Vec::new();
        let outcome = act(&mut self.lock(&mut outbox, None), self.now());
        for (to, answer) in outbox {
            self.post(to.thread, Letter::Answer(to.number, answer));
        }
        outcome
    }

    /// Puts a letter into a thread's mailbox.
    pub(crate) fn post(&self, thread: usize, letter: Letter) {
        if let Some(mailbox) = self.mailboxes.get(thread) {
            let mut letters = mailbox.letters.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(letters) = letters.as_mut() {
                letters.push(letter);
            }
            drop(letters);
            self.wake(thread);
        }
    }

    /// How many threads there are.
    pub(crate) fn threads(&self) -> usize {
        self.mailboxes.len()
    }

    /// Makes all threads end.
    pub(crate) fn stop(&self) {
        self.is_stopping.store(true, Ordering::Release);
        (0..self.threads()).for_each(|thread| self.wake(thread));
    }

    fn wake(&self, thread: usize) {
        if let Some(mailbox) = self.mailboxes.get(thread) {
            // It can only fail where the kernel has no memory for 8 bytes; the next wake-up then delivers both.
            mailbox.waker.wake().unwrap_or_default();
        }
    }

    /// The cluster, for the thread `by`. When it is let go, completed answers are put into `outbox`, and the first thread
    /// is woken if it would sleep too long.
    fn lock<'a>(&'a self, outbox: &'a mut Vec<(ConnectionId, Answer)>, by: Option<usize>) -> Locked<'a> {
        Locked {
            guard: self.cluster.lock().unwrap_or_else(PoisonError::into_inner),
            outbox,
            shared: self,
            by,
        }
    }
}

/// A request and what the script says of it.
#[derive(Debug)]
struct Judged {
    fate: Fate,
    /// What of it fails.
    failing: Vec<Failing>,
    pending: Pending,
}

impl Default for Judged {
    fn default() -> Judged {
        Judged {
            fate: Fate::Served,
            failing: Vec::new(),
            pending: Pending::default(),
        }
    }
}

struct Locked<'a> {
    guard: MutexGuard<'a, Cluster>,
    outbox: &'a mut Vec<(ConnectionId, Answer)>,
    shared: &'a Shared,
    by: Option<usize>,
}

impl Deref for Locked<'_> {
    type Target = Cluster;

    fn deref(&self) -> &Cluster {
        &self.guard
    }
}

impl DerefMut for Locked<'_> {
    fn deref_mut(&mut self) -> &mut Cluster {
        &mut self.guard
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        self.outbox.append(&mut self.guard.take_completed());
        // The first thread looks at the deadlines itself before it sleeps.
        let ticks_at = self.shared.ticks_at.load(Ordering::Relaxed);
        if self.by != Some(0)
            && self
                .guard
                .next_deadline()
                .is_some_and(|deadline| deadline < ticks_at)
        {
            self.shared.ticks_at.store(0, Ordering::Relaxed);
            self.shared.wake(0);
        }
    }
}

/// One thread: a poll loop and the connections that it serves.
pub(crate) struct Worker {
    index: usize,
    poll: Poll,
    shared: Arc<Shared>,
    connections: HashMap<usize, Connection>,
    listeners: HashMap<i32, TcpListener>,
    next_connection: usize,
    next_thread: usize,
    outbox: Vec<(ConnectionId, Answer)>,
    /// Connections that had their turn and have more to bring.
    unfinished: Vec<usize>,
    /// Brokers whose listeners could not accept, as when there are no descriptors left.
    stalled: Vec<i32>,
    /// Connections without a request for so long are closed.
    max_idle_ns: Option<u64>,
    /// When such are next looked for; never while there is no connection.
    sweep_at: u64,
    alarm: Alarm,
    /// When held answers may leave and clients are no longer held back, by connection.
    releases: BTreeSet<(u64, usize)>,
}

/// Whether a connection stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    Stays,
    /// It stays, and has more to bring.
    Continues,
    Ends,
}

/// The threads of a cluster, not yet running.
///
/// # Errors
/// If the system gives no poll.
pub(crate) fn build(
    cluster: Cluster,
    pool: Arc<Pool>,
    threads: usize,
    log: Option<RequestLog>,
    started_at: Instant,
    security: Security,
) -> io::Result<(Arc<Shared>, Vec<Worker>)> {
    let most_frame_bytes = cluster.settings.request_max_bytes;
    let max_idle_ns = cluster.settings.connections_max_idle_ns;
    let mut polls = Vec::with_capacity(threads);
    let mut mailboxes = Vec::with_capacity(threads);
    for _ in 0..threads {
        let poll = Poll::new()?;
        mailboxes.push(Mailbox {
            letters: Mutex::new(Some(Vec::new())),
            waker: Waker::new(poll.registry(), WAKER)?,
        });
        let alarm = Alarm::new(&poll, ALARM)?;
        polls.push((poll, alarm));
    }
    let shared = Arc::new(Shared {
        cluster: Mutex::new(cluster),
        pool,
        started_at,
        mailboxes,
        is_stopping: AtomicBool::new(false),
        ticks_at: AtomicU64::new(u64::MAX),
        most_frame_bytes,
        security,
        rig: Mutex::default(),
        is_rigged: AtomicBool::new(false),
        log,
        paused: Mutex::default(),
        has_paused: AtomicBool::new(false),
    });
    let worker = |(index, (poll, alarm))| Worker {
        index,
        poll,
        alarm,
        releases: BTreeSet::new(),
        shared: Arc::clone(&shared),
        connections: HashMap::new(),
        listeners: HashMap::new(),
        next_connection: 0,
        next_thread: 0,
        outbox: Vec::new(),
        unfinished: Vec::new(),
        stalled: Vec::new(),
        max_idle_ns,
        sweep_at: u64::MAX,
    };
    let workers = polls.into_iter().enumerate().map(worker).collect();
    Ok((shared, workers))
}

impl Worker {
    /// Serves until [`Shared::stop`] is called.
    pub(crate) fn run(mut self) {
        let mut events = Events::with_capacity(256);
        while !self.shared.is_stopping.load(Ordering::Acquire) {
            let timeout = self.timeout();
            // Interrupted or not: what there is to do is looked at again.
            self.poll.poll(&mut events, timeout).unwrap_or_default();
            let unfinished = std::mem::take(&mut self.unfinished);
            for event in &events {
                match event.token() {
                    WAKER => self.read_mail(),
                    // What it rang for is looked for below.
                    ALARM => {}
                    Token(token) if token >= LISTENERS => {
                        self.accept(i32::try_from(token - LISTENERS).unwrap_or(0));
                    }
                    Token(number) => {
                        let is_over = event.is_error() || event.is_write_closed();
                        self.ready(number, is_over, event.is_read_closed());
                    }
                }
            }
            for number in unfinished {
                self.ready(number, false, false);
            }
            // The poll tells only once that somebody wants to connect.
            for broker in std::mem::take(&mut self.stalled) {
                self.accept(broker);
            }
            if self.index == 0 {
                self.tick();
            }
            self.deliver();
            self.release();
            self.sweep();
        }
        for number in self.connections.keys().copied().collect::<Vec<_>>() {
            self.end(number);
        }
        if let Some(mailbox) = self.shared.mailboxes.get(self.index) {
            drop(
                mailbox
                    .letters
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .take(),
            );
        }
    }

    /// How long to sleep; for ever, unless something is unfinished or this thread keeps the time.
    fn timeout(&mut self) -> Option<Duration> {
        if !self.unfinished.is_empty() {
            return Some(Duration::ZERO);
        }
        let release = self.releases.first().map(|(at, _)| *at);
        if let Some(at) = release {
            self.alarm.ring_in(at.saturating_sub(self.shared.now()));
        }
        let in_ns = |at: u64| Duration::from_nanos(at.saturating_sub(self.shared.now()));
        // Where there are no alarms, answers that are held leave by poll's milliseconds.
        let release = release.filter(|_| !Alarm::RINGS);
        let sweep = Some(self.sweep_at).filter(|at| *at < u64::MAX);
        let release = release.into_iter().chain(sweep).min();
        if self.index != 0 {
            return release.map(in_ns);
        }
        let cluster = self.shared.cluster.lock().unwrap_or_else(PoisonError::into_inner);
        let deadline = cluster.next_deadline();
        self.shared
            .ticks_at
            .store(deadline.unwrap_or(u64::MAX), Ordering::Relaxed);
        drop(cluster);
        // Poll counts in milliseconds and must not wake up before the time.
        deadline.into_iter().chain(release).min().map(in_ns)
    }

    /// Closes connections that have brought no request for too long, so that clients that are gone, or never say anything, do
    /// not hold descriptors for ever.
    fn sweep(&mut self) {
        let Some(max_idle_ns) = self.max_idle_ns else {
            return;
        };
        if self.connections.is_empty() {
            self.sweep_at = u64::MAX;
            return;
        }
        let now = self.shared.now();
        if self.sweep_at == u64::MAX {
            self.sweep_at = now.saturating_add(max_idle_ns.max(1));
        }
        if now < self.sweep_at {
            return;
        }
        let ends_at = |connection: &Connection| connection.last_request_at.saturating_add(max_idle_ns);
        let idle: Vec<usize> = self
            .connections
            .iter()
            .filter(|(_, connection)| {
                let is_awaited = connection.is_waiting || connection.is_silenced || connection.is_muted(now);
                !is_awaited && ends_at(connection) <= now
            })
            .map(|(number, _)| *number)
            .collect();
        for number in idle {
            self.hang_up(number);
        }
        // Twice in the time allowed: one that fell silent just now is closed at most half of it too late.
        self.sweep_at = now.saturating_add((max_idle_ns / 2).max(1));
    }

    fn tick(&mut self) {
        let now = self.shared.now();
        if self.shared.ticks_at.load(Ordering::Relaxed) <= now {
            self.shared.lock(&mut self.outbox, Some(self.index)).tick(now);
        }
    }

    fn read_mail(&mut self) {
        let Some(mailbox) = self.shared.mailboxes.get(self.index) else {
            return;
        };
        let mut letters = mailbox.letters.lock().unwrap_or_else(PoisonError::into_inner);
        let read = letters.as_mut().map(std::mem::take).unwrap_or_default();
        drop(letters);
        for letter in read {
            match letter {
                Letter::Connection { stream, broker, peer } => self.adopt(stream, broker, peer),
                Letter::Answer(number, answer) => self.answer(number, answer),
                // Whoever asked may have gone away.
                Letter::Open {
                    listener,
                    broker,
                    done,
                } => done.send(self.open(listener, broker)).unwrap_or_default(),
                Letter::LetGo { done } => {
                    self.let_go();
                    done.send(Ok(())).unwrap_or_default();
                }
                Letter::Resume { broker } => self.resume(broker),
                Letter::Close { broker, done } => {
                    self.close(broker);
                    done.send(Ok(())).unwrap_or_default();
                }
            }
        }
    }

    fn open(&mut self, mut listener: TcpListener, broker: i32) -> io::Result<()> {
        let token = Token(LISTENERS + usize::try_from(broker).unwrap_or(0));
        self.poll
            .registry()
            .register(&mut listener, token, Interest::READABLE)?;
        self.listeners.insert(broker, listener);
        Ok(())
    }

    fn close(&mut self, broker: i32) {
        self.listeners.remove(&broker);
        let of_broker = self
            .connections
            .iter()
            .filter(|(_, connection)| connection.broker == broker);
        for number in of_broker.map(|(number, _)| *number).collect::<Vec<_>>() {
            self.end(number);
        }
    }

    fn accept(&mut self, broker: i32) {
        while let Some(listener) = self.listeners.get(&broker) {
            match listener.accept() {
                Ok((stream, peer)) => {
                    let thread = self.next_thread % self.shared.threads();
                    self.next_thread += 1;
                    if thread == self.index {
                        self.adopt(stream, broker, peer);
                    } else {
                        self.shared
                            .post(thread, Letter::Connection { stream, broker, peer });
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(_) => {
                    self.stalled.push(broker);
                    return;
                }
            }
        }
    }

    fn adopt(&mut self, mut stream: TcpStream, broker: i32, peer: SocketAddr) {
        let number = self.next_connection;
        self.next_connection += 1;
        // An answer is whole when it is written, so there is nothing to wait for.
        let is_set_up = stream.set_nodelay(true).and_then(|()| {
            let interest = Interest::READABLE | Interest::WRITABLE;
            self.poll
                .registry()
                .register(&mut stream, Token(number), interest)
        });
        let security = &self.shared.security;
        let channel = is_set_up.and_then(|()| Channel::new(stream, security.tls.as_ref()));
        if let Ok(channel) = channel {
            let host = peer.ip().to_string();
            let login = security.sasl.as_ref().map(|sasl| Login::new(Arc::clone(sasl)));
            let mut connection = Connection::new(channel, login, broker, host, self.shared.most_frame_bytes);
            connection.last_request_at = self.shared.now();
            self.connections.insert(number, connection);
        }
    }

    fn ready(&mut self, number: usize, is_over: bool, is_read_closed: bool) {
        let Some(connection) = self.connections.get_mut(&number) else {
            return;
        };
        connection.is_read_closed |= is_read_closed;
        // A client that waits for an answer and has gone away would keep its request waiting for nobody.
        if is_over || (is_read_closed && connection.is_waiting && connection.has_ended()) {
            self.end(number);
            return;
        }
        self.go_on(number);
    }

    fn go_on(&mut self, number: usize) {
        match self.serve(number).unwrap_or(Turn::Ends) {
            Turn::Stays => {
                // One that is not read any more would never be seen to have ended.
                let is_over = |connection: &mut Connection| {
                    connection.is_read_closed
                        && (connection.is_silenced || (connection.is_waiting && connection.has_ended()))
                };
                if self.connections.get_mut(&number).is_some_and(is_over) {
                    self.end(number);
                }
            }
            Turn::Continues => self.unfinished.push(number),
            Turn::Ends => self.hang_up(number),
        }
    }

    /// Ends a connection in order.
    fn hang_up(&mut self, number: usize) {
        if let Some(connection) = self.connections.get_mut(&number) {
            connection.say_goodbye();
        }
        self.end(number);
    }

    fn end(&mut self, number: usize) {
        let Some(mut connection) = self.connections.remove(&number) else {
            return;
        };
        if let Some(log) = &self.shared.log {
            let now = self.shared.now();
            let sent = connection.take_sent();
            sent.iter().for_each(|noted| log.ended(noted, Some(now)));
            let unanswered = connection.take_unanswered();
            unanswered.iter().for_each(|noted| log.ended(noted, None));
        }
        if connection.is_waiting {
            let id = ConnectionId {
                thread: self.index,
                number,
            };
            self.shared
                .lock(&mut self.outbox, Some(self.index))
                .connection_closed(id);
        }
    }

    fn answer(&mut self, number: usize, answer: Answer) {
        if let Some(connection) = self.connections.get_mut(&number) {
            connection.is_waiting = false;
            let pending = connection.pending.take().unwrap_or_default();
            let release = send(&self.shared, connection, answer, pending);
            self.releases.extend(release.map(|at| (at, number)));
            self.go_on(number);
        }
    }

    /// Lets held answers go whose time has come.
    fn release(&mut self) {
        while let Some(&(at, number)) = self.releases.first() {
            let now = self.shared.now();
            if at > now {
                return;
            }
            self.releases.pop_first();
            if let Some(connection) = self.connections.get_mut(&number) {
                let unmuted = connection.release(now, now);
                self.releases.extend(unmuted.map(|at| (at, number)));
                self.go_on(number);
            }
        }
    }

    /// Sends what a script that is no longer followed held.
    fn let_go(&mut self) {
        let now = self.shared.now();
        for (at, number) in std::mem::take(&mut self.releases) {
            if let Some(connection) = self.connections.get_mut(&number) {
                let unmuted = connection.release(u64::MAX, now);
                // Who was told to hold back goes on doing so.
                let muted = connection.is_muted(now).then_some(at);
                self.releases
                    .extend(unmuted.into_iter().chain(muted).map(|at| (at, number)));
                self.go_on(number);
            }
        }
    }

    /// Goes on with what came while a broker was paused.
    fn resume(&mut self, broker: i32) {
        let of_broker = self
            .connections
            .iter()
            .filter(|(_, connection)| connection.broker == broker);
        for number in of_broker.map(|(number, _)| *number).collect::<Vec<_>>() {
            self.go_on(number);
        }
    }

    /// Hands over answers that requests on this thread made possible.
    fn deliver(&mut self) {
        while !self.outbox.is_empty() {
            for (to, answer) in std::mem::take(&mut self.outbox) {
                if to.thread == self.index {
                    self.answer(to.number, answer);
                } else {
                    self.shared.post(to.thread, Letter::Answer(to.number, answer));
                }
            }
        }
    }

    /// Serves what a connection brings until it has nothing more, has to wait, or has had its turn.
    fn serve(&mut self, number: usize) -> io::Result<Turn> {
        let Some(connection) = self.connections.get_mut(&number) else {
            return Ok(Turn::Stays);
        };
        if self.shared.is_paused(connection.broker) {
            return Ok(Turn::Stays);
        }
        let mut turn_bytes = 0;
        loop {
            let now = self.shared.now();
            loop {
                let Ok(frame) = connection.next_frame(now) else {
                    return Ok(Turn::Ends);
                };
                let Some((buffer, range)) = frame else { break };
                let frame = Frame {
                    buffer: &buffer,
                    range: &range,
                    connection: ConnectionId {
                        thread: self.index,
                        number,
                    },
                    broker: connection.broker,
                    client_host: &connection.host,
                    lie: None,
                    failing: &[],
                };
                if connection.is_admitted() {
                    connection.last_request_at = now;
                }
                let name = (self.index as u64) << 32 | number as u64;
                let Judged {
                    fate,
                    failing,
                    pending,
                } = match &connection.login {
                    Some(login) if !login.admits_frame(&frame) => Judged::default(),
                    _ => self.shared.judge(&frame, name, now),
                };
                let frame = Frame {
                    failing: &failing,
                    ..frame
                };
                let (outbox, shared, by) = (&mut self.outbox, &self.shared, Some(self.index));
                let login = connection.login.as_mut();
                let serve = move |frame| api::serve(frame, now, login, move || shared.lock(outbox, by));
                let outcome = match fate {
                    Fate::Lied(lie) => serve(Frame {
                        lie: Some(lie),
                        ..frame
                    }),
                    Fate::Served => serve(frame),
                    Fate::Dropped => Outcome::Hangup,
                    Fate::Silenced => {
                        connection.is_silenced = true;
                        Outcome::Silent(0)
                    }
                };
                let is_last = matches!(outcome, Outcome::Last(_));
                match outcome {
                    Outcome::Answer(answer) | Outcome::Last(answer) => {
                        connection.is_ending = is_last;
                        let release = send(&self.shared, connection, answer, pending);
                        self.releases.extend(release.map(|at| (at, number)));
                    }
                    Outcome::Later => {
                        connection.is_waiting = true;
                        connection.pending = Some(pending);
                    }
                    Outcome::Silent(throttle_ms) => {
                        unanswered(&self.shared, &pending);
                        let unmuted = connection.mute(throttle_ms.max(pending.throttle_ms), now);
                        self.releases.extend(unmuted.map(|at| (at, number)));
                    }
                    Outcome::Hangup => {
                        unanswered(&self.shared, &pending);
                        // Answers to earlier requests still go out.
                        connection.flush()?;
                        return Ok(Turn::Ends);
                    }
                }
            }
            let is_sent = connection.flush()?;
            if let Some(log) = &self.shared.log {
                let now = self.shared.now();
                let sent = connection.take_sent();
                sent.iter().for_each(|noted| log.ended(noted, Some(now)));
            }
            if is_sent && connection.is_at_end() {
                return Ok(Turn::Ends);
            }
            let is_held_up = connection.is_waiting
                || connection.is_silenced
                || connection.is_ending
                || connection.is_full()
                || connection.is_muted(now);
            if is_held_up || !is_sent {
                return Ok(Turn::Stays);
            }
            if turn_bytes > TURN_BYTES {
                return Ok(Turn::Continues);
            }
            match connection.fill(&self.shared.pool)? {
                Filled::Bytes(count) => turn_bytes += count,
                Filled::Nothing => return Ok(Turn::Stays),
                Filled::End => return Ok(Turn::Ends),
            }
        }
    }
}

/// Sends an answer, or holds it as the script says; gives the time at which there is more to do on the connection, because
/// it may leave then or the client is no longer held back.
fn send(shared: &Shared, connection: &mut Connection, mut answer: Answer, pending: Pending) -> Option<u64> {
    let now = shared.now();
    let release = shared.release_at(&pending, now);
    answer.throttle(pending.throttle_ms);
    answer.noted = pending.noted;
    match release {
        None if !connection.is_holding() => connection.push(answer, now),
        release => Some(connection.hold(answer, release.unwrap_or(0))),
    }
}

/// A request ends without an answer.
fn unanswered(shared: &Shared, pending: &Pending) {
    if let (Some(log), Some(noted)) = (&shared.log, &pending.noted) {
        log.ended(noted, None);
    }
}
