//! INV-SIM-STATE: executors at equal seq have equal checkpoints: service, sessions, kept replies, agreed time.

use super::Failure;
use quorate_execute::Executor;
use std::collections::BTreeMap;

/// The digest of each state that was seen.
#[derive(Debug, Default)]
pub struct States {
    digests: BTreeMap<u64, (u32, String)>,
}

impl States {
    /// Compares the state of `name` with what was seen at the same seq.
    ///
    /// # Errors
    /// When it differs.
    pub fn look(&mut self, name: &str, executor: &Executor) -> Result<(), Failure> {
        let mut bytes = Vec::new();
        if let Err(error) = executor.checkpoint(&mut bytes) {
            return Err(Failure::new("states", format!("{name} can not write its state: {error}")));
        }
        let seq = executor.seq().number();
        let digest = crc32c::crc32c(&bytes);
        let (first, by) = self.digests.entry(seq).or_insert_with(|| (digest, name.to_owned()));
        if *first == digest {
            return Ok(());
        }
        Err(Failure::new("states", format!("at seq {seq} the states of {name} and {by} differ")))
    }
}
