//! Models of protocols: all histories within bounds, instead of some at random.
//!
//! The model of Visigoth ([visigoth.md](../../../docs/protocols/visigoth.md)) is one instance from its first view on: votes, view changes
//! with the statements that begin views, the oracle, restarts, and a member that lies. What binds a view and what the oracle grants is
//! decided by the real code. Messages arrive late, never, or in any order, so what holds here holds whatever is slow; a member that stopped
//! is one of which nothing more arrives.
//!
//! [`Gathering`] has what holds in time: while no more is faulty or slow than is assumed, the oracle refuses nobody for ever.

mod binding;
mod bounds;
mod explore;
mod gathering;
mod oracle;
mod state;
mod step;
mod world;

pub use bounds::{Bounds, MEMBERS, Plant, SLOTS, VIEWS};
pub use explore::{Explored, Stopped, World, explore};
pub use gathering::{Gathered, Gathering, Happens};
pub use state::{Member, Sets, State, Values};
pub use step::Step;
pub use world::Visigoth;
