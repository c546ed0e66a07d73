use super::from_turn;
use std::net::SocketAddr;

#[test]
fn each_dial_begins_with_the_next_address() {
    let addresses: Vec<SocketAddr> = (1..=3).map(|port| SocketAddr::from(([127, 0, 0, 1], port))).collect();
    let ports = |turn| from_turn(&addresses, turn).map(SocketAddr::port).collect::<Vec<u16>>();
    assert_eq!(ports(0), [1, 2, 3]);
    assert_eq!(ports(1), [2, 3, 1]);
    assert_eq!(ports(2), [3, 1, 2]);
    assert_eq!(ports(3), [1, 2, 3]);
    assert_eq!(from_turn(&[], 5).count(), 0);
}
