use super::*;

/// The file is a ring: what is appended goes round, and the last bytes written are found where they belong.
#[test]
fn the_file_is_overwritten_round_and_round() {
    let dir = tempfile::tempdir().unwrap();
    let mut log = LogFile::open(dir.path(), "log", 1, Sync::Write).unwrap().unwrap();
    let chunk: Vec<u8> = (0..300_000u32).map(|i| (i % 251) as u8).collect();
    for _ in 0..7 {
        let (a, b) = chunk.split_at(1000);
        log.append(&mut [IoSlice::new(a), IoSlice::new(b)]).unwrap();
    }
    assert_eq!(log.writes, 7);
    let file = std::fs::read(dir.path().join("log")).unwrap();
    assert_eq!(file.len(), 1 << 20, "the file never grows");
    let stream: Vec<u8> = chunk.iter().copied().cycle().take(7 * chunk.len()).collect();
    for (at, byte) in stream.iter().enumerate().skip(stream.len() - (1 << 20)) {
        assert_eq!(file[at % (1 << 20)], *byte, "stream offset {at}");
    }
}

#[test]
fn in_memory_mode_there_is_no_file() {
    let dir = tempfile::tempdir().unwrap();
    assert!(LogFile::open(dir.path(), "log", 1, Sync::Memory).unwrap().is_none());
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

/// The disk thread says how far it came, and its end waits for everything that it was given.
#[test]
fn the_disk_thread_reports_what_is_durable() {
    let dir = tempfile::tempdir().unwrap();
    let log = LogFile::open(dir.path(), "log", 1, Sync::Fdatasync).unwrap().unwrap();
    let mut disk = Disk::start(log).unwrap();
    let mut bytes = 0;
    for i in 0..10u64 {
        let mut frame = Frame::new(64);
        frame.seal(64, i * 4);
        bytes += frame.sealed().len() as u64;
        disk.write(Arc::new(frame));
    }
    let writes = disk.finish().unwrap();
    assert!((1..=10).contains(&writes));
    assert_eq!(disk.durable().unwrap(), bytes);
}

/// A disk that refuses is told to the leader, with the system's reason.
#[test]
fn a_write_that_fails_ends_the_run_with_its_reason() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("log");
    std::fs::write(&path, [0; 4096]).unwrap();
    let read_only = File::open(&path).unwrap();
    let log =
        LogFile { file: read_only, at: 0, size: 4096, sync: false, sync_delay: Duration::ZERO, writes: 0 };
    let mut disk = Disk::start(log).unwrap();
    let mut frame = Frame::new(64);
    frame.seal(64, 0);
    disk.write(Arc::new(frame));
    let error = loop {
        match disk.durable() {
            Ok(_) => std::thread::yield_now(),
            Err(e) => break e.to_string(),
        }
    };
    assert!(error.contains("write the log file"), "{error}");
}
