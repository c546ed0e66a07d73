//! A channel between two clusters: each member of one sends the same numbered messages, and each member of the other takes a message once
//! enough senders sent it alike.
//!
//! Positions grow from 1. A receiver says how far it is; a sender sends what lies within the window from there on, sends again what a
//! receiver is not done with, and keeps a message until its owner takes it out. Where senders only crash one of them sends, and the others
//! take over when it does not. A receiver keeps what lies in its window, within a limit for each sender, so nothing that a stranger or a
//! liar sends grows without bound.
//!
//! Both halves are stepped alone, know no connection and no clock, and give what is to be sent. Source: the inter-regional message channels
//! of Spider (Eischer, Distler, Middleware 2020, section 3.2), with positions that their owner gives. The rules: docs/protocols/adam.md.
//! Invariants: INV-CHANNEL-1 and 2 (`receiver.rs`). Tests: `tests.rs`.

mod receiver;
mod sender;
#[cfg(test)]
mod tests;

pub use receiver::{Heard, ReceiveConfig, Receiver};
pub use sender::{Copies, SendConfig, Sender};
