//! The printed table.

use super::load::Run;
use super::{Document, Row, middle};
use crate::bench::draw::{Mark, Page, Row as Drawn, Rows, about_machine};
use crate::bench::report::machine_lines;
use quorate_command::print::amount;

pub(super) fn of(document: &Document) -> String {
    let valid = if document.valid { "" } else { "NOT VALID, see below. " };
    let mut lines = vec![
        format!(
            "{valid}zookeeper: three servers each, every write synced, plain, up to {} connections, {} nodes, {} s each",
            document.connections, document.nodes, document.seconds
        ),
        "  ratios are ours over ZooKeeper's; per CPU s: answers by processor seconds of all servers together"
            .to_owned(),
        format!(
            "  {:<8} {:>6} {:>9} {:>7} {:<9} {:>9} {:>10} {:>9} {:>9} {:>8} {:>8}",
            "",
            "bytes",
            "under way",
            "watches",
            "",
            "per s",
            "per CPU s",
            "p50 us",
            "p99 us",
            "servers",
            "clients"
        ),
    ];
    document.rows.iter().for_each(|row| lines.extend(of_row(row)));
    lines.push(machine_lines(&document.machine));
    lines.join("\n")
}

fn of_row(row: &Row) -> Vec<String> {
    let operation = format!("{:?}", row.operation).to_lowercase();
    let mut lines = Vec::new();
    for (name, runs) in [("ours", &row.ours), ("zookeeper", &row.zookeeper)] {
        if runs.is_empty() {
            continue;
        }
        let busy = |of: fn(&Run) -> f64| format!("{:.0} %", middle(runs, of) * 100.0);
        lines.push(format!(
            "  {operation:<8} {:>6} {:>9} {:>7} {name:<9} {:>9} {:>10} {:>9.0} {:>9.0} {:>8} {:>8}",
            row.bytes,
            row.under_way,
            row.watches,
            amount(middle(runs, |run| run.per_s)),
            amount(middle(runs, |run| run.per_server_cpu_s)),
            middle(runs, |run| run.p50_us),
            middle(runs, |run| run.p99_us),
            busy(|run| run.servers_cpu_s / run.seconds),
            busy(|run| run.load_cpu_s / run.seconds),
        ));
        for run in runs {
            if let Some(error) = run.first_error {
                lines.push(format!(
                    "    {name}: {} requests FAILED, the first one with error {error}",
                    run.errors
                ));
            } else if !run.all_there {
                lines.push(format!("    {name}: NOT as much was written as was acknowledged"));
            }
        }
    }
    if let Some(super::Ratios { rate, per_server_cpu_s, p50, p99 }) = row.ratios {
        lines.push(format!(
            "  {:<8} {:>6} {:>9} {:>7} {:<9} {rate:>9.2} {per_server_cpu_s:>10.2} {p50:>9.2} {p99:>9.2}",
            "", "", "", "", "ratio"
        ));
    }
    lines
}

/// What is drawn.
pub(super) fn page(document: &Document) -> Page {
    let name = |row: &Row| {
        let watches = if row.watches > 0 { format!(", {} watches", row.watches) } else { String::new() };
        format!("{:?}, {} B, {} under way{watches}", row.operation, row.bytes, row.under_way).to_lowercase()
    };
    let sides = |of: fn(&Run) -> f64| {
        let marks =
            |row: &Row| [&row.ours, &row.zookeeper].map(|runs| Mark::of(runs.iter().map(of))).to_vec();
        document.rows.iter().map(|row| Drawn { name: name(row), marks: marks(row) }).collect::<Vec<_>>()
    };
    let ratio = |row: &Row| {
        // The runs of a turn stand beside each other.
        let ratios = row.ours.iter().zip(&row.zookeeper).map(|(ours, other)| ours.per_s / other.per_s);
        Some(Drawn { name: name(row), marks: vec![Some(Mark::of(ratios)?)] })
    };
    let ratios: Vec<Drawn> = document.rows.iter().filter_map(ratio).collect();
    let measured = [
        sides(|run| run.per_s),
        sides(|run| run.per_server_cpu_s),
        sides(|run| run.p50_us),
        sides(|run| run.p99_us),
    ];
    let rows = Rows::beside_a_peer("ZooKeeper", "answers", ratios, measured);
    let mut about = vec![
        ("durability", "group; ZooKeeper syncs every write, too (forceSync)".to_owned()),
        ("payload", format!("data as each line says, {} nodes", document.nodes)),
        (
            "callers",
            format!("requests under way as each line says, on up to {} connections", document.connections),
        ),
        ("replicas", "3 on each side, crash faults, nothing is encrypted".to_owned()),
        (
            "rounds",
            format!("{} of {} s", document.rows.first().map_or(0, |row| row.ours.len()), document.seconds),
        ),
        ("floor", "not run: ZooKeeper is the other side".to_owned()),
    ];
    about.extend(about_machine(&document.machine));
    Page {
        title: "Beside ZooKeeper, under the same clients".into(),
        intro: format!(
            "{}Points are medians of runs in turns, with lines from the lowest to the highest.",
            if document.valid { "" } else { "NOT VALID: requests failed, or writes are missing. " }
        ),
        rows,
        about,
        ..Page::default()
    }
}
