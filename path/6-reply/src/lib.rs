//! Stage 6: bring replies to the connections that wait for them, and hold reads until they may run.
//!
//! In: [`quorate_execute::Outcomes`] from stage 5, reads from clients, confirmations from stage 3. Out: frame bodies for connections, and
//! reads to run. [`Routes`] knows which connection asked for which session; [`ReadPath`] knows what each read waits for. Kept replies are
//! part of the sessions, in stage 5. [`LetterRoutes`] knows who listens for letters.
//!
//! All are plain state machines. Nothing here is replicated: it concerns the connections of this replica only. Invariants: INV-READ-1 to 3
//! (`reads.rs`). Tests: `src/routes/tests.rs`, `src/reads/tests.rs`, `src/letters/tests.rs`.

mod letters;
mod reads;
mod routes;

pub use letters::{LetterLimits, LetterRoutes};
pub use reads::{Asked, Read, ReadKey, ReadLimits, ReadPath};
pub use routes::{Reached, RouteLimits, Routes};
