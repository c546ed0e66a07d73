//! The era of a replica on its disk: `era.toml` in the data directory says which era is in force, and `era-NUMBER` holds its log and
//! checkpoints. The first era has neither: its log and checkpoints lie in the data directory itself.
//!
//! ```text
//! era.toml     the number, what the era is like, and what its replicas say of it
//! era-2/       log/ and checkpoints/ of the second era
//! ```
//!
//! A replica enters an era in this order: everything of the new era is written and synced beside the old one; `era.toml` is replaced; the old
//! one is deleted. So after a crash at any point either era is whole, and `era.toml` says which counts. [eras E9]
//! Tests: era/tests.rs, front/cli/tests/all/faults.rs.

use crate::config::{AdministrationConfig, Config, ConfigError, Durability, MemberConfig};
use crate::directory::{DirectoryError, write_durably};
use crate::disk::{Disk as _, FileDisk};
use crate::files::CheckpointFiles;
use quorate_node::{EraConfig, NextEra};
use quorate_order::Protocol;
use quorate_state::checkpoint::{Job, Keeper, Report, Step};
use quorate_types::ReplicaId;
use quorate_wire::{Era, EraNotice};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The file that says which era is in force.
pub(crate) const ERA_FILE: &str = "era.toml";

/// Why an era can not be entered while nothing is at rest.
const IN_MEMORY: &str = "durability: with mode = \"memory\" a replica keeps nothing over the restart with which an era begins, so its era does not end";

/// The era of a data directory, if that is not the first one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EraOnDisk {
    /// What the replica says of it.
    pub notice: EraNotice,
    /// The lives of members' data directories that were known when it began.
    pub lives: BTreeMap<ReplicaId, u64>,
}

/// `era.toml`. Numbers that do not fit TOML's integers stand as hexadecimal digits.
#[derive(Serialize, Deserialize)]
struct EraFile {
    format: u32,
    number: u64,
    protocol: String,
    faults: String,
    /// The seq at which it began.
    began: u64,
    /// The digest of the state there in the era before.
    before: String,
    /// All of that, and the members, as replicas tell it each other.
    notice: String,
    /// Replica, then the life of its data directory.
    lives: BTreeMap<String, String>,
}

impl EraOnDisk {
    fn text(&self) -> String {
        let Self { notice, lives } = self;
        let number = notice.era.protocol;
        let protocol = Protocol::ALL.into_iter().find(|protocol| protocol.row().number == number);
        let file = EraFile {
            format: 1,
            number: notice.era.number,
            protocol: protocol.map_or("?", Protocol::name).to_owned(),
            faults: notice.era.faults.model.to_string(),
            began: notice.began.number(),
            before: notice.before.to_string(),
            notice: notice.encode().iter().map(|byte| format!("{byte:02x}")).collect(),
            lives: lives.iter().map(|(id, life)| (id.number().to_string(), format!("{life:016x}"))).collect(),
        };
        toml::to_string(&file).unwrap_or_default()
    }

    /// The era of a data directory; `None` in the first one.
    ///
    /// # Errors
    /// When the file can not be read, or is damaged.
    pub fn read(data: &Path) -> Result<Option<Self>, DirectoryError> {
        let damaged = |why: &str| DirectoryError::Damaged {
            path: data.to_owned(),
            file: ERA_FILE,
            why: why.to_owned(),
        };
        let text = match fs::read_to_string(data.join(ERA_FILE)) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(why) => {
                return Err(DirectoryError::Io { path: data.to_owned(), what: "reading era.toml", why });
            }
        };
        let file: EraFile = toml::from_str(&text).map_err(|why| damaged(&why.to_string()))?;
        let bytes = unhex(&file.notice).ok_or_else(|| damaged("`notice` has hexadecimal digits"))?;
        let notice = EraNotice::decode(bytes.into()).map_err(|why| damaged(&why.to_string()))?;
        if file.format != 1 || file.number != notice.era.number {
            return Err(damaged("its parts do not fit together, or a newer program wrote it"));
        }
        let life = |(id, life): (&String, &String)| {
            Some((ReplicaId::new(id.parse().ok()?), u64::from_str_radix(life, 16).ok()?))
        };
        let lives = file.lives.iter().map(life).collect::<Option<_>>();
        Ok(Some(Self { notice, lives: lives.ok_or_else(|| damaged("`lives` has an entry that is none"))? }))
    }
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let pairs = text.as_bytes().chunks(2);
    pairs
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok().filter(|p| p.len() == 2)?, 16).ok())
        .collect()
}

/// Where an era's log and checkpoints lie.
pub(crate) fn place(data: &Path, number: u64) -> PathBuf {
    if number <= 1 { data.to_owned() } else { data.join(format!("era-{number}")) }
}

/// Makes an era durable beside the one before, and then lets it count. [eras E9]
///
/// # Errors
/// The error of the system. What was before still counts then.
pub(crate) fn enter(data: &Path, next: &NextEra, segment_bytes: u64) -> io::Result<()> {
    let place = place(data, next.notice.era.number);
    // What is left of an attempt before.
    match fs::remove_dir_all(&place) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let log = place.join("log");
    fs::create_dir_all(&log)?;
    let mut files = CheckpointFiles::new(&place.join("checkpoints"))?;
    let failed = |what: String| io::Error::other(what);
    let (mut keeper, _) = Keeper::open(&mut files, false).map_err(|why| failed(why.to_string()))?;
    keeper.submit(Job::Install { image: next.image.clone() });
    loop {
        let step = keeper.step(&mut files);
        for report in keeper.reports() {
            match report {
                Report::Written { .. } => {
                    // A log without a file would pass for a lost one.
                    FileDisk::new(&log, None)?.prepare(0, segment_bytes)?;
                    sync(&log)?;
                    sync(&place)?;
                    sync(data)?;
                    let era = EraOnDisk { notice: next.notice.clone(), lives: next.lives.clone() };
                    write_durably(data, ERA_FILE, &era.text())?;
                    // Links of memberships prove nothing in another era.
                    let _ = fs::remove_dir_all(data.join(crate::chain_files::DIRECTORY));
                    return Ok(());
                }
                Report::NoRoom { .. } => return Err(io::ErrorKind::StorageFull.into()),
                Report::Failed { what, .. } => return Err(failed(what)),
                _ => {}
            }
        }
        if step == Step::Idle {
            return Err(failed("the state could not be written".into()));
        }
    }
}

fn sync(directory: &Path) -> io::Result<()> {
    fs::File::open(directory)?.sync_all()
}

/// Deletes what is left of other eras. Nothing depends on it, and the next start tries again.
pub(crate) fn clean(data: &Path, number: u64) {
    let Ok(entries) = fs::read_dir(data) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let of_first = number > 1 && (name == "log" || name == "checkpoints");
        let other = name.strip_prefix("era-").and_then(|era| era.parse::<u64>().ok());
        if (of_first || other.is_some_and(|other| other != number))
            && let Err(why) = fs::remove_dir_all(entry.path())
        {
            tracing::warn!("{} of an earlier era can not be deleted: {why}", entry.path().display());
        }
    }
}

impl Config {
    /// This configuration in an era: its faults, protocol, members and administrators win.
    pub fn in_era(&self, era: &Era) -> Self {
        let protocol = Protocol::ALL.into_iter().find(|protocol| protocol.row().number == era.protocol);
        let mut config = self.clone();
        (config.fault_model, config.faults) = (era.faults.model, era.faults.most);
        config.protocol = protocol.unwrap_or_default();
        config.heavy.clear();
        if !config.protocol.able().rotates {
            config.rotate_after = 0;
        }
        if let Some(administrators) = &era.administrators {
            let keys = administrators.keys().iter().map(|key| hex(key.bytes())).collect();
            config.administration =
                Some(AdministrationConfig { keys, threshold: administrators.threshold() });
        }
        // Who joined in this era has a configuration of its members.
        if era.members.get(ReplicaId::new(self.replica)).is_none() {
            return config;
        }
        let links =
            |id: u16| self.members.iter().find(|known| known.replica == id).map(|known| known.links.clone());
        let member = |member: &quorate_wire::Member| MemberConfig {
            replica: member.replica.number(),
            address: member.address.clone(),
            links: links(member.replica.number()).unwrap_or_default(),
            incarnation: member.incarnation.to_string(),
            key: member.key.map(|key| hex(&key)),
        };
        config.members = era.members.members().iter().map(member).collect();
        (config.membership, config.created) = (1, None);
        config
    }

    /// Whether this replica could work in an era.
    fn judge(&self, era: &Era, (has_oracle, has_directory): (bool, bool)) -> Result<(), String> {
        if self.durability.mode == Durability::Memory || !has_directory {
            return Err(IN_MEMORY.into());
        }
        self.in_era(era).check_with(has_oracle).map_err(|why| why.to_string())
    }

    /// The configuration by which a replica runs now: that of the era which its data directory is in.
    ///
    /// # Errors
    /// When the directory says something that can not be read.
    pub fn in_force(&self) -> Result<Self, DirectoryError> {
        Ok(EraOnDisk::read(&self.data)?.map_or_else(|| self.clone(), |era| self.in_era(&era.notice.era)))
    }

    /// What the node is told of eras. `host`: whether there is an oracle, and whether the log lies in the data directory.
    pub(crate) fn era_config(
        &self,
        era: Option<&EraOnDisk>,
        host: (bool, bool),
    ) -> Result<EraConfig, ConfigError> {
        let (own, key) = (self.clone(), |member: &MemberConfig| {
            let key = member.key.as_deref().and_then(unhex)?;
            Some((ReplicaId::new(member.replica), key.try_into().ok()?))
        });
        Ok(EraConfig {
            number: era.map_or(1, |era| era.notice.era.number),
            notice: era.map(|era| era.notice.clone()),
            lives: era.map(|era| era.lives.clone()).unwrap_or_default(),
            keys: self.members.iter().filter_map(key).collect(),
            administrators: self.administrators()?,
            judge: Arc::new(move |era| own.judge(era, host)),
        })
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests;
