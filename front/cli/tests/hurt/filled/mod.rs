//! What the tests of checkpoints at rest and on the way share: clusters with small checkpoints, state to fill them, what their
//! status says of them, and ways to damage them.

pub(crate) mod damage;
pub(crate) mod filling;
pub(crate) mod looking;
pub(crate) mod settings;
