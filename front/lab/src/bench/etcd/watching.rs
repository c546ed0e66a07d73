//! Watches beside the callers: many that get no events, and some observers that must get every event.
//!
//! Only callers write, so an observer's next event has the next revision. An event that is missing, doubled or out of order shows at once.

use super::PATIENCE;
use super::client::Connection;
use bytes::Bytes;
use quorate_command::failure::{Failure, Outcome};
use quorate_etcd_grpc::pb::etcdserverpb::watch_request::RequestUnion;
use quorate_etcd_grpc::pb::etcdserverpb::{WatchCreateRequest, WatchRequest, WatchResponse};
use serde::Serialize;
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Instant;
use tokio::sync::{Notify, mpsc};
use tokio::task::spawn_local;
use tonic::codegen::tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::{Status, Streaming};

/// How many watches share a stream.
const STREAM_WATCHES: usize = 1000;

/// The events that the observers saw.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Events {
    pub(super) observers: usize,
    /// Events that all observers saw together.
    pub(super) seen: u64,
    /// From the last answer to a caller until the last observer saw its event, in ms.
    pub(super) behind_ms: f64,
    /// The first error, if there was one.
    pub(super) fault: Option<String>,
}

struct Stream {
    requests: mpsc::UnboundedSender<WatchRequest>,
    responses: Streaming<WatchResponse>,
}

impl Stream {
    /// Opens these watches. A server of etcd sends nothing before it was asked for something.
    async fn open(connection: &Connection, watches: impl Iterator<Item = (Bytes, Bytes)>) -> Outcome<Self> {
        let (requests, receiver) = mpsc::unbounded_channel();
        for (key, range_end) in watches {
            let create = WatchCreateRequest { key, range_end, ..WatchCreateRequest::default() };
            let union = Some(RequestUnion::CreateRequest(create));
            // Nothing is refused while the receiver is here.
            let _ = requests.send(WatchRequest { request_union: union });
        }
        let mut watch = connection.watch();
        let opened = watch.watch(UnboundedReceiverStream::new(receiver));
        let opened = tokio::time::timeout(PATIENCE, opened).await;
        let opened = opened.map_err(|_| Failure::new("a stream of watches does not begin"))?;
        let responses = opened.map_err(|why| failed(&why))?.into_inner();
        Ok(Self { requests, responses })
    }

    async fn next(&mut self) -> Outcome<WatchResponse> {
        let next = self.responses.message().await.map_err(|why| failed(&why))?;
        next.ok_or_else(|| Failure::new("a stream of watches ended"))
    }

    /// The revision after which the next watch begins.
    async fn created(&mut self) -> Outcome<i64> {
        let next = tokio::time::timeout(PATIENCE, self.next()).await;
        let next = next.map_err(|_| Failure::new("a watch does not begin"))??;
        match next.header {
            Some(header) if next.created && !next.canceled => Ok(header.revision),
            _ => Err(Failure::new(format!("a watch was refused: {next:?}"))),
        }
    }
}

fn failed(why: &Status) -> Failure {
    Failure::new(format!("a watch fails: {why}"))
}

#[derive(Default)]
struct Shared {
    /// Only events after this revision count.
    after: Cell<i64>,
    seen: Cell<u64>,
    fault: RefCell<Option<String>>,
    moved: Notify,
}

impl Shared {
    fn fault(&self, why: impl Into<String>) {
        self.fault.borrow_mut().get_or_insert_with(|| why.into());
        self.moved.notify_one();
    }
}

/// All watches; they end with the runtime.
pub(super) struct Watching {
    shared: Rc<Shared>,
    /// The last revision of each observer.
    last: Vec<Rc<Cell<i64>>>,
    /// Keeps the streams open.
    held: Vec<mpsc::UnboundedSender<WatchRequest>>,
}

impl Watching {
    pub(super) async fn begin(
        connections: &[Connection],
        watchers: usize,
        observers: usize,
    ) -> Outcome<Self> {
        let shared = Rc::new(Shared { after: Cell::new(i64::MAX), ..Shared::default() });
        let mut watching = Self { shared, last: Vec::new(), held: Vec::new() };
        let mut places = connections.iter().cycle();
        for first in (0..watchers).step_by(STREAM_WATCHES) {
            let Some(connection) = places.next() else { break };
            let numbers = first..watchers.min(first + STREAM_WATCHES);
            let other = |number| (Bytes::from(format!("other-{number}")), Bytes::new());
            let mut stream = Stream::open(connection, numbers.clone().map(other)).await?;
            for _ in numbers {
                stream.created().await?;
            }
            watching.held.push(stream.requests.clone());
            spawn_local(see_nothing(stream, watching.shared.clone()));
        }
        for connection in places.take(observers) {
            let all = std::iter::once((Bytes::from("k"), Bytes::from("l")));
            let mut stream = Stream::open(connection, all).await?;
            let last = Rc::new(Cell::new(stream.created().await?));
            watching.held.push(stream.requests.clone());
            spawn_local(see_all(stream, last.clone(), watching.shared.clone()));
            watching.last.push(last);
        }
        Ok(watching)
    }

    /// Events after this revision count. A member that lags may send some from before.
    pub(super) fn count_after(&self, revision: i64) {
        self.shared.after.set(revision);
    }

    /// Waits until all observers saw everything up to this revision. `None` when there are no observers and there was no error.
    pub(super) async fn end(self, revision: i64) -> Option<Events> {
        let from = Instant::now();
        let all_saw = async {
            while self.last.iter().any(|last| last.get() < revision) && self.shared.fault.borrow().is_none() {
                self.shared.moved.notified().await;
            }
        };
        if tokio::time::timeout(PATIENCE, all_saw).await.is_err() {
            let missing = self.last.iter().map(|last| revision - last.get()).max().unwrap_or_default();
            self.shared.fault(format!("the last {missing} events did not come"));
        }
        let fault = self.shared.fault.borrow().clone();
        (!self.last.is_empty() || fault.is_some()).then(|| Events {
            observers: self.last.len(),
            seen: self.shared.seen.get(),
            behind_ms: from.elapsed().as_secs_f64() * 1000.0,
            fault,
        })
    }
}

async fn see_nothing(mut stream: Stream, shared: Rc<Shared>) {
    loop {
        match stream.next().await {
            Ok(response) if response.events.is_empty() && !response.canceled => {}
            Ok(_) => return shared.fault("a watch on another key was told something"),
            Err(why) => return shared.fault(why.to_string()),
        }
    }
}

async fn see_all(mut stream: Stream, last: Rc<Cell<i64>>, shared: Rc<Shared>) {
    loop {
        let response = match stream.next().await {
            Ok(response) if !response.canceled => response,
            Ok(_) => return shared.fault("a watch was ended"),
            Err(why) => return shared.fault(why.to_string()),
        };
        for event in response.events {
            let revision = event.kv.map_or(0, |kv| kv.mod_revision);
            if revision != last.get() + 1 {
                return shared
                    .fault(format!("the event after revision {} is that of {revision}", last.get()));
            }
            last.set(revision);
            shared.seen.set(shared.seen.get() + u64::from(revision > shared.after.get()));
        }
        shared.moved.notify_one();
    }
}
