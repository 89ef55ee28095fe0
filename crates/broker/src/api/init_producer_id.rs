//! InitProducerId (22), versions 0 to 5: ids and epochs for idempotent and transactional producers.
//!
//! Nothing left out.

use super::Context;
use crate::cluster::Cluster;
use crate::transaction::ProducerKey;
use wire::ErrorCode;
use wire::messages::init_producer_id::{InitProducerIdRequest, InitProducerIdResponse};

/// From this version on, clients know PRODUCER_FENCED.
const KNOWS_FENCED_FROM: i16 = 4;

pub(super) fn serve(
    cluster: &mut Cluster,
    context: &Context<'_>,
    request: InitProducerIdRequest,
) -> InitProducerIdResponse {
    match init(cluster, context, &request) {
        Ok(producer) => InitProducerIdResponse {
            producer_id: producer.id,
            producer_epoch: producer.epoch,
            ..InitProducerIdResponse::default()
        },
        Err(error) => InitProducerIdResponse {
            error_code: match error {
                ErrorCode::PRODUCER_FENCED if context.to.version < KNOWS_FENCED_FROM => {
                    ErrorCode::INVALID_PRODUCER_EPOCH
                }
                error => error,
            },
            producer_epoch: -1,
            ..InitProducerIdResponse::default()
        },
    }
}

fn init(
    cluster: &mut Cluster,
    context: &Context<'_>,
    request: &InitProducerIdRequest,
) -> Result<ProducerKey, ErrorCode> {
    let Some(id) = &request.transactional_id else {
        // A producer that wants a new epoch gets a new id (as from Kafka, which does so without transactions, too).
        return Ok(ProducerKey {
            id: cluster.new_producer_id(),
            epoch: 0,
        });
    };
    cluster.check_coordinator(id, context.broker)?;
    let known = (request.producer_id >= 0).then_some(ProducerKey {
        id: request.producer_id,
        epoch: request.producer_epoch,
    });
    cluster.init_transactional_producer(context.now, id, request.transaction_timeout_ms, known)
}
