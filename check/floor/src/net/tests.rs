use super::*;

fn pair() -> (TcpStream, TcpStream) {
    let (listener, address) = listen().unwrap();
    let a = connect(address, "reno").unwrap();
    let b = accept(&listener, "reno").unwrap();
    (a, b)
}

/// Counts arrive cut at any byte, and only the latest whole one is told.
#[test]
fn counts_survive_any_cut() {
    let (mut a, b) = pair();
    let mut counts = Counts::new();
    let stream: Vec<u8> = [3u64, 9, 1 << 40].iter().flat_map(|n| n.to_le_bytes()).collect();
    let expected = [0, 3, 9, 1 << 40];
    for (i, byte) in stream.iter().enumerate() {
        a.write_all(&[*byte]).unwrap();
        assert!(counts.read(&b).unwrap());
        assert_eq!(counts.latest(), expected[(i + 1) / 8], "after byte {i}");
    }
    drop(a);
    assert!(!counts.read(&b).unwrap());
}

#[test]
fn an_empty_nonblocking_socket_would_block() {
    let (_a, b) = pair();
    b.set_nonblocking(true).unwrap();
    assert_eq!(read(&b, &mut [0; 8]).unwrap(), Moved::WouldBlock);
}

#[test]
fn an_unknown_congestion_control_is_named_in_the_error() {
    let (_listener, address) = listen().unwrap();
    let error = connect(address, "no-such-control").unwrap_err().to_string();
    assert!(error.contains("no-such-control"), "{error}");
}
