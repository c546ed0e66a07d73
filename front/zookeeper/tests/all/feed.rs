//! What commands told, and what is missing of it.

use quorate_execute::{Events, Observer as _};
use quorate_zookeeper::feed::{Feed, Heard};
use quorate_zookeeper::records::EventKind;
use quorate_zookeeper::service::{Told, What};
use quorate_zookeeper::tree::Event;
use std::any::Any;

fn told(zxid: i64, bytes: usize) -> Told {
    let event = Event { kind: EventKind::Created, path: "x".repeat(bytes), zxid, acl: Default::default() };
    Told { zxid, what: What::Nodes(vec![event]) }
}

fn tell(feed: &mut Feed, told: Told) {
    feed.told(Events::new(vec![Box::new(told) as Box<dyn Any + Send>]));
}

#[test]
fn what_is_told_is_kept_in_order_once_somebody_listens() {
    let mut feed = Feed::default();
    tell(&mut feed, told(1, 1));
    assert_eq!(feed.take(), Heard::default(), "nobody listens");
    feed.listen();
    let list = vec![told(2, 1), told(3, 1)];
    list.iter().for_each(|told| tell(&mut feed, told.clone()));
    assert_eq!(feed.take(), Heard { list, gap: None });
    assert_eq!(feed.take(), Heard::default());
}

#[test]
fn too_much_is_dropped_and_leaves_a_gap() {
    let mut feed = Feed::default();
    feed.listen();
    for zxid in 1..=65 {
        tell(&mut feed, told(zxid, 1 << 20));
    }
    tell(&mut feed, told(66, 1));
    let heard = feed.take();
    assert!(heard.gap == Some(64) && heard.list.last() == Some(&told(66, 1)));
    assert!(heard.list.len() < 66);
    tell(&mut feed, told(67, 1));
    assert_eq!(feed.take(), Heard { list: vec![told(67, 1)], gap: None }, "it is said once");
}
