//! The brokers without sockets, for programs that feed them with damaged requests.

use crate::api::{self, Frame, Outcome};
use crate::buffer::Pool;
use crate::cluster::{Cluster, Setup};
use crate::reply::ConnectionId;
use crate::settings::Overrides;
use std::sync::Arc;

/// Three brokers that share a state, and a client that sends them frames.
#[derive(Debug)]
pub struct Session {
    cluster: Cluster,
    pool: Arc<Pool>,
    now: u64,
    connections: usize,
}

impl Session {
    /// Brokers that keep at most so much.
    pub fn new(memory_bytes: u64) -> Session {
        let pool = Pool::new(memory_bytes as usize);
        let setup = Setup {
            addresses: (0..3)
                .map(|index| ("localhost".to_owned(), 9000 + index))
                .collect(),
            protocol: "PLAINTEXT",
            configs: Overrides::new(),
            seed: 1,
            origin_ms: 1_700_000_000_000,
            memory_bytes,
            pool: Arc::clone(&pool),
        };
        Session {
            cluster: Cluster::new(setup),
            pool,
            now: 0,
            connections: 0,
        }
    }

    /// Hands a frame, without its length field, to a broker, lets a second pass, and gives the length of the answer; `None`
    /// where the broker hung up or has not answered.
    pub fn feed(&mut self, broker: i32, frame: &[u8]) -> Option<usize> {
        let number = self.connections;
        self.connections += 1;
        let buffer = self.pool.take(frame.len());
        buffer.write()[..frame.len()].copy_from_slice(frame);
        let frame = Frame {
            buffer: &buffer,
            range: &(0..frame.len()),
            connection: ConnectionId { thread: 0, number },
            broker,
            client_host: "127.0.0.1",
            lie: None,
            failing: &[],
        };
        let outcome = api::serve(frame, self.now, None, || &mut self.cluster);
        let mut answered = match &outcome {
            Outcome::Answer(answer) | Outcome::Last(answer) => Some(answer.len_bytes()),
            Outcome::Later | Outcome::Silent(_) | Outcome::Hangup => None,
        };
        self.now += 1_000_000_000;
        self.cluster.tick(self.now);
        for (to, answer) in self.cluster.take_completed() {
            if to.number == number {
                answered = Some(answer.len_bytes());
            }
        }
        answered
    }
}
