//! Each size against a search over all sets of members, for every n up to 10.

use super::*;

const N_MAX: u32 = 10;

fn sets(n: u32, size: u32) -> impl Iterator<Item = u32> {
    (0u32..1 << n).filter(move |set| set.count_ones() == size)
}

/// The smallest size at which any two sets share more than `liars` members, so at least one that tells the truth.
fn smallest_intersecting(n: u32, liars: u32) -> u32 {
    (1..=n)
        .find(|&size| sets(n, size).all(|a| sets(n, size).all(|b| (a & b).count_ones() > liars)))
        .expect("the set of all members intersects itself")
}

#[test]
fn agreement_quorums_are_the_smallest_that_intersect_in_a_truthful_member() {
    for n in 1..=N_MAX {
        let crash = Quorums::new(FaultModel::Crash, n);
        assert_eq!(crash.agreement(), smallest_intersecting(n, 0), "crash n={n}");
        let byzantine = Quorums::new(FaultModel::Byzantine, n);
        assert_eq!(byzantine.agreement(), smallest_intersecting(n, byzantine.f()), "byzantine n={n}");
    }
}

#[test]
fn correct_members_alone_can_reach_every_quorum() {
    for n in 1..=N_MAX {
        for model in [FaultModel::Crash, FaultModel::Byzantine] {
            let q = Quorums::new(model, n);
            assert!(q.agreement() <= q.collect(), "{model:?} n={n}");
            assert!(q.one_correct() <= q.collect(), "{model:?} n={n}");
        }
    }
}

#[test]
fn f_is_the_largest_number_of_faults_that_n_allows() {
    for n in 1..=N_MAX {
        let f = Quorums::new(FaultModel::Crash, n).f();
        assert!(2 * f < n && 2 * (f + 1) >= n);
        let f = Quorums::new(FaultModel::Byzantine, n).f();
        assert!(3 * f < n && 3 * (f + 1) >= n);
    }
}

#[test]
fn one_correct_always_holds_a_correct_member() {
    for n in 1..=N_MAX {
        let q = Quorums::new(FaultModel::Byzantine, n);
        for faulty in sets(n, q.f()) {
            assert!(sets(n, q.one_correct()).all(|set| set & !faulty != 0), "n={n}");
        }
    }
}
