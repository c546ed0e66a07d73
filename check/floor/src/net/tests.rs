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

/// A count that a replica has to prove: cut at any byte, and with any bit wrong.
#[test]
fn counts_with_a_wrong_mac_are_refused() {
    let (mut a, b) = pair();
    let mut counts = Counts::vouched(2);
    let answer = |count: u64| {
        let mac = Key::of(2, tag::LOAD).mac(tag::ANSWER, count, &tag::NO_BATCH);
        [&count.to_le_bytes()[..], &mac].concat()
    };
    for (i, byte) in [answer(3), answer(9)].concat().iter().enumerate() {
        a.write_all(&[*byte]).unwrap();
        assert!(counts.read(&b).unwrap());
        assert_eq!(counts.latest(), [0, 3, 9][(i + 1) / ANSWER_BYTES], "after byte {i}");
    }
    for bit in 0..ANSWER_BYTES * 8 {
        let mut wrong = answer(10);
        wrong[bit / 8] ^= 1 << (bit % 8);
        a.write_all(&wrong).unwrap();
        let error = Counts::vouched(2).read(&b).unwrap_err();
        assert!(matches!(&error, Error::Child { .. }));
        assert_eq!(error.to_string(), "floor: the follower 2 sent an answer with a wrong MAC", "bit {bit}");
    }
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
