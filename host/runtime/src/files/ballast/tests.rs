use super::{Ballast, MORE, NAME};
use crate::disk::Quota;
use crate::files::CheckpointFiles;
use bytes::Bytes;
use quorate_state::checkpoint::Files;
use std::path::Path;
use std::sync::Arc;

const MIB: u64 = 1 << 20;
const SEGMENT: u64 = MIB;

fn kept(directory: &Path) -> u64 {
    std::fs::metadata(directory.join(NAME)).map_or(0, |found| found.len())
}

/// The files of a replica whose disk has so many bytes.
fn files(directory: &Path, bytes: u64) -> (Box<dyn Files + Send>, Quota) {
    let quota = Quota::default();
    quota.set(Some(bytes));
    let ballast = Arc::new(Ballast { least: 0, ..Ballast::open(directory, SEGMENT, Some(quota.clone())) });
    let files = CheckpointFiles::new(directory).and_then(|files| files.ballasted(ballast.clone()));
    (quota.clone().over_files(Box::new(files.unwrap()), ballast), quota)
}

fn write(files: &mut dyn Files, name: &str, mib: u64) -> std::io::Result<()> {
    files.create("unfinished")?;
    for _ in 0..mib {
        files.append("unfinished", &[Bytes::from(vec![7; MIB as usize])])?;
    }
    files.sync("unfinished")?;
    files.publish("unfinished", name)
}

#[test]
fn a_checkpoint_fits_where_nothing_else_does() {
    let directory = tempfile::tempdir().unwrap();
    let (mut files, quota) = files(directory.path(), 64 * MIB);
    write(&mut *files, "1.checkpoint", 8).unwrap();
    assert_eq!(kept(directory.path()), 9 * MIB + MORE);
    assert_eq!(quota.left(), Some(64 * MIB - 17 * MIB - MORE));
    // The log takes all that is left.
    quota.set(Some(0));
    write(&mut *files, "2.checkpoint", 9).unwrap();
    assert_eq!(kept(directory.path()), 0, "it took the room that was kept");
    // The one before goes, and the room comes back as far as there is some.
    files.delete("1.checkpoint").unwrap();
    assert_eq!(kept(directory.path()), 0, "a state of 9 MiB needs more than there is");
    quota.set(Some(20 * MIB));
    files.create("unfinished").unwrap();
    files.delete("unfinished").unwrap();
    assert_eq!(kept(directory.path()), 9 * MIB + 9 * MIB / 8 + MORE);
    let mut names = files.list().unwrap();
    names.sort();
    assert_eq!(names, ["2.checkpoint"], "nobody takes it for a checkpoint");
    assert_eq!(std::fs::read(directory.path().join("2.checkpoint")).unwrap(), vec![7; 9 * MIB as usize]);
}

#[test]
fn what_does_not_fit_either_leaves_nothing_half_done() {
    let directory = tempfile::tempdir().unwrap();
    let (mut files, quota) = files(directory.path(), 64 * MIB);
    write(&mut *files, "1.checkpoint", 2).unwrap();
    quota.set(Some(MIB));
    let full = write(&mut *files, "2.checkpoint", 8).unwrap_err();
    assert_eq!(full.raw_os_error(), Some(28));
    files.delete("unfinished").unwrap();
    assert_eq!(kept(directory.path()), 2 * MIB + MIB / 4 + MORE, "it is kept for the next one");
    assert_eq!(quota.left(), Some(MIB));
}

#[test]
fn it_follows_the_state_and_outlives_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let (mut files, quota) = files(directory.path(), 64 * MIB);
    write(&mut *files, "1.checkpoint", 8).unwrap();
    write(&mut *files, "2.checkpoint", 2).unwrap();
    assert_eq!(kept(directory.path()), 9 * MIB + MORE);
    files.delete("1.checkpoint").unwrap();
    let small = 2 * MIB + MIB / 4 + MORE;
    assert_eq!(kept(directory.path()), small, "the state is smaller now");
    assert_eq!(quota.left(), Some(62 * MIB - small));
    drop(files);
    let again = Ballast::open(directory.path(), SEGMENT, None);
    assert!(again.release(), "it was there");
    assert_eq!(kept(directory.path()), 0);
    assert!(!again.release());
}

#[test]
fn some_room_is_kept_before_the_first_checkpoint() {
    let directory = tempfile::tempdir().unwrap();
    let ballast = Arc::new(Ballast::open(directory.path(), SEGMENT, None));
    let files = CheckpointFiles::new(directory.path()).and_then(|files| files.ballasted(ballast.clone()));
    assert_eq!(files.unwrap().list().unwrap(), Vec::<String>::new());
    assert_eq!(kept(directory.path()), super::LEAST);
}
