use super::{PORTS, free_ports, row};
use std::net::TcpListener;

#[test]
fn a_row_of_ports_is_free_and_below_those_of_connections() {
    for count in [0, 1, 15, 60] {
        let row = free_ports(count).expect("free ports");
        assert_eq!(row.len(), usize::from(count));
        assert!(row.is_sorted_by(|one, next| one + 1 == *next), "{row:?}");
        assert!(row.iter().all(|port| PORTS.contains(port)), "{row:?}");
    }
}

#[test]
fn a_port_in_use_is_in_no_row() {
    let three = free_ports(3).expect("free ports");
    let listener = TcpListener::bind(("127.0.0.1", three[1])).expect("the port is free");
    assert_eq!(row(three[0], 3), None, "the one between them is in use");
    drop(listener);
    assert_eq!(row(three[0], 3), Some(three));
}
