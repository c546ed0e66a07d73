//! What the node does for keeping, the part that has the state beside the path: it tells it what happened, and does what it wants done.
//!
//! What belongs to others is done here: an image is put together of what execution, the merge, the instances and the roster say, and a
//! checkpoint that was fetched is handed back to all of them. Docs: docs/protocols/state.md.

use crate::effects::{Effect, Effects, Event, KeeperWork, Unneeded};
use crate::group::Group;
use crate::keeping::{Facts, Found, In, Installed, Installing, Need, Out, SegmentScrub, Unfit};
use crate::merging::FIRST;
use crate::node::Node;
use crate::system::{InstancePart, System};
use quorate_merge::{Generation, InstanceAt, RecordIndex};
use quorate_order::Input as OrderInput;
use quorate_state::checkpoint::{Image, Job};
use quorate_types::{ConnId, Halt, ReplicaId, Room, Seq, Slot, Time};
use quorate_wire::{Batch, BatchHeader, StateMessage};

/// Bytes of a tracked service's objects that are copied after each batch while a border comes near.
const COPY_BYTES: usize = 256 << 10;

impl Node {
    /// How this replica stands, as keeping asks.
    fn stands(&self) -> Facts {
        let first_segment = self.journal.log().first_segment();
        Facts {
            begun: self.has_begun(),
            leader: self.first().leader(),
            instances: self.groups.len(),
            level: self.level(),
            executed: self.engine.executor().seq(),
            time: self.engine.executor().time(),
            merged: self.engine.merge().seq(),
            log: (first_segment * self.journal.log().segment_bytes(), self.journal.log().position()),
            first_segment,
            disk_full: self.journal.disk().is_full(),
        }
    }

    /// Steps keeping, and does what it wants done.
    pub(crate) fn keep(&mut self, now: Time, input: In, out: &mut Effects) {
        let facts = self.stands();
        let mut outs = Vec::new();
        self.keeping.step(now, &facts, input, &mut outs);
        for wanted in outs {
            self.do_keeping(now, wanted, out);
        }
    }

    fn do_keeping(&mut self, now: Time, wanted: Out, out: &mut Effects) {
        match wanted {
            Out::Keep(work) => out.push(Effect::Keep(work)),
            Out::Release(version) => out.push(Effect::Release(Unneeded(version))),
            Out::Send { to, message } => self.tell(to, &message, out),
            Out::Answer { conn, message } => out.send(conn, message.frame()),
            Out::Tell(message) => {
                for member in self.config.members.others() {
                    self.tell(member.replica, &message, out);
                }
            }
            Out::Reject { conn, why } => self.reject(now, conn, why.into(), out),
            Out::CountWrong => self.gate.count_wrong(),
            Out::Say { text, bad } => out.event(Event::State { text, bad }),
            Out::Halt(halt) => out.push(Effect::Halt(halt)),
            Out::CopyAhead => {
                self.engine.prepare_image(COPY_BYTES);
            }
            Out::CaptureAhead(border) => {
                if let Some(version) = self.engine.executor().objects() {
                    let job = Job::Ahead { border, version };
                    out.push(Effect::Keep(KeeperWork { job, stops: false }));
                }
            }
            Out::Capture { border, seq } => self.capture(now, border, seq, out),
            Out::Fetch(need) => self.begin_fetch(now, need, out),
            Out::Examine(found) => {
                let verdict = self.examine(&found).map(Box::new);
                self.keep(now, In::Examined { found, verdict }, out);
            }
            Out::Install(installing) => self.install(now, *installing, out),
            Out::HandOver => {
                self.step_led(now, &OrderInput::Transfer(None));
                self.after_order(now, out);
            }
            Out::Trim { seq, records } => self.trim(now, seq, records, out),
            Out::ReadSegment(segment) => self.read_segment(segment, out),
            Out::Then(rest) => self.keep(now, In::Rest(rest), out),
        }
    }

    fn tell(&self, to: ReplicaId, message: &StateMessage, out: &mut Effects) {
        if let Some(conn) = self.gate.peers().to(to) {
            out.send(conn, message.frame());
        }
    }

    /// A batch was executed: perhaps a border is near, or here.
    pub(crate) fn on_executed(&mut self, now: Time, seq: Seq, batch: &Batch, out: &mut Effects) {
        let (bytes, asks) = (batch.bytes().len() as u64, batch.header().border);
        self.keep(now, In::Executed { seq, bytes, asks }, out);
    }

    /// A border is here: the state becomes an image.
    fn capture(&mut self, now: Time, border: u64, seq: Seq, out: &mut Effects) {
        let parts = match self.engine.image() {
            Ok(parts) => parts,
            Err(why) => return self.keep(now, In::NotCaptured { seq, why: why.to_string() }, out),
        };
        let merge = self.engine.merge().checkpoint();
        assert_eq!(merge.seq, seq, "INV-NODE-8 the merge stands at the border");
        assert_eq!(
            merge.instances.len(),
            self.groups.len(),
            "INV-STAY-1 each instance of the merge has a stay in force"
        );
        let instances: Vec<InstancePart> = self.groups.iter().zip(&merge.instances).map(part).collect();
        let always_one = merge.next.is_none() && merge.generation == Generation::begin(1);
        let system = System {
            cluster: self.config.members.cluster(),
            seq,
            border,
            window: if always_one { 0 } else { merge.window },
            generations: [merge.generation].into_iter().chain(merge.next).collect(),
            instances,
            roster: self.reconfigure.roster().clone(),
            level: self.level_of_checkpoints(),
            executor: parts.system.into(),
        };
        let image = Box::new(Image { seq, border, system: system.encode(), objects: parts.objects });
        self.keep(now, In::Captured { image, records: system.records() }, out);
    }

    /// An operator asks for checkpoints, to make a backup.
    pub(crate) fn on_operator_asks(
        &mut self,
        now: Time,
        conn: ConnId,
        message: StateMessage,
        out: &mut Effects,
    ) {
        let members = self.config.members.all().iter().map(|member| member.replica).collect();
        self.keep(now, In::Asked { conn, members, message }, out);
    }

    /// A leader does not have the log any more that this replica lacks.
    pub(crate) fn on_behind(&mut self, at: usize, now: Time, slot: Slot, out: &mut Effects) {
        // Of many instances nobody knows which seq such a record has. A checkpoint that is here already is no help: the leader's log may begin
        // after a record that has no seq.
        let exact = || self.engine.merge().estimate(self.groups[at].id(), RecordIndex(slot.number()));
        let next = self.engine.merge().seq().next();
        let seq = if self.groups.len() == 1 { exact().max(next) } else { next };
        self.keep(now, In::Behind(seq), out);
    }

    /// A checkpoint is fetched, with what is here already, from whoever is connected.
    fn begin_fetch(&mut self, now: Time, mut need: Need, out: &mut Effects) {
        need.local = need.local.or_else(|| self.engine.executor().objects());
        let connected =
            self.gate.peers().peers().filter(|(_, _, up, _)| *up).map(|(replica, ..)| replica).collect();
        self.keep(now, In::Fetch { need, connected }, out);
    }

    /// Whether this replica can go on from a checkpoint that was fetched.
    fn examine(&self, found: &Found) -> Result<System, Unfit> {
        let system = System::decode(&found.system).and_then(|system| system.check(&self.config, found.seq));
        let system = system.map_err(Unfit::Unusable)?;
        self.config.level.check(system.level).map_err(Unfit::Stops)?;
        let lacks = |(instance, part): (&Group, &InstancePart)| {
            instance.restored().needs_checkpoint && !instance.covers(part.record, &part.anchor)
        };
        if !self.has_begun() && self.groups.iter().zip(&system.instances).any(lacks) {
            return Err(Unfit::TooEarly);
        }
        Ok(system)
    }

    /// The fetched checkpoint is durable: execution and ordering go on from it.
    fn install(&mut self, now: Time, installing: Installing, out: &mut Effects) {
        let Installing { image, system, digest, why } = installing;
        let (seq, border, bytes) = (image.seq, image.border, image.objects.bytes());
        if let Err(error) = self.engine.restore(&system.executor, &image.objects) {
            let why = format!("the agreed checkpoint of seq {seq} can not be restored: {error}");
            return out.push(Effect::Halt(Halt::CheckpointUnusable { why }));
        }
        self.reconfigure.installed(system.roster.clone());
        self.take_level(system.level);
        self.meet_borders();
        let records = system.records();
        self.keep(now, In::Installed(Installed { seq, border, digest, why, bytes, records }), out);
        let new = match self.jump(now, &system) {
            Ok(new) => new,
            Err(halt) => return out.push(Effect::Halt(halt)),
        };
        self.engine.meet_leaders();
        self.heard_caught_up();
        self.learn_time(now);
        self.note_trimmed(seq);
        self.fall_asleep(now, seq, out);
        self.reconfigure.changed();
        if self.has_begun() {
            // Before anything is executed: the next border names where each of them stands.
            self.wake_new(now, &new);
        }
        // What an instance that stays where it is said before.
        self.deliver(now, out);
        if self.has_begun() {
            self.resume_change(now, out);
            self.after_order(now, out);
        } else {
            self.begin(now, out);
        }
    }

    /// The batch that asks for a border, if this replica leads and one is wanted.
    pub(crate) fn propose_border(&mut self, now: Time, out: &mut Effects) {
        if !self.keeping.wants_border() || !self.may_propose(FIRST) || self.room() == Room::Full {
            return;
        }
        self.keeping.border_ordered();
        let mut bytes = Vec::new();
        Batch::begin(&mut bytes);
        let header = self.propose_header(now);
        let batch = Batch::seal(bytes, BatchHeader { border: true, ..header });
        self.propose_in(FIRST, now, batch, out);
    }

    /// Begins to read everything; what is found and mended shows in the status.
    pub(crate) fn scrub(&mut self, now: Time, out: &mut Effects) -> &'static str {
        if self.journal.is_in_memory() {
            return "error: with durability memory nothing is at rest";
        }
        self.keep(now, In::Scrub, out);
        "begun"
    }

    /// A segment of the log is read and checked, if it is full; or the first one, if that one is gone.
    fn read_segment(&mut self, segment: u64, out: &mut Effects) {
        let segment = segment.max(self.journal.log().first_segment());
        if let Some(records) = self.journal.log().sealed_records(segment) {
            self.keeping.reads(segment, records);
            let (log_id, config) = (self.config.log_id, self.config.log.clone());
            out.push(Effect::Scrub(SegmentScrub { log_id, config, segment }));
        }
    }

    /// For whom the log is held back; for checks.
    pub fn holds_back_for(&self) -> impl Iterator<Item = ReplicaId> {
        self.keeping.holds_back_for()
    }
}

/// What a checkpoint says of an instance.
fn part((instance, at): (&Group, &InstanceAt)) -> InstancePart {
    let record = Slot::new(at.record.0);
    let Some(anchor) = instance.anchor(record) else {
        panic!("INV-NODE-8 record {record} of {} of {} has an anchor", instance.id(), instance.decided());
    };
    InstancePart { instance: instance.id(), slot: at.slot, record, offset: at.offset, anchor }
}
