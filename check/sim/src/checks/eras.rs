//! INV-SIM-ERA: an era has one beginning: all replicas that enter it say the same of it, of where it began, and of the state there.

use super::Failure;
use quorate_node::NextEra;
use quorate_types::{Digest, Seq};
use quorate_wire::Era;
use std::collections::BTreeMap;

/// The eras that were entered.
#[derive(Debug, Default)]
pub struct Eras {
    begun: BTreeMap<u64, (Era, Seq, Digest, String)>,
}

impl Eras {
    /// An honest replica enters an era.
    ///
    /// # Errors
    /// When another one entered another era under this number.
    pub fn enters(&mut self, name: &str, next: &NextEra) -> Result<(), Failure> {
        let (notice, number) = (&next.notice, next.notice.era.number);
        let own = (notice.era.clone(), notice.began, notice.before, name.to_owned());
        let (era, began, before, by) = self.begun.entry(number).or_insert(own);
        if (&*era, *began, *before) == (&notice.era, notice.began, notice.before) {
            return Ok(());
        }
        let text = format!(
            "{name} enters era {number}, which began at {} with {:?}, and for {by} it began at {began} with {before:?}",
            notice.began, notice.before
        );
        Err(Failure::new("eras", text))
    }

    /// How many eras were entered.
    pub fn count(&self) -> usize {
        self.begun.len()
    }
}
