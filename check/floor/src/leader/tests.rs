use super::held_by_majority;

/// Compared with counting: how many replicas hold at least so much.
#[test]
fn committed_is_what_a_majority_holds() {
    for n in 2..=7usize {
        for choice in 0..3usize.pow(n as u32) {
            let held: Vec<u64> = (0..n).map(|i| (choice / 3usize.pow(i as u32) % 3) as u64).collect();
            let most = (0..3).filter(|x| 2 * held.iter().filter(|h| *h >= x).count() > n).max();
            assert_eq!(Some(held_by_majority(&mut held.clone())), most, "{held:?}");
        }
    }
}
