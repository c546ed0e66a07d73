//! The map against the standard one with plain keys.

use super::*;
use proptest::collection::vec;
use proptest::prelude::*;

/// Short keys over few bytes, zeros among them, so that prefixes collide.
fn key() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![vec(0u8..3, 0..5), vec(0u8..2, 14..20), vec(any::<u8>(), 0..40)]
}

proptest! {
    #[test]
    fn it_holds_and_orders_what_the_standard_map_does(
        steps in vec((key(), any::<bool>()), 0..60),
        bounds in (key(), proptest::option::of(key())),
    ) {
        let (mut ours, mut plain) = (OrderedMap::default(), BTreeMap::<Vec<u8>, Vec<u8>>::new());
        for (number, (key, remove)) in steps.iter().enumerate() {
            if *remove {
                prop_assert_eq!(ours.remove(key), plain.remove(key).is_some());
            } else {
                let value = number.to_string().into_bytes();
                prop_assert_eq!(ours.get(key), plain.get(key).map(Vec::as_slice));
                match ours.get_mut(key) {
                    Some(old) => *old = value.clone(),
                    None => ours.insert(key, value.clone()),
                }
                plain.insert(key.clone(), value);
            }
        }
        prop_assert_eq!(ours.len(), plain.len());
        prop_assert_eq!(ours.is_empty(), plain.is_empty());
        let (start, end) = bounds;
        let found: Vec<_> = ours.range(&start, end.as_deref()).collect();
        let expected: Vec<_> = plain
            .iter()
            .filter(|(key, _)| **key >= start && end.as_ref().is_none_or(|end| *key < end))
            .map(|(key, value)| (key.as_slice(), value.as_slice()))
            .collect();
        prop_assert_eq!(found, expected);
    }
}
