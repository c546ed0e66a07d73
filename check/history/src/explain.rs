//! Why a key has no legal order, for people.
//!
//! The smallest prefix without an order is found by bisection over returns: a prefix of a linearizable history
//! is linearizable, so once it breaks it stays broken. The operation whose return breaks it is the culprit:
//! without its answer everything can be ordered. Then one more search shows how far an order can get.
//! Tests: the `.report` files beside the histories under `tests/histories/`.

use crate::event::shown;
use crate::history::History;
use crate::kv::{Key, KeyGuide, KeyOp, Prepared};
use crate::linearizability::decide;
use crate::model::{Class, Guide, Model};
use crate::search::{Budget, Finding, Searched, search};
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt;

/// Rows of a table at most.
const ROWS_MAX: usize = 24;
/// Entries of the longest order shown at most.
const PLACED_MAX: usize = 12;

/// The part an operation plays in an explanation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mark {
    /// In the longest order.
    Placed,
    /// Its return makes an order impossible.
    Culprit,
    /// It must be ordered, but is not in the longest order.
    Missing,
    /// It had not returned by then (or never did), so that it may be left out.
    Optional,
}

/// One operation of the smallest prefix that has no order.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Its part.
    pub mark: Mark,
    /// Its line in the history.
    pub line: u64,
    /// The client.
    pub client: u64,
    /// The request.
    pub op: String,
    /// When it was called, in nanoseconds.
    pub call: u64,
    /// When it returned, if it did.
    #[serde(rename = "return")]
    pub ret: Option<u64>,
    /// The answer; `not yet` if it returned after the prefix.
    pub result: String,
}

/// One operation of the longest order.
#[derive(Clone, Debug, Serialize)]
pub struct Placed {
    /// Its line in the history.
    pub line: u64,
    /// The request.
    pub op: String,
    /// What the key holds afterwards.
    pub leaves: String,
}

/// Why a key has no legal order.
#[derive(Clone, Debug, Serialize)]
pub struct Explanation {
    /// The key.
    pub key: String,
    /// One sentence.
    pub summary: String,
    /// The first call on this key; the printed tables count from it.
    pub first_call: u64,
    /// The operations of the smallest prefix that has no order, by call; of many, those that matter most.
    pub operations: Vec<Row>,
    /// Operations of that prefix that are not shown.
    pub operations_hidden: usize,
    /// The end of the longest order that was found for that prefix.
    pub longest: Vec<Placed>,
    /// Entries of that order in front of those shown.
    pub longest_hidden: usize,
}

/// Explains a violation that cost `spent` steps to find.
pub(crate) fn explain(
    history: &History,
    key: &str,
    indices: &[usize],
    whole: &Prepared,
    spent: u64,
    budget: Budget,
) -> Explanation {
    // A prefix usually costs no more than the whole; one that does counts as fine, which only makes the
    // prefix longer than it need be.
    let budget = Budget { steps: spent.saturating_mul(10).saturating_add(100_000), ..budget };
    let (mut fine, mut broken) = (0, whole.by_return().len());
    while broken - fine > 1 {
        let middle = fine + (broken - fine) / 2;
        match decide(&whole.prefix(middle), budget).finding {
            Finding::Impossible { .. } => broken = middle,
            Finding::Ordered(_) | Finding::OutOfBudget { .. } => fine = middle,
        }
    }
    let prefix = whole.prefix(broken);
    let order = longest_order(&prefix, budget);
    let culprit = prefix.by_return().last().copied().unwrap_or(0);
    let view = View { history, indices, prefix: &prefix, culprit, order: &order };
    let (operations, operations_hidden) = view.rows();
    let (longest, longest_hidden) = view.longest();
    let first_call = indices.iter().map(|&index| history.events()[index].call).min().unwrap_or(0);
    let summary = view.summary();
    let key = key.to_owned();
    Explanation { key, summary, first_call, operations, operations_hidden, longest, longest_hidden }
}

/// The search that decides gives up hopeless branches early, which is poor to look at: the order that runs
/// into the wall says more than the one that turns back in time. So a second, short search does not turn back.
fn longest_order(prefix: &Prepared, budget: Budget) -> Vec<usize> {
    const STUBBORN_STEPS: u64 = 200_000;
    let stubborn = Budget { steps: budget.steps.min(STUBBORN_STEPS), ..budget };
    let orders = [
        search::<Key, _>(&prefix.ops, &mut Stubborn(prefix.guide()), stubborn),
        search::<Key, _>(&prefix.ops, &mut prefix.guide(), budget),
    ];
    let required = |order: &Vec<usize>| order.iter().filter(|&&op| prefix.ops[op].ret.is_some()).count();
    let order = |searched: Searched| match searched.finding {
        Finding::Ordered(order) => order,
        Finding::Impossible { longest } | Finding::OutOfBudget { longest, .. } => longest,
    };
    orders.into_iter().map(order).max_by_key(required).unwrap_or_default()
}

/// A guide that never gives up a branch.
struct Stubborn(KeyGuide);

impl Guide<Key> for Stubborn {
    fn class(&self, op: usize) -> Class {
        self.0.class(op)
    }

    fn advance(&mut self, _op: usize, _before: &u32, _after: &u32) -> bool {
        true
    }

    fn retreat(&mut self, _op: usize) {}
}

struct View<'a> {
    history: &'a History,
    indices: &'a [usize],
    prefix: &'a Prepared,
    culprit: usize,
    order: &'a [usize],
}

impl View<'_> {
    /// The position in the history of operation `op` of the prefix.
    fn event_index(&self, op: usize) -> usize {
        self.indices[self.prefix.origin[op]]
    }

    fn summary(&self) -> String {
        let index = self.event_index(self.culprit);
        let event = &self.history.events()[index];
        let what = format!(
            "client {}: {} (line {}) answered {}",
            event.client,
            event.op,
            self.history.line(index),
            event.outcome
        );
        match self.prefix.has_value_from_nowhere() {
            Some(op) if op == self.culprit => {
                format!("{what}, but nothing called by then writes the value that it needs")
            }
            _ => format!("{what}, which no order of the operations up to its return allows"),
        }
    }

    fn row(&self, op: usize, placed: &BTreeSet<usize>) -> Row {
        let index = self.event_index(op);
        let event = &self.history.events()[index];
        let is_optional = self.prefix.ops[op].ret.is_none();
        let mark = match () {
            () if op == self.culprit => Mark::Culprit,
            () if is_optional => Mark::Optional,
            () if placed.contains(&op) => Mark::Placed,
            () => Mark::Missing,
        };
        let returned_later = is_optional && event.ok_return().is_some();
        Row {
            mark,
            line: self.history.line(index),
            client: event.client,
            op: event.op.to_string(),
            call: event.call,
            ret: event.recorded_return(),
            result: if returned_later { "not yet".to_owned() } else { event.outcome.to_string() },
        }
    }

    /// The rows to show, by call: the culprit, what misses, what touches the culprit's value, then the latest.
    fn rows(&self) -> (Vec<Row>, usize) {
        let placed: BTreeSet<usize> = self.order.iter().copied().collect();
        let ops = &self.prefix.ops;
        let wanted = match ops[self.culprit].op {
            KeyOp::Read { is: value } | KeyOp::Swap { from: value, .. } => Some(value),
            KeyOp::ReadNot { .. } | KeyOp::Put { .. } | KeyOp::Delete => None,
        };
        let rank = |op: usize| match ops[op].op {
            _ if op == self.culprit => 0,
            _ if ops[op].ret.is_some() && !placed.contains(&op) => 1,
            KeyOp::Put { to } | KeyOp::Swap { to, .. } if Some(to) == wanted => 2,
            _ => 3,
        };
        let mut chosen: Vec<usize> = (0..ops.len()).collect();
        chosen.sort_by_key(|&op| (rank(op), std::cmp::Reverse((ops[op].ret, ops[op].call)), op));
        chosen.truncate(ROWS_MAX);
        chosen.sort_by_key(|&op| (ops[op].call, op));
        let rows: Vec<Row> = chosen.into_iter().map(|op| self.row(op, &placed)).collect();
        let hidden = ops.len() - rows.len();
        (rows, hidden)
    }

    fn longest(&self) -> (Vec<Placed>, usize) {
        let mut state = Key::initial();
        let mut all = Vec::with_capacity(self.order.len());
        for &op in self.order {
            state = Key::step(&state, &self.prefix.ops[op].op).unwrap_or(state);
            all.push((op, state));
        }
        let hidden = all.len().saturating_sub(PLACED_MAX);
        let placed = |&(op, state): &(usize, u32)| {
            let index = self.event_index(op);
            let event = &self.history.events()[index];
            let leaves = shown(self.prefix.value(state));
            Placed { line: self.history.line(index), op: event.op.to_string(), leaves }
        };
        (all[hidden..].iter().map(placed).collect(), hidden)
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "  key {}: {}", shown(Some(&self.key)), self.summary)?;
        let since = |time: u64| time.saturating_sub(self.first_call);
        let time = |row: &Row| match row.ret {
            Some(ret) => format!("{}..{}", since(row.call), since(ret)),
            None => format!("{}..", since(row.call)),
        };
        let head = ["line", "client", "call..return", "operation", "result"].map(str::to_owned);
        let cells = |row: &Row| {
            [row.line.to_string(), row.client.to_string(), time(row), row.op.clone(), row.result.clone()]
        };
        let table: Vec<[String; 5]> =
            std::iter::once(head).chain(self.operations.iter().map(cells)).collect();
        let width = |column: usize| table.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let [line, client, span, op] = [0, 1, 2, 3].map(width);
        writeln!(f, "  the smallest prefix without an order (ns after {}):", self.first_call)?;
        let marks = std::iter::once(' ').chain(self.operations.iter().map(|row| row.mark.sign()));
        for (mark, [a, b, c, d, e]) in marks.zip(&table) {
            writeln!(f, "  {mark} {a:>line$}  {b:>client$}  {c:<span$}  {d:<op$}  {e}")?;
        }
        if self.operations_hidden > 0 {
            writeln!(f, "    and {} more operations that matter less", self.operations_hidden)?;
        }
        writeln!(f, "    ! breaks it   x not in the order below   ? may be left out")?;
        writeln!(f, "  the longest order found:")?;
        if self.longest_hidden > 0 {
            writeln!(f, "    {} operations, then", self.longest_hidden)?;
        }
        for placed in &self.longest {
            writeln!(f, "    line {}: {}, now {}", placed.line, placed.op, placed.leaves)?;
        }
        if self.longest.is_empty() {
            writeln!(f, "    none")?;
        }
        Ok(())
    }
}

impl Mark {
    fn sign(self) -> char {
        match self {
            Mark::Placed => ' ',
            Mark::Culprit => '!',
            Mark::Missing => 'x',
            Mark::Optional => '?',
        }
    }
}
