//! A leader whose pillar has a lane of its own: it takes requests there, and the main lane knows where replies go.

use super::{CLUSTER, Nothing, joins, life_of, r};
use crate::config::NodeConfig;
use crate::effects::{Effect, Effects, Input};
use crate::lanes::Placement;
use crate::node::Node;
use crate::recovered::Recovered;
use crate::restoring::Restoring;
use quorate_admit::{KnownMember, Members};
use quorate_log::{Log, LogEffect};
use quorate_order::{OrderConfig, Protocol};
use quorate_types::{ClientId, ConnId, InstanceId, ItemsBuilder, RequestNumber, SessionId, Time};
use quorate_wire::{
    FRAME_HEADER, Frame, FrameKind, Hello, OutFrame, RequestHeader, RequestKind, RequestProof, Role,
    write_opening, write_request,
};

const CONN: ConnId = ConnId::new(9);

/// The only replica of its cluster, and the replies that it sent.
struct Alone {
    node: Node,
    now: Time,
    replies: usize,
}

impl Alone {
    fn start() -> Self {
        let known = KnownMember { replica: r(1), address: "r1".into(), incarnation: life_of(r(1)) };
        let config = NodeConfig {
            members: Members::new(CLUSTER, r(1), vec![known]),
            incarnation: life_of(r(1)),
            order: OrderConfig::new(Protocol::RAFT, r(1), vec![r(1)], 6),
            placement: Placement { gate: false, groups: true },
            ..joins()
        };
        let restoring = Restoring::new(config.clone(), Recovered::default()).expect("nothing was there");
        let log = Log::create(config.log_id, config.log);
        let node = restoring.finish(log, Box::new(Nothing)).expect("it fits together");
        let mut alone = Self { node, now: Time::ZERO, replies: 0 };
        let mut out = Effects::new();
        alone.node.start(alone.now, &mut out);
        alone.perform(&mut out);
        while !alone.node.groups.first().standing().settled {
            alone.now = alone.node.deadline().expect("it waits to lead");
            alone.step(Input::Deadline);
        }
        alone
    }

    fn step(&mut self, input: Input) {
        let mut out = Effects::new();
        self.node.step(self.now, input, &mut out);
        self.node.step(self.now, Input::TurnEnd, &mut out);
        self.perform(&mut out);
    }

    fn perform(&mut self, out: &mut Effects) {
        let mut next = Vec::new();
        for effect in out.drain() {
            match effect {
                Effect::Send { frame, .. } => self.replies += usize::from(frame.kind() == FrameKind::Replies),
                Effect::Run(part) => next.push(Input::Run(part)),
                Effect::Disk(LogEffect::Write(write)) => next.push(Input::Written(write.id)),
                Effect::Disk(LogEffect::Prepare { segment }) => {
                    next.push(Input::Prepared { segment, result: Ok(()) });
                }
                _ => {}
            }
        }
        next.into_iter().for_each(|input| self.step(input));
    }

    /// The client sends this. How many frames of replies follow.
    fn replies_to(&mut self, frame: &OutFrame) -> usize {
        let before = self.replies;
        let payload = frame.to_vec().split_off(FRAME_HEADER).into();
        self.step(Input::Frame { conn: CONN, frame: Frame { kind: frame.kind(), payload } });
        self.replies - before
    }
}

fn opening() -> OutFrame {
    let (client, number) = (ClientId::new(1), RequestNumber::new(5));
    let body = write_opening(client, None);
    let (session, kind, proof) = (SessionId::NONE, RequestKind::OpenSession, RequestProof::None);
    let mut bytes = Vec::new();
    RequestHeader { session, number, lowest_unanswered: number, kind, len: body.len() as u32, proof }
        .write_to(&mut bytes);
    bytes.extend(body);
    OutFrame::new(FrameKind::Requests, &bytes, vec![])
}

fn request(number: u64) -> OutFrame {
    let (mut bytes, mut commands) = (Vec::new(), ItemsBuilder::new());
    commands.push(b"command");
    let session = SessionId { index: 0, generation: 1 };
    write_request(&mut bytes, session, RequestNumber::new(number), RequestNumber::FIRST, &commands);
    OutFrame::new(FrameKind::Requests, &bytes, vec![])
}

/// Behind a generation border, and where another replica leads, replies go to a connection only when its client has asked again over the main
/// lane. A lane that went on taking its requests would answer nobody.
#[test]
fn a_connection_that_is_unbound_is_answered_again() {
    let mut alone = Alone::start();
    alone.step(Input::Accepted { conn: CONN, from: None });
    alone.replies_to(&Hello::new(CLUSTER, None, Role::Client(ClientId::new(1))).frame());
    assert_eq!(alone.replies_to(&opening()), 1, "the session is open");
    let knows = |alone: &Alone| {
        let payload = request(9).to_vec().split_off(FRAME_HEADER).into();
        alone.node.groups.first().knows_on_lane(CONN, &Frame { kind: FrameKind::Requests, payload })
    };
    assert_eq!((alone.replies_to(&request(1)), knows(&alone)), (1, true));
    assert_eq!(alone.replies_to(&request(2)), 1, "the lane took it");
    alone.node.unbind(CONN, Some(InstanceId::new(1)));
    alone.step(Input::TurnEnd);
    assert!(!knows(&alone), "its lane has heard");
    assert_eq!(alone.replies_to(&request(3)), 1, "it went over the main lane");
    assert!(knows(&alone));
}
