use super::did;
use crate::outcomes::Outcomes;
use quorate_state::store::{Changed, Store};
use quorate_types::{RequestNumber, Seq, SessionId};
use quorate_wire::ReplyStatus;

/// Outcomes of this batch: session, number, and body.
fn outcomes(list: &[(u64, u64, &[u8])]) -> Outcomes {
    let mut outcomes = Outcomes::new();
    outcomes.begin(Seq::new(7));
    for (session, number, body) in list {
        outcomes.push(SessionId::from_number(*session), RequestNumber::new(*number), |arena| {
            arena.extend_from_slice(body);
            ReplyStatus::Done
        });
    }
    outcomes
}

/// Clients choose keys and bodies. With the count of the outcomes behind them, this body would be a second outcome and a count of 2, and
/// the put would be a part of the replies.
#[test]
fn no_reply_looks_like_another_outcome() {
    let mut store = Store::new();
    let key = [&[7; 14][..], &[0; 4]].concat();
    drop(store.take_changed());
    store.put(&key, b"");
    let changed = store.take_changed().expect("it was noted");
    let number = 5_u64;
    let fake = [ReplyStatus::Done as u8, 0];
    let body = [&number.to_le_bytes()[..], &fake, &[0; 16], &2_u64.to_le_bytes()].concat();
    let one = did(&outcomes(&[(9, 3, &body)]), None, &changed);
    let replies = [&[0; 4][..], &(key.len() as u64).to_le_bytes(), &[0; 8], &key[..14]].concat();
    let two = did(&outcomes(&[(9, 3, &replies), (1, number, b"")]), None, &Changed::default());
    assert_eq!(body.len(), replies.len(), "the first outcome is the same");
    assert_ne!(one, two);
}
