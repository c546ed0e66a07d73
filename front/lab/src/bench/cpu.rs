//! Processor time and memory, as Linux counts them under /proc.
//!
//! Processor time is counted in ticks, usually of 10 ms, and each of its two parts is rounded down to whole ticks. So the difference of two
//! readings is right to within two ticks: over a second on one core, to 2 %.

use quorate_command::failure::{Doing as _, Failure, Outcome};
use serde::Serialize;
use std::fs;

/// Processor seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Cpu {
    /// In user mode.
    pub(super) user_s: f64,
    /// In the kernel.
    pub(super) system_s: f64,
}

impl Cpu {
    /// The sum of both.
    pub(super) fn total_s(self) -> f64 {
        self.user_s + self.system_s
    }
    /// What was used between `before` and `self`.
    pub(super) fn since(self, before: Self) -> Self {
        Self { user_s: self.user_s - before.user_s, system_s: self.system_s - before.system_s }
    }
    pub(super) fn plus(self, other: Self) -> Self {
        Self { user_s: self.user_s + other.user_s, system_s: self.system_s + other.system_s }
    }
}

/// Seconds in one tick.
pub(super) fn tick_s() -> f64 {
    1.0 / rustix::param::clock_ticks_per_second().max(1) as f64
}

/// The processor time that a process has used so far.
pub(super) fn of_process(pid: u32) -> Outcome<Cpu> {
    let stat =
        fs::read_to_string(format!("/proc/{pid}/stat")).doing(format_args!("look at process {pid}"))?;
    parse_stat(&stat)
        .ok_or_else(|| Failure::new(format!("can not read /proc/{pid}/stat: not as Linux writes it")))
}

/// Parses a line of /proc/PID/stat. The command's name, in parentheses, may hold any bytes; the fields after it do not.
pub(super) fn parse_stat(stat: &str) -> Option<Cpu> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<f64>().ok();
    Some(Cpu { user_s: next()? * tick_s(), system_s: next()? * tick_s() })
}

/// Bytes of memory that this process holds now.
pub(super) fn memory_of(pid: u32) -> Outcome<u64> {
    let statm =
        fs::read_to_string(format!("/proc/{pid}/statm")).doing(format_args!("look at process {pid}"))?;
    let pages = statm.split_whitespace().nth(1).and_then(|field| field.parse::<u64>().ok());
    let pages = pages.ok_or_else(|| Failure::new(format!("can not read /proc/{pid}/statm")))?;
    Ok(pages * rustix::param::page_size() as u64)
}

/// Seconds that all cores together were busy since the machine started. Steal time counts as busy, since another machine used it.
pub(super) fn of_machine_s() -> f64 {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let line = stat.lines().next().unwrap_or_default();
    // cpu user nice system idle iowait irq softirq steal; guest time is in user time
    let ticks: Vec<f64> = line.split_whitespace().skip(1).take(8).filter_map(|f| f.parse().ok()).collect();
    let idle: f64 = ticks.iter().skip(3).take(2).sum();
    (ticks.iter().sum::<f64>() - idle) * tick_s()
}
