//! Tokens of batches that are not decided: they count for what is decided in their view, and for nothing else.

use super::AHEAD_MAX;
use crate::verify::tests::{at, is_final, r, ruled, seq, tell, token, verify};
use quorate_types::View;
use quorate_wire::EarlyTokens;

const VIEW: View = View::new(3);

fn early(attempt: u64, view: View, list: &[(u64, u8)]) -> EarlyTokens {
    EarlyTokens { attempt, view, list: list.iter().map(|(at, byte)| (seq(*at), token(*byte))).collect() }
}

/// A planted bug counts them for whatever is decided.
#[test]
pub(crate) fn a_token_of_another_view_counts_for_nothing() {
    let mut verify = verify(3, 2);
    tell(&mut verify, 1, 0, &[(21, 1)]);
    // Batches up to 20 are delivered. Two saw another proposal for 21 than the one that is decided.
    for who in [2, 3] {
        verify.heard_early(at(0), r(who), &early(0, View::new(2), &[(21, 9)]));
    }
    verify.placed(seq(21), VIEW);
    verify.delivered(at(0), ruled(0, 20, None), Some(seq(21)), seq(21));
    assert_eq!((verify.due(at(0)), verify.refused()), (None, 2));
    verify.heard_early(at(0), r(2), &early(0, VIEW, &[(21, 1)]));
    assert_eq!(verify.due(at(0)), is_final(21, 1), "this one is late, and about the right proposal");
}

#[test]
fn they_count_once_their_batch_is_delivered() {
    let mut verify = verify(3, 2);
    for who in [2, 3] {
        verify.heard_early(at(0), r(who), &early(0, VIEW, &[(21, 1), (22, 2)]));
    }
    verify.delivered(at(0), ruled(0, 20, None), None, seq(20));
    assert_eq!(verify.due(at(0)), None, "nothing waits");
    verify.placed(seq(21), VIEW);
    verify.delivered(at(0), ruled(0, 20, None), Some(seq(21)), seq(21));
    assert_eq!(verify.due(at(0)), is_final(21, 1), "22 may not be decided");
    verify.placed(seq(22), VIEW);
    verify.delivered(at(0), ruled(0, 20, None), Some(seq(21)), seq(22));
    assert_eq!(verify.due(at(0)), is_final(22, 2));
    verify.invariants();
}

/// One token for each attempt, seq and view, and of the latest proposal.
#[test]
fn the_first_token_for_a_proposal_counts() {
    let mut verify = verify(3, 2);
    let first = verify.heard_early(at(0), r(1), &early(0, View::new(2), &[(21, 7)]));
    assert_eq!(first.len(), 1);
    let first = verify.heard_early(at(0), r(1), &early(0, VIEW, &[(21, 1)]));
    assert_eq!(first.len(), 1, "another leader proposed something else");
    assert!(verify.heard_early(at(0), r(1), &early(0, VIEW, &[(21, 8)])).is_empty(), "it is told already");
    assert_eq!(verify.heard_early(at(0), r(1), &early(1, VIEW, &[(21, 1)])).len(), 1, "the next attempt");
    verify.heard_early(at(0), r(2), &early(0, VIEW, &[(21, 1)]));
    verify.placed(seq(21), VIEW);
    verify.delivered(at(0), ruled(0, 20, None), Some(seq(21)), seq(21));
    assert_eq!(verify.due(at(0)), None, "its token is for the next attempt");
    verify.delivered(at(0), ruled(1, 20, None), Some(seq(21)), seq(21));
    tell(&mut verify, 2, 1, &[(21, 1)]);
    assert!(verify.due(at(0)).is_some());
}

#[test]
fn what_is_far_old_or_of_others_is_refused() {
    let mut verify = verify(3, 2);
    let far = 20 + AHEAD_MAX + 1;
    for (who, tokens) in [
        (2, early(0, VIEW, &[(far, 1)])),
        (2, early(7, VIEW, &[(21, 1)])),
        (9, early(0, VIEW, &[(21, 1)])),
        // It is delivered, and nobody knows in which view it was proposed.
        (2, early(0, VIEW, &[(19, 1)])),
    ] {
        assert!(verify.heard_early(at(0), r(who), &tokens).is_empty());
    }
    assert_eq!(verify.refused(), 4);
    verify.invariants();
}
