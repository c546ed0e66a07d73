//! `quorate cert status`: which certificates replicas use now, and whether those are the ones in these files. Tests: tests/all/tls.rs.

use super::authority::read;
use quorate_command::admin::{Admin, Answer};
use quorate_command::cluster::{Cluster, ClusterArgs};
use quorate_command::failure::{Failure, Outcome};
use quorate_command::print;
use quorate_tls::{Certificate, certificates_in};
use quorate_types::Holder;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// How often replicas are asked.
const LOOK: Duration = Duration::from_millis(500);

/// Show which certificates the replicas use now.
///
/// With files, such as those that `quorate cert renew` wrote, it says whether each replica uses the one in its file; `--wait` waits until all do.
/// Exit code 0 when all replicas answer and use what they should, 1 when one does not.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  quorate cert status
  quorate cert status --wait prod/replica-*/tls/replica.pem --config prod/client.toml")]
pub(super) struct Args {
    /// Certificates of replicas that should be in use
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Wait until all replicas use the certificates in the files
    #[arg(long, requires = "files")]
    wait: bool,
    /// How long to wait
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout: u64,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// What one replica uses.
struct Used {
    replica: u16,
    /// Its status on certificates, or why there is none.
    tls: Result<Value, String>,
    /// The serial number in its file, if one was given.
    wanted: Option<String>,
}

impl Used {
    fn is_right(&self) -> bool {
        let serial = self.tls.as_ref().ok().and_then(|tls| tls["serial"].as_str());
        serial.is_some() && self.wanted.as_deref().is_none_or(|wanted| serial == Some(wanted))
    }

    fn describe(&self, text: &mut String) {
        let _ = match &self.tls {
            Err(why) => writeln!(text, "replica {}  does not answer: {why}", self.replica),
            Ok(tls) if tls.is_null() => {
                writeln!(text, "replica {}  uses none: connections are plain", self.replica)
            }
            Ok(tls) => {
                let days = |name: &str| tls[name].as_i64().unwrap_or_default();
                let state = match (&self.wanted, self.is_right()) {
                    (None, _) => "",
                    (Some(_), true) => "  as in its file",
                    (Some(_), false) => "  NOT the one in its file",
                };
                writeln!(
                    text,
                    "replica {}  serial {}  {} days left, its authority {}{state}",
                    self.replica,
                    tls["serial"].as_str().unwrap_or("?"),
                    days("expires_in_days"),
                    days("authority_expires_in_days"),
                )
            }
        };
    }
}

pub(super) fn run(args: &Args) -> Outcome {
    let wanted = wanted(&args.files)?;
    let cluster = Cluster::find(&args.cluster)?;
    let admin = Admin::new(&cluster)?;
    if let Some(id) =
        wanted.keys().find(|id| !cluster.members.iter().any(|(member, _)| member.number() == **id))
    {
        return Err(Failure::usage(format!(
            "a certificate is for replica {id}, which is no member of this cluster"
        )));
    }
    let until = Instant::now() + Duration::from_secs(args.timeout);
    let used = loop {
        let used = used(admin.ask_all(), &wanted);
        if !args.wait || used.iter().all(Used::is_right) || Instant::now() >= until {
            break used;
        }
        std::thread::sleep(LOOK);
    };
    let all_right = used.iter().all(Used::is_right);
    print::line(if args.json { document(&used).to_string() } else { text(&used, args, all_right) })?;
    Ok(if all_right { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The serial numbers in the files, by their holders.
fn wanted(files: &[PathBuf]) -> Outcome<BTreeMap<u16, String>> {
    let mut wanted = BTreeMap::new();
    for path in files {
        let (replica, serial) = of_replica(path)?;
        if let Some(place) = place_of(path).filter(|place| *place != replica) {
            return Err(Failure::usage(format!(
                "{}: this is the certificate of replica {replica}, and lies where replica {place} has its own: replica {place} does not start \
                 with it. Put its own back, or make one with `quorate cert issue --replica {place}`",
                path.display()
            )));
        }
        if wanted.insert(replica, serial).is_some() {
            return Err(Failure::usage(format!(
                "{}: another file is for replica {replica}, too",
                path.display()
            )));
        }
    }
    Ok(wanted)
}

/// The replica in whose directory, as `init` and `dev` name it, a file lies.
fn place_of(path: &Path) -> Option<u16> {
    let names = path.ancestors().skip(1).filter_map(|place| place.file_name()?.to_str());
    names.filter_map(|name| name.strip_prefix("replica-")?.parse().ok()).next()
}

/// Whose certificate is in this file, and its serial number.
fn of_replica(path: &Path) -> Outcome<(u16, String)> {
    let unusable = |why: String| Failure::usage(format!("{} is not usable: {why}", path.display()));
    let found = certificates_in(read(path)?.as_bytes()).map_err(|why| unusable(why.to_string()))?;
    let der = found.first().ok_or_else(|| unusable("it has no certificate".into()))?;
    let certificate = Certificate::decode(der).map_err(|why| unusable(why.to_string()))?;
    match certificate.identity.as_ref().map(|identity| &identity.holder) {
        Some(Holder::Replica(replica)) => Ok((replica.number(), certificate.serial)),
        _ => Err(unusable("it is no replica's certificate".into())),
    }
}

fn used(answers: Vec<Answer>, wanted: &BTreeMap<u16, String>) -> Vec<Used> {
    let of = |answer: Answer| Used {
        replica: answer.replica.number(),
        tls: answer.status.map(|status| status.raw["tls"].clone()),
        wanted: wanted.get(&answer.replica.number()).cloned(),
    };
    answers.into_iter().map(of).collect()
}

fn document(used: &[Used]) -> Value {
    let of = |used: &Used| {
        let (tls, why) = (used.tls.as_ref().ok(), used.tls.as_ref().err());
        json!({ "replica": used.replica, "tls": tls, "error": why, "wanted": used.wanted, "right": used.is_right() })
    };
    used.iter().map(of).collect()
}

fn text(used: &[Used], args: &Args, all_right: bool) -> String {
    let mut text = String::new();
    used.iter().for_each(|used| used.describe(&mut text));
    if !args.files.is_empty() && !all_right {
        let waited = if args.wait { format!(" after {} s", args.timeout) } else { String::new() };
        let _ = writeln!(
            text,
            "Not all replicas use them{waited}. Is each file on its replica's machine, key and certificate? The replica's log says why it keeps those \
             before; SIGHUP makes it look at once."
        );
    }
    text.trim_end().to_owned()
}
