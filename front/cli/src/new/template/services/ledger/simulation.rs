//! Money moves between accounts on simulated clusters, whatever fails.

use my_service::{Entry, Ledger, Question};
use quorate::sim::{Random, Simulation};
use std::error::Error;

fn entry(random: &mut Random) -> Entry {
    let account = |random: &mut Random| random.pick(&["ann", "bob", "eve"]).to_owned();
    let (to, amount) = (account(random), random.range(1, 99));
    match random.below(3) {
        0 => Entry::Deposit { to, amount },
        _ => Entry::Transfer { from: account(random), to, amount },
    }
}

#[test]
fn no_money_is_made_or_lost() -> Result<(), Box<dyn Error>> {
    let holds = |difference| if difference == 0 { Ok(()) } else { Err(format!("{difference} too much")) };
    let simulation = Simulation::typed(Ledger::default, |_client| entry);
    simulation.invariant::<Ledger>(Question::Difference, holds)?.seeds(1..=30).run()?;
    Ok(())
}
