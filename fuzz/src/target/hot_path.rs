//! Produce and Fetch, whose records are read where they lie.

use super::Target;
use crate::mutation::{Random, damage};
use crate::target::batches::sound_batch;
use wire::codec::Reader;
use wire::fetch::{
    FetchPartition, FetchRequest, FetchResponseHead, FetchResponsePartition, FetchResponseRef,
    FetchResponseTopic, FetchTopic, encode_fetch_request, encode_fetch_response,
};
use wire::header::decode_request_header;
use wire::produce::{
    ProduceHead, ProducePartition, ProduceRequestRef, ProduceTopic, decode_produce_response,
    encode_produce_request,
};
use wire::{ErrorCode, Uuid};

pub fn produce() -> Target {
    Target {
        name: "produce",
        input: |random| {
            let version = 3 + random.below(11) as i16;
            let mut frame = produce_frame(random, version);
            frame.drain(..4);
            damage(&mut frame, random);
            [&[version as u8], &frame[..]].concat()
        },
        run: Box::new(|input| {
            let [version, bytes @ ..] = input else { return };
            let version = i16::from(*version).clamp(3, 13);
            if let Ok((_, mut body)) = decode_request_header(bytes)
                && let Ok(request) = ProduceRequestRef::decode(version, &mut body)
            {
                for range in request
                    .partitions
                    .iter()
                    .filter_map(|partition| partition.records.clone())
                {
                    assert!(range.start <= range.end && range.end <= bytes.len(), "{range:?}");
                }
            }
            let _ = ProduceRequestRef::decode(version, &mut Reader::new(bytes));
            let _ = decode_produce_response(version, bytes);
        }),
    }
}

/// A whole Produce request, length field included.
pub fn produce_frame(random: &mut Random, version: i16) -> Vec<u8> {
    let batches: Vec<Vec<u8>> = (0..1 + random.below(2)).map(|_| sound_batch(random)).collect();
    let head = ProduceHead {
        correlation_id: 7,
        client_id: Some("fuzz"),
        version,
        transactional_id: (random.below(4) == 0).then_some("tx"),
        acks: random.below(3) as i16 - 1,
        timeout_ms: 100,
    };
    let partitions: Vec<ProducePartition> = batches
        .iter()
        .zip(0..)
        .map(|(batch, index)| ProducePartition {
            index,
            batch_bytes: batch.len(),
        })
        .collect();
    let topics = [ProduceTopic {
        name: "t",
        topic_id: Uuid::ZERO,
        partitions: &partitions,
    }];
    let (mut out, mut cuts) = (Vec::new(), Vec::new());
    encode_produce_request(&head, &topics, &mut out, &mut cuts);
    filled(&out, &cuts, &batches)
}

/// A frame with its batches put in.
fn filled(out: &[u8], cuts: &[usize], batches: &[Vec<u8>]) -> Vec<u8> {
    let (mut frame, mut at) = (Vec::new(), 0);
    for (cut, batch) in cuts.iter().zip(batches) {
        frame.extend_from_slice(&out[at..*cut]);
        frame.extend_from_slice(batch);
        at = *cut;
    }
    frame.extend_from_slice(&out[at..]);
    frame
}

pub fn fetch() -> Target {
    Target {
        name: "fetch",
        input: |random| {
            let version = 4 + random.below(15) as i16;
            let is_response = random.below(2) == 0;
            let mut frame = if is_response {
                fetch_response(random, version)
            } else {
                fetch_frame(random, version)
            };
            frame.drain(..4);
            damage(&mut frame, random);
            [&[version as u8, u8::from(is_response)], &frame[..]].concat()
        },
        run: Box::new(|input| {
            let [version, is_response, bytes @ ..] = input else {
                return;
            };
            let version = i16::from(*version).clamp(4, 18);
            if *is_response > 0 {
                if let Ok(response) = FetchResponseRef::decode(version, bytes) {
                    for partition in &response.partitions {
                        super::batches::read_all(partition.records);
                    }
                }
            } else if let Ok((_, mut body)) = decode_request_header(bytes) {
                let _ = wire::header::decode_request_body::<FetchRequest>(version, &mut body);
            }
        }),
    }
}

/// A whole Fetch request, length field included.
pub fn fetch_frame(random: &mut Random, version: i16) -> Vec<u8> {
    let partitions = (0..1 + random.below(3) as i32).map(|partition| FetchPartition {
        partition,
        fetch_offset: random.below(4) as i64,
        partition_max_bytes: 1 << random.below(21),
        ..FetchPartition::default()
    });
    let topic = FetchTopic {
        topic: "t".to_owned(),
        partitions: partitions.collect(),
        ..FetchTopic::default()
    };
    let request = FetchRequest {
        max_wait_ms: random.below(1000) as i32,
        min_bytes: random.below(1000) as i32,
        isolation_level: random.below(2) as i8,
        topics: vec![topic],
        ..FetchRequest::default()
    };
    encode_fetch_request(7, Some("fuzz"), version, &request)
}

fn fetch_response(random: &mut Random, version: i16) -> Vec<u8> {
    let batches: Vec<Vec<u8>> = (0..1 + random.below(3)).map(|_| sound_batch(random)).collect();
    let partitions: Vec<FetchResponsePartition<'_>> = batches
        .iter()
        .zip(0..)
        .map(|(batch, index)| FetchResponsePartition {
            index,
            error_code: ErrorCode::NONE,
            high_watermark: 10,
            last_stable_offset: 10,
            log_start_offset: 0,
            diverging_epoch: None,
            current_leader: None,
            aborted_transactions: Some(&[]),
            preferred_read_replica: -1,
            records_bytes: batch.len(),
        })
        .collect();
    let head = FetchResponseHead {
        correlation_id: 7,
        version,
        throttle_time_ms: 0,
        error_code: ErrorCode::NONE,
        session_id: 0,
        node_endpoints: &[],
    };
    let topics = [FetchResponseTopic {
        name: "t",
        topic_id: Uuid::ZERO,
        partitions: &partitions,
    }];
    let (mut out, mut cuts) = (Vec::new(), Vec::new());
    encode_fetch_response(&head, &topics, &mut out, &mut cuts);
    filled(&out, &cuts, &batches)
}
