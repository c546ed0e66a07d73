//! Each size against a search over all sets of members: for every n up to 10 with the faults that operators choose, and up to 7 with all others.

use super::*;

const N_MAX: u32 = 10;

fn sets(n: u32, size: u32) -> impl Iterator<Item = u32> {
    (0u32..1 << n).filter(move |set| set.count_ones() == size)
}

/// How many members two sets of these sizes share at least.
fn shared(n: u32, one: u32, other: u32) -> u32 {
    let shares = |a: u32| sets(n, other).map(move |b| (a & b).count_ones());
    sets(n, one).flat_map(shares).min().expect("there are sets of this size")
}

/// The smallest size at which any two sets share more than `liars` members, so at least one that tells the truth.
fn smallest_intersecting(n: u32, liars: u32) -> u32 {
    (1..=n).find(|&size| shared(n, size, size) > liars).expect("the set of all members intersects itself")
}

fn usual() -> impl Iterator<Item = (FaultModel, Trust)> {
    let models = [FaultModel::Crash, FaultModel::Byzantine];
    models.into_iter().flat_map(|model| (1..=N_MAX).map(move |n| (model, Faults::of(model).among(n))))
}

/// Everything that can be chosen for this many members.
fn all(n: u32) -> impl Iterator<Item = Trust> {
    let numbers = move || 0..=n;
    let all = numbers().flat_map(move |u| numbers().flat_map(move |s| numbers().map(move |o| (u, s, o))));
    all.filter_map(move |(u, s, o)| Trust::new(n, u, s, o))
}

#[test]
fn agreement_quorums_are_the_smallest_that_intersect_in_a_truthful_member() {
    for (model, trust) in usual() {
        assert_eq!(trust.agreement(), smallest_intersecting(trust.n, trust.o), "{model:?} {trust:?}");
    }
}

#[test]
fn as_many_faults_are_survived_as_the_members_allow() {
    for (model, Trust { n, u, s, o }) in usual() {
        let more = Trust::new(n, u + 1, s, if o == u && model == FaultModel::Byzantine { u + 1 } else { o });
        assert_eq!(Trust::new(n, u, s, o), Some(Faults::of(model).among(n)));
        assert_eq!(more, None, "{model:?} n={n} u={u}");
    }
    assert_eq!(
        (
            Faults::of(FaultModel::Crash).among(5).faults(),
            Faults::of(FaultModel::Byzantine).among(7).faults()
        ),
        (2, 2)
    );
}

/// Two quorums share somebody who tells the truth, a quorum and a small one do so as well, and nobody has to wait for who stopped.
#[test]
fn whatever_is_chosen_the_sizes_fit() {
    let mut seen = 0;
    for trust in (1..=7).flat_map(all) {
        let Trust { n, u, s, o } = trust;
        let (big, small) = (trust.agreement(), trust.collect());
        assert!(shared(n, big, big) > o, "{trust:?}: quorums of {big}");
        assert!(shared(n, big, small) > o || s >= u, "{trust:?}: quorums of {big} and {small}");
        assert!(small <= n - u && (big <= small || s < u), "{trust:?}: {big} and {small} can be waited for");
        assert!(
            s >= u || big <= n - s,
            "{trust:?}: {big} are neither slow nor stopped while nobody has stopped"
        );
        assert!(trust.truth() <= small, "{trust:?}: so many that one tells the truth are there");
        seen += 1;
    }
    assert!(seen > 150, "{seen} of them");
}

/// With one member less there is a quorum too few: two of them share nobody, or who is needed has stopped.
#[test]
fn with_fewer_members_the_sizes_do_not_fit() {
    for n in 1..=6 {
        for (u, s, o) in all(n + 1).map(|trust| (trust.u, trust.s, trust.o)) {
            if Trust::new(n, u, s, o).is_some() || n < u {
                continue;
            }
            let (waits, small) = (n - u.min(s), n - u);
            assert!(waits == 0 || small == 0 || shared(n, waits, small) <= o, "n={n} u={u} s={s} o={o}");
        }
    }
}

#[test]
fn fewer_faults_may_be_chosen_than_the_members_allow() {
    let liars = Faults::of(FaultModel::Byzantine);
    let size =
        |faults: Faults, n| (faults.among(n).faults(), faults.among(n).agreement(), faults.among(n).truth());
    assert_eq!(size(liars, 8), (2, 6, 3));
    assert_eq!(size(liars.at_most(1), 8), (1, 5, 2));
    assert_eq!(size(liars.at_most(5), 8), (2, 6, 3), "no more than eight members allow");
    for (n, most) in (1..=N_MAX).flat_map(|n| (0..n).map(move |most| (n, most))) {
        for model in [FaultModel::Crash, FaultModel::Byzantine] {
            let trust @ Trust { n, u, s, o } = Faults::of(model).at_most(most).among(n);
            assert_eq!(Trust::new(n, u, s, o), Some(trust));
            assert_eq!(trust.agreement(), smallest_intersecting(n, o), "{model:?} {trust:?}");
        }
    }
}

#[test]
fn one_of_so_many_tells_the_truth() {
    for (_, trust) in usual() {
        for liars in sets(trust.n, trust.o) {
            assert!(sets(trust.n, trust.truth()).all(|set| set & !liars != 0), "{trust:?}");
        }
    }
}

#[test]
fn what_visigoth_is_known_for() {
    let trust = Trust::new(5, 2, 1, 1).expect("five members are enough");
    assert_eq!((trust.agreement(), trust.collect(), trust.truth()), (4, 3, 2));
    assert_eq!(Trust::new(4, 2, 1, 1), None);
    assert_eq!(Trust::new(4, 2, 1, 0).map(Trust::agreement), Some(3));
    assert_eq!(Trust::new(3, 1, 3, 2), None, "more lie than are faulty");
}
