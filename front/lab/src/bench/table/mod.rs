//! `bench table`: the table of docs/performance.md, measured by one command; and tables of papers, which `super::figure` draws.
//!
//! Each round measures every line once, with the null program beside it, and then the other programs. Ratios are taken within a round,
//! since the machine's other work changes from minute to minute.
//!
//! Files: `lines` (which lines there are, and how each is measured), `peers` (other programs), `result` (medians, and those of an earlier
//! run), `page` (Markdown, and its place in a file), `drawn` (what is drawn).

mod drawn;
mod lines;
mod page;
mod peers;
mod result;
#[cfg(test)]
mod tests;

use super::figure::smart::{self, Named};
use super::output::Output;
use lines::Line;
use peers::{Peer, Said};
use quorate_command::failure::{Doing as _, Failure, Outcome};
use quorate_command::machine::Machine;
use quorate_command::progress::Progress;
use result::{Document, Earlier, Round};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Measure the lines of the performance page's table, beside the null program and beside other programs; or a table of a paper.
///
/// Lines take turns: each round measures all of them, with the null program beside each. The table shows medians of the rounds, with bounds;
/// a ratio is taken within a round. The exit code is 1 if a line failed, or if a cluster did not keep what it had acknowledged.
#[derive(Debug, clap::Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_value_name = "NAME",
    subcommand_help_heading = "Tables of papers",
    after_help = "Examples:
  quorate bench table bft-smart-1 --durability memory --secs 3
  quorate bench table bft-smart-2 --durability memory --clients 50,200,400
  quorate bench table --out docs/performance.md
  quorate bench table --only append,kv-put-one --rounds 3 --secs 2
  quorate bench table --json > before.json
  quorate bench table --compare before.json
  quorate bench table --peers peers.toml

A file for --peers:
  [[peer]]
  name = \"other\"
  command = \"other-bench --secs 5 | jq -c '{name: .what, per_s: .rate, p50_us: (.p50_ms * 1000)}'\"

The command prints a line of JSON for each measurement: `name` (what was measured) and `per_s`, and `per_cpu_s`, `p50_us` and `p99_us` where
it knows them. It is run by sh, once a round; nothing ends one that hangs (`timeout 60 other-bench` does)."
)]
pub(super) struct TableArgs {
    #[command(subcommand)]
    named: Option<Named>,
    /// How often to measure each line
    #[arg(long, value_name = "COUNT", default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Only these lines, or all that begin so: append-memory, append-memory-plain, append-group, append-group-plain, kv-put, kv-put-one,
    /// kv-put-many, kv-read, kv-weak-read, bft-100, bft-1000, idle
    #[arg(long, value_name = "LINES", value_delimiter = ',')]
    only: Vec<String>,
    /// Also kv-put-many: puts under 10 million keys rather than 100,000, which takes some gigabytes of memory
    #[arg(long)]
    keys_many: bool,
    /// How long to measure each line in a round, in seconds; idle replicas are measured for four times that
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0)]
    secs: f64,
    /// How long to run before measuring, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0)]
    warm: f64,
    /// A TOML file that names other programs, which are run once a round
    #[arg(long, value_name = "FILE")]
    peers: Option<PathBuf>,
    /// Show the medians of an earlier run beside these: a file with its JSON; of several documents the last
    #[arg(long, value_name = "FILE")]
    compare: Option<PathBuf>,
    /// Write the table into this file, between the lines `<!-- begin: quorate bench table -->` and `<!-- end -->`
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// Where the clusters and the null program keep their logs: on the disk that is to be measured
    #[arg(long, value_name = "DIR", default_value = ".quorate/bench")]
    scratch: PathBuf,
}

pub(super) fn run(args: &TableArgs, output: &Output) -> Outcome {
    if let Some(named) = &args.named {
        return smart::run(named, output);
    }
    // What can not be used is said at once, and not after an hour of measuring.
    let lines = lines::chosen(args)?;
    let peers = args.peers.as_deref().map_or_else(|| Ok(Vec::new()), |file| read(file, peers::parse))?;
    let earlier = args.compare.as_deref().map(|file| read(file, Earlier::parse)).transpose()?;
    if let Some(file) = &args.out {
        read(file, |text| page::placed(text, ""))?;
    }
    let machine = Machine::ask(&args.scratch);
    let (mut rounds, mut said) = (Vec::new(), Vec::new());
    for number in 1..=args.rounds {
        rounds.push(round(&lines, number, args.rounds));
        said.push(peers.iter().map(|peer| ask(peer, number, args.rounds)).collect::<Vec<Said>>());
    }
    // What the null program left is an empty directory, if anything.
    let _ = fs::remove_dir(lines::floor_dir(&args.scratch));
    let rows = lines.iter().enumerate();
    let rows = rows.map(|(at, line)| line.row(rounds.iter().map(|round| &round[at]))).collect();
    let document = Document {
        benchmark: "table".into(),
        version: env!("CARGO_PKG_VERSION").into(),
        rounds: args.rounds,
        seconds: args.secs,
        machine,
        lines: rows,
        peers: peers::rows(&peers, &said),
    };
    let table = page::table(&document, earlier.as_ref());
    output.show(&document, || table.clone(), || drawn::page(&document))?;
    let valid = document.lines.iter().all(|row| row.failed.is_none());
    if let Some(file) = args.out.as_deref() {
        if !valid {
            let file = file.display();
            return Err(Failure::new(format!("{file} is as it was, since a line of the table failed")));
        }
        let text = read(file, |text| page::placed(text, &table))?;
        fs::write(file, text).doing(format_args!("write {}", file.display()))?;
    }
    Ok(if valid { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Measures every line once.
fn round(lines: &[Line], number: u32, of: u32) -> Vec<Round> {
    let mut rounds: Vec<Round> = lines.iter().map(|_| Round::default()).collect();
    // Every other time the other way round: what changes steadily favours nobody.
    let forth = number % 2 == 1;
    for step in 0..lines.len() {
        let at = if forth { step } else { lines.len() - 1 - step };
        rounds[at] = lines[at].measure(&format!("{} {number}/{of}", lines[at].name), forth);
    }
    rounds
}

fn ask(peer: &Peer, number: u32, of: u32) -> Said {
    let _progress = Progress::waiting(&format!("{} {number}/{of}", peer.name));
    peer.ask()
}

fn read<T>(file: &Path, parse: impl Fn(&str) -> Result<T, String>) -> Outcome<T> {
    let shown = file.display();
    let text = fs::read_to_string(file).doing(format_args!("read {shown}"))?;
    parse(&text).map_err(|why| Failure::usage(format!("{shown}: {why}")))
}
