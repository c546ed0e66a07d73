//! `quorate admin`: the keys of administrators, and the commands that they sign. Where replicas may lie, such a command is the only way to
//! change the members and the feature level. docs/operations/administrators.md has the procedures. Tests: admin/tests.rs,
//! tests/all/admin.rs.

mod carry;
mod file;
mod keys;
#[cfg(test)]
mod tests;

pub(crate) use carry::{Standing, believed, carry_out, drafted, drafted_text};
pub(crate) use keys::Signing;

use file::CommandFile;
use quorate_command::cluster::{Cluster, ClusterArgs};
use quorate_command::failure::{Doing as _, Failure, Outcome};
use quorate_command::{print, random};
use quorate_runtime::SigningKey;
use quorate_tls::write_private;
use quorate_types::SessionKey;
use quorate_wire::{AdminCommand, Administrators};
use serde_json::json;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

/// Make keys of administrators, sign commands, and hand them to a cluster whose replicas may lie.
///
/// Where replicas may lie, nobody takes a leader's word for a change of the members. Administrators sign it, with keys that no replica
/// has. `quorate member` and `quorate upgrade` sign by themselves where the keys are at hand; with --sign-later they write a file that
/// is signed elsewhere, perhaps on a machine without a network.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  quorate admin status                                  who administers the cluster, and what was commanded
  quorate member remove 3 --sign-later remove-3.toml    what is to be signed
  quorate admin show remove-3.toml
  quorate admin sign remove-3.toml --admin-key anna.key
  quorate admin submit remove-3.toml

  quorate admin keygen bert.key                         a key of another administrator
  quorate admin replace --key PUBLIC --key PUBLIC --threshold 2")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Status(StatusArgs),
    Keygen(KeygenArgs),
    Show(ShowArgs),
    Sign(SignArgs),
    Submit(SubmitArgs),
    Replace(ReplaceArgs),
}

/// Show who administers the cluster, and the results of the last commands.
#[derive(Debug, clap::Args)]
struct StatusArgs {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// Print one JSON document
    #[arg(long)]
    json: bool,
}

/// Make the key of an administrator, and print its public half.
#[derive(Debug, clap::Args)]
struct KeygenArgs {
    /// Where to write the secret key; must not exist
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// Say what a command does, and who signed it.
#[derive(Debug, clap::Args)]
struct ShowArgs {
    /// The file of the command
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// Sign a command; needs no cluster.
#[derive(Debug, clap::Args)]
struct SignArgs {
    /// The file of the command; the signature is added to it
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The secret key of an administrator
    #[arg(long, value_name = "FILE", required = true)]
    admin_key: Vec<PathBuf>,
}

/// Hand a signed command to the replicas, and wait for its result.
#[derive(Debug, clap::Args)]
struct SubmitArgs {
    /// The file of the command
    #[arg(value_name = "FILE")]
    file: PathBuf,
    #[command(flatten)]
    cluster: ClusterArgs,
}

/// Name other administrators from now on.
#[derive(Debug, clap::Args)]
struct ReplaceArgs {
    /// The public key of an administrator, 64 hexadecimal digits; once for each
    #[arg(long, value_name = "PUBLIC", required = true)]
    key: Vec<String>,
    /// How many of them must sign
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    threshold: u8,
    #[command(flatten)]
    signing: Signing,
    #[command(flatten)]
    cluster: ClusterArgs,
}

pub(crate) fn run(args: Args) -> Outcome {
    match args.command {
        Command::Status(args) => status(&args),
        Command::Keygen(args) => keygen(&args),
        Command::Show(args) => show(&args),
        Command::Sign(args) => sign(&args),
        Command::Submit(args) => submit(&args),
        Command::Replace(args) => replace(&args),
    }
}

/// Refuses a cluster in which nothing is signed.
pub(crate) fn needs_lies(cluster: &Cluster) -> Outcome<()> {
    if cluster.fault_model.may_lie() {
        return Ok(());
    }
    Err(Failure::usage(
        "this cluster survives crashes only: its operators change it by themselves (`quorate member`, `quorate upgrade`)",
    ))
}

fn status(args: &StatusArgs) -> Outcome {
    let cluster = Cluster::find(&args.cluster)?;
    needs_lies(&cluster)?;
    let Standing { executed, threshold, keys, results } = Standing::of(&cluster)?;
    if args.json {
        let results: Vec<_> =
            results.iter().map(|(n, text)| json!({ "number": n, "result": text })).collect();
        let document =
            json!({ "executed": executed, "threshold": threshold, "keys": keys, "results": results });
        print::line(document.to_string())?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut text = format!("{threshold} of {} administrators must sign:\n", keys.len());
    for key in &keys {
        let _ = writeln!(text, "  {key}");
    }
    let _ = write!(text, "{executed} commands were executed");
    for (number, result) in &results {
        let _ = write!(text, "\n  {number}: {}", print::clean(result));
    }
    print::line(text)?;
    Ok(ExitCode::SUCCESS)
}

fn keygen(args: &KeygenArgs) -> Outcome {
    if args.file.exists() {
        return Err(Failure::usage(format!("{} exists: a key is never replaced", args.file.display())));
    }
    let key = SigningKey::new(random::secret()?);
    write_private(&args.file, &key.to_text()).doing(format_args!("write {}", args.file.display()))?;
    print::line(key.public())?;
    Ok(ExitCode::SUCCESS)
}

fn show(args: &ShowArgs) -> Outcome {
    print::line(CommandFile::read(&args.file)?.text())?;
    Ok(ExitCode::SUCCESS)
}

fn sign(args: &SignArgs) -> Outcome {
    let mut command = CommandFile::read(&args.file)?;
    for file in &args.admin_key {
        keys::sign(&mut command.signed, command.cluster, file)?;
    }
    command.write(&args.file)?;
    print::line(command.text())?;
    Ok(ExitCode::SUCCESS)
}

fn submit(args: &SubmitArgs) -> Outcome {
    let (cluster, command) = (Cluster::find(&args.cluster)?, CommandFile::read(&args.file)?);
    needs_lies(&cluster)?;
    if command.cluster != cluster.id {
        return Err(Failure::usage(format!(
            "{} is for the cluster {}, and this one is {}",
            args.file.display(),
            command.cluster,
            cluster.id
        )));
    }
    print::line(carry::submit(&cluster, &command.signed, &command.reason)?)?;
    Ok(ExitCode::SUCCESS)
}

fn replace(args: &ReplaceArgs) -> Outcome {
    let cluster = Cluster::find(&args.cluster)?;
    needs_lies(&cluster)?;
    let read = |text: &String| {
        keys::public(text).map(SessionKey::new).ok_or_else(|| {
            Failure::usage(format!(
                "`{text}` is no public key: 64 hexadecimal digits, as `quorate admin keygen` prints them"
            ))
        })
    };
    let keys = args.key.iter().map(read).collect::<Outcome<Vec<_>>>()?;
    let administrators = Administrators::new(args.threshold, keys).map_err(|_| {
        Failure::usage(format!(
            "{} of {} keys can not sign: there are 1 to 16 different keys, and at most all of them must sign",
            args.threshold,
            args.key.len()
        ))
    })?;
    let number = Standing::of(&cluster)?.executed + 1;
    let command = AdminCommand::Administrators(administrators);
    let done = carry_out(&cluster, &args.signing, (number, command), "")?;
    print::line(done)?;
    Ok(ExitCode::SUCCESS)
}
