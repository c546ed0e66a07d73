//! One client's connection: reads frames, and sends what waits for the client.

use crate::front::Shared;
use crate::outbox::{Outbox, Todo, WAITING_MAX};
use bytes::{Buf as _, BytesMut};
use quorate_kit::Stream;
use quorate_zookeeper::server::{self, ConnId};
use quorate_zookeeper::tree::Id;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, ReadHalf, WriteHalf};

/// How long a connection that ends may take to send the rest.
const LAST_WORDS: Duration = Duration::from_secs(5);
/// How many bytes are read at once at least.
const READ_AT_LEAST: usize = 16 << 10;

/// A connection that is served.
struct Served {
    shared: Arc<Shared>,
    id: ConnId,
    outbox: Arc<Outbox>,
    read: ReadHalf<Stream>,
    write: WriteHalf<Stream>,
    received: BytesMut,
    sending: BytesMut,
    /// Whether it is known that frames come, and no word.
    has_begun: bool,
    /// Whether the first of them waits until clients may be let in.
    waits: bool,
}

/// Serves a connection until it ends.
pub(crate) async fn serve(shared: Arc<Shared>, stream: Stream, peer: SocketAddr, ids: Vec<Id>) {
    let is_safe = matches!(stream, Stream::Safe(_));
    let (id, outbox) = shared.connected(peer, is_safe, ids);
    let (read, write) = tokio::io::split(stream);
    let (received, sending) = (BytesMut::new(), BytesMut::new());
    let (has_begun, waits) = (false, false);
    let served =
        Served { shared: shared.clone(), id, outbox, read, write, received, sending, has_begun, waits };
    // Whatever ends it.
    let _ = served.run().await;
    shared.closed(id);
}

impl Served {
    async fn run(mut self) -> std::io::Result<()> {
        loop {
            if std::mem::take(&mut self.waits) && !self.shared.members.were_said().await {
                return Ok(());
            }
            let Todo { bytes, ends, is_cut } = self.outbox.take();
            if is_cut || self.sending.len() > WAITING_MAX {
                tracing::debug!("a client of zookeeper does not read what it asked for: it is cut off");
                return Ok(());
            }
            if self.sending.is_empty() {
                self.sending = bytes;
            } else {
                self.sending.extend_from_slice(&bytes);
            }
            if ends {
                return self.end().await;
            }
            let reads = self.may_read();
            if reads {
                // Frames that came while nothing was read.
                self.frames()?;
            }
            self.received.reserve(READ_AT_LEAST);
            tokio::select! {
                sent = self.write.write(&self.sending), if !self.sending.is_empty() => match sent? {
                    0 => return Ok(()),
                    sent => self.sending.advance(sent),
                },
                came = self.read.read_buf(&mut self.received), if reads => match came? {
                    0 => return Ok(()),
                    _ => self.frames()?,
                },
                () = self.outbox.changed() => {}
            }
        }
    }

    /// Whether more requests may come: not while many wait, or while many answers do.
    fn may_read(&self) -> bool {
        !self.outbox.is_long(self.sending.len()) && !self.shared.is_full(self.id)
    }

    /// Hands over whole frames, as long as there is room for requests.
    fn frames(&mut self) -> std::io::Result<()> {
        if !self.has_begun && self.received.len() >= 4 {
            self.has_begun = true;
            match server::word(&self.received) {
                Some(word) => {
                    self.shared.word(self.id, word);
                    self.received.clear();
                }
                None => {
                    self.waits = true;
                    self.outbox.look();
                    return Ok(());
                }
            }
        }
        while self.may_read() {
            match server::split(&mut self.received, self.shared.frame_bytes) {
                Ok(Some(frame)) => self.shared.received(self.id, frame),
                Ok(None) => return Ok(()),
                Err(bad) => {
                    tracing::debug!("a client of zookeeper announced a frame of {} bytes", bad.length);
                    return Err(std::io::ErrorKind::InvalidData.into());
                }
            }
        }
        Ok(())
    }

    async fn end(mut self) -> std::io::Result<()> {
        let last = async {
            self.write.write_all(&self.sending).await?;
            self.write.shutdown().await
        };
        tokio::time::timeout(LAST_WORDS, last).await.unwrap_or(Ok(()))
    }
}
