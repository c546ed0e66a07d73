//! The laboratory: measures, simulates and disturbs clusters. Its commands are part of the program (`front/cli`), which runs clusters.
//!
//! `bench` measures how fast a cluster is beside what the machine allows, and how much a hostile crowd disturbs clients. `sim` runs
//! simulated clusters. `rounds` measures how long replies of a group are waited for. `lies` makes a replica of `quorate dev` send false messages
//! to members and clients. Tests with real processes: front/cli/tests.

pub mod bench;
pub mod lies;
pub mod rounds;
pub mod sim;
