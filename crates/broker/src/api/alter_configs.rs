//! AlterConfigs (33), versions 0 to 2: replaces all configs of a topic or of all brokers together.
//!
//! Left out: what [`super::incremental_alter_configs`] leaves out.

use super::Context;
use super::incremental_alter_configs::apply;
use crate::cluster::Cluster;
use wire::ErrorCode;
use wire::messages::alter_configs::{
    AlterConfigsRequest, AlterConfigsResourceResponse, AlterConfigsResponse,
};

pub(super) fn serve(
    cluster: &mut Cluster,
    _context: &Context<'_>,
    request: AlterConfigsRequest,
) -> AlterConfigsResponse {
    let responses = request.resources.into_iter().map(|resource| {
        let changes = resource
            .configs
            .into_iter()
            .map(|config| (config.name, config.value))
            .collect();
        let named = (resource.resource_type, resource.resource_name.as_str());
        let outcome = apply(cluster, named, changes, true, request.validate_only);
        let (error_code, error_message) =
            outcome.map_or_else(|(error, text)| (error, Some(text)), |()| (ErrorCode::NONE, None));
        AlterConfigsResourceResponse {
            error_code,
            error_message,
            resource_type: resource.resource_type,
            resource_name: resource.resource_name,
        }
    });
    AlterConfigsResponse {
        responses: responses.collect(),
        ..AlterConfigsResponse::default()
    }
}
