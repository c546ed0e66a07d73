//! From a border to a trimmed log: the state is captured, its digest is compared, and the log and older checkpoints are trimmed as far as a
//! durable checkpoint holds them. The comparison may also show that the state is wrong.

use super::Keeping;
use super::borders::{Executed, Point, Writing};
use super::inout::{Facts, Installed, Out, Rest};
use super::own::Own;
use super::transfer::{Installing, Need, Why, Wrong};
use crate::effects::KeeperWork;
use quorate_execute::Differs;
use quorate_state::agreement::{DigestEvent, DigestReport as Said};
use quorate_state::checkpoint::{Image, Job, Kind, Report, RotAt};
use quorate_state::transfer::{Answer, ServeInput};
use quorate_types::{Digest, Halt, ReplicaId, Seq, Slot, Time};
use quorate_wire::StateMessage;

impl Keeping {
    /// A batch was delivered: a border may be near or reached.
    pub(super) fn on_delivered(
        &mut self,
        now: Time,
        facts: &Facts,
        seq: Seq,
        (bytes, asks, settled, ends): (u64, bool, bool, bool),
        out: &mut Vec<Out>,
    ) {
        if self.transfer.drop_late(seq) {
            out.push(Out::forget_partial());
        }
        let long = self.config.patience.times(2);
        if self.transfer.drop_needless(now, seq, facts.instances > 1, long) {
            out.push(Out::forget_partial());
        }
        if self.borders.nears() {
            out.push(Out::CopyAhead);
        }
        let (asks, bounded) = (asks || ends, self.config.may_lie && !ends);
        match self.borders.executed(Executed { bytes, asks, bounded, time: facts.time, settled }) {
            None => {}
            // This replica's state is not the agreed one: no checkpoint of it is needed.
            Some(_) if self.has_diverged() => {}
            Some(Point::Ahead(border)) => out.push(Out::CaptureAhead(border)),
            Some(Point::Border(border)) => {
                if self.transfer.drop_partial() {
                    out.push(Out::forget_partial());
                }
                out.push(Out::Capture { border, seq });
            }
        }
    }

    /// Takes the state at a border: the keeper computes its digest, and writes it if it is this replica's turn.
    pub(super) fn on_captured(&mut self, image: Image, records: Vec<Slot>, out: &mut Vec<Out>) {
        let (seq, border) = (image.seq, image.border);
        self.trims.holds(seq, records);
        self.borders.measured(image.objects.bytes());
        out.extend(self.own.remember(seq, image.objects.clone()).map(Out::Release));
        self.last = Some((seq, None));
        let writing = self.borders.writes(border);
        // A differential checkpoint needs those before it, which could not be deleted then. But it may fit where a full one did not.
        let forced = self.asking.is_full() && self.trouble.is_none();
        let is_full = |writing: Writing| writing.full || forced;
        let write = writing.map(|writing| if is_full(writing) { Kind::Full } else { Kind::Differential });
        if write.is_some() {
            self.own.writes(seq);
        }
        let stops = writing.is_some_and(|writing| writing.stops);
        out.push(Out::Keep(KeeperWork { job: Job::Border { image, write }, stops }));
    }

    /// Notes that a checkpoint could not be made, written or used.
    pub(super) fn in_trouble(&mut self, text: String, out: &mut Vec<Out>) {
        self.trouble = Some(text.clone());
        out.push(Out::alarm(text));
    }

    /// Handles a report of the keeper.
    pub(super) fn on_kept(&mut self, now: Time, facts: &Facts, report: Report, out: &mut Vec<Out>) {
        match report {
            Report::GaveUp { .. } => self.own.gave_up(),
            // The keeper sent this before it was told to give the checkpoint up.
            Report::Digest { seq, .. } if self.own.gives_up(seq) => {}
            Report::Written { seq, .. } if self.own.gives_up(seq) => self.on_skipped(now, seq),
            Report::Digest { seq, digests, .. } => {
                if let Some((_, known)) = self.last.as_mut().filter(|(last, _)| *last == seq) {
                    *known = Some(digests);
                }
                self.on_digest(now, facts, (seq, digests.image), false, out);
            }
            Report::Written { seq, digest, .. } => self.on_written(facts, seq, digest, out),
            Report::Skipped { seq } => self.on_skipped(now, seq),
            Report::NoRoom { seq } => {
                self.own.not_written(seq);
                let text = format!("the disk is full: the checkpoint of seq {seq:#} was not written");
                self.in_trouble(text, out);
                self.transfer.install_later(now);
            }
            Report::Failed { what, sync: true } => {
                out.push(Out::Halt(Halt::LogWriteFailed { why: what }));
            }
            Report::Failed { what, sync: false } => {
                self.in_trouble(format!("a checkpoint could not be written or read: {what}"), out);
                self.transfer.install_later(now);
            }
            Report::Manifest { ticket, answer } => {
                let answer = answer.map_or(Answer::NotHeld, |part| Answer::Manifest {
                    total: part.total,
                    bytes: part.bytes,
                });
                self.serving.step(now, ServeInput::Answered { ticket, answer }, out);
            }
            Report::Chunk { ticket, answer } => {
                // A checkpoint with one rotten chunk still has the others.
                let none = if self.rot.places() > 0 { Answer::Rotten } else { Answer::NotHeld };
                let answer = answer.map_or(none, |bytes| Answer::Chunk { bytes });
                self.serving.step(now, ServeInput::Answered { ticket, answer }, out);
            }
            Report::Rot { seq, digest, file, place } => {
                self.rot.found(now, (seq, place), digest, file, &self.agreement, out);
                if place == RotAt::Whole {
                    // The next border brings another checkpoint.
                    self.own.drop_from(seq);
                    self.want_border(now, facts, out);
                }
            }
            Report::Repaired { seq, place } => self.rot.repaired(seq, place, out),
            Report::NotRepaired { seq, chunk } => {
                self.rot.not_repaired(now, (seq, chunk), &self.agreement, out);
            }
            Report::Gone { seq, file } => self.rot.gone(seq, &file),
            Report::ScrubDone { bytes } => self.rot.scrubbed(bytes),
        }
    }

    fn on_skipped(&mut self, now: Time, seq: Seq) {
        self.own.not_written(seq);
        // Execution went on by the log meanwhile, and its next border displaced the fetched checkpoint.
        if self.transfer.is_installing(seq) {
            self.transfer.install_later(now);
        }
    }

    fn on_written(&mut self, facts: &Facts, seq: Seq, digest: Digest, out: &mut Vec<Out>) {
        self.own.wrote_up_to(seq);
        self.trouble = None;
        self.own.written(Own { seq, digest, log_position: facts.log.1 });
        if self.transfer.is_installing(seq) {
            self.install(facts, out);
        }
        out.push(Out::Then(Rest::Written { seq, digest }));
    }

    /// The fetched checkpoint is durable: execution and ordering go on from it, unless the log has brought this replica as far.
    pub(super) fn install(&mut self, facts: &Facts, out: &mut Vec<Out>) {
        let Some(installing) = self.transfer.installed() else { return };
        out.push(Out::forget_partial());
        let Installing { why, image, .. } = &installing;
        if *why != Why::Behind || image.seq > facts.delivered {
            out.push(Out::Install(Box::new(installing)));
        }
    }

    /// Execution goes on from a checkpoint of the other replicas.
    pub(super) fn on_installed(&mut self, facts: &Facts, installed: Installed, out: &mut Vec<Out>) {
        let Installed { seq, border, digests, why, bytes, records } = installed;
        self.borders.resume(border, facts.time, bytes);
        self.divergence.repaired(seq);
        if why == Why::Diverged {
            self.disown(seq, out);
        }
        if self.config.varies {
            self.agreement.stand_by(seq, digests.image);
            self.tell_own(seq, out);
        }
        self.last = Some((seq, Some(digests)));
        self.trims.holds(seq, records);
        self.trims.begins_after(seq);
        out.push(Out::notice(format!(
            "goes on from the checkpoint of seq {seq:#}, no longer: {}",
            why.name()
        )));
    }

    /// Disowns this replica's checkpoints before the one that repaired the state. The state may have been wrong for long before that was
    /// seen, so no replica may use those checkpoints, and what this replica said of them does not count.
    fn disown(&mut self, repaired: Seq, out: &mut Vec<Out>) {
        self.own.drop_before(repaired);
        self.agreement.forget_own(Seq::ZERO);
        self.trims.forget_before(repaired);
        out.push(Out::job(Job::Forget { keep: repaired }));
    }

    /// This replica has the digest of a border. `held`: the checkpoint is in a durable file.
    pub(super) fn on_digest(
        &mut self,
        now: Time,
        facts: &Facts,
        (seq, digest): (Seq, Digest),
        held: bool,
        out: &mut Vec<Out>,
    ) {
        if self.has_diverged() && !held {
            return;
        }
        let verdicts = self.agreement.own(seq, digest, held);
        self.tell_own(seq, out);
        self.on_verdicts(now, facts, verdicts, out);
    }

    /// Tells all members what this replica has at a border.
    fn tell_own(&self, seq: Seq, out: &mut Vec<Out>) {
        if let Some(Said { digest, held }) = self.agreement.own_report(seq) {
            out.push(Out::Tell(StateMessage::Digest { seq, digest, held }));
        }
    }

    /// A member said what it has at borders.
    pub(super) fn on_verdicts(
        &mut self,
        now: Time,
        facts: &Facts,
        verdicts: Vec<DigestEvent>,
        out: &mut Vec<Out>,
    ) {
        self.own.note_stable(&self.agreement);
        self.judge(now, facts, verdicts, out);
    }

    /// Acts on new facts about borders.
    pub(super) fn judge(&mut self, now: Time, facts: &Facts, verdicts: Vec<DigestEvent>, out: &mut Vec<Out>) {
        let mut verdicts = verdicts.into_iter();
        while let Some(verdict) = verdicts.next() {
            match verdict {
                DigestEvent::Agreed { seq, .. } => {
                    self.divergence.agreed(seq);
                    // A state that differs is compared with the agreed one once that is here.
                    if !differs_at(seq, verdicts.as_slice()) {
                        out.extend(self.own.forget_versions(seq).into_iter().map(Out::Release));
                    }
                    // Other members may fetch this checkpoint from now on.
                    if self.agreement.own_report(seq).is_some_and(|own| own.held) {
                        self.tell_own(seq, out);
                    }
                }
                DigestEvent::OwnDiffers { seq, own, agreed, by } => {
                    if self.divergence.found(seq, own, agreed) {
                        self.on_diverged(seq, own, agreed, &by, out);
                        return out.push(Out::Then(Rest::Verdicts(verdicts.collect())));
                    }
                }
                DigestEvent::OtherDiffers { seq, member, digest, agreed } => out.push(Out::alarm(format!(
                    "{member} has diverged: its state at seq {seq:#} has digest {digest:?}, the agreed one is {agreed:?}"
                ))),
                DigestEvent::NoneAgree { seq, digests } => {
                    out.push(Out::alarm(self.divergence.nobody_agrees(seq, digests)));
                }
                DigestEvent::Restated { seq, member, was, now } => out.push(Out::notice(format!(
                    "{member} says of its state at seq {seq:#} {now:?} now, and said {was:?} before"
                ))),
            }
        }
        self.offer(now, facts, out);
    }

    /// This replica's state is not the agreed one: it stops answering reads, hands over, and fetches what differs.
    fn on_diverged(&mut self, seq: Seq, own: Digest, agreed: Digest, by: &[ReplicaId], out: &mut Vec<Out>) {
        let by: Vec<String> = by.iter().map(ToString::to_string).collect();
        out.push(Out::alarm(format!(
            "the state of this replica at seq {seq:#} has digest {own:?}, and {} agree on {agreed:?}: it answers no reads until it is \
             repaired from them",
            by.join(", ")
        )));
        self.give_up_state(seq, out);
    }

    /// The results of this replica are not those that were ruled, also when the commands ran again.
    pub(super) fn on_differs(&mut self, differs: Differs, out: &mut Vec<Out>) {
        let Differs { from, seq, own, ruled } = differs;
        if self.divergence.found(from, own, ruled) {
            out.push(Out::alarm(format!(
                "the results of this replica up to seq {seq:#} have the token {own:?}, and {ruled:?} was ruled: it answers nothing until it is \
                 repaired from others"
            )));
            self.give_up_state(from, out);
        }
    }

    /// The state is wrong at this seq: it is repaired from others.
    fn give_up_state(&mut self, seq: Seq, out: &mut Vec<Out>) {
        // What it has written since is of no use, except to start from.
        let above = self.own.diverged_above(seq, self.trims.gone());
        self.own.discard(above);
        self.transfer.drop_installing();
        self.agreement.forget_own(seq);
        out.push(Out::job(Job::Discard { above }));
        let version = self.own.version_at(seq);
        let state = self.last.filter(|(last, _)| *last == seq).and_then(|(_, digests)| Some(digests?.state));
        let own = version.clone().map(|objects| Wrong { seq, objects, state });
        out.extend(self.own.forget_all_versions().into_iter().map(Out::Release));
        // The log begins only after its floor, so an older state would not do.
        let at_least = seq.max(self.trims.gone());
        let need = Need::new(at_least, Why::Diverged);
        out.push(Out::Fetch(Need { local: version, own, ..need }));
        out.push(Out::HandOver);
    }

    /// Trims what a durable checkpoint holds: older checkpoints, and the log as far as no replica needs it.
    pub(super) fn trim(&mut self, facts: &Facts, out: &mut Vec<Out>) {
        let most = self.config.log_bytes_max;
        let damaged = self.scrubs.rotten().is_some();
        let Some(own) = self.own.trim_to(&self.agreement, facts.log, most, damaged) else { return };
        if own.seq > facts.merged || !facts.begun {
            return;
        }
        if self.trims.forget_before(own.seq) {
            out.push(Out::job(Job::Forget { keep: own.seq }));
            // A member that wanted an older one gets this one instead, agreed on or not. One that may be wrong is for nobody else.
            if self.divergence.at().is_none_or(|wrong| own.seq < wrong) {
                self.agreement.stand_by(own.seq, own.digest);
                self.tell_own(own.seq, out);
            }
        }
        let most = if facts.disk_full { 0 } else { most };
        let Some(own) = self.serving.hold_back(own, self.own.durable(), facts.log, most) else { return };
        if own.seq <= self.trims.trimmed() {
            return;
        }
        // After a restart it may be unknown.
        let Some(records) = self.trims.records_at(own.seq, facts.instances) else { return };
        out.push(Out::Trim { seq: own.seq, records });
    }
}

/// Whether this replica's state differs from the agreed one at a border, according to these events.
fn differs_at(seq: Seq, events: &[DigestEvent]) -> bool {
    events.iter().any(|event| matches!(event, DigestEvent::OwnDiffers { seq: at, .. } if *at == seq))
}
