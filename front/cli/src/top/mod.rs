//! `quorate top`: a cluster live in a terminal. docs/cli.md says what stands where.
//!
//! `looker` asks the replicas, `look` is what they said, `took` their counts of durations. `rates` compares two looks, and `layout` and
//! `table` make lines of that (`line`), `document` JSON: all four are pure functions. `live` is the view with keys, `terminal` what it does
//! to the terminal. Tests: `tests/`, and tests/all/top.rs with real processes.

mod document;
mod layout;
mod line;
mod live;
mod look;
mod looker;
mod rates;
mod table;
mod terminal;
#[cfg(test)]
mod tests;
mod took;

use layout::{Size, View};
use look::Look;
use looker::Looker;
use quorate_command::arguments::parse_time;
use quorate_command::cluster::ClusterArgs;
use quorate_command::failure::{Failure, Outcome};
use quorate_command::print;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use terminal::Terminal;

/// The time between two looks is in this range.
const EVERY: std::ops::RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(3600);

/// Show a cluster live: what its replicas do, how long it takes, and what is wrong.
///
/// It asks every replica, as `quorate status` does, and shows what happened since it asked before. Keys: q ends, s sorts by another
/// column, p pauses, h helps. A cluster that is not there yet, or is down, is shown once it comes. Where standard output is no terminal, one table is printed.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  quorate top
  quorate top --every 5s --config prod/client.toml
  quorate top --batch 3                            three tables, one a second
  quorate top --batch 1 --json | jq .requests_per_s
  quorate top --json >> seen.jsonl                 a line a second until Ctrl-C

Rates and percentiles are of the time between two looks, so with --batch and --json the first comes after one --every. `-` (in JSON: null) is
what is not known, as the rates of a replica that began again. p50 and p99 are upper bounds, since replicas count in buckets that double.")]
pub(crate) struct Args {
    #[command(flatten)]
    cluster: ClusterArgs,
    /// The time between two looks, as in 500ms or 2s
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = parse_time)]
    every: Duration,
    /// Print so many tables and end
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    batch: Option<u64>,
    /// Print one JSON document per look, each in a line; without --batch it goes on
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Outcome {
    if !EVERY.contains(&args.every) {
        return Err(Failure::usage("--every is 100ms to 3600s"));
    }
    if args.batch.is_none() && !args.json && Terminal::is_there() {
        return live::run(args.cluster.clone(), args.every);
    }
    let count = match args.batch {
        None if args.json => u64::MAX,
        count => count.unwrap_or(1),
    };
    // Wide enough for all, or as wide as the terminal; nothing is left out at the bottom.
    let size = if Terminal::is_there() { Terminal::size() } else { Size::WITHOUT_END };
    let size = Size { lines: usize::MAX, ..size };
    print_looks(args, count, |before, now| {
        if args.json {
            return print::json_line(&document::document(Some(before), now));
        }
        let lines = layout::screen(Some(before), now, &View::default(), size);
        lines.iter().map(line::Line::text).collect::<Vec<_>>().join("\n") + "\n"
    })
}

/// Prints so many looks, each with what happened since the look before.
fn print_looks(args: &Args, count: u64, text: impl Fn(&Look, &Look) -> String) -> Outcome {
    let mut looker = Looker::new(args.cluster.clone());
    let mut began = Instant::now();
    // Nobody waits for a cluster that is not there: who asked for the first look is told.
    let mut before = looker.look()?;
    for _ in 0..count {
        std::thread::sleep(args.every.saturating_sub(began.elapsed()));
        began = Instant::now();
        let now = looker.look().unwrap_or_else(|why| Look::nothing(looker::time_ms(), why.to_string()));
        if !print::line(text(&before, &now))? {
            break;
        }
        before = now;
    }
    Ok(ExitCode::SUCCESS)
}
