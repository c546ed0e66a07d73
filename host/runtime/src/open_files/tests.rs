use super::{connections_max, handshakes_max, raise};
use rustix::process::{Resource, getrlimit};

#[test]
fn half_of_the_files_are_for_connections() {
    assert_eq!(connections_max(10_000, None), 10_000);
    assert_eq!(connections_max(10_000, Some(20_000)), 10_000);
    assert_eq!(connections_max(10_000, Some(1024)), 512);
    assert_eq!(connections_max(10_000, Some(0)), 1);
    assert_eq!(handshakes_max(1000, None), 1000);
    assert_eq!(handshakes_max(1000, Some(1024)), 128);
    assert_eq!(handshakes_max(1000, Some(0)), 16);
}

#[test]
fn the_limit_becomes_what_it_may_be() {
    let most = getrlimit(Resource::Nofile).maximum;
    assert_eq!(raise(), most);
    assert_eq!(getrlimit(Resource::Nofile).current, most);
}
