//! Keeping, stepped alone: its effects for given inputs.

mod backups;
mod borders;
mod diverged;
mod fetched;
mod mended;

use super::{Facts, In, Installed, Installing, Keeping, Left, Need, Origin, Out, Why};
use crate::config::NodeConfig;
use crate::node::tests::{joins, r};
use crate::system::System;
use crate::system::tests::system;
use quorate_admit::{KnownMember, Members};
use quorate_order::{OrderConfig, Protocol};
use quorate_state::checkpoint::{Digests, Image, Kind, Report};
use quorate_state::store::Store;
use quorate_types::{AgreedTime, ClusterId, ConnId, Digest, Incarnation, Seq, Slot, Span, Time};
use quorate_wire::StateMessage;

/// r1 of three replicas that only crash, and its effects in the last step.
struct Alone {
    keeping: Keeping,
    facts: Facts,
    now: Time,
    /// The effects that are not only texts.
    need: Option<Need>,
    examine: Option<Box<super::Found>>,
    installing: Option<Box<Installing>>,
}

fn config() -> NodeConfig {
    let member = |id: u16| KnownMember {
        replica: r(id),
        address: format!("r{id}"),
        incarnation: Incarnation::new(100 + u64::from(id)),
    };
    NodeConfig {
        members: Members::new(ClusterId::new(77), r(1), (1..=3).map(member).collect()),
        order: OrderConfig::new(Protocol::RAFT, r(1), (1..=3).map(r).collect(), 6),
        ..joins()
    }
}

fn nothing_left() -> Left {
    Left {
        durable: Vec::new(),
        from: None,
        base: Seq::ZERO,
        records: None,
        gone: Seq::ZERO,
        needed: (Seq::ZERO, None),
        damaged: None,
        partial: Vec::new(),
        rotten_segment: None,
        varies: false,
    }
}

fn digest(of: u64) -> Digest {
    Digest::new([of as u8; 32])
}

/// The report of the keeper about a border.
fn computed(seq: u64, border: u64, digest: Digest) -> In {
    let digests = Digests { image: digest, state: digest };
    In::Kept(Report::Digest { seq: Seq::new(seq), border, digests })
}

/// The digest of another member at a border.
fn has(from: u16, seq: u64, digest: Digest) -> In {
    In::Heard { from: r(from), message: StateMessage::Digest { seq: Seq::new(seq), digest, held: false } }
}

/// The durable checkpoint of another member.
fn holds(from: u16, seq: u64, digest: Digest) -> In {
    In::Heard { from: r(from), message: StateMessage::Digest { seq: Seq::new(seq), digest, held: true } }
}

fn written(seq: u64, digest: Digest) -> In {
    let (kind, instead, bytes) = (Kind::Full, None, 100);
    In::Kept(Report::Written { seq: Seq::new(seq), digest, kind, instead, bytes })
}

/// The checkpoint of seq 1000 that the others have.
fn of_others() -> (System, Image) {
    let system = system();
    let (seq, border, objects) = (system.seq, system.border, Store::new().version());
    let image = Image { seq, border, system: system.encode(), objects };
    (system, image)
}

impl Alone {
    fn new() -> Self {
        Self::with(nothing_left())
    }

    fn with(left: Left) -> Self {
        let facts = Facts {
            begun: true,
            leader: Some(r(2)),
            instances: 1,
            delivered: Seq::ZERO,
            time: AgreedTime::ZERO,
            merged: Seq::ZERO,
            log: (0, 1000),
            first_segment: 0,
            disk_full: false,
        };
        let keeping = Keeping::new(&config(), left);
        let now = Time::ZERO.plus(Span::from_secs(10));
        Self { keeping, facts, now, need: None, examine: None, installing: None }
    }

    /// The effects of an input and of its rest, in order and in short.
    fn step(&mut self, input: In) -> Vec<String> {
        let mut out = Vec::new();
        self.keeping.step(self.now, &self.facts, input, &mut out);
        self.keeping.invariants();
        let mut said = Vec::new();
        for one in out {
            match one {
                Out::Then(rest) => said.extend(self.step(In::Rest(rest))),
                Out::Fetch(need) => {
                    said.push(format!("fetch {} {}", need.at_least, need.why.name()));
                    self.need = Some(need);
                }
                Out::Examine(found) => {
                    said.push(format!("examine {}", found.seq));
                    self.examine = Some(found);
                }
                Out::Install(installing) => {
                    said.push(format!("install {}", installing.image.seq));
                    self.installing = Some(installing);
                }
                one => said.push(short(&one)),
            }
        }
        said
    }

    /// A batch that asks for a border is delivered, and the service gives its state.
    fn border(&mut self, seq: u64) -> Vec<String> {
        let seq = Seq::new(seq);
        (self.facts.delivered, self.facts.merged) = (seq, seq);
        self.facts.log.1 += 100;
        let mut said = self.step(In::Delivered { seq, bytes: 100, asks: true, settled: true, ends: false });
        let border = said.len() as u64;
        let image = Image { seq, border, system: vec![1].into(), objects: Store::new().version() };
        let records = vec![Slot::new(seq.number())];
        said.extend(self.step(In::Captured { image: Box::new(image), records }));
        said
    }

    /// A border at which the others have the same state, and the keeper writes it.
    fn agreed_border(&mut self, seq: u64) -> Vec<String> {
        let mut said = self.border(seq);
        let of = digest(seq);
        said.extend(self.step(computed(seq, 1, of)));
        said.extend(self.step(holds(2, seq, of)));
        said.extend(self.step(written(seq, of)));
        said
    }

    /// Begins the fetch that was asked for.
    fn fetch(&mut self) -> Vec<String> {
        let need = self.need.take().expect("something is needed");
        self.step(In::Fetch { need, connected: vec![r(2), r(3)] })
    }

    /// The others send their checkpoint until all of it is here.
    fn receive(&mut self) {
        let (_, image) = of_others();
        let manifest = quorate_state::checkpoint::Manifest::of(&image);
        let (seq, digest) = (image.seq, manifest.digest());
        for from in [2, 3] {
            self.step(holds(from, seq.number(), digest));
        }
        let bytes: bytes::Bytes = manifest.encode().into();
        for from in [2, 3] {
            let (offset, total, bytes) = (0, bytes.len() as u64, bytes.clone());
            let message = StateMessage::Manifest { seq, digest, offset, total, bytes };
            self.step(In::Heard { from: r(from), message });
        }
        for _ in 0..10 {
            self.step(In::Deadline);
            for (from, chunk) in
                [2, 3].into_iter().flat_map(|from| (0..manifest.parts()).map(move |of| (from, of)))
            {
                let bytes = image.system.piece(chunk as usize).expect("it has no objects");
                let message = StateMessage::Chunk { seq, digest, chunk, bytes };
                self.step(In::Heard { from: r(from), message });
            }
        }
        assert!(self.examine.is_some(), "it is here");
    }

    /// This replica can go on from the checkpoint.
    fn fits(&mut self) -> Vec<String> {
        let found = self.examine.take().expect("a checkpoint was fetched");
        let (system, _) = of_others();
        self.step(In::Examined { found, verdict: Ok(Box::new(system)) })
    }

    /// The checkpoint is durable, and execution goes on from it.
    fn goes_on(&mut self) -> Vec<String> {
        let Installing { image, system, digests, why } =
            *self.installing.take().expect("a checkpoint became durable");
        let (seq, border, bytes) = (image.seq, image.border, image.objects.bytes());
        (self.facts.delivered, self.facts.merged) = (seq, seq);
        let records = system.records();
        self.step(In::Installed(Installed { seq, border, digests, why, bytes, records }))
    }

    fn passes(&mut self, secs: u64) -> Vec<String> {
        self.now = self.now.plus(Span::from_secs(secs));
        self.step(In::Deadline)
    }
}

fn short(out: &Out) -> String {
    match out {
        Out::Keep(work) => format!("{work:?}"),
        Out::Release(_) => "release".into(),
        Out::Send { to, message } => format!("to {to}: {}", name(message)),
        Out::Answer { message, .. } => format!("to the operator: {}", name(message)),
        Out::Tell(message) => format!("to all: {}", name(message)),
        Out::Reject { why, .. } => format!("reject: {why}"),
        Out::CountWrong => "count".into(),
        Out::Say { bad: true, .. } => "alarm".into(),
        Out::Say { .. } => "notice".into(),
        Out::Halt(_) => "halt".into(),
        Out::CopyAhead => "copy ahead".into(),
        Out::CaptureAhead(border) => format!("capture ahead {border}"),
        Out::Capture { border, seq } => format!("capture {border} at {seq}"),
        Out::HandOver => "hand over".into(),
        Out::Trim { seq, .. } => format!("trim {seq}"),
        Out::ReadSegment(segment) => format!("read segment {segment}"),
        Out::Fetch(_) | Out::Examine(_) | Out::Install(_) | Out::Then(_) => unreachable!(),
    }
}

fn name(message: &StateMessage) -> String {
    match message {
        StateMessage::Digest { seq, held, .. } => format!("{} {seq}", if *held { "holds" } else { "has" }),
        StateMessage::FetchManifest { seq, .. } => format!("manifest of {seq}?"),
        StateMessage::FetchChunks { seq, chunks, .. } => format!("{chunks:?} of {seq}?"),
        StateMessage::WantBorder { .. } => "border?".into(),
        StateMessage::Manifest { .. } => "manifest".into(),
        StateMessage::Chunk { .. } => "chunk".into(),
        StateMessage::Refused { .. } => "refused".into(),
    }
}

/// Once the log was trimmed, others may have the oldest checkpoint left after a restart, but none that may never have been agreed on.
#[test]
fn a_restart_stands_for_the_oldest_checkpoint_that_is_left() {
    let held = |gone: u64, trimmed: u64| {
        let durable = [35, 37].map(|seq| (Seq::new(seq), digest(seq))).to_vec();
        let (gone, needed) = (Seq::new(gone), (Seq::new(trimmed), None));
        let mut alone = Alone::with(Left { durable, gone, needed, ..nothing_left() });
        let told = alone.step(In::Connected(r(2)));
        [35, 37].map(|seq| told.contains(&format!("to r2: holds {}", Seq::new(seq))))
    };
    assert_eq!(held(33, 33), [true, false]);
    assert_eq!(held(37, 37), [true, true], "those before it were about to go");
    assert_eq!(held(37, 33), [true, false], "the log ended before 37, and was not given up for it");
    assert_eq!(held(0, 0), [false, false], "the log has all that led to them");
}

/// Where results may vary, this replica can not tell what batches before its checkpoint did, and the log alone does not say it.
#[test]
fn where_results_vary_others_may_have_the_checkpoint_of_before() {
    let held = |varies: bool| {
        let durable = [35, 37].map(|seq| (Seq::new(seq), digest(seq))).to_vec();
        let mut alone = Alone::with(Left { durable, base: Seq::new(37), varies, ..nothing_left() });
        let told = alone.step(In::Connected(r(2)));
        [35, 37].map(|seq| told.contains(&format!("to r2: holds {}", Seq::new(seq))))
    };
    assert_eq!(held(true), [true, true]);
    assert_eq!(held(false), [false, false]);
}

/// Borders are counted from the place where execution goes on.
#[test]
fn borders_go_on_from_the_checkpoint_of_before() {
    let from = Origin { seq: Seq::new(10), border: 7, bytes: 0, time: AgreedTime::ZERO };
    let mut alone = Alone::with(Left { from: Some(from), base: Seq::new(10), ..nothing_left() });
    let said =
        alone.step(In::Delivered { seq: Seq::new(11), bytes: 1, asks: true, settled: true, ends: false });
    assert_eq!(said, ["capture 8 at q11"]);
}
