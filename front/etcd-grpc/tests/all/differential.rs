//! The same random requests to a real etcd and to a cluster of ours: every field of every response is the same, and so is every event.
//!
//! Skipped where there is no etcd: `front/cli/tests/all/etcd/build.sh` builds one. `QUORATE_DIFFERENTIAL` says how many requests, and
//! `QUORATE_SEED` from which seed. What may differ stands in docs/etcd.md; headers are compared by their revision.

use crate::support::peer::{Peer, etcd, same};
use crate::support::{World, kv, lease, watch};
use quorate_etcd_grpc::pb::etcdserverpb::compare::TargetUnion;
use quorate_etcd_grpc::pb::etcdserverpb::request_op::Request as Op;
use quorate_etcd_grpc::pb::etcdserverpb::watch_request::RequestUnion;
use quorate_etcd_grpc::pb::etcdserverpb::{
    CompactionRequest, Compare, DeleteRangeRequest, LeaseGrantRequest, LeaseLeasesRequest,
    LeaseRevokeRequest, LeaseTimeToLiveRequest, PutRequest, RangeRequest, RequestOp, TxnRequest,
    WatchCreateRequest, WatchRequest,
};
use quorate_etcd_grpc::pb::mvccpb::Event;
use quorate_types::Random;
use tokio::sync::mpsc;
use tonic::Response;
use tonic::codegen::tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::transport::Channel;

fn wanted(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// Chooses requests.
struct Chance {
    random: Random,
    revision: i64,
}

const KEYS: [&str; 9] = ["a", "aa", "ab", "b", "b/1", "b/2", "c", "d\0", "e"];
const ENDS: [&str; 6] = ["", "\0", "b", "b0", "c", "f"];

impl Chance {
    fn below(&mut self, end: u64) -> u64 {
        self.random.below(end)
    }
    fn one_in(&mut self, many: u64) -> bool {
        self.below(many) == 0
    }
    fn key(&mut self) -> String {
        if self.one_in(60) { String::new() } else { KEYS[self.below(KEYS.len() as u64) as usize].into() }
    }
    fn end(&mut self) -> String {
        if self.one_in(2) { String::new() } else { ENDS[self.below(ENDS.len() as u64) as usize].into() }
    }
    fn small(&mut self) -> i64 {
        if self.one_in(3) { self.below(5) as i64 - 1 } else { 0 }
    }
    /// One of the last ones, the newest, or one that is still to come.
    fn some_revision(&mut self) -> i64 {
        match self.below(4) {
            0 => self.revision - self.below(40) as i64,
            1 => self.revision + 1 - self.below(3) as i64,
            _ => 0,
        }
    }
    fn bound(&mut self) -> i64 {
        if self.one_in(12) { self.revision - self.below(20) as i64 } else { 0 }
    }
    fn lease(&mut self) -> i64 {
        if self.one_in(4) { self.below(4) as i64 } else { 0 }
    }

    fn range(&mut self) -> RangeRequest {
        RangeRequest {
            key: self.key().into(),
            range_end: self.end().into(),
            limit: self.small(),
            revision: self.some_revision(),
            sort_order: self.below(3) as i32,
            sort_target: self.below(5) as i32,
            serializable: self.one_in(4),
            keys_only: self.one_in(6),
            count_only: self.one_in(8),
            min_mod_revision: self.bound(),
            max_mod_revision: self.bound(),
            min_create_revision: self.bound(),
            max_create_revision: self.bound(),
        }
    }
    fn put(&mut self) -> PutRequest {
        let (ignore_value, ignore_lease) = (self.one_in(10), self.one_in(10));
        let strict = self.one_in(10);
        PutRequest {
            key: self.key().into(),
            value: if ignore_value && !strict { "".into() } else { format!("{}", self.below(4)).into() },
            lease: if ignore_lease && !strict { 0 } else { self.lease() },
            prev_kv: self.one_in(2),
            ignore_value,
            ignore_lease,
        }
    }
    fn delete(&mut self) -> DeleteRangeRequest {
        DeleteRangeRequest { key: self.key().into(), range_end: self.end().into(), prev_kv: self.one_in(2) }
    }
    fn compare(&mut self) -> Compare {
        let number = match self.below(3) {
            0 => 0,
            1 => self.revision - self.below(10) as i64,
            _ => self.below(4) as i64,
        };
        let target = self.below(5) as i32;
        let union = match target {
            // Now and then it is not the one that the target names.
            _ if self.one_in(15) => TargetUnion::Version(number),
            0 => TargetUnion::Version(number),
            1 => TargetUnion::CreateRevision(number),
            2 => TargetUnion::ModRevision(number),
            3 => TargetUnion::Value(format!("{}", self.below(4)).into()),
            _ => TargetUnion::Lease(number),
        };
        let range_end = if self.one_in(4) { self.end() } else { String::new() };
        Compare {
            result: self.below(4) as i32,
            target,
            key: self.key().into(),
            range_end: range_end.into(),
            target_union: if self.one_in(15) { None } else { Some(union) },
        }
    }
    fn operations(&mut self, depth: u64) -> Vec<RequestOp> {
        let count = self.below(4);
        let mut list = Vec::new();
        for _ in 0..count {
            let operation = match self.below(7) {
                0 | 1 => Op::RequestRange(self.range()),
                2 | 3 => Op::RequestPut(self.put()),
                4 => {
                    let mut delete = self.delete();
                    // A real etcd does not see that such a delete and a put meet, and ends when the put needs the key.
                    if delete.range_end == "\0" {
                        delete.range_end = "f".into();
                    }
                    Op::RequestDeleteRange(delete)
                }
                _ if depth < 3 => Op::RequestTxn(self.txn(depth + 1)),
                _ => Op::RequestPut(self.put()),
            };
            list.push(RequestOp { request: if self.one_in(80) { None } else { Some(operation) } });
        }
        list
    }
    fn txn(&mut self, depth: u64) -> TxnRequest {
        let compare = (0..self.below(3)).map(|_| self.compare()).collect();
        TxnRequest { compare, success: self.operations(depth), failure: self.operations(depth) }
    }
}

/// A real etcd and ours.
struct Both {
    etcd: Channel,
    ours: Channel,
}

macro_rules! ask {
    ($both:expr, $client:ident . $call:ident, $request:expr) => {{
        let request = $request;
        let etcd = $client(&$both.etcd).$call(request.clone()).await;
        let ours = $client(&$both.ours).$call(request.clone()).await;
        same(&request, etcd, ours)
    }};
}

impl Both {
    async fn step(&self, chance: &mut Chance) {
        let revision = match chance.below(100) {
            0..35 => ask!(self, kv.range, chance.range()),
            35..60 => ask!(self, kv.put, chance.put()),
            60..68 => ask!(self, kv.delete_range, chance.delete()),
            68..92 => ask!(self, kv.txn, chance.txn(1)),
            92 => {
                let revision = chance.revision - chance.below(60) as i64;
                ask!(self, kv.compact, CompactionRequest { revision, physical: false })
            }
            93 | 94 => {
                let ttl = if chance.one_in(10) { 10_000_000_000 } else { 3600 + chance.below(100) as i64 };
                ask!(self, lease.lease_grant, LeaseGrantRequest { ttl, id: 1 + chance.below(4) as i64 })
            }
            95 => ask!(self, lease.lease_revoke, LeaseRevokeRequest { id: chance.below(5) as i64 }),
            96 => self.leases().await,
            97 | 98 => self.time_to_live(chance).await,
            _ => {
                self.watch(chance).await;
                None
            }
        };
        chance.revision = chance.revision.max(revision.unwrap_or(0));
    }

    /// In any order.
    async fn leases(&self) -> Option<i64> {
        let sorted = |mut response: Response<quorate_etcd_grpc::pb::etcdserverpb::LeaseLeasesResponse>| {
            response.get_mut().leases.sort_by_key(|lease| lease.id);
            response
        };
        let etcd = lease(&self.etcd).lease_leases(LeaseLeasesRequest {}).await.map(sorted);
        let ours = lease(&self.ours).lease_leases(LeaseLeasesRequest {}).await.map(sorted);
        same(&"the leases", etcd, ours)
    }

    /// But for the seconds, and in any order of keys.
    async fn time_to_live(&self, chance: &mut Chance) -> Option<i64> {
        let request = LeaseTimeToLiveRequest { id: 1 + chance.below(5) as i64, keys: chance.one_in(2) };
        let plain = |mut response: Response<quorate_etcd_grpc::pb::etcdserverpb::LeaseTimeToLiveResponse>| {
            let message = response.get_mut();
            message.keys.sort();
            message.ttl = message.ttl.signum();
            response
        };
        let etcd = lease(&self.etcd).lease_time_to_live(request).await.map(plain);
        let ours = lease(&self.ours).lease_time_to_live(request).await.map(plain);
        same(&request, etcd, ours)
    }

    async fn watch(&self, chance: &mut Chance) {
        let create = WatchCreateRequest {
            key: chance.key().into(),
            range_end: chance.end().into(),
            start_revision: (chance.revision - chance.below(40) as i64).max(1),
            filters: (0..2).filter(|_| chance.one_in(5)).collect(),
            prev_kv: chance.one_in(2),
            ..WatchCreateRequest::default()
        };
        let count = self.events_there(&create).await;
        let etcd = seen(&self.etcd, create.clone(), count).await;
        let ours = seen(&self.ours, create.clone(), count).await;
        assert_eq!(etcd, ours, "etcd's events (left) and ours for {create:?}");
    }

    /// How many events ours has for a watch: of etcd's no more are waited for, and one more would show in the next response.
    async fn events_there(&self, create: &WatchCreateRequest) -> usize {
        // A key that is changed at the end shows that all was seen.
        let last = PutRequest { key: create.key.clone(), value: "end".into(), ..PutRequest::default() };
        let request = if create.key.is_empty() { PutRequest { key: "a".into(), ..last } } else { last };
        ask!(self, kv.put, request.clone());
        usize::from(create.filters.is_empty())
    }
}

/// What a watch sees, as far as its end is known: up to the put that was made for that, or to its refusal.
async fn seen(channel: &Channel, create: WatchCreateRequest, puts: usize) -> (Vec<Event>, i64, bool) {
    let (requests, receiver) = mpsc::unbounded_channel();
    let request = |create| WatchRequest { request_union: Some(create) };
    requests.send(request(RequestUnion::CreateRequest(create.clone()))).expect("open");
    let stream = watch(channel).watch(UnboundedReceiverStream::new(receiver)).await;
    let mut stream = stream.expect("a stream").into_inner();
    let first = stream.message().await.expect("no error").expect("an answer");
    if first.canceled {
        return (vec![], first.compact_revision, true);
    }
    let mut events = Vec::new();
    let ends = |events: &[Event]| {
        let last = events.last().and_then(|event| event.kv.as_ref());
        last.is_some_and(|kv| kv.value == "end".as_bytes() && kv.mod_revision >= create.start_revision)
    };
    let covers_end = create.range_end.is_empty() || create.range_end == "\0" || create.range_end > create.key;
    if puts == 0 || create.key.is_empty() || !covers_end {
        return (vec![], 0, false);
    }
    while !ends(&events) {
        let response = stream.message().await.expect("no error").expect("an answer");
        if response.canceled {
            return (events, response.compact_revision, true);
        }
        events.extend(response.events);
    }
    (events, 0, false)
}

#[test]
fn as_a_real_etcd() {
    let Some(program) = etcd() else {
        quorate_skipped::skipped(
            "there is no etcd; front/cli/tests/all/etcd/build.sh builds one where Go is",
        );
        return;
    };
    let (count, seed) = (wanted("QUORATE_DIFFERENTIAL", 3000), wanted("QUORATE_SEED", 1));
    let (peer, world) = (Peer::start(&program), World::start(1));
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let both = Both { etcd: peer.channel().await, ours: world.channel(0).await };
        let mut chance = Chance { random: Random::new(seed), revision: 1 };
        for _ in 0..count {
            both.step(&mut chance).await;
        }
    });
}
