//! Checks the replicas: whether each runs, whether it can listen, and which other replicas it can reach.

use super::Findings;
use super::subject::{Patient, Subject};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, TcpStream, ToSocketAddrs as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

const CONNECT: Duration = Duration::from_millis(500);
/// Number of connections that are timed; the fastest one shows the network's time, the others waited for a processor.
const TRIES: usize = 3;

/// The state of a replica's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Where {
    /// On this machine, and the replica runs.
    Running,
    /// On this machine, and nothing listens there.
    Free,
    /// On this machine, and another program listens there.
    Taken,
    /// On another machine.
    Elsewhere,
    /// Unknown; see the problems.
    Unknown,
}

/// A replica.
#[derive(Clone, Debug, Serialize)]
pub(super) struct ReplicaReport {
    pub(super) replica: u16,
    pub(super) listen: String,
    pub(super) durability: String,
    #[serde(rename = "address")]
    pub(super) at: Where,
    /// The id of the process that uses its data directory.
    pub(super) pid: Option<u32>,
    pub(super) log_bytes: u64,
    pub(super) checkpoint_bytes: u64,
    /// The members that answered, and the time to connect to each, in microseconds.
    pub(super) reached_us: BTreeMap<u16, f64>,
    pub(super) not_reached: Vec<u16>,
}

/// Checks all replicas.
pub(super) fn look(subject: &Subject, findings: &mut Findings) -> Vec<ReplicaReport> {
    let locks = fs::read_to_string("/proc/locks").unwrap_or_default();
    let reports = subject.patients.iter().map(|patient| one(patient, subject.one, &locks, findings));
    let reports: Vec<ReplicaReport> = reports.collect();
    stopped(&reports, findings);
    reports
}

/// Where some replicas of this machine run, the others should. In a cluster that was never started none does.
pub(super) fn stopped(reports: &[ReplicaReport], findings: &mut Findings) {
    let at = |at: Where| reports.iter().filter(move |report| report.at == at);
    if at(Where::Running).next().is_some() {
        for report in at(Where::Free) {
            findings.warning(
                format!("replica {} does not run, and others of its cluster run here", report.replica),
                "Start it; if it ended by itself, the end of its log says why",
            );
        }
    }
}

fn one(patient: &Patient, must_be_here: bool, locks: &str, findings: &mut Findings) -> ReplicaReport {
    let config = &patient.config;
    let pid = fs::metadata(config.data.join("lock")).ok().and_then(|lock| holder(locks, lock.ino()));
    let at = address(patient, pid, must_be_here, findings);
    let others = config.members.iter().filter(|member| member.replica != config.replica);
    let (mut reached_us, mut not_reached) = (BTreeMap::new(), Vec::new());
    std::thread::scope(|scope| {
        let asked: Vec<_> =
            others.map(|other| (other.replica, scope.spawn(|| round_trip(&other.address)))).collect();
        for (replica, thread) in asked {
            match thread.join().ok().flatten() {
                Some(time) => drop(reached_us.insert(replica, time.as_nanos() as f64 / 1000.0)),
                None => not_reached.push(replica),
            }
        }
    });
    ReplicaReport {
        replica: config.replica,
        listen: config.listen_address().to_owned(),
        durability: config.durability.to_string(),
        at,
        pid,
        log_bytes: size_of(&config.data.join("log")),
        checkpoint_bytes: size_of(&config.data.join("checkpoints")),
        reached_us,
        not_reached,
    }
}

fn address(patient: &Patient, pid: Option<u32>, must_be_here: bool, findings: &mut Findings) -> Where {
    let (replica, file) = (patient.config.replica, patient.file.display());
    let listen = patient.config.listen_address();
    let Some(address) = resolve(listen) else {
        findings.problem(
            format!("replica {replica} is to listen on {listen}, which is no address"),
            format!("Correct `listen` or the member's `address` in {file}: host:port, with a name that this machine can look up"),
        );
        return Where::Unknown;
    };
    if pid.is_some() {
        return Where::Running;
    }
    // As `serve` does. Nobody notices: it is closed at once.
    let why = match TcpListener::bind(address) {
        Ok(_) => return Where::Free,
        Err(why) => why,
    };
    match why.kind() {
        ErrorKind::AddrInUse => {
            findings.problem(
                format!("replica {replica} does not run, and another process listens on {listen}"),
                format!("Stop that process, or choose another port in {file} and in the files of all others"),
            );
            Where::Taken
        }
        // The directories of a new cluster are made in one place and then copied.
        ErrorKind::AddrNotAvailable if !must_be_here => Where::Elsewhere,
        ErrorKind::AddrNotAvailable => {
            findings.problem(
                format!("replica {replica} is to listen on {listen}, and this machine has no such address"),
                format!("Run this on its own machine, or set `listen` in {file} to an address of this one"),
            );
            Where::Elsewhere
        }
        ErrorKind::PermissionDenied => {
            findings
                .problem(format!("replica {replica} may not listen on {listen}"), "Choose a port above 1023");
            Where::Unknown
        }
        _ => {
            findings.problem(
                format!("replica {replica} can not listen on {listen}: {why}"),
                format!("Correct it in {file}"),
            );
            Where::Unknown
        }
    }
}

fn resolve(address: &str) -> Option<SocketAddr> {
    address.to_socket_addrs().ok()?.next()
}

/// The time to make a connection: one round trip.
fn round_trip(address: &str) -> Option<Duration> {
    let address = resolve(address)?;
    let mut quickest: Option<Duration> = None;
    for _ in 0..TRIES {
        let begun = Instant::now();
        TcpStream::connect_timeout(&address, CONNECT).ok()?;
        let time = begun.elapsed();
        quickest = Some(quickest.map_or(time, |before| before.min(time)));
    }
    quickest
}

/// The process that holds the lock on the file with this inode, by the system's list of locks:
/// `1: FLOCK  ADVISORY  WRITE 4242 fe:00:1234 0 EOF`.
pub(super) fn holder(locks: &str, inode: u64) -> Option<u32> {
    let held = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [_, "FLOCK", _, "WRITE", pid, file, ..] = fields.as_slice() else { return None };
        let (_, number) = file.rsplit_once(':')?;
        (number.parse() == Ok(inode)).then(|| pid.parse().ok()).flatten()
    };
    locks.lines().find_map(held)
}

/// Bytes that the files of a directory take.
fn size_of(directory: &Path) -> u64 {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.metadata().ok())
        .filter(fs::Metadata::is_file)
        .map(|file| file.blocks() * 512)
        .sum()
}
