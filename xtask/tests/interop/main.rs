//! Other people's programs against the embedded broker, and plimsoll against real Apache Kafka.
//!
//! `cargo x test` runs these; it builds the binary, starts Kafka and says where they are:
//! - `PLIMSOLL_TEST_BINARY`: the release binary;
//! - `PLIMSOLL_TEST_KAFKA`: bootstrap servers of a real cluster, and in `PLIMSOLL_TEST_KAFKA_VERSION` its release;
//! - `PLIMSOLL_TEST_SECURED_KAFKA` and `PLIMSOLL_TEST_SECURED_FILES`: the plain listener of a real cluster that has others with
//!   TLS and SASL, and where the properties files for those stand;
//! - `PLIMSOLL_TEST_PYTHON`: a Python that has Kafka clients (`cargo x test --interop` alone).
//!
//! A test whose program or cluster is not there fails; none is skipped.

#![expect(
    clippy::disallowed_methods,
    reason = "tests of whole processes wait for them, and find them by the environment"
)]

mod broker_killed;
mod clocks;
mod embedded;
mod java_tools;
mod kcat;
mod program;
mod python;
mod run;
mod security;
mod versions;

/// The plimsoll binary under test.
fn plimsoll() -> String {
    required("PLIMSOLL_TEST_BINARY")
}

/// Bootstrap servers of real Apache Kafka.
fn real_kafka() -> String {
    required("PLIMSOLL_TEST_KAFKA")
}

fn required(variable: &str) -> String {
    std::env::var(variable)
        .unwrap_or_else(|_| panic!("{variable} is not set: run these tests by `cargo x test`"))
}
