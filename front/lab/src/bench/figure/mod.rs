//! `bench figure`: measurements that are drawn, each as one page without dependencies, and as JSON with all numbers.
//!
//! Files: `dfc`, `catchup`, `niagara`, `links`, `cop`, `few`, `replies`, `eve` and `smart` (the figures), `closed` (kinds of clusters in a closed loop),
//! `filling` and `shares` (what they share), `samples` (calls over time), `marks` (when replicas wrote checkpoints).
//! `super::draw` makes the pages. Tests: `tests.rs` here, and front/cli/tests/all/figure.rs with real processes.

pub(super) mod catchup;
mod closed;
mod cop;
mod dfc;
mod eve;
mod few;
pub(super) mod filling;
mod links;
pub(super) mod marks;
mod niagara;
pub(crate) mod replies;
mod samples;
mod shares;
pub(super) mod smart;
#[cfg(test)]
mod tests;

use super::draw::{Made, Page};
use super::options::Measurement;
use super::output::Output;
use clap::ValueEnum;
use quorate_command::cluster::ClusterArgs;
use quorate_command::failure::{Doing as _, Failure, Outcome};
use quorate_command::layout::{DurabilityChoice, PillarsChoice};
use quorate_command::ordering::{FaultModelWord, OrderArgs};
use quorate_command::print;
use serde::Serialize;
use std::fs;
use std::path::{Path, PathBuf};

/// The figures that there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Name {
    /// Throughput and the longest call over time, while checkpoints are taken in each of the ways
    Dfc,
    /// How long a replica that was away takes to catch up, and what clients notice of it
    Catchup,
    /// Requests agreed on and processor time for each, by the number of instances, beside a lane for each step and one lane for all
    Cop,
    /// Appends asked for and answered, by the number of instances or of lanes
    #[value(name = "niagara-3")]
    Niagara3,
    /// Latency by load and by the number of instances
    #[value(name = "niagara-4")]
    Niagara4,
    /// Strong reads and writes by the number of network links
    #[value(name = "niagara-5")]
    Niagara5,
    /// How long a process waits for the first, second, ... reply of a group
    #[value(name = "visigoth-2")]
    Visigoth2,
    /// What a replica is worth, by the number of faults: few members beside those that survive crashes or lies
    #[value(name = "visigoth-3")]
    Visigoth3,
    /// Latency against throughput of clusters that survive the same number of faults
    #[value(name = "visigoth-4")]
    Visigoth4,
    /// Latency against throughput of six replicas, by u, s and o
    #[value(name = "visigoth-5")]
    Visigoth5,
    /// Throughput over time while one replica crashes, and another one sleeps
    #[value(name = "visigoth-6")]
    Visigoth6,
    /// Speed-up of a bookshop by threads, beside a server that is not replicated
    #[value(name = "eve-3")]
    Eve3,
    /// Speed-up by workers, for commands of different lengths
    #[value(name = "eve-4")]
    Eve4,
    /// Speed-up by workers, for objects of different sizes
    #[value(name = "eve-5")]
    Eve5,
    /// Speed-up by conflicts, where hints miss some of them
    #[value(name = "eve-6")]
    Eve6,
    /// Speed-up by conflicts, where hints name some that are none
    #[value(name = "eve-7")]
    Eve7,
    /// Throughput over time of a pair while one of the two replicas is away
    #[value(name = "eve-8")]
    Eve8,
    /// Bugs of threads that are masked, with mixers that are more or less wrong
    #[value(name = "eve-9")]
    Eve9,
    /// Latency against throughput of a pair, beside a primary that ships its state
    #[value(name = "eve-10")]
    Eve10,
    /// Bandwidth against throughput of a pair, beside a primary that ships its state
    #[value(name = "eve-11")]
    Eve11,
    /// Latency against throughput by sizes of requests and replies, of clusters that survive a crash or a lie
    #[value(name = "bft-smart-4")]
    BftSmart4,
    /// Requests per second by the number of faults, of clusters that survive crashes or lies
    #[value(name = "bft-smart-5")]
    BftSmart5,
    /// Requests per second by the share of reads, of clusters that survive a crash or a lie
    #[value(name = "bft-smart-6")]
    BftSmart6,
    /// Signed requests per second by the number of threads that check signatures
    #[value(name = "bft-smart-7")]
    BftSmart7,
    /// Throughput over time while a replica joins, the leader crashes and comes back, and a replica is removed
    #[value(name = "bft-smart-8")]
    BftSmart8,
}

/// Measure and draw a figure; without a name, list those that there are.
///
/// Writes OUT/NAME.html, which any browser shows and which loads nothing, and OUT/NAME.json with all numbers. With --plot the page is written there,
/// too.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  quorate bench figure
  quorate bench figure dfc --state-bytes 1GiB --secs 60
  quorate bench figure catchup --state-bytes 512MiB
  quorate bench figure cop --durability memory --secs 3
  quorate bench figure niagara-3 --durability memory --secs 3
  quorate bench figure niagara-3 --durability memory --secs 3 --curve lanes
  quorate bench figure niagara-5 --durability memory --secs 5
  quorate bench figure visigoth-2 --results machine-1.json,machine-2.json
  quorate bench figure visigoth-3 --durability memory --secs 3
  quorate bench figure visigoth-6 --durability memory --divide 1
  quorate bench figure eve-3 --durability memory --secs 3
  quorate bench figure eve-4 --durability memory --secs 3
  quorate bench figure eve-6 --durability memory --secs 3 --pair-conflicts 1000
  quorate bench figure eve-8 --verified --rounds 1
  quorate bench figure eve-9 --durability memory --secs 3
  quorate bench figure eve-10 --durability memory --secs 3
  quorate bench figure bft-smart-5 --durability memory --secs 3
  quorate bench figure bft-smart-6 --durability memory --secs 3 --reads 0,50,100
  quorate bench figure bft-smart-7 --durability memory --secs 3 --threads 0,1,2
  quorate bench figure bft-smart-8 --rounds 1
  quorate bench figure bft-smart-8 --rounds 1 --liar
  quorate bench figure dfc --modes none,differential --callers 20 --sync-delay-us 1000")]
pub(crate) struct FigureArgs {
    /// Which figure
    #[arg(value_enum)]
    name: Option<Name>,
    /// Where to write it
    #[arg(long, value_name = "DIR", default_value = "figures")]
    out: PathBuf,
    /// When a write counts as durable
    #[arg(long, value_enum, default_value_t = DurabilityChoice::Group)]
    durability: DurabilityChoice,
    /// Adds this many microseconds to every sync, also the null program's
    #[arg(long, value_name = "US", default_value_t = 0)]
    sync_delay_us: u64,
    /// Where the clusters and the null program keep their data: on the disk that is to be measured
    #[arg(long, value_name = "DIR", default_value = ".quorate/bench")]
    scratch: PathBuf,
    /// How long to measure each way, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 30.0)]
    secs: f64,
    /// How long to run before measuring, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 2.0)]
    warm: f64,
    /// Callers: each has a session of its own and one put outstanding
    #[arg(long, value_name = "COUNT", default_value_t = 100)]
    callers: usize,
    /// The state that is put there before: keys and values, as in 256MiB
    #[arg(long, value_name = "BYTES", default_value = "256MiB", value_parser = parse_bytes)]
    state_bytes: u64,
    /// Size of a value in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 1024)]
    value_bytes: usize,
    /// Bytes of batches from one checkpoint to the next [default: so that each window has about four]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    interval_bytes: Option<u64>,
    /// Bytes per second that writing checkpoints may use, 0 for no limit [default: the replicas' own]
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    rate_bytes: Option<u64>,
    /// For catchup: bytes per second that sending the state may use, one run each, 0 for no limit [default: the replicas' own, and none]
    #[arg(long, value_name = "BYTES", value_delimiter = ',', value_parser = parse_bytes)]
    transfer_rates: Vec<u64>,
    /// For dfc: which ways to take checkpoints, in which order; one may come several times
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = dfc::Mode::DEFAULT)]
    modes: Vec<dfc::Mode>,
    /// For cop, niagara-3 and -4: how many instances, one cluster each; with --curve lanes how many lanes
    #[arg(long, value_name = "COUNTS", value_delimiter = ',', default_values_t = [1, 2, 4, 8, 12])]
    instances: Vec<u16>,
    /// For niagara-3 and -4: what the curves differ in
    #[arg(long, value_enum, default_value_t = niagara::By::Instances)]
    curve: niagara::By,
    /// For cop, niagara-3 and -4, visigoth-3 to -6 and bft-smart: how often to measure each cluster, in turns
    #[arg(long, value_name = "COUNT", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=8))]
    rounds: u32,
    /// For cop: which faults the replicas survive, one part of the figure each
    #[arg(long, value_enum, value_delimiter = ',', default_values_t = [FaultModelWord::Byzantine, FaultModelWord::Crash])]
    fault_models: Vec<FaultModelWord>,
    /// For cop: calls under way, of all clients together; enough that lanes always have something to do
    #[arg(long, value_name = "COUNT", default_value_t = 16_384, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    calls: u32,
    /// For cop, niagara-3 and -4: percent of a core that each lane of each replica gets, 0 for no limit
    #[arg(long, value_name = "PERCENT", default_value_t = 5)]
    quota: u32,
    /// For cop, niagara-3 and -4: size of a command in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 16)]
    command_bytes: usize,
    /// For cop, niagara-3 and -4: commands in one call [default: 10; 1 for cop]
    #[arg(long, value_name = "COUNT")]
    commands_per_call: Option<usize>,
    /// For niagara-3 and -4: the first rate, in commands per second; each next one is half as much again
    #[arg(long, value_name = "PER_SECOND")]
    rate_first: Option<f64>,
    /// For cop, niagara, visigoth and bft-smart: without certificates and encryption
    #[arg(long)]
    plain: bool,
    /// For niagara-5: how many links each replica has, one measurement each
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 4])]
    links: Vec<u16>,
    /// For niagara-5: what each link carries, in Mbit per second
    #[arg(long, value_name = "MBIT", default_value_t = 250)]
    link_mbit: u32,
    /// Where agreement of the instances is done [default: as in a configuration that does not say]
    #[arg(long, value_enum)]
    pillars: Option<PillarsChoice>,
    /// Do not run the null program
    #[arg(long)]
    no_floor: bool,
    #[command(flatten)]
    replies: replies::Options,
    #[command(flatten)]
    closed: closed::ClosedArgs,
    #[command(flatten)]
    few: few::FewArgs,
    #[command(flatten)]
    smart: smart::SmartArgs,
    #[command(flatten)]
    eve: eve::EveArgs,
    #[arg(long, hide = true)]
    inside_network: bool,
}

impl FigureArgs {
    /// The part of the measurement that all figures share.
    pub(super) fn measurement(&self) -> Measurement {
        Measurement {
            cluster: ClusterArgs::default(),
            order: OrderArgs::default(),
            replicas: None,
            durability: Some(self.durability),
            // As in the papers: the ways of taking checkpoints are compared. For instances the links are part of the cost.
            plain: self.plain || matches!(self.name, Some(Name::Dfc | Name::Catchup)),
            instances: 1,
            lanes: 1,
            pillars: self.pillars,
            placement: None,
            sync_delay_us: self.sync_delay_us,
            scratch: self.scratch.clone(),
            secs: self.secs,
            warm: self.warm,
            repeat: 1,
            no_floor: self.no_floor,
        }
    }
}

/// A figure that was measured.
pub(super) struct Drawn {
    pub(super) html: String,
    pub(super) json: String,
    /// The result as text, for the terminal.
    pub(super) text: String,
    /// Whether the cluster kept everything that it acknowledged.
    pub(super) valid: bool,
}

impl Drawn {
    /// Of a figure with this name, and whether what was measured is valid.
    fn of((name, valid): (&str, bool), page: &Page, document: &impl Serialize) -> Outcome<Self> {
        let warning = if valid { "" } else { "NOT VALID, see below. " };
        let mut lines = vec![format!("{warning}{name}: {}", page.title), page.table.text()];
        lines.extend(page.facts.iter().map(|fact| format!("  {fact}")));
        Ok(Self {
            html: page.html(&Made::now()),
            json: print::json(document)?,
            text: lines.join("\n"),
            valid,
        })
    }
}

pub(super) fn run(args: &FigureArgs, output: &Output) -> Outcome {
    let Some(name) = args.name else {
        if output.draws() {
            return refuse(
                "--plot draws a figure: name one, as in `quorate bench figure dfc --plot dfc.html`",
            );
        }
        print::line(list())?;
        return Ok(std::process::ExitCode::SUCCESS);
    };
    args.measurement().check()?;
    make(&args.out)?;
    let drawn = match name {
        Name::Dfc => dfc::draw(args)?,
        Name::Catchup => catchup::draw(args)?,
        Name::Cop => cop::draw(args)?,
        Name::Niagara3 => niagara::draw(args, niagara::What::Provided)?,
        Name::Niagara4 => niagara::draw(args, niagara::What::Latency)?,
        Name::Niagara5 => links::draw(args)?,
        Name::Visigoth2 => replies::draw(args)?,
        Name::Visigoth3 => few::worth::draw(args)?,
        Name::Visigoth4 => few::curves::draw(args, few::curves::What::SameFaults)?,
        Name::Visigoth5 => few::curves::draw(args, few::curves::What::SixReplicas)?,
        Name::Visigoth6 => few::trace::draw(args)?,
        Name::Eve3 => eve::shop::speedup::draw(args)?,
        Name::Eve4 => eve::draw(args, eve::What::Lengths)?,
        Name::Eve5 => eve::draw(args, eve::What::Sizes)?,
        Name::Eve6 => eve::draw(args, eve::What::Missed)?,
        Name::Eve7 => eve::draw(args, eve::What::Imagined)?,
        Name::Eve8 => eve::pair::draw(args)?,
        Name::Eve9 => eve::masked::draw(args)?,
        Name::Eve10 => eve::shop::passive::draw(args, eve::shop::passive::What::Latency)?,
        Name::Eve11 => eve::shop::passive::draw(args, eve::shop::passive::What::Bandwidth)?,
        Name::BftSmart4 => smart::curves::draw(args)?,
        Name::BftSmart5 => smart::faults::draw(args)?,
        Name::BftSmart6 => smart::mixes::draw(args)?,
        Name::BftSmart7 => smart::signed::draw(args)?,
        Name::BftSmart8 => smart::trace::draw(args)?,
    };
    written(&quorate_command::arguments::name(name), &drawn, &args.out, output)
}

/// Makes the directory, before minutes of measuring.
fn make(out: &Path) -> Outcome<()> {
    fs::create_dir_all(out).doing(format_args!("make {}", out.display()))
}

/// Writes what was drawn into this directory, and prints it.
fn written(named: &str, drawn: &Drawn, out: &Path, output: &Output) -> Outcome {
    let page = out.join(format!("{named}.html"));
    write(&page, &drawn.html)?;
    write(&out.join(format!("{named}.json")), &drawn.json)?;
    if output.is_json() {
        print::line(&drawn.json)?;
    } else {
        print::line(format!("{}\nwritten: {} and .json beside it", drawn.text, page.display()))?;
    }
    output.draw(|| drawn.html.clone())?;
    Ok(if drawn.valid { std::process::ExitCode::SUCCESS } else { std::process::ExitCode::FAILURE })
}

fn write(file: &Path, text: &str) -> Outcome<()> {
    fs::write(file, text).doing(format_args!("write {}", file.display()))
}

fn list() -> String {
    let mut lines = vec!["figures:".to_owned()];
    for name in Name::value_variants() {
        let Some(value) = name.to_possible_value() else { continue };
        let help = value.get_help().map(ToString::to_string).unwrap_or_default();
        lines.push(format!("  {:<12} {help}", value.get_name()));
    }
    lines.push("draw one with `quorate bench figure NAME`".into());
    lines.join("\n")
}

/// A number of bytes, with or without KiB, MiB or GiB.
pub(super) fn parse_bytes(text: &str) -> Result<u64, String> {
    let units = [("KiB", 1_u64 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40)];
    let (number, unit) =
        units.iter().find_map(|(name, unit)| Some((text.strip_suffix(name)?, *unit))).unwrap_or((text, 1));
    let bytes = number.trim().parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    bytes.ok_or_else(|| "an amount is a number of bytes, or of KiB, MiB or GiB, as in 256MiB".into())
}

/// Refuses what can not run, and says why.
pub(super) fn refuse<T>(why: &str) -> Outcome<T> {
    Err(Failure::usage(why))
}
