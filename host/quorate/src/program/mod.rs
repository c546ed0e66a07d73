//! The program of a replica: what its `main` does beside the service.
//!
//! [`run`] is a whole `main`. The modules are its parts, which `quorate serve` uses, too: `log`, `signals`, and what `quorate dev` wants of a
//! replica that it started (`supervised`; by files, see `word`: `slow`, `hurt`).

pub mod hurt;
pub mod log;
pub mod signals;
pub mod slow;
mod supervised;
pub mod word;

pub use supervised::{Supervised, die_with_parent};

use log::{Levels, LogFormat};
use quorate_execute::Service;
use quorate_runtime::{Config, Replica, StartError};
use quorate_types::Halt;
use signals::Signals;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

#[cfg(test)]
mod tests;

/// Runs a replica of this service until it is told to stop: the whole `main` of a service's program.
///
/// ```no_run
/// # use quorate::{Context, Typed, TypedService};
/// # #[derive(Default, serde::Serialize, serde::Deserialize)]
/// # struct Counter(i64);
/// # impl TypedService for Counter {
/// #     type Command = i64;
/// #     type Reply = i64;
/// #     type Query = ();
/// #     type Answer = i64;
/// #     fn execute(&mut self, amount: i64, _: &Context) -> i64 { self.0 += amount; self.0 }
/// #     fn query(&self, (): (), _: &Context) -> i64 { self.0 }
/// # }
/// fn main() -> std::process::ExitCode {
///     quorate::run(Typed(Counter::default()))
/// }
/// ```
///
/// The program takes the replica's configuration, `counter replica-1/replica.toml`. It logs to standard error as the variable `QUORATE_LOG`
/// says (`info` by itself; `QUORATE_LOG_FORMAT=json` for programs), unless `main` started a log of its own before. It prints a line when the
/// replica listens, stops cleanly on SIGINT and SIGTERM, reads certificates again on SIGHUP, and logs more on SIGUSR1, as before on SIGUSR2.
/// It ends with exit code 1 when the replica does not start or stops by itself, and with 2 when the command line or the configuration is
/// wrong. `counter --service` prints name and version of the service, which `quorate dev -- ./counter` asks for.
pub fn run<S: Service + 'static>(service: S) -> ExitCode {
    run_with(service, std::env::args_os().skip(1))
}

/// As [`run`], with these arguments instead of those of the command line: for programs that have arguments of their own.
pub fn run_with<S: Service + 'static>(service: S, arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let name = std::env::args_os().next().map(PathBuf::from);
    let name =
        name.as_deref().and_then(Path::file_name).map_or("replica".into(), |name| name.to_string_lossy());
    let done = match Asked::of(arguments.into_iter()) {
        Ok(Asked::Help) => print(&help(&name)),
        Ok(Asked::Service) => print(&described(&service)),
        Ok(Asked::Replica(config)) => replica(&config, Box::new(service)),
        Err(why) => Err(Wrong::usage(format!("{why}\n{}", help(&name)))),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(Wrong { why, code }) => {
            eprintln!("{name}: {why}");
            code.into()
        }
    }
}

/// What the command line asks for.
#[derive(Debug, PartialEq, Eq)]
enum Asked {
    Help,
    Service,
    Replica(PathBuf),
}

impl Asked {
    fn of(arguments: impl Iterator<Item = OsString>) -> Result<Self, String> {
        let arguments: Vec<OsString> = arguments.collect();
        match arguments.as_slice() {
            [] => Err("the configuration of the replica is missing".into()),
            [one] if one == "--help" || one == "-h" => Ok(Self::Help),
            [one] if one == "--service" => Ok(Self::Service),
            [option] if option.to_string_lossy().starts_with('-') => {
                Err(format!("there is no option {}", option.to_string_lossy()))
            }
            [file] => Ok(Self::Replica(file.into())),
            _ => Err(format!("one argument is wanted, and {} came", arguments.len())),
        }
    }
}

fn help(name: &str) -> String {
    format!(
        "usage: {name} FILE        runs the replica with this configuration, as `quorate init` makes it: prod/replica-1/replica.toml\n\
         \x20      {name} --service   says which service it is"
    )
}

/// Name and version of a service, as [`described`] prints them and `quorate dev` reads them.
fn described(service: &dyn Service) -> String {
    format!("{} {}", service.name(), service.version())
}

/// Why the program ends without success.
struct Wrong {
    why: String,
    code: u8,
}

impl Wrong {
    fn new(why: impl ToString) -> Self {
        Self { why: why.to_string(), code: 1 }
    }
    fn usage(why: impl ToString) -> Self {
        Self { why: why.to_string(), code: 2 }
    }
}

/// Prints a line. Whoever reads it may be gone.
fn print(line: &str) -> Result<(), Wrong> {
    use io::Write as _;
    match writeln!(io::stdout(), "{line}") {
        Err(why) if why.kind() != io::ErrorKind::BrokenPipe => Err(Wrong::new(why)),
        _ => Ok(()),
    }
}

fn replica(file: &Path, service: Box<dyn Service>) -> Result<(), Wrong> {
    let supervised = Supervised::by_environment();
    supervised.bind().map_err(Wrong::new)?;
    let format = std::env::var("QUORATE_LOG_FORMAT").map_or(Ok(LogFormat::default()), |name| name.parse());
    let format = format.map_err(|why: String| Wrong::usage(format!("QUORATE_LOG_FORMAT: {why}")))?;
    let levels = Levels::start(format).map_err(Wrong::usage)?;
    let signals = Signals::notice().map_err(Wrong::new)?;
    let config = Config::read(file).map_err(Wrong::usage)?;
    let (cluster, replica) = (config.cluster.clone(), config.replica);
    let options = supervised.options().map_err(Wrong::new)?;
    let running = Replica::new(config, service).with(options).start().map_err(|why| match why {
        StartError::Config(_) => Wrong::usage(why),
        _ => Wrong::new(format!("replica {replica} does not start: {why}")),
    })?;
    let (address, pid) = (running.address(), std::process::id());
    print(&format!("replica {replica} of cluster {cluster} is ready on {address} (pid {pid})"))?;
    signals.obey(running.stopper(), running.reloader(), levels).map_err(Wrong::new)?;
    match running.join() {
        Ok(()) => Ok(()),
        Err(Halt::EraBegins { number }) => {
            tracing::info!("era {number} begins: this program starts itself again");
            Err(Wrong::new(format!("this program can not start itself again: {}", begin_anew())))
        }
        Err(why) => Err(Wrong::new(format!("replica {replica} stopped by itself: {why}"))),
    }
}

/// Starts this program again in this process, with the same arguments. Comes back only with the reason why that failed.
#[must_use]
pub fn begin_anew() -> io::Error {
    let program = match std::env::current_exe() {
        Ok(program) => program,
        Err(why) => return why,
    };
    let mut again = Command::new(program);
    let mut arguments = std::env::args_os();
    if let Some(own_name) = arguments.next() {
        again.arg0(own_name);
    }
    again.args(arguments).exec()
}
