//! Judges recorded histories of a key-value store: linearizable, and every write done exactly once.
//!
//! A check, not a stage: it sees only what clients saw. A history is a file of JSON lines, one finished
//! operation per line, in any order:
//!
//! ```json
//! {"client":1,"op":"put","key":"k","value":"a","result":null,"call":10,"return":25,"outcome":"ok"}
//! {"client":2,"op":"get","key":"k","result":"a","call":30,"return":41,"outcome":"ok"}
//! {"client":2,"op":"cas","key":"k","expect":"a","value":"b","call":50,"return":null,"outcome":"unknown"}
//! ```
//!
//! `docs/formats/history.md` explains every field. In short: `ok` means that `result` came back; `fail` means
//! that the operation was certainly not done; `unknown` means that it may be done at any time after `call`,
//! or never. Operation A comes before B if A's `return` is less than B's `call`; equal times do not order.
//!
//! How to read the code:
//! - [`event`], [`jsonl`], [`History`]: what a history is, and how it is read and written;
//! - [`model`]: the trait of a sequential object, and hints that make the search short;
//! - [`search`]: the search for a legal order, for any model;
//! - [`kv`]: one key of the store as a model, with its hints;
//! - [`linearizability`]: one search per key, budgets, the verdict, the explanation;
//! - [`exactly_once`]: rules that need no search: values from nowhere, values that come back, lost and
//!   doubled appends;
//! - [`report`]: everything together, [`check_reader`].
//!
//! Sources: Wing and Gong, "Testing and verifying concurrent objects", JPDC 1993; Lowe, "Testing for
//! linearizability", 2017 (the cache of configurations, the list with undo); Horn and Kroening, "Faster
//! linearizability checking via P-compositionality", FORTE 2015 (one search per key).
//!
//! A verdict is one of three: `Ok`, `Violation`, `Unknown`. `Unknown` is never a pass: it says what was missing.
//! Tests: `tests/all`; known histories under `tests/histories/`, sorted into folders by their verdict.

pub mod event;
pub mod exactly_once;
pub mod jsonl;
pub mod kv;
pub mod linearizability;
pub mod model;
pub mod report;
pub mod search;

mod explain;
mod history;

pub use event::{Answer, Event, EventError, Op, Outcome};
pub use explain::{Explanation, Mark, Placed, Row};
pub use history::History;
pub use jsonl::{ReadError, Reader, WriteError, Writer};
pub use linearizability::Verdict;
pub use model::Model;
pub use report::{Options, Report, check, check_reader};
pub use search::Budget;
