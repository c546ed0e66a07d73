use super::held_by;

/// Compared with counting: the most that enough replicas hold.
#[test]
fn committed_is_what_a_quorum_holds() {
    for n in 2..=7usize {
        for choice in 0..3usize.pow(n as u32) {
            let held: Vec<u64> = (0..n).map(|i| (choice / 3usize.pow(i as u32) % 3) as u64).collect();
            for quorum in 1..=n {
                let most = (0..3).filter(|x| held.iter().filter(|h| *h >= x).count() >= quorum).max();
                assert_eq!(Some(held_by(quorum, &mut held.clone())), most, "{quorum} of {held:?}");
            }
        }
    }
}
