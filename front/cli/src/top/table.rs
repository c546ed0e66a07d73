//! The table of replicas: its columns, which of them a screen has room for, and the order of the rows.

use super::line::{Line, Style, width};
use super::look::{Checkpoints, Facts};
use super::rates::{Rates, Role, Row};
use super::took::Bound;
use quorate_command::print::{amount, size};

/// On screens that are narrower than this, columns stand closer together, so that there are more of them.
const NARROW: usize = 90;
/// What is not known, or not yet.
pub(super) const UNKNOWN: &str = "-";

/// By what rows are sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Sort {
    /// As in `client.toml`.
    #[default]
    Id,
    Requests,
    Reads,
    Executed,
    Lag,
    Log,
    Write,
    Cpu,
    Memory,
}

impl Sort {
    const ALL: [Self; 9] = [
        Self::Id,
        Self::Requests,
        Self::Reads,
        Self::Executed,
        Self::Lag,
        Self::Log,
        Self::Write,
        Self::Cpu,
        Self::Memory,
    ];

    /// The one after it.
    pub(super) fn next(self) -> Self {
        let at = Self::ALL.iter().position(|sort| *sort == self).unwrap_or(0);
        Self::ALL[(at + 1) % Self::ALL.len()]
    }

    /// The name of its column.
    pub(super) const fn column(self) -> &'static str {
        match self {
            Self::Id => "id",
            Self::Requests => "req/s",
            Self::Reads => "reads/s",
            Self::Executed => "executed",
            Self::Lag => "lag",
            Self::Log => "log/s",
            Self::Write => "write p99",
            Self::Cpu => "cpu",
            Self::Memory => "memory",
        }
    }

    /// A row with more comes first; one without comes last.
    fn key(self, row: &Row<'_>) -> f64 {
        let facts = row.seen.facts.as_ref().ok();
        let whole = |number: Option<u64>| number.map(|number| number as f64);
        let key = match self {
            Self::Id => None,
            Self::Requests => row.requests,
            Self::Reads => row.reads,
            Self::Executed => facts.and_then(|facts| whole(facts.executed)),
            Self::Lag => whole(row.lag),
            Self::Log => row.log_bytes,
            Self::Write => whole(row.written.map(Bound::us)),
            Self::Cpu => row.cpu,
            Self::Memory => facts.and_then(|facts| whole(facts.memory)),
        };
        key.unwrap_or(-1.0)
    }
}

/// A column.
struct Column {
    head: &'static str,
    /// Numbers stand at the right.
    right: bool,
    /// It is at least so wide, so that it stays where it is while its cells change.
    least: usize,
    /// The columns with the highest ranks go first where there is no room.
    rank: u8,
    cell: Cell,
}

type Cell = fn(&Row<'_>, &Facts) -> String;

const fn left(head: &'static str, least: usize, rank: u8, cell: Cell) -> Column {
    Column { head, right: false, least, rank, cell }
}

const fn right(head: &'static str, least: usize, rank: u8, cell: Cell) -> Column {
    Column { head, right: true, least, rank, cell }
}

/// Where a transfer or a checkpoint is under way, its column is not the first to go.
const CHECKPOINT: &str = "checkpoint";
const CHECKPOINT_RANK_BUSY: u8 = 5;

const COLUMNS: &[Column] = &[
    left("address", 7, 12, |row, _| row.seen.address.clone()),
    left("role", 8, 0, |row, _| role(row.role)),
    right("req/s", 6, 1, |row, _| rate(row.requests)),
    right("reads/s", 7, 4, |row, _| rate(row.reads)),
    right("executed", 8, 2, |_, facts| known(facts.executed)),
    right("lag", 8, 2, |row, _| lag(row)),
    right("log/s", 8, 7, |row, _| bytes_rate(row.log_bytes)),
    right("write p99", 10, 3, |row, _| row.written.map_or(UNKNOWN.to_owned(), |bound| bound.shown())),
    left(CHECKPOINT, 14, 10, |_, facts| checkpoint(&facts.checkpoints)),
    right("memory", 8, 5, |_, facts| facts.memory.map_or(UNKNOWN.to_owned(), size)),
    right("cpu", 5, 3, |row, _| row.cpu.map_or(UNKNOWN.to_owned(), percent)),
    right("lanes busy", 10, 9, |_, facts| lanes(&facts.lanes)),
    right("disk free", 9, 8, |_, facts| disk(facts)),
    right("clients", 7, 13, |_, facts| known(facts.clients)),
    right("waiting", 8, 14, |_, facts| facts.waiting.map_or(UNKNOWN.to_owned(), size)),
];

/// The table in so many columns of a terminal: its head, then a line for each replica.
pub(super) fn lines(rates: &Rates<'_>, sort: Sort, columns: usize) -> (Line, Vec<Line>) {
    let mut rows: Vec<&Row<'_>> = rates.rows.iter().collect();
    if sort != Sort::Id {
        rows.sort_by(|one, other| sort.key(other).total_cmp(&sort.key(one)));
    }
    let ids: Vec<String> = rows.iter().map(|row| row.seen.id.to_string()).collect();
    let id = ids.iter().map(String::len).max().unwrap_or(0).max("id".len());
    let filled: Vec<Filled<'_>> = COLUMNS.iter().map(|column| Filled::new(column, &rows)).collect();
    let gap = if columns < NARROW { 1 } else { 2 };
    let shown = chosen(&filled, &rows, gap, columns.saturating_sub(id));
    let mut head = Line::default();
    head.push(Style::Head, &format!("{:>id$}", "id"));
    for at in &shown {
        head.push(Style::Head, &" ".repeat(gap));
        head.push(
            Style::Head,
            &aligned(filled[*at].column.head, filled[*at].width, filled[*at].column.right),
        );
    }
    let lines = rows.iter().enumerate().map(|(at, row)| {
        let mut line = Line::default();
        line.push(style(row.role), &format!("{:>id$}", ids[at]));
        match &row.seen.facts {
            Ok(facts) => cells(&mut line, (row, facts), at, gap, shown.iter().map(|place| &filled[*place])),
            Err(why) => away(&mut line, (row, why), gap, shown.iter().map(|place| &filled[*place])),
        }
        line
    });
    (head, lines.collect())
}

/// A column with its cells, in the order of the rows.
struct Filled<'a> {
    column: &'a Column,
    cells: Vec<String>,
    width: usize,
}

impl<'a> Filled<'a> {
    fn new(column: &'a Column, rows: &[&Row<'_>]) -> Self {
        let cell = |row: &&Row<'_>| match &row.seen.facts {
            Ok(facts) => (column.cell)(row, facts),
            // The reason stands where the other columns are.
            Err(_) if column.head == "address" => row.seen.address.clone(),
            Err(_) => String::new(),
        };
        let cells: Vec<String> = rows.iter().map(cell).collect();
        let widest = cells.iter().map(|cell| width(cell)).max().unwrap_or(0);
        Self { column, cells, width: widest.max(column.least) }
    }

    fn rank(&self, busy: bool) -> u8 {
        if busy && self.column.head == CHECKPOINT { CHECKPOINT_RANK_BUSY } else { self.column.rank }
    }
}

/// The columns for which there is room, by their places.
fn chosen(filled: &[Filled<'_>], rows: &[&Row<'_>], gap: usize, columns: usize) -> Vec<usize> {
    let is_busy = |row: &&Row<'_>| {
        let facts = row.seen.facts.as_ref().ok();
        facts.is_some_and(|Facts { checkpoints: c, .. }| {
            c.transfer.is_some() || c.writing.is_some() || c.diverged.is_some()
        })
    };
    let busy = rows.iter().any(is_busy);
    let mut shown: Vec<usize> = (0..filled.len()).collect();
    let taken = |shown: &[usize]| shown.iter().map(|at| filled[*at].width + gap).sum::<usize>();
    while taken(&shown) > columns && shown.len() > 1 {
        let least = shown.iter().copied().max_by_key(|at| (filled[*at].rank(busy), *at));
        shown.retain(|at| Some(*at) != least);
    }
    shown
}

fn cells<'a>(
    line: &mut Line,
    (row, facts): (&Row<'_>, &Facts),
    at: usize,
    gap: usize,
    shown: impl Iterator<Item = &'a Filled<'a>>,
) {
    for Filled { column, cells, width } in shown {
        line.push(Style::Plain, &" ".repeat(gap));
        let style = match column.head {
            "role" => style(row.role),
            "disk free" if facts.disk_full => Style::Bad,
            CHECKPOINT if facts.checkpoints.diverged.is_some() => Style::Bad,
            CHECKPOINT if facts.checkpoints.transfer.is_some() => Style::Warn,
            "lag" if row.lag.is_some_and(|bytes| bytes > LAG_LONG) => Style::Warn,
            _ => Style::Plain,
        };
        line.push(style, &aligned(&cells[at], *width, column.right));
    }
}

/// A lag that an operator should look at, in bytes.
const LAG_LONG: u64 = 16 << 20;

/// The row of a replica that does not answer says why, over the columns of the others.
fn away<'a>(
    line: &mut Line,
    (row, why): (&Row<'_>, &str),
    gap: usize,
    mut shown: impl Iterator<Item = &'a Filled<'a>>,
) {
    if let Some(address) = shown.find(|filled| filled.column.head == "address") {
        line.push(Style::Plain, &" ".repeat(gap));
        line.push(Style::Plain, &aligned(&row.seen.address, address.width, false));
    }
    line.push(Style::Bad, &format!("{}{}: {why}", " ".repeat(gap), role(row.role)));
}

fn aligned(text: &str, columns: usize, right: bool) -> String {
    let space = " ".repeat(columns.saturating_sub(width(text)));
    if right { space + text } else { text.to_owned() + &space }
}

const fn style(role: Role) -> Style {
    match role {
        Role::Leader(_) => Style::Bold,
        Role::Away => Style::Bad,
        Role::Removed => Style::Warn,
        Role::Follower | Role::Learner => Style::Plain,
    }
}

pub(super) fn role(role: Role) -> String {
    match role {
        Role::Leader(1) => "leader".to_owned(),
        Role::Leader(many) => format!("leads {many}"),
        Role::Follower => "follower".to_owned(),
        Role::Learner => "learner".to_owned(),
        Role::Removed => "removed".to_owned(),
        Role::Away => "not answering".to_owned(),
    }
}

/// So many per second.
pub(super) fn rate(per_s: Option<f64>) -> String {
    match per_s {
        None => UNKNOWN.to_owned(),
        Some(0.0) => "0".to_owned(),
        Some(few) if few < 10.0 => format!("{few:.1}"),
        Some(many) => amount(many),
    }
}

fn known(number: Option<u64>) -> String {
    number.map_or(UNKNOWN.to_owned(), |number| number.to_string())
}

fn bytes_rate(per_s: Option<f64>) -> String {
    per_s.map_or(UNKNOWN.to_owned(), |bytes| size(bytes as u64))
}

fn lag(row: &Row<'_>) -> String {
    match (row.role, row.lag) {
        (_, Some(u64::MAX)) => "checkpoint".to_owned(),
        (_, Some(bytes)) => size(bytes),
        (Role::Leader(_), None) => UNKNOWN.to_owned(),
        (_, None) => "?".to_owned(),
    }
}

fn percent(share: f64) -> String {
    format!("{:.0} %", share * 100.0)
}

fn lanes(busy: &[f64]) -> String {
    let whole = |share: &f64| format!("{:.0}", share * 100.0);
    match busy {
        [] => UNKNOWN.to_owned(),
        [_, _, _, _, _, ..] => {
            let most = busy.iter().copied().fold(0.0, f64::max);
            format!("most {} %", whole(&most))
        }
        few => format!("{} %", few.iter().map(whole).collect::<Vec<_>>().join(" ")),
    }
}

fn disk(facts: &Facts) -> String {
    if facts.disk_full { "full".to_owned() } else { facts.disk_free.map_or(UNKNOWN.to_owned(), size) }
}

/// What a replica does for checkpoints now, or the seq of the newest one on its disk.
pub(super) fn checkpoint(c: &Checkpoints) -> String {
    if let Some(transfer) = c.transfer {
        return match (transfer.installing, transfer.all) {
            (true, _) => "installs".to_owned(),
            (false, 0) => format!("fetches {}", size(transfer.done)),
            (false, all) => {
                let percent = u128::from(transfer.done.min(all)) * 100 / u128::from(all);
                format!("fetches {percent} %")
            }
        };
    }
    match (c.diverged, c.writing, c.last) {
        (Some(seq), _, _) => format!("diverged {seq}"),
        (None, Some(seq), _) => format!("writes {seq}"),
        (None, None, 0) => UNKNOWN.to_owned(),
        (None, None, last) if c.agreed < last => format!("compares {last}"),
        (None, None, last) if c.durable < last => format!("agreed {last}"),
        (None, None, _) => format!("durable {}", c.durable),
    }
}
