//! The status of a replica as metrics, in the text form of Prometheus (exposition format 0.0.4).
//!
//! [`METRICS`] says which there are: each is a place in the JSON of the status, so `status --json` and `/metrics` never differ. Times are in
//! seconds, sizes in bytes, as Prometheus wants it. docs/operations/metrics.md lists them for people. Tests:
//! `metrics/tests.rs`, and with real replicas tests/all/health.rs.

mod table;

pub use table::METRICS;

use serde_json::{Value, json};
use std::fmt::Write as _;
use std::time::Duration;

#[cfg(test)]
mod tests;

/// What a place in the status means.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// A number that goes up and down, times this.
    Gauge(f64),
    /// A number that only grows while the process lives, times this.
    Counter(f64),
    /// 1 if there is something, else 0: also for what is null or false when there is nothing.
    Is,
    /// How many entries a list has.
    Count,
    /// How long something took, each time.
    Durations,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::Counter(_) => "counter",
            Self::Durations => "histogram",
            Self::Gauge(_) | Self::Is | Self::Count => "gauge",
        }
    }
}

/// A metric.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// What it means.
    pub help: &'static str,
    /// What the place in the status holds.
    pub kind: Kind,
    /// The list whose entries each have it, and the label that tells them apart: a pointer, the label, and the field with its value. None: the
    /// replica has it once.
    pub each: Option<(&'static str, &'static str, &'static str)>,
    /// The place in the status, or in each entry of the list (RFC 6901).
    pub at: &'static str,
    /// Only replicas that have this front have it: it is a name of another system.
    pub front: Option<&'static str>,
}

impl Metric {
    fn write(&self, status: &Value, out: &mut String) {
        let is_wanted = self.front.is_none_or(|front| !status["fronts"][front].is_null());
        let mut samples = String::new();
        match self.each.filter(|_| is_wanted) {
            None if is_wanted => self.sample(status, "", &mut samples),
            None => {}
            Some((list, label, field)) => {
                for entry in status.pointer(list).and_then(Value::as_array).into_iter().flatten() {
                    let value = &entry[field];
                    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
                    self.sample(entry, &format!("{label}=\"{}\"", escaped(&text)), &mut samples);
                }
            }
        }
        if !samples.is_empty() {
            let Self { name, help, kind, .. } = self;
            let _ = write!(out, "# HELP {name} {help}\n# TYPE {name} {}\n{samples}", kind.name());
        }
    }

    /// Writes what one place holds. A number that is not known now is left out.
    fn sample(&self, of: &Value, labels: &str, out: &mut String) {
        let found = of.pointer(self.at);
        let number = match self.kind {
            Kind::Gauge(times) | Kind::Counter(times) => found.and_then(number).map(|number| number * times),
            Kind::Is => Some(f64::from(u8::from(found.is_some_and(is_something)))),
            Kind::Count => found.and_then(Value::as_array).map(|list| list.len() as f64),
            Kind::Durations => {
                found.inspect(|durations| self.durations(durations, labels, out));
                None
            }
        };
        if let Some(number) = number {
            let labels = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
            let _ = writeln!(out, "{}{labels} {number}", self.name);
        }
    }

    fn durations(&self, durations: &Value, labels: &str, out: &mut String) {
        let (name, count) = (self.name, &durations["count"]);
        let and = if labels.is_empty() { "" } else { "," };
        for bucket in durations["buckets"].as_array().into_iter().flatten() {
            let _ = writeln!(out, "{name}_bucket{{{labels}{and}le=\"{}\"}} {}", bucket[0], bucket[1]);
        }
        let _ = writeln!(out, "{name}_bucket{{{labels}{and}le=\"+Inf\"}} {count}");
        let labels = if labels.is_empty() { String::new() } else { format!("{{{labels}}}") };
        let _ = writeln!(out, "{name}_sum{labels} {}\n{name}_count{labels} {count}", durations["sum_s"]);
    }
}

/// A number that says something: the largest one marks what is not known.
fn number(value: &Value) -> Option<f64> {
    if value.as_u64() == Some(u64::MAX) {
        return None;
    }
    value.as_f64().or_else(|| value.as_bool().map(|is| f64::from(u8::from(is))))
}

fn is_something(value: &Value) -> bool {
    !(value.is_null() || *value == Value::Bool(false))
}

/// A label's value as it may stand between quotes.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// The only metric of a replica that has executed one request for so long, and tells nothing else.
pub(crate) fn executing(lasts: Duration) -> String {
    let (mut out, status) = (String::new(), json!({ "executing_s": lasts.as_secs_f64() }));
    METRICS
        .iter()
        .filter(|metric| metric.name == table::EXECUTING)
        .for_each(|one| one.write(&status, &mut out));
    out
}

/// All metrics of a replica with this status.
pub(crate) fn text(status: &Value) -> String {
    let mut out = String::with_capacity(16 << 10);
    let label = |name: &str, at: &str| {
        let text = status.pointer(at).and_then(Value::as_str).unwrap_or_default();
        format!("{name}=\"{}\"", escaped(text))
    };
    let _ = writeln!(
        out,
        "# HELP quorate_info What runs here; always 1.\n# TYPE quorate_info gauge\nquorate_info{{{},{},{},replica=\"{}\"}} 1",
        label("cluster", "/cluster"),
        label("version", "/process/version"),
        label("durability", "/log/durability"),
        status["replica"]
    );
    METRICS.iter().for_each(|metric| metric.write(status, &mut out));
    out
}
