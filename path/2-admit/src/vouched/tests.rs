//! The parts that stand by themselves; whole nodes are in check/sim.

use super::*;
use crate::facts::Place;
use bytes::Bytes;
use quorate_auth::ClientKey;
use quorate_types::{AgreedTime, ConnId, FaultModel, ItemsBuilder, SessionKey, Slot, View, Visigoth, Waited};
use quorate_wire::{
    AnswerMode, Batch, BatchHeader, RequestProof, RequestSigner, Ruling, SystemCommand, write_opening,
    write_request,
};

pub(super) const LIMITS: HeardLimits = HeardLimits { bytes_max: 4096, client_bytes_max: 1024, window: 16 };

/// The intake of the first of four members, one of which may lie.
pub(super) fn vouched(cluster: ClusterId, heard: HeardLimits, checks: RequestChecks) -> Vouched {
    Vouched::new(config(cluster, heard, checks))
}

/// Its configuration.
pub(super) fn config(cluster: ClusterId, heard: HeardLimits, checks: RequestChecks) -> VouchedConfig {
    VouchedConfig {
        cluster,
        me: ReplicaId::new(1),
        members: (1..=4).map(ReplicaId::new).collect(),
        faults: FaultModel::Byzantine.into(),
        instances: 1,
        heard,
        checks,
        checks_away: ChecksAway::NONE,
        signed_only: false,
        request_bytes_max: 1 << 20,
        batch_bytes: 1 << 16,
        rotates: false,
    }
}

/// Sessions that live, with what signs their requests; nothing was executed in any of them.
#[derive(Debug, Default)]
pub(super) struct Open(pub(super) BTreeMap<SessionId, (ClientId, Option<SessionKey>)>);

impl Sessions for Open {
    fn lookup(&self, session: SessionId, _number: RequestNumber) -> Lookup<'_> {
        if self.0.contains_key(&session) { Lookup::Fresh } else { Lookup::UnknownSession }
    }
    fn client(&self, session: SessionId) -> Option<ClientId> {
        self.0.get(&session).map(|(client, _)| *client)
    }
    fn key(&self, session: SessionId) -> Option<SessionKey> {
        self.0.get(&session).and_then(|(_, key)| *key)
    }
    fn last_number(&self, session: SessionId) -> Option<RequestNumber> {
        self.0.get(&session).map(|_| RequestNumber::ZERO)
    }
    fn opened(&self, _client: ClientId, _nonce: RequestNumber) -> Option<SessionId> {
        None
    }
    fn openings(&self) -> Box<dyn Iterator<Item = ((ClientId, RequestNumber), SessionId)> + '_> {
        Box::new(std::iter::empty())
    }
    fn own_reply(&self, _body: &[u8]) -> Option<Vec<u8>> {
        None
    }
}

/// A replica that leads its one instance, or does not.
#[derive(Debug, Default)]
pub(super) struct Replica {
    pub(super) sessions: Open,
    pub(super) leads: bool,
    pub(super) view: View,
    pub(super) time: AgreedTime,
    /// Batches that are decided and not merged.
    pub(super) unmerged: Vec<Batch>,
    /// The place that the merge waits for.
    pub(super) waits: Option<(Place, Time)>,
    /// Batches whose results wait, and the ruling that is right.
    pub(super) unruled: Vec<Batch>,
    pub(super) right: Option<Ruling>,
    /// The command to the engine that may be ordered.
    pub(super) command: Option<SystemCommand>,
}

impl Facts for Replica {
    fn sessions(&self) -> &dyn Sessions {
        &self.sessions
    }
    fn instances(&self) -> u16 {
        1
    }
    fn leads(&self, _instance: InstanceId) -> bool {
        self.leads
    }
    fn announced(&self, _instance: InstanceId) -> bool {
        self.leads
    }
    fn view(&self, _instance: InstanceId) -> View {
        self.view
    }
    fn decided(&self, _instance: InstanceId) -> Slot {
        Slot::ZERO
    }
    fn agreed_time(&self) -> AgreedTime {
        self.time
    }
    fn executed_time(&self) -> AgreedTime {
        self.time
    }
    fn needs_no_op(&self, _instance: InstanceId, _target: Slot) -> bool {
        false
    }
    fn waits_for(&self) -> Option<(Place, Time)> {
        self.waits
    }
    fn unmerged(&self, _instance: InstanceId, each: &mut dyn FnMut(&Batch)) {
        self.unmerged.iter().for_each(each);
    }
    fn unruled(&self, each: &mut dyn FnMut(&Batch)) {
        self.unruled.iter().for_each(each);
    }
    fn may_rule(&self, instance: InstanceId, ruling: &Ruling) -> bool {
        instance == InstanceId::new(1) && self.right == Some(*ruling)
    }
    fn may_command(&self, instance: InstanceId, command: &SystemCommand) -> bool {
        instance == ONE && self.command.as_ref() == Some(command)
    }
    fn signatures_count(&self) -> bool {
        true
    }
}

pub(super) const ONE: InstanceId = InstanceId::new(1);
const ALICE: ClientId = ClientId::new(9);
const SESSION: SessionId = SessionId { index: 2, generation: 1 };

fn replica(leads: bool) -> Replica {
    let sessions = Open(BTreeMap::from([(SESSION, (ALICE, None))]));
    Replica { sessions, leads, view: View::FIRST, ..Replica::default() }
}

fn usual() -> Vouched {
    vouched(ClusterId::new(1), LIMITS, RequestChecks::Nothing)
}

fn pays(number: u64, text: &str) -> Bytes {
    let (mut bytes, mut commands) = (Vec::new(), ItemsBuilder::new());
    commands.push(text.as_bytes());
    write_request(&mut bytes, SESSION, RequestNumber::new(number), RequestNumber::FIRST, &commands);
    bytes.into()
}

fn batch(requests: &[Bytes]) -> Batch {
    let mut bytes = Vec::new();
    Batch::begin(&mut bytes);
    requests.iter().for_each(|request| bytes.extend_from_slice(request));
    let count = requests.len() as u32;
    Batch::seal(
        bytes,
        BatchHeader { time: AgreedTime::ZERO, seed: 0, count, border: false, base: None, ruling: None },
    )
}

fn arrive(intake: &mut Vouched, now: Time, replica: &Replica, requests: &Bytes) -> Vec<Out> {
    let mut out = Vec::new();
    let from = Sender { conn: ConnId::FIRST, client: ALICE, mode: AnswerMode::Full, permits: &|_, _| true };
    intake.arrived(now, replica, &from, requests, &mut out);
    out
}

/// The intake alone, from a request to the word for the proposal that holds it.
#[test]
fn what_a_client_asked_here_is_vouched_for_and_nothing_else_is() {
    let (mut intake, here) = (usual(), replica(false));
    let (request, digest) = (pays(1, "pay bob 5"), Digest::new([7; 32]));
    let examine = |intake: &mut Vouched, request: &Bytes| {
        let mut out = Vec::new();
        intake.examine(
            at(1),
            &here,
            (ONE, Slot::FIRST, digest),
            batch(std::slice::from_ref(request)),
            &mut out,
        );
        out
    };
    assert_eq!(examine(&mut intake, &request), [], "nobody asked for that here");
    assert_eq!(intake.held_back(), 1);
    assert_eq!(arrive(&mut intake, at(2), &here, &request), [], "it does not lead");
    let mut out = Vec::new();
    intake.vouch(at(2), &here, &mut out);
    let waited = Some(Waited { since: at(2), full: false });
    assert_eq!(out, [Out::Vouched { instance: ONE, slot: Slot::FIRST, digest, waited }]);
    assert_eq!(examine(&mut intake, &pays(1, "pay eve 5")), [], "altered");
    intake.invariants();
}

/// A leader is given what arrives at once; what waits for long is watched, said to all when that does not help, and forgotten once executed.
#[test]
fn what_waits_is_given_watched_and_said() {
    let (mut intake, leader) = (usual(), replica(true));
    let request = pays(1, "pay bob 5");
    let admit = Out::Admit { instance: ONE, requests: request.clone() };
    assert_eq!(arrive(&mut intake, at(1), &leader, &request), std::slice::from_ref(&admit));
    let follower = replica(false);
    let mut out = Vec::new();
    assert!(intake.deadline().is_some_and(|look| look > at(1)) && intake.look(at(2), &follower, &mut out));
    let name = quorate_auth::digest_of_request(&request);
    assert_eq!(out, [Out::Watch { instance: ONE, name }]);
    let mut out = Vec::new();
    intake.overdue(name, &mut out);
    let number = RequestNumber::FIRST;
    assert_eq!(out, [Out::Overdue { session: SESSION, number }, Out::Say(request.clone())]);
    let mut out = Vec::new();
    assert!(intake.look(at(3), &leader, &mut out));
    assert_eq!(out, [admit], "once more, when it leads");
    intake.executed(None, SESSION, number, ReplyStatus::Done);
    let mut out = Vec::new();
    assert!(intake.look(at(4), &follower, &mut out));
    assert_eq!(out, [Out::Unwatch { instance: ONE, name }]);
    assert_eq!((intake.byte_len(), intake.deadline()), (0, None));
}

/// A leader that fills nothing is watched also if no client asked for anything: a border that an operator wants waits for it.
#[test]
fn a_place_that_the_merge_waits_for_is_watched_without_any_request() {
    let (mut intake, mut out) = (usual(), Vec::new());
    let rests = replica(false);
    intake.turn_end(at(1), &rests, &mut out);
    assert_eq!((intake.deadline(), out.len()), (None, 0));

    let place = Place { slot: Slot::new(74), instance: ONE };
    let waits = Replica { waits: Some((place, at(1))), ..replica(false) };
    intake.turn_end(at(1), &waits, &mut out);
    let look = intake.deadline().expect("it has to look");
    assert!(intake.look(look.max(at(2)), &waits, &mut out));
    assert!(matches!(out[..], [Out::Watch { instance: ONE, .. }]), "{out:?}");
    out.clear();
    assert!(intake.deadline().is_some() && intake.look(at(4), &rests, &mut out));
    assert!(matches!(out[..], [Out::Unwatch { instance: ONE, .. }]), "{out:?}");
    intake.turn_end(at(4), &rests, &mut out);
    assert_eq!(intake.deadline(), None);
}

/// What is decided, and not merged or not ruled on yet, is nothing that a new leader has to propose.
#[test]
fn what_is_decided_is_not_given_to_the_next_leader() {
    let mut intake = usual();
    let requests: Vec<Bytes> = (1..=3).map(|number| pays(number, "pay bob 5")).collect();
    let follower = replica(false);
    requests.iter().for_each(|request| drop(arrive(&mut intake, at(1), &follower, request)));
    let leader = Replica {
        unmerged: vec![batch(&requests[..1])],
        unruled: vec![batch(&requests[1..2])],
        ..replica(true)
    };
    let third = Out::Admit { instance: ONE, requests: requests[2].clone() };
    let mut out = Vec::new();
    intake.led(at(1), &leader, ONE, Some(ReplicaId::new(1)), true);
    intake.turn_end(at(1), &leader, &mut out);
    let given: Vec<&Out> = out.iter().filter(|out| matches!(out, Out::Admit { .. })).collect();
    assert_eq!(given, [&third]);
    out.clear();
    assert!(intake.look(at(2), &leader, &mut out));
    let given: Vec<&Out> = out.iter().filter(|out| matches!(out, Out::Admit { .. })).collect();
    assert_eq!(given, [&third], "late as they are");
}

/// Where few are slow, two of five members have stopped, one after the other as leaders. The three that are left are enough for the next
/// leader, which takes care: for requests, and for openings with a key.
#[test]
fn who_is_left_is_enough_for_a_careful_leader() {
    let members: Vec<_> = (1..=5).map(ReplicaId::new).collect();
    let faults = FaultModel::Visigoth(Visigoth { u: 2, s: 1, o: 1, t_ms: 50 }).into();
    let usual = config(ClusterId::new(1), LIMITS, RequestChecks::Ed25519);
    let mut intake = Vouched::new(VouchedConfig { members, faults, ..usual });
    let leader = Replica { view: View::new(3), ..replica(true) };
    intake.led(at(1), &leader, ONE, Some(ReplicaId::new(1)), false);
    let request = pays(1, "pay bob 5");
    assert_eq!(arrive(&mut intake, at(1), &leader, &request), [], "only this replica heard it");
    let key = ClientKey::new(ClusterId::new(1), [1; 32]);
    let (body, number) = (write_opening(ALICE, Some(key.key())), RequestNumber::new(8));
    let (kind, len, proof) = (RequestKind::OpenSession, body.len() as u32, RequestProof::Signature);
    let session = SessionId::NONE;
    let header = RequestHeader { session, number, lowest_unanswered: number, kind, len, proof };
    let opening = [&header.bytes()[..], &body, &key.sign(&header.bytes(), &body)].concat().into();
    assert_eq!(arrive(&mut intake, at(1), &leader, &opening), [], "the same");
    for bytes in [request, opening] {
        let mut says = |member: u16| {
            let mut out = Vec::new();
            intake.from_member(at(1), &leader, ReplicaId::new(member), &bytes, &mut out);
            out
        };
        assert_eq!(says(2), []);
        assert_eq!(says(3), [Out::Admit { instance: ONE, requests: bytes.clone() }]);
    }
}

/// A replica that took a checkpoint of another one executed nothing of what waits here, and yet some of it is done.
#[test]
fn what_was_done_before_a_jump_keeps_no_room() {
    let (mut intake, here) = (usual(), replica(false));
    arrive(&mut intake, at(1), &here, &pays(1, "pay bob 5"));
    intake.caught_up(&here.sessions);
    assert!(intake.byte_len() > 0, "it was not executed");
    // The session has ended since.
    intake.caught_up(&Open::default());
    assert_eq!((intake.byte_len(), intake.heard.all().count()), (0, 0));
    intake.invariants();
}

fn at(seconds: u64) -> Time {
    Time::ZERO.plus(Span::from_secs(seconds))
}

#[test]
fn a_leader_may_not_let_time_run_away() {
    let mut intake = usual();
    let step = Span::from_secs(6);
    assert!(intake.may_be_ahead(at(100), step), "clocks differ");
    intake.pulled(at(100), step);
    assert!(!intake.may_be_ahead(at(100), step), "twelve seconds in no time");
    assert!(intake.may_be_ahead(at(100), Span::from_secs(4)));
    assert!(intake.may_be_ahead(at(100), Span::ZERO), "what is not ahead is always welcome");
    assert!(intake.may_be_ahead(at(103), step), "in the long run twice as fast as real time");
    // Who catches up sees years in a moment, and is not deaf for years after that.
    intake.pulled(at(103), Span::from_secs(1 << 30));
    assert!(!intake.may_be_ahead(at(104), step));
    assert!(intake.may_be_ahead(at(109), step));
}

#[test]
fn the_instance_of_a_request_is_nobodys_choice() {
    let header = |kind, index, number| RequestHeader {
        session: SessionId { index, generation: 9 },
        number: RequestNumber::new(number),
        lowest_unanswered: RequestNumber::FIRST,
        kind,
        len: 0,
        proof: RequestProof::None,
    };
    for number in 1..20 {
        assert_eq!(instance_of(&header(RequestKind::Commands, 6, number), 4).number(), 3);
        assert_eq!(
            instance_of(&header(RequestKind::OpenSession, 0, number), 4).number(),
            1 + number as u16 % 4
        );
        assert_eq!(instance_of(&header(RequestKind::CloseSession, 6, number), 1).number(), 1);
    }
}

/// A replica without room for a request still vouches for a proposal that waits for it, and for no other.
#[test]
fn what_there_is_no_room_for_is_seen_by_the_proposal_that_waits() {
    let request = |number: u64, text: &str| {
        let mut commands = ItemsBuilder::new();
        commands.push(text.as_bytes());
        let (mut bytes, session) = (Vec::new(), SessionId { index: 2, generation: 1 });
        write_request(&mut bytes, session, RequestNumber::new(number), RequestNumber::FIRST, &commands);
        bytes
    };
    let mut bytes = Vec::new();
    Batch::begin(&mut bytes);
    [request(4, "pay bob 5"), request(5, "pay eve 6")]
        .iter()
        .for_each(|request| bytes.extend_from_slice(request));
    let batch = Batch::seal(
        bytes,
        BatchHeader { time: AgreedTime::ZERO, seed: 0, count: 2, border: false, base: None, ruling: None },
    );
    let digest = Digest::new([0; 32]);
    let mut held = HeldProposal::new(Slot::FIRST, digest, batch);
    let mut see = |bytes: &[u8]| {
        let (header, ..) = Requests::new(bytes).flatten().next().unwrap();
        held.see(&header, bytes);
        held.seen.iter().copied().collect::<Vec<_>>()
    };
    assert_eq!(see(&request(5, "pay eve 7")), [], "altered");
    assert_eq!(see(&request(6, "pay eve 6")), [], "not proposed");
    assert_eq!(see(&request(5, "pay eve 6")), [1]);
    assert_eq!(see(&request(4, "pay bob 5")), [0, 1]);
}

/// A planted bug vouches for any ruling.
#[test]
fn a_ruling_needs_the_word_of_this_replica() {
    let (mut intake, mut here) = (usual(), replica(false));
    let ruling = Ruling::Redo { attempt: 3 };
    let header = BatchHeader { ruling: Some(ruling), ..BatchHeader::default() };
    let mut bytes = Vec::new();
    Batch::begin(&mut bytes);
    let (batch, digest) = (Batch::seal(bytes, header), Digest::new([7; 32]));
    let mut out = Vec::new();
    intake.examine(at(1), &here, (ONE, Slot::FIRST, digest), batch, &mut out);
    assert_eq!(out, [], "nothing is known of results");
    here.right = Some(Ruling::Redo { attempt: 2 });
    intake.vouch(at(2), &here, &mut out);
    assert_eq!(out, [], "another one is right");
    here.right = Some(ruling);
    intake.vouch(at(3), &here, &mut out);
    assert_eq!(out, [Out::Vouched { instance: ONE, slot: Slot::FIRST, digest, waited: None }]);
}

/// No leader's word is enough for a command to the engine, and it stands alone in its batch.
#[test]
fn a_command_to_the_engine_needs_the_word_of_this_replica() {
    let (mut intake, mut here) = (usual(), replica(false));
    let batch = SystemCommand::Raise(2).batch(BatchHeader::default());
    let (digest, mut out) = (Digest::new([7; 32]), Vec::new());
    intake.examine(at(1), &here, (ONE, Slot::FIRST, digest), batch, &mut out);
    here.command = Some(SystemCommand::Raise(3));
    intake.vouch(at(2), &here, &mut out);
    assert_eq!(out, [], "another one");
    here.command = Some(SystemCommand::Raise(2));
    intake.vouch(at(3), &here, &mut out);
    assert_eq!(out, [Out::Vouched { instance: ONE, slot: Slot::FIRST, digest, waited: None }]);

    let request = SystemCommand::Raise(2).request();
    let mut bytes = Vec::new();
    Batch::begin(&mut bytes);
    bytes.extend_from_slice(&request.repeat(2));
    let two = Batch::seal(bytes, BatchHeader { count: 2, ..BatchHeader::default() });
    let mut out = Vec::new();
    intake.examine(at(4), &here, (ONE, Slot::FIRST, Digest::new([8; 32])), two, &mut out);
    assert_eq!(out, [], "nobody executes it there");
}

/// Its leader did its part. A planted bug complains about that leader.
#[test]
fn a_request_whose_result_waits_for_a_ruling_is_not_watched() {
    let (mut intake, mut here) = (usual(), replica(false));
    let request = pays(1, "pay bob 5");
    arrive(&mut intake, at(1), &here, &request);
    let look = |intake: &mut Vouched, here: &Replica, second| {
        let mut out = Vec::new();
        intake.look(at(second), here, &mut out);
        out
    };
    here.unruled = vec![batch(std::slice::from_ref(&request))];
    assert_eq!(look(&mut intake, &here, 2), []);
    let ordered = std::mem::take(&mut here.unruled);
    assert!(matches!(look(&mut intake, &here, 3)[..], [Out::Watch { .. }]), "not ordered");
    here.unruled = ordered;
    assert!(matches!(look(&mut intake, &here, 4)[..], [Out::Unwatch { .. }]));
}

#[test]
fn evidence_is_counted_by_member() {
    let mut intake = usual();
    intake.note(at(1), ReplicaId::new(2), &Reject::NotAllowed("one"));
    intake.note(at(1), ReplicaId::new(2), &Reject::NotAllowed("two"));
    let evidence = &intake.evidence[&ReplicaId::new(2)];
    assert_eq!(evidence.count, 2);
    assert!(evidence.what.contains("two"));
}

/// A leader that proposes a session's requests out of order has none of them forgotten.
#[test]
fn what_came_before_its_turn_is_not_done() {
    let mut intake = usual();
    let (session, client) = (SessionId { index: 2, generation: 1 }, ClientId::new(9));
    for number in [5, 6, 7] {
        let mut bytes = Vec::new();
        let commands = ItemsBuilder::new();
        write_request(&mut bytes, session, RequestNumber::new(number), RequestNumber::FIRST, &commands);
        let (header, ..) = Requests::new(&bytes).flatten().next().unwrap();
        assert!(intake.heard.hear(at(1), Owner::Open(client), &header, Bytes::from(bytes.clone())));
    }
    intake.executed(None, session, RequestNumber::new(7), ReplyStatus::ExpectedNumber);
    assert_eq!(intake.heard.of_session(session).count(), 3);
    for number in [5, 6] {
        intake.executed(None, session, RequestNumber::new(number), ReplyStatus::Done);
    }
    assert_eq!(intake.heard.of_session(session).count(), 1);
    intake.invariants();
}

/// Of each client the request that waits longest counts, and of the clients the one in the middle; what is done, or was never heard,
/// waits for nothing.
#[test]
fn a_batch_waits_since_half_of_its_clients_sent_theirs() {
    let mut intake = usual();
    let request = |index: u32, number: u64| {
        let (mut bytes, mut commands) = (Vec::new(), ItemsBuilder::new());
        commands.push(&[b'x'; 100]);
        let session = SessionId { index, generation: 1 };
        write_request(&mut bytes, session, RequestNumber::new(number), RequestNumber::FIRST, &commands);
        bytes
    };
    for (index, number, since) in [(1, 1, 10), (2, 1, 90), (2, 2, 20), (3, 1, 30), (4, 1, 5)] {
        let bytes = request(index, number);
        let (header, ..) = Requests::new(&bytes).flatten().next().unwrap();
        let owner = Owner::Open(ClientId::new(u64::from(index)));
        assert!(intake.heard.hear(at(since), owner, &header, Bytes::from(bytes.clone())));
    }
    // Of the fourth it is done.
    let live = [1, 2, 3, 7].map(|index| (SessionId { index, generation: 1 }, (ALICE, None)));
    let replica = Replica { sessions: Open(live.into()), view: View::FIRST, ..Replica::default() };
    let mut since = |of: &[(u32, u64)], room: usize| {
        let mut bytes = Vec::new();
        Batch::begin(&mut bytes);
        of.iter().for_each(|(index, number)| bytes.extend_from_slice(&request(*index, *number)));
        let header = BatchHeader {
            time: AgreedTime::ZERO,
            seed: 0,
            count: of.len() as u32,
            border: false,
            base: None,
            ruling: None,
        };
        intake.config.batch_bytes = room;
        intake.waited(&replica, &Batch::seal(bytes, header))
    };
    let waited = |since, full| Some(Waited { since: at(since), full });
    assert_eq!(since(&[(1, 1), (2, 2), (2, 1), (3, 1)], 1 << 20), waited(20, false));
    assert_eq!(since(&[(1, 1), (3, 1)], 1 << 20), waited(30, false), "one alone of two does not count");
    assert_eq!(since(&[(1, 1)], 300), waited(10, false));
    assert_eq!(since(&[(1, 1), (3, 1)], 300), waited(30, true));
    assert_eq!(since(&[(4, 1)], 1), None, "it is done");
    assert_eq!(since(&[(7, 1)], 1), None, "nobody heard of it");
    assert_eq!(since(&[], 1), None);
    let many: Vec<_> = (1..=500).map(|at| (if at % 2 == 0 { 1 } else { 3 }, 1)).collect();
    assert_eq!(since(&many, 1 << 16), waited(30, true), "not all are looked at, and those stand for all");
    assert_eq!(since(&many, 1 << 18), waited(30, false));
}
