//! What clients ask, and what a mixer is told of it: some requests use a table, and hints hide that as often as the mixer is wrong.

use super::Mixer;
use quorate_kv::WorkCommand;
use quorate_sim::random::Rng;

/// So many of 1000 requests use a table, each one of so many.
pub(super) const USES: u64 = 200;
pub(super) const TABLES: u64 = 10;
/// No object has such a number: hints that name them name tables.
const NAMES: u32 = 1 << 31;

/// Requests with one seed are the same for each mixer, except for their hints.
pub(super) struct Requests {
    rng: Rng,
    hides: Rng,
    mixer: Mixer,
    uses: u64,
    /// What each command has besides.
    pub(super) command: WorkCommand,
}

impl Requests {
    pub(super) fn new(seed: u64, mixer: Mixer, uses: u64, command: WorkCommand) -> Self {
        Self { rng: Rng::of(seed, 1), hides: Rng::of(seed, 2), mixer, uses, command }
    }

    /// The next request of this client, which changes an object of its own.
    pub(super) fn next(&mut self, client: u32) -> WorkCommand {
        let (uses, table) = (self.rng.chance(self.uses), self.rng.below(TABLES) as u32);
        let hidden = match self.mixer.missed {
            None => true,
            // A pair is missed if one of the two names nothing.
            Some(missed) => (self.hides.below(1 << 30) as f64) < missed / 2.0 * f64::from(1 << 30),
        };
        WorkCommand {
            objects: vec![client],
            table: uses.then_some(table),
            also: (uses && !hidden).then_some(NAMES | table),
            ..self.command.clone()
        }
    }
}

/// Which commands counted, by what each client was told.
#[derive(Default)]
pub(super) struct Told(Vec<u64>);

impl Told {
    /// A client was told that its object was changed so often. Whether the last change was counted.
    pub(super) fn counted(&mut self, client: usize, changes: u64) -> bool {
        if self.0.len() <= client {
            self.0.resize(client + 1, 0);
        }
        let before = std::mem::replace(&mut self.0[client], changes);
        changes > before
    }
}
