//! How a replica starts, and how it stops.

use crate::calls::FrontCalls;
use crate::clerk::{Clerk, Errands};
use crate::clock::{Clock, MonotonicClock};
use crate::config::{AccessConfig, Config, ConfigError, Durability, ExecutionConfig};
use crate::directory::{DataDirectory, DirectoryError};
use crate::disk::{DelayedDisk, Disk, FileDisk, Quota};
use crate::disk_thread::{Completion, DiskThreads, Mailbox};
use crate::files::{Ballast, CheckpointFiles, MemoryFiles};
use crate::health::Health;
use crate::keeper_thread::KeeperThread;
use crate::lane::{Addresses, Fronts, Hurt, Lane, Lateness, Partition, Parts, Sleeper, WAKER};
use crate::mouth::Mouth;
use crate::network::{Network, SystemNetwork};
use crate::newest::Newest;
use crate::open_files;
use crate::oracle::{NOT_A_JUDGE, Oracle, Oracles};
use crate::stages::{Seen, Stages};
use crate::workers::{Crew, Workers};
use bytes::Bytes;
use mio::net::TcpListener;
use mio::{Poll, Waker};
use quorate_execute::{Service, UnderWay};
use quorate_log::{Log, Record, RecoverError, Recovery, SyncMode};
use quorate_node::{Node, NodeConfig, NodeStatus, Recovered, Restoring, Witness};
use quorate_state::checkpoint::{Files, Keeper, OpenError};
use quorate_tls::{CredentialsError, Watched};
use quorate_types::{Halt, RecordId, ReplicaId, Span};
use std::fmt;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How long the lane may take to answer.
const ANSWER: Duration = Duration::from_secs(1);

/// Why a replica does not start. Each text says what to do. `Debug` gives the same text, since that is what a `main` prints which returns it.
#[derive(thiserror::Error)]
pub enum StartError {
    /// The configuration is wrong.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The data directory can not be used.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// A replica of a cluster in one process asked another oracle before.
    #[error(
        "this replica asked another oracle before, and two oracles would each grant a half of the replicas: give it the one that it had, \
         with `restart_with`"
    )]
    OtherOracle,
    /// The oracle takes whatever it is told, and replicas may lie.
    #[error("oracle: {0}: {NOT_A_JUDGE}")]
    NoJudge(String),
    /// The certificates can not be used.
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
    /// The replica can not listen.
    #[error("can not listen on {address}: {why}. {hint}")]
    Listen {
        /// The address.
        address: String,
        /// The error of the system.
        why: io::Error,
        /// What to do.
        hint: &'static str,
    },
    /// The program's service is not the one that the configuration names.
    #[error(
        "the configuration names the service {configured}, and this program runs the service {program}: start the program of {configured}, or \
         give the configuration of a cluster of {program}"
    )]
    OtherService {
        /// The name in `[service]`.
        configured: String,
        /// The name that the program's service has.
        program: String,
    },
    /// The log can not be trusted.
    #[error("{0}")]
    Halt(Halt),
    /// The log can not be read by this program, or not with this configuration.
    #[error("the log can not be opened: {0}")]
    Log(String),
    /// There is no room for the log, or it can not be written.
    #[error("{what} in {}: {why}. The log needs {mib} MiB of free space there to start", directory.display())]
    Room {
        /// What was being done.
        what: &'static str,
        /// The directory.
        directory: PathBuf,
        /// How many MiB are needed.
        mib: u64,
        /// The error of the system.
        why: io::Error,
    },
    /// The disk, the sockets or the threads refused.
    #[error("{what}: {why}")]
    Io {
        /// What was being done.
        what: &'static str,
        /// The error of the system.
        why: io::Error,
    },
}

impl fmt::Debug for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl From<RecoverError> for StartError {
    fn from(error: RecoverError) -> Self {
        match error {
            RecoverError::Halt(halt) => Self::Halt(halt),
            other => Self::Log(other.to_string()),
        }
    }
}

impl StartError {
    fn checkpoints(error: OpenError) -> Self {
        Self::Log(error.to_string())
    }
}

fn io_error(what: &'static str) -> impl FnOnce(io::Error) -> StartError {
    move |why| StartError::Io { what, why }
}

/// Replacements of a replica's parts, for tests and operators.
#[derive(Default)]
pub struct Options {
    /// Another disk in place of files in the data directory.
    pub disk: Option<Arc<dyn Disk>>,
    /// Another clock in place of the system's monotonic one.
    pub clock: Option<Arc<dyn Clock>>,
    /// Another network in place of the system's.
    pub network: Option<Arc<dyn Network>>,
    /// Append one line to this file per completed sync.
    pub sync_trace: Option<PathBuf>,
    /// Behave like a program that can work at this feature level at most: for tests of upgrades.
    pub feature_level_max: Option<u32>,
    /// Sends other messages in place of the replica's, for tests of replicas that lie.
    pub mouth: Option<Box<dyn Mouth>>,
    /// How late leaves what the replica sends to members, for tests of replicas that are slow.
    pub lateness: Option<Lateness>,
    /// From whom the replica is cut off, for tests of networks that break.
    pub partition: Option<Partition>,
    /// How much the replica may put on its disk, for tests of disks that are full.
    pub quota: Option<Quota>,
    /// The oracle that the configuration names, where few members are slow (Visigoth with s below u).
    pub oracle: Option<Box<dyn Oracle>>,
}

/// A replica to be started.
pub struct Replica {
    config: Config,
    service: Box<dyn Service>,
    options: Options,
}

impl Replica {
    /// A replica that runs `service` as `config` says.
    pub fn new(config: Config, service: Box<dyn Service>) -> Self {
        Self { config, service, options: Options::default() }
    }

    /// Replaces these parts.
    #[must_use]
    pub fn with(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// Takes the data directory, listens, reads the log back, and starts the threads.
    ///
    /// # Errors
    /// Why the replica does not start, and what to do.
    pub fn start(self) -> Result<Running, StartError> {
        let Self { mut config, service, options } = self;
        check(&config, &*service, options.oracle.is_some())?;
        fit_to_open_files(&mut config);
        let (watched, directory) = (certificates(&config)?, DataDirectory::open(&config)?);
        let (written, host) = (config, (options.oracle.is_some(), options.disk.is_none()));
        let config = in_era(&written, &directory, host)?;
        let (hurt, stop) = (hurt(&options), Arc::new(AtomicBool::new(false)));
        let network = network(options.network, hurt.partition.clone(), &config);
        let (listener, address) = listen(&*network, config.listen_address())?;
        let (health, trace) = (health(&config)?, options.sync_trace.as_deref());
        let disk = disk(options.disk, (&directory.log_directory()?, trace), &config, hurt.quota.clone())?;
        let node_config = node_config((&config, &written), &directory, host, options.feature_level_max)?;
        let (mut files, hold) = checkpoint_files(&config, &directory, hurt.quota.clone())?;
        let (keeper, opened) = Keeper::open(&mut *files, hold).map_err(StartError::checkpoints)?;
        let recovered = Recovered::new(opened, config.members.len() == 1).map_err(StartError::Halt)?;
        let clock = options.clock.unwrap_or_else(|| Arc::new(MonotonicClock::new()));
        let (witness, seen) = stages(&config, &clock)?;
        let service = (service, config.execution.clone(), witness);
        let mut node = recover(node_config, service, recovered, &*disk, &directory)?;
        let newest = open_to_readers(&mut node, &config);
        directory.note_run(config.durability.mode, false).and_then(|()| directory.used())?;
        let (poll, sleeper, waker) = event_queue()?;
        let others = other_queues(config.lane_count())?;
        let (mailbox, completions) = Mailbox::new(waker.clone());
        let threads = DiskThreads::start(&disk, config.log_config().segment_bytes, &mailbox)
            .map_err(io_error("starting a thread"))?;
        let keeper = KeeperThread::start(keeper, files, config.checkpoints.rate(), mailbox.clone())
            .map_err(io_error("starting a thread"))?;
        let (crew, oracles) = (crew(&config, &mailbox)?, oracles(&config, options.oracle, &mailbox)?);
        let (credentials, calls) = (watched.as_ref().map(|w| w.current().clone()), FrontCalls::default());
        let clerk = Clerk::start((&config, hurt.quota.clone()), watched, mailbox.clone())
            .map_err(io_error("starting a thread"))?;
        let probed = health.as_ref().map(|health| health.attach(mailbox.clone()));
        let (asker, reloader) = (Asker(mailbox.clone()), Reloader(clerk.errands().cloned()));
        let lane = Lane::new(Parts {
            node,
            poll,
            others,
            sleeper,
            listener,
            disk: threads,
            keeper,
            crew,
            oracles,
            mailbox,
            completions,
            limits: config.limits.lane(&config.timing),
            clock,
            seen,
            addresses: addresses(&config),
            fronts: Fronts { addresses: config.front_addresses(), calls: calls.clone() },
            health,
            network,
            credentials,
            mouth: options.mouth,
            hurt,
            clerk,
            stop: stop.clone(),
            pillars: config.pillars,
            placement: config.placement,
            links: config.link_count(),
            heartbeat: Span::from_millis(config.timing.heartbeat_ms),
        })
        .map_err(io_error("starting a lane"))?;
        let kept = (config.durability.mode, config.log_config().segment_bytes);
        let thread = Some(spawn(move || naming(|| run(lane, &directory, &*disk, kept))?)?);
        Ok(Running { address, probed, asker, newest, calls, stop, waker, reloader, thread })
    }
}

/// Whether the configuration can be used, and names the program's service. A service without a name may be any.
fn check(config: &Config, service: &dyn Service, has_oracle: bool) -> Result<(), StartError> {
    config.check_with(has_oracle)?;
    let (configured, program) = (&config.service.name, service.name());
    if program.is_empty() || *configured == *program {
        return Ok(());
    }
    Err(StartError::OtherService { configured: configured.clone(), program: program.to_owned() })
}

/// The configuration in the era that the data directory is in. What other eras left goes.
fn in_era(written: &Config, directory: &DataDirectory, host: (bool, bool)) -> Result<Config, StartError> {
    let config = directory.era().map_or(written.clone(), |era| written.in_era(&era.notice.era));
    config.check_with(host.0)?;
    directory.clean();
    Ok(config)
}

/// What the node is to know. `written`: the configuration as it was written. The host has an oracle, and a disk of its own.
fn node_config(
    (config, written): (&Config, &Config),
    directory: &DataDirectory,
    host: (bool, bool),
    level_max: Option<u32>,
) -> Result<NodeConfig, StartError> {
    let mut node_config = config.node_config(directory.identity(), written, start_seed())?;
    node_config.begin_era(written.era_config(directory.era(), host)?);
    node_config.level.limit(level_max);
    Ok(node_config)
}

/// The given network, else the system's; cut off from others if there is a partition.
fn network(
    given: Option<Arc<dyn Network>>,
    partition: Option<Partition>,
    config: &Config,
) -> Arc<dyn Network> {
    let network = given.unwrap_or_else(|| Arc::new(SystemNetwork::new(config.congestion())));
    match partition {
        Some(partition) => partition.over(network),
        None => network,
    }
}

/// The given disk, else files in this directory; with the delay that the configuration says, and with this limit if there is one.
fn disk(
    given: Option<Arc<dyn Disk>>,
    (directory, sync_trace): (&Path, Option<&Path>),
    config: &Config,
    quota: Option<Quota>,
) -> Result<Arc<dyn Disk>, StartError> {
    let disk = match given {
        Some(disk) => disk,
        None => Arc::new(FileDisk::new(directory, sync_trace).map_err(io_error("opening the sync trace"))?),
    };
    let disk = DelayedDisk::over(disk, config.durability.sync_delay());
    Ok(match quota {
        Some(quota) => quota.over_disk(disk, config.log_config().segment_bytes),
        None => disk,
    })
}

/// What these options do to a replica on purpose.
fn hurt(options: &Options) -> Hurt {
    Hurt {
        lateness: options.lateness.clone(),
        partition: options.partition.clone(),
        quota: options.quota.clone(),
    }
}

fn crew(config: &Config, mailbox: &Mailbox) -> Result<Crew, StartError> {
    let start =
        |name, count| Workers::start(name, count, mailbox.clone()).map_err(io_error("starting a thread"));
    let workers = start("worker", config.worker_count())?;
    Ok(Crew { workers, executors: start("executor", config.execution.worker_count())? })
}

fn oracles(
    config: &Config,
    oracle: Option<Box<dyn Oracle>>,
    mailbox: &Mailbox,
) -> Result<Option<Oracles>, StartError> {
    let Some(oracle) = oracle.filter(|_| config.fault_model.few_are_slow()) else { return Ok(None) };
    let group = config.group()?;
    if group.is_some() && !oracle.is_a_judge() {
        return Err(StartError::NoJudge(oracle.name()));
    }
    let started = Oracles::start(oracle, config.cluster_id()?, group, mailbox.clone());
    started.map(Some).map_err(io_error("starting a thread"))
}

/// Sets who may use which keys, and where readers on other threads find the newest state.
fn open_to_readers(node: &mut Node, config: &Config) -> Newest {
    node.permit(config.access.as_ref().map(AccessConfig::to_access).unwrap_or_default());
    let newest = Newest::default();
    node.publish_to(Box::new(newest.writer()));
    newest
}

/// An event queue for a lane, and what wakes it.
fn event_queue() -> Result<(Poll, Sleeper, Arc<Waker>), StartError> {
    let poll = Poll::new().map_err(io_error("making an event queue"))?;
    let waker = Waker::new(poll.registry(), WAKER).map_err(io_error("making an event queue"))?;
    let waker = Arc::new(waker);
    Ok((poll, Sleeper::new(waker.clone()), waker))
}

/// What watches the replica, and what that says.
fn stages(config: &Config, clock: &Arc<dyn Clock>) -> Result<(Option<Box<dyn Witness>>, Seen), StartError> {
    Stages::of(config, clock.clone()).map_err(io_error("starting a thread"))
}

/// An event queue for each lane but the main one, and what wakes it.
fn other_queues(lanes: u16) -> Result<Vec<(Poll, Sleeper)>, StartError> {
    (1..lanes).map(|_| event_queue().map(|(poll, own, _)| (poll, own))).collect()
}

/// Starts the main lane's thread.
fn spawn(
    lane: impl FnOnce() -> Result<(), Halt> + Send + 'static,
) -> Result<JoinHandle<Result<(), Halt>>, StartError> {
    quorate_tls::start_thread("lane-1", lane).map_err(io_error("starting a thread"))
}

/// If the service panics in this, the command that it executed is named.
fn naming<T>(runs: impl FnOnce() -> T) -> Result<T, Halt> {
    // Nothing that it leaves behind is used again.
    catch_unwind(AssertUnwindSafe(runs)).map_err(|panic| {
        let Some(UnderWay { seq, request, bytes }) = UnderWay::panicked() else { resume_unwind(panic) };
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let why = text.or_else(|| panic.downcast_ref::<String>().cloned());
        Halt::ServicePanicked { seq, request, bytes, why: why.unwrap_or_else(|| "it said nothing".into()) }
    })
}

fn run(
    lane: Lane,
    directory: &DataDirectory,
    disk: &dyn Disk,
    (durability, segment_bytes): (Durability, u64),
) -> Result<(), Halt> {
    if let Some(next) = lane.run()? {
        let number = next.notice.era.number;
        return Err(match directory.enter(&next, segment_bytes) {
            Ok(()) => Halt::EraBegins { number },
            Err(why) => Halt::LogWriteFailed { why: why.to_string() },
        });
    }
    // What async mode has not synced yet must not be lost by an end that is called clean.
    let synced = match durability {
        Durability::Async => disk.segments().and_then(|segments| disk.sync(&segments)),
        Durability::Group | Durability::Memory => Ok(()),
    };
    let noted = synced
        .map_err(|error| error.to_string())
        .and_then(|()| directory.note_run(durability, true).map_err(|error| error.to_string()));
    if let Err(error) = noted {
        tracing::warn!("the end of this run could not be noted: {error}");
    }
    Ok(())
}

/// A running replica. Dropping it stops it.
pub struct Running {
    address: SocketAddr,
    probed: Option<SocketAddr>,
    asker: Asker,
    newest: Newest,
    calls: FrontCalls,
    stop: Arc<AtomicBool>,
    waker: Arc<Waker>,
    reloader: Reloader,
    thread: Option<JoinHandle<Result<(), Halt>>>,
}

impl Running {
    /// The address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The address of its health endpoint, if it has one.
    pub fn health_address(&self) -> Option<SocketAddr> {
        self.probed
    }

    /// Whether it stopped on its own, as it does when its disk fails.
    pub fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Asks it to stop, from any thread.
    pub fn request_stop(&self) {
        self.stopper().stop();
    }

    /// A handle that stops it while another thread waits in [`Self::join`].
    pub fn stopper(&self) -> Stopper {
        Stopper { stop: self.stop.clone(), waker: self.waker.clone() }
    }

    /// A handle that makes it read its certificates again while another thread waits in [`Self::join`].
    pub fn reloader(&self) -> Reloader {
        self.reloader.clone()
    }

    /// A handle that asks it for its status while another thread waits in [`Self::join`].
    pub fn asker(&self) -> Asker {
        self.asker.clone()
    }

    /// Where it puts its newest state for readers on other threads.
    pub fn newest(&self) -> Newest {
        self.newest.clone()
    }

    /// Where its fronts count the calls of their clients, for its status.
    pub fn calls(&self) -> FrontCalls {
        self.calls.clone()
    }

    /// Waits until it has stopped.
    ///
    /// # Errors
    /// Why it stopped on its own.
    ///
    /// # Panics
    /// When the lane panicked: an invariant did not hold.
    pub fn join(mut self) -> Result<(), Halt> {
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(ended)) => ended,
            Some(Err(panic)) => std::panic::resume_unwind(panic),
            None => Ok(()),
        }
    }

    /// Stops it and waits until it has ended.
    ///
    /// # Errors
    /// Why it had stopped on its own.
    pub fn stop(self) -> Result<(), Halt> {
        self.request_stop();
        self.join()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.request_stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Stops a replica.
#[derive(Clone)]
pub struct Stopper {
    stop: Arc<AtomicBool>,
    waker: Arc<Waker>,
}

impl Stopper {
    /// Asks the replica to stop.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Release);
        let _ = self.waker.wake();
    }
}

/// Asks a replica for its status, from within its process.
#[derive(Clone)]
pub struct Asker(Mailbox);

impl Asker {
    /// The replica's status; `None` if it does not answer within a second, as when it has stopped.
    pub fn ask(&self) -> Option<NodeStatus> {
        let (asker, answer) = crossbeam_channel::bounded(1);
        self.0.send(Completion::Asked(asker));
        answer.recv_timeout(ANSWER).ok()
    }
}

/// Makes a replica read its certificates again.
#[derive(Clone)]
pub struct Reloader(Option<Errands>);

impl Reloader {
    /// Reads the certificates now, without waiting for a check of the files. The replica's log has the result.
    pub fn reload(&self) {
        if let Some(errands) = &self.0 {
            errands.look();
        }
    }
}

/// Limits connections to what this process's open files allow.
fn fit_to_open_files(config: &mut Config) {
    let files = open_files::raise();
    config.limits.connections = open_files::connections_max(config.limits.connections, files);
    config.limits.handshakes = open_files::handshakes_max(config.limits.handshakes, files);
}

fn listen(network: &dyn Network, address: &str) -> Result<(TcpListener, SocketAddr), StartError> {
    let error = |why: io::Error| listen_error(address, why);
    let resolved = address.to_socket_addrs().map_err(error)?.next();
    let resolved = resolved.ok_or_else(|| error(io::ErrorKind::AddrNotAvailable.into()))?;
    let listener = TcpListener::from_std(network.listen(resolved).map_err(error)?);
    let address = listener.local_addr().map_err(error)?;
    Ok((listener, address))
}

/// The certificates of connections, unless they are plain.
fn certificates(config: &Config) -> Result<Option<Watched>, StartError> {
    let watched = config.tls.clone().map(Watched::load).transpose()?;
    if let Some(watched) = &watched {
        config.check_identity(watched.current())?;
    }
    Ok(watched)
}

/// The address of each member by the configuration.
fn addresses(config: &Config) -> Addresses {
    let mut addresses = Addresses::default();
    for member in &config.members {
        addresses.configure(ReplicaId::new(member.replica), member.address.clone(), member.links.clone());
    }
    addresses
}

/// The health endpoint, if one is configured. If another process uses its address, the replica goes on without: nobody needs it for an answer.
fn health(config: &Config) -> Result<Option<Health>, StartError> {
    let Some(address) = &config.health else { return Ok(None) };
    match Health::start(address) {
        Ok(health) => Ok(Some(health)),
        Err(why) if why.kind() == io::ErrorKind::AddrInUse => {
            tracing::error!(
                "nobody can probe this replica or read its metrics: another process uses {address}; choose another address for `health`, and restart it"
            );
            Ok(None)
        }
        Err(why) => Err(listen_error(address, why)),
    }
}

fn listen_error(address: &str, why: io::Error) -> StartError {
    let hint = match why.kind() {
        io::ErrorKind::AddrInUse => {
            "Another process uses this port: stop it, or choose another address for this replica"
        }
        io::ErrorKind::AddrNotAvailable => "This machine has no such address: correct `listen` or `health`",
        io::ErrorKind::PermissionDenied => "Choose a port above 1023",
        _ => "An address is host:port",
    };
    StartError::Listen { address: address.to_owned(), why, hint }
}

/// A seed that differs from start to start, so that replicas that start together do not choose the same time-outs.
fn start_seed() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
    now ^ (u64::from(std::process::id()) << 32)
}

/// The files of checkpoints, and whether they are only in memory.
fn checkpoint_files(
    config: &Config,
    directory: &DataDirectory,
    quota: Option<Quota>,
) -> Result<(Box<dyn Files + Send>, bool), StartError> {
    if config.durability.mode == Durability::Memory {
        return Ok((Box::new(MemoryFiles::default()), true));
    }
    let place = directory.checkpoint_directory();
    let ballast = Arc::new(Ballast::open(&place, config.log_config().segment_bytes, quota.clone()));
    let files = CheckpointFiles::new(&place).and_then(|files| files.ballasted(ballast.clone()));
    let files = files.map_err(io_error("opening the directory of checkpoints"))?;
    let files: Box<dyn Files + Send> = Box::new(files);
    match quota {
        Some(quota) => Ok((quota.over_files(files, ballast), false)),
        None => Ok((files, false)),
    }
}

/// Reads the log back; rewrites and syncs its tail, so that readable records are durable before the first message.
fn recover(
    config: NodeConfig,
    service: (Box<dyn Service>, ExecutionConfig, Option<Box<dyn Witness>>),
    recovered: Recovered,
    disk: &dyn Disk,
    directory: &DataDirectory,
) -> Result<Node, StartError> {
    naming(|| read_back(config, service, recovered, disk, directory)).map_err(StartError::Halt)?
}

fn read_back(
    config: NodeConfig,
    (service, how, witness): (Box<dyn Service>, ExecutionConfig, Option<Box<dyn Witness>>),
    recovered: Recovered,
    disk: &dyn Disk,
    directory: &DataDirectory,
) -> Result<Node, StartError> {
    how.fits(&*service)?;
    let (log_id, log_config) = (config.log_id, config.log.clone());
    let mut restoring = Restoring::new(config, recovered).map_err(StartError::Halt)?.seen_by(witness);
    if log_config.sync == SyncMode::Memory {
        let log = Log::create(log_id, log_config);
        return restoring
            .finish_with(log, service, |executor| how.execution(executor))
            .map_err(StartError::Halt);
    }
    let log_directory = directory.log_directory()?;
    let room = |what: &'static str, segments: u64| {
        let (directory, mib) = (log_directory.clone(), (segments * log_config.segment_bytes) >> 20);
        move |why| StartError::Room { what, directory, mib, why }
    };
    let mut segments = disk.segments().map_err(io_error("listing the log"))?;
    if segments.is_empty() {
        // Only a directory that was never used may begin a log: anywhere else a missing log is a lost one.
        if !directory.is_fresh() {
            return Err(directory.emptied().into());
        }
        // The second is made as soon as the replica runs.
        disk.prepare(0, log_config.segment_bytes).map_err(room("making the log's first file", 2))?;
        segments.push(0);
    }
    let mut recovery = Recovery::new(log_id, log_config.clone(), segments[0]);
    let mut records = Vec::new();
    for segment in &segments {
        let bytes = disk.read_segment(*segment).map_err(io_error("reading the log"))?;
        recovery.segment(*segment, &bytes, &mut records)?;
        restore(&mut restoring, &mut records)?;
    }
    let recovered = recovery.finish(&mut records)?;
    restore(&mut restoring, &mut records)?;
    for damage in &recovered.damage {
        tracing::warn!(
            "the log is damaged at byte {}: {} records are missing, it goes on at byte {}",
            damage.position,
            damage.records(),
            damage.end
        );
    }
    // Before anything is written: a replica that halts leaves the disk as it is.
    restoring.check(&recovered.damage).map_err(StartError::Halt)?;
    if let Some(position) = recovered.cut_at {
        tracing::info!("the log ends at byte {position}; what lay behind it was never synced and is ignored");
    }
    if let Some(segment) = recovered.prepare {
        disk.prepare(segment, log_config.segment_bytes).map_err(room("making the log's next file", 1))?;
    }
    let mut rewritten: Vec<u64> = Vec::new();
    for part in &recovered.rewrite {
        disk.write(part.segment, part.offset, std::slice::from_ref(&part.data))
            .map_err(io_error("rewriting the log's tail"))?;
        rewritten.push(part.segment);
    }
    rewritten.dedup();
    disk.sync(&rewritten).map_err(io_error("syncing the log's tail"))?;
    let log = recovered.rewritten();
    restoring.finish_with(log, service, |executor| how.execution(executor)).map_err(StartError::Halt)
}

fn restore(restoring: &mut Restoring, records: &mut Vec<(RecordId, Record)>) -> Result<(), StartError> {
    for (id, mut record) in records.drain(..) {
        // What the protocol keeps of it must not keep the whole segment in memory.
        record.payload = Bytes::copy_from_slice(&record.payload);
        record.head = Bytes::copy_from_slice(&record.head);
        restoring.record(id, record).map_err(StartError::Halt)?;
    }
    Ok(())
}
