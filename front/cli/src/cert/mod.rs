//! `quorate cert`: manages the certificates of a cluster after `quorate init` made the first ones. docs/operations/certificates.md has the
//! procedures.

mod show;
mod status;

use quorate_command::authority::{self, DAYS, Destination, Files, Office, read, write};
use quorate_command::failure::{Failure, Outcome};
use quorate_command::print;
use quorate_tls::{Certificate, certificates_in, write_public};
use quorate_types::{Holder, Identity, Name, ReplicaId};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Make, renew and show certificates of replicas, clients and operators.
///
/// The authority's directory is the one that `quorate init` made (DIR/ca). Replicas and clients notice new files by themselves
/// within seconds; a replica does so at once on SIGHUP. Its log and `quorate cert status` say what is in force, and until when.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  quorate cert show prod/client.toml prod/replica-1/tls/replica.pem
  quorate cert issue --ca prod/ca --client shop --out shop
  quorate cert renew --ca prod/ca prod/replica-*/tls/replica.pem prod/clients/*.pem

Procedures, also for a lost or stolen key: docs/operations/certificates.md")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Issue(IssueArgs),
    Renew(RenewArgs),
    Show(show::Args),
    Status(status::Args),
    NewAuthority(NewAuthorityArgs),
    Trust(TrustArgs),
}

/// Make a certificate with its key, for a replica, a client or an operator.
#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("holder").required(true))]
struct IssueArgs {
    /// The authority's directory
    #[arg(long, value_name = "DIR")]
    ca: PathBuf,
    /// For this replica
    #[arg(long, value_name = "ID", group = "holder", value_parser = clap::value_parser!(u16).range(1..))]
    replica: Option<u16>,
    /// For clients of this name
    #[arg(long, value_name = "NAME", group = "holder", value_parser = parse_name)]
    client: Option<Name>,
    /// For the operator of this name
    #[arg(long, value_name = "NAME", group = "holder", value_parser = parse_name)]
    admin: Option<Name>,
    /// Hosts and addresses to put in besides, for programs that go by those, as clients of etcd do; without, those of the certificate
    /// that this one replaces
    #[arg(long, value_name = "HOST,...", value_delimiter = ',', value_parser = authority::parse_host)]
    hosts: Vec<String>,
    /// Where to put the files: ca.pem, NAME.pem and NAME.key
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// How long it is good for
    #[arg(long, value_name = "DAYS", default_value_t = DAYS, value_parser = clap::value_parser!(u32).range(1..=3652))]
    days: u32,
}

/// Replace certificates by new ones for the same holders, each with a new key.
#[derive(Debug, clap::Args)]
struct RenewArgs {
    /// The authority's directory
    #[arg(long, value_name = "DIR")]
    ca: PathBuf,
    /// The certificates; each key is beside its certificate, with the ending .key
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// How long they are good for
    #[arg(long, value_name = "DAYS", default_value_t = DAYS, value_parser = clap::value_parser!(u32).range(1..=3652))]
    days: u32,
}

/// Make a new authority; the one before stays trusted until it is dropped with `trust --current-only`.
#[derive(Debug, clap::Args)]
struct NewAuthorityArgs {
    /// The authority's directory
    #[arg(long, value_name = "DIR")]
    ca: PathBuf,
}

/// Write which authorities are trusted into these files: the present one, and the one before it.
#[derive(Debug, clap::Args)]
struct TrustArgs {
    /// The authority's directory
    #[arg(long, value_name = "DIR")]
    ca: PathBuf,
    /// The files `ca.pem` of replicas and clients
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Not the one before: whoever has a certificate of that one is refused from then on
    #[arg(long)]
    current_only: bool,
}

pub(crate) fn run(args: Args) -> Outcome {
    let text = match args.command {
        Command::Issue(args) => issue(&args)?,
        Command::Renew(args) => renew(&args)?,
        Command::Show(args) => return show::run(&args),
        Command::Status(args) => return status::run(&args),
        Command::NewAuthority(args) => new_authority(&args)?,
        Command::Trust(args) => trust(&args)?,
    };
    print::line(text)?;
    Ok(ExitCode::SUCCESS)
}

fn issue(args: &IssueArgs) -> Outcome<String> {
    let office = Office::open(&args.ca)?;
    let (holder, name) = match (args.replica, &args.client, &args.admin) {
        (Some(replica), ..) => (Holder::Replica(ReplicaId::new(replica)), "replica".to_owned()),
        (_, Some(name), _) => (Holder::Client(name.clone()), name.to_string()),
        (.., Some(name)) => (Holder::Admin(name.clone()), name.to_string()),
        _ => return Err(Failure::usage("name a holder with --replica, --client or --admin")),
    };
    if name == "ca" {
        return Err(Failure::usage(
            "a holder can not be named ca: the file of the authorities has that name",
        ));
    }
    let to = Destination { directory: &args.out, name: &name };
    let replaced = replaced(&to.files().certificate, &holder)?;
    let kept = replaced.as_ref().filter(|_| args.hosts.is_empty()).map(Certificate::own_hosts);
    let hosts = kept.as_ref().unwrap_or(&args.hosts);
    let files = office.issue(&to, &holder, hosts, args.days)?;
    Ok(issued(
        &files,
        &format!("{holder} of cluster {}", office.authority.cluster()),
        replaced.as_ref(),
        hosts,
        args.days,
    ))
}

/// The certificate in a file that is written anew, if there is one. One of another holder stays: it is in use somewhere.
fn replaced(path: &Path, holder: &Holder) -> Outcome<Option<Certificate>> {
    if !path.exists() {
        return Ok(None);
    }
    let Ok(old) = certificate(path) else { return Ok(None) };
    match old.identity.as_ref().map(|identity| &identity.holder) {
        Some(other) if other != holder => Err(Failure::usage(format!(
            "{} is the certificate of {other}, and would be lost: name another directory with --out, or remove that file",
            path.display()
        ))),
        _ => Ok(Some(old)),
    }
}

/// What was made, and where it belongs.
fn issued(
    files: &Files,
    holder: &str,
    replaced: Option<&Certificate>,
    hosts: &[String],
    days: u32,
) -> String {
    let mut text = format!("{holder} has a certificate for {days} days");
    let _ = match replaced {
        Some(old) => writeln!(text, ", in place of the one for {}", old.holder()),
        None => writeln!(text),
    };
    let _ = match hosts {
        [] => writeln!(
            text,
            "It names no hosts: clients that go by host names, as those of etcd do, need some (--hosts)."
        ),
        hosts => writeln!(text, "It names these hosts: {}", hosts.join(", ")),
    };
    text.push_str("\n[tls]\n");
    for (key, path) in [("ca", &files.ca), ("certificate", &files.certificate), ("key", &files.key)] {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
        let _ = writeln!(text, "{key} = \"{}\"", path.display());
    }
    text.push_str(match replaced {
        Some(_) => "\nA replica.toml or client.toml that names these files already stays as it is.",
        None => "\nThis section goes into its replica.toml or client.toml.",
    });
    text
}

fn renew(args: &RenewArgs) -> Outcome<String> {
    let office = Office::open(&args.ca)?;
    let mut text = String::new();
    for path in &args.files {
        let old = certificate(path)?;
        if old.is_authority {
            // As in `clients/*.pem`, where the file of the authorities lies, too.
            let _ = writeln!(text, "{}: an authority's; left as it is", path.display());
            continue;
        }
        let Some(identity) = &old.identity else {
            return Err(Failure::usage(format!("{} is for {}", path.display(), old.holder())));
        };
        if identity.cluster != office.authority.cluster() {
            return Err(of_another_cluster(path, identity, &office, &args.ca));
        }
        let files = Files {
            ca: path.with_file_name(authority::CA_FILE),
            certificate: path.clone(),
            key: path.with_extension("key"),
        };
        office.write(&files, &identity.holder, &old.own_hosts(), args.days)?;
        let _ = writeln!(text, "{}: {} for {} days", path.display(), identity.holder, args.days);
    }
    text.push_str(
        "Copy them to where they are used. Running replicas and clients notice them by themselves.",
    );
    Ok(text)
}

fn of_another_cluster(path: &Path, identity: &Identity, office: &Office, ca: &Path) -> Failure {
    let flag = match &identity.holder {
        Holder::Replica(replica) => format!("--replica {}", replica.number()),
        Holder::Client(name) => format!("--client {name}"),
        Holder::Admin(name) => format!("--admin {name}"),
    };
    let out = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let (path, ca, out, cluster) = (path.display(), ca.display(), out.display(), office.authority.cluster());
    Failure::usage(format!(
        "{path} is for {identity}, and the authority in {ca} is of cluster {cluster}. To renew it, name the right authority with --ca. If it \
         should be of cluster {cluster} instead: quorate cert issue --ca {ca} {flag} --out {out}"
    ))
}

fn new_authority(args: &NewAuthorityArgs) -> Outcome<String> {
    let office = Office::replace(&args.ca)?;
    Ok(format!(
        "cluster {} has a new authority in {}. Nobody trusts it yet, so go on in this order:\n\
         1. quorate cert trust --ca {ca} FILES   the files ca.pem of all replicas and clients: both are trusted\n\
         2. quorate cert renew --ca {ca} FILES   the certificates of all replicas and clients\n\
         3. quorate cert trust --ca {ca} --current-only FILES   only the new one is trusted\n\
         After each step wait until all have noticed: docs/operations/certificates.md.",
        office.authority.cluster(),
        args.ca.display(),
        ca = args.ca.display(),
    ))
}

fn trust(args: &TrustArgs) -> Outcome<String> {
    let office = Office::open(&args.ca)?;
    let bundle = if args.current_only { &office.current } else { &office.trusted };
    for path in &args.files {
        write(path, &bundle.pem, write_public)?;
    }
    let count = certificates_in(bundle.pem.as_bytes()).map_or(0, |found| found.len());
    Ok(format!("{} files trust {count} authorities now", args.files.len()))
}

/// The first certificate of a PEM file.
fn certificate(path: &Path) -> Outcome<Certificate> {
    let unusable = |why: String| Failure::usage(format!("{} is not usable: {why}", path.display()));
    let found = certificates_in(read(path)?.as_bytes()).map_err(|why| unusable(why.to_string()))?;
    Certificate::decode(&found[0]).map_err(|why| unusable(why.to_string()))
}

fn parse_name(text: &str) -> Result<Name, String> {
    Name::parse(text).ok_or_else(|| "a name has 1 to 64 letters, digits, `.`, `-` and `_`".to_owned())
}
