//! Gives a member another signing key, where replicas may lie. The new secret never leaves the machine of its replica: it is made there, and
//! administrators sign a change of the membership that names its public half. docs/operations/members.md. Tests: tests/all/admin.rs.

use super::view::View;
use super::{Changed, Changing, change, said, told};
use crate::admin::{self, needs_lies};
use crate::services::read_config;
use clap::Args;
use quorate_command::cluster::Cluster;
use quorate_command::failure::{Doing as _, Failure, Outcome};
use quorate_command::layout::{REPLICA_FILE, replica_directory};
use quorate_command::{admin as status, print, random};
use quorate_runtime::SigningKey;
use quorate_tls::write_private;
use quorate_types::ReplicaId;
use quorate_wire::MemberRequest;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// A replica looks for new keys every two seconds. If it runs here it holds the key after this time, before the change begins, and is not
/// silent for a moment.
const READ: Duration = Duration::from_millis(2500);
/// A replica has so long to say that it holds its key.
const FOUND: Duration = Duration::from_secs(20);
const LOOK: Duration = Duration::from_millis(200);

/// Give a replica another signing key, where replicas may lie.
///
/// From the membership on that this begins only the new key counts. What was signed before stays valid, with the old one. The replica needs no
/// restart. Where its directory is on another machine, make the key there with `quorate member newkey`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  quorate member rekey 3 --dir prod                         the directory of replica 3 is here
  quorate member newkey --config replica-3/replica.toml     it is elsewhere: there, prints the public half
  quorate member rekey 3 --key PUBLIC --dir prod            then here")]
pub(super) struct RekeyArgs {
    /// Which replica
    #[arg(value_name = "ID", value_parser = clap::value_parser!(u16).range(1..))]
    replica: u16,
    /// The public half of the new key, as `quorate member newkey` printed it [default: makes a key in replica-ID beside client.toml]
    #[arg(long, value_name = "PUBLIC")]
    key: Option<String>,
    #[command(flatten)]
    changing: Changing,
}

/// Make another signing key beside the one that a replica has, and print its public half.
///
/// Nothing changes before `quorate member rekey` names it.
#[derive(Debug, Args)]
pub(super) struct NewKeyArgs {
    /// The configuration of the replica
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
}

/// A key, and where it is to lie beside the first one of its replica.
fn new_key(config: &Path) -> Outcome<(SigningKey, PathBuf)> {
    let Some(signing) = read_config(config)?.signing else {
        return Err(Failure::usage(format!(
            "{} has no `[signing]`: where replicas only crash, nothing is signed",
            config.display()
        )));
    };
    let key = SigningKey::new(random::secret()?);
    let file = key.beside(&signing.key);
    Ok((key, file))
}

fn write(key: &SigningKey, file: &Path) -> Outcome<()> {
    write_private(file, &key.to_text()).doing(format_args!("write {}", file.display()))
}

pub(super) fn newkey(args: &NewKeyArgs) -> Outcome {
    let (key, file) = new_key(&args.config)?;
    write(&key, &file)?;
    eprintln!(
        "The secret half is in {}. `quorate member rekey ID --key` takes the public one:",
        file.display()
    );
    print::line(key.public())?;
    Ok(ExitCode::SUCCESS)
}

pub(super) fn rekey(args: &RekeyArgs) -> Outcome {
    let cluster = Cluster::find(&args.changing.common.cluster)?;
    needs_lies(&cluster)?;
    let replica = ReplicaId::new(args.replica);
    let made = match &args.key {
        Some(_) => None,
        None => Some(new_key(&here(&cluster, args.replica)?)?),
    };
    let text = made.as_ref().map_or_else(|| args.key.clone().unwrap_or_default(), |(key, _)| key.public());
    let key = crate::kv::unhex(text.as_bytes()).and_then(|bytes| bytes.try_into().ok()).ok_or_else(|| {
        Failure::usage(format!(
            "`{text}` is no public key: 64 hexadecimal digits, as `quorate member newkey` prints them"
        ))
    })?;
    let request = MemberRequest::Rekey { replica, key };
    // Nothing is written for a change that is refused.
    admin::drafted(&cluster, &request)?;
    if let Some((key, file)) = &made {
        write(key, file)?;
        eprintln!("The new key of {replica} is in {}.", file.display());
        std::thread::sleep(READ);
    }
    let view = match change(&cluster, &args.changing, &request, "")? {
        Changed::Done(view) => view,
        Changed::Later(text) => return said(&text),
    };
    let done = match holds(&cluster, &view, replica)? {
        true => format!(
            "{replica} signs with its new key from membership {} on; the old one counts no more",
            view.number
        ),
        false => format!(
            "from membership {} on only the new key of {replica} counts, and {replica} does not say that it holds it: it votes for nothing \
             until it does. See that it runs, and what `quorate status` says of it",
            view.number
        ),
    };
    told(&args.changing.common, &view, &done)
}

/// The configuration of a replica in the cluster's directory.
fn here(cluster: &Cluster, replica: u16) -> Outcome<PathBuf> {
    let file = replica_directory(&cluster.directory, replica).join(REPLICA_FILE);
    if file.exists() {
        return Ok(file);
    }
    Err(Failure::usage(format!(
        "{} is not here: give `quorate member newkey --config {REPLICA_FILE}` where replica {replica} runs, and name what it prints with --key",
        file.display()
    )))
}

/// Whether this replica says that it holds the key that it needs now.
fn holds(cluster: &Cluster, view: &View, replica: ReplicaId) -> Outcome<bool> {
    let members = view.addresses().into_iter().filter(|(id, _)| *id == replica).collect();
    let one = Cluster { members, ..cluster.clone() };
    let until = Instant::now() + FOUND;
    loop {
        let answers = status::Admin::new(&one)?.ask_all();
        let says = answers.iter().find_map(|answer| answer.status.as_ref().ok());
        let membership = says.map(|status| &status.raw["membership"]);
        let current =
            |of: &serde_json::Value| of["number"].as_u64().is_some_and(|number| number >= view.number);
        if membership.is_some_and(|of| current(of) && of["lacks_key"].is_null()) {
            return Ok(true);
        }
        if Instant::now() >= until {
            return Ok(false);
        }
        std::thread::sleep(LOOK);
    }
}
