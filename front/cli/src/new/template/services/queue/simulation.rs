//! Workers take and end jobs on simulated clusters, whatever fails.

use my_service::{Counts, Queue, Step, Told};
use quorate::sim::{Client, Random, Simulation};
use std::error::Error;

/// A worker that sometimes brings work, and sometimes forgets what it took.
#[derive(Default)]
struct Worker {
    has: Option<(u64, u32)>,
}

impl Client<Step, Told> for Worker {
    fn command(&mut self, random: &mut Random) -> Step {
        match self.has.take() {
            Some((number, taken)) if random.chance(700) => Step::End { number, taken },
            _ if random.chance(500) => Step::Push(format!("work {}", random.below(100))),
            _ => Step::Take { lease_ms: random.range(10, 2000) },
        }
    }

    fn replied(&mut self, _: &Step, told: Told) -> Result<(), String> {
        if let Told::Job(job) = told {
            self.has = Some((job.number, job.taken));
        }
        Ok(())
    }
}

#[test]
fn no_job_is_lost_or_ended_twice() -> Result<(), Box<dyn Error>> {
    let holds = |counts: Counts| {
        let all = counts.waiting + counts.leased + counts.ended;
        if all == counts.pushed { Ok(()) } else { Err(format!("{counts:?}")) }
    };
    let simulation = Simulation::typed(Queue::default, |_client| Worker::default());
    simulation.invariant::<Queue>((), holds)?.seeds(1..=30).run()?;
    Ok(())
}
