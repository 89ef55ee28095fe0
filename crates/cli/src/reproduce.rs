//! One command line that runs the same workload on the same target again, and command lines without their secrets.

use crate::arguments::{From, RunArguments};
use crate::plan::workload_of;
use model::client_config::is_secret;
use model::preset;
use model::workload::{Workload, WorkloadDraft, keys};

/// What stands in place of a secret.
const HIDDEN: &str = "[hidden]";

/// The command line for a resolved workload and the target that the arguments name. The workload is written out, so that it
/// stays what it was when its file changes; files of the target are named, since they may hold secrets.
pub fn command_line(arguments: &RunArguments, workload: &Workload) -> String {
    let mut words = vec!["plimsoll".to_owned(), "run".to_owned()];
    let mut option = |name: &str, value: &str| words.extend([name.to_owned(), value.to_owned()]);
    let cluster = &arguments.cluster;
    if let Some(servers) = &cluster.bootstrap_server {
        option("--bootstrap-server", servers);
    }
    if let Some(name) = &arguments.preset {
        option("--preset", name);
    }
    if let Some(path) = &arguments.target {
        option("--target", &path.display().to_string());
    }
    if let Some(path) = &cluster.command_config {
        option("--command-config", &path.display().to_string());
    }
    for property in &cluster.property {
        option("-X", &without_secret(property));
    }
    if let Some(factor) = &arguments.replication_factor {
        option("--replication-factor", factor);
    }
    for config in &arguments.topic_config {
        option("--topic-config", config);
    }
    for assignment in assignments(workload, arguments.preset.as_deref()) {
        option("--set", &assignment);
    }
    match arguments.from {
        Some(From::Earliest) => option("--from", "earliest"),
        Some(From::Latest) => option("--from", "latest"),
        None => {}
    }
    if let Some(timeout) = &arguments.drain_timeout {
        option("--drain-timeout", timeout);
    }
    if let Some(threads) = &arguments.threads {
        option("--threads", threads);
    }
    for (flag, path) in [
        ("--broker-script", &arguments.broker_script),
        ("--broker-request-log", &arguments.broker_request_log),
        ("--broker-secured", &arguments.broker_secured),
    ] {
        if let Some(path) = path {
            option(flag, &path.display().to_string());
        }
    }
    if let Some(run_id) = &arguments.run_id {
        option("--run-id", run_id);
    }
    for (flag, given) in [("--keep", arguments.keep), ("--force", arguments.force)] {
        if given {
            words.push(flag.to_owned());
        }
    }
    words
        .iter()
        .map(|word| shell_quoted(word))
        .collect::<Vec<_>>()
        .join(" ")
}

/// What makes the workload of a run without a file, or that of a preset, into this one, in the order of the keys.
fn assignments(workload: &Workload, preset: Option<&str>) -> Vec<String> {
    let standard = match preset.and_then(|name| preset::find(name).ok()) {
        Some(preset) => WorkloadDraft::from_file(&workload_of(preset), preset.workload),
        None => WorkloadDraft::standard(),
    };
    let standard = standard
        .resolve()
        .map(|(standard, _)| standard.assignments())
        .unwrap_or_default();
    let mut assignments = workload.assignments();
    if !workload.values.iter().any(|value| value.key == "messageSize") {
        // A file may leave it out where nothing is produced, and a run without a file has a default for it.
        assignments.push(format!("messageSize={}", workload.message_size.bytes()));
    }
    assignments.retain(|assignment| !standard.contains(assignment));
    let place = |assignment: &String| {
        let name = assignment.split_once('=').map_or("", |(name, _)| name);
        keys().iter().position(|key| key.name == name)
    };
    assignments.sort_by_key(place);
    assignments
}

/// A word as a POSIX shell reads it back.
fn shell_quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_./:,=@%+".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// A command line as it was typed, but without the values of secret properties.
pub fn without_secrets(command: &[String]) -> Vec<String> {
    let mut shown = Vec::with_capacity(command.len());
    let mut is_property = false;
    for word in command {
        let attached = word
            .strip_prefix("-X")
            .filter(|rest| !rest.is_empty() && !is_property);
        shown.push(match attached {
            Some(rest) => format!("-X{}", without_secret(rest)),
            None if is_property => without_secret(word),
            None => word.clone(),
        });
        is_property = word == "-X" && !is_property;
    }
    shown
}

fn without_secret(property: &str) -> String {
    let (lead, bare) = property
        .strip_prefix('=')
        .map_or(("", property), |bare| ("=", bare));
    match bare.split_once('=') {
        Some((name, _)) if is_secret(name.trim()) => format!("{lead}{name}={HIDDEN}"),
        _ => property.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_where_a_shell_would_change_them() {
        assert_eq!(shell_quoted("producerRate=50000"), "producerRate=50000");
        assert_eq!(shell_quoted("headers={a: b}"), "'headers={a: b}'");
        assert_eq!(shell_quoted("it's"), r"'it'\''s'");
        assert_eq!(shell_quoted(""), "''");
    }

    #[test]
    fn a_command_line_keeps_no_secret() {
        let typed = [
            "plimsoll",
            "run",
            "-X",
            "sasl.jaas.config=k",
            "-Xssl.key.password=p",
            "-X=ssl.key.password=p",
            "-X",
            "acks=1",
        ];
        let typed: Vec<String> = typed.map(str::to_owned).into();
        let shown = without_secrets(&typed).join(" ");
        assert_eq!(
            shown,
            "plimsoll run -X sasl.jaas.config=[hidden] -Xssl.key.password=[hidden] -X=ssl.key.password=[hidden] -X acks=1"
        );
    }
}
