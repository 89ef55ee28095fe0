//! Feeds every decoder of the crate: the first byte chooses what the rest is taken for, the second its version.
//!
//! What can be decoded must also be encodable, and come back the same.

#![no_main]

use libfuzzer_sys::fuzz_target;
use wire::batch::Batch;
use wire::consumer_protocol::{self, ConsumerProtocolAssignment, ConsumerProtocolSubscription};
use wire::fetch::{self, FetchRequest, FetchResponseRef};
use wire::messages::*;
use wire::produce::{self, ProduceRequestRef, ProduceResponse};
use wire::{Message, Reader, header};

/// The most that a batch may grow to when it is decompressed, in bytes.
const LIMIT_BYTES: usize = 16 << 20;

type Decoder = fn(u8, &[u8]);

fn message<M: Message>(version: u8, bytes: &[u8]) {
    let versions = M::VERSIONS;
    let count = versions.end() - versions.start() + 1;
    let version = versions.start() + i16::from(version) % count;
    let Ok(message) = M::decode(version, &mut Reader::new(bytes)) else {
        return;
    };
    let mut once = Vec::new();
    message.encode(version, &mut once);
    let mut reader = Reader::new(&once);
    let again = M::decode(version, &mut reader).expect("what was encoded here");
    reader.finish().expect("nothing but the message");
    let mut twice = Vec::new();
    again.encode(version, &mut twice);
    assert_eq!(once, twice);
}

fn produce_request(version: u8, bytes: &[u8]) {
    let version = produce::VERSIONS.start() + i16::from(version) % 11;
    let Ok(request) = ProduceRequestRef::decode(version, &mut Reader::new(bytes)) else {
        return;
    };
    for partition in request.partitions {
        if let Some(records) = partition.records {
            batch(0, &bytes[records]);
        }
    }
}

fn fetch_response(version: u8, bytes: &[u8]) {
    let version = fetch::VERSIONS.start() + i16::from(version) % 15;
    let Ok(response) = FetchResponseRef::decode(version, bytes) else {
        return;
    };
    for partition in response.partitions {
        batch(0, partition.records);
    }
}

fn batch(_: u8, bytes: &[u8]) {
    let Ok(batch) = Batch::parse(bytes) else { return };
    let _ = batch.check_crc();
    let mut scratch = Vec::new();
    if let Ok(records) = batch.records(&mut scratch, LIMIT_BYTES) {
        records.for_each(drop);
    }
}

fn frames(_: u8, bytes: &[u8]) {
    let _ = header::decode_request_header(bytes);
    let _ = consumer_protocol::decode::<ConsumerProtocolSubscription>(bytes);
    let _ = consumer_protocol::decode::<ConsumerProtocolAssignment>(bytes);
}

macro_rules! decoders {
    ($($request:ident, $response:ident;)*) => {
        &[
            batch,
            frames,
            produce_request,
            fetch_response,
            message::<ProduceResponse>,
            message::<FetchRequest>,
            $(message::<$request>, message::<$response>,)*
        ]
    };
}

static DECODERS: &[Decoder] = decoders! {
    AddOffsetsToTxnRequest, AddOffsetsToTxnResponse;
    AddPartitionsToTxnRequest, AddPartitionsToTxnResponse;
    AlterClientQuotasRequest, AlterClientQuotasResponse;
    AlterConfigsRequest, AlterConfigsResponse;
    ApiVersionsRequest, ApiVersionsResponse;
    ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse;
    ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse;
    CreatePartitionsRequest, CreatePartitionsResponse;
    CreateTopicsRequest, CreateTopicsResponse;
    DeleteGroupsRequest, DeleteGroupsResponse;
    DeleteRecordsRequest, DeleteRecordsResponse;
    DeleteTopicsRequest, DeleteTopicsResponse;
    DescribeAclsRequest, DescribeAclsResponse;
    DescribeClientQuotasRequest, DescribeClientQuotasResponse;
    DescribeClusterRequest, DescribeClusterResponse;
    DescribeConfigsRequest, DescribeConfigsResponse;
    DescribeGroupsRequest, DescribeGroupsResponse;
    DescribeLogDirsRequest, DescribeLogDirsResponse;
    DescribeProducersRequest, DescribeProducersResponse;
    DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse;
    DescribeTransactionsRequest, DescribeTransactionsResponse;
    ElectLeadersRequest, ElectLeadersResponse;
    EndTxnRequest, EndTxnResponse;
    FindCoordinatorRequest, FindCoordinatorResponse;
    HeartbeatRequest, HeartbeatResponse;
    IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse;
    InitProducerIdRequest, InitProducerIdResponse;
    JoinGroupRequest, JoinGroupResponse;
    LeaveGroupRequest, LeaveGroupResponse;
    ListGroupsRequest, ListGroupsResponse;
    ListOffsetsRequest, ListOffsetsResponse;
    ListTransactionsRequest, ListTransactionsResponse;
    MetadataRequest, MetadataResponse;
    OffsetCommitRequest, OffsetCommitResponse;
    OffsetDeleteRequest, OffsetDeleteResponse;
    OffsetFetchRequest, OffsetFetchResponse;
    OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse;
    SaslAuthenticateRequest, SaslAuthenticateResponse;
    SaslHandshakeRequest, SaslHandshakeResponse;
    SyncGroupRequest, SyncGroupResponse;
    TxnOffsetCommitRequest, TxnOffsetCommitResponse;
};

fuzz_target!(|data: &[u8]| {
    if let [choice, version, bytes @ ..] = data {
        DECODERS[usize::from(*choice) % DECODERS.len()](*version, bytes);
    }
});
