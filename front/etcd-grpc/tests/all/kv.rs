//! Keys, leases, members and status over the network.

use crate::support::{World, kv, lease, prefix, put, run};
use quorate_etcd_grpc::pb::etcdserverpb::cluster_client::ClusterClient;
use quorate_etcd_grpc::pb::etcdserverpb::maintenance_client::MaintenanceClient;
use quorate_etcd_grpc::pb::etcdserverpb::{
    DeleteRangeRequest, HashKvRequest, LeaseGrantRequest, LeaseKeepAliveRequest, LeaseTimeToLiveRequest,
    MemberListRequest, PutRequest, RangeRequest, StatusRequest,
};
use tonic::codegen::tokio_stream::iter;

#[test]
fn what_one_member_took_all_members_show() {
    let world = World::start(3);
    run(async {
        for at in 0..3 {
            let key = format!("key-{at}");
            let response =
                kv(&world.channel(at).await).put(put(&key, b"v")).await.expect("done").into_inner();
            let header = response.header.expect("a header");
            assert_eq!(header.revision, at as i64 + 2);
            assert!(header.cluster_id != 0 && header.member_id != 0 && header.raft_term > 0);
        }
        for at in 0..3 {
            let all = kv(&world.channel(at).await).range(prefix("key-")).await.expect("there").into_inner();
            assert_eq!((all.kvs.len(), all.count, all.more), (3, 3, false));
        }
    });
}

#[test]
fn errors_have_the_codes_and_texts_of_etcd() {
    let world = World::start(1);
    run(async {
        let channel = world.channel(0).await;
        let refused = kv(&channel).put(PutRequest::default()).await.expect_err("no key");
        assert_eq!(refused.code(), tonic::Code::InvalidArgument);
        assert_eq!(refused.message(), "etcdserver: key is not provided");
        let future = RangeRequest { revision: 100, ..prefix("a") };
        let refused = kv(&channel).range(future).await.expect_err("a future revision");
        assert_eq!(refused.code(), tonic::Code::OutOfRange);
        assert_eq!(refused.message(), "etcdserver: mvcc: required revision is a future revision");
        let refused = kv(&channel).put(put("k", &vec![0; 3 << 19])).await.expect_err("too large");
        assert_eq!(refused.message(), "etcdserver: request is too large");
        let refused = kv(&channel).put(put("k", &vec![0; 3 << 20])).await.expect_err("far too large");
        assert_eq!(refused.code(), tonic::Code::ResourceExhausted);
    });
}

#[test]
fn the_longest_value_goes_in_and_comes_out() {
    let world = World::start(3);
    run(async {
        let mut client = kv(&world.channel(0).await);
        // A request of 1.5 MiB, with what is around the value.
        let value = vec![7; (3 << 19) - 16];
        client.put(put("k", &value)).await.expect("done");
        let found = client.range(prefix("k")).await.expect("there").into_inner();
        assert!(found.kvs.len() == 1 && found.kvs[0].value == value);
        let before = PutRequest { prev_kv: true, ..put("k", b"short") };
        let before = client.put(before).await.expect("done").into_inner().prev_kv.expect("it was there");
        assert!(before.value == value);
        let past = client.range(RangeRequest { revision: 2, ..prefix("k") }).await.expect("there");
        assert!(past.into_inner().kvs[0].value == value);
    });
}

#[test]
fn many_puts_at_once_each_get_their_own_answer() {
    let world = World::start(3);
    run(async {
        let channel = world.channel(1).await;
        let puts = (0..500).map(|number: u32| {
            let mut client = kv(&channel);
            tokio::spawn(async move {
                let request = PutRequest {
                    prev_kv: number.is_multiple_of(10),
                    ..put(&format!("k{number}"), &number.to_le_bytes())
                };
                client.put(request).await.expect("done").into_inner().header.expect("a header").revision
            })
        });
        let mut revisions = Vec::new();
        for put in puts.collect::<Vec<_>>() {
            revisions.push(put.await.expect("it ran"));
        }
        revisions.sort_unstable();
        assert_eq!(revisions, (2..502).collect::<Vec<i64>>());
        for number in [0u32, 77, 499] {
            let one = RangeRequest { key: format!("k{number}").into(), ..RangeRequest::default() };
            let found = kv(&channel).range(one).await.expect("there").into_inner();
            assert_eq!(found.kvs[0].value[..], number.to_le_bytes());
        }
    });
}

#[test]
fn ranges_longer_than_a_reply_come_whole() {
    let world = World::start(1);
    run(async {
        let channel = world.channel(0).await;
        for number in 0..60 {
            kv(&channel).put(put(&format!("big-{number:02}"), &vec![number; 100_000])).await.expect("done");
        }
        let all = kv(&channel).range(prefix("big-")).await.expect("there").into_inner();
        assert_eq!((all.kvs.len(), all.count, all.more), (60, 60, false));
        assert!(all.kvs.iter().zip(0..).all(|(kv, number)| kv.value == vec![number; 100_000]));
        let some = RangeRequest { limit: 40, sort_order: 2, serializable: true, ..prefix("big-") };
        let some = kv(&channel).range(some).await.expect("there").into_inner();
        assert_eq!((some.kvs.len(), some.count, some.more), (40, 60, true));
        assert_eq!(some.kvs[39].value[0], 20);
        let gone = DeleteRangeRequest { key: "big-".into(), range_end: "big.".into(), prev_kv: false };
        assert_eq!(kv(&channel).delete_range(gone).await.expect("done").into_inner().deleted, 60);
    });
}

#[test]
fn leases_are_granted_kept_and_end() {
    let world = World::start(1);
    run(async {
        let channel = world.channel(0).await;
        let granted =
            lease(&channel).lease_grant(LeaseGrantRequest { ttl: 2, id: 0 }).await.expect("granted");
        let id = granted.into_inner().id;
        kv(&channel).put(PutRequest { lease: id, ..put("leased", b"") }).await.expect("done");
        let asked = iter((0..3).map(move |_| LeaseKeepAliveRequest { id }));
        let mut kept = lease(&channel).lease_keep_alive(asked).await.expect("a stream").into_inner();
        for _ in 0..3 {
            let one = kept.message().await.expect("an answer").expect("three answers");
            assert_eq!((one.id, one.ttl), (id, 2));
        }
        let question = LeaseTimeToLiveRequest { id, keys: true };
        let left = lease(&channel).lease_time_to_live(question).await.expect("an answer").into_inner();
        assert_eq!((left.granted_ttl, left.keys.len()), (2, 1));
        loop {
            let range = kv(&channel).range(prefix("leased")).await.expect("an answer").into_inner();
            if range.kvs.is_empty() {
                break;
            }
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
        let left = lease(&channel).lease_time_to_live(question).await.expect("an answer").into_inner();
        assert_eq!(left.ttl, -1);
    });
}

#[test]
fn members_status_and_hashes() {
    let world = World::start(3);
    run(async {
        let channel = world.channel(0).await;
        kv(&channel).put(put("a", b"1")).await.expect("done");
        let list = MemberListRequest { linearizable: true };
        ClusterClient::new(channel.clone()).member_list(list).await.expect("an answer");
        let mut hashes = Vec::new();
        for at in 0..3 {
            let mut maintenance = MaintenanceClient::new(world.channel(at).await);
            let status = maintenance.status(StatusRequest {}).await.expect("an answer").into_inner();
            assert!(status.version.starts_with("3.6") && status.raft_term == 3);
            // Sees what was acknowledged.
            kv(&world.channel(at).await).range(prefix("a")).await.expect("there");
            let hash =
                maintenance.hash_kv(HashKvRequest { revision: 2 }).await.expect("an answer").into_inner();
            hashes.push((hash.hash, hash.hash_revision));
        }
        assert!(hashes.windows(2).all(|pair| pair[0] == pair[1]), "{hashes:?}");
    });
}
