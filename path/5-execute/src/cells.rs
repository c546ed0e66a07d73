//! Objects that commands on several threads change at the same time: what a wave of commands wrote so far.
//!
//! The core has no locks, so the host makes the cells: real ones lie behind locks, simulated ones give old values now and then, as threads do
//! that come between. Source: Kapritsos (Eve), section 3.3, where threads share the state of the service.

use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A key that was written.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cell {
    /// `None`: it was removed.
    pub(crate) value: Option<Bytes>,
    /// Who wrote it, in order. So many versions of it there were, beside the one before the wave.
    pub(crate) writers: Vec<u64>,
}

/// A part of the cells: the keys that were written there.
#[derive(Debug, Default)]
pub struct Part(BTreeMap<Box<[u8]>, Cell>);

impl Part {
    pub(crate) fn get(&self, key: &[u8]) -> Option<&Cell> {
        self.0.get(key)
    }

    pub(crate) fn set(&mut self, who: u64, key: &[u8], value: Option<Bytes>) {
        match self.0.get_mut(key) {
            Some(cell) => {
                cell.value = value;
                cell.writers.push(who);
            }
            None => drop(self.0.insert(key.into(), Cell { value, writers: vec![who] })),
        }
    }

    pub(crate) fn cells(&self) -> &BTreeMap<Box<[u8]>, Cell> {
        &self.0
    }

    pub(crate) fn take(&mut self) -> BTreeMap<Box<[u8]>, Cell> {
        std::mem::take(&mut self.0)
    }
}

/// The cells of a replica, in parts, so that commands seldom wait for each other. `who` is a run of a request; each has its own number.
pub trait Cells: Send + Sync {
    /// How many parts there are: at least one.
    fn parts(&self) -> usize;

    /// Lets a run look at a part, while nobody changes it.
    fn read(&self, who: u64, part: usize, look: &mut dyn FnMut(&Part));

    /// Lets a run change a part, while nobody else looks at it.
    fn write(&self, who: u64, part: usize, change: &mut dyn FnMut(&mut Part));
}

/// Makes cells that have nothing yet.
pub type NewCells = Box<dyn Fn() -> Arc<dyn Cells> + Send>;

impl dyn Cells + '_ {
    /// The part in which a key lies. Nothing but speed depends on it.
    pub(crate) fn part_of(&self, key: &[u8]) -> usize {
        let hash = key.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
        (hash >> 32) as usize % self.parts().max(1)
    }
}
