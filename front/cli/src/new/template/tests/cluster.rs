//! The service on three replicas, one of which ends. Each replica executes everything twice and stops where the results differ, so
//! a service that is not deterministic is found here.

use my_service::{Command, Counters};
use quorate::client::ReadOptions;
use quorate::{LocalCluster, Typed, twice};
use std::error::Error;
use std::time::Duration;

#[test]
fn nothing_is_lost_when_a_replica_ends() -> Result<(), Box<dyn Error>> {
    let mut cluster = LocalCluster::temporary(3, twice(|| Typed(Counters::default())))?;
    let client = cluster.client().build_blocking()?;
    let counters = client.open::<Counters>()?;
    let add = |amount| Command::Add { name: "apples".into(), amount };
    for round in 1..=50 {
        assert_eq!(counters.call(&add(1))?, round);
    }
    let leader = client.client().leader().ok_or("nobody leads")?;
    cluster.stop(leader);
    assert_eq!(counters.call(&add(5))?, 55);
    cluster.restart(leader)?;
    assert_eq!(client.query::<Counters>(&"apples".into(), ReadOptions::default())?, 55);
    cluster.check(Duration::from_secs(30))?;
    Ok(())
}
