//! The operating system's information about this process.

use serde::Serialize;
use std::sync::OnceLock;

/// When the process started. What is read for that is long on large machines, and stays the same.
static STARTED: OnceLock<u64> = OnceLock::new();

/// The resources that the process has used.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct ProcessFacts {
    /// Its id.
    pub(crate) pid: u32,
    /// Memory in use, in bytes.
    pub(crate) memory_bytes: u64,
    /// Processor time since the start, in seconds: in user mode, and in the kernel.
    pub(crate) cpu_user_s: f64,
    pub(crate) cpu_system_s: f64,
    /// Both together.
    pub(crate) cpu_s: f64,
    /// When it started, in seconds since 1970.
    pub(crate) start_time_s: u64,
    /// The program's version.
    pub(crate) version: &'static str,
}

impl ProcessFacts {
    pub(crate) fn now() -> Self {
        let ticks_per_s = rustix::param::clock_ticks_per_second().max(1) as f64;
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
        // The command's name, in parentheses, may hold anything; the fields after it do not.
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
        let ticks = |at: usize| fields.get(at).and_then(|f| f.parse::<f64>().ok()).unwrap_or(0.0);
        let (user, system) = (ticks(11) / ticks_per_s, ticks(12) / ticks_per_s);
        Self {
            pid: std::process::id(),
            memory_bytes: memory_bytes(),
            cpu_user_s: user,
            cpu_system_s: system,
            cpu_s: user + system,
            start_time_s: *STARTED
                .get_or_init(|| booted_s().saturating_add((ticks(19) / ticks_per_s) as u64)),
            version: env!("CARGO_PKG_VERSION"),
        }
    }
}

/// The memory that this process has in use, in bytes.
pub fn memory_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = statm.split_whitespace().nth(1).and_then(|f| f.parse().ok()).unwrap_or(0);
    pages * rustix::param::page_size() as u64
}

/// When the machine started, in seconds since 1970; 0 if the system does not say.
fn booted_s() -> u64 {
    let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
    let line = stat.lines().find_map(|line| line.strip_prefix("btime "));
    line.and_then(|seconds| seconds.trim().parse().ok()).unwrap_or(0)
}
