//! The crowd: a process of its own, at the lowest priority, since real attackers would have machines of their own.
//!
//! Until its standard input ends it does all of this at once: it holds idle connections; opens sockets without sending; stops in the middle
//! of handshakes; sends garbage before and after the handshake; announces frames that are too large; sends frames by half; asks for much
//! and reads nothing; and floods the replica with requests and nonsense.

use super::raw::{Greeting, Raw, Victim};
use quorate::client::Credentials;
use quorate_command::cluster::{Cluster, ClusterArgs};
use quorate_command::failure::{Doing as _, Failure, Outcome};
use quorate_command::print;
use quorate_kv::{KvCommand, KvQuery, Operation};
use quorate_tls::TlsFiles;
use quorate_types::{ItemsBuilder, ReplicaId, RequestNumber, Seq, SessionId};
use quorate_wire::{
    FRAME_HEADER, FrameKind, OutFrame, ReadConsistency, ReadRequest, Reply, ReplyStatus, RequestHeader,
    RequestKind, RequestProof, write_read_request, write_request,
};
use rustix::process::{Resource, Rlimit, getrlimit, nice, setrlimit};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};
use std::net::{TcpStream, ToSocketAddrs as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The key that slow readers ask for.
pub(super) const LARGE_KEY: &[u8] = b"hostile/large";
/// Number of clients that send as many valid requests as they can.
const FLOODS: usize = 8;
/// Number of clients that send nonsense as fast as they can.
const NONSENSE: usize = 2;
/// Threads that open connections which stay.
const OPENERS: usize = 4;
/// The refusals that clients which break a rule must get, each at least once.
const REFUSALS: [&str; 3] =
    ["limits.connections_per_client", "is over the limit of", "malformed frame header"];
/// How long clients pause before they begin again.
const PAUSE: Duration = Duration::from_millis(5);
/// How often threads check the connections that they hold.
const LOOK: Duration = Duration::from_millis(200);
/// How long the crowd stays at the end to do what it had no turn for.
const LAST_TURN: Duration = Duration::from_secs(30);

/// Play the crowd of `quorate bench hostile`.
#[derive(Debug, clap::Args)]
pub(in crate::bench) struct CrowdArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Which replica
    #[arg(long)]
    replica: u16,
    /// How many connections
    #[arg(long)]
    connections: usize,
    /// The directory of the certificate to show, NAME.pem and NAME.key in it; none where connections are plain
    #[arg(long)]
    tls: Option<PathBuf>,
}

/// What the crowd counted.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(in crate::bench) struct CrowdReport {
    /// Connections that were taken.
    pub(in crate::bench) welcomed: u64,
    /// Connections that ended without a refusal before they were welcomed.
    pub(in crate::bench) lost: u64,
    /// Sockets that sent nothing, or stopped in the middle of a handshake, and were closed.
    pub(in crate::bench) turned_away: u64,
    /// Slow readers whose connections were closed.
    pub(in crate::bench) cut: u64,
    /// Requests of floods that were answered.
    pub(in crate::bench) flooded: u64,
    /// The reasons why connections were refused or ended, without numbers in them, and how often each came.
    pub(in crate::bench) refused: BTreeMap<String, u64>,
}

#[derive(Default)]
struct Tally {
    stop: AtomicBool,
    welcomed: AtomicU64,
    lost: AtomicU64,
    turned_away: AtomicU64,
    cut: AtomicU64,
    flooded: AtomicU64,
    refused: Mutex<BTreeMap<String, u64>>,
    /// Threads that hold all of their connections.
    there: AtomicU64,
}

impl Tally {
    fn goes_on(&self) -> bool {
        !self.stop.load(Ordering::Relaxed)
    }

    fn refused(&self, text: &str) {
        let text: String = text.chars().map(|c| if c.is_ascii_digit() { '#' } else { c }).collect();
        let mut plain = String::new();
        for c in text.chars() {
            if c != '#' || !plain.ends_with('#') {
                plain.push(c);
            }
        }
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        *refused.entry(plain).or_default() += 1;
    }

    fn greet(&self, victim: &Victim, number: u64) -> Option<Raw> {
        match victim.greet(number) {
            Ok(Greeting::Welcome(raw)) => {
                self.welcomed.fetch_add(1, Ordering::Relaxed);
                return Some(raw);
            }
            Ok(Greeting::Refused(text)) => self.refused(&text),
            Ok(Greeting::Lost) | Err(_) => drop(self.lost.fetch_add(1, Ordering::Relaxed)),
        }
        None
    }

    /// Whether everything that the crowd does got an answer at least once.
    fn is_complete(&self) -> bool {
        let some = |counter: &AtomicU64| counter.load(Ordering::Relaxed) > 0;
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let told = |part: &str| refused.keys().any(|text| text.contains(part));
        [&self.welcomed, &self.turned_away, &self.cut, &self.flooded].into_iter().all(some)
            && REFUSALS.into_iter().all(told)
    }

    fn report(&self) -> CrowdReport {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        CrowdReport {
            welcomed: load(&self.welcomed),
            lost: load(&self.lost),
            turned_away: load(&self.turned_away),
            cut: load(&self.cut),
            flooded: load(&self.flooded),
            refused: self.refused.lock().unwrap_or_else(PoisonError::into_inner).clone(),
        }
    }
}

/// How many connections of each kind.
struct Roles {
    idle: usize,
    silent: usize,
    half: usize,
    slow: usize,
    partial: usize,
}

impl Roles {
    fn of(connections: usize) -> Self {
        let part = |percent: usize| connections * percent / 100;
        Self {
            idle: part(60),
            silent: part(15),
            half: part(15),
            slow: part(4).max(2),
            partial: part(4).max(2),
        }
    }
}

pub(in crate::bench) fn run(args: &CrowdArgs) -> Outcome {
    let cluster = Cluster::find(&args.cluster)?;
    // Where it is not at a lower one still, as it was started.
    let _ = nice(19);
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    let victim = victim(args, &cluster)?;
    let tally = Tally::default();
    let roles = Roles::of(args.connections);
    std::thread::scope(|scope| {
        let (tally, victim) = (&tally, &victim);
        // Those that keep to the rules first: beside the others it takes them minutes.
        for thread in 0..OPENERS {
            let count = roles.idle / OPENERS;
            scope.spawn(move || idle(tally, victim, thread as u64 * 1_000_000, count));
        }
        scope.spawn(|| slow(tally, victim, roles.slow));
        scope.spawn(|| partial(tally, victim, roles.partial));
        wait_for(tally, OPENERS as u64 + 2);
        // It takes all seats that are left, and gets its first refusal before there is a crowd of new connections.
        scope.spawn(|| greedy(tally, victim, args.connections));
        wait_for(tally, OPENERS as u64 + 3);
        scope.spawn(|| unspoken(tally, victim, roles.silent, false));
        scope.spawn(|| unspoken(tally, victim, roles.half, true));
        for number in 0..FLOODS as u64 {
            scope.spawn(move || flood(tally, victim, 10_000_000 + number));
        }
        for number in 0..NONSENSE as u64 {
            scope.spawn(move || nonsense(tally, victim, 20_000_000 + number));
        }
        scope.spawn(|| again_and_again(tally, || garbage_first(victim)));
        scope.spawn(|| again_and_again(tally, || garbage_later(tally, victim)));
        scope.spawn(|| again_and_again(tally, || giant(tally, victim)));
        wait_for(tally, OPENERS as u64 + 5);
        let _ = print::line("ready");
        let _ = io::stdin().read_to_end(&mut Vec::new());
        // Clients that had no turn beside the well-behaved ones have it now: the report must cover all kinds.
        let until = Instant::now() + LAST_TURN;
        while !tally.is_complete() && Instant::now() < until {
            std::thread::sleep(LOOK);
        }
        tally.stop.store(true, Ordering::Relaxed);
    });
    print::line(serde_json::to_string(&tally.report()).doing("write the report")?)?;
    Ok(ExitCode::SUCCESS)
}

fn victim(args: &CrowdArgs, cluster: &Cluster) -> Outcome<Victim> {
    let replica = ReplicaId::new(args.replica);
    let address = cluster.members.iter().find(|(id, _)| *id == replica).map(|(_, address)| address);
    let address = address.ok_or_else(|| Failure::usage("--replica: there is no such replica"))?;
    let resolved = address.to_socket_addrs().doing("look up the replica's address")?.next();
    let files = args.tls.as_ref().map(|place| TlsFiles {
        ca: place.join("ca.pem"),
        certificate: place.join("hostile.pem"),
        key: place.join("hostile.key"),
    });
    let load = |files: TlsFiles| Credentials::load(&files).map_err(|why| Failure::usage(why.to_string()));
    Ok(Victim {
        cluster: cluster.id,
        replica,
        address: resolved.ok_or_else(|| Failure::new("the replica has no address"))?,
        credentials: files.map(load).transpose()?.map(std::sync::Arc::new),
    })
}

/// Waits until this number of threads hold all of their connections.
fn wait_for(tally: &Tally, threads: u64) {
    while tally.there.load(Ordering::Relaxed) < threads {
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn hold(tally: &Tally) {
    tally.there.fetch_add(1, Ordering::Relaxed);
    while tally.goes_on() {
        std::thread::sleep(LOOK);
    }
}

/// Connects as a client should, and then does nothing.
fn idle(tally: &Tally, victim: &Victim, first: u64, count: usize) {
    let held: Vec<Raw> = (0..count as u64)
        .take_while(|_| tally.goes_on())
        .filter_map(|number| tally.greet(victim, first + number))
        .collect();
    hold(tally);
    drop(held);
}

/// Sockets that never finish the handshake. Those that the replica closes are opened again.
fn unspoken(tally: &Tally, victim: &Victim, count: usize, begins: bool) {
    let Ok(first) = victim.first_bytes() else { return };
    // A part of a hello is as good where there is no TLS.
    let first = if victim.credentials.is_some() { &first[..] } else { &first[..first.len() / 2] };
    let open = || {
        let mut stream = victim.dial().ok()?;
        if begins {
            stream.write_all(first).ok()?;
        }
        stream.set_nonblocking(true).ok()?;
        Some(stream)
    };
    let mut held: Vec<Option<TcpStream>> = (0..count).map(|_| open()).collect();
    tally.there.fetch_add(1, Ordering::Relaxed);
    let mut bytes = [0; 4096];
    while tally.goes_on() {
        for place in &mut held {
            let gone = match place.as_mut().map(|stream| stream.read(&mut bytes)) {
                Some(Ok(read)) => read == 0,
                Some(Err(why)) => why.kind() != io::ErrorKind::WouldBlock,
                None => true,
            };
            if gone {
                tally.turned_away.fetch_add(1, Ordering::Relaxed);
                *place = open();
            }
        }
        std::thread::sleep(LOOK);
    }
}

/// Clients that ask for megabytes and read nothing.
fn slow(tally: &Tally, victim: &Victim, count: usize) {
    let mut query = Vec::new();
    KvQuery::Get { key: LARGE_KEY }.encode(&mut query);
    let mut body = Vec::new();
    for read in 0..16 {
        let read = ReadRequest { read, seen: Seq::ZERO, consistency: ReadConsistency::Weak, query: &query };
        write_read_request(&mut body, &read);
    }
    let asks = OutFrame::new(FrameKind::Reads, &body, vec![]).to_vec();
    let mut held: Vec<Raw> =
        (0..count as u64).filter_map(|number| tally.greet(victim, 30_000_000 + number)).collect();
    for raw in &held {
        let _ = raw.set_patience(Duration::from_millis(1));
    }
    tally.there.fetch_add(1, Ordering::Relaxed);
    while tally.goes_on() {
        let before = held.len();
        // A write that takes too long was not read by the replica, as it should be.
        held.retain_mut(|raw| match raw.write(&asks) {
            Ok(()) => true,
            Err(why) => matches!(why.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut),
        });
        tally.cut.fetch_add((before - held.len()) as u64, Ordering::Relaxed);
        std::thread::sleep(LOOK);
    }
}

/// Clients that announce a frame of a megabyte and never send its end.
fn partial(tally: &Tally, victim: &Victim, count: usize) {
    let frame = OutFrame::new(FrameKind::Requests, &vec![0; 1 << 20], vec![]).to_vec();
    let send = |number: u64| {
        let mut raw = tally.greet(victim, number)?;
        raw.set_patience(Duration::from_secs(2)).ok()?;
        raw.write(&frame[..frame.len() - 1]).ok()?;
        Some(raw)
    };
    let held: Vec<Raw> = (0..count as u64).filter_map(|number| send(40_000_000 + number)).collect();
    hold(tally);
    drop(held);
}

fn again_and_again(tally: &Tally, mut once: impl FnMut()) {
    while tally.goes_on() {
        once();
        std::thread::sleep(PAUSE);
    }
}

fn noise(bytes: &mut [u8]) {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for byte in bytes {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *byte = (state >> 56) as u8;
    }
}

/// Opens connections until one is refused; then closes all and begins anew.
fn greedy(tally: &Tally, victim: &Victim, most: usize) {
    let mut first = true;
    while tally.goes_on() {
        let mut held = Vec::new();
        while tally.goes_on() && held.len() < most {
            match victim.greet(70_000_000 + held.len() as u64) {
                Ok(Greeting::Welcome(raw)) => held.push(raw),
                Ok(Greeting::Refused(text)) => {
                    tally.refused(&text);
                    break;
                }
                // Nobody looked at it: the door is crowded.
                Ok(Greeting::Lost) | Err(_) => {}
            }
            std::thread::sleep(PAUSE);
        }
        drop(held);
        if std::mem::take(&mut first) {
            tally.there.fetch_add(1, Ordering::Relaxed);
        }
        std::thread::sleep(LOOK);
    }
}

/// Sends garbage instead of a handshake.
fn garbage_first(victim: &Victim) {
    let Ok(mut stream) = victim.dial() else { return };
    let mut bytes = [0; 4096];
    noise(&mut bytes);
    let _ = stream.set_read_timeout(Some(Duration::from_secs(1)));
    let _ = stream.write_all(&bytes);
    let _ = stream.read(&mut bytes);
}

/// Sends a handshake, then garbage.
fn garbage_later(tally: &Tally, victim: &Victim) {
    let Some(mut raw) = tally.greet(victim, 50_000_000) else { return };
    let mut bytes = [0; 4096];
    noise(&mut bytes);
    let _ = raw.set_patience(Duration::from_secs(2));
    if raw.write(&bytes).is_ok()
        && let Some(text) = raw.last_words()
    {
        tally.refused(&text);
    }
}

/// Announces a frame of three gigabytes.
fn giant(tally: &Tally, victim: &Victim) {
    let Some(mut raw) = tally.greet(victim, 60_000_000) else { return };
    let mut frame = OutFrame::new(FrameKind::Requests, &[], vec![]).to_vec();
    frame[..4].copy_from_slice(&(3_u32 << 30).to_le_bytes());
    let crc = crc32c::crc32c(&frame[..12]);
    frame[12..FRAME_HEADER].copy_from_slice(&crc.to_le_bytes());
    let _ = raw.set_patience(Duration::from_secs(2));
    if raw.write(&frame).is_ok()
        && let Some(text) = raw.last_words()
    {
        tally.refused(&text);
    }
}

/// A session that keeps as many puts under way as are allowed.
fn flood(tally: &Tally, victim: &Victim, number: u64) {
    while tally.goes_on() {
        if let Some(raw) = tally.greet(victim, number) {
            let _ = raw.set_patience(Duration::from_secs(2));
            let _ = puts(tally, raw, victim.client(number).number());
        }
        std::thread::sleep(PAUSE);
    }
}

fn puts(tally: &Tally, mut raw: Raw, client: u64) -> io::Result<()> {
    const TOGETHER: u64 = 512;
    let session = open_session(&mut raw, client)?;
    let (mut sent, mut answered) = (0, 0);
    let mut command = Vec::new();
    KvCommand::One(Operation::Put { key: &client.to_le_bytes(), value: &[7; 256] }).encode(&mut command);
    let mut commands = ItemsBuilder::new();
    commands.push(&command);
    while tally.goes_on() {
        let mut body = Vec::new();
        for _ in 0..TOGETHER {
            sent += 1;
            let (number, lowest) = (RequestNumber::new(sent), RequestNumber::new(answered + 1));
            write_request(&mut body, session, number, lowest, &commands);
        }
        raw.write(&OutFrame::new(FrameKind::Requests, &body, vec![]).to_vec())?;
        while sent - answered >= TOGETHER {
            let Some(frame) = raw.read()? else { return Ok(()) };
            if frame.kind != FrameKind::Replies {
                continue;
            }
            for reply in Reply::walk(&frame.payload).flatten() {
                if reply.status != ReplyStatus::Done {
                    return Ok(()); // it begins anew
                }
                answered = answered.max(reply.number.number());
                tally.flooded.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
    Ok(())
}

fn open_session(raw: &mut Raw, client: u64) -> io::Result<SessionId> {
    let mut body = Vec::new();
    let nonce = RequestNumber::new(quorate_command::random::number().unwrap_or(1));
    RequestHeader {
        session: SessionId::NONE,
        number: nonce,
        lowest_unanswered: RequestNumber::ZERO,
        kind: RequestKind::OpenSession,
        len: 8,
        proof: RequestProof::None,
    }
    .write_to(&mut body);
    body.extend_from_slice(&client.to_le_bytes());
    raw.write(&OutFrame::new(FrameKind::Requests, &body, vec![]).to_vec())?;
    while let Some(frame) = raw.read()? {
        if frame.kind == FrameKind::Replies
            && let Some(Ok(reply)) = Reply::walk(&frame.payload).next()
            && reply.status == ReplyStatus::SessionOpened
        {
            return Ok(reply.session);
        }
    }
    Err(io::ErrorKind::UnexpectedEof.into())
}

/// Sends requests of sessions that do not exist, as fast as they are taken; reads and ignores the answers.
fn nonsense(tally: &Tally, victim: &Victim, number: u64) {
    let mut body = Vec::new();
    for index in 0..2000 {
        let session = SessionId { index: 90_000 + index, generation: 7 };
        write_request(&mut body, session, RequestNumber::new(1), RequestNumber::new(1), &ItemsBuilder::new());
    }
    let frame = OutFrame::new(FrameKind::Requests, &body, vec![]).to_vec();
    while tally.goes_on() {
        if let Some(mut raw) = tally.greet(victim, number) {
            let _ = raw.set_patience(Duration::from_secs(2));
            while tally.goes_on() && raw.write(&frame).is_ok() && matches!(raw.read(), Ok(Some(_))) {}
        }
        std::thread::sleep(PAUSE);
    }
}
