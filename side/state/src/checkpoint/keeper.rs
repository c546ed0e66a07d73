//! The keeper: its jobs, their order, and the checkpoints that are here. The host calls [`Keeper::step`] on a thread of its own and paces
//! it by the bytes that each step returns.
//!
//! Order: digests of borders come first, since agreement waits for them; then deletions, repairs and parts of transfers; then peers'
//! questions and writing in turns, with a scrub beside them. Checkpoints are written strictly in the order of their borders; when a third
//! one comes, the middle one is skipped.

mod questions;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use quorate_types::{Digest, Seq, planted};

use super::Image;
use super::file::{Footer, LINKS_MAX, Previous, parse_name};
use super::files::{Files, delete_if_there};
use super::job::{Instead, Job, Kind, Report, RotAt, Step};
use super::manifest::Manifest;
use super::open::{self, Bad, Loaded, OpenError, Opened};
use super::partial::{self, PARTIAL, PartialFile};
use super::reader::{Catalog, read_layout};
use super::scrub::{Found, Scrub};
use super::writer::{Base, Outcome, Target, Trouble, Writer, digest_parts};
use crate::store;
use questions::{Ask, Look, Question};

/// While there is other work, one in this many steps goes to a scrub.
const SCRUB_TURN: u64 = 8;

/// Writes checkpoints, checks those that are here, and answers questions about them.
pub struct Keeper {
    /// Memory durability: there are no files; images that must not be forgotten are kept instead.
    hold: bool,
    held: BTreeMap<Seq, Target>,
    catalog: Catalog,
    /// Files that can't be used. They are deleted when checkpoints of their age are.
    lost: Vec<String>,
    bad: Bad,
    /// Rot that was reported: for which checkpoint, and in whose file.
    told: BTreeSet<(Seq, Seq)>,
    /// Checkpoints that are being fetched.
    pinned: Vec<Seq>,
    partial: PartialFile,
    /// The newest border that was reached.
    border: u64,
    digests: VecDeque<Digesting>,
    /// The checkpoint that is being written; and those after it, in the order of borders.
    active: Option<Writer>,
    waiting: VecDeque<Writing>,
    /// The manifests of the border that was reached last and of those right before a capture, by border number.
    reached: BTreeMap<u64, Arc<Manifest>>,
    /// The manifest that was written or read last, to compare the next one with.
    newest: Option<(Previous, Arc<Manifest>)>,
    chores: VecDeque<Chore>,
    questions: VecDeque<Question>,
    look: Option<Look>,
    scrub: Option<Scrub>,
    turn: u64,
    reports: Vec<Report>,
    stopped: bool,
}

/// An image whose digest is being computed.
struct Digesting {
    image: Image,
    write: Option<Kind>,
    install: bool,
    parts: Option<std::vec::IntoIter<store::Part>>,
}

/// A checkpoint that must be written.
enum Writing {
    Ahead { border: u64, version: store::Version },
    Border { ahead: Option<store::Version>, target: Box<Target> },
}

/// Work on files that are here.
enum Chore {
    Delete(String),
    Forget(Seq),
    ForgetPartial,
    Repair { seq: Seq, part: u32, bytes: Bytes },
}

impl Keeper {
    /// Finds the checkpoints that are here, and loads the newest one that is whole. Takes as long as reading it does.
    ///
    /// With `hold` (memory durability) no file is ever read or written. The images that would be written are kept in memory until they are
    /// forgotten, and peers get their parts from them.
    pub fn open(files: &mut dyn Files, hold: bool) -> Result<(Self, Opened), OpenError> {
        let start = if hold { open::Start::default() } else { open::open(files)? };
        // Execution goes on from the image, and passes the borders after it a second time.
        let border = start.opened.image.as_ref().map_or(0, |image| image.border);
        let keeper = Self {
            hold,
            held: BTreeMap::new(),
            catalog: start.catalog,
            lost: start.lost,
            bad: start.bad,
            told: BTreeSet::new(),
            pinned: Vec::new(),
            partial: start.partial,
            border,
            digests: VecDeque::new(),
            active: None,
            waiting: VecDeque::new(),
            reached: BTreeMap::new(),
            newest: None,
            chores: VecDeque::new(),
            questions: VecDeque::new(),
            look: None,
            scrub: None,
            turn: 0,
            reports: Vec::new(),
            stopped: false,
        };
        Ok((keeper, start.opened))
    }

    /// The checkpoints that are here, oldest first, with their images' digests.
    pub fn checkpoints(&self) -> impl Iterator<Item = (Seq, Digest, Kind)> + '_ {
        let held = self.held.values().map(|held| (held.image.seq, held.digest, held.asked));
        self.catalog.footers.values().map(|footer| (footer.seq, footer.digest, footer.kind)).chain(held)
    }

    /// The border whose file is being written, and how many bytes of it were written.
    pub fn writing(&self) -> Option<(u64, u64)> {
        self.active.as_ref().map(|writer| (writer.border, writer.written()))
    }

    /// Whether the next border was reached before this one's file was written, so that checkpoints do not keep up.
    pub fn is_behind(&self) -> bool {
        self.active.as_ref().is_some_and(|writer| writer.target.is_some())
            && self.waiting.iter().any(|writing| matches!(writing, Writing::Border { .. }))
    }

    /// Loads one of the checkpoints that are here, to roll back to it or to verify it. Takes as long as reading it does.
    pub fn load(&mut self, files: &mut dyn Files, seq: Seq) -> Loaded {
        if let Some(held) = self.held.get(&seq) {
            return Loaded::Whole(held.image.clone());
        }
        let mut bad = Bad::new();
        let loaded = open::load(files, &self.catalog, seq, &mut bad);
        self.bad.extend(bad);
        loaded
    }

    /// What was done and found since the last call.
    pub fn reports(&mut self) -> std::vec::Drain<'_, Report> {
        self.reports.drain(..)
    }

    /// Takes a job. Nothing is read or written before [`Self::step`].
    pub fn submit(&mut self, job: Job) {
        if self.stopped {
            return;
        }
        match job {
            Job::Ahead { border, version } => self.ahead(border, version),
            Job::Border { image, write } => {
                self.border = self.border.max(image.border);
                self.digests.push_back(Digesting { image, write, install: false, parts: None });
            }
            // The waiting part asks again now and then, which must not restart the work.
            Job::Install { image } if self.installs(&image) => {
                self.reports.push(Report::GaveUp { above: image.seq });
            }
            Job::Install { image } => {
                self.give_up(None);
                self.delete_above(image.seq);
                self.reports.push(Report::GaveUp { above: image.seq });
                self.border = image.border;
                let write = Some(Kind::Full);
                self.digests.push_back(Digesting { image, write, install: true, parts: None });
            }
            Job::Discard { above } => {
                self.give_up(Some(above));
                self.delete_above(above);
                self.reports.push(Report::GaveUp { above });
            }
            Job::ReadManifest { ticket, seq, digest, offset, max } => {
                self.questions.push_back(Question {
                    ticket,
                    seq,
                    digest,
                    ask: Ask::Manifest { offset, max },
                });
            }
            Job::ReadChunk { ticket, seq, digest, chunk } => {
                self.questions.push_back(Question { ticket, seq, digest, ask: Ask::Part(chunk) });
            }
            Job::Pin { seqs } => self.pinned = seqs,
            Job::Forget { keep } => self.chores.push_back(Chore::Forget(keep)),
            _ if self.hold => {}
            Job::Grow(growth) => self.partial.grow(growth),
            Job::ForgetPartial => {
                self.partial = PartialFile::default();
                self.chores.push_back(Chore::ForgetPartial);
            }
            Job::Scrub => self.scrub = Some(Scrub::over(&self.catalog)),
            Job::Repair { seq, chunk, bytes } => {
                self.chores.push_back(Chore::Repair { seq, part: chunk, bytes });
            }
        }
    }

    fn ahead(&mut self, border: u64, version: store::Version) {
        if self.hold || border <= self.border {
            return;
        }
        // A border whose digest is not computed yet still comes for its capture.
        let pending = self.digests.front().map_or(border, |digesting| digesting.image.border);
        self.drop_captures(border.min(pending));
        self.waiting.push_back(Writing::Ahead { border, version });
    }

    /// Whether exactly this image is being installed.
    fn installs(&self, image: &Image) -> bool {
        let same = |install: bool, of: &Image| {
            let named = (of.seq, of.border) == (image.seq, image.border);
            install && named && of.system == image.system && of.objects.same_objects(&image.objects)
        };
        let waits = |writing: &Writing| match writing {
            Writing::Border { target, .. } => same(target.install, &target.image),
            Writing::Ahead { .. } => false,
        };
        let active = self.active.as_ref().and_then(|writer| writer.target.as_ref());
        self.digests.iter().any(|digesting| same(digesting.install, &digesting.image))
            || self.waiting.iter().any(waits)
            || active.is_some_and(|target| same(target.install, &target.image))
    }

    /// Drops everything above a seq, or everything, that is not written yet; and the capture, since it does not lead to what will be
    /// executed.
    fn give_up(&mut self, above: Option<Seq>) {
        let goes = |seq: Seq| above.is_none_or(|above| seq > above);
        // What stays is written as it would have been: it may need the border before it.
        self.reached.retain(|_, manifest| !goes(manifest.seq()));
        let mut skipped = Vec::new();
        if self.active.as_ref().is_some_and(|writer| writer.target.as_ref().is_none_or(|t| goes(t.image.seq)))
        {
            skipped.extend(self.abandon());
        }
        self.waiting.retain(|writing| match writing {
            Writing::Ahead { .. } => false,
            Writing::Border { target, .. } => {
                skipped.extend(Some(target.image.seq).filter(|seq| goes(*seq)));
                !goes(target.image.seq)
            }
        });
        self.digests.retain(|digesting| {
            let goes = goes(digesting.image.seq);
            skipped.extend(Some(digesting.image.seq).filter(|_| goes && digesting.write.is_some()));
            !goes
        });
        if let Some(above) = above {
            let kept = self.catalog.footers.range(..=above).map(|(_, footer)| footer.border);
            let written = self.active.iter().map(|writer| writer.border);
            let coming = self.digests.iter().map(|digesting| digesting.image.border);
            let borders = kept.chain(written).chain(self.waiting.iter().map(Writing::border)).chain(coming);
            self.border = borders.max().unwrap_or(0);
        }
        self.reports.extend(skipped.into_iter().map(|seq| Report::Skipped { seq }));
    }

    /// Stops the present writing. Returns the seq of its image, if it has one.
    fn abandon(&mut self) -> Option<Seq> {
        let writer = self.active.take()?;
        if writer.has_file() {
            self.chores.push_back(Chore::Delete(writer.name));
        }
        writer.target.map(|target| target.image.seq)
    }

    /// Drops captures for borders before this one, which were never reached.
    fn drop_captures(&mut self, border: u64) {
        if self.active.as_ref().is_some_and(|writer| writer.target.is_none() && writer.border < border) {
            self.abandon();
        }
        self.waiting.retain(|writing| !matches!(writing, Writing::Ahead { border: b, .. } if *b < border));
    }

    /// Removes the checkpoints above a seq, newest first.
    fn delete_above(&mut self, above: Seq) {
        self.held.retain(|seq, _| *seq <= above);
        let seqs: Vec<Seq> =
            self.catalog.footers.keys().rev().copied().take_while(|seq| *seq > above).collect();
        for seq in seqs {
            self.remove(seq);
        }
    }

    /// Removes a checkpoint; its file is deleted in a later step.
    fn remove(&mut self, seq: Seq) {
        self.changed(seq);
        let Some(footer) = self.catalog.footers.remove(&seq) else { return };
        self.chores.push_back(Chore::Delete(footer.name()));
    }

    /// A checkpoint's file was replaced, or removed.
    fn changed(&mut self, seq: Seq) {
        self.bad.retain(|(file, _)| *file != seq);
        let told = self.told.len();
        self.told.retain(|(of, file)| *of != seq && *file != seq);
        if self.told.len() < told
            && let Some(footer) = self.catalog.footers.get(&seq)
        {
            self.reports.push(Report::Gone { seq, file: footer.name() });
        }
        self.look = None;
        if self.newest.as_ref().is_some_and(|(newest, _)| newest.seq == seq) {
            self.newest = None;
        }
    }

    /// Does a piece of work of at most about 1 MiB. Returns how much was read and written. Computing the digest of one part of the objects,
    /// comparing manifests, or reading one, is one step each, however large the state is.
    pub fn step(&mut self, files: &mut dyn Files) -> Step {
        if self.stopped {
            return Step::Idle;
        }
        self.turn += 1;
        let scrub = |keeper: &mut Self, files: &mut dyn Files| {
            keeper.step_scrub(files).map(|bytes| Step::Worked { bytes, awaited: false })
        };
        let done = match self.turn.is_multiple_of(SCRUB_TURN) {
            true => scrub(self, files).or_else(|| self.step_main(files)),
            false => self.step_main(files).or_else(|| scrub(self, files)),
        };
        done.unwrap_or(Step::Idle)
    }

    /// As [`Self::step`], but only work for which someone waits: a part of a transfer, a repair, a peer's question.
    pub fn step_awaited(&mut self, files: &mut dyn Files) -> Step {
        if self.stopped || !self.is_awaited() {
            return Step::Idle;
        }
        let bytes = match (self.chores.is_empty(), self.grows()) {
            (false, _) => self.step_chore(files),
            (true, true) => self.step_partial(files),
            (true, false) => self.step_questions(files),
        };
        Step::Worked { bytes, awaited: true }
    }

    fn is_awaited(&self) -> bool {
        !self.chores.is_empty() || !self.questions.is_empty() || self.grows()
    }

    /// Whether more of a checkpoint that is being fetched can be written. Its file may still be that of the one before.
    fn grows(&self) -> bool {
        self.partial.grows() && !self.finishes_partial()
    }

    fn finishes_partial(&self) -> bool {
        self.active.as_ref().is_some_and(|writer| writer.name == PARTIAL)
    }

    fn step_main(&mut self, files: &mut dyn Files) -> Option<Step> {
        if !self.digests.is_empty() {
            self.step_digest();
            return Some(Step::Worked { bytes: 0, awaited: false });
        }
        if !self.chores.is_empty() || self.turn.is_multiple_of(2) && self.is_awaited() {
            return Some(self.step_awaited(files));
        }
        match self.step_write(files) {
            Some(bytes) => Some(Step::Worked { bytes, awaited: false }),
            None => self.is_awaited().then(|| self.step_awaited(files)),
        }
    }

    fn step_digest(&mut self) {
        let Some(front) = self.digests.front_mut() else { return };
        let objects = &front.image.objects;
        let parts = front.parts.get_or_insert_with(|| digest_parts(objects));
        if let Some(part) = parts.next() {
            part.digest();
            return;
        }
        let Some(Digesting { image, write, install, .. }) = self.digests.pop_front() else { return };
        let manifest = Arc::new(Manifest::of(&image));
        let (seq, border, digests) = (image.seq, image.border, manifest.digests());
        // However many borders are passed before a capture's turn comes: what it leaves out must be the same everywhere.
        let captures: BTreeSet<u64> = self.waiting.iter().filter_map(Writing::captured).collect();
        let is_needed = |number: u64| number.checked_add(1).is_some_and(|next| captures.contains(&next));
        self.reached.retain(|number, _| is_needed(*number) && !planted("capture-forgets"));
        self.reached.insert(border, manifest.clone());
        if !install {
            self.reports.push(Report::Digest { seq, border, digests });
        }
        match write {
            Some(asked) => {
                let digest = digests.image;
                self.reached(Target { image, manifest, digest, asked, install });
            }
            None => self.drop_captures(border + 1),
        }
    }

    /// A border that must be written was reached, and its digest is known.
    fn reached(&mut self, target: Target) {
        if self.hold {
            let (seq, digest, kind) = (target.image.seq, target.digest, target.asked);
            self.held.insert(seq, target);
            self.look = None;
            return self.reports.push(Report::Written { seq, digest, kind, instead: None, bytes: 0 });
        }
        let seq = target.image.seq;
        if target.install
            && self.catalog.footers.get(&seq).is_some_and(|footer| footer.digest != target.digest)
        {
            self.remove(seq);
        }
        let border = target.image.border;
        self.drop_captures(border);
        self.skip_one();
        if self.active.as_ref().is_some_and(|writer| writer.target.is_none() && writer.border == border) {
            if target.asked == Kind::Full && !self.is_there(&target) {
                if let Some(writer) = &mut self.active {
                    writer.complete(target);
                }
                return;
            }
            self.abandon();
        }
        let captured =
            self.waiting.iter().position(|w| matches!(w, Writing::Ahead { border: b, .. } if *b == border));
        let ahead = match captured.and_then(|at| self.waiting.remove(at)) {
            Some(Writing::Ahead { version, .. }) if target.asked == Kind::Full => Some(version),
            _ => None,
        };
        let at = self.waiting.partition_point(|writing| writing.border() < border);
        self.waiting.insert(at, Writing::Border { ahead, target: Box::new(target) });
    }

    /// If a checkpoint comes while one waits behind the one that is being written, the waiting one is skipped.
    fn skip_one(&mut self) {
        let active = self.active.as_ref().is_some_and(|writer| writer.target.is_some());
        let is_border = |writing: &Writing| matches!(writing, Writing::Border { .. });
        let reached = self.waiting.iter().filter(|writing| is_border(writing)).count() + usize::from(active);
        if reached < 2 {
            return;
        }
        let Some(last) = self.waiting.iter().rposition(is_border) else { return };
        if let Some(Writing::Border { target, .. }) = self.waiting.remove(last) {
            self.reports.push(Report::Skipped { seq: target.image.seq });
        }
    }

    /// Whether a checkpoint is here already, as asked for and as far as is known sound: after a start, execution passes the borders after
    /// its checkpoint a second time.
    fn is_there(&self, target: &Target) -> bool {
        let seq = target.image.seq;
        let fits = |footer: &Footer| {
            footer.digest == target.digest
                && (footer.kind == Kind::Full || target.asked == Kind::Differential)
        };
        self.catalog.footers.get(&seq).is_some_and(fits) && !self.is_damaged(seq)
    }

    /// Whether something that a checkpoint needs is known to be damaged, or is not here.
    fn is_damaged(&self, seq: Seq) -> bool {
        let chain = self.catalog.chain(seq);
        chain.is_none_or(|chain| {
            chain.iter().any(|link| self.bad.range((*link, 0)..=(*link, u64::MAX)).next().is_some())
        })
    }
}

impl Writing {
    /// The border of the present capture, if there is one.
    fn captured(&self) -> Option<u64> {
        match self {
            Self::Ahead { border, .. } => Some(*border),
            Self::Border { ahead, target } => ahead.as_ref().map(|_| target.image.border),
        }
    }

    fn border(&self) -> u64 {
        match self {
            Self::Ahead { border, .. } => *border,
            Self::Border { target, .. } => target.image.border,
        }
    }
}

/// Writing.
impl Keeper {
    fn step_write(&mut self, files: &mut dyn Files) -> Option<u64> {
        if self.active.is_none() {
            let next = self.waiting.pop_front()?;
            self.begin(files, next);
            return Some(0);
        }
        let writer = self.active.as_mut()?;
        match writer.step(files) {
            Ok(Outcome::Waiting) => None,
            Ok(Outcome::Worked(bytes)) => {
                self.say_too_early();
                Some(bytes)
            }
            Ok(Outcome::Published(footer)) => {
                self.published(footer);
                Some(0)
            }
            Err(trouble) => {
                self.not_written(trouble);
                Some(0)
            }
        }
    }

    fn begin(&mut self, files: &mut dyn Files, next: Writing) {
        let writer = match next {
            Writing::Ahead { border, version } => {
                Writer::ahead(border, version, self.manifest_before(files, border))
            }
            Writing::Border { target, .. } if self.is_there(&target) => {
                let footer = &self.catalog.footers[&target.image.seq];
                let (kind, bytes) = (footer.kind, footer.file_len());
                let (seq, digest) = (target.image.seq, target.digest);
                return self.reports.push(Report::Written { seq, digest, kind, instead: None, bytes });
            }
            Writing::Border { ahead: Some(version), target } => {
                let border = target.image.border;
                let mut writer = Writer::ahead(border, version, self.manifest_before(files, border));
                writer.complete(*target);
                writer
            }
            Writing::Border { ahead: None, target } if target.asked == Kind::Full => {
                let written = Some(&target).filter(|target| target.install);
                match written.and_then(|target| self.partial.hand_over(&target.manifest)) {
                    Some(written) => Writer::of_fetched(*target, written),
                    None => Writer::of(*target, Kind::Full, None, None),
                }
            }
            Writing::Border { ahead: None, target } => match self.base(files, &target) {
                Ok(base) => Writer::of(*target, Kind::Differential, Some(base), None),
                Err(why) => Writer::of(*target, Kind::Full, None, Some(why)),
            },
        };
        self.active = Some(writer);
    }

    /// The manifest of the border before this one, if that was reached since the start, or its file is here.
    fn manifest_before(&self, files: &mut dyn Files, border: u64) -> Option<Arc<Manifest>> {
        let before = border.checked_sub(1)?;
        if let Some(manifest) = self.reached.get(&before) {
            return Some(manifest.clone());
        }
        let footer = self.catalog.footers.values().rev().find(|footer| footer.border == before)?;
        Some(Arc::new(read_layout(files, footer).ok()?.manifest))
    }

    /// The base of a differential checkpoint: the file of the border before.
    fn base(&mut self, files: &mut dyn Files, target: &Target) -> Result<Base, Instead> {
        let before = self.catalog.footers.range(..target.image.seq).next_back().map(|(_, footer)| footer);
        let footer = before.filter(|footer| footer.border.checked_add(1) == Some(target.image.border));
        let footer = footer.ok_or(Instead::NoPrevious)?.clone();
        if self.is_damaged(footer.seq) {
            return Err(Instead::PreviousDamaged);
        }
        let links = self.catalog.chain(footer.seq).map_or(0, |chain| chain.len());
        if links > LINKS_MAX as usize {
            return Err(Instead::ChainTooLong);
        }
        let previous = Previous { seq: footer.seq, digest: footer.digest };
        let manifest = match &self.newest {
            Some((newest, manifest)) if *newest == previous => manifest.clone(),
            _ => Arc::new(read_layout(files, &footer).map_err(|_| Instead::PreviousDamaged)?.manifest),
        };
        Ok(Base { previous, manifest })
    }

    fn published(&mut self, footer: Footer) {
        let Some(writer) = self.active.take() else { return };
        let previous = Previous { seq: footer.seq, digest: footer.digest };
        self.changed(footer.seq);
        self.newest = writer.target.as_ref().map(|target| (previous, target.manifest.clone()));
        self.lost.retain(|name| *name != footer.name());
        if let Some(old) = self.catalog.footers.insert(footer.seq, footer.clone())
            && old.kind != footer.kind
        {
            self.chores.push_back(Chore::Delete(old.name()));
        }
        if !writer.said {
            self.say_written(&footer, writer.instead);
        }
    }

    fn say_written(&mut self, footer: &Footer, instead: Option<Instead>) {
        let (seq, digest, kind) = (footer.seq, footer.digest, footer.kind);
        self.reports.push(Report::Written { seq, digest, kind, instead, bytes: footer.file_len() });
    }

    /// Only with the planted bug: reports a checkpoint as durable when it is merely written.
    fn say_too_early(&mut self) {
        if !planted("unpublished-trim") {
            return;
        }
        let Some(writer) = self.active.as_mut().filter(|writer| writer.is_only_written() && !writer.said)
        else {
            return;
        };
        writer.said = true;
        let Some(target) = &writer.target else { return };
        let (seq, digest, kind) = (target.image.seq, target.digest, writer.kind);
        let bytes = writer.written();
        self.reports.push(Report::Written { seq, digest, kind, instead: None, bytes });
    }

    fn not_written(&mut self, trouble: Trouble) {
        if let Some(writer) = self.active.as_mut().filter(|writer| writer.target.is_none())
            && matches!(trouble, Trouble::NoRoom)
        {
            writer.park();
            self.chores.push_back(Chore::Delete(writer.name.clone()));
            return;
        }
        let seq = self.active.take().and_then(|writer| {
            self.chores.push_back(Chore::Delete(writer.name));
            Some(writer.target?.image.seq)
        });
        match trouble {
            Trouble::NoRoom => self.reports.extend(seq.map(|seq| Report::NoRoom { seq })),
            Trouble::Failed { what, sync } => {
                self.fail(what, sync);
                self.reports.extend(seq.map(|seq| Report::Skipped { seq }));
            }
        }
    }

    /// The disk failed. After a failed sync nothing may be tried again, since it is unknown what reached the disk.
    pub(super) fn fail(&mut self, what: String, sync: bool) {
        self.stopped |= sync;
        self.reports.push(Report::Failed { what, sync });
    }
}

/// Work on files that are here.
impl Keeper {
    fn step_chore(&mut self, files: &mut dyn Files) -> u64 {
        let Some(chore) = self.chores.pop_front() else { return 0 };
        match chore {
            Chore::Delete(name) => {
                if let Err(error) = delete_if_there(files, &name) {
                    self.fail(format!("delete {name}: {error}"), false);
                }
                0
            }
            Chore::Forget(keep) => {
                self.forget(keep);
                0
            }
            Chore::ForgetPartial => {
                // A checkpoint that is complete but for its end is finished all the same.
                if !self.finishes_partial()
                    && let Err(error) = partial::delete(files)
                {
                    self.fail(format!("delete {PARTIAL}: {error}"), false);
                }
                0
            }
            Chore::Repair { seq, part, bytes } => self.repair(files, seq, part, bytes),
        }
    }

    /// Deletes what is needed neither by this checkpoint nor by a newer one.
    fn forget(&mut self, keep: Seq) {
        if self.held.contains_key(&keep) {
            self.held.retain(|seq, _| *seq >= keep || self.pinned.contains(seq));
        }
        if !self.catalog.footers.contains_key(&keep) {
            return;
        }
        let base = self.active.as_ref().and_then(|writer| writer.base.as_ref());
        let newer = self.catalog.footers.range(keep..).map(|(seq, _)| *seq);
        let base = base.map(|base| base.previous.seq);
        let roots: Vec<Seq> = newer.chain(base).chain(self.pinned.iter().copied()).collect();
        let mut needed = BTreeSet::new();
        for root in roots {
            // A chain that is broken further down still needs the links above the break.
            let mut link = Some(root);
            while let Some(footer) = link.and_then(|seq| self.catalog.footers.get(&seq)) {
                if !needed.insert(footer.seq) {
                    break;
                }
                link = footer.previous.map(|previous| previous.seq);
            }
        }
        let goes: Vec<Seq> =
            self.catalog.footers.keys().rev().copied().filter(|seq| !needed.contains(seq)).collect();
        for seq in goes {
            assert!(seq < keep, "INV-KEEP-5 what is to be kept, and what is newer, is not deleted");
            self.remove(seq);
        }
        let old = |name: &String| parse_name(name).is_some_and(|(seq, _)| seq < keep);
        let (goes, stays) = std::mem::take(&mut self.lost).into_iter().partition(old);
        self.lost = stays;
        self.chores.extend(Vec::into_iter(goes).map(Chore::Delete));
    }

    fn step_partial(&mut self, files: &mut dyn Files) -> u64 {
        match self.partial.step(files) {
            Ok(bytes) => bytes,
            Err(trouble) => {
                // Nothing is lost but time: the checkpoint is written at once when all of it is here.
                self.chores.push_back(Chore::ForgetPartial);
                if let Trouble::Failed { what, sync } = trouble {
                    self.fail(what, sync);
                }
                0
            }
        }
    }

    fn step_scrub(&mut self, files: &mut dyn Files) -> Option<u64> {
        let scrub = self.scrub.as_mut()?;
        let (bytes, found) = scrub.step(files, &self.catalog);
        let finished = scrub.is_finished().then(|| scrub.bytes());
        for found in found {
            match found {
                Found::Rot { seq, at, place } => {
                    // A scrub on request reports everything, also damage that is known already.
                    self.bad.remove(&(seq, at));
                    self.rot(seq, seq, at, place);
                }
                Found::Mended { seq, place } => {
                    self.bad.remove(&(seq, 0));
                    self.reports.push(Report::Repaired { seq, place });
                }
                Found::Failed(Trouble::NoRoom) => {}
                Found::Failed(Trouble::Failed { what, sync }) => self.fail(what, sync),
            }
        }
        if let Some(bytes) = finished {
            self.scrub = None;
            self.reports.push(Report::ScrubDone { bytes });
        }
        Some(bytes)
    }

    /// Rot was noticed in a checkpoint, in its own file or in another one. It is reported once.
    pub(super) fn rot(&mut self, seq: Seq, file: Seq, at: u64, place: RotAt) {
        let Some(digest) = self.catalog.footers.get(&seq).map(|footer| footer.digest) else { return };
        let Some(name) = self.catalog.footers.get(&file).map(Footer::name) else { return };
        if self.bad.insert((file, at)) {
            self.told.insert((seq, file));
            self.reports.push(Report::Rot { seq, digest, file: name.clone(), place });
        }
        if place == RotAt::Whole {
            // As if that had been found at the start: no question and no scrub comes to it again.
            self.catalog.footers.remove(&file);
            self.changed(file);
            self.lost.push(name);
        }
    }
}
