//! Damage below the highest synced mark: recovery goes on behind it and tells the gap, or halts where nothing vouches for what
//! follows, or the damaged bytes mean nothing. Damage above it costs at most the records from there on. Never does a wrong record
//! come out.

use crate::common::{Records, Rng, World, recover, small_config};
use proptest::prelude::*;
use quorate_log::{Class, Damage, LogConfig, RecoverError, SECTOR};
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

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}
fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// A block of the log, as the format's text describes it.
#[derive(Clone, Debug)]
struct Block {
    position: u64,
    len: u64,
    records: Range<u64>,
}

/// The blocks of a sound log in their order.
fn blocks(view: &View, segment_bytes: u64) -> Vec<Block> {
    let (mut found, mut position, mut previous) = (Vec::new(), 0, 0);
    loop {
        let next_segment = (position / segment_bytes + 1) * segment_bytes;
        let here = [position, next_segment].into_iter().find_map(|position| {
            let at = (position % segment_bytes) as usize;
            let header = view.get(&(position / segment_bytes))?.get(at..at + 64)?;
            let continues =
                &header[..4] == b"QLOG" && u64_at(header, 16) == position && u32_at(header, 52) == previous;
            continues.then(|| (position, header.to_vec()))
        });
        let Some((at, header)) = here else { return found };
        let first = u64_at(&header, 32);
        let len = u64::from(u32_at(&header, 24));
        found.push(Block { position: at, len, records: first..first + u64::from(u32_at(&header, 28)) });
        (position, previous) = (at + len, u32_at(&header, 60));
    }
}

/// How much the blocks from there on say to be synced.
fn testified(view: &View, segment_bytes: u64, blocks: &[Block]) -> u64 {
    let mark = |block: &Block| {
        let at = (block.position % segment_bytes) as usize;
        u64_at(&view[&(block.position / segment_bytes)][at..], 40)
    };
    blocks.iter().map(mark).max().unwrap_or(0)
}

fn byte_at(view: &mut View, segment_bytes: u64, position: u64) -> &mut u8 {
    &mut view.get_mut(&(position / segment_bytes)).unwrap()[(position % segment_bytes) as usize]
}

/// Where the header or a record of a block is hit, and not its padding.
fn means_something(world: &World, block: &Block, position: u64) -> bool {
    let record = |number: u64| world.log.locate(RecordId::new(number)).unwrap();
    let end = match block.records.clone().last() {
        Some(last) => record(last).position + u64::from(record(last).len),
        None => block.position + 64,
    };
    position < end
}

/// Every record is one of those that were written, under its number, in their order.
fn all_are_right(found: &Records, all: &Records) -> bool {
    let mut rest = all.iter();
    found.iter().all(|record| rest.any(|written| written == record))
}

/// What is missing is what is told to be missing.
fn gaps_are_told(found: &Records, all: &Records, damage: &[Damage]) -> bool {
    let told = |id: RecordId| damage.iter().any(|range| range.missing <= id && id < range.present);
    let last = found.last().map_or(RecordId::ZERO, |(id, _)| *id);
    all.iter().take_while(|(id, _)| *id <= last).all(|record| found.contains(record) != told(record.0))
        && damage.windows(2).all(|pair| pair[0].end <= pair[1].position && pair[0].present <= pair[1].missing)
        && damage.iter().all(|range| range.position <= range.end && range.missing <= range.present)
}

/// Recovers the log, writes to it, and recovers it twice: what was found stays, and what was written comes behind it.
fn goes_on(config: &LogConfig, view: &View) -> Result<(), TestCaseError> {
    let (found, result) = recover(config, view);
    let recovered = result.unwrap();
    let mut world = World::new(config.clone());
    world.disk.synced = view.clone();
    if let Some(segment) = recovered.prepare {
        world.disk.prepare(segment, config.segment_bytes).unwrap();
    }
    for part in &recovered.rewrite {
        world.disk.write(part.segment, part.offset, part.data.to_vec());
        world.disk.sync(part.segment);
    }
    let damage = recovered.damage.clone();
    let again = recover(config, &world.disk.view());
    prop_assert!(again.0 == found, "the same records are found again");
    prop_assert_eq!(&again.1.unwrap().damage, &damage, "and the same damage");
    world.log = recovered.rewritten();
    prop_assert_eq!(world.log.damage(), &damage[..]);
    for (id, record) in &found {
        let extent = world.log.locate(*id).expect("it is there");
        let at = extent.offset as usize..extent.offset as usize + extent.len as usize;
        let bytes = bytes::Bytes::copy_from_slice(&world.disk.view()[&extent.segment][at]);
        prop_assert!(extent.parse(&bytes, record.instance).as_ref() == Ok(record));
    }
    for range in &damage {
        (range.missing.number()..range.present.number())
            .for_each(|id| assert!(world.log.locate(RecordId::new(id)).is_none(), "{id} is lost"));
    }
    let last = world.log.appended();
    let blank = found.first().unwrap().1.clone();
    world.model = vec![blank; last.number() as usize];
    for _ in 0..12 {
        world.append(8, 700, Class::Data);
        world.settle();
    }
    let (later, result) = recover(config, &world.disk.view());
    prop_assert!(later[..found.len()] == found[..], "and again");
    let appended: Vec<_> = later[found.len()..].iter().map(|(_, record)| record.clone()).collect();
    prop_assert!(appended == world.model[last.number() as usize..], "with what was written since");
    prop_assert_eq!(&result.unwrap().damage, &damage);
    // What is trimmed takes its damage with it.
    let gone = world.log.trim(world.log.durable());
    let begin = gone.end * config.segment_bytes;
    prop_assert!(world.log.damage().iter().all(|range| range.end > begin));
    prop_assert_eq!(world.log.damage().len(), damage.iter().filter(|range| range.end > begin).count());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    /// Single flipped bits, at random places of the synced area: exactly the records of the block that was hit are missing.
    #[test]
    fn a_flipped_bit_below_the_mark_costs_its_block(seed: u64, flips in prop::collection::vec(any::<u64>(), 40)) {
        let world = grown(seed);
        let (view, size) = (world.disk.view(), world.config.segment_bytes);
        let (all, sound) = recover(&world.config, &view);
        let mark = sound.unwrap().synced_to;
        prop_assert!(mark > 0 && !all.is_empty());
        let blocks = blocks(&view, size);
        for flip in flips {
            let position = (flip >> 3) % mark;
            let mut rotten = view.clone();
            *byte_at(&mut rotten, size, position) ^= 1 << (flip & 7);
            let (found, result) = recover(&world.config, &rotten);
            prop_assert!(all_are_right(&found, &all), "no wrong record");
            let hit = blocks.iter().position(|b| (b.position..b.position + b.len).contains(&position));
            let hit = hit.filter(|hit| means_something(&world, &blocks[*hit], position));
            let Some(hit) = hit else {
                prop_assert!(found == all && result.is_ok_and(|found| found.damage.is_empty()), "padding at {}", position);
                continue;
            };
            let (block, behind) = (&blocks[hit], &blocks[hit + 1..]);
            // It may have been in the rest of the segment before.
            let begin = hit.checked_sub(1).map_or(0, |before| blocks[before].position + blocks[before].len);
            let vouched = behind.first().filter(|next| next.position < testified(&view, size, behind));
            match vouched.filter(|_| block.records.start > 1) {
                Some(next) => {
                    let id = |record: u64| RecordId::new(record);
                    let expected = Damage {
                        position: begin,
                        end: next.position,
                        missing: id(block.records.start),
                        present: id(block.records.end),
                    };
                    prop_assert_eq!(result.map(|found| found.damage), Ok(vec![expected]));
                    prop_assert!(gaps_are_told(&found, &all, &[expected]));
                    prop_assert_eq!(found.len() as u64, all.len() as u64 - expected.records());
                }
                None => {
                    let halts = matches!(result, Err(RecoverError::Halt(Halt::LogCorrupt { position, .. })) if position == begin);
                    prop_assert!(halts, "bit at {} of {}: {:?}", position, mark, result.map(|r| r.last_record));
                }
            }
        }
    }

    /// Whole sectors that turn to zeros, to noise, or into another sector of the log, several of them.
    #[test]
    fn lost_or_misplaced_sectors_never_bring_a_wrong_record(seed: u64, picks in prop::collection::vec(any::<u64>(), 30)) {
        let world = grown(seed);
        let (view, size) = (world.disk.view(), world.config.segment_bytes);
        let (all, sound) = recover(&world.config, &view);
        let sectors = sound.unwrap().synced_to / SECTOR as u64;
        let per_segment = size / SECTOR as u64;
        let read = |n: u64| {
            let from = (n % per_segment) as usize * SECTOR;
            view[&(n / per_segment)][from..from + SECTOR].to_vec()
        };
        for pick in picks {
            let mut rng = Rng(pick);
            let mut rotten = view.clone();
            let mut harmless = true;
            for _ in 0..1 + rng.below(3) {
                let (first, count) = (rng.below(sectors), 1 + rng.below(3) * rng.below(8));
                for target in first..(first + count).min(sectors) {
                    let sector = match rng.below(3) {
                        0 => vec![0; SECTOR],
                        1 => (0..SECTOR).map(|_| rng.next() as u8).collect(),
                        _ => read(rng.below(sectors)),
                    };
                    harmless &= sector == read(target);
                    let from = (target % per_segment) as usize * SECTOR;
                    rotten.get_mut(&(target / per_segment)).unwrap()[from..from + SECTOR].copy_from_slice(&sector);
                }
            }
            let (found, result) = recover(&world.config, &rotten);
            prop_assert!(all_are_right(&found, &all), "no wrong record");
            match result {
                Ok(recovered) => {
                    prop_assert_eq!(recovered.last_record, all.last().unwrap().0, "nothing is cut");
                    prop_assert!(gaps_are_told(&found, &all, &recovered.damage));
                    prop_assert!(!harmless || found == all);
                    goes_on(&world.config, &rotten)?;
                }
                Err(RecoverError::Halt(Halt::LogCorrupt { .. })) => prop_assert!(!harmless),
                Err(other) => prop_assert!(false, "{}", other),
            }
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
            *byte_at(&mut rotten, world.config.segment_bytes, position) ^= 1 << (flip & 7);
            let (found, result) = recover(&world.config, &rotten);
            prop_assert!(found[..] == all[..found.len()], "no wrong record");
            prop_assert!(result.is_ok_and(|found| found.damage.is_empty()));
        }
    }
}
