//! Which programs are refused because of their levels.

use super::*;
use quorate_types::{ClientId, ClusterId, Incarnation};

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
