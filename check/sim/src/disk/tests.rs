//! What a disk keeps of what was written to it.

use super::*;

const SECTORS: usize = 64;

fn written(byte: u8) -> Bytes {
    vec![byte; SECTORS * SECTOR].into()
}

fn disk() -> Disk {
    let mut disk = Disk::default();
    disk.prepare(0, (SECTORS * SECTOR) as u64).unwrap();
    disk
}

fn count(read: &Bytes, byte: u8) -> usize {
    read.iter().filter(|found| **found == byte).count() / SECTOR
}

#[test]
fn what_a_failed_sync_lost_can_be_read_and_no_later_sync_makes_it_durable() {
    let mut rng = Rng::of(1, 1);
    let mut disk = disk();
    disk.write(0, 0, written(7));
    disk.fail_sync(&[0], &mut rng);
    assert_eq!(disk.segment(0), written(7));
    assert_eq!(disk.read(0, 0, (SECTORS * SECTOR) as u32), written(7));
    disk.sync(&[0]);
    let mut other = disk.clone();
    disk.power_loss(&mut rng);
    let kept = count(&disk.segment(0), 7);
    assert!(0 < kept && kept < SECTORS, "{kept} sectors");
    // What is written once more is.
    other.write(0, 0, written(7));
    other.sync(&[0]);
    other.power_loss(&mut rng);
    assert_eq!(other.segment(0), written(7));
}

#[test]
fn sectors_go_back_to_what_they_held_before() {
    let mut disk = disk();
    for byte in [1, 2, 2] {
        disk.write(0, 0, written(byte));
        disk.sync(&[0]);
    }
    disk.go_back(0, 0..8 * SECTOR);
    disk.go_back(0, 60 * SECTOR..64 * SECTOR);
    let read = disk.segment(0);
    assert_eq!((count(&read, 1), count(&read, 2)), (12, 52));
}

#[test]
fn a_deleted_segment_becomes_a_later_one_until_the_process_ends() {
    let bytes = (SECTORS * SECTOR) as u64;
    let mut disk = disk();
    disk.write(0, 0, written(7));
    disk.remove(0);
    for segment in [1, 2] {
        disk.prepare(segment, bytes).unwrap();
    }
    assert_eq!((count(&disk.segment(1), 7), count(&disk.segment(2), 0)), (SECTORS, SECTORS));
    disk.remove(1);
    disk.forget_spares();
    disk.prepare(3, bytes).unwrap();
    assert_eq!(count(&disk.segment(3), 0), SECTORS);
}
