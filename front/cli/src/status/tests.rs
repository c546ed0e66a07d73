//! What `quorate status` shows.

use super::lag_shown;

#[test]
fn a_replica_that_needs_a_checkpoint_lacks_no_size() {
    assert_eq!(lag_shown(u64::MAX), "needs a checkpoint");
    assert_eq!(lag_shown(0), "0 B");
    assert_eq!(lag_shown(3 << 20), "3.0 MiB");
}
