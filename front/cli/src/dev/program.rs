//! A program of the user's own, of which `dev -- PROGRAM` runs the replicas.

use quorate_command::failure::{Failure, Outcome};
use quorate_command::layout::parse_own_service;
use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a program may take to say which service it is.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often to look whether it said so.
const LOOK: Duration = Duration::from_millis(2);

/// Its name and what it is given before the configuration.
#[derive(Clone, Debug)]
pub(super) struct Program(Vec<OsString>);

/// What a program says of its service.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Described {
    pub(super) service: String,
    pub(super) version: u32,
}

impl Program {
    /// `None`: the replicas run a service of this program.
    pub(super) fn of(words: &[OsString]) -> Option<Self> {
        (!words.is_empty()).then(|| Self(words.to_vec()))
    }

    /// The command without the configuration.
    pub(super) fn command(&self) -> Command {
        let (program, arguments) = self.0.split_first().map_or((OsStr::new(""), &[][..]), |(a, b)| (a, b));
        let mut command = Command::new(program);
        command.args(arguments);
        command
    }

    pub(super) fn shown(&self) -> String {
        let words: Vec<_> = self.0.iter().map(|word| word.to_string_lossy()).collect();
        words.join(" ")
    }

    /// Asks the program which service it is.
    ///
    /// # Errors
    /// When it can not be started, or does not say so.
    pub(super) fn describe(&self) -> Outcome<Described> {
        let shown = self.shown();
        let missing = |what: &str| {
            Failure::usage(format!(
                "`{shown} --service` {what}, but name and version of the service, as in \"bank 1\": a program that ends its main with \
                 quorate::run(service) does. Another one needs --service NAME, as in `quorate dev --service bank -- {shown}`"
            ))
        };
        let asked = self
            .command()
            .arg("--service")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let mut child = asked.map_err(|why| {
            let built = if Path::new(&self.0[0]).components().count() > 1 { ": build it first" } else { "" };
            Failure::usage(format!("can not start {shown}: {why}{built}"))
        })?;
        if !ended_in_time(&mut child) {
            let _ = child.kill();
            let _ = child.wait();
            return Err(missing("did not end in ten seconds"));
        }
        let said = child.wait_with_output().map_err(|why| Failure::new(why.to_string()))?.stdout;
        let said = String::from_utf8_lossy(&said);
        described(&said)
            .ok_or_else(|| missing(&format!("said {:?}", said.lines().next().unwrap_or_default())))
    }
}

fn ended_in_time(child: &mut Child) -> bool {
    let until = Instant::now() + PATIENCE;
    while Instant::now() < until {
        match child.try_wait() {
            Ok(None) => std::thread::sleep(LOOK),
            Ok(Some(_)) | Err(_) => return true,
        }
    }
    false
}

fn described(said: &str) -> Option<Described> {
    let (service, version) = said.trim().split_once(' ')?;
    let version = version.parse().ok().filter(|version| *version > 0)?;
    Some(Described { service: parse_own_service(service).ok()?, version })
}

#[cfg(test)]
mod tests;
