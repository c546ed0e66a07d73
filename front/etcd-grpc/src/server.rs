//! Connections, and which path is which: gRPC on HTTP/2; JSON, and pages for health, metrics and version, on either version of HTTP.
//!
//! One thread serves all of it, beside the lane: a client's bytes go through few hands. Tests: `tests/`.

use crate::asker::Asker;
use crate::auth::AuthService;
use crate::backend::Backend;
use crate::cluster::{ClusterService, announce};
use crate::framing::{self, Answer, Incoming, Outgoing};
use crate::header::Header;
use crate::hub::Hub;
use crate::jwt::Jwt;
use crate::kv::Unary;
use crate::maintenance::{MaintenanceService, VERSION};
use crate::operator::Operator;
use crate::password::Worker;
use crate::pb::etcdserverpb::auth_server::AuthServer;
use crate::pb::etcdserverpb::cluster_server::ClusterServer;
use crate::pb::etcdserverpb::maintenance_server::MaintenanceServer;
use crate::pb::health::health_server::HealthServer;
use crate::pb::v3electionpb::election_server::ElectionServer;
use crate::pb::v3lockpb::lock_server::LockServer;
use crate::recipes::Recipes;
use crate::saved::{MakeBackup, Snapshots};
use crate::seen::{Look, Seen};
use crate::tls::Tls;
use crate::watch::WatchService;
use crate::watchers::Watchers;
use crate::{errors, gateway, gather, lease};
use http::{Method, Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use quorate::{Client, TlsFiles};
use quorate_types::{ClusterId, ReplicaId};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, oneshot};
use tonic::codegen::Service as _;
use tonic::service::Routes;

/// Connections at once.
const CONNECTIONS_MAX: usize = 10_000;
/// Calls of a connection at once.
const STREAMS_MAX: u32 = 10_000;
/// Threads for what takes long: passwords, operators' questions, and how the replica is.
const THREADS: usize = 4;
/// How long the beginning of a connection may take.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// How long to wait when the system has no room for a connection.
const ACCEPT_AGAIN: Duration = Duration::from_millis(100);

/// What the front needs to know.
pub struct FrontConfig {
    /// Where to listen for clients of etcd.
    pub listen: String,
    /// The replica's certificates; none where connections are plain.
    pub tls: Option<TlsFiles>,
    /// The cluster.
    pub cluster: ClusterId,
    /// The replica that this front speaks for.
    pub replica: ReplicaId,
    /// A client of the cluster.
    pub client: Client,
    /// What the replica's service tells.
    pub hub: Hub,
    /// Tokens that members sign; none: the store keeps tokens.
    pub tokens: Option<TokenConfig>,
    /// Whether this replica lies to clients at the moment, for experiments: it answers as if nothing was there, and acknowledges what it never
    /// asked for. None: it never does.
    pub lies: Option<Box<dyn Fn() -> bool + Send + Sync>>,
    /// Makes backups, where that can be done.
    pub backup: Option<MakeBackup>,
    /// What is known of the replica; may wait a moment.
    pub seen: Box<dyn Fn() -> Option<Seen> + Send + Sync>,
}

/// Tokens that members sign.
pub struct TokenConfig {
    /// How: `RS256`, `ES256`, `HS256` and so on.
    pub method: String,
    /// What the file of the key holds.
    pub key: Vec<u8>,
    /// How long a token is good.
    pub ttl: Duration,
}

/// Why the front does not start. Each says what to do.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The address.
    #[error(
        "can not listen for clients of etcd on {address}: {why}. Correct `etcd`, or stop who uses that port"
    )]
    Listen {
        /// Which address.
        address: String,
        /// What the system said.
        why: io::Error,
    },
    /// The key for tokens.
    #[error("etcd_tokens: {0}")]
    Tokens(String),
    /// The certificates.
    #[error("the certificates can not be used for clients of etcd: {0}")]
    Tls(Box<dyn std::error::Error + Send + Sync>),
    /// The system refuses a thread.
    #[error("starting a thread: {0}")]
    Thread(io::Error),
}

/// Starts fronts.
pub struct Front;

/// A front at work. Dropping it ends it.
pub struct Running {
    address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Running {
    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a front on {}", self.address)
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

impl Front {
    /// Listens, and serves on a thread of its own.
    ///
    /// # Errors
    /// When it can not.
    pub fn start(config: FrontConfig) -> Result<Running, StartError> {
        let tls = config.tls.clone().map(Tls::load).transpose().map_err(StartError::Tls)?;
        let jwt = config.tokens.as_ref().map(|tokens| Jwt::new(&tokens.method, &tokens.key, tokens.ttl));
        let jwt = jwt.transpose().map_err(StartError::Tokens)?.map(Arc::new);
        let listen = |why| StartError::Listen { address: config.listen.clone(), why };
        let listener = std::net::TcpListener::bind(&config.listen).map_err(listen)?;
        listener.set_nonblocking(true).map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .thread_name("etcd-help")
            .max_blocking_threads(THREADS)
            .build()
            .map_err(StartError::Thread)?;
        let (stop, stopped) = oneshot::channel();
        let work = move || {
            runtime.block_on(async move {
                let serve = async {
                    match TcpListener::from_std(listener) {
                        Ok(listener) => {
                            Server::new(config, tls.is_some(), jwt).run(listener, tls, address).await
                        }
                        Err(why) => tracing::error!("clients of etcd are not served: {why}"),
                    }
                };
                tokio::select! {
                    () = serve => {}
                    _ = stopped => {}
                }
            });
            runtime.shutdown_background();
        };
        let thread =
            std::thread::Builder::new().name("etcd".into()).spawn(work).map_err(StartError::Thread)?;
        Ok(Running { address, stop: Some(stop), thread: Some(thread) })
    }
}

/// What all connections share.
#[derive(Clone)]
struct Server {
    unary: Unary,
    watch: Arc<WatchService>,
    look: Look,
    routes: Routes,
    counts: Arc<Counts>,
    scheme: &'static str,
    jwt: Option<Arc<Jwt>>,
}

#[derive(Default)]
struct Counts {
    calls: AtomicU64,
    connections: AtomicI64,
}

impl Server {
    fn new(config: FrontConfig, safe: bool, jwt: Option<Arc<Jwt>>) -> Self {
        let header = Arc::new(Header::new(config.cluster, config.replica));
        let backend = Backend::start(config.client, config.replica);
        let watchers = Watchers::start(config.hub, backend.clone(), header.clone());
        // Watches and this replica's own work are as ever.
        let backend = backend.lying(config.lies);
        let look = Look::new(config.seen, header.clone());
        tokio::spawn(look.clone().always());
        let scheme = if safe { "https://" } else { "http://" };
        let operator = Arc::new(Operator {
            cluster: config.cluster,
            own: config.replica,
            tls: config.tls,
            look: look.clone(),
            backend: backend.clone(),
            worker: Worker::new(),
        });
        let cluster = ClusterService {
            backend: backend.clone(),
            header: header.clone(),
            cluster: config.cluster,
            look: look.clone(),
            operator: operator.clone(),
            scheme,
        };
        let maintenance = MaintenanceService {
            backend: backend.clone(),
            header: header.clone(),
            cluster: config.cluster,
            look: look.clone(),
            operator,
            snapshots: Snapshots::new(config.backup),
        };
        let (worker, signer) = (Worker::new(), jwt.clone());
        let auth = AuthService { backend: backend.clone(), header: header.clone(), worker, jwt: signer };
        let streams = AtomicU64::new(1);
        let watch = Arc::new(WatchService { watchers, header: header.clone(), streams });
        let recipes = Recipes { backend: backend.clone(), header: header.clone(), watch: watch.clone() };
        let routes = Routes::new(ClusterServer::new(cluster))
            .add_service(AuthServer::new(auth))
            .add_service(LockServer::new(recipes.clone()))
            .add_service(ElectionServer::new(recipes))
            .add_service(MaintenanceServer::new(maintenance.clone()))
            .add_service(HealthServer::new(maintenance));
        let unary = Unary { backend, header };
        Self { unary, watch, look, routes, counts: Arc::default(), scheme, jwt }
    }

    async fn run(self, listener: TcpListener, tls: Option<Tls>, address: SocketAddr) {
        let url = format!("{}{address}", self.scheme);
        tokio::spawn(announce(self.unary.backend.clone(), self.unary.header.member(), url));
        let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        loop {
            let Ok(place) = places.clone().acquire_owned().await else { return };
            let stream = match listener.accept().await {
                Ok((stream, _)) => stream,
                Err(why) => {
                    tracing::debug!("a client of etcd could not connect: {why}");
                    tokio::time::sleep(ACCEPT_AGAIN).await;
                    continue;
                }
            };
            let (server, acceptor) = (self.clone(), tls.as_ref().map(Tls::acceptor));
            tokio::spawn(async move {
                server.counts.connections.fetch_add(1, Ordering::Relaxed);
                server.connection(stream, acceptor).await;
                server.counts.connections.fetch_sub(1, Ordering::Relaxed);
                drop(place);
            });
        }
    }

    async fn connection(&self, stream: TcpStream, acceptor: Option<tokio_rustls::TlsAcceptor>) {
        let _ = stream.set_nodelay(true);
        match acceptor {
            None => self.speak(stream, Asker::default()).await,
            Some(acceptor) => match tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await {
                Ok(Ok(stream)) => {
                    let shown = stream.get_ref().1.peer_certificates().and_then(|all| all.first());
                    let asker = shown.map_or_else(Asker::default, Asker::of_certificate);
                    self.speak(stream, asker).await;
                }
                Ok(Err(why)) => tracing::debug!("a client of etcd has no safe connection: {why}"),
                Err(_) => {}
            },
        }
    }

    async fn speak(&self, stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static, asker: Asker) {
        let mut builder = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
        builder.http1().timer(TokioTimer::new()).header_read_timeout(HANDSHAKE);
        builder
            .http2()
            .timer(TokioTimer::new())
            .max_concurrent_streams(STREAMS_MAX)
            .initial_stream_window_size(1 << 20)
            .initial_connection_window_size(4 << 20)
            .max_header_list_size(64 << 10)
            .keep_alive_interval(Duration::from_secs(30));
        let service = hyper::service::service_fn(|request| self.clone().answer(request, &asker));
        let served =
            gather::together(stream, |stream| builder.serve_connection(TokioIo::new(stream), service)).await;
        if let Err(why) = served {
            tracing::trace!("a connection of a client of etcd ended: {why}");
        }
    }

    fn answer(
        mut self,
        request: Request<hyper::body::Incoming>,
        connection: &Asker,
    ) -> impl Future<Output = Answer> + use<> {
        self.counts.calls.fetch_add(1, Ordering::Relaxed);
        let (parts, body) = request.into_parts();
        let asker = Asker::of_call(&parts.headers, connection, self.jwt.as_deref());
        self.unary.backend.speak_for(asker.clone());
        self.route(parts, body, asker)
    }

    async fn route(
        self,
        mut parts: http::request::Parts,
        body: hyper::body::Incoming,
        asker: Asker,
    ) -> Answer {
        let path = parts.uri.path();
        if parts.method == Method::GET {
            return Ok(self.page(path).await);
        }
        match path {
            "/etcdserverpb.Watch/Watch" => return Ok(self.watch.watch(body, self.unary.backend)),
            "/etcdserverpb.Lease/LeaseKeepAlive" => return Ok(lease::keep_alive(&self.unary, body)),
            _ => {}
        }
        if path.starts_with(gateway::ROOT) {
            if parts.headers.contains_key(http::header::ORIGIN) {
                return Ok(gateway::refuse_page());
            }
            return Ok(gateway::answer(&self.unary, self.routes, path, body, asker).await);
        }
        if path.starts_with("/etcdserverpb.KV/") || path.starts_with("/etcdserverpb.Lease/") {
            let message = match Incoming::new(body).only().await {
                Ok(message) => message,
                Err(refusal) => return Ok(framing::refused(&refusal)),
            };
            let unknown = || Err(errors::Refusal::new(errors::UNIMPLEMENTED, "unknown method"));
            return Ok(framing::unary(self.unary.call(path, message).await.unwrap_or_else(unknown)));
        }
        parts.extensions.insert(asker);
        let mut routes = self.routes;
        let response: Response<tonic::body::Body> = routes.call(Request::from_parts(parts, body)).await?;
        Ok(response.map(Outgoing::Other))
    }

    async fn page(&self, path: &str) -> Response<Outgoing> {
        match path {
            "/version" => {
                let text = format!("{{\"etcdserver\":\"{VERSION}\",\"etcdcluster\":\"{VERSION}\"}}");
                framing::page(200, "application/json", text)
            }
            "/health" | "/livez" | "/readyz" => {
                let seen = self.look.now().await.unwrap_or_default();
                let healthy = seen.leader.is_some();
                let status = if healthy { 200 } else { 503 };
                if path == "/health" {
                    let reason = if healthy { "" } else { "RAFT NO LEADER" };
                    let text = format!("{{\"health\":\"{healthy}\",\"reason\":\"{reason}\"}}");
                    framing::page(status, "application/json", text)
                } else {
                    let text = if healthy { "ok\n" } else { "no leader\n" };
                    framing::page(status, "text/plain; charset=utf-8", text.into())
                }
            }
            "/metrics" => framing::page(200, "text/plain; version=0.0.4", self.metrics().await),
            _ => framing::page(404, "text/plain; charset=utf-8", "404 page not found\n".into()),
        }
    }

    /// The figures that dashboards for etcd ask for first.
    async fn metrics(&self) -> String {
        let seen = self.look.now().await.unwrap_or_default();
        let revision = self.watch.watchers.revision().await.unwrap_or(0);
        let leads = seen.leader.is_some_and(|leader| self.is_own(leader));
        let rows = [
            ("etcd_server_has_leader", "gauge", u64::from(seen.leader.is_some())),
            ("etcd_server_is_leader", "gauge", u64::from(leads)),
            ("etcd_server_proposals_committed_total", "gauge", seen.decided),
            ("etcd_server_proposals_applied_total", "gauge", seen.executed),
            ("etcd_debugging_mvcc_current_revision", "gauge", revision as u64),
            ("etcd_server_client_requests_total", "counter", self.counts.calls.load(Ordering::Relaxed)),
            (
                "etcd_network_client_connections",
                "gauge",
                self.counts.connections.load(Ordering::Relaxed).unsigned_abs(),
            ),
        ];
        rows.iter().map(|(name, kind, value)| format!("# TYPE {name} {kind}\n{name} {value}\n")).collect()
    }

    fn is_own(&self, replica: u16) -> bool {
        self.unary.header.is_member(ReplicaId::new(replica))
    }
}
