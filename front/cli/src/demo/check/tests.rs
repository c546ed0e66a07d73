use super::{Entry, Sent, compare, key, value};

fn entry(number: u64, revision: i64) -> Entry {
    Entry { key: key(number).into_bytes(), value: value(number).into_bytes(), revision, version: 1 }
}

fn sent() -> Sent {
    Sent { acknowledged: vec![1, 2, 4], unknown: vec![3], refused: vec![5], ..Sent::default() }
}

#[test]
fn what_is_as_it_was_written_is_right() {
    let all = [entry(1, 2), entry(2, 5), entry(4, 9)];
    let verdict = compare(&sent(), &all);
    assert!(verdict.is_right() && verdict.found == 3, "{verdict:?}");
    // A write of which nobody was told may be there, also late.
    let verdict = compare(&sent(), &[&all[..], &[entry(3, 12)]].concat());
    assert!(verdict.is_right() && verdict.found == 3, "{verdict:?}");
}

#[test]
fn each_kind_of_wrong_is_found() {
    let right = [entry(1, 2), entry(2, 5), entry(4, 9)];
    let with = |change: &dyn Fn(&mut Vec<Entry>)| {
        let mut entries = right.to_vec();
        change(&mut entries);
        let verdict = compare(&sent(), &entries);
        assert!(!verdict.is_right(), "{verdict:?}");
        verdict
    };
    assert_eq!(with(&|entries| drop(entries.remove(1))).lost, [2]);
    assert_eq!(with(&|entries| entries.clear()).lost, [1, 2, 4]);
    assert_eq!(with(&|entries| entries[2].version = 2).twice, [4]);
    assert_eq!(with(&|entries| entries[2].revision = 4).out_of_order, [4]);
    assert_eq!(with(&|entries| entries[0].value = b"other".to_vec()).wrong, [key(1)]);
    // Refused, and done all the same; and written by nobody.
    assert_eq!(with(&|entries| entries.push(entry(5, 12))).wrong, [key(5)]);
    assert_eq!(with(&|entries| entries.push(entry(77, 12))).wrong, [key(77)]);
    assert_eq!(with(&|entries| entries.push(entry(4, 12))).wrong.len(), 1);
}
