//! The requests of a stream as JSON: objects that stand in a body one after the other, with or without white space between them.
//!
//! Each byte is looked at once to find where an object ends, however the body is cut into pieces; only whole objects are decoded. An
//! object has a limit, and white space is not kept, so a body without an end takes no more memory than one request. Tests:
//! `objects/tests.rs`, and over the network `tests/all/gateway_streams.rs`.

use crate::errors::{INVALID_ARGUMENT, RESOURCE_EXHAUSTED, Refusal};
use crate::framing::{Requests, broken};
use crate::gateway::REQUEST_BYTES_MAX;
use crate::json::Method;
use bytes::{Buf as _, Bytes, BytesMut};
use http_body::Body;
use http_body_util::BodyExt as _;
use std::fmt::Display;

#[cfg(test)]
mod tests;

/// How many bytes an error shows of what is no object.
const SHOWN: usize = 20;

/// The requests in a body.
pub(crate) struct Objects<B> {
    body: B,
    method: Method,
    /// What came and is not decoded yet; it begins with an object, or with white space.
    buffer: BytesMut,
    scan: Scan,
    /// How many objects were decoded.
    count: u64,
    /// Whether the end of the body is not told.
    silent: bool,
}

/// How far an object was looked through for its end.
#[derive(Default)]
struct Scan {
    at: usize,
    depth: usize,
    in_text: bool,
    escaped: bool,
}

impl Scan {
    /// The length of the object with which the bytes begin, once all of it is there. More bytes may be there than at the call before.
    fn end(&mut self, bytes: &[u8]) -> Option<usize> {
        while let Some(byte) = bytes.get(self.at) {
            self.at += 1;
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' if self.in_text => self.escaped = true,
                b'"' => self.in_text = !self.in_text,
                _ if self.in_text => {}
                b'{' | b'[' => self.depth += 1,
                b'}' | b']' if self.depth <= 1 => return Some(self.at),
                b'}' | b']' => self.depth -= 1,
                _ => {}
            }
        }
        None
    }
}

impl<B> Objects<B>
where
    B: Body<Data = Bytes> + Unpin,
    B::Error: Display,
{
    /// The requests of this method in a body.
    pub(crate) fn new(method: Method, body: B) -> Self {
        let (buffer, scan) = (BytesMut::new(), Scan::default());
        Self { body, method, buffer, scan, count: 0, silent: false }
    }

    /// The same, but after the last request the next one is waited for without end.
    pub(crate) fn then_silent(self) -> Self {
        Self { silent: true, ..self }
    }

    /// The next request as a message, if all of it is there.
    fn take(&mut self) -> Result<Option<Bytes>, Refusal> {
        if self.scan.at == 0 {
            let space = self.buffer.iter().take_while(|byte| b" \t\r\n".contains(byte)).count();
            self.buffer.advance(space);
            match self.buffer.first() {
                Some(b'{') => {}
                Some(_) => return Err(self.no_object()),
                None => {
                    // A stream that waits keeps no memory.
                    self.buffer = BytesMut::new();
                    return Ok(None);
                }
            }
        }
        let end = self.scan.end(&self.buffer);
        if end.unwrap_or(self.buffer.len()) > REQUEST_BYTES_MAX {
            let text = format!("{} is longer than {REQUEST_BYTES_MAX} bytes", self.next_one());
            return Err(Refusal { code: RESOURCE_EXHAUSTED, text: text.into() });
        }
        let Some(end) = end else { return Ok(None) };
        self.scan = Scan::default();
        let message = self.method.request(&self.buffer.split_to(end)).map_err(|why| self.wrong(&why))?;
        self.count += 1;
        Ok(Some(message.into()))
    }

    fn next_one(&self) -> String {
        format!("request {} of the stream", self.count + 1)
    }

    fn wrong(&self, why: &str) -> Refusal {
        Refusal { code: INVALID_ARGUMENT, text: format!("{}: {why}", self.next_one()).into() }
    }

    fn no_object(&self) -> Refusal {
        let shown = String::from_utf8_lossy(&self.buffer[..self.buffer.len().min(SHOWN)]);
        self.wrong(&format!("an object is wanted, which begins with {{, not {shown:?}"))
    }
}

impl<B> Requests for Objects<B>
where
    B: Body<Data = Bytes> + Unpin + Send + 'static,
    B::Error: Display,
{
    async fn next(&mut self) -> Result<Option<Bytes>, Refusal> {
        loop {
            if let Some(message) = self.take()? {
                return Ok(Some(message));
            }
            let frame = self.body.frame().await.transpose().map_err(|why| broken(&why))?;
            match frame.map(http_body::Frame::into_data) {
                Some(Ok(data)) => self.buffer.extend_from_slice(&data),
                Some(Err(_)) => {}
                None if !self.buffer.is_empty() => return Err(self.wrong("the body ends within it")),
                None if self.silent => std::future::pending().await,
                None => return Ok(None),
            }
        }
    }
}
