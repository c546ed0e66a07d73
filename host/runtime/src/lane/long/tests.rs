use super::{Long, Watcher};
use quorate_execute::UnderWay;
use quorate_types::{ClientId, RequestNumber, Seq};
use std::time::{Duration, Instant};

fn request(number: u64) -> Option<UnderWay> {
    let request = Some((ClientId::new(12), Some(RequestNumber::new(number))));
    Some(UnderWay { seq: Seq::new(99), request, bytes: 300 })
}

#[test]
fn what_takes_long_is_told_at_once_and_ever_more_seldom() {
    let long = Long::default();
    let (mut watcher, begin) = (Watcher::new(long.clone()), Instant::now());
    let mut told = Vec::new();
    long.watched.note(request(7));
    for millis in (0..10_000).step_by(50) {
        let text = watcher.look(begin + Duration::from_millis(millis));
        told.extend(text.map(|text| (millis, text)));
    }
    let times: Vec<u64> = told.iter().map(|(millis, _)| *millis).collect();
    assert_eq!(times, [1000, 2000, 4000, 8000]);
    let says = "executes one request for 4 s: request 7 of client 12, which has 300 bytes, at seq 99";
    assert!(told[2].1.contains(says), "{told:?}");
    assert_eq!(long.lasts(), Duration::from_millis(9950));
    assert!(long.words().is_some_and(|words| words.starts_with("executes one request for 9 s: request 7")));

    long.watched.note(None);
    let over = watcher.look(begin + Duration::from_secs(10)).expect("it is over");
    assert!(over.contains("request 7 of client 12") && over.ends_with("took 9.9 s"), "{over}");
    assert_eq!((long.lasts(), long.words()), (Duration::ZERO, None));
    assert_eq!(watcher.look(begin + Duration::from_secs(11)), None);
}

#[test]
fn many_short_ones_are_not_a_long_one() {
    let long = Long::default();
    let (mut watcher, begin) = (Watcher::new(long.clone()), Instant::now());
    for number in 1..100 {
        long.watched.note(request(number));
        assert_eq!(watcher.look(begin + Duration::from_millis(100 * number)), None);
        assert_eq!(long.words(), None);
    }
    // It is told with its own time, from when it was seen first.
    long.watched.note(request(100));
    let looks = (100..130).map(|tenth| watcher.look(begin + Duration::from_millis(100 * tenth)));
    let told: Vec<String> = looks.flatten().collect();
    assert!(told.len() == 2 && told[0].contains("for 1 s: request 100 "), "{told:?}");
}
