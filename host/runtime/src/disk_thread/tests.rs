use super::{Completion, DiskThreads, Mailbox, WARN_AGAIN, is_due};
use crate::disk::Disk;
use bytes::Bytes;
use crossbeam_channel::Receiver;
use mio::{Poll, Token, Waker};
use quorate_log::{DiskFull, Extent, LogEffect};
use quorate_types::RecordId;
use rustix::io::Errno;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

const PANICS: u64 = 99;
const EXTENT: Extent = Extent { id: RecordId::new(1), position: 0, segment: 0, offset: 0, len: 2 };

/// Has no file descriptor left for this many calls.
struct Poor(AtomicU32);

impl Poor {
    fn call(&self) -> io::Result<()> {
        let left = self.0.try_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1));
        left.map_or(Ok(()), |_| Err(Errno::MFILE.into()))
    }
}

impl Disk for Poor {
    fn segments(&self) -> io::Result<Vec<u64>> {
        Ok(Vec::new())
    }
    fn read_segment(&self, _: u64) -> io::Result<Bytes> {
        Ok(Bytes::new())
    }
    fn read(&self, _: u64, _: u64, len: u32) -> io::Result<Bytes> {
        self.call().map(|()| Bytes::from(vec![7; len as usize]))
    }
    fn write(&self, _: u64, _: u64, _: &[Bytes]) -> io::Result<()> {
        Ok(())
    }
    fn sync(&self, _: &[u64]) -> io::Result<()> {
        Ok(())
    }
    fn prepare(&self, segment: u64, _: u64) -> io::Result<()> {
        assert_ne!(segment, PANICS, "on purpose");
        self.call()
    }
    fn remove(&self, _: u64) -> io::Result<()> {
        Ok(())
    }
}

fn threads(failing: u32) -> (DiskThreads, Receiver<Completion>, Poll) {
    let poll = Poll::new().unwrap();
    let waker = Arc::new(Waker::new(poll.registry(), Token(0)).unwrap());
    let (mailbox, completions) = Mailbox::new(waker);
    let disk: Arc<dyn Disk> = Arc::new(Poor(AtomicU32::new(failing)));
    (DiskThreads::start(&disk, 4096, &mailbox).unwrap(), completions, poll)
}

fn next(completions: &Receiver<Completion>) -> Completion {
    completions.recv_timeout(Duration::from_secs(20)).expect("it reports")
}

#[test]
fn too_many_open_files_pass() {
    let (threads, completions, _poll) = threads(1);
    threads.submit(LogEffect::Prepare { segment: 3 });
    assert!(matches!(next(&completions), Completion::Prepared { segment: 3, result: Err(DiskFull) }));
    threads.submit(LogEffect::Prepare { segment: 3 });
    assert!(matches!(next(&completions), Completion::Prepared { segment: 3, result: Ok(()) }));
    threads.stop();
}

#[test]
fn old_records_are_read_once_a_file_can_be_opened() {
    let (threads, completions, _poll) = self::threads(3);
    threads.load(5, vec![EXTENT]);
    let completion = next(&completions);
    assert!(
        matches!(&completion, Completion::Loaded { load: 5, records } if *records == [Bytes::from_static(&[7, 7])]),
        "{completion:?}"
    );
    threads.stop();
}

#[test]
fn an_end_is_not_held_up_by_open_files() {
    let (threads, _completions, _poll) = self::threads(u32::MAX);
    threads.load(5, vec![EXTENT]);
    threads.stop();
}

#[test]
fn a_disk_thread_that_panics_is_reported() {
    let (threads, completions, _poll) = self::threads(0);
    threads.submit(LogEffect::Prepare { segment: PANICS });
    let completion = next(&completions);
    assert!(
        matches!(&completion, Completion::Failed(why) if why == "the thread that reads the log back panicked"),
        "{completion:?}"
    );
    threads.stop();
}

#[test]
fn a_full_disk_is_logged_now_and_then() {
    let (mut last, begin) = (None, Instant::now());
    let ms = Duration::from_millis;
    let due: Vec<bool> = (0..60).map(|at| is_due(&mut last, begin + ms(500) * at)).collect();
    let every = WARN_AGAIN.as_millis() as usize / 500;
    let expected: Vec<bool> = (0..60).map(|at| at % every == 0).collect();
    assert_eq!(due, expected);
}
