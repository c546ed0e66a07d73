//! Backups: the whole state of a cluster in a file, for an operator's command and for clients of fronts.
//!
//! A backup is a full checkpoint, fetched as a replica that lacks it would (`making`), over connections of an operator (`links`), of what enough
//! replicas vouch for (`vouchers`), into a file that appears whole or not at all (`new_file`). A front has them made by the member that is asked,
//! of the members of that moment, one at a time, each on a thread of its own: each takes as much memory and disk as the state has.
//!
//! Tests: `vouchers/tests.rs`, `new_file/tests.rs`, front/etcd-grpc/src/saved/tests.rs; with processes front/cli/tests/all/backup.rs, and with etcdctl
//! front/cli/tests/all/etcd/.

mod links;
mod making;
mod new_file;
mod vouchers;

pub use links::{Absent, absent};
pub use making::{Made, Progress, Wanted, make};
pub use new_file::{NewFile, read_within, sync_directory_of};

use quorate::client::{Authentication, ClientFile, ClientFiles};
use quorate_runtime::{Config, ConfigError, Running};
use quorate_types::ReplicaId;
use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// How long nothing may move while a backup is made for a client.
const PATIENCE: Duration = Duration::from_secs(120);

/// Why there is no backup, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoBackup(String);

impl NoBackup {
    fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}

/// Makes a backup of the cluster; the file has no name any more. Or says why there is none.
pub type MakeBackup = Box<dyn Fn() -> Result<File, String> + Send + Sync>;

/// Makes backups, one at a time. Clones are the same one.
#[derive(Clone)]
pub struct Backups {
    make: Option<Arc<MakeBackup>>,
    one: Arc<Semaphore>,
}

/// Why no backup begins.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// This member makes none.
    #[error("this member makes no backups: ask another one")]
    None,
    /// One is being made.
    #[error("a backup is being made: try again when it is over")]
    Busy,
    /// The system refuses a thread.
    #[error("starting a thread: {0}")]
    Thread(io::Error),
}

impl Backups {
    /// Those that `make` makes.
    pub fn new(make: Option<MakeBackup>) -> Self {
        Self { make: make.map(Arc::new), one: Arc::new(Semaphore::new(1)) }
    }

    /// Begins one. When it is made, or can not be made, `then` gets it on that thread, and may take its time to send it: no other begins
    /// before that is over.
    ///
    /// # Errors
    /// Why none begins.
    pub fn begin(&self, then: impl FnOnce(Result<File, String>) + Send + 'static) -> Result<(), BackupError> {
        let make = self.make.clone().ok_or(BackupError::None)?;
        let place = self.one.clone().try_acquire_owned().map_err(|_| BackupError::Busy)?;
        let work = move || {
            then(make());
            drop(place);
        };
        let thread = std::thread::Builder::new().name("front-backup".into()).spawn(work);
        thread.map(drop).map_err(BackupError::Thread)
    }
}

/// Makes backups of the cluster of the replica that runs in this process, of the members of that moment, with everything that is acknowledged.
/// They lie in this directory as long as they are made, which is made for that; what was left in it is removed.
///
/// # Errors
/// When the configuration names no cluster.
pub(crate) fn of_member(
    config: &Config,
    running: &Running,
    directory: &Path,
) -> Result<MakeBackup, ConfigError> {
    discard(directory);
    let (asker, directory) = (running.asker(), directory.to_owned());
    let cluster = ClientFile {
        cluster: config.cluster_id()?,
        members: Vec::new(),
        fault_model: config.fault_model,
        faults: config.faults,
        // It asks as an operator only.
        authentication: Authentication::Links,
        tls: config.tls.clone().map(|client| ClientFiles { client, admin: None }),
    };
    let make = move || {
        let members = asker.ask().map(|status| status.membership.members).unwrap_or_default();
        let voters = members.into_iter().filter(|member| member.role == "voter");
        let members = voters.map(|member| (ReplicaId::new(member.replica), member.address)).collect();
        unnamed(&ClientFile { members, ..cluster.clone() }, &directory).map_err(|why| why.to_string())
    };
    Ok(Box::new(make))
}

/// Makes one in this directory, whose file is gone when it is closed.
fn unnamed(cluster: &ClientFile, directory: &Path) -> Result<File, NoBackup> {
    discard(directory);
    let failed =
        |why: io::Error| NoBackup(format!("can not use the directory {}: {why}", directory.display()));
    fs::create_dir_all(directory).map_err(failed)?;
    let path = directory.join("backup");
    let mut file = NewFile::begin(&path).map_err(failed)?;
    make(cluster, &Wanted { fresh: true, patience: PATIENCE }, &mut file, &path, &|_| ())?;
    let made = File::open(&path).map_err(failed);
    discard(directory);
    made
}

/// What a program left that was stopped while it made one. Best effort, since nothing uses it.
fn discard(directory: &Path) {
    let _ = fs::remove_dir_all(directory);
}
