//! A leader that proposes requests that clients did not send, or leaves out some that they did, for ever or for a while.

use crate::liars::voice::{rebuilt, requests_of};
use crate::liars::{Plays, Said, Saying, Voice};
use quorate_order::mod_smart::message::ModSmartBody as Body;
use quorate_types::{InstanceId, MembershipId, Slot, View};
use quorate_wire::{Batch, BatchHeader, RequestHeader, RequestKind, Requests, SystemCommand};
use std::collections::BTreeMap;

/// Alters requests, and makes some up; for all members, or for half of them.
#[derive(Debug, Default)]
pub(in crate::liars) struct Forge {
    forged: BTreeMap<(InstanceId, View, Slot), Batch>,
}

fn header_of(request: &[u8]) -> Option<RequestHeader> {
    Requests::new(request).flatten().next().map(|(header, ..)| header)
}

fn is_command(request: &[u8]) -> bool {
    header_of(request).is_some_and(|header| header.kind == RequestKind::Commands)
}

fn forged(me: &mut Voice, batch: &Batch) -> Batch {
    let mut requests = requests_of(batch);
    let header = BatchHeader { seed: me.rng.number(), ..batch.header() };
    let count = requests.len() as u64;
    let (one, other) = (me.rng.below(count) as usize, me.rng.below(count) as usize);
    let mut commands: Vec<&mut Vec<u8>> = requests.iter_mut().filter(|request| is_command(request)).collect();
    // A liar that always forges loses its office before there is a request worth forging.
    if commands.is_empty() && me.rng.chance(900) {
        return batch.clone();
    }
    match me.rng.below(10) {
        0..=3 if !commands.is_empty() => {
            // The command's last byte, and so nothing but the value; or the last one of its proof, if it has one.
            let which = me.rng.below(commands.len() as u64) as usize;
            let proof = header_of(commands[which]).map_or(0, |header| header.proof.byte_len());
            let behind = if proof > 0 && me.rng.chance(700) { proof } else { 0 };
            if let Some(last) = commands[which].iter_mut().rev().nth(behind) {
                *last ^= 1;
            }
        }
        4 if count > 0 => {
            let len = requests[one].len() as u64;
            let at = me.rng.below(len) as usize;
            requests[one][at] ^= 1 << me.rng.below(8);
        }
        5 if count > 0 => requests.push(requests[one].clone()),
        6 if count > 1 => requests.swap(one, other),
        7 => requests.push(me.opening()),
        8 => {
            let command = match me.rng.below(3) {
                0 => SystemCommand::Raise(99),
                1 => SystemCommand::Changed(MembershipId::new(2)),
                _ => SystemCommand::Instances(3),
            };
            return command.batch(header);
        }
        _ => requests.push(me.request()),
    }
    let built = rebuilt(header, &requests);
    // What does not decode is refused before anybody looks at it.
    Batch::decode(built.bytes().clone()).unwrap_or_else(|_| rebuilt(header, &[me.request()]))
}

impl Plays for Forge {
    fn instead(&mut self, me: &mut Voice, to: usize, mut said: Said) -> Vec<Saying> {
        if let Said::ModSmart(instance, message) = &mut said
            && let Body::Propose { slot, batch } = &mut message.body
            && (slot.number().is_multiple_of(2) || to.is_multiple_of(2))
        {
            let key = (*instance, message.view, *slot);
            *batch = self.forged.entry(key).or_insert_with(|| forged(me, batch)).clone();
            if self.forged.len() > 64 {
                self.forged.pop_first();
            }
        }
        vec![Saying::now(to, said)]
    }
}

/// Proposes one request at a time, however many wait.
#[derive(Debug)]
pub(in crate::liars) struct Small;

impl Plays for Small {
    fn instead(&mut self, _me: &mut Voice, to: usize, mut said: Said) -> Vec<Saying> {
        if let Said::ModSmart(_, message) = &mut said
            && let Body::Propose { batch, .. } = &mut message.body
            && batch.header().count > 1
        {
            let mut requests = requests_of(batch);
            requests.truncate(1);
            *batch = rebuilt(batch.header(), &requests);
        }
        vec![Saying::now(to, said)]
    }
}

/// Never proposes the requests of some of the sessions.
#[derive(Debug)]
pub(in crate::liars) struct Censor {
    of: u64,
}

impl Censor {
    pub(in crate::liars) fn new(me: &mut Voice) -> Self {
        Self { of: me.rng.below(2) }
    }

    fn leaves_out(&self, request: &[u8]) -> bool {
        header_of(request).is_some_and(|header| u64::from(header.session.index) % 2 == self.of)
    }
}

impl Plays for Censor {
    fn instead(&mut self, _me: &mut Voice, to: usize, mut said: Said) -> Vec<Saying> {
        if let Said::ModSmart(_, message) = &mut said
            && let Body::Propose { batch, .. } = &mut message.body
            && batch.no_op_target().is_none()
        {
            let mut requests = requests_of(batch);
            requests.retain(|request| !self.leaves_out(request));
            *batch = rebuilt(batch.header(), &requests);
        }
        vec![Saying::now(to, said)]
    }
}
