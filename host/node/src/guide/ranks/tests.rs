//! Ranks follow from the table of sessions alone.

use super::Ranks;
use quorate_execute::{SessionLimits, SessionTable};
use quorate_types::{AgreedTime, ClientId};

fn client(number: u64) -> ClientId {
    ClientId::new(number)
}

#[test]
fn clients_are_ranked_in_the_order_in_which_they_came() {
    let mut table = SessionTable::new(SessionLimits::default());
    let mut ranks = Ranks::default();
    assert_eq!(ranks.of(client(907)), 907, "nobody knows when it came");
    let mut sessions = Vec::new();
    for (number, nonce) in [(907, 1), (30, 1), (907, 2), (12, 1)] {
        sessions.extend(table.open(client(number), nonce, None, AgreedTime::ZERO));
    }
    ranks.read(&table);
    assert_eq!([907, 30, 12].map(|number| ranks.of(client(number))), [0, 1, 2]);

    // One of its two sessions ends: it is behind those who came before the other one.
    table.remove(sessions[0]);
    ranks.read(&table);
    assert_eq!([30, 907, 12].map(|number| ranks.of(client(number))), [0, 1, 2]);
    table.remove(sessions[1]);
    ranks.read(&table);
    assert_eq!([907, 12, 30].map(|number| ranks.of(client(number))), [0, 1, 30]);
}

#[test]
fn a_table_that_changed_a_little_is_not_read_again_for_one_client() {
    let mut table = SessionTable::new(SessionLimits::default());
    let mut ranks = Ranks::default();
    for number in 0..16 {
        assert!(table.open(client(900 + number), 1, None, AgreedTime::ZERO).is_some());
        ranks.read_by_and_by(&table);
    }
    assert_eq!(ranks.of(client(900)), 900, "it was not worth while");
    for number in 16..40 {
        assert!(table.open(client(900 + number), 1, None, AgreedTime::ZERO).is_some());
        ranks.read_by_and_by(&table);
    }
    assert_eq!(ranks.of(client(905)), 5);
}
