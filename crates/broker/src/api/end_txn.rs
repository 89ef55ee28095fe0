//! EndTxn (26), versions 0 to 5: commits or aborts a producer's transaction.
//!
//! From version 5 on, the producer goes on in a new epoch (KIP-890). Nothing left out.

use super::Context;
use crate::cluster::Cluster;
use crate::transaction::ProducerKey;
use wire::ErrorCode;
use wire::messages::{EndTxnRequest, EndTxnResponse};

/// From this version on, an end raises the epoch.
const RAISES_FROM: i16 = 5;
/// From this version on, clients of EndTxn, AddPartitionsToTxn and AddOffsetsToTxn know PRODUCER_FENCED.
const KNOWS_FENCED_FROM: i16 = 2;

/// The error as clients of these three APIs know it.
pub(super) fn as_known(error: ErrorCode, version: i16) -> ErrorCode {
    if error == ErrorCode::PRODUCER_FENCED && version < KNOWS_FENCED_FROM {
        ErrorCode::INVALID_PRODUCER_EPOCH
    } else {
        error
    }
}

pub(super) fn serve(cluster: &mut Cluster, context: &Context<'_>, request: EndTxnRequest) -> EndTxnResponse {
    let id = &request.transactional_id;
    let producer = ProducerKey {
        id: request.producer_id,
        epoch: request.producer_epoch,
    };
    let raises = context.to.version >= RAISES_FROM;
    let outcome = cluster
        .check_coordinator(id, context.broker)
        .and_then(|()| cluster.end_transaction(context.now, id, producer, request.committed, raises));
    match outcome {
        Ok(producer) => EndTxnResponse {
            producer_id: producer.id,
            producer_epoch: producer.epoch,
            ..EndTxnResponse::default()
        },
        Err(error) => EndTxnResponse {
            error_code: as_known(error, context.to.version),
            ..EndTxnResponse::default()
        },
    }
}
