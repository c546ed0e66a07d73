//! Sockets with the settings that replication needs, and the trait that tests replace to cut and slow links.

use quorate_types::ReplicaId;
use rustix::io::Errno;
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

const BACKLOG: i32 = 1024;
/// A connection whose other side acknowledges nothing for this time is dead.
const UNACKNOWLEDGED: Duration = Duration::from_secs(10);

/// How a replica listens, and connects to others. All sockets are non-blocking.
pub trait Network: Send + Sync {
    /// Listens. A port that another process uses is an error; one that a killed process has left is not.
    ///
    /// # Errors
    /// The error of the system.
    fn listen(&self, address: SocketAddr) -> io::Result<TcpListener>;

    /// Begins to connect to a member. The stream becomes writable when it is connected.
    ///
    /// # Errors
    /// The error of the system.
    fn connect(&self, to: ReplicaId, address: SocketAddr) -> io::Result<TcpStream>;

    /// Sets up the stream of an accepted connection.
    fn accepted(&self, stream: &TcpStream) {
        let _ = stream;
    }
}

/// The system's network.
#[derive(Clone, Debug, Default)]
pub struct SystemNetwork {
    congestion: Option<String>,
}

impl SystemNetwork {
    /// Sockets with this congestion control, by the system's name; `None` leaves the system's default.
    pub fn new(congestion: Option<&str>) -> Self {
        Self { congestion: congestion.map(str::to_owned) }
    }

    /// Sends small frames without delay, limits the time for dead peers, and sets the congestion control: bbr, where it is the system's
    /// default, sends bulk data on short links far below their capacity.
    fn tune(&self, socket: &SockRef<'_>) {
        // None of these is needed for correctness, and not every system has each.
        let _ = socket.set_tcp_nodelay(true);
        let _ = socket.set_tcp_user_timeout(Some(UNACKNOWLEDGED));
        let _ = socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(UNACKNOWLEDGED));
        if let Some(name) = &self.congestion {
            let _ = socket.set_tcp_congestion(name.as_bytes());
        }
    }
}

impl Network for SystemNetwork {
    fn listen(&self, address: SocketAddr) -> io::Result<TcpListener> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_reuse_address(true)?;
        socket.set_nonblocking(true)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        Ok(socket.into())
    }

    fn connect(&self, _: ReplicaId, address: SocketAddr) -> io::Result<TcpStream> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_nonblocking(true)?;
        self.tune(&SockRef::from(&socket));
        match socket.connect(&address.into()) {
            Err(error) if error.raw_os_error() != Some(Errno::INPROGRESS.raw_os_error()) => Err(error),
            Ok(()) | Err(_) => Ok(socket.into()),
        }
    }

    fn accepted(&self, stream: &TcpStream) {
        self.tune(&SockRef::from(stream));
    }
}
