//! The keeper's jobs and reports.

use bytes::Bytes;
use quorate_types::{Digest, Seq};

use super::{Digests, Growth, Image};
use crate::store::Version;

/// How much of an image a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The whole state.
    Full,
    /// The differences from the border before; that border's file is needed, too.
    Differential,
}

/// Something that the keeper must do. [`crate::checkpoint::Keeper::submit`] says which jobs come first.
pub enum Job {
    /// Begin the full checkpoint of a border that is not reached yet: write the chunks of this version, which was taken at an agreed seq
    /// before the border. Give it before the border's own job.
    Ahead {
        /// The number that the border will have.
        border: u64,
        /// The objects at the agreed seq.
        version: Version,
    },
    /// A border is reached: report its digest and, if asked, write its file.
    Border {
        /// The state there.
        image: Image,
        /// What to write. A `Full` one completes what [`Job::Ahead`] of the same border began.
        write: Option<Kind>,
    },
    /// The state was fetched from another replica: write it as a full checkpoint. All other checkpoints at its seq or later are given up
    /// before that, since this replica's execution went another way; jobs for borders that were given earlier are dropped. The digest is
    /// known already, so there is no [`Report::Digest`].
    Install {
        /// The state now.
        image: Image,
    },
    /// Answer a peer with a part of a checkpoint's manifest.
    ReadManifest {
        /// A number that comes back in the report.
        ticket: u64,
        /// The seq of the checkpoint.
        seq: Seq,
        /// Its image's digest. If the checkpoint here has another one, the keeper does not have what is asked for.
        digest: Digest,
        /// From which byte of the manifest.
        offset: u64,
        /// At most how many bytes.
        max: usize,
    },
    /// Answer a peer with a part of a checkpoint.
    ReadChunk {
        /// A number that comes back in the report.
        ticket: u64,
        /// The seq of the checkpoint.
        seq: Seq,
        /// Its image's digest, as above.
        digest: Digest,
        /// The number of the part: system pieces first, then the chunks of objects, as in the manifest.
        chunk: u32,
    },
    /// More of a checkpoint that is being fetched is here: write it, so that only the rest is left for [`Job::Install`], and so that the
    /// transfer can be resumed after a crash.
    Grow(Growth),
    /// The transfer is over, so what was kept of it is deleted.
    ForgetPartial,
    /// Delete what is not needed to load this checkpoint or a newer one. Nothing happens if it is not here.
    Forget {
        /// The oldest checkpoint that must stay loadable.
        keep: Seq,
    },
    /// From now on these checkpoints also stay loadable, whatever is forgotten. This replaces the earlier list.
    Pin {
        /// Their seqs; those that are not here are ignored.
        seqs: Vec<Seq>,
    },
    /// Give up all checkpoints above this seq, with those being written and their pending digests: this replica's execution went another
    /// way there. A crash before the next checkpoint is written may bring them back.
    Discard {
        /// The newest that may stay.
        above: Seq,
    },
    /// Read all files at rest, in small pieces beside all other work. If one is running, it starts over.
    Scrub,
    /// Write a rotten part of a checkpoint again.
    Repair {
        /// The seq of the checkpoint.
        seq: Seq,
        /// The number of the part.
        chunk: u32,
        /// Its bytes; they are verified before they are written.
        bytes: Bytes,
    },
}

/// Where rot was found in a checkpoint's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RotAt {
    /// The header, one copy of the manifest, or one footer. The keeper writes it again from its other copy.
    Copy,
    /// A part of the image (numbered as in the manifest). Peers have it.
    Part(u32),
    /// Both copies of the manifest, or both footers, or the file can't be read at all: this checkpoint is lost.
    Whole,
}

/// Why a differential checkpoint was written as a full one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Instead {
    /// The file of the border before is not here.
    NoPrevious,
    /// A file that it would build on is known to be damaged.
    PreviousDamaged,
    /// The chain has its greatest length.
    ChainTooLong,
}

/// A stretch of a manifest's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestPart {
    /// How long the manifest is.
    pub total: u64,
    /// The bytes from the asked offset on.
    pub bytes: Bytes,
}

/// What the keeper did or found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Report {
    /// A border's digest. Borders are reported in order, and each border's digest before anything else about it.
    Digest {
        /// The border's seq.
        seq: Seq,
        /// The border's number.
        border: u64,
        /// What stands for the image there, and for the state in it.
        digests: Digests,
    },
    /// A checkpoint is durable (or, with `hold`, kept in memory).
    Written {
        /// Its seq.
        seq: Seq,
        /// Its image's digest.
        digest: Digest,
        /// The kind that was written.
        kind: Kind,
        /// Why a full checkpoint was written although a differential one was asked for.
        instead: Option<Instead>,
        /// How long the file is.
        bytes: u64,
    },
    /// A checkpoint was not written, because a newer one was waiting already, or because its state was given up.
    Skipped {
        /// Its seq.
        seq: Seq,
    },
    /// The answer to [`Job::Discard`] and [`Job::Install`]: earlier reports on checkpoints above this seq are void.
    GaveUp {
        /// The job's seq.
        above: Seq,
    },
    /// A checkpoint was not written, because the disk is full. The part that was written is deleted.
    NoRoom {
        /// Its seq.
        seq: Seq,
    },
    /// The disk failed. A checkpoint that was being written is also reported as skipped. After a failed sync the keeper does nothing more,
    /// and the host stops the replica.
    Failed {
        /// What was tried, and what the system said.
        what: String,
        /// Whether written data may be lost.
        sync: bool,
    },
    /// The answer to [`Job::ReadManifest`].
    Manifest {
        /// The number from the job.
        ticket: u64,
        /// The bytes; `None` if the checkpoint is not here.
        answer: Option<ManifestPart>,
    },
    /// The answer to [`Job::ReadChunk`].
    Chunk {
        /// The number from the job.
        ticket: u64,
        /// The verified bytes; `None` if the part is not here, or not sound any more.
        answer: Option<Bytes>,
    },
    /// Something at rest is damaged. Each scrub reports everything that it finds; a peer's question only reports what is new.
    Rot {
        /// The checkpoint for which it was noticed; parts are numbered as in its manifest.
        seq: Seq,
        /// Its image's digest, with which peers are asked.
        digest: Digest,
        /// The file: the checkpoint's own, or one that it builds on.
        file: String,
        /// The damaged part of it.
        place: RotAt,
    },
    /// A damaged part is sound again.
    Repaired {
        /// The checkpoint, as above.
        seq: Seq,
        /// The part.
        place: RotAt,
    },
    /// A checkpoint for which rot was reported is deleted, or its file is replaced. Earlier reports on it and on this file are void.
    Gone {
        /// The seq of the checkpoint.
        seq: Seq,
        /// Its file.
        file: String,
    },
    /// A repair was asked for with wrong bytes, or for a checkpoint or part that is not here.
    NotRepaired {
        /// The seq of the checkpoint.
        seq: Seq,
        /// The number of the part.
        chunk: u32,
    },
    /// A scrub has read everything.
    ScrubDone {
        /// How many bytes it read.
        bytes: u64,
    },
}

/// The result of one step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// There was nothing to do.
    Idle,
    /// A piece of work was done; call again.
    Worked {
        /// How much was read and written. Computing digests counts as 0.
        bytes: u64,
        /// Another replica, or this one, waits for such work, so it must not be slowed down.
        awaited: bool,
    },
}
