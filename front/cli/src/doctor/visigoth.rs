//! `quorate doctor visigoth`: how late replies come on the operator's own machines, and which s and T follow for the Visigoth model.
//!
//! What is measured, drawn and concluded is in the laboratory (`quorate_lab::rounds`). Tests: front/cli/tests/all/doctor_visigoth.rs.

use quorate_command::arguments::seconds;
use quorate_command::failure::{Doing as _, Failure, Outcome};
use quorate_command::machine::Machine;
use quorate_command::print;
use quorate_command::progress::Progress;
use quorate_lab::rounds::{self, Advice, MEMBERS_MAX, MESSAGE_BYTES, MESSAGE_MAX, Measured, Plan, Wish};
use serde::Serialize;
use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// How long a reply is waited for.
const PATIENCE: Duration = Duration::from_secs(30);
/// The longest key file.
const KEY_BYTES_MAX: u64 = 64 << 10;

/// Measure how late replies come, and choose s and T for `--fault-model visigoth`.
///
/// Run it at the same time on every machine that is to have a replica: each of the processes asks all others once a second, with a message of
/// 50 KB, and each answers when it has written the message to its disk and synced it. Printed is after which time the first, second, ... reply
/// had come, and what follows for s, T and the number of replicas, with the risk of each. Without --group, processes on this machine alone
/// show how it looks.
///
/// Exit code 1 when no s fits.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  quorate doctor visigoth
  quorate doctor visigoth --listen 10.0.0.1:7100 --group 10.0.0.1:7100,10.0.0.2:7100,10.0.0.3:7100 --seconds 3600
  quorate doctor visigoth --listen 10.0.0.1:7100 --group ... --json > machine-1.json
  quorate doctor visigoth --read machine-1.json,machine-2.json,machine-3.json --u 2 --o 0

Columns: `p99` is the time that 99 of 100 rounds do not exceed; `never` counts the rounds in which the reply did not come in 30 s.")]
pub(super) struct Args {
    /// The address of this machine's process, as it stands in --group
    #[arg(long, value_name = "ADDRESS", requires = "group")]
    listen: Option<String>,
    /// The addresses of all processes, in the same order everywhere
    #[arg(long, value_name = "ADDRESSES", value_delimiter = ',', requires = "listen")]
    group: Vec<String>,
    /// A file with a secret, the same everywhere: whoever does not have it can not take part
    #[arg(long, value_name = "FILE", requires = "group")]
    key: Option<PathBuf>,
    /// Without --group: how many processes there are on this machine
    #[arg(long, value_name = "COUNT", default_value_t = 4, conflicts_with = "group")]
    processes: usize,
    /// How long to measure, in seconds; an hour or more shows rare delays
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0)]
    seconds: f64,
    /// From one round to the next, in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=60_000))]
    every_ms: u64,
    /// The size of each message, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = MESSAGE_BYTES)]
    bytes: usize,
    /// How long to wait for the other processes to be there, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60.0)]
    wait: f64,
    /// A directory on the disk that the replica will have; nothing is left there
    #[arg(long, value_name = "DIR", default_value = ".")]
    disk: PathBuf,
    /// Put together what `--json` printed on each machine, and measure nothing
    #[arg(long, value_name = "FILES", value_delimiter = ',', conflicts_with_all = ["listen", "group", "processes"])]
    read: Vec<PathBuf>,
    /// How many replicas may be faulty
    #[arg(long, value_name = "COUNT", default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=64))]
    u: u32,
    /// How many of them may lie in concert
    #[arg(long, value_name = "COUNT", default_value_t = 0, value_parser = clap::value_parser!(u32).range(..=64))]
    o: u32,
    /// In how many percent of rounds more than s replicas may be later than T
    #[arg(long, value_name = "PERCENT", default_value_t = 0.1)]
    risk: f64,
    /// The replicas' timing.election_min_ms, which is more than twice T
    #[arg(long, value_name = "MS", default_value_t = 300, value_parser = clap::value_parser!(u64).range(1..=3_600_000))]
    election_min_ms: u64,
    /// Where to write the page with charts
    #[arg(long, value_name = "FILE", default_value = "doctor-visigoth.html")]
    plot: PathBuf,
    /// Print one JSON document, which --read takes
    #[arg(long)]
    json: bool,
}

/// What is printed. `measured` is read again by `--read` and `bench figure visigoth-2`.
#[derive(Serialize)]
struct Document {
    machine: Machine,
    plot: PathBuf,
    advice: Advice,
    measured: Measured,
}

pub(super) fn run(args: &Args) -> Outcome {
    let wish = wish(args)?;
    let measured = if args.read.is_empty() { measure(args)? } else { Measured::read(&args.read)? };
    let advice = Advice::of(&measured, wish);
    let machine = Machine::ask(&args.disk);
    let page = rounds::page(&measured, &advice, &machine);
    fs::write(&args.plot, page).doing(format_args!("write {}", args.plot.display()))?;
    let fits = advice.recommended.is_some();
    let text = if args.json {
        print::json(&Document { machine, plot: args.plot.clone(), advice, measured })?
    } else {
        format!("{}\ndrawn: {}", rounds::text(&measured, &advice), args.plot.display())
    };
    print::line(text)?;
    Ok(if fits { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn wish(args: &Args) -> Outcome<Wish> {
    let Args { u, o, risk, election_min_ms, .. } = *args;
    if !(0.0001..=50.0).contains(&risk) {
        return Err(Failure::usage("--risk is 0.0001 to 50 percent"));
    }
    if o > u {
        return Err(Failure::usage(format!("--o {o}: who lies is faulty, and no more than --u {u} are")));
    }
    Ok(Wish { u, o, risk: risk / 100.0, election_min_ms })
}

fn measure(args: &Args) -> Outcome<Measured> {
    let length = seconds("--seconds", args.seconds)?;
    let every = Duration::from_millis(args.every_ms);
    if !(1..=MESSAGE_MAX).contains(&args.bytes) {
        return Err(Failure::usage(format!("--bytes is 1 to {MESSAGE_MAX}")));
    }
    let members = if args.group.is_empty() { args.processes } else { args.group.len() };
    if !(2..=MEMBERS_MAX).contains(&members) {
        return Err(Failure::usage(format!("a group has 2 to {MEMBERS_MAX} processes, and not {members}")));
    }
    if let Some(twice) =
        (1..members).find(|at| args.group.get(*at).is_some_and(|a| args.group[..*at].contains(a)))
    {
        return Err(Failure::usage(format!("--group has {} twice", args.group[twice])));
    }
    let plan = Plan {
        rounds: (length.as_millis() / every.as_millis().max(1)).max(1) as u64,
        every,
        message_bytes: args.bytes,
        patience: PATIENCE,
        wait: seconds("--wait", args.wait)?,
    };
    let progress = Progress::new("rounds", length);
    let tell = |round: u64| {
        let passed = every.saturating_mul(u32::try_from(round).unwrap_or(u32::MAX));
        progress.at(passed, || format!("round {round}"));
    };
    match &args.listen {
        Some(listen) => rounds::join(&args.group, listen, &secret(args)?, (&plan, &args.disk), tell),
        None => rounds::local(members, &plan, &args.disk, tell),
    }
}

fn secret(args: &Args) -> Outcome<Vec<u8>> {
    let Some(file) = &args.key else { return Ok(Vec::new()) };
    let doing = format!("read {}", file.display());
    let bytes = fs::metadata(file).doing(&doing)?.len();
    if !(1..=KEY_BYTES_MAX).contains(&bytes) {
        return Err(Failure::usage(format!(
            "--key {}: {bytes} bytes, where 1 to {KEY_BYTES_MAX} are a key",
            file.display()
        )));
    }
    fs::read(file).doing(&doing)
}
