//! `quorate backup`: the whole state of a cluster in one file, and a new cluster from such a file.
//!
//! A backup is a full checkpoint (docs/formats/checkpoint.md), the same bytes that a replica writes: what the replicas agree on at a
//! border, vouched for by the digest that a majority of them reports. `create` fetches it as a replica that lacks it would,
//! every part verified, from all replicas at once.
//!
//! | module | what it does |
//! | --- | --- |
//! | `create` | what is agreed, fetched, written |
//! | `links` | the connections to the replicas |
//! | `vouchers` | who said what of which checkpoint |
//! | `file` | a file that appears whole or not at all, and one that is only read |
//! | `look` | `verify` and `show` |
//! | `restore` | a new cluster whose first state is the backup |
//! | `facts` | what a backup says of itself, for people and programs |
//!
//! Tests: `vouchers/tests.rs`, `facts/tests.rs`, tests/backup.rs with real processes.

mod create;
mod facts;
mod file;
mod links;
mod look;
mod progress;
mod restore;
mod vouchers;

use clap::Subcommand;
use file::NewFile;
use progress::Progress;
use quorate_command::cluster::Cluster;
use quorate_command::failure::{Doing as _, Outcome};
use std::fs::{self, File};
use std::path::Path;
use std::time::Duration;

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

/// How long nothing may move while a backup is made for a client of etcd.
const PATIENCE: Duration = Duration::from_secs(120);

/// Makes a backup with everything that is acknowledged. The file lies in this directory, which is made for it, and has no name any more:
/// it is gone when it is closed.
///
/// # Errors
/// Says why there is none.
pub(crate) fn unnamed(cluster: &Cluster, directory: &Path) -> Outcome<File> {
    discard(directory);
    fs::create_dir_all(directory).doing(format_args!("make {}", directory.display()))?;
    let path = directory.join("backup");
    let mut file = NewFile::begin(&path).doing(format_args!("make {}", path.display()))?;
    let wanted = create::Wanted { fresh: true, patience: PATIENCE };
    create::make(cluster, &wanted, &mut file, &path, &Progress::silent())?;
    let made = File::open(&path).doing(format_args!("read {}", path.display()));
    discard(directory);
    made
}

/// What a program left that was stopped while it made one. Best effort, since nothing uses it.
pub(crate) fn discard(directory: &Path) {
    let _ = fs::remove_dir_all(directory);
}
