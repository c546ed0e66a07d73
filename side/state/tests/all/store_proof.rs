//! Proofs of the object store: what they show, and that nothing else passes for one.

use crate::reference::Model;
use proptest::prelude::*;
use proptest::test_runner::TestCaseError;
use quorate_state::store::{Proof, ProofError, Store, Version};

fn keys() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(prop::sample::select(vec![0, 1, 16, 17, 255]), 0..4),
        (0_usize..30).prop_map(|length| vec![7; length]),
        prop::collection::vec(any::<u8>(), 1..3),
    ]
}

fn models() -> impl Strategy<Value = Model> {
    let sizes =
        prop_oneof![6 => 0_usize..80, 2 => 1000_usize..2000, 1 => 4070_usize..4100, 1 => Just(10_000)];
    let values = (sizes, any::<u8>()).prop_map(|(size, byte)| vec![byte; size]);
    prop::collection::btree_map(keys(), values, 0..60)
}

fn version_of(model: &Model) -> Version {
    let mut store = Store::new();
    model.iter().for_each(|(key, value)| {
        store.put(key, value);
    });
    store.version()
}

/// The proof shows what is true, also after it was sent.
fn check(version: &Version, model: &Model, key: &[u8]) -> Result<Proof, TestCaseError> {
    let proof = version.prove(key);
    let value = model.get(key).map(|value| &value[..]);
    prop_assert_eq!(proof.check(&version.root(), key), Ok(value));
    let sent = Proof::decode(&proof.encode());
    prop_assert_eq!(sent.as_ref(), Ok(&proof));
    Ok(proof)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Every key of a store has a proof, and so has every other key.
    #[test]
    fn proofs_show_what_is_there(model in models(), others in prop::collection::vec(keys(), 1..20)) {
        let version = version_of(&model);
        for key in model.keys().chain(&others) {
            check(&version, &model, key)?;
        }
    }

    /// A proof that was changed anywhere is no proof, or shows the same. For every key, not only the one it is about.
    #[test]
    fn a_changed_proof_shows_nothing_else(
        model in models(),
        key in keys(),
        pick in any::<(bool, prop::sample::Index)>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), 1_u8.., 0_u8..4), 1..60),
        others in prop::collection::vec(keys(), 0..8),
    ) {
        let version = version_of(&model);
        let all: Vec<_> = model.keys().collect();
        let key = if pick.0 && !all.is_empty() { all[pick.1.index(all.len())].clone() } else { key };
        let bytes = check(&version, &model, &key)?.encode();
        for (at, by, kind) in changes {
            let (mut changed, at) = (bytes.clone(), at.index(bytes.len()));
            match kind {
                0 => changed.truncate(at),
                1 => changed.insert(at, by),
                2 => drop(changed.remove(at)),
                _ => changed[at] ^= by,
            }
            let Ok(proof) = Proof::decode(&changed) else { continue };
            for key in [&key].into_iter().chain(&others) {
                if let Ok(value) = proof.check(&version.root(), key) {
                    prop_assert_eq!(value, model.get(key).map(|value| &value[..]));
                }
            }
        }
    }

    /// A proof says nothing wrong about keys that it was not made for.
    #[test]
    fn a_proof_says_nothing_wrong_about_other_keys(model in models(), key in keys(), others in prop::collection::vec(keys(), 1..20)) {
        let version = version_of(&model);
        let proof = check(&version, &model, &key)?;
        for other in model.keys().chain(&others) {
            if let Ok(value) = proof.check(&version.root(), other) {
                prop_assert_eq!(value, model.get(other).map(|value| &value[..]));
            }
        }
    }

    /// Whatever arrives, reading it ends well.
    #[test]
    fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..400), key in keys()) {
        if let Ok(proof) = Proof::decode(&bytes) {
            prop_assert_eq!(proof.encode(), bytes);
            let _ = proof.check(&version_of(&Model::new()).root(), &key);
        }
    }

    /// Nearly right bytes, too.
    #[test]
    fn nearly_proofs_are_read_without_panic(
        count in 0_u32..4,
        symbols in any::<[u32; 3]>(),
        skip in prop::collection::vec(0_u8..17, 0..4),
        digests in 0_u8..19,
        rest in prop::collection::vec(any::<u8>(), 0..60),
        key in keys(),
    ) {
        let mut bytes = count.to_le_bytes().to_vec();
        for symbols in &symbols[..count.min(3) as usize] {
            bytes.extend((symbols & 0x1FFFF).to_le_bytes());
            bytes.extend((skip.len() as u32).to_le_bytes());
            bytes.extend(&skip);
            bytes.push(digests);
            bytes.extend(vec![9; 32 * digests as usize]);
        }
        bytes.push(1);
        bytes.extend((rest.len() as u32).to_le_bytes());
        bytes.extend(rest);
        if let Ok(proof) = Proof::decode(&bytes) {
            prop_assert_ne!(proof.check(&version_of(&Model::new()).root(), &key), Ok(Some(&[][..])));
        }
    }
}

/// A proof about an older root is refused, and so is one whose end is another's.
#[test]
fn a_proof_is_about_one_root() {
    let mut store = Store::new();
    for number in 0..2000_u32 {
        store.put(&number.to_be_bytes(), &[1; 50]);
    }
    let (before, key) = (store.version(), 77_u32.to_be_bytes());
    store.put(&key, &[2; 50]);
    let after = store.version();
    assert_eq!(before.prove(&key).check(&after.root(), &key), Err(ProofError::Wrong));
    assert_eq!(after.prove(&key).check(&after.root(), &key), Ok(Some(&[2; 50][..])));
    assert!(after.prove(&key).encode().len() < 8000, "a proof holds one bucket and a few nodes");
}
