//! Another lane, as the lane sees it that takes its input: its ends of the two queues between them.
//!
//! The main lane takes the input of all lanes. In a staged replica the lane with the pillars takes what the lanes with the connections read,
//! and passes on to the main lane what no pillar takes; the main lane's frames go to the lanes with the connections directly.
//! Tests: `neighbor/tests.rs`, host/runtime/tests/all/lanes.rs.

use super::queue::{Inlet, Outlet, Sleeper, queue};
use super::side::{Down, Shared, Up, WORD_BYTES};
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

/// While this many bytes wait for a lane, nothing is taken from it.
const DOWN_BYTES: usize = 32 << 20;

/// See the module.
pub(super) struct Neighbor {
    out: Outlet<Down>,
    inlet: Inlet<Up>,
    pub(super) shared: Arc<Shared>,
    sleeper: Sleeper,
    /// Bytes that were taken from it and still count as waiting.
    taken: usize,
}

impl Neighbor {
    /// Adds an item for the lane.
    pub(super) fn put(&mut self, word: Down) {
        let bytes = match &word {
            Down::Send(_, frame) | Down::Pass(_, frame) => frame.len(),
            Down::Close(_) | Down::Take(..) | Down::GiveBack(_) | Down::Pillar(_) => 0,
            Down::Without(_) | Down::Run(_) => 0,
        };
        self.out.put(word, bytes + WORD_BYTES);
    }

    /// Sends the added items.
    pub(super) fn flush(&mut self) {
        self.out.flush();
    }

    /// Whether little enough waits for the lane that more may be taken which leads to frames for it. Otherwise the lane will say when.
    pub(super) fn has_room(&self) -> bool {
        if self.out.bytes() <= DOWN_BYTES {
            return true;
        }
        self.shared.held.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        // It may have taken everything just now, and looked before that.
        self.out.bytes() <= DOWN_BYTES
    }

    /// The number of pieces that came from the lane.
    pub(super) fn pieces(&self) -> usize {
        self.inlet.len()
    }

    /// The next piece. Its bytes count as waiting until [`Self::worked_off`].
    pub(super) fn take(&mut self) -> Option<Vec<Up>> {
        let (words, bytes) = self.inlet.take()?;
        self.taken += bytes;
        Some(words)
    }

    /// Notes that everything which was taken is worked off, or counts elsewhere.
    pub(super) fn worked_off(&mut self) {
        self.inlet.done(std::mem::take(&mut self.taken));
    }

    /// Bytes of the lane that are not worked off.
    pub(super) fn waiting_bytes(&self) -> usize {
        self.inlet.bytes() + self.shared.ahead.load(Ordering::Relaxed)
    }

    /// Wakes the lane if it waits for room. Called after there is some.
    pub(super) fn goes_on(&self) {
        fence(Ordering::SeqCst);
        let waits = &self.shared.waits;
        if waits.load(Ordering::SeqCst) && waits.swap(false, Ordering::SeqCst) {
            self.wake();
        }
    }

    pub(super) fn wake(&self) {
        self.sleeper.wake();
    }

    pub(super) fn is_asleep(&self) -> bool {
        self.sleeper.is_asleep()
    }
}

/// What a lane beside the main one has of other lanes.
pub(super) struct Joints {
    /// The way to the lane that takes its input.
    pub(super) up: Outlet<Up>,
    /// What other lanes tell it, the main lane first.
    pub(super) words: Vec<Inlet<Down>>,
    /// The lanes that tell it something.
    pub(super) above: Vec<Sleeper>,
    pub(super) shared: Arc<Shared>,
    pub(super) sleeper: Sleeper,
    /// The lanes whose input it takes before the main lane.
    pub(super) readers: Vec<Neighbor>,
    /// Whether another lane takes its input before the main lane.
    pub(super) relayed: bool,
}

impl Joints {
    fn with_main(main: &Sleeper, sleeper: &Sleeper) -> (Neighbor, Self) {
        let (out, words) = queue(sleeper.clone());
        let (up, inlet) = queue(main.clone());
        let shared = Arc::new(Shared::new());
        let neighbor = Neighbor { out, inlet, shared: shared.clone(), sleeper: sleeper.clone(), taken: 0 };
        let joints = Self {
            up,
            words: vec![words],
            above: vec![main.clone()],
            shared,
            sleeper: sleeper.clone(),
            readers: Vec::new(),
            relayed: false,
        };
        (neighbor, joints)
    }

    /// From now on another lane takes the input of this one first. Nothing more comes to the main lane from here.
    fn relay_through(&mut self, other: &mut Self) {
        let (out, words) = queue(self.sleeper.clone());
        let (up, inlet) = queue(other.sleeper.clone());
        (self.up, self.relayed) = (up, true);
        self.words.push(words);
        self.above.push(other.sleeper.clone());
        let (shared, sleeper) = (self.shared.clone(), self.sleeper.clone());
        other.readers.push(Neighbor { out, inlet, shared, sleeper, taken: 0 });
    }
}

/// Connects the other lanes with the main one; if the replica is staged, the lanes with connections also with the first, which has the
/// pillars. Gives the main lane's ends, and what each lane has.
pub(super) fn join(main: &Sleeper, others: &[Sleeper], staged: bool) -> Vec<(Neighbor, Joints)> {
    let mut all: Vec<_> = others.iter().map(|sleeper| Joints::with_main(main, sleeper)).collect();
    if let Some(((_, pillars), connections)) = all.split_first_mut()
        && staged
    {
        connections.iter_mut().for_each(|(_, lane)| lane.relay_through(pillars));
    }
    all
}

#[cfg(test)]
mod tests;
