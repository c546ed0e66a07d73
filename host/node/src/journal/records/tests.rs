//! The map against a plain list of pairs.

use super::*;

#[test]
fn runs_give_what_a_list_of_pairs_gives() {
    let mut map = RecordMap::default();
    let mut pairs = Vec::new();
    let mut log = 0;
    for own in 1..=60u64 {
        log += if own % 7 == 0 { 3 } else { 1 };
        map.push(RecordId::new(own), RecordId::new(log));
        pairs.push((own, log));
    }
    assert!(map.runs.len() < 12);
    for (own, log) in &pairs {
        assert_eq!(map.log(RecordId::new(*own)), Some(RecordId::new(*log)));
    }
    for log in 0..=log + 5 {
        let expected = pairs.iter().filter(|(_, l)| *l <= log).map(|(o, _)| *o).max().unwrap_or(0);
        assert_eq!(map.own_up_to(RecordId::new(log)), RecordId::new(expected), "log record {log}");
    }
    assert_eq!(map.log(RecordId::ZERO), None);
    assert_eq!(map.log(RecordId::new(61)), None);
}

/// Records that the log does not hold any more are not found, and take no memory. All others are found.
#[test]
fn forgotten_records_are_not_found() {
    let mut map = RecordMap::default();
    let mut pairs = Vec::new();
    // A trimmed log may begin anywhere; the instance's own numbers begin with 1.
    let mut log = 1000;
    for own in 1..=200u64 {
        log += if own % 5 == 0 { 2 } else { 1 };
        map.push(RecordId::new(own), RecordId::new(log));
        pairs.push((own, log));
    }
    let runs = map.runs.len();
    for below in [0, 1, 1000, 1003, 1004, 1100, 1100, 1050, log, log + 50] {
        map.forget_below(RecordId::new(below));
        let gone = |log: u64| log < map.begin;
        for (own, log) in &pairs {
            let expected = (!gone(*log)).then_some(RecordId::new(*log));
            assert_eq!(map.log(RecordId::new(*own)), expected, "own record {own}, {below} forgotten");
        }
        let kept = pairs.iter().filter(|(_, log)| !gone(*log));
        for (own, log) in kept {
            assert_eq!(map.own_up_to(RecordId::new(*log)), RecordId::new(*own), "log record {log}");
        }
        assert_eq!(map.own_up_to(RecordId::new(log + 9)), RecordId::new(200));
    }
    assert!(runs > 30 && map.runs.len() == 1, "{} of {runs} runs are left", map.runs.len());
    map.push(RecordId::new(201), RecordId::new(log + 60));
    assert_eq!(map.log(RecordId::new(201)), Some(RecordId::new(log + 60)));
    assert_eq!(map.own_up_to(RecordId::new(log + 59)), RecordId::new(200));
}
