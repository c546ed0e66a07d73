//! Sockets, set up the way that replication wants them.

use mio::net::{TcpListener, TcpStream};
use socket2::{Domain, Protocol, SockRef, Socket, TcpKeepalive, Type};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

const BACKLOG: i32 = 1024;
/// A connection whose other side acknowledges nothing for so long is dead.
const UNACKNOWLEDGED: Duration = Duration::from_secs(10);

/// Listens. A port that another process uses is an error; one that a killed process left behind is not.
pub(crate) fn listen(address: SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(TcpListener::from_std(socket.into()))
}

/// Begins to connect; the stream becomes writable when that succeeded.
pub(crate) fn connect(address: SocketAddr, congestion: Option<&str>) -> io::Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    tune(&stream, congestion);
    Ok(stream)
}

/// No delay for small frames, a time limit for dead peers, and the congestion control that was asked for: bbr, where it is
/// the system's default, paces bulk data on short links to well under what they carry.
pub(crate) fn tune(stream: &TcpStream, congestion: Option<&str>) {
    let socket = SockRef::from(stream);
    // None of these is needed for correctness, and not every system has each.
    let _ = socket.set_tcp_nodelay(true);
    let _ = socket.set_tcp_user_timeout(Some(UNACKNOWLEDGED));
    let _ = socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(UNACKNOWLEDGED));
    if let Some(name) = congestion {
        let _ = socket.set_tcp_congestion(name.as_bytes());
    }
}
