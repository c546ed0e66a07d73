//! What the tests of this package share: batches made of requests, and a service whose replies tell what it ran.

use quorate_execute::{
    CheckpointError, CheckpointSink, CheckpointSource, Context, Executor, ImageParts, Outcomes, ReplySink,
    Service, SessionLimits, Version, read_all,
};
use quorate_types::{
    AgreedTime, ClientId, Digest, Items, ItemsBuilder, RequestNumber, Seq, SessionId, SessionKey,
};
use quorate_wire::{
    Batch, BatchHeader, ReplyStatus, RequestHeader, RequestKind, RequestProof, write_opening,
};

/// Answers each command with how many ran before it, and the command itself. A command of 4 bytes that begins with `L`
/// is answered with as many bytes as the next 3 say.
#[derive(Default)]
pub(crate) struct Echo {
    pub(crate) count: u64,
}

impl Service for Echo {
    fn execute(&mut self, command: &[u8], _: &Context, reply: &mut ReplySink<'_>) {
        reply.write(&self.count.to_le_bytes());
        self.count += 1;
        match command {
            [b'L', a, b, c] => {
                reply.restart();
                reply.write(&vec![7; u32::from_le_bytes([*a, *b, *c, 0]) as usize]);
            }
            _ => reply.write(command),
        }
    }
    fn query(&self, query: &[u8], _: &Context, reply: &mut ReplySink<'_>) {
        reply.write(&self.count.to_le_bytes());
        reply.write(query);
    }
    fn checkpoint(&self, out: &mut dyn CheckpointSink) -> Result<(), CheckpointError> {
        out.write(&self.count.to_le_bytes())
    }
    fn restore(&mut self, from: &mut dyn CheckpointSource) -> Result<(), CheckpointError> {
        let bytes = read_all(from, 8)?;
        let bytes = bytes.first_chunk::<8>().filter(|_| bytes.len() == 8).ok_or(CheckpointError::CutOff)?;
        self.count = u64::from_le_bytes(*bytes);
        Ok(())
    }
}

/// A request before it is encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ask {
    pub(crate) session: SessionId,
    pub(crate) number: u64,
    pub(crate) lowest: u64,
    pub(crate) kind: RequestKind,
    pub(crate) body: Vec<u8>,
}

pub(crate) fn open(client: u64, nonce: u64) -> Ask {
    let (session, kind) = (SessionId::NONE, RequestKind::OpenSession);
    Ask { session, number: nonce, lowest: 0, kind, body: client.to_le_bytes().to_vec() }
}

pub(crate) fn commands(session: SessionId, number: u64, lowest: u64, list: &[&[u8]]) -> Ask {
    Ask { session, number, lowest, kind: RequestKind::Commands, body: items(list) }
}

/// As `open`, with a key for what is asked in the session.
pub(crate) fn open_with(client: u64, nonce: u64, key: SessionKey) -> Ask {
    Ask { body: write_opening(ClientId::new(client), Some(key)), ..open(client, nonce) }
}

pub(crate) fn empty(session: SessionId, number: u64, lowest: u64) -> Ask {
    Ask { session, number, lowest, kind: RequestKind::Empty, body: vec![] }
}

pub(crate) fn query(session: SessionId, number: u64, lowest: u64, query: &[u8]) -> Ask {
    Ask { session, number, lowest, kind: RequestKind::Query, body: query.to_vec() }
}

pub(crate) fn close(session: SessionId, number: u64) -> Ask {
    Ask { session, number, lowest: 0, kind: RequestKind::CloseSession, body: vec![] }
}

pub(crate) fn items(list: &[&[u8]]) -> Vec<u8> {
    let mut builder = ItemsBuilder::new();
    list.iter().for_each(|item| builder.push(item));
    let mut out = vec![];
    builder.write_to(&mut out);
    out
}

pub(crate) fn list(body: &[u8]) -> Vec<Vec<u8>> {
    Items::parse(body).expect("a list of replies").iter().map(<[u8]>::to_vec).collect()
}

pub(crate) fn batch(time: u64, seed: u64, asks: &[Ask]) -> Batch {
    let mut bytes = vec![];
    Batch::begin(&mut bytes);
    for ask in asks {
        let (number, lowest_unanswered) = (RequestNumber::new(ask.number), RequestNumber::new(ask.lowest));
        let len = ask.body.len() as u32;
        // Whether it is right is asked before.
        let signs = ask.kind == RequestKind::OpenSession && len > 8;
        let proof = if signs { RequestProof::Signature } else { RequestProof::None };
        RequestHeader { session: ask.session, number, lowest_unanswered, kind: ask.kind, len, proof }
            .write_to(&mut bytes);
        bytes.extend_from_slice(&ask.body);
        bytes.resize(bytes.len() + proof.byte_len(), 7);
    }
    let time = AgreedTime::from_nanos(time);
    let sealed =
        Batch::seal(bytes, BatchHeader { time, seed, count: asks.len() as u32, ..BatchHeader::default() });
    Batch::decode(sealed.bytes().clone()).expect("what the tests write decodes")
}

/// An outcome with its body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) session: SessionId,
    pub(crate) number: u64,
    pub(crate) status: ReplyStatus,
    pub(crate) body: Vec<u8>,
    pub(crate) opening: Option<ClientId>,
}

/// An executor with its outcomes, fed batch by batch.
pub(crate) struct Replica {
    pub(crate) executor: Executor,
    pub(crate) out: Outcomes,
}

impl Replica {
    pub(crate) fn new(limits: SessionLimits) -> Self {
        Self::with(Box::new(Echo::default()), limits)
    }
    pub(crate) fn with(service: Box<dyn Service>, limits: SessionLimits) -> Self {
        Self { executor: Executor::new(service, limits, AgreedTime::ZERO), out: Outcomes::new() }
    }
    pub(crate) fn run(&mut self, time: u64, asks: &[Ask]) -> Vec<Seen> {
        let seq = self.executor.seq().next();
        self.executor.execute(seq, &batch(time, seq.number(), asks), &mut self.out);
        self.executor.invariants(true);
        assert_eq!(self.out.list().len(), asks.len(), "one outcome for each request");
        let seen = |(outcome, reply): (&quorate_execute::Outcome, quorate_wire::Reply<'_>)| Seen {
            session: reply.session,
            number: reply.number.number(),
            status: reply.status,
            body: reply.body.to_vec(),
            opening: outcome.opening,
        };
        self.out.replies().map(seen).collect()
    }
    pub(crate) fn one(&mut self, time: u64, ask: Ask) -> Seen {
        self.run(time, &[ask]).remove(0)
    }
    pub(crate) fn opened(&mut self, client: u64, nonce: u64) -> SessionId {
        let time = self.executor.time().nanos();
        let seen = self.one(time, open(client, nonce));
        assert_eq!(seen.status, ReplyStatus::SessionOpened);
        seen.session
    }
    pub(crate) fn checkpoint(&self) -> Vec<u8> {
        let mut bytes = vec![];
        self.executor.checkpoint(&mut bytes).expect("a vector takes everything");
        bytes
    }
    pub(crate) fn image(&mut self) -> ImageParts {
        self.executor.image().expect("a service that gives its state")
    }
    /// What is compared between replicas.
    pub(crate) fn digest(&mut self) -> (Vec<u8>, Digest) {
        let image = self.image();
        (image.system, image.objects.root())
    }
    pub(crate) fn restored(system: &[u8], objects: &Version) -> Result<Self, CheckpointError> {
        let mut replica = Self::new(SessionLimits::default());
        replica.executor.restore_image(system, objects)?;
        replica.executor.invariants(true);
        Ok(replica)
    }
    pub(crate) fn copy(&mut self) -> Self {
        let image = self.image();
        Self::restored(&image.system, &image.objects).expect("a good image")
    }
    pub(crate) fn count(&self) -> u64 {
        let mut out = vec![];
        self.executor.query(b"", &mut out).expect("a short answer");
        u64::from_le_bytes(*out.first_chunk().expect("the count"))
    }
}

pub(crate) const fn seq(number: u64) -> Seq {
    Seq::new(number)
}
