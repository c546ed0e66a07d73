//! How the values of this folder lie in a checkpoint. Numbers are little-endian; bytes have their length (u32) before them.

use super::chain::{Chain, Refusal, ServiceId};
use super::journal::{Entry, Journal, Mark};
use super::outgoing::{Backend, Member, Sent};
use super::request::{Halt, Key, Request};
use super::rules::{NestedRules, SLOTS_MAX, Schedule};
use super::service::Answer;
use crate::checkpoint::CheckpointError;
use crate::context::Context;
use bytes::Bytes;
use quorate_types::{AgreedTime, ClientId, InstanceId, Items, RequestNumber, Seq, SessionId, Slot, Span};
use quorate_wire::{ReplyStatus, RequestKind};
use std::collections::BTreeMap;

type Result<T> = std::result::Result<T, CheckpointError>;

pub(super) const fn wrong<T>(what: &'static str) -> Result<T> {
    Err(CheckpointError::Malformed(what))
}

/// Reads values from the front of bytes. What it takes was there, so no length reserves memory.
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let (front, rest) = self.0.split_at_checked(len).ok_or(CheckpointError::CutOff)?;
        self.0 = rest;
        Ok(front)
    }
    pub(super) fn u8(&mut self) -> Result<u8> {
        Ok(self.take(1)?[0])
    }
    pub(super) fn u32(&mut self) -> Result<u32> {
        let bytes = self.take(4)?.first_chunk().ok_or(CheckpointError::CutOff)?;
        Ok(u32::from_le_bytes(*bytes))
    }
    pub(super) fn u64(&mut self) -> Result<u64> {
        let bytes = self.take(8)?.first_chunk().ok_or(CheckpointError::CutOff)?;
        Ok(u64::from_le_bytes(*bytes))
    }
    pub(super) fn bytes(&mut self) -> Result<Bytes> {
        let len = self.u32()? as usize;
        Ok(Bytes::copy_from_slice(self.take(len)?))
    }
    /// So many values, each of which takes at least a byte.
    pub(super) fn list<T>(&mut self, read: impl Fn(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let count = self.u32()?;
        let mut list = Vec::new();
        for _ in 0..count {
            list.push(read(self)?);
        }
        Ok(list)
    }
    /// A list whose keys grow.
    fn map<K: Ord, V>(&mut self, read: impl Fn(&mut Self) -> Result<(K, V)>) -> Result<BTreeMap<K, V>> {
        let list = self.list(read)?;
        let grows = list.windows(2).all(|pair| pair[0].0 < pair[1].0);
        if grows { Ok(list.into_iter().collect()) } else { wrong("the order of a list of nested requests") }
    }
}

pub(super) fn put_u32(out: &mut Vec<u8>, number: u32) {
    out.extend_from_slice(&number.to_le_bytes());
}
pub(super) fn put_u64(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(&number.to_le_bytes());
}
pub(super) fn put_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    put_u32(out, bytes.len() as u32);
    out.extend_from_slice(bytes);
}
pub(super) fn put_list<T>(
    out: &mut Vec<u8>,
    list: impl ExactSizeIterator<Item = T>,
    put: impl Fn(&mut Vec<u8>, T),
) {
    put_u32(out, list.len() as u32);
    list.for_each(|item| put(out, item));
}

impl NestedRules {
    /// The numbers in their order in a checkpoint.
    const fn numbers(&self) -> [u64; 8] {
        [
            self.operations_per_leg_max,
            self.asks_per_command_max as u64,
            self.message_bytes_max,
            self.request_bytes_max,
            self.journal_bytes_per_command_max,
            self.journal_bytes_max,
            self.patience.nanos(),
            self.chain_max as u64 | (self.requests_max as u64) << 32,
        ]
    }

    /// `service u32 | slots of the ring u32, 0: answered | numbers u64 (8)`.
    pub(super) fn write_to(&self, out: &mut Vec<u8>) {
        put_u32(out, self.service.0);
        put_u32(out, self.schedule.slots().unwrap_or(0));
        self.numbers().into_iter().for_each(|number| put_u64(out, number));
    }

    pub(super) fn read(from: &mut Reader<'_>) -> Result<Self> {
        let service = ServiceId(from.u32()?);
        let schedule = match from.u32()? {
            0 => Schedule::Answered,
            slots if slots <= SLOTS_MAX => Schedule::Ring(slots),
            _ => return wrong("the slots of a ring"),
        };
        let mut numbers = [0; 8];
        for number in &mut numbers {
            *number = from.u64()?;
        }
        let [operations, asks, message, request, command, all, patience, both] = numbers;
        let Ok(asks_per_command_max) = u32::try_from(asks) else { return wrong("the limit of questions") };
        Ok(Self {
            service,
            schedule,
            operations_per_leg_max: operations,
            asks_per_command_max,
            message_bytes_max: message,
            request_bytes_max: request,
            journal_bytes_per_command_max: command,
            journal_bytes_max: all,
            requests_max: (both >> 32) as u32,
            patience: Span::from_nanos(patience),
            chain_max: both as u32,
        })
    }
}

impl Chain {
    pub(super) fn write_to(&self, out: &mut Vec<u8>) {
        put_list(out, self.services().iter(), |out, service| put_u32(out, service.0));
    }
    pub(super) fn read(from: &mut Reader<'_>) -> Result<Self> {
        Ok(Self::of(from.list(|from| from.u32().map(ServiceId))?))
    }
}

impl Key {
    pub(super) fn write_to(self, out: &mut Vec<u8>) {
        put_u64(out, self.seq);
        put_u32(out, self.index);
    }
    pub(super) fn read(from: &mut Reader<'_>) -> Result<Self> {
        Ok(Self { seq: from.u64()?, index: from.u32()? })
    }
}

impl Answer {
    pub(super) fn write_to(&self, out: &mut Vec<u8>) {
        match self {
            Self::Reply(bytes) => {
                out.push(0);
                put_bytes(out, bytes);
            }
            Self::Unknown => out.push(1),
            Self::Refused(Refusal::ComesBack) => out.push(2),
            Self::Refused(Refusal::TooDeep) => out.push(3),
            Self::Status(status) => out.extend_from_slice(&[4, *status as u8]),
        }
    }
    pub(super) fn read(from: &mut Reader<'_>) -> Result<Self> {
        Ok(match from.u8()? {
            0 => Self::Reply(from.bytes()?),
            1 => Self::Unknown,
            2 => Self::Refused(Refusal::ComesBack),
            3 => Self::Refused(Refusal::TooDeep),
            4 => match ReplyStatus::from_number(from.u8()?) {
                Some(status) => Self::Status(status),
                None => return wrong("the status of an answer"),
            },
            _ => return wrong("an answer"),
        })
    }
}

impl Entry {
    pub(super) fn write_to(&self, out: &mut Vec<u8>) {
        let (kind, mark) = match self {
            Self::Read(mark, None) => (1, mark.0),
            Self::Read(mark, Some(_)) => (2, mark.0),
            Self::Range(mark, _) => (3, mark.0),
            Self::Wrote(mark) => (4, mark.0),
            Self::Locked(mark, false) => (5, mark.0),
            Self::Locked(mark, true) => (6, mark.0),
            Self::Unlocked(mark) => (7, mark.0),
            Self::Asked(mark, _) => (8, mark.0),
            Self::Answered(ticket, _) => (9, u64::from(*ticket)),
        };
        out.push(kind);
        put_u64(out, mark);
        match self {
            Self::Read(_, Some(value)) => put_bytes(out, value),
            Self::Range(_, found) => put_list(out, found.iter(), |out, (key, value)| {
                put_bytes(out, key);
                put_bytes(out, value);
            }),
            Self::Asked(_, len) => put_u32(out, *len),
            Self::Answered(_, answer) => answer.write_to(out),
            _ => {}
        }
    }
    pub(super) fn read(from: &mut Reader<'_>) -> Result<Self> {
        let (kind, number) = (from.u8()?, from.u64()?);
        let mark = Mark(number);
        Ok(match kind {
            1 => Self::Read(mark, None),
            2 => Self::Read(mark, Some(from.bytes()?)),
            3 => Self::Range(mark, from.list(|from| Ok((from.bytes()?, from.bytes()?)))?),
            4 => Self::Wrote(mark),
            5 => Self::Locked(mark, false),
            6 => Self::Locked(mark, true),
            7 => Self::Unlocked(mark),
            8 => Self::Asked(mark, from.u32()?),
            9 => match u32::try_from(number) {
                Ok(ticket) => Self::Answered(ticket, Answer::read(from)?),
                Err(_) => return wrong("the number of a question"),
            },
            _ => return wrong("a journal's entry"),
        })
    }
}

impl Journal {
    pub(super) fn write_to(&self, out: &mut Vec<u8>) {
        put_list(out, self.entries().iter(), |out, entry| entry.write_to(out));
    }
    pub(super) fn read(from: &mut Reader<'_>) -> Result<Self> {
        let mut journal = Self::default();
        for _ in 0..from.u32()? {
            journal.push(Entry::read(from)?);
        }
        Ok(journal)
    }
}

fn write_ctx(ctx: &Context, out: &mut Vec<u8>) {
    let numbers = [
        ctx.client().number(),
        ctx.session().number(),
        ctx.slot().number(),
        u64::from(ctx.instance().number()),
        ctx.time().nanos(),
        ctx.due().nanos(),
        ctx.batch_seed(),
    ];
    numbers.into_iter().for_each(|number| put_u64(out, number));
    put_u32(out, ctx.level());
}

fn read_ctx(key: Key, from: &mut Reader<'_>) -> Result<Context> {
    let (client, session) = (ClientId::new(from.u64()?), SessionId::from_number(from.u64()?));
    let (slot, instance) = (Slot::new(from.u64()?), from.u64()?);
    let (time, due) = (AgreedTime::from_nanos(from.u64()?), AgreedTime::from_nanos(from.u64()?));
    let seed = from.u64()?;
    let Ok(instance) = u16::try_from(instance) else { return wrong("an instance of a request under way") };
    let ctx = Context::at(Seq::new(key.seq), time).with_place(InstanceId::new(instance), slot);
    let ctx = ctx.with_due(due).with_seed(seed).with_session(client, session).with_request(key.index);
    Ok(ctx.with_level(from.u32()?))
}

impl Request {
    /// `number u64 | kind u8 | context | chain | body | replies | journal | answers | locks | halt`.
    pub(super) fn write_to(&self, out: &mut Vec<u8>) {
        put_u64(out, self.number.number());
        out.push(self.kind as u8);
        write_ctx(&self.ctx, out);
        self.chain.write_to(out);
        put_bytes(out, &self.body);
        put_list(out, self.replies.iter(), |out, reply| put_bytes(out, reply));
        self.journal.write_to(out);
        put_list(out, self.answers.iter(), |out, (ticket, answer)| {
            put_u32(out, *ticket);
            answer.write_to(out);
        });
        put_list(out, self.locks.iter(), |out, name| put_bytes(out, name));
        match &self.halt {
            Halt::Turn => out.push(0),
            Halt::Session => out.push(1),
            Halt::Lock(name) => {
                out.push(2);
                put_bytes(out, name);
            }
            Halt::Answer(ticket) => {
                out.push(3);
                put_u32(out, *ticket);
            }
        }
    }

    pub(super) fn read(key: Key, from: &mut Reader<'_>) -> Result<Self> {
        let number = RequestNumber::new(from.u64()?);
        let kind = RequestKind::from_number(from.u8()?);
        let Some(kind) = kind.filter(|kind| !matches!(kind, RequestKind::OpenSession | RequestKind::System))
        else {
            return wrong("the kind of a request under way");
        };
        let (ctx, chain, body) = (read_ctx(key, from)?, Chain::read(from)?, from.bytes()?);
        let mut request = Self::new((number, kind), body, ctx, chain);
        request.replies = from.list(Reader::bytes)?;
        request.replies_bytes = request.replies.iter().map(Bytes::len).sum();
        request.journal = Journal::read(from)?;
        request.answers = from.map(|from| Ok((from.u32()?, Answer::read(from)?)))?;
        request.locks = from.map(|from| Ok((from.bytes()?, ())))?.into_keys().collect();
        request.halt = match from.u8()? {
            0 => Halt::Turn,
            1 => Halt::Session,
            2 => Halt::Lock(from.bytes()?),
            3 => Halt::Answer(from.u32()?),
            _ => return wrong("what a request waits for"),
        };
        request.is_whole().then_some(request).ok_or(CheckpointError::Malformed("a request under way"))
    }

    /// Whether what was read fits together.
    fn is_whole(&self) -> bool {
        let count = match self.kind {
            RequestKind::Commands => Items::parse(&self.body).map_or(0, |commands| commands.len()),
            _ => 0,
        };
        let parses = self.kind != RequestKind::Commands || Items::parse(&self.body).is_ok();
        let has_begun = self.journal.len() > 0 || !self.replies.is_empty() || !self.answers.is_empty();
        let has_begun = has_begun || !self.locks.is_empty();
        let waits = matches!(self.halt, Halt::Answer(_) | Halt::Lock(_));
        let next = self.number.number();
        parses && (0 < next && next < u64::MAX) && if waits { self.replies.len() < count } else { !has_begun }
    }
}

impl Backend {
    /// `next number u64 | requests: number u64, lowest u64, deadline u64, chain, members, commands`. One that was given up has no members, and 0 as
    /// its deadline.
    pub(super) fn write_to(&self, out: &mut Vec<u8>) {
        put_u64(out, self.next.number());
        put_list(out, self.sent.iter(), |out, (number, sent)| {
            for number in [number.number(), sent.lowest.number(), sent.deadline.map_or(0, AgreedTime::nanos)]
            {
                put_u64(out, number);
            }
            sent.chain.write_to(out);
            put_list(out, sent.members.iter(), |out, member| {
                member.key.write_to(out);
                put_u32(out, member.command);
                put_u32(out, member.ticket);
            });
            put_bytes(out, &sent.commands);
        });
    }

    pub(super) fn read(from: &mut Reader<'_>) -> Result<Self> {
        let next = RequestNumber::new(from.u64()?);
        let sent = from.map(|from| Ok((RequestNumber::new(from.u64()?), read_sent(from)?)))?;
        let deadlines: Vec<Option<AgreedTime>> = sent.values().map(|sent| sent.deadline).collect();
        let numbers_fit = sent.keys().all(|number| number.number() > 0 && *number < next);
        let lowest_fit = sent.iter().all(|(number, sent)| sent.lowest <= *number);
        if next.number() == 0 || !numbers_fit || !lowest_fit || !deadlines.is_sorted() {
            return wrong("the numbers of nested requests");
        }
        Ok(Self { next, sent })
    }
}

fn read_sent(from: &mut Reader<'_>) -> Result<Sent> {
    let (lowest, deadline) = (RequestNumber::new(from.u64()?), AgreedTime::from_nanos(from.u64()?));
    let chain = Chain::read(from)?;
    let members =
        from.list(|from| Ok(Member { key: Key::read(from)?, command: from.u32()?, ticket: from.u32()? }))?;
    let commands = from.bytes()?;
    let given_up = members.is_empty() && deadline == AgreedTime::ZERO;
    match Items::parse(&commands) {
        Ok(items)
            if !items.is_empty()
                && (items.len() == members.len() || given_up)
                && members.is_sorted_by(|a, b| a < b) =>
        {
            Ok(Sent { lowest, chain, members, commands, deadline: (!given_up).then_some(deadline) })
        }
        _ => wrong("the commands of a nested request"),
    }
}
