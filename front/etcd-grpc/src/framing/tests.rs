use super::{Incoming, Outgoing, Requests as _, escaped, framed, length, refused};
use crate::errors::Refusal;
use bytes::Bytes;
use http_body::{Body, Frame};
use http_body_util::BodyExt as _;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

/// A body of these pieces.
struct Pieces(VecDeque<Bytes>);

impl Body for Pieces {
    type Data = Bytes;
    type Error = Infallible;
    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.pop_front().map(|piece| Ok(Frame::data(piece))))
    }
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(future)
}

fn all(bytes: &[u8], size: usize) -> Result<Vec<Bytes>, Refusal> {
    let pieces = bytes.chunks(size).map(Bytes::copy_from_slice).collect();
    let mut incoming = Incoming::new(Pieces(pieces));
    let mut messages = vec![];
    run(async {
        while let Some(message) = incoming.next().await? {
            messages.push(message);
        }
        Ok(messages)
    })
}

#[test]
fn messages_come_out_however_they_are_cut() {
    let mut bytes = vec![];
    let wanted: Vec<Vec<u8>> = [0, 1, 5, 300, 70_000].map(|len| vec![7; len]).to_vec();
    for message in &wanted {
        bytes.extend_from_slice(&framed(|out| out.extend_from_slice(message), message.len()));
    }
    for size in [1, 2, 5, 6, 7, 1000, bytes.len()] {
        assert_eq!(all(&bytes, size).expect("well formed"), wanted, "{size}");
    }
    assert!(all(&bytes[..bytes.len() - 1], 1000).is_err());
}

#[test]
fn what_is_too_long_or_compressed_is_refused_before_it_is_there() {
    assert!(length(&[1, 0, 0, 0, 0]).is_err());
    assert!(length(&[0, 1, 0, 0, 0]).is_err());
    assert_eq!(length(&[0, 0, 1, 0, 0]), Ok(Some(1 << 16)));
    assert_eq!(length(&[0, 1, 0, 0]), Ok(None));
}

#[test]
fn texts_in_headers_are_escaped() {
    assert_eq!(escaped("a b%c\n\u{e9}"), "a b%25c%0A%C3%A9");
    let response = refused(&Refusal::TIMED_OUT);
    assert_eq!(response.headers()["grpc-status"], "14");
    assert_eq!(response.headers()["grpc-message"], "etcdserver: request timed out");
}

#[test]
fn a_stream_ends_with_its_reason() {
    let (sender, receiver) = tokio::sync::mpsc::channel(4);
    sender.try_send(Ok(Bytes::from_static(b"x").into())).expect("room");
    sender.try_send(Err(Refusal::STOPPED)).expect("room");
    let collected = run(Outgoing::Many(receiver).collect()).expect("it ends");
    assert_eq!(collected.trailers().expect("an end")["grpc-status"], "14");
    assert_eq!(collected.to_bytes(), "x");
}
