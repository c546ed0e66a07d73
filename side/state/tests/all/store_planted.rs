//! A bug put back on purpose: the comparison with `reference` finds it. Only with `--cfg planted`.

use crate::reference::{self, Model};
use quorate_state::store::Store;
use quorate_types::plant;

/// Overwrites in place after a root was computed: is the next root right?
fn is_found(bug: Option<&str>) -> bool {
    plant(bug);
    let (mut store, mut model) = (Store::new(), Model::new());
    for number in 0..3000_u32 {
        let (key, value) = (number.wrapping_mul(0x9E37_79B1).to_be_bytes(), [1; 20]);
        store.put(&key, &value);
        model.insert(key.to_vec(), value.to_vec());
    }
    store.version().root();
    let key = model.keys().nth(1234).unwrap().clone();
    store.put(&key, &[2; 20]);
    model.insert(key, vec![2; 20]);
    let found = store.version().root() != reference::root(&model);
    plant(None);
    found
}

#[test]
#[ignore = "a bug is in force in the whole process: run it alone"]
fn the_planted_bug_is_found() {
    assert!(!is_found(None));
    assert!(is_found(Some("stale-digest")), "stale-digest was not found");
}
