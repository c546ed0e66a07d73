//! The contents of a backup in short, as printed after it was made, verified or shown.

use quorate_auth::CheckpointProof;
use quorate_command::failure::{Failure, Outcome};
use quorate_command::print::size;
use quorate_execute::{Context, Executor, InStore, ObjectService, ReplySink, SessionLimits};
use quorate_node::System;
use quorate_state::checkpoint::{Digests, Manifest, SystemPart};
use quorate_state::store::{Store, Version};
use quorate_types::{AgreedTime, ClusterId, ReplicaId, Seq, ServiceName};
use serde_json::{Value, json};
use std::fmt::Write as _;

/// What a backup holds.
#[derive(Clone, Debug)]
pub(crate) struct BackupFacts {
    pub(crate) cluster: ClusterId,
    /// What its service is called, and the level of that.
    pub(super) service: ServiceName,
    service_level: u32,
    pub(super) members: Vec<ReplicaId>,
    pub(crate) seq: Seq,
    border: u64,
    pub(super) digests: Digests,
    pub(super) time: AgreedTime,
    pub(super) instances: u16,
    sessions: usize,
    pub(super) limits: SessionLimits,
    /// Number of objects; `None` when only the manifest was read.
    objects: Option<u64>,
    /// Bytes of the chunks of the objects.
    bytes: u64,
    chunks: usize,
    pub(super) file_bytes: u64,
    /// The signatures in it; whether they are right, `proof` says.
    pub(super) proof: Option<CheckpointProof>,
    /// Whether replicas of its cluster may lie, as far as the state shows.
    pub(super) may_be_of_liars: bool,
}

impl BackupFacts {
    /// Decodes the system part; `objects` are the objects if all of them were read.
    ///
    /// # Errors
    /// When the system part is not of this version.
    pub(super) fn of(
        manifest: &Manifest,
        system: &SystemPart,
        objects: Option<&Version>,
        file_bytes: u64,
    ) -> Outcome<Self> {
        let unusable =
            |why: String| Failure::new(format!("the system part of the backup can not be used: {why}"));
        let parts = System::decode(system).map_err(|why| unusable(why.to_owned()))?;
        let executor = restored(&parts.executor).map_err(unusable)?;
        if (parts.seq, executor.seq()) != (manifest.seq(), manifest.seq())
            || parts.border != manifest.border()
        {
            return Err(unusable("its parts are of different seqs".to_owned()));
        }
        Ok(Self {
            cluster: parts.cluster,
            service: parts.service,
            service_level: executor.service_level(),
            members: parts.members(),
            seq: manifest.seq(),
            border: manifest.border(),
            digests: manifest.digests(),
            time: executor.time(),
            instances: parts.instances.len() as u16,
            sessions: executor.session_count(),
            limits: executor.sessions().limits().clone(),
            objects: objects.map(Version::len),
            bytes: manifest.total_bytes() - manifest.system_bytes(),
            chunks: manifest.chunks().len(),
            file_bytes,
            proof: None,
            may_be_of_liars: parts.may_be_of_liars(),
        })
    }

    /// The same, with the signatures that stand beside it.
    pub(super) fn proved_by(self, proof: Option<CheckpointProof>) -> Self {
        Self { proof, ..self }
    }

    /// For people, a line each.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        let mut line = |name: &str, value: String| _ = writeln!(text, "  {name:<13} {value}");
        line("cluster", self.cluster.to_string());
        if !self.service.is_none() || self.service_level > 1 {
            line("service", format!("{:?} at version {}", self.service, self.service_level));
        }
        line("seq", format!("{}, border {}", self.seq.number(), self.border));
        line("digest", self.digests.image.to_string());
        line("state digest", self.digests.state.to_string());
        line("agreed time", utc(self.time));
        if let Some(proof) = &self.proof {
            let signers = super::names(&proof.signers());
            line("signed by", format!("{signers}, in membership {}", proof.membership.number()));
        }
        line("sessions", self.sessions.to_string());
        let chunks = match self.chunks {
            1 => format!("{} in 1 chunk", size(self.bytes)),
            count => format!("{} in {count} chunks", size(self.bytes)),
        };
        line("objects", self.objects.map_or_else(|| chunks.clone(), |count| format!("{count}, {chunks}")));
        line("file", size(self.file_bytes));
        text.trim_end().to_owned()
    }

    /// For programs.
    pub(super) fn json(&self) -> Value {
        let proof = self.proof.as_ref().map(|proof| {
            let signers = proof.signers().into_iter().map(ReplicaId::number);
            json!({ "membership": proof.membership.number(), "signed_by": signers.collect::<Vec<_>>() })
        });
        json!({
            "proof": proof,
            "cluster": self.cluster.to_string(),
            "service": self.service.as_str(),
            "service_level": self.service_level,
            "members": self.members.iter().map(|replica| replica.number()).collect::<Vec<_>>(),
            "seq": self.seq.number(),
            "border": self.border,
            "digest": self.digests.image.to_string(),
            "state_digest": self.digests.state.to_string(),
            "agreed_time_ns": self.time.nanos(),
            "sessions": self.sessions,
            "objects": self.objects,
            "objects_bytes": self.bytes,
            "chunks": self.chunks,
            "file_bytes": self.file_bytes,
        })
    }
}

/// A service of which nothing is known: its level is not looked at.
struct AnyService;

impl ObjectService for AnyService {
    fn version(&self) -> u32 {
        u32::MAX
    }
    fn execute(&mut self, _: &mut Store, _: &[u8], _: &Context, _: &mut ReplySink<'_>) {}
    fn query(&self, _: &Store, _: &[u8], _: &Context, _: &mut ReplySink<'_>) {}
}

/// Decodes the executor's part with an executor. Its service does not matter, since no objects are restored.
fn restored(system: &[u8]) -> Result<Executor, String> {
    let nothing = Box::new(InStore::new(AnyService));
    let mut executor = Executor::new(nothing, SessionLimits::default(), AgreedTime::from_nanos(0));
    let objects = Store::new().version();
    executor.restore_image(system, &objects).map_err(|why| why.to_string())?;
    Ok(executor)
}

/// A time in UTC as text, to the millisecond.
pub(super) fn utc(time: AgreedTime) -> String {
    const DAY: u64 = 86_400;
    let (seconds, millis) = (time.nanos() / 1_000_000_000, time.nanos() / 1_000_000 % 1000);
    let (mut days, second) = (seconds / DAY, seconds % DAY);
    let is_leap =
        |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    // What a clock of 64 bits of nanoseconds can say ends in the year 2554: few steps.
    let mut year = 1970;
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let lengths = [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 0;
    while days >= lengths[month] {
        days -= lengths[month];
        month += 1;
    }
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year}-{:02}-{:02} {hour:02}:{minute:02}:{second:02}.{millis:03} UTC", month + 1, days + 1)
}

#[cfg(test)]
mod tests;
