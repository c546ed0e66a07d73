use super::super::side::{Down, Up};
use super::super::{Sleeper, WAKER};
use super::{DOWN_BYTES, join};
use mio::{Events, Poll, Waker};
use quorate_node::Input;
use quorate_types::ConnId;
use quorate_wire::{FrameKind, OutFrame};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

fn sleeper() -> (Poll, Sleeper) {
    let poll = Poll::new().expect("an event queue");
    let waker = Arc::new(Waker::new(poll.registry(), WAKER).expect("a waker"));
    (poll, Sleeper::new(waker))
}

fn was_woken(poll: &mut Poll) -> bool {
    let mut events = Events::with_capacity(4);
    poll.poll(&mut events, Some(Duration::ZERO)).expect("a look at the events");
    !events.is_empty()
}

fn frame(bytes: usize) -> OutFrame {
    OutFrame::new(FrameKind::Replies, &vec![0; bytes], vec![])
}

/// Reading goes to the lane with the pillars; the main lane hears of it only what that lane passes on, and tells each lane directly.
#[test]
fn the_lane_with_pillars_takes_what_the_lanes_with_connections_read() {
    let [(_, main), (_, pillars), (_, first), (_, second)] = [0; 4].map(|_| sleeper());
    for (staged, readers) in [(false, 0), (true, 2)] {
        let mut all = join(&main, &[pillars.clone(), first.clone(), second.clone()], staged);
        assert_eq!(all[0].1.readers.len(), readers);
        let told = all.iter().map(|(_, lane)| (lane.relayed, lane.words.len(), lane.above.len()));
        let of_others = if staged { (true, 2, 2) } else { (false, 1, 1) };
        assert_eq!(told.collect::<Vec<_>>(), [(false, 1, 1), of_others, of_others]);
        all[2].1.up.put(Up::Input(Input::Closed(ConnId::new(9))), 1);
        all[2].1.up.flush();
        assert_eq!(
            all[2].0.pieces(),
            usize::from(!staged),
            "the main lane hears it at once, or not from here"
        );
        if staged {
            let pieces = all[0].1.readers.iter().map(super::Neighbor::pieces);
            assert_eq!(pieces.collect::<Vec<_>>(), [0, 1]);
            let taken = all[0].1.readers[1].take().expect("a piece");
            assert!(matches!(taken[..], [Up::Input(Input::Closed(_))]));
        }
        all[1].0.put(Down::Close(ConnId::new(9)));
        all[1].0.flush();
        let waits = all[1].1.words.iter().map(|words| !words.is_empty());
        assert!(waits.eq([true, false].into_iter().take(all[1].1.words.len())), "from the main lane");
    }
}

/// What was taken counts until it is worked off: in between it counts twice rather than not at all.
#[test]
fn bytes_count_until_they_are_worked_off() {
    let [(_, main), (_, pillars), (mut poll, reader)] = [0; 3].map(|_| sleeper());
    let mut all = join(&main, &[pillars, reader.clone()], true);
    let (_, mut lane) = all.pop().expect("two");
    let neighbor = &mut all[0].1.readers[0];
    lane.up.put(Up::Turned, 100);
    lane.up.flush();
    assert!(neighbor.take().is_some() && neighbor.take().is_none());
    assert_eq!((lane.up.bytes(), neighbor.waiting_bytes()), (100, 100));
    lane.shared.waits.store(true, Ordering::SeqCst);
    reader.dozes();
    neighbor.shared.ahead.store(70, Ordering::SeqCst);
    neighbor.worked_off();
    neighbor.goes_on();
    assert_eq!((lane.up.bytes(), neighbor.waiting_bytes()), (0, 70), "there it waits for the main lane");
    assert!(was_woken(&mut poll), "it waited for room");
    reader.dozes();
    neighbor.goes_on();
    assert!(!was_woken(&mut poll), "it does not wait");
}

/// While too much waits for a lane, nothing is taken that leads to more; the lane sees that somebody waits for it.
#[test]
fn a_lane_that_has_too_much_to_send_holds_up_the_others() {
    let [(_, main), (_, pillars), (_, reader)] = [0; 3].map(|_| sleeper());
    let mut all = join(&main, &[pillars, reader], true);
    let (_, lane) = all.pop().expect("two");
    let neighbor = &mut all[0].1.readers[0];
    neighbor.put(Down::Pass(ConnId::new(9), frame(1000)));
    assert!(neighbor.has_room() && !lane.shared.held.load(Ordering::SeqCst));
    neighbor.put(Down::Pass(ConnId::new(9), frame(DOWN_BYTES)));
    neighbor.flush();
    assert!(!neighbor.has_room());
    assert!(lane.shared.held.load(Ordering::SeqCst), "the lane will say when there is room");
    let (words, bytes) = lane.words[1].take().expect("a piece");
    lane.words[1].done(bytes);
    assert_eq!(words.len(), 2);
    assert!(neighbor.has_room());
}
