//! Serializable reads are answered from what the member published, on the front's thread: nobody sees less than what it knows already.
//! Strong reads see what was acknowledged to anybody.

use crate::support::{World, kv, put, run, watch};
use quorate_etcd_grpc::pb::etcdserverpb::watch_request::RequestUnion;
use quorate_etcd_grpc::pb::etcdserverpb::{RangeRequest, WatchCreateRequest, WatchRequest};
use quorate_runtime::Running;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tonic::codegen::tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::transport::Channel;

const KEY: &str = "key";

/// A serializable read: what is there, and the revision.
async fn look(channel: &Channel) -> (u64, i64) {
    let request = RangeRequest { key: KEY.into(), serializable: true, ..RangeRequest::default() };
    let found = kv(channel).range(request).await.expect("answered").into_inner();
    let value =
        found.kvs.first().map_or(0, |kv| u64::from_le_bytes(*kv.value.first_chunk().expect("8 bytes")));
    (value, found.header.expect("a header").revision)
}

async fn count(channel: &Channel, number: u64) -> i64 {
    let done = kv(channel).put(put(KEY, &number.to_le_bytes())).await.expect("done").into_inner();
    done.header.expect("a header").revision
}

#[test]
fn a_client_sees_what_it_wrote_and_never_less_than_it_saw() {
    let world = World::start(3);
    run(async {
        for at in 0..3 {
            let channel = world.channel(at).await;
            let (mut seen, before) = ((0, 0), look(&channel).await.0);
            for number in before + 1..before + 100 {
                let revision = count(&channel, number).await;
                for _ in 0..3 {
                    let now = look(&channel).await;
                    assert!(now.0 == number && now.1 >= revision && now >= seen, "{now:?} after {number}");
                    seen = now;
                }
            }
            // It was answered from what was published: that is what it reads here as well.
            let newest = world.cluster.running(quorate::ReplicaId::new(at as u16 + 1)).map(Running::newest);
            let reader = newest.expect("it runs").read();
            assert!(reader.newest().is_some_and(|state| !state.objects.is_empty()));
        }
    });
}

#[test]
fn who_watches_reads_no_less_than_was_told() {
    let world = World::start(3);
    run(async {
        let channel = world.channel(1).await;
        let (requests, receiver) = tokio::sync::mpsc::unbounded_channel();
        let responses =
            watch(&channel).watch(UnboundedReceiverStream::new(receiver)).await.expect("a stream");
        let mut responses = responses.into_inner();
        let create = WatchCreateRequest { key: KEY.into(), ..WatchCreateRequest::default() };
        let create = RequestUnion::CreateRequest(create);
        requests.send(WatchRequest { request_union: Some(create) }).expect("open");
        assert!(responses.message().await.expect("no error").expect("open").created);
        let other = world.channel(0).await;
        let writes = async {
            for number in 1..300 {
                count(&other, number).await;
            }
        };
        let reads = async {
            let mut last = 0;
            while last < 299 {
                let told = responses.message().await.expect("no error").expect("open");
                let kv = told.events.last().and_then(|event| event.kv.as_ref()).expect("an entry");
                last = u64::from_le_bytes(*kv.value.first_chunk().expect("8 bytes"));
                let (value, revision) = look(&channel).await;
                assert!(value >= last && revision >= kv.mod_revision, "{value} after {last}");
            }
        };
        tokio::join!(writes, reads);
    });
}

/// A strong read: the number under the key.
async fn get(channel: &Channel) -> u64 {
    let request = RangeRequest { key: KEY.into(), ..RangeRequest::default() };
    let found = kv(channel).range(request).await.expect("answered").into_inner();
    found.kvs.first().map_or(0, |kv| u64::from_le_bytes(*kv.value.first_chunk().expect("8 bytes")))
}

#[test]
fn strong_reads_see_what_was_acknowledged_at_any_member() {
    let mut world = World::start(3);
    let acknowledged = AtomicU64::new(0);
    let writes = async |writer: Channel, numbers: Range<u64>| {
        for number in numbers {
            count(&writer, number).await;
            acknowledged.store(number, Ordering::SeqCst);
        }
    };
    // Each reads until it has seen this number, several at a time, so that they share what is asked.
    let reads = async |reader: Channel, last: u64| {
        let mut seen = 0;
        while seen < last {
            let known = acknowledged.load(Ordering::SeqCst).max(seen);
            let (one, two, three) = tokio::join!(get(&reader), get(&reader), get(&reader));
            assert!(one.min(two).min(three) >= known, "{one}, {two} and {three} after {known}");
            seen = one.max(two).max(three);
        }
    };
    run(async {
        let [zero, one, two, writer] =
            [world.channel(0).await, world.channel(1).await, world.channel(2).await, world.channel(0).await];
        tokio::join!(writes(writer, 1..400), reads(zero, 399), reads(one, 399), reads(two, 399));
    });
    // A front whose replica has stopped asks the others.
    let stopped = 2;
    assert_eq!(world.cluster.stop(quorate::ReplicaId::new(stopped as u16 + 1)), None);
    run(async {
        let (reader, writer) = (world.channel(stopped).await, world.channel(0).await);
        tokio::join!(writes(writer, 400..450), reads(reader, 449));
    });
}

/// Nothing is handed out while nobody reads.
#[test]
fn it_ends_where_nobody_reads() {
    let world = World::start(1);
    run(async {
        let channel = world.channel(0).await;
        count(&channel, 1).await;
        look(&channel).await;
        look(&channel).await;
        tokio::time::sleep(Duration::from_millis(2_500)).await;
        let newest = world.cluster.running(quorate::ReplicaId::new(1)).map(Running::newest).expect("it runs");
        assert!(newest.read().newest().is_none(), "nobody had it published");
        assert_eq!(look(&channel).await.0, 1, "and it begins again");
    });
}
