//! INV-SIM-CHECKPOINT: at every border all replicas with a sound state have the same digest; files of the same border, made in the same
//! way, are equal byte by byte; what a replica has on its disk opens to a state that was agreed on; and the log does not grow for ever.

use super::Failure;
use crate::files::{Published, SimFiles};
use quorate_state::checkpoint::Keeper;
use quorate_types::Digest;
use std::collections::BTreeMap;

/// What is known of all borders.
#[derive(Debug, Default)]
pub struct Checkpoints {
    /// By era and seq.
    digests: BTreeMap<(u64, u64), (Digest, String)>,
    files: BTreeMap<String, (u32, usize, String)>,
}

impl Checkpoints {
    /// A replica whose state is sound has this digest at a border.
    ///
    /// # Errors
    /// When another one had another digest there.
    pub fn digest(&mut self, name: &str, (era, seq): (u64, u64), digest: Digest) -> Result<(), Failure> {
        let (first, by) = self.digests.entry((era, seq)).or_insert_with(|| (digest, name.to_owned()));
        if *first == digest {
            return Ok(());
        }
        let text = format!("at seq {seq} {name} has the digest {digest:?}, and {by} has {first:?}");
        Err(Failure::new("checkpoints", text))
    }

    /// A replica has written a checkpoint in the usual way.
    ///
    /// # Errors
    /// When another one's file has other bytes.
    pub fn file(&mut self, name: &str, file: &Published) -> Result<(), Failure> {
        let found = (file.crc, file.bytes, name.to_owned());
        let first = self.files.entry(file.name.clone()).or_insert_with(|| found.clone());
        if (first.0, first.1) == (found.0, found.1) {
            return Ok(());
        }
        let text = format!(
            "the file {} of {name} ({} bytes) is not the one of {} ({} bytes)",
            file.name, file.bytes, first.2, first.1
        );
        Err(Failure::new("checkpoints", text))
    }

    /// Looks at what a replica would start with. `any`: it must have a checkpoint.
    ///
    /// # Errors
    /// When it can not start with that.
    pub fn at_rest(&self, name: &str, era: u64, files: &SimFiles, any: bool) -> Result<(), Failure> {
        let wrong = |what: String| Err(Failure::new("checkpoints", format!("{name}: {what}")));
        let opened = match Keeper::open(&mut files.clone(), false) {
            Ok((_, opened)) => opened,
            Err(why) => return wrong(format!("its checkpoints can not be opened: {why}")),
        };
        match (&opened.image, opened.digest) {
            (Some(image), Some(digest)) => {
                let seq = image.seq.number();
                let known = self.digests.get(&(era, seq));
                if image.digest() != digest || known.is_some_and(|(known, _)| *known != digest) {
                    return wrong(format!(
                        "its checkpoint at rest of seq {seq} has the digest {digest:?}, of {known:?}"
                    ));
                }
                Ok(())
            }
            _ if any => wrong(format!("none of its checkpoints can be loaded: {:?}", opened.lost)),
            _ => Ok(()),
        }
    }
}

/// Looks at a log in the end: it begins at `first`, ends at `position`, and stood at `then` when the last checkpoint but one was asked for.
///
/// # Errors
/// When it reaches back too far.
pub fn trimmed(name: &str, first: u64, position: u64, then: u64, slack: u64) -> Result<(), Failure> {
    if first.saturating_add(slack) < then {
        let text = format!(
            "{name} keeps its log from byte {first} to {position}, although its last checkpoint but one was made at {then}"
        );
        return Err(Failure::new("checkpoints", text));
    }
    Ok(())
}
