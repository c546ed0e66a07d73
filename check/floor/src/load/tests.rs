use super::confirmed;

/// Compared with counting: how many replicas say at least so much.
#[test]
fn confirmed_is_what_enough_replicas_say() {
    for n in 1..=7usize {
        for needed in 1..=n {
            for choice in 0..3usize.pow(n as u32) {
                let counts: Vec<u64> = (0..n).map(|i| (choice / 3usize.pow(i as u32) % 3) as u64).collect();
                let most = (0..3).filter(|x| counts.iter().filter(|c| *c >= x).count() >= needed).max();
                assert_eq!(Some(confirmed(counts.iter().copied(), needed)), most, "{needed} of {counts:?}");
            }
        }
    }
}
