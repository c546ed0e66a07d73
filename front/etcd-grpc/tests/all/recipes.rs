//! Locks and elections as services: the same to a real etcd and to ours, and what waits gives up its place when it goes away.

use crate::support::peer::{Peer, etcd};
use crate::support::{World, kv, lease, prefix, run};
use quorate_etcd_grpc::pb::etcdserverpb::{LeaseGrantRequest, LeaseRevokeRequest, RangeRequest};
use quorate_etcd_grpc::pb::v3electionpb::election_client::ElectionClient;
use quorate_etcd_grpc::pb::v3electionpb::{
    CampaignRequest, LeaderKey, LeaderRequest, ProclaimRequest, ResignRequest,
};
use quorate_etcd_grpc::pb::v3lockpb::lock_client::LockClient;
use quorate_etcd_grpc::pb::v3lockpb::{LockRequest, UnlockRequest};
use tonic::transport::Channel;

async fn leased(channel: &Channel, id: i64) -> i64 {
    lease(channel).lease_grant(LeaseGrantRequest { ttl: 3600, id }).await.expect("granted").into_inner().id
}

async fn count(channel: &Channel, name: &str) -> i64 {
    kv(channel).range(prefix(name)).await.expect("there").into_inner().count
}

/// Waits until so many keys are under a name.
async fn stand(channel: &Channel, name: &str, wanted: i64) {
    while count(channel, name).await != wanted {
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

async fn locks(channel: &Channel) {
    let client = LockClient::new(channel.clone());
    let lock = |lease| {
        let mut client = client.clone();
        let request = LockRequest { name: "door".into(), lease };
        tokio::spawn(async move { client.lock(request).await.map(|answer| answer.into_inner().key) })
    };
    for id in 1..=4 {
        leased(channel, id).await;
    }
    let first = lock(1).await.expect("ran").expect("free");
    assert_eq!(first, "door/1");
    // Whoever has it, has it again.
    assert_eq!(lock(1).await.expect("ran").expect("its own"), "door/1");
    let second = lock(2);
    stand(channel, "door/", 2).await;
    let third = lock(3);
    stand(channel, "door/", 3).await;
    // One that goes away while it waits leaves the line.
    let gone = lock(4);
    stand(channel, "door/", 4).await;
    gone.abort();
    stand(channel, "door/", 3).await;
    assert!(!second.is_finished() && !third.is_finished());
    client.clone().unlock(UnlockRequest { key: first }).await.expect("unlocked");
    assert_eq!(second.await.expect("ran").expect("free"), "door/2");
    assert!(!third.is_finished());
    lease(channel).lease_revoke(LeaseRevokeRequest { id: 2 }).await.expect("revoked");
    assert_eq!(third.await.expect("ran").expect("free"), "door/3");
    let refused = lock(99).await.expect("ran").expect_err("no lease");
    assert_eq!(refused.message(), "etcdserver: requested lease not found");
    // Without a lease it makes one.
    let key = client
        .clone()
        .lock(LockRequest { name: "gate".into(), lease: 0 })
        .await
        .expect("free")
        .into_inner()
        .key;
    assert!(key.starts_with(b"gate/"));
    let own = kv(channel).range(RangeRequest { key, ..RangeRequest::default() }).await.expect("there");
    assert_ne!(own.into_inner().kvs[0].lease, 0);
}

async fn elections(channel: &Channel) {
    let client = ElectionClient::new(channel.clone());
    let campaign = |lease, value: &'static str| {
        let mut client = client.clone();
        let request = CampaignRequest { name: "chair".into(), lease, value: value.into() };
        tokio::spawn(async move { client.campaign(request).await.map(|answer| answer.into_inner().leader) })
    };
    let who = || async {
        let answer = client.clone().leader(LeaderRequest { name: "chair".into() }).await;
        answer.map(|answer| answer.into_inner().kv.expect("a key").value)
    };
    let none = who().await.expect_err("nobody leads");
    assert_eq!((none.code(), none.message()), (tonic::Code::Unknown, "election: no leader"));
    for id in [11, 12] {
        leased(channel, id).await;
    }
    let first = campaign(11, "one").await.expect("ran").expect("free").expect("a key");
    assert_eq!((&first.name[..], &first.key[..], first.lease), (&b"chair"[..], &b"chair/b"[..], 11));
    // A real one's stream begins with its first answer.
    let request = LeaderRequest { name: "chair".into() };
    let mut observed = client.clone().observe(request).await.expect("a stream").into_inner();
    let mut next =
        async || observed.message().await.expect("no error").expect("open").kv.expect("a key").value;
    assert_eq!(next().await, "one");
    let second = campaign(12, "two");
    stand(channel, "chair/", 2).await;
    assert_eq!(who().await.expect("one"), "one");
    let proclaim = |leader: &LeaderKey, value: &'static str| {
        let request = ProclaimRequest { leader: Some(leader.clone()), value: value.into() };
        let mut client = client.clone();
        async move { client.proclaim(request).await }
    };
    proclaim(&first, "more").await.expect("it leads");
    assert_eq!(next().await, "more");
    let missing = client.clone().resign(ResignRequest { leader: None }).await.expect_err("nobody named");
    let text = "\"leader\" field must be provided";
    assert_eq!((missing.code(), missing.message()), (tonic::Code::Unknown, text));
    client.clone().resign(ResignRequest { leader: Some(first.clone()) }).await.expect("resigned");
    let second = second.await.expect("ran").expect("free").expect("a key");
    assert_eq!(second.key, "chair/c");
    assert_eq!(next().await, "two");
    let late = proclaim(&first, "late").await.expect_err("it leads no more");
    assert_eq!((late.code(), late.message()), (tonic::Code::Unknown, "election: not leader"));
    assert_eq!(who().await.expect("one"), "two");
}

#[test]
fn locks_and_elections() {
    let world = World::start(3);
    run(async {
        let channel = world.channel(0).await;
        locks(&channel).await;
        elections(&channel).await;
    });
}

#[test]
fn a_real_etcd_does_the_same() {
    let Some(program) = etcd() else {
        quorate_skipped::skipped(
            "there is no etcd; front/cli/tests/all/etcd/build.sh builds one where Go is",
        );
        return;
    };
    let peer = Peer::start(&program);
    run(async {
        let channel = peer.channel().await;
        locks(&channel).await;
        elections(&channel).await;
    });
}
