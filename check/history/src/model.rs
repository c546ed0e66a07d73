//! A sequential object, and what may be known about its operations.
//!
//! A [`Model`] says what an object does when one operation follows another. That alone is enough to check a
//! history ([`crate::search::search`]). A [`Guide`] adds knowledge that keeps the search short; a wrong guide
//! makes wrong verdicts, so each rule of one needs an argument and a comparison with brute force.

use std::hash::Hash;

/// A sequential object: a register, a counter, a set, one key of a store.
pub trait Model {
    /// What the object holds. Equal states must behave alike for ever.
    type State: Clone + Eq + Hash;
    /// An operation together with the answer that the client got (or without one, if it got none).
    type Op;

    /// The state before the first operation.
    fn initial() -> Self::State;

    /// The state after `op`; `None` if `op` cannot have given its answer in `state`.
    fn step(state: &Self::State, op: &Self::Op) -> Option<Self::State>;
}

/// One operation of a history, as the search sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation<O> {
    /// The operation and its answer.
    pub op: O,
    /// When it was called.
    pub call: u64,
    /// When it returned; `None` if it may take effect at any time after `call`, or never.
    pub ret: Option<u64>,
}

/// What a guide knows about an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Nothing.
    Other,
    /// It changes no state, ever. If it is legal now, then doing it now loses nothing.
    Read,
    /// It is legal in every state (or need not happen), and the state after it does not depend on the one before.
    Overwrite,
    /// An overwrite that must happen and whose effect no other operation can notice. Where some overwrite may
    /// come next, a blind one may come just before it; so other overwrites need not be tried first.
    Blind,
}

/// Knowledge about the operations of one history. Operations are named by their position.
pub trait Guide<M: Model> {
    /// What is known about operation `op`.
    fn class(&self, op: usize) -> Class;

    /// Operation `op` was placed next. False if no order of the rest can be legal.
    fn advance(&mut self, op: usize, before: &M::State, after: &M::State) -> bool;

    /// Takes back the latest `advance` that was not yet taken back.
    fn retreat(&mut self, op: usize);
}

/// A guide that knows nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoGuide;

impl<M: Model> Guide<M> for NoGuide {
    fn class(&self, _op: usize) -> Class {
        Class::Other
    }

    fn advance(&mut self, _op: usize, _before: &M::State, _after: &M::State) -> bool {
        true
    }

    fn retreat(&mut self, _op: usize) {}
}
