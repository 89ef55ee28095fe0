//! The node configs of security: those of TLS and SASL, which may stand behind the name of the listener.
//!
//! The listener of a broker has the name of its security protocol, in lower case: `listener.name.sasl_ssl.ssl.client.auth`. What
//! belongs to one mechanism has its name too: `listener.name.sasl_ssl.plain.sasl.jaas.config`.

use super::{Definition, Kind, Overrides, Rule, node};

/// The protocols of a listener.
pub(crate) const PROTOCOLS: &[&str] = &["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"];
/// The mechanisms that are served.
pub(crate) const MECHANISMS: &[&str] = &["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"];
/// What the names of a listener's own configs begin with.
const LISTENER: &str = "listener.name.";
const STORE_TYPES: &[&str] = &["JKS", "PKCS12", "PEM"];

const fn fixed(name: &'static str, kind: Kind, default: &'static str, rule: Rule) -> Definition {
    node(name, kind, default, rule, false)
}

/// The configs of security, in order of name. All of them are honoured.
pub(crate) const SECURITY_CONFIGS: &[Definition] = &[
    fixed("connections.max.reauth.ms", Kind::Long, "0", Rule::AtLeast(0)),
    // Empty: those that have a login line; OAUTHBEARER needs one that is meant for it.
    fixed("sasl.enabled.mechanisms", Kind::List, "", Rule::Any),
    fixed("sasl.jaas.config", Kind::Password, "", Rule::Any),
    fixed(
        "sasl.server.max.receive.size",
        Kind::Int,
        "524288",
        Rule::AtLeast(1),
    ),
    fixed(
        "security.protocol",
        Kind::String,
        "PLAINTEXT",
        Rule::OneOf(PROTOCOLS),
    ),
    fixed(
        "ssl.client.auth",
        Kind::String,
        "none",
        Rule::OneOf(&["required", "requested", "none"]),
    ),
    fixed("ssl.enabled.protocols", Kind::List, "TLSv1.2,TLSv1.3", Rule::Any),
    fixed("ssl.key.password", Kind::Password, "", Rule::Any),
    fixed("ssl.keystore.certificate.chain", Kind::Password, "", Rule::Any),
    fixed("ssl.keystore.key", Kind::Password, "", Rule::Any),
    fixed("ssl.keystore.location", Kind::String, "", Rule::Any),
    fixed("ssl.keystore.password", Kind::Password, "", Rule::Any),
    fixed("ssl.keystore.type", Kind::String, "JKS", Rule::OneOf(STORE_TYPES)),
    fixed("ssl.truststore.certificates", Kind::Password, "", Rule::Any),
    fixed("ssl.truststore.location", Kind::String, "", Rule::Any),
    fixed("ssl.truststore.password", Kind::Password, "", Rule::Any),
    fixed(
        "ssl.truststore.type",
        Kind::String,
        "JKS",
        Rule::OneOf(STORE_TYPES),
    ),
];

/// The config that a name means, without the listener and the mechanism that may stand before it.
pub(crate) fn find_security_config(name: &str) -> Option<&'static Definition> {
    let own = name.strip_prefix(LISTENER).and_then(|rest| rest.split_once('.'));
    let bare = match own {
        Some((_, rest)) => MECHANISMS
            .iter()
            .find_map(|mechanism| {
                let rest = rest
                    .strip_prefix(mechanism.to_lowercase().as_str())?
                    .strip_prefix('.')?;
                matches!(rest, "sasl.jaas.config" | "connections.max.reauth.ms").then_some(rest)
            })
            .unwrap_or(rest),
        None => name,
    };
    let is_listeners_own = own.is_none() || bare != "security.protocol";
    SECURITY_CONFIGS
        .iter()
        .find(|definition| definition.name == bare && is_listeners_own)
}

/// The listener that a name belongs to, if it is one's own.
pub(crate) fn listener_of(name: &str) -> Option<&str> {
    let (listener, _) = name.strip_prefix(LISTENER)?.split_once('.')?;
    Some(listener)
}

/// A value of that listener and mechanism, or of the listener, or of all.
pub(crate) fn value_for<'a>(
    configs: &'a Overrides,
    listener: &str,
    mechanism: Option<&str>,
    name: &str,
) -> Option<&'a str> {
    let of_mechanism =
        mechanism.map(|mechanism| format!("{LISTENER}{listener}.{}.{name}", mechanism.to_lowercase()));
    let of_listener = format!("{LISTENER}{listener}.{name}");
    let names = of_mechanism.into_iter().chain([of_listener, name.to_owned()]);
    let found = names.filter_map(|name| configs.get(&name)).next();
    found.map(|value| value.trim()).filter(|value| !value.is_empty())
}

/// The default of a config.
pub(crate) fn default_of(name: &str) -> &'static str {
    find_security_config(name).map_or("", |definition| definition.default)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_stand_behind_listener_and_mechanism() {
        let name_of = |name| find_security_config(name).map(|definition| definition.name);
        assert_eq!(name_of("ssl.client.auth"), Some("ssl.client.auth"));
        assert_eq!(
            name_of("listener.name.ssl.ssl.client.auth"),
            Some("ssl.client.auth")
        );
        assert_eq!(
            name_of("listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config"),
            Some("sasl.jaas.config")
        );
        assert_eq!(
            name_of("listener.name.sasl_ssl.oauthbearer.connections.max.reauth.ms"),
            Some("connections.max.reauth.ms")
        );
        for unknown in [
            "listener.name.ssl.num.partitions",
            "listener.name.ssl.plain.ssl.client.auth",
            "listener.name.ssl.security.protocol",
            "plain.sasl.jaas.config",
            "ssl.cipher.suites",
        ] {
            assert_eq!(name_of(unknown), None, "{unknown}");
        }
    }

    #[test]
    fn the_nearest_value_counts() {
        let configs = Overrides::from(
            [
                ("sasl.jaas.config", "all"),
                ("listener.name.ssl.sasl.jaas.config", "listener"),
                ("listener.name.ssl.plain.sasl.jaas.config", "mechanism"),
            ]
            .map(|(name, value)| (name.to_owned(), value.to_owned())),
        );
        let value = |listener, mechanism| value_for(&configs, listener, mechanism, "sasl.jaas.config");
        assert_eq!(value("ssl", Some("PLAIN")), Some("mechanism"));
        assert_eq!(value("ssl", Some("OAUTHBEARER")), Some("listener"));
        assert_eq!(value("sasl_ssl", Some("PLAIN")), Some("all"));
    }
}
