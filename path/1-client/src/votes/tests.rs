//! The comparison beside a plain one that remembers every word.

use super::{KeptAnswers, Tally, Votes};
use bytes::Bytes;
use proptest::prelude::*;
use quorate_types::{RequestNumber, SessionId};
use quorate_wire::{Reply, ReplyStatus, reply_digest};

const SAID: [(ReplyStatus, &[u8]); 6] = [
    (ReplyStatus::Done, b"a"),
    (ReplyStatus::Done, b"bb"),
    (ReplyStatus::TooLarge, b"executed"),
    (ReplyStatus::TooLarge, b"not executed"),
    (ReplyStatus::Overloaded, b""),
    (ReplyStatus::ExpectedNumber, b"12345678"),
];

fn is_final(said: usize) -> bool {
    said < 3
}

fn add(votes: &mut Votes, held: &mut KeptAnswers, from: usize, said: usize, needed: u32) -> Tally {
    let (status, body) = SAID[said];
    let payload = Bytes::copy_from_slice(body);
    let number = RequestNumber::new(1);
    votes.add(
        from,
        &Reply { session: SessionId::NONE, number, status, body: &payload },
        &payload,
        (needed, None),
        held,
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Members say anything in any order: an answer counts exactly when as many as needed stand by it.
    #[test]
    fn an_answer_counts_when_enough_stand_by_it(
        needed in 1..4u32,
        words in proptest::collection::vec((0..7usize, 0..6usize), 1..60),
    ) {
        let (mut votes, mut held) = (Votes::default(), KeptAnswers::new(7, 1 << 20));
        // The last word of each, or the first final one.
        let mut stands: [Option<usize>; 7] = [None; 7];
        for (from, said) in words {
            let tally = add(&mut votes, &mut held, from, said, needed);
            if let Some(before) = stands[from].filter(|before| is_final(*before)) {
                let lies = is_final(said) && said != before;
                prop_assert_eq!(tally, if lies { Tally::Contradicts } else { Tally::Waits });
                continue;
            }
            stands[from] = Some(said);
            let count = stands.iter().filter(|stand| **stand == Some(said)).count() as u32;
            let begins = is_final(said) && stands.iter().flatten().filter(|stand| is_final(**stand)).count() == 1;
            let waits = if begins { Tally::Begins } else { Tally::Waits };
            prop_assert_eq!(tally, if count >= needed { Tally::Counts } else { waits });
            if count >= needed && is_final(said) {
                break;
            }
            if count >= needed {
                // It took effect, and is forgotten.
                stands.iter_mut().filter(|stand| **stand == Some(said)).for_each(|stand| *stand = None);
            }
            prop_assert_eq!(votes.held(), held.total());
        }
        votes.clear(&mut held);
        prop_assert_eq!(held.total(), 0);
    }
}

/// Two equal answers: nothing is kept beside the first, and no list is made.
#[test]
fn two_equal_answers_cost_no_list() {
    let (mut votes, mut held) = (Votes::default(), KeptAnswers::new(4, 1 << 20));
    assert_eq!(add(&mut votes, &mut held, 0, 1, 2), Tally::Begins);
    assert_eq!(add(&mut votes, &mut held, 2, 1, 2), Tally::Counts);
    assert_eq!((votes.others.capacity(), votes.held()), (0, 2));
}

/// Whoever holds as much as it may has no more votes; others do.
#[test]
fn a_full_member_has_no_vote() {
    let (mut votes, mut held) = (Votes::default(), KeptAnswers::new(4, 3));
    assert_eq!(add(&mut votes, &mut held, 0, 1, 2), Tally::Begins);
    let mut second = Votes::default();
    assert_eq!(add(&mut second, &mut held, 0, 1, 2), Tally::Waits);
    assert_eq!((second.held(), held.total()), (0, 2));
    assert_eq!(add(&mut second, &mut held, 1, 1, 2), Tally::Begins, "the vote that did not fit was not one");
    assert_eq!(add(&mut second, &mut held, 2, 1, 2), Tally::Counts);
}

/// What member `from` says of one request: the answer `said`, whole or by its digest.
fn say(votes: &mut Votes, held: &mut KeptAnswers, from: usize, said: u8, whole: bool) -> Tally {
    let body = Bytes::from(vec![said; 300]);
    let digest = Bytes::copy_from_slice(reply_digest(&body).bytes());
    let (status, body) = if whole { (ReplyStatus::Done, body) } else { (ReplyStatus::DoneDigest, digest) };
    let number = RequestNumber::new(1);
    votes.add(from, &Reply { session: SessionId::NONE, number, status, body: &body }, &body, (2, None), held)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// An answer counts when two stand by it and one of them gave it whole, in whichever order; what is handed on is the answer.
    #[test]
    fn digests_count_with_one_whole_answer(
        words in proptest::collection::vec((0..5usize, 0..3u8, any::<bool>()), 1..40),
    ) {
        let (mut votes, mut held) = (Votes::default(), KeptAnswers::new(5, 1 << 20));
        let mut stands: [Option<u8>; 5] = [None; 5];
        let mut whole = [false; 3];
        for (from, said, is_whole) in words {
            let tally = say(&mut votes, &mut held, from, said, is_whole);
            if stands[from].is_some_and(|before| before != said) {
                prop_assert_eq!(tally, Tally::Contradicts);
                continue;
            }
            let first = stands == [None; 5];
            let again = stands[from].is_some();
            stands[from] = Some(said);
            let lacked = !whole[usize::from(said)];
            whole[usize::from(said)] |= is_whole;
            let count = stands.iter().filter(|stand| **stand == Some(said)).count();
            let counts = count >= 2 && whole[usize::from(said)] && (!again || lacked);
            let waits = if first { Tally::Begins } else { Tally::Waits };
            prop_assert_eq!(tally, if counts { Tally::Counts } else { waits });
            prop_assert_eq!(votes.held(), held.total());
            prop_assert_eq!(votes.lacks(2), (0..3).any(|said| {
                stands.iter().filter(|stand| **stand == Some(said)).count() >= 2 && !whole[usize::from(said)]
            }));
            if counts {
                let digest = reply_digest(&[said; 300]);
                let number = RequestNumber::new(1);
                let reply = Reply {
                    session: SessionId::NONE, number, status: ReplyStatus::DoneDigest, body: digest.bytes(),
                };
                prop_assert_eq!(votes.whole(&reply), vec![said; 300]);
                let others = votes.others(&reply, None);
                for (from, stand) in stands.iter().enumerate() {
                    prop_assert_eq!(others & 1 << from != 0, stand.is_some_and(|stand| stand != said));
                }
                break;
            }
        }
        votes.clear(&mut held);
        prop_assert_eq!(held.total(), 0);
    }
}

/// The first byte is what counts, the second one the member's own; what is put together are the own ones, in the order in which they came.
#[derive(Debug)]
struct Own;

impl crate::combiner::Combiner for Own {
    fn same(&self, one: &[u8], other: &[u8]) -> bool {
        one.first() == other.first()
    }
    fn combine(&self, replies: &[&[u8]]) -> Option<Vec<u8>> {
        Some(replies.iter().map(|reply| reply[1]).collect())
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Each member says the same in its own words, or something else: as many as needed stand by it, and the words of all of them are there.
    #[test]
    fn own_words_count_as_the_same(
        needed in 2..4u32,
        words in proptest::collection::vec((0..7usize, 0..3u8), 1..40),
    ) {
        let combiner = crate::Combines(std::sync::Arc::new(Own));
        let (mut votes, mut held) = (Votes::default(), KeptAnswers::new(7, 1 << 20));
        let mut stands: Vec<(usize, u8)> = Vec::new();
        for (from, said) in words {
            let mut items = quorate_types::ItemsBuilder::new();
            items.push(&[said, from as u8]);
            let mut body = Vec::new();
            items.write_to(&mut body);
            let body = Bytes::from(body);
            let (session, number) = (SessionId::NONE, RequestNumber::new(1));
            let reply = Reply { session, number, status: ReplyStatus::Done, body: &body };
            let tally = votes.add(from, &reply, &body, (needed, Some(&combiner)), &mut held);
            if let Some((_, before)) = stands.iter().find(|(of, _)| *of == from) {
                prop_assert_eq!(tally, if *before == said { Tally::Waits } else { Tally::Contradicts });
                continue;
            }
            stands.push((from, said));
            let same: Vec<u8> =
                stands.iter().filter(|(_, other)| *other == said).map(|(of, _)| *of as u8).collect();
            let waits = if stands.len() == 1 { Tally::Begins } else { Tally::Waits };
            prop_assert_eq!(tally, if same.len() as u32 >= needed { Tally::Counts } else { waits });
            prop_assert_eq!(votes.held(), held.total());
            let combined = votes.combined(&reply, &combiner).expect("they combine");
            let lists = quorate_types::Items::parse(&combined).expect("a list");
            prop_assert_eq!(lists.iter().collect::<Vec<_>>(), [&same[..]]);
        }
        votes.clear(&mut held);
        prop_assert_eq!(held.total(), 0);
    }
}
