use super::{BYTES, FOOTER, rot};
use crate::control::What;
use std::fs;
use std::path::Path;

/// A file as a checkpoint's: three records of 100 bytes, a layout with a manifest of 10 bytes, and the footer.
fn checkpoint(records: &[u64]) -> Vec<u8> {
    let mut file = vec![7; 24 + 3 * 100];
    let layout = file.len() as u64;
    file.extend(10_u32.to_le_bytes());
    file.extend([9; 10]);
    records.iter().for_each(|record| file.extend(record.to_le_bytes()));
    let length = file.len() as u64 - layout;
    let mut footer = vec![0; FOOTER as usize];
    footer[..4].copy_from_slice(b"QCKF");
    footer[96..104].copy_from_slice(&layout.to_le_bytes());
    footer[104..112].copy_from_slice(&length.to_le_bytes());
    file.extend(footer);
    file
}

fn place() -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    for name in ["data/checkpoints", "data/log"] {
        fs::create_dir_all(place.path().join(name)).unwrap();
    }
    place
}

/// The positions at which the file differs from these bytes.
fn changed(path: &Path, before: &[u8]) -> Vec<u64> {
    let after = fs::read(path).unwrap();
    assert_eq!(after.len(), before.len());
    (0..).zip(after.iter().zip(before)).filter(|(_, (a, b))| a != b).map(|(at, _)| at).collect()
}

#[test]
fn a_part_of_the_newest_checkpoint_changes() {
    let place = place();
    let directory = place.path().join("data/checkpoints");
    let why = rot(4, place.path(), What::Checkpoint).unwrap_err().to_string();
    assert!(why.contains("replica 4 has no checkpoint") && why.contains("quorate backup create"), "{why}");
    // One that another program writes now, one that holds nothing of its own, and a short one.
    fs::write(directory.join("9.unfinished"), checkpoint(&[24])).unwrap();
    fs::write(directory.join("00000000000000000007.diff"), checkpoint(&[0, 0])).unwrap();
    fs::write(directory.join("00000000000000000008.diff"), b"short").unwrap();
    fs::write(directory.join("00000000000000000005.full"), checkpoint(&[24, 0, 124, 224])).unwrap();
    let file = directory.join("00000000000000000006.full");
    let before = checkpoint(&[24, 0, 124, 224]);
    fs::write(&file, &before).unwrap();

    let damage = rot(4, place.path(), What::Checkpoint).unwrap();
    assert_eq!((damage.replica, damage.offset, damage.bytes), (4, 132, BYTES), "behind the record's header");
    assert_eq!(damage.file, file);
    assert_eq!(changed(&file, &before), (132..132 + BYTES).collect::<Vec<_>>());
}

#[test]
fn a_segment_that_is_full_changes_and_none_that_is_in_use() {
    let place = place();
    let directory = place.path().join("data/log");
    let segment = |number: u64| directory.join(format!("{number:08}.segment"));
    for number in 3..5 {
        fs::write(segment(number), [1; 1000]).unwrap();
    }
    fs::write(directory.join("00000001.spare"), [1; 1000]).unwrap();
    let why = rot(1, place.path(), What::Log).unwrap_err().to_string();
    assert!(why.contains("no file of the log of replica 1 is full yet"), "{why}");
    assert!(why.contains("quorate kv put filler --dir "), "how to write more: {why}");
    fs::write(segment(5), [1; 1000]).unwrap();
    let damage = rot(1, place.path(), What::Log).unwrap();
    assert_eq!((damage.file, damage.offset), (segment(3), 500));
    assert_eq!(changed(&segment(3), &[1; 1000]).len() as u64, BYTES);
    assert!(changed(&segment(4), &[1; 1000]).is_empty());
}
