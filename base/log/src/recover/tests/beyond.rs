//! Where the log goes on behind damage, case by case.

use super::*;
use crate::scrub;

/// Blocks of one sector each with the records 1 to `count`, all synced but the last.
fn row(count: u8) -> (Disk, Log) {
    let (mut disk, mut log) = fresh();
    for kind in 1..=count {
        store(&mut disk, &mut log, kind, 10, true);
    }
    (disk, log)
}

fn damage(position: u64, end: u64, missing: u64, present: u64) -> Damage {
    Damage { position, end, missing: RecordId::new(missing), present: RecordId::new(present) }
}

#[test]
fn the_log_goes_on_behind_a_damaged_block() {
    let (mut disk, _) = row(6);
    disk[0][2 * 512 + 80] ^= 1;
    let (kinds, recovered) = recover(&disk).unwrap();
    assert_eq!(kinds, [1, 2, 4, 5, 6]);
    assert_eq!(recovered.damage, [damage(1024, 1536, 3, 4)]);
    assert_eq!((recovered.last_record, recovered.cut_at), (RecordId::new(6), None));
    let (again, mut log) = reopen(&mut disk);
    assert_eq!(again, kinds);
    let place = |log: &Log, id| log.locate(RecordId::new(id)).map(|place| place.position);
    assert_eq!([2, 3, 4].map(|id| place(&log, id)), [Some(512 + 64), None, Some(1536 + 64)]);
    assert_eq!(store(&mut disk, &mut log, 7, 10, true), SEGMENT as u64, "not beside the damage");
    assert_eq!(reopen(&mut disk).0, [1, 2, 4, 5, 6, 7], "numbers and blocks go on");
}

#[test]
fn zeroed_blocks_and_several_gaps() {
    let (mut disk, _) = row(9);
    put(&mut disk, 0, 512, &[0; 1024]);
    disk[0][5 * 512 + 30] ^= 4;
    let (kinds, recovered) = recover(&disk).unwrap();
    assert_eq!(kinds, [1, 4, 5, 7, 8, 9]);
    assert_eq!(recovered.damage, [damage(512, 1536, 2, 4), damage(2560, 3072, 6, 7)]);
}

/// A damaged opening block takes no record with it.
#[test]
fn nothing_may_be_missing() {
    let (mut disk, _) = row(3);
    let (_, mut log) = reopen(&mut disk);
    for kind in 4..=6 {
        store(&mut disk, &mut log, kind, 10, true);
    }
    disk[0][3 * 512 + 40] ^= 4;
    let (kinds, recovered) = recover(&disk).unwrap();
    assert_eq!((kinds, recovered.damage), (vec![1, 2, 3, 4, 5, 6], vec![damage(1536, 2048, 4, 4)]));
}

/// The number of the first record that is there must tell whether some before it are missing.
#[test]
fn the_first_records_must_be_there() {
    let (disk, _) = row(6);
    for hit in [0, 70] {
        let mut disk = disk.clone();
        disk[0][hit] ^= 1;
        assert_eq!(corrupt_at(recover(&disk)), Some(0));
    }
    // Also behind an opening block.
    let mut disk = vec![vec![0; SEGMENT]];
    let (_, mut log) = reopen(&mut disk);
    for kind in 1..=4 {
        store(&mut disk, &mut log, kind, 10, true);
    }
    disk[0][512] ^= 1;
    assert_eq!(corrupt_at(recover(&disk)), Some(512));
}

/// Of the last block nobody says that it was synced, and nobody says what became of the one before it.
#[test]
fn rot_before_the_last_block_halts() {
    let (mut disk, _) = row(5);
    disk[0][3 * 512] ^= 1;
    assert_eq!(corrupt_at(recover(&disk)), Some(3 * 512));
    let (mut disk, _) = row(5);
    disk[0][4 * 512] ^= 1;
    assert_eq!(recover(&disk).unwrap().0, [1, 2, 3, 4], "a torn tail, for all that is known");
}

/// Behind the gap the rule is the same again: what was never synced is cut.
#[test]
fn a_torn_tail_behind_a_gap_is_cut() {
    let (mut disk, mut log) = row(5);
    let (segment, offset, torn) = block(&mut log, 6, 1000, false);
    put(&mut disk, segment, offset, &torn[..512]);
    store(&mut disk, &mut log, 7, 10, false);
    disk[0][512] ^= 1;
    let (kinds, recovered) = recover(&disk).unwrap();
    assert_eq!((kinds, recovered.synced_to), (vec![1, 3, 4, 5], 5 * 512), "6 says that 5 was synced");
    assert_eq!(recovered.rewrite.len(), 1, "the opening block, over the torn one");
    // The one that said so is gone now, and the gap is a gap still.
    assert_eq!(reopen(&mut disk).0, [1, 3, 4, 5]);
    assert_eq!(reopen(&mut disk).0, [1, 3, 4, 5]);
}

/// Three synced records, a fourth that was lost, and a fifth that got to the disk, in the rest of the segment. A second life
/// begins over the fourth. Its first block does not fit there.
fn with_a_stale_block(later: u8) -> Disk {
    let (mut disk, mut log) = fresh();
    store(&mut disk, &mut log, 1, 10, true);
    store(&mut disk, &mut log, 2, 10, true);
    store(&mut disk, &mut log, 3, 3000, true);
    let lost = block(&mut log, 4, 10, false);
    assert_eq!(lost.1, 4608);
    assert_eq!(store(&mut disk, &mut log, 5, 2900, false), 5120);
    let (kinds, mut log) = reopen(&mut disk);
    assert_eq!((kinds, log.position()), (vec![1, 2, 3], 5120));
    for kind in 20..20 + later {
        let at = store(&mut disk, &mut log, kind, 3000, true);
        assert!(kind > 20 || at == SEGMENT as u64, "it does not fit before the stale block's end");
    }
    assert_eq!(&disk[0][5120..5124], b"QLOG");
    disk
}

#[test]
fn a_stale_block_fills_no_gap() {
    let sound = with_a_stale_block(5);
    assert_eq!(recover(&sound).unwrap().0, [1, 2, 3, 20, 21, 22, 23, 24]);
    let mut disk = sound.clone();
    disk[0][4608] ^= 1;
    let (kinds, recovered) = recover(&disk).unwrap();
    assert_eq!(kinds, [1, 2, 3, 20, 21, 22, 23, 24], "the second life's opening block is lost");
    assert_eq!(recovered.damage, [damage(4608, 8192, 4, 4)]);
    // With record 4, too: now the stale one has a number that is missing.
    disk[1][10] ^= 1;
    let (kinds, recovered) = recover(&disk).unwrap();
    assert_eq!(kinds, [1, 2, 3, 21, 22, 23, 24]);
    assert_eq!(recovered.damage, [damage(4608, 8192 + 3584, 4, 5)]);
    // And with the blocks before it.
    disk[0][1024] ^= 1;
    assert_eq!(recover(&disk).unwrap().0, [1, 2, 21, 22, 23, 24]);
}

/// A stale block in front of a life of which nothing is left.
#[test]
fn a_stale_block_never_ends_the_log() {
    let mut disk = with_a_stale_block(0);
    disk[0][4608] ^= 1;
    disk[0][512] ^= 1;
    let (kinds, recovered) = recover(&disk).unwrap();
    assert_eq!((kinds, recovered.cut_at.is_some()), (vec![1, 3], false));
    assert_eq!(recovered.rewritten().position(), 5120);
}

/// Where damage is known nothing is scrubbed; elsewhere everything is.
#[test]
fn known_damage_is_not_scrubbed() {
    let (mut disk, mut log) = fresh();
    for kind in 1..=7 {
        store(&mut disk, &mut log, kind, 3000, true);
    }
    disk[1][3584 + 100] ^= 1;
    let (kinds, mut log) = reopen(&mut disk);
    assert_eq!(kinds, [1, 2, 3, 5, 6, 7]);
    let ids = |from: u64, to: u64| Some(RecordId::new(from)..RecordId::new(to));
    assert_eq!([0, 1, 2].map(|segment| log.sealed_records(segment)), [ids(1, 3), None, ids(5, 7)]);
    let check =
        |segment: u64| scrub(LOG_ID, &config(), segment, &Bytes::from(disk[segment as usize].clone()));
    assert_eq!([0, 2].map(|segment| Some(check(segment).unwrap().records)), [ids(1, 3), ids(5, 7)]);
    assert_eq!(check(1).map_err(|rot| rot.offset), Err(3584));
    // A record that is lost stands for the next one that is there.
    assert_eq!(log.trim(RecordId::new(4)), 0..2);
    assert_eq!((log.damage(), log.first_record()), (&[][..], Some(RecordId::new(5))));
}

/// A block that a cut left behind at the start of the next segment continues the chain by itself: not where the segment
/// before says that it goes on there.
#[test]
fn a_stale_block_in_the_next_segment_fills_no_gap() {
    let (mut disk, mut log) = fresh();
    store(&mut disk, &mut log, 1, 3000, true);
    store(&mut disk, &mut log, 2, 2000, true);
    let rolled = block(&mut log, 3, 3000, false);
    assert_eq!((rolled.0, rolled.1), (1, 0), "it did not fit behind the second");
    let (_, mut log) = reopen(&mut disk);
    for kind in 20..=22 {
        store(&mut disk, &mut log, kind, 10, true);
    }
    put(&mut disk, rolled.0, rolled.1, &rolled.2);
    disk[0][6144] ^= 1;
    let (kinds, recovered) = recover(&disk).unwrap();
    assert_eq!((kinds, recovered.damage), (vec![1, 2, 20, 21, 22], vec![damage(6144, 6656, 3, 3)]));
}
