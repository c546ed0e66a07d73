//! Who is asked, what is followed, and what is told of those that show nothing or a forged link.

use super::{ClientFile, NotFollowed};
use crate::client::Authentication;
use bytes::Bytes;
use quorate_auth::{Ed25519, MembershipLink, Secret, chain, digest_of_request};
use quorate_types::{ClusterId, FaultModel, InstanceId, MembershipId, ReplicaId, Slot};
use quorate_wire::{Chain, Holds, Member, Membership, Memberships, SystemCommand};
use std::sync::Mutex;

const CLUSTER: ClusterId = ClusterId::new(9);

fn id(number: u16) -> ReplicaId {
    ReplicaId::new(number)
}

/// In membership n vote replicas n to n+3; a liar has made-up keys.
fn of(number: u16, lie: u8) -> Membership {
    let key = |id: u16| Some(*Ed25519::public([id as u8 ^ lie; 32]).bytes());
    let member = |at: u16| Member { key: key(at), address: format!("r{at}:1"), ..Member::voter(id(at)) };
    let members = (number..number + 4).map(member).collect();
    Membership::new(MembershipId::new(u64::from(number)), members).expect("a membership")
}

fn link(number: u16, lie: u8) -> Bytes {
    let before = of(number - 1, lie);
    let change = Memberships::change(before.clone(), of(number, lie)).expect("the next one");
    let (view, slot) = (chain::views(before.number()).0, Slot::new(9));
    let holds = Holds { change, since: Slot::ZERO, begins: view, leader: id(2) };
    let said = (view, slot, digest_of_request(SystemCommand::Holds(holds.clone()).alone().bytes()));
    let statement = chain::accept_statement(CLUSTER, before.number(), InstanceId::new(1), said);
    let sign = |id: ReplicaId| (id, Secret::new([id.number() as u8 ^ lie; 32]).sign(&statement));
    let accepts = before.voters().take(3).map(sign).collect();
    MembershipLink { cluster: CLUSTER, instance: InstanceId::new(1), view, slot, holds, accepts }.encode()
}

fn file() -> ClientFile {
    let mut file = ClientFile {
        cluster: CLUSTER,
        members: Vec::new(),
        learners: Vec::new(),
        membership: None,
        keys: [].into(),
        fault_model: FaultModel::Byzantine,
        faults: None,
        era: 1,
        weighted: false,
        authentication: Authentication::Links,
        tls: None,
    };
    file.have(&of(1, 0));
    file
}

/// All that the file names have stopped; one that is named beside it shows the way, one link at a time, past one that lies.
#[test]
fn an_old_file_leads_to_the_present_members() {
    let mut file = file();
    let asked = Mutex::new(Vec::new());
    let ask = |place: &(ReplicaId, String), after: MembershipId| {
        asked.lock().expect("one at a time").push((place.0.number(), after.number()));
        let (now, next) = (MembershipId::new(5), after.number() as u16 + 1);
        match place.0.number() {
            8 if next <= 5 => Ok(Chain { now, links: vec![link(next, 0)] }),
            8 => Ok(Chain { now, links: Vec::new() }),
            7 => Ok(Chain { now, links: vec![link(next, 0x40)] }),
            _ => Err("no connection".to_owned()),
        }
    };
    let others = [(id(7), "r7:1".to_owned()), (id(8), "elsewhere:1".to_owned())];
    let history = file.follow_by(&others, &ask).expect("a chain");
    assert_eq!(history.memberships, (1..=5).map(|number| of(number, 0)).collect::<Vec<_>>());
    assert_eq!((history.named.number(), &history.answered[..]), (5, &[id(7), id(8), id(8)][..]));
    let lies = history.problems.iter().filter(|(who, why)| *who == id(7) && why.contains("proves nothing"));
    assert_eq!(lies.count(), 5, "{:?}", history.problems);
    assert_eq!(file.known(), Some(of(5, 0)));
    assert_eq!(file.members[3], (id(8), "r8:1".to_owned()));
    let asked = asked.into_inner().expect("nobody waits");
    assert!(asked.contains(&(5, 2)) && !asked.contains(&(1, 2)), "who left is not asked again: {asked:?}");
    let again =
        file.follow_by(&[], &|_, after| Ok(Chain { now: after, links: Vec::new() })).expect("a chain");
    assert_eq!((again.memberships.len(), again.problems.len()), (1, 0));
}

#[test]
fn a_file_without_keys_leads_nowhere() {
    let bare = ClientFile { keys: [].into(), ..file() };
    let numberless = ClientFile { membership: None, ..file() };
    for mut file in [bare, numberless] {
        let before = file.clone();
        let nobody = file.follow_by(&[], &|_, _| panic!("nobody is asked"));
        assert_eq!((nobody, file), (Err(NotFollowed::Unknown), before));
    }
}
