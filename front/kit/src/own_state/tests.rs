use super::{OwnState, Shared};
use quorate::{Published, Seq};
use quorate_execute::Publisher as _;
use quorate_runtime::Newest;
use quorate_state::store::Store;
use quorate_types::AgreedTime;
use std::sync::Arc;

#[test]
fn it_is_published_for_as_long_as_somebody_reads() {
    let place = Newest::default();
    let mut newest = place.writer();
    let shared = Shared { newest: place, reader: Default::default(), used: Default::default() };
    let own = OwnState(Arc::new(shared));
    assert!(own.at_least(Seq::ZERO).is_none() && newest.wants(Seq::new(4)), "the first read begins it");
    let (objects, seq) = (Store::new().version(), Seq::new(4));
    newest.publish(Published { objects, seq, time: AgreedTime::ZERO, level: 2, service_level: 1 });
    assert!(own.at_least(Seq::new(4)).is_some() && own.at_least(Seq::new(5)).is_none());
    own.0.rest();
    assert!(own.at_least(Seq::ZERO).is_some(), "it was read since");
    own.0.rest();
    own.0.rest();
    assert!(!newest.wants(Seq::new(5)), "nobody reads");
}
