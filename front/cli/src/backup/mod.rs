//! `quorate backup`: the whole state of a cluster in one file, and a new cluster from such a file.
//!
//! A backup is a full checkpoint (docs/formats/checkpoint.md), the same bytes that a replica writes: what the replicas agree on at a
//! border, vouched for by the digest that a majority of them reports. `quorate_kit::backups` fetches it as a replica that lacks it would,
//! every part verified, from all replicas at once; for clients of fronts, too.
//!
//! | module | what it does |
//! | --- | --- |
//! | `create` | has one made |
//! | `file` | one that is there |
//! | `look` | `verify` and `show` |
//! | `restore` | a new cluster whose first state is the backup |
//! | `facts` | what a backup says of itself, for people and programs |
//!
//! Tests: `facts/tests.rs`, tests/backup.rs with real processes.

mod create;
mod facts;
mod file;
mod look;
mod progress;
mod restore;

use clap::Subcommand;
use quorate_command::failure::Outcome;

/// Write the state of a cluster to a file, check such a file, or begin a new cluster with it.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Create(create::Args),
    Restore(restore::Args),
    Verify(look::VerifyArgs),
    Show(look::ShowArgs),
}

pub(crate) fn run(args: Args) -> Outcome {
    match args.action {
        Action::Create(args) => create::run(&args),
        Action::Restore(args) => restore::run(args),
        Action::Verify(args) => look::verify(&args),
        Action::Show(args) => look::show(&args),
    }
}
