//! Whatever is no ordinary file is refused at once.

use super::OldFile;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use std::fs;
use std::io::ErrorKind;

#[test]
fn a_pipe_is_no_backup_and_nobody_waits_for_it() {
    let pipe = std::env::temp_dir().join(format!("quorate-backup-pipe-{}", std::process::id()));
    mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    let refused = OldFile::open(&pipe).map(drop).map_err(|why| why.kind());
    fs::remove_file(&pipe).unwrap();
    assert_eq!(refused, Err(ErrorKind::InvalidInput));
}
