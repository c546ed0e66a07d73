//! Which events go to which watches.

use crate::support::cluster::{Cluster, Got};
use crate::support::made;
use proptest::prelude::*;
use quorate_zookeeper::op::Op;
use quorate_zookeeper::records::{Acl, EventKind as E};
use quorate_zookeeper::request::Request;
use quorate_zookeeper::server::{Kinds, Watches};

#[test]
fn watches_for_one_event_end_with_it() {
    let mut watches = Watches::default();
    watches.add(1, "/a", Kinds::DATA);
    watches.add(1, "/a", Kinds::CHILDREN);
    watches.add(2, "/a", Kinds::CHILDREN);
    assert_eq!(watches.happened(E::DataChanged, "/a/b"), [0_u64; 0]);
    assert_eq!(watches.happened(E::DataChanged, "/a"), [1]);
    assert_eq!(watches.happened(E::DataChanged, "/a"), [0_u64; 0]);
    assert_eq!(watches.happened(E::ChildrenChanged, "/a"), [1, 2]);
    assert_eq!((watches.happened(E::ChildrenChanged, "/a"), watches.count()), (vec![], 0));
    watches.add(1, "/a", Kinds::DATA);
    watches.add(1, "/a", Kinds::CHILDREN);
    assert_eq!((watches.happened(E::Deleted, "/a"), watches.count()), (vec![1], 0), "once");
    watches.add(1, "/a", Kinds::DATA);
    assert_eq!(watches.happened(E::Created, "/a"), [1]);
}

#[test]
fn lasting_watches_stay_and_the_recursive_kind_looks_below() {
    let mut watches = Watches::default();
    watches.add(1, "/a", Kinds::LASTING);
    watches.add(2, "/a", Kinds::BELOW);
    watches.add(3, "/", Kinds::BELOW);
    for _ in 0..2 {
        assert_eq!(watches.happened(E::DataChanged, "/a"), [1, 2, 3]);
        assert_eq!(watches.happened(E::ChildrenChanged, "/a"), [1], "its children tell of themselves");
        assert_eq!(watches.happened(E::Created, "/a/b"), [2, 3]);
        assert_eq!(watches.happened(E::Deleted, "/ab"), [3], "/ab is not below /a");
    }
    assert!(watches.remove(2, "/a", Kinds::of_watcher_type(5).expect("a type")));
    assert!(!watches.remove(2, "/a", Kinds::ALL));
    watches.remove_all(3);
    assert_eq!((watches.happened(E::Created, "/a/b"), watches.count()), (vec![], 1));
}

/// A watch: connection, path and kind.
type Watch = (u64, String, u8);

/// Who hears, by looking at each watch.
fn brute(watches: &mut Vec<Watch>, kind: E, path: &str) -> Vec<u64> {
    let fits = |(_, at, what): &Watch| {
        let is_below = *at == "/" || path.starts_with(&format!("{at}/"));
        match what {
            1 => at == path && kind != E::ChildrenChanged,
            2 => at == path && [E::Deleted, E::ChildrenChanged].contains(&kind),
            4 => at == path,
            _ => (at == path || is_below) && kind != E::ChildrenChanged,
        }
    };
    let mut hear: Vec<u64> = watches.iter().filter(|watch| fits(watch)).map(|(conn, ..)| *conn).collect();
    watches.retain(|watch| !(fits(watch) && watch.2 <= 2));
    hear.sort_unstable();
    hear.dedup();
    hear
}

proptest! {
    #[test]
    fn events_go_where_a_look_at_each_watch_sends_them(
        acts in proptest::collection::vec((0..3_u64, "(/[ab]){1,3}|/", 0..8_u8, 0..4_usize), 0..80)
    ) {
        let (mut watches, mut model) = (Watches::default(), Vec::<Watch>::new());
        let kinds = [(1, Kinds::DATA), (2, Kinds::CHILDREN), (4, Kinds::LASTING), (8, Kinds::BELOW)];
        for (conn, path, act, which) in acts {
            let (number, kind) = kinds[which];
            match act {
                0..4 => {
                    watches.add(conn, &path, kind);
                    model.push((conn, path, number));
                }
                4 => {
                    let had = model.contains(&(conn, path.clone(), number));
                    model.retain(|watch| *watch != (conn, path.clone(), number));
                    prop_assert_eq!(watches.remove(conn, &path, kind), had);
                }
                5 if which == 0 => {
                    watches.remove_all(conn);
                    model.retain(|watch| watch.0 != conn);
                }
                _ => {
                    let kind = [E::Created, E::Deleted, E::DataChanged, E::ChildrenChanged][which];
                    let mut hear = watches.happened(kind, &path);
                    hear.sort_unstable();
                    prop_assert_eq!(hear, brute(&mut model, kind, &path));
                }
            }
            let mut places: Vec<_> = model.iter().map(|(conn, path, _)| (conn, path)).collect();
            places.sort();
            places.dedup();
            prop_assert_eq!(watches.count(), places.len());
        }
    }
}

/// Persistent watches of many clients on one node, and what they cost others.
#[test]
fn a_thousand_watchers_get_every_event_in_order() {
    let mut cluster = Cluster::new(2);
    let (writer, ..) = cluster.client(0);
    cluster.send(0, writer, 1, &made(Op::Create, "/w", None, 0, &[Acl::OPEN], 0));
    let watch = Request::Watch { op: Op::AddWatch, path: b"/w", kind: 0 };
    let watchers: Vec<_> = (0..1000).map(|number| cluster.client(number % 2).0).collect();
    for (number, conn) in watchers.iter().enumerate() {
        cluster.send(number % 2, *conn, 1, &watch);
        cluster.got(*conn);
    }
    let first = cluster.zxid() + 1;
    for number in 0..20 {
        cluster.send(0, writer, number, &Request::SetData { path: b"/w", data: Some(b"x"), version: -1 });
    }
    let expected: Vec<Got> = (first..first + 20).map(|zxid| Got::Event(zxid, 3, "/w".into())).collect();
    for conn in watchers {
        assert_eq!(cluster.got(conn), expected);
    }
}
