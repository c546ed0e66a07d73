use super::*;

fn system() -> System {
    System {
        cluster: ClusterId::new(77),
        seq: Seq::new(1000),
        border: 3,
        generations: vec![Generation { instances: 1, first: Slot::FIRST, base: Seq::ZERO }],
        instances: vec![InstancePart {
            instance: InstanceId::new(1),
            slot: Slot::new(1000),
            offset: 0,
            anchor: Anchor::decode(&[7; 16]).expect("an anchor"),
            members: vec![ReplicaId::new(1), ReplicaId::new(2), ReplicaId::new(3)],
            pending: vec![],
        }],
        executor: Bytes::from_static(b"sessions"),
    }
}

#[test]
fn what_is_written_is_read_back() {
    let system = system();
    assert_eq!(System::decode(&system.encode()), Ok(system));
}

#[test]
fn cut_off_anywhere_before_the_executors_part_it_is_refused() {
    let bytes = system().encode();
    let own = bytes.len() - b"sessions".len();
    for len in 0..own {
        assert!(System::decode(&bytes.slice(..len)).is_err(), "{len} bytes of {own}");
    }
}

#[test]
fn no_bytes_make_it_panic() {
    let bytes = system().encode();
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut wrong = bytes.to_vec();
            wrong[at] ^= 1 << bit;
            // Whether it is taken or not; where it is, it is written the same way again.
            if let Ok(read) = System::decode(&Bytes::from(wrong.clone())) {
                assert_eq!(read.encode(), wrong);
            }
        }
    }
}
