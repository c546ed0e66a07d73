//! Alarms that clients set, over the network: listed at every member, and in force.

use crate::support::{World, kv, put, run};
use quorate_etcd_grpc::pb::etcdserverpb::alarm_request::AlarmAction;
use quorate_etcd_grpc::pb::etcdserverpb::maintenance_client::MaintenanceClient;
use quorate_etcd_grpc::pb::etcdserverpb::{AlarmMember, AlarmRequest, AlarmType, StatusRequest};
use tonic::Code;
use tonic::transport::Channel;

async fn alarm(channel: &Channel, action: AlarmAction, kind: AlarmType) -> Vec<(u64, AlarmType)> {
    let request = AlarmRequest { action: action.into(), member_id: 7, alarm: kind.into() };
    let answer =
        MaintenanceClient::new(channel.clone()).alarm(request).await.expect("an answer").into_inner();
    answer.alarms.iter().map(|alarm: &AlarmMember| (alarm.member_id, alarm.alarm())).collect()
}

#[test]
fn clients_set_list_and_clear_alarms() {
    let world = World::start(3);
    run(async {
        let channel = world.channel(0).await;
        let (get, set, clear) = (AlarmAction::Get, AlarmAction::Activate, AlarmAction::Deactivate);
        let (full, corrupt) = (AlarmType::Nospace, AlarmType::Corrupt);
        assert_eq!(alarm(&channel, get, AlarmType::None).await, vec![]);
        kv(&channel).put(put("a", b"1")).await.expect("done");
        assert_eq!(alarm(&channel, set, full).await, vec![(7, full)]);
        assert_eq!(alarm(&channel, get, AlarmType::None).await, vec![(7, full)]);
        assert_eq!(alarm(&channel, get, corrupt).await, vec![], "that kind alone");
        let refused = kv(&world.channel(1).await).put(put("a", b"2")).await.expect_err("no room");
        assert_eq!(
            (refused.code(), refused.message()),
            (Code::ResourceExhausted, "etcdserver: mvcc: database space exceeded")
        );
        let status =
            MaintenanceClient::new(channel.clone()).status(StatusRequest {}).await.expect("an answer");
        assert_eq!(status.into_inner().errors, vec!["memberID:7 alarm:NOSPACE ".to_owned()]);
        assert_eq!(alarm(&channel, set, corrupt).await, vec![(7, corrupt)]);
        let refused = kv(&channel).put(put("a", b"2")).await.expect_err("corrupt");
        assert_eq!((refused.code(), refused.message()), (Code::DataLoss, "etcdserver: corrupt cluster"));
        for kind in [full, corrupt] {
            assert_eq!(alarm(&channel, clear, kind).await, vec![(7, kind)]);
            assert_eq!(alarm(&channel, clear, kind).await, vec![], "it is not set any more");
        }
        kv(&channel).put(put("a", b"2")).await.expect("as before");
    });
}
