use super::EventLog;
use crate::logged::logged;
use crate::throttle::Throttle;
use quorate_node::Event;
use quorate_types::{ReplicaId, Span, Time};

const ONE: ReplicaId = ReplicaId::new(1);
const TWO: ReplicaId = ReplicaId::new(2);

/// The texts that are written for these events, each at a second.
fn texts(events: &[(u64, Event)], end: u64) -> Vec<String> {
    let at = |second| Time::from_nanos(1).plus(Span::from_secs(second));
    let lines = logged(|| {
        let (mut log, mut refusals) = (EventLog::default(), Throttle::default());
        for (second, event) in events {
            log.write(event, &mut refusals, at(*second));
        }
        log.sum_up(at(end));
        assert!(log.due().is_none_or(|due| due > at(end)), "what is due was said");
    });
    lines.iter().map(|line| line["message"].as_str().expect("a text").to_owned()).collect()
}

#[test]
fn a_connection_that_comes_and_goes_gets_a_few_lines_and_a_sum() {
    let turns = |turn: u64| {
        (turn / 10, if turn.is_multiple_of(2) { Event::PeerUp(ONE) } else { Event::PeerDown(ONE) })
    };
    let mut events: Vec<(u64, Event)> = (0..101).map(turns).collect();
    events.push((11, Event::PeerDown(TWO)));
    let texts = texts(&events, 61);
    assert_eq!(texts[0], "r1 is connected");
    assert_eq!(texts[5], "r1 is not connected any more");
    assert_eq!(texts[6], "r1 comes and goes again and again; its turns are only counted from here on");
    assert_eq!(texts[7], "r2 is not connected any more");
    assert_eq!(texts[8], "r1 came and went 48 more times; it is connected now");
    assert_eq!(texts.len(), 9);
}

#[test]
fn whoever_comes_and_goes_seldom_has_a_line_for_each_turn() {
    let events: Vec<(u64, Event)> = (0..10).map(|turn| (turn * 30, Event::PeerUp(ONE))).collect();
    assert_eq!(texts(&events, 1000), vec!["r1 is connected"; 10]);
}
