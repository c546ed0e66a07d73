//! Runs seeds: `sim <first> <count> [jobs]`, or one with its trace: `sim trace <seed> [all]`.

use quorate_sim::campaign::{Campaign, run, run_seed};
use quorate_sim::{Level, Plan, Profile, planted};
use std::time::Instant;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize, other: u64| words.get(at).and_then(|word| word.parse().ok()).unwrap_or(other);
    let profile = Profile::default();
    if words.first().is_some_and(|word| word == "trace") {
        let level = if words.get(2).is_some_and(|word| word == "all") { Level::All } else { Level::Main };
        let seed = number(1, 0);
        let plan = Plan::new(seed, &profile);
        println!("{}\n{plan:#?}", plan.summary());
        let (report, trace) = run_seed(seed, &profile, level);
        println!("{}{report:#?}", trace.text());
        return;
    }
    if words.first().is_some_and(|word| word == "planted") {
        for bug in planted::BUGS {
            if words.get(1).is_none_or(|name| name == bug.name || name == "all") {
                let found = planted::hunt(*bug, profile, number(2, 2000), 2);
                println!("{}", planted::line(&found));
            }
        }
        return;
    }
    let campaign = Campaign {
        profile,
        first: number(0, 1),
        count: number(1, 100),
        jobs: number(2, 2) as usize,
        failures_max: 20,
    };
    let begin = Instant::now();
    let summary = run(&campaign, |_, report| {
        if let Some(failure) = &report.failure {
            let text: String = failure.text.chars().take(300).collect();
            println!("seed {}: {}: {text}", report.seed, failure.checker);
        }
    });
    let wall = begin.elapsed().as_secs_f64();
    println!(
        "{} runs in {wall:.1} s ({:.1}/s), {:.0} cluster-seconds per second, {} events, {} commands, {} operations, \
         {} failures, {} unjudged",
        summary.runs,
        summary.runs as f64 / wall,
        summary.time as f64 / 1e9 / wall,
        summary.events,
        summary.commands,
        summary.operations,
        summary.failures.len(),
        summary.unjudged
    );
}
