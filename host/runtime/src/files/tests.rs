use super::{CheckpointFiles, FileError, MemoryFiles, OPEN_MAX};
use bytes::Bytes;
use quorate_state::checkpoint::Files;
use std::io::ErrorKind;

/// Both do the same.
fn each(test: impl Fn(&mut dyn Files)) {
    let directory = tempfile::tempdir().unwrap();
    test(&mut CheckpointFiles::new(&directory.path().join("checkpoints")).unwrap());
    test(&mut MemoryFiles::new());
}

fn kind<T: std::fmt::Debug>(result: std::io::Result<T>) -> ErrorKind {
    result.expect_err("it fails").kind()
}

fn bytes(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

#[test]
fn what_was_appended_is_read_wherever_it_was_cut() {
    each(|files| {
        files.create("9.part").unwrap();
        files.append("9.part", &[bytes("ab"), Bytes::new(), bytes("cde")]).unwrap();
        files.append("9.part", &[]).unwrap();
        files.append("9.part", &[bytes("fghij")]).unwrap();
        files.sync("9.part").unwrap();
        assert_eq!(files.len("9.part").unwrap(), 10);
        let all = "abcdefghij";
        for from in 0..=10 {
            for to in from..=10 {
                assert_eq!(files.read("9.part", from as u64, to - from).unwrap(), &all[from..to]);
            }
        }
        assert_eq!(kind(files.read("9.part", 5, 6)), ErrorKind::UnexpectedEof);
        assert_eq!(kind(files.read("9.part", u64::MAX, 2)), ErrorKind::UnexpectedEof);
        assert_eq!(
            kind(files.read("9.part", 0, usize::MAX)),
            ErrorKind::UnexpectedEof,
            "before memory is taken"
        );
    });
}

/// The file is open here while somebody else cuts it.
#[test]
fn a_file_is_as_long_as_it_is_on_the_disk() {
    let directory = tempfile::tempdir().unwrap();
    let mut files = CheckpointFiles::new(directory.path()).unwrap();
    files.create("9.full").unwrap();
    files.append("9.full", &[bytes("abcdef")]).unwrap();
    files.sync("9.full").unwrap();
    assert_eq!(files.read("9.full", 0, 6).unwrap(), "abcdef");
    let other = std::fs::OpenOptions::new().write(true).open(directory.path().join("9.full")).unwrap();
    other.set_len(4).unwrap();
    assert_eq!(files.len("9.full").unwrap(), 4);
    files.append("9.full", &[bytes("EF")]).unwrap();
    assert_eq!(files.read("9.full", 0, 6).unwrap(), "abcdEF");
}

/// Files are written in pieces, and what is left over goes another way: everything arrives however it is cut and synced.
#[test]
fn large_files_arrive_whole_however_they_are_written() {
    let all: Vec<u8> = (0..5_u32 << 20).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let all = Bytes::from(all);
    for (step, sync_every) in
        [(77_777, 3), (4096, 1000), (1 << 20, 1), (3 << 20, 1), (999, 700), (5 << 20, 9)]
    {
        let directory = tempfile::tempdir().unwrap();
        let mut files = CheckpointFiles::new(directory.path()).unwrap();
        files.create("a").unwrap();
        for (number, from) in (0..all.len()).step_by(step).enumerate() {
            let to = (from + step).min(all.len());
            let middle = from + (to - from) / 3;
            files.append("a", &[all.slice(from..middle), all.slice(middle..to)]).unwrap();
            assert_eq!(files.len("a").unwrap(), to as u64);
            if number % sync_every == 0 {
                files.sync("a").unwrap();
                let on_disk = std::fs::read(directory.path().join("a")).unwrap();
                assert!(on_disk == all[..to], "{step}: {to} bytes were synced, {} are there", on_disk.len());
            }
        }
        assert!(files.read("a", 0, all.len()).unwrap() == all, "{step}: it is read before it is synced");
        files.append("a", &[bytes("more")]).unwrap();
        files.sync("a").unwrap();
        files.publish("a", "b").unwrap();
        let on_disk = std::fs::read(directory.path().join("b")).unwrap();
        assert!(on_disk.strip_suffix(b"more") == Some(&all[..]), "{step}");
    }
}

/// What was taken is not lost when many other files are opened before it is synced.
/// What is read one after the other is read ahead: in whatever stretches, and while the file changes.
#[test]
fn what_is_read_ahead_is_what_is_there() {
    let mut all: Vec<u8> = (0..3_u32 << 20).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let directory = tempfile::tempdir().unwrap();
    let mut files = CheckpointFiles::new(directory.path()).unwrap();
    files.create("a").unwrap();
    files.append("a", &[Bytes::from(all.clone())]).unwrap();
    files.sync("a").unwrap();
    for (step, jump, at_once) in
        [(65_000, 0, 1), (65_000, 900_001, 9), (700, 0, 3), (2 << 20, 0, 1), (4096, 1, 700)]
    {
        let (mut at, mut number) = (0, 0);
        while at < all.len() {
            let len = step.min(all.len() - at);
            assert!(files.read("a", at as u64, len).unwrap() == all[at..at + len], "{len} bytes at {at}");
            (at, number) = (at + len, number + 1);
            if number % 5 == 0 && at + 10 < all.len() {
                all[at..at + 10].fill(number as u8);
                files.write_at("a", at as u64, &[number as u8; 10]).unwrap();
            }
            at += if number % at_once == 0 { jump } else { 0 };
        }
        assert_eq!(kind(files.read("a", all.len() as u64 - 5, 6)), ErrorKind::UnexpectedEof);
    }
    // Another program's writes are seen by who reads the file from its beginning.
    for from in [0, 50_000, 100_000] {
        assert_eq!(files.read("a", from, 50_000).unwrap(), all[from as usize..from as usize + 50_000]);
    }
    all.fill(7);
    std::fs::write(directory.path().join("a"), &all).unwrap();
    for from in [0, 50_000, 100_000] {
        assert_eq!(files.read("a", from, 50_000).unwrap(), all[from as usize..from as usize + 50_000]);
    }
}

#[test]
fn a_file_that_is_written_stays_open() {
    let directory = tempfile::tempdir().unwrap();
    let mut files = CheckpointFiles::new(directory.path()).unwrap();
    files.create("written").unwrap();
    files.append("written", &[bytes("all of it")]).unwrap();
    for number in 0..3 * OPEN_MAX {
        files.create(&number.to_string()).unwrap();
    }
    files.sync("written").unwrap();
    assert_eq!(std::fs::read(directory.path().join("written")).unwrap(), b"all of it");
}

#[test]
fn bytes_are_repaired_and_files_cut() {
    each(|files| {
        files.create("a").unwrap();
        files.append("a", &[bytes("abc"), bytes("def"), bytes("ghi")]).unwrap();
        let before = files.read("a", 0, 9).unwrap();
        files.write_at("a", 2, b"CDEFG").unwrap();
        assert_eq!(files.read("a", 0, 9).unwrap(), "abCDEFGhi");
        assert_eq!(before, "abcdefghi", "what was read stays");
        assert_eq!(kind(files.write_at("a", 8, b"xy")), ErrorKind::UnexpectedEof, "it never grows");
        files.truncate("a", 4).unwrap();
        files.truncate("a", 100).unwrap();
        assert_eq!(files.len("a").unwrap(), 4);
        files.append("a", &[bytes("!")]).unwrap();
        assert_eq!(files.read("a", 0, 5).unwrap(), "abCD!");
        files.truncate("a", 0).unwrap();
        files.append("a", &[bytes("new")]).unwrap();
        assert_eq!(files.read("a", 0, 3).unwrap(), "new");
    });
}

#[test]
fn a_published_file_takes_the_place_of_the_old_one() {
    each(|files| {
        for (name, text) in [("7.full", "old"), ("7.part", "new one")] {
            files.create(name).unwrap();
            files.append(name, &[bytes(text)]).unwrap();
            files.sync(name).unwrap();
        }
        files.publish("7.part", "7.full").unwrap();
        assert_eq!(files.list().unwrap(), ["7.full"]);
        assert_eq!((files.len("7.full").unwrap(), files.read("7.full", 4, 3).unwrap()), (7, bytes("one")));
        assert_eq!(kind(files.publish("7.part", "8.full")), ErrorKind::NotFound);
        files.create("7.full").unwrap();
        assert_eq!(files.len("7.full").unwrap(), 0, "made anew, it is empty");
        files.delete("7.full").unwrap();
        assert!(files.list().unwrap().is_empty());
        for missing in [files.delete("7.full"), files.sync("7.full"), files.len("7.full").map(drop)] {
            assert_eq!(kind(missing), ErrorKind::NotFound);
        }
    });
}

#[test]
fn no_name_leads_out_of_the_directory() {
    each(|files| {
        let long = "x".repeat(256);
        for name in ["", ".", "..", "../a", "a/b", "/etc/passwd", ".hidden", "a\0b", "a b", &long] {
            assert_eq!(kind(files.create(name)), ErrorKind::InvalidInput, "{name:?}");
        }
        files.create("a").unwrap();
        assert_eq!(kind(files.publish("a", "../b")), ErrorKind::InvalidInput);
        assert_eq!(files.list().unwrap(), ["a"]);
    });
}

#[test]
fn what_was_written_is_there_in_the_next_run() {
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().join("checkpoints");
    let mut files = CheckpointFiles::new(&place).unwrap();
    files.create("a").unwrap();
    files.append("a", &[bytes("kept")]).unwrap();
    drop(files);
    // What is not ours is left alone.
    std::fs::create_dir(place.join("lost+found")).unwrap();
    std::fs::create_dir(place.join("directory")).unwrap();
    std::fs::write(place.join(".swap"), "").unwrap();
    let mut files = CheckpointFiles::new(&place).unwrap();
    assert_eq!(files.list().unwrap(), ["a"]);
    files.append("a", &[bytes(" and more")]).unwrap();
    assert_eq!(files.read("a", 0, 13).unwrap(), "kept and more");
}

#[test]
fn few_files_are_open_at_once() {
    let directory = tempfile::tempdir().unwrap();
    let mut files = CheckpointFiles::new(directory.path()).unwrap();
    let name = |number: usize| format!("{number}.full");
    for number in 0..3 * OPEN_MAX {
        files.create(&name(number)).unwrap();
        files.append(&name(number), &[Bytes::from(vec![number as u8; number])]).unwrap();
        // The one that is written again and again stays open.
        files.append(&name(0), &[bytes("0")]).unwrap();
        assert!(files.open.len() <= OPEN_MAX && files.open.iter().any(|open| open.name == name(0)));
    }
    assert_eq!(files.len(&name(0)).unwrap(), 3 * OPEN_MAX as u64);
    for number in 1..3 * OPEN_MAX {
        assert_eq!(files.read(&name(number), 0, number).unwrap(), vec![number as u8; number]);
    }
}

#[test]
fn an_error_names_the_file_and_keeps_its_kind() {
    let directory = tempfile::tempdir().unwrap();
    let mut files = CheckpointFiles::new(directory.path()).unwrap();
    let error = files.read("5.full", 0, 1).expect_err("it is not there");
    assert_eq!(error.kind(), ErrorKind::NotFound);
    let text = error.to_string();
    assert!(text.contains("opening") && text.contains("5.full") && text.contains("No such file"), "{text}");
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<FileError>()).expect("our error");
    assert_eq!(inner.why.raw_os_error(), Some(2));
    // A file stands where the directory should be.
    let place = directory.path().join("file");
    std::fs::write(&place, "").unwrap();
    let error = CheckpointFiles::new(&place).err().expect("it is no directory");
    assert!(error.to_string().contains(place.to_str().unwrap()), "{error}");
}
