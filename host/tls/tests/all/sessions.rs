//! Two sessions that talk through memory: who is taken, who is refused, and what each side is told.

use crate::common::{self, CLUSTER, Talk, authority, client, credentials, hours, put, replica, talk};
use quorate_tls::{Credentials, Session, Validity};
use quorate_types::{ClusterId, Holder, ReplicaId};

fn meet(dialer: &Credentials, acceptor: &Credentials, to: u16) -> (Session, Session, Talk) {
    let mut a = Session::dial(dialer, ReplicaId::new(to)).expect("a session");
    let mut b = Session::accept(acceptor).expect("a session");
    let talk = talk(&mut a, &mut b, b"words", usize::MAX);
    (a, b, talk)
}

/// The credentials of this holder, of the usual cluster.
fn ours(holder: &Holder) -> Credentials {
    let (authority, files) = shared();
    credentials(&files.certificate, &authority.issue(holder, &[], Validity::days(1)).expect("issued"))
}

fn shared() -> &'static (quorate_tls::Authority, quorate_tls::Issued) {
    static SHARED: std::sync::LazyLock<(quorate_tls::Authority, quorate_tls::Issued)> =
        std::sync::LazyLock::new(|| authority(CLUSTER));
    &SHARED
}

#[track_caller]
fn refused(talk: &Talk, dialer_says: &str, acceptor_says: &str) {
    let said = |side: &Result<Vec<u8>, quorate_tls::Trouble>| match side {
        Ok(got) => panic!("it was taken and got {got:?}"),
        Err(trouble) => trouble.text.clone(),
    };
    if !dialer_says.is_empty() {
        assert!(said(&talk.dialer).contains(dialer_says), "{}", said(&talk.dialer));
    }
    if !acceptor_says.is_empty() {
        assert!(said(&talk.acceptor).contains(acceptor_says), "{}", said(&talk.acceptor));
    }
}

#[test]
fn both_sides_learn_who_the_other_is() {
    let (one, two, shop) = (ours(&replica(1)), ours(&replica(2)), ours(&client("shop")));
    let (a, b, talk) = meet(&one, &two, 2);
    assert_eq!((talk.dialer, talk.acceptor), (Ok(b"words".to_vec()), Ok(b"words".to_vec())));
    assert_eq!(a.peer().map(|peer| &peer.holder), Some(&replica(2)));
    assert_eq!(b.peer().map(|peer| &peer.holder), Some(&replica(1)));
    let (_, b, _) = meet(&shop, &two, 2);
    assert_eq!(b.peer().map(|peer| &peer.holder), Some(&client("shop")));
}

#[test]
fn much_is_said_in_small_pieces() {
    let (one, two) = (ours(&replica(1)), ours(&replica(2)));
    let words: Vec<u8> = (0..2_000_000_u32).map(|at| (at % 251) as u8).collect();
    for piece in [1_009, 70_000, usize::MAX] {
        let mut a = Session::dial(&one, ReplicaId::new(2)).expect("a session");
        let mut b = Session::accept(&two).expect("a session");
        let talk = talk(&mut a, &mut b, &words, piece);
        assert!(
            talk.dialer.as_ref() == Ok(&words) && talk.acceptor.as_ref() == Ok(&words),
            "pieces of {piece}"
        );
    }
}

#[test]
fn a_foreign_authority_is_refused_and_the_claim_is_told() {
    let (authority, files) = authority(ClusterId::new(99));
    let issue = |holder| authority.issue(&holder, &[], Validity::days(1)).expect("issued");
    let (ours_1, ours_2) = (ours(&replica(1)), ours(&replica(2)));
    let stranger = credentials(&files.certificate, &issue(replica(2)));
    // The dialer finds out first.
    let (.., talk) = meet(&ours_1, &stranger, 2);
    refused(&talk, "not among those that this side trusts", "does not trust the authority");
    // A stranger whose dialer takes anybody: the other side finds out.
    let mut both = quorate_tls::Bundle::default();
    both.add(&files.certificate);
    both.add(&shared().1.certificate);
    let stranger = credentials(&both.pem, &issue(client("eve")));
    let mut a = Session::dial(&stranger, ReplicaId::new(2)).expect("a session");
    let mut b = Session::accept(&ours_2).expect("a session");
    let said = common::talk(&mut a, &mut b, b"x", usize::MAX);
    // It asks for a replica of its own cluster, which is another one.
    refused(&said, "is not the replica that was dialed", "");
}

#[test]
fn a_clients_certificate_of_another_authority_is_refused_by_the_replica() {
    let (evil, _) = authority(CLUSTER);
    let eve = evil.issue(&client("eve"), &[], Validity::days(1)).expect("issued");
    let directory = tempfile::tempdir().expect("a directory");
    let mut both = quorate_tls::Bundle::default();
    both.add(evil.pem());
    both.add(&shared().1.certificate);
    let eve = Credentials::load(&put(directory.path(), &both.pem, &eve)).expect("it trusts both");
    let (_, b, talk) = meet(&eve, &ours(&replica(2)), 2);
    refused(&talk, "does not trust the authority", "client eve of cluster");
    assert_eq!(b.peer(), None);
}

#[test]
fn another_replica_than_the_one_that_was_dialed_is_refused() {
    let (_, b, talk) = meet(&ours(&replica(1)), &ours(&replica(3)), 2);
    refused(&talk, "replica 3 of cluster", "refuses this side's certificate");
    assert_eq!(b.peer(), None);
}

#[test]
fn a_client_can_not_stand_in_for_a_replica() {
    let (.., talk) = meet(&ours(&replica(1)), &ours(&client("replica-2")), 2);
    refused(&talk, "is refused", "refuses");
}

#[test]
fn whoever_speaks_no_tls_is_told() {
    let mut b = Session::accept(&ours(&replica(1))).expect("a session");
    let trouble = b.receive(&[57, 0, 0, 0, 1, 0], |_| panic!("nothing comes out")).expect_err("it is no TLS");
    assert!(trouble.plain && trouble.text.contains("speaks no TLS"), "{trouble}");
    let mut a = Session::dial(&ours(&replica(1)), ReplicaId::new(2)).expect("a session");
    let trouble = a.receive(&[57, 0, 0, 0, 1, 0], |_| panic!("nothing comes out")).expect_err("it is no TLS");
    assert!(trouble.plain && trouble.text.contains("plain = true"), "{trouble}");
}

#[test]
fn bytes_that_were_changed_on_the_way_end_the_connection() {
    let (mut a, mut b, _) = meet(&ours(&replica(1)), &ours(&replica(2)), 2);
    assert_eq!(a.write(&[std::io::IoSlice::new(b"more")]), 4);
    let mut sent = Vec::new();
    a.send(&mut sent).expect("memory takes it");
    *sent.last_mut().expect("bytes") ^= 1;
    assert!(b.receive(&sent, |_| panic!("nothing comes out")).is_err());
}

#[test]
fn certificates_out_of_their_time_are_refused_by_who_sees_them() {
    let (authority, files) = shared();
    // Whoever loads one is told, so a side that does not know the time is made by hand: here the check of the other side.
    for (from, until, says) in [(-48, -1, "has expired"), (1, 48, "is not valid yet")] {
        let issued = authority.issue(&client("late"), &[], hours(from, until)).expect("issued");
        let directory = tempfile::tempdir().expect("a directory");
        let why = Credentials::load(&put(directory.path(), &files.certificate, &issued))
            .expect_err("out of its time");
        assert!(why.to_string().contains(says), "{why}");
    }
}
