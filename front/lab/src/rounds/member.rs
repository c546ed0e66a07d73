//! A member of a group that measures itself: it asks all others once per round, and answers them.
//!
//! For each other member there is a connection that this one makes, with a thread that sends and one that receives. What others send comes
//! over connections that they make. Threads block; when the member ends it closes all connections, and they end. A round is measured from
//! its beginning, so a connection that is stuck makes it longer and delays no other one.

use super::Plan;
use super::store::{Store, Storing};
use super::times::{Measured, Times};
use super::wire::{Fault, Group, Head, Kind};
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use quorate_command::failure::{Doing as _, Failure, Outcome};
use std::collections::BTreeMap;
use std::io;
use std::net::{Shutdown, TcpListener, TcpStream, ToSocketAddrs as _};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::{Scope, sleep};
use std::time::{Duration, Instant};

/// How long to wait before something is tried again.
const AGAIN: Duration = Duration::from_millis(20);
/// How long a connection may take.
const DIAL: Duration = Duration::from_secs(2);
/// How long a connection that somebody else made may take until its first message is there.
const FIRST: Duration = Duration::from_secs(5);
/// The rounds that may wait for a connection; further ones are not asked, and count as never answered.
const BEHIND_MAX: usize = 64;
/// Answers that wait to be counted.
const ANSWERS_MAX: usize = 4096;

/// Where a member stands in its group.
pub(super) struct Place<'a> {
    /// The addresses of all members, in the same order everywhere.
    pub(super) addresses: &'a [String],
    /// Which of them is this member's.
    pub(super) me: usize,
    /// The directory for what it stores.
    pub(super) directory: &'a Path,
}

/// What a thread that sends is told.
enum Say {
    Ask(u64),
    Done,
}

/// An answer came: of whom, to which round, and when.
struct Came {
    from: usize,
    round: u64,
    at: Instant,
}

/// What the threads of a member share.
struct Shared<'a> {
    group: Group,
    place: Place<'a>,
    run: u64,
    stop: AtomicBool,
    /// All connections, to be closed at the end. Others than members' are bounded in number.
    open: Mutex<BTreeMap<u64, TcpStream>>,
    opened: AtomicU64,
    strangers: AtomicU64,
    /// What the last stranger sent.
    strange: Mutex<&'static str>,
    /// Members that need no more answers.
    done: Mutex<Vec<bool>>,
    /// How many members were told that this one needs none.
    told: AtomicUsize,
}

impl Shared<'_> {
    fn members(&self) -> usize {
        self.place.addresses.len()
    }

    fn stopped(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    /// Notes a connection, so that it is closed at the end. `None`: it is the end, or there are too many.
    fn note(&self, stream: &TcpStream) -> Option<u64> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        // Each member has one in each direction, and perhaps an old one.
        if self.stopped() || open.len() >= 4 * self.members() + 8 {
            return None;
        }
        let number = self.opened.fetch_add(1, Ordering::Relaxed);
        open.insert(number, stream.try_clone().ok()?);
        Some(number)
    }

    fn forget(&self, number: u64) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).remove(&number);
    }

    /// Ends all threads.
    fn end(&self) {
        self.stop.store(true, Ordering::SeqCst);
        for stream in self.open.lock().unwrap_or_else(PoisonError::into_inner).values() {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    fn all_done(&self) -> bool {
        self.done.lock().unwrap_or_else(PoisonError::into_inner).iter().all(|done| *done)
    }

    /// Notes that something came that is not of this group.
    fn stranger(&self, what: &'static str) {
        self.strangers.fetch_add(1, Ordering::Relaxed);
        *self.strange.lock().unwrap_or_else(PoisonError::into_inner) = what;
    }

    /// Accepts connections until the end.
    fn accept<'s>(&'s self, scope: &'s Scope<'s, '_>, listener: &TcpListener, storing: Storing) {
        while !self.stopped() {
            let Ok((stream, _)) = listener.accept() else {
                sleep(AGAIN);
                continue;
            };
            let storing = storing.clone();
            let noted = stream.set_nonblocking(false).ok().and_then(|()| self.note(&stream));
            let Some(number) = noted else {
                self.stranger("more connections than a group makes");
                continue;
            };
            scope.spawn(move || {
                if let Err(Fault::Garbage(what)) = self.serve(&stream, &storing) {
                    self.stranger(what);
                }
                self.forget(number);
                let _ = stream.shutdown(Shutdown::Both);
            });
        }
    }

    /// Answers what comes over a connection that somebody made.
    fn serve(&self, stream: &TcpStream, storing: &Storing) -> Result<(), Fault> {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(FIRST))?;
        let mut payload = Vec::new();
        loop {
            let head = self.group.read(stream, &mut payload)?;
            let from = usize::from(head.from);
            if usize::from(head.to) != self.place.me || from == self.place.me || from >= self.members() {
                return Err(Fault::Garbage("a message between other members"));
            }
            // From here on it is a member, who may be silent.
            stream.set_read_timeout(None)?;
            match head.kind {
                Kind::Ask => {
                    payload = storing.store(payload).ok_or(Fault::Ended)?;
                    let answer = Head { kind: Kind::Answer, from: head.to, to: head.from, ..head };
                    self.group.write(stream, answer, &[])?;
                }
                Kind::Done => self.done.lock().unwrap_or_else(PoisonError::into_inner)[from] = true,
                Kind::Answer => return Err(Fault::Garbage("an answer that nobody asked for")),
            }
        }
    }

    /// Asks one member, over one connection after the other.
    fn ask<'s>(&'s self, scope: &'s Scope<'s, '_>, peer: usize, say: &Receiver<Say>, came: &Sender<Came>) {
        let payload = payload(self.group.message_bytes, self.run);
        while !self.stopped() {
            let Some((stream, number)) = self.dial(peer) else {
                sleep(AGAIN);
                continue;
            };
            if let Ok(receiving) = stream.try_clone() {
                let came = came.clone();
                scope.spawn(move || self.receive(&receiving, peer, &came));
                let ended = self.send(&stream, peer, say, &payload);
                let _ = stream.shutdown(Shutdown::Both);
                self.forget(number);
                if ended {
                    return;
                }
            }
            sleep(AGAIN);
        }
    }

    fn dial(&self, peer: usize) -> Option<(TcpStream, u64)> {
        let addresses = self.place.addresses[peer].to_socket_addrs().ok()?;
        let stream = addresses.into_iter().find_map(|at| TcpStream::connect_timeout(&at, DIAL).ok())?;
        stream.set_nodelay(true).ok()?;
        let number = self.note(&stream)?;
        Some((stream, number))
    }

    /// Sends what it is told, after a first request that shows whether the other side is a member. Says whether nothing more is to be sent.
    fn send(&self, stream: &TcpStream, peer: usize, say: &Receiver<Say>, payload: &[u8]) -> bool {
        let head =
            |kind, round| Head { kind, from: self.place.me as u8, to: peer as u8, run: self.run, round };
        if self.group.write(stream, head(Kind::Ask, 0), payload).is_err() {
            return false;
        }
        while let Ok(say) = say.recv() {
            let written = match say {
                Say::Ask(round) => self.group.write(stream, head(Kind::Ask, round), payload),
                Say::Done => self.group.write(stream, head(Kind::Done, 0), &[]),
            };
            if written.is_err() {
                return false;
            }
            if matches!(say, Say::Done) {
                self.told.fetch_add(1, Ordering::SeqCst);
            }
        }
        true
    }

    /// Passes on the answers that come over a connection.
    fn receive(&self, stream: &TcpStream, peer: usize, came: &Sender<Came>) {
        let mut payload = Vec::new();
        let fault = loop {
            match self.group.read(stream, &mut payload) {
                Ok(Head { kind: Kind::Answer, from, to, run, round })
                    if (usize::from(from), usize::from(to), run) == (peer, self.place.me, self.run) =>
                {
                    if came.send(Came { from: peer, round, at: Instant::now() }).is_err() {
                        return;
                    }
                }
                Ok(_) => break Fault::Garbage("no answer"),
                Err(fault) => break fault,
            }
        };
        if let Fault::Garbage(what) = fault {
            self.stranger(what);
        }
        let _ = stream.shutdown(Shutdown::Both);
    }
}

/// Bytes that a disk can not compress.
fn payload(bytes: usize, seed: u64) -> Vec<u8> {
    let word = |at: usize| (at as u64 ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_le_bytes()[5];
    (0..bytes).map(word).collect()
}

/// A round under way.
struct Round {
    began: Instant,
    took: Vec<(usize, Duration)>,
}

/// The rounds, as the member that asks sees them.
struct Rounds<'a> {
    plan: &'a Plan,
    others: usize,
    open: BTreeMap<u64, Round>,
    replies: Vec<Times>,
}

impl Rounds<'_> {
    fn came(&mut self, came: &Came) {
        let Some(round) = self.open.get_mut(&came.round) else { return };
        if round.took.iter().any(|(from, _)| *from == came.from) {
            return;
        }
        round.took.push((came.from, came.at.saturating_duration_since(round.began)));
        if round.took.len() == self.others {
            self.close(came.round);
        }
    }

    fn close(&mut self, number: u64) {
        let Some(round) = self.open.remove(&number) else { return };
        let mut took: Vec<Duration> = round.took.into_iter().map(|(_, took)| took).collect();
        took.sort_unstable();
        for (k, times) in self.replies.iter_mut().enumerate() {
            times.add(took.get(k).copied());
        }
    }

    /// Waits no longer for rounds that are too old.
    fn give_up(&mut self, now: Instant) {
        while let Some((number, round)) = self.open.first_key_value()
            && now.saturating_duration_since(round.began) >= self.plan.patience
        {
            let number = *number;
            self.close(number);
        }
    }
}

/// Takes part in a group: waits for all others, asks them in each round, and answers them until they are done, too. `progress` hears of each
/// round.
///
/// # Errors
/// When a member can not be reached in time, or the disk fails.
pub(super) fn take_part(
    listener: &TcpListener,
    place: Place<'_>,
    group: Group,
    plan: &Plan,
    progress: impl Fn(u64),
) -> Outcome<Measured> {
    listener.set_nonblocking(true).doing("listen")?;
    let (members, me) = (place.addresses.len(), place.me);
    let (store, storing) = Store::open(place.directory, members)?;
    let done = (0..members).map(|at| at == me).collect();
    let shared = Shared {
        group,
        place,
        run: quorate_command::random::number()?,
        stop: AtomicBool::new(false),
        open: Mutex::default(),
        opened: AtomicU64::new(0),
        strangers: AtomicU64::new(0),
        strange: Mutex::new(""),
        done: Mutex::new(done),
        told: AtomicUsize::new(0),
    };
    let (came, answers) = bounded(ANSWERS_MAX);
    let (measured, stored) = std::thread::scope(|scope| {
        let shared = &shared;
        let store = scope.spawn(move || store.run());
        scope.spawn(move || shared.accept(scope, listener, storing));
        let mut says = Vec::new();
        for peer in (0..members).filter(|peer| *peer != me) {
            let (say, told) = bounded(BEHIND_MAX);
            says.push(say);
            let came = came.clone();
            scope.spawn(move || shared.ask(scope, peer, &told, &came));
        }
        let measured = measure(shared, plan, &says, &answers, progress);
        shared.end();
        // Nobody counts answers any more, so nobody must wait to give them.
        drop((says, answers));
        (measured, store.join())
    });
    match stored {
        Ok(Ok(())) => {}
        Ok(Err(why)) => return Err(Failure::new(format!("can not store what others send: {why}"))),
        Err(_) => return Err(Failure::new("the thread that stores what others send panicked")),
    }
    let replies = measured?;
    Ok(Measured {
        members,
        processes: 1,
        message_bytes: shared.group.message_bytes,
        every_ms: plan.every.as_millis() as u64,
        local: false,
        strangers: shared.strangers.load(Ordering::Relaxed),
        replies,
    })
}

fn measure(
    shared: &Shared<'_>,
    plan: &Plan,
    says: &[Sender<Say>],
    answers: &Receiver<Came>,
    progress: impl Fn(u64),
) -> Outcome<Vec<Times>> {
    wait_for_all(shared, plan, answers)?;
    let others = shared.members() - 1;
    let mut rounds = Rounds { plan, others, open: BTreeMap::new(), replies: vec![Times::default(); others] };
    let begun = Instant::now();
    for number in 1..=plan.rounds {
        let due = begun + plan.every.saturating_mul(u32::try_from(number - 1).unwrap_or(u32::MAX));
        collect(&mut rounds, answers, due, false);
        progress(number);
        let began = Instant::now();
        rounds.open.insert(number, Round { began, took: Vec::new() });
        for say in says {
            // One that is stuck is not asked; the round goes on without it.
            let _ = say.try_send(Say::Ask(number));
        }
    }
    collect(&mut rounds, answers, Instant::now() + plan.patience, true);
    while let Some((number, _)) = rounds.open.first_key_value() {
        let number = *number;
        rounds.close(number);
    }
    for say in says {
        let _ = say.try_send(Say::Done);
    }
    // The others count on answers until they are done, too.
    let until = Instant::now() + plan.patience + DIAL;
    let ends = || shared.all_done() && shared.told.load(Ordering::SeqCst) == says.len();
    while !ends() && Instant::now() < until {
        sleep(AGAIN);
    }
    Ok(rounds.replies)
}

/// Takes answers until this moment; with `all`, only until there is no round without all answers.
fn collect(rounds: &mut Rounds<'_>, answers: &Receiver<Came>, until: Instant, all: bool) {
    while !(all && rounds.open.is_empty()) {
        match answers.recv_deadline(until) {
            Ok(came) => rounds.came(&came),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
        }
    }
    rounds.give_up(Instant::now());
}

/// Waits until each other member has answered once.
fn wait_for_all(shared: &Shared<'_>, plan: &Plan, answers: &Receiver<Came>) -> Outcome<()> {
    let mut there = vec![false; shared.members()];
    there[shared.place.me] = true;
    let until = Instant::now() + plan.wait;
    while there.iter().any(|there| !there) {
        let Ok(came) = answers.recv_deadline(until) else {
            let missing = shared.place.addresses.iter().zip(&there).filter(|(_, there)| !**there);
            let missing: Vec<&str> = missing.map(|(address, _)| address.as_str()).collect();
            let strangers = shared.strangers.load(Ordering::Relaxed);
            let hint = if strangers > 0 {
                let last = *shared.strange.lock().unwrap_or_else(PoisonError::into_inner);
                format!(
                    "; {strangers} times strangers sent something, the last time {last}: are --group, --bytes and --key the same everywhere?"
                )
            } else {
                String::new()
            };
            return Err(Failure::new(format!(
                "{} did not answer within {} s: run `quorate doctor visigoth` with the same --group there{hint}",
                missing.join(", "),
                plan.wait.as_secs()
            )));
        };
        there[came.from] = true;
    }
    Ok(())
}

/// Listens on this address.
///
/// # Errors
/// When it can not be listened on.
pub(super) fn listen(address: &str) -> io::Result<TcpListener> {
    TcpListener::bind(address)
}
