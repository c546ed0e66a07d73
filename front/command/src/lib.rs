//! What the commands of the program share: those for operators (`front/cli`) and those of the laboratory (`front/lab`).
//!
//! `cluster` finds the cluster that is meant, `admin` asks its replicas for their status, `layout` makes the directories of a new one, and
//! `authority` its certificates. `ordering` has the arguments that say how replicas agree. `machine`, `progress` and `print` make what
//! people see, `nameless` files for measurements. `failure` is how a command ends without success: a text that says what happened, why, and what to do; and an exit code (1,
//! or 2 for a wrong command line or configuration). Tests: front/cli/tests, with the real program.

pub mod admin;
pub mod arguments;
pub mod authority;
pub mod cluster;
pub mod execution;
pub mod failure;
pub mod layout;
pub mod machine;
pub mod nameless;
pub mod oracle;
pub mod ordering;
pub mod print;
pub mod progress;
pub mod random;
