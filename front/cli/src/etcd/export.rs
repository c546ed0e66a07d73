//! `quorate etcd export`: the state in a backup as a file for etcd's own programs.
//!
//! Tests: with real servers front/cli/tests/all/etcd/moving.rs.

use crate::backup;
use quorate_command::failure::{Doing as _, Failure, Outcome};
use quorate_command::print;
use quorate_etcd::moving::{self, ExportError, Exported};
use quorate_kit::backups::NewFile;
use quorate_state::checkpoint::Files as _;
use serde_json::json;
use std::collections::BTreeMap;
use std::fs;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Write the state in a backup so that an etcd can begin with it.
///
/// Verifies the backup, then writes what `etcdctl snapshot save` of an etcd would write: keys with all revisions since the compaction, leases,
/// users, roles. `etcdutl snapshot restore` of etcd 3.5 or 3.6 makes the directories of an etcd from it. etcd compares passwords by bcrypt:
/// those that came from an etcd and were never changed go on to work, others have to be given anew.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  quorate backup create --fresh monday.qbk
  quorate etcd export monday.qbk --out etcd.db
  etcdutl snapshot restore etcd.db --data-dir default.etcd
  quorate etcd export monday.qbk --out etcd.db --passwords new.txt

It may be a backup that `etcdctl` saved from a member. Stop the clients before it is made: what they write afterwards is not in it.")]
pub(super) struct Args {
    /// A backup of a cluster that runs the service etcd
    #[arg(value_name = "BACKUP")]
    backup: PathBuf,
    /// The file to make
    #[arg(long, value_name = "FILE")]
    out: PathBuf,
    /// New passwords: a file with a line USER:PASSWORD for each
    #[arg(long, value_name = "FILE")]
    passwords: Option<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> Outcome {
    let passwords = args.passwords.as_deref().map(passwords).transpose()?.unwrap_or_default();
    let mut out = Sequential::begin(&args.out)?;
    let (facts, image) = backup::load(&args.backup)?;
    let written = moving::write(&mut out, &image.objects, &passwords);
    let written = written.map_err(|why| failed(args, &why))?;
    out.publish().doing(format_args!("make {}", args.out.display()))?;
    print::line(if args.json {
        let mut document = super::counts(&written.counts);
        document["file"] = json!(args.out.display().to_string());
        document["file_bytes"] = json!(written.bytes);
        document["cluster"] = json!(facts.cluster.to_string());
        document["seq"] = json!(facts.seq.number());
        document["notes"] = json!(written.notes);
        document.to_string()
    } else {
        text(args, &facts.cluster.to_string(), &written)
    })?;
    Ok(ExitCode::SUCCESS)
}

fn failed(args: &Args, why: &ExportError) -> Failure {
    let backup = args.backup.display();
    match why {
        ExportError::Write(why) => Failure::new(format!("can not write {}: {why}", args.out.display())),
        ExportError::NotEtcd => Failure::new(format!(
            "the backup {backup} can not be used: {why}. Only such a state goes into an etcd"
        )),
        ExportError::NoUser(_) => Failure::usage(format!("--passwords: {why}")),
        ExportError::NoRoot => Failure::usage(format!("{why}, with --passwords and a line USER:PASSWORD")),
    }
}

fn text(args: &Args, cluster: &str, written: &Exported) -> String {
    let out = args.out.display();
    format!(
        "{out} is made, from the backup of cluster {cluster}\n{}{}\n\
         Make the directory of each member from it, with the members as etcd is to have them:\n  etcdutl snapshot restore {out} --data-dir default.etcd",
        super::lines(&written.counts),
        super::noted(&written.notes),
    )
}

/// The passwords in a file, by the users' names.
fn passwords(path: &Path) -> Outcome<BTreeMap<Vec<u8>, Vec<u8>>> {
    let text = fs::read_to_string(path).doing(format_args!("read {}", path.display()))?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.is_empty());
    let parse = |(at, line): (usize, &str)| {
        let parts = line.split_once(':').filter(|(user, password)| !user.is_empty() && !password.is_empty());
        let (user, password) = parts.ok_or_else(|| {
            Failure::usage(format!("{}, line {}: write USER:PASSWORD", path.display(), at + 1))
        })?;
        Ok((user.as_bytes().to_vec(), password.as_bytes().to_vec()))
    };
    lines.map(parse).collect()
}

/// The only name that the file has before it is published.
const NAME: &str = "etcd";

/// A new file, which can be read and written anywhere, and appears when it is whole and durable.
struct Sequential {
    file: NewFile,
    at: u64,
}

impl Sequential {
    fn begin(path: &Path) -> Outcome<Self> {
        let begun = NewFile::begin(path).and_then(|mut file| file.create(NAME).map(|()| file));
        let file = begun.map_err(|why| match why.kind() {
            io::ErrorKind::AlreadyExists => Failure::usage(format!(
                "{} exists, and is not overwritten: choose another name",
                path.display()
            )),
            _ => Failure::new(format!("can not make {}: {why}", path.display())),
        })?;
        Ok(Self { file, at: 0 })
    }

    fn publish(mut self) -> io::Result<()> {
        self.file.sync(NAME)?;
        self.file.publish(NAME, NAME)
    }
}

impl Read for Sequential {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let left = self.file.len(NAME)?.saturating_sub(self.at);
        let len = into.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        into[..len].copy_from_slice(&self.file.read(NAME, self.at, len)?);
        self.at += len as u64;
        Ok(len)
    }
}

impl Write for Sequential {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let within = self.file.len(NAME)?.saturating_sub(self.at);
        let len = match usize::try_from(within).unwrap_or(usize::MAX) {
            0 => {
                self.file.append(NAME, &[bytes.to_vec().into()])?;
                bytes.len()
            }
            within => {
                let len = bytes.len().min(within);
                self.file.write_at(NAME, self.at, &bytes[..len])?;
                len
            }
        };
        self.at += len as u64;
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for Sequential {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let at = match to {
            SeekFrom::Start(at) => Some(at),
            SeekFrom::Current(by) => self.at.checked_add_signed(by),
            SeekFrom::End(by) => self.file.len(NAME)?.checked_add_signed(by),
        };
        self.at = at.ok_or(io::ErrorKind::InvalidInput)?;
        Ok(self.at)
    }
}
