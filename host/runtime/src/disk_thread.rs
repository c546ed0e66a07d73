//! The threads that use the disk, so that a lane never waits for it: one writes and syncs, the other prepares segments and reads old
//! records.

use crate::disk::Disk;
use crate::lane::WholeStatus;
use bytes::Bytes;
use crossbeam_channel::{Receiver, Sender, unbounded};
use mio::Waker;
use quorate_auth::Secret;
use quorate_execute::Worked;
use quorate_log::{DiskFull, Extent, LogEffect, Rot, ScrubOk, SyncId, Write, WriteId};
use quorate_node::{NodeStatus, SegmentScrub};
use quorate_order::visigoth::OracleAnswer;
use quorate_state::checkpoint::Report;
use quorate_tls::Credentials;
use quorate_types::{InstanceId, ReplicaId};
use rustix::io::Errno;
use std::io;
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

#[cfg(test)]
mod tests;

/// How long to wait with a read after too many files were open.
const READ_AGAIN: Duration = Duration::from_millis(20);
/// How long nothing is logged about a segment that could not be prepared, once that was logged: the node asks again twice a second.
const WARN_AGAIN: Duration = Duration::from_secs(10);

/// What the other threads tell the lane.
#[derive(Debug)]
pub(crate) enum Completion {
    Written(WriteId),
    Synced(SyncId),
    Prepared {
        segment: u64,
        result: Result<(), DiskFull>,
    },
    Loaded {
        load: u64,
        records: Vec<Bytes>,
    },
    Scrubbed {
        segment: u64,
        result: Result<ScrubOk, Rot>,
    },
    /// A report of the keeper.
    Kept(Report),
    /// A worker checked signatures, or none did.
    Checked {
        id: u64,
        right: Option<Vec<bool>>,
    },
    /// Workers ran commands, or did not.
    Worked(Worked),
    /// The oracle answered.
    Oracle {
        instance: InstanceId,
        answer: OracleAnswer,
    },
    /// The disk can not be trusted any more.
    Failed(String),
    /// The addresses of a member, or why there are none.
    Resolved {
        replica: ReplicaId,
        /// The connection that is to be made: its link number.
        link: u16,
        addresses: Vec<SocketAddr>,
    },
    /// The certificates of new connections from now on.
    Credentials(Arc<Credentials>),
    /// A signing key of this replica, whose file is new.
    Secret(Secret),
    /// The health endpoint asks for the status of the node.
    Asked(Sender<NodeStatus>),
    /// It asks for all that is known of the replica.
    AskedAll(Sender<Box<WholeStatus>>),
}

/// Hands completions to the lane and wakes it.
#[derive(Clone)]
pub(crate) struct Mailbox {
    sender: Sender<Completion>,
    waker: Arc<Waker>,
}

impl Mailbox {
    pub(crate) fn new(waker: Arc<Waker>) -> (Self, Receiver<Completion>) {
        // Bounded by what the lane asked for: it has few writes in flight, few loads, and a limited number of signatures with workers.
        let (sender, receiver) = unbounded();
        (Self { sender, waker }, receiver)
    }

    pub(crate) fn send(&self, completion: Completion) {
        // Neither fails but when the lane has ended, and then nobody waits for the answer.
        let _ = self.sender.send(completion);
        let _ = self.waker.wake();
    }
}

/// Tells the lane if the thread that holds it panics: without that thread nothing becomes durable, and it would go unnoticed.
pub(crate) struct Watch {
    pub(crate) mailbox: Mailbox,
    pub(crate) why: &'static str,
}

impl Drop for Watch {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.mailbox.send(Completion::Failed(self.why.to_owned()));
        }
    }
}

enum Job {
    Write(Write),
    Sync { id: SyncId, segments: Vec<u64> },
}

enum SideJob {
    Prepare { segment: u64, bytes: u64 },
    Load { load: u64, extents: Vec<Extent> },
    Remove { segments: Range<u64> },
    Scrub(SegmentScrub),
}

/// The lane's end of both threads. Dropping it ends them after their queued work.
pub(crate) struct DiskThreads {
    jobs: Sender<Job>,
    side_jobs: Sender<SideJob>,
    segment_bytes: u64,
    ending: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl DiskThreads {
    pub(crate) fn start(disk: &Arc<dyn Disk>, segment_bytes: u64, mailbox: &Mailbox) -> io::Result<Self> {
        let (jobs, receiver) = unbounded();
        let (side_jobs, side_receiver) = unbounded();
        let spawn = |name: &str, run: Box<dyn FnOnce() + Send>| {
            std::thread::Builder::new().name(name.to_owned()).spawn(run)
        };
        let (writer_disk, writer_mailbox) = (disk.clone(), mailbox.clone());
        let (side_disk, side_mailbox) = (disk.clone(), mailbox.clone());
        let ending = Arc::new(AtomicBool::new(false));
        let side_ending = ending.clone();
        let threads = vec![
            spawn(
                "log-writer",
                Box::new(move || {
                    let (mailbox, why) = (writer_mailbox.clone(), "the thread that writes the log panicked");
                    let _watch = Watch { mailbox, why };
                    run_writer(&*writer_disk, &receiver, &writer_mailbox);
                }),
            )?,
            spawn(
                "log-helper",
                Box::new(move || {
                    let (mailbox, why) =
                        (side_mailbox.clone(), "the thread that reads the log back panicked");
                    let _watch = Watch { mailbox, why };
                    run_helper(&*side_disk, &side_receiver, &side_mailbox, &side_ending);
                }),
            )?,
        ];
        Ok(Self { jobs, side_jobs, segment_bytes, ending, threads })
    }

    pub(crate) fn submit(&self, effect: LogEffect) {
        // Sending fails only when the thread ended, which it reported as a failure before.
        match effect {
            LogEffect::Write(write) => drop(self.jobs.send(Job::Write(write))),
            LogEffect::Sync { id, segments } => {
                drop(self.jobs.send(Job::Sync { id, segments: segments.collect() }));
            }
            LogEffect::Prepare { segment } => {
                drop(self.side_jobs.send(SideJob::Prepare { segment, bytes: self.segment_bytes }));
            }
        }
    }

    pub(crate) fn load(&self, load: u64, extents: Vec<Extent>) {
        drop(self.side_jobs.send(SideJob::Load { load, extents }));
    }

    pub(crate) fn scrub(&self, segment: SegmentScrub) {
        drop(self.side_jobs.send(SideJob::Scrub(segment)));
    }

    pub(crate) fn remove(&self, segments: Range<u64>) {
        drop(self.side_jobs.send(SideJob::Remove { segments }));
    }

    /// Ends both threads after their queued work.
    pub(crate) fn stop(self) {
        self.ending.store(true, Ordering::Release);
        drop(self.jobs);
        drop(self.side_jobs);
        for thread in self.threads {
            let _ = thread.join();
        }
    }
}

fn run_writer(disk: &dyn Disk, jobs: &Receiver<Job>, mailbox: &Mailbox) {
    while let Ok(first) = jobs.recv() {
        // Everything that waits shares one sync.
        let batch: Vec<Job> = std::iter::once(first).chain(jobs.try_iter()).collect();
        if let Err(error) = run_batch(disk, batch, mailbox) {
            mailbox.send(Completion::Failed(error.to_string()));
            return; // never again: what reached the disk is unknown
        }
    }
}

fn run_batch(disk: &dyn Disk, batch: Vec<Job>, mailbox: &Mailbox) -> io::Result<()> {
    let mut dirty: Vec<u64> = Vec::new();
    let mut done = Vec::with_capacity(batch.len());
    for job in batch {
        match job {
            Job::Write(write) => {
                disk.write(write.segment, write.offset, &write.data)?;
                if write.sync && dirty.last() != Some(&write.segment) {
                    dirty.push(write.segment);
                }
                done.push(Completion::Written(write.id));
            }
            Job::Sync { id, segments } => {
                dirty.extend(segments);
                done.push(Completion::Synced(id));
            }
        }
    }
    dirty.sort_unstable();
    dirty.dedup();
    if !dirty.is_empty() {
        disk.sync(&dirty)?;
    }
    done.into_iter().for_each(|completion| mailbox.send(completion));
    Ok(())
}

/// Whether a warning is due that was last given at `last`; if so, that is now.
fn is_due(last: &mut Option<Instant>, now: Instant) -> bool {
    let due = last.is_none_or(|last| now.saturating_duration_since(last) >= WARN_AGAIN);
    if due {
        *last = Some(now);
    }
    due
}

fn run_helper(disk: &dyn Disk, jobs: &Receiver<SideJob>, mailbox: &Mailbox, ending: &AtomicBool) {
    let mut warned = None;
    while let Ok(job) = jobs.recv() {
        match job {
            SideJob::Prepare { segment, bytes } => match disk.prepare(segment, bytes) {
                Ok(()) => mailbox.send(Completion::Prepared { segment, result: Ok(()) }),
                Err(error) if is_full(&error) || too_many_files(&error) => {
                    // The node asks again after a while.
                    if is_due(&mut warned, Instant::now()) {
                        tracing::warn!("preparing a segment: {error}");
                    }
                    mailbox.send(Completion::Prepared { segment, result: Err(DiskFull) });
                }
                Err(error) => mailbox.send(Completion::Failed(format!("preparing a segment: {error}"))),
            },
            SideJob::Scrub(SegmentScrub { log_id, config, segment }) => {
                let result = match disk.read_segment(segment) {
                    Ok(bytes) => quorate_log::scrub(log_id, &config, segment, &bytes),
                    Err(error) => Err(Rot { offset: 0, why: error.to_string() }),
                };
                mailbox.send(Completion::Scrubbed { segment, result });
            }
            SideJob::Remove { segments } => {
                // Lowest first: after a crash the log begins with the lowest that is there. What stays is deleted after the next start.
                let removed = segments.into_iter().try_for_each(|segment| disk.remove(segment));
                if let Err(error) = removed {
                    tracing::warn!("deleting an old segment of the log: {error}");
                }
            }
            SideJob::Load { load, extents } => {
                let read = || {
                    extents.iter().map(|p| disk.read(p.segment, p.offset, p.len)).collect::<io::Result<_>>()
                };
                let mut records = read();
                // Files are closed some time, and readers of old records can wait.
                while records.as_ref().is_err_and(too_many_files) && !ending.load(Ordering::Acquire) {
                    std::thread::sleep(READ_AGAIN);
                    records = read();
                }
                match records {
                    Ok(records) => mailbox.send(Completion::Loaded { load, records }),
                    Err(error) => mailbox.send(Completion::Failed(format!("reading back: {error}"))),
                }
            }
        }
    }
}

/// Whether the disk has no space, which may pass, unlike a failure.
pub(crate) fn is_full(error: &io::Error) -> bool {
    let full = [Errno::NOSPC, Errno::DQUOT, Errno::FBIG].map(|errno| Some(errno.raw_os_error()));
    full.contains(&error.raw_os_error()) || error.kind() == io::ErrorKind::StorageFull
}

/// Whether the process or the system has no file descriptor left, which may pass as well.
fn too_many_files(error: &io::Error) -> bool {
    [Errno::MFILE, Errno::NFILE].map(|errno| Some(errno.raw_os_error())).contains(&error.raw_os_error())
}
