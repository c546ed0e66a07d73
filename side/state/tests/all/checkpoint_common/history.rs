//! A log of changes with borders in it, and what the state must be at each of them.

use std::collections::BTreeMap;

use quorate_state::checkpoint::{Kind, SystemPart};

use super::Rng;

pub(crate) type Contents = BTreeMap<Vec<u8>, Vec<u8>>;

/// How checkpoints are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Full ones, captured ahead.
    Fuzzy,
    /// Full ones, all at once.
    Stop,
    /// Differential ones with a full one every so often, which is captured ahead.
    Differential,
    /// A file at every third border only.
    Staggered,
}

#[derive(Clone)]
pub(crate) enum Event {
    /// Some changes.
    Change(Vec<(Vec<u8>, Option<Vec<u8>>)>),
    /// The agreed seq to begin the next border's checkpoint at.
    Ahead(u64),
    /// A border.
    Border(u64),
}

/// What a border's image must be.
#[derive(Clone)]
pub(crate) struct Expected {
    pub(crate) border: u64,
    pub(crate) seq: u64,
    pub(crate) write: Option<Kind>,
    pub(crate) system: SystemPart,
    pub(crate) contents: Contents,
}

pub(crate) struct History {
    /// The event at index n has seq n + 1.
    pub(crate) events: Vec<Event>,
    /// By border, from 1.
    pub(crate) borders: Vec<Expected>,
}

fn key(rng: &mut Rng) -> Vec<u8> {
    match rng.below(8) {
        0 => rng.bytes(1),
        1 => format!("a long beginning that several keys share/{:02}", rng.below(40)).into_bytes(),
        2 => vec![0; rng.below(4) as usize],
        _ => format!("{:04}", rng.below(120) * 37).into_bytes(),
    }
}

fn value(rng: &mut Rng) -> Vec<u8> {
    let len = match rng.below(40) {
        0 => 70_000 + rng.below(9000),
        1..=3 => 0,
        4..=9 => rng.below(40),
        _ => rng.below(6000),
    };
    let seed = rng.next() as u8;
    (0..len).map(|at| seed.wrapping_add((at / 7) as u8)).collect()
}

fn changes(rng: &mut Rng, contents: &Contents, count: u64) -> Vec<(Vec<u8>, Option<Vec<u8>>)> {
    let mut list = Vec::new();
    for _ in 0..count {
        let removed = rng.one_in(4).then(|| contents.keys().nth(rng.below(contents.len() as u64) as usize));
        match removed.flatten() {
            Some(key) => list.push((key.clone(), None)),
            None => list.push((key(rng), Some(value(rng)))),
        }
    }
    list
}

fn execute(contents: &mut Contents, changes: &[(Vec<u8>, Option<Vec<u8>>)]) {
    for (key, value) in changes {
        match value {
            Some(value) => contents.insert(key.clone(), value.clone()),
            None => contents.remove(key),
        };
    }
}

impl History {
    pub(crate) fn random(rng: &mut Rng, mode: Mode, borders: u64) -> Self {
        let mut history = Self { events: Vec::new(), borders: Vec::new() };
        let mut contents = Contents::new();
        let mut system = Vec::new();
        for border in 1..=borders {
            let write = match mode {
                Mode::Fuzzy | Mode::Stop => Some(Kind::Full),
                Mode::Differential if border % 5 == 1 => Some(Kind::Full),
                Mode::Differential => Some(Kind::Differential),
                Mode::Staggered => (border % 3 == 0).then_some(Kind::Full),
            };
            let pieces = if border == 1 { 30 } else { 2 + rng.below(5) };
            let ahead = rng.below(pieces);
            for piece in 0..pieces {
                if piece == ahead
                    && matches!(mode, Mode::Fuzzy | Mode::Differential)
                    && write == Some(Kind::Full)
                {
                    history.events.push(Event::Ahead(border));
                }
                let count = 1 + rng.below(6);
                let changes = changes(rng, &contents, count);
                execute(&mut contents, &changes);
                history.events.push(Event::Change(changes));
            }
            if rng.one_in(12) {
                let changes: Vec<_> = contents.keys().map(|key| (key.clone(), None)).collect();
                execute(&mut contents, &changes);
                history.events.push(Event::Change(changes));
            }
            if rng.one_in(3) {
                let len = rng.below(3) * 65_536 + rng.below(3);
                system = rng.bytes(len as usize);
            } else if let Some(byte) = system.first_mut() {
                *byte = byte.wrapping_add(1);
            }
            history.events.push(Event::Border(border));
            history.borders.push(Expected {
                border,
                seq: history.events.len() as u64,
                write,
                // It is a piece or none of how it was ordered, and the rest.
                system: SystemPart {
                    order: system[..system.len().min(70_000)].to_vec().into(),
                    execution: system[system.len().min(70_000)..].to_vec().into(),
                },
                contents: contents.clone(),
            });
        }
        history
    }

    /// Other changes with the same states at every border and every agreed seq ahead of one: what happens in between is
    /// in another order, with detours.
    pub(crate) fn another_way(&self, rng: &mut Rng) -> Vec<Event> {
        let mut events = Vec::new();
        let (mut there, mut contents) = (Contents::new(), Contents::new());
        for event in &self.events {
            if let Event::Change(changes) = event {
                execute(&mut contents, changes);
                let detour = (0..rng.below(4)).map(|_| (key(rng), Some(value(rng)))).collect::<Vec<_>>();
                execute(&mut there, &detour);
                events.push(Event::Change(detour));
                continue;
            }
            let mut back: Vec<_> = contents
                .iter()
                .filter(|(key, value)| there.get(*key) != Some(value))
                .map(|(key, value)| (key.clone(), Some(value.clone())))
                .chain(there.keys().filter(|key| !contents.contains_key(*key)).map(|key| (key.clone(), None)))
                .collect();
            for at in (1..back.len()).rev() {
                back.swap(at, rng.below(at as u64 + 1) as usize);
            }
            execute(&mut there, &back);
            assert_eq!(there, contents);
            // The seqs stay the same: the way back belongs to the last change before.
            match events.last_mut() {
                Some(Event::Change(changes)) => changes.extend(back),
                _ => assert!(back.is_empty(), "a change comes first"),
            }
            events.push(event.clone());
        }
        events
    }
}
