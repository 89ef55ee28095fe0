//! What a principal needs to be allowed to do, in the words of Kafka's ACLs, so that a refusal says what to ask for.

use wire::{ApiKey, ErrorCode};

/// The right that is missing when a request of `api` about `subject` (a topic's or a group's name; empty for none in
/// particular) is refused with `error`; `None` if the error is about no right.
///
/// Operations and resources are those of Kafka's authorizer documentation (KIP-11 and its successors).
pub fn missing_right(api: ApiKey, error: ErrorCode, subject: &str) -> Option<String> {
    let on = |operation: &str, resource: &str| match subject {
        "" => Some(format!("{operation} on {resource}")),
        name => Some(format!("{operation} on {resource} \"{name}\"")),
    };
    match error {
        ErrorCode::TOPIC_AUTHORIZATION_FAILED => match api {
            ApiKey::CREATE_TOPICS => {
                on("Create", "Topic").map(|right| format!("{right}, or Create on Cluster"))
            }
            ApiKey::DELETE_TOPICS => on("Delete", "Topic"),
            ApiKey::CREATE_PARTITIONS => on("Alter", "Topic"),
            ApiKey::DESCRIBE_CONFIGS => on("DescribeConfigs", "Topic"),
            ApiKey::ALTER_CONFIGS | ApiKey::INCREMENTAL_ALTER_CONFIGS => on("AlterConfigs", "Topic"),
            ApiKey::PRODUCE => on("Write", "Topic"),
            ApiKey::FETCH | ApiKey::OFFSET_COMMIT | ApiKey::JOIN_GROUP => on("Read", "Topic"),
            _ => on("Describe", "Topic"),
        },
        ErrorCode::GROUP_AUTHORIZATION_FAILED => match api {
            ApiKey::DELETE_GROUPS => on("Delete", "Group"),
            ApiKey::DESCRIBE_GROUPS | ApiKey::LIST_GROUPS | ApiKey::OFFSET_FETCH => on("Describe", "Group"),
            _ => on("Read", "Group"),
        },
        ErrorCode::CLUSTER_AUTHORIZATION_FAILED => Some(
            match api {
                ApiKey::CREATE_TOPICS => "Create on Cluster",
                ApiKey::DESCRIBE_CONFIGS => "DescribeConfigs on Cluster",
                ApiKey::ALTER_CONFIGS | ApiKey::INCREMENTAL_ALTER_CONFIGS => "AlterConfigs on Cluster",
                ApiKey::INIT_PRODUCER_ID => "IdempotentWrite on Cluster",
                ApiKey::CREATE_PARTITIONS => "Alter on Cluster",
                _ => "Describe on Cluster",
            }
            .to_owned(),
        ),
        ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED => on("Write", "TransactionalId"),
        _ => None,
    }
}

/// Whether the error says that a right is missing.
pub fn is_missing_right(error: ErrorCode) -> bool {
    matches!(
        error,
        ErrorCode::TOPIC_AUTHORIZATION_FAILED
            | ErrorCode::GROUP_AUTHORIZATION_FAILED
            | ErrorCode::CLUSTER_AUTHORIZATION_FAILED
            | ErrorCode::TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    )
}

/// What a broker refused, in its own words and with what would help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The API that was asked.
    pub api: ApiKey,
    /// The error code.
    pub error: ErrorCode,
    /// The broker's own explanation, if it gave one.
    pub message: Option<String>,
    /// The topic, group or resource that it is about; empty for none in particular.
    pub subject: String,
}

impl Refusal {
    /// A refusal of a request of `api` about `subject`.
    pub fn new(api: ApiKey, error: ErrorCode, message: Option<String>, subject: &str) -> Refusal {
        let message = message.filter(|message| !message.is_empty());
        Refusal {
            api,
            error,
            message,
            subject: subject.to_owned(),
        }
    }

    /// `Ok` if there is no error.
    ///
    /// # Errors
    /// The refusal, if `error` is one.
    pub fn check(
        api: ApiKey,
        error: ErrorCode,
        message: Option<String>,
        subject: &str,
    ) -> Result<(), Refusal> {
        if error.is_error() {
            Err(Refusal::new(api, error, message, subject))
        } else {
            Ok(())
        }
    }

    /// Whether the principal lacks a right.
    pub fn is_missing_right(&self) -> bool {
        is_missing_right(self.error)
    }
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if !self.subject.is_empty() {
            write!(f, "{}: ", self.subject)?;
        }
        let explanation = self.message.as_deref().unwrap_or_else(|| self.error.describe());
        write!(f, "{}: {explanation}", self.error)?;
        if let Some(right) = missing_right(self.api, self.error, &self.subject) {
            write!(f, " (needed: {right})")?;
        }
        Ok(())
    }
}

impl std::error::Error for Refusal {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_names_the_right_that_is_missing() {
        let refusal = Refusal::new(
            ApiKey::CREATE_TOPICS,
            ErrorCode::TOPIC_AUTHORIZATION_FAILED,
            None,
            "orders",
        );
        assert_eq!(
            refusal.to_string(),
            "orders: TOPIC_AUTHORIZATION_FAILED: The principal may not do this to the topic. \
             (needed: Create on Topic \"orders\", or Create on Cluster)"
        );
    }

    #[test]
    fn the_brokers_own_words_are_kept() {
        let words = Some("Replication factor: 3 larger than available brokers: 1.".to_owned());
        let refusal = Refusal::new(
            ApiKey::CREATE_TOPICS,
            ErrorCode::INVALID_REPLICATION_FACTOR,
            words,
            "orders",
        );
        assert_eq!(
            refusal.to_string(),
            "orders: INVALID_REPLICATION_FACTOR: Replication factor: 3 larger than available brokers: 1."
        );
    }
}
