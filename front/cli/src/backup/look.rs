//! `quorate backup verify` and `show`: the contents of a file, and whether it is sound.

use super::facts::BackupFacts;
use super::file::OldFile;
use super::progress::Progress;
use super::proof::{self, Judged, KeyArgs};
use quorate_auth::CheckpointProof;
use quorate_command::failure::{Doing as _, Failure, Outcome};
use quorate_command::print;
use quorate_state::checkpoint::{Image, RotAt, Single, Unusable};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Say what a backup holds, without reading its objects.
///
/// Reads the end of the file and the part beside the objects, and who signed it. Whether the rest is sound, and the signatures are right,
/// `verify` says.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  quorate backup show monday.qbk
  quorate backup show --json monday.qbk | jq .seq")]
pub(super) struct ShowArgs {
    /// The backup
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Read a whole backup and compare every byte.
///
/// Checks the checksum of each record, the digest of each chunk, both copies of the manifest, and that all of it together has the
/// digest that the replicas agreed on. With --keys also that enough replicas of this cluster signed that digest: without that, whoever
/// made the file up could make it whole, too. Nothing is changed. Takes as much memory as the state has.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  quorate backup verify monday.qbk
  quorate backup verify --json monday.qbk | jq .digest
  quorate backup verify --keys prod/client.toml monday.qbk

Exit codes: 0 the backup is whole, and with --keys proved, 1 it is damaged, can not be read, is none, or is not proved,
2 wrong command line.")]
pub(super) struct VerifyArgs {
    /// The backup
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    keys: KeyArgs,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// How many damaged places are printed.
const PLACES_SHOWN: usize = 5;

pub(super) fn show(args: &ShowArgs) -> Outcome {
    let facts = facts(&args.file)?;
    let head = format!("backup {}, not verified", args.file.display());
    print::line(if args.json { facts.json().to_string() } else { format!("{head}\n{}", facts.text()) })?;
    Ok(ExitCode::SUCCESS)
}

/// What a backup says of itself. Its objects are not read, so they may be damaged.
///
/// # Errors
/// When it is no backup, or what is read is damaged.
pub(super) fn facts(path: &Path) -> Outcome<BackupFacts> {
    let (mut file, single) = open(path)?;
    let system = single.system(&mut file).map_err(|why| unusable(path, &why))?;
    let proof = proof_in(path, &mut file, &single)?;
    Ok(BackupFacts::of(single.manifest(), &system, None, single.bytes())?.proved_by(proof))
}

pub(super) fn verify(args: &VerifyArgs) -> Outcome {
    let known = args.keys.known()?;
    let (facts, _) = load(&args.file)?;
    let judged = proof::judge(&args.file, &facts, known.as_ref())?;
    print::line(if args.json {
        let mut document = facts.json();
        document["proved"] = judged.json().into();
        document.to_string()
    } else {
        format!("backup {} is whole{}\n{}", args.file.display(), in_words(&judged, &facts), facts.text())
    })?;
    Ok(ExitCode::SUCCESS)
}

/// What is known of the signatures, behind a sentence that has no end yet.
fn in_words(judged: &Judged, facts: &BackupFacts) -> String {
    match judged {
        Judged::Proved(by) => format!(", and proved: the signatures of {} are right", super::names(by)),
        Judged::Unchecked if facts.proof.is_some() => "; its signatures were not checked (--keys)".into(),
        Judged::Unchecked | Judged::NotNeeded => String::new(),
    }
}

/// Reads a whole backup. Every part is compared with its checksum, then the whole with the agreed digest.
///
/// # Errors
/// Names what is wrong with it.
pub(crate) fn load(path: &Path) -> Outcome<(BackupFacts, Image)> {
    let progress = Progress::new();
    let (mut file, single) = open(path)?;
    progress.begins("comparing", single.bytes());
    let places = single.verify(&mut file, &mut |bytes| progress.at(bytes));
    if !places.is_empty() {
        return Err(damaged(path, &places));
    }
    if !file.fits_its_sum().doing(format_args!("read {}", path.display()))? {
        let why = Unusable::Damaged("it has not the SHA-256 with which it was saved".to_owned());
        return Err(unusable(path, &why));
    }
    progress.begins("loading", single.manifest().total_bytes());
    let image =
        single.load(&mut file, &mut |bytes| progress.at(bytes)).map_err(|why| unusable(path, &why))?;
    if image.digest() != single.digest() {
        let why = Unusable::Damaged("all of it together has another digest than it should".to_owned());
        return Err(unusable(path, &why));
    }
    let proof = proof_in(path, &mut file, &single)?;
    let facts = BackupFacts::of(single.manifest(), &image.system, Some(&image.objects), single.bytes())?;
    Ok((facts.proved_by(proof), image))
}

/// The proof in the file, if it has one.
fn proof_in(path: &Path, file: &mut OldFile, single: &Single) -> Outcome<Option<CheckpointProof>> {
    let note = single.note(file).map_err(|why| unusable(path, &why))?;
    let proof = note.filter(|note| CheckpointProof::begins(note)).map(|note| CheckpointProof::decode(&note));
    proof.transpose().map_err(|why| unusable(path, &Unusable::Damaged(why.to_string())))
}

fn open(path: &Path) -> Outcome<(OldFile, Single)> {
    let mut file = OldFile::open(path).doing(format_args!("read {}", path.display()))?;
    let single = Single::open(&mut file, "backup").map_err(|why| unusable(path, &why))?;
    Ok((file, single))
}

fn unusable(path: &Path, why: &Unusable) -> Failure {
    let remedy = match why {
        Unusable::Newer(_) => "Use the newer program",
        Unusable::Differential(_) => {
            "A replica's own checkpoint files are no backups: make one with `quorate backup create`"
        }
        Unusable::NoCheckpoint | Unusable::Damaged(_) | Unusable::Io(_) => "Use another backup",
    };
    Failure::new(format!("the backup {} can not be used: {why}. {remedy}", path.display()))
}

fn damaged(path: &Path, places: &[RotAt]) -> Failure {
    let name = |place: &RotAt| match place {
        RotAt::Copy => "its header, one copy of the manifest, or one footer".to_owned(),
        RotAt::Part(part) => format!("part {part} of its image"),
        RotAt::Whole => "both copies of the manifest".to_owned(),
    };
    let mut named: Vec<String> = places.iter().take(PLACES_SHOWN).map(name).collect();
    if places.len() > PLACES_SHOWN {
        named.push(format!("{} more places", places.len() - PLACES_SHOWN));
    }
    Failure::new(format!(
        "the backup {} is damaged: {}. It is not what was written: use another backup, and look after the disk",
        path.display(),
        named.join(", ")
    ))
}
