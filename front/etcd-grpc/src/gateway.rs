//! The calls as JSON over plain HTTP, on etcd's paths.
//!
//! A request is turned into a gRPC message and treated like one, with the same tokens and permissions. Where a call streams, the body has
//! one object after the other (`objects.rs`), and the response a line for each message (`lines.rs`). Tests: `tests/all/gateway.rs`.

use crate::asker::Asker;
use crate::errors::{INTERNAL, INVALID_ARGUMENT, PERMISSION_DENIED, RESOURCE_EXHAUSTED, Refusal, UNKNOWN};
use crate::framing::{self, Incoming, Outgoing, PREFIX, framed};
use crate::json::{self, Method};
use crate::kv::Unary;
use crate::lease;
use crate::lines::Lines;
use crate::objects::Objects;
use crate::watch::WatchService;
use bytes::Bytes;
use http::{HeaderValue, Request, Response, Version};
use http_body_util::{BodyExt as _, Full, Limited};
use quorate_etcd::EtcdError;
use std::sync::Arc;
use std::time::Duration;
use tonic::codegen::Service as _;
use tonic::service::Routes;

/// The longest request that is read: the longest message in base64, and what stands around it.
pub(crate) const REQUEST_BYTES_MAX: usize = 4 << 20;
/// What is refused anyway is read for so long.
const PATIENCE: Duration = Duration::from_secs(1);
/// The beginning of all paths.
pub(crate) const ROOT: &str = "/v3/";

/// The call of each path.
const PATHS: [(&str, &str); 51] = [
    ("kv/range", "etcdserverpb.KV/Range"),
    ("kv/put", "etcdserverpb.KV/Put"),
    ("kv/deleterange", "etcdserverpb.KV/DeleteRange"),
    ("kv/txn", "etcdserverpb.KV/Txn"),
    ("kv/compaction", "etcdserverpb.KV/Compact"),
    ("lease/grant", "etcdserverpb.Lease/LeaseGrant"),
    ("lease/revoke", "etcdserverpb.Lease/LeaseRevoke"),
    ("kv/lease/revoke", "etcdserverpb.Lease/LeaseRevoke"),
    ("lease/keepalive", KEEP_ALIVE),
    ("lease/timetolive", "etcdserverpb.Lease/LeaseTimeToLive"),
    ("kv/lease/timetolive", "etcdserverpb.Lease/LeaseTimeToLive"),
    ("lease/leases", "etcdserverpb.Lease/LeaseLeases"),
    ("kv/lease/leases", "etcdserverpb.Lease/LeaseLeases"),
    ("cluster/member/add", "etcdserverpb.Cluster/MemberAdd"),
    ("cluster/member/remove", "etcdserverpb.Cluster/MemberRemove"),
    ("cluster/member/update", "etcdserverpb.Cluster/MemberUpdate"),
    ("cluster/member/list", "etcdserverpb.Cluster/MemberList"),
    ("cluster/member/promote", "etcdserverpb.Cluster/MemberPromote"),
    ("maintenance/alarm", "etcdserverpb.Maintenance/Alarm"),
    ("maintenance/status", "etcdserverpb.Maintenance/Status"),
    ("maintenance/defragment", "etcdserverpb.Maintenance/Defragment"),
    ("maintenance/hash", "etcdserverpb.Maintenance/Hash"),
    ("maintenance/hashkv", "etcdserverpb.Maintenance/HashKV"),
    ("maintenance/transfer-leadership", "etcdserverpb.Maintenance/MoveLeader"),
    ("maintenance/downgrade", "etcdserverpb.Maintenance/Downgrade"),
    ("auth/enable", "etcdserverpb.Auth/AuthEnable"),
    ("auth/disable", "etcdserverpb.Auth/AuthDisable"),
    ("auth/status", "etcdserverpb.Auth/AuthStatus"),
    ("auth/authenticate", "etcdserverpb.Auth/Authenticate"),
    ("auth/user/add", "etcdserverpb.Auth/UserAdd"),
    ("auth/user/get", "etcdserverpb.Auth/UserGet"),
    ("auth/user/list", "etcdserverpb.Auth/UserList"),
    ("auth/user/delete", "etcdserverpb.Auth/UserDelete"),
    ("auth/user/changepw", "etcdserverpb.Auth/UserChangePassword"),
    ("auth/user/grant", "etcdserverpb.Auth/UserGrantRole"),
    ("auth/user/revoke", "etcdserverpb.Auth/UserRevokeRole"),
    ("auth/role/add", "etcdserverpb.Auth/RoleAdd"),
    ("auth/role/get", "etcdserverpb.Auth/RoleGet"),
    ("auth/role/list", "etcdserverpb.Auth/RoleList"),
    ("auth/role/delete", "etcdserverpb.Auth/RoleDelete"),
    ("auth/role/grant", "etcdserverpb.Auth/RoleGrantPermission"),
    ("auth/role/revoke", "etcdserverpb.Auth/RoleRevokePermission"),
    ("lock/lock", "v3lockpb.Lock/Lock"),
    ("lock/unlock", "v3lockpb.Lock/Unlock"),
    ("election/campaign", "v3electionpb.Election/Campaign"),
    ("election/proclaim", "v3electionpb.Election/Proclaim"),
    ("election/leader", "v3electionpb.Election/Leader"),
    ("election/resign", "v3electionpb.Election/Resign"),
    ("election/observe", OBSERVE),
    ("maintenance/snapshot", SNAPSHOT),
    ("watch", WATCH),
];

/// The calls that stream.
const KEEP_ALIVE: &str = "etcdserverpb.Lease/LeaseKeepAlive";
const OBSERVE: &str = "v3electionpb.Election/Observe";
const SNAPSHOT: &str = "etcdserverpb.Maintenance/Snapshot";
const WATCH: &str = "etcdserverpb.Watch/Watch";

/// What answers the calls, for one request.
pub(crate) struct Gateway {
    pub(crate) unary: Unary,
    pub(crate) watch: Arc<WatchService>,
    pub(crate) routes: Routes,
}

impl Gateway {
    /// Answers a request. Of a stream the answer begins when there is its first message, as in etcd, so that the status can say how it went.
    pub(crate) async fn answer(
        mut self,
        path: &str,
        body: hyper::body::Incoming,
        asker: Asker,
    ) -> Response<Outgoing> {
        let known = path.strip_prefix(ROOT).and_then(|path| PATHS.iter().find(|(known, _)| *known == path));
        let path = known.map(|(_, call)| format!("/{call}")).unwrap_or_default();
        let Some(((_, call), method)) = known.zip(json::method(&path)) else {
            return framing::page(404, JSON, error(5, "Not Found"));
        };
        match *call {
            WATCH => {
                // A watch goes on when no more requests come.
                let requests = Objects::new(method, body).then_silent();
                let messages = self.watch.watch(requests, self.unary.backend);
                Lines::of_queue(method, messages).respond().await
            }
            KEEP_ALIVE => {
                let messages = lease::keep_alive(&self.unary, Objects::new(method, body));
                Lines::of_queue(method, messages).respond().await
            }
            _ => match read(method, body).await {
                Err(refusal) => refused(&refusal),
                Ok(message) if [OBSERVE, SNAPSHOT].contains(call) => {
                    match generated(&mut self.routes, &path, &message, asker).await {
                        Ok(body) => Lines::of_answer(method, Incoming::new(body)).respond().await,
                        Err(refusal) => crate::lines::refused(&refusal),
                    }
                }
                Ok(message) => match self.once(method, &path, message, asker).await {
                    Ok(text) => framing::page(200, JSON, text),
                    Err(refusal) => refused(&refusal),
                },
            },
        }
    }

    /// The only response to a call.
    async fn once(
        &mut self,
        method: Method,
        path: &str,
        message: Vec<u8>,
        asker: Asker,
    ) -> Result<String, Refusal> {
        let message = Bytes::from(message);
        let framed = match self.unary.call(path, message.clone()).await {
            Some(done) => done?,
            None => whole(generated(&mut self.routes, path, &message, asker).await?).await?,
        };
        let message = framed.get(PREFIX..).unwrap_or_default();
        method.response(message).map_err(|_| EtcdError::Malformed.into())
    }
}

/// Refuses a request that a web page sends. The browser might send it with the certificate of the page's reader, or from behind a firewall.
pub(crate) async fn refuse_page(body: hyper::body::Incoming) -> Response<Outgoing> {
    // With HTTP/2 a response before the end of the request ends the stream with an error, and hides this one.
    let rest = Limited::new(body, REQUEST_BYTES_MAX).collect();
    let _ = tokio::time::timeout(PATIENCE, rest).await;
    refused(&Refusal::new(PERMISSION_DENIED, "requests of web pages (header Origin) are not taken"))
}

pub(crate) const JSON: &str = "application/json";

/// The message of a request.
async fn read(method: Method, body: hyper::body::Incoming) -> Result<Vec<u8>, Refusal> {
    let body = Limited::new(body, REQUEST_BYTES_MAX).collect().await.map_err(|why| {
        let code = if why.is::<http_body_util::LengthLimitError>() { RESOURCE_EXHAUSTED } else { UNKNOWN };
        Refusal { code, text: why.to_string().into() }
    })?;
    let message = method.request(&body.to_bytes());
    message.map_err(|why| Refusal { code: INVALID_ARGUMENT, text: why.into() })
}

/// Lets a generated service answer, as if the call came over gRPC. Gives the body of the response.
async fn generated(
    routes: &mut Routes,
    path: &str,
    message: &[u8],
    asker: Asker,
) -> Result<tonic::body::Body, Refusal> {
    let body = framed(|out| out.extend_from_slice(message), message.len());
    let request = Request::post(path)
        .version(Version::HTTP_2)
        .header(http::header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"))
        .extension(asker)
        .body(Full::new(body))
        .map_err(|_| Refusal::new(INTERNAL, "the response is lost"))?;
    let Ok(response) = routes.call(request).await;
    let (parts, body) = response.into_parts();
    framing::ended(&parts.headers)?;
    Ok(body)
}

/// The only message of a response, with its head.
async fn whole(body: tonic::body::Body) -> Result<Bytes, Refusal> {
    let body = body.collect().await.map_err(Refusal::from)?;
    body.trailers().map_or(Ok(()), framing::ended)?;
    Ok(body.to_bytes())
}

fn refused(refusal: &Refusal) -> Response<Outgoing> {
    framing::page(http_status(refusal.code), JSON, error(refusal.code, &refusal.text))
}

/// An error as JSON, with the field names of older and of newer versions of etcd.
fn error(code: u8, text: &str) -> String {
    serde_json::json!({ "error": text, "code": code, "message": text }).to_string()
}

/// The HTTP status for a gRPC code, by the public mapping.
pub(crate) const fn http_status(code: u8) -> u16 {
    match code {
        1 => 499,
        3 | 9 | 11 => 400,
        4 => 504,
        5 => 404,
        6 | 10 => 409,
        7 => 403,
        8 => 429,
        12 => 501,
        14 => 503,
        16 => 401,
        _ => 500,
    }
}
