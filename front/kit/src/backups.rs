//! Backups: the whole state of a cluster in a file, for an operator's command and for clients of fronts.
//!
//! A backup is a full checkpoint. It is fetched as a replica that lacks it would fetch it (`making`), over an operator's connections
//! (`links`). Enough replicas must vouch for it (`vouchers`), and where they may lie they sign that (`proving`). Its file appears whole or not
//! at all (`new_file`).
//!
//! For clients of a front, the member that is asked fetches the backup from the present members. It makes one at a time, each on a thread
//! of its own, since each takes as much memory and disk as the state.
//!
//! Tests: `vouchers/tests.rs`, `proving/tests.rs`, `new_file/tests.rs`, front/etcd-grpc/src/saved/tests.rs; with processes front/cli/tests/all/backup.rs, and
//! with etcdctl front/cli/tests/all/etcd/.

mod links;
mod making;
mod new_file;
mod proving;
mod vouchers;

pub use links::{Absent, absent};
pub use making::{Made, Progress, Wanted, make, write_image};
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

/// The longest time without progress while a backup is made for a client.
const PATIENCE: Duration = Duration::from_secs(120);

/// Why no backup was made, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoBackup(String);

impl NoBackup {
    fn new(why: impl Into<String>) -> Self {
        Self(why.into())
    }
}

/// Makes a backup of the cluster, in a file that has no name any more; or says why it could not.
pub type MakeBackup = Box<dyn Fn() -> Result<File, String> + Send + Sync>;

/// Makes backups, one at a time. All clones act as one.
#[derive(Clone)]
pub struct Backups {
    make: Option<Arc<MakeBackup>>,
    one: Arc<Semaphore>,
}

/// Why no backup begins.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// This member makes no backups.
    #[error("this member makes no backups: ask another one")]
    None,
    /// A backup is being made.
    #[error("a backup is being made: try again when it is over")]
    Busy,
    /// The system refused a thread.
    #[error("starting a thread: {0}")]
    Thread(io::Error),
}

impl Backups {
    /// Backups by `make`; none if this member makes none.
    pub fn new(make: Option<MakeBackup>) -> Self {
        Self { make: make.map(Arc::new), one: Arc::new(Semaphore::new(1)) }
    }

    /// Begins a backup. Its thread calls `then` with the backup, or with the reason why there is none. `then` may take long to send it; no
    /// other backup begins before `then` returns.
    ///
    /// # Errors
    /// When no backup begins.
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

/// Makes backups of the cluster of the replica in this process, from its present members, with every acknowledged change. A backup lies in
/// `directory` while it is made. The directory is created for that, and anything that was left in it is removed.
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
        learners: Vec::new(),
        membership: None,
        keys: [].into(),
        fault_model: config.fault_model,
        faults: config.faults,
        era: 1,
        weighted: !config.heavy.is_empty(),
        // It sends only an operator's requests.
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

/// Makes a backup in this directory. Its file is gone when it is closed.
fn unnamed(cluster: &ClientFile, directory: &Path) -> Result<File, NoBackup> {
    discard(directory);
    let failed =
        |why: io::Error| NoBackup(format!("can not use the directory {}: {why}", directory.display()));
    fs::create_dir_all(directory).map_err(failed)?;
    let path = directory.join("backup");
    let mut file = NewFile::begin(&path).map_err(failed)?;
    // What clients of a front get is as good as what a member may learn of the others, which need not take it for an operator.
    let wanted = Wanted { fresh: true, patience: PATIENCE, unproved: true };
    make(cluster, &wanted, &mut file, &path, &|_| ())?;
    let made = File::open(&path).map_err(failed);
    discard(directory);
    made
}

/// Removes what a program left that was stopped while it made a backup. Best effort, since nothing uses it.
fn discard(directory: &Path) {
    let _ = fs::remove_dir_all(directory);
}
