//! Python's clients against the embedded broker: one script a client, which says `all well` at its end.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::embedded::Embedded;
use crate::program;

const AT_MOST: Duration = Duration::from_secs(180);

fn all_well(script: &str) {
    let brokers = Embedded::start(3);
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/interop/python");
    let mut command = Command::new(crate::required("PLIMSOLL_TEST_PYTHON"));
    // From elsewhere, so that no script stands in the way of a package.
    command
        .arg(directory.join(script))
        .arg(&brokers.bootstrap)
        .env("PYTHONDONTWRITEBYTECODE", "1");
    let ended = program::run(&mut command, "", AT_MOST);
    let told = ended.succeeded();
    assert!(told.contains("all well"), "{told}");
}

#[test]
fn confluent_kafka() {
    all_well("confluent.py");
}

#[test]
fn kafka_python() {
    all_well("kafka_python.py");
}

#[test]
fn aiokafka() {
    all_well("aio.py");
}
