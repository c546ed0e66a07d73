//! A connection whose writes go to the system together, at the end of each turn of whoever serves it.
//!
//! HTTP/2's library hands over each message of more than 256 bytes by itself: with answers of 1 KiB, that was one call of the system for each,
//! though those of many callers were ready. Here what is written waits in memory until the connection has done all that it can, which is no
//! later than it would have slept. What is long is not copied. Tests: `gather/tests.rs`.

use std::future::{Future, poll_fn};
use std::io::{self, ErrorKind, IoSlice};
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

#[cfg(test)]
mod tests;

/// So many bytes wait at most.
const WAITING_MAX: usize = 64 << 10;
/// A connection that has nothing to say keeps no more memory than this.
const KEPT: usize = 16 << 10;

/// Serves a connection, with what it writes in each turn together.
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

/// What is read and written.
pub struct Gather<S>(Arc<Mutex<Out<S>>>);

struct Out<S> {
    stream: S,
    waiting: Vec<u8>,
    /// So much of it is on its way.
    sent: usize,
    /// Why nothing can be sent any more.
    failed: Option<ErrorKind>,
}

/// One thread uses it, whose panics leave nothing half done.
fn lock<S>(out: &Mutex<Out<S>>) -> MutexGuard<'_, Out<S>> {
    out.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<S: AsyncWrite + Unpin> Out<S> {
    /// Sends what waits. Whoever serves the connection is woken when there is room for more.
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

    /// Takes what is short, and passes on what is long.
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

    /// The end of the turn does it.
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
