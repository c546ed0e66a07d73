//! Backups for clients: what `quorate backup create` makes, of the cluster as the asked member sees it.
//!
//! How one is made is the program's business. Here they are made one at a time, each on a thread of its own: each takes as much memory and
//! disk as the state has. Tests: front/etcd-grpc/src/saved/tests.rs, and with etcdctl front/cli/tests/all/etcd/.

use std::fs::File;
use std::io;
use std::sync::Arc;
use tokio::sync::Semaphore;

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
