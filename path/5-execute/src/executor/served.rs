//! The level of the service: by which version of itself it executes, agreed in the log.
//!
//! An ordered command raises the level, once the programs of all replicas have the version. It rises at one seq on all replicas, when they
//! execute that seq: the service makes its state that of the newer version there. If it can not, or has no way to, state and level stay, on
//! all replicas alike. The level is a part of the state, and so of its digest.
//!
//! INV-LEVEL-2: the service executes each seq at the level that follows from the commands before, whatever its own program has. Tests:
//! `tests/all/served.rs`.

use super::Executor;
use crate::agreed::Moment;
use crate::checkpoint::{CheckpointError, read_exact, read_u32};
use crate::context::Context;
use crate::service::Service;
use quorate_types::{Seq, planted};
use quorate_wire::Batch;

/// Stands before the level in the executor's part of an image; there is no level without it, so images of before have level 1.
const MAGIC: [u8; 8] = *b"quoserv\x01";

/// How a raise of the level of the service ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceRaise {
    /// The seq behind which it was executed.
    pub seq: Seq,
    /// The level that was to be.
    pub level: u32,
    /// Why the level and the state stayed as they were, if they did.
    pub failed: Option<String>,
}

/// The level of the service, and how the last raise ended.
#[derive(Clone, Debug, Default)]
pub(super) struct Served {
    /// One less than the level.
    raised: u32,
    /// The last raise here; no part of the state.
    last: Option<ServiceRaise>,
}

impl Served {
    fn at(level: u32) -> Self {
        Self { raised: level.saturating_sub(1), last: None }
    }

    pub(super) const fn level(&self) -> u32 {
        self.raised + 1
    }

    /// `magic (8) | level u32`, or nothing at the first level.
    pub(super) fn write_to(&self, out: &mut Vec<u8>) {
        if self.raised > 0 {
            out.extend_from_slice(&MAGIC);
            out.extend_from_slice(&self.level().to_le_bytes());
        }
    }

    pub(super) fn read(bytes: &mut &[u8]) -> Result<Self, CheckpointError> {
        if !bytes.starts_with(&MAGIC) {
            return Ok(Self::default());
        }
        read_exact(bytes, &mut [0; MAGIC.len()])?;
        match read_u32(bytes)? {
            0 | 1 => Err(CheckpointError::Malformed("the level of the service")),
            level => Ok(Self::at(level)),
        }
    }

    /// Whether this program has the version.
    pub(super) fn check(&self, service: &dyn Service) -> Result<(), CheckpointError> {
        let (level, version) = (self.level(), service.version());
        if level > version { Err(CheckpointError::ServiceTooOld { level, version }) } else { Ok(()) }
    }
}

impl Executor {
    /// The level of the service.
    pub fn service_level(&self) -> u32 {
        self.served.level()
    }

    /// The highest version that this program has of the service.
    pub fn service_version(&self) -> u32 {
        self.service.version()
    }

    /// The cluster was made with this level of the service. Without a call that is the first one.
    pub fn begin_service_at(&mut self, level: u32) {
        self.served = Served::at(level);
    }

    /// How the last raise here ended, since this replica began or took over a state.
    pub fn service_raise(&self) -> Option<&ServiceRaise> {
        self.served.last.as_ref()
    }

    /// Whether the level can be raised: commands of other services, and results from elsewhere, would have begun at another level.
    pub fn can_raise_service(&self) -> bool {
        self.nested.is_none() && self.chain.is_none()
    }

    /// An ordered command raises the level to this one, behind the batch that was executed last.
    pub(crate) fn raise_service(&mut self, level: u32) {
        let from = self.served.level();
        if level <= from {
            return;
        }
        let failed = self.service.migrate(from, &self.ctx().with_service_level(level)).err();
        if failed.is_none() || planted("level-without-migration") {
            self.served.raised = level - 1;
        }
        self.served.last = Some(ServiceRaise { seq: self.seq, level, failed });
        self.deadline = self.service.next_deadline();
    }

    /// The context of what happens behind the batch that was executed last, and of reads.
    pub(super) fn ctx(&self) -> Context {
        let ctx = Context::at(self.seq, self.time).with_level(self.level);
        ctx.with_service_level(self.served.level())
    }

    /// The context of the requests of a batch.
    pub(crate) fn ctx_of(&self, seq: Seq, moment: &Moment, batch: &Batch) -> Context {
        let own = planted("service-level-by-own-program");
        let level = if own { self.service.version() } else { self.served.level() };
        Context::of_batch(seq, moment, batch.header().seed).with_service_level(level)
    }
}
