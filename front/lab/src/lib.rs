//! The laboratory: what measures, simulates and hurts clusters. Its commands are part of the program (`front/cli`), which runs clusters.
//!
//! `bench` measures how fast a cluster is beside what the machine allows, and what well-behaved clients notice of a hostile crowd. `sim` runs
//! simulated clusters. `lies` lets a replica of `quorate dev` tell its members and clients what is not so. Tests with real processes:
//! front/cli/tests.

pub mod bench;
pub mod lies;
pub mod sim;
