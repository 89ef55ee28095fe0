//! The brokers over real sockets, asked by a client that knows no more than the protocol.

use broker::{Config, Handle, StartError, start};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};
use wire::ErrorCode;
use wire::batch::{BatchBuilder, RecordHeaders, batches};
use wire::codec::Request;
use wire::compress::{Codec, Compressor};
use wire::fetch::{FetchPartition, FetchRequest, FetchResponseRef, FetchTopic, encode_fetch_request};
use wire::header::{decode_response, encode_request};
use wire::messages::{
    ApiVersionsRequest, CreateTopicsRequest, MetadataRequest, MetadataResponse, create_topics, metadata,
};
use wire::produce::{
    PartitionProduceResponse, ProduceHead, ProducePartition, ProduceTopic, decode_produce_response,
    encode_produce_request,
};

/// Longer than anything here takes, so that a fault is a failure and not a hang.
const PATIENCE: Duration = Duration::from_secs(20);

struct Client(TcpStream);

impl Client {
    fn connect(address: SocketAddr) -> Client {
        let stream = TcpStream::connect(address).expect("it listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream.set_nodelay(true).expect("no delay");
        Client(stream)
    }

    fn send(&mut self, frame: &[u8]) {
        self.0.write_all(frame).expect("written");
    }

    fn receive(&mut self) -> io::Result<Vec<u8>> {
        let mut length = [0; 4];
        self.0.read_exact(&mut length)?;
        let mut frame = vec![0; i32::from_be_bytes(length) as usize];
        self.0.read_exact(&mut frame)?;
        Ok(frame)
    }

    fn ask<R: Request>(&mut self, request: &R) -> R::Response {
        let version = *R::VERSIONS.end();
        self.send(&encode_request::<R>(1, Some("tests"), version, request));
        decode_response::<R>(version, &self.receive().expect("an answer"))
            .expect("a response")
            .1
    }

    fn create(&mut self, name: &str, partitions: i32, replication_factor: i16) {
        let topic = create_topics::CreatableTopic {
            name: name.to_owned(),
            num_partitions: partitions,
            replication_factor,
            ..Default::default()
        };
        let response = self.ask(&CreateTopicsRequest {
            topics: vec![topic],
            ..Default::default()
        });
        assert_eq!(response.topics[0].error_code, ErrorCode::NONE);
    }

    fn metadata(&mut self, topic: &str) -> MetadataResponse {
        let wanted = metadata::MetadataRequestTopic {
            name: Some(topic.to_owned()),
            ..Default::default()
        };
        self.ask(&MetadataRequest {
            topics: Some(vec![wanted]),
            ..Default::default()
        })
    }

    fn produced(&mut self) -> PartitionProduceResponse {
        let frame = self.receive().expect("an answer");
        decode_produce_response(9, &frame)
            .expect("a response")
            .1
            .responses[0]
            .partition_responses[0]
            .clone()
    }

    fn fetch(&mut self, topic: &str, offset: i64, max_wait_ms: i32) -> Vec<(i64, Vec<u8>)> {
        self.send(&fetch_frame(topic, offset, max_wait_ms));
        fetched(&self.receive().expect("an answer"))
    }
}

fn batch(records: usize, value_bytes: usize, fill: u8) -> Vec<u8> {
    let mut builder = BatchBuilder::new(Vec::new());
    for _ in 0..records {
        builder.push(-1, None, value_bytes, &RecordHeaders::new([]), |out| {
            out.resize(out.len() + value_bytes, fill)
        });
    }
    let mut compressor = Compressor::new(Codec::None, None).expect("a codec");
    builder
        .seal(&mut compressor, &mut Vec::new())
        .expect("a batch")
        .bytes()
        .to_vec()
}

fn produce_frame(topic: &str, acks: i16, batch: &[u8]) -> Vec<u8> {
    let head = ProduceHead {
        correlation_id: 1,
        client_id: None,
        version: 9,
        transactional_id: None,
        acks,
        timeout_ms: 1000,
    };
    let partitions = [ProducePartition {
        index: 0,
        batch_bytes: batch.len(),
    }];
    let topics = [ProduceTopic {
        name: topic,
        topic_id: wire::Uuid::ZERO,
        partitions: &partitions,
    }];
    let (mut out, mut cuts) = (Vec::new(), Vec::new());
    encode_produce_request(&head, &topics, &mut out, &mut cuts);
    let tail = out.split_off(cuts[0]);
    [&out, batch, &tail].concat()
}

fn fetch_frame(topic: &str, fetch_offset: i64, max_wait_ms: i32) -> Vec<u8> {
    let partition = FetchPartition {
        fetch_offset,
        partition_max_bytes: 50 << 20,
        ..Default::default()
    };
    let topics = vec![FetchTopic {
        topic: topic.to_owned(),
        partitions: vec![partition],
        ..Default::default()
    }];
    encode_fetch_request(
        1,
        None,
        12,
        &FetchRequest {
            max_wait_ms,
            min_bytes: 1,
            topics,
            ..Default::default()
        },
    )
}

/// (offset, value) of each record.
fn fetched(frame: &[u8]) -> Vec<(i64, Vec<u8>)> {
    let response = FetchResponseRef::decode(12, frame).expect("a response");
    let partition = &response.partitions[0];
    assert_eq!(partition.error_code, ErrorCode::NONE);
    let mut records = Vec::new();
    for batch in batches(partition.records) {
        let batch = batch.expect("a batch");
        batch.check_crc().expect("undamaged");
        let mut scratch = Vec::new();
        for record in batch.records(&mut scratch, 0).expect("not compressed") {
            let record = record.expect("a record");
            records.push((
                batch.base_offset() + i64::from(record.offset_delta),
                record.value.unwrap_or_default().to_vec(),
            ));
        }
    }
    records
}

fn brokers(brokers: usize, threads: usize) -> Handle {
    start(Config {
        brokers,
        threads,
        ..Config::default()
    })
    .expect("started")
}

#[test]
fn records_go_in_and_come_out_whatever_their_size() {
    let handle = brokers(1, 2);
    let mut client = Client::connect(handle.addresses()[0]);
    client.create("t", 1, 1);
    let sizes = [
        (1, 10),
        (3, 5_000),
        (200, 1000),
        (1, 1_000_000),
        (1000, 100),
        (1, 0),
    ];
    let mut expected = Vec::new();
    for (fill, (records, value_bytes)) in sizes.into_iter().enumerate() {
        client.send(&produce_frame("t", 1, &batch(records, value_bytes, fill as u8)));
        let produced = client.produced();
        assert_eq!(
            (produced.error_code, produced.base_offset),
            (ErrorCode::NONE, expected.len() as i64)
        );
        for _ in 0..records {
            expected.push((expected.len() as i64, vec![fill as u8; value_bytes]));
        }
    }
    // From another connection, which another thread serves.
    assert!(Client::connect(handle.addresses()[0]).fetch("t", 0, 0) == expected);
    assert_eq!(client.fetch("t", 1205, 0), [(1205, Vec::new())]);
}

#[test]
fn requests_may_be_pipelined_and_come_in_pieces() {
    let handle = brokers(1, 1);
    let mut client = Client::connect(handle.addresses()[0]);
    client.create("t", 1, 1);
    let frames: Vec<u8> = (0..100)
        .flat_map(|number| produce_frame("t", 1, &batch(1, 100 + number * 20, number as u8)))
        .collect();
    for piece in frames.chunks(7001) {
        client.send(piece);
    }
    for number in 0..100 {
        assert_eq!(client.produced().base_offset, number);
    }
    assert_eq!(client.fetch("t", 0, 0).len(), 100);
}

#[test]
fn a_waiting_fetch_is_woken_by_a_producer_on_another_thread() {
    let handle = brokers(1, 2);
    let mut producer = Client::connect(handle.addresses()[0]);
    let mut consumer = Client::connect(handle.addresses()[0]);
    producer.create("t", 1, 1);
    let begun = Instant::now();
    consumer.send(&fetch_frame("t", 0, 15_000));
    producer.send(&produce_frame("t", -1, &batch(2, 5, 1)));
    assert_eq!(producer.produced().error_code, ErrorCode::NONE);
    assert_eq!(fetched(&consumer.receive().expect("an answer")).len(), 2);
    assert!(
        begun.elapsed() < Duration::from_secs(10),
        "not only when the time is up"
    );

    // And nothing comes before the time is up where there is nothing.
    let begun = Instant::now();
    assert_eq!(consumer.fetch("t", 2, 300), []);
    assert!(begun.elapsed() >= Duration::from_millis(300));
}

#[test]
fn a_stopped_broker_is_gone_until_it_is_started_again() {
    let handle = brokers(3, 2);
    let addresses = handle.addresses().to_vec();
    assert_eq!(handle.bootstrap().split(',').count(), 3);
    let mut client = Client::connect(addresses[0]);
    client.create("t", 1, 3);
    let leader = client.metadata("t").topics[0].partitions[0].leader_id;
    let mut to_leader = Client::connect(addresses[leader as usize - 1]);
    to_leader.send(&produce_frame("t", -1, &batch(1, 10, 1)));
    assert_eq!(to_leader.produced().base_offset, 0);

    handle.stop_broker(leader).expect("a broker");
    assert!(to_leader.receive().is_err(), "its connections are closed");
    assert!(
        TcpStream::connect(addresses[leader as usize - 1]).is_err(),
        "it does not listen"
    );
    let other = leader % 3 + 1;
    let mut client = Client::connect(addresses[other as usize - 1]);
    let seen = client.metadata("t");
    assert_eq!(seen.brokers.len(), 2);
    let moved = &seen.topics[0].partitions[0];
    assert_ne!(moved.leader_id, leader);
    assert_eq!(
        (
            moved.leader_epoch,
            moved.isr_nodes.len(),
            moved.offline_replicas.clone()
        ),
        (1, 2, vec![leader])
    );
    let mut to_new = Client::connect(addresses[moved.leader_id as usize - 1]);
    assert_eq!(
        to_new.fetch("t", 0, 0).len(),
        1,
        "what was acknowledged is still there"
    );

    handle.start_broker(leader).expect("the same address");
    handle.start_broker(leader).expect("again does no harm");
    let mut back = Client::connect(addresses[leader as usize - 1]);
    assert_eq!(back.metadata("t").topics[0].partitions[0].isr_nodes.len(), 3);
    assert!(
        handle.stop_broker(4).is_err()
            && handle.start_broker(0).is_err()
            && handle.pause_replication(i32::MIN).is_err()
    );
}

#[test]
fn paused_followers_hold_acks_all_until_they_go_on() {
    let handle = brokers(2, 2);
    let mut client = Client::connect(handle.addresses()[0]);
    client.create("t", 1, 2);
    let leader = client.metadata("t").topics[0].partitions[0].leader_id;
    let mut to_leader = Client::connect(handle.addresses()[leader as usize - 1]);
    handle.pause_replication(3 - leader).expect("a broker");
    to_leader.send(&produce_frame("t", -1, &batch(1, 10, 1)));
    assert_eq!(to_leader.produced().error_code, ErrorCode::REQUEST_TIMED_OUT);
    to_leader.send(&produce_frame("t", -1, &batch(1, 10, 1)));
    handle.resume_replication(3 - leader).expect("a broker");
    assert_eq!(to_leader.produced().error_code, ErrorCode::NONE);
}

#[test]
fn many_clients_at_once_lose_nothing() {
    let handle = brokers(1, 3);
    let address = handle.addresses()[0];
    Client::connect(address).create("t", 1, 1);
    let produce = |number: u8| {
        let mut client = Client::connect(address);
        let mut sent = Vec::new();
        for round in 0..100_usize {
            let records = 1 + (round * 7 + usize::from(number)) % 30;
            client.send(&produce_frame("t", -1, &batch(records, 50 + round * 30, number)));
            let produced = client.produced();
            assert_eq!(produced.error_code, ErrorCode::NONE);
            sent.push((produced.base_offset, records as i64));
        }
        sent
    };
    let consume = |total: i64| {
        let mut client = Client::connect(address);
        let mut next = 0;
        while next < total {
            for (offset, _) in client.fetch("t", next, 1000) {
                assert_eq!(offset, next);
                next += 1;
            }
        }
        next
    };
    let mut total = 0;
    for number in 0..6_usize {
        total += (0..100)
            .map(|round| 1 + (round * 7 + number as i64) % 30)
            .sum::<i64>();
    }
    std::thread::scope(|scope| {
        let consumers: Vec<_> = (0..2).map(|_| scope.spawn(|| consume(total))).collect();
        let producers: Vec<_> = (0..6)
            .map(|number| scope.spawn(move || produce(number)))
            .collect();
        let mut ranges: Vec<(i64, i64)> = producers
            .into_iter()
            .flat_map(|producer| producer.join().expect("no panic"))
            .collect();
        ranges.sort_unstable();
        let end = ranges.iter().fold(0, |next, (base, count)| {
            assert_eq!(*base, next, "offsets neither overlap nor leave gaps");
            next + count
        });
        assert_eq!(end, total);
        for consumer in consumers {
            assert_eq!(consumer.join().expect("no panic"), total);
        }
    });
}

#[test]
fn what_is_no_kafka_request_ends_the_connection_and_nothing_else() {
    let handle = brokers(1, 1);
    let mut good = Client::connect(handle.addresses()[0]);
    for bytes in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        &[0xff; 8],
        &[0, 0, 0, 2, 9, 9],
        &[0, 0, 0, 0],
    ] {
        let mut client = Client::connect(handle.addresses()[0]);
        client.send(bytes);
        assert!(client.receive().is_err());
    }
    assert_eq!(
        good.ask(&ApiVersionsRequest::default()).error_code,
        ErrorCode::NONE
    );
}

#[test]
fn a_port_that_is_taken_is_an_error_with_the_address() {
    let handle = brokers(1, 1);
    let listen = handle.addresses()[0];
    let Err(StartError::Listen { address, .. }) = start(Config {
        listen,
        ..Config::default()
    }) else {
        panic!("it cannot listen there");
    };
    assert_eq!(address, listen);
    handle.shutdown();
    start(Config {
        listen,
        ..Config::default()
    })
    .expect("free again")
    .shutdown();
}

/// Whether the broker has closed it: it reads as ended.
fn is_closed(stream: &mut TcpStream) -> bool {
    stream.set_nonblocking(true).expect("a mode");
    let mut byte = [0];
    let read = stream.read(&mut byte);
    matches!(read, Ok(0)) || read.is_err_and(|error| error.kind() == io::ErrorKind::ConnectionReset)
}

#[test]
fn connections_that_never_ask_are_closed_in_time_and_cost_the_others_nothing() {
    let brokers = start(Config {
        threads: 2,
        properties: [("connections.max.idle.ms".to_owned(), "400".to_owned())].into(),
        ..Config::default()
    })
    .expect("brokers start");
    let address = brokers.addresses()[0];
    let mut silent: Vec<TcpStream> = (0..300)
        .map(|_| TcpStream::connect(address).expect("it listens"))
        .collect();
    // These come later than the silent ones, however long those took. One sends a byte now and then of a request that is
    // never whole.
    let mut working = Client::connect(address);
    // Before it connects, so that whatever holds this thread up cannot make its time seem short.
    let began = Instant::now();
    let mut dripping = TcpStream::connect(address).expect("it listens");
    dripping.write_all(&[0, 0, 1, 0]).expect("written");
    let mut asked = 0;
    let mut slowest = Duration::ZERO;
    while !(silent.iter_mut().all(is_closed) && is_closed(&mut dripping)) {
        assert!(began.elapsed() < PATIENCE, "they are still open");
        // It may be closed by now.
        let _ = dripping.write(&[7]);
        let sent = Instant::now();
        working.ask(&ApiVersionsRequest::default());
        slowest = slowest.max(sent.elapsed());
        asked += 1;
    }
    assert!(began.elapsed() >= Duration::from_millis(400), "closed too early");
    assert!(asked > 10, "{asked}");
    assert!(slowest < Duration::from_secs(1), "{slowest:?}");
    working.ask(&ApiVersionsRequest::default());
}
