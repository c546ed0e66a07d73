use super::*;

const REPLICAS: u8 = 4;

/// What replica 2 expects of the leader.
fn of_leader() -> Expected {
    Expected {
        replicas: usize::from(REPLICAS),
        from: 0,
        to: 2,
        key: Key::of(0, 2),
        leads: true,
        batch_max: 64,
        command_bytes: 16,
    }
}

fn proposal(batch: &[u8]) -> Vec<u8> {
    let mut message = Message::new(usize::from(REPLICAS), batch.len());
    message.batch().copy_from_slice(batch);
    message.seal(batch.len(), Kind::Propose, 7, &tag::digest(batch), &Sender::new(0, REPLICAS));
    message.sealed().to_vec()
}

fn other(kind: Kind, from: u8) -> Vec<u8> {
    let mut message = Message::new(usize::from(REPLICAS), 0);
    message.seal(0, kind, 7, &tag::digest(b"x"), &Sender::new(from, REPLICAS));
    message.sealed().to_vec()
}

#[test]
fn a_sealed_message_splits_into_what_went_in() {
    let batch = [7; 32];
    let mut stream = proposal(&batch);
    stream.extend_from_slice(b"next");
    let (heard, rest) = split(&stream, &of_leader()).unwrap().unwrap();
    let digest = tag::digest(&batch);
    assert_eq!(heard, Heard { kind: Kind::Propose, slot: 7, digest: &digest, batch: &batch });
    assert_eq!(rest, b"next");
    for kind in [Kind::Write, Kind::Accept, Kind::End] {
        let stream = other(kind, 0);
        let (heard, rest) = split(&stream, &of_leader()).unwrap().unwrap();
        assert_eq!((heard.kind, heard.slot, heard.batch, rest), (kind, 7, &[][..], &[][..]));
    }
}

#[test]
fn a_message_that_is_not_all_there_waits() {
    let stream = proposal(&[7; 32]);
    for cut in 0..stream.len() {
        assert_eq!(split(&stream[..cut], &of_leader()), Ok(None), "cut at {cut}");
    }
}

/// One wrong bit anywhere: the message is refused, or it was in a MAC that is for somebody else. In the length the
/// message may also seem to go on.
#[test]
fn a_flipped_bit_is_noticed() {
    let stream = proposal(&[7; 32]);
    let macs = HEADER + tag::BYTES;
    let mine = macs + 2 * tag::BYTES..macs + 3 * tag::BYTES;
    let batch = head_bytes(usize::from(REPLICAS));
    for bit in 0..stream.len() * 8 {
        let at = bit / 8;
        let mut wrong = stream.clone();
        wrong[at] ^= 1 << (bit % 8);
        let found = split(&wrong, &of_leader());
        match at {
            0..4 => assert!(matches!(found, Err(_) | Ok(None)), "bit {bit}"),
            // nobody reads them
            6..8 => assert!(matches!(found, Ok(Some(_))), "bit {bit}"),
            _ if mine.contains(&at) => assert_eq!(found, Err("a wrong MAC"), "bit {bit}"),
            _ if (macs..batch).contains(&at) => assert!(matches!(found, Ok(Some(_))), "bit {bit}"),
            // the MAC is over the digest, too
            8..48 => assert_eq!(found, Err("a wrong MAC"), "bit {bit}"),
            _ if at >= batch => assert_eq!(found, Err("a batch with a wrong digest"), "bit {bit}"),
            _ => assert!(found.is_err(), "bit {bit}"),
        }
    }
}

#[test]
fn only_what_its_sender_may_say_is_heard() {
    let follower = || Expected { from: 3, key: Key::of(3, 2), leads: false, ..of_leader() };
    assert!(split(&other(Kind::Write, 3), &follower()).unwrap().is_some());
    assert_eq!(split(&other(Kind::End, 3), &follower()), Err("what only the leader may say"));
    assert_eq!(split(&other(Kind::Write, 3), &of_leader()), Err("a message in another one's name"));
    for bytes in [80, 17] {
        let wrong = proposal(&vec![7; bytes]);
        let found = split(&wrong, &of_leader());
        assert_eq!(found, Err("a batch that is too long, or not of whole commands"), "{bytes} bytes");
    }
}
