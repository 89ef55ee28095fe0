//! Which version of a request two sides speak.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use crate::codec::Request;
use crate::messages::ApiVersionsResponse;
use crate::{ApiKey, fetch, produce};

/// The oldest version of Produce that any broker takes which is spoken to here.
///
/// Brokers from 4.0 on announce 0, because an old librdkafka asks them to, and refuse 0 to 2 all the same (KAFKA-18659).
const OLDEST_PRODUCE: i16 = 3;

/// What a broker serves.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ApiVersionTable {
    ranges: BTreeMap<ApiKey, (i16, i16)>,
}

/// No version of the API is spoken by both sides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unsupported {
    /// The API.
    pub api: ApiKey,
    /// The versions spoken here.
    pub ours: RangeInclusive<i16>,
    /// The versions that the broker serves; `None` if it does not have the API.
    pub theirs: Option<RangeInclusive<i16>>,
}

impl std::fmt::Display for Unsupported {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { api, ours, theirs } = self;
        match theirs {
            Some(theirs) => write!(
                f,
                "the broker serves versions {} to {} of {api}, and {} to {} are spoken here",
                theirs.start(),
                theirs.end(),
                ours.start(),
                ours.end()
            ),
            None => write!(f, "the broker does not serve {api}"),
        }
    }
}

impl std::error::Error for Unsupported {}

impl ApiVersionTable {
    /// The table that a broker answered with.
    pub fn new(response: &ApiVersionsResponse) -> Self {
        let ranges = response
            .api_keys
            .iter()
            .map(|api| {
                let oldest = match api.api_key {
                    ApiKey::PRODUCE => api.min_version.max(OLDEST_PRODUCE),
                    _ => api.min_version,
                };
                (api.api_key, (oldest, api.max_version))
            })
            .filter(|(_, (oldest, newest))| oldest <= newest)
            .collect();
        Self { ranges }
    }

    /// The versions of the API that the broker serves; `None` if it does not have the API.
    pub fn served(&self, api: ApiKey) -> Option<RangeInclusive<i16>> {
        self.ranges.get(&api).map(|&(oldest, newest)| oldest..=newest)
    }

    /// The newest version that both sides speak.
    ///
    /// # Errors
    /// If there is none.
    pub fn pick(&self, api: ApiKey, ours: RangeInclusive<i16>) -> Result<i16, Unsupported> {
        let theirs = self.served(api);
        if let Some(theirs) = &theirs {
            let newest = *ours.end().min(theirs.end());
            if newest >= *ours.start().max(theirs.start()) {
                return Ok(newest);
            }
        }
        Err(Unsupported { api, ours, theirs })
    }

    /// The newest version of the request that both sides speak.
    ///
    /// # Errors
    /// If there is none.
    pub fn pick_for<R: Request>(&self) -> Result<i16, Unsupported> {
        self.pick(R::KEY, R::VERSIONS)
    }

    /// The newest version of Produce that both sides speak.
    ///
    /// # Errors
    /// If there is none.
    pub fn pick_produce(&self) -> Result<i16, Unsupported> {
        self.pick(ApiKey::PRODUCE, produce::VERSIONS)
    }

    /// The newest version of Fetch that both sides speak.
    ///
    /// # Errors
    /// If there is none.
    pub fn pick_fetch(&self) -> Result<i16, Unsupported> {
        self.pick(ApiKey::FETCH, fetch::VERSIONS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::messages::api_versions::ApiVersion;
    use crate::messages::{ListOffsetsRequest, MetadataRequest};

    fn table(ranges: &[(ApiKey, i16, i16)]) -> ApiVersionTable {
        let api_keys = ranges
            .iter()
            .map(|&(api_key, min_version, max_version)| ApiVersion {
                api_key,
                min_version,
                max_version,
            })
            .collect();
        ApiVersionTable::new(&ApiVersionsResponse {
            api_keys,
            ..Default::default()
        })
    }

    #[test]
    fn the_newest_common_version_is_picked() {
        let old = table(&[
            (ApiKey::METADATA, 0, 7),
            (ApiKey::PRODUCE, 0, 7),
            (ApiKey::FETCH, 0, 10),
        ]);
        assert_eq!(old.pick_for::<MetadataRequest>(), Ok(7));
        assert_eq!(old.pick_produce(), Ok(7));
        assert_eq!(old.pick_fetch(), Ok(10));
        let new = table(&[(ApiKey::METADATA, 0, 99)]);
        assert_eq!(new.pick_for::<MetadataRequest>(), Ok(13));
    }

    #[test]
    fn what_is_not_common_is_told() {
        let odd = table(&[(ApiKey::METADATA, 20, 21), (ApiKey::PRODUCE, 0, 2)]);
        assert_eq!(
            odd.pick_for::<MetadataRequest>().unwrap_err().to_string(),
            "the broker serves versions 20 to 21 of Metadata, and 0 to 13 are spoken here"
        );
        assert_eq!(
            odd.pick_for::<ListOffsetsRequest>().unwrap_err().to_string(),
            "the broker does not serve ListOffsets"
        );
        // Announced, but refused: as if it were not there.
        assert_eq!(odd.served(ApiKey::PRODUCE), None);
    }

    #[test]
    fn produce_versions_that_brokers_announce_but_refuse_are_left_out() {
        let new = table(&[(ApiKey::PRODUCE, 0, 13)]);
        assert_eq!(new.served(ApiKey::PRODUCE), Some(3..=13));
        assert!(new.pick(ApiKey::PRODUCE, 0..=2).is_err());
    }
}
