//! The responses of a stream as JSON: a line for each message, as etcd writes them. Each line is a chunk of its own, which clients rely on.
//!
//! ```text
//! {"result":{...}}
//! {"error":{"code":7,"message":"etcdserver: permission denied"}}      the end, if it is one with an error
//! ```
//!
//! A message becomes text when the connection takes it: while a client reads slowly, messages wait as those of gRPC do, within the same
//! limits. Tests: `lines/tests.rs`, and over the network `tests/all/gateway_streams.rs`.

use crate::errors::Refusal;
use crate::framing::{self, Incoming, Messages, Outgoing, PREFIX};
use crate::gateway::{JSON, http_status};
use crate::json::Method;
use bytes::Bytes;
use http::{HeaderValue, Response};
use quorate_etcd::EtcdError;
use std::future::poll_fn;
use std::task::{Context, Poll, ready};

#[cfg(test)]
mod tests;

/// The responses of a call that streams.
pub(crate) struct Lines {
    method: Method,
    /// A line that is there already.
    first: Option<Bytes>,
    source: Source,
}

enum Source {
    Queue(Messages),
    /// The response of a generated service.
    Answer(Incoming<tonic::body::Body>),
    Over,
}

impl Lines {
    /// Lines of these messages.
    pub(crate) fn of_queue(method: Method, messages: Messages) -> Self {
        Self { method, first: None, source: Source::Queue(messages) }
    }

    /// Lines of what a generated service answers.
    pub(crate) fn of_answer(method: Method, answer: Incoming<tonic::body::Body>) -> Self {
        Self { method, first: None, source: Source::Answer(answer) }
    }

    /// The response, once there is the first line, or the end.
    pub(crate) async fn respond(mut self) -> Response<Outgoing> {
        match poll_fn(|cx| self.poll_result(cx)).await {
            Some(Ok(line)) => self.first = Some(line),
            Some(Err(refusal)) => return refused(&refusal),
            None => {}
        }
        let mut response = Response::new(Outgoing::Lines(self));
        response.headers_mut().insert(http::header::CONTENT_TYPE, HeaderValue::from_static(JSON));
        response
    }

    /// The next line; `None` at the end.
    pub(crate) fn poll_line(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        if let Some(line) = self.first.take() {
            return Poll::Ready(Some(line));
        }
        let result = ready!(self.poll_result(cx));
        Poll::Ready(result.map(|result| result.unwrap_or_else(|refusal| error(&refusal).into())))
    }

    /// The next message as a line, or how the stream ends.
    fn poll_result(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Bytes, Refusal>>> {
        let message = match &mut self.source {
            Source::Queue(messages) => {
                let message = ready!(messages.poll_recv(cx));
                // The room of what is taken is given back.
                message.map(|message| message.map(|message| message.bytes.slice(PREFIX..)))
            }
            Source::Answer(answer) => ready!(answer.poll_next(cx)).transpose(),
            Source::Over => None,
        };
        let line = message.map(|message| {
            let text = self.method.response(&message?).map_err(|_| EtcdError::Malformed)?;
            Ok(format!("{{\"result\":{text}}}\n").into())
        });
        if !matches!(line, Some(Ok(_))) {
            // Whoever would send more is told at once.
            self.source = Source::Over;
        }
        Poll::Ready(line)
    }
}

/// The response of a stream that ends before its first message.
pub(crate) fn refused(refusal: &Refusal) -> Response<Outgoing> {
    framing::page(http_status(refusal.code), JSON, error(refusal))
}

/// The last line of a stream that ends with an error.
fn error(refusal: &Refusal) -> String {
    let error = serde_json::json!({ "error": { "code": refusal.code, "message": refusal.text } });
    format!("{error}\n")
}
