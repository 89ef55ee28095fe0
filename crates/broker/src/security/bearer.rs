//! Bearer tokens: unsecured JSON web tokens (RFC 7515, appendix A.5; `alg` is `none`), held against the rules of Kafka's
//! `OAuthBearerUnsecuredValidatorCallbackHandler`, and tokens that are known as they are.
//!
//! Nobody has signed such a token: they are for rehearsal. Options of the JAAS line: `unsecuredValidatorPrincipalClaimName`
//! (`sub`), `unsecuredValidatorScopeClaimName` (`scope`), `unsecuredValidatorRequiredScope`, `unsecuredValidatorAllowableClockSkewMs`
//! (0).

use super::options_after;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use model::client_config::Secret;
use model::client_config::jaas::JaasEntry;
use std::collections::BTreeMap;

/// The status of a token that is not accepted (RFC 6750, section 3.1).
pub(super) const INVALID: &str = "invalid_token";
/// That of one that does not allow enough.
const INSUFFICIENT: &str = "insufficient_scope";
/// The brokers count the time of day on from their start, and may be behind by the system's corrections of it.
const CLOCK_MS: i64 = 1000;

/// Which tokens are accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct BearerRules {
    /// Tokens that are known, by principal.
    known: BTreeMap<String, Secret>,
    principal_claim: String,
    scope_claim: String,
    required_scope: Vec<String>,
    skew_ms: i64,
}

impl BearerRules {
    /// # Errors
    /// What is wrong with the options.
    pub(super) fn new(entry: &JaasEntry) -> Result<BearerRules, String> {
        let option = |name: &str, default: &str| entry.option(name).unwrap_or(default).trim().to_owned();
        const SKEW: &str = "unsecuredValidatorAllowableClockSkewMs";
        let skew_ms = option(SKEW, "0").parse::<u32>().ok().map(i64::from);
        let required = option("unsecuredValidatorRequiredScope", "");
        Ok(BearerRules {
            known: options_after(entry, "token_"),
            principal_claim: option("unsecuredValidatorPrincipalClaimName", "sub"),
            scope_claim: option("unsecuredValidatorScopeClaimName", "scope"),
            required_scope: required.split_whitespace().map(str::to_owned).collect(),
            skew_ms: skew_ms.ok_or_else(|| format!("{SKEW} is to be a number of ms, 0 or more"))?,
        })
    }

    /// Whose the token is, and when it expires, ms since 1970.
    ///
    /// # Errors
    /// The status by which it is refused.
    pub(super) fn check(&self, token: &str, wall_ms: i64) -> Result<(String, Option<i64>), &'static str> {
        if let Some((name, _)) = self
            .known
            .iter()
            .find(|(_, known)| super::is_same_secret(known.reveal(), token))
        {
            return Ok((name.clone(), None));
        }
        let claims = claims_of(token).ok_or(INVALID)?;
        let ms_of = |name: &str| Some((claims.get(name)?.as_f64()? * 1000.0) as i64);
        let expires_ms = ms_of("exp").ok_or(INVALID)?;
        let is_future = claims.get("iat").is_some()
            && ms_of("iat").is_none_or(|issued| {
                issued > wall_ms.saturating_add(self.skew_ms + CLOCK_MS) || issued > expires_ms
            });
        if is_future || expires_ms.saturating_add(self.skew_ms) < wall_ms {
            return Err(INVALID);
        }
        let principal = claims.get(&self.principal_claim).and_then(|claim| claim.as_str());
        let principal = principal.filter(|name| !name.trim().is_empty()).ok_or(INVALID)?;
        let scope = claims.get(&self.scope_claim).map_or(Vec::new(), scope_of);
        let is_enough = self
            .required_scope
            .iter()
            .all(|wanted| scope.contains(&wanted.as_str()));
        match is_enough {
            true => Ok((principal.to_owned(), Some(expires_ms))),
            false => Err(INSUFFICIENT),
        }
    }
}

/// What an unsecured token claims; `None` for what is none.
fn claims_of(token: &str) -> Option<serde_json::Value> {
    let mut parts = token.split('.');
    let (header, payload, signature) = (parts.next()?, parts.next()?, parts.next()?);
    if !signature.is_empty() || parts.next().is_some() {
        return None;
    }
    let json =
        |part: &str| serde_json::from_slice::<serde_json::Value>(&URL_SAFE_NO_PAD.decode(part).ok()?).ok();
    let algorithm = json(header)?;
    let is_unsecured = algorithm.get("alg")?.as_str()?.eq_ignore_ascii_case("none");
    json(payload).filter(|claims| is_unsecured && claims.is_object())
}

/// A scope is a list of words, or a text of them.
fn scope_of(claim: &serde_json::Value) -> Vec<&str> {
    match claim {
        serde_json::Value::String(text) => text.split_whitespace().collect(),
        serde_json::Value::Array(words) => words.iter().filter_map(|word| word.as_str()).collect(),
        _ => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(header: &str, claims: &str) -> String {
        let encode = |text: &str| URL_SAFE_NO_PAD.encode(text);
        format!("{}.{}.", encode(header), encode(claims))
    }

    fn rules(options: &str) -> BearerRules {
        let line = format!("o.OAuthBearerLoginModule required {options};");
        BearerRules::new(&JaasEntry::parse(&line).unwrap()).unwrap()
    }

    const NONE: &str = r#"{"alg":"none"}"#;

    #[test]
    fn a_token_says_who_and_until_when() {
        let rules = rules("token_carol=\"opaque-1\"");
        let good = token(NONE, r#"{"sub":"alice","iat":90,"exp":100.5}"#);
        assert_eq!(
            rules.check(&good, 100_000),
            Ok(("alice".to_owned(), Some(100_500)))
        );
        assert_eq!(rules.check(&good, 100_501), Err(INVALID));
        assert_eq!(rules.check(&good, 88_999), Err(INVALID), "issued in the future");
        assert_eq!(rules.check("opaque-1", 0), Ok(("carol".to_owned(), None)));
        for bad in [
            "",
            "opaque-2",
            "a.b",
            "a.b.c.d",
            &format!("{good}c2ln"),
            &token(r#"{"alg":"HS256"}"#, r#"{"sub":"alice","exp":100}"#),
            &token(NONE, r#"{"sub":"alice"}"#),
            &token(NONE, r#"{"sub":" ","exp":100}"#),
            &token(NONE, r#"{"exp":100}"#),
            &token(NONE, r#"{"sub":"alice","iat":"soon","exp":100}"#),
            &token(NONE, r#"["sub"]"#),
        ] {
            assert_eq!(rules.check(bad, 50_000), Err(INVALID), "{bad}");
        }
    }

    #[test]
    fn scope_claim_and_skew_are_those_of_the_options() {
        let rules = rules(
            "unsecuredValidatorPrincipalClaimName=\"name\" unsecuredValidatorRequiredScope=\"read write\" \
             unsecuredValidatorAllowableClockSkewMs=\"1000\"",
        );
        let with_scope = |scope: &str| token(NONE, &format!(r#"{{"name":"bob","exp":100,"scope":{scope}}}"#));
        assert!(
            rules
                .check(&with_scope(r#"["write","read","more"]"#), 100_900)
                .is_ok()
        );
        assert!(rules.check(&with_scope(r#""read write""#), 0).is_ok());
        assert_eq!(rules.check(&with_scope(r#""read""#), 0), Err(INSUFFICIENT));
        assert_eq!(rules.check(&with_scope("7"), 0), Err(INSUFFICIENT));
        let line = "o.O required unsecuredValidatorAllowableClockSkewMs=\"-1\";";
        assert!(BearerRules::new(&JaasEntry::parse(line).unwrap()).is_err());
    }
}
