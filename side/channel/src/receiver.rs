//! The receiving half: which messages count.
//!
//! INV-CHANNEL-1: a message counts once so many senders as are needed sent it alike, each of which counts once at a position.
//! INV-CHANNEL-2: what is kept lies in the window, and of each sender's copies at most its limit, and two messages more: the one with which
//! the limit is reached, and the one that is next.

use bytes::Bytes;
use quorate_types::ReplicaId;
use std::collections::BTreeMap;

/// Settings of a receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceiveConfig {
    /// The senders.
    pub senders: Vec<ReplicaId>,
    /// How many copies count: one more than senders may lie.
    pub copies: usize,
    /// How many positions from the first open one on are taken.
    pub window: u64,
    /// The most bytes of copies that are kept of each sender.
    pub sender_bytes_max: usize,
    /// The most bytes in a message.
    pub message_bytes_max: usize,
}

/// What became of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// Its message counts from now on.
    Counts,
    /// It is kept.
    Kept,
    /// It adds nothing: its position is done, its message counts already, or this sender sent it before.
    Known,
    /// Its position lies behind the window, or the sender's limit is reached: it is sent again.
    NoRoom,
    /// No honest sender sends it: another copy for the same position, a message over the limit, or from nobody who sends here.
    Wrong,
}

/// A message that some senders sent for a position.
#[derive(Clone, Debug)]
struct Value {
    message: Bytes,
    from: Vec<ReplicaId>,
}

#[derive(Clone, Debug)]
enum Place {
    /// Too few copies so far.
    Open(Vec<Value>),
    /// This counts, and its owner is not done with it.
    Counts(Bytes),
    /// Its owner is done with it, but not with an earlier one.
    Done,
}

/// One member of the cluster that receives; see the crate.
#[derive(Clone, Debug)]
pub struct Receiver {
    config: ReceiveConfig,
    /// The first position that is not done.
    next: u64,
    places: BTreeMap<u64, Place>,
    /// Bytes of the copies that are kept of each sender.
    bytes: BTreeMap<ReplicaId, usize>,
    wrong: u64,
}

impl Receiver {
    /// With everything before this position done.
    pub const fn new(config: ReceiveConfig, next: u64) -> Self {
        Self { config, next, places: BTreeMap::new(), bytes: BTreeMap::new(), wrong: 0 }
    }

    /// The first position that is not done: what senders are told.
    pub const fn next(&self) -> u64 {
        self.next
    }

    /// How many copies came that no honest sender sends.
    pub const fn wrong(&self) -> u64 {
        self.wrong
    }

    /// A sender sends this.
    pub fn hear(&mut self, from: ReplicaId, position: u64, message: Bytes) -> Heard {
        let is_right = self.config.senders.contains(&from) && message.len() <= self.config.message_bytes_max;
        if !is_right {
            self.wrong += 1;
            return Heard::Wrong;
        }
        if position < self.next {
            return Heard::Known;
        }
        if position - self.next >= self.config.window {
            return Heard::NoRoom;
        }
        let kept = self.bytes.get(&from).copied().unwrap_or(0);
        // What is next always has room, so that a full memory stops nobody.
        let is_full = position > self.next && kept >= self.config.sender_bytes_max;
        let place = self.places.entry(position).or_insert_with(|| Place::Open(Vec::new()));
        let Place::Open(values) = place else { return Heard::Known };
        if let Some(before) = values.iter().find(|value| value.from.contains(&from)) {
            if before.message == message {
                return Heard::Known;
            }
            self.wrong += 1;
            return Heard::Wrong;
        }
        if is_full {
            if values.is_empty() {
                self.places.remove(&position);
            }
            return Heard::NoRoom;
        }
        *self.bytes.entry(from).or_default() += message.len();
        let value = match values.iter_mut().position(|value| value.message == message) {
            Some(at) => &mut values[at],
            None => {
                // The copy may be a part of a large frame, which it must not keep alive.
                values.push(Value { message: Bytes::copy_from_slice(&message), from: Vec::new() });
                let last = values.len() - 1;
                &mut values[last]
            }
        };
        value.from.push(from);
        if value.from.len() < self.config.copies {
            return Heard::Kept;
        }
        let counts = value.message.clone();
        self.free(position);
        self.places.insert(position, Place::Counts(counts));
        Heard::Counts
    }

    /// Takes a place out, and uncounts its copies.
    fn free(&mut self, position: u64) {
        let Some(Place::Open(values)) = self.places.remove(&position) else { return };
        for value in values {
            for from in value.from {
                if let Some(bytes) = self.bytes.get_mut(&from) {
                    *bytes -= value.message.len();
                }
            }
        }
        self.bytes.retain(|_, bytes| *bytes > 0);
    }

    /// The messages that count and are not done, in the order of their positions.
    pub fn waiting(&self) -> impl Iterator<Item = (u64, &Bytes)> {
        self.places.iter().filter_map(|(position, place)| match place {
            Place::Counts(message) => Some((*position, message)),
            Place::Open(_) | Place::Done => None,
        })
    }

    /// The owner says what it is done with. Returns whether the first open position is another one now.
    pub fn settle(&mut self, is_done: impl Fn(u64) -> bool) -> bool {
        let before = self.next;
        let done: Vec<u64> = self
            .places
            .iter()
            .filter(|(position, place)| !matches!(place, Place::Done) && is_done(**position))
            .map(|(position, _)| *position)
            .collect();
        for position in done {
            self.free(position);
            self.places.insert(position, Place::Done);
        }
        while matches!(self.places.get(&self.next), Some(Place::Done)) || is_done(self.next) {
            self.free(self.next);
            self.places.remove(&self.next);
            self.next += 1;
        }
        self.next != before
    }

    /// The owner's state is another one: everything before this position is done, and perhaps nothing behind it. What counts in the window
    /// from there on still does.
    pub fn jump(&mut self, next: u64) {
        let end = next.saturating_add(self.config.window);
        let stays =
            |position: u64, place: &Place| (next..end).contains(&position) && !matches!(place, Place::Done);
        let gone: Vec<u64> = self
            .places
            .iter()
            .filter(|(position, place)| !stays(**position, place))
            .map(|(position, _)| *position)
            .collect();
        for position in gone {
            self.free(position);
            self.places.remove(&position);
        }
        self.next = next;
    }

    /// The senders are others from now on; what only those sent that are gone counts for nothing. How many copies are needed may be another
    /// number; what counted before still does.
    pub fn meet(&mut self, senders: Vec<ReplicaId>, copies: usize) {
        (self.config.senders, self.config.copies) = (senders, copies);
        let open: Vec<u64> = self
            .places
            .iter()
            .filter(|(_, place)| matches!(place, Place::Open(_)))
            .map(|(position, _)| *position)
            .collect();
        // They are sent again.
        open.into_iter().for_each(|position| self.free(position));
    }

    /// Panics with the name of an invariant that does not hold.
    pub fn invariants(&self) {
        let mut bytes: BTreeMap<ReplicaId, usize> = BTreeMap::new();
        for (position, place) in &self.places {
            let inside = *position >= self.next && position - self.next < self.config.window;
            assert!(inside, "INV-CHANNEL-2: position {position} lies outside the window from {}", self.next);
            let Place::Open(values) = place else { continue };
            for value in values {
                let few = value.from.len() < self.config.copies;
                assert!(few, "INV-CHANNEL-1: enough copies of position {position} count at once");
                for from in &value.from {
                    *bytes.entry(*from).or_default() += value.message.len();
                }
            }
        }
        bytes.retain(|_, bytes| *bytes > 0);
        assert_eq!(bytes, self.bytes, "INV-CHANNEL-2: the bytes of copies are counted");
        let most = self.config.sender_bytes_max + 2 * self.config.message_bytes_max;
        let holds = bytes.values().all(|bytes| *bytes <= most);
        assert!(holds, "INV-CHANNEL-2: no sender has more than its limit");
    }
}
