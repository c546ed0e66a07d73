//! A member keeps the store within bounds: a quota with its alarm, and compaction that nobody asked for.

use crate::support::{PATIENCE, World, auth, kv, put, run};
use quorate_etcd_grpc::pb::etcdserverpb::alarm_request::AlarmAction;
use quorate_etcd_grpc::pb::etcdserverpb::kv_client::KvClient;
use quorate_etcd_grpc::pb::etcdserverpb::maintenance_client::MaintenanceClient;
use quorate_etcd_grpc::pb::etcdserverpb::{
    AlarmRequest, AlarmResponse, AlarmType, AuthEnableRequest, AuthUserAddRequest, AuthUserGrantRoleRequest,
    AuthenticateRequest, CompactionRequest, DeleteRangeRequest, RangeRequest, StatusRequest,
};
use quorate_etcd_grpc::{AutoCompaction, UpkeepConfig};
use std::time::{Duration, Instant};
use tonic::transport::Channel;
use tonic::{Code, Request, Status};

const QUOTA: u64 = 256 << 10;

async fn alarms(channel: &Channel, action: AlarmAction, member_id: u64) -> AlarmResponse {
    let kind = if action == AlarmAction::Get { AlarmType::None } else { AlarmType::Nospace };
    let request = AlarmRequest { action: action.into(), member_id, alarm: kind.into() };
    MaintenanceClient::new(channel.clone()).alarm(request).await.expect("an answer").into_inner()
}

/// Puts until that is refused. Gives the refusal.
async fn fill(channel: &Channel) -> Status {
    let begin = Instant::now();
    loop {
        if let Err(refused) = kv(channel).put(put("a", &[7; 4096])).await {
            return refused;
        }
        assert!(begin.elapsed() < PATIENCE, "nothing bounds the store");
    }
}

#[test]
fn a_full_store_refuses_puts_until_there_is_room_and_the_alarm_is_cleared() {
    let upkeep = UpkeepConfig { quota_bytes: QUOTA, compaction: AutoCompaction::Off };
    let world = World::start_keeping(1, upkeep);
    run(async {
        let channel = world.channel(0).await;
        let refused = fill(&channel).await;
        assert_eq!(
            (refused.code(), refused.message()),
            (Code::ResourceExhausted, "etcdserver: mvcc: database space exceeded")
        );
        let status =
            MaintenanceClient::new(channel.clone()).status(StatusRequest {}).await.expect("an answer");
        let status = status.into_inner();
        assert_eq!(status.db_size_quota, QUOTA as i64);
        assert!(status.db_size > QUOTA as i64, "{}", status.db_size);
        let raised = alarms(&channel, AlarmAction::Get, 0).await.alarms;
        let [alarm] = &raised[..] else { panic!("{raised:?}") };
        assert_eq!(status.errors, [format!("memberID:{} alarm:NOSPACE ", alarm.member_id)]);
        // Cleared without room, it comes back.
        let cleared = alarms(&channel, AlarmAction::Deactivate, alarm.member_id).await;
        assert_eq!(cleared.alarms.len(), 1);
        fill(&channel).await;
        let request = CompactionRequest { revision: status.header.expect("one").revision, physical: true };
        kv(&channel).compact(request).await.expect("taken");
        kv(&channel)
            .delete_range(DeleteRangeRequest { key: b"b".as_slice().into(), ..DeleteRangeRequest::default() })
            .await
            .expect("taken");
        alarms(&channel, AlarmAction::Deactivate, alarm.member_id).await;
        kv(&channel).put(put("a", b"1")).await.expect("there is room");
    });
}

/// Waits until a revision can not be asked for any more.
async fn compacted(channel: &Channel, revision: i64) {
    let begin = Instant::now();
    loop {
        let request = RangeRequest { key: b"a".as_slice().into(), revision, ..RangeRequest::default() };
        match kv(channel).range(request).await {
            Err(why) => {
                return assert_eq!(why.message(), "etcdserver: mvcc: required revision has been compacted");
            }
            Ok(_) => assert!(begin.elapsed() < PATIENCE, "nobody compacts"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[test]
fn old_revisions_go_by_themselves_also_with_users() {
    let upkeep = UpkeepConfig { quota_bytes: 0, compaction: AutoCompaction::AllBut(20) };
    let world = World::start_keeping(3, upkeep);
    run(async {
        let channel = world.channel(0).await;
        for _ in 0..50 {
            kv(&channel).put(put("a", b"1")).await.expect("done");
        }
        compacted(&channel, 25).await;
        let request = RangeRequest { key: b"a".as_slice().into(), revision: 45, ..RangeRequest::default() };
        kv(&channel).range(request).await.expect("the newest ones are kept");
        let mut users = auth(&channel);
        let root = || "root".to_owned();
        let user = AuthUserAddRequest { name: root(), password: root(), ..AuthUserAddRequest::default() };
        users.user_add(user).await.expect("added");
        users
            .user_grant_role(AuthUserGrantRoleRequest { user: root(), role: root() })
            .await
            .expect("granted");
        users.auth_enable(AuthEnableRequest {}).await.expect("on");
        let login = AuthenticateRequest { name: root(), password: root() };
        let token = users.authenticate(login).await.expect("known").into_inner().token;
        let with_token = |mut request: Request<_>| {
            request.metadata_mut().insert("token", token.parse().expect("text"));
            Ok(request)
        };
        let mut known = KvClient::with_interceptor(channel.clone(), with_token);
        for _ in 0..50 {
            known.put(put("a", b"1")).await.expect("done");
        }
        let begin = Instant::now();
        let old = || RangeRequest { key: b"a".as_slice().into(), revision: 60, ..RangeRequest::default() };
        while known.range(old()).await.is_ok() {
            assert!(begin.elapsed() < PATIENCE, "nobody compacts once there are users");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
}

#[test]
fn revisions_of_an_age_go_by_themselves() {
    let compaction = AutoCompaction::OlderThan(Duration::from_secs(2));
    let world = World::start_keeping(1, UpkeepConfig { quota_bytes: 0, compaction });
    run(async {
        let channel = world.channel(0).await;
        kv(&channel).put(put("a", b"1")).await.expect("done");
        let first = kv(&channel).put(put("a", b"2")).await.expect("done").into_inner();
        let newest = first.header.expect("one").revision;
        compacted(&channel, newest - 1).await;
        let request =
            RangeRequest { key: b"a".as_slice().into(), revision: newest, ..RangeRequest::default() };
        let answer = kv(&channel).range(request).await.expect("the newest stays").into_inner();
        assert_eq!(answer.kvs[0].value, b"2".as_slice());
    });
}
