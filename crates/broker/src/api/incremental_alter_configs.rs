//! IncrementalAlterConfigs (44), versions 0 to 1: sets and deletes configs of topics and of all brokers together.
//!
//! Left out: configs of one broker alone (the brokers of a process share theirs); append and subtract, which only lists
//! know, and no list here can be other than it is.

use super::Context;
use super::create_topics::Refusal;
use super::describe_configs::{BROKER, TOPIC};
use crate::cluster::Cluster;
use crate::settings::{Overrides, check_topic_configs, find_node_config};
use wire::ErrorCode;
use wire::messages::incremental_alter_configs::{
    AlterConfigsResourceResponse, IncrementalAlterConfigsRequest, IncrementalAlterConfigsResponse,
};

const SET: i8 = 0;
const DELETE: i8 = 1;

/// One change: a name with its new value, or with none if it is to be as if never set.
pub(super) type Change = (String, Option<String>);

pub(super) fn serve(
    cluster: &mut Cluster,
    _context: &Context<'_>,
    request: IncrementalAlterConfigsRequest,
) -> IncrementalAlterConfigsResponse {
    let responses = request.resources.into_iter().map(|resource| {
        let changes = resource.configs.into_iter().map(|config| {
            match (config.config_operation, config.value) {
                (SET, Some(value)) => Ok((config.name, Some(value))),
                (SET, None) => Err((
                    ErrorCode::INVALID_REQUEST,
                    format!("Null value not supported for {}", config.name),
                )),
                (DELETE, _) => Ok((config.name, None)),
                (other, _) => Err((
                    ErrorCode::INVALID_CONFIG,
                    format!(
                        "Config value append or subtract (operation {other}) is not allowed for config: {}",
                        config.name
                    ),
                )),
            }
        });
        let outcome = changes
            .collect::<Result<Vec<Change>, Refusal>>()
            .and_then(|changes| {
                apply(
                    cluster,
                    (resource.resource_type, &resource.resource_name),
                    changes,
                    false,
                    request.validate_only,
                )
            });
        let (error_code, error_message) =
            outcome.map_or_else(|(error, text)| (error, Some(text)), |()| (ErrorCode::NONE, None));
        AlterConfigsResourceResponse {
            error_code,
            error_message,
            resource_type: resource.resource_type,
            resource_name: resource.resource_name,
        }
    });
    IncrementalAlterConfigsResponse {
        responses: responses.collect(),
        ..IncrementalAlterConfigsResponse::default()
    }
}

/// Makes changes to what is named by kind and name. With `replaces`, what is not among them goes back to its default.
pub(super) fn apply(
    cluster: &mut Cluster,
    (kind, name): (i8, &str),
    changes: Vec<Change>,
    replaces: bool,
    validates_only: bool,
) -> Result<(), Refusal> {
    let before = match kind {
        TOPIC => match cluster.topic(name) {
            Some(topic) => topic.own.clone(),
            None => {
                let unknown = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
                return Err((unknown, unknown.describe().to_owned()));
            }
        },
        BROKER if name.is_empty() => cluster.overrides.dynamic.clone(),
        BROKER => {
            return Err((
                ErrorCode::INVALID_REQUEST,
                format!(
                    "The brokers of this process share their configs; set them for all (the default entity), not for {name}"
                ),
            ));
        }
        other => {
            return Err((
                ErrorCode::INVALID_REQUEST,
                format!("Unsupported resource type: {other}"),
            ));
        }
    };
    let mut after = if replaces { Overrides::new() } else { before };
    for (name, value) in changes {
        match value {
            Some(value) => after.insert(name, value),
            None => after.remove(&name),
        };
    }
    let checked = if kind == TOPIC {
        check_topic_configs(&after)
    } else {
        check_dynamic(&after)
    };
    checked.map_err(|text| (ErrorCode::INVALID_CONFIG, text))?;
    if validates_only {
        return Ok(());
    }
    if kind == TOPIC {
        if let Some(topic) = cluster.topic_key(name).and_then(|key| cluster.topic_at_mut(key)) {
            topic.own = after;
        }
    } else {
        cluster.overrides.dynamic = after;
    }
    cluster.configs_changed();
    Ok(())
}

fn check_dynamic(configs: &Overrides) -> Result<(), String> {
    configs
        .iter()
        .try_for_each(|(name, value)| match find_node_config(name) {
            Some(definition) if definition.is_dynamic => definition.check(name, value),
            Some(_) => Err(format!("Cannot update these configs dynamically: {name}")),
            None => Err(format!("Unknown broker config name: {name}")),
        })
}
