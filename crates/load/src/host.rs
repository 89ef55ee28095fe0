//! What the load generator itself uses: CPU by thread, memory, and how its control group holds it back.
//!
//! Read from /proc and /sys once a second and at the edges of phases. Where a figure cannot be read it is absent.

use model::result::{CgroupThrottling, Host};
use std::fs;
use std::path::Path;

/// Clock ticks per second in /proc (USER_HZ), 100 on every Linux that Kafka runs on.
const TICK_NS: u64 = 10_000_000;

/// CPU time of one thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// In user mode.
    pub user_ns: u64,
    /// In the kernel.
    pub system_ns: u64,
    /// Ready to run, and without a CPU.
    pub waiting_ns: u64,
}

impl CpuTime {
    /// Both together.
    pub fn total_ns(&self) -> u64 {
        self.user_ns + self.system_ns
    }

    /// What was used since `earlier`.
    pub fn since(&self, earlier: CpuTime) -> CpuTime {
        CpuTime {
            user_ns: self.user_ns.saturating_sub(earlier.user_ns),
            system_ns: self.system_ns.saturating_sub(earlier.system_ns),
            waiting_ns: self.waiting_ns.saturating_sub(earlier.waiting_ns),
        }
    }
}

/// CPU time of the calling thread.
pub fn thread_cpu() -> Option<CpuTime> {
    let exact = fs::read_to_string("/proc/thread-self/schedstat")
        .ok()
        .and_then(|text| {
            let mut fields = text
                .split_ascii_whitespace()
                .map(|field| field.parse::<u64>().ok());
            Some((fields.next()??, fields.next()??))
        });
    let ticks = cpu_of_stat(&fs::read_to_string("/proc/thread-self/stat").ok()?)?;
    // The split is in ticks of 10 ms, the sum is exact.
    Some(match exact {
        Some((exact_ns, waiting_ns)) => {
            let user_ns = match ticks.total_ns() {
                0 => exact_ns,
                total_ns => (u128::from(exact_ns) * u128::from(ticks.user_ns) / u128::from(total_ns)) as u64,
            };
            CpuTime {
                user_ns,
                system_ns: exact_ns - user_ns,
                waiting_ns,
            }
        }
        None => ticks,
    })
}

/// CPU time of the whole process.
pub fn process_cpu() -> Option<CpuTime> {
    cpu_of_stat(&fs::read_to_string("/proc/self/stat").ok()?)
}

fn cpu_of_stat(text: &str) -> Option<CpuTime> {
    // The name in parentheses may hold blanks; what follows it does not.
    let fields: Vec<&str> = text.rsplit_once(") ")?.1.split(' ').collect();
    let ticks = |place: usize| fields.get(place)?.parse::<u64>().ok();
    Some(CpuTime {
        user_ns: ticks(11)? * TICK_NS,
        system_ns: ticks(12)? * TICK_NS,
        waiting_ns: 0,
    })
}

/// Resident memory of the process, bytes.
pub fn resident_bytes() -> Option<u64> {
    status_bytes("VmRSS:")
}

/// The most memory that was resident, bytes.
pub fn peak_resident_bytes() -> Option<u64> {
    status_bytes("VmHWM:")
}

fn status_bytes(name: &str) -> Option<u64> {
    let text = fs::read_to_string("/proc/self/status").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

/// How often the process's control group has been throttled so far, version 1 or 2; absent without a quota.
pub fn cgroup_throttling() -> Option<CgroupThrottling> {
    let group = CpuGroup::find()?;
    group.quota_cpus()?;
    let text = fs::read_to_string(group.folder.join("cpu.stat")).ok()?;
    let value = |name: &str| {
        text.lines()
            .find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok())
    };
    Some(CgroupThrottling {
        periods_count: value("nr_periods "),
        throttled_periods_count: value("nr_throttled ")?,
        throttled_ns: value("throttled_usec ")
            .map(|usec| usec * 1000)
            .or_else(|| value("throttled_time "))?,
    })
}

/// The difference of two readings.
pub fn throttling_between(
    before: Option<CgroupThrottling>,
    after: Option<CgroupThrottling>,
) -> Option<CgroupThrottling> {
    let (before, after) = (before?, after?);
    Some(CgroupThrottling {
        periods_count: after
            .periods_count
            .zip(before.periods_count)
            .map(|(after, before)| after - before),
        throttled_periods_count: after.throttled_periods_count - before.throttled_periods_count,
        throttled_ns: after.throttled_ns - before.throttled_ns,
    })
}

struct CpuGroup {
    folder: std::path::PathBuf,
    unified: bool,
}

impl CpuGroup {
    /// The folder of the group that bounds our CPU: the mount point itself inside a container, else our own path below it.
    fn find() -> Option<CpuGroup> {
        let membership = fs::read_to_string("/proc/self/cgroup").ok()?;
        for line in membership.lines() {
            let mut parts = line.splitn(3, ':');
            let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
            let unified = controllers.is_empty();
            if !unified && !controllers.split(',').any(|name| name == "cpu") {
                continue;
            }
            let roots: &[&str] = if unified {
                &["/sys/fs/cgroup"]
            } else {
                &["/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu,cpuacct"]
            };
            for root in roots {
                for folder in [
                    Path::new(root).join(path.trim_start_matches('/')),
                    Path::new(root).to_path_buf(),
                ] {
                    let group = CpuGroup { folder, unified };
                    if group.quota_cpus().is_some() {
                        return Some(group);
                    }
                }
            }
        }
        None
    }

    fn quota_cpus(&self) -> Option<f64> {
        let (quota, period) = if self.unified {
            let text = fs::read_to_string(self.folder.join("cpu.max")).ok()?;
            let (quota, period) = text.trim().split_once(' ')?;
            (quota.parse::<f64>().ok()?, period.parse::<f64>().ok()?)
        } else {
            let read = |name: &str| {
                fs::read_to_string(self.folder.join(name))
                    .ok()?
                    .trim()
                    .parse::<f64>()
                    .ok()
            };
            (read("cpu.cfs_quota_us")?, read("cpu.cfs_period_us")?)
        };
        (quota > 0.0 && period > 0.0).then_some(quota / period)
    }
}

/// The host as the result describes it.
pub fn describe() -> Host {
    let line = |path: &str| fs::read_to_string(path).ok().map(|text| text.trim().to_owned());
    let field = |path: &str, name: &str| {
        let text = fs::read_to_string(path).ok()?;
        text.lines().find_map(|line| {
            Some(
                line.strip_prefix(name)?
                    .trim_start_matches([' ', '\t', ':'])
                    .trim()
                    .to_owned(),
            )
        })
    };
    Host {
        hostname: line("/proc/sys/kernel/hostname"),
        cpus_count: std::thread::available_parallelism()
            .ok()
            .map(|count| count.get() as u32),
        cpu_model: field("/proc/cpuinfo", "model name"),
        memory_bytes: field("/proc/meminfo", "MemTotal")
            .and_then(|text| Some(text.strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)),
        kernel: line("/proc/sys/kernel/osrelease"),
        clock_source: line("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        cgroup_quota_cpus: CpuGroup::find().and_then(|group| group.quota_cpus()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stat_line_is_read_behind_the_name() {
        let text = "42 (a (b) c) R 1 2 3 4 5 6 7 8 9 10 1234 56 0 0 20 0 4 0";
        assert_eq!(
            cpu_of_stat(text),
            Some(CpuTime {
                user_ns: 12_340_000_000,
                system_ns: 560_000_000,
                waiting_ns: 0
            })
        );
        assert_eq!(cpu_of_stat("42 (x) R 1"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_busy_thread_is_seen_to_be_busy() {
        let before = thread_cpu().unwrap();
        let began = std::time::Instant::now();
        while began.elapsed().as_millis() < 60 {
            std::hint::black_box((0..1000).sum::<u64>());
        }
        assert!(thread_cpu().unwrap().since(before).total_ns() > 5_000_000);
        assert!(resident_bytes().unwrap() > 100_000);
    }
}
