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
