use super::{Reason, Rules, newest_first, reasons};
use quorate_types::{AgreedTime, Seq};

const DAY: u64 = 86_400_000_000_000;
/// Monday, 2026-11-30, at noon.
const MONDAY: u64 = 20_787 * DAY + DAY / 2;

/// So many half days before that Monday.
fn before(half_days: u64) -> AgreedTime {
    AgreedTime::from_nanos(MONDAY - half_days * DAY / 2)
}

/// The places of those that are kept.
fn kept(times: &[AgreedTime], rules: Rules) -> Vec<usize> {
    let reasons = reasons(times, rules);
    assert_eq!(reasons.len(), times.len());
    (0..times.len()).filter(|at| !reasons[*at].is_empty()).collect()
}

#[test]
fn the_newest_is_kept_whatever_the_rules_say() {
    assert_eq!(kept(&[before(0), before(1)], Rules::default()), [0]);
    assert_eq!(reasons(&[before(0)], Rules::default()), [[Reason::Newest]]);
    assert_eq!(kept(&[], Rules { last: 3, ..Rules::default() }), [] as [usize; 0]);
}

#[test]
fn the_last_ones_are_kept() {
    let times: Vec<_> = (0..5).map(before).collect();
    assert_eq!(kept(&times, Rules { last: 3, ..Rules::default() }), [0, 1, 2]);
    assert_eq!(kept(&times, Rules { last: 9, ..Rules::default() }), [0, 1, 2, 3, 4]);
}

#[test]
fn of_each_day_the_newest_is_kept_and_days_without_one_do_not_count() {
    // Monday noon and midnight, Sunday noon and midnight; then nothing until three days before.
    let times = [before(0), before(1), before(2), before(3), before(6), before(8)];
    assert_eq!(kept(&times, Rules { daily: 3, ..Rules::default() }), [0, 2, 4]);
    assert_eq!(kept(&times, Rules { daily: 4, ..Rules::default() }), [0, 2, 4, 5]);
}

#[test]
fn weeks_begin_on_monday_also_where_a_year_begins() {
    // Monday, Sunday before it, the Monday before that.
    let times = [before(0), before(2), before(14), before(16)];
    assert_eq!(kept(&times, Rules { weekly: 2, ..Rules::default() }), [0, 1]);
    assert_eq!(kept(&times, Rules { weekly: 3, ..Rules::default() }), [0, 1, 3]);
    // Friday, 2027-01-01 is in one week with Thursday, 2026-12-31.
    let year = |days: u64| AgreedTime::from_nanos(MONDAY + days * DAY);
    assert_eq!(kept(&[year(32), year(31), year(27)], Rules { weekly: 2, ..Rules::default() }), [0, 2]);
    assert_eq!(kept(&[year(32), year(31), year(27)], Rules { monthly: 2, ..Rules::default() }), [0, 1]);
}

#[test]
fn a_backup_may_be_kept_for_several_reasons() {
    let times: Vec<_> = (0..60).map(|days| before(2 * days)).collect();
    let rules = Rules { last: 2, daily: 7, weekly: 4, monthly: 2 };
    let all = reasons(&times, rules);
    assert_eq!(all[0], [Reason::Newest, Reason::Last, Reason::Daily, Reason::Weekly, Reason::Monthly]);
    assert_eq!(all[1], [Reason::Last, Reason::Daily, Reason::Weekly]);
    assert_eq!(all[8], [Reason::Weekly]);
    // November begins 30 days before, so October ends there.
    assert_eq!(all[30], [Reason::Monthly]);
    assert_eq!(kept(&times, rules), [0, 1, 2, 3, 4, 5, 6, 8, 15, 30]);
}

#[test]
fn seqs_decide_which_is_newer_and_then_names() {
    let mut all =
        [(1, "c"), (3, "a"), (2, "x"), (3, "b")].map(|(seq, name)| (Seq::new(seq), before(0), name));
    all.sort_by(|one, other| newest_first(*one, *other));
    assert_eq!(all.map(|(_, _, name)| name), ["b", "a", "x", "c"]);
}
