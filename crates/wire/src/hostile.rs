//! Peers that announce more than they send. Every length and every count of every message in every version is replaced by
//! an enormous one; decoding must fail, quickly, and without taking memory for what was announced.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::codec::{Layout, LengthAt, Message, Reader, Writer};
use crate::messages::for_each_request;
use crate::sample::{Sample, Source};

/// No decoder may be busier than this with a message of a few hundred bytes.
const LONGEST: Duration = Duration::from_secs(1);

/// What a hostile peer writes in place of a length that took `plain_bytes`.
fn claims(layout: Layout, plain_bytes: usize) -> Vec<Vec<u8>> {
    if layout.flexible {
        return vec![
            vec![0xff, 0xff, 0xff, 0xff, 0x0f],
            vec![0x80, 0x80, 0x80, 0x80, 0x08],
            vec![0xff, 0xff, 0xff, 0xff, 0x07],
            vec![0xff, 0xff, 0x03],
        ];
    }
    match plain_bytes {
        2 => vec![i16::MAX.to_be_bytes().to_vec(), i16::MIN.to_be_bytes().to_vec()],
        _ => vec![
            i32::MAX.to_be_bytes().to_vec(),
            i32::MIN.to_be_bytes().to_vec(),
            0x00ff_ffff_i32.to_be_bytes().to_vec(),
        ],
    }
}

fn quickly<T>(what: &str, decode: impl FnOnce() -> T) -> T {
    let start = Instant::now();
    let decoded = decode();
    let took = start.elapsed();
    assert!(took < LONGEST, "{what} took {took:?}");
    decoded
}

fn check<M: Message + Sample>() {
    for version in M::VERSIONS {
        let layout = Layout::new(version, M::FLEXIBLE_FROM);
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes);
        M::sample(layout, &mut Source::full()).write(layout, &mut writer);
        let lengths = writer.lengths;
        for LengthAt { start, end } in lengths {
            for claim in claims(layout, end - start) {
                let hostile = [&bytes[..start], &claim, &bytes[end..]].concat();
                let what = format!("version {version}, {claim:02x?} at byte {start}");
                let decoded = quickly(&what, || M::decode(version, &mut Reader::new(&hostile)));
                assert!(decoded.is_err(), "{what} was taken for a message");
            }
        }
    }
}

/// For the decoders that borrow: every place of a valid message is tried, since any may be a length.
fn check_everywhere<T>(layout: Layout, bytes: &[u8], decode: impl Fn(&[u8]) -> T) {
    for start in 0..bytes.len() {
        for plain_bytes in [2, 4] {
            let taken = if layout.flexible { 1 } else { plain_bytes };
            for claim in claims(layout, plain_bytes) {
                let rest = bytes.get(start + taken..).unwrap_or_default();
                let hostile = [&bytes[..start], &claim, rest].concat();
                quickly(&format!("{claim:02x?} at byte {start}"), || decode(&hostile));
            }
        }
    }
}

macro_rules! hostile_tests {
    ($($name:ident: $path:path;)*) => {$(
        #[test]
        #[allow(non_snake_case, reason = "named as the message is")]
        fn $name() {
            super::check::<$path>();
        }
    )*};
}

macro_rules! pairs {
    ($($request:ident $response:ident,)*) => {
        hostile_tests! { $($request: crate::messages::$request; $response: crate::messages::$response;)* }
    };
}

/// These pass without a limit on memory too; the test below runs them all again under one.
mod claims_of {
    use super::*;
    use crate::fetch::{
        self, AbortedTransaction, EpochEndOffset, FetchRequest, FetchResponseHead, FetchResponsePartition,
        FetchResponseRef, FetchResponseTopic, encode_fetch_response,
    };
    use crate::leader_hints::{LeaderIdAndEpoch, NodeEndpoint};
    use crate::produce::{
        self, ProduceHead, ProducePartition, ProduceRequestRef, ProduceResponse, ProduceTopic,
        encode_produce_request,
    };
    use crate::{ErrorCode, Uuid, header};

    for_each_request!(pairs);

    hostile_tests! {
        ProduceResponse: ProduceResponse;
        FetchRequest: FetchRequest;
        ConsumerProtocolSubscription: crate::consumer_protocol::ConsumerProtocolSubscription;
        ConsumerProtocolAssignment: crate::consumer_protocol::ConsumerProtocolAssignment;
    }

    #[test]
    #[allow(non_snake_case, reason = "named as the message is")]
    fn ProduceRequest_borrowed() {
        for version in produce::VERSIONS {
            let head = ProduceHead {
                correlation_id: 1,
                client_id: Some("c"),
                version,
                transactional_id: Some("t"),
                acks: -1,
                timeout_ms: 1,
            };
            let partitions = [ProducePartition {
                index: 0,
                batch_bytes: 0,
            }; 2];
            let topic = ProduceTopic {
                name: "n",
                topic_id: Uuid([7; 16]),
                partitions: &partitions,
            };
            let mut frame = Vec::new();
            encode_produce_request(&head, &[topic; 2], &mut frame, &mut Vec::new());
            let decode = |frame: &[u8]| {
                let (header, mut body) = header::decode_request_header(frame).ok()?;
                ProduceRequestRef::decode(header.api_version, &mut body)
                    .ok()
                    .map(drop)
            };
            assert_eq!(decode(&frame[4..]), Some(()), "version {version}");
            check_everywhere(Layout::new(version, produce::FLEXIBLE_FROM), &frame[4..], decode);
            // The count of topics stands behind client id, transactional id, acks and timeout.
            let count_at = if version >= 9 { 26 - 4 } else { 28 - 4 };
            for claim in claims(Layout::new(version, produce::FLEXIBLE_FROM), 4) {
                let end = count_at + if version >= 9 { 1 } else { 4 };
                let hostile = [&frame[4..4 + count_at], &claim, &frame[4 + end..]].concat();
                assert_eq!(decode(&hostile), None, "version {version}");
            }
        }
    }

    #[test]
    #[allow(non_snake_case, reason = "named as the message is")]
    fn FetchResponse_borrowed() {
        for version in fetch::VERSIONS {
            let endpoint = NodeEndpoint {
                host: "h".to_owned(),
                ..Default::default()
            };
            let head = FetchResponseHead {
                correlation_id: 1,
                version,
                throttle_time_ms: 0,
                error_code: ErrorCode::NONE,
                session_id: 0,
                node_endpoints: &[endpoint],
            };
            let aborted = [AbortedTransaction::default()];
            let partition = FetchResponsePartition {
                index: 0,
                error_code: ErrorCode::NONE,
                high_watermark: 0,
                last_stable_offset: 0,
                log_start_offset: 0,
                diverging_epoch: Some(&EpochEndOffset {
                    epoch: 1,
                    end_offset: 2,
                }),
                current_leader: Some(&LeaderIdAndEpoch {
                    leader_id: 1,
                    leader_epoch: 2,
                }),
                aborted_transactions: Some(&aborted),
                preferred_read_replica: -1,
                records_bytes: 0,
            };
            let topic = FetchResponseTopic {
                name: "n",
                topic_id: Uuid([7; 16]),
                partitions: &[partition; 2],
            };
            let mut frame = Vec::new();
            encode_fetch_response(&head, &[topic; 2], &mut frame, &mut Vec::new());
            let layout = Layout::new(version, fetch::FLEXIBLE_FROM);
            let decode = |frame: &[u8]| FetchResponseRef::decode(version, frame).is_ok();
            assert!(decode(&frame[4..]), "version {version}");
            check_everywhere(layout, &frame[4..], decode);
            // The count of topics stands behind the header, the throttle time, and from version 7 on error and session.
            let count_at = 4 + usize::from(layout.flexible) + 4 + if version >= 7 { 6 } else { 0 };
            for claim in claims(layout, 4) {
                let end = count_at + layout.count_bytes();
                let hostile = [&frame[4..4 + count_at], &claim, &frame[4 + end..]].concat();
                assert!(!decode(&hostile), "version {version}");
            }
        }
    }
}

#[test]
fn no_claim_takes_memory() {
    // 600 MB of address space: less than any claim of 2^31 elements or bytes would take.
    let limited = "ulimit -v 600000 && ulimit -v && exec \"$0\" \"$@\"";
    let output = Command::new("sh")
        .args(["-c", limited])
        .arg(std::env::current_exe().expect("the path of this test's executable"))
        .args(["--test-threads=1", "hostile::claims_of::"])
        .output()
        .expect("a shell");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.starts_with("600000\n"), "the limit is not in force: {text}");
    assert!(
        output.status.success(),
        "{text}\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(
        text.contains("test hostile::claims_of::MetadataRequest ... ok"),
        "nothing ran: {text}"
    );
}
