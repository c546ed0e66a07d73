//! View, vote and leader by themselves.

use crate::Effect;
use crate::raft::term::Term;
use quorate_types::{RecordId, ReplicaId, View};

const A: ReplicaId = ReplicaId::new(1);
const B: ReplicaId = ReplicaId::new(2);

fn view(number: u64) -> View {
    View::new(number)
}

/// In a view there is one vote, and who leads in it stays.
#[test]
fn a_view_has_one_vote_and_one_leader() {
    let mut term = Term::default();
    term.cast(view(3), None);
    assert!(term.is_free(view(3)) && term.is_led_by_nobody());
    term.cast(view(3), Some(A));
    term.written(RecordId::new(2));
    assert_eq!((term.view(), term.voted(), term.record()), (view(3), Some(A), RecordId::new(2)));
    assert!(!term.is_free(view(3)) && term.is_free(view(4)));
    term.see_leading(A);
    assert!(term.is_led_by_another(B) && !term.is_led_by_another(A));
    term.cast(view(4), None);
    assert!(!term.is_led_by_another(B), "another view");
}

#[test]
#[should_panic(expected = "INV-RAFT-1")]
fn a_vote_is_never_replaced() {
    let mut term = Term::default();
    term.cast(view(3), Some(A));
    term.cast(view(3), Some(B));
}

/// The other stages hear of each leader once.
#[test]
fn leaders_are_announced_once() {
    let mut term = Term::default();
    term.cast(view(3), None);
    assert_eq!(term.announce(), None, "nobody leads, as before");
    assert!(term.set_leader(Some(A)));
    term.see_leading(A);
    let news = Effect::LeaderChanged { view: view(3), leader: Some(A), planned: false };
    assert_eq!((term.announce(), term.announce()), (Some(news), None));
    assert!(!term.set_leader(Some(A)), "what was asked of it stands");
    term.cast(view(4), None);
    assert!(term.set_leader(None));
    let news = Effect::LeaderChanged { view: view(4), leader: None, planned: false };
    assert_eq!(term.announce(), Some(news));
    term.check();
}
