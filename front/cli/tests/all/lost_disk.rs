//! A replica that lost its disk and comes back with a fresh copy of what `init` made must not vote under its old name.

use crate::harness::{Made, Server, copy, quorate, wait_until};

#[test]
fn a_fresh_copy_of_a_lost_directory_is_refused() {
    let made = Made::three();
    let kept = tempfile::tempdir().expect("a temporary directory");
    copy(made.config(1).parent().expect("a directory"), kept.path());
    let directory = made.path();
    let directory = directory.to_str().expect("UTF-8");
    let put = |value: &str| {
        quorate(&["kv", "put", "key", value, "--dir", directory, "--timeout", "3"]).code == Some(0)
    };

    let servers: Vec<Server> = (1..=3).map(|id| Server::start(&made.config(id))).collect();
    wait_until("writes are taken", || put("acknowledged"));
    let mut servers = servers.into_iter();
    let (first, second, third) = (servers.next(), servers.next(), servers.next());
    assert_eq!(third.map(|server| server.stop().code), Some(Some(0)));
    assert!(put("acknowledged by the first two"));
    assert_eq!(first.map(|server| server.stop().code), Some(Some(0)));
    assert_eq!(second.map(|server| server.stop().code), Some(Some(0)));

    // The first one's disk is lost, and somebody copies its directory again. With the third alone it would be a majority.
    std::fs::remove_dir_all(made.data(1)).expect("removed");
    copy(&kept.path().join("data"), &made.data(1));
    let first = Server::start(&made.config(1));
    let third = Server::start(&made.config(3));
    first.wait_until_it_says("began anew");
    assert!(!put("by two that know nothing of it"), "nothing may be taken now");
    let second = Server::start(&made.config(2));
    wait_until("the two that have their disks go on", || put("later"));
    let got = quorate(&["kv", "get", "key", "--dir", directory]);
    assert_eq!(got.out.trim(), "later");
    for server in [first, second, third] {
        assert_eq!(server.stop().code, Some(0));
    }
}
