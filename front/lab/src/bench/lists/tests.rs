//! Clients that check every answer, beside a list that is kept right and one that is not.

use super::{APPENDS, Did, Owners};
use crate::bench::load::{Call, Work as _};
use quorate_kv::lists::ListReply;

/// Does what the client asks for with its list.
fn answer(did: Did, list: &mut Option<u64>) -> ListReply {
    let before = ListReply::Length(*list);
    match did {
        Did::Put => *list = Some(0),
        Did::Append => *list = Some(list.unwrap_or(0) + 1),
        Did::Remove => *list = None,
        Did::Ask => {}
    }
    before
}

#[test]
fn a_client_puts_appends_asks_and_removes() {
    let (mut owners, mut list) = (Owners::new(2, 100), None);
    let (mut counts, mut reads) = ([0_u64; 4], 0_u64);
    while counts[Did::Remove as usize] < 2 {
        reads += u64::from(matches!(owners.next(1), Call::Read(..)));
        let did = owners.owners[1].did;
        counts[did as usize] += 1;
        let said = answer(did, &mut list);
        owners.heard(1, Some(said)).expect("it is right");
        assert_eq!(
            owners.totals(),
            ListReply::Totals { keys: u64::from(list.is_some()), strings: list.unwrap_or(0) }
        );
    }
    assert_eq!(counts, [2, 2 * APPENDS, 2 * APPENDS / 8, 2]);
    assert_eq!(reads, counts[Did::Ask as usize]);
}

#[test]
fn what_is_lost_or_done_twice_is_noticed() {
    let begun = || {
        let (mut owners, mut list) = (Owners::new(1, 10), None);
        for _ in 0..3 {
            owners.next(0);
            let said = answer(owners.owners[0].did, &mut list);
            owners.heard(0, Some(said)).expect("it is right");
        }
        owners.next(0);
        owners
    };
    begun().heard(0, Some(ListReply::Length(Some(2)))).expect("two strings");
    for wrong in [
        Some(ListReply::Length(Some(1))),
        Some(ListReply::Length(Some(3))),
        Some(ListReply::Length(None)),
        None,
    ] {
        let why = begun().heard(0, wrong).expect_err("it is wrong").to_string();
        assert!(why.contains("acknowledged is lost"), "{why}");
    }
}
