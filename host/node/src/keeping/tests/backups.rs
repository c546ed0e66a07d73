//! Operators who make backups, and members that lag: the checkpoints that they fetch stay.

use super::{Alone, ConnId, In, Report, Seq, StateMessage, computed, digest, has, r, written};
use quorate_state::checkpoint::ManifestPart;

const OPERATOR: ConnId = ConnId::new(7);

fn asks(message: StateMessage) -> In {
    In::Asked { conn: OPERATOR, members: (1..=3).map(r).collect(), message }
}

fn manifest(seq: u64) -> StateMessage {
    StateMessage::FetchManifest { seq: Seq::new(seq), digest: digest(seq), offset: 0 }
}

/// Three checkpoints are here, and the log could do without the first.
fn three() -> Alone {
    let mut alone = Alone::new();
    alone.agreed_border(10);
    alone.agreed_border(20);
    alone.keeping.trimmed(Seq::new(10));
    alone
}

#[test]
fn an_operator_hears_what_there_is_and_is_sent_it() {
    let mut alone = three();
    let wants = StateMessage::WantBorder { seq: Seq::ZERO, digest: digest(0) };
    let said = alone.step(asks(wants));
    assert_eq!(said, ["to the operator: holds q10", "to the operator: holds q20"]);
    assert_eq!(alone.step(asks(manifest(20))), ["Pin([q20])", "ReadManifest"]);
    let part = ManifestPart { total: 1, bytes: vec![1].into() };
    let said = alone.step(In::Kept(Report::Manifest { ticket: 1, answer: Some(part) }));
    assert_eq!(said, ["to the operator: manifest"]);
    assert!(alone.keeping.status(alone.now).sent_bytes > 0);
}

#[test]
fn the_log_stays_from_what_an_operator_fetches_until_it_leaves() {
    let mut alone = three();
    alone.step(asks(manifest(10)));
    assert_eq!(alone.keeping.holds_back_for().count(), 1);
    let said = alone.agreed_border(30);
    assert!(!said.iter().any(|said| said.starts_with("trim")), "{said:?}");
    assert_eq!(alone.step(In::Left(ConnId::new(8))), [] as [String; 0], "somebody else");
    assert_eq!(alone.step(In::Left(OPERATOR)), ["Pin([])"]);
    let said = alone.step(written(30, digest(30)));
    assert_eq!(said[said.len() - 1], "trim q20");
}

/// A fetching operator does not keep a full disk full.
#[test]
fn on_a_full_disk_nothing_is_held_back() {
    let mut alone = three();
    alone.step(asks(manifest(10)));
    alone.facts.disk_full = true;
    let said = alone.agreed_border(30);
    assert_eq!(said[said.len() - 1], "trim q20");
}

#[test]
fn an_operator_that_says_what_only_members_say_is_refused() {
    let mut alone = three();
    let says = StateMessage::Digest { seq: Seq::new(10), digest: digest(10), held: true };
    assert_eq!(alone.step(asks(says)), ["reject: an operator sends what only members say about the state"]);
}

/// What it signs for an operator is what it told the members, and they agree on.
#[test]
fn only_an_agreed_digest_of_its_own_is_attested() {
    let mut alone = Alone::new();
    let attests = |alone: &Alone, seq: u64, of: u64| {
        alone.keeping.attests((Seq::new(seq), digest(of))).map_err(|why| why.split(':').next().unwrap_or(why))
    };
    assert_eq!(attests(&alone, 10, 10), Err("it knows of no agreement on a checkpoint of this seq"));
    alone.border(10);
    alone.step(computed(10, 1, digest(10)));
    assert_eq!(
        attests(&alone, 10, 10),
        Err("it knows of no agreement on a checkpoint of this seq"),
        "its word alone"
    );
    alone.step(has(2, 10, digest(10)));
    assert_eq!(attests(&alone, 10, 10), Ok(()), "written or not");
    assert_eq!(attests(&alone, 10, 11), Err("another digest is agreed on at this seq"));
    // The others are further.
    alone.step(has(2, 20, digest(20)));
    alone.step(has(3, 20, digest(20)));
    assert_eq!(
        attests(&alone, 20, 20),
        Err("it has not been at this seq itself, or not computed the digest yet")
    );
    // Its own state there is another one.
    alone.border(20);
    alone.step(computed(20, 2, digest(21)));
    for of in [20, 21] {
        assert!(attests(&alone, 20, of).is_err());
    }
    assert_eq!(
        attests(&alone, 10, 10),
        Err("its own state is not the agreed one"),
        "nobody knows since when"
    );
}
