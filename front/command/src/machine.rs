//! Describes the machine that a benchmark ran on.

use serde::Serialize;
use std::fs;
use std::path::Path;

#[cfg(test)]
mod tests;

/// The facts without which a benchmark's figures mean nothing.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// The name of its processors.
    pub cpu: String,
    /// How many of them this process may use.
    pub cores: usize,
    /// Its memory.
    pub memory_gib: f64,
    /// The system and its release.
    pub kernel: String,
    /// The file system that holds the logs.
    pub file_system: String,
    /// The congestion control that sockets get by default; the replicas and the null program ask for reno.
    pub congestion_control_default: String,
    /// Processes that ran or waited to run, averaged over the minute before the first measurement.
    pub load_average: f64,
}

impl Machine {
    /// Asks the system; `scratch` is the directory of the logs.
    pub fn ask(scratch: &Path) -> Self {
        let uname = rustix::system::uname();
        let kernel = format!("{} {}", uname.sysname().to_string_lossy(), uname.release().to_string_lossy());
        let cpuinfo = read("/proc/cpuinfo");
        let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
        let memory_kib = read("/proc/meminfo")
            .lines()
            .find_map(|line| line.strip_prefix("MemTotal:")?.split_whitespace().next()?.parse::<f64>().ok());
        Self {
            cpu: model.map_or("unknown", |(_, name)| name).to_owned(),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_gib: (memory_kib.unwrap_or(0.0) / f64::from(1 << 20) * 10.0).round() / 10.0,
            kernel,
            file_system: file_system(scratch, &read("/proc/self/mounts")),
            congestion_control_default: read("/proc/sys/net/ipv4/tcp_congestion_control").trim().to_owned(),
            load_average: read("/proc/loadavg").split(' ').next().and_then(|l| l.parse().ok()).unwrap_or(0.0),
        }
    }
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// The type of the file system that holds `path`; of two mounts on the same directory the later one counts.
pub fn file_system(path: &Path, mounts: &str) -> String {
    let here = existing(path);
    let entry = |line: &str| {
        let mut fields = line.split(' ').skip(1);
        // the kernel writes a space as \040
        let place = fields.next()?.replace("\\040", " ");
        let kind = fields.next()?.to_owned();
        here.starts_with(&place).then_some((place.len(), kind))
    };
    mounts.lines().filter_map(entry).max_by_key(|(len, _)| *len).map_or("unknown".into(), |(_, kind)| kind)
}

/// The nearest ancestor that exists, as an absolute path.
fn existing(path: &Path) -> std::path::PathBuf {
    let all = path.ancestors().map(|p| if p.as_os_str().is_empty() { Path::new(".") } else { p });
    all.filter_map(|p| fs::canonicalize(p).ok()).next().unwrap_or_else(|| path.to_owned())
}
