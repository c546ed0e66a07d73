//! Damage below the highest synced mark: recovery halts, or the damaged bytes mean nothing. Damage above it costs at most
//! the records from there on. Never does a wrong record come out.

mod common;

use common::{Rng, World, recover, small_config};
use proptest::prelude::*;
use quorate_log::{Class, LogConfig, RecoverError, SECTOR};
use quorate_types::{Halt, RecordId};
use std::collections::BTreeMap;
use std::ops::Range;

type View = BTreeMap<u64, Vec<u8>>;

/// A log that lived through appends and crashes, and in which everything appended is durable.
fn grown(seed: u64) -> World {
    let mut rng = Rng(seed);
    let mut world = World::new(LogConfig { in_flight_max: 1 + rng.below(3) as usize, ..small_config() });
    for _ in 0..60 {
        world.append(8 + rng.below(40) as usize, 8 + rng.below(900) as usize, Class::Data);
        match rng.below(12) {
            0 => world.crash(rng.coin(), &mut rng),
            1..5 => world.settle(),
            _ => world.poll(),
        }
    }
    world.append(8, 8, Class::Data);
    world.settle();
    world
}

/// The byte ranges of block headers and records, as positions.
fn meaningful(world: &World, view: &View) -> Vec<Range<u64>> {
    let segment_bytes = world.config.segment_bytes;
    let mut ranges = Vec::new();
    for (number, bytes) in view {
        let mut at = 0;
        while bytes.get(at..at + 4).is_some_and(|magic| magic == b"QLOG") {
            let position = number * segment_bytes + at as u64;
            ranges.push(position..position + 64);
            at += u32::from_le_bytes(bytes[at + 24..at + 28].try_into().unwrap()) as usize;
        }
    }
    for number in 1..=world.log.durable().number() {
        let place = world.log.locate(RecordId::new(number)).unwrap();
        ranges.push(place.position..place.position + u64::from(place.len));
    }
    ranges
}

fn at(view: &mut View, segment_bytes: u64, position: u64) -> &mut u8 {
    &mut view.get_mut(&(position / segment_bytes)).unwrap()[(position % segment_bytes) as usize]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    /// Single flipped bits, at random places of the synced area.
    #[test]
    fn a_flipped_bit_below_the_mark_halts_or_means_nothing(seed: u64, flips in prop::collection::vec(any::<u64>(), 40)) {
        let world = grown(seed);
        let view = world.disk.view();
        let (all, sound) = recover(&world.config, &view);
        let mark = sound.unwrap().synced_to;
        prop_assert!(mark > 0 && !all.is_empty());
        let ranges = meaningful(&world, &view);
        for flip in flips {
            let position = (flip >> 3) % mark;
            let mut rotten = view.clone();
            *at(&mut rotten, world.config.segment_bytes, position) ^= 1 << (flip & 7);
            let (found, result) = recover(&world.config, &rotten);
            prop_assert_eq!(&found[..], &all[..found.len()], "no wrong record");
            if ranges.iter().any(|range| range.contains(&position)) {
                let expected = matches!(
                    result,
                    Err(RecoverError::Halt(Halt::LogCorrupt { position: at, .. })) if at <= position
                );
                prop_assert!(expected, "bit at {} of {}: {:?}", position, mark, result.map(|r| r.last_record));
            } else {
                prop_assert_eq!(found.len(), all.len(), "padding at {}", position);
                prop_assert!(result.is_ok());
            }
        }
    }

    /// Whole sectors that turn to zeros, to noise, or into another sector of the log.
    #[test]
    fn a_lost_or_misplaced_sector_below_the_mark_halts(seed: u64, picks in prop::collection::vec(any::<u64>(), 30)) {
        let world = grown(seed);
        let view = world.disk.view();
        let (all, sound) = recover(&world.config, &view);
        let sectors = sound.unwrap().synced_to / SECTOR as u64;
        let per_segment = world.config.segment_bytes / SECTOR as u64;
        let read = |n: u64| {
            let from = (n % per_segment) as usize * SECTOR;
            view[&(n / per_segment)][from..from + SECTOR].to_vec()
        };
        for pick in picks {
            let mut rng = Rng(pick);
            let target = rng.below(sectors);
            let sector = match rng.below(3) {
                0 => vec![0; SECTOR],
                1 => (0..SECTOR).map(|_| rng.next() as u8).collect(),
                _ => read(rng.below(sectors)),
            };
            let harmless = sector == read(target);
            let mut rotten = view.clone();
            let from = (target % per_segment) as usize * SECTOR;
            rotten.get_mut(&(target / per_segment)).unwrap()[from..from + SECTOR].copy_from_slice(&sector);
            let (found, result) = recover(&world.config, &rotten);
            prop_assert_eq!(&found[..], &all[..found.len()], "no wrong record");
            let corrupt = matches!(result, Err(RecoverError::Halt(Halt::LogCorrupt { .. })));
            let complete = result.is_ok() && found.len() == all.len();
            prop_assert!(corrupt || complete, "sector {}: {:?}", target, result.map(|r| r.last_record));
            prop_assert!(complete || !harmless);
        }
    }

    /// Above the mark nothing testifies: the log is cut there, and what comes out is right.
    #[test]
    fn a_flipped_bit_above_the_mark_cuts(seed: u64, flips in prop::collection::vec(any::<u64>(), 20)) {
        let world = grown(seed);
        let view = world.disk.view();
        let (all, sound) = recover(&world.config, &view);
        let mark = sound.unwrap().synced_to;
        let end = (view.len() as u64) * world.config.segment_bytes;
        for flip in flips {
            let position = mark + (flip >> 3) % (end - mark);
            let mut rotten = view.clone();
            *at(&mut rotten, world.config.segment_bytes, position) ^= 1 << (flip & 7);
            let (found, result) = recover(&world.config, &rotten);
            prop_assert_eq!(&found[..], &all[..found.len()], "no wrong record");
            prop_assert!(result.is_ok(), "{:?}", result.map(|r| r.last_record));
        }
    }
}
