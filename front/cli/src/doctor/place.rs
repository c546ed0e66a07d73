//! The file system of a directory, and the disk below it.

use super::Findings;
use super::subject::Group;
use quorate_command::failure::{Doing as _, Outcome};
use quorate_command::machine::file_system;
use serde::Serialize;
use std::fs;
use std::path::{Path, PathBuf};

/// A file system and its disk.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Disk {
    pub(super) directory: PathBuf,
    pub(super) file_system: String,
    pub(super) free_bytes: u64,
    pub(super) total_bytes: u64,
    /// Whether the disk has a cache that loses data without power; null when unknown.
    pub(super) volatile_cache: Option<bool>,
}

/// # Errors
/// When the system gives no answer.
pub(super) fn look(group: &Group, findings: &mut Findings) -> Outcome<Disk> {
    let directory = group.directory.clone();
    let shown = directory.display();
    let facts = rustix::fs::statvfs(&directory).doing(format_args!("look at the disk of {shown}"))?;
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let kind = file_system(&directory, &mounts);
    if let Some((text, remedy)) = judge(&kind) {
        findings.warning(format!("{shown} is on {kind}: {text}"), remedy);
    }
    if facts.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY) {
        findings.problem(
            format!("{shown} is mounted read-only"),
            "Mount it for writing; a disk that failed is often mounted so by the system",
        );
    }
    Ok(Disk {
        file_system: kind,
        free_bytes: facts.f_bavail.saturating_mul(facts.f_frsize),
        total_bytes: facts.f_blocks.saturating_mul(facts.f_frsize),
        volatile_cache: volatile_cache(group.device),
        directory,
    })
}

/// The finding for a file system of this type, if there is one.
pub(super) fn judge(kind: &str) -> Option<(&'static str, &'static str)> {
    match kind {
        "tmpfs" | "ramfs" => Some((
            "it is memory, and nothing in it survives a restart of the machine",
            "Put `data` on a disk",
        )),
        "overlay" | "aufs" => Some((
            "it is a container's own layer, which goes with the container",
            "Put `data` on a volume that stays",
        )),
        "nfs" | "nfs4" | "cifs" | "smb3" | "9p" | "ceph" | "glusterfs" => Some((
            "it is on the network, where a sync may mean less than on a disk",
            "Put `data` on a local disk, or make sure that its server syncs what it is told to",
        )),
        kind if kind.starts_with("fuse") => Some((
            "it is served by another program, whose sync may mean less than that of a disk",
            "Put `data` on a local disk",
        )),
        _ => None,
    }
}

fn volatile_cache(device: u64) -> Option<bool> {
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let device = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}")).ok()?;
    // A partition has no queue of its own: its disk is one level up.
    let queue = |at: &Path| fs::read_to_string(at.join("queue/write_cache")).ok();
    let text = queue(&device).or_else(|| queue(device.parent()?))?;
    Some(text.trim() == "write back")
}
