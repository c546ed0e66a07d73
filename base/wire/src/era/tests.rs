//! Eras, notices and requests round trip, and what contradicts itself is refused.

use super::{Era, EraFaults, EraNotice, FaultsRequest};
use crate::administration::Administrators;
use crate::frame::FRAME_HEADER;
use crate::membership::{Member, Membership};
use bytes::Bytes;
use quorate_types::{ClusterId, Digest, FaultModel, MembershipId, ReplicaId, Seq, SessionKey, Visigoth};

fn members(number: u64, keyed: u8) -> Membership {
    let member = |id: u8| Member {
        key: (id <= keyed).then_some([id; 32]),
        life: u64::from(id),
        ..Member::voter(ReplicaId::new(u16::from(id)))
    };
    Membership::new(MembershipId::new(number), (1..=4).map(member).collect()).expect("a membership")
}

fn era(model: FaultModel, keyed: u8) -> Era {
    Era {
        number: 2,
        protocol: 2,
        faults: EraFaults { model, most: None },
        members: members(1, keyed),
        administrators: Administrators::new(1, vec![SessionKey::new([9; 32])]).ok(),
    }
}

#[test]
fn what_is_written_is_read() {
    let sizes = Visigoth { u: 2, s: 1, o: 1, t_ms: 50 };
    for model in [FaultModel::Crash, FaultModel::Byzantine, FaultModel::Visigoth(sizes)] {
        let era = era(model, 4);
        assert_eq!(Era::decode(Bytes::from(era.encode())), Ok(era.clone()));
        let notice = EraNotice { began: Seq::new(5), before: Digest::new([1; 32]), era };
        assert_eq!(EraNotice::decode(Bytes::from(notice.encode())), Ok(notice));
        let request = FaultsRequest { protocol: Some(1), faults: EraFaults { model, most: Some(1) } };
        let bytes = Bytes::from(request.frame().to_vec()).slice(FRAME_HEADER..);
        assert_eq!(FaultsRequest::decode(bytes), Ok(request));
    }
}

#[test]
fn what_contradicts_itself_is_refused() {
    let refused = |era: Era| assert!(Era::decode(Bytes::from(era.encode())).is_err(), "{era:?}");
    refused(era(FaultModel::Byzantine, 3));
    refused(Era { number: 1, ..era(FaultModel::Crash, 0) });
    refused(Era { members: members(2, 4), ..era(FaultModel::Crash, 0) });
    let mut learner = members(1, 4).members().to_vec();
    learner[3].role = crate::membership::MemberRole::Learner;
    let members = Membership::new(MembershipId::FIRST, learner).expect("a membership");
    refused(Era { members, ..era(FaultModel::Byzantine, 4) });
}

#[test]
fn each_era_signs_for_another_id() {
    let cluster = ClusterId::new(7);
    assert_eq!(Era::signed_as(cluster, 1), cluster, "signatures of clusters that never switched stay good");
    let ids: std::collections::BTreeSet<u128> =
        (1..100).map(|number| Era::signed_as(cluster, number).bits()).collect();
    assert_eq!(ids.len(), 99);
}
