//! The service on simulated clusters, one for each seed: replicas stop, messages are lost, disks fail. What must hold of every service is checked,
//! and what is said here. A run that fails says how to repeat it.

use my_service::{Command, Counters};
use quorate::sim::{Random, Simulation};
use std::error::Error;

fn add(random: &mut Random) -> Command {
    Command::Add { name: "apples".into(), amount: random.range(1, 9) as i64 }
}

#[test]
fn counters_hold_whatever_fails() -> Result<(), Box<dyn Error>> {
    let holds = |apples| if apples >= 0 { Ok(()) } else { Err(format!("there are {apples} apples")) };
    let simulation = Simulation::typed(Counters::default, |_client| add);
    simulation.invariant::<Counters>("apples".into(), holds)?.seeds(1..=50).run()?;
    Ok(())
}
