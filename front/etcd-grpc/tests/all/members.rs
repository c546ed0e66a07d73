//! Members are added, promoted, moved and removed, and leadership moves, as clients of etcd ask for it.

use crate::support::{World, kv, put, run};
use quorate::ReplicaId;
use quorate_etcd_grpc::pb::etcdserverpb::cluster_client::ClusterClient;
use quorate_etcd_grpc::pb::etcdserverpb::maintenance_client::MaintenanceClient;
use quorate_etcd_grpc::pb::etcdserverpb::*;
use std::time::Duration;
use tonic::transport::Channel;
use tonic::{Code, Status};

async fn members(channel: &Channel) -> Vec<Member> {
    let list = MemberListRequest { linearizable: true };
    ClusterClient::new(channel.clone()).member_list(list).await.expect("an answer").into_inner().members
}

async fn add(channel: &Channel, url: &str, is_learner: bool) -> Result<MemberAddResponse, Status> {
    let request = MemberAddRequest { peer_ur_ls: vec![url.into()], is_learner };
    ClusterClient::new(channel.clone()).member_add(request).await.map(tonic::Response::into_inner)
}

#[track_caller]
fn refused<T: std::fmt::Debug>(answer: Result<T, Status>, code: Code, text: &str) {
    let status = answer.expect_err("refused");
    assert_eq!((status.code(), status.message()), (code, text));
}

/// Which replica leads, and the numbers of all, in the order of the replicas.
async fn leader(world: &World, channels: &[Channel]) -> (usize, Vec<u64>) {
    kv(&channels[0]).put(put("begin", b"now")).await.expect("somebody leads");
    let numbers: Vec<u64> = members(&channels[0]).await.iter().map(|member| member.id).collect();
    assert_eq!(numbers.len(), 3);
    assert!(world.cluster.is_running(ReplicaId::new(1)));
    loop {
        let status = MaintenanceClient::new(channels[0].clone()).status(StatusRequest {}).await;
        let leader = status.expect("an answer").into_inner().leader;
        if let Some(at) = numbers.iter().position(|number| *number == leader) {
            return (at, numbers);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn channels(world: &World) -> Vec<Channel> {
    vec![world.channel(0).await, world.channel(1).await, world.channel(2).await]
}

#[test]
fn a_learner_comes_moves_and_goes() {
    let world = World::start_seeing(3);
    run(async {
        let channels = channels(&world).await;
        let (leads, _) = leader(&world, &channels).await;
        // Not the leader is asked: it passes on what operators ask for.
        let channel = &channels[(leads + 1) % 3];
        let mut cluster = ClusterClient::new(channel.clone());
        let url = "http://127.0.0.1:9";
        let added = add(channel, url, true).await.expect("added");
        let member = added.member.expect("a member");
        assert_eq!(
            (member.is_learner, member.name.as_str(), member.peer_ur_ls),
            (true, "", vec![url.into()])
        );
        assert_eq!(added.members.len(), 4);
        assert_eq!(members(channel).await.iter().filter(|member| member.is_learner).count(), 1);
        let twice = add(channel, url, true).await;
        refused(twice, Code::FailedPrecondition, "etcdserver: Peer URLs already exists");
        let urls = ["127.0.0.1:9", "http://127.0.0.1", "unix://x:1", "http://a b:1", "http://x:0", ""];
        for url in urls {
            let answer = add(channel, url, true).await;
            refused(answer, Code::InvalidArgument, "etcdserver: given member URLs are invalid");
        }
        let learner = MemberPromoteRequest { id: member.id };
        let text = "etcdserver: can only promote a learner member which is in sync with leader";
        refused(cluster.member_promote(learner).await, Code::FailedPrecondition, text);
        let voter = MemberPromoteRequest { id: added.members[0].id };
        let text = "etcdserver: can only promote a learner member";
        refused(cluster.member_promote(voter).await, Code::FailedPrecondition, text);
        let moved = MemberUpdateRequest { id: member.id, peer_ur_ls: vec!["http://127.0.0.1:10".into()] };
        let moved = cluster.member_update(moved).await.expect("moved").into_inner().members;
        assert!(moved.iter().any(|member| member.peer_ur_ls == ["http://127.0.0.1:10"]), "{moved:?}");
        let removed = cluster.member_remove(MemberRemoveRequest { id: member.id }).await.expect("removed");
        assert_eq!(removed.into_inner().members.len(), 3);
        let again = cluster.member_remove(MemberRemoveRequest { id: member.id }).await;
        refused(again, Code::NotFound, "etcdserver: member not found");
        // An id is never used again.
        let next = add(channel, url, false).await.expect("added").member.expect("a member");
        assert_ne!(next.id, member.id);
    });
}

#[test]
fn nobody_is_removed_whom_a_majority_needs() {
    let mut world = World::start_seeing(3);
    let (leads, numbers) = run(async { leader(&world, &channels(&world).await).await });
    let (down, other) = ((leads + 1) % 3, (leads + 2) % 3);
    world.cluster.stop(ReplicaId::new(down as u16 + 1));
    run(async {
        let mut cluster = ClusterClient::new(world.channel(leads).await);
        let text = "etcdserver: re-configuration failed due to not enough started members";
        loop {
            // Until it is noticed that the other one is gone, a change might even succeed: it is not asked for before.
            let health = MaintenanceClient::new(world.channel(leads).await).status(StatusRequest {}).await;
            assert!(health.is_ok());
            let answer = cluster.member_remove(MemberRemoveRequest { id: numbers[other] }).await;
            let status = answer.expect_err("it must not be removed");
            if status.code() == Code::FailedPrecondition {
                assert_eq!(status.message(), text);
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        // Who is gone can be removed.
        let removed = cluster.member_remove(MemberRemoveRequest { id: numbers[down] }).await;
        assert_eq!(removed.expect("removed").into_inner().members.len(), 2);
        kv(&world.channel(leads).await).put(put("after", b"now")).await.expect("two go on");
    });
}

#[test]
fn leadership_moves_to_whom_the_leader_is_told() {
    let world = World::start_seeing(3);
    run(async {
        let channels = channels(&world).await;
        let (leads, numbers) = leader(&world, &channels).await;
        let to = (leads + 1) % 3;
        let ask = |at: usize, target_id| {
            let mut client = MaintenanceClient::new(channels[at].clone());
            async move { client.move_leader(MoveLeaderRequest { target_id }).await }
        };
        refused(ask(to, numbers[to]).await, Code::FailedPrecondition, "etcdserver: not leader");
        refused(ask(leads, 5).await, Code::FailedPrecondition, "etcdserver: bad leader transferee");
        ask(leads, numbers[leads]).await.expect("it leads already");
        ask(leads, numbers[to]).await.expect("moved");
        refused(ask(leads, numbers[leads]).await, Code::FailedPrecondition, "etcdserver: not leader");
        kv(&channels[leads]).put(put("after", b"now")).await.expect("it goes on");
    });
}
