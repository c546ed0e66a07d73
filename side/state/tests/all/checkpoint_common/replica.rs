//! A replica that executes a history: the store, the keeper on its disk, and what may be expected of it.

use quorate_state::checkpoint::{Image, Job, Keeper, Kind, Opened, Report, Step};
use quorate_state::store::Store;
use quorate_types::{Digest, Seq};

use super::{Disk, Event, History, Rng};

pub(crate) struct Replica<'a> {
    pub(crate) history: &'a History,
    pub(crate) events: Vec<Event>,
    pub(crate) disk: Disk,
    pub(crate) keeper: Keeper,
    pub(crate) store: Store,
    /// How many events are executed.
    pub(crate) at: usize,
    /// The newest checkpoint that was reported as written.
    pub(crate) written: u64,
    /// The next digest comes from a border after this one.
    digested: u64,
    pub(crate) reports: Vec<Report>,
    /// Something happened after which other bytes than those of other replicas may be written.
    pub(crate) deviates: bool,
}

/// Compares an image with the history.
pub(crate) fn check_image(history: &History, image: &Image) {
    let expected = history.borders.iter().find(|expected| expected.seq == image.seq.number());
    let expected = expected.unwrap_or_else(|| panic!("there is no border at {}", image.seq));
    assert_eq!(image.border, expected.border);
    assert!(image.system == expected.system, "the system bytes of {}", image.seq);
    let found = image.objects.range(&[], None);
    let equal = found.eq(expected.contents.iter().map(|(key, value)| (&key[..], &value[..])));
    assert!(equal, "the objects of {}", image.seq);
    assert_eq!(image.digest(), digest_of(history, expected.border));
}

/// The digest at a border, by putting its contents into a new store one by one.
pub(crate) fn digest_of(history: &History, border: u64) -> Digest {
    image_of(history, border).digest()
}

pub(crate) fn image_of(history: &History, border: u64) -> Image {
    let expected = &history.borders[border as usize - 1];
    let mut store = Store::new();
    for (key, value) in expected.contents.iter().rev() {
        store.put(key, value);
    }
    let (seq, system) = (Seq::new(expected.seq), expected.system.clone());
    Image { seq, border, system, objects: store.version() }
}

impl<'a> Replica<'a> {
    pub(crate) fn new(history: &'a History) -> Self {
        Self::with(history, history.events.clone())
    }

    /// With other events that lead to the same states.
    pub(crate) fn with(history: &'a History, events: Vec<Event>) -> Self {
        let mut disk = Disk::default();
        let (keeper, opened) = Keeper::open(&mut disk, false).expect("an empty disk");
        assert!(opened.image.is_none() && opened.damaged.is_none() && opened.partial.is_empty());
        Self {
            history,
            events,
            disk,
            keeper,
            store: Store::new(),
            at: 0,
            written: 0,
            digested: 0,
            reports: Vec::new(),
            deviates: false,
        }
    }

    pub(crate) fn is_done(&self) -> bool {
        self.at == self.events.len()
    }

    /// The event that is next.
    pub(crate) fn next(&self) -> Option<&Event> {
        self.events.get(self.at)
    }

    pub(crate) fn execute(&mut self) {
        let Some(event) = self.events.get(self.at).cloned() else { return };
        self.at += 1;
        match event {
            Event::Change(changes) => {
                for (key, value) in changes {
                    match value {
                        Some(value) => self.store.put(&key, &value),
                        None => self.store.remove(&key),
                    };
                }
            }
            Event::Ahead(border) => self.keeper.submit(Job::Ahead { border, version: self.store.version() }),
            Event::Border(border) => {
                let expected = &self.history.borders[border as usize - 1];
                assert_eq!(expected.seq, self.at as u64);
                let (seq, system) = (Seq::new(expected.seq), expected.system.clone());
                let image = Image { seq, border, system, objects: self.store.version() };
                self.keeper.submit(Job::Border { image, write: expected.write });
            }
        }
    }

    /// One step of the keeper, and whether there was anything to do.
    pub(crate) fn step(&mut self) -> bool {
        let step = self.keeper.step(&mut self.disk);
        let mut reports: Vec<Report> = self.keeper.reports().collect();
        if self.disk.crashed() {
            reports.retain(|report| !matches!(report, Report::Rot { .. })); // the machine is gone, and nothing can be read
        }
        for report in &reports {
            self.check(report);
        }
        self.reports.extend(reports);
        step != Step::Idle
    }

    pub(crate) fn settle(&mut self) {
        for _ in 0..100_000 {
            if !self.step() {
                return;
            }
        }
        panic!("the keeper does not come to rest");
    }

    fn check(&mut self, report: &Report) {
        match report {
            Report::Digest { seq, border, digests } => {
                assert_eq!(*border, self.digested + 1, "digests come in order");
                assert_eq!(seq.number(), self.history.borders[*border as usize - 1].seq);
                assert_eq!(*digests, image_of(self.history, *border).digests());
                self.digested = *border;
            }
            Report::Written { seq, digest, kind, instead, .. } => {
                let expected = self.history.borders.iter().find(|e| e.seq == seq.number()).expect("a border");
                assert!(expected.border <= self.digested, "the digest comes first");
                assert_eq!(*digest, digest_of(self.history, expected.border));
                assert!(instead.is_none() || *kind == Kind::Full);
                self.written = self.written.max(seq.number());
                self.deviates |= instead.is_some();
            }
            Report::Skipped { .. } | Report::NoRoom { .. } | Report::Failed { .. } => self.deviates = true,
            _ => {}
        }
    }

    /// Opens what is on the disk and goes on from there.
    pub(crate) fn reopen(&mut self) -> Opened {
        let (keeper, opened) = Keeper::open(&mut self.disk, false).expect("the disk can be read");
        self.keeper = keeper;
        self.store =
            opened.image.as_ref().map_or_else(Store::new, |image| Store::from_version(&image.objects));
        self.at = opened.image.as_ref().map_or(0, |image| image.seq.number() as usize);
        self.digested = opened.image.as_ref().map_or(0, |image| image.border);
        if let Some(image) = &opened.image {
            check_image(self.history, image);
        }
        opened
    }

    /// The machine crashes; nothing that was reported as written may be lost.
    pub(crate) fn crash(&mut self, rng: &mut Rng) {
        self.disk.crash(rng);
        let opened = self.reopen();
        let found = opened.image.map_or(0, |image| image.seq.number());
        assert!(found >= self.written, "{found} was loaded, and {} was reported as written", self.written);
        assert!(opened.damaged.is_none() && opened.lost.is_empty(), "{:?}", opened.lost);
    }
}
