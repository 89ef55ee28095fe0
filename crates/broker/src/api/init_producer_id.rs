//! InitProducerId (22), versions 0 to 5: ids and epochs for idempotent producers.
//!
//! Left out: transactions. A transactional id is refused, as by a cluster whose principal may not use it.

use super::Context;
use crate::cluster::Cluster;
use wire::ErrorCode;
use wire::messages::init_producer_id::{InitProducerIdRequest, InitProducerIdResponse};

pub(super) fn serve(
    cluster: &mut Cluster,
    _context: &Context<'_>,
    request: InitProducerIdRequest,
) -> InitProducerIdResponse {
    if request.transactional_id.is_some() {
        return InitProducerIdResponse {
            error_code: ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            producer_epoch: -1,
            ..InitProducerIdResponse::default()
        };
    }
    // A producer that wants a new epoch gets a new id (as from Kafka, which does so without transactions, too).
    InitProducerIdResponse {
        producer_id: cluster.new_producer_id(),
        ..InitProducerIdResponse::default()
    }
}
