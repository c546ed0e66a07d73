//! The services for locks and elections, built from keys and leases as in etcd.
//!
//! A caller that wants a lock, or to lead, puts a key of its own under the name, attached to its lease. The key that was created first has
//! the lock. Every other caller waits until no older key than its own is left. The keys look like those that client libraries make
//! themselves, so both can be mixed. A caller that goes away while it waits leaves the line. Tests: `tests/all/recipes.rs`, the same
//! against a real etcd.

use crate::auth::asker;
use crate::backend::Backend;
use crate::errors::{INTERNAL, Refusal, UNKNOWN};
use crate::framing::PREFIX;
use crate::header::Header;
use crate::pb::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use crate::pb::etcdserverpb::range_request::{SortOrder, SortTarget};
use crate::pb::etcdserverpb::request_op::Request as Op;
use crate::pb::etcdserverpb::response_op::Response as Done;
use crate::pb::etcdserverpb::{
    Compare, DeleteRangeRequest, LeaseGrantRequest, LeaseGrantResponse, LeaseKeepAliveRequest, PutRequest,
    RangeRequest, RangeResponse, RequestOp, TxnRequest, TxnResponse, WatchResponse,
};
use crate::pb::mvccpb::KeyValue;
use crate::pb::v3electionpb::election_server::Election;
use crate::pb::v3electionpb::{
    CampaignRequest, CampaignResponse, LeaderKey, LeaderRequest, LeaderResponse, ProclaimRequest,
    ProclaimResponse, ResignRequest, ResignResponse,
};
use crate::pb::v3lockpb::lock_server::Lock;
use crate::pb::v3lockpb::{LockRequest, LockResponse, UnlockRequest, UnlockResponse};
use crate::watch::WatchService;
use crate::watchers::Stream;
use bytes::Bytes;
use prost::Message;
use quorate_etcd::{Command, EtcdError, Query, RangePage, RangeQuery, WatchSpec};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::mpsc;
use tonic::codegen::tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status};

/// The time to live of a lease that is made for a caller without one, in seconds, as in etcd.
const LEASE_S: i64 = 60;
/// How often such a lease is renewed while the caller waits.
const RENEW: Duration = Duration::from_secs(20);
/// How many responses of an internal watch may wait.
const RESPONSES: usize = 16;

const NO_LEADER: Refusal = Refusal::new(UNKNOWN, "election: no leader");
const NOT_LEADER: Refusal = Refusal::new(UNKNOWN, "election: not leader");
const EXPIRED: Refusal = Refusal::new(UNKNOWN, "mutex: session is expired");
const MISSING: &str = "\"leader\" field must be provided";

#[derive(Clone)]
pub(crate) struct Recipes {
    pub(crate) backend: Backend,
    pub(crate) header: Arc<Header>,
    pub(crate) watch: Arc<WatchService>,
}

/// An internal watch of this front. Dropping it ends it.
struct Watching {
    service: Arc<WatchService>,
    number: u64,
    responses: mpsc::Receiver<Result<crate::framing::Message, Refusal>>,
}

impl Watching {
    async fn begin(
        service: &Arc<WatchService>,
        key: Bytes,
        range_end: Bytes,
        no_put: bool,
        from: i64,
    ) -> Result<Self, Refusal> {
        service.watchers.revision().await?;
        let (sender, responses) = mpsc::channel(RESPONSES);
        let number = service.streams.fetch_add(1, Ordering::Relaxed);
        let spec = WatchSpec { key: key.into(), range_end: range_end.into(), no_put, ..WatchSpec::default() };
        service.watchers.add(&Stream { sender, number }, 0, spec, from, 0);
        Ok(Self { service: service.clone(), number, responses })
    }

    /// Waits for the next response.
    async fn next(&mut self) -> Result<(), Refusal> {
        loop {
            let message = self.responses.recv().await.ok_or(Refusal::STOPPED)??;
            let message = message.bytes.get(PREFIX..).unwrap_or_default();
            let response = WatchResponse::decode(message).map_err(|_| EtcdError::Malformed)?;
            if response.canceled || !response.events.is_empty() {
                return Ok(());
            }
        }
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.service.watchers.remove_stream(self.number);
    }
}

/// A key in the line. Dropping it removes the key, unless it is kept.
struct Waiter {
    backend: Backend,
    key: Bytes,
    revision: i64,
    kept: bool,
}

impl Drop for Waiter {
    fn drop(&mut self) {
        if self.kept {
            return;
        }
        let (backend, leave) = (self.backend.clone(), delete_if(&self.key, self.revision));
        tokio::spawn(async move { drop(backend.order(Command::Txn, leave.encode_to_vec().into()).await) });
    }
}

fn prefix(name: &[u8]) -> (Bytes, Bytes) {
    let start = [name, b"/"].concat();
    let mut end = start.clone();
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    (start.into(), end.into())
}

fn created(key: &Bytes, revision: i64) -> Compare {
    Compare {
        result: CompareResult::Equal.into(),
        target: CompareTarget::Create.into(),
        key: key.clone(),
        target_union: Some(TargetUnion::CreateRevision(revision)),
        range_end: Bytes::new(),
    }
}

fn operation(request: Op) -> RequestOp {
    RequestOp { request: Some(request) }
}

fn put(key: &Bytes, value: &Bytes, lease: i64) -> RequestOp {
    operation(Op::RequestPut(PutRequest {
        key: key.clone(),
        value: value.clone(),
        lease,
        ..PutRequest::default()
    }))
}

fn delete_if(key: &Bytes, revision: i64) -> TxnRequest {
    let delete = DeleteRangeRequest { key: key.clone(), ..DeleteRangeRequest::default() };
    let success = vec![operation(Op::RequestDeleteRange(delete))];
    TxnRequest { compare: vec![created(key, revision)], success, failure: vec![] }
}

/// A request for the first key under a name, or for the last one before a revision.
fn edge(name: &[u8], order: SortOrder, before: i64) -> RangeRequest {
    let (key, range_end) = prefix(name);
    RangeRequest {
        key,
        range_end,
        limit: 1,
        sort_order: order.into(),
        sort_target: SortTarget::Create.into(),
        max_create_revision: before,
        ..RangeRequest::default()
    }
}

async fn txn(backend: &Backend, request: TxnRequest) -> Result<(i64, TxnResponse), Refusal> {
    let done = backend.order(Command::Txn, request.encode_to_vec().into()).await?;
    let response = TxnResponse::decode(done.body).map_err(|_| EtcdError::Malformed)?;
    Ok((done.revision, response))
}

async fn first(backend: &Backend, request: RangeRequest) -> Result<(i64, Option<KeyValue>), Refusal> {
    let request = request.encode_to_vec();
    let query = Query::Range(RangeQuery { continued: false, skip: 0, request: &request });
    let done = backend.read(&query).await?;
    let page = RangePage::decode(&done.body).ok_or(EtcdError::Malformed)?;
    let response = RangeResponse::decode(page.fields).map_err(|_| EtcdError::Malformed)?;
    Ok((done.revision, response.kvs.into_iter().next()))
}

impl Recipes {
    /// The lease to use: a new one if the caller has none.
    async fn lease(&self, backend: &Backend, lease: i64) -> Result<i64, Refusal> {
        if lease != 0 {
            return Ok(lease);
        }
        let message = LeaseGrantRequest { ttl: LEASE_S, id: 0 }.encode_to_vec();
        let done = backend.order(Command::LeaseGrant, message.into()).await?;
        Ok(LeaseGrantResponse::decode(done.body).map_err(|_| EtcdError::Malformed)?.id)
    }

    /// Puts a key into the line of a name, or finds the key that the lease already has there. Gives its value, too.
    async fn stand(
        &self,
        backend: &Backend,
        name: &[u8],
        lease: i64,
        value: &Bytes,
    ) -> Result<(Waiter, Bytes), Refusal> {
        let key = Bytes::from([name, format!("/{lease:x}").as_bytes()].concat());
        let get = RangeRequest { key: key.clone(), ..RangeRequest::default() };
        let request = TxnRequest {
            compare: vec![created(&key, 0)],
            success: vec![put(&key, value, lease)],
            failure: vec![operation(Op::RequestRange(get))],
        };
        let (mut revision, response) = txn(backend, request).await?;
        let mut stands = value.clone();
        if let Some(Done::ResponseRange(range)) =
            response.responses.into_iter().next().and_then(|done| done.response)
        {
            let own = range.kvs.into_iter().next().ok_or(EXPIRED)?;
            (revision, stands) = (own.create_revision, own.value);
        }
        Ok((Waiter { backend: backend.clone(), key, revision, kept: false }, stands))
    }

    /// Waits until no older key is left.
    async fn wait(&self, waiter: &Waiter, name: &[u8], renewed: Option<i64>) -> Result<i64, Refusal> {
        let mut tick = tokio::time::interval(RENEW);
        loop {
            let (revision, before) =
                first(&waiter.backend, edge(name, SortOrder::Descend, waiter.revision - 1)).await?;
            let Some(before) = before else { break };
            let mut watching =
                Watching::begin(&self.watch, before.key, Bytes::new(), true, revision + 1).await?;
            loop {
                tokio::select! {
                    gone = watching.next() => {
                        gone?;
                        break;
                    }
                    _ = tick.tick() => {
                        if let Some(id) = renewed {
                            let message = LeaseKeepAliveRequest { id }.encode_to_vec();
                            waiter.backend.order(Command::LeaseKeepAlive, message.into()).await?;
                        }
                    }
                }
            }
        }
        // The own lease may have ended meanwhile.
        let own = RangeRequest { key: waiter.key.clone(), ..RangeRequest::default() };
        let (revision, own) = first(&waiter.backend, own).await?;
        own.filter(|own| own.create_revision == waiter.revision).map(|_| revision).ok_or(EXPIRED)
    }
}

#[tonic::async_trait]
impl Lock for Recipes {
    async fn lock(&self, request: Request<LockRequest>) -> Result<Response<LockResponse>, Status> {
        let backend = self.backend.on_behalf_of(asker(&request));
        let LockRequest { name, lease } = request.into_inner();
        let own = self.lease(&backend, lease).await?;
        let (mut waiter, _) = self.stand(&backend, &name, own, &Bytes::new()).await?;
        let revision = self.wait(&waiter, &name, (lease == 0).then_some(own)).await?;
        waiter.kept = true;
        let key = waiter.key.clone();
        Ok(Response::new(LockResponse { header: self.header.message(revision), key }))
    }

    async fn unlock(&self, request: Request<UnlockRequest>) -> Result<Response<UnlockResponse>, Status> {
        let backend = self.backend.on_behalf_of(asker(&request));
        let delete = DeleteRangeRequest { key: request.into_inner().key, ..DeleteRangeRequest::default() };
        let done = backend.order(Command::DeleteRange, delete.encode_to_vec().into()).await?;
        Ok(Response::new(UnlockResponse { header: self.header.message(done.revision) }))
    }
}

fn leader_of(leader: Option<LeaderKey>) -> Result<LeaderKey, Status> {
    leader.ok_or_else(|| Status::unknown(MISSING))
}

async fn proclaim(backend: &Backend, leader: &LeaderKey, value: &Bytes) -> Result<i64, Refusal> {
    let request = TxnRequest {
        compare: vec![created(&leader.key, leader.rev)],
        success: vec![put(&leader.key, value, leader.lease)],
        failure: vec![],
    };
    let (revision, response) = txn(backend, request).await?;
    if response.succeeded { Ok(revision) } else { Err(NOT_LEADER) }
}

#[tonic::async_trait]
impl Election for Recipes {
    type ObserveStream = Pin<Box<ReceiverStream<Result<LeaderResponse, Status>>>>;

    async fn campaign(
        &self,
        request: Request<CampaignRequest>,
    ) -> Result<Response<CampaignResponse>, Status> {
        let backend = self.backend.on_behalf_of(asker(&request));
        let CampaignRequest { name, lease, value } = request.into_inner();
        let own = self.lease(&backend, lease).await?;
        let (mut waiter, stands) = self.stand(&backend, &name, own, &value).await?;
        let leader =
            LeaderKey { name: name.clone(), key: waiter.key.clone(), rev: waiter.revision, lease: own };
        if stands != value {
            proclaim(&backend, &leader, &value).await?;
        }
        let revision = self.wait(&waiter, &name, (lease == 0).then_some(own)).await?;
        waiter.kept = true;
        Ok(Response::new(CampaignResponse { header: self.header.message(revision), leader: Some(leader) }))
    }

    async fn proclaim(
        &self,
        request: Request<ProclaimRequest>,
    ) -> Result<Response<ProclaimResponse>, Status> {
        let backend = self.backend.on_behalf_of(asker(&request));
        let ProclaimRequest { leader, value } = request.into_inner();
        let revision = proclaim(&backend, &leader_of(leader)?, &value).await?;
        Ok(Response::new(ProclaimResponse { header: self.header.message(revision) }))
    }

    async fn leader(&self, request: Request<LeaderRequest>) -> Result<Response<LeaderResponse>, Status> {
        let backend = self.backend.on_behalf_of(asker(&request));
        let (revision, leader) = first(&backend, edge(&request.get_ref().name, SortOrder::Ascend, 0)).await?;
        let kv = Some(leader.ok_or(NO_LEADER)?);
        Ok(Response::new(LeaderResponse { header: self.header.message(revision), kv }))
    }

    async fn observe(
        &self,
        request: Request<LeaderRequest>,
    ) -> Result<Response<Self::ObserveStream>, Status> {
        let backend = self.backend.on_behalf_of(asker(&request));
        let (name, service) = (request.into_inner().name, self.clone());
        let (sender, receiver) = mpsc::channel(RESPONSES);
        tokio::spawn(async move {
            let ended = tokio::select! {
                ended = service.observe_all(&backend, &name, &sender) => ended,
                () = sender.closed() => return,
            };
            if let Err(refusal) = ended {
                let _ = sender.send(Err(refusal.into())).await;
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }

    async fn resign(&self, request: Request<ResignRequest>) -> Result<Response<ResignResponse>, Status> {
        let backend = self.backend.on_behalf_of(asker(&request));
        let leader = leader_of(request.into_inner().leader)?;
        let (revision, _) = txn(&backend, delete_if(&leader.key, leader.rev)).await?;
        Ok(Response::new(ResignResponse { header: self.header.message(revision) }))
    }
}

impl Recipes {
    /// Tells each new leader and what it proclaims. A value that is replaced at once may be left out.
    async fn observe_all(
        &self,
        backend: &Backend,
        name: &[u8],
        sender: &mpsc::Sender<Result<LeaderResponse, Status>>,
    ) -> Result<(), Refusal> {
        let mut told = None;
        loop {
            let (revision, leader) = first(backend, edge(name, SortOrder::Ascend, 0)).await?;
            let now = leader.as_ref().map(|leader| (leader.key.clone(), leader.mod_revision));
            if leader.is_some() && now != told {
                let response = LeaderResponse { header: self.header.message(revision), kv: leader };
                sender.send(Ok(response)).await.map_err(|_| Refusal::new(INTERNAL, "nobody listens"))?;
            }
            told = now;
            let (start, end) = prefix(name);
            Watching::begin(&self.watch, start, end, false, revision + 1).await?.next().await?;
        }
    }
}
