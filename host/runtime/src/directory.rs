//! A replica's data directory: whose it is, whether it may be used, and what the last run left.
//!
//! ```text
//! identity.toml   whose directory this is; written once, by `init` or `dev`
//! fresh           the one-time mark: the log does not exist yet and may be made
//! run.toml        how the last run kept its data, whether it ended cleanly, and with what the log is executed
//! lock            held while a process uses the directory
//! log/            the segments
//! evidence/       what was proved against other replicas, if anything was
//! era.toml        which era is in force, if it is not the first one; era-2/ and so on have its log and checkpoints (`era.rs`)
//! chain/          what proves each membership to who knows the one before, where replicas may lie
//! ```

use crate::config::{Config, Durability};
use crate::era::{self, EraOnDisk};
use quorate_node::NextEra;
use quorate_types::{ClusterId, Incarnation};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// The version of this layout. A directory of a newer version is not touched.
const FORMAT: u32 = 1;

/// Why a directory can not be used. Each text says what to do.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// The system refused.
    #[error("the data directory {path}: {what}: {why}")]
    Io {
        /// The directory.
        path: PathBuf,
        /// What was being done.
        what: &'static str,
        /// The error of the system.
        why: io::Error,
    },
    /// There is no directory.
    #[error(
        "there is no data directory at {0}. A replica never makes its own: for a new cluster run `quorate init`. If this \
         replica ran before, its disk is lost: do not set it up again under the same id, since it could vote twice; bring \
         the directory back, or set up a replacement"
    )]
    Missing(PathBuf),
    /// The directory lacks what it must hold.
    #[error(
        "the data directory {0} was emptied: {1} is gone. This replica must not start from nothing under its old id, \
         since it could vote twice; bring the directory back, or set up a replacement"
    )]
    Emptied(PathBuf, &'static str),
    /// The directory belongs to another replica.
    #[error(
        "the data directory {path} belongs to {found}, the configuration says {expected}: correct `data`, `cluster` or `replica`"
    )]
    Foreign {
        /// The directory.
        path: PathBuf,
        /// Its owner.
        found: String,
        /// The replica that the configuration names.
        expected: String,
    },
    /// A newer program wrote it.
    #[error(
        "the data directory {path} has format {found}, this program knows up to {FORMAT}: use the newer program"
    )]
    Newer {
        /// The directory.
        path: PathBuf,
        /// Its format.
        found: u32,
    },
    /// A file in it is damaged.
    #[error(
        "the data directory {path}: {file} is damaged: {why}. Bring it back from a backup of this replica"
    )]
    Damaged {
        /// The directory.
        path: PathBuf,
        /// The file.
        file: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// Another process uses it.
    #[error(
        "the data directory {0} is in use by another process: stop that one first, or give this replica a directory of its own"
    )]
    InUse(PathBuf),
    /// `init` found files there.
    #[error("{0} exists and is not empty: choose another directory, or remove it if nothing in it is needed")]
    NotEmpty(PathBuf),
    /// The data of the last run was only in memory.
    #[error(
        "this replica ran with durability \"memory\", so what it had acknowledged ended with that process, and it must not \
         vote again under its id. Set up the cluster anew, or set up a replacement for this replica"
    )]
    MemoryLost,
    /// Data of the last run may have been only in the system's memory.
    #[error(
        "this replica ran with durability \"async\" and its machine restarted before the last writes were synced, so it may \
         have lost what it acknowledged and must not vote again under its id. Set up a replacement for this replica"
    )]
    AsyncLost,
    /// The last run had another durability, and either that one or the new one keeps nothing.
    #[error(
        "this replica ran with durability \"{before}\" and the configuration now says \"{now}\", which would leave what it has \
         promised out of account: put `mode` in `[durability]` back to \"{before}\". Durability \"memory\" needs a new cluster"
    )]
    ModeChanged {
        /// The durability of the last run.
        before: &'static str,
        /// The configured durability.
        now: &'static str,
    },
    /// Replaying the log would give another result than before.
    #[error(
        "`[service]`, `[sessions]`, `[oracle]` or `interval_bytes` (or one of the two beside it) in `[checkpoints]`, or `verify`, `extra_protection` or a \
         speculative executor in `[execution]`, differ from what this log was executed with: replaying it would give another result; put them back. If the configuration is as it was, this program executes differently: use the one that ran before"
    )]
    ExecutedDifferently,
}

/// Whose directory it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The cluster.
    pub cluster: ClusterId,
    /// The member.
    pub replica: u16,
    /// The incarnation of the directory.
    pub incarnation: Incarnation,
    /// Tells blocks of this log from those of others.
    pub log_id: u64,
    /// The cluster's agreed time at its beginning, in ns: the only wall-clock time that is ever read.
    pub start_time_ns: u64,
}

#[derive(Serialize, Deserialize)]
struct IdentityFile {
    format: u32,
    cluster: String,
    replica: u16,
    incarnation: String,
    log_id: String,
    start_time_ns: u64,
}

#[derive(Serialize, Deserialize)]
struct RunFile {
    durability: Durability,
    boot: String,
    clean: bool,
    /// A digest of the settings that execution depends on, 16 hexadecimal digits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    parameters: Option<String>,
}

/// A data directory that this process has locked.
#[derive(Debug)]
pub struct DataDirectory {
    path: PathBuf,
    identity: Identity,
    parameters: String,
    era: Option<EraOnDisk>,
    _lock: File,
}

impl DataDirectory {
    /// Makes a new directory; for `init` and `dev`.
    ///
    /// # Errors
    /// When the directory has files, or the system refuses.
    pub fn create(path: &Path, identity: &Identity) -> Result<(), DirectoryError> {
        let io = |what| move |why| DirectoryError::Io { path: path.to_owned(), what, why };
        fs::create_dir_all(path).map_err(io("making it"))?;
        if fs::read_dir(path).map_err(io("reading it"))?.next().is_some() {
            return Err(DirectoryError::NotEmpty(path.to_owned()));
        }
        let file = IdentityFile {
            format: FORMAT,
            cluster: identity.cluster.to_string(),
            replica: identity.replica,
            incarnation: identity.incarnation.to_string(),
            log_id: format!("{:016x}", identity.log_id),
            start_time_ns: identity.start_time_ns,
        };
        write_durably(path, "fresh", "").map_err(io("writing fresh"))?;
        let text = toml::to_string(&file).unwrap_or_default();
        write_durably(path, "identity.toml", &text).map_err(io("writing identity.toml"))
    }

    /// Opens and locks the directory of a replica with this configuration.
    ///
    /// # Errors
    /// Why the directory can not be used, and what to do.
    pub fn open(config: &Config) -> Result<Self, DirectoryError> {
        let path = config.data.clone();
        let io = |what| {
            let path = path.clone();
            move |why| DirectoryError::Io { path, what, why }
        };
        if !path.is_dir() {
            return Err(DirectoryError::Missing(path));
        }
        let lock = OpenOptions::new()
            .create(true)
            .truncate(false)
            .write(true)
            .open(path.join("lock"))
            .map_err(io("opening lock"))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| DirectoryError::InUse(path.clone()))?;
        let identity = read_identity(&path)?;
        let expected = (config.cluster.to_lowercase(), config.replica);
        if (identity.cluster.to_string(), identity.replica) != expected {
            return Err(DirectoryError::Foreign {
                path,
                found: format!("replica {} of cluster {}", identity.replica, identity.cluster),
                expected: format!("replica {} of cluster {}", expected.1, expected.0),
            });
        }
        let configured = config.me().map(|me| me.incarnation.to_lowercase());
        if configured != Some(identity.incarnation.to_string()) {
            return Err(DirectoryError::Foreign {
                path,
                found: format!("incarnation {}", identity.incarnation),
                expected: format!("incarnation {}", configured.unwrap_or_default()),
            });
        }
        let parameters = format!("{:016x}", config.execution(identity.start_time_ns));
        let era = EraOnDisk::read(&path)?;
        let directory = Self { path, identity, parameters, era, _lock: lock };
        directory.check_last_run(config.durability.mode)?;
        Ok(directory)
    }

    /// What the last run noted; `None` in a directory that was never used.
    fn last_run(&self) -> Result<Option<RunFile>, DirectoryError> {
        let text = match fs::read_to_string(self.path.join("run.toml")) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(why) => return Err(self.io("reading run.toml", why)),
        };
        toml::from_str(&text).map(Some).map_err(|why| DirectoryError::Damaged {
            path: self.path.clone(),
            file: "run.toml",
            why: why.to_string(),
        })
    }

    fn check_last_run(&self, now: Durability) -> Result<(), DirectoryError> {
        let Some(run) = self.last_run()? else {
            // It is written before the mark is removed.
            return match self.is_fresh() {
                true => Ok(()),
                false => Err(DirectoryError::Emptied(self.path.clone(), "run.toml")),
            };
        };
        match run.durability {
            Durability::Memory => return Err(DirectoryError::MemoryLost),
            // Memory mode begins with an empty log, whatever is on the disk: it would forget its votes.
            before if now == Durability::Memory => {
                return Err(DirectoryError::ModeChanged { before: before.name(), now: now.name() });
            }
            Durability::Async if !run.clean && run.boot != boot_id() => {
                return Err(DirectoryError::AsyncLost);
            }
            Durability::Async | Durability::Group => {}
        }
        match run.parameters {
            Some(before) if before != self.parameters => Err(DirectoryError::ExecutedDifferently),
            _ => Ok(()),
        }
    }

    /// The era, if it is not the first one.
    pub fn era(&self) -> Option<&EraOnDisk> {
        self.era.as_ref()
    }

    /// Where the log and the checkpoints of the present era lie.
    fn place(&self) -> PathBuf {
        era::place(&self.path, self.era.as_ref().map_or(1, |era| era.notice.era.number))
    }

    /// Makes another era durable, which counts from then on; see `era.rs`.
    pub(crate) fn enter(&self, next: &NextEra, segment_bytes: u64) -> Result<(), DirectoryError> {
        era::enter(&self.path, next, segment_bytes).map_err(|why| self.io("entering another era", why))
    }

    /// Deletes what is left of other eras.
    pub(crate) fn clean(&self) {
        era::clean(&self.path, self.era.as_ref().map_or(1, |era| era.notice.era.number));
    }

    /// Whose directory it is.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The directory of the segments; made if it does not exist.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn log_directory(&self) -> Result<PathBuf, DirectoryError> {
        let log = self.place().join("log");
        fs::create_dir_all(&log).map_err(|why| self.io("making log", why))?;
        Ok(log)
    }

    /// The directory of the checkpoints; [`crate::CheckpointFiles`] makes it.
    pub fn checkpoint_directory(&self) -> PathBuf {
        self.place().join("checkpoints")
    }

    /// Whether the log may be made, since this directory was never used.
    pub fn is_fresh(&self) -> bool {
        self.path.join("fresh").exists()
    }

    /// Notes that the log was made: from now on a missing log is a lost one.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn used(&self) -> Result<(), DirectoryError> {
        match fs::remove_file(self.path.join("fresh")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
        .and_then(|()| File::open(&self.path)?.sync_all())
        .map_err(|why| self.io("removing fresh", why))
    }

    /// The error for a directory that has lost its log.
    pub fn emptied(&self) -> DirectoryError {
        DirectoryError::Emptied(self.path.clone(), "the log")
    }

    /// Notes the durability of this run, before the first message leaves; and again, with `clean`, at its end.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn note_run(&self, durability: Durability, clean: bool) -> Result<(), DirectoryError> {
        // With group durability nothing depends on how a run ended. So a replica starts also when not a byte is left.
        let parameters = Some(self.parameters.clone());
        let same = |run: RunFile| run.durability == Durability::Group && run.parameters == parameters;
        if durability == Durability::Group && self.last_run()?.is_some_and(same) {
            return Ok(());
        }
        let run = RunFile { durability, boot: boot_id(), clean, parameters };
        let text = toml::to_string(&run).unwrap_or_default();
        write_durably(&self.path, "run.toml", &text).map_err(|why| self.io("writing run.toml", why))
    }

    fn io(&self, what: &'static str, why: io::Error) -> DirectoryError {
        DirectoryError::Io { path: self.path.clone(), what, why }
    }
}

fn read_identity(path: &Path) -> Result<Identity, DirectoryError> {
    #[derive(Deserialize)]
    struct Format {
        format: u32,
    }
    let damaged = |why: String| DirectoryError::Damaged { path: path.to_owned(), file: "identity.toml", why };
    let text = match fs::read_to_string(path.join("identity.toml")) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Err(DirectoryError::Emptied(path.to_owned(), "identity.toml"));
        }
        Err(why) => {
            return Err(DirectoryError::Io { path: path.to_owned(), what: "reading identity.toml", why });
        }
    };
    let Format { format } = toml::from_str(&text).map_err(|why| damaged(why.to_string()))?;
    if format > FORMAT {
        return Err(DirectoryError::Newer { path: path.to_owned(), found: format });
    }
    let file: IdentityFile = toml::from_str(&text).map_err(|why| damaged(why.to_string()))?;
    let ids = || {
        Some(Identity {
            cluster: ClusterId::parse(&file.cluster)?,
            replica: file.replica,
            incarnation: Incarnation::parse(&file.incarnation)?,
            log_id: u64::from_str_radix(&file.log_id, 16).ok()?,
            start_time_ns: file.start_time_ns,
        })
    };
    ids().ok_or_else(|| damaged("an id is none".into()))
}

/// Replaces a file so that after a crash either the old or the new one is there, complete.
pub(crate) fn write_durably(directory: &Path, name: &str, text: &str) -> io::Result<()> {
    let unfinished = directory.join(format!("{name}.unfinished"));
    let mut file = File::create(&unfinished)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&unfinished, directory.join(name))?;
    File::open(directory)?.sync_all()
}

/// An id that changes whenever the machine restarts.
fn boot_id() -> String {
    fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}
