//! Connections and paths: gRPC on HTTP/2; JSON, and pages for health, metrics and version, on HTTP/1.1 and HTTP/2.
//!
//! One thread serves all connections, beside the lane, so that a client's bytes pass through few threads. Tests: `tests/`.

use crate::asker::Asker;
use crate::auth::AuthService;
use crate::backend::Backend;
use crate::calls::RpcCalls;
use crate::cluster::{ClusterService, announce};
use crate::framing::{self, Answer, Incoming, Outgoing};
use crate::gateway::{self, Gateway};
use crate::header::Header;
use crate::hub::Hub;
use crate::jwt::Jwt;
use crate::kv::Unary;
use crate::maintenance::{MaintenanceService, VERSION};
use crate::operator::Operator;
use crate::pb::etcdserverpb::auth_server::AuthServer;
use crate::pb::etcdserverpb::cluster_server::ClusterServer;
use crate::pb::etcdserverpb::maintenance_server::MaintenanceServer;
use crate::pb::health::health_server::HealthServer;
use crate::pb::v3electionpb::election_server::ElectionServer;
use crate::pb::v3lockpb::lock_server::LockServer;
use crate::recipes::Recipes;
use crate::upkeep::{self, UpkeepConfig};
use crate::watch::WatchService;
use crate::watchers::Watchers;
use crate::{errors, lease};
use http::{Method, Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use quorate_kit::{
    Backups, Connection, Connections, Listen, Listener, Look, Member, OwnState, Running, Stream, Worker,
    gather,
};
use quorate_types::ReplicaId;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tonic::codegen::Service as _;
use tonic::service::Routes;

/// Connections at once.
const CONNECTIONS_MAX: usize = 10_000;
/// Calls of a connection at once.
const STREAMS_MAX: u32 = 10_000;
/// Threads for slow work: passwords, operators' requests, and the replica's status.
const THREADS: usize = 4;
/// How long the head of a request may take.
const HEAD: Duration = Duration::from_secs(5);

/// The configuration of the front.
pub struct FrontConfig {
    /// Where to listen for clients of etcd.
    pub listen: String,
    /// Where they reach it, `host:port`, as the list of members says; `None`: there.
    pub announce: Option<String>,
    /// The replica that the front works for.
    pub member: Member,
    /// The hub that the replica's service feeds.
    pub hub: Hub,
    /// Tokens that members sign; `None`: the store keeps tokens.
    pub tokens: Option<TokenConfig>,
    /// How the member keeps the store within bounds.
    pub upkeep: UpkeepConfig,
}

/// How members sign tokens.
pub struct TokenConfig {
    /// The method: `RS256`, `ES256`, `HS256` and so on.
    pub method: String,
    /// The contents of the key's file.
    pub key: Vec<u8>,
    /// How long a token is valid.
    pub ttl: Duration,
}

/// Why the front does not start. Each text says what to do.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// It can not listen.
    #[error(transparent)]
    Listen(#[from] quorate_kit::StartError),
    /// The key for tokens can not be used.
    #[error("front.etcd.tokens: {0}")]
    Tokens(String),
}

/// Starts fronts.
pub struct Front;

impl Front {
    /// Listens, and serves clients on a thread of its own.
    ///
    /// # Errors
    /// When it can not listen, or the key for tokens can not be used.
    pub fn start(config: FrontConfig) -> Result<Running, StartError> {
        let jwt = config.tokens.as_ref().map(|tokens| Jwt::new(&tokens.method, &tokens.key, tokens.ttl));
        let jwt = jwt.transpose().map_err(StartError::Tokens)?.map(Arc::new);
        let listen = Listen {
            front: "etcd",
            address: config.listen.clone(),
            tls: config.member.tls.clone(),
            plain_too: false,
            protocols: &[b"h2", b"http/1.1"],
            connections_max: CONNECTIONS_MAX,
            helpers: THREADS,
        };
        let serve = move |listener: Listener| Server::new(config, &listener, jwt).run(listener);
        Ok(listen.start(serve)?)
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
    /// Where clients reach it.
    url: String,
    jwt: Option<Arc<Jwt>>,
}

#[derive(Default)]
struct Counts {
    calls: AtomicU64,
    connections: Connections,
}

impl Server {
    fn new(config: FrontConfig, listener: &Listener, jwt: Option<Arc<Jwt>>) -> Self {
        let Member { cluster, replica, tls, client, see, newest, calls, backup, lies } = config.member;
        let look = Look::start(see);
        let header = Arc::new(Header::new(cluster, replica, look.clone()));
        let backend = Backend::start(client, replica);
        let watchers = Watchers::start(config.hub.clone(), backend.clone(), header.clone());
        tokio::spawn(upkeep::run(backend.clone(), header.member(), config.upkeep));
        // Watches and this replica's own work are as ever: they go on from what was executed, published or not.
        let backend = backend.lying(lies).reading(newest.map(OwnState::start), config.hub);
        let scheme = if listener.is_safe() { "https://" } else { "http://" };
        let asks = quorate_kit::Operator::new("etcd", (cluster, replica), tls, look.clone());
        let operator = Arc::new(Operator { is_safe: listener.is_safe(), backend: backend.clone(), asks });
        let members = ClusterService {
            backend: backend.clone(),
            header: header.clone(),
            cluster,
            look: look.clone(),
            operator: operator.clone(),
            scheme,
        };
        let maintenance = MaintenanceService {
            backend: backend.clone(),
            header: header.clone(),
            cluster,
            look: look.clone(),
            operator,
            backups: Backups::new(backup),
            quota_bytes: config.upkeep.quota_bytes,
        };
        let (worker, signer) = (Worker::new(), jwt.clone());
        let auth = AuthService { backend: backend.clone(), header: header.clone(), worker, jwt: signer };
        let streams = AtomicU64::new(1);
        let watch = Arc::new(WatchService { watchers, header: header.clone(), streams });
        let recipes = Recipes { backend: backend.clone(), header: header.clone(), watch: watch.clone() };
        let routes = Routes::new(ClusterServer::new(members))
            .add_service(AuthServer::new(auth))
            .add_service(LockServer::new(recipes.clone()))
            .add_service(ElectionServer::new(recipes))
            .add_service(MaintenanceServer::new(maintenance.clone()))
            .add_service(HealthServer::new(maintenance));
        let unary = Unary { backend, header, calls: Arc::new(RpcCalls::new(&calls)) };
        let counts = Arc::new(Counts { calls: AtomicU64::new(0), connections: listener.connections() });
        let reached = config.announce.unwrap_or_else(|| listener.address().to_string());
        Self { unary, watch, look, routes, counts, url: format!("{scheme}{reached}"), jwt }
    }

    async fn run(self, listener: Listener) {
        let (backend, member) = (self.unary.backend.clone(), self.unary.header.member());
        tokio::spawn(announce(backend, member, self.url.clone()));
        let serve = move |Connection { stream, shown, .. }| {
            let server = self.clone();
            async move { server.speak(stream, Asker::of_connection(&shown)).await }
        };
        listener.each(serve).await;
    }

    async fn speak(&self, stream: Stream, asker: Asker) {
        let mut builder = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
        builder.http1().timer(TokioTimer::new()).header_read_timeout(HEAD);
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
            "/etcdserverpb.Watch/Watch" => {
                let messages = self.watch.watch(Incoming::new(body), self.unary.backend);
                return Ok(framing::streaming(messages));
            }
            "/etcdserverpb.Lease/LeaseKeepAlive" => {
                return Ok(framing::streaming(lease::keep_alive(&self.unary, Incoming::new(body))));
            }
            _ => {}
        }
        if path.starts_with(gateway::ROOT) {
            if parts.headers.contains_key(http::header::ORIGIN) {
                return Ok(gateway::refuse_page(body).await);
            }
            let gateway = Gateway { unary: self.unary, watch: self.watch, routes: self.routes };
            return Ok(gateway.answer(path, body, asker).await);
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
                let healthy = seen.is_healthy();
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

    /// The metrics that dashboards for etcd need most.
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
            // `etcdctl check datascale` looks for it.
            ("process_resident_memory_bytes", "gauge", quorate_kit::memory_bytes()),
            ("etcd_network_client_connections", "gauge", self.counts.connections.count() as u64),
        ];
        let rows = rows.iter().map(|(name, kind, value)| format!("# TYPE {name} {kind}\n{name} {value}\n"));
        rows.chain([self.unary.calls.text()]).collect()
    }

    fn is_own(&self, replica: u16) -> bool {
        self.unary.header.is_member(ReplicaId::new(replica))
    }
}
