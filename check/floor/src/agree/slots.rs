//! The undecided slots as this replica knows them, and the rules of agreement, without sockets.
//!
//! A replica votes WRITE for a slot whose proposal it holds, and ACCEPT for a slot for which a quorum voted WRITE. It decides a slot for
//! which a quorum voted ACCEPT, in the order of slots. No replica is suspected: a message that contradicts another one ends the run.

use super::message::{Heard, Kind};
use crate::frame;
use crate::tag::Digest;
use std::collections::VecDeque;

/// How many slots another replica may be ahead; far more than the leader keeps for slow replicas.
const AHEAD_MAX: u64 = 1 << 18;

pub(crate) struct Slots {
    me: u8,
    quorum: u32,
    command_bytes: usize,
    open: VecDeque<Slot>,
    /// Number of decided slots; this is also the number of the first slot of `open`.
    pub(crate) decided: u64,
    /// Number of proposed slots, and number of slots whose proposal is held as durably as the configuration asks.
    pub(crate) proposed: u64,
    held: u64,
    /// How many slots there are in all, once the leader said so.
    pub(crate) end: Option<u64>,
    /// Commands in the decided slots.
    pub(crate) commands: u64,
    /// Wrapping sum over their bytes.
    pub(crate) sum: u64,
    /// Where callers have connections of their own: the beginnings of the commands that were decided and not answered yet.
    answers: Option<Vec<Answer>>,
}

/// The first bytes of a command: its caller, and the caller's number for it. They are also the answer.
pub(crate) type Answer = [u8; 8];

/// One bit for each replica.
type Voters = u16;

#[derive(Default)]
struct Slot {
    digest: Option<Digest>,
    commands: u64,
    sum: u64,
    asked: Vec<Answer>,
    writes: Voters,
    accepts: Voters,
    wrote: bool,
    accepted: bool,
}

impl Slots {
    /// Slots of replica `me`, decided by this number of replicas.
    pub(crate) fn new(me: u8, quorum: u32, command_bytes: usize) -> Slots {
        Slots {
            me,
            quorum,
            command_bytes,
            open: VecDeque::new(),
            decided: 0,
            proposed: 0,
            held: 0,
            end: None,
            commands: 0,
            sum: 0,
            answers: None,
        }
    }

    /// The same; `each`: each command is answered by itself.
    pub(crate) fn answering(self, each: bool) -> Slots {
        Slots { answers: each.then(Vec::new), ..self }
    }

    /// The number of replicas in a quorum.
    pub(crate) fn quorum(&self) -> usize {
        self.quorum as usize
    }

    /// Takes a message of replica `from`, or a proposal of this replica. `Err`: it contradicts what came before.
    pub(crate) fn hear(&mut self, from: u8, heard: &Heard<'_>) -> Result<(), &'static str> {
        match heard.kind {
            Kind::End => {
                self.end = Some(heard.slot);
                return Ok(());
            }
            Kind::Propose if heard.slot != self.proposed => return Err("a gap between proposals"),
            // the others were enough
            _ if heard.slot < self.decided => return Ok(()),
            _ => {}
        }
        let at = heard.slot - self.decided;
        if at >= AHEAD_MAX {
            return Err("a slot far ahead");
        }
        let at = at as usize;
        if self.open.len() <= at {
            self.open.resize_with(at + 1, Slot::default);
        }
        let slot = &mut self.open[at];
        if *slot.digest.get_or_insert(*heard.digest) != *heard.digest {
            return Err("another digest for a slot than somebody before");
        }
        match heard.kind {
            Kind::Write => slot.writes |= 1 << from,
            Kind::Accept => slot.accepts |= 1 << from,
            Kind::Propose | Kind::End => {
                slot.commands = (heard.batch.len() / self.command_bytes) as u64;
                slot.sum = frame::touch(heard.batch);
                if self.answers.is_some() {
                    let commands = heard.batch.chunks_exact(self.command_bytes);
                    slot.asked.extend(commands.filter_map(|command| command.first_chunk::<8>()));
                }
                self.proposed += 1;
            }
        }
        Ok(())
    }

    /// Notes that all proposals so far are held as durably as the configuration asks.
    pub(crate) fn hold(&mut self) {
        self.held = self.proposed;
    }

    /// Makes every vote that is due, and hands each to `send`.
    pub(crate) fn vote(&mut self, mut send: impl FnMut(Kind, u64, &Digest)) {
        let votable = self.held.saturating_sub(self.decided) as usize;
        for (number, slot) in (self.decided..).zip(self.open.iter_mut().take(votable)) {
            let Some(digest) = &slot.digest else { continue };
            if !slot.wrote {
                slot.wrote = true;
                slot.writes |= 1 << self.me;
                send(Kind::Write, number, digest);
            }
            if !slot.accepted && slot.writes.count_ones() >= self.quorum {
                slot.accepted = true;
                slot.accepts |= 1 << self.me;
                send(Kind::Accept, number, digest);
            }
        }
    }

    /// Decides every slot that can be decided. `true`: there was one.
    pub(crate) fn decide(&mut self) -> bool {
        let before = self.decided;
        while let Some(slot) = self.open.front_mut() {
            // a replica that decides has voted, so its votes are there for those that need them
            if !slot.accepted || slot.accepts.count_ones() < self.quorum {
                break;
            }
            self.commands += slot.commands;
            self.sum = self.sum.wrapping_add(slot.sum);
            if let Some(answers) = &mut self.answers {
                answers.append(&mut slot.asked);
            }
            self.decided += 1;
            self.open.pop_front();
        }
        self.decided > before
    }

    /// What was decided and not answered yet, where each command is answered by itself.
    pub(crate) fn take_answers(&mut self) -> impl Iterator<Item = Answer> {
        self.answers.iter_mut().flat_map(|answers| answers.drain(..))
    }

    /// Whether all slots are decided and no more will come.
    pub(crate) fn complete(&self) -> bool {
        self.end == Some(self.decided)
    }
}

#[cfg(test)]
mod tests;
