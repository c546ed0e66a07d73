//! The watch service: one stream of a client carries many watches.

use crate::backend::Backend;
use crate::errors::Refusal;
use crate::framing::{Messages, Requests};
use crate::header::Header;
use crate::pb::etcdserverpb::watch_create_request::FilterType;
use crate::pb::etcdserverpb::watch_request::RequestUnion;
use crate::pb::etcdserverpb::{WatchCreateRequest, WatchRequest};
use crate::watchers::{Stream, Watchers, response};
use bytes::Bytes;
use prost::Message as _;
use quorate_etcd::{AuthQuery, EtcdError, WatchSpec, proto};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::mpsc;

/// How many responses of a stream may wait.
const RESPONSES: usize = 128;
/// The most watches of a stream.
const WATCHES_MAX: usize = 100_000;

/// What all streams share.
pub(crate) struct WatchService {
    pub(crate) watchers: Watchers,
    pub(crate) header: Arc<Header>,
    pub(crate) streams: AtomicU64,
}

impl WatchService {
    fn told(&self) -> i64 {
        self.watchers.told()
    }

    /// Answers a call; a task of its own serves it, until nobody takes the responses any more.
    pub(crate) fn watch(self: &Arc<Self>, requests: impl Requests, backend: Backend) -> Messages {
        let (sender, receiver) = mpsc::channel(RESPONSES);
        let number = self.streams.fetch_add(1, Ordering::Relaxed);
        let served =
            Served { service: self.clone(), backend, stream: Stream { sender, number }, next: 0, watches: 0 };
        tokio::spawn(served.run(requests));
        receiver
    }
}

/// One stream.
struct Served {
    service: Arc<WatchService>,
    /// The way to the store, for the caller who watches.
    backend: Backend,
    stream: Stream,
    /// The next id that the server assigns.
    next: i64,
    watches: usize,
}

impl Served {
    async fn run(mut self, mut requests: impl Requests) {
        let ended = loop {
            // A client that takes no responses any more is noticed even if it says nothing.
            let message = tokio::select! {
                message = requests.next() => message,
                () = self.stream.sender.closed() => break None,
            };
            let request = match message {
                Ok(Some(message)) => WatchRequest::decode(message),
                Ok(None) => break None,
                Err(refusal) => break Some(refusal),
            };
            let handled = match request.map(|request| request.request_union) {
                Ok(Some(RequestUnion::CreateRequest(create))) => self.create(create).await,
                Ok(Some(RequestUnion::CancelRequest(cancel))) => self.cancel(cancel.watch_id).await,
                Ok(Some(RequestUnion::ProgressRequest(_))) => {
                    self.service.watchers.progress(&self.stream);
                    Ok(())
                }
                Ok(None) => Ok(()),
                Err(_) => Err(EtcdError::Malformed.into()),
            };
            if let Err(refusal) = handled {
                break Some(refusal);
            }
        };
        self.service.watchers.remove_stream(self.stream.number);
        if let Some(refusal) = ended {
            let _ = self.stream.sender.send(Err(refusal)).await;
        }
    }

    async fn create(&mut self, create: WatchCreateRequest) -> Result<(), Refusal> {
        // What a client was told of before it asks is no event of a watch from now on, whether it was executed here yet or not.
        let revision = self.service.watchers.revision().await?.max(self.service.told());
        // Nothing stands for the first key there is.
        let key = if create.key.is_empty() { Bytes::from_static(&[0]) } else { create.key.clone() };
        let range_end = create.range_end.clone();
        if !range_end.is_empty() && range_end[..] != [0] && range_end <= key {
            return self.refuse(revision, "mvcc: watcher range is empty").await;
        }
        if let Err(refusal) = self.allow(&key, &range_end).await {
            // A token that is none of these says nothing of the caller.
            return match EtcdError::DENIALS.into_iter().find(|error| refusal == (*error).into()) {
                Some(error) => self.refuse(revision, &told(error)).await,
                None => Err(refusal),
            };
        }
        let id = match create.watch_id {
            0 => self.free_id(),
            id if self.service.watchers.has((self.stream.number, id)) => {
                return self.refuse(revision, "mvcc: duplicate watch ID provided on the WatchStream").await;
            }
            id => id,
        };
        if self.watches >= WATCHES_MAX {
            return Err(Refusal::TOO_MANY);
        }
        self.watches += 1;
        let from = if create.start_revision > 0 { create.start_revision } else { revision + 1 };
        let created = response(&self.service.header, revision, id, |out| proto::flag_field(out, 3, true));
        self.send(created).await?;
        let filtered = |filter: FilterType| create.filters.contains(&i32::from(filter));
        let spec = WatchSpec {
            key: key.into(),
            range_end: range_end.into(),
            no_put: filtered(FilterType::Noput),
            no_delete: filtered(FilterType::Nodelete),
            prev_kv: create.prev_kv,
            fragment: create.fragment,
            progress_notify: create.progress_notify,
        };
        self.service.watchers.add(&self.stream, id, spec, from, revision);
        Ok(())
    }

    async fn allow(&self, key: &[u8], range_end: &[u8]) -> Result<(), Refusal> {
        let mut range = Vec::new();
        proto::string(&mut range, key);
        proto::string(&mut range, range_end);
        self.backend.may(AuthQuery::MayRead(&range)).await.map(drop)
    }

    fn free_id(&mut self) -> i64 {
        while self.service.watchers.has((self.stream.number, self.next)) {
            self.next += 1;
        }
        self.next += 1;
        self.next - 1
    }

    /// Answers a watch that can not begin.
    async fn refuse(&self, revision: i64, why: &str) -> Result<(), Refusal> {
        let refused = response(&self.service.header, revision, -1, |out| {
            proto::flag_field(out, 3, true);
            proto::flag_field(out, 4, true);
            proto::bytes_field(out, 6, why.as_bytes());
        });
        self.send(refused).await
    }

    async fn cancel(&mut self, id: i64) -> Result<(), Refusal> {
        if !self.service.watchers.remove((self.stream.number, id)) {
            return Ok(());
        }
        self.watches -= 1;
        let revision = self.service.watchers.revision().await?;
        let canceled = response(&self.service.header, revision, id, |out| proto::flag_field(out, 4, true));
        self.send(canceled).await
    }

    async fn send(&self, message: Bytes) -> Result<(), Refusal> {
        self.stream.sender.send(Ok(message.into())).await.map_err(|_| Refusal::STOPPED)
    }
}

/// An error with its code as etcd's own library prints it: clients compare this text.
fn told(error: EtcdError) -> String {
    let code = match error {
        EtcdError::PermissionDenied => "PermissionDenied",
        EtcdError::InvalidAuthToken => "Unauthenticated",
        _ => "InvalidArgument",
    };
    format!("rpc error: code = {code} desc = {error}")
}
