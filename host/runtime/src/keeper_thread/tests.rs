use super::*;
use crate::files::MemoryFiles;
use bytes::Bytes;
use mio::{Poll, Token, Waker};
use quorate_state::checkpoint::{Image, Kind};
use quorate_state::store::Store;
use quorate_types::Seq;

fn image(seq: u64, objects: u64) -> Image {
    let mut store = Store::new();
    for key in 0..objects {
        store.put(&key.to_be_bytes(), &[7; 1000]);
    }
    let system = Bytes::from_static(b"the system part");
    Image { seq: Seq::new(seq), border: seq, system: system.into(), objects: store.version() }
}

fn thread(rate: Option<u64>) -> (KeeperThread, Receiver<Completion>, Poll) {
    let poll = Poll::new().unwrap();
    let waker = Arc::new(Waker::new(poll.registry(), Token(0)).unwrap());
    let (mailbox, completions) = Mailbox::new(waker);
    let mut files: Box<dyn Files + Send> = Box::new(MemoryFiles::default());
    let (keeper, _) = Keeper::open(&mut *files, false).unwrap();
    (KeeperThread::start(keeper, files, rate, mailbox).unwrap(), completions, poll)
}

fn next(completions: &Receiver<Completion>) -> Report {
    match completions.recv_timeout(Duration::from_secs(20)).expect("it reports") {
        Completion::Kept(report) => report,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_border_is_reported_first_and_then_its_file() {
    let (thread, completions, _poll) = thread(None);
    let image = image(10, 50);
    let expected = image.digest();
    thread.submit(Job::Border { image, write: Some(Kind::Full) });
    assert!(matches!(next(&completions), Report::Digest { digests, .. } if digests.image == expected));
    assert!(matches!(next(&completions), Report::Written { digest, .. } if digest == expected));
    thread.stop();
}

#[test]
fn who_waits_gets_it_written_without_pauses() {
    // At this rate the file alone would take hours.
    let (thread, completions, _poll) = thread(Some(100));
    thread.submit(Job::Border { image: image(10, 500), write: Some(Kind::Full) });
    thread.wait();
    let reports: Vec<Completion> = completions.try_iter().collect();
    assert!(reports.iter().any(|report| matches!(report, Completion::Kept(Report::Written { .. }))));
    thread.stop();
}

#[test]
fn what_is_asked_in_a_pause_is_answered() {
    let (thread, completions, _poll) = thread(Some(1000));
    thread.submit(Job::Border { image: image(10, 5000), write: Some(Kind::Full) });
    assert!(matches!(next(&completions), Report::Digest { .. }));
    let digest = image(9, 1).digest();
    thread.submit(Job::ReadChunk { ticket: 77, seq: Seq::new(9), digest, chunk: 0 });
    assert!(matches!(next(&completions), Report::Chunk { ticket: 77, answer: None }));
    // It does not finish what would take hours.
    thread.stop();
}

#[test]
fn what_was_asked_before_a_pause_is_answered_in_it() {
    let (sender, orders) = unbounded();
    let digest = image(9, 1).digest();
    sender.send(Order::Job(Job::Border { image: image(10, 20_000), write: None })).unwrap();
    for ticket in 0..3 {
        sender.send(Order::Job(Job::ReadChunk { ticket, seq: Seq::new(9), digest, chunk: 0 })).unwrap();
    }
    let poll = Poll::new().unwrap();
    let (mailbox, completions) = Mailbox::new(Arc::new(Waker::new(poll.registry(), Token(0)).unwrap()));
    let thread = std::thread::spawn(move || {
        let mut files: Box<dyn Files + Send> = Box::new(MemoryFiles::default());
        let (keeper, _) = Keeper::open(&mut *files, false).unwrap();
        let pace = Pace { rate: Some(1000), owed: Duration::ZERO, urgent: false };
        let stop = Arc::default();
        Worker { keeper, files, orders, mailbox: &mailbox, waiting: Vec::new(), pace, stop }.run();
    });
    let reports: Vec<Report> = (0..4).map(|_| next(&completions)).collect();
    // Its digest is computed with pauses in between, and questions are not for a pause to delay.
    let answers = reports[..3].iter().filter(|report| matches!(report, Report::Chunk { answer: None, .. }));
    assert_eq!(answers.count(), 3);
    assert!(matches!(reports[3], Report::Digest { .. }));
    drop(sender);
    thread.join().unwrap();
}

#[test]
fn questions_do_not_make_it_write_faster() {
    // A step writes 1 MiB: at this rate the second one would come after hours.
    let (thread, completions, _poll) = thread(Some(100));
    thread.submit(Job::Border { image: image(10, 5000), write: Some(Kind::Full) });
    assert!(matches!(next(&completions), Report::Digest { .. }));
    let digest = image(9, 1).digest();
    for ticket in 0..200 {
        thread.submit(Job::ReadChunk { ticket, seq: Seq::new(9), digest, chunk: 0 });
        assert!(matches!(next(&completions), Report::Chunk { answer: None, .. }), "nothing was written");
    }
    thread.stop();
}

#[test]
fn work_is_followed_by_pauses_unless_it_falls_behind() {
    let (second, mib) = (Duration::from_secs(1), 1 << 20);
    let pace = || Pace { rate: Some(10 * mib), owed: Duration::ZERO, urgent: false };
    let owed = |bytes, took, behind| {
        let mut pace = pace();
        pace.worked(bytes, took, behind);
        pace.owed
    };
    assert_eq!(owed(mib, Duration::ZERO, false), second / 10, "the rate");
    assert_eq!(owed(0, second, false), 7 * second, "one part in eight");
    assert_eq!(owed(mib, second / 100, false), second * 9 / 100, "whichever is more");
    assert_eq!(owed(mib, second / 100, true), second * 9 / 100);
    assert_eq!(owed(0, second, true), Duration::ZERO, "the rate alone");
    let mut unlimited = Pace { rate: None, ..pace() };
    unlimited.worked(mib, second, false);
    let mut urgent = Pace { urgent: true, ..pace() };
    urgent.worked(mib, second, false);
    assert_eq!(unlimited.owed + urgent.owed, Duration::ZERO);
}
