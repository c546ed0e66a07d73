//! Connections of clients. A front listens for them and serves them on a thread of its own, beside the lane.
//!
//! The front limits the number of connections at once; others wait in the system's queue. With certificates the time for the beginning of
//! a connection is limited, too. Dropping [`Running`] ends the front and all its work. Tests:
//! front/kit/tests and `listener/tests.rs`.

use crate::settings::SettingsError;
use crate::shown::Shown;
use crate::tls::Tls;
use quorate::TlsFiles;
use rustix::net::sockopt;
use std::fmt;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, oneshot};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

#[cfg(test)]
mod tests;

/// How long the TLS handshake of a connection may take.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// How long to wait after the system could not accept a connection.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// After how long a silent client is asked whether it is there, how long it has to answer, and how often it is asked, by TCP's keep-alive.
const SILENT: Duration = Duration::from_secs(30);
const ASK_AGAIN: Duration = Duration::from_secs(10);
const ASKED: u32 = 3;

/// How a front listens.
#[derive(Clone, Debug)]
pub struct Listen {
    /// The front's name in threads, the log and errors, such as `etcd`.
    pub front: &'static str,
    /// The address, as `host:port`; port 0 stands for any free one.
    pub address: String,
    /// The member's certificates; none where connections are plain.
    pub tls: Option<TlsFiles>,
    /// Whether clients may also connect without TLS, at the same port. The first byte tells which it is.
    pub plain_too: bool,
    /// The protocols offered over TLS, the best first (ALPN). If empty, clients need not name any.
    pub protocols: &'static [&'static [u8]],
    /// The most connections at once.
    pub connections_max: usize,
    /// The most threads for work that would hold up the one that serves, such as a [`Worker`](crate::Worker)'s.
    pub helpers: usize,
}

/// Why a front does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address can not be used.
    #[error(
        "can not listen for clients of {front} on {address}: {why}. Correct `listen` in [front.{front}], or stop who uses that port"
    )]
    Listen {
        /// The front.
        front: &'static str,
        /// The address.
        address: String,
        /// The system's error.
        why: io::Error,
    },
    /// The certificates can not be used.
    #[error("the certificates can not be used for clients of {front}: {why}")]
    Tls {
        /// The front.
        front: &'static str,
        /// The error.
        why: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Something that the settings name can not be used.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// The system refused a thread.
    #[error("starting a thread: {0}")]
    Thread(io::Error),
}

/// A front that runs. Dropping this value ends the front.
pub struct Running {
    front: &'static str,
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Running {
    /// The front's name.
    pub fn front(&self) -> &'static str {
        self.front
    }

    /// The address on which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the front {} on {}", self.front, self.address)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Listen {
    /// Listens, and runs `serve` on a thread of its own with an event loop.
    ///
    /// # Errors
    /// When the front does not start.
    pub fn start<S, F>(self, serve: S) -> Result<Running, StartError>
    where
        S: FnOnce(Listener) -> F + Send + 'static,
        F: Future<Output = ()>,
    {
        let Self { front, address, tls, plain_too, protocols, connections_max, helpers } = self;
        let tls = tls.map(|files| Tls::load(front, files, protocols)).transpose();
        let tls = tls.map_err(|why| StartError::Tls { front, why })?;
        let refused = |why| StartError::Listen { front, address: address.clone(), why };
        let listener = std::net::TcpListener::bind(&address).map_err(refused)?;
        listener.set_nonblocking(true).map_err(refused)?;
        let address = listener.local_addr().map_err(refused)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .thread_name(format!("{front}-help"))
            .max_blocking_threads(helpers)
            .build()
            .map_err(StartError::Thread)?;
        let (stop, stopped) = oneshot::channel();
        let work = move || {
            runtime.block_on(async move {
                let serve = async {
                    match TcpListener::from_std(listener) {
                        Ok(tcp) => {
                            let open = Connections::default();
                            let listener =
                                Listener { front, tcp, tls, plain_too, address, connections_max, open };
                            serve(listener).await;
                        }
                        Err(why) => tracing::error!("clients of {front} are not served: {why}"),
                    }
                };
                tokio::select! {
                    () = serve => {}
                    _ = stopped => {}
                }
            });
            runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new().name(front.into()).spawn(work);
        let thread = Some(thread.map_err(StartError::Thread)?);
        Ok(Running { front, address, stop: Some(stop), thread })
    }
}

/// Counts connections. All clones act as one.
#[derive(Clone, Debug, Default)]
pub struct Connections(Arc<AtomicUsize>);

impl Connections {
    /// The present number of connections.
    pub fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// Accepts clients' connections.
pub struct Listener {
    front: &'static str,
    tcp: TcpListener,
    tls: Option<Tls>,
    plain_too: bool,
    address: SocketAddr,
    connections_max: usize,
    open: Connections,
}

/// A client's connection, after the TLS handshake if there is one.
#[derive(Debug)]
pub struct Connection {
    /// The stream to read from and write to.
    pub stream: Stream,
    /// The holder of the client's certificate; nobody where connections are plain.
    pub shown: Shown,
    /// The client's address.
    pub peer: SocketAddr,
}

impl Listener {
    /// The address on which it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether connections are encrypted and authenticated.
    pub fn is_safe(&self) -> bool {
        self.tls.is_some()
    }

    /// The counter of its connections.
    pub fn connections(&self) -> Connections {
        self.open.clone()
    }

    /// Serves each connection in a task of its own, for ever.
    pub async fn each<S, F>(self, serve: S)
    where
        S: Fn(Connection) -> F + Clone + Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let places = Arc::new(Semaphore::new(self.connections_max));
        let front = self.front;
        loop {
            let Ok(place) = places.clone().acquire_owned().await else { return };
            let (stream, peer) = match self.tcp.accept().await {
                Ok(accepted) => accepted,
                Err(why) => {
                    tracing::debug!("a client of {front} could not connect: {why}");
                    tokio::time::sleep(ACCEPT_AGAIN).await;
                    continue;
                }
            };
            let (serve, open) = (serve.clone(), self.open.clone());
            let (acceptor, plain_too) = (self.tls.as_ref().map(Tls::acceptor), self.plain_too);
            tokio::spawn(async move {
                open.0.fetch_add(1, Ordering::Relaxed);
                if let Some((stream, shown)) = begin(front, stream, acceptor, plain_too).await {
                    serve(Connection { stream, shown, peer }).await;
                }
                open.0.fetch_sub(1, Ordering::Relaxed);
                drop(place);
            });
        }
    }
}

/// Sends small answers without delay, and asks a client that is silent whether it is there: one that vanished, while it only waits for what
/// the front may send, would keep its place for ever.
fn tune(stream: &TcpStream) {
    // None of these is needed for correctness, and not every system has each.
    let _ = stream.set_nodelay(true);
    let _ = sockopt::set_tcp_keepidle(stream, SILENT);
    let _ = sockopt::set_tcp_keepintvl(stream, ASK_AGAIN);
    let _ = sockopt::set_tcp_keepcnt(stream, ASKED);
    let _ = sockopt::set_socket_keepalive(stream, true);
}

/// The first byte of a TLS connection.
const TLS_BEGINS: u8 = 22;

/// The connection, if the client completes the handshake in time.
async fn begin(
    front: &str,
    stream: TcpStream,
    acceptor: Option<TlsAcceptor>,
    plain_too: bool,
) -> Option<(Stream, Shown)> {
    tune(&stream);
    let mut first = [TLS_BEGINS];
    if plain_too && acceptor.is_some() {
        tokio::time::timeout(HANDSHAKE, stream.peek(&mut first)).await.ok()?.ok()?;
    }
    let Some(acceptor) = acceptor.filter(|_| first == [TLS_BEGINS]) else {
        return Some((Stream::Plain(stream), Shown::default()));
    };
    match tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await.ok()? {
        Ok(stream) => {
            let shown = stream.get_ref().1.peer_certificates().and_then(|all| all.first());
            let shown = shown.map_or_else(Shown::default, Shown::of);
            Some((Stream::Safe(Box::new(stream)), shown))
        }
        Err(why) => {
            tracing::debug!("a client of {front} has no safe connection: {why}");
            None
        }
    }
}

/// The stream of a client's connection.
#[derive(Debug)]
pub enum Stream {
    /// Without TLS.
    Plain(TcpStream),
    /// With TLS.
    Safe(Box<TlsStream<TcpStream>>),
}

/// Does the same with either kind of stream.
macro_rules! either {
    ($self:ident, $stream:ident => $do:expr) => {
        match $self.get_mut() {
            Stream::Plain(stream) => {
                let $stream = Pin::new(stream);
                $do
            }
            Stream::Safe(stream) => {
                let $stream = Pin::new(stream.as_mut());
                $do
            }
        }
    };
}

impl AsyncRead for Stream {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        either!(self, stream => stream.poll_read(cx, into))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        either!(self, stream => stream.poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        either!(self, stream => stream.poll_write_vectored(cx, parts))
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.is_write_vectored(),
            Self::Safe(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, stream => stream.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self, stream => stream.poll_shutdown(cx))
    }
}
