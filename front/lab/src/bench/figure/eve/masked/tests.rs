//! What is counted, without a cluster.

use super::requests::{Requests, Told};
use super::schedule::{Schedule, TAKES};
use super::twins::{Counts, Twins};
use super::{MIXERS, count, perfect, share};
use quorate_execute::Stopwatch as _;
use quorate_kv::{Tables as _, WorkCommand};
use quorate_sim::random::Rng;

#[test]
fn the_numbers_of_the_paper_fit_together() {
    for mixer in MIXERS {
        assert_eq!(mixer.paper.manifested, mixer.paper.masked + mixer.paper.identical, "{}", mixer.name);
    }
}

/// One that groups all races most, one that is right never. Most of it is masked, and not all.
#[test]
fn what_wrong_mixers_let_happen_is_mostly_masked() {
    let counts = MIXERS.map(|mixer| count(mixer, 1500).expect("it fits together"));
    for Counts { requests, batches, in_waves, manifested, masked, identical, .. } in counts {
        assert_eq!((requests, batches, manifested), (150_000, 1500, masked + identical));
        assert!(manifested <= in_waves && in_waves <= batches);
    }
    let [all, one, half, tenth, original] = counts;
    let rate = |counts: &Counts| share(counts.manifested, counts.in_waves).expect("some ran in waves");
    assert!(rate(&all) > 10.0 * rate(&one) && rate(&one) > rate(&tenth), "{counts:?}");
    assert!(all.masked > all.identical && one.masked > one.identical, "{counts:?}");
    assert!(counts.iter().map(|counts| counts.identical).sum::<u64>() > 0, "{counts:?}");
    assert_eq!((original.manifested, original.in_waves), (0, 1500));
    // S11: after some rollbacks commands run one after the other for a while.
    assert!(all.in_waves < 300 && half.in_waves > 1000, "{counts:?}");
}

#[test]
fn the_same_seed_gives_the_same_counts() {
    let play = |seed| {
        let mut requests = Requests::new(seed, MIXERS[0], 100, WorkCommand::default());
        Twins::new(seed).and_then(|twins| twins.play(&mut requests, 60)).expect("it fits together")
    };
    assert_eq!(play(1), play(1));
    assert!((2..9).any(|seed| play(seed) != play(1)));
}

#[test]
fn a_perfect_mixer_makes_as_many_waves_as_the_fullest_object_has_requests() {
    let perfect = perfect().expect("it fits together");
    assert!((14.0..16.0).contains(&perfect.waves), "{perfect:?}");
    assert!((perfect.waves * perfect.of - 100.0).abs() < 1e-6, "{perfect:?}");
}

#[test]
fn hints_hide_as_many_pairs_as_the_mixer_misses() {
    let named = |mixer| {
        let mut requests = Requests::new(3, mixer, 1000, WorkCommand::default());
        (0..100_000).filter(|client| requests.next(*client).also.is_some()).count()
    };
    let [all, one, half, tenth, original] = MIXERS.map(named);
    assert_eq!((all, original), (0, 100_000));
    assert!((99_400..99_600).contains(&one) && (99_700..99_800).contains(&half), "{one} {half}");
    assert!((99_930..99_970).contains(&tenth), "{tenth}");
    let tables = |mixer| {
        let mut requests = Requests::new(3, mixer, 200, WorkCommand::default());
        (0..1000).map(|client| requests.next(client).table).collect::<Vec<_>>()
    };
    assert_eq!(tables(MIXERS[0]), tables(MIXERS[4]), "the requests are the same");
}

#[test]
fn a_table_is_taken_for_a_tenth_of_a_command() {
    let schedule = Schedule::new(Rng::of(1, 1));
    assert!(schedule.take(1) && schedule.take(1), "alone nobody finds it taken");
    schedule.at_once(true);
    let begin = |at| assert_eq!(schedule.begin(at).nanos(), at);
    begin(0);
    assert!(schedule.take(1) && schedule.take(2) && !schedule.raced());
    begin(TAKES.0 / 10 - 1);
    assert!(!schedule.take(1) && schedule.raced() && !schedule.raced());
    begin(TAKES.1 / 10);
    assert!(schedule.take(1));
    schedule.at_once(true);
    assert!(schedule.take(1), "another wave");
}

#[test]
fn a_change_that_was_not_counted_is_seen() {
    let mut told = Told::default();
    let counted =
        [(3, 1), (3, 2), (3, 2), (0, 1), (3, 3)].map(|(client, changes)| told.counted(client, changes));
    assert_eq!(counted, [true, true, false, true, true]);
}
