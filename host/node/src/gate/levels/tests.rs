//! Which programs are refused because of their levels.

use super::*;
use quorate_types::{ClientId, ClusterId, Incarnation, ServiceName, ServiceVersion};

#[test]
fn members_that_can_do_too_little_are_refused_and_clients_are_not() {
    let peer = Role::Peer { replica: ReplicaId::new(2), incarnation: Incarnation::new(5) };
    let hello = |role, level| Hello::new(ClusterId::new(1), None, role).able(level);
    assert_eq!(refused(&hello(peer, 2), 2), None);
    assert_eq!(refused(&hello(peer, 3), 2), None, "a newer one");
    let refusal = refused(&hello(peer, 1), 2).expect("it can not do what the cluster does");
    assert_eq!(refusal.reason, RefusalReason::Format);
    assert!(refusal.text.contains("level 2") && refusal.text.contains("r2"), "{}", refusal.text);
    assert_eq!(refused(&hello(peer, 1), 1), None, "a cluster that was not raised");
    assert_eq!(refused(&hello(Role::Client(ClientId::new(1)), 1), 2), None);
    assert_eq!(refused(&hello(Role::Admin, 1), 2), None);
}

fn refused(hello: &Hello, cluster: u32) -> Option<Refusal> {
    check_level(hello, cluster).err()
}

#[test]
fn another_service_is_refused_with_both_names() {
    let cluster = ClusterId::new(1);
    let name = |text| ServiceName::new(text).expect("a name");
    let here = ServiceConfig { version: 3, ..ServiceConfig::made_with(name("bank"), 2) };
    let replica = ReplicaId::new(2);
    let peer = Role::Peer { replica, incarnation: Incarnation::new(1) };
    let hello = |role, text, version| {
        Hello::new(cluster, None, role).of_service(ServiceVersion { name: name(text), version })
    };
    let refused = |hello: &Hello| check_service(hello, &here, cluster).err();
    for role in [peer, Role::Client(ClientId::new(1))] {
        let refusal = refused(&hello(role, "shop", 2)).expect("it is another one");
        assert_eq!(refusal.reason, RefusalReason::Service);
        assert!(refusal.text.contains("bank") && refusal.text.contains("shop"), "{}", refusal.text);
        assert_eq!(refused(&hello(role, "bank", 2)), None);
        assert_eq!(refused(&hello(role, "", 2)), None, "it does not say");
        assert_eq!(
            refused(&Hello { cluster: ClusterId::new(9), ..hello(role, "shop", 2) }),
            None,
            "for another reason"
        );
    }
    let refusal = refused(&hello(peer, "bank", 1)).expect("its program is too old");
    assert_eq!(refusal.reason, RefusalReason::Format);
    assert!(refusal.text.contains("r2 has version 1 at most"), "{}", refusal.text);
    assert_eq!(refused(&hello(Role::Client(ClientId::new(1)), "bank", 1)), None, "clients of before go on");
}
