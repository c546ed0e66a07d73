//! Limits of processor time for single threads, for measurements in which lanes are the limit on a machine with few cores.
//!
//! Each thread gets a control group with a quota. Only version 1 of control groups lets the threads of one process lie in unrelated groups.
//! Where it is not mounted, or may not be written, that is an error.

use quorate_command::failure::{Doing as _, Failure, Outcome};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// The period of a quota, unless the share is so small that it has to be longer.
const PERIOD_US: u64 = 20_000;
/// The system refuses quotas below a millisecond.
const LEAST_US: u64 = 1_000;
/// The weight of all groups together, where one program usually has 1024: other work of the machine is not to take what quotas leave.
const WEIGHT: u64 = 32 << 10;
/// How long it is tried whether quotas bind.
const TRIAL: Duration = Duration::from_millis(400);

/// Control groups that are removed when this is dropped.
pub(super) struct Quotas {
    root: PathBuf,
    groups: Vec<PathBuf>,
    percent: u32,
}

impl Quotas {
    /// Makes the parent of the groups, whose threads get this percentage of a core each; and tries one.
    pub(super) fn new(percent: u32) -> Outcome<Self> {
        if !(2..=100).contains(&percent) {
            return Err(Failure::usage("a quota is 2 to 100 percent of a core"));
        }
        let mounts = fs::read_to_string("/proc/self/mounts").doing("read /proc/self/mounts")?;
        let hierarchy = hierarchy(&mounts).ok_or_else(|| {
            missing("the first version of control groups is not mounted here with its controller `cpu`")
        })?;
        let root = hierarchy.join(format!("quorate-bench-{}", std::process::id()));
        fs::create_dir(&root).map_err(|why| missing(&format!("can not make {}: {why}", root.display())))?;
        fs::write(root.join("cpu.shares"), WEIGHT.to_string()).doing("give lanes their weight")?;
        let mut quotas = Self { root, groups: Vec::new(), percent };
        quotas.try_out()?;
        Ok(quotas)
    }

    /// Limits a thread.
    pub(super) fn limit(&mut self, thread: u32) -> Outcome<()> {
        let group = self.root.join(format!("thread-{thread}"));
        let doing = format!("limit the processor time of thread {thread}");
        fs::create_dir(&group).doing(&doing)?;
        self.groups.push(group.clone());
        let (quota, period) = share(self.percent);
        fs::write(group.join("cpu.cfs_period_us"), (period / 1000).to_string()).doing(&doing)?;
        fs::write(group.join("cpu.cfs_quota_us"), (quota / 1000).to_string()).doing(&doing)?;
        fs::write(group.join("tasks"), thread.to_string()).doing(&doing)
    }

    /// Gives a load generator the weight of the lanes, and no limit.
    pub(super) fn favour(&mut self, pid: u32) -> Outcome<()> {
        let group = self.root.join(format!("load-{pid}"));
        let doing = format!("give process {pid} the weight of lanes");
        fs::create_dir(&group).doing(&doing)?;
        self.groups.push(group.clone());
        fs::write(group.join("cgroup.procs"), pid.to_string()).doing(&doing)
    }

    /// Limits all threads of a process whose names begin with this. Gives their number.
    pub(super) fn limit_all(&mut self, pid: u32, name: &str) -> Outcome<usize> {
        let threads = threads(pid, name)?;
        threads.iter().try_for_each(|thread| self.limit(*thread))?;
        Ok(threads.len())
    }

    /// Checks that a busy thread gets little more than its share.
    fn try_out(&mut self) -> Outcome<()> {
        let stop = AtomicBool::new(false);
        let used = std::thread::scope(|scope| {
            let (sender, receiver) = crossbeam_channel::bounded(1);
            let stop = &stop;
            let spinning = scope.spawn(move || {
                let _ = sender.send(rustix::thread::gettid().as_raw_nonzero().get());
                let mut before = None;
                while !stop.load(Ordering::Relaxed) {
                    before.get_or_insert_with(|| (Instant::now(), own_time()));
                }
                before.map_or(0.0, |(at, used)| (own_time() - used) / at.elapsed().as_secs_f64())
            });
            let limited = receiver.recv().map_err(|_| missing("a thread of ours did not start"));
            let limited = limited.and_then(|thread| self.limit(thread.unsigned_abs()));
            std::thread::sleep(TRIAL);
            stop.store(true, Ordering::Relaxed);
            limited.map(|()| spinning.join().unwrap_or(1.0))
        })?;
        // The first period may have been used in full before the limit came.
        if used > f64::from(self.percent) / 100.0 * 1.5 + 0.1 {
            return Err(missing(&format!(
                "a thread with a quota of {} % of a core used {:.0} %: quotas do not bind here",
                self.percent,
                used * 100.0
            )));
        }
        Ok(())
    }
}

impl Drop for Quotas {
    fn drop(&mut self) {
        // A group can be removed once its thread has ended; a thread that still runs goes to the parent first.
        for group in &self.groups {
            for task in fs::read_to_string(group.join("tasks")).unwrap_or_default().lines() {
                let parent = self.root.parent().unwrap_or(&self.root);
                let _ = fs::write(parent.join("tasks"), task);
            }
            let _ = fs::remove_dir(group);
        }
        let _ = fs::remove_dir(&self.root);
    }
}

fn missing(why: &str) -> Failure {
    Failure::new(format!(
        "{why}; this figure limits single threads: run it as root where control groups of the first version are mounted \
         (a kernel with `systemd.unified_cgroup_hierarchy=0`), or with --quota 0 on a machine with a core for each lane"
    ))
}

/// Where version 1 of the controller `cpu` is mounted.
pub(super) fn hierarchy(mounts: &str) -> Option<PathBuf> {
    let mounted = mounts.lines().find_map(|line| {
        let mut fields = line.split(' ').skip(1);
        let (place, kind, options) = (fields.next()?, fields.next()?, fields.next()?);
        (kind == "cgroup" && options.split(',').any(|option| option == "cpu")).then_some(place)
    })?;
    Some(Path::new(mounted).to_owned())
}

/// The quota for this percentage of a core, and its period, in nanoseconds.
pub(super) fn share(percent: u32) -> (u64, u64) {
    let percent = u64::from(percent.max(1));
    let period = PERIOD_US.max((LEAST_US * 100).div_ceil(percent));
    (period * percent / 100 * 1000, period * 1000)
}

/// The threads of a process whose names begin with this.
pub(super) fn threads(pid: u32, name: &str) -> Outcome<Vec<u32>> {
    let place = format!("/proc/{pid}/task");
    let mut found = Vec::new();
    for entry in fs::read_dir(&place).doing(format_args!("look at the threads of process {pid}"))?.flatten() {
        let called = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
        let thread = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok());
        found.extend(thread.filter(|_| called.starts_with(name)));
    }
    found.sort_unstable();
    Ok(found)
}

/// Processor seconds of the calling thread, right to within a tick. Read from the kernel's files if possible: a tool that counts
/// instructions may have no such clock.
pub(super) fn own_time() -> f64 {
    let books = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    if let Some(nanos) = books.split(' ').next().and_then(|field| field.parse::<u64>().ok()) {
        return nanos as f64 / 1e9;
    }
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
