//! The thread for rare and small work with files: it checks the certificates and the space on the disk, reads new signing keys, and writes the
//! audit log, and files of evidence and of membership links. It also asks the lane for the replica's problems, and logs which began and which
//! ended.
//!
//! Certificates are read again when their files change, or on request. New connections then use the new ones; files that do not work change
//! nothing. The audit log is `audit.jsonl` in the data directory, one JSON document a line (docs/security.md).
//! Tests: `clerk/tests.rs`.

use crate::config::{Config, NewKeys};
use crate::disk::Quota;
use crate::disk_thread::{Completion, Mailbox};
use crate::kept_files::KeptFiles;
use crate::{chain_files, evidence};
use bytes::Bytes;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TrySendError, bounded};
use quorate_tls::{Credentials, Watched};
use serde::Serialize;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use troubles::{News, Troubles};

mod troubles;

#[cfg(test)]
mod tests;

/// How often the files of certificates are checked; a change is read once two checks in a row find it.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// How long the lane may take to say which problems there are.
const SILENCE: Duration = Duration::from_secs(1);
/// How many days before a certificate expires the replica warns.
pub(crate) const WARN_DAYS: i64 = 30;
/// Below this much free space, in bytes, or below a twentieth of a small disk, the replica warns.
const LITTLE_ROOM: u64 = 1 << 30;
const DAY: Duration = Duration::from_secs(24 * 3600);
/// The most entries that wait to be written. Further ones are not recorded, which is logged.
const ERRANDS_MAX: usize = 1024;
/// The size at which a new file of the audit log is begun, in bytes; and the number of older files that are kept.
const AUDIT_BYTES_MAX: u64 = 8 << 20;
const AUDIT_FILES: u32 = 4;

/// An operator's action.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Act {
    /// The operator, by the certificate.
    pub(crate) who: String,
    /// The operator's address.
    pub(crate) from: String,
    /// The request.
    pub(crate) what: String,
    /// Its result.
    pub(crate) outcome: String,
}

/// Work for the clerk.
#[derive(Debug)]
pub(crate) enum Errand {
    /// Read the certificates now.
    Look,
    /// Record this action.
    Note(Act),
    /// Keep this evidence in a file of this name.
    Keep(String, Bytes),
    /// Keep this membership link in a file of this name.
    Link(String, Bytes),
    /// Stop; nothing follows.
    Stop,
}

/// Sends work to the clerk.
#[derive(Clone, Debug)]
pub(crate) struct Errands(Sender<Errand>);

impl Errands {
    pub(crate) fn look(&self) {
        // One that waits already will do.
        let _ = self.0.try_send(Errand::Look);
    }

    pub(crate) fn note(&self, act: Act) {
        if let Err(TrySendError::Full(Errand::Note(act))) = self.0.try_send(Errand::Note(act)) {
            tracing::error!(
                "not recorded, since too much is at once: {} did {}: {}",
                act.who,
                act.what,
                act.outcome
            );
        }
    }
}

/// The space on the disk of the data directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct DiskRoom {
    /// Bytes that this process may still write.
    pub(crate) free_bytes: u64,
    /// Size of the disk in bytes.
    pub(crate) total_bytes: u64,
}

impl DiskRoom {
    /// Asks the system, which may take long.
    fn of(directory: &Path) -> Option<Self> {
        let stat = rustix::fs::statvfs(directory).ok()?;
        let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
        Some(Self { free_bytes: bytes(stat.f_bavail), total_bytes: bytes(stat.f_blocks) })
    }

    /// The problem to report when there is little space. `full`: the log has said already that there is none.
    pub(crate) fn problem(&self, full: bool) -> Option<String> {
        let little = LITTLE_ROOM.min(self.total_bytes / 20);
        (self.free_bytes < little && !full).then(|| {
            format!(
                "the disk of this replica has only {} MiB left: free space before it is full and writes are refused (`quorate doctor` \
                 says what the configuration needs)",
                self.free_bytes >> 20
            )
        })
    }
}

/// The space when it was last checked.
#[derive(Debug, Default)]
struct Seen {
    free_bytes: AtomicU64,
    total_bytes: AtomicU64,
    /// The problems with evidence and membership links that could not be written.
    unwritten: Mutex<[Option<String>; 2]>,
}

/// The thread's handle.
pub(crate) struct Clerk {
    seen: Arc<Seen>,
    errands: Option<Errands>,
    thread: Option<JoinHandle<()>>,
}

impl Clerk {
    /// Starts the thread, with the certificates in force if connections are not plain.
    pub(crate) fn start(
        (config, quota): (&Config, Option<Quota>),
        watched: Option<Watched>,
        mailbox: Mailbox,
    ) -> io::Result<Self> {
        let (sender, receiver) = bounded(ERRANDS_MAX);
        let (data, keys) = (&config.data, config.signing.as_ref());
        let keys = keys.map(|signing| NewKeys::beside(&signing.key));
        let (audit, evidence, links) =
            (Audit::new(data.join("audit.jsonl")), evidence::files(data), chain_files::files(data));
        let (seen, data) = (Arc::new(Seen::default()), data.to_owned());
        let room = Room { data, quota, seen: seen.clone() };
        let thread = std::thread::Builder::new().name("clerk".into()).spawn(move || {
            let (warned, troubles) = (None, Troubles::default());
            Work { watched, keys, audit, evidence, links, room, mailbox, warned, troubles }.run(&receiver)
        })?;
        Ok(Self { seen, errands: Some(Errands(sender)), thread: Some(thread) })
    }

    pub(crate) fn errands(&self) -> Option<&Errands> {
        self.errands.as_ref()
    }

    /// The space on the disk when it was last checked.
    pub(crate) fn disk(&self) -> DiskRoom {
        let load = |bytes: &AtomicU64| bytes.load(Ordering::Relaxed);
        DiskRoom { free_bytes: load(&self.seen.free_bytes), total_bytes: load(&self.seen.total_bytes) }
    }

    /// Keeps evidence in a file of this name. `text` says what it proves.
    pub(crate) fn keep(&self, text: &str, name: String, bytes: Bytes) {
        tracing::error!("{text}: proved, `quorate evidence show {name}`");
        if let Some(Errands(sender)) = &self.errands
            && sender.try_send(Errand::Keep(name, bytes)).is_err()
        {
            tracing::error!(
                "this evidence is not written to a file, since too much is at once: fetch it from this replica"
            );
        }
    }

    /// Keeps a membership link in a file of this name. One that gets no file is fetched from other members after a restart.
    pub(crate) fn keep_link(&self, name: String, bytes: Bytes) {
        if let Some(Errands(sender)) = &self.errands
            && sender.try_send(Errand::Link(name, bytes)).is_err()
        {
            tracing::error!("a membership link is not written to a file, since too much is at once");
        }
    }

    /// The problems with evidence and membership links that could not be written.
    pub(crate) fn unwritten(&self) -> [Option<String>; 2] {
        self.seen.unwritten.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Ends the thread once all recorded actions are written.
    pub(crate) fn stop(&mut self) {
        if let (Some(Errands(sender)), Some(thread)) = (self.errands.take(), self.thread.take()) {
            // It fails only if the thread has panicked, which said so itself.
            let _ = sender.send(Errand::Stop);
            let _ = thread.join();
        }
    }
}

/// Where to check the space, and where to report it.
struct Room {
    data: PathBuf,
    /// What the replica may use of it, if that is limited.
    quota: Option<Quota>,
    seen: Arc<Seen>,
}

impl Room {
    fn look(&self) {
        if let Some(DiskRoom { free_bytes, total_bytes }) = DiskRoom::of(&self.data) {
            let left = self.quota.as_ref().and_then(Quota::left).unwrap_or(free_bytes);
            self.seen.free_bytes.store(free_bytes.min(left), Ordering::Relaxed);
            self.seen.total_bytes.store(total_bytes, Ordering::Relaxed);
        }
    }
}

struct Work {
    watched: Option<Watched>,
    keys: Option<NewKeys>,
    audit: Audit,
    evidence: KeptFiles,
    links: KeptFiles,
    room: Room,
    mailbox: Mailbox,
    /// When the last warning about a certificate was given.
    warned: Option<SystemTime>,
    troubles: Troubles,
}

impl Work {
    fn run(mut self, errands: &Receiver<Errand>) {
        loop {
            self.warn(SystemTime::now());
            self.room.look();
            *self.room.seen.unwritten.lock().unwrap_or_else(PoisonError::into_inner) =
                [evidence::problem(&self.evidence), chain_files::problem(&self.links)];
            match errands.recv_timeout(LOOK_EVERY) {
                Ok(Errand::Look) => self.look(true),
                Ok(Errand::Note(act)) => self.audit.note(&act),
                Ok(Errand::Keep(name, bytes)) => self.evidence.keep(name, bytes),
                Ok(Errand::Link(name, bytes)) => self.links.keep(name, bytes),
                Err(RecvTimeoutError::Timeout) => {
                    self.look(false);
                    self.look_at_keys();
                    self.evidence.write();
                    self.links.write();
                    self.tell_problems();
                }
                Ok(Errand::Stop) | Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn look(&mut self, asked: bool) {
        let Some(watched) = &mut self.watched else { return };
        let outcome = match watched.look(asked) {
            None => return,
            Some(Ok(credentials)) => {
                let text = shown(&credentials);
                tracing::info!("new connections use the certificate {text}");
                self.mailbox.send(Completion::Credentials(credentials));
                self.warned = None;
                format!("in force: {text}")
            }
            Some(Err(why)) => {
                tracing::error!("the certificates were not replaced, those before stay in force: {why}");
                format!("error: those before stay in force: {why}")
            }
        };
        let who = if asked { "this machine, by a signal" } else { "this machine, by changed files" };
        let (who, what) = (who.to_owned(), "read certificates".to_owned());
        self.audit.note(&Act { who, from: String::new(), what, outcome });
    }

    /// A new file of a key is read once. A key that is not this replica's yet does no harm.
    fn look_at_keys(&mut self) {
        for found in self.keys.iter_mut().flat_map(NewKeys::look) {
            let outcome = match found {
                Ok(key) => {
                    self.mailbox.send(Completion::Secret(key.secret()));
                    format!("held: {}", key.public())
                }
                Err(why) => {
                    tracing::error!("{why}");
                    format!("error: {why}")
                }
            };
            let (who, what) = ("this machine, by a new file".to_owned(), "read a signing key".to_owned());
            self.audit.note(&Act { who, from: String::new(), what, outcome });
        }
    }

    /// Logs which problems began, and which ended. A lane that is silent now is asked the next time.
    fn tell_problems(&mut self) {
        let (asker, answer) = bounded(1);
        self.mailbox.send(Completion::AskedAll(asker));
        let Ok(status) = answer.recv_timeout(SILENCE) else { return };
        for news in self.troubles.look(status.node.problems) {
            match news {
                News::Began(problem) => tracing::warn!("problem: {problem}"),
                News::Over(problem) => tracing::info!("over: {problem}"),
            }
        }
    }

    /// Warns once a day of a certificate that expires soon.
    fn warn(&mut self, now: SystemTime) {
        let Some(watched) = &self.watched else { return };
        let recently = |at: SystemTime| now.duration_since(at).is_ok_and(|since| since < DAY);
        if self.warned.is_some_and(recently) {
            return;
        }
        self.warned = Some(now);
        for problem in ending(watched.current(), now) {
            tracing::warn!("{problem}");
        }
    }
}

fn shown(credentials: &Credentials) -> String {
    let certificate = credentials.certificate();
    let days = certificate.days_left(SystemTime::now());
    format!("{} of {}, which holds for {days} days", certificate.serial, credentials.identity().holder)
}

/// What expires soon, and what to do about it.
pub(crate) fn ending(credentials: &Credentials, now: SystemTime) -> Vec<String> {
    let mut problems = Vec::new();
    let own = credentials.certificate().days_left(now);
    if own < 0 {
        problems.push("the certificate of this replica has expired: nobody can connect. Renew it (`quorate cert renew`)".into());
    } else if own < WARN_DAYS {
        problems.push(format!(
            "the certificate of this replica expires in {own} days: renew it (`quorate cert renew`)"
        ));
    }
    let authority = credentials.authority_days_left(now);
    if authority < WARN_DAYS {
        problems.push(format!(
            "an authority that this replica trusts ends in {authority} days: replace it (docs/operations/certificates.md)"
        ));
    }
    problems
}

/// The audit log.
struct Audit {
    path: PathBuf,
    bytes_max: u64,
}

impl Audit {
    fn new(path: PathBuf) -> Self {
        Self { path, bytes_max: AUDIT_BYTES_MAX }
    }

    fn note(&self, act: &Act) {
        if let Err(error) = self.write(act, SystemTime::now()) {
            tracing::error!(
                "{} did {} from {} ({}), which can not be recorded in {}: {error}. Free space, or look after the disk",
                act.who,
                act.what,
                act.from,
                act.outcome,
                self.path.display()
            );
        }
    }

    fn write(&self, act: &Act, now: SystemTime) -> io::Result<()> {
        #[derive(Serialize)]
        struct Line<'a> {
            time: String,
            #[serde(flatten)]
            act: &'a Act,
        }
        let time = OffsetDateTime::from(now).format(&Rfc3339).unwrap_or_default();
        let mut line = serde_json::to_vec(&Line { time, act })?;
        line.push(b'\n');
        let mut file = self.open()?;
        if file.metadata()?.len() >= self.bytes_max {
            self.rotate()?;
            file = self.open()?;
        }
        file.write_all(&line)?;
        file.sync_data()
    }

    fn open(&self) -> io::Result<File> {
        OpenOptions::new().create(true).append(true).open(&self.path)
    }

    fn numbered(&self, number: u32) -> PathBuf {
        self.path.with_extension(format!("{number}.jsonl"))
    }

    fn rotate(&self) -> io::Result<()> {
        for number in (1..AUDIT_FILES).rev() {
            match fs::rename(self.numbered(number), self.numbered(number + 1)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        fs::rename(&self.path, self.numbered(1))
    }
}

/// The part of a replica's status about its certificates.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct TlsStatus {
    /// The holder of the certificate.
    identity: String,
    /// The serial number of the certificate.
    serial: String,
    /// Whole days until the certificate expires.
    expires_in_days: i64,
    /// Whole days until the first of the trusted authorities expires.
    authority_expires_in_days: i64,
    #[serde(skip)]
    problems: Vec<String>,
}

impl TlsStatus {
    pub(crate) fn of(credentials: &Arc<Credentials>) -> Self {
        let now = SystemTime::now();
        Self {
            identity: credentials.identity().uri(),
            serial: credentials.certificate().serial.clone(),
            expires_in_days: credentials.certificate().days_left(now),
            authority_expires_in_days: credentials.authority_days_left(now),
            problems: ending(credentials, now),
        }
    }

    pub(crate) fn problems(&self) -> impl Iterator<Item = String> {
        self.problems.iter().cloned()
    }
}
