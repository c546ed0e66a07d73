use super::{CLIENT_BITS, Holder, Identity, Name};
use crate::{ClientId, ClusterId, ReplicaId};

const CLUSTER: &str = "00112233445566778899aabbccddeeff";

fn parse(rest: &str) -> Option<Identity> {
    Identity::parse(&format!("quorate://{CLUSTER}/{rest}"))
}

#[test]
fn what_is_written_is_read_back() {
    let cluster = ClusterId::parse(CLUSTER).expect("an id");
    let name = |text| Name::parse(text).expect("a name");
    for (text, holder) in [
        ("replica/3", Holder::Replica(ReplicaId::new(3))),
        ("client/shop", Holder::Client(name("shop"))),
        ("admin/alice.b-c_D9", Holder::Admin(name("alice.b-c_D9"))),
    ] {
        let identity = Identity { cluster, holder };
        assert_eq!(identity.uri(), format!("quorate://{CLUSTER}/{text}"));
        assert_eq!(parse(text), Some(identity));
    }
}

#[test]
fn nothing_else_is_an_identity() {
    for text in [
        "",
        "replica",
        "replica/",
        "replica/0",
        "replica/+3",
        "replica/03",
        "replica/65536",
        "replica/3/",
        "Replica/3",
        "client/",
        "client/a b",
        "client/a/b",
        "client/..",
        "client/ä",
        "owner/x",
    ] {
        assert_eq!(parse(text), None, "{text}");
    }
    let long = "x".repeat(65);
    assert_eq!(parse(&format!("client/{long}")), None);
    assert!(parse(&format!("client/{}", &long[1..])).is_some());
    for uri in [
        format!("http://{CLUSTER}/client/a"),
        format!("quorate://{}/client/a", &CLUSTER[1..]),
        format!("quorate://{}/client/a", CLUSTER.to_uppercase()),
        String::new(),
    ] {
        assert_eq!(Identity::parse(&uri), None, "{uri}");
    }
}

fn upper(id: ClientId) -> u64 {
    id.number() >> CLIENT_BITS
}

#[test]
fn clients_of_different_names_have_different_ids() {
    let (a, b) = (Name::parse("a").expect("a name"), Name::parse("b").expect("a name"));
    for own in [0, 1, u64::MAX, 0x1234_5678_9abc_def0].map(ClientId::new) {
        assert_ne!(upper(a.client_id(own)), upper(b.client_id(own)));
        assert_eq!(upper(a.client_id(own)), a.space());
        assert_eq!(a.client_id(own), a.client_id(own));
    }
    assert_ne!(a.client_id(ClientId::new(1)), a.client_id(ClientId::new(2)));
}

#[test]
fn no_name_and_no_draw_leads_to_an_id_that_clients_do_not_have() {
    let names = (0..2_000_000).filter_map(|number| Name::parse(&format!("client-{number}")));
    let reserved = names.filter(|name| name.space() >> 8 == 0xffff).take(2).inspect(|name| {
        let (one, other) = (name.client_id(ClientId::new(1)), name.client_id(ClientId::new(2)));
        assert!(!one.is_reserved() && !other.is_reserved() && one != other);
    });
    assert_eq!(reserved.count(), 2, "of so many names some have such a space");
    for number in [u64::MAX, 0xffff << 48, ClientId::reserved(3, 4).number()] {
        assert!(ClientId::new(number).is_reserved() && !ClientId::drawn(number).is_reserved());
    }
    for number in [0, 1, 0xfffe << 48, u64::MAX >> 1] {
        assert_eq!(ClientId::drawn(number).number(), number);
    }
}

/// Two names that agree in all that the id alone shows of them, found in a second.
#[test]
fn names_that_agree_have_no_ids_in_common() {
    let name = |number: u32| Name::parse(&format!("client-{number}")).expect("a name");
    let mut seen = std::collections::BTreeMap::new();
    let (a, b) = (0..200_000)
        .find_map(|number| Some((seen.insert(name(number).space(), number)?, number)))
        .expect("of so many two agree");
    let (a, b) = (Holder::Client(name(a)), Holder::Client(name(b)));
    for own in (0..50).map(ClientId::new) {
        let id = a.client_id(own);
        assert_eq!(upper(id), upper(b.client_id(own)));
        assert!(a.made(id, own));
        assert!(!b.made(id, own) && !a.made(id, ClientId::new(99)));
    }
}
