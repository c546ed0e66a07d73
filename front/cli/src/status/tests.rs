//! What `quorate status` shows.

use super::{lag_shown, remedy_in_dev};
use crate::control::{ChildReport, Life};

#[test]
fn a_replica_that_needs_a_checkpoint_lacks_no_size() {
    assert_eq!(lag_shown(u64::MAX), "fetches a checkpoint");
    assert_eq!(lag_shown(0), "0 B");
    assert_eq!(lag_shown(3 << 20), "3.0 MiB");
}

#[test]
fn what_to_do_depends_on_what_dev_knows_of_the_process() {
    let report = |replica, life| ChildReport { replica, pid: None, life, apart: Vec::new() };
    let lives =
        [report(1, Life::Running), report(2, Life::Paused), report(3, Life::Killed), report(4, Life::Ended)];
    assert_eq!(remedy_in_dev(2, Some(&lives)), "it is paused: `quorate chaos resume 2`");
    for replica in [1, 3, 4] {
        assert_eq!(remedy_in_dev(replica, Some(&lives)), format!("`quorate chaos restart {replica}`"));
    }
    assert!(remedy_in_dev(2, None).contains("no `quorate dev` runs"));
}
