//! What goes into the keeper and what comes out of it.

use bytes::Bytes;
use quorate_types::{Digest, Seq};

use super::{Image, PartialPiece};
use crate::store::Version;

/// How much of an image a file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// All of it.
    Full,
    /// What differs from the border before; that one's file is needed, too.
    Differential,
}

/// Something for the keeper to do. See [`crate::checkpoint::Keeper::submit`] for which come first.
pub enum Job {
    /// Begin the full checkpoint of a border that is not reached yet: write the chunks of this version, taken at an agreed seq
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
    /// The state comes from elsewhere (a transfer): write it as a full checkpoint. All other checkpoints at its seq or later are
    /// given up before, since this replica's execution went another way; jobs for borders that were given before are
    /// dropped. Its digest is known already, so there is no [`Report::Digest`].
    Install {
        /// The state now.
        image: Image,
    },
    /// Answer a peer with a part of a checkpoint's manifest.
    ReadManifest {
        /// Comes back in the report.
        ticket: u64,
        /// Which checkpoint.
        seq: Seq,
        /// Its image's digest; if ours has another one, we do not have what is asked for.
        digest: Digest,
        /// From which byte of the manifest.
        offset: u64,
        /// At most how many bytes.
        max: usize,
    },
    /// Answer a peer with a part of a checkpoint.
    ReadChunk {
        /// Comes back in the report.
        ticket: u64,
        /// Which checkpoint.
        seq: Seq,
        /// Its image's digest, as above.
        digest: Digest,
        /// Which part: system pieces first, then the chunks of objects, as in the manifest.
        chunk: u32,
    },
    /// Keep a part of a transfer, so that it can be resumed after a crash.
    Partial(PartialPiece),
    /// The transfer is over: what was kept of it goes.
    ForgetPartial,
    /// Delete what is not needed to load this checkpoint or a newer one. Nothing happens if it is not here.
    Forget {
        /// The oldest checkpoint that must stay loadable.
        keep: Seq,
    },
    /// From now on these stay loadable, too, whatever is forgotten; those that were named before count no more.
    Pin {
        /// Which, if they are here.
        seqs: Vec<Seq>,
    },
    /// Give up all checkpoints above this seq, also those being written, and their pending digests: this replica's
    /// execution went another way there. A crash before the next checkpoint is written may bring them back.
    Discard {
        /// The newest that may stay.
        above: Seq,
    },
    /// Read all files at rest, in small pieces beside everything else. Asked again while one runs, it starts over.
    Scrub,
    /// Write a part of a checkpoint that was found rotten again.
    Repair {
        /// Which checkpoint.
        seq: Seq,
        /// Which of its parts.
        chunk: u32,
        /// Its bytes; they are verified before they are written.
        bytes: Bytes,
    },
}

/// Where rot was found in a checkpoint's file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RotAt {
    /// The header, one copy of the manifest or one footer: written again from what else says the same.
    Copy,
    /// A part of the image (numbered as in the manifest): peers have it.
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
    /// A border's digest. Borders report in order, each before anything else about it.
    Digest {
        /// The border's seq.
        seq: Seq,
        /// The border's number.
        border: u64,
        /// The digest of the image there.
        digest: Digest,
    },
    /// A checkpoint is durable (or, with `hold`, held).
    Written {
        /// Its seq.
        seq: Seq,
        /// Its image's digest.
        digest: Digest,
        /// What was written.
        kind: Kind,
        /// Why that is full although differential was asked for.
        instead: Option<Instead>,
        /// How long the file is.
        bytes: u64,
    },
    /// A checkpoint was not written, because a newer one was waiting already, or because its state was given up.
    Skipped {
        /// Its seq.
        seq: Seq,
    },
    /// The answer to [`Job::Discard`] and [`Job::Install`]: what was reported before of checkpoints above this seq counts no more.
    GaveUp {
        /// The job's seq.
        above: Seq,
    },
    /// A checkpoint was not written, because the disk is full. What there was of it is deleted.
    NoRoom {
        /// Its seq.
        seq: Seq,
    },
    /// The disk failed. A checkpoint that was being written is reported as skipped, too. After a failed sync the keeper
    /// does nothing more, and the host stops the replica.
    Failed {
        /// What was tried, and what the system said.
        what: String,
        /// Whether data that was taken as written may be lost.
        sync: bool,
    },
    /// The answer to [`Job::ReadManifest`]; `None`: do not have it.
    Manifest {
        /// The question's.
        ticket: u64,
        /// The bytes, if we have them.
        answer: Option<ManifestPart>,
    },
    /// The answer to [`Job::ReadChunk`]; `None`: do not have it, or no longer sound.
    Chunk {
        /// The question's.
        ticket: u64,
        /// The verified bytes, if we have them.
        answer: Option<Bytes>,
    },
    /// Something at rest is damaged. Each scrub says all that it finds; a peer's question makes it known only the first time.
    Rot {
        /// The checkpoint in which it was noticed; parts are numbered as in its manifest.
        seq: Seq,
        /// Its image's digest, to ask peers with.
        digest: Digest,
        /// The file: the checkpoint's own, or one that it builds on.
        file: String,
        /// Where in it.
        place: RotAt,
    },
    /// Something rotten is sound again.
    Repaired {
        /// The checkpoint, as above.
        seq: Seq,
        /// Where in it.
        place: RotAt,
    },
    /// A checkpoint of which rot was reported is deleted, or its file is replaced by another one. What was reported of it and of
    /// this file counts no more.
    Gone {
        /// Which checkpoint.
        seq: Seq,
        /// Its file.
        file: String,
    },
    /// A repair was asked for with the wrong bytes, or for something that is not here.
    NotRepaired {
        /// Which checkpoint.
        seq: Seq,
        /// Which part.
        chunk: u32,
    },
    /// A scrub went through everything.
    ScrubDone {
        /// How much it read.
        bytes: u64,
    },
}

/// What one step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// There was nothing to do.
    Idle,
    /// A piece of work was done; call again.
    Worked {
        /// How much was read and written. Computing digests counts as 0.
        bytes: u64,
        /// Another replica, or what goes on here, waits for such work: it is not to be held back.
        awaited: bool,
    },
}
