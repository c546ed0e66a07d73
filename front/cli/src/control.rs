//! The control socket of `quorate dev`: one JSON document per line, a request and its response. `chaos` speaks through it.

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
/// No request or response is longer.
const LINE_BYTES_MAX: u64 = 64 << 10;
/// A clean stop may take some seconds; nothing takes longer.
const ANSWER: Duration = Duration::from_secs(30);

/// What to do to replicas.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Action {
    /// Ends the process at once, as a power cut would end its machine.
    Kill,
    /// Stops it where it is, as a hypervisor would.
    Pause,
    /// Lets it go on.
    Resume,
    /// Starts it; one that runs is stopped cleanly before.
    Restart,
    /// Lets it lie, or no longer.
    Lie(How),
    /// Does nothing; the response tells how all replicas are.
    List,
}

/// A request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Request {
    /// What to do.
    pub(crate) action: Action,
    /// To whom.
    #[serde(default)]
    pub(crate) replicas: Vec<u16>,
}

/// How a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Life {
    /// It runs.
    Running,
    /// It was paused.
    Paused,
    /// It was killed.
    Killed,
    /// It ended by itself.
    Ended,
}

/// A process of the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ChildReport {
    /// Which replica.
    pub(crate) replica: u16,
    /// Its process, while there is one.
    pub(crate) pid: Option<u32>,
    /// How it is.
    pub(crate) life: Life,
}

/// A response: how all replicas are afterwards, or why nothing or not all was done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Response {
    /// Done.
    Done(Done),
    /// Not, or not all, done.
    Error(String),
}

/// What was done.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Done {
    /// To whom: those asked for that it could be done to.
    pub(crate) changed: Vec<u16>,
    /// How all replicas are afterwards.
    pub(crate) replicas: Vec<ChildReport>,
}

/// Listens in this directory. A socket that a former `dev` left is replaced: the caller holds the directory's lock.
pub(crate) fn listen(directory: &Path) -> io::Result<UnixListener> {
    let (_held, path) = socket_path(directory)?;
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    UnixListener::bind(path)
}

/// Asks the `dev` that runs on this directory.
///
/// # Errors
/// When none runs there, or it says no.
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

/// Reads one document; none at the end of the stream.
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

/// The path of the socket; the system takes about 100 bytes only, and directories are longer at times. Through an open
/// directory the path is short. The file must be held until the path was used.
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
