use super::{Ballast, MORE, NAME};
use crate::disk::{Quota, lock};
use crate::files::CheckpointFiles;
use bytes::Bytes;
use quorate_state::checkpoint::Files;
use std::path::Path;
use std::sync::Arc;

const MIB: u64 = 1 << 20;
const FIRST: &str = "00000000000000000001.full";
const SECOND: &str = "00000000000000000002.diff";
const SEGMENT: u64 = MIB;

fn kept(directory: &Path) -> u64 {
    std::fs::metadata(directory.join(NAME)).map_or(0, |found| found.len())
}

/// The files of a replica whose disk has so many bytes.
fn files(directory: &Path, bytes: u64) -> (Box<dyn Files + Send>, Quota) {
    let quota = Quota::default();
    quota.set(Some(bytes));
    (opened(directory, &quota), quota)
}

fn opened(directory: &Path, quota: &Quota) -> Box<dyn Files + Send> {
    let ballast = Arc::new(Ballast { least: 0, ..Ballast::open(directory, SEGMENT, Some(quota.clone())) });
    let files = CheckpointFiles::new(directory).and_then(|files| files.ballasted(ballast.clone()));
    quota.clone().over_files(Box::new(files.unwrap()), ballast)
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
    write(&mut *files, FIRST, 8).unwrap();
    assert_eq!(kept(directory.path()), 9 * MIB + MORE);
    assert_eq!(quota.left(), Some(64 * MIB - 17 * MIB - MORE));
    // The log takes all that is left.
    quota.set(Some(0));
    write(&mut *files, SECOND, 9).unwrap();
    assert_eq!(kept(directory.path()), 0, "it took the room that was kept");
    // The one before goes, and the room comes back as far as there is some.
    files.delete(FIRST).unwrap();
    assert_eq!(kept(directory.path()), 0, "a state of 9 MiB needs more than there is");
    quota.set(Some(20 * MIB));
    files.create("unfinished").unwrap();
    files.delete("unfinished").unwrap();
    assert_eq!(kept(directory.path()), 9 * MIB + 9 * MIB / 8 + MORE);
    let mut names = files.list().unwrap();
    names.sort();
    assert_eq!(names, [SECOND], "nobody takes it for a checkpoint");
    assert_eq!(std::fs::read(directory.path().join(SECOND)).unwrap(), vec![7; 9 * MIB as usize]);
}

#[test]
fn what_does_not_fit_either_leaves_nothing_half_done() {
    let directory = tempfile::tempdir().unwrap();
    let (mut files, quota) = files(directory.path(), 64 * MIB);
    write(&mut *files, FIRST, 2).unwrap();
    quota.set(Some(MIB));
    let full = write(&mut *files, SECOND, 8).unwrap_err();
    assert_eq!(full.raw_os_error(), Some(28));
    files.delete("unfinished").unwrap();
    assert_eq!(kept(directory.path()), 2 * MIB + MIB / 4 + MORE, "it is kept for the next one");
    assert_eq!(quota.left(), Some(MIB));
}

#[test]
fn it_follows_the_state_and_outlives_a_restart() {
    let directory = tempfile::tempdir().unwrap();
    let (mut files, quota) = files(directory.path(), 64 * MIB);
    write(&mut *files, FIRST, 8).unwrap();
    write(&mut *files, SECOND, 2).unwrap();
    assert_eq!(kept(directory.path()), 9 * MIB + MORE);
    files.delete(FIRST).unwrap();
    let small = 2 * MIB + MIB / 4 + MORE;
    assert_eq!(kept(directory.path()), small, "the state is smaller now");
    assert_eq!(quota.left(), Some(62 * MIB - small));
    drop(files);
    let again = Ballast::open(directory.path(), SEGMENT, None);
    assert!(again.release(), "it was there");
    assert_eq!(kept(directory.path()), 0);
    assert!(!again.release());
}

/// A full checkpoint and differences behind it, in whatever order the system lists them, and no room for anything.
#[test]
fn it_outlives_a_restart_with_a_full_disk() {
    let directory = tempfile::tempdir().unwrap();
    let (mut files, quota) = files(directory.path(), 64 * MIB);
    write(&mut *files, FIRST, 8).unwrap();
    write(&mut *files, SECOND, 1).unwrap();
    let room = 9 * MIB + MORE;
    assert_eq!(kept(directory.path()), room);
    std::fs::write(directory.path().join("00000000000000000009.unfinished"), b"x").unwrap();
    std::fs::write(directory.path().join("core"), vec![1; 20 * MIB as usize]).unwrap();
    quota.set(Some(0));
    let again = opened(directory.path(), &quota);
    assert_eq!(kept(directory.path()), room, "it is neither cut nor longer");
    drop(again);
    // A copy with holes keeps nothing.
    let file = std::fs::File::create(directory.path().join(NAME)).unwrap();
    file.set_len(room).unwrap();
    assert_eq!(lock(&Ballast::open(directory.path(), SEGMENT, None).state).bytes, 0);
}

/// A process is killed while its checkpoint uses the room: what that leaves is for the next one.
#[test]
fn what_a_dead_process_took_is_kept_again() {
    let directory = tempfile::tempdir().unwrap();
    let (mut files, quota) = files(directory.path(), 64 * MIB);
    write(&mut *files, FIRST, 8).unwrap();
    quota.set(Some(0));
    files.create("00000000000000000009.unfinished").unwrap();
    files.append("00000000000000000009.unfinished", &[Bytes::from(vec![7; MIB as usize])]).unwrap();
    assert_eq!(kept(directory.path()), 0);
    drop(files);
    let mut again = opened(directory.path(), &quota);
    assert_eq!(kept(directory.path()), 0, "its bytes are there");
    again.delete("00000000000000000009.unfinished").unwrap();
    assert_eq!(kept(directory.path()), 9 * MIB + MORE);
    assert_eq!(quota.left(), Some(0), "the log gets nothing of it");
}

#[test]
fn some_room_is_kept_before_the_first_checkpoint() {
    let directory = tempfile::tempdir().unwrap();
    let ballast = Arc::new(Ballast::open(directory.path(), SEGMENT, None));
    let files = CheckpointFiles::new(directory.path()).and_then(|files| files.ballasted(ballast.clone()));
    assert_eq!(files.unwrap().list().unwrap(), Vec::<String>::new());
    assert_eq!(kept(directory.path()), super::LEAST);
}
