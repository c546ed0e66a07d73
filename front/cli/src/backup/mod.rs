//! `quorate backup`: writes the whole state of a cluster to one file, and makes a new cluster from such a file.
//!
//! A backup is a full checkpoint (docs/formats/checkpoint.md), with the same bytes that a replica writes: the state that the replicas agree
//! on at a border, with the digest that a majority of them reports. `quorate_kit::backups` fetches it from all replicas at once and
//! verifies every part, as a replica that lacks it would; clients of fronts use it too.
//!
//! | module | what it does |
//! | --- | --- |
//! | `create` | has one made |
//! | `file` | one that is there |
//! | `look` | `verify` and `show` |
//! | `proof` | who signed it, and whether that proves it |
//! | `restore` | a new cluster whose first state is the backup |
//! | `prune` | deletes those that are older than needed |
//! | `keep` | which those are |
//! | `facts` | what a backup says of itself, for people and programs |
//!
//! Tests: `facts/tests.rs`, `keep/tests.rs`, `proof/tests.rs`, `prune/tests.rs`; tests/all/backup.rs and tests/all/proved.rs with real processes.

mod create;
mod facts;
mod file;
mod keep;
mod look;
mod progress;
mod proof;
mod prune;
mod restore;

use clap::Subcommand;
pub(crate) use look::load;
pub(crate) use progress::Progress;
use quorate_command::failure::Outcome;
use quorate_types::ReplicaId;

/// Write the state of a cluster to a file, check such a file, begin a new cluster with it, or delete old ones.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Create(create::Args),
    Restore(Box<restore::Args>),
    Verify(look::VerifyArgs),
    Show(look::ShowArgs),
    Prune(prune::Args),
}

pub(crate) fn run(args: Args) -> Outcome {
    match args.action {
        Action::Create(args) => create::run(&args),
        Action::Restore(args) => restore::run(*args),
        Action::Verify(args) => look::verify(&args),
        Action::Show(args) => look::show(&args),
        Action::Prune(args) => prune::run(&args),
    }
}

/// The names of replicas, in one line.
fn names(replicas: &[ReplicaId]) -> String {
    replicas.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}
