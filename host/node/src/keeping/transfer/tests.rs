//! A transfer before any part of it is here.

use super::{Need, Transfer, Why};
use crate::recovered::Damaged;
use quorate_state::checkpoint::SystemPart;
use quorate_state::store::Store;
use quorate_state::transfer::{FetchLimits, Kept};
use quorate_types::{Seq, Span, Time};

const NOW: Time = Time::from_nanos(1);

fn behind(at_least: u64) -> Transfer {
    let mut transfer = Transfer::default();
    transfer.begin(NOW, Need::new(Seq::new(at_least), Why::Behind), FetchLimits::default());
    transfer
}

#[test]
fn an_earlier_checkpoint_does_where_another_leaders_log_begins_earlier() {
    let mut transfer = behind(50);
    assert!(!transfer.is_behind(NOW, Seq::new(60)) && transfer.is_behind(NOW, Seq::new(40)));
    assert_eq!(transfer.at_least(), Some(Seq::new(40)));
    assert!(!Transfer::default().is_behind(NOW, Seq::new(40)), "nothing is fetched");
}

/// A leader repeats that this replica is behind; no replica repeats that a state is wrong.
#[test]
fn only_who_is_behind_stops_fetching_by_itself() {
    for (why, stops) in [(Why::Behind, true), (Why::Diverged, false), (Why::Lost, false)] {
        let mut transfer = Transfer::default();
        transfer.begin(NOW, Need::new(Seq::new(50), why), FetchLimits::default());
        assert!(!transfer.drop_needless(NOW, Seq::new(49), false, Span::ZERO));
        assert_eq!(transfer.drop_needless(NOW, Seq::new(50), false, Span::ZERO), stops);
        assert_eq!(transfer.brings_the_state(), why == Why::Lost);
    }
}

#[test]
fn parts_that_an_earlier_run_kept_are_used_by_the_first_fetch_or_go() {
    let kept = || vec![Kept::System { bytes: vec![1].into() }];
    let mut transfer = Transfer::new(kept(), None);
    let taken = transfer.begin(NOW, Need::new(Seq::new(50), Why::Lost), FetchLimits::default());
    assert_eq!(taken.len(), 1);
    assert!(!transfer.drop_partial(), "they are used");
    let mut needless = Transfer::new(kept(), None);
    assert!(needless.drop_partial() && !needless.drop_partial(), "once");
}

#[test]
fn a_damaged_checkpoint_is_repaired_from_what_is_sound_of_it() {
    let objects = Store::new().version();
    let damaged = Damaged { seq: Seq::new(9), system: SystemPart::default(), objects };
    let mut transfer = Transfer::new(Vec::new(), Some(damaged));
    let need = transfer.damaged().expect("it lacks something");
    assert!(need.why == Why::Damaged && need.local.is_some() && need.at_least == Seq::new(9));
    assert!(transfer.damaged().is_none(), "once");
}

#[test]
#[should_panic(expected = "INV-NODE-10")]
fn nothing_is_fetched_while_what_was_fetched_is_made_durable() {
    use super::{Image, Installing};
    let system = crate::system::tests::system();
    let (seq, border, objects) = (system.seq, system.border, Store::new().version());
    let image = Image { seq, border, system: system.encode(), objects };
    let mut transfer = Transfer::default();
    let (digests, why) = (image.digests(), Why::Behind);
    transfer.holds(Installing { image, system, digests, why });
    transfer.begin(NOW, Need::new(Seq::new(2000), Why::Behind), FetchLimits::default());
}
