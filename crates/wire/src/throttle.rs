//! `throttle_time_ms`: for how long a quota holds a client back (KIP-13), as answers say it.
//!
//! Since KIP-219 a broker answers at once and reads nothing more from the connection for that long; from the versions
//! on in which an API knows of that, the client sends nothing to the broker meanwhile.

use crate::ApiKey;
use crate::codec::Reader;

/// The field's name in every response that has it.
pub(crate) const FIELD: &str = "throttle_time_ms";

/// The version from which on a client waits by itself for as long as an API's answer says; `None` for APIs whose answers
/// say nothing, or whose clients need not wait.
pub const fn client_waits_from(api: ApiKey) -> Option<i16> {
    match api {
        ApiKey::FETCH => Some(8),
        ApiKey::PRODUCE | ApiKey::METADATA => Some(6),
        ApiKey::OFFSET_COMMIT | ApiKey::OFFSET_FETCH => Some(4),
        ApiKey::LIST_OFFSETS | ApiKey::JOIN_GROUP | ApiKey::CREATE_TOPICS => Some(3),
        ApiKey::FIND_COORDINATOR
        | ApiKey::HEARTBEAT
        | ApiKey::LEAVE_GROUP
        | ApiKey::SYNC_GROUP
        | ApiKey::DESCRIBE_GROUPS
        | ApiKey::LIST_GROUPS
        | ApiKey::API_VERSIONS
        | ApiKey::DELETE_TOPICS
        | ApiKey::DESCRIBE_CONFIGS => Some(2),
        ApiKey::DELETE_RECORDS
        | ApiKey::INIT_PRODUCER_ID
        | ApiKey::ADD_PARTITIONS_TO_TXN
        | ApiKey::ADD_OFFSETS_TO_TXN
        | ApiKey::END_TXN
        | ApiKey::TXN_OFFSET_COMMIT
        | ApiKey::DESCRIBE_ACLS
        | ApiKey::ALTER_CONFIGS
        | ApiKey::DESCRIBE_LOG_DIRS
        | ApiKey::CREATE_PARTITIONS
        | ApiKey::DELETE_GROUPS => Some(1),
        ApiKey::ELECT_LEADERS
        | ApiKey::INCREMENTAL_ALTER_CONFIGS
        | ApiKey::OFFSET_DELETE
        | ApiKey::DESCRIBE_TOPIC_PARTITIONS => Some(0),
        _ => None,
    }
}

/// For how many ms a client has to wait, by the body of an answer of `api` in `version`: 0 where it need not, or where the
/// bytes are too few. Produce and ApiVersions, in which a list stands before the field, are not read here.
pub fn wait_ms(api: ApiKey, version: i16, body: &[u8]) -> u32 {
    let at = match api {
        ApiKey::PRODUCE | ApiKey::API_VERSIONS => return 0,
        // Behind the error.
        ApiKey::OFFSET_DELETE => 2,
        _ => 0,
    };
    if client_waits_from(api).is_none_or(|from| version < from) {
        return 0;
    }
    let field = body.get(at..).unwrap_or_default();
    u32::try_from(Reader::new(field).read_i32().unwrap_or(0)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::{Message, Request};
    use crate::header::encode_response_frame;
    use crate::messages::for_each_request;
    use crate::produce::{self, ProduceResponse, encode_produce_response_frame};

    /// What both ways of finding the field say of an API's answers: (API, version, place in the body, ms read).
    fn found<R: Request>() -> Vec<(ApiKey, i16, Option<usize>, u32)>
    where
        R::Response: Default,
    {
        let of_version = |version| {
            let response = encode_response_frame::<R>(9, version, &R::Response::default());
            let mut bytes = response.bytes;
            // Length, correlation id, and the header's tagged fields where there are some.
            let body_at = bytes.len() - {
                let mut body = Vec::new();
                R::Response::default().encode(version, &mut body);
                body.len()
            };
            if let Some(at) = response.throttle_time_at {
                bytes[at..at + 4].copy_from_slice(&77_i32.to_be_bytes());
            }
            let place = response.throttle_time_at.map(|at| at - body_at);
            (
                R::KEY,
                version,
                place,
                wait_ms(R::KEY, version, &bytes[body_at..]),
            )
        };
        R::VERSIONS.map(of_version).collect()
    }

    macro_rules! all_of {
        ($($request:ident $response:ident,)*) => {
            vec![$(found::<crate::messages::$request>()),*].concat()
        };
    }

    #[test]
    fn the_field_is_read_where_it_is_written() {
        for (api, version, place, read_ms) in for_each_request!(all_of) {
            let waits = client_waits_from(api).is_some_and(|from| version >= from);
            assert!(
                !waits || place.is_some(),
                "{api} {version} cannot say for how long"
            );
            if api == ApiKey::API_VERSIONS {
                // Behind the list of APIs.
                assert_eq!((read_ms, place.is_some()), (0, version >= 1), "{version}");
                continue;
            }
            assert_eq!(read_ms, if waits { 77 } else { 0 }, "{api} {version}");
        }
    }

    #[test]
    fn produce_says_it_behind_the_topics() {
        for version in produce::VERSIONS {
            let frame = encode_produce_response_frame(
                1,
                version,
                &ProduceResponse {
                    throttle_time_ms: 0x0102_0304,
                    ..ProduceResponse::default()
                },
            );
            let at = frame.throttle_time_at.expect("every version has it");
            assert_eq!(frame.bytes[at..at + 4], [1, 2, 3, 4], "{version}");
        }
        assert_eq!(wait_ms(ApiKey::PRODUCE, 9, &[0, 0, 0, 9]), 0);
        assert_eq!(wait_ms(ApiKey::FETCH, 12, &[0, 0]), 0, "too few bytes");
    }
}
