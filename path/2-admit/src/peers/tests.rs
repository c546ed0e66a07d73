//! Each kind of stranger gets a refusal that says what to do.

use super::*;
use quorate_types::ClientId;

const CLUSTER: ClusterId = ClusterId::new(7);

fn member(id: u16) -> KnownMember {
    KnownMember {
        replica: ReplicaId::new(id),
        address: format!("127.0.0.1:{id}"),
        incarnation: Incarnation::new(u64::from(id) * 100),
    }
}

fn members() -> Members {
    Members::new(CLUSTER, ReplicaId::new(1), vec![member(2), member(1), member(3)]).with_parameters(5)
}

fn peer(id: u16, incarnation: u64) -> Hello {
    let role = Role::Peer { replica: ReplicaId::new(id), incarnation: Incarnation::new(incarnation) };
    Hello::new(CLUSTER, Some(ReplicaId::new(1)), role).of_member(5, 1)
}

fn reason(hello: &Hello) -> RefusalReason {
    members().check(hello).expect_err("refused").reason
}

#[test]
fn members_clients_and_operators_are_taken() {
    assert_eq!(members().check(&peer(2, 200)), Ok(FORMAT_MAX));
    let unknowing = Hello::new(ClusterId::default(), None, Role::Client(ClientId::new(5)));
    assert_eq!(members().check(&unknowing), Ok(FORMAT_MAX));
    assert!(members().check(&Hello::new(CLUSTER, None, Role::Admin)).is_ok());
}

#[test]
fn strangers_are_refused_with_the_reason() {
    assert_eq!(reason(&peer(2, 200).of_member(6, 1)), RefusalReason::Parameters);
    assert_eq!(reason(&peer(9, 200)), RefusalReason::UnknownReplica);
    assert_eq!(reason(&peer(2, 201)), RefusalReason::Incarnation);
    assert_eq!(reason(&peer(1, 100)), RefusalReason::Doubled);
    assert_eq!(reason(&Hello { cluster: ClusterId::new(8), ..peer(2, 200) }), RefusalReason::ForeignCluster);
    assert_eq!(
        reason(&Hello { cluster: ClusterId::default(), ..peer(2, 200) }),
        RefusalReason::ForeignCluster
    );
    assert_eq!(reason(&Hello { to: Some(ReplicaId::new(3)), ..peer(2, 200) }), RefusalReason::WrongReplica);
    assert_eq!(
        reason(&Hello { format_min: FORMAT_MAX + 1, format_max: FORMAT_MAX + 1, ..peer(2, 200) }),
        RefusalReason::Format
    );
}

#[test]
fn everybody_comes_as_who_the_certificate_says() {
    use super::check_identity;
    use quorate_types::{ClientId, Holder, Identity, Name};
    let cluster = ClusterId::new(7);
    let name = |text: &str| Name::parse(text).expect("a name");
    let identity = |holder| Identity { cluster, holder };
    let (shop, alice) = (identity(Holder::Client(name("shop"))), identity(Holder::Admin(name("alice"))));
    let two = identity(Holder::Replica(ReplicaId::new(2)));
    let peer = |id| Role::Peer { replica: ReplicaId::new(id), incarnation: Incarnation::new(1) };
    let of = |owner: &str| Role::Client(name(owner).client_id(ClientId::new(99)));
    for (role, who, taken) in [
        (peer(2), &two, true),
        (peer(3), &two, false),
        (of("shop"), &two, false),
        (Role::Client(two.holder.client_id(ClientId::new(99))), &two, true),
        (Role::Client(two.holder.client_id(ClientId::new(99))), &shop, false),
        (Role::Admin, &two, true),
        (peer(2), &shop, false),
        (of("shop"), &shop, true),
        (of("other"), &shop, false),
        (Role::Admin, &shop, false),
        (peer(2), &alice, false),
        (of("alice"), &alice, true),
        (of("shop"), &alice, false),
        (Role::Admin, &alice, true),
    ] {
        let hello = Hello::new(cluster, None, role).made_of(ClientId::new(99));
        let check = |who, served| check_identity(&hello, who, ReplicaId::new(1), served);
        let checked = check(Some(who), ServedByReplicas::ClientsAndOperators);
        assert_eq!(checked.is_ok(), taken, "{role:?} with the certificate of {who}: {checked:?}");
        assert_eq!(check(None, ServedByReplicas::Nobody), Ok(()), "a plain connection's word is taken");
        // Where replicas may lie, none of them speaks for an operator, and for clients only where it serves some.
        let replica = matches!(who.holder, Holder::Replica(_));
        let for_operators = replica && role == Role::Admin;
        let for_others = for_operators || replica && matches!(role, Role::Client(_));
        let clients = check(Some(who), ServedByReplicas::Clients).is_ok();
        assert_eq!(clients, taken && !for_operators, "{role:?} of {who}");
        let nobody = check(Some(who), ServedByReplicas::Nobody).is_ok();
        assert_eq!(nobody, taken && !for_others, "{role:?} of {who}");
        // What it asks of itself stays its own.
        let itself = check_identity(&hello, Some(who), ReplicaId::new(2), ServedByReplicas::Clients);
        assert_eq!(itself.is_ok(), taken, "{role:?} of {who} at itself");
        if let Err(refusal) = checked {
            assert_eq!(refusal.reason, RefusalReason::Certificate);
            assert!(refusal.text.contains(&who.holder.to_string()), "{}", refusal.text);
        }
    }
}

/// Two names of which one may come with the other's ids, by the bits that all names show: `client-3412` and `client-12`, say. With what the
/// id was made from only one of them can.
#[test]
fn names_that_agree_do_not_come_with_each_others_ids() {
    use super::check_identity;
    use quorate_types::{ClientId, Holder, Identity, Name};
    let holder = |number: u32| Holder::Client(Name::parse(&format!("client-{number}")).expect("a name"));
    let upper = |number: u32| holder(number).client_id(ClientId::new(1)).number() >> 40;
    let mut seen = std::collections::BTreeMap::new();
    let (a, b) = (0..100_000)
        .find_map(|number| Some((seen.insert(upper(number), number)?, number)))
        .expect("of so many two agree");
    let identity = |number| Identity { cluster: ClusterId::new(7), holder: holder(number) };
    let (a, b) = (identity(a), identity(b));
    let own = ClientId::new(99);
    let hello =
        |own| Hello::new(a.cluster, None, Role::Client(a.holder.client_id(ClientId::new(99)))).made_of(own);
    let comes = |own, who| {
        check_identity(&hello(own), Some(who), ReplicaId::new(1), ServedByReplicas::ClientsAndOperators)
    };
    assert_eq!(comes(own, &a), Ok(()));
    for guess in [0, 1, 99].map(ClientId::new) {
        let refusal = comes(guess, &b).expect_err("it was not made for this name");
        assert!(refusal.text.contains("not made for you"), "{}", refusal.text);
    }
    assert!(comes(ClientId::new(0), &a).is_err(), "who shows nothing");
}

#[cfg(planted)]
#[test]
#[ignore = "a bug is in force in the whole process: run it alone"]
fn planted_operators_are_found() {
    use quorate_types::plant;
    plant(Some("operator-by-replica"));
    let found = std::panic::catch_unwind(everybody_comes_as_who_the_certificate_says);
    plant(None);
    found.expect_err("a replica that may lie is no operator");
}

#[cfg(planted)]
#[test]
#[ignore = "a bug is in force in the whole process: run it alone"]
fn planted_ids_are_found() {
    use quorate_types::plant;
    plant(Some("ids-unproven"));
    let found = std::panic::catch_unwind(names_that_agree_do_not_come_with_each_others_ids);
    plant(None);
    found.expect_err("who comes with another name's id is noticed");
}
