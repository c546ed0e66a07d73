//! What must hold, whatever happened. Each check panics with what is wrong.

use super::client::Watch;
use super::ensemble::Timing;
use quorate_execute::{Published, StateView, Store};
use quorate_types::AgreedTime;
use quorate_zookeeper::command::{Asked, Command};
use quorate_zookeeper::jute::Reader;
use quorate_zookeeper::op::Op;
use quorate_zookeeper::records::EventKind;
use quorate_zookeeper::server::ConnId;
use quorate_zookeeper::service::{Told, What, ZooKeeper, last_zxid};
use quorate_zookeeper::tree::{self, Caller, Event};
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

thread_local! {
    /// The last transaction that was acknowledged to anybody.
    static ACKNOWLEDGED: Cell<i64> = const { Cell::new(0) };
}

pub(super) fn acknowledged() -> i64 {
    ACKNOWLEDGED.get()
}

/// The last transaction of a state.
pub(super) fn zxid_of(published: &Published) -> i64 {
    last_zxid(&StateView::reading(&Store::from_version(&published.objects)))
}

/// How often each check had something to look at.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub(super) reads: u64,
    pub(super) writes: u64,
    pub(super) events: u64,
    /// Events that a server or a client made up for.
    pub(super) caught_up: u64,
    pub(super) moves: u64,
    pub(super) expired: u64,
    /// Writes that came after their session had moved.
    pub(super) refused: u64,
    pub(super) syncs: u64,
}

impl Counts {
    pub(super) const fn plus(&self, other: &Self) -> Self {
        Self {
            reads: self.reads + other.reads,
            writes: self.writes + other.writes,
            events: self.events + other.events,
            caught_up: self.caught_up + other.caught_up,
            moves: self.moves + other.moves,
            expired: self.expired + other.expired,
            refused: self.refused + other.refused,
            syncs: self.syncs + other.syncs,
        }
    }
}

/// What happened.
#[derive(Default)]
pub(super) struct History {
    /// The state after each transaction.
    states: BTreeMap<i64, Store>,
    events: Vec<Event>,
    /// When the client of each session was heard last.
    heard: BTreeMap<i64, u64>,
    /// The attachment of the last write that was done, for each session.
    attached: BTreeMap<i64, i32>,
    /// Sessions that are over, and those that their clients close.
    over: BTreeSet<i64>,
    closing: BTreeSet<i64>,
    /// Sequential nodes that were ever made.
    numbered: BTreeSet<String>,
    /// The states that a connection's server jumped to.
    jumps: BTreeMap<ConnId, Vec<i64>>,
    counts: Counts,
    service: ZooKeeper,
    timing: Timing,
    /// The time of the log, in nanoseconds: up to where deadlines are due, and what has passed in steps of a tick at most.
    due: u64,
    passed: u64,
    /// By session: its server, the transaction in which it came there, and how much had passed when the log heard of its client last.
    said: BTreeMap<i64, (i64, i64, u64)>,
    /// Since when every server reaches the log in time.
    reached_since: u64,
}

/// What the log has.
impl History {
    /// Every server reaches the log in time.
    pub(super) fn new(timing: Timing) -> Self {
        Self { timing, ..Self::default() }
    }

    /// The log has come to where deadlines up to this time are due. Whatever waited for it, a step counts for a tick at most.
    pub(super) fn passes(&mut self, due: AgreedTime) {
        let step = due.nanos().saturating_sub(self.due).min(self.timing.tick * 1_000_000);
        (self.due, self.passed) = (self.due.max(due.nanos()), self.passed + step);
    }

    /// Servers may be without the log up to this time. Whom they hear until then is not sure to live.
    pub(super) const fn reached_since(&mut self, ms: u64) {
        self.reached_since = ms;
    }

    /// Something was done, and left this state.
    pub(super) fn done(&mut self, told: &[Told], published: &Published, ms: u64) {
        for told in told {
            if let What::Ended { session, .. } = &told.what {
                self.ended(*session, ms);
            }
        }
        self.told(told);
        self.keep(published);
    }

    pub(super) fn keep(&mut self, published: &Published) {
        if self.states.is_empty() {
            ACKNOWLEDGED.set(0);
        }
        self.states.insert(zxid_of(published), Store::from_version(&published.objects));
    }

    fn told(&mut self, told: &[Told]) {
        for told in told {
            self.events.extend(told.what.events().iter().cloned());
        }
    }

    /// A command was done. Writes of a session come from its last attachment only, and sequential nodes get new numbers.
    pub(super) fn executed(&mut self, command: &[u8], reply: &[u8], ms: u64) {
        let mut from = Reader::new(reply);
        let (zxid, error) = (from.long().expect("a transaction"), from.int().expect("an error"));
        match Command::read(command).expect("servers send commands") {
            Command::Write { caller, asked, .. } => {
                if error == -118 {
                    self.counts.refused += 1;
                    return;
                }
                let last = self.attached.get(&caller.session).copied().unwrap_or(0);
                let is_over = self.over.contains(&caller.session);
                assert!(is_over == (error == -112), "a write of a session that is over: {error}");
                assert!(is_over || caller.attached >= last, "a late write of {:#x}", caller.session);
                if asked.op() == Some(Op::CloseSession) && error == 0 {
                    self.closing.insert(caller.session);
                }
                if asked.op() == Some(Op::Create) && error == 0 {
                    self.made(from.bytes().expect("a path").unwrap_or_default());
                }
            }
            Command::Open(opening) => {
                let session = from.long().expect("a session");
                self.heard.insert(session, ms);
                self.said.insert(session, (opening.server, zxid, self.passed));
            }
            Command::Attach { session, opening } if error == 0 => {
                from.long().expect("a session");
                self.attached.insert(session, from.int().expect("an attachment"));
                self.heard.insert(session, ms);
                self.said.insert(session, (opening.server, zxid, self.passed));
            }
            Command::Live { server, zxid, silent } => self.live((server, zxid), silent),
            Command::Attach { .. } | Command::Members { .. } => {}
        }
    }

    /// A server says of whom it has not heard lately, and for how long. It knows those who came up to a transaction.
    fn live(&mut self, (server, knows): (i64, i64), silent: Vec<(i64, i64)>) {
        let silence: BTreeMap<i64, i64> = silent.into_iter().collect();
        let known = self.said.iter_mut().filter(|(_, (at, zxid, _))| *at == server && *zxid <= knows);
        for (session, (.., said)) in known {
            let lately = self.timing.timeout as i64 * 2 / 5;
            let silence = silence.get(session).map_or(lately, |ms| *ms) as u64 * 1_000_000;
            *said = (*said).max(self.passed.saturating_sub(silence));
        }
    }

    fn made(&mut self, path: &[u8]) {
        let path = String::from_utf8_lossy(path).into_owned();
        if path.starts_with("/a/n-") {
            // Its parent may be made again, and then counts from 0.
            let zxid = self.events.len();
            let parent = self.events.iter().take(zxid).filter(|event| event.path == "/a");
            let lives = parent.filter(|event| event.kind == EventKind::Created).count();
            assert!(self.numbered.insert(format!("{path} of life {lives}")), "{path} was made twice");
        }
    }

    pub(super) fn heard(&mut self, session: i64, ms: u64) {
        self.heard.entry(session).and_modify(|heard| *heard = ms);
    }

    /// A session has ended: its client closed it, or was not heard for its time-out.
    fn ended(&mut self, session: i64, ms: u64) {
        self.over.insert(session);
        if !self.closing.contains(&session) {
            let heard = self.heard.get(&session).copied().unwrap_or(0);
            let is_late = heard < self.reached_since || ms - heard >= self.timing.timeout;
            assert!(is_late, "session {session:#x} ended {} ms after it was heard", ms - heard);
            let silent = self.passed - self.said.get(&session).map_or(0, |(.., said)| *said);
            let is_over = silent >= (self.timing.timeout + self.timing.tick) * 1_000_000;
            assert!(is_over, "session {session:#x} ended {silent} ns after the log heard of it");
            self.counts.expired += 1;
        }
    }

    /// No session is left of clients that are gone, and no ephemeral node of one that is over.
    pub(super) fn at_the_end(&self, published: &Published) {
        let store = Store::from_version(&published.objects);
        let view = StateView::reading(&store);
        let living = store.range(b"\xff\xffs", Some(b"\xff\xfft")).count();
        assert!(living <= 1, "{living} sessions live on without their clients");
        for session in &self.over {
            assert_eq!(tree::ephemerals(&view, *session, b""), [""; 0], "of {session:#x}, which is over");
        }
    }
}

/// What clients see.
impl History {
    pub(super) fn counts(&self) -> Counts {
        self.counts
    }

    pub(super) fn moved(&mut self) {
        self.counts.moves += 1;
    }

    pub(super) fn closes(&mut self, session: i64) {
        assert!(self.over.contains(&session), "it was told that it is closed");
    }

    /// A client was told that its session is over.
    pub(super) fn is_over(&self, session: i64) {
        assert!(self.over.contains(&session), "session {session:#x} lives, and its client was sent away");
    }

    pub(super) fn acknowledged(&mut self, zxid: i64, error: i32, session: i64) {
        self.counts.writes += 1;
        ACKNOWLEDGED.set(ACKNOWLEDGED.get().max(zxid));
        assert!(error != -112 || self.over.contains(&session), "{session:#x} is not over");
    }

    pub(super) fn synced(&mut self, zxid: i64, known: i64) {
        self.counts.syncs += 1;
        assert!(zxid >= known, "a sync shows {zxid}, and {known} was acknowledged before");
    }

    /// A read gives what the state after its transaction has.
    pub(super) fn read(
        &mut self,
        zxid: i64,
        (op, request, session): (Op, &[u8], i64),
        error: i32,
        record: &[u8],
    ) {
        self.counts.reads += 1;
        let store = self.states.get(&zxid).unwrap_or_else(|| panic!("there was no state {zxid}"));
        let caller = Caller { session, attached: 0, ids: Vec::new() };
        let mut answer = Vec::new();
        let asked = Asked { op: op.code(), request };
        self.service.read(&StateView::reading(store), &caller, &asked, &mut answer);
        let mut from = Reader::new(&answer);
        from.long().expect("a transaction");
        assert_eq!((from.int().expect("an error"), from.rest()), (error, record), "{op:?} at {zxid}");
    }

    /// The events behind one transaction, up to another one.
    fn between(&self, after: i64, until: i64) -> impl Iterator<Item = &Event> {
        self.events.iter().filter(move |event| event.zxid > after && event.zxid <= until)
    }

    /// The server of a connection compared what its client watches with this state, since it was not told everything.
    pub(super) fn jumped(&mut self, conn: ConnId, zxid: i64) {
        self.jumps.entry(conn).or_default().push(zxid);
    }

    /// A client sees a state: it was told before of everything that it watches. After a move, what it watches is not known to its server yet.
    /// Of what came and went again while nothing was told, a comparison shows nothing.
    pub(super) fn sees(
        &self,
        zxid: i64,
        conn: Option<ConnId>,
        watches: &BTreeMap<(String, bool), Watch>,
        must_set: bool,
    ) {
        let jumps = conn.and_then(|conn| self.jumps.get(&conn)).into_iter().flatten();
        for ((path, children), watch) in watches.iter().filter(|_| !must_set) {
            let look = |zxid| self.look(zxid, path, *children);
            // An answer to a write may come behind a jump past it.
            let since = jumps.clone().fold(watch.since, |since, jump| {
                if *jump > since && look(since) == look(*jump) { *jump } else { since }
            });
            let missed =
                self.between(since, zxid).find(|event| fits(event.kind, &event.path, path, *children));
            assert!(missed.is_none(), "{zxid} is seen before {missed:?}, for {path} watched since {since}");
        }
    }

    /// What a comparison looks at.
    fn look(&self, zxid: i64, path: &str, children: bool) -> Option<i64> {
        let view = StateView::reading(&self.states[&zxid]);
        let seen = self.service.seen(&view, path.as_bytes())?;
        Some(if children { seen.pzxid } else { seen.mzxid })
    }

    /// A client is told of an event: it watched for it, and it happened after the watch was set.
    pub(super) fn event(
        &mut self,
        zxid: i64,
        kind: i32,
        path: &str,
        watches: &mut BTreeMap<(String, bool), Watch>,
    ) {
        self.counts.events += 1;
        let kind =
            [EventKind::Created, EventKind::Deleted, EventKind::DataChanged, EventKind::ChildrenChanged]
                .into_iter()
                .find(|known| *known as i32 == kind)
                .expect("a kind");
        let hears: Vec<(String, bool)> = watches
            .keys()
            .filter(|(watched, children)| fits(kind, path, watched, *children))
            .cloned()
            .collect();
        // Watches for data and for children are compared one by one, and both miss a deletion.
        let again = zxid == -1 && kind == EventKind::Deleted;
        assert!(again || !hears.is_empty(), "{kind:?} of {path} fires twice, or was not watched");
        let Some(first) = hears.first().map(|at| watches[at]) else { return };
        if zxid == -1 {
            // What happened instead may be another kind: deleted and made again, for example.
            self.counts.caught_up += 1;
            let any = self.between(first.since, i64::MAX).any(|event| event.path == path);
            assert!(any, "nothing happened to {path}");
        } else {
            let is_true =
                self.events.iter().any(|event| (event.zxid, event.kind, &*event.path) == (zxid, kind, path));
            assert!(is_true, "{kind:?} of {path} in {zxid} never happened");
        }
        for at in &hears {
            watches.remove(at);
        }
    }

    /// The server has compared a client's watches with what it has seen: what is still watched is as it was.
    pub(super) fn set_again(&self, zxid: i64, watches: &mut BTreeMap<(String, bool), Watch>) {
        for watch in watches.values_mut() {
            watch.since = zxid;
        }
    }
}

/// Whether an event of a path is one for a watch.
fn fits(kind: EventKind, path: &str, watched: &str, children: bool) -> bool {
    path == watched
        && match kind {
            EventKind::Created | EventKind::DataChanged => !children,
            EventKind::Deleted => true,
            EventKind::ChildrenChanged => children,
        }
}
