//! The state beside the path: at borders it is captured, its digest is compared with the others', what a replica lacks is fetched, and
//! the log is trimmed. `keeping/` holds what is known of it all; this file does what follows from it.
//!
//! Sources: deterministic fuzzy checkpoints (000, section 5.2), state transfer (003, section 2.3.2). Docs: docs/protocols/state.md.

use crate::effects::{Effect, Effects, Event, KeeperWork, Unneeded};
use crate::keeping::borders::{Executed, Point};
use crate::keeping::{Diverged, Fetching, Installing, Own, Why};
use crate::levels::WITH_FEW_BORDERS;
use crate::merging::FIRST;
use crate::node::Node;
use crate::ordering::Instance;
use crate::recovered::piece;
use crate::system::{InstancePart, System};
use quorate_merge::{Generation, InstanceAt, RecordIndex};
use quorate_order::Input as OrderInput;
use quorate_state::agreement::{Report as Said, Verdict};
use quorate_state::checkpoint::{Image, Job, Kind, Report};
use quorate_state::store::{Store, Version};
use quorate_state::transfer::{
    Answer, Differing, Effect as FetchEffect, Fetch, Fetched, Input as FetchInput, ServeEffect, ServeInput,
    differing_keys,
};
use quorate_types::{ConnId, Digest, Halt, ReplicaId, Room, Seq, Slot, Span, Time, planted};
use quorate_wire::{Batch, BatchHeader, RefusedWhy, StateMessage};

/// Bytes of a tracked service's objects that are copied after each batch while a border comes near.
const COPY_BYTES: usize = 256 << 10;
/// How often at most a border is asked for out of turn.
const ASK_AGAIN: Span = Span::from_secs(2);
/// When to try again to write a checkpoint that was fetched.
const INSTALL_AGAIN: Span = Span::from_secs(2);
/// So many differing keys are told.
const KEYS_TOLD: usize = 16;

impl Node {
    /// A batch was executed: perhaps a border is near, or here.
    pub(crate) fn on_executed(&mut self, seq: Seq, batch: &Batch, out: &mut Effects) {
        self.drop_needless_fetch(seq, out);
        if self.checkpoints.borders.nears() {
            self.executor.prepare_image(COPY_BYTES);
        }
        let executed = Executed {
            bytes: batch.bytes().len() as u64,
            asks: batch.header().border,
            bounded: self.may_lie() && self.level() >= WITH_FEW_BORDERS,
            time: self.executor.time(),
        };
        match self.checkpoints.borders.executed(executed) {
            None => {}
            // What this replica has now is not what is agreed on: nobody needs a checkpoint of it.
            Some(_) if self.checkpoints.diverged.is_some() => {}
            Some(Point::Ahead(border)) => {
                if let Some(version) = self.executor.objects() {
                    keep(out, Job::Ahead { border, version });
                }
            }
            Some(Point::Border(border)) => self.on_border(border, seq, out),
        }
    }

    /// What this replica lacked came by in the log after all, from another leader.
    fn drop_needless_fetch(&mut self, seq: Seq, out: &mut Effects) {
        if self.checkpoints.drop_late(seq) {
            keep(out, Job::ForgetPartial);
        }
        if self.instances.len() > 1 {
            // See on_behind: that something was executed does not mean that nothing is lacking. But a leader says so again and again.
            let (now, long) = (self.now, self.config.order.patience().times(2));
            let over = |fetching: &mut Fetching| {
                let told = fetching.told.is_none_or(|told| now.since(told) > long);
                fetching.why == Why::Behind && seq >= fetching.at_least && told
            };
            if self.checkpoints.fetching.take_if(over).is_some() {
                keep(out, Job::ForgetPartial);
            }
            return;
        }
        let needless = |fetching: &mut Fetching| fetching.why == Why::Behind && seq >= fetching.at_least;
        if self.checkpoints.fetching.take_if(needless).is_some() {
            keep(out, Job::ForgetPartial);
        }
    }

    /// An earlier run kept parts of a transfer that this one, which has come to a border by the log, does not need.
    fn drop_needless_partial(&mut self, out: &mut Effects) {
        if !self.checkpoints.transfers() && !self.partial.is_empty() {
            self.partial = Vec::new();
            keep(out, Job::ForgetPartial);
        }
    }

    fn on_border(&mut self, border: u64, seq: Seq, out: &mut Effects) {
        self.drop_needless_partial(out);
        let parts = match self.executor.image() {
            Ok(parts) => parts,
            Err(why) => {
                let text = format!("the service can not give its state at seq {seq}: {why}");
                self.checkpoints.trouble = Some(text.clone());
                return out.event(Event::State { text, bad: true });
            }
        };
        let merge = self.merge.checkpoint();
        assert_eq!(merge.seq, seq, "INV-NODE-8 the merge stands at the border");
        assert_eq!(
            merge.instances.len(),
            self.instances.len(),
            "INV-STAY-1 each instance of the merge has a stay in force"
        );
        let instances: Vec<InstancePart> = self.instances.iter().zip(&merge.instances).map(part).collect();
        self.checkpoints.records.insert(seq, instances.iter().map(|part| part.record).collect());
        let always_one = merge.next.is_none() && merge.generation == Generation::begin(1);
        let system = System {
            cluster: self.config.members.cluster(),
            seq,
            border,
            window: if always_one { 0 } else { merge.window },
            generations: [merge.generation].into_iter().chain(merge.next).collect(),
            instances,
            roster: self.roster.clone(),
            level: self.level_of_checkpoints(),
            executor: parts.system.into(),
        };
        let image = Image { seq, border, system: system.encode(), objects: parts.objects };
        self.checkpoints.borders.measured(image.objects.bytes());
        if let Some(old) = self.checkpoints.remember(seq, image.objects.clone()) {
            out.push(Effect::Release(Unneeded(old)));
        }
        self.checkpoints.last = Some((seq, None));
        let writing = self.checkpoints.borders.writes(border);
        let write = writing.map(|writing| if writing.full { Kind::Full } else { Kind::Differential });
        if write.is_some() {
            self.checkpoints.writing.insert(seq);
        }
        let stops = writing.is_some_and(|writing| writing.stops);
        out.push(Effect::Keep(KeeperWork { job: Job::Border { image, write }, stops }));
    }

    /// The keeper did or found something.
    pub(crate) fn on_kept(&mut self, now: Time, report: Report, out: &mut Effects) {
        match report {
            Report::GaveUp { .. } => drop(self.checkpoints.giving_up.pop_front()),
            // They were on their way when the keeper was told to give them up.
            Report::Digest { seq, .. } if self.checkpoints.gives_up(seq) => {}
            Report::Written { seq, .. } if self.checkpoints.gives_up(seq) => self.not_written(seq, None, out),
            Report::Digest { seq, digest, .. } => self.on_digest(now, seq, digest, false, out),
            Report::Written { seq, digest, .. } => self.on_written(now, seq, digest, out),
            Report::Skipped { seq } => self.not_written(seq, None, out),
            Report::NoRoom { seq } => {
                let text = format!("the disk is full: the checkpoint of seq {seq} was not written");
                self.not_written(seq, Some(text), out);
            }
            Report::Failed { what, sync: true } => {
                out.push(Effect::Halt(Halt::LogWriteFailed { why: what }));
            }
            Report::Failed { what, sync: false } => self.on_keeper_failed(what, out),
            Report::Manifest { ticket, answer } => {
                let answer = answer.map_or(Answer::NotHeld, |part| Answer::Manifest {
                    total: part.total,
                    bytes: part.bytes,
                });
                self.serve(now, ServeInput::Answered { ticket, answer }, out);
            }
            Report::Chunk { ticket, answer } => {
                // One rotten chunk does not mean that the others are not here.
                let none = if self.checkpoints.rotten.len() > 0 { Answer::Rotten } else { Answer::NotHeld };
                let answer = answer.map_or(none, |bytes| Answer::Chunk { bytes });
                self.serve(now, ServeInput::Answered { ticket, answer }, out);
            }
            Report::Rot { seq, digest, file, place } => self.on_rot(now, (seq, place), digest, file, out),
            Report::Repaired { seq, place } => self.on_repaired(seq, place, out),
            Report::NotRepaired { seq, chunk } => self.on_not_repaired(now, seq, chunk, out),
            Report::Gone { seq, file } => self.on_gone(seq, &file),
            Report::ScrubDone { bytes } => {
                self.checkpoints.scrubs += 1;
                self.checkpoints.scrubbed = Some((bytes, now));
            }
        }
    }

    fn on_keeper_failed(&mut self, what: String, out: &mut Effects) {
        let text = format!("a checkpoint could not be written or read: {what}");
        self.checkpoints.trouble = Some(text.clone());
        out.event(Event::State { text, bad: true });
        self.install_later();
    }

    fn not_written(&mut self, seq: Seq, trouble: Option<String>, out: &mut Effects) {
        self.checkpoints.writing.remove(&seq);
        let Some(text) = trouble else {
            // Execution went on by the log meanwhile, and its next border pushed the fetched checkpoint out.
            if self.checkpoints.installing.as_ref().is_some_and(|installing| installing.image.seq == seq) {
                self.install_later();
            }
            return;
        };
        self.checkpoints.trouble = Some(text.clone());
        out.event(Event::State { text, bad: true });
        self.install_later();
    }

    /// What was fetched could not be made durable: there may be room later.
    fn install_later(&mut self) {
        if self.checkpoints.installing.is_some() {
            self.checkpoints.install_at = Some(self.now.plus(INSTALL_AGAIN));
        }
    }

    fn on_written(&mut self, now: Time, seq: Seq, digest: Digest, out: &mut Effects) {
        self.checkpoints.writing.retain(|other| *other > seq);
        self.checkpoints.trouble = None;
        self.checkpoints.written(Own { seq, digest, log_position: self.log.position() });
        if self.checkpoints.installing.as_ref().is_some_and(|installing| installing.image.seq == seq) {
            self.install(now, out);
        }
        self.on_replaced(seq, out);
        self.on_digest(now, seq, digest, true, out);
        self.trim(now, out);
    }

    /// This replica has a digest at a border, or has the checkpoint in a durable file.
    fn on_digest(&mut self, now: Time, seq: Seq, digest: Digest, held: bool, out: &mut Effects) {
        if self.checkpoints.diverged.is_some() && !held {
            return;
        }
        if let Some((last, known)) = &mut self.checkpoints.last
            && *last == seq
        {
            *known = Some(digest);
        }
        let verdicts = self.checkpoints.agreement.own(seq, digest, held);
        self.tell_own(seq, out);
        self.on_verdicts(now, verdicts, out);
    }

    /// Says to all what this replica has at a border.
    pub(crate) fn tell_own(&self, seq: Seq, out: &mut Effects) {
        if let Some(Said { digest, held }) = self.checkpoints.agreement.own_report(seq) {
            self.tell_all(&StateMessage::Digest { seq, digest, held }, out);
        }
    }

    fn tell_all(&self, message: &StateMessage, out: &mut Effects) {
        for member in self.config.members.others() {
            self.tell(member.replica, message, out);
        }
    }

    pub(crate) fn tell(&self, to: ReplicaId, message: &StateMessage, out: &mut Effects) {
        if let Some(conn) = self.peers.to(to).or_else(|| self.checkpoints.operators.get(&to).copied()) {
            out.send(conn, message.frame());
        }
    }

    /// An operator asks for checkpoints, to make a backup: served like a member, under a number of its own.
    pub(crate) fn on_operator_asks(
        &mut self,
        now: Time,
        conn: ConnId,
        message: StateMessage,
        out: &mut Effects,
    ) -> Result<(), &'static str> {
        let members = &self.config.members;
        let is_member = |id| members.all().iter().any(|member| member.replica == id);
        let from = self.checkpoints.operator(conn, is_member);
        let from = from.ok_or("there are too many operators who make backups")?;
        match message {
            StateMessage::WantBorder { seq, .. } => {
                let reports: Vec<_> = self.checkpoints.agreement.own_reports().collect();
                for (seq, report) in reports {
                    let (digest, held) = (report.digest, report.held);
                    self.tell(from, &StateMessage::Digest { seq, digest, held }, out);
                }
                self.on_want_border(now, seq, out);
            }
            StateMessage::FetchManifest { .. } | StateMessage::FetchChunks { .. } => {
                self.asked(now, from, message, out);
            }
            _ => return Err("an operator sends what only members say about the state"),
        }
        Ok(())
    }

    /// A connection ended; perhaps it was an operator's.
    pub(crate) fn operator_left(&mut self, now: Time, conn: ConnId, out: &mut Effects) {
        let operators = &mut self.checkpoints.operators;
        if let Some(number) = operators.iter().find(|(_, of)| **of == conn).map(|(number, _)| *number) {
            operators.remove(&number);
            self.change_holds(|holds| holds.left(number), out);
            self.serve(now, ServeInput::Disconnected(number), out);
        }
    }

    /// A member is connected from now on: it hears what this replica said while it was away.
    pub(crate) fn greet(&mut self, now: Time, member: ReplicaId, out: &mut Effects) {
        let reports: Vec<_> = self.checkpoints.agreement.own_reports().collect();
        for (seq, report) in reports {
            let message = StateMessage::Digest { seq, digest: report.digest, held: report.held };
            self.tell(member, &message, out);
        }
        self.fetch_step(now, FetchInput::Connected(member), out);
    }

    pub(crate) fn lost(&mut self, now: Time, member: ReplicaId, out: &mut Effects) {
        self.change_holds(|holds| holds.left(member), out);
        self.serve(now, ServeInput::Disconnected(member), out);
        self.fetch_step(now, FetchInput::Disconnected(member), out);
    }

    /// A member says something about the state.
    pub(crate) fn on_state_message(
        &mut self,
        now: Time,
        from: ReplicaId,
        message: StateMessage,
        out: &mut Effects,
    ) {
        match message {
            StateMessage::Digest { seq, digest, held } => {
                let verdicts = self.checkpoints.agreement.heard(from, seq, digest, held);
                self.on_verdicts(now, verdicts, out);
                let newest = self.checkpoints.own.back().map_or(Seq::ZERO, |own| own.seq);
                self.change_holds(|holds| holds.reached(from, seq, newest), out);
                self.trim(now, out);
            }
            StateMessage::FetchManifest { .. } | StateMessage::FetchChunks { .. } => {
                self.asked(now, from, message, out);
            }
            StateMessage::WantBorder { seq, .. } => self.on_want_border(now, seq, out),
            StateMessage::Chunk { seq, digest, chunk, ref bytes }
                if self.checkpoints.repairs.takes(from, seq, digest, chunk) =>
            {
                self.repair(seq, chunk, bytes.clone(), out);
            }
            StateMessage::Manifest { .. } | StateMessage::Chunk { .. } | StateMessage::Refused { .. } => {
                if let StateMessage::Refused { seq, digest, why, .. } = &message {
                    self.checkpoints.repairs.refused(from, *seq);
                    if *why == RefusedWhy::NotHeld {
                        self.checkpoints.agreement.not_held(from, *seq, *digest);
                    }
                }
                self.fetch_step(now, FetchInput::Receive { from, message }, out);
            }
        }
    }

    pub(crate) fn on_verdicts(&mut self, now: Time, verdicts: Vec<Verdict>, out: &mut Effects) {
        self.checkpoints.note_stable();
        for verdict in verdicts {
            match verdict {
                Verdict::Agreed { seq, .. } => {
                    if self.checkpoints.none_agree.as_ref().is_some_and(|(at, _)| *at <= seq) {
                        self.checkpoints.none_agree = None;
                    }
                    for old in self.checkpoints.forget_recent(seq) {
                        out.push(Effect::Release(Unneeded(old)));
                    }
                    // What is held may be fetched from now on.
                    if self.checkpoints.agreement.own_report(seq).is_some_and(|own| own.held) {
                        self.tell_own(seq, out);
                    }
                }
                Verdict::OwnDiffers { seq, own, agreed, by } => self.on_diverged(now, seq, own, agreed, &by, out),
                Verdict::OtherDiffers { seq, member, digest, agreed } => out.event(Event::State {
                    text: format!(
                        "{member} has diverged: its state at seq {seq} has digest {digest:?}, the agreed one is {agreed:?}"
                    ),
                    bad: true,
                }),
                Verdict::NoneAgree { seq, digests } => {
                    let text = none_agree(seq, &digests);
                    self.checkpoints.none_agree = Some((seq, digests));
                    out.event(Event::State { text, bad: true });
                }
                Verdict::Restated { seq, member, was, now } => out.event(Event::State {
                    text: format!("{member} says of its state at seq {seq} {now:?} now, and said {was:?} before"),
                    bad: false,
                }),
            }
        }
        self.offer(now, out);
    }

    /// What can be fetched may have changed.
    fn offer(&mut self, now: Time, out: &mut Effects) {
        if let Some(fetching) = &self.checkpoints.fetching {
            let offers = self.checkpoints.agreement.offers(fetching.at_least);
            self.fetch_step(now, FetchInput::Offers(offers), out);
        }
        if self.checkpoints.repairs.len() > 0 {
            self.ask_for_repairs(now, out);
        }
    }

    /// This replica's state is not what the members agree on: it stops answering reads, hands over, and fetches what differs.
    fn on_diverged(
        &mut self,
        now: Time,
        seq: Seq,
        own: Digest,
        agreed: Digest,
        by: &[ReplicaId],
        out: &mut Effects,
    ) {
        if self.checkpoints.diverged.is_some() || planted("divergence-ignored") {
            return;
        }
        // What it says of a border before the checkpoint that its state came from is not about this state; and the log may begin
        // only after that checkpoint, which must not be given up.
        if seq < self.checkpoints.base {
            return;
        }
        let by: Vec<String> = by.iter().map(ToString::to_string).collect();
        let text = format!(
            "the state of this replica at seq {seq} has digest {own:?}, and {} agree on {agreed:?}: it answers no reads until it is \
             repaired from them",
            by.join(", ")
        );
        out.event(Event::State { text, bad: true });
        self.checkpoints.diverged = Some(Diverged { seq, own, agreed });
        // Nothing of what it wrote since is of use, except to start from.
        let above = self.checkpoints.diverged_above(seq);
        self.checkpoints.own.retain(|own| own.seq <= above);
        (self.checkpoints.installing, self.checkpoints.install_at) = (None, None);
        self.checkpoints.agreement.forget_own(seq);
        self.checkpoints.giving_up.push_back(above);
        keep(out, Job::Discard { above });
        let version = self.checkpoints.version_at(seq);
        for old in self.checkpoints.forget_recent_from(Seq::ZERO) {
            out.push(Effect::Release(Unneeded(old)));
        }
        let local = version.clone().or_else(|| self.executor.objects());
        // The log begins only after its floor: an older state would not do.
        let at_least = seq.max(self.checkpoints.gone);
        self.begin_fetch(now, at_least, Why::Diverged, local, version, out);
        self.step_led(now, &OrderInput::Transfer(None));
        self.after_order(now, out);
    }

    /// A leader does not have the log any more that this replica lacks.
    pub(crate) fn on_behind(&mut self, at: usize, now: Time, slot: Slot, out: &mut Effects) {
        // Of many instances nobody knows which seq such a record has. A checkpoint that is here already is no help: the leader's log may begin
        // after a record that has no seq.
        let exact = || self.merge.estimate(self.instances[at].id, RecordIndex(slot.number()));
        let next = self.merge.seq().next();
        let seq = if self.instances.len() == 1 { exact().max(next) } else { next };
        if let Some(fetching) = &mut self.checkpoints.fetching {
            fetching.told = Some(now);
            // Another leader's log may begin earlier, and what the one before had may be lost.
            if fetching.why == Why::Behind && seq < fetching.at_least {
                fetching.at_least = seq;
                fetching.fetch.takes_from(seq);
                self.offer(now, out);
            }
        }
        if self.checkpoints.transfers() {
            return;
        }
        let local = self.executor.objects();
        self.begin_fetch(now, seq, Why::Behind, local, None, out);
        if let Some(fetching) = &mut self.checkpoints.fetching {
            fetching.told = Some(now);
        }
    }

    pub(crate) fn begin_fetch(
        &mut self,
        now: Time,
        at_least: Seq,
        why: Why,
        local: Option<Version>,
        own: Option<Version>,
        out: &mut Effects,
    ) {
        assert!(
            self.checkpoints.installing.is_none(),
            "INV-NODE-10: nothing is fetched while what was fetched is made durable"
        );
        let text = format!(
            "fetching a checkpoint of seq {at_least} or later from the other replicas: {}",
            why.name()
        );
        out.event(Event::State { text, bad: false });
        let local = local.unwrap_or_else(|| Store::new().version());
        let fetch = Fetch::new(now, at_least, local, self.config.fetch.clone());
        self.checkpoints.fetching = Some(Fetching { since: now, told: None, fetch, why, at_least, own });
        for kept in std::mem::take(&mut self.partial) {
            self.fetch_step(now, FetchInput::Kept(kept), out);
        }
        let up: Vec<ReplicaId> =
            self.peers.peers().filter(|(_, _, up, _)| *up).map(|(replica, ..)| replica).collect();
        for member in up {
            self.fetch_step(now, FetchInput::Connected(member), out);
        }
        self.offer(now, out);
    }

    pub(crate) fn fetch_step(&mut self, now: Time, input: FetchInput, out: &mut Effects) {
        let Some(fetching) = &mut self.checkpoints.fetching else { return };
        let mut effects = Vec::new();
        fetching.fetch.step(now, input, &mut effects);
        for effect in effects {
            self.on_fetch_effect(now, effect, out);
        }
    }

    fn on_fetch_effect(&mut self, now: Time, effect: FetchEffect, out: &mut Effects) {
        match effect {
            FetchEffect::Send { to, message } => self.tell(to, &message, out),
            FetchEffect::Begun { seq, digest } => out.event(Event::State {
                text: format!("fetching the checkpoint of seq {seq} with digest {digest:?}"),
                bad: false,
            }),
            FetchEffect::Keep(kept) => keep(out, Job::Partial(piece(kept))),
            FetchEffect::Lied { source, seq, lie, .. } => {
                self.counts.rejected += 1;
                out.event(Event::State {
                    text: format!("{source} sent wrong bytes of the checkpoint of seq {seq}: {lie:?}"),
                    bad: true,
                });
            }
            FetchEffect::Stalled { source } => out.event(Event::State {
                text: format!("{source} does not send what it was asked for; others are asked"),
                bad: false,
            }),
            FetchEffect::NotHeld { source, seq, digest } => {
                self.checkpoints.agreement.not_held(source, seq, digest);
                self.offer(now, out);
            }
            FetchEffect::StartedOver { seq, found, .. } => out.event(Event::State {
                text: format!(
                    "what was put together for seq {seq} has digest {found:?} although every part was right: this machine's memory can \
                     not be trusted. The transfer begins again with nothing"
                ),
                bad: true,
            }),
            FetchEffect::Done(fetched) => self.on_fetched(now, *fetched, out),
        }
    }

    /// A whole, verified checkpoint is here; it becomes durable before anything goes on from it.
    fn on_fetched(&mut self, now: Time, fetched: Fetched, out: &mut Effects) {
        let Some(Fetching { why, own, .. }) = self.checkpoints.fetching.take() else { return };
        let Fetched { manifest, system: bytes, store } = fetched;
        let (seq, digest) = (manifest.seq(), manifest.digest());
        if why == Why::Behind && seq <= self.executor.seq() {
            // It came by in the log meanwhile.
            return keep(out, Job::ForgetPartial);
        }
        let system = match System::decode(&bytes).and_then(|system| system.check(&self.config, seq)) {
            Ok(system) => system,
            Err(error) => {
                let text = format!("the agreed checkpoint of seq {seq} can not be used: {error}");
                self.checkpoints.trouble = Some(text.clone());
                out.event(Event::State { text, bad: true });
                // Whoever needs a state has none before one comes that can be used.
                keep(out, Job::ForgetPartial);
                return self.begin_fetch(now, seq.next(), why, Some(store.version()), own, out);
            }
        };
        if let Err(halt) = self.config.level.check(system.level) {
            return out.push(Effect::Halt(halt));
        }
        if !self.has_begun() && self.needs_checkpoint() {
            let lacks = |(instance, part): (&Instance, &InstancePart)| {
                instance.order.needs_checkpoint() && !instance.order.covers(part.record, &part.anchor)
            };
            if self.instances.iter().zip(&system.instances).any(lacks) {
                let text = format!(
                    "the checkpoint of seq {seq} does not hold all that this replica may have acknowledged"
                );
                out.event(Event::State { text, bad: false });
                keep(out, Job::ForgetPartial);
                return self.begin_fetch(now, seq.next(), why, Some(store.version()), None, out);
            }
        }
        if let Some(own) = own {
            tell_difference(seq, &differing_keys(&own, &store, KEYS_TOLD), out);
            out.push(Effect::Release(Unneeded(own)));
        }
        let image = Image { seq, border: manifest.border(), system: bytes, objects: store.version() };
        self.checkpoints.installing = Some(Installing { image, system, digest, why });
        let image = self.checkpoints.next_install();
        if planted("installed-before-durable") {
            self.install(now, out);
        }
        if let Some(image) = image {
            keep(out, Job::Install { image });
        }
    }

    /// What was fetched and could not be made durable is tried again, if it is still of use.
    fn install_again(&mut self, out: &mut Effects) {
        self.checkpoints.install_at = None;
        if self.checkpoints.drop_late(self.executor.seq()) {
            keep(out, Job::ForgetPartial);
        }
        if let Some(image) = self.checkpoints.next_install() {
            keep(out, Job::Install { image });
        }
    }

    /// The fetched checkpoint is durable: execution and ordering go on from it.
    fn install(&mut self, now: Time, out: &mut Effects) {
        let Some(Installing { image, system, digest, why }) = self.checkpoints.installing.take() else {
            return;
        };
        let seq = image.seq;
        keep(out, Job::ForgetPartial);
        if why == Why::Behind && seq <= self.executor.seq() {
            return;
        }
        if let Err(error) = self.executor.restore_image(&system.executor, &image.objects) {
            let why = format!("the agreed checkpoint of seq {seq} can not be restored: {error}");
            return out.push(Effect::Halt(Halt::CheckpointUnusable { why }));
        }
        self.roster = system.roster.clone();
        self.take_level(system.level);
        self.meet_borders();
        self.checkpoints.borders.resume(image.border, self.executor.time(), image.objects.bytes());
        self.checkpoints.diverged = None;
        if why == Why::Diverged {
            self.disown(seq, out);
        }
        self.checkpoints.base = seq;
        self.checkpoints.last = Some((seq, Some(digest)));
        let text = format!("goes on from the checkpoint of seq {seq}, no longer: {}", why.name());
        out.event(Event::State { text, bad: false });
        let new = match self.jump(now, &system) {
            Ok(new) => new,
            Err(halt) => return out.push(Effect::Halt(halt)),
        };
        self.executor.set_leaders(self.leads_many(), self.may_lie());
        self.heard_caught_up();
        self.learn_time(now);
        self.checkpoints.records.insert(seq, system.records());
        self.gave_up(seq);
        self.fall_asleep(seq, out);
        self.standing.changed = true;
        if self.has_begun() {
            // Before anything is executed: the next border names where each of them stands.
            self.wake_new(now, &new);
        }
        // What an instance that stays where it is said before.
        self.deliver(now, out);
        if self.has_begun() {
            self.resume_change(now);
            self.after_order(now, out);
        } else {
            self.begin(now, out);
        }
    }

    /// The state was repaired by this checkpoint. Nobody knows how long it had been wrong before that was seen: what was written then is for
    /// nobody, and nothing that was said of it counts.
    fn disown(&mut self, repaired: Seq, out: &mut Effects) {
        self.checkpoints.own.retain(|own| own.seq >= repaired);
        self.checkpoints.agreement.forget_own(Seq::ZERO);
        self.checkpoints.forgotten = self.checkpoints.forgotten.max(repaired);
        keep(out, Job::Forget { keep: repaired });
    }

    /// Somebody fetches a checkpoint from here: it stays meanwhile.
    fn asked(&mut self, now: Time, from: ReplicaId, message: StateMessage, out: &mut Effects) {
        let (seq, _) = message.about();
        let here = self.checkpoints.own.iter().any(|own| own.seq == seq);
        self.change_holds(|holds| holds.asked(now, from, seq, here), out);
        self.serve(now, ServeInput::Asked { from, message }, out);
    }

    pub(crate) fn serve(&mut self, now: Time, input: ServeInput, out: &mut Effects) {
        let mut effects = Vec::new();
        self.checkpoints.serve.step(now, input, &mut effects);
        for effect in effects {
            match effect {
                ServeEffect::Send { to, message } => self.tell(to, &message, out),
                ServeEffect::ReadManifest { ticket, seq, digest, offset, len } => {
                    keep(out, Job::ReadManifest { ticket, seq, digest, offset, max: len as usize });
                }
                ServeEffect::ReadChunk { ticket, seq, digest, chunk } => {
                    keep(out, Job::ReadChunk { ticket, seq, digest, chunk });
                }
            }
        }
    }

    /// A border is needed before its turn: whoever leads puts one into the log.
    pub(crate) fn want_border(&mut self, now: Time, out: &mut Effects) {
        let newest = self.checkpoints.agreement.newest();
        let (seq, digest) = newest.unwrap_or((Seq::ZERO, Digest::new([0; 32])));
        self.checkpoints.asked_at = Some(now);
        match self.first().leader.1 {
            Some(leader) if leader == self.config.members.me() => self.checkpoints.wanted = true,
            Some(leader) => self.tell(leader, &StateMessage::WantBorder { seq, digest }, out),
            // Who takes no part does not know who leads. Those who do pass it on.
            None if !self.has_begun() => self.tell_all(&StateMessage::WantBorder { seq, digest }, out),
            None => {}
        }
    }

    fn on_want_border(&mut self, now: Time, after: Seq, out: &mut Effects) {
        // One that is agreed since, or under way, serves as well.
        let newer = self.checkpoints.agreement.newest().is_some_and(|(seq, _)| seq > after);
        let lately = self.checkpoints.asked_at.is_some_and(|at| now.since(at) < ASK_AGAIN);
        if !newer && !lately {
            self.want_border(now, out);
        }
    }

    /// The batch that asks for a border, if this replica leads and one is wanted.
    pub(crate) fn propose_border(&mut self, now: Time, out: &mut Effects) {
        if !self.checkpoints.wanted || !self.may_propose(FIRST) || self.room() == Room::Full {
            return;
        }
        self.checkpoints.wanted = false;
        let mut bytes = Vec::new();
        Batch::begin(&mut bytes);
        let header = self.propose_header(now);
        let batch = Batch::seal(bytes, BatchHeader { border: true, ..header });
        self.propose_in(FIRST, now, batch, out);
    }

    pub(crate) fn on_state_deadline(&mut self, now: Time, out: &mut Effects) {
        if self.checkpoints.holds.deadline().is_some_and(|at| at <= now) {
            self.change_holds(|holds| holds.expire(now), out);
        }
        self.serve(now, ServeInput::Deadline, out);
        self.fetch_step(now, FetchInput::Deadline, out);
        if self.checkpoints.repairs.deadline().is_some_and(|at| at <= now) {
            self.ask_for_repairs(now, out);
        }
        if self.checkpoints.install_at.is_some_and(|at| at <= now) {
            self.install_again(out);
        }
        if self.ask_due().is_some_and(|at| at <= now) {
            self.want_border(now, out);
        }
    }

    /// When to ask for a border again: this replica fetches and finds nothing to fetch, one is lost, or one was asked for too early. Whoever
    /// was asked may not have led, or ordered one just before.
    fn ask_due(&self) -> Option<Time> {
        let nothing = |fetching: &Fetching| self.checkpoints.agreement.offers(fetching.at_least).is_empty();
        let nothing = self.checkpoints.fetching.as_ref().is_some_and(nothing);
        let replaces = self.checkpoints.rotten.any_whole() && self.checkpoints.writing.is_empty();
        (nothing || replaces || self.checkpoints.borders.is_owed())
            .then(|| self.checkpoints.asked_at.map_or(Time::ZERO, |at| at.plus(ASK_AGAIN)))
    }

    pub(crate) fn state_deadline(&self) -> Option<Time> {
        [self.checkpoints.deadline(), self.checkpoints.holds.deadline(), self.ask_due()]
            .into_iter()
            .flatten()
            .min()
    }
}

/// What a checkpoint says of an instance.
fn part((instance, at): (&Instance, &InstanceAt)) -> InstancePart {
    let record = Slot::new(at.record.0);
    let Some(anchor) = instance.order.anchor(record) else {
        panic!("INV-NODE-8 record {record} of {} of {} has an anchor", instance.id, instance.decided);
    };
    InstancePart { instance: instance.id, slot: at.slot, record, offset: at.offset, anchor }
}

pub(crate) fn keep(out: &mut Effects, job: Job) {
    out.push(Effect::Keep(KeeperWork { job, stops: false }));
}

/// What an operator must know when no two replicas have the same state.
pub(crate) fn none_agree(seq: Seq, digests: &[(ReplicaId, Digest)]) -> String {
    let all: Vec<String> = digests.iter().map(|(member, digest)| format!("{member} {digest:?}")).collect();
    format!(
        "the replicas do not agree on the state at seq {seq} ({}): the service is not deterministic, or more replicas are faulty than \
         the cluster survives. Nothing is repaired by itself. Look for time, randomness, hash maps, floating point or threads in the \
         service; docs/operations/divergence.md tells how to find out",
        all.join(", ")
    )
}

fn tell_difference(seq: Seq, differing: &Differing, out: &mut Effects) {
    let keys: Vec<String> = differing
        .keys
        .iter()
        .map(|(key, difference)| format!("{} {difference:?}", key.escape_ascii()))
        .collect();
    let text = format!(
        "the state at seq {seq} differed from the agreed one in {} keys: {}{}",
        differing.count,
        keys.join("; "),
        if differing.count > keys.len() as u64 { " ..." } else { "" }
    );
    out.event(Event::State { text, bad: true });
}
