//! ZooKeeper's admin server: its commands over HTTP, as JSON, and the same numbers for Prometheus.
//!
//! It has a port and a thread of its own, so what visitors ask for is read, and written as text, beside the thread that serves clients; only
//! the numbers and lists are taken while that one waits. A visitor asks once, and has [`VISIT`] for it. Certificates are asked for as at the
//! client port. Source of paths and answers: `JettyAdminServer` of Apache ZooKeeper 3.9.4. Tests: `admin/tests.rs`, and with a real cluster
//! front/cli/tests/all/zookeeper/admin.rs.

use crate::front::Shared;
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use quorate_kit::settings::SettingsError;
use quorate_kit::{Connection, Listen, Listener, Running, StartError, Stream};
use quorate_zookeeper::server::Admin;
use serde_json::Value;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;

#[cfg(test)]
mod tests;

/// How long a visitor may take in all, from its first byte to the last one of the answer.
const VISIT: Duration = Duration::from_secs(30);
/// How long the head of a request may take, and how long it may be.
const HEAD: Duration = Duration::from_secs(5);
const HEAD_BYTES_MAX: usize = 16 << 10;
/// Visitors at once. Others wait.
const VISITORS_MAX: usize = 64;
/// Where the commands are.
const COMMANDS: &str = "/commands";

/// What a visitor wants to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    /// Which commands there are.
    List,
    /// The answer to a command.
    Command(Admin),
    /// The numbers, for Prometheus.
    Metrics,
}

/// An answer without its head.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Page {
    status: StatusCode,
    kind: &'static str,
    text: String,
}

impl Page {
    fn json(status: StatusCode, value: &Value) -> Self {
        Self { status, kind: "application/json", text: format!("{value:#}\n") }
    }

    /// What is wrong with a request.
    fn refused(status: StatusCode, command: Option<&str>, why: &str) -> Self {
        let command = command.map(|command| ("command".to_owned(), command.into()));
        let why = ("error".to_owned(), why.into());
        Self::json(status, &Value::Object(command.into_iter().chain([why]).collect()))
    }
}

/// Listens, and answers visitors on a thread of its own, once it is told of the server that it speaks for. `listen` is that of the client port.
///
/// # Errors
/// When it can not listen.
pub(crate) fn start(
    listen: &Listen,
    address: String,
    server: oneshot::Receiver<Arc<Shared>>,
) -> Result<Running, StartError> {
    let listen = Listen {
        front: "zookeeper-admin",
        address,
        protocols: &[b"http/1.1"],
        connections_max: VISITORS_MAX,
        ..listen.clone()
    };
    let serving = listen.start(async move |listener: Listener| {
        let Ok(server) = server.await else { return };
        tracing::info!("zookeeper's admin server listens on {}", listener.address());
        serve(listener, move |wish| answer(server.clone(), wish)).await;
    });
    serving.map_err(|why| match why {
        StartError::Listen { address, why, .. } => {
            let why = format!(
                "admin: can not listen on {address}: {why}. Correct the address, or stop who uses that port"
            );
            SettingsError::new("front.zookeeper", why).into()
        }
        other => other,
    })
}

async fn answer(server: Arc<Shared>, wish: Wish) -> Page {
    match wish {
        Wish::List => Page { status: StatusCode::OK, kind: "text/html; charset=utf-8", text: list() },
        Wish::Command(command) => Page::json(StatusCode::OK, &server.admin(command).await),
        Wish::Metrics => {
            let text = server.metrics().await;
            Page { status: StatusCode::OK, kind: "text/plain; version=0.0.4; charset=utf-8", text }
        }
    }
}

/// A link to each command.
fn list() -> String {
    Admin::names().map(|name| format!("<a href=\"{COMMANDS}/{name}\">{name}</a>\n<br/>\n")).collect()
}

/// What a request asks for, or why it is refused.
fn wish(method: &Method, path: &str) -> Result<Wish, Page> {
    if !matches!(*method, Method::GET | Method::HEAD) {
        let why = format!("all that is here is read with GET; {COMMANDS} lists it");
        return Err(Page::refused(StatusCode::METHOD_NOT_ALLOWED, None, &why));
    }
    let nothing = || {
        let why = format!("nothing is at this path; {COMMANDS} lists the commands");
        Page::refused(StatusCode::NOT_FOUND, None, &why)
    };
    if path == "/metrics" {
        return Ok(Wish::Metrics);
    }
    let name = match path.strip_prefix(COMMANDS) {
        Some("" | "/") => return Ok(Wish::List),
        Some(rest) => rest.strip_prefix('/').ok_or_else(nothing)?,
        None => return Err(nothing()),
    };
    Admin::named(name).map(Wish::Command).ok_or_else(|| {
        let why = match Admin::lacks(name) {
            Some(why) => format!("{name} is not supported: {why}. {COMMANDS} lists what is"),
            None => format!("Unknown command: {name}. {COMMANDS} lists those that there are"),
        };
        Page::refused(StatusCode::NOT_FOUND, Some(name), &why)
    })
}

/// Serves visitors, for ever. What they want is answered by `answer`.
async fn serve<A, F>(listener: Listener, answer: A)
where
    A: Fn(Wish) -> F + Clone + Send + Sync + 'static,
    F: Future<Output = Page> + Send + 'static,
{
    let visit = move |Connection { stream, .. }| {
        let answer = answer.clone();
        async move { visit(stream, answer).await }
    };
    listener.each(visit).await;
}

async fn visit<A, F>(stream: Stream, answer: A)
where
    A: Fn(Wish) -> F,
    F: Future<Output = Page>,
{
    let service = service_fn(async |request: Request<Incoming>| {
        let page = match wish(request.method(), request.uri().path()) {
            Ok(wish) => answer(wish).await,
            Err(page) => page,
        };
        Ok::<_, Infallible>(response(page))
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD).keep_alive(false).max_buf_size(HEAD_BYTES_MAX);
    match tokio::time::timeout(VISIT, builder.serve_connection(TokioIo::new(stream), service)).await {
        Ok(Ok(())) => {}
        Ok(Err(why)) => tracing::trace!("a visitor of zookeeper's admin server left: {why}"),
        Err(_) => tracing::debug!("a visitor of zookeeper's admin server took too long"),
    }
}

fn response(Page { status, kind, text }: Page) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if status == StatusCode::METHOD_NOT_ALLOWED {
        headers.insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    }
    response
}
