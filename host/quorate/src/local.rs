//! A whole cluster in one process, on real sockets and a real disk: for a service's own tests, and for trying things out.

use crate::client::{Client, ClientBuilder};
use aws_lc_rs::rand;
use quorate_execute::Service;
use quorate_order::Protocol;
use quorate_runtime::{
    Config, DataDirectory, DirectoryError, Durability, Identity, MemberConfig, MemoryOracle, Options,
    Replica, Running, SigningConfig, SigningKey, StartError, free_ports,
};
use quorate_types::{ClusterId, Incarnation, ReplicaId};
use std::collections::BTreeMap;
use std::fmt;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// The time between two looks of [`LocalCluster::check`].
const CHECK_PAUSE: Duration = Duration::from_millis(50);

/// Several replicas of one service in this process, each in a folder of its own below one directory.
///
/// Stopping a replica here ends its threads after the writes that are under way; killing a process is what the program's
/// `chaos kill` does.
pub struct LocalCluster {
    configs: Vec<Config>,
    running: Vec<Option<Running>>,
    service: Box<dyn Fn() -> Box<dyn Service> + Send>,
    /// What decides between halves of the replicas, where few of them are slow (Visigoth with s below u).
    oracle: MemoryOracle,
    /// The replicas that were started with an oracle of the caller's, and those with the one above: two oracles would each grant a half.
    asks: BTreeMap<ReplicaId, Asks>,
    /// Behind the replicas: it goes when they have stopped.
    temporary: Option<Temporary>,
}

/// A directory that is removed with everything in it.
struct Temporary(PathBuf);

impl Drop for Temporary {
    fn drop(&mut self) {
        // What can not be removed is in a place that the system empties.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// What [`LocalCluster::check`] looks at.
struct Look {
    replica: ReplicaId,
    executed: u64,
    border: u64,
    digest: Option<String>,
    divergences: u64,
}

impl Look {
    fn at(running: &Running) -> Option<Self> {
        let status = running.asker().ask()?;
        Some(Self {
            replica: ReplicaId::new(status.replica),
            executed: status.executed,
            border: status.checkpoints.last_seq,
            digest: status.checkpoints.last_state_digest,
            divergences: status.checkpoints.divergences,
        })
    }
}

/// Why [`LocalCluster::check`] does not say that all states are equal.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum CheckError {
    /// The states of two replicas differ.
    Differ {
        /// One of them.
        replica: ReplicaId,
        /// The other one.
        from: ReplicaId,
    },
    /// The state of a replica differed from that of the others before. It is repaired from them.
    Differed {
        /// The replica.
        replica: ReplicaId,
    },
    /// Not all replicas came as far as they must.
    Late {
        /// The seq behind which a border was waited for.
        after: u64,
        /// The last border of each replica.
        borders: Vec<(ReplicaId, u64)>,
    },
    /// No replica runs.
    NobodyRuns,
    /// The cluster does not answer; the text says why.
    Client(String),
}

impl fmt::Display for CheckError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cause = "the service is not deterministic, or a machine does not work correctly. The replicas' logs name the keys that differ if the \
                     service is in the object store; typical causes are clocks, random numbers of its own, and maps whose order differs";
        match self {
            Self::Differ { replica, from } => {
                write!(f, "{replica} and {from} executed the same and have other states: {cause}")
            }
            Self::Differed { replica } => {
                write!(f, "the state of {replica} differed from that of the others: {cause}")
            }
            Self::Late { after, borders } => write!(
                f,
                "not all replicas came to a border behind seq {after} in time: their last ones are {borders:?}; restart those that were \
                 stopped, or wait longer"
            ),
            Self::NobodyRuns => f.write_str("no replica runs: start one again before the check"),
            Self::Client(why) => write!(f, "the cluster does not answer: {why}"),
        }
    }
}

/// A test that unwraps it prints it by `Debug`.
impl fmt::Debug for CheckError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for CheckError {}

/// Which oracle a replica asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Asks {
    /// The one that its options have.
    Given,
    /// The cluster's own.
    Own,
}

impl LocalCluster {
    /// Starts `replicas` replicas, each with a service of its own from `service`, keeping data below `directory`, which is
    /// made or must be empty.
    ///
    /// # Errors
    /// Why the cluster can not be set up or a replica does not start.
    pub fn start(
        directory: &Path,
        replicas: u16,
        service: impl Fn() -> Box<dyn Service> + Send + 'static,
    ) -> Result<Self, StartError> {
        Self::start_with(directory, replicas, service, |_| {}, |_| Options::default())
    }

    /// Like [`Self::start`], in a directory of its own among the system's temporary files, which is removed with the cluster. Each replica
    /// takes some 30 MB there.
    ///
    /// # Errors
    /// Why the cluster can not be set up or a replica does not start.
    pub fn temporary(
        replicas: u16,
        service: impl Fn() -> Box<dyn Service> + Send + 'static,
    ) -> Result<Self, StartError> {
        Self::temporary_with(replicas, service, |_| {}, |_| Options::default())
    }

    /// Like [`Self::start_with`], in a directory as that of [`Self::temporary`].
    ///
    /// # Errors
    /// Why the cluster can not be set up or a replica does not start.
    pub fn temporary_with(
        replicas: u16,
        service: impl Fn() -> Box<dyn Service> + Send + 'static,
        configure: impl Fn(&mut Config),
        options: impl Fn(ReplicaId) -> Options,
    ) -> Result<Self, StartError> {
        let name = format!("quorate-{}-{:016x}", std::process::id(), random());
        let temporary = Temporary(std::env::temp_dir().join(name));
        let mut cluster = Self::start_with(&temporary.0, replicas, service, configure, options)?;
        cluster.temporary = Some(temporary);
        Ok(cluster)
    }

    /// Like [`Self::start`], but `configure` may change the configuration of each replica, and `options` replace its parts. Where replicas
    /// may lie, or few of them be slow, set `fault_model`, with as many replicas as it needs: the protocol follows, and keys are made.
    ///
    /// # Errors
    /// Why the cluster can not be set up or a replica does not start.
    pub fn start_with(
        directory: &Path,
        replicas: u16,
        service: impl Fn() -> Box<dyn Service> + Send + 'static,
        configure: impl Fn(&mut Config),
        options: impl Fn(ReplicaId) -> Options,
    ) -> Result<Self, StartError> {
        let mut configs = set_up(directory, replicas)?;
        let first = service();
        configs.iter_mut().for_each(|config| {
            // The cluster begins with this program, so at its version.
            config.service.name = first.name().to_owned();
            config.service_level = first.version();
            configure(config);
            let model = config.fault_model;
            if config.protocol == Protocol::RAFT && (model.may_lie() || model.few_are_slow()) {
                // Raft survives neither, so it can not be meant.
                config.protocol = Protocol::MOD_SMART;
            }
        });
        make_keys(directory, &mut configs)?;
        let running = configs.iter().map(|_| None).collect();
        let service = Box::new(service);
        let (oracle, asks) = (MemoryOracle::default(), BTreeMap::new());
        let mut cluster = Self { configs, running, service, oracle, asks, temporary: None };
        let mut first = Some(first);
        for id in 1..=replicas {
            let replica = ReplicaId::new(id);
            let service = first.take().unwrap_or_else(|| (cluster.service)());
            cluster.run(replica, options(replica), service)?;
        }
        Ok(cluster)
    }

    /// The replicas and their addresses, for a client.
    pub fn members(&self) -> Vec<(ReplicaId, String)> {
        self.configs[0].members.iter().map(|m| (ReplicaId::new(m.replica), m.address.clone())).collect()
    }

    /// Begins to describe a client of this cluster: its members and the faults that they may have are named.
    pub fn client(&self) -> ClientBuilder {
        let config = &self.configs[0];
        let builder = Client::builder().members(self.members()).fault_model(config.fault_model);
        let builder = builder.service(&config.service.name);
        config.faults.map_or(builder.clone(), |most| builder.faults(most))
    }

    /// Compares the states of all replicas that run, at a checkpoint border of after now: for the end of a test, to learn that the service is
    /// deterministic. It opens sessions, so that the log goes on.
    ///
    /// # Errors
    /// When states differ, or differed before; when not all replicas come so far in this time.
    pub fn check(&self, patience: Duration) -> Result<(), CheckError> {
        let deadline = Instant::now() + patience;
        let client = self.client().build_blocking().map_err(|why| CheckError::Client(why.to_string()))?;
        let mut after = None;
        loop {
            let session = client.open_session().and_then(|session| session.close());
            session.map_err(|why| CheckError::Client(why.to_string()))?;
            let all: Vec<Look> = self.running.iter().flatten().filter_map(Look::at).collect();
            let after = *after.get_or_insert(all.iter().map(|look| look.executed).max().unwrap_or(0));
            if let Some(Look { replica, .. }) = all.iter().find(|look| look.divergences > 0) {
                return Err(CheckError::Differed { replica: *replica });
            }
            let [first, others @ ..] = all.as_slice() else { return Err(CheckError::NobodyRuns) };
            let together = others.iter().all(|look| look.border == first.border);
            if first.border >= after && together && all.iter().all(|look| look.digest.is_some()) {
                let differs = others.iter().find(|look| look.digest != first.digest);
                return differs.map_or(Ok(()), |look| {
                    Err(CheckError::Differ { replica: look.replica, from: first.replica })
                });
            }
            if Instant::now() > deadline {
                let borders = all.iter().map(|look| (look.replica, look.border)).collect();
                return Err(CheckError::Late { after, borders });
            }
            std::thread::sleep(CHECK_PAUSE);
        }
    }

    /// The configuration of a replica.
    pub fn config(&self, replica: ReplicaId) -> Option<&Config> {
        self.configs.get(usize::from(replica.number()).checked_sub(1)?)
    }

    /// A replica, unless it was stopped; for a front that works for it.
    pub fn running(&self, replica: ReplicaId) -> Option<&Running> {
        self.running.get(usize::from(replica.number()).checked_sub(1)?)?.as_ref()
    }

    /// Whether a replica runs; a replica whose disk failed does not.
    pub fn is_running(&self, replica: ReplicaId) -> bool {
        let at = usize::from(replica.number()).wrapping_sub(1);
        self.running.get(at).and_then(Option::as_ref).is_some_and(|running| !running.is_finished())
    }

    /// Stops a replica, if it runs. Gives the reason if it had stopped on its own.
    pub fn stop(&mut self, replica: ReplicaId) -> Option<quorate_types::Halt> {
        let at = usize::from(replica.number()).wrapping_sub(1);
        self.running.get_mut(at)?.take()?.stop().err()
    }

    /// Starts a replica again.
    ///
    /// # Errors
    /// Why it does not start.
    pub fn restart(&mut self, replica: ReplicaId) -> Result<(), StartError> {
        self.restart_with(replica, Options::default())
    }

    /// Starts a replica again, with parts of it replaced.
    ///
    /// # Errors
    /// Why it does not start. A replica that was started with an oracle in its options needs it again, and no other one may have one.
    ///
    /// # Panics
    /// When there is no such replica.
    pub fn restart_with(&mut self, replica: ReplicaId, options: Options) -> Result<(), StartError> {
        self.stop(replica);
        let service = (self.service)();
        self.run(replica, options, service)
    }

    fn run(
        &mut self,
        replica: ReplicaId,
        mut options: Options,
        service: Box<dyn Service>,
    ) -> Result<(), StartError> {
        let asks = if options.oracle.is_some() { Asks::Given } else { Asks::Own };
        if *self.asks.entry(replica).or_insert(asks) != asks {
            return Err(StartError::OtherOracle);
        }
        let at = usize::from(replica.number()).wrapping_sub(1);
        let config = self.configs.get(at).expect("a replica of this cluster").clone();
        if !config.does_without_an_oracle() {
            options.oracle.get_or_insert_with(|| Box::new(self.oracle.clone()));
        }
        let started = Replica::new(config, service).with(options).start()?;
        self.running[at] = Some(started);
        Ok(())
    }
}

/// Makes the data directories and configurations of a new cluster on free ports of this machine.
fn set_up(directory: &Path, replicas: u16) -> Result<Vec<Config>, StartError> {
    let io = |what| move |why| StartError::Io { what, why };
    let ports = free_ports(replicas).map_err(io("choosing ports"))?;
    let cluster = ClusterId::new(u128::from(random()) << 64 | u128::from(random()));
    let start_time_ns = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
    let mut members = Vec::new();
    for (id, port) in (1..=replicas).zip(ports) {
        let address = format!("127.0.0.1:{port}");
        members.push(MemberConfig {
            replica: id,
            address,
            links: Vec::new(),
            incarnation: Incarnation::new(random()).to_string(),
            key: None,
        });
    }
    let mut configs = Vec::new();
    for member in &members {
        let data: PathBuf = directory.join(format!("replica-{}", member.replica));
        let identity = Identity {
            cluster,
            replica: member.replica,
            incarnation: Incarnation::parse(&member.incarnation).unwrap_or_default(),
            log_id: random(),
            start_time_ns,
        };
        DataDirectory::create(&data, &identity).map_err(|error: DirectoryError| error)?;
        let mut config = Config::new(cluster, member.replica, data, members.clone());
        config.durability.mode = Durability::Group;
        // Nobody but this process, or another on this machine, can reach them.
        config.plain = true;
        // As a cluster that is new today.
        config.level = quorate_wire::FEATURE_LEVEL;
        // Small files: several replicas share this disk.
        config.durability.segment_mib = 24;
        // States are small, and are compared soon.
        config.checkpoints.interval_s = 1;
        configs.push(config);
    }
    Ok(configs)
}

/// With Byzantine faults each replica signs: a key for each that was given none.
fn make_keys(directory: &Path, configs: &mut [Config]) -> Result<(), StartError> {
    let signs = |config: &Config| config.fault_model.may_lie() && config.signing.is_none();
    if !configs.iter().all(signs) {
        return Ok(());
    }
    let io = |what| move |why| StartError::Io { what, why };
    let mut public = Vec::new();
    for config in configs.iter_mut() {
        let mut secret = [0; 32];
        rand::fill(&mut secret).map_err(|_| io("making a key")(std::io::ErrorKind::Unsupported.into()))?;
        let (secret, path) =
            (SigningKey::new(secret), directory.join(format!("replica-{}.key", config.replica)));
        std::fs::write(&path, secret.to_text()).map_err(io("writing a key"))?;
        config.signing = Some(SigningConfig { key: path });
        public.push((config.replica, secret.public()));
    }
    for member in configs.iter_mut().flat_map(|config| &mut config.members) {
        member.key =
            public.iter().find(|(replica, _)| *replica == member.replica).map(|(_, key)| key.clone());
    }
    Ok(())
}

/// Randomness of the system: every state of the standard hasher has keys of its own.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}
