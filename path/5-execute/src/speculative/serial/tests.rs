//! Requests whose steps are mixed at random, beside the same requests one after the other in the order that was found.
#![allow(clippy::disallowed_types, reason = "cells that several views share need a lock")]

use super::{Met, Writers, met};
use crate::cells::{Cells, Part};
use crate::view::{Noted, StateView, Told};
use quorate_state::store::{Store, Version};
use quorate_types::Random;
use std::sync::{Mutex, PoisonError};

#[derive(Default)]
struct Shared([Mutex<Part>; 3]);

impl Cells for Shared {
    fn parts(&self) -> usize {
        self.0.len()
    }
    fn read(&self, _: u64, part: usize, look: &mut dyn FnMut(&Part)) {
        look(&self.0[part].lock().unwrap_or_else(PoisonError::into_inner));
    }
    fn write(&self, _: u64, part: usize, change: &mut dyn FnMut(&mut Part)) {
        change(&mut self.0[part].lock().unwrap_or_else(PoisonError::into_inner));
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Get(u8),
    Put(u8),
    Set(u8),
    Remove(u8),
    Range(u8, Option<u8>, usize),
}

fn steps(random: &mut Random) -> Vec<Step> {
    let mut below = |below: u64| (random.next() % below) as u8;
    (0..=below(4))
        .map(|_| match below(9) {
            0..3 => Step::Get(below(5)),
            3 => Step::Put(below(5)),
            4..6 => Step::Set(below(5)),
            6 => Step::Remove(below(5)),
            _ => Step::Range(below(5), Some(below(6)).filter(|end| *end < 5), 1 + usize::from(below(3))),
        })
        .collect()
}

/// What a request saw; what it writes depends on that.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Saw(Vec<u8>);

impl Saw {
    fn value(&self) -> [u8; 4] {
        crc(&self.0).to_le_bytes()
    }

    fn take(&mut self, step: Step, view: &mut StateView<'_>) {
        match step {
            Step::Get(key) => self.0.extend_from_slice(view.get(&[key]).as_deref().unwrap_or(b"-")),
            Step::Put(key) => self.0.push(u8::from(view.put(&[key], &self.value()))),
            Step::Set(key) => view.set(&[key], &self.value()),
            Step::Remove(key) => self.0.push(u8::from(view.remove(&[key]))),
            Step::Range(start, end, most) => {
                let (start, end) = ([start], end.map(|end| [end]));
                let range = view.range(&start, end.as_ref().map(|end| &end[..])).take(most);
                range.for_each(|(key, value)| self.0.extend([&*key, &*value].concat()));
            }
        }
    }
}

fn crc(bytes: &[u8]) -> u32 {
    bytes.iter().fold(7, |sum: u32, byte| sum.wrapping_mul(16_777_619) ^ u32::from(*byte))
}

fn begin(random: &mut Random) -> Store {
    let mut store = Store::new();
    for key in 0..5_u8 {
        if random.next().is_multiple_of(2) {
            store.put(&[key], &[key]);
        }
    }
    store
}

/// Runs the requests step by step, in a random mix. Gives what each saw, what was noted, and the state.
fn mixed(random: &mut Random, wave: &[Vec<Step>], version: &Version) -> (Vec<Saw>, Met, Store) {
    let cells = Shared::default();
    let mut views: Vec<StateView<'_>> =
        (0..wave.len()).map(|who| StateView::live(version, &cells, 10 + who as u64)).collect();
    let mut saw: Vec<Saw> = (0..wave.len()).map(|who| Saw(vec![who as u8])).collect();
    let mut next = vec![0; wave.len()];
    while next.iter().zip(wave).any(|(next, steps)| *next < steps.len()) {
        let who = (random.next() % wave.len() as u64) as usize;
        // Some run a while alone.
        for _ in 0..=random.next() % 4 {
            if let Some(step) = wave[who].get(next[who]) {
                saw[who].take(*step, &mut views[who]);
                next[who] += 1;
            }
        }
    }
    let noted: Vec<Noted> = views.into_iter().map(StateView::noted).collect();
    let (mut store, mut writers) = (Store::from_version(version), Writers::new());
    for part in 0..3 {
        cells.write(0, part, &mut |part| {
            for (key, cell) in part.take() {
                match cell.value {
                    Some(value) => drop(store.put(&key, &value)),
                    None => drop(store.remove(&key)),
                }
                writers.insert(key, cell.writers.iter().map(|run| *run as usize - 10).collect());
            }
        });
    }
    let noted: Vec<&Noted> = noted.iter().collect();
    (saw, met(&noted, &writers), store)
}

#[test]
fn what_is_final_is_what_some_order_gives() {
    let mut random = Random::new(11);
    let mut counts = [0; 3];
    for round in 0..20_000 {
        let before = begin(&mut random);
        let wave: Vec<Vec<Step>> = (0..2 + random.next() % 3).map(|_| steps(&mut random)).collect();
        let (found, how, state) = mixed(&mut random, &wave, &before.version());
        let order = match how {
            Met::Apart => (0..wave.len()).collect(),
            Met::Serial(ref order) => order.clone(),
            Met::Tangled => {
                counts[2] += 1;
                continue;
            }
        };
        counts[usize::from(how != Met::Apart)] += 1;
        let (mut store, mut told) = (Store::from_version(&before.version()), Vec::<Told>::new());
        for who in order {
            let mut saw = Saw(vec![who as u8]);
            wave[who].iter().for_each(|step| saw.take(*step, &mut StateView::direct(&mut store, &mut told)));
            assert_eq!(saw, found[who], "round {round}, {how:?}: {wave:?}");
        }
        assert_eq!(store.version().root(), state.version().root(), "round {round}, {how:?}: {wave:?}");
    }
    println!("apart, serial, tangled: {counts:?}");
    assert!(counts.iter().all(|count| *count > 1000), "{counts:?}");
}

/// Requests that ran one after the other are never tangled, whatever their order.
#[test]
fn one_after_the_other_is_an_order() {
    let mut random = Random::new(12);
    for _ in 0..5_000 {
        let before = begin(&mut random);
        let wave: Vec<Vec<Step>> = (0..4).map(|_| steps(&mut random)).collect();
        let (version, cells) = (before.version(), Shared::default());
        let mut noted: Vec<Option<Noted>> = (0..4).map(|_| None).collect();
        let mut left = vec![0, 1, 2, 3];
        while !left.is_empty() {
            let who = left.swap_remove((random.next() % left.len() as u64) as usize);
            let mut view = StateView::live(&version, &cells, 10 + who as u64);
            let mut saw = Saw(vec![who as u8]);
            wave[who].iter().for_each(|step| saw.take(*step, &mut view));
            noted[who] = Some(view.noted());
        }
        let mut writers = Writers::new();
        for part in 0..3 {
            cells.write(0, part, &mut |part| {
                for (key, cell) in part.take() {
                    writers.insert(key, cell.writers.iter().map(|run| *run as usize - 10).collect());
                }
            });
        }
        let noted: Vec<&Noted> = noted.iter().flatten().collect();
        assert_ne!(met(&noted, &writers), Met::Tangled, "{wave:?}");
    }
}
