//! DescribeConfigs (32), versions 1 to 4: topics and brokers, with sources and synonyms.
//!
//! Left out: documentation of each config; loggers, client metrics and groups, which are refused.

use super::Context;
use crate::cluster::{Cluster, Node};
use crate::settings::{
    Definition, Kind, NODE_CONFIGS, NodeOverrides, Overrides, Source, TOPIC_CONFIGS, find_node_config,
    security::SECURITY_CONFIGS,
};
use wire::ErrorCode;
use wire::messages::describe_configs::{
    DescribeConfigsRequest, DescribeConfigsResource, DescribeConfigsResourceResult, DescribeConfigsResponse,
    DescribeConfigsResult, DescribeConfigsSynonym,
};

/// Numbers of the kinds of things that have configs.
pub(super) const TOPIC: i8 = 2;
pub(super) const BROKER: i8 = 4;

pub(super) fn serve(
    cluster: &mut Cluster,
    context: &Context<'_>,
    request: DescribeConfigsRequest,
) -> DescribeConfigsResponse {
    let results = request.resources.into_iter().map(|resource| {
        let described = match resource.resource_type {
            TOPIC => topic(cluster, &resource),
            BROKER => broker(cluster, context.broker, &resource),
            other => Err((
                ErrorCode::INVALID_REQUEST,
                format!("Unsupported resource type: {other}"),
            )),
        };
        let (error_code, error_message, mut configs) = match described {
            Ok(configs) => (ErrorCode::NONE, None, configs),
            Err((error, text)) => (error, Some(text), Vec::new()),
        };
        if let Some(keys) = &resource.configuration_keys {
            configs.retain(|config| keys.contains(&config.name));
        }
        if !request.include_synonyms {
            configs.iter_mut().for_each(|config| config.synonyms.clear());
        }
        DescribeConfigsResult {
            error_code,
            error_message,
            resource_type: resource.resource_type,
            resource_name: resource.resource_name,
            configs,
        }
    });
    DescribeConfigsResponse {
        results: results.collect(),
        ..DescribeConfigsResponse::default()
    }
}

type Described = Result<Vec<DescribeConfigsResourceResult>, (ErrorCode, String)>;

/// All values that a topic config has, the one in force first.
pub(super) fn sources_of<'a>(
    definition: &Definition,
    own: &'a Overrides,
    nodes: &'a NodeOverrides,
) -> Vec<(Source, &'a str)> {
    let own = own
        .get(definition.name)
        .map(|value| (Source::Topic, value.as_str()));
    let default = definition.default;
    let inherited = match definition.node_name {
        Some(name) => nodes.values(name, default),
        None => vec![(Source::Default, default)],
    };
    own.into_iter().chain(inherited).collect()
}

fn topic(cluster: &Cluster, resource: &DescribeConfigsResource) -> Described {
    let Some(topic) = cluster.topic(&resource.resource_name) else {
        let unknown = ErrorCode::UNKNOWN_TOPIC_OR_PARTITION;
        return Err((unknown, unknown.describe().to_owned()));
    };
    let described = TOPIC_CONFIGS.iter().map(|definition| {
        let values = sources_of(definition, &topic.own, &cluster.overrides);
        // Where a topic inherits, the synonym is the node's config.
        let name_of = |source| match source {
            Source::Topic => definition.name,
            _ => definition.node_name.unwrap_or(definition.name),
        };
        entry(definition.name, definition.kind, false, &values, name_of)
    });
    Ok(described.collect())
}

fn broker(cluster: &Cluster, asked: i32, resource: &DescribeConfigsResource) -> Described {
    if resource.resource_name.is_empty() {
        // The defaults of all brokers: only what was changed since they started.
        let dynamic = cluster.overrides.dynamic.iter().filter_map(|(name, value)| {
            let kind = find_node_config(name)?.kind;
            Some(entry(
                name,
                kind,
                false,
                &[(Source::DynamicDefaultNode, value)],
                |_| name,
            ))
        });
        return Ok(dynamic.collect());
    }
    let named = resource
        .resource_name
        .parse()
        .ok()
        .and_then(|id: i32| cluster.nodes.get(id));
    let Some(node) = named.filter(|node| node.id == asked) else {
        return Err((
            ErrorCode::INVALID_REQUEST,
            format!(
                "Unexpected broker id, expected {asked}, but received {}",
                resource.resource_name
            ),
        ));
    };
    let from_topics = TOPIC_CONFIGS
        .iter()
        .filter_map(|definition| Some((definition.node_name?, definition)));
    let of_nodes = NODE_CONFIGS
        .iter()
        .chain(SECURITY_CONFIGS)
        .map(|definition| (definition.name, definition));
    let shared = from_topics.chain(of_nodes).map(|(name, definition)| {
        let values = cluster.overrides.values(name, definition.default);
        entry(name, definition.kind, !definition.is_dynamic, &values, |_| name)
    });
    // What a listener or a mechanism has of its own is shown where it was given.
    let of_listener = cluster.overrides.fixed.iter().filter_map(|(name, value)| {
        let definition = find_node_config(name).filter(|_| name.starts_with("listener.name."))?;
        Some(entry(
            name,
            definition.kind,
            true,
            &[(Source::StaticNode, value)],
            |_| name,
        ))
    });
    let own = own_of(node, cluster.protocol);
    let mut all: Vec<_> = shared.chain(of_listener).chain(own).collect();
    all.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(all)
}

/// What only this broker has.
fn own_of(node: &Node, protocol: &str) -> Vec<DescribeConfigsResourceResult> {
    let address = format!("{protocol}://{}:{}", node.host, node.port);
    let id = node.id.to_string();
    [
        ("advertised.listeners", Kind::String, address.as_str()),
        ("broker.id", Kind::Int, &id),
        ("listeners", Kind::List, &address),
        ("node.id", Kind::Int, &id),
        ("process.roles", Kind::List, "broker,controller"),
    ]
    .map(|(name, kind, value)| entry(name, kind, true, &[(Source::StaticNode, value)], |_| name))
    .into()
}

fn entry<'a>(
    name: &str,
    kind: Kind,
    read_only: bool,
    values: &[(Source, &str)],
    name_of: impl Fn(Source) -> &'a str,
) -> DescribeConfigsResourceResult {
    let (source, value) = values.first().copied().unwrap_or((Source::Default, ""));
    let is_sensitive = kind == Kind::Password;
    let shown = |value: &str| (!is_sensitive).then(|| value.to_owned());
    DescribeConfigsResourceResult {
        name: name.to_owned(),
        value: shown(value),
        is_sensitive,
        read_only,
        config_source: source as i8,
        config_type: kind as i8,
        synonyms: values
            .iter()
            .map(|(source, value)| DescribeConfigsSynonym {
                name: name_of(*source).to_owned(),
                value: shown(value),
                source: *source as i8,
            })
            .collect(),
        ..DescribeConfigsResourceResult::default()
    }
}
