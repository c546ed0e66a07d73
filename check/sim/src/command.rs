//! `quorate sim`: what the command line asks for, done with plain arguments.

use crate::campaign::{Campaign, Summary, run_plan, run_where};
use crate::hashes;
use crate::html;
use crate::plan::{Fault, Plan, Profile};
use crate::planted;
use crate::shrink::shrink;
use crate::trace::Level;
use crate::world::Report;
use serde_json::json;
use std::collections::BTreeSet;
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Runs that the shrinker may take.
const SHRINK_RUNS: usize = 400;

/// What to run, and how to report it.
#[derive(Clone, Debug)]
pub struct Options {
    /// What all runs share.
    pub profile: Profile,
    /// Only this seed; some of the other fields are about such a single run.
    pub seed: Option<u64>,
    /// The first of many seeds.
    pub first: u64,
    /// The number of seeds.
    pub count: u64,
    /// Threads.
    pub jobs: usize,
    /// Machine-readable lines instead of text.
    pub json: bool,
    /// One run: print its trace.
    pub trace: Option<Level>,
    /// One run: write it as a page.
    pub html: Option<PathBuf>,
    /// One run: if it fails, make it smaller first.
    pub shrink: bool,
    /// Many runs: append a line for each here, and leave out those that are there already.
    pub log: Option<PathBuf>,
    /// Record the trace hashes of `count` runs over all kinds of clusters in this new file.
    pub record: Option<PathBuf>,
    /// Run what this file holds again, and tell what differs.
    pub compare: Option<PathBuf>,
    /// The table of planted bugs instead; needs a build with `--cfg planted`.
    pub planted: bool,
    /// The planted bug that is in force; needs such a build, too.
    pub plant: Option<String>,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            profile: Profile::default(),
            seed: None,
            first: 1,
            count: 200,
            jobs: std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            json: false,
            trace: None,
            html: None,
            shrink: false,
            log: None,
            record: None,
            compare: None,
            planted: false,
            plant: None,
        }
    }
}

/// How far a campaign is, for a progress bar.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// Runs that ended.
    pub done: u64,
    /// All of them.
    pub total: u64,
    /// Runs per second.
    pub rate: f64,
    /// Failures so far.
    pub failures: usize,
}

/// Executes what was asked for. Returns whether every run was clean.
///
/// # Errors
/// When a file or the output can not be written, or a planted bug is asked for that this build does not contain.
pub fn execute(
    options: &Options,
    out: &mut dyn Write,
    mut progress: impl FnMut(Progress),
) -> io::Result<bool> {
    if (options.planted || options.plant.is_some()) && !quorate_types::HAS_PLANTED {
        return Err(io::Error::new(io::ErrorKind::Unsupported, planted::HOW));
    }
    if options.planted {
        return hunt(options, out);
    }
    quorate_types::plant(options.plant.as_deref());
    match (options.seed, &options.record, &options.compare) {
        (Some(seed), ..) => one(options, seed, out),
        (None, Some(path), _) => record(options, path, out, &mut progress),
        (None, None, Some(path)) => compare(options, path, out, &mut progress),
        (None, None, None) => many(options, out, &mut progress),
    }
}

/// Reports the progress of runs that do not fail.
fn meter(progress: &mut dyn FnMut(Progress)) -> impl FnMut(u64, u64) {
    let begun = Instant::now();
    move |done, total| {
        let rate = done as f64 / begun.elapsed().as_secs_f64().max(1e-9);
        progress(Progress { done, total, rate, failures: 0 });
    }
}

fn record(
    options: &Options,
    path: &Path,
    out: &mut dyn Write,
    progress: &mut dyn FnMut(Progress),
) -> io::Result<bool> {
    let file = File::create_new(path).map_err(|why| about(path, &why))?;
    let (kinds, mut file) = (hashes::kinds(), BufWriter::new(file));
    let runs = hashes::record(&kinds, options.count, options.jobs, &mut file, meter(progress))?;
    let kinds = kinds.len();
    if options.json {
        writeln!(out, "{}", json!({ "runs": runs, "kinds": kinds }))?;
    } else {
        writeln!(out, "{runs} runs of {kinds} kinds of clusters are recorded in {}", path.display())?;
    }
    Ok(true)
}

fn compare(
    options: &Options,
    path: &Path,
    out: &mut dyn Write,
    progress: &mut dyn FnMut(Progress),
) -> io::Result<bool> {
    let file = BufReader::new(File::open(path).map_err(|why| about(path, &why))?);
    let recorded = hashes::read(file).map_err(|why| about(path, &why))?;
    let compared = hashes::compare(&recorded, options.jobs, meter(progress));
    let runs: usize = compared.iter().map(|kind| kind.runs).sum();
    let differ: usize = compared.iter().map(|kind| kind.differ.len()).sum();
    if options.json {
        let kinds = compared.iter().filter(|kind| !kind.differ.is_empty());
        let kinds: Vec<_> = kinds.map(|kind| json!({ "kind": kind.kind, "seeds": kind.differ })).collect();
        writeln!(out, "{}", json!({ "runs": runs, "differ": differ, "kinds": kinds }))?;
        return Ok(differ == 0);
    }
    for kind in &compared {
        let Some(first) = kind.differ.first() else { continue };
        let (count, runs, line) = (kind.differ.len(), kind.runs, line_of(*first, &kind.kind));
        writeln!(out, "{count} of {runs} differ: {line} --trace all")?;
    }
    writeln!(out, "{runs} runs: {differ} differ from what {} says", path.display())?;
    Ok(differ == 0)
}

/// The error of a file, with its name.
fn about(path: &Path, why: &io::Error) -> io::Error {
    io::Error::new(why.kind(), format!("{}: {why}", path.display()))
}

fn as_json(report: &Report) -> serde_json::Value {
    json!({
        "seed": report.seed,
        "trace_hash": format!("{:016x}", report.hash),
        "events": report.events,
        "virtual_s": report.time as f64 / 1e9,
        "commands": report.commands,
        "operations": report.operations,
        "checker": report.failure.as_ref().map(|failure| failure.checker),
        "failure": report.failure.as_ref().map(|failure| failure.text.clone()),
        "unjudged": report.unjudged,
    })
}

fn one(options: &Options, seed: u64, out: &mut dyn Write) -> io::Result<bool> {
    let mut plan = Plan::new(seed, &options.profile);
    let mut needed = None;
    if options.shrink
        && let Some(shrunk) = shrink(&plan, SHRINK_RUNS)
    {
        if !options.json {
            let (before, after) = (plan.faults.len(), shrunk.plan.faults.len());
            writeln!(out, "{before} faults, {after} needed, found in {} runs:", shrunk.runs)?;
            for fault in &shrunk.plan.faults {
                writeln!(out, "{}", told(fault))?;
            }
        }
        needed = Some(shrunk.plan.faults.iter().map(|f| told(f).trim_start().to_owned()).collect::<Vec<_>>());
        plan = shrunk.plan;
    }
    let level = if options.html.is_some() { Level::All } else { options.trace.unwrap_or(Level::Hash) };
    let (report, trace) = run_plan(plan.clone(), level);
    if let Some(path) = &options.html {
        std::fs::write(path, html::page(&plan, &report, &trace)).map_err(|why| about(path, &why))?;
    }
    if options.json {
        let mut value = as_json(&report);
        if let Some(faults) = needed {
            value["faults_needed"] = faults.into();
        }
        writeln!(out, "{value}")?;
    } else {
        if options.trace.is_some() {
            write!(out, "{}", trace.text())?;
        }
        writeln!(out, "seed {seed}: {}", plan.summary())?;
        tell(options, &report, out)?;
    }
    Ok(report.failure.is_none())
}

/// A fault of a plan, with its time in seconds.
fn told((at, fault): &(u64, Fault)) -> String {
    format!("{:>13.6}  {fault}", *at as f64 / 1e9)
}

/// The command that runs a seed of such clusters.
fn line_of(seed: u64, arguments: &str) -> String {
    format!("quorate sim --seed {seed} {arguments}").trim_end().to_owned()
}

/// The command that runs this seed again in the same way, and shows what happens.
fn again(options: &Options, seed: u64) -> String {
    let mut line = line_of(seed, &options.profile.arguments());
    if let Some(bug) = &options.plant {
        line += &format!(" --plant {bug}");
    }
    line + " --trace events"
}

fn tell(options: &Options, report: &Report, out: &mut dyn Write) -> io::Result<()> {
    let seed = report.seed;
    match &report.failure {
        None => writeln!(
            out,
            "seed {seed}: clean; {} events, {} commands, {:.1} s of virtual time, trace hash {:016x}",
            report.events,
            report.commands,
            report.time as f64 / 1e9,
            report.hash
        ),
        Some(failure) => writeln!(
            out,
            "seed {seed}: {}: {}\n  see it again: {}\n  with few faults: the same, and --shrink",
            failure.checker,
            failure.text,
            again(options, seed)
        ),
    }
}

fn many(options: &Options, out: &mut dyn Write, progress: &mut dyn FnMut(Progress)) -> io::Result<bool> {
    let mut known = BTreeSet::new();
    let mut log = match &options.log {
        None => None,
        Some(path) => {
            if path.exists() {
                known = clean_seeds(BufReader::new(File::open(path).map_err(|why| about(path, &why))?));
            }
            let file = OpenOptions::new().create(true).append(true).open(path);
            Some(file.map_err(|why| about(path, &why))?)
        }
    };
    let campaign = Campaign {
        profile: options.profile,
        first: options.first,
        count: options.count,
        jobs: options.jobs,
        failures_max: 10,
    };
    let total = (campaign.first..campaign.first.saturating_add(campaign.count))
        .filter(|seed| !known.contains(seed))
        .count() as u64;
    let begun = Instant::now();
    let mut written = Ok(());
    let summary = run_where(
        &campaign,
        |seed| !known.contains(&seed),
        |summary, report| {
            if let Some(log) = &mut log
                && written.is_ok()
            {
                written = writeln!(log, "{}", as_json(report));
            }
            progress(Progress {
                done: summary.runs,
                total,
                rate: summary.runs as f64 / begun.elapsed().as_secs_f64().max(1e-9),
                failures: summary.failures.len(),
            });
        },
    );
    written?;
    summarize(options, &summary, begun.elapsed().as_secs_f64(), out)?;
    Ok(summary.is_clean())
}

/// The seeds that a log of an earlier campaign calls clean. A truncated line is ignored.
fn clean_seeds(log: impl io::BufRead) -> BTreeSet<u64> {
    let values = log.lines().map_while(Result::ok).filter_map(|line| {
        let value: serde_json::Value = serde_json::from_str(&line).ok()?;
        value["failure"].is_null().then(|| value["seed"].as_u64())?
    });
    values.collect()
}

fn summarize(options: &Options, summary: &Summary, wall: f64, out: &mut dyn Write) -> io::Result<()> {
    let rate = summary.runs as f64 / wall.max(1e-9);
    let cluster = summary.time as f64 / 1e9 / wall.max(1e-9);
    if options.json {
        let failures: Vec<_> = summary.failures.iter().map(as_json).collect();
        return writeln!(
            out,
            "{}",
            json!({
                "runs": summary.runs,
                "seeds_per_s": rate,
                "cluster_seconds_per_s": cluster,
                "wall_s": wall,
                "events": summary.events,
                "commands": summary.commands,
                "operations": summary.operations,
                "unjudged": summary.unjudged,
                "clean": summary.is_clean(),
                "failures": failures,
            })
        );
    }
    for report in &summary.failures {
        tell(options, report, out)?;
    }
    writeln!(
        out,
        "{} runs in {wall:.1} s: {rate:.0} seeds and {cluster:.0} cluster-seconds per second; {} events, {} commands, {} \
         operations; {} failures, {} histories too hard to judge",
        summary.runs,
        summary.events,
        summary.commands,
        summary.operations,
        summary.failures.len(),
        summary.unjudged
    )?;
    if summary.is_unjudged() {
        writeln!(out, "too many histories are too hard to judge: the campaign fails")?;
    }
    Ok(())
}

fn hunt(options: &Options, out: &mut dyn Write) -> io::Result<bool> {
    writeln!(out, "| bug | what is wrong | seen by | seeds |\n| --- | --- | --- | --- |")?;
    let mut all = true;
    for bug in planted::BUGS {
        let found = planted::hunt(*bug, options.profile, options.count, options.jobs);
        all &= found.by.is_some();
        writeln!(out, "{}", planted::line(&found))?;
    }
    Ok(all)
}
