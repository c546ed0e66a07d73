//! Which of several backups are kept: the last ones, and the last one of each of so many days, weeks and months.
//!
//! Pure: no files, no clock. A backup's day is that of its agreed time, in UTC, so it stays the same when the file is copied. Days without
//! a backup do not count: seven daily ones are the last ones of the last seven days that have any. Tests: `keep/tests.rs`.

use quorate_types::{AgreedTime, Seq};
use std::collections::BTreeSet;
use time::{Date, OffsetDateTime};

#[cfg(test)]
mod tests;

/// How many are kept for each reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Rules {
    pub(super) last: usize,
    pub(super) daily: usize,
    pub(super) weekly: usize,
    pub(super) monthly: usize,
}

/// Why a backup is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reason {
    /// It is the newest, whatever the rules say.
    Newest,
    Last,
    Daily,
    Weekly,
    Monthly,
}

impl Reason {
    /// The word that is printed.
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Newest => "newest",
            Self::Last => "last",
            Self::Daily => "daily",
            Self::Weekly => "weekly",
            Self::Monthly => "monthly",
        }
    }
}

/// For each of the backups of one cluster why it is kept; empty: it is not. They are sorted, the newest first ([`newest_first`]).
pub(super) fn reasons(times: &[AgreedTime], rules: Rules) -> Vec<Vec<Reason>> {
    let mut kept: Vec<Vec<Reason>> = vec![Vec::new(); times.len()];
    if let Some(newest) = kept.first_mut() {
        newest.push(Reason::Newest);
    }
    for reasons in kept.iter_mut().take(rules.last) {
        reasons.push(Reason::Last);
    }
    let weeks = |date: Date| {
        let (year, week, _) = date.to_iso_week_date();
        (year, u16::from(week))
    };
    let months = |date: Date| (date.year(), u16::from(u8::from(date.month())));
    keep_one_of_each(times, rules.daily, Reason::Daily, Date::to_ordinal_date, &mut kept);
    keep_one_of_each(times, rules.weekly, Reason::Weekly, weeks, &mut kept);
    keep_one_of_each(times, rules.monthly, Reason::Monthly, months, &mut kept);
    kept
}

/// Keeps the newest backup of each of the last `count` periods that have one.
fn keep_one_of_each(
    times: &[AgreedTime],
    count: usize,
    why: Reason,
    period: impl Fn(Date) -> (i32, u16),
    kept: &mut [Vec<Reason>],
) {
    let mut seen = BTreeSet::new();
    for (time, reasons) in times.iter().zip(kept) {
        if seen.len() < count && seen.insert(period(date(*time))) {
            reasons.push(why);
        }
    }
}

/// The day in UTC. Every agreed time has one: its nanoseconds end in the year 2554.
fn date(time: AgreedTime) -> Date {
    OffsetDateTime::from_unix_timestamp_nanos(i128::from(time.nanos()))
        .unwrap_or(OffsetDateTime::UNIX_EPOCH)
        .date()
}

/// The order in which [`reasons`] wants backups of one cluster. Of those with the same state the one whose name comes last is the newest.
pub(super) fn newest_first(
    one: (Seq, AgreedTime, &str),
    other: (Seq, AgreedTime, &str),
) -> std::cmp::Ordering {
    other.cmp(&one)
}
