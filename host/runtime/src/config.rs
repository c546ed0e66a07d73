//! The configuration file of a replica. docs/configuration.md explains every key; unknown keys are refused.

use quorate_admit::{AdmissionLimits, KnownMember, Members};
use quorate_execute::SessionLimits;
use quorate_log::{LogConfig, SyncMode};
use quorate_node::{NodeConfig, SeatLimits};
use quorate_order::Protocol;
use quorate_reply::ReadLimits;
use quorate_state::transfer::FetchLimits;
use quorate_tls::{Credentials, TlsFiles};
use quorate_types::{AgreedTime, ClusterId, FaultModel, Holder, Incarnation, MembershipId, ReplicaId, Span};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::directory::Identity;
use crate::lane::{LaneLimits, UNSENT_TIMES};
use crate::workers::checks_away;

mod access;
mod administration;
mod checkpoints;
mod execution;
mod lanes;
mod members;
mod network;
mod opaque;
mod oracle;
mod protocol;
mod reads;
mod sessions;
mod signing;
mod telemetry;
#[cfg(test)]
mod tests;
mod upgrade;

pub use access::{AccessConfig, ClientAccess, Others};
pub use administration::AdministrationConfig;
pub use checkpoints::{CheckpointConfig, CheckpointMode};
pub use execution::{ExecutionConfig, ExecutorCount, ExecutorKind};
pub use lanes::{Auto, Cores, Pillars, PlacementConfig, WorkerCount};
pub use members::MemberConfig;
use network::NetworkConfig;
pub use opaque::ServiceConfig;
pub use oracle::{NEEDS_AN_ORACLE, NEEDS_THE_RULE, OracleConfig};
pub use reads::ReadsConfig;
use sessions::SessionsConfig;
pub(crate) use signing::NewKeys;
pub use signing::{SigningConfig, SigningKey};
pub use telemetry::TelemetryConfig;
pub use upgrade::UpgradeConfig;

/// The version of execution. Raise it if this program executes the same commands with another result; then it can not run together with
/// earlier versions. Other changes of execution begin with a feature level instead.
const EXECUTION: u32 = 1;
/// The most instances, and the most lanes; more would be of no use.
const INSTANCES_MAX: u16 = 64;
const LANES_MAX: u16 = quorate_wire::LINKS_MAX;
/// The most workers.
const WORKERS_MAX: u16 = 64;
/// The most slots that an instance may run ahead of the global log.
const WINDOW: u64 = 256;
/// The most bytes that an instance may hold decided and not yet in the global log.
const HELD_BYTES_MAX: usize = 64 << 20;

/// What is wrong in a configuration, and where.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file can not be read.
    #[error(
        "can not read the configuration {path}: {why}. Name an existing file with --config, or make one with `quorate init`"
    )]
    Read {
        /// The file.
        path: PathBuf,
        /// The error of the system.
        why: std::io::Error,
    },
    /// The file is no TOML, or has an unknown key or a value that does not fit.
    #[error("the configuration {path} is not usable: {why}\nEvery key is explained in docs/configuration.md")]
    Parse {
        /// The file.
        path: PathBuf,
        /// Line, key and reason.
        why: Box<toml::de::Error>,
    },
    /// Values that can not work.
    #[error("the configuration is not usable: {0}")]
    Invalid(String),
}

/// The longest time of a timer.
const HOUR_MS: u64 = 3_600_000;
/// The longest delay; with more, a delayed heartbeat could not be told from a disk that hangs.
const SYNC_DELAY_US_MAX: u64 = 1_000_000;
const TEN_YEARS_S: u64 = 10 * 365 * 24 * 3600;

/// Refuses a value outside of the range; `end` is the text of its upper end.
fn range<T: PartialOrd + Display>(
    key: &str,
    value: T,
    allowed: RangeInclusive<T>,
    end: &str,
) -> Result<(), ConfigError> {
    if allowed.contains(&value) {
        return Ok(());
    }
    invalid(format!("{key} is {} to {end}, not {value}", allowed.start()))
}

fn has_port(address: &str) -> bool {
    address.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
}

fn invalid<T>(why: impl Into<String>) -> Result<T, ConfigError> {
    Err(ConfigError::Invalid(why.into()))
}

/// When a write counts as durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Durability {
    /// When a majority has synced it to disk; one sync serves all waiting writes.
    #[default]
    Group,
    /// When a majority has written it; synced a little later. A machine that stops may lose it.
    Async,
    /// When a majority has it in memory. A process that stops loses it and may not come back.
    Memory,
}

impl Durability {
    /// Its name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::Group => "group",
            Self::Async => "async",
            Self::Memory => "memory",
        }
    }
}

/// `[durability]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DurabilityConfig {
    /// When a write counts as durable.
    pub mode: Durability,
    /// The size of the log's files, in MiB. Can not change once the log exists.
    pub segment_mib: u64,
    /// How many microseconds longer every sync takes: for benchmarks on disks that are too fast.
    pub sync_delay_us: u64,
}

impl Default for DurabilityConfig {
    fn default() -> Self {
        Self { mode: Durability::Group, segment_mib: 32, sync_delay_us: 0 }
    }
}

impl DurabilityConfig {
    /// By how much every sync is delayed.
    pub fn sync_delay(&self) -> Duration {
        Duration::from_micros(self.sync_delay_us)
    }
}

/// As it is printed beside figures: `group`, or `group, +1 ms per sync`.
impl Display for DurabilityConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.mode.name())?;
        match self.sync_delay_us {
            0 => Ok(()),
            us => write!(f, ", +{} ms per sync", us as f64 / 1000.0),
        }
    }
}

/// `[timing]`, in milliseconds
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct TimingConfig {
    /// How often an idle leader sends a heartbeat.
    pub heartbeat_ms: u64,
    /// A follower that hears no leader for a random time, at least this long, asks for an election.
    pub election_min_ms: u64,
    /// The longest such random time.
    pub election_max_ms: u64,
    /// A leader whose disk finishes no write for this time hands leadership over.
    pub disk_stall_ms: u64,
    /// A new connection that has not completed its handshake after this time is closed.
    pub handshake_ms: u64,
    /// A client that reads nothing for this time while bytes wait for it is disconnected.
    pub slow_reader_ms: u64,
}

impl Default for TimingConfig {
    fn default() -> Self {
        Self {
            heartbeat_ms: 50,
            election_min_ms: 300,
            election_max_ms: 600,
            disk_stall_ms: 1000,
            handshake_ms: 5000,
            slow_reader_ms: 30_000,
        }
    }
}

/// `[limits]`
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LimitsConfig {
    /// The largest request, in bytes.
    pub request_bytes: usize,
    /// A batch of this size is proposed however many are in flight.
    pub batch_bytes: usize,
    /// Small batches in flight at once.
    pub batches_in_flight: usize,
    /// Bytes of batches in flight at once.
    pub bytes_in_flight: usize,
    /// Bytes of admitted requests that are not decided; beyond it clients get `Overloaded`.
    pub queue_bytes: usize,
    /// Bytes of the log kept in memory for replicas that lag.
    pub cache_bytes: usize,
    /// Clients connected at once.
    pub connections: usize,
    /// Connections of one client at once; half of all when left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connections_per_client: Option<usize>,
    /// Connections at once without a complete handshake.
    pub handshakes: usize,
    /// While more bytes than this wait for a client, nothing is read from it; with 16 times as many it is disconnected.
    pub unsent_bytes: usize,
    /// Bytes that the connections of all clients may hold, to be sent or half received; beyond it the connections that hold most are
    /// closed.
    pub buffer_bytes: usize,
}

impl Default for LimitsConfig {
    fn default() -> Self {
        Self {
            request_bytes: 4 << 20,
            batch_bytes: 256 << 10,
            batches_in_flight: 2,
            bytes_in_flight: 4 << 20,
            queue_bytes: 64 << 20,
            cache_bytes: 16 << 20,
            connections: 10_000,
            connections_per_client: None,
            handshakes: 1000,
            unsent_bytes: 4 << 20,
            buffer_bytes: 256 << 20,
        }
    }
}

impl LimitsConfig {
    /// The limits of a lane's clients.
    pub(crate) fn lane(&self, timing: &TimingConfig) -> LaneLimits {
        LaneLimits {
            unsent_bytes: self.unsent_bytes,
            buffer_bytes: self.buffer_bytes,
            slow_reader: Span::from_millis(timing.slow_reader_ms),
        }
    }

    /// The seats for connections.
    fn seats(&self) -> SeatLimits {
        SeatLimits {
            clients_max: self.connections,
            // A single client may not take all seats.
            per_client_max: self.connections_per_client.unwrap_or((self.connections / 2).max(1)),
            strangers_max: self.handshakes,
        }
    }
}

/// The configuration of one replica.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The cluster's id, 32 hexadecimal digits.
    pub cluster: String,
    /// The id of this replica among the members.
    pub replica: u16,
    /// The address to listen on, `host:port`; by default the member's address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub listen: Option<String>,
    /// The address of the health endpoint, `host:port`; none by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health: Option<String>,
    /// The data directory; relative to this file.
    pub data: PathBuf,
    /// Which faults the cluster survives.
    #[serde(default)]
    pub fault_model: FaultModel,
    /// How many faults the cluster survives, if fewer than its members allow: then its quorums are smaller.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub faults: Option<u32>,
    /// The replicas whose votes count more, where there are more members than `faults` needs; empty: all votes count alike.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub heavy: Vec<u16>,
    /// How replicas agree.
    #[serde(default)]
    pub protocol: Protocol,
    /// After this number of slots of an instance the next replica leads it; 0: a leader stays as long as it does well.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub rotate_after: u64,
    /// The number of ordering instances that the cluster was made with.
    #[serde(default = "one")]
    pub instances: u16,
    /// How many threads share the work of this replica's connections; with more than one, connections of instances are on lanes of their
    /// own.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub lanes: u16,
    /// How many cores this replica may use, in place of `lanes`, which follows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<Cores>,
    /// Where agreement of the instances is done.
    #[serde(default, skip_serializing_if = "Pillars::is_default")]
    pub pillars: Pillars,
    /// How the work of this replica is divided among its lanes.
    #[serde(default, skip_serializing_if = "PlacementConfig::is_default")]
    pub placement: PlacementConfig,
    /// How many threads do work that need not be a lane's.
    #[serde(default, skip_serializing_if = "WorkerCount::is_default")]
    pub workers: WorkerCount,
    /// All replicas of the cluster, this one among them.
    pub members: Vec<MemberConfig>,
    /// The number of the membership in `members`: the first, unless this replica joined later.
    #[serde(default = "first", skip_serializing_if = "is_first")]
    pub membership: u64,
    /// The feature level that the cluster was made with; the log has the present one.
    #[serde(default = "first_level")]
    pub level: u32,
    /// The level of the service that the cluster was made with: the version of the program that was its first. The log has the present one.
    #[serde(default = "opaque::first_version", skip_serializing_if = "opaque::is_first_version")]
    pub service_level: u32,
    /// The number of replicas that the cluster was made with; only if this replica joined later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub created: Option<u16>,
    /// Connections are neither encrypted nor authenticated. Only for networks where anyone may do everything.
    #[serde(default, skip_serializing_if = "is_false")]
    pub plain: bool,
    /// The service that the replicas run.
    #[serde(default, skip_serializing_if = "ServiceConfig::is_default")]
    pub service: ServiceConfig,
    /// `[front.NAME]`: the settings of this replica's fronts, which serve clients of other protocols.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub front: BTreeMap<String, toml::Table>,
    /// Durability.
    #[serde(default)]
    pub durability: DurabilityConfig,
    /// Times.
    #[serde(default)]
    pub timing: TimingConfig,
    /// How commands are executed.
    #[serde(default, skip_serializing_if = "ExecutionConfig::is_default")]
    pub execution: ExecutionConfig,
    /// Strong reads.
    #[serde(default, skip_serializing_if = "ReadsConfig::is_default")]
    pub reads: ReadsConfig,
    /// Sizes.
    #[serde(default)]
    pub limits: LimitsConfig,
    /// Sessions.
    #[serde(default)]
    pub sessions: SessionsConfig,
    /// Sockets.
    #[serde(default)]
    pub network: NetworkConfig,
    /// The state on disk.
    #[serde(default)]
    pub checkpoints: CheckpointConfig,
    /// What is slow, and traces.
    #[serde(default, skip_serializing_if = "is_default")]
    pub telemetry: TelemetryConfig,
    /// Upgrades.
    #[serde(default, skip_serializing_if = "is_default")]
    pub upgrade: UpgradeConfig,
    /// Certificates; relative to this file.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<TlsFiles>,
    /// The key that this replica signs with; relative to this file. Only with the fault model `byzantine`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signing: Option<SigningConfig>,
    /// Whose signatures change the members and the feature level. Only where replicas may lie.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub administration: Option<AdministrationConfig>,
    /// The oracle of a cluster in which few members are slow. Only with the fault model `visigoth` and s below u.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oracle: Option<OracleConfig>,
    /// Which clients may use which keys; without it all clients may use all keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<AccessConfig>,
}

fn is_false(value: &bool) -> bool {
    !value
}

fn first() -> u64 {
    1
}

/// The level of the first release. It stays the default for ever: replicas must agree on it, whichever programs they run.
fn first_level() -> u32 {
    2
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

fn is_first(number: &u64) -> bool {
    *number == 1
}

fn one() -> u16 {
    1
}

fn is_zero(number: &u64) -> bool {
    *number == 0
}

fn is_one(number: &u16) -> bool {
    *number == 1
}

impl Config {
    /// A configuration with defaults only.
    pub fn new(cluster: ClusterId, replica: u16, data: PathBuf, members: Vec<MemberConfig>) -> Self {
        Self {
            cluster: cluster.to_string(),
            replica,
            listen: None,
            health: None,
            data,
            fault_model: FaultModel::default(),
            faults: None,
            heavy: Vec::new(),
            protocol: Protocol::default(),
            rotate_after: 0,
            instances: one(),
            lanes: one(),
            cores: None,
            pillars: Pillars::default(),
            placement: PlacementConfig::default(),
            workers: WorkerCount::default(),
            members,
            membership: first(),
            level: first_level(),
            service_level: opaque::first_version(),
            created: None,
            plain: false,
            service: ServiceConfig::default(),
            front: BTreeMap::new(),
            durability: DurabilityConfig::default(),
            timing: TimingConfig::default(),
            execution: ExecutionConfig::default(),
            reads: ReadsConfig::default(),
            limits: LimitsConfig::default(),
            sessions: SessionsConfig::default(),
            network: NetworkConfig::default(),
            checkpoints: CheckpointConfig::default(),
            telemetry: TelemetryConfig::default(),
            upgrade: UpgradeConfig::default(),
            tls: None,
            signing: None,
            administration: None,
            oracle: None,
            access: None,
        }
    }

    /// Reads a configuration file; relative paths begin in its directory.
    ///
    /// # Errors
    /// Names the line or key that is wrong, and what would be right.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let text =
            std::fs::read_to_string(path).map_err(|why| ConfigError::Read { path: path.to_owned(), why })?;
        let mut config: Self = toml::from_str(&text)
            .map_err(|why| ConfigError::Parse { path: path.to_owned(), why: Box::new(why) })?;
        if config.data.is_relative() && !config.data.as_os_str().is_empty() {
            config.data = path.parent().unwrap_or(Path::new("")).join(&config.data);
        }
        let place = path.parent().unwrap_or(Path::new(""));
        config.tls = config.tls.map(|files| files.relative_to(place));
        if let Some(signing) = &mut config.signing {
            signing.key = place.join(&signing.key);
        }
        config.oracle = config.oracle.map(|oracle| oracle.relative_to(place));
        config.check()?;
        Ok(config)
    }

    /// The text of the file.
    ///
    /// # Panics
    /// Never: every value can be written as TOML.
    pub fn to_toml(&self) -> String {
        toml::to_string_pretty(self).expect("a configuration can be written as TOML")
    }

    /// Checks what the types can not express.
    ///
    /// # Errors
    /// Names the key that is wrong, and what would be right.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.cluster_id()?;
        if self.data.as_os_str().is_empty() {
            return invalid("data: name a directory, it must not be empty");
        }
        self.check_members()?;
        self.check_protocol()?;
        self.check_signing()?;
        self.administrators()?;
        self.check_oracle_section()?;
        self.check_lanes()?;
        if self.health.as_deref().is_some_and(|address| !has_port(address)) {
            return invalid("health: an address is host:port, as in \"127.0.0.1:8080\"");
        }
        self.check_timing()?;
        self.reads.check(&self.timing)?;
        self.execution.check(self.fault_model.may_lie())?;
        self.check_limits()?;
        let sessions = &self.sessions;
        range("sessions: max", sessions.max, 1..=100_000, "100000")?;
        range("sessions: per_client", sessions.per_client, 1..=u32::MAX, "4294967295")?;
        range("sessions: ttl_s", sessions.ttl_s, 1..=TEN_YEARS_S, "315360000, which is ten years")?;
        range("sessions: window", sessions.window, 1..=65_536, "65536")?;
        range("level", self.level, 1..=u32::MAX, "4294967295")?;
        self.upgrade.check()?;
        self.telemetry.check()?;
        self.check_durability()?;
        self.check_tls()?;
        self.checkpoints.check(self.log_config().segment_bytes)
    }

    fn check_tls(&self) -> Result<(), ConfigError> {
        match (&self.tls, self.plain) {
            (Some(_), true) => invalid(
                "plain: with `plain = true` the certificates in `[tls]` are not used: remove one of the two",
            ),
            (None, false) => invalid(
                "tls: this replica has no certificates, so nobody could tell who connects: name them in the section `[tls]` \
                 (`quorate init` makes them for a new cluster, `quorate cert issue` for an old one; see \
                 docs/operations/certificates.md). Where everybody on the network may do everything, write `plain = true`",
            ),
            _ => self.access.as_ref().map_or(Ok(()), |access| access.check(self.plain)),
        }
    }

    /// Checks that the certificate is this replica's.
    ///
    /// # Errors
    /// Says whose it is.
    pub fn check_identity(&self, credentials: &Credentials) -> Result<(), ConfigError> {
        let own = quorate_types::Identity {
            cluster: self.cluster_id()?,
            holder: Holder::Replica(ReplicaId::new(self.replica)),
        };
        if *credentials.identity() == own {
            return Ok(());
        }
        invalid(format!(
            "tls: the certificate is for {}, and this is {own}: put the right files there, or make them with `quorate cert issue`",
            credentials.identity()
        ))
    }

    fn check_durability(&self) -> Result<(), ConfigError> {
        let DurabilityConfig { mode, segment_mib, sync_delay_us } = self.durability;
        if !(20..=1024).contains(&segment_mib) {
            return invalid("durability: segment_mib is 20 to 1024");
        }
        range(
            "durability: sync_delay_us",
            sync_delay_us,
            0..=SYNC_DELAY_US_MAX,
            "1000000, which is a second",
        )?;
        if mode == Durability::Memory && sync_delay_us > 0 {
            return invalid(
                "durability: sync_delay_us does nothing with mode \"memory\", which never syncs: leave it out",
            );
        }
        self.log_config().check().or_else(|why| invalid(format!("durability: {why}")))
    }

    fn check_timing(&self) -> Result<(), ConfigError> {
        let TimingConfig { heartbeat_ms, election_min_ms, election_max_ms, disk_stall_ms, .. } = self.timing;
        let all = [
            ("timing: heartbeat_ms", heartbeat_ms),
            ("timing: election_min_ms", election_min_ms),
            ("timing: election_max_ms", election_max_ms),
            ("timing: disk_stall_ms", disk_stall_ms),
            ("timing: handshake_ms", self.timing.handshake_ms),
            ("timing: slow_reader_ms", self.timing.slow_reader_ms),
        ];
        for (key, value) in all {
            range(key, value, 1..=HOUR_MS, "3600000, which is an hour")?;
        }
        if election_min_ms < heartbeat_ms * 3 || election_max_ms <= election_min_ms {
            return invalid(
                "timing: election_min_ms is at least three times heartbeat_ms, election_max_ms is more than election_min_ms",
            );
        }
        Ok(())
    }

    fn check_limits(&self) -> Result<(), ConfigError> {
        const MEMORY: u64 = 64 << 30;
        let limits = &self.limits;
        range("limits: request_bytes", limits.request_bytes as u64, 1 << 10..=4 << 20, "4194304 (4 MiB)")?;
        range("limits: batch_bytes", limits.batch_bytes as u64, 1 << 10..=2 << 20, "2097152 (2 MiB)")?;
        if limits.batches_in_flight == 0 {
            return invalid("limits: batches_in_flight is at least 1");
        }
        if limits.bytes_in_flight < 64 << 10 {
            return invalid("limits: bytes_in_flight is at least 65536 (64 KiB)");
        }
        if limits.queue_bytes < limits.batch_bytes {
            return invalid("limits: queue_bytes is at least batch_bytes");
        }
        range("limits: queue_bytes", limits.queue_bytes as u64, 0..=MEMORY, "68719476736 (64 GiB)")?;
        range("limits: cache_bytes", limits.cache_bytes as u64, 0..=MEMORY, "68719476736 (64 GiB)")?;
        if limits.connections == 0 {
            return invalid("limits: connections is at least 1");
        }
        if limits.connections_per_client == Some(0) {
            return invalid("limits: connections_per_client is at least 1");
        }
        range("limits: handshakes", limits.handshakes, 16..=1_000_000, "1000000")?;
        range("limits: unsent_bytes", limits.unsent_bytes as u64, 64 << 10..=1 << 30, "1073741824 (1 GiB)")?;
        if limits.buffer_bytes < 16 << 20 || limits.buffer_bytes < limits.unsent_bytes * UNSENT_TIMES {
            return invalid("limits: buffer_bytes is at least 16777216 (16 MiB) and 16 times unsent_bytes");
        }
        range("limits: buffer_bytes", limits.buffer_bytes as u64, 0..=MEMORY, "68719476736 (64 GiB)")
    }

    /// The cluster's id.
    ///
    /// # Errors
    /// When the text is no id.
    pub fn cluster_id(&self) -> Result<ClusterId, ConfigError> {
        ClusterId::parse(&self.cluster)
            .ok_or_else(|| ConfigError::Invalid("cluster: an id has 32 hexadecimal digits".into()))
    }

    /// This replica's entry among the members; `None` if it is missing.
    pub fn me(&self) -> Option<&MemberConfig> {
        self.members.iter().find(|member| member.replica == self.replica)
    }

    /// The address to listen on.
    pub fn listen_address(&self) -> &str {
        self.listen.as_deref().or(self.me().map(|me| me.address.as_str())).unwrap_or_default()
    }

    pub(crate) fn log_config(&self) -> LogConfig {
        let sync = match self.durability.mode {
            Durability::Group => SyncMode::Group,
            Durability::Async => SyncMode::Async,
            Durability::Memory => SyncMode::Memory,
        };
        LogConfig {
            segment_bytes: self.durability.segment_mib.saturating_mul(1 << 20),
            sync,
            ..LogConfig::default()
        }
    }

    pub(crate) fn congestion(&self) -> Option<&str> {
        Some(self.network.congestion.as_str()).filter(|name| !name.is_empty())
    }

    /// A digest of the settings that must be the same on all replicas: what execution depends on, what checkpoints hold, and what leaders
    /// count on.
    pub(crate) fn parameters(&self, start_time_ns: u64) -> u64 {
        let (execution, reads) = (self.executed_with(start_time_ns), self.reads.agreed(&self.timing));
        fnv(&format!("{execution} {}{reads}", self.checkpoints.agreed()))
    }

    /// A digest of what replaying the log depends on, which can not change once there is a log. The distance of borders is part of it: each
    /// border is counted from the last one, so after a change two replicas would never again have one in common.
    pub(crate) fn execution(&self, start_time_ns: u64) -> u64 {
        fnv(&self.executed_with(start_time_ns))
    }

    fn executed_with(&self, start_time_ns: u64) -> String {
        let SessionsConfig { max, per_client, ttl_s, window, require_signed: _ } = self.sessions;
        let limits = SessionLimits::default();
        let (level, instances) = (self.level, self.instances);
        let (protocol, verified) = (self.agreed_protocol(), self.execution.agreed());
        let served = opaque::level_text(self.service_level);
        format!(
            "{EXECUTION} {} {start_time_ns} {max} {per_client} {ttl_s} {window} {} {} {} {} {} {} {} level {level} instances {instances} window {WINDOW}{protocol}{verified}{served} borders {}",
            self.service.agreed(),
            limits.reply_bytes_max,
            limits.reply_bytes_per_request_max,
            limits.reply_bytes_per_batch_max,
            limits.reply_bytes_total_max,
            self.checkpoints.interval_bytes,
            self.checkpoints.interval_state_percent,
            self.checkpoints.interval_bytes_max,
            self.checkpoints.interval_s,
        )
    }

    /// The configuration for the node, with the identity from the data directory; `seed` is drawn at each start. `written`: the configuration
    /// before an era changed it, which all replicas have in common whatever era they are in.
    pub(crate) fn node_config(
        &self,
        identity: &Identity,
        written: &Self,
        seed: u64,
    ) -> Result<NodeConfig, ConfigError> {
        let me = ReplicaId::new(self.replica);
        let members = self.members.iter().map(|member| KnownMember {
            replica: ReplicaId::new(member.replica),
            address: member.address.clone(),
            incarnation: Incarnation::parse(&member.incarnation).unwrap_or_default(),
        });
        let members = Members::new(self.cluster_id()?, me, members.collect())
            .with_parameters(written.parameters(identity.start_time_ns));
        let (members, joins) = match self.created.filter(|_| self.membership > 1) {
            Some(created) => (members.joined(MembershipId::new(self.membership), usize::from(created)), true),
            None => (members, false),
        };
        // A joining replica is none of the first members: the log says which replicas take part.
        let ids = members.all().iter().map(|member| member.replica);
        let ids = ids.filter(|id| !joins || *id != me).collect();
        let log = self.log_config();
        let order = self.order_config(me, ids, log.sync, seed)?;
        Ok(NodeConfig {
            members,
            incarnation: identity.incarnation,
            log_id: identity.log_id,
            log,
            order,
            signed_only: self.sessions.require_signed,
            administrators: self.administrators()?.filter(|_| self.fault_model.may_lie()),
            checks_away: checks_away(self.worker_count()),
            served_by_replicas: self.served_by_replicas(),
            instances: self.instances,
            links: self.link_count(),
            // Pillars get lanes when the lanes are there.
            placement: quorate_node::Placement::default(),
            merge: quorate_node::MergeConfig { window: WINDOW, held_bytes_max: HELD_BYTES_MAX },
            admission: AdmissionLimits {
                request_bytes_max: self.limits.request_bytes,
                batch_bytes: self.limits.batch_bytes,
                queue_bytes_max: self.limits.queue_bytes,
                cells_max: self.sessions.max as usize,
            },
            sessions: self.sessions.limits(),
            extra_protection: self.execution.extra_protection,
            reads: ReadLimits::default(),
            start_time: AgreedTime::from_nanos(identity.start_time_ns),
            batches_in_flight_max: self.limits.batches_in_flight,
            bytes_in_flight_max: self.limits.bytes_in_flight,
            // The largest object, as a chunk of its own, with its key.
            frame_bytes_max: 17 << 20,
            handshake_time: Span::from_millis(self.timing.handshake_ms),
            seats: self.limits.seats(),
            borders: self.checkpoints.borders(),
            log_bytes_max: self.checkpoints.log_bytes_max,
            evidence: crate::evidence::read(&self.data),
            chain: crate::chain_files::read(&self.data),
            disk_stall: Span::from_millis(self.timing.disk_stall_ms),
            scrub_every: self.checkpoints.scrub_every(),
            sync_delay: Span::from_nanos(self.durability.sync_delay_us * 1000),
            fetch: FetchLimits::default(),
            serve: self.checkpoints.serve(),
            level: self.upgrade.levels(self.level),
            service: self.service.made_with(self.service_level)?,
            era: quorate_node::EraConfig::only("this host has one era"),
            seed,
        })
    }
}

/// The FNV-1a hash, which is the same on every machine.
fn fnv(text: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}
