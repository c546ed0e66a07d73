//! Clients that take locks in turn, by the service or by the recipe of etcd's libraries, and write only while they hold one.
//!
//! A holder's lease is kept alive by a task of its own, or not at all: then it ends while its owner still thinks that it holds the lock. So
//! each write is a transaction that asks whether the own key is still there, and it says with which key's revision it was made; the
//! judge looks whether that was the first in the line at that revision.

use crate::etcd_kills::clients::{Client, Written};
use crate::etcd_kills::watchers::Stream;
use crate::etcd_kills::writers::{get, made_at, operation, put, revision_of};
use quorate_etcd_grpc::pb::etcdserverpb::range_request::{SortOrder, SortTarget};
use quorate_etcd_grpc::pb::etcdserverpb::request_op::Request;
use quorate_etcd_grpc::pb::etcdserverpb::response_op::Response;
use quorate_etcd_grpc::pb::etcdserverpb::watch_create_request::FilterType;
use quorate_etcd_grpc::pb::etcdserverpb::{
    DeleteRangeRequest, LeaseGrantRequest, LeaseKeepAliveRequest, LeaseRevokeRequest, PutRequest,
    RangeRequest, TxnRequest, WatchCreateRequest,
};
use quorate_etcd_grpc::pb::v3lockpb::{LockRequest, UnlockRequest};
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::task::JoinHandle;
use tonic::{Code, Status};

pub(crate) const LOCKS: [&str; 2] = ["lock/a", "lock/b"];
pub(crate) const GUARDED: &str = "guarded/";
const TTL_S: i64 = 2;
const KEEP: Duration = Duration::from_millis(400);
/// Writes of a holder, at most.
const WRITES: u64 = 6;

/// A key in the line, and the revision at which it was made.
struct Waiter {
    key: String,
    fence: i64,
}

/// A task that ends with this.
struct Kept(Option<JoinHandle<()>>);

impl Drop for Kept {
    fn drop(&mut self) {
        if let Some(task) = self.0.take() {
            task.abort();
        }
    }
}

pub(crate) async fn hold(mut client: Client) {
    while !client.is_stopped() {
        if once(&mut client).await.is_err() {
            client.elsewhere().await;
        }
    }
}

/// Takes a lock, writes, and gives it back, or not.
async fn once(client: &mut Client) -> Result<(), Status> {
    let grant = LeaseGrantRequest { ttl: TTL_S, id: 0 };
    let lease = client.lease().lease_grant(grant).await?.into_inner().id;
    let is_kept = client.random.percent(80);
    let _kept = Kept(is_kept.then(|| keep(client, lease)));
    let name = LOCKS[client.random.below(LOCKS.len() as u64) as usize];
    let waiter = loop {
        let by_service = client.random.percent(50);
        let taken =
            if by_service { ask(client, name, lease).await } else { stand(client, name, lease).await };
        match taken {
            Ok(waiter) => break waiter,
            // Its lease ended, and its place with it.
            Err(why) if matches!(why.code(), Code::NotFound | Code::Unknown) => return Ok(()),
            Err(_) if client.is_stopped() => return Ok(()),
            Err(_) => client.elsewhere().await,
        }
    };
    client.shared.held.fetch_add(1, Ordering::Relaxed);
    write(client, name, &waiter).await;
    leave(client, lease, waiter).await
}

/// Keeps a lease alive, whatever becomes of members.
fn keep(client: &mut Client, lease: i64) -> JoinHandle<()> {
    let random = client.random.fork();
    let mut client = Client::new(client.shared.clone(), client.number, random);
    tokio::spawn(async move {
        loop {
            let requests = tonic::codegen::tokio_stream::iter([LeaseKeepAliveRequest { id: lease }]);
            let answer = match client.lease().lease_keep_alive(requests).await {
                Ok(answers) => answers.into_inner().message().await,
                Err(why) => Err(why),
            };
            match answer {
                Ok(Some(answer)) if answer.ttl <= 0 => return,
                Ok(_) => tokio::time::sleep(KEEP).await,
                Err(_) => client.elsewhere().await,
            }
        }
    })
}

/// By the service.
async fn ask(client: &mut Client, name: &str, lease: i64) -> Result<Waiter, Status> {
    let taken = client.locks().lock(LockRequest { name: name.to_owned().into(), lease }).await?.into_inner();
    let key = String::from_utf8_lossy(&taken.key).into_owned();
    let own = client.kv().range(get(&key)).await?.into_inner().kvs.into_iter().next();
    let own = own.ok_or_else(|| Status::not_found("the own key is gone"))?;
    Ok(Waiter { key, fence: own.create_revision })
}

/// By the recipe: a key of its own, then wait until none is left that was made before.
async fn stand(client: &mut Client, name: &str, lease: i64) -> Result<Waiter, Status> {
    let key = format!("{name}/{lease:x}");
    let own = PutRequest { lease, ..put(&key, "") };
    let request = TxnRequest {
        compare: vec![made_at(&key, 0)],
        success: vec![operation(Request::RequestPut(own))],
        failure: vec![operation(Request::RequestRange(get(&key)))],
    };
    let done = client.kv().txn(request).await?.into_inner();
    let fence = match done.responses.into_iter().next().and_then(|done| done.response) {
        Some(Response::ResponseRange(range)) => range.kvs.first().map_or(0, |own| own.create_revision),
        _ => revision_of(done.header),
    };
    let before = RangeRequest {
        key: format!("{name}/").into(),
        range_end: format!("{name}0").into(),
        limit: 1,
        sort_order: SortOrder::Descend.into(),
        sort_target: SortTarget::Create.into(),
        max_create_revision: fence - 1,
        ..RangeRequest::default()
    };
    loop {
        let range = client.kv().range(before.clone()).await?.into_inner();
        let Some(earlier) = range.kvs.into_iter().next() else { break };
        wait_until_gone(client, &earlier.key, revision_of(range.header) + 1).await?;
    }
    let own = client.kv().range(get(&key)).await?.into_inner().kvs.into_iter().next();
    let still = own.filter(|own| own.create_revision == fence);
    still.map(|_| Waiter { key, fence }).ok_or_else(|| Status::not_found("the own key is gone"))
}

async fn wait_until_gone(client: &Client, key: &[u8], from: i64) -> Result<(), Status> {
    let create = WatchCreateRequest {
        key: key.to_vec().into(),
        start_revision: from,
        filters: vec![FilterType::Noput.into()],
        ..WatchCreateRequest::default()
    };
    let mut stream = Stream::open(client, create).await?;
    while !client.is_stopped() {
        let patience = Duration::from_secs(1);
        // Now and then we look whether it is time to end.
        let Ok(response) = tokio::time::timeout(patience, stream.next()).await else { continue };
        if !response?.events.is_empty() {
            return Ok(());
        }
    }
    Err(Status::cancelled("the test ends"))
}

/// Writes as long as the own key is there.
async fn write(client: &mut Client, name: &str, waiter: &Waiter) {
    let key = format!("{GUARDED}{name}");
    for number in 1..=client.random.below(WRITES) + 1 {
        let value = format!("{}/{}/{number}", waiter.fence, client.number);
        let request = TxnRequest {
            compare: vec![made_at(&waiter.key, waiter.fence)],
            success: vec![operation(Request::RequestPut(put(&key, &value)))],
            failure: vec![],
        };
        let call = client.shared.recorder.now();
        match client.kv().txn(request).await.map(tonic::Response::into_inner) {
            Ok(done) if done.succeeded => {
                let (revision, ret) = (revision_of(done.header), client.shared.recorder.now());
                client.shared.wrote(Written { key: key.clone(), value: Some(value), revision, call, ret });
            }
            Ok(_) => return,
            Err(_) => client.elsewhere().await,
        }
        client.nap(30).await;
    }
}

async fn leave(client: &mut Client, lease: i64, waiter: Waiter) -> Result<(), Status> {
    match client.random.below(4) {
        0 => drop(client.locks().unlock(UnlockRequest { key: waiter.key.into() }).await?),
        1 => drop(client.lease().lease_revoke(LeaseRevokeRequest { id: lease }).await?),
        2 => {
            let delete = DeleteRangeRequest { key: waiter.key.into(), ..DeleteRangeRequest::default() };
            drop(client.kv().delete_range(delete).await?);
        }
        // It goes away without a word; its lease ends by itself.
        _ => {}
    }
    Ok(())
}
