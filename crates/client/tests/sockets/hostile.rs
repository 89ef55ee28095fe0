//! Brokers that mean harm: whatever they answer costs no panic, no memory to speak of, and no other client its service.
//!
//! They are played with in a process of its own, because the memory of the whole process is looked at.

use crate::stage::{Stage, admin, brokers, consumer_config, create, produce, properties};
use client::admin::{Admin, OffsetAt};
use client::clock::RunClock;
use client::consumer::{StartAt, Subscription};
use client::net::Net;
use client::producer::{BatchTag, Outcome, Producer};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};
use wire::ApiKey;
use wire::batch::RecordHeaders;
use wire::codec::Message;
use wire::header;
use wire::messages::api_versions::{ApiVersion, ApiVersionsRequest, ApiVersionsResponse};
use wire::messages::find_coordinator::{Coordinator, FindCoordinatorRequest, FindCoordinatorResponse};
use wire::messages::init_producer_id::{InitProducerIdRequest, InitProducerIdResponse};
use wire::messages::metadata::{
    MetadataRequest, MetadataResponse, MetadataResponseBroker, MetadataResponsePartition,
    MetadataResponseTopic,
};

/// For how long each hostile broker is played with.
const PLAY: Duration = Duration::from_secs(5);
/// By how much the process may grow. Pools of buffers and the embedded broker are part of it.
const MOST_GROWTH_BYTES: u64 = 96 << 20;

/// What comes in place of a proper answer.
#[derive(Clone, Copy, Debug)]
enum Attack {
    /// A frame of this length, of which nothing follows.
    Length(i32),
    /// A proper head, then all lengths and counts as large as they can be.
    LargeCounts,
    /// A proper head, then lists in lists in lists, each of a few hundred elements.
    NestedLists,
    /// A frame that is within the limits and comes byte by byte.
    Drip,
    /// The answer to a question that was not asked.
    WrongNumber,
    /// Answers without an end.
    Flood,
    /// Nothing, and the connection stays open.
    Silence,
    /// Random bytes.
    Noise,
}

const ATTACKS: [Attack; 11] = [
    Attack::Length(i32::MAX),
    Attack::Length(-1),
    Attack::Length(0),
    Attack::Length((1 << 30) - 1),
    Attack::LargeCounts,
    Attack::NestedLists,
    Attack::Drip,
    Attack::WrongNumber,
    Attack::Flood,
    Attack::Silence,
    Attack::Noise,
];

/// A broker that is proper up to the requests that matter.
fn hostile(attack: Attack) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(stream) = stream else { return };
            std::thread::spawn(move || serve(stream, address, attack));
        }
    });
    address
}

/// Until the client has had enough of it.
fn serve(mut stream: TcpStream, address: SocketAddr, attack: Attack) -> Option<()> {
    let _ = stream.set_nodelay(true);
    loop {
        let mut length = [0; 4];
        stream.read_exact(&mut length).ok()?;
        let mut frame = vec![0; u32::from_be_bytes(length) as usize];
        stream.read_exact(&mut frame).ok()?;
        let (head, input) = header::decode_request_header(&frame).ok()?;
        let (version, correlation) = (head.api_version, head.correlation_id);
        let answer = match head.api_key {
            ApiKey::API_VERSIONS => {
                let api_keys = ApiKey::ALL.iter().map(|&api_key| ApiVersion {
                    api_key,
                    min_version: 0,
                    max_version: 30,
                });
                let response = ApiVersionsResponse {
                    api_keys: api_keys.collect(),
                    ..Default::default()
                };
                header::encode_response::<ApiVersionsRequest>(correlation, version, &response)
            }
            ApiKey::METADATA => {
                header::encode_response::<MetadataRequest>(correlation, version, &metadata(address))
            }
            ApiKey::FIND_COORDINATOR => {
                let mut input = input;
                let request = FindCoordinatorRequest::decode(version, &mut input).ok()?;
                let coordinators = request.coordinator_keys.into_iter().map(|key| Coordinator {
                    key,
                    node_id: 1,
                    host: address.ip().to_string(),
                    port: address.port().into(),
                    ..Default::default()
                });
                let response = FindCoordinatorResponse {
                    coordinators: coordinators.collect(),
                    ..Default::default()
                };
                header::encode_response::<FindCoordinatorRequest>(correlation, version, &response)
            }
            ApiKey::INIT_PRODUCER_ID => {
                let response = InitProducerIdResponse {
                    producer_id: 9,
                    ..Default::default()
                };
                header::encode_response::<InitProducerIdRequest>(correlation, version, &response)
            }
            _ => return strike(&mut stream, correlation, attack),
        };
        stream.write_all(&answer).ok()?;
    }
}

fn metadata(address: SocketAddr) -> MetadataResponse {
    MetadataResponse {
        brokers: vec![MetadataResponseBroker {
            node_id: 1,
            host: address.ip().to_string(),
            port: address.port().into(),
            rack: None,
        }],
        controller_id: 1,
        topics: vec![MetadataResponseTopic {
            name: Some("t".to_owned()),
            topic_id: wire::Uuid([4; 16]),
            partitions: vec![MetadataResponsePartition {
                leader_id: 1,
                replica_nodes: vec![1],
                isr_nodes: vec![1],
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    }
}

/// A frame with that body.
fn framed(correlation: i32, body: &[u8]) -> Vec<u8> {
    let mut frame = (body.len() as i32 + 4).to_be_bytes().to_vec();
    frame.extend(correlation.to_be_bytes());
    frame.extend(body);
    frame
}

fn strike(stream: &mut TcpStream, correlation: i32, attack: Attack) -> Option<()> {
    match attack {
        Attack::Length(length) => stream.write_all(&length.to_be_bytes()).ok()?,
        Attack::LargeCounts => {
            // As an unsigned varint, as an i32 and as an i16 these are all large.
            let body = [0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f].repeat(20);
            stream.write_all(&framed(correlation, &body)).ok()?;
        }
        Attack::NestedLists => {
            let body = [0, 0, 0, 0, 0, 0, 0xc8, 0x01].repeat(100_000);
            stream.write_all(&framed(correlation, &body)).ok()?;
        }
        Attack::Drip => {
            stream.write_all(&(50_000_000i32).to_be_bytes()).ok()?;
            loop {
                stream.write_all(&[0]).ok()?;
                // Nobody unparks it: the time is what it waits for.
                std::thread::park_timeout(Duration::from_millis(5));
            }
        }
        Attack::WrongNumber => stream
            .write_all(&framed(correlation.wrapping_add(1), &[0; 64]))
            .ok()?,
        Attack::Flood => loop {
            stream.write_all(&framed(correlation, &[0; 4096])).ok()?;
        },
        Attack::Silence => {}
        Attack::Noise => {
            let mut state = 88_172_645_463_325_252_u64;
            let mut bytes = Vec::with_capacity(1 << 16);
            while bytes.len() < 1 << 16 {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                bytes.extend(state.to_be_bytes());
            }
            stream.write_all(&framed(correlation, &bytes)).ok()?;
        }
    }
    // Open until the client closes it.
    let mut rest = [0; 4096];
    while stream.read(&mut rest).is_ok_and(|count| count > 0) {}
    None
}

#[derive(Debug, Default)]
struct NoTag;

impl BatchTag for NoTag {
    fn split_off(&mut self, _: u32) -> NoTag {
        NoTag
    }
}

/// Produces to a hostile broker for a while: nothing of it may count as acknowledged.
fn produce_in_vain(attack: Attack) {
    let bootstrap = hostile(attack).to_string();
    let given = properties(
        &bootstrap,
        &[
            "request.timeout.ms=1000",
            "delivery.timeout.ms=1500",
            "linger.ms=0",
        ],
    );
    let config = given.producer().expect("valid properties").config;
    let clock = RunClock::start();
    let mut net = Net::new(clock).expect("a poll handle");
    let mut producer: Producer<NoTag> = Producer::new("t", &config, 0, 1).expect("a producer");
    let (mut events, mut read) = (Vec::new(), Vec::new());
    let mut is_sent = false;
    let mut ended = 0;
    while clock.now_ns() < PLAY.as_nanos() as u64 {
        let now_ns = clock.now_ns();
        if producer.is_ready(now_ns) && !is_sent {
            let open = producer.open(0, 200, now_ns).expect("room");
            open.push(0, None, 3, &RecordHeaders::default(), |out| {
                out.extend_from_slice(b"abc")
            });
            producer.flush();
            is_sent = true;
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
            assert!(
                matches!(batch.outcome, Outcome::Unknown { .. }),
                "{attack:?}: {batch:?}"
            );
            ended += 1;
        }
        read.drain(..).for_each(|frame| net.recycle(frame));
    }
    assert!(is_sent, "{attack:?}: the producer never got that far");
    assert_eq!(
        ended, 1,
        "{attack:?}: the batch ends with delivery.timeout.ms, and once"
    );
}

fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("procfs");
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .expect("VmRSS");
    let kib: u64 = line
        .trim()
        .trim_end_matches("kB")
        .trim()
        .parse()
        .expect("a number");
    kib * 1024
}

/// Set in the process in which the playing is done.
const HERE: &str = "PLIMSOLL_TEST_HOSTILE_BROKERS_HERE";

#[test]
fn hostile_brokers_cost_neither_memory_nor_other_clients_their_service() {
    if std::env::var_os(HERE).is_some() {
        return play();
    }
    let this = std::env::current_exe().expect("the tests' program");
    let test = "hostile::hostile_brokers_cost_neither_memory_nor_other_clients_their_service";
    let played = std::process::Command::new(this)
        .args(["--exact", test, "--nocapture"])
        .env(HERE, "1")
        .output()
        .expect("it can be started");
    let told = String::from_utf8_lossy(&played.stdout);
    assert!(
        played.status.success() && told.contains("1 passed"),
        "{told}{}",
        String::from_utf8_lossy(&played.stderr)
    );
}

fn play() {
    let honest = brokers(1);
    create(&mut admin(&honest.bootstrap()), "t", 1, 1);
    let mut stage = Stage::new();
    let chosen = |start| Subscription::Partitions(vec![(("t".to_owned(), 0), start)]);
    stage.add(
        &consumer_config(&honest.bootstrap(), &[]),
        &chosen(StartAt::Earliest),
    );
    produce(&honest.bootstrap(), "t", 1, 0..10);
    stage.until("the first records come", |stage| stage.seen() == 10);
    let before = resident_bytes();
    // Readers of all kinds of answers: Fetch, ListOffsets, and those of groups.
    for attack in ATTACKS {
        let bootstrap = hostile(attack).to_string();
        let short = ["request.timeout.ms=1000"];
        stage.add(&consumer_config(&bootstrap, &short), &chosen(StartAt::Offset(0)));
        stage.add(&consumer_config(&bootstrap, &short), &chosen(StartAt::Earliest));
        let group = Subscription::Group {
            topics: vec!["t".to_owned()],
        };
        stage.add(
            &consumer_config(&bootstrap, &["request.timeout.ms=1000", "group.id=g"]),
            &group,
        );
    }
    let producers: Vec<_> = ATTACKS
        .iter()
        .map(|&attack| std::thread::spawn(move || produce_in_vain(attack)))
        .collect();
    let admins: Vec<_> = ATTACKS
        .iter()
        .map(|&attack| std::thread::spawn(move || ask_in_vain(attack)))
        .collect();
    // Meanwhile the honest client on the same thread is served as if nothing were.
    let mut slowest = Duration::ZERO;
    let begun = Instant::now();
    let mut next = 10;
    while begun.elapsed() < PLAY {
        let asked = Instant::now();
        produce(&honest.bootstrap(), "t", 1, next..next + 10);
        next += 10;
        let wanted = next as usize;
        stage.until("records come all the same", |stage| {
            stage.players[0].collected.seen.len() == wanted
        });
        slowest = slowest.max(asked.elapsed());
    }
    for thread in producers.into_iter().chain(admins) {
        thread.join().expect("no panic");
    }
    assert!(
        slowest < Duration::from_secs(3),
        "the honest client waited for {slowest:?}"
    );
    for player in &stage.players[1..] {
        assert_eq!(player.collected.seen, []);
    }
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < MOST_GROWTH_BYTES, "grown by {grown} bytes");
}

/// Asks something that a hostile broker has no proper answer to.
fn ask_in_vain(attack: Attack) {
    let given = properties(
        &hostile(attack).to_string(),
        &["request.timeout.ms=1000", "default.api.timeout.ms=2000"],
    );
    let config = given.admin().expect("valid properties").config;
    let mut admin = Admin::connect(&config, RunClock::start(), Duration::from_secs(2)).expect("metadata");
    let listed = admin.list_offsets(&[("t".to_owned(), 0)], OffsetAt::Latest);
    let is_told = listed.is_ok_and(|listed| listed.values().any(Result::is_ok));
    assert!(!is_told, "{attack:?}");
}
