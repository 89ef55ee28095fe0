//! ListGroups (16), versions 0 to 5: the groups that this broker coordinates, filtered by state and type. Nothing left
//! out.

use super::Context;
use crate::cluster::Cluster;
use wire::messages::list_groups::{ListGroupsRequest, ListGroupsResponse, ListedGroup};

pub(super) fn serve(
    cluster: &mut Cluster,
    context: &Context<'_>,
    request: ListGroupsRequest,
) -> ListGroupsResponse {
    let passes = |filter: &[String], value: &str| {
        filter.is_empty() || filter.iter().any(|wanted| wanted.eq_ignore_ascii_case(value))
    };
    let groups = cluster
        .groups()
        .filter(|(name, _)| cluster.check_coordinator(name, context.broker).is_ok())
        .filter(|(_, group)| {
            passes(&request.states_filter, group.state_name())
                && passes(&request.types_filter, group.type_name())
        })
        .map(|(name, group)| ListedGroup {
            group_id: name.to_owned(),
            protocol_type: group.protocol_type().unwrap_or_default().to_owned(),
            group_state: group.state_name().to_owned(),
            group_type: group.type_name().to_owned(),
        });
    ListGroupsResponse {
        groups: groups.collect(),
        ..ListGroupsResponse::default()
    }
}
