use super::Addresses;
use quorate_types::ReplicaId;

#[test]
fn each_link_has_an_address_of_its_own_until_the_replica_moves() {
    let (one, two) = (ReplicaId::new(1), ReplicaId::new(2));
    let mut addresses = Addresses::default();
    addresses.configure(one, "a:1".into(), vec!["b:1".into(), "c:1".into()]);
    addresses.configure(two, "d:1".into(), Vec::new());
    let of = |addresses: &Addresses, replica| -> Vec<String> {
        (0..5).filter_map(|link| addresses.of(replica, link)).map(str::to_owned).collect()
    };
    assert_eq!(of(&addresses, one), ["a:1", "b:1", "c:1", "b:1", "c:1"]);
    assert_eq!(of(&addresses, two), ["d:1"; 5]);
    // What was known already changes nothing.
    addresses.learn(one, "a:1".into());
    assert_eq!(addresses.of(one, 2), Some("c:1"));
    addresses.learn(one, "e:1".into());
    assert_eq!(of(&addresses, one), ["e:1"; 5]);
    addresses.forget(one);
    assert_eq!(addresses.of(one, 0), None);
    addresses.learn(one, "f:1".into());
    assert_eq!(addresses.of(one, 3), Some("f:1"));
}
