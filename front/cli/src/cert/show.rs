//! `quorate cert show`: prints the contents of certificates, for people and programs, and says which files do not go together.

use super::authority::read;
use quorate::client::ClientFile;
use quorate_command::failure::{Failure, Outcome};
use quorate_command::print;
use quorate_runtime::Config;
use quorate_tls::{Certificate, Credentials, TlsFiles, certificates_in};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

/// Show what stands in certificates: whose they are, until when they hold, and who signed them.
///
/// Of a configuration, it also says whether the files that it names go together, as the replica or client would when it starts.
/// Exit code 0 when all of them hold now and go together, 1 when one does not.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Certificates, or configurations (replica.toml, client.toml) that name some
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> Outcome {
    let now = SystemTime::now();
    let (mut text, mut documents, mut all_hold) = (String::new(), Vec::new(), true);
    let named = named(&args.files)?;
    for path in &named.paths {
        let unusable = |why: String| Failure::usage(format!("{} is not usable: {why}", path.display()));
        for der in certificates_in(read(path)?.as_bytes()).map_err(|why| unusable(why.to_string()))? {
            let certificate = Certificate::decode(&der).map_err(|why| unusable(why.to_string()))?;
            all_hold &= holds(&certificate, now);
            let problem = named.problems.get(path).filter(|_| !certificate.is_authority);
            all_hold &= problem.is_none();
            documents.push(json(path, &certificate, problem, now));
            describe(&mut text, path, &certificate, now);
        }
    }
    if !named.problems.is_empty() {
        text.push('\n');
    }
    for problem in named.problems.values() {
        let _ = writeln!(text, "! {problem}");
    }
    print::line(if args.json {
        serde_json::Value::from(documents).to_string()
    } else {
        text.trim_end().to_owned()
    })?;
    Ok(if all_hold { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What is to be shown.
#[derive(Default)]
struct Named {
    /// The files, in the order in which they were named.
    paths: Vec<PathBuf>,
    /// What is wrong with a certificate that a configuration names, by its path.
    problems: BTreeMap<PathBuf, String>,
}

impl Named {
    fn add(&mut self, path: &Path) {
        if !self.paths.iter().any(|known| known == path) {
            self.paths.push(path.to_owned());
        }
    }

    /// The files of one side, and whether they go together.
    fn configured(&mut self, files: &TlsFiles, config: Option<&Config>) {
        self.add(&files.certificate);
        self.add(&files.ca);
        let judged = Credentials::load(files).map_err(|why| why.to_string()).and_then(|credentials| {
            config.map_or(Ok(()), |config| config.check_identity(&credentials).map_err(|why| why.to_string()))
        });
        if let Err(why) = judged {
            self.problems.insert(files.certificate.clone(), why);
        }
    }
}

/// The certificates to show: files, and those that the given configurations name.
fn named(files: &[PathBuf]) -> Outcome<Named> {
    let mut named = Named::default();
    for path in files {
        if path.extension().is_none_or(|ending| ending != "toml") {
            named.add(path);
            continue;
        }
        let before = named.paths.len();
        match Config::read(path) {
            Ok(config) => config.tls.iter().for_each(|tls| named.configured(tls, Some(&config))),
            Err(_) => {
                let file = ClientFile::read(path).map_err(|why| Failure::usage(why.to_string()))?;
                let both =
                    file.tls.map_or_else(Vec::new, |tls| [tls.client].into_iter().chain(tls.admin).collect());
                both.iter().for_each(|tls| named.configured(tls, None));
            }
        }
        if named.paths.len() == before {
            return Err(Failure::usage(format!(
                "{} names no certificates: connections are plain",
                path.display()
            )));
        }
    }
    Ok(named)
}

fn holds(certificate: &Certificate, now: SystemTime) -> bool {
    let begun = Certificate { not_after: certificate.not_before, ..certificate.clone() }.days_left(now) < 0;
    begun && certificate.days_left(now) >= 0
}

fn date(seconds: i64) -> String {
    let time = OffsetDateTime::from_unix_timestamp(seconds).ok();
    time.and_then(|time| time.format(&Rfc3339).ok()).unwrap_or_default()
}

fn holder(certificate: &Certificate) -> String {
    match (&certificate.identity, certificate.cluster) {
        (None, Some(cluster)) if certificate.is_authority => format!("authority of cluster {cluster}"),
        _ => certificate.holder(),
    }
}

fn describe(text: &mut String, path: &Path, certificate: &Certificate, now: SystemTime) {
    let days = certificate.days_left(now);
    let state = if !holds(certificate, now) && days >= 0 {
        "NOT VALID YET".to_owned()
    } else if days < 0 {
        "EXPIRED".to_owned()
    } else {
        format!("{days} days left")
    };
    let _ = writeln!(
        text,
        "{}\n  holder  {}\n  valid   {} to {} ({state})\n  serial  {}\n  signer  {}",
        path.display(),
        holder(certificate),
        date(certificate.not_before),
        date(certificate.not_after),
        certificate.serial,
        certificate.issuer
    );
    let hosts = certificate.own_hosts();
    if !hosts.is_empty() {
        let _ = writeln!(text, "  hosts   {}", hosts.join(", "));
    }
}

fn json(
    path: &Path,
    certificate: &Certificate,
    problem: Option<&String>,
    now: SystemTime,
) -> serde_json::Value {
    serde_json::json!({
        "file": path.display().to_string(),
        "holder": holder(certificate),
        "uri": certificate.identity.as_ref().map(quorate_types::Identity::uri),
        "authority": certificate.is_authority,
        "not_before": date(certificate.not_before),
        "not_after": date(certificate.not_after),
        "days_left": certificate.days_left(now),
        "holds": holds(certificate, now),
        "serial": certificate.serial,
        "signer": certificate.issuer,
        "hosts": certificate.own_hosts(),
        "problem": problem,
    })
}
