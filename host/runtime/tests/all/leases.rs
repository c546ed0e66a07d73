//! Real replicas with leases: reads are as fresh as without, also right after a leader stopped; the option is one for all.

use crate::common::{self, RawClient};
use quorate_runtime::{Durability, Options};
use quorate_wire::{ReadConsistency, ReadStatus};

#[test]
fn reads_by_leases_see_every_acknowledged_write() {
    let directory = tempfile::tempdir().unwrap();
    let options = Box::new(|_| Options::default());
    let set = |config: &mut quorate_runtime::Config| config.reads.lease = true;
    let mut cluster = common::cluster_of(directory.path(), 3, Durability::Group, options, set);
    let (first, mut client) = cluster.leader();
    let session = client.open(1);
    let mut readers: Vec<RawClient> =
        cluster.configs.iter().map(|config| RawClient::connect(config.listen_address()).unwrap()).collect();
    for number in 1..=50 {
        assert_eq!(client.add(session, number, &[1]), Some(vec![number]));
        for reader in &mut readers {
            let (status, _, value) = reader.read(ReadConsistency::Strong, 0);
            assert_eq!((status, value), (ReadStatus::Done, number));
        }
    }
    // The others promised to wait for a while; then one of them leads, and knows everything.
    cluster.stop(first).unwrap();
    let (second, mut client) = cluster.leader();
    assert_ne!(first, second);
    assert_eq!(client.add(session, 51, &[1]), Some(vec![51]));
    let third = 3 - first - second;
    for at in [second, third] {
        assert_eq!(readers[at].read(ReadConsistency::Strong, 0).2, 51);
    }
}
