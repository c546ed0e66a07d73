//! What the commands of the program share, be they an operator's (`front/cli`) or the laboratory's (`front/lab`).
//!
//! `cluster` finds the cluster that is meant, `admin` asks its replicas how they are, `layout` makes the directories of a new one, and
//! `authority` its certificates. `ordering` has the choices of how replicas agree, as arguments. `machine`, `progress` and `print` are
//! what people see, `failure` how a command ends without success: what happened, why, what to do, and an exit code (1, or 2 for a wrong
//! command line or configuration). Tests: front/cli/tests, with the real program.

pub mod admin;
pub mod arguments;
pub mod authority;
pub mod cluster;
pub mod failure;
pub mod layout;
pub mod machine;
pub mod ordering;
pub mod parent;
pub mod print;
pub mod progress;
pub mod random;
