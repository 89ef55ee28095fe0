//! AlterClientQuotas (49), versions 0 to 1: sets and takes away `producer_byte_rate`, `consumer_byte_rate` and
//! `controller_mutation_rate` for users, client ids, both together, and their defaults (KIP-546).
//!
//! Left out: `request_percentage`, because a thread here serves several brokers, whose shares of its time nobody measures;
//! quotas of addresses (`connection_creation_rate`). Both are refused by name. So is a bound that is not above zero, which
//! Kafka would take, and never serve such a client again.

use super::Context;
use super::create_topics::Refusal;
use crate::cluster::Cluster;
use crate::quota::{Entity, Kind, Name};
use wire::ErrorCode;
use wire::messages::alter_client_quotas::{
    AlterClientQuotasRequest, AlterClientQuotasResponse, EntityData, EntryData, OpData, ResponseEntryData,
};

/// The parts of entities, as Kafka names them.
pub(super) const USER: &str = "user";
pub(super) const CLIENT_ID: &str = "client-id";
pub(super) const IP: &str = "ip";

pub(super) fn serve(
    cluster: &mut Cluster,
    _context: &Context<'_>,
    request: AlterClientQuotasRequest,
) -> AlterClientQuotasResponse {
    let mut seen: Vec<Entity> = Vec::new();
    let entries = request.entries.into_iter().map(|entry| {
        let outcome = read(&entry).and_then(|(entity, changes)| {
            if seen.contains(&entity) {
                return Err(invalid("the entity stands twice in the request".to_owned()));
            }
            seen.push(entity.clone());
            if !request.validate_only {
                for (kind, bound) in changes {
                    cluster.quotas.set(&entity, kind, bound);
                }
            }
            Ok(())
        });
        let (error_code, error_message) =
            outcome.map_or_else(|(error, text)| (error, Some(text)), |()| (ErrorCode::NONE, None));
        ResponseEntryData {
            error_code,
            error_message,
            entity: entry.entity,
        }
    });
    AlterClientQuotasResponse {
        entries: entries.collect(),
        ..AlterClientQuotasResponse::default()
    }
}

fn invalid(text: String) -> Refusal {
    (ErrorCode::INVALID_REQUEST, text)
}

/// A quota with its new bound, or with none if it is taken away.
type Change = (Kind, Option<f64>);

fn read(entry: &EntryData) -> Result<(Entity, Vec<Change>), Refusal> {
    let entity = entity(&entry.entity)?;
    let mut changes: Vec<Change> = Vec::with_capacity(entry.ops.len());
    for op in &entry.ops {
        let change = change(op)?;
        if changes.iter().any(|(kind, _)| *kind == change.0) {
            return Err(invalid(format!("{} stands twice for one entity", op.key)));
        }
        changes.push(change);
    }
    Ok((entity, changes))
}

fn entity(parts: &[EntityData]) -> Result<Entity, Refusal> {
    let mut entity = Entity {
        user: None,
        client_id: None,
    };
    for part in parts {
        let place = match part.entity_type.as_str() {
            USER => &mut entity.user,
            CLIENT_ID => &mut entity.client_id,
            IP => {
                return Err(invalid(
                    "this broker has no quotas of addresses (entity type ip); it has those of user and client-id"
                        .to_owned(),
                ));
            }
            other => return Err(invalid(format!("there is no entity type {other}"))),
        };
        if place.is_some() {
            return Err(invalid(format!(
                "the entity type {} stands twice in one entity",
                part.entity_type
            )));
        }
        *place = Some(match part.entity_name.as_deref() {
            None => Name::Default,
            Some("") => return Err(invalid(format!("an empty {} has no quotas", part.entity_type))),
            Some(name) => Name::Of(name.to_owned()),
        });
    }
    if entity.user.is_none() && entity.client_id.is_none() {
        return Err(invalid("an entity names a user, a client-id or both".to_owned()));
    }
    Ok(entity)
}

fn change(op: &OpData) -> Result<Change, Refusal> {
    let Some(kind) = Kind::of_key(&op.key) else {
        return Err(invalid(match op.key.as_str() {
            "request_percentage" => {
                "this broker does not measure its threads' time by client, and has no request_percentage"
                    .to_owned()
            }
            "connection_creation_rate" => {
                "connection_creation_rate is a quota of addresses, which this broker does not have".to_owned()
            }
            other => format!("there is no quota {other}"),
        }));
    };
    if op.remove {
        return Ok((kind, None));
    }
    let is_of_bytes = kind != Kind::Mutations;
    if !op.value.is_finite() || op.value <= 0.0 {
        return Err(invalid(format!("{} must be above 0, not {}", op.key, op.value)));
    }
    if is_of_bytes && op.value.fract() != 0.0 {
        return Err(invalid(format!(
            "{} is a whole number of bytes a second, not {}",
            op.key, op.value
        )));
    }
    Ok((kind, Some(op.value)))
}
