use super::*;
use std::io::{Seek as _, Write as _};

fn file(bytes: &[u8]) -> File {
    let mut file = tempfile::tempfile().expect("a file");
    file.write_all(bytes).expect("written");
    file.rewind().expect("rewound");
    file
}

/// What a client gets of a backup.
fn saved(backup: &[u8]) -> Vec<u8> {
    let backup = backup.to_vec();
    let backups = Backups::new(Some(Box::new(move || Ok(file(&backup)))));
    let mut pieces = begin(&backups).expect("begun");
    let (mut all, mut left) = (Vec::new(), Vec::new());
    while let Some(piece) = pieces.blocking_recv() {
        let piece = piece.expect("sent");
        all.extend_from_slice(&piece.blob);
        left.push(piece.remaining_bytes);
    }
    assert_eq!(&left[left.len() - 2..], [0, 0], "the sum comes last");
    assert!(left.is_sorted_by(|a, b| a >= b));
    all
}

/// The sum begins at a multiple of 512 bytes, whatever the length, and the backup is found again.
#[test]
fn what_is_sent_holds_the_backup() {
    for len in [0, 1, 487, 488, 489, 511, 512, 4096, PIECE - 24, PIECE, PIECE + 1, 3 * PIECE] {
        let backup: Vec<u8> = (0..len).map(|at| (at * 7) as u8).collect();
        let saved = saved(&backup);
        assert_eq!(saved.len() % 512, 32, "as etcdctl wants it");
        assert_eq!(&saved[..len], backup);
        let file = file(&saved);
        assert_eq!(backup_len(&file).expect("read"), Some(len as u64));
        assert!(is_whole(&file).expect("read"));
    }
}

#[test]
fn damage_is_found_and_other_files_are_none() {
    let saved = saved(&[7; 2000]);
    for at in (0..saved.len()).step_by(13) {
        let mut damaged = saved.clone();
        damaged[at] ^= 16;
        let file = file(&damaged);
        let found = backup_len(&file).expect("read").is_some() && is_whole(&file).expect("read");
        assert!(!found, "byte {at}");
    }
    for len in [0, 31, 32, 40, 512, 544, 1024] {
        assert_eq!(backup_len(&file(&vec![1; len])).expect("read"), None);
        assert!(!is_whole(&file(&vec![1; len])).expect("read"));
    }
}

#[test]
fn one_at_a_time_and_failures_are_told() {
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let make = move || {
        let _ = wait.lock().expect("nobody panics").recv();
        Err("no room".to_owned())
    };
    let backups = Backups::new(Some(Box::new(make)));
    let mut first = begin(&backups).expect("begun");
    assert_eq!(begin(&backups).expect_err("one at a time"), Refusal::TOO_MANY);
    drop(go);
    let told = first.blocking_recv().expect("an answer").expect_err("it failed");
    assert!(told.message().contains("no room"), "{told}");
    assert!(first.blocking_recv().is_none());
    assert!(begin(&Backups::new(None)).is_err());
}
