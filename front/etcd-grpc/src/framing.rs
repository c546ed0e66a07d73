//! gRPC's frames on HTTP/2: messages in and out, and how a call ends.
//!
//! Source: gRPC over HTTP/2, the public description. A message is a flag (0: not compressed), its length (4 bytes, big-endian), and its
//! bytes. The services that programs call most use this module instead of a library, so that a request is passed on without a copy and a
//! response is written once. Tests: `framing/tests.rs`.

use crate::errors::{CANCELED, INTERNAL, RESOURCE_EXHAUSTED, Refusal, UNIMPLEMENTED};
use crate::lines::Lines;
use bytes::{Buf as _, Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, Response};
use http_body::{Body, Frame, SizeHint};
use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::sync::{OwnedSemaphorePermit, mpsc};

#[cfg(test)]
mod tests;

/// Size of a message's flag and length.
pub(crate) const PREFIX: usize = 5;
/// The longest message that is read: the limit of a request, and what clients put around it.
const MESSAGE_BYTES_MAX: usize = 2 << 20;

const STATUS: HeaderName = HeaderName::from_static("grpc-status");
const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");
const CONTENT: HeaderValue = HeaderValue::from_static("application/grpc");

/// The requests of a call that streams, as messages.
pub(crate) trait Requests: Send + 'static {
    /// The next one; `None` at the end.
    fn next(&mut self) -> impl Future<Output = Result<Option<Bytes>, Refusal>> + Send;
}

/// Splits the arriving bytes into messages.
pub(crate) struct Incoming<B> {
    body: B,
    buffer: BytesMut,
}

impl<B> Incoming<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: std::fmt::Display,
{
    pub(crate) fn new(body: B) -> Self {
        Self { body, buffer: BytesMut::new() }
    }

    /// The next message; `None` at the end. Of a response's bytes: an error if the call ended with one.
    pub(crate) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Result<Option<Bytes>, Refusal>> {
        loop {
            if let Some(message) = self.take()? {
                return Poll::Ready(Ok(Some(message)));
            }
            let Some(frame) = ready!(Pin::new(&mut self.body).poll_frame(cx)) else {
                return Poll::Ready(if self.buffer.is_empty() { Ok(None) } else { Err(cut()) });
            };
            match frame.map_err(|why| broken(&why))?.into_data() {
                // Most messages come whole: no copy.
                Ok(data) if self.buffer.is_empty() => match whole(&data)? {
                    Some(message) => return Poll::Ready(Ok(Some(message))),
                    None => self.buffer.extend_from_slice(&data),
                },
                Ok(data) => self.buffer.extend_from_slice(&data),
                Err(other) => other.trailers_ref().map_or(Ok(()), ended)?,
            }
        }
    }

    fn take(&mut self) -> Result<Option<Bytes>, Refusal> {
        match length(&self.buffer)? {
            Some(len) if self.buffer.len() >= PREFIX + len => {
                self.buffer.advance(PREFIX);
                Ok(Some(self.buffer.split_to(len).freeze()))
            }
            _ => Ok(None),
        }
    }

    /// The only message of a call.
    pub(crate) async fn only(mut self) -> Result<Bytes, Refusal> {
        poll_fn(|cx| self.poll_next(cx)).await?.ok_or_else(cut)
    }
}

impl<B> Requests for Incoming<B>
where
    B: Body<Data = Bytes> + Unpin + Send + 'static,
    B::Error: std::fmt::Display,
{
    async fn next(&mut self) -> Result<Option<Bytes>, Refusal> {
        poll_fn(|cx| self.poll_next(cx)).await
    }
}

/// What is said of a body that breaks off.
pub(crate) fn broken(why: &impl std::fmt::Display) -> Refusal {
    Refusal { code: CANCELED, text: why.to_string().into() }
}

/// How a call ended, if the headers say that.
pub(crate) fn ended(headers: &HeaderMap) -> Result<(), Refusal> {
    match tonic::Status::from_header_map(headers) {
        Some(status) if status.code() != tonic::Code::Ok => Err(status.into()),
        _ => Ok(()),
    }
}

fn cut() -> Refusal {
    Refusal::new(INTERNAL, "the request ended within a message")
}

/// The message, if these bytes are exactly one.
fn whole(data: &Bytes) -> Result<Option<Bytes>, Refusal> {
    let len = length(data)?;
    Ok(len.filter(|len| data.len() == PREFIX + len).map(|_| data.slice(PREFIX..)))
}

/// The length of the first message, once its head is there.
fn length(bytes: &[u8]) -> Result<Option<usize>, Refusal> {
    let Some((head, _)) = bytes.split_first_chunk::<PREFIX>() else { return Ok(None) };
    if head[0] != 0 {
        return Err(Refusal::new(UNIMPLEMENTED, "compressed messages are not supported"));
    }
    let len = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
    if len > MESSAGE_BYTES_MAX {
        return Err(Refusal::new(RESOURCE_EXHAUSTED, "grpc: received message larger than max"));
    }
    Ok(Some(len))
}

/// A message with its head.
pub(crate) fn framed(write: impl FnOnce(&mut Vec<u8>), about: usize) -> Bytes {
    let mut out = Vec::with_capacity(PREFIX + about);
    out.extend_from_slice(&[0; PREFIX]);
    write(&mut out);
    let len = (out.len() - PREFIX) as u32;
    out[1..PREFIX].copy_from_slice(&len.to_be_bytes());
    out.into()
}

/// A message of a stream, and the room that it occupies until it is sent.
pub(crate) struct Message {
    pub(crate) bytes: Bytes,
    /// Given back when the message is taken.
    pub(crate) room: Option<OwnedSemaphorePermit>,
}

impl From<Bytes> for Message {
    fn from(bytes: Bytes) -> Self {
        Self { bytes, room: None }
    }
}

/// The messages of a stream, each with its head.
pub(crate) type Messages = mpsc::Receiver<Result<Message, Refusal>>;

/// The body of a response.
pub(crate) enum Outgoing {
    /// One message, then the end.
    One(Option<Bytes>),
    /// No message: the headers say how the call ended.
    Nothing,
    /// Messages as they come, until the sender is dropped or says why the stream ends.
    Many(Messages),
    /// Messages as lines of JSON.
    Lines(Lines),
    /// The answer of a generated service.
    Other(tonic::body::Body),
    /// A page over plain HTTP.
    Page(Option<Bytes>),
}

fn ending(refusal: &Refusal) -> HeaderMap {
    let mut trailers = HeaderMap::with_capacity(2);
    trailers.insert(STATUS, HeaderValue::from(u16::from(refusal.code)));
    if let Ok(text) = HeaderValue::from_str(&escaped(&refusal.text)) {
        trailers.insert(MESSAGE, text);
    }
    trailers
}

/// Escapes a text for a header, as gRPC asks: bytes that are not printable, and `%`, in hexadecimal.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b' '..=b'~' if byte != b'%' => out.push(char::from(byte)),
            _ => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

fn well() -> HeaderMap {
    let mut trailers = HeaderMap::with_capacity(1);
    trailers.insert(STATUS, HeaderValue::from_static("0"));
    trailers
}

impl Body for Outgoing {
    type Data = Bytes;
    type Error = tonic::Status;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        let this = self.get_mut();
        match this {
            Self::One(message) => {
                let frame = match message.take() {
                    Some(message) => Frame::data(message),
                    None => {
                        *this = Self::Nothing;
                        Frame::trailers(well())
                    }
                };
                Poll::Ready(Some(Ok(frame)))
            }
            Self::Nothing => Poll::Ready(None),
            Self::Many(messages) => messages.poll_recv(cx).map(|message| {
                let frame = match message {
                    Some(Ok(Message { bytes, room })) => {
                        drop(room);
                        return Some(Ok(Frame::data(bytes)));
                    }
                    Some(Err(refusal)) => Frame::trailers(ending(&refusal)),
                    None => Frame::trailers(well()),
                };
                *this = Self::Nothing;
                Some(Ok(frame))
            }),
            Self::Lines(lines) => lines.poll_line(cx).map(|line| line.map(|line| Ok(Frame::data(line)))),
            Self::Other(body) => Pin::new(body).poll_frame(cx),
            Self::Page(page) => Poll::Ready(page.take().map(|page| Ok(Frame::data(page)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Nothing | Self::Page(None) => true,
            Self::Other(body) => body.is_end_stream(),
            _ => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Page(page) => SizeHint::with_exact(page.as_ref().map_or(0, Bytes::len) as u64),
            Self::Other(body) => body.size_hint(),
            _ => SizeHint::default(),
        }
    }
}

/// The response to a call with one message each way.
pub(crate) fn unary(result: Result<Bytes, Refusal>) -> Response<Outgoing> {
    match result {
        Ok(message) => with_body(Outgoing::One(Some(message))),
        Err(refusal) => refused(&refusal),
    }
}

/// A response that streams.
pub(crate) fn streaming(messages: Messages) -> Response<Outgoing> {
    with_body(Outgoing::Many(messages))
}

fn with_body(body: Outgoing) -> Response<Outgoing> {
    let mut response = Response::new(body);
    response.headers_mut().insert(http::header::CONTENT_TYPE, CONTENT);
    response
}

pub(crate) fn refused(refusal: &Refusal) -> Response<Outgoing> {
    let mut response = with_body(Outgoing::Nothing);
    response.headers_mut().extend(ending(refusal));
    response
}

/// A page over plain HTTP.
pub(crate) fn page(status: u16, kind: &'static str, text: String) -> Response<Outgoing> {
    let mut response = Response::new(Outgoing::Page(Some(text.into())));
    *response.status_mut() = http::StatusCode::from_u16(status).unwrap_or_default();
    response.headers_mut().insert(http::header::CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}

/// The answer of a service. It never fails: a response says how a call went.
pub(crate) type Answer = Result<Response<Outgoing>, Infallible>;
