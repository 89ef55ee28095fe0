//! Holds every message in every version against another implementation of the protocol: what is encoded here must be
//! decoded there, encoded again there, and come back here as what it was, byte for byte.

use bytes::{Bytes, BytesMut};
use kafka_protocol::protocol::{Decodable, Encodable, Message as TheirMessage};
use proptest::prelude::*;

use crate::codec::{Layout, Message, Reader};
use crate::messages::for_each_request;
use crate::sample::{Sample, Source};

/// A message of every version, made of `choices`.
fn check<Ours: Message + Sample, Theirs: Decodable + Encodable + TheirMessage>(choices: &[u8]) {
    for version in Ours::VERSIONS {
        let layout = Layout::new(version, Ours::FLEXIBLE_FROM);
        let message = Ours::sample(layout, &mut Source::new(choices));
        let mut bytes = Vec::new();
        message.encode(version, &mut bytes);
        let mut reader = Reader::new(&bytes);
        assert_eq!(
            Ours::decode(version, &mut reader).as_ref(),
            Ok(&message),
            "version {version}"
        );
        assert_eq!(reader.finish(), Ok(()), "version {version}");

        let known_there = Theirs::VERSIONS.min <= version && version <= Theirs::VERSIONS.max;
        assert!(known_there, "version {version} has no second opinion");
        let mut input = Bytes::from(bytes.clone());
        let theirs = Theirs::decode(&mut input, version).expect("they read what is written here");
        assert!(
            input.is_empty(),
            "version {version}: they leave {} bytes",
            input.len()
        );
        let mut output = BytesMut::new();
        theirs
            .encode(&mut output, version)
            .expect("they write what they have read");
        assert_eq!(output, bytes, "version {version}: {message:?}");
    }
}

/// Whatever the bytes, decoding ends in a message or in an error.
fn check_damaged<Ours: Message + Sample>(choices: &[u8], damage: &[(usize, u8)], cut: usize) {
    for version in Ours::VERSIONS {
        let layout = Layout::new(version, Ours::FLEXIBLE_FROM);
        let mut bytes = Vec::new();
        Ours::sample(layout, &mut Source::new(choices)).encode(version, &mut bytes);
        for &(place, value) in damage {
            let len = bytes.len().max(1);
            if let Some(byte) = bytes.get_mut(place % len) {
                *byte = value;
            }
        }
        bytes.truncate(bytes.len() - cut % (bytes.len() + 1));
        let _ = Ours::decode(version, &mut Reader::new(&bytes));
        let _ = Ours::decode(version, &mut Reader::new(choices));
    }
}

macro_rules! message_tests {
    ($($ours:ident: $path:path = $theirs:path;)*) => {$(
        #[allow(non_snake_case, reason = "named as the message is")]
        mod $ours {
            use super::*;

            proptest! {
                #![proptest_config(ProptestConfig::with_cases(48))]

                #[test]
                fn both_implementations_agree(choices in prop::collection::vec(any::<u8>(), 0..600)) {
                    check::<$path, $theirs>(&choices);
                }

                #[test]
                fn no_bytes_make_the_decoder_panic(
                    choices in prop::collection::vec(any::<u8>(), 0..300),
                    damage in prop::collection::vec(any::<(usize, u8)>(), 0..6),
                    cut: usize,
                ) {
                    check_damaged::<$path>(&choices, &damage, cut);
                }
            }
        }
    )*};
}

macro_rules! pairs {
    ($($request:ident $response:ident,)*) => {
        message_tests! {
            $($request: crate::messages::$request = kafka_protocol::messages::$request;
            $response: crate::messages::$response = kafka_protocol::messages::$response;)*
        }
    };
}

for_each_request!(pairs);

message_tests! {
    ProduceResponse: crate::produce::ProduceResponse = kafka_protocol::messages::ProduceResponse;
    FetchRequest: crate::fetch::FetchRequest = kafka_protocol::messages::FetchRequest;
    ConsumerProtocolSubscription:
        crate::consumer_protocol::ConsumerProtocolSubscription =
        kafka_protocol::messages::ConsumerProtocolSubscription;
    ConsumerProtocolAssignment:
        crate::consumer_protocol::ConsumerProtocolAssignment =
        kafka_protocol::messages::ConsumerProtocolAssignment;
}

/// Produce requests and Fetch responses, whose records are not part of the message here but are there.
mod with_records {
    use super::*;
    use crate::cuts::pieces;
    use crate::fetch::{self, AbortedTransaction, EpochEndOffset, FetchPartitionRef};
    use crate::leader_hints::{LeaderIdAndEpoch, NodeEndpoint};
    use crate::produce::{self, ProduceHead, ProducePartition, ProduceRequestRef, ProduceTopic};
    use crate::{ErrorCode, Uuid, header};
    use kafka_protocol::messages as theirs;

    /// A topic's name, its id, and the records of each of its partitions.
    type Topics = Vec<(String, [u8; 16], Vec<(i32, Vec<u8>)>)>;

    fn topics() -> impl Strategy<Value = Topics> {
        let partitions =
            prop::collection::vec((any::<i32>(), prop::collection::vec(any::<u8>(), 0..300)), 0..4);
        prop::collection::vec(("[a-z.]{0,12}", any::<[u8; 16]>(), partitions), 0..4)
    }

    /// The frame as it is sent, without its length, which must be right.
    fn assemble(frame: &[u8], cuts: &[usize], topics: &Topics) -> Vec<u8> {
        let records = topics
            .iter()
            .flat_map(|(.., partitions)| partitions)
            .map(|(_, records)| &records[..]);
        let sent = pieces(frame, cuts, records).collect::<Vec<_>>().concat();
        assert_eq!(sent[..4], (sent.len() as i32 - 4).to_be_bytes());
        sent[4..].to_vec()
    }

    proptest! {
        #[test]
        fn produce_requests(
            topics in topics(),
            transactional_id in prop::option::of("[a-z]{0,9}"),
            acks in -1i16..=1,
            timeout_ms: i32,
            version in produce::VERSIONS,
        ) {
            let transactional_id = transactional_id.as_deref();
            let head = ProduceHead {
                correlation_id: 77, client_id: Some("me"), version, transactional_id, acks, timeout_ms
            };
            let partitions: Vec<Vec<ProducePartition>> = topics
                .iter()
                .map(|(.., partitions)| {
                    let place = |(index, records): &(i32, Vec<u8>)| {
                        ProducePartition { index: *index, batch_bytes: records.len() }
                    };
                    partitions.iter().map(place).collect()
                })
                .collect();
            let ours: Vec<ProduceTopic<'_>> = topics
                .iter()
                .zip(&partitions)
                .map(|((name, id, _), partitions)| ProduceTopic { name, topic_id: Uuid(*id), partitions })
                .collect();
            let (mut frame, mut cuts) = (Vec::new(), Vec::new());
            produce::encode_produce_request(&head, &ours, &mut frame, &mut cuts);
            let sent = assemble(&frame, &cuts, &topics);

            let mut input = Bytes::from(sent.clone());
            let header_version = theirs::ApiKey::Produce.request_header_version(version);
            let header = theirs::RequestHeader::decode(&mut input, header_version).unwrap();
            prop_assert_eq!((header.correlation_id, header.request_api_version), (77, version));
            let request = theirs::ProduceRequest::decode(&mut input, version).unwrap();
            prop_assert!(input.is_empty());
            prop_assert_eq!(request.acks, acks);
            let mut again = BytesMut::new();
            header.encode(&mut again, header_version).unwrap();
            request.encode(&mut again, version).unwrap();
            prop_assert_eq!(&again, &sent);

            let (header, mut body) = header::decode_request_header(&sent).unwrap();
            prop_assert_eq!(header.client_id, Some("me"));
            let read = ProduceRequestRef::decode(version, &mut body).unwrap();
            prop_assert_eq!(
                (read.transactional_id, read.acks, read.timeout_ms),
                (transactional_id, acks, timeout_ms)
            );
            let mut read = read.partitions.iter();
            for (name, id, partitions) in &topics {
                for (index, records) in partitions {
                    let partition = read.next().unwrap();
                    let expected = if version < 13 { (&name[..], Uuid::ZERO) } else { ("", Uuid(*id)) };
                    prop_assert_eq!((partition.topic, partition.topic_id), expected);
                    prop_assert_eq!(partition.index, *index);
                    prop_assert_eq!(&sent[partition.records.clone().unwrap()], &records[..]);
                }
            }
            prop_assert_eq!(read.next(), None);
        }

        #[test]
        fn fetch_responses(
            topics in topics(),
            choices in prop::collection::vec(any::<u8>(), 0..200),
            version in fetch::VERSIONS,
        ) {
            let layout = Layout::new(version, fetch::FLEXIBLE_FROM);
            let source = &mut Source::new(&choices);
            let node_endpoints: Vec<NodeEndpoint> =
                if version >= 16 { Sample::sample(layout, source) } else { Vec::new() };
            let aborted_transactions: Option<Vec<AbortedTransaction>> = Sample::sample(layout, source);
            let hint = layout.flexible.then_some(());
            let diverging_epoch: Option<EpochEndOffset> =
                hint.and_then(|()| Sample::sample(layout, source));
            let current_leader: Option<LeaderIdAndEpoch> =
                hint.and_then(|()| Sample::sample(layout, source));
            // There, a hint with nothing in it is the same as no hint.
            let diverging_epoch = diverging_epoch.filter(|epoch| *epoch != EpochEndOffset::default());
            let current_leader = current_leader.filter(|leader| *leader != LeaderIdAndEpoch::default());
            let expected: Vec<FetchPartitionRef<'_>> = topics
                .iter()
                .flat_map(|(name, id, partitions)| partitions.iter().map(move |records| (name, id, records)))
                .map(|(name, id, (index, records))| FetchPartitionRef {
                    topic: if version < 13 { name } else { "" },
                    topic_id: if version < 13 { Uuid::ZERO } else { Uuid(*id) },
                    index: *index,
                    error_code: Sample::sample(layout, source),
                    high_watermark: Sample::sample(layout, source),
                    last_stable_offset: Sample::sample(layout, source),
                    log_start_offset: if version < 5 { -1 } else { Sample::sample(layout, source) },
                    diverging_epoch: diverging_epoch.clone(),
                    current_leader: current_leader.clone(),
                    aborted_transactions: aborted_transactions.clone().unwrap_or_default(),
                    preferred_read_replica: if version < 11 { -1 } else { Sample::sample(layout, source) },
                    records,
                })
                .collect();
            let partitions: Vec<fetch::FetchResponsePartition<'_>> = expected
                .iter()
                .map(|partition| fetch::FetchResponsePartition {
                    index: partition.index,
                    error_code: partition.error_code,
                    high_watermark: partition.high_watermark,
                    last_stable_offset: partition.last_stable_offset,
                    log_start_offset: partition.log_start_offset,
                    diverging_epoch: diverging_epoch.as_ref(),
                    current_leader: current_leader.as_ref(),
                    aborted_transactions: aborted_transactions.as_deref(),
                    preferred_read_replica: partition.preferred_read_replica,
                    records_bytes: partition.records.len(),
                })
                .collect();
            let mut rest = &partitions[..];
            let ours: Vec<fetch::FetchResponseTopic<'_>> = topics
                .iter()
                .map(|(name, id, records)| {
                    let (partitions, later) = rest.split_at(records.len());
                    rest = later;
                    fetch::FetchResponseTopic { name, topic_id: Uuid(*id), partitions }
                })
                .collect();
            let head = fetch::FetchResponseHead {
                correlation_id: 78,
                version,
                throttle_time_ms: 5,
                error_code: if version < 7 { ErrorCode::NONE } else { ErrorCode(70) },
                session_id: if version < 7 { 0 } else { 9 },
                node_endpoints: &node_endpoints,
            };
            let (mut frame, mut cuts) = (Vec::new(), Vec::new());
            fetch::encode_fetch_response(&head, &ours, &mut frame, &mut cuts);
            let sent = assemble(&frame, &cuts, &topics);

            let mut input = Bytes::from(sent.clone());
            let header_version = theirs::ApiKey::Fetch.response_header_version(version);
            let header = theirs::ResponseHeader::decode(&mut input, header_version).unwrap();
            let response = theirs::FetchResponse::decode(&mut input, version).unwrap();
            prop_assert!(input.is_empty());
            let mut again = BytesMut::new();
            header.encode(&mut again, header_version).unwrap();
            response.encode(&mut again, version).unwrap();
            prop_assert_eq!(&again, &sent);
            let throttle_at = fetch::throttle_time_at(version);
            prop_assert_eq!(&frame[throttle_at..throttle_at + 4], &[0, 0, 0, 5]);

            let read = fetch::FetchResponseRef::decode(version, &sent).unwrap();
            prop_assert_eq!((read.correlation_id, read.throttle_time_ms), (78, 5));
            prop_assert_eq!((read.error_code, read.session_id), (head.error_code, head.session_id));
            prop_assert_eq!(&read.node_endpoints, &node_endpoints);
            prop_assert_eq!(&read.partitions, &expected);
        }

        #[test]
        fn no_bytes_make_the_borrowing_decoders_panic(
            frame in prop::collection::vec(any::<u8>(), 0..300),
            version in 0i16..20,
        ) {
            let _ = fetch::FetchResponseRef::decode(version, &frame);
            let _ = ProduceRequestRef::decode(version, &mut Reader::new(&frame));
            let _ = header::decode_request_header(&frame);
            let _ = produce::decode_produce_response(version, &frame);
        }
    }
}
