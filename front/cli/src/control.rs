//! The control socket of `quorate dev`: one JSON document per line, a request and its response. `chaos` speaks through it.

use clap::ValueEnum;
use quorate_command::failure::{Failure, Outcome};
use quorate_lab::lies::How;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The name of the socket in the directory of the cluster.
pub(crate) const SOCKET: &str = "control.sock";
/// The longest request or response.
const LINE_BYTES_MAX: u64 = 64 << 10;
/// The most time for an answer; a clean stop may take some seconds.
const ANSWER: Duration = Duration::from_secs(30);

/// An action on replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Action {
    /// Ends the process at once, as if its machine lost power.
    Kill,
    /// Stops the process where it is, as a hypervisor might.
    Pause,
    /// Lets a stopped process continue.
    Resume,
    /// Starts the process; if it runs, stops it cleanly before.
    Restart,
    /// Makes the replica lie, or stop lying.
    Lie(How),
    /// Lets all that the replica sends to others leave this many milliseconds late; 0: no more.
    Slow(u32),
    /// Lets nothing pass between these replicas and the others; replaces the partition before.
    Partition,
    /// Ends the partition, for all replicas.
    Heal,
    /// Changes bytes at rest in the replica's data directory.
    CorruptDisk(What),
    /// Lets the replica put only so many MiB more on its disk; `None`: as many as there are.
    FillDisk(Option<u64>),
    /// Lets the replica's clock jump by this many milliseconds; negative: back.
    ClockJump(i64),
    /// Does nothing; the response has the state of all replicas.
    List,
}

/// What rots on a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum What {
    /// A part of the newest checkpoint
    Checkpoint,
    /// A file of the log that is full
    Log,
}

/// Bytes that were changed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Damage {
    /// The replica.
    pub(crate) replica: u16,
    /// The file.
    pub(crate) file: PathBuf,
    /// Where the changed bytes begin.
    pub(crate) offset: u64,
    /// How many there are.
    pub(crate) bytes: u64,
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    /// The action.
    pub(crate) action: Action,
    /// The replicas that it concerns.
    #[serde(default)]
    pub(crate) replicas: Vec<u16>,
}

/// The state of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Life {
    /// The process runs.
    Running,
    /// The process is stopped where it is.
    Paused,
    /// The process was killed.
    Killed,
    /// The process ended on its own.
    Ended,
}

/// A process of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ChildReport {
    /// Its number.
    pub(crate) replica: u16,
    /// The process id, while it runs.
    pub(crate) pid: Option<u32>,
    /// Its state.
    pub(crate) life: Life,
    /// The replicas that it is cut off from.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) apart: Vec<u16>,
    /// Where it ended on its own: the last error in its log, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) error: Option<String>,
}

impl ChildReport {
    /// Why it ended on its own, and what to do; `dir`: what commands need to be about this cluster. `None` if it did not end so.
    pub(crate) fn ended(&self, dir: &str) -> Option<String> {
        let (again, error) = (format!("`quorate chaos restart {}{dir}`", self.replica), self.error.as_ref());
        (self.life == Life::Ended).then(|| match error {
            Some(why) => format!("its process ended: {why}. Do what that says, then {again}"),
            None => format!("its process ended, and the end of its log, log.txt, says more; then {again}"),
        })
    }

    /// Whether it has no process.
    pub(crate) fn is_dead(&self) -> bool {
        matches!(self.life, Life::Killed | Life::Ended)
    }
}

/// A response: the state of all replicas afterwards, or an error.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Response {
    /// The action was carried out.
    Done(Done),
    /// The action was not carried out, or not for all replicas.
    Error(String),
}

/// The result of an action.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Done {
    /// The replicas that the action changed.
    pub(crate) changed: Vec<u16>,
    /// The state of all replicas afterwards.
    pub(crate) replicas: Vec<ChildReport>,
    /// The bytes that it changed on disks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) damage: Vec<Damage>,
}

/// Listens in this directory. The socket of an earlier `dev` is replaced: the caller holds the directory's lock.
pub(crate) fn listen(directory: &Path) -> io::Result<UnixListener> {
    let (_held, path) = socket_path(directory)?;
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    UnixListener::bind(path)
}

/// Sends a request to the `dev` that manages this directory.
///
/// # Errors
/// When no `dev` runs there, or it refuses.
pub(crate) fn call(directory: &Path, request: &Request) -> Outcome<Done> {
    let shown = directory.display();
    let (_held, path) = socket_path(directory)
        .map_err(|why| Failure::new(format!("can not open {shown}: {why}. Name the directory with --dir")))?;
    let stream = UnixStream::connect(path).map_err(|why| {
        Failure::new(format!(
            "no `quorate dev` runs on {shown} ({why}): faults can only be made in a cluster that it looks after. Start it in \
             another terminal"
        ))
    })?;
    match exchange(stream, request) {
        Ok(Response::Done(done)) => Ok(done),
        Ok(Response::Error(why)) => Err(Failure::new(why)),
        Err(why) => Err(Failure::new(format!("the `quorate dev` on {shown} does not answer: {why}"))),
    }
}

fn exchange(stream: UnixStream, request: &Request) -> io::Result<Response> {
    stream.set_read_timeout(Some(ANSWER))?;
    write_line(&stream, request)?;
    read_line(&stream)?.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

/// Reads one document; `None` at the end of the stream.
pub(crate) fn read_line<T: serde::de::DeserializeOwned>(stream: &UnixStream) -> io::Result<Option<T>> {
    let mut line = String::new();
    BufReader::new(stream.take(LINE_BYTES_MAX)).read_line(&mut line)?;
    if line.is_empty() {
        return Ok(None);
    }
    serde_json::from_str(&line).map(Some).map_err(|why| io::Error::new(io::ErrorKind::InvalidData, why))
}

/// Writes one document.
pub(crate) fn write_line(mut stream: &UnixStream, document: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(document)?;
    line.push(b'\n');
    stream.write_all(&line)
}

/// The path of the socket. The system allows about 100 bytes only, and directories may be longer; a path through an open directory is
/// short. The file must be held until the path was used.
fn socket_path(directory: &Path) -> io::Result<(Option<File>, PathBuf)> {
    const PATH_BYTES_MAX: usize = 90;
    let path = directory.join(SOCKET);
    if path.as_os_str().len() <= PATH_BYTES_MAX {
        return Ok((None, path));
    }
    let held = File::open(directory)?;
    let path = PathBuf::from(format!("/proc/self/fd/{}/{SOCKET}", held.as_raw_fd()));
    Ok((Some(held), path))
}
