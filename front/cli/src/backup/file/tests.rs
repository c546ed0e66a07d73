//! What is no file is refused at once.

use super::{NewFile, OldFile};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use std::fs;
use std::io::ErrorKind;

#[test]
fn a_name_that_ends_like_a_directory_is_refused_before_anything_is_fetched() {
    let directory = std::env::temp_dir().join(format!("quorate-backup-name-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    for name in ["new/", "new//", "new/."] {
        let refused = NewFile::begin(&directory.join(name)).map(drop).map_err(|why| why.kind());
        assert_eq!(refused, Err(ErrorKind::IsADirectory), "{name}");
    }
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 0);
    drop(NewFile::begin(&directory.join("new")).unwrap());
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 0, "dropped, it is removed");
    fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn a_pipe_is_no_backup_and_nobody_waits_for_it() {
    let pipe = std::env::temp_dir().join(format!("quorate-backup-pipe-{}", std::process::id()));
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let refused = OldFile::open(&pipe).map(drop).map_err(|why| why.kind());
    fs::remove_file(&pipe).unwrap();
    assert_eq!(refused, Err(ErrorKind::InvalidInput));
}
