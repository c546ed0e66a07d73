//! What enough members say.

use super::{Notice, Notices};
use quorate_types::{ReplicaId, Seq, View};

fn notice(view: u64, leader: u16) -> Notice {
    Notice { view: View::new(view), leader: Some(ReplicaId::new(leader)) }
}

#[test]
fn the_newest_notice_of_enough_members_counts() {
    let mut notices = Notices::new(4, 2);
    assert_eq!(notices.leads(0, notice(9, 1)), None);
    assert_eq!(notices.leads(1, notice(2, 2)), None);
    assert_eq!(notices.leads(2, notice(2, 2)), Some(notice(2, 2)));
    assert_eq!(notices.leads(3, notice(9, 1)), Some(notice(9, 1)));
    notices.lost(0);
    assert_eq!(notices.leads(3, notice(9, 1)), Some(notice(2, 2)), "who is gone says nothing");
}

/// Beside a plain count: the highest seq that enough reached.
#[test]
fn enough_members_reached_a_seq() {
    let mut notices = Notices::new(4, 2);
    let mut said = [0u64; 4];
    for (from, seq) in [(0, 50), (1, 3), (2, 7), (1, 60), (3, 55), (2, 5), (2, 90)] {
        let newest = notices.executed(from, Seq::new(seq));
        if seq <= said[from] {
            assert_eq!(newest, None);
            continue;
        }
        said[from] = seq;
        let mut sorted = said;
        sorted.sort_unstable();
        assert_eq!(newest, Some(Seq::new(sorted[2])));
    }
}
