//! Tests of Mod-SMaRt: `chaos` runs whole clusters through random schedules, `liars` with adversaries among them, the others look at
//! one delicate point each.

mod chaos;
mod liars;
mod world;
