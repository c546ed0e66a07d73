//! The client's thread, sockets, futures and queues against a small cluster in threads (`fake`).

use crate::fake::{CLUSTER, Fake};
use quorate::client::{
    AdminConnection, BlockingClient, BuildError, Client, ClientBuilder, ClusterId, Commands, CompletionQueue,
    Error, ReadOptions, ReplicaId, Session,
};
use quorate_wire::{FrameKind, OutFrame};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// A runtime of our own: the futures need no particular one.
fn run<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return value;
        }
        thread::park_timeout(Duration::from_secs(20));
    }
}

fn builder(fake: &Fake) -> ClientBuilder {
    Client::builder().members(fake.members.clone()).cluster(CLUSTER)
}

fn blocking(fake: &Fake) -> BlockingClient {
    builder(fake).build_blocking().expect("builds")
}

fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(10);
    while !holds() {
        assert!(Instant::now() < end, "{what}");
        thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn calls_are_answered_in_order() {
    let fake = Fake::start(3);
    let client = blocking(&fake);
    let session = client.open_session().expect("opens");
    let mut commands = Commands::new();
    commands.push(b"one");
    commands.push(b"three");
    let replies = session.call(&commands).expect("runs");
    assert_eq!(replies.iter().collect::<Vec<_>>(), [b"one".as_slice(), b"three"]);
    assert_eq!(session.call_one(b"x").expect("runs").first(), Some(b"x".as_slice()));
    assert_eq!(client.client().leader(), Some(ReplicaId::new(1)));
    session.close().expect("closes");
    assert!(fake.state.lock().expect("no panic").sessions.values().all(|session| session.closed));
}

#[test]
fn many_calls_are_under_way_and_share_frames() {
    let fake = Fake::start(3);
    let client = builder(&fake).build().expect("builds");
    let session = run(client.open_session()).expect("opens");
    let calls: Vec<_> = (0..5000u64).map(|call| (call, session.call_one(&call.to_le_bytes()))).collect();
    for (call, future) in calls {
        assert_eq!(run(future).expect("runs").first(), Some(call.to_le_bytes().as_slice()));
    }
    let state = fake.state.lock().expect("no panic");
    let ran = &state.sessions.values().next().expect("one").ran;
    assert!(ran.iter().enumerate().all(|(index, command)| *command == (index as u64).to_le_bytes()));
    assert!(state.requests_frames < 2500, "{} frames for 5000 calls", state.requests_frames);
}

#[test]
fn large_calls_pass_in_pieces() {
    let fake = Fake::start(1);
    let client = blocking(&fake);
    let session = client.open_session().expect("opens");
    for round in 0..8u8 {
        let command = vec![round; 1_000_000];
        assert_eq!(session.call_one(&command).expect("runs").first(), Some(command.as_slice()));
    }
    let error = session.call_one(&vec![0; 2_000_000]).expect_err("over the limit");
    assert!(matches!(error, Error::TooLarge { outcome_unknown: false, .. }), "{error}");
}

#[test]
fn fail_over_repeats_nothing_and_loses_nothing() {
    let fake = Fake::start(3);
    let client = blocking(&fake);
    let threads: Vec<_> = (0..4u64)
        .map(|worker| {
            let client = client.clone();
            thread::spawn(move || {
                let session = client.open_session().expect("opens");
                for call in 0..300u64 {
                    let command = (worker * 1000 + call).to_le_bytes();
                    assert_eq!(session.call_one(&command).expect("runs").first(), Some(command.as_slice()));
                    thread::sleep(Duration::from_micros(200));
                }
            })
        })
        .collect();
    thread::sleep(Duration::from_millis(40));
    fake.fail_over(0, 1);
    thread::sleep(Duration::from_millis(40));
    fake.fail_over(1, 2);
    threads.into_iter().for_each(|thread| thread.join().expect("all calls succeed"));
    let state = fake.state.lock().expect("no panic");
    for session in state.sessions.values() {
        let numbers: Vec<u64> =
            session.ran.iter().map(|c| u64::from_le_bytes(*c.first_chunk().expect("8 bytes"))).collect();
        assert_eq!(numbers.len(), 300);
        assert!(numbers.windows(2).all(|pair| pair[0] + 1 == pair[1]));
    }
}

#[test]
fn a_thousand_sessions_from_one_thread() {
    let fake = Fake::start(3);
    let client = builder(&fake).build().expect("builds");
    let sessions: Vec<Session> = {
        let opening: Vec<_> = (0..1000).map(|_| client.open_session()).collect();
        opening.into_iter().map(|session| run(session).expect("opens")).collect()
    };
    let queue = CompletionQueue::new();
    let mut left = vec![10u32; sessions.len()];
    for (tag, session) in sessions.iter().enumerate() {
        client.submit(session, quorate::client::Encoded::one(b"12345678"), tag as u64, &queue);
    }
    let (mut batch, mut done, mut bursts) = (Vec::new(), 0, 0);
    while done < 10_000 {
        assert!(queue.recv_batch(&mut batch, Duration::from_secs(10)) > 0, "stuck at {done}");
        bursts += 1;
        for completed in batch.drain(..) {
            assert_eq!(completed.result.expect("runs").first(), Some(b"12345678".as_slice()));
            done += 1;
            let tag = completed.tag as usize;
            left[tag] -= 1;
            if left[tag] > 0 {
                client.submit(
                    &sessions[tag],
                    quorate::client::Encoded::one(b"12345678"),
                    completed.tag,
                    &queue,
                );
            }
        }
    }
    assert!(left.iter().all(|left| *left == 0));
    assert!(bursts < 10_000, "{bursts} bursts");
    assert_eq!(queue.recv_batch(&mut batch, Duration::from_millis(10)), 0);
}

#[test]
fn reads_are_answered_by_the_replica_that_was_asked() {
    let fake = Fake::start(3);
    let client = blocking(&fake);
    let session = client.open_session().expect("opens");
    session.call_one(b"x").expect("runs");
    let read = client.read(b"query".as_slice(), ReadOptions::STRONG).expect("answers");
    assert_eq!(read.body, b"query".as_slice());
    assert!(read.seq.number() >= 2);
    for member in 1..=3 {
        let options = ReadOptions { replica: Some(ReplicaId::new(member)), ..ReadOptions::WEAK };
        assert!(client.read(b"q".as_slice(), options).is_ok());
    }
    let options = ReadOptions { replica: Some(ReplicaId::new(9)), ..ReadOptions::WEAK };
    assert_eq!(client.read(b"q".as_slice(), options), Err(Error::UnknownReplica(ReplicaId::new(9))));
}

#[test]
fn operators_get_answers() {
    let fake = Fake::start(3);
    let client = blocking(&fake);
    assert_eq!(client.status(ReplicaId::new(2)).expect("answers"), "{\"replica\":2}");
    client.open_session().expect("opens");
    assert_eq!(client.transfer(Some(ReplicaId::new(3))).expect("answers"), "r1 hands over to 3");
    assert_eq!(client.transfer(None).expect("answers"), "r1 hands over to 0");
    assert_eq!(client.status(ReplicaId::new(4)), Err(Error::UnknownReplica(ReplicaId::new(4))));
}

#[test]
fn an_operator_talks_as_long_as_it_takes() {
    let fake = Fake::start(2);
    let (id, address) = (fake.members[1].0, fake.members[1].1.as_str());
    let dial =
        |replica, cluster| AdminConnection::connect(replica, address, cluster, None, Duration::from_secs(5));
    let mut connection = dial(id, CLUSTER).expect("connects");
    let mut sender = connection.sender().expect("a second handle");
    assert!(connection.receive(Duration::from_millis(20)).expect("it lives").is_none(), "nothing was asked");
    for _ in 0..3 {
        sender.send(&OutFrame::new(FrameKind::StatusRequest, &[], vec![])).expect("it is sent");
        let frame = connection.receive(Duration::from_secs(5)).expect("it lives").expect("an answer");
        assert_eq!((frame.kind, &frame.payload[..]), (FrameKind::Status, &b"{\"replica\":2}"[..]));
    }
    let waits = thread::spawn(move || connection.receive(Duration::from_secs(60)));
    drop(sender);
    waits.join().expect("no panic").expect_err("whoever receives is woken at the end");

    let why = dial(id, ClusterId::new(9)).expect_err("another cluster");
    assert_eq!(why, "refused the connection: another cluster lives here");
    let why = dial(ReplicaId::new(1), CLUSTER).expect_err("another replica");
    assert!(why.contains("r2 answers at"), "{why}");
}

#[test]
fn the_last_handle_closes_sessions_and_connections() {
    let fake = Fake::start(3);
    let client = builder(&fake).build().expect("builds");
    let session = run(client.open_session()).expect("opens");
    let call = session.call_one(b"last words");
    drop(client);
    drop(session);
    assert!(run(call).is_ok());
    eventually("the session is closed", || {
        fake.state.lock().expect("no panic").sessions.values().all(|session| session.closed)
    });
    eventually("the connections are closed", || fake.state.lock().expect("no panic").connections() == 0);
}

#[test]
fn a_dropped_opening_leaves_no_session() {
    let fake = Fake::start(1);
    let client = builder(&fake).build().expect("builds");
    for _ in 0..20 {
        // Polled once, so that it is under way, then given up.
        let mut opening = Box::pin(client.open_session());
        let _ = opening.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    }
    eventually("every session is opened and closed", || {
        let state = fake.state.lock().expect("no panic");
        state.sessions.len() == 20 && state.sessions.values().all(|session| session.closed)
    });
}

#[test]
fn a_name_that_does_not_resolve_stalls_nobody() {
    let fake = Fake::start(2);
    let client = builder(&fake)
        .member(ReplicaId::new(3), "no-such-host.invalid:7000")
        .member(ReplicaId::new(4), "no address at all")
        .build_blocking()
        .expect("builds");
    let session = client.open_session().expect("opens");
    assert!(session.call_one(b"x").is_ok());
    let error = client.status(ReplicaId::new(4)).expect_err("no address");
    assert!(error.to_string().contains("no address at all"), "{error}");
}

#[test]
fn without_a_cluster_the_deadline_says_why() {
    let client = Client::builder()
        .member(ReplicaId::new(1), "127.0.0.1:1")
        .timeout(Duration::from_millis(200))
        .build_blocking()
        .expect("builds");
    let before = Instant::now();
    let error = client.open_session().expect_err("nobody is there");
    assert!(before.elapsed() < Duration::from_secs(5));
    assert!(!error.is_outcome_unknown());
    assert!(error.to_string().contains("refused"), "{error}");
}

#[test]
fn a_foreign_cluster_refuses_at_once() {
    let fake = Fake::start(3);
    let client = Client::builder()
        .members(fake.members.clone())
        .cluster(ClusterId::new(5))
        .build_blocking()
        .expect("builds");
    let error = client.open_session().expect_err("refused");
    assert!(matches!(&error, Error::Refused { text, .. } if text.contains("another cluster")), "{error}");
}

#[test]
fn bad_member_lists_are_refused() {
    let one = ReplicaId::new(1);
    assert!(matches!(Client::builder().build(), Err(BuildError::Members(_))));
    let twice = Client::builder().member(one, "127.0.0.1:1").member(one, "127.0.0.1:2").build();
    assert!(matches!(twice, Err(BuildError::Members(_))));
    let zero = Client::builder().member(ReplicaId::new(0), "127.0.0.1:1").build();
    assert!(matches!(zero, Err(BuildError::Members(_))));
}
