//! Tests of Mod-SMaRt: `chaos` runs whole clusters through random schedules, `liars` with adversaries among them, `rules` searches all
//! histories of a small world, the others look at one delicate point each.

mod chaos;
mod checkpoints;
mod examine;
mod fetch;
mod few;
mod founded;
mod keys;
mod liars;
mod members;
mod normal;
mod one;
mod parts;
#[cfg(planted)]
mod planted;
mod rates;
mod referee;
mod restart;
mod rotation;
mod rules;
mod stops;
mod sync;
mod tenures;
mod testimony;
mod unaided;
mod weights;
mod world;
