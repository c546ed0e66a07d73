//! Clients take tokens on simulated clusters, whatever fails.

use my_service::{CAPACITY, Limiter, PER_SECOND, Take, Verdict};
use quorate::AgreedTime;
use quorate::sim::{Client, Random, Simulation};
use std::error::Error;

/// A client with a bucket of its own, and what was in it when it took something last.
struct Taker {
    name: String,
    last: Option<(u64, AgreedTime)>,
}

impl Client<Take, Verdict> for Taker {
    fn command(&mut self, random: &mut Random) -> Take {
        Take { name: self.name.clone(), tokens: random.range(0, CAPACITY + 1) }
    }

    fn replied(&mut self, take: &Take, verdict: Verdict) -> Result<(), String> {
        let right = match verdict {
            Verdict::Allowed { left, at } => {
                // What came in since the last time, and a part of a token that was not shown.
                let most = self.last.map_or(CAPACITY, |(left, before)| {
                    (left + 1 + (at.since(before).millis() + 1) * PER_SECOND / 1000 + 1).min(CAPACITY)
                });
                self.last = Some((left, at));
                take.tokens + left <= most
            }
            Verdict::Wait { ms } => take.tokens > 0 && ms > 0,
            Verdict::Never => take.tokens > CAPACITY,
        };
        if right { Ok(()) } else { Err(format!("{verdict:?}")) }
    }
}

#[test]
fn nobody_takes_more_than_there_is() -> Result<(), Box<dyn Error>> {
    let holds =
        |(tokens, _)| if tokens <= CAPACITY { Ok(()) } else { Err(format!("a bucket has {tokens} tokens")) };
    let taker = |number| Taker { name: format!("client {number}"), last: None };
    let simulation = Simulation::typed(Limiter::default, taker);
    simulation.invariant::<Limiter>(None, holds)?.seeds(1..=30).run()?;
    Ok(())
}
