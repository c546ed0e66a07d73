//! What the tests with killed processes share: three `quorate serve` processes, clients that write down what they saw, and the
//! judgement at the end.

pub(crate) mod chains;
pub(crate) mod cluster;
pub(crate) mod evolve;
pub(crate) mod gaps;
pub(crate) mod links;
pub(crate) mod load;
pub(crate) mod random;
pub(crate) mod recorder;
pub(crate) mod scramble;
pub(crate) mod tmpfs;
pub(crate) mod verify;
