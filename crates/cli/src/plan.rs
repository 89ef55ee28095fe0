//! From what was typed and the files it names to what will be run: resolved once, without effects on any cluster, and with
//! everything that is wrong told at once.

use crate::arguments::RunArguments;
use crate::failure::{Failure, flag_fault, system_error};
use crate::rehearsal::CLIENT_PROPERTIES;
use crate::reproduce;
use load::plan::{LoadPlan, StartFrom};
use model::client_config::OffsetReset;
use model::fault::{Fault, FaultKind, Faults, Notice};
use model::preset::{self, Preset};
use model::source::{ResolvedValue, Source};
use model::target::{Target, TargetDraft};
use model::units::{ByteSize, format_duration, parse_duration};
use model::workload::{Payload, Workload, WorkloadDraft};
use std::fmt::Write as _;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Brokers that a run starts where no cluster is named.
pub const EMBEDDED_BROKERS: usize = 3;
/// As what the addresses of these brokers were given, in the result.
const EMBEDDED_SOURCE: &str = "embedded brokers";
/// Stands for these addresses until they are known.
const EMBEDDED_PLACEHOLDER: &str = "127.0.0.1:9092";

const DEFAULT_DRAIN_TIMEOUT: Duration = Duration::from_secs(30);
const LONGEST_DRAIN_TIMEOUT: Duration = Duration::from_secs(86_400);
const MOST_THREADS: usize = 1024;
const MOST_RUN_ID_CHARACTERS: usize = 64;
/// Workload, target and properties files are far smaller.
const LARGEST_TEXT_BYTES: u64 = 16 << 20;
/// The largest record that a workload may have.
const LARGEST_PAYLOAD_BYTES: u64 = 1 << 30;

/// Reads a file up to a number of bytes; the tests have files of their own.
pub trait Files {
    /// The content of a file, cut after `at_most` bytes.
    ///
    /// # Errors
    /// When it cannot be read.
    fn read(&self, path: &Path, at_most: u64) -> io::Result<Vec<u8>>;
}

/// The files of this host.
#[derive(Debug)]
pub struct Disk;

impl Files for Disk {
    fn read(&self, path: &Path, at_most: u64) -> io::Result<Vec<u8>> {
        let mut content = Vec::new();
        std::fs::File::open(path)?
            .take(at_most)
            .read_to_end(&mut content)?;
        Ok(content)
    }
}

/// What will be run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The workload.
    pub workload: Workload,
    /// The target; that of embedded brokers has a placeholder for their addresses.
    pub target: Target,
    /// Whether no cluster was named, so that brokers are started.
    pub embedded: bool,
    /// The content of the payload file, where there is one.
    pub payload_file: Option<Vec<u8>>,
    /// Where consumers of existing topics start.
    pub from: StartFrom,
    /// How long records that were sent are awaited.
    pub drain_timeout: Duration,
    /// Threads for producers and for consumers; `None` for the load's choice.
    pub threads: Option<usize>,
    /// Script and request log of the embedded brokers.
    pub broker_script: Option<PathBuf>,
    /// Where they write down each request.
    pub broker_request_log: Option<PathBuf>,
    /// Where certificates and properties of clients are made for embedded brokers with TLS and SASL.
    pub broker_secured: Option<PathBuf>,
    /// The run id that is shared with another run; `None` where the run has one of its own.
    pub run_id: Option<u64>,
    /// Topics and groups that the run makes are kept.
    pub keep: bool,
    /// The brokers' free space is not held against what will be sent.
    pub force: bool,
    /// Where the folder of the result is made.
    pub output: PathBuf,
    /// A command line that runs the same again.
    pub reproduce: String,
    /// What the user should know before it runs.
    pub notices: Vec<Notice>,
    /// What the target was made of, to make it again with the addresses of embedded brokers.
    target_draft: TargetDraft,
}

/// The properties file that embedded brokers with TLS and SASL have made for their clients.
pub struct Secured {
    path: String,
    text: String,
}

impl Secured {
    /// Reads it from the folder.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read(folder: &Path) -> Result<Secured, Failure> {
        let path = folder.join(CLIENT_PROPERTIES);
        let shown = path.display().to_string();
        match std::fs::read_to_string(&path) {
            Ok(text) => Ok(Secured { path: shown, text }),
            Err(error) => Err(Failure::failed(format!("{shown}: {}", system_error(&error)))),
        }
    }
}

impl Plan {
    /// Finds out what the command line means.
    ///
    /// # Errors
    /// All faults of the workload, the target and the options at once.
    pub fn resolve(arguments: &RunArguments, files: &dyn Files) -> Result<Plan, Faults> {
        let mut reading = Reading {
            arguments,
            files,
            faults: Vec::new(),
            notices: Vec::new(),
        };
        reading.unknown_preset();
        let target_draft = reading.target_draft();
        let embedded = !target_draft.has_bootstrap_servers();
        let workload = reading.workload();
        let target = reading.target(&target_draft, embedded);
        let payload_file = workload
            .as_ref()
            .and_then(|workload| reading.payload_file(workload));
        let drain_timeout = reading.drain_timeout();
        let threads = reading.threads();
        let run_id = reading.run_id();
        reading.only_embedded(embedded);
        let Reading { faults, notices, .. } = reading;
        let (Some(workload), Some(target), true) = (workload, target, faults.is_empty()) else {
            let unexplained = || Fault::missing("workload", "the workload or the target cannot be resolved");
            let all = if faults.is_empty() {
                vec![unexplained()]
            } else {
                faults
            };
            return Faults::check(all, ())
                .map_err(Faults::in_order)
                .and(Err(unexplained().into()));
        };
        let reset = target.consumer.config.auto_offset_reset;
        let from = arguments.from.map_or_else(
            || {
                if reset == OffsetReset::Earliest {
                    StartFrom::Earliest
                } else {
                    StartFrom::Latest
                }
            },
            StartFrom::from,
        );
        let reproduce = reproduce::command_line(arguments, &workload);
        Ok(Plan {
            workload,
            target,
            embedded,
            payload_file,
            from,
            drain_timeout,
            threads,
            run_id,
            broker_script: arguments.broker_script.clone(),
            broker_request_log: arguments.broker_request_log.clone(),
            broker_secured: arguments.broker_secured.clone(),
            keep: arguments.keep,
            force: arguments.force,
            output: arguments.output.clone(),
            reproduce,
            notices,
            target_draft,
        })
    }

    /// What the load is given. `bootstrap` are the addresses of embedded brokers that were started for it, and `secured` is how
    /// clients connect to them, unless other properties say so.
    ///
    /// # Errors
    /// When `bootstrap` is no list of addresses, or what `secured` says does not go together with the other properties.
    pub fn for_load(
        self,
        run_id: u64,
        command: Vec<String>,
        bootstrap: Option<&str>,
        secured: Option<Secured>,
    ) -> Result<LoadPlan, Faults> {
        let target = match bootstrap {
            None => self.target,
            Some(bootstrap) => {
                let mut draft = self.target_draft;
                if let Some(Secured { path, text }) = secured {
                    draft.read_default_properties(&path, &text);
                }
                draft.set_bootstrap_servers(bootstrap, EMBEDDED_SOURCE);
                draft.resolve()?.0
            }
        };
        Ok(LoadPlan {
            run_id,
            is_run_id_shared: self.run_id.is_some(),
            workload: self.workload,
            target,
            payload_file: self.payload_file,
            keep: self.keep,
            force: self.force,
            from: self.from,
            drain_timeout: self.drain_timeout,
            threads: self.threads,
            embedded: self.embedded,
            command,
            reproduce: Some(self.reproduce),
        })
    }

    /// The plan for people: every value with its source.
    pub fn describe(&self) -> String {
        let mut text = String::from("Nothing was started (--dry-run). What would be run:\n");
        section(&mut text, "workload", &self.workload.values);
        if self.embedded {
            let started = ResolvedValue {
                key: "bootstrap.servers".to_owned(),
                value: format!("{EMBEDDED_BROKERS} embedded brokers, started for the run"),
                source: Source::Derived("no cluster named".to_owned()),
            };
            section(&mut text, "cluster", &[started]);
        }
        let mut topics = Vec::new();
        if let Some(factor) = self.target.replication_factor {
            let source = self.target_draft.replication_factor_source().cloned();
            let source = source.unwrap_or(Source::Default);
            topics.push(ResolvedValue {
                key: "replicationFactor".to_owned(),
                value: factor.to_string(),
                source,
            });
        }
        topics.extend(self.target.topic_config.iter().cloned());
        section(&mut text, "topics to create", &topics);
        let shown = |values: &[ResolvedValue]| -> Vec<ResolvedValue> {
            let is_placeholder = |value: &ResolvedValue| self.embedded && value.key == "bootstrap.servers";
            values
                .iter()
                .filter(|value| !is_placeholder(value))
                .cloned()
                .collect()
        };
        if self.workload.produces() {
            section(&mut text, "producers", &shown(&self.target.producer.values));
        }
        if self.workload.consumes() {
            section(&mut text, "consumers", &shown(&self.target.consumer.values));
        }
        section(&mut text, "admin client", &shown(&self.target.admin.values));
        let from = match self.from {
            StartFrom::Earliest => "earliest",
            StartFrom::Latest => "latest",
        };
        let threads = self
            .threads
            .map_or("by the number of CPUs".to_owned(), |threads| threads.to_string());
        let rows = [
            ("existing topics are read from", from.to_owned()),
            (
                "sent records are awaited for",
                format_duration(self.drain_timeout),
            ),
            ("threads", threads),
            (
                "topics and groups are kept",
                if self.keep { "yes" } else { "no" }.to_owned(),
            ),
            ("result", self.output.display().to_string()),
        ];
        text.push_str("\nrun\n");
        for (what, value) in rows {
            writeln!(text, "  {what:<40} {value}").unwrap_or_default();
        }
        writeln!(text, "\nreproduce\n  {}", self.reproduce).unwrap_or_default();
        text
    }
}

fn section(text: &mut String, name: &str, values: &[ResolvedValue]) {
    if values.is_empty() {
        return;
    }
    writeln!(text, "\n{name}").unwrap_or_default();
    for ResolvedValue { key, value, source } in values {
        writeln!(text, "  {key:<40} {value:<24} {source}").unwrap_or_default();
    }
}

/// Collects what is wrong while it reads.
struct Reading<'a> {
    arguments: &'a RunArguments,
    files: &'a dyn Files,
    faults: Vec<Fault>,
    notices: Vec<Notice>,
}

/// FNV-1a of 64 bits (Fowler, Noll, Vo): equal on every host, which the standard library's hashes are not.
fn word_hash(word: &str) -> u64 {
    word.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

impl Reading<'_> {
    /// The preset that is named; a name that there is not is a fault, told once.
    fn preset(&self) -> Option<&'static Preset> {
        let name = self.arguments.preset.as_deref()?;
        preset::find(name).ok()
    }

    fn unknown_preset(&mut self) {
        if let Some(name) = self.arguments.preset.as_deref()
            && let Err(problem) = preset::find(name)
        {
            self.faults.push(flag_fault("--preset", name, problem));
        }
    }

    fn target_draft(&mut self) -> TargetDraft {
        let mut draft = TargetDraft::new();
        if let Some(preset) = self.preset() {
            draft.read_driver_file(&driver_of(preset), preset.driver);
        }
        let RunArguments {
            cluster,
            target,
            replication_factor,
            topic_config,
            ..
        } = self.arguments;
        if let Some(text) = target.as_deref().and_then(|path| self.text(path, "--target")) {
            let path = target
                .as_ref()
                .map(|path| path.display().to_string())
                .unwrap_or_default();
            draft.read_driver_file(&path, &text);
        }
        if let Some(path) = cluster.command_config.as_deref()
            && let Some(text) = self.text(path, "--command-config")
        {
            draft.read_properties_file(&path.display().to_string(), &text);
        }
        for property in &cluster.property {
            draft.set_property(property, "-X");
        }
        if let Some(servers) = &cluster.bootstrap_server {
            draft.set_bootstrap_servers(servers, "--bootstrap-server");
        }
        if let Some(factor) = replication_factor {
            draft.set_replication_factor(factor, "--replication-factor");
        }
        for config in topic_config {
            draft.set_topic_config(config, "--topic-config");
        }
        draft
    }

    fn target(&mut self, draft: &TargetDraft, embedded: bool) -> Option<Target> {
        let mut draft = draft.clone();
        if embedded {
            draft.set_bootstrap_servers(EMBEDDED_PLACEHOLDER, EMBEDDED_SOURCE);
        }
        let resolved = draft.resolve();
        self.keep(resolved)
    }

    fn workload(&mut self) -> Option<Workload> {
        let mut draft = WorkloadDraft::standard();
        if let Some(preset) = self.preset() {
            draft = WorkloadDraft::from_file(&workload_of(preset), preset.workload);
        } else if let Some(path) = &self.arguments.workload {
            draft = WorkloadDraft::from_file(&path.display().to_string(), &self.text(path, "workload file")?);
        }
        for assignment in &self.arguments.set {
            draft.apply_override(assignment);
        }
        for (flag, key, value) in workload_flags(self.arguments) {
            let set_too = |set: &&String| set.split_once('=').is_some_and(|(name, _)| name.trim() == key);
            if let Some(set) = self.arguments.set.iter().find(set_too) {
                self.faults.push(flag_fault(
                    "--set",
                    set,
                    format!("{flag} sets {key} too; keep one of them"),
                ));
            }
            draft.set(key, &value, flag);
        }
        if let Some(len) = self.payload_len_that_decides() {
            draft.set("messageSize", &len.to_string(), "--payload-file");
        }
        if !self.arguments.topic.is_empty() && !self.arguments.existing {
            draft = existing_where_only_consumed(draft);
        }
        let resolved = draft.resolve();
        self.keep(resolved)
    }

    /// The length of the payload file where nothing else says how large records are.
    fn payload_len_that_decides(&self) -> Option<u64> {
        let RunArguments {
            payload_file,
            record_size,
            workload,
            preset,
            set,
            ..
        } = self.arguments;
        let is_said = record_size.is_some()
            || workload.is_some()
            || preset.is_some()
            || set.iter().any(|set| set.starts_with("messageSize"));
        let path = payload_file.as_ref().filter(|_| !is_said)?;
        let content = self.files.read(path, LARGEST_PAYLOAD_BYTES + 1).ok()?;
        Some(content.len() as u64).filter(|&len| len > 0)
    }

    fn payload_file(&mut self, workload: &Workload) -> Option<Vec<u8>> {
        let Payload::File(path) = &workload.payload else {
            return None;
        };
        match self.files.read(path, LARGEST_PAYLOAD_BYTES + 1) {
            Ok(content) => match workload.check_payload_len(content.len() as u64) {
                Ok(()) => Some(content),
                Err(fault) => {
                    self.faults.push(fault);
                    None
                }
            },
            Err(error) => {
                let given = workload.values.iter().find(|value| value.key == "payloadFile");
                let source = given.map_or(&Source::Default, |given| &given.source);
                let problem = format!("the file cannot be read: {}", system_error(&error));
                let shown = path.display().to_string();
                self.faults.push(Fault::of_value(
                    FaultKind::OutOfRange,
                    source,
                    "payloadFile",
                    &shown,
                    problem,
                ));
                None
            }
        }
    }

    fn drain_timeout(&mut self) -> Duration {
        let Some(text) = &self.arguments.drain_timeout else {
            return DEFAULT_DRAIN_TIMEOUT;
        };
        let problem = match parse_duration(text) {
            Ok(timeout) if timeout <= LONGEST_DRAIN_TIMEOUT => return timeout,
            Ok(_) => "at most 24h".to_owned(),
            Err(_) if text.starts_with('-') => "a duration must not be negative".to_owned(),
            Err(error) => error.problem,
        };
        self.faults.push(flag_fault("--drain-timeout", text, problem));
        DEFAULT_DRAIN_TIMEOUT
    }

    fn threads(&mut self) -> Option<usize> {
        let text = self.arguments.threads.as_ref()?;
        let threads = text
            .parse()
            .ok()
            .filter(|threads| (1..=MOST_THREADS).contains(threads));
        if threads.is_none() {
            let problem =
                format!("a whole number from 1 to {MOST_THREADS}; leave it out to go by the number of CPUs");
            self.faults.push(flag_fault("--threads", text, problem));
        }
        threads
    }

    /// What is said to embedded brokers makes no sense with a cluster.
    fn only_embedded(&mut self, embedded: bool) {
        let given = [
            ("--broker-script", &self.arguments.broker_script),
            ("--broker-request-log", &self.arguments.broker_request_log),
            ("--broker-secured", &self.arguments.broker_secured),
        ];
        for (flag, path) in given {
            if let Some(path) = path.as_ref().filter(|_| !embedded) {
                let problem = "it is for the embedded brokers, and a cluster is named; leave one of them out";
                self.faults
                    .push(flag_fault(flag, &path.display().to_string(), problem));
            }
        }
    }

    /// Sixteen hexadecimal digits are the number that a result shows; any other word stands for its hash.
    fn run_id(&mut self) -> Option<u64> {
        let text = self.arguments.run_id.as_ref()?;
        let is_word = |character: char| character.is_ascii_alphanumeric() || "._-".contains(character);
        if text.is_empty() || text.len() > MOST_RUN_ID_CHARACTERS || !text.chars().all(is_word) {
            let problem = format!(
                "1 to {MOST_RUN_ID_CHARACTERS} letters, digits, dots, underscores and hyphens, the same for both runs"
            );
            self.faults.push(flag_fault("--run-id", text, problem));
            return None;
        }
        match u64::from_str_radix(text, 16) {
            Ok(number) if text.len() == 16 => Some(number),
            _ => Some(word_hash(text)),
        }
    }

    fn keep<T>(&mut self, resolved: Result<(T, Vec<Notice>), Faults>) -> Option<T> {
        match resolved {
            Ok((value, notices)) => {
                self.notices.extend(notices);
                Some(value)
            }
            Err(faults) => {
                self.faults.extend(faults);
                None
            }
        }
    }

    fn text(&mut self, path: &Path, flag: &str) -> Option<String> {
        match text_of(self.files, path) {
            Ok(text) => Some(text),
            Err(problem) => {
                let fault = Fault {
                    kind: FaultKind::Missing,
                    source: Some(Source::flag(flag)),
                    key: None,
                    value: None,
                    problem: format!("{}: {problem}", path.display()),
                };
                self.faults.push(fault);
                None
            }
        }
    }
}

/// As what values of a preset's workload file are shown.
pub fn workload_of(preset: &Preset) -> String {
    format!("preset {}", preset.name)
}

/// As what values of its driver file are shown.
fn driver_of(preset: &Preset) -> String {
    format!("preset {} (driver)", preset.name)
}

/// The text of a file that is meant for people.
///
/// # Errors
/// Why it cannot be read, in words.
pub fn text_of(files: &dyn Files, path: &Path) -> Result<String, String> {
    match files.read(path, LARGEST_TEXT_BYTES + 1) {
        Ok(bytes) if bytes.len() as u64 > LARGEST_TEXT_BYTES => Err(format!(
            "the file has more than {}, which is no such file",
            ByteSize::from_bytes(LARGEST_TEXT_BYTES)
        )),
        Ok(bytes) => String::from_utf8(bytes).map_err(|_| "the file is not text in UTF-8".to_owned()),
        Err(error) => Err(format!("the file cannot be read: {}", system_error(&error))),
    }
}

/// What the options set: the option, the key of the workload file, the value.
fn workload_flags(arguments: &RunArguments) -> Vec<(&'static str, &'static str, String)> {
    let payload_file = arguments
        .payload_file
        .as_ref()
        .map(|path| path.display().to_string());
    let topic_names = (!arguments.topic.is_empty()).then(|| yaml_list(&arguments.topic));
    let existing = arguments.existing.then(|| "true".to_owned());
    let given = [
        ("--name", "name", &arguments.name),
        ("--topics", "topics", &arguments.topics),
        ("--topic", "topicNames", &topic_names),
        ("--existing", "existingTopics", &existing),
        ("--partitions", "partitionsPerTopic", &arguments.partitions),
        ("--record-size", "messageSize", &arguments.record_size),
        ("--payload-file", "payloadFile", &payload_file),
        ("--stamp", "stamp", &arguments.stamp),
        ("--key-distributor", "keyDistributor", &arguments.key_distributor),
        (
            "--producers-per-topic",
            "producersPerTopic",
            &arguments.producers_per_topic,
        ),
        (
            "--subscriptions",
            "subscriptionsPerTopic",
            &arguments.subscriptions,
        ),
        (
            "--consumers-per-subscription",
            "consumerPerSubscription",
            &arguments.consumers_per_subscription,
        ),
        ("--rate", "producerRate", &arguments.rate),
        ("--slo", "slo", &arguments.slo),
        ("--warmup", "warmupDuration", &arguments.warmup),
        ("--warmup-records", "warmupRecords", &arguments.warmup_records),
        ("--duration", "testDuration", &arguments.duration),
        ("--records", "testRecords", &arguments.records),
        ("--seed", "seed", &arguments.seed),
    ];
    given
        .into_iter()
        .filter_map(|(flag, key, value)| Some((flag, key, value.clone()?)))
        .collect()
}

/// Texts as a YAML flow sequence, whatever they hold.
fn yaml_list(items: &[String]) -> String {
    let quoted = |item: &String| {
        let escaped: String = item
            .chars()
            .map(|c| match c {
                '"' | '\\' => format!("\\{c}"),
                ' '..='~' => c.to_string(),
                _ => format!("\\U{:08X}", u32::from(c)),
            })
            .collect();
        format!("\"{escaped}\"")
    };
    format!("[{}]", items.iter().map(quoted).collect::<Vec<_>>().join(", "))
}

/// A named topic that is only read must be one that exists.
fn existing_where_only_consumed(draft: WorkloadDraft) -> WorkloadDraft {
    let mut assumed = draft.clone();
    assumed.set("existingTopics", "true", "--topic");
    match assumed.clone().resolve() {
        Ok((workload, _)) if !workload.produces() => assumed,
        _ => draft,
    }
}

#[cfg(test)]
mod tests;
