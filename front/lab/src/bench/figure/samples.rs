//! Calls over time, each with the moment of its answer and its latency.

use super::marks::Span;
use hdrhistogram::Histogram;
use serde::Serialize;
use std::time::{Duration, Instant};

/// The width of one point of a curve.
pub(super) const BIN: Duration = Duration::from_millis(100);

/// One call, in microseconds since the window began.
struct Sample {
    answered_us: u32,
    took_us: u32,
}

/// All calls that were sent or answered in one window.
pub(super) struct Samples {
    began: Instant,
    length: Duration,
    samples: Vec<Sample>,
}

/// A tenth of a second.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Bin {
    /// When it begins, in seconds of the window.
    pub(super) at_s: f64,
    /// Calls answered, per second.
    pub(super) per_s: f64,
    /// The longest of them; null when none was answered.
    pub(super) max_ms: Option<f64>,
}

/// Quantiles of latency, in milliseconds.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Quantiles {
    pub(super) calls: u64,
    pub(super) p50: f64,
    pub(super) p99: f64,
    pub(super) p99_9: f64,
    pub(super) p99_99: f64,
    pub(super) max: f64,
}

impl Samples {
    /// An empty set for a window of this length.
    pub(super) fn new(began: Instant, length: Duration) -> Self {
        Self { began, length, samples: Vec::new() }
    }

    /// Adds a call. Calls answered before the window are not counted.
    pub(super) fn add(&mut self, sent: Instant, answered: Instant) {
        let Some(since) = answered.checked_duration_since(self.began) else { return };
        if sent >= self.began + self.length {
            return;
        }
        let us = |time: Duration| u32::try_from(time.as_micros()).unwrap_or(u32::MAX);
        self.samples
            .push(Sample { answered_us: us(since), took_us: us(answered.saturating_duration_since(sent)) });
    }

    /// Throughput and the longest call over time; calls answered after the window are in no bin.
    pub(super) fn bins(&self) -> Vec<Bin> {
        let count = (self.length.as_micros() / BIN.as_micros()) as usize;
        let mut bins = vec![(0_u64, None::<u32>); count];
        for sample in &self.samples {
            let at = u128::from(sample.answered_us) / BIN.as_micros();
            let Some((answered, longest)) = bins.get_mut(at as usize) else { continue };
            *answered += 1;
            *longest = (*longest).max(Some(sample.took_us));
        }
        let bin = |(at, (answered, longest)): (usize, (u64, Option<u32>))| Bin {
            at_s: at as f64 * BIN.as_secs_f64(),
            per_s: answered as f64 / BIN.as_secs_f64(),
            max_ms: longest.map(|us| f64::from(us) / 1000.0),
        };
        bins.into_iter().enumerate().map(bin).collect()
    }

    /// Calls answered in the window, per second.
    pub(super) fn per_s(&self) -> f64 {
        let end = self.length.as_micros();
        let inside = self.samples.iter().filter(|sample| u128::from(sample.answered_us) < end).count();
        inside as f64 / self.length.as_secs_f64()
    }

    /// The quantiles of all calls.
    pub(super) fn quantiles(&self) -> Quantiles {
        quantiles(self.samples.iter())
    }

    /// The quantiles of calls that were under way during one of these spans, and of all others.
    pub(super) fn apart(&self, spans: &[Span]) -> (Quantiles, Quantiles) {
        let during = |sample: &&Sample| {
            let to = f64::from(sample.answered_us) / 1e6;
            let from = to - f64::from(sample.took_us) / 1e6;
            spans.iter().any(|span| from <= span.to_s && span.from_s <= to)
        };
        let beside = |sample: &&Sample| !during(sample);
        (quantiles(self.samples.iter().filter(during)), quantiles(self.samples.iter().filter(beside)))
    }

    /// The longest time without an answer that reaches into this span; from and until when, in seconds of the window. It may begin before the
    /// span and end after it.
    pub(super) fn silence(&self, span: Span) -> Span {
        let mut answered: Vec<u32> = self.samples.iter().map(|sample| sample.answered_us).collect();
        answered.sort_unstable();
        let at = |us: u32| f64::from(us) / 1e6;
        let end = answered.last().map_or(0.0, |last| at(*last)).max(self.length.as_secs_f64());
        let times = std::iter::once(0.0).chain(answered.iter().map(|us| at(*us))).chain([end]);
        let mut last = None;
        let mut longest = Span { from_s: span.from_s, to_s: span.from_s };
        for to_s in times {
            if let Some(from_s) = last.replace(to_s)
                && from_s < span.to_s
                && span.from_s < to_s
                && to_s - from_s > longest.to_s - longest.from_s
            {
                longest = Span { from_s, to_s };
            }
        }
        longest
    }

    /// Calls per second inside these spans and outside, within the window; `None` where there is no time.
    pub(super) fn rates_apart(&self, spans: &[Span]) -> (Option<f64>, Option<f64>) {
        let end = self.length.as_secs_f64();
        let cut: Vec<Span> = spans
            .iter()
            .map(|span| Span { from_s: span.from_s.clamp(0.0, end), to_s: span.to_s.clamp(0.0, end) })
            .collect();
        let inside_s: f64 = cut.iter().map(|span| span.to_s - span.from_s).sum();
        let answered = |sample: &&Sample| f64::from(sample.answered_us) / 1e6 < end;
        let in_span = |sample: &&Sample| {
            let at = f64::from(sample.answered_us) / 1e6;
            cut.iter().any(|span| span.from_s <= at && at < span.to_s)
        };
        let all = self.samples.iter().filter(answered).count() as f64;
        let inside = self.samples.iter().filter(answered).filter(in_span).count() as f64;
        let rate = |calls: f64, seconds: f64| (seconds > 0.001).then(|| calls / seconds);
        (rate(inside, inside_s), rate(all - inside, end - inside_s))
    }
}

fn quantiles<'a>(samples: impl Iterator<Item = &'a Sample>) -> Quantiles {
    // Three digits, and it grows as it must: this can not fail.
    let Ok(mut times) = Histogram::<u64>::new(3) else { return Quantiles::default() };
    let mut longest = 0;
    for sample in samples {
        longest = longest.max(sample.took_us);
        let _ = times.record(u64::from(sample.took_us));
    }
    let at = |quantile: f64| times.value_at_quantile(quantile) as f64 / 1000.0;
    Quantiles {
        calls: times.len(),
        p50: at(0.5),
        p99: at(0.99),
        p99_9: at(0.999),
        p99_99: at(0.9999),
        max: f64::from(longest) / 1000.0,
    }
}
