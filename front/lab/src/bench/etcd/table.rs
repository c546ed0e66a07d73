//! The printed table.

use super::{Document, Operation, Ratios, Row, Run};
use crate::bench::draw::{Mark, Page, Row as Drawn, Rows, about_machine};
use crate::bench::report::machine_lines;
use quorate_command::print::amount;

pub(super) fn of(document: &Document) -> String {
    let valid = if document.valid { "" } else { "NOT VALID, see below. " };
    let mut lines = vec![
        format!(
            "{valid}etcd: three replicas each, durability {}, plain, {} connections, {} keys, {} s each",
            document.durability, document.connections, document.keys, document.seconds
        ),
        format!(
            "  {} watches on other keys, {} on all that are written",
            document.watchers, document.observers
        ),
        "  ratios are ours over etcd's; per CPU s: calls by processor seconds of all servers together"
            .to_owned(),
        format!(
            "  {:<4} {:>7} {:>7} {:<5} {:>9} {:>10} {:>9} {:>9} {:>10} {:>10}",
            "", "bytes", "clients", "", "per s", "per CPU s", "p50 us", "p99 us", "servers", "clients"
        ),
    ];
    document.rows.iter().for_each(|row| lines.extend(of_row(row)));
    lines.push(machine_lines(&document.machine));
    lines.join("\n")
}

fn of_row(row: &Row) -> Vec<String> {
    let operation = match row.operation {
        Operation::Put => "put",
        Operation::Get => "get",
        Operation::Look => "look",
    };
    let mut lines = Vec::new();
    for (name, side) in row.sides() {
        // How busy they were, of the median run's time.
        let busy = |of: fn(&super::Run) -> f64| {
            let shares = side.runs.iter().map(|run| of(run) / run.seconds * 100.0);
            format!("{:.0} %", super::median(shares))
        };
        lines.push(format!(
            "  {operation:<4} {:>7} {:>7} {name:<5} {:>9} {:>10} {:>9.0} {:>9.0} {:>10} {:>10}",
            row.bytes,
            row.clients,
            amount(side.per_s),
            amount(side.per_server_cpu_s),
            side.p50_us,
            side.p99_us,
            busy(|run| run.servers_cpu_s),
            busy(|run| run.load_cpu_s),
        ));
    }
    if let Some(Ratios { rate, per_server_cpu_s, p50, p99 }) = row.ratios {
        lines.push(format!(
            "  {:<4} {:>7} {:>7} ratio {rate:>9.2} {per_server_cpu_s:>10.2} {p50:>9.2} {p99:>9.2}",
            "", "", ""
        ));
    }
    for (name, run) in row.runs() {
        if let Some(events) = &run.events {
            lines.push(format!(
                "    {name}: {} observers saw {} events, the last one {:.0} ms after the last answer",
                events.observers, events.seen, events.behind_ms
            ));
        }
        let fault = run.events.as_ref().and_then(|events| events.fault.as_ref());
        if let Some(why) = fault {
            lines.push(format!("    {name}: a watch went WRONG: {why}"));
        }
        if let Some(why) = &run.first_error {
            lines.push(format!("    {name}: {} calls FAILED, the first one: {why}", run.errors));
        } else if !run.all_there {
            lines.push(format!("    {name}: the store's revision is NOT further by the number of puts"));
        }
    }
    lines
}

/// What is drawn.
pub(super) fn page(document: &Document) -> Page {
    let name =
        |row: &Row| format!("{:?}, {} B, {} clients", row.operation, row.bytes, row.clients).to_lowercase();
    let runs = |side: &Option<super::Side>, of: fn(&Run) -> f64| {
        Mark::of(side.iter().flat_map(|side| side.runs.iter().map(of)))
    };
    let sides = |of: fn(&Run) -> f64| {
        let row =
            |row: &Row| Drawn { name: name(row), marks: vec![runs(&row.ours, of), runs(&row.etcd, of)] };
        document.rows.iter().map(row).collect::<Vec<_>>()
    };
    let ratio = |row: &Row| {
        let (ours, etcd) = (row.ours.as_ref()?, row.etcd.as_ref()?);
        // The runs of a turn stand beside each other.
        let ratios = ours.runs.iter().zip(&etcd.runs).map(|(ours, etcd)| ours.per_s / etcd.per_s);
        Some(Drawn { name: name(row), marks: vec![Mark::of(ratios)] })
    };
    let ratios: Vec<Drawn> = document.rows.iter().filter_map(ratio).collect();
    let measured = [
        sides(|run| run.per_s),
        sides(|run| run.per_server_cpu_s),
        sides(|run| run.p50_us),
        sides(|run| run.p99_us),
    ];
    let rows = Rows::beside_a_peer("etcd", "calls", ratios, measured);
    let failed = |(name, run): (&str, &Run)| {
        let why = run.first_error.clone().or_else(|| run.events.as_ref()?.fault.clone());
        (!run.is_valid())
            .then(|| format!("NOT VALID, {name}: {}", why.unwrap_or("writes are missing".into())))
    };
    Page {
        title: "Beside etcd, under the same clients".into(),
        intro: "Points are medians of runs in turns, with lines from the lowest to the highest.".into(),
        rows,
        about: about(document),
        facts: document.rows.iter().flat_map(Row::runs).filter_map(failed).collect(),
        ..Page::default()
    }
}

fn about(document: &Document) -> Vec<(&'static str, String)> {
    let mut about = vec![
        ("durability", format!("{}; etcd syncs every write, too", document.durability)),
        ("payload", format!("values as each line says, {} keys of 16 B", document.keys)),
        (
            "callers",
            format!(
                "as each line says, on {} connections; {} watches on other keys, {} on all that are written",
                document.connections, document.watchers, document.observers
            ),
        ),
        ("replicas", "3 on each side, crash faults, nothing is encrypted".to_owned()),
        (
            "rounds",
            format!(
                "{} of {} s",
                document.rows.first().map_or(0, |row| row.runs().count()),
                document.seconds
            ),
        ),
        ("floor", "not run: etcd is the other side".to_owned()),
    ];
    about.extend(about_machine(&document.machine));
    about
}
