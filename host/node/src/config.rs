//! The configuration of a node at its start.

use crate::eras::EraConfig;
use crate::gate::{Found, SeatLimits};
use crate::keeping::BorderConfig;
use crate::lanes::Placement;
use crate::reconfigure::LevelConfig;
use quorate_admit::{AdmissionLimits, ChecksAway, Members, ServedByReplicas};
use quorate_auth::MembershipLink;
use quorate_execute::SessionLimits;
use quorate_log::LogConfig;
use quorate_order::OrderConfig;
use quorate_state::transfer::{FetchLimits, ServeLimits};
use quorate_types::{AgreedTime, Halt, Incarnation, ServiceName, ServiceVersion, Span};
use quorate_wire::{Administrators, Era};

/// The configuration of one replica.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// The cluster, this replica, and the others.
    pub members: Members,
    /// The life of this replica's data directory.
    pub incarnation: Incarnation,
    /// Distinguishes the blocks of this log from those of any other.
    pub log_id: u64,
    /// The log's sizes and durability.
    pub log: LogConfig,
    /// Where replicas may lie: requests must be signed, and sessions without a key are refused.
    pub signed_only: bool,
    /// Where replicas may lie: how many signatures under requests the host checks.
    pub checks_away: ChecksAway,
    /// Where replicas may lie: whose commands change the members and the feature level, until a command names others.
    pub administrators: Option<Administrators>,
    /// The clients for which other replicas may act, because they serve them by another protocol.
    pub served_by_replicas: ServedByReplicas,
    /// How many instances order batches, side by side.
    pub instances: u16,
    /// How many connections this replica makes to each member. If there are several, the first one is for what concerns the whole
    /// replica, and the others for the instances.
    pub links: u16,
    /// Which parts have lanes of their own.
    pub placement: Placement,
    /// How the logs of the instances become one.
    pub merge: quorate_merge::Config,
    /// How the replicas agree: the protocol, its times and limits.
    pub order: OrderConfig,
    /// Limits of admission.
    pub admission: AdmissionLimits,
    /// How many sessions there may be, and for how long.
    pub sessions: SessionLimits,
    /// Where results are verified and members do not lie: after so many rulings in a row about which all executors agreed in time, all have
    /// to. Never if 0.
    pub extra_protection: u32,
    /// Limits of waiting reads.
    pub reads: quorate_reply::ReadLimits,
    /// The cluster's time at its start, as `init` read it.
    pub start_time: AgreedTime,
    /// The most small batches in flight at once. Large batches are limited in bytes only.
    pub batches_in_flight_max: usize,
    /// The most bytes of batches in flight at once.
    pub bytes_in_flight_max: usize,
    /// The largest frame that members and clients may send.
    pub frame_bytes_max: u32,
    /// After this time a connection is closed if the other end has not introduced itself.
    pub handshake_time: Span,
    /// How many connections there may be at once.
    pub seats: SeatLimits,
    /// When the state becomes a checkpoint, and how.
    pub borders: BorderConfig,
    /// The most bytes of log to keep since the last agreed checkpoint, even if this replica has newer ones of its own.
    pub log_bytes_max: u64,
    /// The delay that a measurement adds to each sync. Here it is only shown.
    pub sync_delay: Span,
    /// How often everything at rest is read and checked; never if there is none.
    pub scrub_every: Option<Span>,
    /// How long a leader's disk may finish nothing before the leader hands over.
    pub disk_stall: Span,
    /// Evidence against members that earlier lives found and kept. What does not prove anything is left out.
    pub evidence: Vec<Found>,
    /// The membership links that earlier lives kept.
    pub chain: Vec<MembershipLink>,
    /// Limits of a transfer at this replica when it fetches.
    pub fetch: FetchLimits,
    /// Limits of a transfer when it sends.
    pub serve: ServeLimits,
    /// Feature levels.
    pub level: LevelConfig,
    /// The service.
    pub service: ServiceConfig,
    /// The era.
    pub era: EraConfig,
    /// The seed of all randomness of this node.
    pub seed: u64,
}

impl NodeConfig {
    /// Sets the era that this replica is in. What is signed there counts in no other one, and its log is no other one's.
    pub fn begin_era(&mut self, era: EraConfig) {
        self.order.cluster = Era::signed_as(self.members.cluster(), era.number);
        self.log_id ^= (era.number - 1) << 32;
        self.era = era;
    }
}

/// The service that the cluster runs, as this replica knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServiceConfig {
    /// What the cluster calls it; [`ServiceName::NONE`]: nothing.
    pub name: ServiceName,
    /// Its level: at first the one with which the cluster was made, then the executed one.
    pub level: u32,
    /// The highest version of this program. The service itself says it, when the node is made.
    pub version: u32,
}

impl ServiceConfig {
    /// A cluster that was made with this service, at this level.
    pub const fn made_with(name: ServiceName, level: u32) -> Self {
        Self { name, level, version: 1 }
    }

    /// What handshakes say.
    pub(crate) const fn says(&self) -> ServiceVersion {
        ServiceVersion { name: self.name, version: self.version }
    }

    /// Whether this program has the version that a level means.
    ///
    /// # Errors
    /// When it does not.
    pub(crate) fn check(&self, level: u32) -> Result<(), Halt> {
        if level <= self.version { Ok(()) } else { Err(Halt::ServiceLevel { level, program: self.says() }) }
    }

    /// Whether a state is one of this service.
    ///
    /// # Errors
    /// When it is that of another one.
    pub(crate) fn check_name(&self, state: &ServiceName) -> Result<(), Halt> {
        if !state.differs(&self.name) {
            return Ok(());
        }
        Err(Halt::OtherService { state: state.to_string(), here: self.name.to_string() })
    }
}

impl Default for ServiceConfig {
    fn default() -> Self {
        Self::made_with(ServiceName::NONE, 1)
    }
}

/// The largest frame before the handshake. A hello is far smaller.
pub(crate) const HELLO_BYTES_MAX: u32 = 1024;

/// The most bytes of replies that are put into one frame. A single reply can be larger.
pub(crate) const REPLY_FRAME_BYTES: usize = 256 << 10;
