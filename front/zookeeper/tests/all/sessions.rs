//! Sessions in the state: who may write, when a session ends, and what its end takes along.

use crate::support::Zk;
use proptest::prelude::*;
use quorate_zookeeper::command::{Command, Opening};
use quorate_zookeeper::error::ZkError as E;
use quorate_zookeeper::jute::Reader;
use quorate_zookeeper::op::Op;
use quorate_zookeeper::request::{Mode, Request};
use std::collections::BTreeMap;

const TICK: u64 = 3000;

fn opening(password: u8, timeout_ms: i32, server: i64) -> Opening {
    Opening { digest: [password; 32], timeout_ms, server }
}

fn ask(zk: &mut Zk, command: &Command<'_>) -> Result<(i64, i32), E> {
    let mut bytes = Vec::new();
    command.write(&mut bytes);
    assert_eq!(Command::read(&bytes).as_ref(), Ok(command));
    let answer = zk.command(&bytes)?;
    let mut from = Reader::new(&answer);
    Ok((from.long().unwrap_or_default(), from.int().unwrap_or_default()))
}

/// Opens a session, whose client `zk` is from now on.
fn open(zk: &mut Zk, timeout_ms: i32, server: i64) -> i64 {
    let (session, attached) = ask(zk, &Command::Open(opening(7, timeout_ms, server))).expect("it is opened");
    (zk.caller.session, zk.caller.attached) = (session, attached);
    session
}

/// A server that knows everything says that its sessions live, except for some.
fn live(zk: &mut Zk, server: i64, silent: &[(i64, i64)]) {
    live_up_to(zk, (server, i64::MAX), silent);
}

/// The same of a server that knows no more than up to this transaction.
fn live_up_to(zk: &mut Zk, (server, zxid): (i64, i64), silent: &[(i64, i64)]) {
    ask(zk, &Command::Live { server, zxid, silent: silent.to_vec() }).expect("it is noted");
}

/// Whether a session lives.
fn lives(zk: &mut Zk, session: i64) -> bool {
    let own = std::mem::replace(&mut zk.caller.session, session);
    let refused = zk.delete("/no-such-node", -1).expect_err("there is none");
    zk.caller.session = own;
    refused != E::SessionExpired
}

#[test]
fn a_session_is_written_to_from_its_last_attachment_only() {
    let mut zk = Zk::new();
    let session = open(&mut zk, 6000, 1);
    assert_ne!((session, session >> 56), (open(&mut zk, 6000, 1), -1));
    let attach = |password, session| Command::Attach { session, opening: opening(password, 6000, 2) };
    assert_eq!(ask(&mut zk, &attach(8, session)), Err(E::SessionExpired), "a wrong password");
    assert_eq!(ask(&mut zk, &attach(7, 1)), Err(E::SessionExpired), "no such session");
    assert_eq!(ask(&mut zk, &attach(7, session)), Ok((session, 2)));
    (zk.caller.session, zk.caller.attached) = (session, 1);
    assert_eq!(zk.create("/late", b"", Mode::Ephemeral), Err(E::SessionMoved));
    zk.caller.attached = 2;
    zk.create("/a", b"", Mode::Ephemeral).expect("its client is there now");
    assert_eq!(zk.ask(&Request::Plain(Op::CloseSession)), Ok(vec![]));
    assert_eq!(zk.create("/b", b"", Mode::Persistent), Err(E::SessionExpired));
    assert_eq!(ask(&mut zk, &attach(7, session)), Err(E::SessionExpired), "nobody gets it again");
    assert_eq!((zk.exists("/a"), zk.exists("/late")), (Err(E::NoNode), Err(E::NoNode)));
}

#[test]
pub(crate) fn a_close_takes_all_ephemeral_nodes_in_one_step() {
    let mut zk = Zk::new();
    zk.create("/dir", b"", Mode::Persistent).expect("new");
    open(&mut zk, 6000, 1);
    for _ in 0..100 {
        zk.create("/dir/n-", b"", Mode::EphemeralSequential).expect("new");
    }
    zk.create("/stays", b"", Mode::Persistent).expect("new");
    zk.events();
    let before = zk.zxid;
    zk.ask(&Request::Plain(Op::CloseSession)).expect("closed");
    let told = zk.events();
    assert_eq!(told.len(), 200, "each node, and its parent");
    assert!(told.iter().all(|(.., zxid)| *zxid == before + 1), "one transaction");
    let stat = zk.exists("/dir").expect("it stays");
    assert_eq!((stat.num_children, stat.pzxid, stat.cversion), (0, before + 1, 200));
    assert!(zk.exists("/stays").is_ok());
    assert_eq!(zk.entries(&[0, 0, b'e']), 0);
}

#[test]
fn a_session_ends_when_its_server_says_nothing_for_its_time_out() {
    let mut zk = Zk::new();
    let (short, long) = (open(&mut zk, 6000, 1), open(&mut zk, 9000, 1));
    zk.create("/mine", b"", Mode::Ephemeral).expect("new");
    for (ms, expected) in [
        (2000, (true, true)),
        (3000, (true, true)),
        (3000, (true, true)),
        (3000, (false, true)),
        (3000, (false, false)),
    ] {
        zk.wait(ms);
        assert_eq!((lives(&mut zk, short), lives(&mut zk, long)), expected, "after {ms} ms more");
    }
    assert_eq!(zk.exists("/mine"), Err(E::NoNode));
}

#[test]
fn a_word_of_its_server_keeps_all_but_those_it_names() {
    let mut zk = Zk::new();
    let (heard, silent, other) = (open(&mut zk, 6000, 1), open(&mut zk, 6000, 1), open(&mut zk, 6000, 2));
    for second in 1..=12 {
        zk.wait(1000);
        // Its client has said nothing since it began.
        let named: &[_] = if second >= 3 { &[(silent, second * 1000)] } else { &[] };
        live(&mut zk, 1, named);
        if second == 5 {
            live(&mut zk, 2, &[(heard, 60_000)]);
        }
        assert!(lives(&mut zk, heard), "after {second} s");
        assert_eq!(lives(&mut zk, silent), second < 9, "after {second} s");
        assert!(lives(&mut zk, other), "after {second} s");
    }
    assert_eq!(zk.entries(b"\xff\xffw"), 0);
    for _ in 0..3 {
        zk.wait(TICK);
    }
    let entries = (zk.entries(b"\xff\xffs"), zk.entries(b"\xff\xffx"), zk.entries(b"\xff\xffv"));
    assert_eq!(entries, (1, 1, 1), "one of 30 s is left");
}

/// A server whose replica is left behind does not know who came since: its word keeps nobody alive of whom it never heard.
#[test]
fn a_server_keeps_no_session_that_it_does_not_know() {
    let mut zk = Zk::new();
    let known = open(&mut zk, 6000, 1);
    let zxid = zk.zxid;
    let unknown = open(&mut zk, 6000, 1);
    for second in 1..=12 {
        zk.wait(1000);
        live_up_to(&mut zk, (1, zxid), &[]);
        assert!(lives(&mut zk, known), "after {second} s");
        assert_eq!(lives(&mut zk, unknown), second < 9, "after {second} s");
    }
    let late = open(&mut zk, 6000, 1);
    for second in 1..=12 {
        zk.wait(1000);
        let knows = if second < 8 { zxid } else { zk.zxid };
        live_up_to(&mut zk, (1, knows), &[]);
        assert!(lives(&mut zk, late), "it was found out in time, after {second} s");
    }
}

/// Who is heard again is no longer silent, and who moves takes no silence along.
#[test]
fn silence_ends() {
    let mut zk = Zk::new();
    let session = open(&mut zk, 6000, 1);
    zk.wait(3000);
    live(&mut zk, 1, &[(session, 3000)]);
    assert_eq!(zk.entries(b"\xff\xffw"), 1);
    zk.wait(1000);
    live(&mut zk, 1, &[]);
    assert_eq!(zk.entries(b"\xff\xffw"), 0);
    zk.wait(4000);
    assert!(lives(&mut zk, session), "it was heard 4 s ago");
    live(&mut zk, 1, &[(session, 4000)]);
    ask(&mut zk, &Command::Attach { session, opening: opening(7, 6000, 2) }).expect("it moves");
    assert_eq!(zk.entries(b"\xff\xffw"), 1, "its new server does not know it yet");
    for _ in 0..2 {
        zk.wait(TICK);
        assert!(lives(&mut zk, session));
    }
    zk.wait(TICK);
    assert!(!lives(&mut zk, session), "its old server does not count");
}

/// A time in which nothing could be ordered ends no session, whatever servers have heard in it.
#[test]
fn time_that_jumps_ends_nothing() {
    let mut zk = Zk::new();
    let session = open(&mut zk, 6000, 1);
    live(&mut zk, 1, &[]);
    zk.wait(3_600_000);
    assert!(lives(&mut zk, session));
    live(&mut zk, 1, &[(session, 3_600_000)]);
    assert!(lives(&mut zk, session), "its client could not be heard elsewhere either");
    zk.wait(100);
    assert!(lives(&mut zk, session));
    for _ in 0..4 {
        zk.wait(TICK);
    }
    assert!(!lives(&mut zk, session), "but now it had the time to come back");
}

/// Without sessions nothing is asked for, so an idle cluster stays idle.
#[test]
fn the_clock_runs_while_there_are_sessions() {
    let mut zk = Zk::new();
    assert_eq!(zk.due_in(), Some(TICK));
    let session = zk.caller.session;
    zk.ask(&Request::Plain(Op::CloseSession)).expect("closed");
    zk.wait(TICK);
    assert_eq!(zk.due_in(), None);
    open(&mut zk, 6000, 1);
    assert_eq!((zk.due_in(), zk.caller.session), (Some(TICK), session + 1));
}

/// What random servers and clients do.
#[derive(Clone, Debug)]
enum Act {
    Open(i64, i32),
    Attach(usize, i64),
    Close(usize),
    /// The server; the first session that it does not know, by its number; silent sessions, and their silence.
    Live(i64, usize, Vec<(usize, i64)>),
    Wait(u64),
}

fn acts() -> impl Strategy<Value = Act> {
    prop_oneof![
        2 => (1..4_i64, 1..6_i32).prop_map(|(server, ticks)| Act::Open(server, ticks * 2000)),
        1 => (0..8_usize, 1..4_i64).prop_map(|(at, server)| Act::Attach(at, server)),
        1 => (0..8_usize).prop_map(Act::Close),
        4 => (1..4_i64, 0..12_usize, proptest::collection::vec((0..8_usize, 0..12_000_i64), 0..3))
            .prop_map(|(server, unknown, silent)| Act::Live(server, unknown, silent)),
        6 => (1..9000_u64).prop_map(Act::Wait),
    ]
}

/// A session of the model.
#[derive(Clone, Debug)]
struct Known {
    server: i64,
    timeout: u64,
    since: u64,
    /// The transaction in which it came to its server.
    zxid: i64,
    /// When it was heard last, if its server has called it silent, or does not know it yet.
    silent: Option<u64>,
}

/// Sessions without indexes: each one is looked at each time.
#[derive(Default)]
struct Model {
    sessions: BTreeMap<i64, Known>,
    /// When each server spoke last.
    spoke: BTreeMap<i64, u64>,
    clock: u64,
    /// The agreed time of its last step; none while it stands.
    last: Option<u64>,
}

impl Model {
    fn shown(&self, agreed: u64) -> u64 {
        self.last.map_or(0, |last| self.clock + (agreed - last).min(TICK))
    }

    fn step(&mut self, agreed: u64) {
        (self.clock, self.last) = (self.shown(agreed), Some(agreed));
    }

    fn end(&mut self) {
        let (clock, spoke) = (self.clock, &self.spoke);
        self.sessions.retain(|_, known| {
            let unheard = known.since.max(spoke[&known.server]);
            let is_gone = spoke[&known.server] + TICK <= clock;
            let heard = known.silent.filter(|_| !is_gone).unwrap_or(unheard);
            heard + known.timeout + TICK > clock
        });
    }

    fn attach(&mut self, session: i64, (server, zxid): (i64, i64), timeout: u64, agreed: u64) {
        let since = self.shown(agreed);
        self.spoke.entry(server).or_insert(since);
        self.sessions.insert(session, Known { server, timeout, since, zxid, silent: Some(since) });
    }

    fn live(&mut self, (server, zxid): (i64, i64), silent: &[(i64, i64)]) {
        let clock = self.clock;
        let Some(before) = self.spoke.get(&server).copied() else { return };
        for (session, known) in self.sessions.iter_mut().filter(|(_, known)| known.server == server) {
            let says: Vec<_> = silent.iter().filter(|(named, _)| named == session).collect();
            if says.is_empty() && known.zxid <= zxid {
                known.silent = None;
            }
            for (_, silence) in says {
                let unsaid = known.silent.unwrap_or(before.saturating_sub(known.timeout * 2 / 5));
                let heard = clock.saturating_sub(*silence as u64).max(unsaid).max(known.since);
                known.silent = Some(heard);
            }
        }
        self.spoke.insert(server, clock);
    }
}

proptest! {
    #[test]
    fn sessions_end_as_in_a_simple_model(acts in proptest::collection::vec(acts(), 1..60)) {
        let mut zk = Zk::new();
        zk.ask(&Request::Plain(Op::CloseSession)).expect("closed");
        zk.wait(TICK);
        let (mut model, mut all) = (Model::default(), Vec::new());
        for act in acts {
            let agreed = zk.agreed_ms;
            match act {
                Act::Open(server, timeout_ms) => {
                    if model.last.is_none() {
                        model.step(agreed);
                    }
                    let session = open(&mut zk, timeout_ms, server);
                    model.attach(session, (server, zk.zxid), timeout_ms as u64, agreed);
                    all.push(session);
                }
                Act::Attach(at, server) => {
                    let Some(session) = all.get(at).copied() else { continue };
                    let timeout = model.sessions.get(&session).map(|known| known.timeout);
                    let opening = opening(7, timeout.unwrap_or(1) as i32, server);
                    let done = ask(&mut zk, &Command::Attach { session, opening });
                    prop_assert_eq!(done.is_ok(), timeout.is_some());
                    if let Some(timeout) = timeout {
                        model.attach(session, (server, zk.zxid), timeout, agreed);
                    }
                }
                Act::Close(at) => {
                    let Some(session) = all.get(at).copied() else { continue };
                    zk.caller.session = session;
                    zk.caller.attached = 1;
                    // A session that moved is not closed by its former place.
                    if zk.ask(&Request::Plain(Op::CloseSession)).is_ok() {
                        model.sessions.remove(&session);
                    }
                }
                Act::Live(server, unknown, silent) => {
                    let unknown = all.get(unknown).and_then(|session| model.sessions.get(session));
                    let knows = (server, unknown.map_or(i64::MAX, |known| known.zxid - 1));
                    let silent: Vec<(i64, i64)> =
                        silent.into_iter().filter_map(|(at, ms)| Some((*all.get(at)?, ms))).collect();
                    live_up_to(&mut zk, knows, &silent);
                    if zk.due_in().is_some() {
                        model.step(agreed);
                    }
                    model.live(knows, &silent);
                    model.end();
                }
                Act::Wait(ms) => {
                    let due = zk.due_in().is_some_and(|due| due <= ms);
                    zk.wait(ms);
                    if due {
                        model.step(zk.agreed_ms);
                        model.end();
                    }
                }
            }
            if zk.due_in().is_none() {
                model = Model { sessions: model.sessions, ..Model::default() };
            }
            for session in &all {
                let (expected, found) = (model.sessions.contains_key(session), lives(&mut zk, *session));
                prop_assert_eq!(expected, found, "session {} at {}", session, model.clock);
            }
            prop_assert_eq!(zk.entries(b"\xff\xffs"), model.sessions.len());
            prop_assert_eq!(zk.entries(b"\xff\xffx"), model.sessions.len());
        }
    }
}
