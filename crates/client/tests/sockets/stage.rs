//! Brokers, clients and the loop that drives them.

use broker::Handle;
use client::admin::{Admin, Layout, NewTopic, TopicPartition};
use client::clock::RunClock;
use client::consumer::{Consumer, ConsumerEvent, Deliver, OWNERS, Subscription};
use client::net::{ConnId, Net, NetEvent};
use client::producer::{BatchTag, Outcome, Producer};
use model::client_config::{ClientProperties, ConsumerConfig, ProducerConfig};
use std::collections::BTreeMap;
use std::time::Duration;
use wire::batch::{Batch, BatchBuilder, RecordHeaders};

/// How long anything in these tests may take.
pub const LIMIT: Duration = Duration::from_secs(20);

/// Embedded brokers on free ports.
pub fn brokers(count: usize) -> Handle {
    // Members of groups of the newer protocol are told by the brokers how often to speak.
    let properties = [("group.consumer.heartbeat.interval.ms", "50")];
    broker::start(broker::Config {
        brokers: count,
        properties: properties
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .into(),
        ..broker::Config::default()
    })
    .expect("brokers start")
}

/// Client properties: those servers, and what stands as `name=value` in `properties`.
pub fn properties(bootstrap: &str, properties: &[&str]) -> ClientProperties {
    let mut given = ClientProperties::default();
    given
        .assign(&format!("bootstrap.servers={bootstrap}"), "-X")
        .expect("an assignment");
    for property in properties {
        given.assign(property, "-X").expect("an assignment");
    }
    given
}

/// An admin client of those servers.
pub fn admin(bootstrap: &str) -> Admin {
    let config = properties(bootstrap, &[])
        .admin()
        .expect("valid properties")
        .config;
    Admin::connect(&config, RunClock::start(), LIMIT).expect("the brokers can be reached")
}

/// A topic with these counts and no configs.
pub fn topic(name: &str, partitions: u32, replication_factor: u16) -> NewTopic {
    NewTopic {
        name: name.to_owned(),
        layout: Layout::Counts {
            partitions: Some(partitions),
            replication_factor: Some(replication_factor),
        },
        configs: BTreeMap::new(),
    }
}

/// Creates a topic and waits for its leaders.
pub fn create(admin: &mut Admin, name: &str, partitions: u32, replication_factor: u16) {
    let outcomes = admin
        .create_topics(&[topic(name, partitions, replication_factor)], false)
        .expect("an answer");
    outcomes
        .into_iter()
        .next()
        .expect("one outcome")
        .expect("it is created");
    admin
        .await_leaders(&[(name.to_owned(), partitions)], LIMIT)
        .expect("leaders");
}

/// The settings of a consumer, with short waits.
pub fn consumer_config(bootstrap: &str, more: &[&str]) -> ConsumerConfig {
    let mut given = vec![
        "fetch.max.wait.ms=50",
        "retry.backoff.ms=20",
        "auto.offset.reset=earliest",
    ];
    // The brokers decide these in the newer protocol.
    if !more.contains(&"group.protocol=consumer") {
        given.extend(["heartbeat.interval.ms=50", "session.timeout.ms=6000"]);
    }
    given.extend(more);
    properties(bootstrap, &given)
        .consumer()
        .expect("valid properties")
        .config
}

fn producer_config(bootstrap: &str) -> ProducerConfig {
    properties(bootstrap, &[])
        .producer()
        .expect("valid properties")
        .config
}

/// The records of a batch are not told apart here.
#[derive(Debug, Default)]
struct NoTag;

impl BatchTag for NoTag {
    fn split_off(&mut self, _: u32) -> NoTag {
        NoTag
    }
}

/// One record as it was delivered.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seen {
    pub topic: String,
    pub partition: i32,
    pub offset: i64,
    pub value: Vec<u8>,
}

/// Collects what is delivered.
#[derive(Debug, Default)]
pub struct Collect {
    pub seen: Vec<Seen>,
    scratch: Vec<u8>,
}

impl Deliver for Collect {
    fn batch(&mut self, topic: &str, partition: i32, batch: &Batch<'_>, from_offset: i64, _: u64) {
        for record in batch
            .records(&mut self.scratch, 1 << 20)
            .expect("records that can be decoded")
        {
            let record = record.expect("a whole record");
            let offset = batch.base_offset() + i64::from(record.offset_delta);
            if offset >= from_offset {
                let value = record.value.unwrap_or_default().to_vec();
                self.seen.push(Seen {
                    topic: topic.to_owned(),
                    partition,
                    offset,
                    value,
                });
            }
        }
    }
}

/// A consumer on the stage, with all that it has delivered and told.
pub struct Player {
    pub consumer: Consumer,
    pub collected: Collect,
    pub events: Vec<ConsumerEvent>,
}

impl Player {
    /// The partitions that it has.
    pub fn assigned(&self) -> Vec<TopicPartition> {
        self.consumer
            .assigned()
            .map(|(topic, partition)| (topic.to_owned(), partition))
            .collect()
    }
}

/// Consumers on one thread.
pub struct Stage {
    net: Net,
    pub clock: RunClock,
    pub players: Vec<Player>,
    next_owner: u32,
    events: Vec<(ConnId, NetEvent)>,
}

impl Stage {
    pub fn new() -> Stage {
        let clock = RunClock::start();
        Stage {
            net: Net::new(clock).expect("a poll handle"),
            clock,
            players: Vec::new(),
            next_owner: 0,
            events: Vec::new(),
        }
    }

    /// Adds a consumer; it is the last of the players.
    pub fn add(&mut self, config: &ConsumerConfig, subscription: &Subscription) {
        let owner = self.next_owner;
        self.next_owner += OWNERS;
        let consumer =
            Consumer::new(config, subscription, owner, self.clock.wall_start()).expect("it can be made");
        self.players.push(Player {
            consumer,
            collected: Collect::default(),
            events: Vec::new(),
        });
    }

    /// One turn of the loop.
    pub fn turn(&mut self) {
        let mut read = Vec::new();
        let now_ns = self.clock.now_ns();
        let mut deadline_ns = now_ns + 20_000_000;
        for player in &mut self.players {
            player.consumer.tick(now_ns, &mut read);
            self.net.act(player.consumer.actions());
            deadline_ns = deadline_ns.min(player.consumer.next_deadline_ns());
        }
        self.net
            .poll(Some(deadline_ns), &mut self.events)
            .expect("the poll loop works");
        let now_ns = self.clock.now_ns();
        for (conn, event) in self.events.drain(..) {
            if let Some(player) = self.players.get_mut((conn.owner / OWNERS) as usize) {
                player.consumer.on_net(conn, event, now_ns, &mut read);
                self.net.act(player.consumer.actions());
            }
        }
        for player in &mut self.players {
            player.consumer.deliver(&mut player.collected, now_ns, &mut read);
            self.net.act(player.consumer.actions());
            while let Some(event) = player.consumer.next_event() {
                player.events.push(event);
            }
        }
        for frame in read {
            self.net.recycle(frame);
        }
    }

    /// Turns until `done`, or fails with `what`.
    pub fn until(&mut self, what: &str, mut done: impl FnMut(&mut Stage) -> bool) {
        let limit_ns = self.clock.now_ns() + LIMIT.as_nanos() as u64;
        while !done(self) {
            assert!(
                self.clock.now_ns() < limit_ns,
                "{what}: {:#?}",
                self.players.iter().map(|p| &p.events).collect::<Vec<_>>()
            );
            self.turn();
        }
    }

    /// Turns for some time, in which nothing in particular is awaited.
    pub fn turn_for(&mut self, time: Duration) {
        let end_ns = self.clock.now_ns() + time.as_nanos() as u64;
        while self.clock.now_ns() < end_ns {
            self.turn();
        }
    }

    /// Leaves with one player and waits until it is gone.
    pub fn leave(&mut self, index: usize) {
        let now_ns = self.clock.now_ns();
        let mut read = Vec::new();
        self.players[index]
            .consumer
            .leave(now_ns, now_ns + 5_000_000_000, &mut read);
        self.until("the player leaves", |stage| {
            stage.players[index].consumer.is_closed()
        });
    }

    /// How many records all players have been given.
    pub fn seen(&self) -> usize {
        self.players
            .iter()
            .map(|player| player.collected.seen.len())
            .sum()
    }
}

/// Appends records `range` (their value is their number in decimal) to each partition of `topic`, a batch for every ten, and
/// waits until all are acknowledged.
pub fn produce(bootstrap: &str, topic: &str, partitions: usize, range: std::ops::Range<u64>) {
    let clock = RunClock::start();
    let mut net = Net::new(clock).expect("a poll handle");
    let mut producer: Producer<NoTag> =
        Producer::new(topic, &producer_config(bootstrap), 0, 1).expect("a producer");
    let headers = RecordHeaders::default();
    let mut events = Vec::new();
    let mut read = Vec::new();
    let mut next = range.start;
    let mut finished = 0;
    let all = (range.end - range.start) * partitions as u64;
    let limit_ns = LIMIT.as_nanos() as u64;
    while finished < all {
        let now_ns = clock.now_ns();
        assert!(now_ns < limit_ns, "{finished} of {all} records were acknowledged");
        if producer.is_ready(now_ns) && producer.is_idle() && next < range.end {
            let end = (next + 10).min(range.end);
            for number in next..end {
                let value = number.to_string().into_bytes();
                let bytes = BatchBuilder::record_len_bound(None, value.len(), &headers);
                for partition in 0..partitions {
                    let open = producer.open(partition, bytes, now_ns).expect("room");
                    open.push(clock.wall_ms(now_ns), None, value.len(), &headers, |out| {
                        out.extend_from_slice(&value)
                    });
                }
            }
            next = end;
            producer.flush();
        }
        producer.tick(now_ns, &mut read);
        net.act(producer.actions());
        net.poll(
            Some(producer.next_deadline_ns().min(now_ns + 20_000_000)),
            &mut events,
        )
        .expect("the poll loop works");
        let now_ns = clock.now_ns();
        for (conn, event) in events.drain(..) {
            producer.on_net(conn, event, now_ns, &mut read);
            net.act(producer.actions());
        }
        while let Some(batch) = producer.next_finished() {
            assert!(matches!(batch.outcome, Outcome::Acknowledged { .. }), "{batch:?}");
            finished += u64::from(batch.count);
        }
        read.clear();
    }
}
