use super::{Disk as _, FileDisk, OPEN_MAX, lock};
use bytes::Bytes;

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
