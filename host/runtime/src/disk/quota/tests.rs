use super::super::FileDisk;
use super::Quota;
use crate::files::{Ballast, MemoryFiles};
use bytes::Bytes;
use std::io::ErrorKind;
use std::sync::Arc;

const SEGMENT: u64 = 8192;

#[test]
fn segments_take_from_it_and_give_back() {
    let directory = tempfile::tempdir().unwrap();
    let quota = Quota::default();
    let disk = quota.clone().over_disk(Arc::new(FileDisk::new(directory.path(), None).unwrap()), SEGMENT);
    disk.prepare(0, SEGMENT).unwrap();
    quota.set(Some(SEGMENT + 1));
    disk.prepare(1, SEGMENT).unwrap();
    let full = disk.prepare(2, SEGMENT).unwrap_err();
    assert_eq!((full.kind(), full.raw_os_error()), (ErrorKind::StorageFull, Some(28)));
    assert_eq!(disk.segments().unwrap(), vec![0, 1], "nothing is left behind");
    // What was prepared before can be written.
    disk.write(1, 0, &[Bytes::from_static(b"word")]).unwrap();
    disk.sync(&[1]).unwrap();
    assert_eq!(quota.left(), Some(1));
    assert!(quota.problem().is_some());

    disk.remove(0).unwrap();
    assert_eq!(quota.left(), Some(SEGMENT + 1));
    disk.prepare(2, SEGMENT).unwrap();
    quota.set(None);
    disk.prepare(3, SEGMENT).unwrap();
    assert_eq!((quota.left(), quota.problem()), (None, None));
}

#[test]
fn checkpoints_take_from_it_and_give_back() {
    let quota = Quota::default();
    let mut files = {
        let ballast = Arc::new(Ballast::open(std::path::Path::new("/nowhere"), 1, Some(quota.clone())));
        quota.clone().over_files(Box::new(MemoryFiles::default()), ballast)
    };
    quota.set(Some(5));
    files.create("1.unfinished").unwrap();
    files.append("1.unfinished", &[Bytes::from_static(b"ab"), Bytes::from_static(b"c")]).unwrap();
    let full = files.append("1.unfinished", &[Bytes::from_static(b"def")]).unwrap_err();
    assert_eq!(full.raw_os_error(), Some(28));
    // A repair needs no room.
    files.write_at("1.unfinished", 0, b"xy").unwrap();
    assert_eq!(quota.left(), Some(2));
    files.delete("1.unfinished").unwrap();
    assert_eq!(quota.left(), Some(5));
}
