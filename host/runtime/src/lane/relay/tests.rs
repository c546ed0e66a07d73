use super::super::neighbor::{Joints, Neighbor, join};
use super::super::side::{ANY_BYTES, CLIENT_BYTES, Down, SideLane, Up};
use super::super::sockets::Sockets;
use super::super::{LaneLimits, Sleeper, WAKER};
use crate::clock::MonotonicClock;
use bytes::Bytes;
use mio::{Events, Poll, Waker};
use quorate_node::Input;
use quorate_types::{ConnId, Span};
use quorate_wire::{Frame, FrameKind, OutFrame};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The ends of a staged replica with two lanes for connections, and its lane with the pillars, of which there are none yet.
struct Staged {
    lane: SideLane,
    main: Neighbor,
    readers: Vec<Joints>,
    events: Events,
}

impl Staged {
    fn new() -> Self {
        let poll = || Poll::new().expect("an event queue");
        let sleeper = || {
            let poll = poll();
            Sleeper::new(Arc::new(Waker::new(poll.registry(), WAKER).expect("a waker")))
        };
        let mut ends = join(&sleeper(), &[sleeper(), sleeper(), sleeper()], true).into_iter();
        let (main, joints) = ends.next().expect("the lane with the pillars");
        let limits = LaneLimits { unsent_bytes: 1, buffer_bytes: 1, slow_reader: Span::from_secs(1) };
        let sockets = Sockets::new(poll(), Arc::new(MonotonicClock::new()), limits, false);
        let readers = ends.map(|(_, joints)| joints).collect();
        Self { lane: SideLane::new(sockets, joints), main, readers, events: Events::with_capacity(1) }
    }

    fn read(&mut self, at: usize, words: impl IntoIterator<Item = Up>) {
        let reader = &mut self.readers[at];
        for word in words {
            let bytes =
                if let Up::Input(Input::Frame { frame, .. }) = &word { frame.payload.len() } else { 1 };
            reader.up.put(word, bytes);
        }
        reader.up.flush();
    }

    fn turn(&mut self) {
        self.lane.turn(&self.events);
    }
}

fn frame(conn: u64, bytes: usize) -> Up {
    let frame = Frame { kind: FrameKind::Requests, payload: Bytes::from(vec![0; bytes]) };
    Up::Input(Input::Frame { conn: ConnId::new(conn), frame })
}

/// The main lane hears in order what no pillar takes. What a connection's lane says of it must not overtake what was read of it.
#[test]
fn the_rest_goes_to_the_main_lane_in_order() {
    let mut staged = Staged::new();
    let back = Up::Send(ConnId::new(9), OutFrame::new(FrameKind::Replies, &[], vec![]));
    staged.read(1, [frame(9, 1), back, frame(9, 2), Up::Input(Input::Closed(ConnId::new(9)))]);
    staged.turn();
    let heard = staged.main.take().expect("a piece");
    let shown = heard.iter().map(|word| match word {
        Up::Input(Input::Frame { frame, .. }) => frame.payload.len(),
        Up::Input(Input::Closed(_)) => 10,
        Up::Send(..) => 20,
        _ => 30,
    });
    assert_eq!(shown.collect::<Vec<_>>(), [1, 2, 10, 20]);
}

/// What waits for the main lane counts at the lanes that read, until the main lane has worked it off: it wakes this lane, which tells them.
#[test]
fn what_waits_for_the_main_lane_counts_where_it_is_read() {
    let mut staged = Staged::new();
    staged.read(0, [frame(8, CLIENT_BYTES)]);
    staged.turn();
    let waits = |staged: &Staged| staged.lane.away.shared.waits.load(Ordering::SeqCst);
    for reader in &staged.readers {
        assert_eq!(reader.up.bytes(), 0);
        assert!(reader.shared.ahead.load(Ordering::SeqCst) >= CLIENT_BYTES);
        reader.shared.waits.store(true, Ordering::SeqCst);
    }
    assert!(!waits(&staged));
    assert!(!staged.lane.readers_may_go_on() && waits(&staged), "the main lane will wake it");
    assert!(staged.main.take().is_some());
    assert!(!staged.lane.readers_may_go_on(), "it is not worked off");
    staged.main.worked_off();
    assert!(staged.lane.readers_may_go_on(), "a turn, to tell them");
    staged.turn();
    for reader in &staged.readers {
        assert_eq!(reader.shared.ahead.load(Ordering::SeqCst), 0);
        assert!(!reader.shared.waits.load(Ordering::SeqCst), "it goes on");
    }
    assert!(!staged.lane.readers_may_go_on());
}

/// Beyond its limit the lane takes nothing more: then the lanes that read stop.
#[test]
fn beyond_the_limit_nothing_is_taken() {
    let mut staged = Staged::new();
    staged.read(0, [frame(8, ANY_BYTES)]);
    staged.turn();
    staged.read(0, [frame(8, 1000)]);
    assert!(!staged.lane.readers_have_something());
    staged.turn();
    assert_eq!(staged.readers[0].up.bytes(), 1000, "it waits where it was");
    assert!(staged.main.take().is_some() && staged.main.take().is_none());
    staged.main.worked_off();
    assert!(staged.lane.readers_have_something());
    staged.turn();
    assert_eq!(staged.readers[0].up.bytes(), 0);
    assert!(staged.main.take().is_some());
}

/// Each frame of a pillar goes to the lane that has its connection.
#[test]
fn what_pillars_send_goes_to_the_lanes_with_the_connections() {
    let mut staged = Staged::new();
    for conn in [4, 5, 7] {
        staged.lane.send_away(ConnId::new(conn), OutFrame::new(FrameKind::Order, &[], vec![]));
    }
    staged.turn();
    let sent = |reader: &Joints| {
        let (words, _) = reader.words[1].take().expect("a piece");
        let conn = |word| if let Down::Pass(conn, _) = word { conn.number() } else { 0 };
        words.into_iter().map(conn).collect::<Vec<_>>()
    };
    assert_eq!(staged.readers.iter().map(sent).collect::<Vec<_>>(), [vec![4], vec![5, 7]]);
    assert!(staged.main.take().is_none());
}
