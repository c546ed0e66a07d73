//! What the keeper found at the start, in the form that the node takes.

use crate::system::System;
use quorate_state::checkpoint::{Assembly, Image, Opened, SystemPart};
use quorate_state::store::Version;
use quorate_state::transfer::Kept;
use quorate_types::{Digest, Halt, Seq};

/// What is on disk beside the log.
#[derive(Default)]
pub struct Recovered {
    /// The checkpoint to go on from.
    pub(crate) image: Option<Image>,
    /// A newer checkpoint with damaged parts. The log goes on from it once the other replicas have sent those parts.
    pub(crate) damaged: Option<Damaged>,
    /// Whether there is a later checkpoint that can not be used.
    pub(crate) outdated: bool,
    /// Checkpoints that are durable here, oldest first.
    pub(crate) durable: Vec<(Seq, Digest)>,
    /// Parts of a transfer that was interrupted, and sound parts of a damaged checkpoint.
    pub(crate) partial: Vec<Kept>,
}

/// A checkpoint with a sound manifest, of which some parts are damaged.
pub(crate) struct Damaged {
    pub(crate) seq: Seq,
    /// The order's half of its system part, with the places of the instances.
    pub(crate) system: SystemPart,
    /// Its sound objects.
    pub(crate) objects: Version,
}

impl Recovered {
    /// Decides what to go on from: the newest checkpoint. If it is damaged and there are other replicas, they have the missing parts. The
    /// log may not reach back to an older checkpoint.
    ///
    /// # Errors
    /// When there are checkpoints and none can be used.
    pub fn new(opened: Opened, alone: bool) -> Result<Self, Halt> {
        let Opened { image, damaged, found, lost, mut partial, .. } = opened;
        // The configuration names the replicas with which the cluster began; others may have joined.
        let joined =
            |image: &Image| System::decode(&image.system).is_ok_and(|system| system.members().len() > 1);
        let alone = alone && !image.as_ref().is_some_and(joined);
        let newest = image.as_ref().map(|image| image.seq);
        let damaged = damaged.filter(|assembly| newest.is_none_or(|seq| assembly.manifest().seq() > seq));
        let newer = damaged.is_some() || !lost.is_empty();
        let parts = damaged
            .as_ref()
            .map(|damaged| format!("parts of that of seq {:#} are damaged", damaged.manifest().seq()));
        let damaged = damaged.filter(|_| !(alone && image.is_some())).and_then(|assembly| {
            partial.extend(
                assembly
                    .system()
                    .iter()
                    .filter(|piece| !piece.is_empty())
                    .map(|piece| Kept::System { bytes: piece.clone() }),
            );
            take(&assembly)
        });
        if image.is_none() && damaged.is_none() && !(found.is_empty() && lost.is_empty()) {
            let whys: Vec<String> =
                parts.into_iter().chain(lost.iter().map(|(file, why)| format!("{file}: {why}"))).collect();
            let why = format!(
                "no checkpoint of this replica can be read ({}). Set up a replacement for this replica, or restore a backup",
                whys.join("; ")
            );
            return Err(Halt::CheckpointUnusable { why });
        }
        let outdated = newer && (damaged.is_none() || !lost.is_empty());
        // A checkpoint that shares files with a damaged one may be damaged, too.
        let sound = |seq: Seq| damaged.is_none() && newest.is_some_and(|newest| seq <= newest);
        let durable = found.into_iter().rev().filter(|(seq, _)| sound(*seq)).collect();
        Ok(Self { image, damaged, outdated, durable, partial })
    }
}

fn take(assembly: &Assembly) -> Option<Damaged> {
    // If a half has more than one piece, the others are not read, and decoding refuses the half as cut off.
    let order = assembly.system().first().filter(|piece| !piece.is_empty())?.clone();
    let system = SystemPart { order, ..SystemPart::default() };
    Some(Damaged { seq: assembly.manifest().seq(), system, objects: assembly.store().version() })
}

#[cfg(test)]
mod tests;
