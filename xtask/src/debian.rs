//! Programs that chores need and that Debian packages: found, or installed where this process may.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

/// The oldest Java that runs Kafka 4 (its brokers are compiled for 17).
const OLDEST_JAVA: u32 = 17;

/// `java` of release 17 or later: that of `JAVA_HOME`, else the one on the `PATH`, else installed.
pub fn java() -> Result<PathBuf> {
    if let Some(java) = find_java() {
        return Ok(java);
    }
    install("a JDK", &["openjdk-17-jdk-headless"]).or_else(|_| {
        // Later Debian releases carry a later default and no 17.
        install("a JDK", &["default-jdk-headless"])
    })?;
    find_java()
        .with_context(|| format!("no Java of release {OLDEST_JAVA} or later, even after installing one"))
}

/// `mvn`, installed where it is missing. It needs [`java`].
pub fn maven() -> Result<PathBuf> {
    program("mvn", "Maven", "maven")
}

/// `kcat`, installed where it is missing.
pub fn kcat() -> Result<PathBuf> {
    program("kcat", "kcat", "kcat")
}

/// `openssl`, installed where it is missing.
pub fn openssl() -> Result<PathBuf> {
    program("openssl", "OpenSSL", "openssl")
}

/// `faketime`, installed where it is missing.
pub fn faketime() -> Result<PathBuf> {
    program("faketime", "faketime", "faketime")
}

/// `go`, installed where it is missing.
pub fn go() -> Result<PathBuf> {
    program("go", "Go", "golang-go")
}

/// `python3`, which can make environments; installed where it is missing.
pub fn python() -> Result<PathBuf> {
    if let Some(path) = on_path("python3") {
        let mut probe = Command::new(&path);
        probe.args(["-c", "import ensurepip, venv"]);
        if probe.output().is_ok_and(|output| output.status.success()) {
            return Ok(path);
        }
    }
    install("Python with venv", &["python3", "python3-venv"])?;
    on_path("python3").context("python3 is not on the PATH, even after installing it")
}

fn program(name: &str, title: &str, package: &str) -> Result<PathBuf> {
    if let Some(path) = on_path(name) {
        return Ok(path);
    }
    install(title, &[package])?;
    on_path(name).with_context(|| format!("{name} is not on the PATH, even after installing {package}"))
}

fn find_java() -> Option<PathBuf> {
    let of_home = std::env::var_os("JAVA_HOME").map(|home| PathBuf::from(home).join("bin/java"));
    let of_debian = std::fs::read_dir("/usr/lib/jvm").into_iter().flatten().flatten();
    of_home
        .into_iter()
        .chain(on_path("java"))
        .chain(of_debian.map(|entry| entry.path().join("bin/java")))
        .find(|java| java_release(java).is_some_and(|release| release >= OLDEST_JAVA))
}

fn java_release(java: &PathBuf) -> Option<u32> {
    let output = Command::new(java).arg("-version").output().ok()?;
    parse_java_release(&String::from_utf8_lossy(&output.stderr))
}

/// The feature release out of what `java -version` prints: `17.0.15` is 17, and before 9 `1.8.0_402` is 8.
fn parse_java_release(version_text: &str) -> Option<u32> {
    let quoted = version_text.split('"').nth(1)?;
    let mut numbers = quoted
        .split(|c: char| !c.is_ascii_digit())
        .map_while(|part| part.parse::<u32>().ok());
    match numbers.next()? {
        1 => numbers.next(),
        release => Some(release),
    }
}

fn on_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|directory| directory.join(name))
        .find(|file| file.is_file())
}

fn install(title: &str, packages: &[&str]) -> Result<()> {
    let wanted = packages.join(" ");
    if on_path("apt-get").is_none() {
        bail!(
            "{title} is missing, and there is no apt-get to install {wanted} with: install it and run this again"
        );
    }
    if !is_root() {
        bail!("{title} is missing; as root: apt-get update && apt-get install -y {wanted}");
    }
    eprintln!("{title} is missing: installing {wanted} from Debian's packages");
    apt_get(&["update"])?;
    let mut arguments = vec!["install", "-y", "--no-install-recommends"];
    arguments.extend(packages);
    apt_get(&arguments)
}

fn apt_get(arguments: &[&str]) -> Result<()> {
    let output = Command::new("apt-get")
        // Another installation may hold the lock for a while, on a fresh machine for instance.
        .args(["-q", "-o", "DPkg::Lock::Timeout=300"])
        .args(arguments)
        .env("DEBIAN_FRONTEND", "noninteractive")
        .stdin(Stdio::null())
        .output()
        .context("cannot run apt-get")?;
    ensure!(
        output.status.success(),
        "apt-get {}: {}\n{}",
        arguments.join(" "),
        output.status,
        String::from_utf8_lossy(&output.stderr).trim_end()
    );
    Ok(())
}

fn is_root() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status
        .lines()
        .find_map(|line| line.strip_prefix("Uid:")?.split_whitespace().nth(1));
    effective == Some("0")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_release_of_a_java_is_read_from_its_version() {
        assert_eq!(
            parse_java_release("openjdk version \"17.0.15\" 2025-04-15\n"),
            Some(17)
        );
        assert_eq!(
            parse_java_release("openjdk version \"21\" 2023-09-19\n"),
            Some(21)
        );
        assert_eq!(
            parse_java_release("openjdk version \"25-ea\" 2025-09-16\n"),
            Some(25)
        );
        assert_eq!(parse_java_release("java version \"1.8.0_402\"\n"), Some(8));
        assert_eq!(parse_java_release("no java here"), None);
    }
}
