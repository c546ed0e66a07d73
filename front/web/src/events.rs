//! What there is to see, for all viewers: the source is asked once a second while there is a viewer, and not at all without one.

use crate::Source;
use bytes::Bytes;
use http_body::{Body, Frame};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::{Notify, mpsc, watch};

/// How often the source is asked.
const EVERY: Duration = Duration::from_secs(1);
/// The most viewers at once. Others are told to come later.
const VIEWERS_MAX: usize = 100;

/// Where viewers get their events. All clones act as one.
#[derive(Clone)]
pub(crate) struct Events(Arc<Shared>);

struct Shared {
    source: Arc<dyn Source>,
    newest: watch::Sender<Bytes>,
    viewers: AtomicUsize,
    came: Notify,
}

/// A stream of events; dropping it ends it.
pub(crate) struct Stream {
    events: mpsc::Receiver<Bytes>,
    shared: Arc<Shared>,
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.shared.viewers.fetch_sub(1, Ordering::Relaxed) == 1 {
            // The next one, who may come tomorrow, does not begin with what was now.
            self.shared.newest.send_replace(Bytes::new());
        }
    }
}

impl Body for Stream {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.events.poll_recv(context).map(|event| event.map(|event| Ok(Frame::data(event))))
    }
}

impl Events {
    pub(crate) fn of(source: Arc<dyn Source>) -> Self {
        let newest = watch::Sender::new(Bytes::new());
        Self(Arc::new(Shared { source, newest, viewers: AtomicUsize::new(0), came: Notify::new() }))
    }

    /// Asks the source while somebody looks, for ever.
    pub(crate) async fn ask(self) {
        loop {
            while self.0.viewers.load(Ordering::Relaxed) == 0 {
                self.0.came.notified().await;
            }
            let begun = tokio::time::Instant::now();
            let source = self.0.source.clone();
            if let Ok(state) = tokio::task::spawn_blocking(move || source.state()).await {
                self.0.newest.send_replace(format!("data: {state}\n\n").into());
            }
            // Two looks do not overlap, however long one takes.
            tokio::time::sleep_until(begun + EVERY).await;
        }
    }

    /// A stream for another viewer. None: there are too many.
    pub(crate) fn stream(&self) -> Option<Stream> {
        let shared = self.0.clone();
        if shared.viewers.fetch_add(1, Ordering::Relaxed) >= VIEWERS_MAX {
            shared.viewers.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        let (sender, events) = mpsc::channel(1);
        let mut newest = shared.newest.subscribe();
        newest.mark_changed();
        tokio::spawn(async move {
            while newest.changed().await.is_ok() {
                let event = newest.borrow_and_update().clone();
                // Who reads slowly misses what was in between.
                if !event.is_empty() && sender.send(event).await.is_err() {
                    return;
                }
            }
        });
        shared.came.notify_one();
        Some(Stream { events, shared })
    }
}
