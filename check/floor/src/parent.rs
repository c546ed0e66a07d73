//! The parent: starts followers, leader and load generator, samples their CPU, collects the report.

use crate::report::{Cpu, ReplicaReport, Report};
use crate::roles::{Done, Measured, Role, Task, VARIABLE, Word};
use crate::{Config, Doing, Error, Result, Sync};
use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// How long a replica may take to fill its log file and listen.
const START: Duration = Duration::from_secs(300);
/// How long anything else may take beyond the times that the configuration names.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs leader, followers and load generator once, and reports. The log files are removed.
///
/// The caller's program must call [`crate::maybe_child`] first in its `main`. The children end when the thread
/// that called this ends.
pub fn run(config: &Config) -> Result<Report> {
    config.check()?;
    let result = start_and_measure(config);
    if config.sync != Sync::Memory {
        let followers = (1..=config.followers).map(|n| format!("follower-{n}.log"));
        for name in followers.chain(["leader.log".into()]) {
            // files left behind are overwritten by the next run
            let _ = std::fs::remove_file(config.dir.join(name));
        }
    }
    result
}

/// The latency of a lone caller: one command outstanding at a time.
pub fn run_closed_loop(config: &Config) -> Result<Report> {
    run(&Config { window: 1, ..config.clone() })
}

fn start_and_measure(config: &Config) -> Result<Report> {
    if config.sync != Sync::Memory {
        std::fs::create_dir_all(&config.dir).doing(format!("make {}", config.dir.display()))?;
    }
    let lies = config.fault_model.may_lie();
    let (replicas, answering) = if lies { start_byzantine(config)? } else { start_crash(config)? };
    let mut load = Child::start(config, Role::Load { replicas: answering })?;

    let found = match measure(config, &replicas, &mut load) {
        Ok(found) => found,
        // a replica's own word says more than what the load generator saw of it
        Err(seen) => return Err(replicas.iter().rev().find_map(Child::failure).unwrap_or(seen)),
    };

    let mut reports = Vec::new();
    for (i, mut replica) in replicas.into_iter().enumerate() {
        let done = replica.word(PATIENCE, |w| if let Word::Replica(d) = w { Some(d) } else { None })?;
        replica.finish()?;
        let Done { commands, sum, writes } = done;
        let cpu = found.cpu[i];
        reports.push(ReplicaReport { role: replica.name.clone(), commands, sum, writes, cpu });
    }
    let load_cpu = found.cpu[reports.len()];
    Ok(report(config, found.measured, reports, load_cpu))
}

/// Starts followers and leader. Gives the replicas, the leader first, and the addresses of those that answer the load generator.
fn start_crash(config: &Config) -> Result<(Vec<Child>, Vec<SocketAddr>)> {
    let mut followers = Vec::new();
    for number in 1..=config.followers {
        followers.push(Child::start(config, Role::Follower { number })?);
    }
    let addresses = followers.iter_mut().map(Child::ready).collect::<Result<Vec<_>>>()?;
    let mut leader = Child::start(config, Role::Leader { followers: addresses })?;
    let address = leader.ready()?;
    let mut replicas = vec![leader];
    replicas.append(&mut followers);
    Ok((replicas, vec![address]))
}

/// Starts the replicas of a cluster with Byzantine faults, all of which answer the load generator. Each connects to the earlier ones.
fn start_byzantine(config: &Config) -> Result<(Vec<Child>, Vec<SocketAddr>)> {
    let (mut replicas, mut addresses) = (Vec::new(), Vec::new());
    for number in 0..config.replicas() {
        let mut replica = Child::start(config, Role::Agree { number, earlier: addresses.clone() })?;
        addresses.push(replica.ready()?);
        replicas.push(replica);
    }
    Ok((replicas, addresses))
}

/// What the load generator measured, and the CPU that each replica, then the load generator, used meanwhile.
struct Found {
    measured: Measured,
    cpu: Vec<Cpu>,
}

fn measure(config: &Config, replicas: &[Child], load: &mut Child) -> Result<Found> {
    load.word(span(config.warm_up_seconds), |w| matches!(w, Word::Measuring).then_some(()))?;
    let before = cpu_of_all(replicas, load)?;
    load.word(span(config.seconds), |w| matches!(w, Word::Measured).then_some(()))?;
    let after = cpu_of_all(replicas, load)?;
    let measured = load.word(PATIENCE, |w| if let Word::Load(m) = w { Some(m) } else { None })?;
    load.finish()?;
    let cpu = after.iter().zip(before).map(|(after, before)| after.since(before)).collect();
    Ok(Found { measured, cpu })
}

fn span(seconds: f64) -> Duration {
    PATIENCE + Duration::from_secs_f64(seconds)
}

fn report(config: &Config, measured: Measured, replicas: Vec<ReplicaReport>, load_cpu: Cpu) -> Report {
    let agree = replicas.iter().all(|r| r.commands == measured.sent && r.sum == replicas[0].sum);
    Report {
        config: config.clone(),
        seconds: measured.seconds,
        commits: measured.commits,
        commits_per_s: measured.commits as f64 / measured.seconds,
        latency: measured.latency,
        replicas,
        load_cpu,
        agree,
    }
}

fn cpu_of_all(replicas: &[Child], load: &Child) -> Result<Vec<Cpu>> {
    replicas.iter().chain([load]).map(|c| cpu(c.process.id())).collect()
}

/// CPU seconds of a process so far, all its threads together.
fn cpu(pid: u32) -> Result<Cpu> {
    let path = format!("/proc/{pid}/stat");
    let stat = std::fs::read_to_string(&path).doing(format!("read {path}"))?;
    let ticks = rustix::param::clock_ticks_per_second() as f64;
    // the second field, the name, may hold anything; the last ')' ends it. Then utime and stime are fields 14 and 15.
    let mut fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().skip(11);
    let mut next = || fields.next().and_then(|f| f.parse::<f64>().ok()).map(|t| t / ticks);
    match (next(), next()) {
        (Some(user_s), Some(system_s)) => Ok(Cpu { user_s, system_s }),
        _ => Err(Error::Child { role: format!("process {pid}"), what: format!("has no times in {path}") }),
    }
}

/// A process of this run. It is killed when it is dropped before it ended.
struct Child {
    name: String,
    process: std::process::Child,
    words: Receiver<String>,
}

impl Child {
    fn start(config: &Config, role: Role) -> Result<Child> {
        let name = role.name();
        let task = serde_json::to_string(&Task { role, config: config.clone() })
            .map_err(std::io::Error::from)
            .doing("encode a task")?;
        // not current_exe(): the file may have been replaced by a new build since this process started
        let mut process = Command::new("/proc/self/exe")
            .arg0(format!("quorate-floor {name}"))
            .env(VARIABLE, task)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .doing(format!("start the {name}"))?;
        let (lines, words) = channel();
        let out = process.stdout.take();
        let child = Child { name, process, words };
        std::thread::Builder::new()
            .name("floor-words".into())
            .spawn(move || {
                for line in out.into_iter().flat_map(|out| BufReader::new(out).lines()).map_while(|l| l.ok())
                {
                    if lines.send(line).is_err() {
                        break;
                    }
                }
            })
            .doing("start a thread")?;
        Ok(child)
    }

    /// Waits until a replica listens.
    fn ready(&mut self) -> Result<SocketAddr> {
        self.word(START, |w| if let Word::Ready(address) = w { Some(address) } else { None })
    }

    /// Waits for the child's next line, which must be one that `wanted` takes.
    fn word<T>(&mut self, wait: Duration, wanted: impl FnOnce(Word) -> Option<T>) -> Result<T> {
        const FIRST_IN_MAIN: &str = "does this program's main call quorate_floor::maybe_child first?";
        let line = match self.words.recv_timeout(wait) {
            Ok(line) => line,
            Err(RecvTimeoutError::Timeout) => {
                return Err(self.failed(format!("said nothing for {} s", wait.as_secs())));
            }
            Err(RecvTimeoutError::Disconnected) => {
                return Err(self.failed(format!("ended early; {FIRST_IN_MAIN}")));
            }
        };
        match serde_json::from_str(&line) {
            Ok(Word::Failed(why)) => Err(self.failed(format!("failed: {why}"))),
            Ok(word) => wanted(word).ok_or_else(|| self.failed(format!("said out of turn: {line}"))),
            Err(_) => Err(self.failed(format!("printed {line:?}; {FIRST_IN_MAIN}"))),
        }
    }

    /// Why this child failed, if it did.
    fn failure(&self) -> Option<Error> {
        let line = self.words.recv_timeout(Duration::from_millis(200)).ok()?;
        match serde_json::from_str(&line) {
            Ok(Word::Failed(why)) => Some(self.failed(format!("failed: {why}"))),
            _ => None,
        }
    }

    fn failed(&self, what: String) -> Error {
        Error::Child { role: self.name.clone(), what }
    }

    /// Waits until a child ends that has said its last word.
    fn finish(&mut self) -> Result<()> {
        let status = self.process.wait().doing(format!("wait for the {}", self.name))?;
        if status.success() {
            return Ok(());
        }
        Err(self.failed(format!("ended with {status}")))
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // both fail only when it has ended already
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
