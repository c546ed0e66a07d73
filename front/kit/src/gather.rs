//! A connection that collects its writes and sends them in one system call, at the end of each turn of the task that serves it.
//!
//! The library for HTTP/2 writes each message of more than 256 bytes by itself. With answers of 1 KiB that was one system call for each,
//! though the answers to many callers were ready. Here writes wait in memory until the task can do no more, so they leave no later than
//! the task would have slept. Long writes are not copied. Tests: `gather/tests.rs`.

use std::future::{Future, poll_fn};
use std::io::{self, ErrorKind, IoSlice};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

#[cfg(test)]
mod tests;

/// The most bytes that wait.
const WAITING_MAX: usize = 64 << 10;
/// The most memory that a connection keeps while nothing waits.
const KEPT: usize = 16 << 10;

/// Serves a connection, whose writes of each turn are sent together.
pub async fn together<S, F>(stream: S, serve: impl FnOnce(Gather<S>) -> F) -> F::Output
where
    S: AsyncWrite + Unpin,
    F: Future,
{
    let out = Arc::new(Mutex::new(Out { stream, waiting: Vec::new(), sent: 0, failed: None }));
    let mut served = pin!(serve(Gather(out.clone())));
    poll_fn(|cx| {
        let done = served.as_mut().poll(cx);
        lock(&out).end_turn(cx);
        done
    })
    .await
}

/// The stream that `serve` reads and writes.
pub struct Gather<S>(Arc<Mutex<Out<S>>>);

struct Out<S> {
    stream: S,
    waiting: Vec<u8>,
    /// How many bytes of `waiting` are sent.
    sent: usize,
    /// The error after which nothing can be sent any more.
    failed: Option<ErrorKind>,
}

/// Only one thread uses it, and a panic of that thread leaves nothing half done.
fn lock<S>(out: &Mutex<Out<S>>) -> MutexGuard<'_, Out<S>> {
    out.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<S: AsyncWrite + Unpin> Out<S> {
    /// Sends the bytes that wait. The task is woken when there is room for more.
    fn end_turn(&mut self, cx: &mut Context<'_>) {
        if self.failed.is_none()
            && let Poll::Ready(Err(why)) = self.send(cx)
        {
            self.failed = Some(why.kind());
        }
    }

    fn send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(rest) = self.waiting.get(self.sent..).filter(|rest| !rest.is_empty()) {
            match ready!(Pin::new(&mut self.stream).poll_write(cx, rest))? {
                0 => return Poll::Ready(Err(ErrorKind::WriteZero.into())),
                sent => self.sent += sent,
            }
        }
        self.sent = 0;
        self.waiting.clear();
        self.waiting.shrink_to(KEPT);
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn check(&self) -> io::Result<()> {
        self.failed.map_or(Ok(()), |kind| Err(kind.into()))
    }

    /// Keeps a short write, and passes on a long one.
    fn write(&mut self, cx: &mut Context<'_>, parts: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        self.check()?;
        let len = parts.iter().map(|part| part.len()).sum::<usize>();
        if self.waiting.len() + len > WAITING_MAX {
            ready!(self.send(cx))?;
        }
        if len > WAITING_MAX {
            return Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        }
        parts.iter().for_each(|part| self.waiting.extend_from_slice(part));
        Poll::Ready(Ok(len))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Gather<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut lock(&self.0).stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Gather<S> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        lock(&self.0).write(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        lock(&self.0).write(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Flushes nothing: the end of the turn does.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(lock(&self.0).check())
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut out = lock(&self.0);
        out.check()?;
        ready!(out.send(cx))?;
        Pin::new(&mut out.stream).poll_shutdown(cx)
    }
}
