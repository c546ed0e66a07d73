//! The part of a checkpoint's system part that has the requests under way. Equal states give equal bytes: nothing is in it of which futures a
//! replica keeps, and what follows from the rest is left out (questions without an answer, who waits for a lock).
//!
//! ```text
//! magic (8, the last one is the version) | rules
//! requests     count u32 | key (seq u64, index u32), request ...      in the order of keys
//! ring         only with one: active u32 | batch u64 | slots: 0 free, 1 key, 2 stopped ... | queue: count u32, keys
//! backends     count u32 | service u32, backend ...
//! ```

use super::codec::{Reader, put_list, put_u32, put_u64, wrong};
use super::outgoing::{Backend, Outgoing};
use super::request::{Halt, Key, Request};
use super::ring::{Ring, Slot};
use super::rules::NestedRules;
use super::service::AnyJournaled;
use super::{Nested, ServiceId};
use crate::checkpoint::CheckpointError;
use crate::sessions::SessionTable;
use quorate_types::{AgreedTime, planted};
use quorate_wire::RequestKind;
use std::collections::BTreeSet;
use std::sync::Arc;

const MAGIC: [u8; 8] = *b"quonest\x01";

/// What a checkpoint has of requests under way.
pub(crate) struct NestedPart {
    pub(super) rules: NestedRules,
    requests: Vec<(Key, Request)>,
    ring: Option<Ring>,
    backends: Vec<(ServiceId, Backend)>,
}

impl NestedPart {
    /// Whether these bytes begin with such a part.
    pub(crate) fn is_next(bytes: &[u8]) -> bool {
        bytes.starts_with(&MAGIC)
    }

    /// Reads what [`Nested::write_to`] writes, to the end.
    pub(crate) fn read(bytes: &[u8]) -> Result<Self, CheckpointError> {
        let Some(rest) = bytes.strip_prefix(&MAGIC) else {
            return wrong("requests under way of this version");
        };
        let from = &mut Reader(rest);
        let rules = NestedRules::read(from)?;
        let requests = from.list(|from| {
            let key = Key::read(from)?;
            Ok((key, Request::read(key, from)?))
        })?;
        let ring = rules.schedule.slots().map(|slots| read_ring(slots, from)).transpose()?;
        let backends = from.list(|from| Ok((ServiceId(from.u32()?), Backend::read(from)?)))?;
        let grows = requests.windows(2).all(|pair| pair[0].0 < pair[1].0)
            && backends.windows(2).all(|pair| pair[0].0 < pair[1].0);
        if !grows || !from.0.is_empty() {
            return wrong("the order of requests under way");
        }
        Ok(Self { rules, requests, ring, backends })
    }

    pub(crate) fn write_to(&self, out: &mut Vec<u8>) {
        let requests = self.requests.iter().map(|(key, request)| (key, request));
        write(&self.rules, requests, self.ring.as_ref(), self.backends.iter().map(|(id, of)| (id, of)), out);
    }
}

fn write<'a>(
    rules: &NestedRules,
    requests: impl ExactSizeIterator<Item = (&'a Key, &'a Request)>,
    ring: Option<&Ring>,
    backends: impl ExactSizeIterator<Item = (&'a ServiceId, &'a Backend)>,
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(&MAGIC);
    rules.write_to(out);
    put_list(out, requests, |out, (key, request)| {
        key.write_to(out);
        request.write_to(out);
    });
    if let Some(ring) = ring {
        put_u32(out, ring.active as u32);
        put_u64(out, ring.batch);
        for slot in &ring.slots {
            match slot {
                Slot::Free => out.push(0),
                Slot::Taken(key) => {
                    out.push(1);
                    key.write_to(out);
                }
                Slot::Stopped => out.push(2),
            }
        }
        put_list(out, ring.queue.iter(), |out, key| key.write_to(out));
    }
    put_list(out, backends, |out, (service, backend)| {
        put_u32(out, service.0);
        backend.write_to(out);
    });
}

fn read_ring(slots: u32, from: &mut Reader<'_>) -> Result<Ring, CheckpointError> {
    let mut ring = Ring::new(slots);
    (ring.active, ring.batch) = (from.u32()? as usize, from.u64()?);
    for slot in &mut ring.slots {
        *slot = match from.u8()? {
            0 => Slot::Free,
            1 => Slot::Taken(Key::read(from)?),
            2 => Slot::Stopped,
            _ => return wrong("a slot of a ring"),
        };
    }
    ring.queue = from.list(Key::read)?.into();
    if ring.active < ring.slots.len() { Ok(ring) } else { wrong("the active slot of a ring") }
}

impl Nested {
    /// Appends the part.
    pub(crate) fn write_to(&self, out: &mut Vec<u8>) {
        write(&self.rules, self.requests.iter(), self.ring.as_ref(), self.outgoing.backends.iter(), out);
    }

    /// The requests under way that a checkpoint has, whose sessions are these. `now` is its time.
    pub(crate) fn restored(
        service: Arc<dyn AnyJournaled>,
        part: NestedPart,
        sessions: &mut SessionTable,
        now: AgreedTime,
    ) -> Result<Self, CheckpointError> {
        let mut nested = Self::new(service, part.rules);
        nested.ring = part.ring;
        for (key, request) in part.requests {
            nested.take_back(key, request, sessions)?;
        }
        let mut outgoing = Outgoing::default();
        for (id, mut backend) in part.backends {
            for sent in backend.sent.values_mut() {
                if planted("time-out-by-a-local-clock") && sent.deadline.is_some() {
                    sent.deadline = Some(now.plus(nested.rules.patience));
                }
                for member in &sent.members {
                    if let Some(request) = nested.requests.get_mut(&member.key)
                        && request.command() == member.command
                    {
                        request.open.insert(member.ticket);
                    }
                }
            }
            outgoing.restore(id, backend);
        }
        nested.outgoing = outgoing;
        nested.fits_together().then_some(nested).ok_or(CheckpointError::Malformed("requests under way"))
    }

    fn take_back(
        &mut self,
        key: Key,
        request: Request,
        sessions: &mut SessionTable,
    ) -> Result<(), CheckpointError> {
        let (id, number) = (request.session(), request.number);
        // Only a request that has not begun may outlive its session, which was closed before it.
        let fits = match sessions.client(id) {
            Some(_) => sessions.begin_again(id, number),
            None => matches!(request.halt, Halt::Turn | Halt::Session),
        };
        if !fits {
            return wrong("the numbers of requests under way");
        }
        let is_new = self.by_session.insert((id, number), key).is_none();
        let are_free = request.locks.iter().all(|name| self.locks.holder(name, key).is_none());
        if !is_new || !are_free {
            return wrong("requests under way that exclude each other");
        }
        self.locks.change(key, &BTreeSet::new(), &request.locks);
        if let (Halt::Lock(name), None) = (&request.halt, &self.ring) {
            self.locks.wait(name.clone(), key);
        }
        self.bytes += request.bytes();
        self.requests.insert(key, request);
        Ok(())
    }

    /// Whether what was read is a state in which each request will go on.
    fn fits_together(&self) -> bool {
        let ring_fits = self.ring.as_ref().is_none_or(|ring| {
            let mut all: Vec<Key> = ring.keys().collect();
            // Slots take requests from the queue in their order.
            let (slots, queue) = all.split_at(all.len() - ring.queue.len());
            let last = slots.iter().max();
            let in_order = last.into_iter().chain(queue).is_sorted_by(|a, b| a < b);
            all.sort_unstable();
            in_order && all.iter().eq(self.requests.keys())
        });
        ring_fits && self.requests.iter().all(|(key, request)| self.will_go_on(*key, request))
    }

    fn will_go_on(&self, key: Key, request: &Request) -> bool {
        let before = quorate_types::RequestNumber::new(request.number.number() - 1);
        let before = self.by_session.get(&(request.session(), before)).copied();
        if before.is_some_and(|before| before > key) {
            return false;
        }
        let has_ring = self.ring.is_some();
        match &request.halt {
            Halt::Turn => has_ring,
            Halt::Session => !has_ring && before.is_some(),
            Halt::Lock(name) => match self.locks.holder(name, key) {
                Some(holder) => !self.locks.is_circle((key, &request.locks), holder, &self.requests),
                None => has_ring,
            },
            Halt::Answer(ticket) => {
                let is_open = request.open.contains(ticket);
                let is_there = request.answers.contains_key(ticket);
                request.kind == RequestKind::Commands
                    && if has_ring { is_open != is_there } else { is_open && !is_there }
            }
        }
    }

    /// The locks as another one had them.
    #[cfg(planted)]
    pub(crate) fn keep_locks(&mut self, of: &Self) {
        self.locks = of.locks.clone();
    }
}
