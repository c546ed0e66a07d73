//! One batch on its way through its waves.

use super::serial::{Met, Past, Writers, met};
use crate::cells::Cells;
use crate::hints::Entry;
use crate::parallel::{ParallelService, Ran, run};
use crate::view::{Noted, RunId, StateView, Told};
use crate::work::{Above, Done, Stopwatch, Task};
use quorate_state::store::{Changed, Store, Version};
use quorate_types::Time;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What a batch needs beside its requests.
pub(super) struct Ground<'a> {
    pub(super) service: &'a Arc<dyn ParallelService>,
    pub(super) cells: &'a Arc<dyn Cells>,
    pub(super) replies_max: usize,
}

/// The requests of a batch, wave by wave.
pub(super) struct BatchRun {
    entries: BTreeMap<usize, Entry>,
    waves: Vec<Vec<usize>>,
    /// The present wave, how many of its requests were given out, and those that are on their way.
    wave: usize,
    given: usize,
    out: BTreeMap<u64, usize>,
    /// The numbers of the runs of this wave, by the places of their requests in the wave.
    runs: BTreeMap<u64, usize>,
    /// Since when its requests run.
    since: Time,
    /// The objects after the waves before.
    store: Store,
    version: Option<Version>,
    ran: BTreeMap<usize, Ran>,
    /// A request did not run, or panicked; what it wrote may be in the cells.
    pub(super) is_broken: bool,
    /// No order of the requests gives what they did.
    pub(super) is_tangled: bool,
    /// How many waves had requests that met at a key.
    pub(super) met: u64,
    /// The requests in an order that gives this result one after the other, as far as waves ran.
    serial: Vec<usize>,
    /// What requests of waves that ran used.
    past: Past,
}

/// How a batch ran.
pub(super) struct Finished {
    pub(super) ran: BTreeMap<usize, Ran>,
    /// What they told, in an order that gives the result.
    pub(super) told: Vec<Told>,
    pub(super) changed: Changed,
}

impl BatchRun {
    /// The requests begin with this state.
    pub(super) fn new(
        now: Time,
        entries: BTreeMap<usize, Entry>,
        waves: Vec<Vec<usize>>,
        version: Version,
    ) -> Self {
        let mut store = Store::from_version(&version);
        // It notes what changes from now on.
        drop(store.take_changed());
        Self {
            entries,
            waves,
            wave: 0,
            given: 0,
            out: BTreeMap::new(),
            runs: BTreeMap::new(),
            since: now,
            store,
            version: Some(version),
            ran: BTreeMap::new(),
            is_broken: false,
            is_tangled: false,
            met: 0,
            serial: Vec::new(),
            past: Past::default(),
        }
    }

    /// How many waves and requests there are.
    pub(super) fn size(&self) -> (usize, usize) {
        (self.waves.len(), self.entries.len())
    }

    /// Since when the present wave runs.
    pub(super) const fn since(&self) -> Time {
        self.since
    }

    /// Whether all waves ran.
    pub(super) fn is_done(&self) -> bool {
        self.wave == self.waves.len()
    }

    /// Goes on as far as that is possible without others. Gives how long requests took here, and how many these were.
    pub(super) fn go_on(
        &mut self,
        now: Time,
        last_run: &mut u64,
        ground: &Ground<'_>,
        watch: &mut dyn Stopwatch,
    ) -> (u64, u64) {
        let (mut nanos, mut count) = (0, 0);
        while let Some(wave) = self.waves.get(self.wave).filter(|_| !self.is_broken && !self.is_tangled) {
            if let [alone] = wave[..] {
                // Handing it over would only cost time: all others wait for it.
                let began = watch.nanos();
                *last_run += 1;
                self.run_here((alone, *last_run), ground);
                nanos += watch.nanos().saturating_sub(began);
                count += 1;
            } else if self.given < wave.len() || !self.out.is_empty() {
                break;
            }
            self.end_wave(ground.cells);
            (self.wave, self.given, self.since) = (self.wave + 1, 0, now);
        }
        (nanos, count)
    }

    /// Runs a request that has a wave for itself.
    fn run_here(&mut self, (index, number): (usize, u64), ground: &Ground<'_>) {
        let version = self.version.get_or_insert_with(|| self.store.version());
        let Some(Entry { kind, body, ctx, .. }) = self.entries.get(&index) else { return };
        let view = StateView::live(version, &**ground.cells, number);
        let ran = run(&**ground.service, view, (*kind, body), ctx, ground.replies_max);
        self.runs.insert(number, 0);
        self.ran.insert(index, ran);
    }

    /// What was written becomes part of the state, and it is noted whether requests met.
    fn end_wave(&mut self, cells: &Arc<dyn Cells>) {
        let (runs, mut writers) = (std::mem::take(&mut self.runs), Writers::new());
        for part in 0..cells.parts() {
            let mut wrote = BTreeMap::new();
            cells.write(0, part, &mut |part| wrote = part.take());
            for (key, cell) in wrote {
                match cell.value {
                    Some(value) => drop(self.store.put(&key, &value)),
                    None => drop(self.store.remove(&key)),
                }
                let of = cell.writers.iter().filter_map(|run| runs.get(run).copied());
                writers.insert(key, of.collect());
            }
        }
        self.version = None;
        let wave = &self.waves[self.wave];
        let noted: Vec<&Noted> = wave.iter().filter_map(|index| Some(&self.ran.get(index)?.noted)).collect();
        self.past.wave(wave.iter().copied().zip(noted.iter().copied()));
        match met(&noted, &writers) {
            Met::Apart => self.serial.extend(wave),
            Met::Serial(order) => {
                self.met += 1;
                self.serial.extend(order.into_iter().map(|place| wave[place]));
            }
            // Nobody may see such a result.
            Met::Tangled => self.is_tangled = true,
        }
    }

    /// The next request of this wave to run, with this number.
    pub(super) fn next_task(&mut self, number: u64, ground: &Ground<'_>) -> Option<Task> {
        let wave = self.waves.get(self.wave).filter(|wave| wave.len() > 1 && !self.is_broken)?;
        let index = *wave.get(self.given)?;
        let Entry { kind, body, ctx, .. } = self.entries.get(&index)?;
        self.runs.insert(number, self.given);
        self.given += 1;
        self.out.insert(number, index);
        Some(Task {
            at: index as u64,
            run: RunId(number),
            service: ground.service.clone(),
            version: self.version.get_or_insert_with(|| self.store.version()).clone(),
            above: Above::Cells(ground.cells.clone()),
            kind: *kind,
            body: body.clone(),
            ctx: *ctx,
            replies_max: ground.replies_max,
        })
    }

    /// How many requests of this wave nobody has yet.
    pub(super) fn left(&self) -> usize {
        self.waves.get(self.wave).map_or(0, |wave| wave.len() - self.given)
    }

    /// A worker answered. Whether that counts.
    pub(super) fn done(&mut self, done: Done) -> bool {
        let Some(index) = self.out.remove(&done.run.0) else { return false };
        match done.ran {
            Some(ran) => drop(self.ran.insert(index, ran)),
            None => self.is_broken = true,
        }
        true
    }

    /// The requests that ran: their sessions, and how long their replies are.
    pub(super) fn replies(&self) -> impl Iterator<Item = (&Entry, usize)> {
        self.entries.iter().filter_map(|(index, entry)| Some((entry, self.ran.get(index)?.reply.len())))
    }

    /// Whether the batch may come out differently when it runs again, or otherwise than one request after the other.
    pub(super) fn has_varied(&self) -> bool {
        self.met > 0 || self.past.is_turned
    }

    /// How the requests ran, and what they changed. The results have no writes any more.
    pub(super) fn finish(mut self) -> Finished {
        let mut told = Vec::new();
        if !self.has_varied() {
            // Otherwise they would tell it in another order when the batch runs alone.
            self.serial.sort_unstable();
        }
        for index in &self.serial {
            if let Some(ran) = self.ran.get_mut(index) {
                ran.noted.writes.clear();
                told.append(&mut ran.noted.told);
            }
        }
        let changed = self.store.take_changed().expect("INV-EXEC-10: waves change single objects");
        Finished { ran: self.ran, told, changed }
    }
}
