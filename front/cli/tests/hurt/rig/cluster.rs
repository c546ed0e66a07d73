//! Three replicas as processes of the real program, which are killed, paused and started again.
//!
//! All of them are started from the test's own thread: a child ends with the thread that started it.

use super::random::Random;
use super::tmpfs::Tmpfs;
use quorate::client::{BlockingClient, ClientBuilder, ReplicaId};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs::OpenOptions;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

pub(crate) const REPLICAS: usize = 3;
/// How long the cluster may take for anything, on a machine that has much else to do.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);
const ASK: Duration = Duration::from_millis(500);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Life {
    Up,
    Paused,
    Down,
    /// No member any more.
    Gone,
}

pub(super) struct Process {
    pub(super) life: Life,
    pub(super) child: Option<Child>,
    /// How often it was started.
    lives: u32,
    /// What it is started with besides.
    pub(super) arguments: Vec<String>,
}

impl Process {
    pub(super) fn new() -> Self {
        Self { life: Life::Down, child: None, lives: 0, arguments: Vec::new() }
    }
}

/// A cluster; its processes and its directory go with it, but the directory stays when the test fails.
pub(crate) struct Cluster {
    directory: TempDir,
    pub(crate) members: Vec<(ReplicaId, String)>,
    pub(super) processes: Vec<Process>,
    pub(super) admin: BlockingClient,
    mounts: Vec<Tmpfs>,
    quorum: usize,
}

impl Cluster {
    /// Made, not started. `segment_mib` is the size of the log's files.
    pub(crate) fn new(name: &str, segment_mib: u64, random: &mut Random) -> Self {
        Self::of_instances(name, segment_mib, (1, 1), random)
    }

    /// The same, with so many instances and lanes.
    pub(crate) fn of_instances(
        name: &str,
        segment_mib: u64,
        (instances, lanes): (u16, u16),
        random: &mut Random,
    ) -> Self {
        let counts = ["--instances", &instances.to_string(), "--lanes", &lanes.to_string()];
        Self::made(name, segment_mib, REPLICAS, &counts, random)
    }

    /// Four replicas, one of which may do anything, with so many instances.
    pub(crate) fn byzantine(name: &str, instances: u16, random: &mut Random) -> Self {
        let arguments = ["--fault-model", "byzantine", "--instances", &instances.to_string()];
        Self::made(name, 20, 4, &arguments, random)
    }

    /// One that serves clients of etcd, without certificates; and where it does.
    pub(crate) fn of_etcd(name: &str, random: &mut Random) -> (Self, Vec<String>) {
        Self::of_etcd_with(name, &[], random)
    }

    /// The same, with these arguments for `init` besides.
    pub(crate) fn of_etcd_with(name: &str, more: &[&str], random: &mut Random) -> (Self, Vec<String>) {
        let first = ports_in_a_row(random).to_string();
        let arguments = [&["--service", "etcd", "--plain", "--etcd-port", &first], more].concat();
        let first: u16 = first.parse().expect("a port");
        let addresses = (first..).take(REPLICAS).map(|port| format!("127.0.0.1:{port}")).collect();
        (Self::made(name, 20, REPLICAS, &arguments, random), addresses)
    }

    /// With these arguments for `init` besides.
    fn made(name: &str, segment_mib: u64, replicas: usize, arguments: &[&str], random: &mut Random) -> Self {
        let place = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let directory = tempfile::Builder::new().prefix(&format!("{name}-")).tempdir_in(place).unwrap();
        let ports = ports(replicas, random);
        let members: Vec<(ReplicaId, String)> = (1..=replicas as u16)
            .zip(ports)
            .map(|(id, port)| (ReplicaId::new(id), format!("127.0.0.1:{port}")))
            .collect();
        let list: Vec<String> =
            members.iter().map(|(id, address)| format!("{}={address}", id.number())).collect();
        let root = directory.path().join("c");
        let made = quorate()
            .args(["init", "--members", &list.join(","), "--health-port", "0"])
            .args(if arguments.contains(&"--service") { &[][..] } else { &["--service", "kv"] })
            .args(arguments)
            .arg("--dir")
            .arg(&root)
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        for replica in 1..=replicas {
            let file = root.join(format!("replica-{replica}/replica.toml"));
            let text = std::fs::read_to_string(&file).unwrap();
            let mode = "mode = \"group\"\n";
            assert!(text.contains(mode), "{text}");
            std::fs::write(&file, text.replace(mode, &format!("{mode}segment_mib = {segment_mib}\n")))
                .unwrap();
        }
        let admin = admin(&root);
        let processes = (0..replicas).map(|_| Process::new()).collect();
        // Also with Byzantine faults: three of four.
        let quorum = replicas / 2 + 1;
        Self { directory, members, processes, admin, mounts: Vec::new(), quorum }
    }

    /// Adds a line to the settings at the top of each replica's configuration, before it starts.
    pub(crate) fn configure(&self, line: &str) {
        for replica in 1..=self.members.len() {
            let file = self.root().join(format!("replica-{replica}/replica.toml"));
            let text = std::fs::read_to_string(&file).unwrap();
            std::fs::write(&file, format!("{line}\n{text}")).unwrap();
        }
    }

    /// Made and started, and somebody leads.
    pub(crate) fn started(name: &str, random: &mut Random) -> Self {
        let mut cluster = Self::new(name, 20, random);
        (0..REPLICAS).for_each(|at| cluster.start(at));
        cluster.wait_for_leader();
        cluster
    }

    /// Moves the data of these replicas, which never ran, to a small disk of their own; returns where that is.
    ///
    /// # Errors
    /// When this machine does not let us mount one.
    pub(crate) fn move_to_tmpfs(&mut self, replicas: &[usize], mib: u64) -> Result<PathBuf, String> {
        let place = self.root().join("small");
        std::fs::create_dir(&place).unwrap();
        self.mounts.push(Tmpfs::mount(&place, mib)?);
        for at in replicas {
            let (data, there) = (self.home(*at).join("data"), place.join(format!("data-{}", at + 1)));
            std::fs::create_dir(&there).unwrap();
            for file in std::fs::read_dir(&data).unwrap().map(Result::unwrap) {
                std::fs::copy(file.path(), there.join(file.file_name())).unwrap();
            }
            std::fs::remove_dir_all(&data).unwrap();
            std::os::unix::fs::symlink(&there, &data).unwrap();
        }
        Ok(place)
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.directory.path().join("c")
    }

    /// Where everything of this replica is.
    pub(crate) fn home(&self, at: usize) -> PathBuf {
        self.root().join(format!("replica-{}", at + 1))
    }

    /// The directory with its segments.
    pub(crate) fn log(&self, at: usize) -> PathBuf {
        self.home(at).join("data/log")
    }

    /// What all its lives synced, each in a file of its own: a line that a kill cut off must not spoil the next.
    pub(crate) fn traces(&self, at: usize) -> Vec<PathBuf> {
        (1..=self.processes[at].lives).map(|life| self.home(at).join(format!("sync-{life}.jsonl"))).collect()
    }

    /// What the replica printed, in all its lives.
    pub(crate) fn printed(&self, at: usize) -> String {
        std::fs::read_to_string(self.home(at).join("printed.txt")).unwrap_or_default()
    }

    pub(crate) fn replica(&self, at: usize) -> ReplicaId {
        self.members[at].0
    }

    pub(crate) fn life(&self, at: usize) -> Life {
        self.processes[at].life
    }

    pub(crate) fn count(&self, life: Life) -> usize {
        self.processes.iter().filter(|process| process.life == life).count()
    }

    /// A client; `timeout` bounds each of its calls.
    pub(crate) fn client(&self, timeout: Duration) -> BlockingClient {
        let builder = ClientBuilder::from_file(self.root().join("client.toml")).unwrap();
        builder.timeout(timeout).build_blocking().unwrap()
    }

    pub(crate) fn start(&mut self, at: usize) {
        assert_eq!(self.processes[at].life, Life::Down);
        let home = self.home(at);
        let process = &mut self.processes[at];
        process.lives += 1;
        let printed = OpenOptions::new().create(true).append(true).open(home.join("printed.txt")).unwrap();
        let child = quorate()
            .arg("serve")
            .arg("--config")
            .arg(home.join("replica.toml"))
            .arg("--sync-trace")
            .arg(home.join(format!("sync-{}.jsonl", process.lives)))
            .arg(format!("--die-with-parent={}", std::process::id()))
            .args(&process.arguments)
            .stdin(Stdio::null())
            .stdout(printed.try_clone().unwrap())
            .stderr(printed)
            .spawn()
            .unwrap();
        process.child = Some(child);
        process.life = Life::Up;
    }

    /// As if its machine lost power, but for what the system had not yet written.
    pub(crate) fn kill(&mut self, at: usize) {
        self.check_running(at);
        self.signal(at, Signal::KILL);
        let status = self.processes[at].child.take().unwrap().wait().unwrap();
        self.processes[at].life = Life::Down;
        assert!(status.code().is_none(), "replica {} ended by itself: {status}\n{}", at + 1, self.tail(at));
    }

    pub(crate) fn pause(&mut self, at: usize) {
        self.check_running(at);
        self.signal(at, Signal::STOP);
        self.processes[at].life = Life::Paused;
    }

    pub(crate) fn resume(&mut self, at: usize) {
        self.signal(at, Signal::CONT);
        self.processes[at].life = Life::Up;
    }

    /// The replicas that are members.
    pub(crate) fn all(&self) -> Vec<usize> {
        (0..self.processes.len()).filter(|at| self.processes[*at].life != Life::Gone).collect()
    }

    /// Starts what is down, lets go on what is paused.
    pub(crate) fn heal(&mut self) {
        for at in self.all() {
            match self.processes[at].life {
                Life::Up | Life::Gone => {}
                Life::Paused => self.resume(at),
                Life::Down => self.start(at),
            }
        }
    }

    /// Waits until a process that is to refuse to run has ended.
    pub(crate) fn wait_for_end(&mut self, at: usize) -> ExitStatus {
        let mut status = None;
        wait("the process ends", || {
            status = self.processes[at].child.as_mut().and_then(|child| child.try_wait().unwrap());
            status.is_some()
        });
        self.processes[at].child = None;
        self.processes[at].life = Life::Down;
        status.expect("it ended")
    }

    /// A replica that ends although nobody killed it is a failure, whatever the clients saw.
    pub(crate) fn check_all_running(&mut self) {
        for at in self.all() {
            if self.processes[at].life != Life::Down {
                self.check_running(at);
            }
        }
    }

    pub(super) fn check_running(&mut self, at: usize) {
        let child = self.processes[at].child.as_mut().expect("it was started");
        if let Some(status) = child.try_wait().unwrap() {
            panic!("replica {} ended by itself: {status}\n{}", at + 1, self.tail(at));
        }
    }

    pub(super) fn signal(&self, at: usize, signal: Signal) {
        let child = self.processes[at].child.as_ref().expect("it was started");
        let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// The last lines that it printed.
    pub(crate) fn tail(&self, at: usize) -> String {
        let printed = self.printed(at);
        let lines: Vec<&str> = printed.lines().collect();
        lines[lines.len().saturating_sub(15)..].join("\n")
    }

    /// What the replica says of itself, if it answers.
    pub(crate) fn status(&self, at: usize) -> Option<Value> {
        if self.processes[at].life != Life::Up {
            return None;
        }
        self.admin.status(self.replica(at)).ok().and_then(|text| serde_json::from_str(&text).ok())
    }

    /// One of the members.
    pub(crate) fn any(&self, random: &mut Random) -> usize {
        let all = self.all();
        all[random.below(all.len() as u64) as usize]
    }

    /// How many of those that it began with have to be up so that they serve.
    pub(crate) fn quorum(&self) -> usize {
        self.quorum
    }

    /// Who leads: a replica that says so itself, in the highest view of those that do.
    pub(crate) fn leader(&self) -> Option<usize> {
        let leading = self.all().into_iter().filter_map(|at| {
            let status = self.status(at).filter(|status| status["leading"] == true)?;
            Some((status["view"].as_u64()?, at))
        });
        leading.max().map(|(_, at)| at)
    }

    pub(crate) fn wait_for_leader(&mut self) -> usize {
        let mut leader = None;
        wait("somebody leads", || {
            self.check_all_running();
            leader = self.leader();
            leader.is_some()
        });
        leader.expect("somebody leads")
    }

    /// Asks the leader to hand over to this replica, until it leads.
    pub(crate) fn make_leader(&mut self, at: usize) {
        wait("the leader hands over", || {
            self.check_all_running();
            if self.leader() == Some(at) {
                return true;
            }
            let client = self.client(ASK);
            // The client learns who leads as soon as it is connected to anybody.
            let _ = client.open_session();
            let _ = client.transfer(Some(self.replica(at)));
            false
        });
    }

    /// Waits until a replica executed what another one had executed by now.
    pub(crate) fn wait_until_caught_up(&mut self, at: usize) {
        let executed = |cluster: &Self, at| cluster.status(at)?["executed"].as_u64();
        let others = self.all().into_iter().filter(|other| *other != at);
        let goal = others.filter_map(|other| executed(self, other)).max().expect("another one answers");
        wait("it catches up", || {
            self.check_all_running();
            executed(self, at).is_some_and(|executed| executed >= goal)
        });
    }

    /// Waits until all replicas executed the same.
    pub(crate) fn wait_until_even(&mut self) -> u64 {
        let mut even = 0;
        wait("all replicas executed the same", || {
            self.check_all_running();
            let executed: Vec<Option<u64>> =
                self.all().into_iter().map(|at| self.status(at)?["executed"].as_u64()).collect();
            even = executed[0].unwrap_or_default();
            executed.iter().all(|one| one.is_some() && *one == executed[0])
        });
        even
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for process in &mut self.processes {
            if let Some(child) = &mut process.child {
                let _ = child.kill();
                let _ = child.wait();
            }
        }
        self.mounts.clear();
        if std::thread::panicking() {
            self.directory.disable_cleanup(true);
            println!("everything is kept in {}", self.root().display());
        }
    }
}

/// A client that asks replicas how they are.
pub(super) fn admin(root: &Path) -> BlockingClient {
    let builder = ClientBuilder::from_file(root.join("client.toml")).unwrap();
    builder.timeout(ASK).build_blocking().unwrap()
}

/// The program under test.
pub(crate) fn quorate() -> Command {
    Command::new(env!("CARGO_BIN_EXE_quorate"))
}

pub(crate) fn wait(what: &str, mut done: impl FnMut() -> bool) {
    let until = Instant::now() + LIMIT;
    while !done() {
        assert!(Instant::now() < until, "{what}: not within {} s", LIMIT.as_secs());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Ports that no outgoing connection takes while their replica is down: below the range that the system picks from.
pub(crate) fn ports(count: usize, random: &mut Random) -> Vec<u16> {
    // Tests that run at the same time with the same seed must not meet, in one process or in several.
    static CLUSTERS: AtomicU64 = AtomicU64::new(0);
    let cluster = CLUSTERS.fetch_add(1, Ordering::Relaxed);
    let mut random = Random::new(random.next() ^ u64::from(std::process::id()) << 32 ^ cluster << 20);
    let mut ports = Vec::new();
    while ports.len() < count {
        let port = random.between(12_000, 31_000) as u16;
        if !ports.contains(&port) && TcpListener::bind(("127.0.0.1", port)).is_ok() {
            ports.push(port);
        }
    }
    ports
}

/// The first of as many as there are replicas, above those of [`ports`] and below the range that the system picks from.
fn ports_in_a_row(random: &mut Random) -> u16 {
    static CLUSTERS: AtomicU64 = AtomicU64::new(0);
    let cluster = CLUSTERS.fetch_add(1, Ordering::Relaxed);
    let mut random = Random::new(random.next() ^ u64::from(std::process::id()) << 32 ^ cluster << 20);
    let is_free = |port: u16| TcpListener::bind(("127.0.0.1", port)).is_ok();
    loop {
        let first = random.between(31_100, 32_600) as u16;
        if (first..).take(REPLICAS).all(is_free) {
            return first;
        }
    }
}
