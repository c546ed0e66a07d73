//! A cluster of the benchmark's own: processes of this program on loopback, three by default. Where few replicas are slow it has an oracle
//! beside it, as with `quorate dev`: another cluster of three processes. All of them and their data are removed when the benchmark ends.

use super::interrupt;
use super::nets::Nets;
use super::options::Measurement;
use crate::lies::How;
use quorate_command::arguments::name;
use quorate_command::authority::DAYS;
use quorate_command::cluster::Cluster;
use quorate_command::execution::ExecutionChoice;
use quorate_command::failure::{Doing as _, Failure, Outcome};
use quorate_command::layout::{self, Plan, REPLICA_FILE, ServiceChoice, replica_directory};
use quorate_command::oracle::{OWN, OWN_REPLICAS, Own, make_own};
use quorate_types::ReplicaId;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The usual number: enough to survive one failure.
pub(super) const REPLICAS: u16 = 3;
/// How long a replica may take to stop cleanly.
const STOP: Duration = Duration::from_secs(5);
/// The file that says how a replica lies, in its directory; none: it does not.
const LIES: &str = "lies";
/// The beginning of directories' names; the id of this process and the cluster's number follow.
const PREFIX: &str = "cluster-";
const MADE_BY: &str = "quorate bench";
static STARTED: AtomicU32 = AtomicU32::new(0);
/// The beginning of the names of the null program's logs.
pub(super) const FLOOR_PREFIX: &str = "floor-";

/// The processes and their directory.
pub(super) struct Temporary {
    pub(super) cluster: Cluster,
    /// The addresses of the service's front, if it has one.
    pub(super) front: Vec<String>,
    children: Vec<Child>,
    /// The processes of the oracle, if the cluster has one.
    oracle: Vec<Child>,
    /// The replica that was stopped on purpose.
    away: Option<usize>,
    /// The replica that sleeps.
    asleep: Option<usize>,
    /// The replicas that were removed from the cluster.
    removed: Vec<usize>,
    directory: PathBuf,
}

/// Where a cluster is made. Each gets a number, since two may be compared.
fn place(scratch: &Path) -> Outcome<PathBuf> {
    fs::create_dir_all(scratch).doing(format_args!("make {}", scratch.display()))?;
    let number = STARTED.fetch_add(1, Ordering::Relaxed);
    if number == 0 {
        sweep(scratch, PREFIX);
    }
    Ok(scratch.join(format!("{PREFIX}{}-{number}", std::process::id())))
}

impl Temporary {
    /// Starts the cluster. Call it from the main thread: the replicas end with the thread that started them.
    pub(super) fn start(
        measurement: &Measurement,
        service: ServiceChoice,
        settings: &Settings,
        nets: Option<&Nets>,
    ) -> Outcome<Self> {
        let replicas = usize::from(measurement.replicas());
        let order = measurement.order.choice()?;
        // Before anything is made.
        order.check_members(replicas)?;
        let directory = place(&measurement.scratch)?;
        let certificates = (!measurement.plain).then_some(DAYS);
        let oracle = if order.fault_model.few_are_slow() { usize::from(OWN_REPLICAS) } else { 0 };
        let mut free = addresses(2 * replicas + oracle)?;
        let own = Own {
            addresses: free.split_off(2 * replicas),
            durability: measurement.durability(),
            certificates,
            made_by: MADE_BY,
        };
        let front = free.split_off(replicas);
        let members = nets.map_or_else(|| (1..).zip(free).collect(), on_nets);
        let plan = Plan {
            front: if service.front().is_some() { front } else { Vec::new() },
            front_plain: false,
            health: Vec::new(),
            members,
            durability: measurement.durability(),
            service,
            own_service: None,
            service_level: 1,
            order,
            instances: measurement.instances,
            lanes: measurement.lanes,
            execution: ExecutionChoice::default(),
            pillars: measurement.pillars,
            placement: measurement.placement,
            certificates,
            oracle: (oracle > 0).then(|| make_own(&directory, own)).transpose()?,
            signing: false,
            made_by: MADE_BY,
        };
        let cluster = layout::make(&directory, &plan)?;
        // From here on what was made is removed, also when a process does not start.
        let (front, children) = (plan.front.clone(), Vec::new());
        let mut made = Self {
            cluster,
            front,
            children,
            oracle: Vec::new(),
            away: None,
            asleep: None,
            removed: Vec::new(),
            directory,
        };
        if plan.oracle.is_some() {
            made.start_oracle()?;
        }
        for (replica, _) in &plan.members {
            let place = replica_directory(&made.directory, *replica);
            configure(&place.join(REPLICA_FILE), settings, nets)?;
            let child = match nets {
                Some(nets) => start_on(nets, *replica, &place)?,
                None => start(&place)?,
            };
            made.children.push(child);
        }
        Ok(made)
    }

    fn start_oracle(&mut self) -> Outcome<()> {
        for replica in 1..=OWN_REPLICAS {
            let child = start(&replica_directory(&self.directory.join(OWN), replica))?;
            self.oracle.push(child);
        }
        Ok(())
    }

    /// The ids of the processes, in the order of the replicas' ids.
    pub(super) fn pids(&self) -> Vec<u32> {
        self.children.iter().map(Child::id).collect()
    }

    /// The ids of the oracle's processes; empty where there is none.
    pub(super) fn oracle_pids(&self) -> Vec<u32> {
        self.oracle.iter().map(Child::id).collect()
    }

    /// Whether the replica with this index was not stopped on purpose, nor removed.
    pub(super) fn is_here(&self, at: usize) -> bool {
        self.away != Some(at) && !self.removed.contains(&at)
    }

    /// Whether every replica that was not removed is here.
    pub(super) fn all_here(&self) -> bool {
        self.away.is_none() && self.asleep.is_none()
    }

    /// Whether the replica with this index lies.
    pub(super) fn lies(&self, at: usize) -> bool {
        let member = self.cluster.members.get(at);
        member.is_some_and(|(replica, _)| {
            replica_directory(&self.directory, replica.number()).join(LIES).exists()
        })
    }

    /// Fails when a replica has ended, or one of the oracle; the error holds its last words.
    pub(super) fn check(&mut self) -> Outcome<()> {
        interrupt::check()?;
        let (away, removed) = (self.away, &self.removed);
        let all = self.children.iter_mut().zip(&self.cluster.members).enumerate();
        for (_, (child, (replica, _))) in all.filter(|(at, _)| away != Some(*at) && !removed.contains(at)) {
            check(child, &self.directory, replica.number(), "")?;
        }
        let place = self.directory.join(OWN);
        self.oracle
            .iter_mut()
            .zip(1..)
            .try_for_each(|(child, replica)| check(child, &place, replica, " of the oracle"))
    }
}

fn check(child: &mut Child, cluster: &Path, replica: u16, of: &str) -> Outcome<()> {
    let Ok(Some(status)) = child.try_wait() else { return Ok(()) };
    let said = fs::read_to_string(replica_directory(cluster, replica).join("log.txt")).unwrap_or_default();
    let last: Vec<&str> = said.lines().rev().take(5).collect();
    let last: Vec<&str> = last.into_iter().rev().collect();
    Err(Failure::new(format!(
        "replica {replica}{of} ended by itself ({status}); it said last:\n{}",
        last.join("\n")
    )))
}

impl Temporary {
    /// Stops the replica with this index, until [`Self::bring_back`].
    pub(super) fn take_away(&mut self, at: usize) {
        if let Some(child) = self.children.get_mut(at) {
            self.away = Some(at);
            terminate(child);
            wait(child, Instant::now() + STOP);
        }
    }

    /// Kills the replica with this index, until [`Self::bring_back`]. Waits for nothing, since it is done while calls are due.
    pub(super) fn kill(&mut self, at: usize) {
        if let Some(child) = self.children.get_mut(at) {
            self.away = Some(at);
            // One that has ended already is as good.
            let _ = child.kill();
        }
    }

    /// Lets the replica with this index lie like this, also after it was killed and came back. It is restarted for that.
    pub(super) fn let_lie(&mut self, at: usize, how: How) -> Outcome<()> {
        let Some((replica, _)) = self.cluster.members.get(at) else { return Ok(()) };
        how.tell(&replica_directory(&self.directory, replica.number()).join(LIES))?;
        self.take_away(at);
        self.bring_back().map(drop)
    }

    /// Starts a replica that became a member, and whose directory was made. Call it from the main thread.
    pub(super) fn join(&mut self, replica: ReplicaId, address: String) -> Outcome<()> {
        self.children.push(start(&replica_directory(&self.directory, replica.number()))?);
        self.cluster.members.push((replica, address));
        Ok(())
    }

    /// Stops the replica with this index, which is no member any more. Waits for nothing, since it is done while calls are due.
    pub(super) fn leave(&mut self, at: usize) {
        if let Some(child) = self.children.get(at) {
            self.removed.push(at);
            terminate(child);
        }
    }

    /// Lets the replica with this index sleep, until [`Self::wake`]: its connections stay, and it does nothing.
    pub(super) fn put_to_sleep(&mut self, at: usize) {
        if let Some(child) = self.children.get(at) {
            self.asleep = Some(at);
            signal(child, Signal::STOP);
        }
    }

    /// Lets the replica that sleeps go on, and gives its index.
    pub(super) fn wake(&mut self) -> Option<usize> {
        let at = self.asleep.take()?;
        signal(self.children.get(at)?, Signal::CONT);
        Some(at)
    }

    /// Starts the stopped replica again, and gives its index. Call it from the main thread.
    pub(super) fn bring_back(&mut self) -> Outcome<Option<usize>> {
        let Some(at) = self.away.take() else { return Ok(None) };
        let _ = self.children[at].wait();
        let (replica, _) = self.cluster.members[at];
        self.children[at] = start(&replica_directory(&self.directory, replica.number()))?;
        Ok(Some(at))
    }
}

fn terminate(child: &Child) {
    signal(child, Signal::TERM);
}

fn signal(child: &Child, signal: Signal) {
    // One that ended meanwhile can not be signalled, which is as good.
    if let Some(pid) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process(pid, signal);
    }
}

fn wait(child: &mut Child, until: Instant) {
    while Instant::now() < until && matches!(child.try_wait(), Ok(None)) {
        std::thread::sleep(Duration::from_millis(2));
    }
    let _ = child.kill();
    let _ = child.wait();
}

impl Drop for Temporary {
    fn drop(&mut self) {
        self.wake();
        // The id of a process that was waited for may be another's by now.
        let away = self.away.take();
        let there = |at: &usize| away != Some(*at);
        self.children.iter().enumerate().filter(|(at, _)| there(at)).for_each(|(_, child)| terminate(child));
        self.oracle.iter().for_each(terminate);
        let until = Instant::now() + STOP;
        self.children.iter_mut().chain(&mut self.oracle).for_each(|child| wait(child, until));
        // Files left behind are removed by the next benchmark.
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// The section of keys that stand in none.
pub(super) const TOP: &str = "";
/// Keys of the replicas' configuration that are not the default: section, key, value.
pub(super) type Settings = Vec<(&'static str, &'static str, toml::Value)>;

/// So that replicas execute in this way.
pub(super) fn executes(choice: ExecutionChoice) -> Settings {
    let ExecutionChoice { executor, workers, verify, late } = choice;
    let mut settings = vec![("execution", "executor", toml::Value::String(name(executor)))];
    settings.extend(workers.map(|count| ("execution", "workers", toml::Value::Integer(count.into()))));
    settings.extend(verify.then_some(("execution", "verify", toml::Value::Boolean(true))));
    settings.extend(late.then_some(("execution", "early", toml::Value::Boolean(false))));
    settings
}

/// Writes the settings into a configuration.
fn configure(file: &Path, settings: &Settings, nets: Option<&Nets>) -> Outcome<()> {
    if settings.is_empty() && nets.is_none() {
        return Ok(());
    }
    let doing = format!("configure {}", file.display());
    let mut text: toml::Table = fs::read_to_string(file).doing(&doing)?.parse().doing(&doing)?;
    for (section, key, value) in settings {
        // Sections may stand in others.
        let section = section.split('.').filter(|name| *name != TOP).try_fold(&mut text, |table, name| {
            table.entry(name).or_insert_with(|| toml::Table::new().into()).as_table_mut()
        });
        if let Some(section) = section {
            section.insert((*key).to_owned(), value.clone());
        }
    }
    if let Some(nets) = nets {
        nets.configure(&mut text);
    }
    fs::write(file, text.to_string()).doing(&doing)
}

fn start(place: &Path) -> Outcome<Child> {
    let mut command = Command::new(program()?);
    serve(&mut command, place, log(place)?);
    command.stdin(Stdio::null()).spawn().doing(format_args!("start the replica in {}", place.display()))
}

/// Starts a replica with links of its own.
fn start_on(nets: &Nets, replica: u16, place: &Path) -> Outcome<Child> {
    let logs = log(place)?;
    nets.spawn(replica, &program()?, |command| serve(command, place, logs))
}

/// This program's own file.
pub(super) fn program() -> Outcome<PathBuf> {
    std::env::current_exe().doing("find this program's own file")
}

/// Opens the file of a replica's output, twice.
fn log(place: &Path) -> Outcome<[File; 2]> {
    let shown = place.display();
    let log = File::create(place.join("log.txt")).doing(format_args!("write {shown}/log.txt"))?;
    let out = log.try_clone().doing(format_args!("write {shown}/log.txt"))?;
    Ok([out, log])
}

fn serve(command: &mut Command, place: &Path, [out, log]: [File; 2]) {
    let lies = place.join(LIES);
    if lies.exists() {
        command.arg("serve").arg("--lies").arg(lies);
    } else {
        command.arg("serve");
    }
    command
        .arg("--config")
        .arg(place.join(REPLICA_FILE))
        .arg(format!("--die-with-parent={}", std::process::id()))
        .stdout(out)
        .stderr(log);
}

/// The replicas and their addresses on the first link.
fn on_nets(nets: &Nets) -> Vec<(u16, String)> {
    (1..=REPLICAS).map(|replica| (replica, nets.address(replica, 0))).collect()
}

/// Addresses of this machine whose ports are free now.
pub(super) fn addresses(count: usize) -> Outcome<Vec<String>> {
    let count = u16::try_from(count).unwrap_or(u16::MAX);
    let ports = quorate_runtime::free_ports(count).doing("find free ports")?;
    Ok(ports.iter().map(|port| format!("{}:{port}", Ipv4Addr::LOCALHOST)).collect())
}

/// Removes the directories of benchmarks that were killed.
pub(super) fn sweep(scratch: &Path, prefix: &str) {
    for entry in fs::read_dir(scratch).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let name = name.to_str().and_then(|name| name.strip_prefix(prefix));
        let pid = name.and_then(|name| name.split('-').next()).and_then(|pid| pid.parse::<u32>().ok());
        if pid.is_some_and(|pid| pid == std::process::id() || !Path::new(&format!("/proc/{pid}")).exists()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}
