//! What a service may know about the command that it runs, and the only randomness that it may use.
//!
//! Source: Bessani, Sousa, Alchieri, "State Machine Replication for the Masses with BFT-SMaRt", DSN 2014, section 4 (the context of a
//! message: client, consensus instance, latency of the consensus, a time and nonces that are equal everywhere). Here a service does not
//! learn the latency, which each replica measures for itself ([0059](../../../docs/decisions/0059-a-service-sees-what-is-agreed.md)).
//! Tests: `tests/all/contexts.rs`, `host/quorate/tests/all/executors.rs`.

use crate::agreed::Moment;
use quorate_types::{AgreedTime, ClientId, InstanceId, Random, Seq, SessionId, Slot};
use quorate_wire::FEATURE_LEVEL;

/// The client, the positions in the logs and the agreed time of a command. They are the same on every replica. A service that takes time or
/// randomness from anywhere else is not deterministic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Context {
    client: ClientId,
    session: SessionId,
    seq: Seq,
    slot: Slot,
    instance: InstanceId,
    time: AgreedTime,
    due: AgreedTime,
    seed: u64,
    request: u32,
    command: u32,
    level: u32,
    service_level: u32,
}

impl Context {
    /// A context with a position in the log and a time, without a session, at the newest feature level and the first level of the service.
    pub const fn at(seq: Seq, time: AgreedTime) -> Self {
        Self {
            client: ClientId::new(0),
            session: SessionId::NONE,
            seq,
            slot: Slot::ZERO,
            instance: InstanceId::new(0),
            time,
            due: time,
            seed: 0,
            request: 0,
            command: 0,
            level: FEATURE_LEVEL,
            service_level: 1,
        }
    }
    /// The context of a batch's requests.
    pub(crate) const fn of_batch(seq: Seq, moment: &Moment, seed: u64) -> Self {
        let Moment { time, due, level, instance, slot } = *moment;
        Self::at(seq, time).with_due(due).with_seed(seed).with_level(level).with_place(instance, slot)
    }
    /// This context for the batch that this slot of this instance decided.
    #[must_use]
    pub const fn with_place(self, instance: InstanceId, slot: Slot) -> Self {
        Self { instance, slot, ..self }
    }
    /// This context with another seed of the batch.
    #[must_use]
    pub const fn with_seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }
    /// This context at another time, at which deadlines up to that time are due.
    #[must_use]
    pub const fn with_time(self, time: AgreedTime) -> Self {
        Self { time, due: time, ..self }
    }
    /// This context where deadlines up to another time are due.
    #[must_use]
    pub const fn with_due(self, due: AgreedTime) -> Self {
        Self { due, ..self }
    }
    /// This context for a session of a client.
    #[must_use]
    pub const fn with_session(self, client: ClientId, session: SessionId) -> Self {
        Self { client, session, ..self }
    }
    /// This context for the request with this index in the batch.
    #[must_use]
    pub const fn with_request(self, request: u32) -> Self {
        Self { request, ..self }
    }
    /// This context for the command with this index in the request.
    #[must_use]
    pub const fn with_command(self, command: u32) -> Self {
        Self { command, ..self }
    }

    /// This context at another feature level.
    #[must_use]
    pub const fn with_level(self, level: u32) -> Self {
        Self { level, ..self }
    }

    /// This context at another level of the service.
    #[must_use]
    pub const fn with_service_level(self, service_level: u32) -> Self {
        Self { service_level, ..self }
    }

    /// The client that sent the command; 0 in queries and when a deadline is reached.
    pub const fn client(&self) -> ClientId {
        self.client
    }
    /// The session of the command; none in queries and when a deadline is reached.
    pub const fn session(&self) -> SessionId {
        self.session
    }
    /// The batch's position in the global log; in queries the last executed one.
    pub const fn seq(&self) -> Seq {
        self.seq
    }
    /// The instance that decided the batch, from 1; 0 in queries, and when the membership changed.
    pub const fn instance(&self) -> InstanceId {
        self.instance
    }
    /// The slot of that instance in which the batch was decided, from 1; 0 in queries, and when the membership changed. With one instance it
    /// is the number of the seq.
    pub const fn slot(&self) -> Slot {
        self.slot
    }
    /// The agreed time.
    pub const fn time(&self) -> AgreedTime {
        self.time
    }
    /// The agreed time up to which deadlines are due: the service was called for all that it named up to then. Where several leaders propose it is
    /// a second before [`Self::time`], otherwise the same; in queries, too. A clock that commands and deadlines both move follows this one.
    pub const fn due(&self) -> AgreedTime {
        self.due
    }
    /// The index of the request in the batch, from 0.
    pub const fn request_index(&self) -> u32 {
        self.request
    }
    /// The index of the command in the request, from 0.
    pub const fn command_index(&self) -> u32 {
        self.command
    }
    /// The feature level of the cluster. A service must make new behaviour depend on it, and not on its own version: replicas with older
    /// programs execute the same commands.
    pub const fn level(&self) -> u32 {
        self.level
    }
    /// The level of the service: the version by which all replicas execute here. A newer program behaves as that version did, until the
    /// level is raised; from the same seq on all replicas, after [`Service::migrate`](crate::Service::migrate).
    pub const fn service_level(&self) -> u32 {
        self.service_level
    }
    /// The seed of the batch.
    pub(crate) const fn batch_seed(&self) -> u64 {
        self.seed
    }
    /// A seed that is the same on every replica and differs from command to command.
    pub const fn seed(&self) -> u64 {
        let mut state = Random::new(self.seed).next();
        state = Random::new(state ^ self.seq.number()).next();
        Random::new(state ^ ((self.request as u64) << 32 | self.command as u64)).next()
    }
    /// A generator that starts from [`Self::seed`]: the same numbers on every replica. Not for secrets: the leader chose
    /// the seed, and clients may guess it.
    pub const fn random(&self) -> Random {
        Random::new(self.seed())
    }
}
