//! A TCP proxy that is a bad network: it delays, limits, splits what passes into small writes, and hangs up at drawn times. What
//! it did is written down.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::draw::Draw;

/// What a proxy does to what passes.
#[derive(Clone, Copy, Default)]
pub struct Shape {
    /// By how much each way takes longer.
    pub delay: Duration,
    /// How much may pass towards the server in a second, over all connections; `None` for as much as comes.
    pub bytes_per_second: Option<u64>,
    /// The largest write; each is of a size drawn from one byte to this. `None` for as it came.
    pub largest_write: Option<usize>,
    /// The shortest and the longest time, in milliseconds, from one hanging up to the next; `None` for never.
    pub cuts_after_ms: Option<(u64, u64)>,
    /// What is drawn follows from it.
    pub seed: u64,
}

/// A place to connect to that hands on to a server. It ends with this value.
pub struct Proxy {
    address: SocketAddr,
    listener: Option<TcpListener>,
    state: Arc<State>,
}

struct State {
    shape: Shape,
    started: Instant,
    has_ended: AtomicBool,
    /// Both ends of each connection.
    connections: Mutex<Vec<[TcpStream; 2]>>,
    /// When the next byte may pass towards the server.
    free_at: Mutex<Instant>,
    log: Mutex<Vec<String>>,
}

/// Longest piece that is taken at once.
const PIECE_BYTES: usize = 64 << 10;

impl Proxy {
    /// Listens on a free port of loopback; nothing is handed on yet.
    pub fn bind(shape: Shape) -> Result<Proxy> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("no port for a proxy")?;
        let started = Instant::now();
        Ok(Proxy {
            address: listener.local_addr()?,
            listener: Some(listener),
            state: Arc::new(State {
                shape,
                started,
                has_ended: AtomicBool::new(false),
                connections: Mutex::default(),
                free_at: Mutex::new(started),
                log: Mutex::default(),
            }),
        })
    }

    /// Where to connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Hands on to this server from now on.
    pub fn serve(&mut self, server: SocketAddr) {
        let Some(listener) = self.listener.take() else {
            return;
        };
        let state = Arc::clone(&self.state);
        std::thread::spawn(move || {
            for (number, client) in listener.incoming().enumerate() {
                if state.has_ended.load(Ordering::Acquire) {
                    return;
                }
                if let Err(error) = client.and_then(|client| hand_on(&state, number, client, server)) {
                    state.note(&format!("connection {number} is not handed on: {error}"));
                }
            }
        });
        if let Some(times) = self.state.shape.cuts_after_ms {
            let state = Arc::clone(&self.state);
            std::thread::spawn(move || cut(&state, times));
        }
    }

    /// What it did so far, a line each.
    pub fn log(&self) -> Vec<String> {
        locked(&self.state.log).clone()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.state.has_ended.store(true, Ordering::Release);
        for pair in locked(&self.state.connections).drain(..) {
            hang_up(&pair);
        }
        // So that who waits for connections sees that it has ended.
        let _ = TcpStream::connect(self.address);
    }
}

impl State {
    fn note(&self, what: &str) {
        let line = format!("{} ms: {what}", self.started.elapsed().as_millis());
        locked(&self.log).push(line);
    }

    /// Waits until so many bytes may pass towards the server.
    fn await_turn(&self, bytes: usize) {
        let Some(bytes_per_second) = self.shape.bytes_per_second else {
            return;
        };
        let from = {
            let mut free_at = locked(&self.free_at);
            let from = (*free_at).max(Instant::now());
            *free_at = from + Duration::from_secs_f64(bytes as f64 / bytes_per_second as f64);
            from
        };
        sleep_until(from);
    }
}

fn locked<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn sleep_until(moment: Instant) {
    std::thread::sleep(moment.saturating_duration_since(Instant::now()));
}

fn hang_up(pair: &[TcpStream; 2]) {
    for end in pair {
        // It may be gone already.
        let _ = end.shutdown(Shutdown::Both);
    }
}

/// Serves one connection, by two threads a way: one takes what comes with the time at which it may leave, one lets it leave.
fn hand_on(state: &Arc<State>, number: usize, client: TcpStream, server: SocketAddr) -> std::io::Result<()> {
    let server = TcpStream::connect(server)?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    state.note(&format!("connection {number} begins"));
    locked(&state.connections).push([client.try_clone()?, server.try_clone()?]);
    for (from, to, is_towards_server) in [
        (client.try_clone()?, server.try_clone()?, true),
        (server, client, false),
    ] {
        let (sender, pieces) = channel();
        let delay = state.shape.delay;
        std::thread::spawn(move || take(from, delay, &sender));
        let state = Arc::clone(state);
        let draw = Draw::of(state.shape.seed ^ (number as u64) << 1 ^ u64::from(is_towards_server));
        std::thread::spawn(move || give(&state, to, &pieces, is_towards_server, draw));
    }
    Ok(())
}

fn take(mut from: TcpStream, delay: Duration, sender: &Sender<(Instant, Vec<u8>)>) {
    let mut piece = vec![0; PIECE_BYTES];
    while let Ok(bytes @ 1..) = from.read(&mut piece) {
        let leaves_at = Instant::now() + delay;
        if sender.send((leaves_at, piece[..bytes].to_vec())).is_err() {
            return;
        }
    }
}

fn give(
    state: &State,
    mut to: TcpStream,
    pieces: &Receiver<(Instant, Vec<u8>)>,
    is_towards_server: bool,
    mut draw: Draw,
) {
    for (leaves_at, piece) in pieces {
        sleep_until(leaves_at);
        let mut rest = piece.as_slice();
        while !rest.is_empty() {
            let most = match state.shape.largest_write {
                Some(largest) => draw.between(1, largest as u64) as usize,
                None => rest.len(),
            };
            let (now, later) = rest.split_at(most.min(rest.len()));
            if is_towards_server {
                state.await_turn(now.len());
            }
            if to.write_all(now).is_err() {
                return;
            }
            rest = later;
        }
    }
    // No more comes from the other end.
    let _ = to.shutdown(Shutdown::Write);
}

/// Hangs up on one connection after the other.
fn cut(state: &State, (shortest_ms, longest_ms): (u64, u64)) {
    let mut draw = Draw::of(state.shape.seed);
    while !state.has_ended.load(Ordering::Acquire) {
        std::thread::sleep(Duration::from_millis(draw.between(shortest_ms, longest_ms)));
        let mut connections = locked(&state.connections);
        if connections.is_empty() {
            continue;
        }
        let place = draw.between(0, connections.len() as u64 - 1) as usize;
        let pair = connections.swap_remove(place);
        drop(connections);
        hang_up(&pair);
        state.note(&format!(
            "hangs up on one of its connections, number {place} in its list"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that gives back what it is sent.
    fn echo() -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut back = stream.try_clone().unwrap();
                std::thread::spawn(move || std::io::copy(&mut stream, &mut back));
            }
        });
        address
    }

    fn through(shape: Shape, bytes: usize) -> (Duration, std::io::Result<()>) {
        let mut proxy = Proxy::bind(shape).unwrap();
        proxy.serve(echo());
        let sent: Vec<u8> = (0..bytes).map(|place| place as u8).collect();
        let mut stream = TcpStream::connect(proxy.address()).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        let start = Instant::now();
        let mut back = vec![0; bytes];
        let outcome = stream
            .write_all(&sent)
            .and_then(|()| stream.read_exact(&mut back));
        if outcome.is_ok() {
            assert_eq!(sent, back);
        }
        (start.elapsed(), outcome)
    }

    #[test]
    fn what_passes_comes_whole_whatever_it_is_split_into_and_not_before_its_time() {
        let (took, outcome) = through(
            Shape {
                delay: Duration::from_millis(30),
                largest_write: Some(50),
                ..Shape::default()
            },
            20_000,
        );
        outcome.unwrap();
        assert!(took >= Duration::from_millis(60), "{took:?}");
    }

    #[test]
    fn no_more_passes_than_the_rate_lets() {
        let shape = Shape {
            bytes_per_second: Some(100_000),
            largest_write: Some(1000),
            ..Shape::default()
        };
        let (took, outcome) = through(shape, 30_000);
        outcome.unwrap();
        assert!(took >= Duration::from_millis(280), "{took:?}");
    }

    #[test]
    fn it_hangs_up_in_the_middle() {
        let shape = Shape {
            bytes_per_second: Some(1_000),
            largest_write: Some(10),
            cuts_after_ms: Some((50, 100)),
            ..Shape::default()
        };
        let (_, outcome) = through(shape, 100_000);
        assert!(outcome.is_err());
    }
}
