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

/// Results that enough executors have are those of one that is correct, one of them stays, and no others have enough, whoever lies. Where
/// nothing is known of who is slow, enough are there once all that may fail have failed.
#[test]
fn so_many_results_are_enough() {
    for trust in (1..=7).flat_map(all).chain(usual().map(|(_, trust)| trust)) {
        let Trust { n, u, s, o, .. } = trust;
        let enough = trust.results();
        assert!(enough > u.max(o) && enough <= n, "{trust:?}: {enough}");
        if s >= u {
            assert!(shared(n, enough, enough) > o, "{trust:?}: two results have {enough}");
            assert!(enough <= n - u, "{trust:?}: {enough} can be waited for");
        }
    }
    let of = |model, n| Faults::of(model).among(n).results();
    let crash = [1, 2, 3, 5].map(|n| of(FaultModel::Crash, n));
    assert_eq!((crash, [4, 7].map(|n| of(FaultModel::Byzantine, n))), ([1, 2, 2, 3], [3, 5]));
}

/// Reads without an order ask a quorum. It shares a member that tells the truth with the executors of each result that is final, so no read
/// is older than what was answered before it (Eve, section 3.4.1).
#[test]
fn a_read_meets_each_result_in_a_member_that_tells_the_truth() {
    for trust in (1..=7).flat_map(all).chain(usual().map(|(_, trust)| trust)) {
        assert!(shared(trust.n, trust.results(), trust.agreement()) > trust.o, "{trust:?}");
    }
}

/// The attack that the paper names: of 2f+1 executors f+1 decide a write, and f+1 answers are all that a reader may wait for. The two share
/// one executor at least, and no more for sure. Where that one lies, it joins those that have not heard of the write.
#[test]
fn with_fewer_executors_a_read_may_meet_only_a_liar() {
    for f in 1..=3 {
        let (executors, enough) = (2 * f + 1, f + 1);
        assert_eq!(shared(executors, enough, enough), 1);
        let liars = 1;
        let stale = sets(executors, enough).any(|wrote| {
            let late = !wrote & ((1 << executors) - 1);
            // The liar was among those that wrote, and answers as those that did not.
            sets(executors, enough).any(|read| read & wrote == liars && read & !liars & !late == 0)
        });
        assert!(stale, "f = {f}: a read gives what was there before the write");
    }
}

#[test]
fn as_many_faults_are_survived_as_the_members_allow() {
    for (model, Trust { n, u, s, o, .. }) in usual() {
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
        let Trust { n, u, s, o, .. } = trust;
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

/// What so many members say that they heard is known to all: enough of them tell the truth for the others to believe it, and so many are
/// there although u have stopped. Where nothing is known of who is slow, that holds although u of those that said it stop.
#[test]
fn what_spreads_convinces_the_others_and_waits_for_nobody_who_stopped() {
    let mut seen = 0;
    let makes_sense = |Trust { u, s, o, .. }: &Trust| s >= u || o <= s;
    for trust in (1..=9).flat_map(all).filter(makes_sense) {
        let Trust { n, u, s, o, .. } = trust;
        let spreads = trust.spreads();
        assert!(spreads <= n - u, "{trust:?}: {spreads} of {n}");
        assert!(spreads - o >= trust.truth(), "{trust:?}: {spreads} with {o} liars");
        assert!(s < u || spreads - u >= trust.truth(), "{trust:?}: {spreads} of which {u} stop");
        seen += 1;
    }
    assert!(seen > 300, "{seen} of them");
    let spreads = |n, u, s, o| Trust::new(n, u, s, o).map(Trust::spreads);
    assert_eq!([spreads(4, 1, 4, 1), spreads(7, 2, 7, 2), spreads(6, 2, 2, 1)], [Some(3), Some(5), Some(4)]);
    assert_eq!([spreads(5, 2, 1, 1), spreads(6, 2, 1, 1), spreads(8, 2, 1, 1)], [Some(3), Some(4), Some(4)]);
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
            let trust @ Trust { n, u, s, o, .. } = Faults::of(model).at_most(most).among(n);
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

fn sizes(u: u32, s: u32, o: u32) -> Visigoth {
    Visigoth { u, s, o, t_ms: 50 }
}

/// Section 2.4: u, s and o reach from synchronous crash faults to asynchronous liars.
#[test]
fn the_extremes_are_the_models_that_everybody_knows() {
    for f in 1..=6 {
        let least = |u, s, o| sizes(u, s, o).members_min();
        assert_eq!(least(f, 64, f), 3 * f + 1, "asynchronous, liars");
        assert_eq!(least(f, 0, f), 2 * f + 1, "synchronous, liars with signatures");
        assert_eq!(least(f, 0, 0), f + 1, "synchronous, crashes");
        assert_eq!(least(f, 64, 0), 2 * f + 1, "asynchronous, crashes");
        for o in 0..=f {
            assert_eq!(least(f, f, o), 2 * f + o + 1, "hybrid, as UpRight and Eve have it");
        }
        for (model, o) in [(FaultModel::Crash, 0), (FaultModel::Byzantine, f)] {
            let n = sizes(f, n_all(), o).members_min();
            let same = Faults::of(FaultModel::Visigoth(sizes(f, n, o))).among(n);
            assert_eq!(same, Faults::of(model).among(n), "{model:?}, {f} faults");
        }
    }
}

const fn n_all() -> u32 {
    Visigoth::MOST
}

/// Members may be added; with too few of them nobody decides anything without all others.
#[test]
fn chosen_numbers_hold_for_any_number_of_members() {
    let faults = Faults::of(FaultModel::Visigoth(sizes(2, 1, 1)));
    let of =
        |n| (faults.among(n).agreement(), faults.among(n).collect(), faults.among(n).truth(), faults.fit(n));
    assert_eq!(of(5), (4, 3, 2, true));
    assert_eq!(of(6), (5, 4, 2, true));
    assert_eq!(of(4), (4, 4, 4, false));
    assert_eq!(of(1), (1, 1, 1, false));
    let model = |s, t_ms| FaultModel::Visigoth(Visigoth { u: 2, s, o: 1, t_ms }).counting();
    assert!(
        model(2, 0) == model(5, 70) && model(1, 70) != model(1, 80),
        "what counts must be equal everywhere"
    );
    assert!(faults.may_lie() && !Faults::of(FaultModel::Visigoth(sizes(2, 1, 0))).may_lie());
}

/// Section 3.2.2: a gatherer that has too few answers asks again, and returns both answers' senders. However many stopped between, two
/// such sets share more members than lie. The gatherer that ended its first round first had the answers of the members `first`; of those
/// that did not answer no more than s are slow, so the others have stopped and answer nobody's second round.
#[test]
fn gathered_sets_share_a_member_that_tells_the_truth() {
    let mut seen = 0u64;
    for (u, s, o) in all_numbers(9) {
        let trust = Trust::new(u + s + o + 1, u, s, o).expect("enough");
        let (n, big, small) = (trust.n, trust.agreement(), trust.collect());
        // All sets of one size look the same, so the first members answer the first round.
        for first in small..=n {
            let (answered, silent) = ((1u32 << first) - 1, n - first);
            for stopped in subsets(((1u32 << n) - 1) & !answered) {
                let count = stopped.count_ones();
                let possible = count <= u && silent - count <= s;
                if !possible && first < big {
                    continue;
                }
                let second = (0u32..1 << n).filter(|set| set & stopped == 0 && set.count_ones() >= small);
                for second in second {
                    // A set of the usual size needs no second round, and nobody need have stopped.
                    let shared = (answered & second).count_ones();
                    assert!(shared > o, "{trust:?}: {answered:b} and {second:b}, {stopped:b} stopped");
                    seen += 1;
                }
            }
        }
    }
    assert!(seen > 40_000, "{seen}");
}

/// With a single round two sets may share nobody: the example of section 3.2.2, where c and d stop after one answer each.
#[test]
fn one_round_is_not_enough() {
    let trust = Trust::new(4, 2, 1, 0).expect("enough");
    let (a, b) = (0b0101_u32, 0b1010_u32);
    assert!([a, b].iter().all(|set| set.count_ones() == trust.collect()));
    assert_eq!(a & b, 0);
    let again = 0b0011;
    assert!(((a | again) & (b | again)).count_ones() > trust.o);
}

/// The numbers with s < u for which so many members are enough.
fn all_numbers(n: u32) -> impl Iterator<Item = (u32, u32, u32)> {
    let all = (1..n).flat_map(move |u| (0..u).flat_map(move |s| (0..=u).map(move |o| (u, s, o))));
    all.filter(move |(u, s, o)| u + s + o < n)
}

/// All subsets of this set.
fn subsets(of: u32) -> impl Iterator<Item = u32> {
    std::iter::successors(Some(of), move |set| (*set > 0).then(|| (set - 1) & of))
}

#[test]
fn numbers_that_contradict_each_other_are_refused_with_what_to_write() {
    let why = |u, s, o, t_ms| Visigoth { u, s, o, t_ms }.check().map_err(|why| why.to_string());
    assert_eq!(why(2, 1, 1, 50), Ok(()));
    assert_eq!(why(2, 2, 1, 0), Ok(()), "nothing is concluded from silence");
    for (numbers, word) in [
        ((0, 0, 0, 1), "u:"),
        ((2, 1, 3, 1), "o = 3"),
        ((2, 1, 1, 0), "t_ms"),
        ((65, 0, 0, 1), "64"),
        ((2, 65, 0, 1), "64"),
    ] {
        let (u, s, o, t_ms) = numbers;
        assert!(why(u, s, o, t_ms).is_err_and(|why| why.contains(word)), "{numbers:?}");
    }
    let few = sizes(2, 1, 1).check_members(4).map_err(|why| why.to_string());
    assert_eq!(few, Err("4 replicas are too few: n >= u + min(u,s) + o + 1 = 2 + 1 + 1 + 1 = 5".to_owned()));
}

#[test]
fn a_fault_model_is_a_word_or_a_table() {
    #[derive(serde::Serialize, serde::Deserialize, Debug, PartialEq)]
    struct File {
        fault_model: FaultModel,
    }
    let read =
        |text: &str| toml::from_str::<File>(text).map(|file| file.fault_model).map_err(|why| why.to_string());
    let visigoth = FaultModel::Visigoth(sizes(2, 1, 1));
    for (text, model) in [
        ("fault_model = \"crash\"", FaultModel::Crash),
        ("fault_model = \"byzantine\"", FaultModel::Byzantine),
        ("fault_model = { kind = \"byzantine\" }", FaultModel::Byzantine),
        ("fault_model = { kind = \"visigoth\", u = 2, s = 1, o = 1, t_ms = 50 }", visigoth),
        ("[fault_model]\nt_ms = 50\no = 1\ns = 1\nu = 2\nkind = \"visigoth\"", visigoth),
    ] {
        assert_eq!(read(text), Ok(model), "{text}");
        let again = toml::to_string(&File { fault_model: model }).expect("it can be written");
        assert_eq!(read(&again), Ok(model), "{again}");
    }
    for (text, word) in [
        ("fault_model = \"visigoth\"", "u = 2"),
        ("fault_model = \"arbitrary\"", "\"byzantine\""),
        ("fault_model = { u = 1 }", "kind"),
        ("fault_model = { kind = \"visigoth\", u = 2, s = 1 }", "`o`"),
        ("fault_model = { kind = \"visigoth\", u = 2, s = 1, o = 0 }", "t_ms"),
        ("fault_model = { kind = \"visigoth\", u = 2, s = 1, o = 0, t = 5 }", "t_ms"),
        ("fault_model = { kind = \"crash\", u = 2 }", "visigoth"),
        ("fault_model = { kind = \"visigoth\", u = -1, s = 1, o = 0 }", "u32"),
    ] {
        let why = read(text).expect_err(text);
        assert!(why.contains(word), "{text}: {why}");
    }
}

/// docs/choosing.md says for each model how many members one, two or three faults take, and how many of them decide.
#[test]
fn the_page_about_choosing_has_the_right_sizes() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/choosing.md");
    let page = std::fs::read_to_string(page).expect("the page is there");
    let cell = |faults: Faults, u: u32| {
        let fitting =
            (1..).map(|n| (n, faults.among(n))).find(|(n, trust)| faults.fit(*n) && trust.faults() == u);
        let (n, trust) = fitting.expect("enough members");
        match (trust.agreement(), trust.smallest()) {
            (usual, smallest) if smallest < usual => format!("{n} ({usual}, {smallest})"),
            (usual, _) => format!("{n} ({usual})"),
        }
    };
    let row = |name: &str, faults: &dyn Fn(u32) -> Option<FaultModel>| {
        let cells = (1..=3).map(|u| faults(u).map_or("-".to_owned(), |model| cell(model.into(), u)));
        let row = format!("| {name} | {} |\n", cells.collect::<Vec<_>>().join(" | "));
        assert!(page.contains(&row), "the page lacks: {row}");
    };
    let hybrid = |u| Some(FaultModel::Visigoth(sizes(u, u, 1)));
    let few = |o| move |u| (u > 1).then(|| FaultModel::Visigoth(Visigoth { t_ms: 50, ..sizes(u, 1, o) }));
    row("`crash`", &|_| Some(FaultModel::Crash));
    row("`byzantine`", &|_| Some(FaultModel::Byzantine));
    row("`visigoth`, s = u, o = 1", &hybrid);
    row("`visigoth`, s = 0, o = 0", &|u| Some(FaultModel::Visigoth(Visigoth { t_ms: 50, ..sizes(u, 0, 0) })));
    row("`visigoth`, s = 1, o = 0", &few(0));
    row("`visigoth`, s = 1, o = 1", &few(1));
    let table = page.split("| model | u = 1 |").nth(1).and_then(|rest| rest.split("\n\n").next());
    assert_eq!(table.map(|table| table.lines().count()), Some(2 + 6), "each row of the table is compared");
}

/// The first members have the heavy votes.
fn quorums_by_weight(trust: Trust) -> Vec<u32> {
    let heavy = (1 << trust.heavy()) - 1;
    let is_one = |set: &u32| trust.weigh_enough(set.count_ones(), (set & heavy).count_ones());
    (0..1 << trust.n).filter(is_one).collect()
}

/// Any two quorums share a member that tells the truth, whoever lies; all members but the faulty ones are a quorum, and the heavy ones with
/// one more are the smallest.
#[test]
fn quorums_by_weight_meet_and_can_be_had() {
    let mut seen = 0;
    for model in [FaultModel::Crash, FaultModel::Byzantine] {
        for (n, u) in (1..=9).flat_map(|n| (1..=n).map(move |u| (n, u))) {
            let trust = Faults::of(model).at_most(u).weighted().among(n);
            if trust.heavy() == 0 {
                assert!(trust == Faults::of(model).at_most(u).among(n), "{trust:?}");
                continue;
            }
            seen += 1;
            let quorums = quorums_by_weight(trust);
            // The smallest ones are enough: whoever has more meets others all the more.
            let least = quorums.iter().filter(|set| {
                (0..n).filter(|id| *set & 1 << id != 0).all(|id| !quorums.contains(&(*set & !(1 << id))))
            });
            let least: Vec<u32> = least.copied().collect();
            for one in &least {
                let meets = |other: &u32| (one & other).count_ones() > trust.o;
                assert!(least.iter().all(meets), "{trust:?}: {one:b}");
            }
            let size = least.iter().map(|set| set.count_ones()).min();
            assert_eq!(size, Some(trust.u + trust.o + 1), "{trust:?}");
            assert!(sets(n, trust.agreement()).all(|set| quorums.contains(&set)), "{trust:?}");
            // A reader asks as many as can be there, and so one that accepted what was decided and tells the truth.
            let reads = |read: u32| least.iter().all(|set| (read & set).count_ones() > trust.o);
            assert!(sets(n, trust.agreement()).all(reads), "{trust:?}");
        }
    }
    assert!(seen > 20, "{seen}");
}
