//! The client: keeps a number of calls under way. It has one connection for calls and one for replies, so that the stage that opens and the
//! stage that seals share nothing.

use super::steps::{FRAME_BYTES_MAX, seal};
use super::{Certificates, Plan, Until};
use crate::bench::append;
use crossbeam_channel::{Receiver, Sender};
use quorate_command::failure::{Doing as _, Failure, Outcome};
use quorate_kv::Totals;
use quorate_tls::Session;
use quorate_types::{ReplicaId, RequestNumber, SessionId};
use quorate_wire::{
    FrameKind, FrameReader, OutFrame, Reply, ReplyStatus, RequestHeader, RequestKind, RequestProof,
};
use std::time::Instant;

/// Both ends of a connection, after the handshake: the client's and the replica's.
pub(super) fn connection(certificates: &Certificates) -> Outcome<(Session, Session)> {
    let mut client = Session::dial(&certificates.client, ReplicaId::new(1)).doing("begin TLS")?;
    let mut replica = Session::accept(&certificates.replica).doing("begin TLS")?;
    while client.wants_send() || replica.wants_send() {
        hand_over(&mut client, &mut replica)?;
        hand_over(&mut replica, &mut client)?;
    }
    if client.is_handshaking() || replica.is_handshaking() {
        return Err(Failure::new("a handshake did not end"));
    }
    Ok((client, replica))
}

fn hand_over(from: &mut Session, to: &mut Session) -> Outcome<()> {
    let mut sent = Vec::new();
    while from.wants_send() {
        from.send(&mut sent).doing("shake hands")?;
    }
    to.receive(&sent, |_| {}).doing("shake hands")
}

/// The client's side.
pub(super) struct Caller {
    calls: Session,
    replies: Session,
    reader: FrameReader,
    session: SessionId,
    number: u64,
    answered: u64,
    sent: Totals,
}

/// What the client counted.
pub(super) struct Seen {
    pub(super) seconds: f64,
    /// The totals that the service must have.
    pub(super) sent: Totals,
}

impl Caller {
    pub(super) fn new(calls: Session, replies: Session) -> Self {
        let (reader, session, sent) = (FrameReader::new(FRAME_BYTES_MAX), SessionId::NONE, Totals::default());
        Self { calls, replies, reader, session, number: 0, answered: 0, sent }
    }

    /// The bytes that ask for a session.
    pub(super) fn opening(&mut self) -> Outcome<Vec<u8>> {
        self.request(RequestKind::OpenSession, RequestNumber::new(1), &1_u64.to_le_bytes())
    }

    /// Takes the reply: the session is open.
    pub(super) fn opened(&mut self, sealed: &[u8]) -> Outcome<()> {
        let mut session = SessionId::NONE;
        self.receive(sealed, |reply| session = reply.session)?;
        self.session = session;
        if session == SessionId::NONE { Err(Failure::new("no session was opened")) } else { Ok(()) }
    }

    /// Calls until the time is over, then waits for the calls under way.
    pub(super) fn run(mut self, plan: Plan, to: &Sender<Vec<u8>>, from: &Receiver<Vec<u8>>) -> Outcome<Seen> {
        let gone = || Failure::new("the replica's threads ended too early");
        let start = Instant::now();
        loop {
            let over = match plan.until {
                Until::Seconds(seconds) => start.elapsed().as_secs_f64() >= seconds,
                Until::Calls(calls) => self.number >= calls,
            };
            if over && self.answered == self.number {
                break;
            }
            while !over && self.number - self.answered < plan.calls as u64 && !limit(plan, self.number) {
                let call = self.call(plan)?;
                to.send(call).map_err(|_| gone())?;
            }
            let first = from.recv().map_err(|_| gone())?;
            for sealed in std::iter::once(first).chain(from.try_iter()) {
                self.take(&sealed)?;
            }
        }
        Ok(Seen { seconds: start.elapsed().as_secs_f64(), sent: self.sent })
    }

    fn call(&mut self, plan: Plan) -> Outcome<Vec<u8>> {
        let (body, sum) = append::body(plan.commands_per_call, plan.bytes, self.sent.count);
        self.sent.count += plan.commands_per_call as u64;
        self.sent.sum = self.sent.sum.wrapping_add(sum);
        self.number += 1;
        self.request(RequestKind::Commands, RequestNumber::new(self.number), &body)
    }

    fn request(&mut self, kind: RequestKind, number: RequestNumber, body: &[u8]) -> Outcome<Vec<u8>> {
        let mut request = Vec::with_capacity(64 + body.len());
        let lowest_unanswered = RequestNumber::new(self.answered + 1);
        let len = u32::try_from(body.len()).doing("write a request")?;
        let session = self.session;
        RequestHeader { session, number, lowest_unanswered, kind, len, proof: RequestProof::None }
            .write_to(&mut request);
        request.extend_from_slice(body);
        let mut sealed = Vec::with_capacity(request.len() + 1024);
        seal(&mut self.calls, OutFrame::new(FrameKind::Requests, &[], vec![request.into()]), &mut sealed)?;
        Ok(sealed)
    }

    fn take(&mut self, sealed: &[u8]) -> Outcome<()> {
        let (mut answered, mut refused) = (0, 0);
        self.receive(sealed, |reply| {
            answered += 1;
            refused += u64::from(reply.status != ReplyStatus::Done);
        })?;
        self.answered += answered;
        if refused == 0 { Ok(()) } else { Err(Failure::new("a call failed")) }
    }

    fn receive(&mut self, sealed: &[u8], mut each: impl FnMut(&Reply<'_>)) -> Outcome<()> {
        let reader = &mut self.reader;
        self.replies.receive(sealed, |plain| reader.push(plain)).doing("open replies")?;
        while let Some(frame) = self.reader.frame().doing("read replies")? {
            for reply in Reply::walk(&frame.payload) {
                each(&reply.doing("read a reply")?);
            }
        }
        Ok(())
    }
}

/// Whether all calls were sent, if their number ends the run.
fn limit(plan: Plan, sent: u64) -> bool {
    matches!(plan.until, Until::Calls(calls) if sent >= calls)
}
