//! What is wanted of the membership, without an instance.

use super::members::{change, membership};
use super::world::replica;
use crate::raft::RaftConfig;
use crate::raft::changes::Changes;
use crate::raft::store::Store;
use crate::{Effect, Effects};
use quorate_wire::Memberships;
use std::sync::Arc;

/// A change begins with what holds, and is forgotten once it is done.
#[test]
fn a_change_waits_for_what_it_begins_with() {
    let all = [membership(1, &[0, 1, 2], &[]), membership(2, &[0, 1], &[2]), membership(3, &[0, 1, 2], &[])];
    let [first, second, third] = all.map(|alone| (Memberships::one(alone.clone()), alone));
    let (mut changes, wanted) = (Changes::default(), change(&second.1, &third.1));
    assert_eq!(changes.next(&first.0), None, "nothing is wanted");
    changes.want(wanted.clone());
    assert_eq!(changes.next(&first.0), None, "the one before is not done");
    assert_eq!(changes.next(&second.0), Some(wanted));
    assert_eq!((changes.next(&third.0), changes.next(&second.0)), (None, None), "it is done");
}

#[test]
fn listeners_are_news_once() {
    let mut changes = Changes::default();
    assert!(!changes.listen(Arc::from([])) && changes.listen(Arc::from([replica(4)])));
    assert!(!changes.listen(Arc::from([replica(4)])));
    assert_eq!(changes.listeners(), [replica(4)]);
}

/// The host knows with whom the instance began.
#[test]
fn what_was_always_so_is_no_news() {
    let store = Store::new(&RaftConfig::new(replica(0), vec![replica(0), replica(1)], 7));
    let (mut changes, mut out) = (Changes::default(), Effects::new());
    changes.tell(&store, &mut out);
    let told: Vec<Effect> = out.drain().collect();
    assert_eq!(told, []);
}
