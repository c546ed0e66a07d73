//! Peers' questions, and repairs with what peers sent. Both must find the parts of a checkpoint.

use bytes::Bytes;
use quorate_types::{Digest, Seq};

use super::super::file::record_head;
use super::super::files::Files;
use super::super::reader::{Located, Unreadable, read_part};
use super::super::writer::{Trouble, part_bytes};
use super::super::{ManifestPart, Report, RotAt};
use super::{Chore, Keeper};

/// A peer's question.
pub(super) struct Question {
    pub(super) ticket: u64,
    pub(super) seq: Seq,
    pub(super) digest: Digest,
    pub(super) ask: Ask,
}

#[derive(Clone, Copy)]
pub(super) enum Ask {
    Manifest { offset: u64, max: usize },
    Part(u32),
}

/// The checkpoint that was asked for last: where its parts are, as far as was looked, and its manifest's bytes.
pub(super) struct Look {
    seq: Seq,
    located: Located,
    finished: bool,
    manifest: Option<Bytes>,
}

/// One step answers this many bytes: parts are small, and while a checkpoint is written only every second step answers.
const ANSWER_BYTES: u64 = 512 << 10;

impl Keeper {
    /// Answers as many questions as make a step's work.
    pub(super) fn step_questions(&mut self, files: &mut dyn Files) -> u64 {
        let mut bytes = 0;
        loop {
            let before = self.questions.len();
            bytes += self.step_question(files);
            // One that must be looked for is what the next step goes on with.
            if self.questions.is_empty() || self.questions.len() == before || bytes >= ANSWER_BYTES {
                return bytes;
            }
        }
    }

    fn step_question(&mut self, files: &mut dyn Files) -> u64 {
        let Some(question) = self.questions.front() else { return 0 };
        let (seq, digest) = (question.seq, question.digest);
        if self.hold {
            self.answer_held();
            return 0;
        }
        let here = self.catalog.footers.get(&seq).is_some_and(|footer| footer.digest == digest);
        if here && !self.find(files, seq) {
            return 0;
        }
        let Some(question) = self.questions.pop_front() else { return 0 };
        let known = here && self.look.as_ref().is_some_and(|look| look.seq == seq);
        self.answer(files, question, known)
    }

    /// Looks for the parts of a checkpoint, one file at a time. Returns whether that is finished; if the manifest is lost, there is then no
    /// `look`.
    fn find(&mut self, files: &mut dyn Files, seq: Seq) -> bool {
        match self.look.as_mut().filter(|look| look.seq == seq) {
            Some(look) => {
                look.finished = look.finished || look.located.look(files, &self.catalog);
                look.finished
            }
            None => match Located::begin(files, &self.catalog, seq) {
                Ok(located) => {
                    self.look = Some(Look { seq, located, finished: false, manifest: None });
                    false
                }
                Err(why) => {
                    self.look = None;
                    if why.is_rot() {
                        self.rot(seq, seq, 0, RotAt::Whole);
                    }
                    true
                }
            },
        }
    }

    fn answer(&mut self, files: &mut dyn Files, question: Question, known: bool) -> u64 {
        let Question { ticket, seq, ask, .. } = question;
        let look = self.look.as_mut().filter(|_| known);
        match (ask, look) {
            (Ask::Manifest { .. }, None) => self.reports.push(Report::Manifest { ticket, answer: None }),
            (Ask::Part(_), None) => self.reports.push(Report::Chunk { ticket, answer: None }),
            (Ask::Manifest { offset, max }, Some(look)) => {
                let bytes = look.manifest.get_or_insert_with(|| look.located.manifest.encode().into());
                let answer = cut(bytes, offset, max);
                self.reports.push(Report::Manifest { ticket, answer });
            }
            (Ask::Part(part), Some(look)) => {
                let read = read_part(files, &self.catalog, &look.located, part);
                let rotten = read.as_ref().is_err_and(Unreadable::is_rot);
                let answer = read.ok();
                let spot = look.located.spots.get(part as usize).copied().flatten();
                let bytes = answer.as_ref().map_or(0, |bytes| bytes.len() as u64);
                if let (true, Some((file, at))) = (rotten, spot) {
                    self.rot(seq, file, at, RotAt::Part(part));
                }
                self.reports.push(Report::Chunk { ticket, answer });
                return bytes;
            }
        }
        0
    }

    fn answer_held(&mut self) {
        let Some(Question { ticket, seq, digest, ask }) = self.questions.pop_front() else { return };
        let held = self.held.get(&seq).filter(|held| held.digest == digest);
        let report = match ask {
            Ask::Manifest { offset, max } => {
                let answer = held.and_then(|held| cut(&held.manifest.encode().into(), offset, max));
                Report::Manifest { ticket, answer }
            }
            Ask::Part(part) => {
                let held = held.filter(|held| part < held.manifest.parts());
                let answer = held.map(|held| part_bytes(&held.image, &held.manifest, part));
                Report::Chunk { ticket, answer }
            }
        };
        self.reports.push(report);
    }

    /// Writes a part of a checkpoint again, if these are its bytes, into the file that it belongs to.
    pub(super) fn repair(&mut self, files: &mut dyn Files, seq: Seq, part: u32, bytes: Bytes) -> u64 {
        if self.catalog.footers.contains_key(&seq) && !self.find(files, seq) {
            self.chores.push_front(Chore::Repair { seq, part, bytes });
            return 0;
        }
        let located = self.look.as_ref().filter(|look| look.seq == seq).map(|look| &look.located);
        let spot = located.and_then(|located| {
            located.manifest.verify(part, &bytes).ok()?;
            let (file, at) = located.spots.get(part as usize).copied().flatten()?;
            Some((file, at, self.catalog.footers.get(&file)?.name()))
        });
        let Some((file, at, name)) = spot else {
            self.reports.push(Report::NotRepaired { seq, chunk: part });
            return 0;
        };
        let record = [&record_head(&bytes)[..], &bytes].concat();
        let written = files.write_at(&name, at, &record).map_err(Trouble::write(&name));
        match written.and_then(|()| files.sync(&name).map_err(Trouble::sync(&name))) {
            Ok(()) => {
                self.bad.remove(&(file, at));
                self.reports.push(Report::Repaired { seq, place: RotAt::Part(part) });
            }
            Err(trouble) => {
                self.reports.push(Report::NotRepaired { seq, chunk: part });
                if let Trouble::Failed { what, sync } = trouble {
                    self.fail(what, sync);
                }
            }
        }
        record.len() as u64
    }
}

/// A piece of a manifest; `None` beyond its end.
fn cut(manifest: &Bytes, offset: u64, max: usize) -> Option<ManifestPart> {
    let total = manifest.len() as u64;
    let from = usize::try_from(offset).ok().filter(|from| *from < manifest.len())?;
    let to = from.saturating_add(max).min(manifest.len());
    Some(ManifestPart { total, bytes: manifest.slice(from..to) })
}
