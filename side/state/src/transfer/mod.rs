//! Fetching a checkpoint that this replica lacks from members that hold it, and sending one to a member that asks.
//!
//! Beside the path. [`Fetch`] is the requester, [`Serve`] the sender; both are plain state machines. Only a checkpoint whose digest the
//! members agree on ([`crate::agreement`]) is fetched. Its manifest names the digest of every chunk, and the agreed digest vouches for the
//! manifest; so every byte is compared before it is used, whichever member sent it. Chunks that this replica already has (of its own older
//! or diverged state, or from an earlier attempt) are not asked for. The others are asked for from all holders at once, each with a window
//! of its own. A source that lies is dropped; one that stalls is passed over for a while.
//!
//! Collaborative transfer after Bessani et al. (Dura-SMaRt, USENIX ATC 2013): there every part comes from one replica and the others vouch
//! for it. Here any part may come from any holder, since the agreed digest covers all of it; and the log after the checkpoint comes from
//! ordering.
//!
//! Invariants: INV-FETCH-1 (a finished transfer has exactly the agreed digest), INV-FETCH-2 (no byte enters the new state, or is
//! kept for resumption, before its digest was compared), INV-FETCH-3 (a chunk is asked for only while it is missing, and from at
//! most two sources at once), INV-FETCH-4 (what is asked of a source and has not arrived stays within its window),
//! INV-SERVE-1 (what waits for a peer stays within its limit, and nothing leaves beyond the rate).
//! Tests: `side/state/tests/all/transfer/` (a simulated network), `side/state/tests/all/transfer_serve.rs`.

mod building;
mod differing;
mod fetch;
mod serve;
mod sources;

pub use differing::{Difference, Differing, differing_keys};
pub use fetch::Fetch;
pub use serve::{Answer, Serve, ServeEffect, ServeInput, ServeLimits};

use crate::checkpoint::{Growth, Manifest, SystemPart};
use crate::store::Store;
use quorate_types::{Digest, ReplicaId, Seq, Span, Time};
use quorate_wire::StateMessage;

/// Limits of the requester.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchLimits {
    /// At most this many bytes are asked for and not arrived, per source. 4 MiB by default; a single larger chunk is asked for alone.
    pub window: u64,
    /// Chunks in one message. 16 by default.
    pub per_message: usize,
    /// A source that was asked and sent nothing for this long has stalled. 2 s by default; doubled with every time-out in a row, up to 16
    /// times.
    pub stall: Span,
    /// A source that refused because it is busy is not asked for this long. 100 ms by default, doubled up to the stall time-out.
    pub busy: Span,
    /// At the end, a chunk that is outstanding for this long may also be asked for from a second source. 200 ms by default.
    pub hedge: Span,
    /// How many bytes one step looks through or puts in. 2 MiB by default.
    pub per_step: u64,
    /// After this many more bytes without a gap the host is told that they are here. 1 MiB by default.
    pub growth: u64,
}

impl Default for FetchLimits {
    fn default() -> Self {
        Self {
            window: 4 << 20,
            per_message: 16,
            stall: Span::from_secs(2),
            busy: Span::from_millis(100),
            hedge: Span::from_millis(200),
            per_step: 2 << 20,
            growth: 1 << 20,
        }
    }
}

/// A verified part of a checkpoint, kept until the transfer is done, so that an interrupted transfer need not fetch it again. It names
/// itself, so it is of use even if another checkpoint is fetched after a restart.
pub use crate::checkpoint::PartialPiece as Kept;

/// What [`Fetch`] reacts to.
#[derive(Clone, Debug)]
pub enum Input {
    /// A part that an earlier attempt kept. All of them come before the first [`Input::Offers`]; later ones are ignored.
    Kept(Kept),
    /// Everything that may be fetched, newest first, whenever it changes: [`crate::agreement::Agreement::offers`].
    Offers(Vec<crate::agreement::Offer>),
    /// A member sent a message. Messages other than manifests, chunks and refusals are ignored.
    Receive {
        /// The member.
        from: ReplicaId,
        /// The message.
        message: StateMessage,
    },
    /// From now on there is a connection to this member. A member for which neither this nor `Disconnected` came is asked, too, if it holds
    /// something.
    Connected(ReplicaId),
    /// The connection to this member is gone, so what was asked of it is lost.
    Disconnected(ReplicaId),
    /// The moment that [`Fetch::deadline`] named has come.
    Deadline,
}

/// What a source did that no correct replica does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lie {
    /// It sent a manifest that does not have the agreed digest, or is not a manifest.
    Manifest {
        /// What is wrong with it.
        why: &'static str,
    },
    /// It sent a chunk that does not have the digest which the manifest names.
    Chunk {
        /// The chunk's number.
        chunk: u32,
        /// The digest that the manifest names.
        expected: Digest,
        /// The digest of what came, if it is a chunk at all.
        found: Option<Digest>,
    },
}

/// What [`Fetch`] asks its host to do.
pub enum Effect {
    /// Send a message.
    Send {
        /// The member.
        to: ReplicaId,
        /// The message.
        message: StateMessage,
    },
    /// A checkpoint was chosen: its manifest is asked for.
    Begun {
        /// Its seq.
        seq: Seq,
        /// Its agreed digest.
        digest: Digest,
    },
    /// More of the checkpoint is here without a gap, and verified. It may be written already; nothing waits for that.
    Grew(Growth),
    /// Evidence against a source, which is not asked again in this transfer.
    Lied {
        /// The source.
        source: ReplicaId,
        /// The checkpoint.
        seq: Seq,
        /// The checkpoint's agreed digest.
        digest: Digest,
        /// The kind of the lie.
        lie: Lie,
    },
    /// Nothing came from a source for too long. Others do its work, and it is asked again later.
    Stalled {
        /// The source.
        source: ReplicaId,
    },
    /// A source does not hold the checkpoint, or not any more: [`crate::agreement::Agreement::not_held`].
    NotHeld {
        /// The source.
        source: ReplicaId,
        /// The checkpoint's seq.
        seq: Seq,
        /// The checkpoint's digest.
        digest: Digest,
    },
    /// Everything was fetched and compared, and the result still has another digest than the agreed one: the state that this replica had
    /// was not what its own digests said (bad memory). The transfer begins again with nothing, and what grew of it is not to be used.
    StartedOver {
        /// The checkpoint's seq.
        seq: Seq,
        /// The checkpoint's agreed digest.
        digest: Digest,
        /// The digest of the result.
        found: Digest,
    },
    /// The checkpoint is here, whole and verified. Nothing follows.
    Done(Box<Fetched>),
}

/// A whole checkpoint that was fetched.
pub struct Fetched {
    /// Its manifest, made anew from the result; its digest is the agreed one.
    pub manifest: Manifest,
    /// The system part.
    pub system: SystemPart,
    /// The objects, which replace the service's store.
    pub store: Store,
}

/// The progress of a transfer, for `status`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// The checkpoint, once one was chosen.
    pub target: Option<(Seq, Digest)>,
    /// Whether its manifest is here; before that the totals are 0.
    pub manifest: bool,
    /// Bytes that were fetched for this target. Like `bytes_total` without the bytes that this replica had already.
    pub bytes_done: u64,
    /// Bytes that must be fetched in all.
    pub bytes_total: u64,
    /// Chunks that are here, with those that this replica had already.
    pub chunks_done: u64,
    /// Chunks of the checkpoint.
    pub chunks_total: u64,
    /// Members that are asked at present.
    pub sources: Vec<ReplicaId>,
    /// When the transfer began.
    pub started: Time,
    /// Bytes that arrived since then, for whatever target.
    pub received: u64,
}

impl Progress {
    /// Bytes per second since the transfer began.
    pub fn rate(&self, now: Time) -> u64 {
        let nanos = u128::from(now.since(self.started).nanos().max(1));
        u64::try_from(u128::from(self.received) * 1_000_000_000 / nanos).unwrap_or(u64::MAX)
    }
}
