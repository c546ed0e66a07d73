//! What the figures about instances and lanes share: commands of numbered appends, lanes with equal shares of a core, and rounds.

use super::{FigureArgs, refuse};
use crate::bench::draw::Line;
use crate::bench::median::Median;
use crate::bench::quota::Quotas;
use crate::bench::report::Check;
use crate::bench::target::Target;
use quorate_command::failure::{Failure, Outcome};

/// The beginning of the lanes' thread names.
const LANE: &str = "lane-";
/// The part of the cores that the lanes of all replicas may have together. The load generator and the disks' threads have the rest.
const FOR_LANES: f64 = 0.75;

/// With one instance a replica has one lane; with more it has one for each instance, and one for what instances share.
pub(super) fn lanes(instances: u16) -> u16 {
    if instances == 1 { 1 } else { instances + 1 }
}

/// Refuses options that can not be, and says why.
pub(super) fn check(args: &FigureArgs) -> Outcome<()> {
    if args.instances.is_empty() || args.instances.iter().any(|instances| !(1..=32).contains(instances)) {
        return refuse("--instances is a list of numbers from 1 to 32");
    }
    if args.command_bytes < 16 || !args.command_bytes.is_multiple_of(8) || args.command_bytes > 64 << 10 {
        return refuse("--command-bytes is 16 to 65536 and a multiple of 8");
    }
    if args.commands_per_call.is_some_and(|count| !(1..=1000).contains(&count)) {
        return refuse("--commands-per-call is 1 to 1000");
    }
    if args.quota != 0 && !(5..=100).contains(&args.quota) {
        return refuse("--quota is 5 to 100 percent of a core, or 0 for no limit");
    }
    Ok(())
}

/// Refuses shares that the machine can not give: then the machine would be measured, and not the lanes.
pub(super) fn check_cores(quota: u32, lanes: u16, replicas: u16, cores: usize) -> Outcome<()> {
    let needed = f64::from(u32::from(lanes) * u32::from(replicas) * quota) / 100.0;
    if needed <= cores as f64 * FOR_LANES {
        return Ok(());
    }
    refuse(&format!(
        "{lanes} lanes of each of {replicas} replicas with {quota} % of a core need {needed:.2} cores, and of {cores} here they may have \
         three quarters: ask for fewer with --instances, or take a machine with more cores; with --quota 0 lanes have no limit, and then \
         lanes beyond the cores bring nothing"
    ))
}

/// Limits all lanes of the replicas. Keep the result longer than the target, whose threads lie in it.
pub(super) fn limit(target: &Target, lanes: u16, quota: u32) -> Outcome<Option<Quotas>> {
    if quota == 0 {
        return Ok(None);
    }
    let mut quotas = Quotas::new(quota)?;
    for pid in &target.pids {
        let limited = quotas.limit_all(*pid, LANE)?;
        if limited != usize::from(lanes) {
            return Err(Failure::new(format!("a replica has {limited} threads `{LANE}*` for {lanes} lanes")));
        }
    }
    Ok(Some(quotas))
}

/// The share of each lane, as text.
pub(super) fn text(quota: Option<u32>) -> String {
    match quota {
        Some(percent) => format!("every lane of every replica gets {percent} % of a core"),
        None => "lanes get as much of the cores as there is".into(),
    }
}

/// The number of rounds, as text.
pub(super) fn rounds(rounds: u32) -> String {
    match rounds {
        1 => "one round".into(),
        many => format!("medians of {many} rounds, with the lowest and the highest"),
    }
}

/// A median in a table; with the lowest and the highest where there are several values.
pub(super) fn cell(value: &Median, show: impl Fn(f64) -> String) -> String {
    if value.of == 1 { show(value.median) } else { value.text(show) }
}

/// A curve of medians, with the lowest and the highest values.
pub(super) fn line(
    name: String,
    colour: &'static str,
    values: impl Iterator<Item = (f64, Option<Median>)> + Clone,
) -> Line {
    let range = |(at, value): (f64, Option<Median>)| value.map(|value| (at, value.low, value.high));
    Line {
        name,
        colour,
        points: values.clone().map(|(at, value)| (at, value.map(|value| value.median))).collect(),
        bars: Vec::new(),
        ranges: values.filter_map(range).filter(|(_, low, high)| low < high).collect(),
    }
}

/// The check of all rounds: that of the first round which did not pass, else of the last one.
pub(super) fn worst<'a>(checks: impl DoubleEndedIterator<Item = &'a Check> + Clone) -> Check {
    let failed = checks.clone().find(|check| !check.is_passed());
    let found = failed.or_else(|| checks.clone().next_back());
    found.cloned().unwrap_or_else(|| Check::not_done("nothing was measured"))
}
