//! The jars of one release, from Maven Central, and the command that runs a class of them.

use std::collections::HashSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use super::Version;
use crate::debian;
use crate::workspace::Workspace;

/// What Kafka's own start scripts give every JVM.
const JVM_OPTIONS: [&str; 5] = [
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
];

/// Where a JVM's log goes, and how much of it there is.
#[derive(Clone, Copy)]
pub enum Log {
    /// Information, on standard output.
    Node,
    /// Warnings, on standard error.
    Tool,
}

/// One release, complete and ready to run.
pub struct Assembly {
    version: Version,
    java: PathBuf,
    libs: PathBuf,
    /// `xtask/kafka`, which holds the logging configurations.
    configuration: PathBuf,
}

impl Assembly {
    /// The release out of `target/kafka/VERSION/libs`, which Maven fills where it is not there.
    pub fn of(workspace: &Workspace, version: Version) -> Result<Self> {
        let java = debian::java()?;
        let configuration = workspace.root().join("xtask/kafka");
        let directory = workspace.target().join(format!("kafka/{version}"));
        let libs = directory.join("libs");
        fs::create_dir_all(&directory).with_context(|| format!("cannot make {}", directory.display()))?;
        // Two chores at once must not fill the same directory.
        let lock = File::create(directory.join("lock"))?;
        lock.lock()?;
        if !libs.is_dir() {
            eprintln!("assembling Apache Kafka {version} from Maven Central");
            let partial = directory.join("libs.partial");
            copy_jars(&configuration.join("pom.xml"), version, &partial)?;
            fs::rename(&partial, &libs)?;
        }
        Ok(Self {
            version,
            java,
            libs,
            configuration,
        })
    }

    /// The program that runs it.
    pub fn java_path(&self) -> &Path {
        &self.java
    }

    /// A JVM with this release's class path, ready for a class and its arguments. `heap_options` such as `-Xmx400m`.
    pub fn java(&self, heap_options: &[&str], log: Log) -> Command {
        let mut command = Command::new(&self.java);
        command
            .args(heap_options)
            .args(JVM_OPTIONS)
            .arg(self.logging(log));
        command.arg("-cp").arg(self.libs.join("*"));
        command
    }

    /// The first of the classes that this release has.
    pub fn first_class<'a>(&self, classes: &[&'a str]) -> Result<&'a str> {
        let jars = self
            .kafka_jars()?
            .iter()
            .map(fs::read)
            .collect::<Result<Vec<_>, _>>()?;
        let files: HashSet<&[u8]> = jars
            .iter()
            .flat_map(|jar| file_names(jar).unwrap_or_default())
            .collect();
        let holds = |class: &&&str| files.contains(format!("{}.class", class.replace('.', "/")).as_bytes());
        let found = classes.iter().find(holds);
        found
            .copied()
            .with_context(|| format!("Kafka {} has none of {}", self.version, classes.join(", ")))
    }

    /// The jars that hold tools: Kafka's core, and the one for tools.
    fn kafka_jars(&self) -> Result<Vec<PathBuf>> {
        let is_kafka = |path: &PathBuf| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with("kafka_") || name.starts_with("kafka-tools-")
        };
        let entries = fs::read_dir(&self.libs)?.collect::<Result<Vec<_>, _>>()?;
        Ok(entries
            .into_iter()
            .map(|entry| entry.path())
            .filter(is_kafka)
            .collect())
    }

    fn logging(&self, log: Log) -> String {
        let name = match log {
            Log::Node => "node",
            Log::Tool => "tool",
        };
        let file = |suffix: &str| {
            self.configuration
                .join(format!("{name}-{suffix}"))
                .display()
                .to_string()
        };
        if self.version.logs_with_log4j2() {
            format!("-Dlog4j2.configurationFile={}", file("log4j2.xml"))
        } else {
            format!("-Dlog4j.configuration=file:{}", file("log4j.properties"))
        }
    }
}

fn copy_jars(pom: &Path, version: Version, into: &Path) -> Result<()> {
    if into.exists() {
        fs::remove_dir_all(into)?;
    }
    let mut maven = Command::new(debian::maven()?);
    maven
        .args(["-q", "-B", "-f"])
        .arg(pom)
        .arg(format!("-Dkafka.version={version}"))
        .arg(format!("-Dscala.version={}", version.scala()));
    let profiles = version.maven_profiles();
    if !profiles.is_empty() {
        maven.args(["-P", &profiles.join(",")]);
    }
    maven
        .arg("org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies")
        .arg(format!("-DoutputDirectory={}", into.display()));
    let output = maven.stdin(Stdio::null()).output().context("cannot run mvn")?;
    ensure!(
        output.status.success(),
        "Maven cannot assemble Apache Kafka {version}:\n{}",
        String::from_utf8_lossy(&output.stdout).trim_end()
    );
    Ok(())
}

/// The names in a jar's central directory (the ZIP format's APPNOTE 6.3, sections 4.3.12 and 4.3.16); `None` if it is no
/// jar. Jars carry no comment at their end, so the end record is the last 22 bytes.
fn file_names(jar: &[u8]) -> Option<Vec<&[u8]>> {
    let u16_at = |at: usize| {
        Some(usize::from(u16::from_le_bytes(
            jar.get(at..at + 2)?.try_into().ok()?,
        )))
    };
    let u32_at = |at: usize| Some(u32::from_le_bytes(jar.get(at..at + 4)?.try_into().ok()?));
    let end_record = jar.len().checked_sub(22)?;
    if u32_at(end_record)? != 0x0605_4b50 {
        return None;
    }
    let mut names = Vec::with_capacity(u16_at(end_record + 10)?);
    let mut at = usize::try_from(u32_at(end_record + 16)?).ok()?;
    while at < end_record && u32_at(at)? == 0x0201_4b50 {
        let (name, extra, comment) = (u16_at(at + 28)?, u16_at(at + 30)?, u16_at(at + 32)?);
        names.push(jar.get(at + 46..at + 46 + name)?);
        at += 46 + name + extra + comment;
    }
    Some(names)
}
