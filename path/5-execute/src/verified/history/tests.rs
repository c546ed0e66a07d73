//! One replica has what was ruled, and another one asks for it: page by page, from replicas that may lie.

use super::{History, Lacks, Memo, Worth, chained};
use bytes::Bytes;
use quorate_types::{Digest, Seq};
use quorate_wire::{Memos, SentMemo};

fn seq(number: u64) -> Seq {
    Seq::new(number)
}

fn digest(byte: u8) -> Digest {
    Digest::new([byte; 32])
}

fn memo(number: u64, bytes: usize) -> Memo {
    let (before, body) = (digest(100 + number as u8), Bytes::from(vec![number as u8; bytes]));
    Memo { number: 0, attempt: 3, seq: seq(number), before, life: 0, ruled: false, body }
}

/// Batches 3 to 9 without 6, which was none; some have memos of this size.
fn history(bytes: usize) -> History {
    let mut history = History::default();
    history.begin(seq(2));
    for number in [3, 4, 5, 7, 8, 9] {
        history.push(seq(number), digest(number as u8), (number % 4 != 3).then(|| memo(number, bytes)));
    }
    history
}

/// The token after some batches of the history.
fn token(behind: u64, up_to: u64) -> Digest {
    [3, 4, 5, 7, 8, 9]
        .into_iter()
        .filter(|number| *number > behind && *number <= up_to)
        .fold(digest(0), |token, number| chained(&token, &digest(number as u8)))
}

fn lacks(after: u64, up_to: u64) -> Lacks {
    Lacks::new((seq(after), digest(0)), (seq(up_to), token(after, up_to)))
}

#[test]
fn who_has_what_was_ruled_tells_it() {
    let (history, mut lacks) = (history(10), lacks(3, 8));
    let answer = history.answer(lacks.wanted(), seq(9)).expect("it has that");
    assert_eq!(answer.steps.iter().map(|(at, _)| at.number()).collect::<Vec<_>>(), [4, 5, 7, 8]);
    assert_eq!(answer.list.iter().map(|memo| memo.seq.number()).collect::<Vec<_>>(), [4, 5, 8]);
    assert_eq!(lacks.told(3, answer), Worth::All);
    let five = lacks.memo(seq(5), &digest(105)).expect("it was told");
    assert!(five.ruled && five.attempt == 3);
    assert!(lacks.memo(seq(5), &digest(104)).is_none(), "after another past it did something else");
    assert!(
        lacks.did(seq(7), &digest(7)) && !lacks.did(seq(7), &digest(8)) && !lacks.did(seq(6), &digest(6))
    );
}

#[test]
fn who_does_not_have_all_of_it_tells_nothing() {
    let mut history = history(10);
    assert!(history.answer(lacks(1, 8).wanted(), seq(9)).is_none(), "its state began later");
    assert!(history.answer(lacks(3, 9).wanted(), seq(8)).is_none(), "it is not so far");
    history.trimmed(seq(4));
    assert!(history.answer(lacks(3, 8).wanted(), seq(9)).is_none(), "a checkpoint has it");
    assert_eq!(history.answer(lacks(4, 8).wanted(), seq(9)).expect("the rest").list.len(), 2);
}

#[test]
fn much_comes_page_by_page() {
    let (history, mut lacks) = (history(3 << 20), lacks(2, 9));
    let mut pages = Vec::new();
    loop {
        let page = history.answer(lacks.wanted(), seq(9)).expect("it has that");
        pages.push((page.steps.len(), page.list.len(), page.through.number()));
        match lacks.told(3, page) {
            Worth::All => break,
            worth => assert_eq!(worth, Worth::Some),
        }
    }
    assert_eq!(pages, [(6, 1, 4), (0, 1, 7), (0, 1, 8), (0, 1, 9)]);
    let fresh = self::lacks(2, 9);
    for number in [4, 5, 8, 9] {
        assert!(lacks.memo(seq(number), &digest(100 + number as u8)).is_some());
        assert!(fresh.memo(seq(number), &digest(100 + number as u8)).is_none());
    }
}

#[test]
fn false_answers_are_worth_nothing() {
    let good = history(10).answer(lacks(3, 8).wanted(), seq(9)).expect("it has that");
    let changes: [fn(&mut Memos); 10] = [
        |memos| memos.steps[1].1 = digest(99),
        |memos| memos.steps.swap(0, 1),
        |memos| memos.steps.truncate(3),
        |memos| memos.steps.clear(),
        |memos| memos.steps.push((seq(9), digest(9))),
        |memos| memos.steps[3].0 = seq(7),
        |memos| memos.wanted.after = seq(2),
        |memos| memos.through = seq(9),
        |memos| memos.list[0].seq = seq(3),
        |memos| memos.list[2].seq = seq(9),
    ];
    for (at, change) in changes.iter().enumerate() {
        let (mut lacks, mut bad) = (lacks(3, 8), good.clone());
        change(&mut bad);
        assert_eq!(lacks.told(3, bad), Worth::Nothing, "change {at}");
        assert_eq!(lacks.told(3, good.clone()), Worth::All, "after change {at}");
    }
}

#[test]
fn a_liar_can_not_fill_the_memory() {
    let (mut lacks, history) = (lacks(2, 9), history(10));
    let all = history.answer(lacks.wanted(), seq(9)).expect("it has that");
    let body = Bytes::from(vec![0; 90 << 20]);
    let mut worth = Vec::new();
    for number in [4, 5, 8] {
        let mut page = Memos { wanted: lacks.wanted(), through: seq(number), ..all.clone() };
        page.list = vec![SentMemo { seq: seq(number), before: digest(4), body: body.clone() }];
        worth.push(lacks.told(3, page));
    }
    assert_eq!(worth, [Worth::Some, Worth::Some, Worth::Nothing]);
    assert_eq!(lacks.wanted().from, seq(3), "it begins again");
}

#[test]
fn a_liar_can_not_tell_it_piece_by_piece() {
    let (mut lacks, history) = (lacks(2, 9), history(10));
    let all = history.answer(lacks.wanted(), seq(9)).expect("it has that");
    let mut worth = Vec::new();
    for number in [4, 5] {
        let page = Memos { wanted: lacks.wanted(), through: seq(number), list: Vec::new(), ..all.clone() };
        worth.push(lacks.told(3, page));
    }
    assert_eq!(worth, [Worth::Some, Worth::Nothing]);
    assert_eq!(lacks.told(3, all), Worth::All, "who tells it all at once is believed");
}
