//! The table of every property of the Java producer, consumer and admin client: name, type, default, and whether it has
//! an effect here. A name stands in several rows where the clients' defaults differ.

use super::ClientKind;

/// The type of a property's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ValueKind {
    /// Any text.
    Text,
    /// Texts separated by commas.
    List,
    /// The name of a Java class.
    Class,
    /// `true` or `false`.
    Flag,
    /// A whole number within limits.
    Whole {
        /// The smallest value.
        min: i64,
        /// The largest value.
        max: i64,
    },
    /// A number that may have decimals.
    Decimal,
    /// One of these words.
    Word(&'static [&'static str]),
    /// A text that must never be shown.
    Secret,
}

/// Whether a property has an effect here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Honoured {
    /// It has.
    Yes,
    /// It has none; the text says why.
    No(&'static str),
    /// What happens is what this value asks for, whatever is set.
    Only {
        /// The value that describes what happens.
        value: &'static str,
        /// Why nothing else is possible.
        why: &'static str,
    },
}

/// A property of a Kafka client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PropertySpec {
    /// Its name.
    pub name: &'static str,
    clients: u8,
    /// The type of its value.
    pub kind: ValueKind,
    /// The Java client's default; absent where there is none.
    pub default: Option<&'static str>,
    /// Whether it has an effect here.
    pub honoured: Honoured,
}

impl PropertySpec {
    /// Whether this client has the property, with this row's default.
    pub const fn applies_to(&self, client: ClientKind) -> bool {
        self.clients & bit(client) != 0
    }
}

const fn bit(client: ClientKind) -> u8 {
    match client {
        ClientKind::Producer => P,
        ClientKind::Consumer => C,
        ClientKind::Admin => A,
    }
}

const P: u8 = 1;
const C: u8 = 2;
const A: u8 = 4;
const ALL: u8 = P | C | A;

const I32: i64 = i32::MAX as i64;
const MILLISECONDS: ValueKind = Whole {
    min: 0,
    max: i64::MAX / 1_000_000,
};
const MILLISECONDS_I32: ValueKind = Whole { min: 0, max: I32 };
const MILLISECONDS_OR_NEVER: ValueKind = Whole {
    min: -1,
    max: i64::MAX / 1_000_000,
};
const BUFFER_BYTES: ValueKind = Whole { min: -1, max: I32 };
const COUNT_FROM_1: ValueKind = Whole { min: 1, max: I32 };
const COUNT_FROM_0: ValueKind = Whole { min: 0, max: I32 };
const SECONDS: ValueKind = Whole { min: 0, max: I32 };

use Honoured::{No, Only, Yes};
use ValueKind::{Class, Decimal, Flag, List, Secret, Text, Whole, Word};

const NO_CLASSES: Honoured = No("no Java classes are loaded");
const NO_SERIALIZERS: Honoured = No("keys and values are bytes, and no serialiser is used");
const NO_METRICS: Honoured = No("the Java client's metrics do not exist here; the run reports its own");
const NO_PROVIDERS: Honoured = No("TLS is not Java's here, so that its providers and managers are not asked");
const NO_KERBEROS: Honoured = No("GSSAPI is not served");
const NO_VALIDATION: Honoured = No("tokens are validated by the broker");
const NO_ASSERTIONS: Honoured = No("the grant of JWT assertions is not served; client credentials are");
const NO_REFRESH: Honoured = No("tokens are fetched anew when four fifths of their lifetime have passed");
const NO_SHARE_GROUPS: Honoured = No("share groups are not joined");

const fn row(
    clients: u8,
    name: &'static str,
    kind: ValueKind,
    default: &'static str,
    honoured: Honoured,
) -> PropertySpec {
    PropertySpec {
        name,
        clients,
        kind,
        default: Some(default),
        honoured,
    }
}

const fn bare(clients: u8, name: &'static str, kind: ValueKind, honoured: Honoured) -> PropertySpec {
    PropertySpec {
        name,
        clients,
        kind,
        default: None,
        honoured,
    }
}

#[rustfmt::skip] // One row a line makes it a table.
const CATALOGUE: &[PropertySpec] = &[
    // Connections, of all clients.
    bare(ALL, "bootstrap.servers", List, Yes),
    row(ALL, "client.id", Text, "", Yes),
    row(ALL, "client.dns.lookup", Text, "use_all_dns_ips", Only { value: "use_all_dns_ips", why: "all addresses of a name are tried in turn" }),
    row(ALL, "security.protocol", Word(&["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]), "PLAINTEXT", Yes),
    row(ALL, "request.timeout.ms", MILLISECONDS_I32, "30000", Yes),
    row(ALL, "retry.backoff.ms", MILLISECONDS, "100", Yes),
    row(ALL, "retry.backoff.max.ms", MILLISECONDS, "1000", Yes),
    row(ALL, "reconnect.backoff.ms", MILLISECONDS, "50", Yes),
    row(ALL, "reconnect.backoff.max.ms", MILLISECONDS, "1000", Yes),
    row(ALL, "socket.connection.setup.timeout.ms", MILLISECONDS, "10000", Yes),
    row(ALL, "socket.connection.setup.timeout.max.ms", MILLISECONDS, "30000", Yes),
    row(P | C, "connections.max.idle.ms", MILLISECONDS_OR_NEVER, "540000", Yes),
    row(A, "connections.max.idle.ms", MILLISECONDS_OR_NEVER, "300000", Yes),
    row(ALL, "metadata.max.age.ms", MILLISECONDS, "300000", Yes),
    row(ALL, "send.buffer.bytes", BUFFER_BYTES, "131072", Yes),
    row(P, "receive.buffer.bytes", BUFFER_BYTES, "32768", Yes),
    row(C | A, "receive.buffer.bytes", BUFFER_BYTES, "65536", Yes),
    row(ALL, "metadata.recovery.strategy", Text, "rebootstrap", Only { value: "rebootstrap", why: "the bootstrap servers are asked again when no known broker answers" }),
    row(ALL, "metadata.recovery.rebootstrap.trigger.ms", MILLISECONDS, "300000", No("the bootstrap servers are asked again as soon as no known broker answers")),
    bare(ALL, "security.providers", Text, NO_CLASSES),
    row(ALL, "config.providers", List, "", NO_CLASSES),
    row(ALL, "metric.reporters", List, "org.apache.kafka.common.metrics.JmxReporter", NO_METRICS),
    row(ALL, "auto.include.jmx.reporter", Flag, "true", NO_METRICS),
    row(ALL, "metrics.num.samples", COUNT_FROM_1, "2", NO_METRICS),
    row(ALL, "metrics.sample.window.ms", MILLISECONDS, "30000", NO_METRICS),
    row(ALL, "metrics.recording.level", Text, "INFO", NO_METRICS),
    row(ALL, "enable.metrics.push", Flag, "true", Only { value: "false", why: "no client metrics are pushed to the brokers" }),

    // The producer.
    row(P, "acks", Word(&["all", "-1", "0", "1"]), "all", Yes),
    row(P, "enable.idempotence", Flag, "true", Yes),
    row(P, "batch.size", COUNT_FROM_0, "16384", Yes),
    row(P, "linger.ms", MILLISECONDS, "5", Yes),
    row(P, "buffer.memory", Whole { min: 0, max: i64::MAX }, "33554432", Yes),
    row(P, "max.block.ms", MILLISECONDS, "60000", Yes),
    row(P, "max.in.flight.requests.per.connection", COUNT_FROM_1, "5", Yes),
    row(P, "max.request.size", COUNT_FROM_0, "1048576", Yes),
    row(P, "retries", COUNT_FROM_0, "2147483647", Yes),
    row(P, "delivery.timeout.ms", MILLISECONDS_I32, "120000", Yes),
    row(P, "compression.type", Word(&["none", "gzip", "snappy", "lz4", "zstd"]), "none", Yes),
    row(P, "compression.gzip.level", Whole { min: -1, max: 9 }, "-1", Yes),
    row(P, "compression.lz4.level", Whole { min: 1, max: 17 }, "9", Yes),
    row(P, "compression.zstd.level", Whole { min: -131_072, max: 22 }, "3", Yes),
    row(P, "partitioner.adaptive.partitioning.enable", Flag, "true", Yes),
    row(P, "partitioner.availability.timeout.ms", MILLISECONDS, "0", Yes),
    row(P, "partitioner.ignore.keys", Flag, "false", Yes),
    row(P, "partitioner.rack.aware", Flag, "false", Only { value: "false", why: "partitions are picked without regard to racks" }),
    bare(P, "partitioner.class", Class, No("the built-in partitioner, or the workload's partitionWeights, pick the partition")),
    bare(P, "transactional.id", Text, Yes),
    row(P, "transaction.timeout.ms", Whole { min: 1, max: i32::MAX as i64 }, "60000", Yes),
    row(P, "transaction.two.phase.commit.enable", Flag, "false", Only { value: "false", why: "nobody but the producer decides when a transaction ends" }),
    row(P, "metadata.max.idle.ms", MILLISECONDS, "300000", No("metadata of the workload's topics is kept throughout")),
    bare(P, "key.serializer", Class, NO_SERIALIZERS),
    bare(P, "value.serializer", Class, NO_SERIALIZERS),

    // The consumer.
    row(C, "fetch.min.bytes", COUNT_FROM_0, "1", Yes),
    row(C, "fetch.max.wait.ms", MILLISECONDS_I32, "500", Yes),
    row(C, "fetch.max.bytes", COUNT_FROM_0, "52428800", Yes),
    row(C, "max.partition.fetch.bytes", COUNT_FROM_0, "1048576", Yes),
    bare(C, "group.id", Text, Yes),
    bare(C, "group.instance.id", Text, Yes),
    row(C, "group.protocol", Text, "classic", Yes),
    bare(C, "group.remote.assignor", Text, Yes),
    row(C, "session.timeout.ms", COUNT_FROM_1, "45000", Yes),
    row(C, "heartbeat.interval.ms", COUNT_FROM_1, "3000", Yes),
    row(C, "max.poll.interval.ms", COUNT_FROM_1, "300000", Yes),
    row(C, "max.poll.records", COUNT_FROM_1, "500", No("batches are handed on whole, as they were fetched")),
    row(C, "auto.offset.reset", Text, "latest", Yes),
    row(C, "enable.auto.commit", Flag, "true", Yes),
    row(C, "auto.commit.interval.ms", MILLISECONDS_I32, "5000", Yes),
    row(C, "isolation.level", Word(&["read_uncommitted", "read_committed"]), "read_uncommitted", Yes),
    row(C, "partition.assignment.strategy", List, "org.apache.kafka.clients.consumer.RangeAssignor,org.apache.kafka.clients.consumer.CooperativeStickyAssignor", Yes),
    row(C, "client.rack", Text, "", Yes),
    row(C, "check.crcs", Flag, "true", Yes),
    row(C, "exclude.internal.topics", Flag, "true", No("topics are subscribed by name")),
    row(C, "allow.auto.create.topics", Flag, "true", Only { value: "false", why: "asking for a topic never creates it" }),
    bare(C, "key.deserializer", Class, NO_SERIALIZERS),
    bare(C, "value.deserializer", Class, NO_SERIALIZERS),
    row(C, "share.acknowledgement.mode", Text, "implicit", NO_SHARE_GROUPS),
    row(C, "share.acquire.mode", Text, "batch_optimized", NO_SHARE_GROUPS),
    row(P | C, "interceptor.classes", List, "", NO_CLASSES),

    // The admin client.
    row(A, "default.api.timeout.ms", MILLISECONDS_I32, "60000", Yes),
    row(C, "default.api.timeout.ms", MILLISECONDS_I32, "60000", No("a consumer's requests are bounded by request.timeout.ms alone")),
    row(A, "retries", COUNT_FROM_0, "2147483647", No("requests are repeated until default.api.timeout.ms")),
    bare(A, "bootstrap.controllers", List, No("brokers are asked, never controllers")),

    // TLS.
    row(ALL, "ssl.protocol", Text, "TLSv1.3", No("ssl.enabled.protocols says which versions are spoken")),
    bare(ALL, "ssl.provider", Text, NO_PROVIDERS),
    bare(ALL, "ssl.cipher.suites", List, Yes),
    row(ALL, "ssl.enabled.protocols", List, "TLSv1.2,TLSv1.3", Yes),
    row(ALL, "ssl.keystore.type", Text, "JKS", Yes),
    bare(ALL, "ssl.keystore.key", Secret, Yes),
    bare(ALL, "ssl.keystore.certificate.chain", Secret, Yes),
    bare(ALL, "ssl.keystore.location", Text, Yes),
    bare(ALL, "ssl.keystore.password", Secret, Yes),
    bare(ALL, "ssl.key.password", Secret, Yes),
    row(ALL, "ssl.truststore.type", Text, "JKS", Yes),
    bare(ALL, "ssl.truststore.certificates", Secret, Yes),
    bare(ALL, "ssl.truststore.location", Text, Yes),
    bare(ALL, "ssl.truststore.password", Secret, Yes),
    row(ALL, "ssl.keymanager.algorithm", Text, "SunX509", NO_PROVIDERS),
    row(ALL, "ssl.trustmanager.algorithm", Text, "PKIX", NO_PROVIDERS),
    row(ALL, "ssl.endpoint.identification.algorithm", Text, "https", Yes),
    bare(ALL, "ssl.secure.random.implementation", Text, NO_PROVIDERS),
    bare(ALL, "ssl.engine.factory.class", Class, NO_PROVIDERS),

    // SASL.
    row(ALL, "sasl.mechanism", Text, "GSSAPI", Yes),
    bare(ALL, "sasl.jaas.config", Secret, Yes),
    bare(ALL, "sasl.client.callback.handler.class", Class, NO_CLASSES),
    bare(ALL, "sasl.login.callback.handler.class", Class, Yes),
    bare(ALL, "sasl.login.class", Class, NO_CLASSES),
    bare(ALL, "sasl.kerberos.service.name", Text, NO_KERBEROS),
    row(ALL, "sasl.kerberos.kinit.cmd", Text, "/usr/bin/kinit", NO_KERBEROS),
    row(ALL, "sasl.kerberos.ticket.renew.window.factor", Decimal, "0.8", NO_KERBEROS),
    row(ALL, "sasl.kerberos.ticket.renew.jitter", Decimal, "0.05", NO_KERBEROS),
    row(ALL, "sasl.kerberos.min.time.before.relogin", MILLISECONDS, "60000", NO_KERBEROS),
    row(ALL, "sasl.login.refresh.window.factor", Decimal, "0.8", NO_REFRESH),
    row(ALL, "sasl.login.refresh.window.jitter", Decimal, "0.05", NO_REFRESH),
    row(ALL, "sasl.login.refresh.min.period.seconds", SECONDS, "60", NO_REFRESH),
    row(ALL, "sasl.login.refresh.buffer.seconds", SECONDS, "300", NO_REFRESH),
    bare(ALL, "sasl.login.connect.timeout.ms", MILLISECONDS_I32, Yes),
    bare(ALL, "sasl.login.read.timeout.ms", MILLISECONDS_I32, Yes),
    row(ALL, "sasl.login.retry.backoff.ms", MILLISECONDS, "100", NO_REFRESH),
    row(ALL, "sasl.login.retry.backoff.max.ms", MILLISECONDS, "10000", NO_REFRESH),
    row(ALL, "sasl.oauthbearer.scope.claim.name", Text, "scope", NO_VALIDATION),
    row(ALL, "sasl.oauthbearer.sub.claim.name", Text, "sub", NO_VALIDATION),
    bare(ALL, "sasl.oauthbearer.token.endpoint.url", Text, Yes),
    bare(ALL, "sasl.oauthbearer.jwks.endpoint.url", Text, NO_VALIDATION),
    row(ALL, "sasl.oauthbearer.jwks.endpoint.refresh.ms", MILLISECONDS, "3600000", NO_VALIDATION),
    row(ALL, "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", MILLISECONDS, "100", NO_VALIDATION),
    row(ALL, "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", MILLISECONDS, "10000", NO_VALIDATION),
    row(ALL, "sasl.oauthbearer.clock.skew.seconds", SECONDS, "30", NO_VALIDATION),
    bare(ALL, "sasl.oauthbearer.expected.audience", List, NO_VALIDATION),
    bare(ALL, "sasl.oauthbearer.expected.issuer", Text, NO_VALIDATION),
    row(ALL, "sasl.oauthbearer.header.urlencode", Flag, "false", Yes),
    row(ALL, "sasl.oauthbearer.jwt.retriever.class", Class, "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever", NO_CLASSES),
    row(ALL, "sasl.oauthbearer.jwt.validator.class", Class, "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator", NO_VALIDATION),
    row(ALL, "sasl.oauthbearer.assertion.algorithm", Text, "RS256", NO_ASSERTIONS),
    bare(ALL, "sasl.oauthbearer.assertion.claim.aud", Text, NO_ASSERTIONS),
    row(ALL, "sasl.oauthbearer.assertion.claim.exp.seconds", SECONDS, "300", NO_ASSERTIONS),
    bare(ALL, "sasl.oauthbearer.assertion.claim.iss", Text, NO_ASSERTIONS),
    row(ALL, "sasl.oauthbearer.assertion.claim.jti.include", Flag, "false", NO_ASSERTIONS),
    row(ALL, "sasl.oauthbearer.assertion.claim.nbf.seconds", SECONDS, "60", NO_ASSERTIONS),
    bare(ALL, "sasl.oauthbearer.assertion.claim.sub", Text, NO_ASSERTIONS),
    bare(ALL, "sasl.oauthbearer.assertion.file", Text, NO_ASSERTIONS),
    bare(ALL, "sasl.oauthbearer.assertion.private.key.file", Text, NO_ASSERTIONS),
    bare(ALL, "sasl.oauthbearer.assertion.private.key.passphrase", Secret, NO_ASSERTIONS),
    bare(ALL, "sasl.oauthbearer.assertion.template.file", Text, NO_ASSERTIONS),
    bare(ALL, "sasl.oauthbearer.client.credentials.client.id", Text, Yes),
    bare(ALL, "sasl.oauthbearer.client.credentials.client.secret", Secret, Yes),
    bare(ALL, "sasl.oauthbearer.scope", Text, Yes),
];

/// All rows; a name stands in several where the clients' defaults differ.
pub fn all() -> &'static [PropertySpec] {
    CATALOGUE
}

/// The row of a name for one client.
pub fn find(name: &str, client: ClientKind) -> Option<&'static PropertySpec> {
    CATALOGUE
        .iter()
        .find(|spec| spec.name == name && spec.applies_to(client))
}

/// Whether a property's value must never be shown: by its type, or, for unknown ones, by its name.
pub fn is_secret(name: &str) -> bool {
    match CATALOGUE.iter().find(|spec| spec.name == name) {
        Some(spec) => spec.kind == Secret,
        None => {
            let name = name.to_ascii_lowercase();
            [
                "password",
                "passphrase",
                "secret",
                "jaas",
                "credential",
                "token",
                ".key",
            ]
            .iter()
            .any(|word| name.contains(word))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_client_has_each_name_once() {
        for (index, spec) in CATALOGUE.iter().enumerate() {
            for other in &CATALOGUE[index + 1..] {
                assert!(
                    spec.name != other.name || spec.clients & other.clients == 0,
                    "{} stands twice",
                    spec.name
                );
            }
        }
    }

    #[test]
    fn every_default_is_of_its_propertys_type() {
        for spec in CATALOGUE {
            let Some(default) = spec.default else { continue };
            match spec.kind {
                Flag => assert!(matches!(default, "true" | "false"), "{}", spec.name),
                Whole { min, max } => {
                    let value: i64 = default.parse().expect(spec.name);
                    assert!((min..=max).contains(&value), "{}", spec.name);
                }
                Decimal => assert!(default.parse::<f64>().is_ok(), "{}", spec.name),
                Word(words) => assert!(words.contains(&default), "{}", spec.name),
                Text | List | Class | Secret => {}
            }
        }
    }

    #[test]
    fn secrets_are_known_by_type_and_by_name() {
        for name in [
            "sasl.jaas.config",
            "ssl.key.password",
            "ssl.keystore.key",
            "my.db.password",
            "API_SECRET",
        ] {
            assert!(is_secret(name), "{name}");
        }
        for name in [
            "client.id",
            "key.serializer",
            "sasl.oauthbearer.token.endpoint.url",
            "my.colour",
        ] {
            assert!(!is_secret(name), "{name}");
        }
    }
}
