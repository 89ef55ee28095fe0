//! Settings of topics and brokers.

use super::call::To;
use super::{Admin, AdminError};
use crate::rights::Refusal;
use std::collections::BTreeMap;
use wire::ApiKey;
use wire::codec::Message;
use wire::messages::alter_configs::{self, AlterConfigsRequest};
use wire::messages::describe_configs::{DescribeConfigsRequest, DescribeConfigsResource};
use wire::messages::incremental_alter_configs::{self, IncrementalAlterConfigsRequest};

/// What configs belong to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ConfigResource {
    /// A topic.
    Topic(String),
    /// A broker.
    Broker(i32),
    /// The default of all brokers.
    AllBrokers,
}

impl ConfigResource {
    fn kind(&self) -> i8 {
        match self {
            ConfigResource::Topic(_) => 2,
            ConfigResource::Broker(_) | ConfigResource::AllBrokers => 4,
        }
    }

    fn name(&self) -> String {
        match self {
            ConfigResource::Topic(name) => name.clone(),
            ConfigResource::Broker(id) => id.to_string(),
            ConfigResource::AllBrokers => String::new(),
        }
    }

    /// Settings of one broker are that broker's to tell and to change.
    fn asked_of(&self) -> To {
        match self {
            ConfigResource::Broker(id) => To::Broker(*id),
            ConfigResource::Topic(_) | ConfigResource::AllBrokers => To::Any,
        }
    }
}

/// One setting of a topic or broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigEntry {
    /// Its name.
    pub name: String,
    /// Its value; `None` if it is kept secret or has none.
    pub value: Option<String>,
    /// Where the value comes from.
    pub source: ConfigSource,
    /// Whether it cannot be changed while the broker runs.
    pub is_read_only: bool,
    /// Whether its value is kept secret.
    pub is_sensitive: bool,
}

/// Where the value of a config comes from (KIP-226).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfigSource {
    /// Set on the topic.
    Topic,
    /// Set on this broker while running.
    Broker,
    /// Set on all brokers while running.
    AllBrokers,
    /// The broker's file.
    BrokerFile,
    /// Kafka's default.
    Default,
    /// A source that is not known here.
    Other(i8),
}

impl ConfigSource {
    fn from_wire(source: i8) -> ConfigSource {
        match source {
            1 => ConfigSource::Topic,
            2 => ConfigSource::Broker,
            3 => ConfigSource::AllBrokers,
            4 => ConfigSource::BrokerFile,
            5 => ConfigSource::Default,
            other => ConfigSource::Other(other),
        }
    }
}

impl Admin {
    /// The settings of topics and brokers. A refusal for lack of rights is that resource's own outcome.
    ///
    /// # Errors
    ///
    /// When a broker does not answer in time.
    pub fn describe_configs(
        &mut self,
        resources: &[ConfigResource],
    ) -> Result<BTreeMap<ConfigResource, Result<Vec<ConfigEntry>, Refusal>>, AdminError> {
        let mut by_target: Vec<(To, Vec<&ConfigResource>)> = Vec::new();
        for resource in resources {
            let to = resource.asked_of();
            match by_target.iter_mut().find(|(target, _)| *target == to) {
                Some((_, list)) => list.push(resource),
                None => by_target.push((to, vec![resource])),
            }
        }
        let calls: Vec<(To, DescribeConfigsRequest)> = by_target
            .iter()
            .map(|(to, list)| {
                let resources = list
                    .iter()
                    .map(|resource| DescribeConfigsResource {
                        resource_type: resource.kind(),
                        resource_name: resource.name(),
                        configuration_keys: None,
                    })
                    .collect();
                (
                    *to,
                    DescribeConfigsRequest {
                        resources,
                        ..Default::default()
                    },
                )
            })
            .collect();
        let until_ns = self.until_ns();
        let answers = self.call_many(&calls, DescribeConfigsRequest::VERSIONS, until_ns);
        let mut described = BTreeMap::new();
        for ((_, list), answer) in by_target.iter().zip(answers) {
            for result in answer?.message.results {
                let Some(resource) = list.iter().find(|resource| {
                    resource.kind() == result.resource_type && resource.name() == result.resource_name
                }) else {
                    continue;
                };
                let refusal = Refusal::check(
                    ApiKey::DESCRIBE_CONFIGS,
                    result.error_code,
                    result.error_message,
                    &result.resource_name,
                );
                let outcome = refusal.map(|()| {
                    result
                        .configs
                        .into_iter()
                        .map(|config| ConfigEntry {
                            name: config.name,
                            value: config.value,
                            source: ConfigSource::from_wire(config.config_source),
                            is_read_only: config.read_only,
                            is_sensitive: config.is_sensitive,
                        })
                        .collect()
                });
                described.insert((*resource).clone(), outcome);
            }
        }
        Ok(described)
    }

    /// One setting of a resource; `None` where the principal may not see it, or there is no such setting.
    ///
    /// # Errors
    ///
    /// When the broker refuses for another reason than lack of rights, or does not answer in time.
    pub fn config_value(
        &mut self,
        resource: &ConfigResource,
        name: &str,
    ) -> Result<Option<String>, AdminError> {
        let mut described = self.describe_configs(std::slice::from_ref(resource))?;
        match described.remove(resource) {
            None => Ok(None),
            Some(Err(refusal)) if refusal.is_missing_right() => Ok(None),
            Some(Err(refusal)) => Err(refusal.into()),
            Some(Ok(entries)) => Ok(entries
                .into_iter()
                .find(|entry| entry.name == name)
                .and_then(|entry| entry.value)),
        }
    }

    /// Sets (`Some`) or takes back (`None`) single settings and leaves the others. On brokers before Kafka 2.3, which can only
    /// replace all settings of a resource, those in effect are read first and sent along.
    ///
    /// # Errors
    ///
    /// The broker's refusal, or that it did not answer in time.
    pub fn alter_configs(
        &mut self,
        resource: &ConfigResource,
        changes: &BTreeMap<String, Option<String>>,
    ) -> Result<(), AdminError> {
        let until_ns = self.until_ns();
        let configs = changes
            .iter()
            .map(|(name, value)| incremental_alter_configs::AlterableConfig {
                name: name.clone(),
                config_operation: i8::from(value.is_none()),
                value: value.clone(),
            })
            .collect();
        let request = IncrementalAlterConfigsRequest {
            resources: vec![incremental_alter_configs::AlterConfigsResource {
                resource_type: resource.kind(),
                resource_name: resource.name(),
                configs,
            }],
            validate_only: false,
        };
        let versions = IncrementalAlterConfigsRequest::VERSIONS;
        match self.call_within(resource.asked_of(), versions, &request, until_ns) {
            Ok(answer) => {
                for result in answer.message.responses {
                    Refusal::check(
                        ApiKey::INCREMENTAL_ALTER_CONFIGS,
                        result.error_code,
                        result.error_message,
                        &result.resource_name,
                    )?;
                }
                Ok(())
            }
            Err(AdminError::Unsupported(_)) => self.replace_configs(resource, changes, until_ns),
            Err(error) => Err(error),
        }
    }

    fn replace_configs(
        &mut self,
        resource: &ConfigResource,
        changes: &BTreeMap<String, Option<String>>,
        until_ns: u64,
    ) -> Result<(), AdminError> {
        let mut described = self.describe_configs(std::slice::from_ref(resource))?;
        let entries = described.remove(resource).unwrap_or_else(|| Ok(Vec::new()))?;
        let own = match resource {
            ConfigResource::Topic(_) => ConfigSource::Topic,
            ConfigResource::Broker(_) => ConfigSource::Broker,
            ConfigResource::AllBrokers => ConfigSource::AllBrokers,
        };
        let mut values: BTreeMap<String, Option<String>> = entries
            .into_iter()
            .filter(|entry| entry.source == own)
            .map(|entry| (entry.name, entry.value))
            .collect();
        values.extend(changes.clone());
        let configs = values
            .into_iter()
            .filter(|(_, value)| value.is_some())
            .map(|(name, value)| alter_configs::AlterableConfig { name, value })
            .collect();
        let request = AlterConfigsRequest {
            resources: vec![alter_configs::AlterConfigsResource {
                resource_type: resource.kind(),
                resource_name: resource.name(),
                configs,
            }],
            validate_only: false,
        };
        let answer = self.call_within(
            resource.asked_of(),
            AlterConfigsRequest::VERSIONS,
            &request,
            until_ns,
        )?;
        for result in answer.message.responses {
            Refusal::check(
                ApiKey::ALTER_CONFIGS,
                result.error_code,
                result.error_message,
                &result.resource_name,
            )?;
        }
        Ok(())
    }
}
