use super::*;
use mio::{Poll, Token, Waker};
use quorate_order::visigoth::OracleRequest;
use quorate_types::{InstanceId, MembershipId};
use std::sync::atomic::{AtomicU32, Ordering};

const CLUSTER: ClusterId = ClusterId::new(7);
const SOON: Duration = Duration::from_secs(20);

fn start(oracle: impl Oracle + 'static) -> (Oracles, Receiver<Completion>, Poll) {
    let poll = Poll::new().unwrap();
    let waker = Arc::new(Waker::new(poll.registry(), Token(0)).unwrap());
    let (mailbox, completions) = Mailbox::new(waker);
    (Oracles::start(Box::new(oracle), CLUSTER, None, mailbox).unwrap(), completions, poll)
}

fn work(instance: u16, membership: u64, swap: Option<(u64, &'static [u8])>) -> OracleWork {
    let wish = swap.map_or(Wish::Read, |(version, value)| Wish::Swap(version, Bytes::from_static(value)));
    let request = OracleRequest { membership: MembershipId::new(membership), wish };
    OracleWork { instance: InstanceId::new(instance), request }
}

fn next(completions: &Receiver<Completion>) -> (u16, OracleAnswer) {
    match completions.recv_timeout(SOON) {
        Ok(Completion::Oracle { instance, answer }) => (instance.number(), answer),
        other => panic!("{other:?}"),
    }
}

#[test]
fn each_instance_and_membership_has_a_register() {
    let (oracles, completions, _poll) = start(MemoryOracle::default());
    let says = |work: OracleWork| {
        oracles.ask(work);
        let (instance, OracleAnswer { membership, version, value }) = next(&completions);
        (instance, membership.number(), version, value)
    };
    let value = Bytes::from_static;
    assert_eq!(says(work(1, 1, None)), (1, 1, 0, Bytes::new()));
    assert_eq!(says(work(1, 1, Some((0, b"one")))), (1, 1, 1, value(b"one")));
    assert_eq!(says(work(1, 1, Some((0, b"two")))), (1, 1, 1, value(b"one")), "it had changed");
    assert_eq!(says(work(1, 1, Some((1, b"two")))), (1, 1, 2, value(b"two")));
    assert_eq!(says(work(2, 1, None)), (2, 1, 0, Bytes::new()));
    assert_eq!(says(work(1, 2, None)), (1, 2, 0, Bytes::new()));
    assert_eq!(oracles.status().answered, 7, "it was read once when the thread began");
}

/// Nobody needs it, and the status knows all the same that it is away.
#[test]
fn it_is_read_now_and_then() {
    struct Away(Arc<AtomicU32>);
    impl Oracle for Away {
        fn serve(&mut self, _: &str, swap: Option<Held>) -> Result<Held, String> {
            assert_eq!(swap, None, "it is only read");
            self.0.fetch_add(1, Ordering::Relaxed);
            Err("it is away".to_owned())
        }
        fn name(&self) -> String {
            "one that is away".to_owned()
        }
    }
    let calls = Arc::<AtomicU32>::default();
    let (oracles, completions, _poll) = start(Away(calls.clone()));
    let until = Instant::now() + LOOK_EVERY + SOON;
    while oracles.status().problem().is_none() || calls.load(Ordering::Relaxed) < 2 {
        assert!(Instant::now() < until, "it is never read");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(completions.is_empty(), "nobody asked");
}

/// Fails, panics, and then does well.
struct Sick(Arc<AtomicU32>);

impl Oracle for Sick {
    fn serve(&mut self, register: &str, _: Option<Held>) -> Result<Held, String> {
        assert_eq!(register, "quorate/00000000000000000000000000000007/1/1");
        match self.0.fetch_add(1, Ordering::Relaxed) {
            0 => Err("nobody listens there".to_owned()),
            1 => panic!("on purpose"),
            _ => Ok((3, Bytes::new())),
        }
    }
    fn name(&self) -> String {
        "a sick one".to_owned()
    }
}

#[test]
fn what_fails_is_told_and_what_follows_is_answered() {
    let calls = Arc::<AtomicU32>::default();
    let (oracles, completions, _poll) = start(Sick(calls.clone()));
    let fails = |times: u64, why: &str| {
        let until = Instant::now() + SOON;
        while oracles.status().failed < times {
            assert!(Instant::now() < until, "it never fails");
            std::thread::sleep(Duration::from_millis(1));
        }
        let problem = oracles.status().problem().expect("it does not answer");
        assert!(problem.contains("a sick one") && problem.ends_with(why), "{problem}");
    };
    // It is read once when it starts.
    fails(1, "nobody listens there");
    oracles.ask(work(1, 1, None));
    fails(2, "its client panicked");
    assert!(completions.is_empty());
    oracles.ask(work(1, 1, None));
    assert_eq!(next(&completions).1.version, 3);
    assert_eq!(oracles.status().problem(), None);
}

/// The oracle hangs: no lane waits for it, and the questions do not pile up.
#[test]
fn a_full_queue_drops_questions() {
    let (open, gate) = bounded::<()>(0);
    struct Hanging(Receiver<()>);
    impl Oracle for Hanging {
        fn serve(&mut self, _: &str, _: Option<Held>) -> Result<Held, String> {
            self.0.recv().map_or_else(|_| Ok(Held::default()), |()| Err("no".to_owned()))
        }
        fn name(&self) -> String {
            "a hanging one".to_owned()
        }
    }
    let (oracles, completions, _poll) = start(Hanging(gate));
    for _ in 0..10 * QUESTIONS_MAX {
        oracles.ask(work(1, 1, None));
    }
    drop(open);
    let mut answers = 0;
    while completions.recv_timeout(Duration::from_secs(1)).is_ok() {
        answers += 1;
    }
    assert!((QUESTIONS_MAX..=QUESTIONS_MAX + 1).contains(&answers), "{answers}");
}
