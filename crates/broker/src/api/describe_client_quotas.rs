//! DescribeClientQuotas (48), versions 0 to 1: the quotas that AlterClientQuotas has set, by exact name, default or any of a
//! type, strictly or with further parts (KIP-546).
//!
//! Left out: quotas of addresses, of which there are none.

use super::Context;
use super::alter_client_quotas::{CLIENT_ID, IP, USER};
use super::create_topics::Refusal;
use crate::cluster::Cluster;
use crate::quota::{Entity, Kind, Name};
use std::collections::BTreeMap;
use wire::ErrorCode;
use wire::messages::describe_client_quotas::{
    ComponentData, DescribeClientQuotasRequest, DescribeClientQuotasResponse, EntityData, EntryData,
    ValueData,
};

const EXACT: i8 = 0;
const DEFAULT: i8 = 1;
const SPECIFIED: i8 = 2;

/// What a part of an entity has to be.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Wanted {
    This(Name),
    Any,
}

impl Wanted {
    fn is_met_by(&self, name: &Name) -> bool {
        match self {
            Wanted::This(wanted) => wanted == name,
            Wanted::Any => true,
        }
    }
}

pub(super) fn serve(
    cluster: &mut Cluster,
    _context: &Context<'_>,
    request: DescribeClientQuotasRequest,
) -> DescribeClientQuotasResponse {
    let wanted = match read(&request.components) {
        Ok(wanted) => wanted,
        Err((error_code, text)) => {
            return DescribeClientQuotasResponse {
                error_code,
                error_message: Some(text),
                entries: None,
                ..DescribeClientQuotasResponse::default()
            };
        }
    };
    let all = cluster.quotas.all();
    let matching = all.filter(|(entity, _)| is_wanted(entity, &wanted, request.strict));
    DescribeClientQuotasResponse {
        entries: Some(matching.map(|(entity, bounds)| entry(entity, bounds)).collect()),
        ..DescribeClientQuotasResponse::default()
    }
}

/// The parts that an entity has to have, by type.
fn read(components: &[ComponentData]) -> Result<BTreeMap<&str, Wanted>, Refusal> {
    let invalid = |text: String| Err((ErrorCode::INVALID_REQUEST, text));
    let mut wanted = BTreeMap::new();
    for component in components {
        let kind = component.entity_type.as_str();
        match kind {
            USER | CLIENT_ID | IP => {}
            "" => return invalid("an entity type is empty".to_owned()),
            other => {
                let unsupported = ErrorCode::UNSUPPORTED_VERSION;
                return Err((unsupported, format!("there is no entity type {other}")));
            }
        }
        let part = match (component.match_type, component.match_name.as_deref()) {
            (EXACT, Some(name)) => Wanted::This(Name::Of(name.to_owned())),
            (DEFAULT, None) => Wanted::This(Name::Default),
            (SPECIFIED, None) => Wanted::Any,
            (EXACT, None) => return invalid(format!("an exact match of {kind} lacks its name")),
            (DEFAULT | SPECIFIED, Some(name)) => {
                return invalid(format!("the match of {kind} has the name {name}, and needs none"));
            }
            (other, _) => return invalid(format!("there is no match type {other}")),
        };
        if wanted.insert(kind, part).is_some() {
            return invalid(format!("the entity type {kind} stands twice in the filter"));
        }
    }
    if wanted.contains_key(IP) && wanted.len() > 1 {
        return invalid("a filter by address has no user or client-id beside it".to_owned());
    }
    Ok(wanted)
}

fn is_wanted(entity: &Entity, wanted: &BTreeMap<&str, Wanted>, is_strict: bool) -> bool {
    if is_strict && wanted.is_empty() {
        return false;
    }
    let meets = |kind: &str, part: &Option<Name>| match (wanted.get(kind), part) {
        (Some(wanted), Some(name)) => wanted.is_met_by(name),
        (Some(_), None) => false,
        (None, Some(_)) => !is_strict,
        (None, None) => true,
    };
    !wanted.contains_key(IP) && meets(USER, &entity.user) && meets(CLIENT_ID, &entity.client_id)
}

fn entry(entity: &Entity, bounds: &BTreeMap<Kind, f64>) -> EntryData {
    let parts = [(USER, &entity.user), (CLIENT_ID, &entity.client_id)];
    let parts = parts.into_iter().filter_map(|(entity_type, name)| {
        let entity_name = match name.as_ref()? {
            Name::Default => None,
            Name::Of(name) => Some(name.clone()),
        };
        Some(EntityData {
            entity_type: entity_type.to_owned(),
            entity_name,
        })
    });
    let values = bounds.iter().map(|(kind, &value)| ValueData {
        key: kind.key().to_owned(),
        value,
    });
    EntryData {
        entity: parts.collect(),
        values: values.collect(),
    }
}
