//! `quorate demo`: a tour of about two minutes, on a cluster of its own, that a newcomer runs first.
//!
//! The cluster is one of `quorate dev`, which this starts as a process of its own, and the faults are those of `quorate chaos`. `story` is what
//! happens, `tale` how it is told, `writer` the client that writes all the time, `check` what is asked of its writes in the end. The story has
//! a thread of its own; the first thread waits for signals, so that Ctrl-C ends everything at any time. Tests: tests/all/demo.rs.

mod check;
mod place;
mod stage;
mod store;
mod story;
mod supervisor;
mod tale;
mod writer;

use place::Place;
use quorate_command::failure::{Doing as _, Failure, Outcome};
use quorate_command::print;
use serde_json::{Value, json};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use supervisor::Supervisor;
use tale::Tale;

/// See in two minutes what this is: a tour with a cluster of its own.
///
/// Starts four replicas on this machine, of which one may lie. Kills the leader, lets it lie, breaks the network, damages a disk, and
/// says each time what happens, with numbers. In the end every write that was acknowledged meanwhile must be there, once and in order.
/// Ctrl-C ends it at any time, and nothing is left behind.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  quorate demo
  quorate demo --fast            without pauses to read
  quorate demo --keep            the cluster's directory stays; `quorate dev --dir` goes on with it
  quorate demo --json | jq .writes

Exit codes: 0 all of it went well, 1 a check failed, it was ended before, or it could not start.")]
pub(crate) struct Args {
    /// Where to make a directory for the cluster
    #[arg(long, value_name = "DIR", default_value = ".quorate/demo")]
    dir: PathBuf,
    /// Leave out the pauses in which to read
    #[arg(long)]
    fast: bool,
    /// Leave the cluster's directory, and say how to go on with it
    #[arg(long)]
    keep: bool,
    /// Print nothing but one JSON document at the end, and do not pause
    #[arg(long)]
    json: bool,
}

/// What ends the tour.
enum Event {
    /// A signal came, or nobody reads what is printed.
    Stop,
    /// The story has been told, as far as it went. It fails if a check does.
    Told(Outcome<Value>),
}

pub(crate) fn run(args: Args) -> Outcome {
    let (events, inbox) = channel();
    // Before there is anything that would be left behind.
    listen_to_signals(events.clone())?;
    let place = Place::make(&args.dir)?;
    let mut supervisor = Supervisor::start(&place.path).inspect_err(|_| drop(place.remove()))?;
    let tale = Arc::new(Tale::new(&args, events.clone()));
    tell(&tale, &place, &mut supervisor, events)?;
    let event = inbox.recv().unwrap_or(Event::Stop);
    // Nothing is said about what the end itself breaks.
    let steps = tale.close();
    supervisor.stop();
    match event {
        Event::Stop => {
            let gone = place.remove();
            // Whoever ended it may not read this any more.
            let _ = print::line(match (&gone, args.json) {
                (_, true) => json!({ "ok": false, "interrupted": true, "steps": steps }).to_string(),
                (Ok(()), false) => {
                    "\nEnded before its time: all replicas are stopped, and the directory is removed.".into()
                }
                (Err(_), false) => "\nEnded before its time: all replicas are stopped.".into(),
            });
            gone.map(|()| ExitCode::FAILURE)
        }
        Event::Told(Ok(writes)) => {
            let kept = args.keep.then(|| place.path.clone());
            if !args.keep {
                place.remove()?;
            }
            print::line(if args.json {
                json!({ "ok": true, "interrupted": false, "steps": steps, "writes": writes, "directory": kept, "next": tale::next_json(kept.as_deref()) })
                    .to_string()
            } else {
                tale::farewell(kept.as_deref())
            })?;
            Ok(ExitCode::SUCCESS)
        }
        Event::Told(Err(why)) => {
            // What the replicas logged is evidence.
            if args.json {
                let why = why.to_string();
                print::line(json!({ "ok": false, "interrupted": false, "steps": steps, "error": why, "directory": place.path }).to_string())?;
            }
            Err(Failure::new(format!(
                "{why}. The directory {} stays, with what the replicas logged",
                place.path.display()
            )))
        }
    }
}

/// Lets the story be told by a thread of its own.
fn tell(tale: &Arc<Tale>, place: &Place, supervisor: &mut Supervisor, events: Sender<Event>) -> Outcome<()> {
    let (tale, path, left) = (tale.clone(), place.path.clone(), place.left.clone());
    let said = supervisor.said();
    let run = move || drop(events.send(Event::Told(story::tell(&tale, &path, &left, said))));
    std::thread::Builder::new().name("story".into()).spawn(run).doing("start a thread").map(drop)
}

fn listen_to_signals(events: Sender<Event>) -> Outcome<()> {
    let mut signals =
        signal_hook::iterator::Signals::new([SIGINT, SIGTERM, SIGHUP]).doing("take notice of signals")?;
    let run = move || signals.forever().for_each(|_| drop(events.send(Event::Stop)));
    std::thread::Builder::new().name("signals".into()).spawn(run).doing("start a thread").map(drop)
}
