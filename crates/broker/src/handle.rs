//! Starting, watching over and ending the brokers.

use crate::buffer::Pool;
use crate::cluster::{Cluster, FIRST_BROKER_ID, Setup};
use crate::config::{Config, ConfigError, unknown_broker};
use crate::control;
use crate::request_log::{RequestLog, monotonic_ns};
use crate::rig::Rig;
use crate::schedule::{Change, next_changes};
use crate::server::{Letter, Shared, build};
use mio::net::TcpListener;
use model::broker_script::BrokerScript;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

pub(crate) use crate::rig::known_names;

/// Buffers that are prepared at the start have this size: that of a batch of 1 MiB with what stands around it.
const PREFAULT_BUFFER_BYTES: usize = (1 << 20) + (64 << 10);

/// Why the brokers could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The configuration is not possible.
    #[error("the embedded brokers cannot be started")]
    Config(#[from] ConfigError),
    /// A trust or key store cannot be used.
    #[error("the embedded brokers cannot be started: {0}")]
    Store(String),
    /// A listener could not be opened.
    #[error("the embedded broker cannot listen at {address}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// The file of the request log could not be made.
    #[error("the request log {} cannot be written", path.display())]
    RequestLog {
        /// Where.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The system refused a thread or a poll.
    #[error("the embedded brokers cannot be started")]
    System(#[source] io::Error),
}

/// A broker id that none of the brokers has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no broker {0}")]
pub struct UnknownBroker(
    /// The id.
    pub i32,
);

/// Running brokers. When it is dropped, they end.
#[derive(Debug)]
pub struct Handle {
    control: Control,
    threads: Vec<JoinHandle<()>>,
    advertised: Vec<(String, u16)>,
    control_address: Option<SocketAddr>,
}

/// What can be done to running brokers, from any thread.
#[derive(Clone, Debug)]
pub struct Control {
    shared: Arc<Shared>,
    addresses: Vec<SocketAddr>,
    /// The thread that carries out what the script does to brokers.
    script: Arc<Mutex<Option<ScriptThread>>>,
}

/// A thread that does to brokers what a script says. It ends when nobody holds its sender any more, and puts all right then.
#[derive(Debug)]
struct ScriptThread {
    ends: Sender<()>,
    thread: JoinHandle<()>,
}

impl ScriptThread {
    fn end(self) {
        drop(self.ends);
        // A thread that panicked has nothing left to put right.
        self.thread.join().unwrap_or_default();
    }
}

/// Starts the brokers. When this returns, they can be connected to.
///
/// # Errors
/// If the configuration is not possible or the system refuses something.
pub fn start(config: Config) -> Result<Handle, StartError> {
    config.check()?;
    // One moment by all clocks.
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let (started_at, origin_ns) = (Instant::now(), monotonic_ns());
    let origin_ms = i64::try_from(since_epoch.as_millis()).unwrap_or(0);
    let security = config.security()?.prepare(origin_ms).map_err(StartError::Store)?;
    let mut listeners = Vec::with_capacity(config.brokers);
    let mut addresses = Vec::with_capacity(config.brokers);
    for index in 0..config.brokers {
        let mut address = config.listen;
        if address.port() != 0 {
            // `check` has seen to it that it fits.
            address.set_port(address.port().saturating_add(index as u16));
        }
        let refused = |source| StartError::Listen { address, source };
        let listener = TcpListener::bind(address).map_err(refused)?;
        addresses.push(listener.local_addr().map_err(refused)?);
        listeners.push(listener);
    }
    let host = config
        .advertised_host
        .clone()
        .unwrap_or_else(|| match config.listen.ip() {
            ip if ip.is_unspecified() => "localhost".to_owned(),
            ip => ip.to_string(),
        });
    let advertised = match config.advertised.is_empty() {
        true => addresses
            .iter()
            .map(|address| (host.clone(), address.port()))
            .collect(),
        false => config.advertised,
    };
    let memory_bytes = usize::try_from(config.memory_bytes).unwrap_or(usize::MAX);
    // Somewhat more than the budget, so that buffers that are just being refilled need not be allocated anew.
    let pool = Pool::new(memory_bytes.saturating_add(memory_bytes / 8));
    let prefault_bytes = config.prefault_bytes.min(config.memory_bytes) as usize;
    pool.prefault(prefault_bytes, PREFAULT_BUFFER_BYTES);
    let cluster = Cluster::new(Setup {
        addresses: advertised.clone(),
        protocol: security.protocol,
        configs: config.properties,
        seed: RandomState::new().hash_one(since_epoch),
        origin_ms,
        memory_bytes: config.memory_bytes,
        pool: Arc::clone(&pool),
    });
    let log = match config.request_log {
        Some(path) => match RequestLog::create(&path, origin_ns) {
            Ok(log) => Some(log),
            Err(source) => return Err(StartError::RequestLog { path, source }),
        },
        None => None,
    };
    let (shared, workers) =
        build(cluster, pool, config.threads, log, started_at, security).map_err(StartError::System)?;
    let mut handle = Handle {
        control: Control {
            shared,
            addresses,
            script: Arc::default(),
        },
        threads: Vec::new(),
        advertised,
        control_address: None,
    };
    for (index, worker) in workers.into_iter().enumerate() {
        let thread = std::thread::Builder::new().name(format!("broker-{index}"));
        handle
            .threads
            .push(thread.spawn(move || worker.run()).map_err(StartError::System)?);
    }
    for (listener, broker) in listeners.into_iter().zip(FIRST_BROKER_ID..) {
        handle
            .control
            .open(broker, listener)
            .map_err(StartError::System)?;
    }
    if let Some(address) = config.control {
        let refused = |source| StartError::Listen { address, source };
        handle.control_address = Some(control::listen(address, handle.control.clone()).map_err(refused)?);
    }
    if let Some(script) = &config.script {
        // `check` has seen to it that its brokers are there.
        handle.control.follow_checked(Some(script));
    }
    Ok(handle)
}

impl Handle {
    /// Where each broker listens, in order of their ids, which count from 1.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.control.addresses
    }

    /// Where control calls are listened for.
    pub fn control_address(&self) -> Option<SocketAddr> {
        self.control_address
    }

    /// What can be done to the brokers.
    pub fn control(&self) -> &Control {
        &self.control
    }

    /// Ends all brokers and waits until their threads are gone.
    pub fn shutdown(self) {
        drop(self);
    }

    /// All brokers as clients name them: `host:port,host:port`.
    pub fn bootstrap(&self) -> String {
        let with_port = |(host, port): &(String, u16)| match host.contains(':') {
            true => format!("[{host}]:{port}"),
            false => format!("{host}:{port}"),
        };
        self.advertised
            .iter()
            .map(with_port)
            .collect::<Vec<_>>()
            .join(",")
    }
}

impl std::ops::Deref for Handle {
    type Target = Control;

    fn deref(&self) -> &Control {
        &self.control
    }
}

impl Control {
    /// Follows a script from now on, in place of the one before; `None` for none. Brokers that the one before has taken down
    /// come back. Answers that it holds leave when it said; with `None` they leave at once.
    ///
    /// # Errors
    /// If the script names a broker that there is not; then nothing changes.
    pub fn follow(&self, script: Option<&BrokerScript>) -> Result<(), UnknownBroker> {
        match script.and_then(|script| unknown_broker(script, self.addresses.len())) {
            Some(id) => Err(UnknownBroker(id)),
            None => {
                self.follow_checked(script);
                Ok(())
            }
        }
    }

    fn follow_checked(&self, script: Option<&BrokerScript>) {
        // Held to the end: of two that change the script at once, one comes after the other.
        let mut running = self.script.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(before) = running.take() {
            before.end();
        }
        // Without the cluster's lock, which requests take while they hold the script's.
        let now = self.shared.now();
        self.shared.follow(script.map(|script| Rig::new(script, now)));
        if script.is_none() {
            self.tell_all(|done| Letter::LetGo { done });
        }
        let Some(script) = script.filter(|script| next_changes(script, None).is_some()) else {
            return;
        };
        let (ends, receiver) = channel();
        let (control, script) = (self.clone_without_script(), script.clone());
        let began = Instant::now();
        let thread = std::thread::Builder::new().name("script".to_owned());
        let thread = thread.spawn(move || control.carry_out(&script, began, &receiver));
        *running = thread.ok().map(|thread| ScriptThread { ends, thread });
    }

    /// Tells every thread something, and waits until each has done it or is itself gone.
    fn tell_all(&self, letter: impl Fn(Sender<io::Result<()>>) -> Letter) {
        let (done, told) = channel();
        for thread in 0..self.shared.threads() {
            self.shared.post(thread, letter(done.clone()));
        }
        drop(done);
        while told.recv().is_ok() {}
    }

    /// For the thread of a script, which must not keep its own sender alive.
    fn clone_without_script(&self) -> Control {
        Control {
            script: Arc::default(),
            ..self.clone()
        }
    }

    /// Does to brokers what a script says, until that has no more or is over.
    fn carry_out(&self, script: &BrokerScript, began: Instant, over: &Receiver<()>) {
        let mut undone: Vec<Change> = Vec::new();
        let mut after: Option<Duration> = None;
        while let Some((at, changes)) = next_changes(script, after) {
            let left = at.saturating_sub(began.elapsed());
            if over.recv_timeout(left) != Err(RecvTimeoutError::Timeout) {
                break;
            }
            for change in changes {
                self.change(change);
                match change {
                    Change::Down(broker) => undone.push(Change::Up(broker)),
                    Change::FollowersStop(broker) => undone.push(Change::FollowersGoOn(broker)),
                    Change::IsrShrinks(broker) => undone.push(Change::IsrGrows(broker)),
                    done => undone.retain(|other| *other != done),
                }
            }
            after = Some(at);
        }
        if !undone.is_empty() && over.recv().is_err() {
            undone.into_iter().for_each(|change| self.change(change));
        }
    }

    fn change(&self, change: Change) {
        // The brokers were held against the script before it began; a port that is taken meanwhile leaves its broker down.
        match change {
            Change::Down(broker) => self.stop_broker(broker).unwrap_or_default(),
            Change::Up(broker) => self.start_broker(broker).unwrap_or_default(),
            Change::FollowersStop(broker) => self.pause_replication(broker).unwrap_or_default(),
            Change::FollowersGoOn(broker) => self.resume_replication(broker).unwrap_or_default(),
            Change::IsrShrinks(broker) => self.keep_out_of_sync(broker, true),
            Change::IsrGrows(broker) => self.keep_out_of_sync(broker, false),
        }
    }

    fn keep_out_of_sync(&self, broker: i32, is_kept_out: bool) {
        self.shared.with_cluster(|cluster, now| {
            cluster.keep_out_of_sync(now, broker, is_kept_out);
        });
    }

    /// Everything that was written down so far is in the file of the request log.
    pub fn flush_log(&self) {
        self.shared.flush_log();
    }

    /// One line a broker.
    pub(crate) fn status(&self) -> String {
        self.shared.with_cluster(|cluster, _| {
            let line = |node: &crate::cluster::Node| {
                let state = match (node.is_up, self.shared.is_paused(node.id), node.replicates) {
                    (false, ..) => "down",
                    (true, true, _) => "paused",
                    (true, false, _) if node.is_kept_out => "up, kept out of the in-sync replicas",
                    (true, false, false) => "up, does not replicate",
                    (true, false, true) => "up",
                };
                format!("broker {} at {}:{}: {state}\n", node.id, node.host, node.port)
            };
            cluster.nodes.all().iter().map(line).collect()
        })
    }

    /// Stops serving a broker's connections, as if its process had been stopped by a signal: connections stay open, are accepted,
    /// and are not answered. Its followers do not fetch meanwhile.
    ///
    /// # Errors
    /// If there is no such broker.
    pub fn pause_broker(&self, id: i32) -> Result<(), UnknownBroker> {
        self.pause_replication(id)?;
        self.shared.pause(id, true);
        Ok(())
    }

    /// Goes on with a broker that was paused, and with what was asked of it meanwhile.
    ///
    /// # Errors
    /// If there is no such broker.
    pub fn resume_broker(&self, id: i32) -> Result<(), UnknownBroker> {
        self.resume_replication(id)?;
        self.shared.pause(id, false);
        Ok(())
    }

    /// Stops a broker as if its process had been killed: its listener and connections are closed, it leaves the in-sync
    /// replicas, and other replicas lead in its place. Its records stay, as on a disk.
    ///
    /// # Errors
    /// If there is no such broker.
    pub fn stop_broker(&self, id: i32) -> Result<(), UnknownBroker> {
        self.position(id)?;
        self.tell_all(|done| Letter::Close { broker: id, done });
        // A process that was stopped by a signal and then killed is not stopped when it is started anew.
        self.shared.pause(id, false);
        self.shared
            .with_cluster(|cluster, now| cluster.stop_broker(now, id));
        Ok(())
    }

    /// Starts a broker again that was stopped: it listens where it did, catches up, and leads what nobody leads. A
    /// broker that runs is left as it is.
    ///
    /// # Errors
    /// If there is no such broker, or its address has been taken meanwhile.
    pub fn start_broker(&self, id: i32) -> Result<(), StartBrokerError> {
        let address = self.addresses[self.position(id)?];
        if self
            .shared
            .with_cluster(|cluster, _| cluster.nodes.get(id).is_some_and(|node| node.is_up))
        {
            return Ok(());
        }
        let listener = TcpListener::bind(address);
        // Leadership first: whoever connects is to find a broker that knows its place.
        let opened = listener.and_then(|listener| {
            self.shared
                .with_cluster(|cluster, now| cluster.start_broker(now, id));
            self.open(id, listener)
        });
        opened.map_err(|source| StartBrokerError::Listen { address, source })
    }

    /// Stops the fetching of a broker's followers: the broker goes on serving what it leads, but falls behind elsewhere,
    /// and leaves the in-sync replicas after `replica.lag.time.max.ms`.
    ///
    /// # Errors
    /// If there is no such broker.
    pub fn pause_replication(&self, id: i32) -> Result<(), UnknownBroker> {
        self.position(id)?;
        self.shared
            .with_cluster(|cluster, now| cluster.set_replication(now, id, false));
        Ok(())
    }

    /// Lets a broker's followers fetch again: they catch up at once.
    ///
    /// # Errors
    /// If there is no such broker.
    pub fn resume_replication(&self, id: i32) -> Result<(), UnknownBroker> {
        self.position(id)?;
        self.shared
            .with_cluster(|cluster, now| cluster.set_replication(now, id, true));
        Ok(())
    }

    fn position(&self, id: i32) -> Result<usize, UnknownBroker> {
        let index = usize::try_from(id.saturating_sub(FIRST_BROKER_ID))
            .ok()
            .filter(|index| *index < self.addresses.len());
        index.ok_or(UnknownBroker(id))
    }

    fn open(&self, broker: i32, listener: TcpListener) -> io::Result<()> {
        let (done, opened) = channel();
        // The first thread accepts for all.
        self.shared.post(
            0,
            Letter::Open {
                listener,
                broker,
                done,
            },
        );
        opened
            .recv()
            .unwrap_or_else(|_| Err(io::ErrorKind::BrokenPipe.into()))
    }
}

/// Why a broker could not be started again.
#[derive(Debug, thiserror::Error)]
pub enum StartBrokerError {
    /// There is no such broker.
    #[error(transparent)]
    Unknown(#[from] UnknownBroker),
    /// Its listener could not be opened.
    #[error("the broker cannot listen at {address} again")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why not.
        source: io::Error,
    },
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.control.shared.stop();
        for thread in self.threads.drain(..) {
            // A thread that panicked has nothing left to end.
            thread.join().unwrap_or_default();
        }
        let mut running = self.control.script.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(script) = running.take() {
            script.end();
        }
        drop(running);
        self.control.flush_log();
    }
}
