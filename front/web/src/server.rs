//! The ways of the server: the page, the events, the buttons; and who may use them.
//!
//! Whoever asks for events or presses a button shows the token. So neither a page of somebody else in the same browser, nor another user of
//! the machine, gets at the cluster. Tests: `server/tests.rs`.

use crate::events::Events;
use crate::policy::{PAGE, policy};
use crate::{Act, Source};
use aws_lc_rs::constant_time;
use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, Limited};
use hyper::body::Incoming;
use hyper::header::{
    ALLOW, AUTHORIZATION, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderName, HeaderValue,
    REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use quorate_kit::{Connection, Listen, Listener, Running, StartError, Stream};
use serde_json::json;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

#[cfg(test)]
mod tests;

/// How long the head of a request may take, and how long it may be.
const HEAD: Duration = Duration::from_secs(10);
const HEAD_BYTES_MAX: usize = 16 << 10;
/// The longest body of a request.
const BODY_BYTES_MAX: usize = 4 << 10;
/// Connections at once: each viewer has one for events, and one for the rest.
const CONNECTIONS_MAX: usize = 256;
/// Buttons at once.
const HELPERS: usize = 8;
/// What the page says with each button: pages of other sites can not.
const OWN: HeaderName = HeaderName::from_static("x-quorate");

type Body = UnsyncBoxBody<Bytes, Infallible>;

/// The dashboard, before it starts.
pub struct Web {
    /// Where it listens, as `host:port`.
    pub listen: String,
    /// What viewers must show.
    pub token: String,
    /// The cluster.
    pub source: Arc<dyn Source>,
}

/// Why it does not start.
#[derive(Debug)]
pub struct WebError(StartError);

impl std::fmt::Display for WebError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.0 {
            StartError::Listen { address, why, .. } => {
                write!(
                    f,
                    "the dashboard can not listen on {address}: {why}. Choose another address, or stop who uses that port"
                )
            }
            other => other.fmt(f),
        }
    }
}

impl std::error::Error for WebError {}

impl Web {
    /// Serves until what this returns is dropped.
    ///
    /// # Errors
    /// When it can not listen.
    pub fn start(self) -> Result<Running, WebError> {
        let Self { listen: address, token, source } = self;
        let listen = Listen {
            front: "web",
            address,
            tls: None,
            plain_too: false,
            protocols: &[b"http/1.1"],
            connections_max: CONNECTIONS_MAX,
            helpers: HELPERS,
        };
        let running = listen.start(async move |listener: Listener| {
            let site =
                Site { policy: policy(PAGE), token, source: source.clone(), events: Events::of(source) };
            tokio::spawn(site.events.clone().ask());
            let site = Arc::new(site);
            listener.each(move |Connection { stream, .. }| visit(site.clone(), stream)).await;
        });
        running.map_err(WebError)
    }
}

struct Site {
    policy: String,
    token: String,
    source: Arc<dyn Source>,
    events: Events,
}

async fn visit(site: Arc<Site>, stream: Stream) {
    let service = service_fn(async |request: Request<Incoming>| {
        let response = answer(&site, request).await.unwrap_or_else(|refused| refused.response());
        Ok::<_, Infallible>(with_headers(&site, response))
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD).max_buf_size(HEAD_BYTES_MAX);
    if let Err(why) = builder.serve_connection(TokioIo::new(stream), service).await {
        tracing::trace!("a viewer of the dashboard left: {why}");
    }
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refused {
    NotFound,
    Method(&'static str),
    Token,
    NotOurs,
    Body,
    Crowd,
}

impl Refused {
    fn response(self) -> Response<Body> {
        let (status, text) = match self {
            Self::NotFound => (StatusCode::NOT_FOUND, "nothing is at this path: the dashboard is at /"),
            Self::Method(_) => (StatusCode::METHOD_NOT_ALLOWED, "not with this method"),
            Self::Token => (
                StatusCode::UNAUTHORIZED,
                "open the dashboard with the address that the program printed: it ends with #token=...",
            ),
            Self::NotOurs => (StatusCode::FORBIDDEN, "only the dashboard's own page presses buttons"),
            Self::Body => (StatusCode::BAD_REQUEST, "a button is {\"verb\": \"kill\", \"replica\": 1}"),
            Self::Crowd => (StatusCode::SERVICE_UNAVAILABLE, "too many look already: close other windows"),
        };
        let mut response = document(status, &json!({ "ok": false, "error": text }));
        if let Self::Method(allowed) = self {
            response.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
        }
        response
    }
}

fn full(status: StatusCode, kind: &'static str, text: impl Into<Bytes>) -> Response<Body> {
    let mut response = Response::new(Full::new(text.into()).boxed_unsync());
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

fn document(status: StatusCode, value: &serde_json::Value) -> Response<Body> {
    full(status, "application/json", value.to_string())
}

fn with_headers(site: &Site, mut response: Response<Body>) -> Response<Body> {
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    if let Ok(policy) = HeaderValue::from_str(&site.policy) {
        headers.insert(CONTENT_SECURITY_POLICY, policy);
    }
    response
}

async fn answer(site: &Site, request: Request<Incoming>) -> Result<Response<Body>, Refused> {
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    match request.uri().path() {
        "/" if reads => Ok(full(StatusCode::OK, "text/html; charset=utf-8", PAGE)),
        "/" => Err(Refused::Method("GET, HEAD")),
        "/api/events" if request.method() == Method::GET => {
            let shown = request.uri().query().unwrap_or_default().split('&');
            let shown = shown.filter_map(|part| part.strip_prefix("token=")).next();
            site.knows(shown.or_else(|| bearer(&request)))?;
            let stream = site.events.stream().ok_or(Refused::Crowd)?;
            let mut response = Response::new(stream.boxed_unsync());
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
            Ok(response)
        }
        "/api/events" => Err(Refused::Method("GET")),
        "/api/chaos" if request.method() == Method::POST => {
            site.knows(bearer(&request))?;
            if !request.headers().contains_key(OWN) {
                return Err(Refused::NotOurs);
            }
            site.press(request).await
        }
        "/api/chaos" => Err(Refused::Method("POST")),
        _ => Err(Refused::NotFound),
    }
}

/// The token in the head of a request.
fn bearer(request: &Request<Incoming>) -> Option<&str> {
    request.headers().get(AUTHORIZATION)?.to_str().ok()?.strip_prefix("Bearer ")
}

impl Site {
    fn knows(&self, shown: Option<&str>) -> Result<(), Refused> {
        let (shown, own) = (shown.unwrap_or_default().as_bytes(), self.token.as_bytes());
        constant_time::verify_slices_are_equal(shown, own).map_err(|_| Refused::Token)
    }

    async fn press(&self, request: Request<Incoming>) -> Result<Response<Body>, Refused> {
        let body = Limited::new(request.into_body(), BODY_BYTES_MAX);
        let body = tokio::time::timeout(HEAD, body.collect()).await.map_err(|_| Refused::Body)?;
        let bytes = body.map_err(|_| Refused::Body)?.to_bytes();
        let act: Act = serde_json::from_slice(&bytes).map_err(|_| Refused::Body)?;
        let source = self.source.clone();
        let done = tokio::task::spawn_blocking(move || source.act(act)).await;
        Ok(match done {
            Ok(Ok(text)) => document(StatusCode::OK, &json!({ "ok": true, "text": text })),
            Ok(Err(why)) => document(StatusCode::CONFLICT, &json!({ "ok": false, "error": why })),
            Err(_) => {
                let text = "that failed here: look at what the program printed";
                document(StatusCode::INTERNAL_SERVER_ERROR, &json!({ "ok": false, "error": text }))
            }
        })
    }
}
