//! Stage 5: runs delivered batches on the service, each request once, and keeps the replies.
//!
//! In: batches in seq order, from stage 4 (merge). Out: [`Outcomes`], to stage 6 (reply). At borders the whole state is taken as
//! [`ImageParts`], which side/state digests, writes and transfers. A user of Quorate writes one of the following; everything else here
//! belongs to the engine:
//!
//! - [`ObjectService`], run as [`InStore`]: its state lies in the object store, and it writes nothing for checkpoints, digests or
//!   transfers. Right for large states.
//! - [`TypedService`], run as [`Typed`]: commands and state are ordinary Rust types. At each checkpoint execution waits until the
//!   whole state is written, so for small states.
//! - [`JournaledService`], run as [`Journaled`] in the store: its commands ask other services, and others run meanwhile. No host brings what they
//!   ask to other services yet (docs/protocols/adam.md).
//! - [`Service`] over bytes, with its own checkpoint; and [`Tracked`] besides, when it can tell which of its objects changed.
//!
//! Each of them may also be called at a time that it names, when a session ended, and when the membership changed: `next_deadline`,
//! `session_ended`, `membership_changed`.
//!
//! The session table and the kept replies live here rather than in stage 6, since they decide whether a request runs: they are part of the
//! replicated state (docs/decisions/0001-reply-cache-beside-the-sessions.md).
//!
//! Everything is deterministic: equal batches in equal order give equal outcomes and equal images.
//! Invariants: INV-EXEC-1, 2 and 4 (`executor.rs`), 3 (`agreed.rs`), 7 and 8 (`execution.rs`), 9 (`ordered/`), 10 and 11 (`speculative/`), INV-EXEC-5 and 6 (`images.rs`), INV-SESSION-1 to 6 (`sessions.rs`), INV-NESTED-1 to 6 (`nested/`). Tests:
//! `tests/`.
//!
//! A whole service of ordinary types:
//! ```
//! use quorate_execute::{Context, TypedService};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Default, Serialize, Deserialize)]
//! struct Counter {
//!     value: i64,
//! }
//!
//! #[derive(Serialize, Deserialize)]
//! enum Change {
//!     Add(i64),
//!     Reset,
//! }
//!
//! impl TypedService for Counter {
//!     type Command = Change;
//!     type Reply = i64;
//!     type Query = ();
//!     type Answer = i64;
//!
//!     fn execute(&mut self, change: Change, _: &Context) -> i64 {
//!         match change {
//!             Change::Add(amount) => self.value = self.value.wrapping_add(amount),
//!             Change::Reset => self.value = 0,
//!         }
//!         self.value
//!     }
//!     fn query(&self, _: (), _: &Context) -> i64 {
//!         self.value
//!     }
//! }
//! ```
//!
//! And one in the store, tickets that are each taken once:
//! ```
//! use quorate_execute::{Context, InStore, ObjectService, ReplySink, Service, Store};
//!
//! struct Tickets;
//!
//! impl ObjectService for Tickets {
//!     /// A command is a ticket's name; the reply is the client that has it.
//!     fn execute(&mut self, store: &mut Store, ticket: &[u8], ctx: &Context, reply: &mut ReplySink<'_>) {
//!         if ticket.len() > 100 {
//!             return reply.write(b"too long");
//!         }
//!         if store.get(ticket).is_none() {
//!             store.put(ticket, &ctx.client().number().to_le_bytes());
//!         }
//!         reply.write(store.get(ticket).unwrap_or_default());
//!     }
//!     /// A query is the beginning of names; the answer is the first ticket from there on.
//!     fn query(&self, store: &Store, start: &[u8], _: &Context, reply: &mut ReplySink<'_>) {
//!         if let Some((ticket, _)) = store.range(start, None).next() {
//!             reply.write(ticket);
//!         }
//!     }
//! }
//!
//! let service: Box<dyn Service> = Box::new(InStore::new(Tickets));
//! # let ctx = Context::at(quorate_types::Seq::FIRST, quorate_types::AgreedTime::ZERO);
//! # let (mut service, mut out) = (service, vec![]);
//! # service.execute(b"seat 9", &ctx, &mut ReplySink::new(&mut out, 100));
//! # service.execute(&[b'x'; 101], &ctx, &mut ReplySink::new(&mut out, 100));
//! # service.query(b"seat", &ctx, &mut ReplySink::new(&mut out, 100));
//! # assert_eq!(out, b"\0\0\0\0\0\0\0\0too longseat 9");
//! ```

mod agreed;
mod ahead;
mod around;
mod cells;
mod checkpoint;
mod collections;
mod context;
mod costs;
mod events;
mod execution;
mod executor;
pub mod fuzzing;
mod hints;
mod images;
mod known;
mod letters;
mod neighbours;
mod nested;
mod objects;
mod ordered;
mod outcomes;
mod parallel;
mod pieces;
#[cfg(all(test, planted))]
mod planted;
mod published;
mod service;
mod sessions;
mod speculative;
mod tracked;
mod typed;
mod under_way;
mod verified;
mod verify;
mod view;
mod work;

pub use agreed::{Agreed, LEADERS_APART, Moment};
pub use around::{MembershipNow, SessionEnd};
pub use cells::{Cells, NewCells, Part};
pub use checkpoint::{CheckpointError, CheckpointSink, CheckpointSource, read_all, read_append, read_exact};
pub use collections::{Entry, FreshKeys, Map, Set};
pub use context::Context;
pub use events::{Events, Observer, Tells};
pub use execution::{Execution, Final, Known, Ordered, Sequential};
pub use executor::{Executor, ServiceRaise, system_begins_anew};
pub use images::ImageParts;
pub use letters::{Letter, LetterTooLong, Letters};
pub use neighbours::{KnownNeighbour, Neighbours};
pub use nested::{
    Answer, Answered, AnyJournaled, Arrival, Call, Chain, Deadlock, Failure, Journaled, JournaledService,
    NestedCounts, NestedReport, NestedRequest, NestedRules, Refusal, Schedule, ServiceId, Ticket,
};
pub use objects::{InStore, ObjectService};
pub use ordered::{Ahead, AheadLimits, InOrder, Parallelism};
pub use outcomes::{Outcome, Outcomes};
pub use parallel::{Parallel, ParallelService, Ran};
pub use published::{Published, Publisher};
pub use quorate_admit::Lookup;
pub use quorate_state::store::{Change, Store, Version};
pub use quorate_types::Random;
pub use service::{BatchReplies, KeyUse, OwnReplies, ReplySink, ReplyTooLarge, Service};
pub use sessions::{Handling, SessionLimits, SessionTable};
pub use speculative::Speculative;
pub use tracked::{Tracked, checkpoint_tracked, restore_tracked};
pub use typed::{
    Typed, TypedError, TypedService, decode_letter, decode_reply, encode_command, encode_command_since,
};
pub use under_way::{UnderWay, Watched};
pub use verified::{Counts as VerifiedCounts, Differs, Memo, Ruled, Verified, Worth};
pub use verify::{OwnTokens, Tellers, Verify, VerifyConfig};
pub use view::{StateRange, StateView};
pub use work::{Stopwatch, Task, Work, Worked};
