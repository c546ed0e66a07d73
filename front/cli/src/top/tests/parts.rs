use super::made::took;
use crate::problems::Problem;
use crate::top::line::{Line, Style, ranges, wrapped};
use crate::top::look::{Checkpoints, Transfer, short};
use crate::top::looker::FirstSeen;
use crate::top::table::{Sort, checkpoint, rate};
use crate::top::took::{Bound, Took};
use std::time::{Duration, Instant};

#[test]
fn percentiles_are_bounds_of_what_was_added() {
    let before = Took::of(&took(&[(16, 1000)], 0));
    let now = Took::of(&took(&[(16, 1000), (128, 99), (1024, 1)], 0));
    let added = now.since(&before).expect("it rose");
    assert_eq!(added.count(), 100);
    assert_eq!(added.percentile(50), Some(Bound::AtMost(128)));
    assert_eq!(added.percentile(99), Some(Bound::AtMost(128)));
    assert_eq!(added.percentile(100), Some(Bound::AtMost(1024)));
    // What took longer than all bounds.
    let over = Took::of(&took(&[(16, 1)], 3));
    assert_eq!(over.percentile(50), Some(Bound::Over(16 << 20)));
    assert_eq!(now.since(&now).expect("the same").percentile(50), None);
    // Counts that fell, and other bounds: there is nothing to compare.
    assert_eq!(before.since(&now), None);
    let other = Took::of(&serde_json::json!({ "count": 1, "buckets": [[0.5, 1]] }));
    assert_eq!(other.since(&before), None);
}

#[test]
fn counts_of_several_are_added() {
    let (one, other) = (Took::of(&took(&[(16, 1)], 0)), Took::of(&took(&[(64, 3)], 1)));
    let mut sum = Took::default();
    sum.add(&one);
    sum.add(&other);
    assert_eq!(sum, Took::of(&took(&[(16, 1), (64, 3)], 1)));
}

#[test]
fn bounds_are_rounded_so_that_they_stay_true() {
    let shown = [16, 512, 1024, 16_384, 131_072, 1_048_576, 16_777_216].map(|us| Bound::AtMost(us).shown());
    assert_eq!(
        shown,
        ["<= 16 us", "<= 512 us", "<= 1.03 ms", "<= 16.4 ms", "<= 132 ms", "<= 1.05 s", "<= 16.8 s"]
    );
    assert_eq!(Bound::Over(16_777_216).shown(), "> 16.7 s");
}

#[test]
fn rates_have_few_digits() {
    let shown = [None, Some(0.0), Some(0.04), Some(9.94), Some(12.34), Some(123_456.0)].map(rate);
    assert_eq!(shown, ["-", "0", "0.0", "9.9", "12.3", "123 k"]);
}

#[test]
fn every_phase_of_a_checkpoint_has_a_word() {
    let c = |last, agreed, durable| Checkpoints { last, agreed, durable, ..Checkpoints::default() };
    assert_eq!(checkpoint(&c(0, 0, 0)), "-");
    assert_eq!(checkpoint(&c(20, 10, 10)), "compares 20");
    assert_eq!(checkpoint(&c(20, 20, 10)), "agreed 20");
    assert_eq!(checkpoint(&c(20, 20, 20)), "durable 20");
    assert_eq!(checkpoint(&Checkpoints { writing: Some(20), ..c(20, 20, 10) }), "writes 20");
    assert_eq!(checkpoint(&Checkpoints { diverged: Some(20), ..c(20, 20, 10) }), "diverged 20");
    let fetch = |done, all, installing| Checkpoints {
        transfer: Some(Transfer { done, all, installing }),
        ..c(1, 1, 1)
    };
    assert_eq!(checkpoint(&fetch(1024, 0, false)), "fetches 1.0 KiB");
    assert_eq!(checkpoint(&fetch(u64::MAX, 10, false)), "fetches 100 %");
    assert_eq!(checkpoint(&fetch(10, 10, true)), "installs");
}

#[test]
fn lines_are_cut_between_characters() {
    let mut line = Line::of(Style::Bold, "ab");
    line.push(Style::Bad, "東c\u{1b}");
    assert_eq!(line.width(), 2 + 3 + 6);
    assert_eq!(line.clone().fit(3).text(), "ab");
    assert_eq!(line.clone().fit(4).text(), "ab東");
    assert_eq!(line.clone().fit(0).text(), "");
    assert_eq!(line.clone().for_terminal(true), "\u{1b}[1mab\u{1b}[0m\u{1b}[1;31m東c\\u{1b}\u{1b}[0m");
    assert_eq!(line.for_terminal(false), "ab東c\\u{1b}");
}

#[test]
fn texts_are_wrapped_between_words() {
    assert_eq!(wrapped("one two three", 8), ["one two", "three"]);
    assert_eq!(wrapped("a very-long-word b", 8), ["a", "very-lon", "g-word b"]);
    assert_eq!(wrapped("東東東東東 x", 1), ["東東東東", "東 x"]);
    assert_eq!(wrapped("", 80), [""]);
    assert_eq!((short("größer", 3), short("ab", 3)), ("grö...".to_owned(), "ab".to_owned()));
}

#[test]
fn numbers_are_listed_in_ranges() {
    assert_eq!(ranges(&[1, 2, 3, 5, 7, 8, 65_535]), "1-3 5 7 8 65535");
}

#[test]
fn sorting_comes_round() {
    let mut sort = Sort::Id;
    let mut seen = Vec::new();
    loop {
        seen.push(sort.column());
        sort = sort.next();
        if sort == Sort::Id {
            break;
        }
    }
    assert_eq!(seen.len(), 9, "{seen:?}");
}

#[test]
fn a_problem_is_as_old_as_its_first_sight_though_its_numbers_change() {
    let (begin, mut seen) = (Instant::now(), FirstSeen::default());
    let said = |text: &str| Problem::Said { replica: 1, text: text.to_owned() };
    let away = Problem::Away { replica: 2, text: "at h:1: refused; start it".into() };
    let at = |seconds| begin + Duration::from_secs(seconds);
    seen.note(vec![said("lacks 10 bytes")], at(0));
    let known = seen.note(vec![said("lacks 2500 bytes"), away.clone()], at(5));
    let shown: Vec<_> = known.iter().map(|known| (known.problem.clone(), known.seconds)).collect();
    assert_eq!(shown, [(away.clone(), 0), (said("lacks 2500 bytes"), 5)]);
    // One that was gone begins again.
    seen.note(vec![away.clone()], at(6));
    let known = seen.note(vec![said("lacks 1 bytes"), away], at(9));
    assert_eq!(known.iter().map(|known| known.seconds).collect::<Vec<_>>(), [0, 4]);
}

#[test]
fn a_replica_that_says_too_much_hides_nobody_elses_problems() {
    let mut all: Vec<Problem> =
        (0..9999).map(|n| Problem::Said { replica: 1, text: "x".repeat(n % 700) }).collect();
    all.push(Problem::Said { replica: 2, text: "its disk is full".into() });
    all.push(Problem::Away { replica: 3, text: "at h:1: refused".into() });
    let known = FirstSeen::default().note(all.clone(), Instant::now());
    assert_eq!(known.len(), 52);
    assert!(all[9999..].iter().all(|problem| known.iter().any(|known| known.problem == *problem)));
}
