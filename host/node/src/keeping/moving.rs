//! Messages between replicas about the state: what members say and ask, checkpoints that are fetched and sent, borders that are asked for.
//! Also what is due with time: repairs, scrubs, and checkpoints that could not be made durable.

use super::Keeping;
use super::divergence::difference;
use super::inout::{Facts, Out, Rest};
use super::scrubs::Read;
use super::transfer::{Found, Installing, Need, Unfit, Why};
use crate::system::System;
use quorate_log::{Rot, ScrubOk};
use quorate_state::checkpoint::{Image, Job};
use quorate_state::transfer::{Effect as FetchEffect, Fetched, Input as FetchInput, differing_keys};
use quorate_types::{ConnId, Digest, ReplicaId, Seq, Time, planted};
use quorate_wire::{RefusedWhy, StateMessage};

/// The most differing keys to name.
const KEYS_TOLD: usize = 16;

impl Keeping {
    /// A message of a member.
    pub(super) fn on_heard(
        &mut self,
        now: Time,
        facts: &Facts,
        from: ReplicaId,
        message: StateMessage,
        out: &mut Vec<Out>,
    ) {
        match message {
            StateMessage::Digest { seq, digest, held } => {
                let verdicts = self.agreement.heard(from, seq, digest, held);
                self.on_verdicts(now, facts, verdicts, out);
                self.serving.reached(from, seq, self.own.newest(), out);
                out.push(Out::Then(Rest::Trim));
            }
            StateMessage::FetchManifest { .. } | StateMessage::FetchChunks { .. } => {
                self.serve(now, from, message, out);
            }
            StateMessage::WantBorder { seq, .. } => self.on_want_border(now, facts, seq, out),
            StateMessage::Manifest { .. } => {
                self.fetch(now, facts, FetchInput::Receive { from, message }, out);
            }
            StateMessage::Chunk { seq, digest, chunk, ref bytes } => {
                match self.rot.takes(from, (seq, digest, chunk), bytes) {
                    Some(repair) => out.push(repair),
                    None => self.fetch(now, facts, FetchInput::Receive { from, message }, out),
                }
            }
            StateMessage::Refused { seq, digest, why, .. } => {
                self.rot.refused(from, seq);
                if why == RefusedWhy::NotHeld {
                    self.agreement.not_held(from, seq, digest);
                }
                self.fetch(now, facts, FetchInput::Receive { from, message }, out);
            }
        }
    }

    /// An operator asks for checkpoints, to make a backup, and is served like a member.
    pub(super) fn on_asked(
        &mut self,
        now: Time,
        facts: &Facts,
        (conn, members): (ConnId, &[ReplicaId]),
        message: StateMessage,
        out: &mut Vec<Out>,
    ) -> Result<(), &'static str> {
        let from = self.serving.operator(conn, members);
        let from = from.ok_or("there are too many operators who make backups")?;
        match message {
            StateMessage::WantBorder { seq, .. } => {
                self.tell_reports(from, out);
                self.on_want_border(now, facts, seq, out);
            }
            StateMessage::FetchManifest { .. } | StateMessage::FetchChunks { .. } => {
                self.serve(now, from, message, out);
            }
            _ => return Err("an operator sends what only members say about the state"),
        }
        Ok(())
    }

    /// A member is connected: it is told what this replica said while it was away.
    pub(super) fn on_connected(&mut self, now: Time, facts: &Facts, member: ReplicaId, out: &mut Vec<Out>) {
        self.tell_reports(member, out);
        self.fetch(now, facts, FetchInput::Connected(member), out);
    }

    /// A member is gone.
    pub(super) fn on_disconnected(
        &mut self,
        now: Time,
        facts: &Facts,
        member: ReplicaId,
        out: &mut Vec<Out>,
    ) {
        self.serving.left(now, member, out);
        self.fetch(now, facts, FetchInput::Disconnected(member), out);
    }

    /// Tells a member what this replica has at borders.
    fn tell_reports(&self, to: ReplicaId, out: &mut Vec<Out>) {
        for (seq, report) in self.agreement.own_reports() {
            let (digest, held) = (report.digest, report.held);
            out.push(self.serving.send(to, StateMessage::Digest { seq, digest, held }));
        }
    }

    /// A peer fetches a checkpoint from here.
    fn serve(&mut self, now: Time, from: ReplicaId, message: StateMessage, out: &mut Vec<Out>) {
        let (seq, _) = message.about();
        self.serving.asked(now, from, message, self.own.has(seq), out);
    }

    /// The checkpoints that can be fetched may have changed.
    pub(super) fn offer(&mut self, now: Time, facts: &Facts, out: &mut Vec<Out>) {
        if let Some(at_least) = self.transfer.at_least() {
            let offers = self.agreement.offers(at_least);
            self.fetch(now, facts, FetchInput::Offers(offers), out);
        }
        if self.rot.lacks() {
            self.rot.ask(now, &self.agreement, out);
        }
    }

    /// A leader's log does not go back to what this replica lacks.
    pub(super) fn on_behind(&mut self, now: Time, facts: &Facts, seq: Seq, out: &mut Vec<Out>) {
        if self.transfer.is_behind(now, seq) {
            self.offer(now, facts, out);
        }
        out.push(Out::Then(Rest::Behind(seq)));
    }

    /// Fetches a checkpoint of this seq or later, unless one is being fetched.
    pub(super) fn fetch_behind(&self, now: Time, seq: Seq, out: &mut Vec<Out>) {
        if !self.transfers() {
            out.push(Out::Fetch(Need { told: Some(now), ..Need::new(seq, Why::Behind) }));
        }
    }

    /// The other replicas went on without something that this one waits for. If none has a later checkpoint, they may not have made one
    /// yet.
    pub(super) fn on_left_behind(&mut self, now: Time, facts: &Facts, seq: Seq, out: &mut Vec<Out>) {
        if self.agreement.offers(seq).is_empty() {
            return self.want_border(now, facts, out);
        }
        out.push(Out::Fetch(Need::new(seq, Why::Behind)));
    }

    /// Begins to fetch.
    pub(super) fn begin_fetch(
        &mut self,
        now: Time,
        facts: &Facts,
        need: Need,
        connected: &[ReplicaId],
        out: &mut Vec<Out>,
    ) {
        out.push(Out::notice(format!(
            "fetching a checkpoint of seq {:#} or later from the other replicas: {}",
            need.at_least,
            need.why.name()
        )));
        for kept in self.transfer.begin(now, need, self.config.fetch.clone()) {
            self.fetch(now, facts, FetchInput::Kept(kept), out);
        }
        for member in connected {
            self.fetch(now, facts, FetchInput::Connected(*member), out);
        }
        self.offer(now, facts, out);
    }

    /// Gives an input to the fetch under way, if there is one.
    pub(super) fn fetch(&mut self, now: Time, facts: &Facts, input: FetchInput, out: &mut Vec<Out>) {
        for effect in self.transfer.step(now, input) {
            match effect {
                FetchEffect::Send { to, message } => out.push(Out::Send { to, message }),
                FetchEffect::Begun { seq, digest } => out.push(Out::notice(format!(
                    "fetching the checkpoint of seq {seq:#} with digest {digest:?}"
                ))),
                FetchEffect::Grew(growth) => out.push(Out::job(Job::Grow(growth))),
                FetchEffect::Lied { source, seq, lie, .. } => {
                    out.push(Out::CountWrong);
                    out.push(Out::alarm(format!(
                        "{source} sent wrong bytes of the checkpoint of seq {seq:#}: {lie:?}"
                    )));
                }
                FetchEffect::Stalled { source } => out.push(Out::notice(format!(
                    "{source} does not send what it was asked for; others are asked"
                ))),
                FetchEffect::NotHeld { source, seq, digest } => {
                    self.agreement.not_held(source, seq, digest);
                    self.offer(now, facts, out);
                }
                FetchEffect::StartedOver { seq, found, .. } => {
                    out.push(Out::forget_partial());
                    out.push(Out::alarm(format!(
                        "what was put together for seq {seq:#} has digest {found:?} although every part was right: this machine's memory \
                         can not be trusted. The transfer begins again with nothing"
                    )));
                }
                FetchEffect::Done(fetched) => self.on_fetched(facts, *fetched, out),
            }
        }
    }

    fn on_fetched(&mut self, facts: &Facts, fetched: Fetched, out: &mut Vec<Out>) {
        out.push(match self.transfer.fetched(fetched, facts.delivered) {
            Some(found) => Out::Examine(Box::new(found)),
            // What was missing came in the log meanwhile.
            None => Out::forget_partial(),
        });
    }

    /// A whole, verified checkpoint is here. If this replica can go on from it, it is made durable first.
    pub(super) fn on_examined(
        &mut self,
        facts: &Facts,
        found: Found,
        verdict: Result<Box<System>, Unfit>,
        out: &mut Vec<Out>,
    ) {
        let Found { seq, border, digests, system: part, store, why, own } = found;
        let later = Need { local: Some(store.version()), ..Need::new(seq.next(), why) };
        let system = match verdict {
            Ok(system) => *system,
            Err(Unfit::Stops(halt)) => return out.push(Out::Halt(halt)),
            Err(Unfit::Unusable(error)) => {
                self.in_trouble(
                    format!("the agreed checkpoint of seq {seq:#} can not be used: {error}"),
                    out,
                );
                // A replica that needs a state has none until a usable one comes.
                out.push(Out::forget_partial());
                return out.push(Out::Fetch(Need { own, ..later }));
            }
            Err(Unfit::TooEarly) => {
                out.push(Out::notice(format!(
                    "the checkpoint of seq {seq:#} does not hold all that this replica may have acknowledged"
                )));
                out.push(Out::forget_partial());
                return out.push(Out::Fetch(later));
            }
        };
        if let Some(own) = own {
            let same = own.state.filter(|_| own.seq == seq).map(|state| state == digests.state);
            let differing = differing_keys(&own.objects, &store, KEYS_TOLD);
            out.push(Out::alarm(difference(seq, same, &differing)));
            out.push(Out::Release(own.objects));
        }
        let image = Image { seq, border, system: part, objects: store.version() };
        self.transfer.holds(Installing { image, system, digests, why });
        let image = self.next_install();
        if planted("installed-before-durable") {
            self.install(facts, out);
        }
        out.extend(image.map(|image| Out::job(Job::Install { image })));
    }

    /// The fetched image that must be made durable in place of all later checkpoints.
    fn next_install(&mut self) -> Option<Image> {
        let Installing { image, why, .. } = self.transfer.installing()?;
        let newest = self.own.newest();
        assert!(
            *why == Why::Diverged || image.seq > newest,
            "INV-NODE-9: the checkpoint of {newest} is not given up for that of {}",
            image.seq
        );
        self.own.give_up(image.seq);
        Some(image.clone())
    }

    /// Tries again to make a fetched checkpoint durable, if it is still of use.
    fn install_again(&mut self, facts: &Facts, out: &mut Vec<Out>) {
        if self.transfer.drop_late(facts.delivered) {
            out.push(Out::forget_partial());
        }
        out.extend(self.next_install().map(|image| Out::job(Job::Install { image })));
    }

    /// A border is needed out of turn: asks the leader to order one.
    pub(super) fn want_border(&mut self, now: Time, facts: &Facts, out: &mut Vec<Out>) {
        let newest = self.agreement.newest();
        let (seq, digest) = newest.unwrap_or((Seq::ZERO, Digest::new([0; 32])));
        let message = StateMessage::WantBorder { seq, digest };
        self.asking.asked(now, facts.leader.is_some());
        match facts.leader {
            Some(leader) if leader == self.config.me => self.asking.order(),
            Some(to) => out.push(Out::Send { to, message }),
            // A replica that takes no part does not know the leader, nor does one that joins and knows none of those that lead now. Those who do
            // pass the request on.
            None if !facts.begun || self.transfer.at_least().is_some() => out.push(Out::Tell(message)),
            None => {}
        }
    }

    fn on_want_border(&mut self, now: Time, facts: &Facts, after: Seq, out: &mut Vec<Out>) {
        // A checkpoint that was agreed on since, or is under way, serves as well.
        let newer = self.agreement.newest().is_some_and(|(seq, _)| seq > after);
        if !newer && !self.asking.lately(now) {
            self.want_border(now, facts, out);
        }
    }

    /// When to ask for a border again: this replica finds no checkpoint to fetch, has lost one, has a full disk, or asked too early. The
    /// replica that was asked may not have led, or may have ordered a border just before.
    pub(super) fn ask_due(&self) -> Option<Time> {
        let nothing = |at_least| self.agreement.offers(at_least).is_empty();
        let nothing = self.transfer.at_least().is_some_and(nothing);
        let replaces = self.rot.lost_one() && self.own.writing().is_none();
        let needed = nothing || replaces || self.borders.is_owed();
        let needed = needed.then(|| self.asking.again_at());
        needed.into_iter().chain(self.asking.short_at()).min()
    }

    /// Does the rest of what is due.
    pub(super) fn on_deadline(&mut self, now: Time, facts: &Facts, out: &mut Vec<Out>) {
        if self.rot.deadline().is_some_and(|at| at <= now) {
            self.rot.ask(now, &self.agreement, out);
        }
        if self.transfer.installs_again(now) {
            self.install_again(facts, out);
        }
        if self.ask_due().is_some_and(|at| at <= now) {
            self.want_border(now, facts, out);
        }
    }

    /// Begins to read everything at rest, if it is time.
    pub(super) fn scrub_in_turn(&mut self, now: Time, facts: &Facts, out: &mut Vec<Out>) {
        let Some(every) = self.config.scrub_every else { return };
        if self.scrubs.is_due(now, every) && self.config.at_rest {
            self.scrubs.begin(facts.first_segment, out);
        }
    }

    /// A segment of the log was read.
    pub(super) fn on_scrubbed(
        &mut self,
        now: Time,
        facts: &Facts,
        segment: u64,
        result: Result<ScrubOk, Rot>,
        out: &mut Vec<Out>,
    ) {
        match self.scrubs.read(segment, result, facts.first_segment, out) {
            Read::Another => return,
            Read::Sound => {}
            Read::Damaged => self.want_border(now, facts, out),
        }
        out.push(Out::ReadSegment(segment + 1));
    }
}
