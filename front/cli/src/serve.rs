//! `quorate serve`: runs one replica until it is told to stop.

use crate::fronts::{Fronts, Ways};
use crate::services;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use quorate::program::log::{Levels, LogFormat};
use quorate::program::signals::Signals;
use quorate::program::{Supervised, begin_anew, die_with_parent};
use quorate_command::failure::{Doing as _, Failure, Outcome};
use quorate_command::print;
use quorate_lab::lies;
use quorate_runtime::{Options, Replica, StartError};
use quorate_types::Halt;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Run one replica until it is stopped.
///
/// Prints one line when it listens. Stops cleanly on SIGINT and SIGTERM, with exit code 0; reads its certificates again on SIGHUP; logs
/// more on SIGUSR1, and as before on SIGUSR2. Ends with exit code 1 when it can not start or its disk can not be trusted any more,
/// and with 2 when the command line or the configuration is wrong.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  quorate serve --config prod/replica-1/replica.toml
  QUORATE_LOG=debug quorate serve --config replica.toml --log-format json 2> log.json

Environment:
  QUORATE_LOG            what is logged: error, warn, info (the default), debug, trace, or a list such as info,quorate_runtime=debug
  MIMALLOC_PURGE_DELAY   after how many milliseconds unused memory goes back to the system (60000), as the allocator takes it
  MIMALLOC_ALLOW_THP     1 for huge pages (0)")]
pub(crate) struct Args {
    /// The configuration of the replica; docs/configuration.md explains every key
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// How the log is written to standard error: lines for people, or one JSON document a line, for programs
    #[arg(long, value_name = "FORMAT", default_value = "text", value_parser = log_format())]
    log_format: LogFormat,
    /// Append a line to this file for each completed sync of the log, to check durability from outside
    #[arg(long, value_name = "FILE")]
    sync_trace: Option<PathBuf>,
    /// Behave like a program that can work at this feature level at most: to test upgrades
    #[arg(long, value_name = "LEVEL", hide = true)]
    max_feature_level: Option<u32>,
    /// Lie to members and clients as this file says, which may change: for `quorate chaos lie` in a cluster of `quorate dev`
    #[arg(long, value_name = "FILE", hide = true, requires = "die_with_parent")]
    lies: Option<PathBuf>,
    /// Send everything to other replicas as late as this file says, which may change: for `quorate chaos slow` in a cluster of `quorate dev`
    #[arg(long, value_name = "FILE", hide = true, requires = "die_with_parent")]
    slow: Option<PathBuf>,
    /// Be cut off, have a full disk, or let the clock jump as this file says, which may change: for `quorate chaos` in a cluster of `quorate dev`
    #[arg(long, value_name = "FILE", hide = true, requires = "die_with_parent")]
    hurt: Option<PathBuf>,
    /// End when the process that started this one ends; PID names that process, in case it has ended already
    #[arg(long, value_name = "PID", num_args = 0..=1, require_equals = true, default_missing_value = "0")]
    die_with_parent: Option<u32>,
}

/// What is done first.
const BIND: &str = "end with the process that started this one";

/// Reads the name of a format.
fn log_format() -> impl TypedValueParser<Value = LogFormat> {
    PossibleValuesParser::new(LogFormat::NAMES).try_map(|name| name.parse::<LogFormat>())
}

/// Settings of the allocator, unless the environment sets them.
///
/// Unused memory stays for a minute before it goes back to the system. The default is a second: then each checkpoint, which copies objects
/// before they change, would get its memory anew from the system, at a sixth of all processor time under load.
///
/// No huge pages: the system would clear 2 MiB at the first use of each, at a tenth of all processor time under puts of 1 KiB, and some of
/// that memory is never used.
const ALLOCATOR: [(&str, &str); 2] = [("MIMALLOC_PURGE_DELAY", "60000"), ("MIMALLOC_ALLOW_THP", "0")];

/// Restarts the program with these settings, since the allocator reads them when the process begins. If that fails the program continues
/// without.
fn set_allocator() {
    let missing: Vec<_> =
        ALLOCATOR.into_iter().filter(|(name, _)| std::env::var_os(name).is_none()).collect();
    let Ok(program) = std::env::current_exe() else { return };
    if missing.is_empty() {
        return;
    }
    let mut again = std::process::Command::new(program);
    let mut arguments = std::env::args_os();
    if let Some(own_name) = arguments.next() {
        again.arg0(own_name);
    }
    drop(again.args(arguments).envs(missing).exec());
}

pub(crate) fn run(args: Args) -> Outcome {
    set_allocator();
    if let Some(parent) = args.die_with_parent {
        die_with_parent(parent).doing(BIND)?;
    }
    let levels = Levels::start(args.log_format).map_err(Failure::usage)?;
    // Before anything else: a signal that comes while the log is read back must not be lost.
    let signals = Signals::notice().doing("take notice of signals")?;
    let config = services::read_config(&args.config)?;
    let place = args.config.parent().unwrap_or(Path::new(""));
    let fronts = Fronts::read(&config, place).map_err(|why| Failure::usage(why.to_string()))?;
    let ways = Ways::default();
    let service = services::service(&config.service, &ways)?;
    // Fronts are clients of the era that is in force.
    let own = config.in_force().map_err(|why| Failure::new(why.to_string()))?;
    let (cluster, replica) = (config.cluster.clone(), config.replica);
    let oracle = config.oracle.as_ref().map(quorate_oracle::of).transpose();
    let oracle = oracle.map_err(|why| Failure::usage(format!("oracle: {why}")))?;
    let lies = args.lies.map(|file| lies::told(&config, file)).transpose()?;
    let supervised = Supervised { parent: None, slow: args.slow, hurt: args.hurt };
    let options = Options {
        sync_trace: args.sync_trace,
        feature_level_max: args.max_feature_level,
        mouth: lies.clone().map(|told| lies::mouth(&config, told)),
        oracle: oracle.flatten(),
        ..supervised.options().doing("start a thread")?
    };
    let running = Replica::new(config, service).with(options).start().map_err(|why| match why {
        StartError::Config(_) => Failure::usage(why.to_string()),
        _ => Failure::new(format!("replica {replica} does not start: {why}")),
    })?;
    // They end before the replica does.
    let fronts = fronts.start(&own, &running, ways, lies)?;
    for front in &fronts {
        tracing::info!("clients of {} are served on {}", front.front(), front.address());
    }
    print::line(format!(
        "replica {replica} of cluster {cluster} is ready on {} (pid {})",
        running.address(),
        std::process::id()
    ))?;
    signals.obey(running.stopper(), running.reloader(), levels).doing("start a thread")?;
    let ended = running.join();
    drop(fronts);
    if let Err(Halt::EraBegins { number }) = ended {
        tracing::info!("era {number} begins: this program starts itself again");
        return Err(Failure::new(format!("this program can not start itself again: {}", begin_anew())));
    }
    ended.map_err(|why| Failure::new(format!("replica {replica} stopped by itself: {why}")))?;
    tracing::info!("stopped");
    Ok(ExitCode::SUCCESS)
}
