//! Produce and Fetch, whose records are read where they lie.

use super::Target;
use crate::mutation::{Random, damage};
use crate::target::batches::sound_batch;
use wire::codec::Reader;
use wire::fetch::{
    AbortedTransaction, EpochEndOffset, FetchPartition, FetchRequest, FetchResponseHead,
    FetchResponsePartition, FetchResponseRef, FetchResponseTopic, FetchTopic, encode_fetch_request,
    encode_fetch_response,
};
use wire::header::decode_request_header;
use wire::leader_hints::{LeaderIdAndEpoch, NodeEndpoint};
use wire::produce::{ProduceHead, ProducePartition, ProduceRequestRef, ProduceTopic, encode_produce_request};
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
                    super::batches::read_all(&bytes[range]);
                }
                produce_comes_back(version, &request, bytes);
            }
            let _ = ProduceRequestRef::decode(version, &mut Reader::new(bytes));
        }),
    }
}

/// Encodes the request again, each partition under a topic of its own, and reads that. What has no records has no form.
fn produce_comes_back(version: i16, request: &ProduceRequestRef<'_>, bytes: &[u8]) {
    let head = ProduceHead {
        correlation_id: 7,
        client_id: None,
        version,
        transactional_id: request.transactional_id,
        acks: request.acks,
        timeout_ms: request.timeout_ms,
    };
    let given = request.partitions.iter();
    let Some(records) = given
        .clone()
        .map(|partition| Some(bytes[partition.records.clone()?].to_vec()))
        .collect::<Option<Vec<_>>>()
    else {
        return;
    };
    let partitions: Vec<_> = given
        .clone()
        .zip(&records)
        .map(|(partition, records)| {
            [ProducePartition {
                index: partition.index,
                batch_bytes: records.len(),
            }]
        })
        .collect();
    let topics: Vec<_> = given
        .zip(&partitions)
        .map(|(partition, partitions)| ProduceTopic {
            name: partition.topic,
            topic_id: partition.topic_id,
            partitions,
        })
        .collect();
    let (mut out, mut cuts) = (Vec::new(), Vec::new());
    encode_produce_request(&head, &topics, &mut out, &mut cuts);
    let frame = filled(&out, &cuts, &records);
    let (_, mut body) = decode_request_header(&frame[4..]).expect("our own header");
    let mut again = ProduceRequestRef::decode(version, &mut body).expect("our own request");
    let again_records: Vec<_> = again
        .partitions
        .iter()
        .map(|partition| partition.records.clone().map(|range| frame[4..][range].to_vec()))
        .collect();
    assert_eq!(again_records, records.into_iter().map(Some).collect::<Vec<_>>());
    for (partition, given) in again.partitions.iter_mut().zip(&request.partitions) {
        partition.records.clone_from(&given.records);
    }
    assert_eq!(again, *request, "version {version} does not come back");
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
                    fetch_comes_back(version, &response);
                }
            } else if let Ok((_, mut body)) = decode_request_header(bytes) {
                let _ = wire::header::decode_request_body::<FetchRequest>(version, &mut body);
            }
        }),
    }
}

/// Encodes the response again, each partition under a topic of its own, and reads that.
fn fetch_comes_back(version: i16, response: &FetchResponseRef<'_>) {
    let head = FetchResponseHead {
        correlation_id: response.correlation_id,
        version,
        throttle_time_ms: response.throttle_time_ms,
        error_code: response.error_code,
        session_id: response.session_id,
        node_endpoints: &response.node_endpoints,
    };
    let given = response.partitions.iter();
    let records: Vec<_> = given
        .clone()
        .map(|partition| partition.records.to_vec())
        .collect();
    let partitions: Vec<_> = given
        .clone()
        .map(|partition| {
            [FetchResponsePartition {
                index: partition.index,
                error_code: partition.error_code,
                high_watermark: partition.high_watermark,
                last_stable_offset: partition.last_stable_offset,
                log_start_offset: partition.log_start_offset,
                diverging_epoch: partition.diverging_epoch.as_ref(),
                current_leader: partition.current_leader.as_ref(),
                aborted_transactions: Some(&partition.aborted_transactions),
                preferred_read_replica: partition.preferred_read_replica,
                records_bytes: partition.records.len(),
            }]
        })
        .collect();
    let topics: Vec<_> = given
        .zip(&partitions)
        .map(|(partition, partitions)| FetchResponseTopic {
            name: partition.topic,
            topic_id: partition.topic_id,
            partitions,
        })
        .collect();
    let (mut out, mut cuts) = (Vec::new(), Vec::new());
    encode_fetch_response(&head, &topics, &mut out, &mut cuts);
    let frame = filled(&out, &cuts, &records);
    let again = FetchResponseRef::decode(version, &frame[4..]);
    assert_eq!(
        again.as_ref(),
        Ok(response),
        "version {version} does not come back"
    );
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
    let aborted = vec![AbortedTransaction::default(); random.below(3)];
    let diverging = EpochEndOffset {
        epoch: 1,
        end_offset: 2,
    };
    let leader = LeaderIdAndEpoch {
        leader_id: 1,
        leader_epoch: 2,
    };
    let endpoints = vec![
        NodeEndpoint {
            host: "h".to_owned(),
            ..NodeEndpoint::default()
        };
        random.below(3)
    ];
    let partitions: Vec<FetchResponsePartition<'_>> = batches
        .iter()
        .zip(0..)
        .map(|(batch, index)| FetchResponsePartition {
            index,
            error_code: ErrorCode::NONE,
            high_watermark: 10,
            last_stable_offset: 10,
            log_start_offset: 0,
            diverging_epoch: (index == 1).then_some(&diverging),
            current_leader: (index == 1).then_some(&leader),
            aborted_transactions: Some(&aborted),
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
        node_endpoints: &endpoints,
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
