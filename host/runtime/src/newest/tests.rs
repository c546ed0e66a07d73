use super::{Newest, Published, Publisher};
use quorate_execute::{Store, Version};
use quorate_types::{AgreedTime, Seq};

fn state(seq: u64, objects: Version) -> Published {
    Published { objects, seq: Seq::new(seq), time: AgreedTime::ZERO, level: 2, service_level: 1 }
}

#[test]
fn nothing_is_wanted_or_kept_while_nobody_reads() {
    let newest = Newest::default();
    let mut place = newest.writer();
    let objects = || Store::new().version();
    assert!(!place.wants(Seq::ZERO));
    place.publish(state(1, objects()));
    let reader = newest.read();
    assert!(reader.newest().is_none(), "it came before anybody read");
    assert!(place.wants(Seq::ZERO) && place.wants(Seq::new(1)));
    place.publish(state(1, objects()));
    assert!(!place.wants(Seq::new(1)) && place.wants(Seq::new(2)));
    assert_eq!(reader.newest().map(|state| state.seq), Some(Seq::new(1)));
    let other = newest.read();
    drop(reader);
    assert_eq!(other.newest().map(|state| state.seq), Some(Seq::new(1)), "somebody still reads");
    drop(other);
    assert!(!place.wants(Seq::new(2)));
    let again = newest.read();
    assert!(again.newest().is_none() && place.wants(Seq::new(1)), "what was there may be old");
}

#[test]
fn what_is_withdrawn_is_gone_for_all() {
    let newest = Newest::default();
    let mut place = newest.writer();
    let reader = newest.read();
    place.withdraw();
    place.publish(state(3, Store::new().version()));
    let held = reader.newest();
    place.withdraw();
    assert!(reader.newest().is_none() && place.wants(Seq::new(3)));
    assert!(held.is_some_and(|state| state.seq == Seq::new(3)), "who has it already keeps it");
    place.publish(state(4, Store::new().version()));
    drop(place);
    assert!(reader.newest().is_none(), "a replica that stopped has no state to read");
}

#[test]
fn readers_that_wait_are_woken() {
    let newest = Newest::default();
    let mut place = newest.writer();
    let woken = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
    let count = woken.clone();
    let wake = move || _ = count.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
    let reader = newest.read_and_wake(std::sync::Arc::new(wake));
    let times = || woken.load(std::sync::atomic::Ordering::SeqCst);
    place.publish(state(1, Store::new().version()));
    assert!(times() == 1 && reader.newest().is_some());
    place.withdraw();
    place.withdraw();
    assert!(times() == 2 && reader.newest().is_none(), "once");
    drop(reader);
    let _other = newest.read();
    place.publish(state(2, Store::new().version()));
    assert_eq!(times(), 2);
}
