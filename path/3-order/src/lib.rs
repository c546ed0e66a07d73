//! Stage 3: agree on one batch per slot, inside one instance.
