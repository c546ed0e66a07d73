use super::{DelayedDisk, Disk, FileDisk, OPEN_MAX, SPARES_MAX, lock};
use bytes::Bytes;
use std::sync::Arc;
use std::time::{Duration, Instant};

#[test]
fn few_segments_are_open_at_once_and_the_newest_are() {
    let directory = tempfile::tempdir().unwrap();
    let disk = FileDisk::new(directory.path(), None).unwrap();
    for segment in 0..40 {
        disk.prepare(segment, 4096).unwrap();
        assert!(lock(&disk.files).contains_key(&segment), "who writes to it need not open it");
        disk.write(segment, 8, &[Bytes::from(segment.to_le_bytes().to_vec())]).unwrap();
    }
    let open = |disk: &FileDisk| lock(&disk.files).keys().copied().collect::<Vec<u64>>();
    assert_eq!(open(&disk), (40 - OPEN_MAX as u64..40).collect::<Vec<u64>>());
    for segment in 0..40_u64 {
        assert_eq!(*disk.read(segment, 8, 8).unwrap(), segment.to_le_bytes());
        assert!(open(&disk).len() <= OPEN_MAX && open(&disk).contains(&39));
    }
    disk.sync(&[0, 39]).unwrap();
}

#[test]
fn a_delay_adds_to_each_sync_and_to_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let plain: Arc<dyn Disk> = Arc::new(FileDisk::new(directory.path(), None).unwrap());
    assert!(Arc::ptr_eq(&plain, &DelayedDisk::over(plain.clone(), Duration::ZERO)), "none is no wrapper");
    let delay = Duration::from_millis(500);
    let slow = DelayedDisk::over(plain.clone(), delay);
    slow.prepare(0, 4096).unwrap();
    let begun = Instant::now();
    for number in 0..100_u64 {
        slow.write(0, number * 8, &[Bytes::from(number.to_le_bytes().to_vec())]).unwrap();
    }
    assert_eq!(*slow.read(0, 8, 8).unwrap(), 1_u64.to_le_bytes());
    assert!(begun.elapsed() < delay, "only syncs are slow");
    let begun = Instant::now();
    slow.sync(&[0]).unwrap();
    assert!(begun.elapsed() >= delay);
    assert_eq!((slow.segments().unwrap(), slow.read_segment(0).unwrap().len()), (vec![0], 4096));
    assert!(slow.sync(&[9]).is_err(), "what fails fails");
}

#[test]
fn pieces_are_written_whatever_their_number_and_size() {
    let directory = tempfile::tempdir().unwrap();
    let disk = FileDisk::new(directory.path(), None).unwrap();
    disk.prepare(0, 4096).unwrap();
    // More than one call takes, empty ones among them, also at the ends.
    let pieces: Vec<Bytes> = (0..=600_usize).map(|at| Bytes::from(vec![at as u8; at % 3])).collect();
    disk.write(0, 5, &pieces).unwrap();
    let all: Vec<u8> = pieces.iter().flat_map(|piece| piece.iter().copied()).collect();
    assert_eq!(*disk.read(0, 5, all.len() as u32).unwrap(), all);
    disk.write(0, 0, &[Bytes::new(), Bytes::new()]).unwrap();
    assert_eq!(*disk.read(0, 0, 5).unwrap(), [0; 5]);
}

fn names(directory: &std::path::Path) -> Vec<String> {
    let name = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().file_name().into_string().unwrap();
    let mut names: Vec<String> = std::fs::read_dir(directory).unwrap().map(name).collect();
    names.sort();
    names
}

#[test]
fn a_removed_segment_becomes_a_later_one() {
    let directory = tempfile::tempdir().unwrap();
    let disk = FileDisk { free_bytes_min: 0, ..FileDisk::new(directory.path(), None).unwrap() };
    (0..3).for_each(|segment| disk.prepare(segment, 4096).unwrap());
    disk.write(0, 0, &[Bytes::from_static(b"old")]).unwrap();
    disk.remove(0).unwrap();
    assert_eq!(disk.segments().unwrap(), [1, 2]);
    assert!(disk.read(0, 0, 3).is_err(), "it is gone");
    disk.remove(0).unwrap();
    disk.prepare(3, 4096).unwrap();
    assert_eq!(*disk.read(3, 0, 3).unwrap(), *b"old", "the same file");
    assert_eq!(names(directory.path()), ["00000001.segment", "00000002.segment", "00000003.segment"]);
    // A file of another length is of no use.
    disk.remove(1).unwrap();
    disk.prepare(4, 8192).unwrap();
    assert_eq!((disk.read_segment(4).unwrap().len(), names(directory.path()).len()), (8192, 3));
    // What is kept is bounded,
    (5..60).for_each(|segment| disk.prepare(segment, 4096).unwrap());
    (2..60).for_each(|segment| disk.remove(segment).unwrap());
    assert_eq!((disk.segments().unwrap(), names(directory.path()).len()), (vec![], SPARES_MAX));
    // a disk without space keeps nothing,
    let full = FileDisk { free_bytes_min: u64::MAX, ..disk };
    full.prepare(60, 4096).unwrap();
    assert_eq!(names(directory.path()), ["00000060.segment"]);
    full.remove(60).unwrap();
    assert_eq!(names(directory.path()), [""; 0]);
    // and the next process begins without what was kept.
    let disk = FileDisk { free_bytes_min: 0, ..full };
    disk.prepare(61, 4096).unwrap();
    disk.remove(61).unwrap();
    assert_eq!(names(directory.path()), ["00000061.spare"]);
    FileDisk::new(directory.path(), None).unwrap();
    assert_eq!(names(directory.path()), [""; 0]);
    FileDisk::new(&directory.path().join("not made yet"), None).unwrap();
}
