//! What people see of the model.

use super::{Document, Row};
use crate::bench::draw::{Mark, Page, Row as Drawn, Rows, about_machine};
use crate::bench::median::Median;
use crate::bench::report;
use quorate_command::print::amount;

pub(super) fn text(document: &Document) -> String {
    let mut lines = vec![
        format!(
            "model: the simulator's cluster, whose steps cost what was measured; durability memory, {}, {} commands in a call",
            if document.tls { "TLS" } else { "without TLS" },
            document.commands_per_call
        ),
        format!("  {}", document.load),
        "| instances/lanes | bytes | each lane has | model: commands/s | its fullest lane | measured: commands/s | its fullest lane | model's error |".into(),
        "| --- | --- | --- | --- | --- | --- | --- | --- |".into(),
    ];
    lines.extend(document.rows.iter().map(row));
    for size in &document.costs.sizes {
        lines.push(format!(
            "  measured for the prices, {} B: {:.1} us of the leader's lane and {:.1} us of a follower's for a call, {:.1} us of it execution; {:.1} calls in a batch",
            size.bytes,
            size.taken.leader_ns / 1e3,
            size.taken.follower_ns / 1e3,
            size.execute_ns / 1e3,
            size.taken.calls_per_batch
        ));
    }
    let batch = document.costs.per_batch;
    lines.push(format!(
        "  beside its calls a batch costs the leader's lane {:.1} us and a follower's {:.1} us",
        batch.leader_ns / 1e3,
        batch.follower_ns / 1e3
    ));
    lines.push(report::machine_lines(&document.machine));
    lines.join("\n")
}

fn row(row: &Row) -> String {
    let has = row.quota_percent.map_or("a core".into(), |percent| format!("{percent} % of a core"));
    let real = row.measured.as_ref();
    let or_none = |text: Option<String>| text.unwrap_or("-".into());
    format!(
        "| {} | {} | {has} | {} (model) | {} | {} | {} | {} |",
        row.shape,
        row.bytes,
        amount(row.model.commands_per_s),
        fullest(&row.model.busy),
        or_none(real.map(|real| many(&real.commands_per_s))),
        or_none(real.map(|real| fullest(&real.busy))),
        or_none(row.error.map(|error| format!("{:+.0} %", error * 100.0)))
    )
}

fn many(value: &Median) -> String {
    if value.of == 1 { amount(value.median) } else { value.text(amount) }
}

/// The lane that worked most, and how much.
fn fullest(busy: &[Vec<f64>]) -> String {
    let lanes = busy.iter().flat_map(|lanes| lanes.iter().enumerate());
    let most = lanes.max_by(|(_, one), (_, other)| one.total_cmp(other));
    most.map_or("-".into(), |(at, share)| format!("lane {}, {:.0} %", at + 1, share * 100.0))
}

/// What is drawn.
pub(super) fn page(document: &Document) -> Page {
    let name = |row: &Row| {
        let has = row.quota_percent.map_or("a core".into(), |percent| format!("{percent} % of a core"));
        format!("{} instances/lanes, {} B, each lane {has}", row.shape, row.bytes)
    };
    let rate = |row: &Row| {
        let measured = row.measured.as_ref().and_then(|real| Mark::bounded(&real.commands_per_s));
        Drawn { name: name(row), marks: vec![Mark::one(row.model.commands_per_s), measured] }
    };
    let error = |row: &Row| Some(Drawn { name: name(row), marks: vec![Mark::one(row.error? * 100.0)] });
    let errors: Vec<Drawn> = document.rows.iter().filter_map(error).collect();
    let sides = ["the model's, not measured", "measured"];
    let rates = document.rows.iter().map(rate).collect();
    let mut rows = vec![Rows::new("Rate", "commands per second", &sides, rates).logarithmic()];
    if !errors.is_empty() {
        rows.push(Rows::new(
            "How much more the model says",
            "percent of what was measured",
            &["error"],
            errors,
        ));
    }
    let tls = if document.tls { "TLS" } else { "without TLS" };
    let mut about = vec![
        ("durability", "memory".to_owned()),
        ("payload", format!("{} commands in a call", document.commands_per_call)),
        ("callers", document.load.clone()),
        ("replicas", format!("3 replicas, crash faults, {tls}")),
        ("floor", "not run: the model stands beside measured rates".to_owned()),
    ];
    about.extend(about_machine(&document.machine));
    Page {
        title: "What more cores would bring, by a model".into(),
        intro: format!("{}.", document.note),
        rows,
        about,
        ..Page::default()
    }
}
