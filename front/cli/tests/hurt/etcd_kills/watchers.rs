//! Clients that watch, and go on where they were when a stream ends, as etcd's libraries do: from the revision after the last one that
//! they know to have seen all of.

use crate::etcd_kills::clients::Client;
use crate::etcd_kills::writers::{PREFIX, revision_of};
use crate::rig::recorder::text;
use quorate_etcd_grpc::pb::etcdserverpb::watch_create_request::FilterType;
use quorate_etcd_grpc::pb::etcdserverpb::watch_request::RequestUnion;
use quorate_etcd_grpc::pb::etcdserverpb::{
    WatchCreateRequest, WatchProgressRequest, WatchRequest, WatchResponse,
};
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::mpsc;
use tonic::codegen::tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::{Status, Streaming};

/// How often a watcher does something besides reading.
const TICK: Duration = Duration::from_millis(40);

/// What is watched, and how.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    key: &'static str,
    end: &'static str,
    no_put: bool,
    no_delete: bool,
    prev_kv: bool,
    /// From its beginning on, not from the first revision there is.
    from_now: bool,
    /// Takes its time to read.
    slow: bool,
}

const ALL: Kind = Kind {
    key: "\0",
    end: "\0",
    no_put: false,
    no_delete: false,
    prev_kv: false,
    from_now: false,
    slow: false,
};
const WRITERS: Kind = Kind { key: PREFIX, end: "w0", ..ALL };

pub(crate) const KINDS: [Kind; 9] = [
    ALL,
    Kind { prev_kv: true, ..ALL },
    Kind { slow: true, ..ALL },
    WRITERS,
    Kind { from_now: true, ..WRITERS },
    Kind { no_put: true, ..WRITERS },
    Kind { no_delete: true, prev_kv: true, ..WRITERS },
    Kind { key: "w/k1", end: "", ..ALL },
    Kind { key: "w/k2", end: "", from_now: true, slow: true, ..ALL },
];

/// An event, as far as it is compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) revision: i64,
    pub(crate) key: String,
    /// None: deleted.
    pub(crate) value: Option<String>,
    /// When the key was made; 0 of one that was deleted.
    pub(crate) made: i64,
    /// What was there before, if that was asked for.
    pub(crate) before: Option<String>,
}

/// What a watcher saw from which revision on.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) kind: Kind,
    pub(crate) from: i64,
    pub(crate) changes: Vec<Change>,
}

impl Seen {
    /// What it should have seen of all that happened, in which nothing stands of what was before.
    pub(crate) fn expected(&self, history: &[Change]) -> Vec<Change> {
        let Kind { key, end, no_put, no_delete, prev_kv, .. } = self.kind;
        let mut stands = std::collections::BTreeMap::new();
        let mut expected = Vec::new();
        for change in history {
            let before = stands.insert(&change.key, change.value.clone()).flatten();
            let in_range = match end {
                "" => change.key == key,
                "\0" => true,
                end => (key..end).contains(&change.key.as_str()),
            };
            let wanted = if change.value.is_some() { !no_put } else { !no_delete };
            if in_range && wanted && change.revision >= self.from {
                expected.push(Change { before: before.filter(|_| prev_kv), ..change.clone() });
            }
        }
        expected
    }
}

pub(crate) fn changes_of(response: WatchResponse) -> Vec<Change> {
    let change = |event: quorate_etcd_grpc::pb::mvccpb::Event| {
        let kv = event.kv.expect("an event has an entry");
        Change {
            revision: kv.mod_revision,
            key: text(&kv.key),
            value: (event.r#type == 0).then(|| text(&kv.value)),
            made: kv.create_revision,
            before: event.prev_kv.map(|before| text(&before.value)),
        }
    };
    response.events.into_iter().map(change).collect()
}

pub(crate) struct Stream {
    requests: mpsc::UnboundedSender<WatchRequest>,
    responses: Streaming<WatchResponse>,
}

impl Stream {
    pub(crate) async fn open(client: &Client, create: WatchCreateRequest) -> Result<Self, Status> {
        let (requests, receiver) = mpsc::unbounded_channel();
        let responses = client.watch().watch(UnboundedReceiverStream::new(receiver)).await?.into_inner();
        let stream = Self { requests, responses };
        stream.ask(RequestUnion::CreateRequest(create));
        Ok(stream)
    }

    fn ask(&self, request: RequestUnion) {
        // A stream that ended says so when it is read.
        let _ = self.requests.send(WatchRequest { request_union: Some(request) });
    }

    /// The next response; what ends the watch is an error.
    pub(crate) async fn next(&mut self) -> Result<WatchResponse, Status> {
        let response =
            self.responses.message().await?.ok_or_else(|| Status::unavailable("the stream ended"))?;
        if response.canceled { Err(Status::aborted(response.cancel_reason)) } else { Ok(response) }
    }
}

pub(crate) struct Watcher {
    client: Client,
    seen: Seen,
    /// Everything up to here was seen.
    last: i64,
}

impl Watcher {
    pub(crate) fn new(client: Client, kind: Kind) -> Self {
        let from = if kind.from_now { 0 } else { 1 };
        Self { client, seen: Seen { kind, from, changes: Vec::new() }, last: 0 }
    }

    pub(crate) async fn run(mut self) -> Seen {
        while !self.client.shared.is_end(self.last) {
            match self.follow().await {
                Ok(()) => {}
                // Nothing is compacted here, and nothing else ends a watch for good.
                Err(why) if why.code() == tonic::Code::Aborted => {
                    self.client.shared.recorder.fault(format!("{:?} was ended: {why}", self.seen.kind));
                }
                Err(_) => {}
            }
            self.client.shared.resumed.fetch_add(1, Ordering::Relaxed);
            self.client.elsewhere().await;
        }
        self.seen
    }

    /// Watches on one stream, until it ends or all was seen.
    async fn follow(&mut self) -> Result<(), Status> {
        let kind = self.seen.kind;
        let filters = [(kind.no_put, FilterType::Noput), (kind.no_delete, FilterType::Nodelete)];
        let filters = filters.into_iter().filter(|(is_set, _)| *is_set).map(|(_, filter)| filter.into());
        let is_first = self.seen.from == 0;
        let create = WatchCreateRequest {
            key: kind.key.into(),
            range_end: kind.end.into(),
            start_revision: if is_first { 0 } else { self.last + 1 },
            prev_kv: kind.prev_kv,
            filters: filters.collect(),
            ..WatchCreateRequest::default()
        };
        let mut stream = Stream::open(&self.client, create).await?;
        let created = stream.next().await?;
        if is_first {
            self.last = revision_of(created.header);
            self.seen.from = self.last + 1;
        }
        let mut tick = tokio::time::interval(TICK);
        while !self.client.shared.is_end(self.last) {
            tokio::select! {
                response = stream.next() => {
                    self.take(response?);
                    if kind.slow {
                        self.client.nap(60).await;
                    }
                }
                _ = tick.tick() => {
                    if self.client.random.percent(30) {
                        stream.ask(RequestUnion::ProgressRequest(WatchProgressRequest {}));
                    } else if self.client.random.percent(2) {
                        return Ok(());
                    }
                }
            }
        }
        Ok(())
    }

    fn take(&mut self, response: WatchResponse) {
        let told = revision_of(response.header);
        let is_progress = response.watch_id == -1;
        for change in changes_of(response) {
            // Those of one revision come together, so that of another response none is as old as the last.
            if change.revision <= self.last {
                let (last, kind) = (self.last, self.seen.kind);
                self.client.shared.recorder.fault(format!("{change:?} came after {last} to {kind:?}"));
            }
            self.seen.changes.push(change);
        }
        let newest = self.seen.changes.last().map_or(0, |change| change.revision);
        self.last = self.last.max(newest).max(if is_progress { told } else { 0 });
    }
}
