//! Requests that run before their turn: which may run now, how they ran, and whether that counts.
//!
//! Each has a place in the order. It runs once those ran that it should wait for, on the final objects and on what was written at the places
//! before. When an earlier request turns out to write what it read, it runs again. INV-EXEC-9: a result is taken over at its place only if
//! the run saw there what it would see now; then it is the result of the sequential order.

use super::mixer::Mixer;
use super::written::Written;
use crate::executor::Results;
use crate::hints::Entry;
use crate::parallel::{ParallelService, Ran};
use crate::view::{Noted, RunId};
use crate::work::{Above, Done, Task};
use bytes::Bytes;
use quorate_state::store::Version;
use quorate_types::planted;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A request runs at most this often before it waits until all before it are settled.
const EARLY_RUNS: u32 = 3;

/// Limits of what runs before its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AheadLimits {
    /// The most requests that are planned before they are final. 4096 by default.
    pub planned: usize,
    /// While results have more bytes than this, only requests of the next batch run. 128 MiB by default.
    pub held_bytes: u64,
    /// Final writes are looked through for such that nobody needs once there are this many places of them. 1024 by default.
    pub finals: usize,
    /// No more is delivered while this many items are not final. 4096 by default.
    pub items: usize,
    /// No more is delivered while batches with this many bytes are not final. 64 MiB by default.
    pub bytes: usize,
}

impl Default for AheadLimits {
    fn default() -> Self {
        Self { planned: 4096, held_bytes: 128 << 20, finals: 1024, items: 4096, bytes: 64 << 20 }
    }
}

struct Planned {
    entry: Entry,
    /// How many of those that it waits for have not run.
    waits: usize,
    followers: Vec<u64>,
    runs: u32,
    /// All before it are settled, so it is given all of their writes.
    is_next: bool,
    /// The keys that it wrote when it ran last.
    wrote: Vec<Box<[u8]>>,
    state: State,
}

enum State {
    Waits,
    /// It is on its way, in this run.
    Out(RunId, u64),
    /// How it ran, on the version that begins at this place.
    Ran(Box<Ran>, u64),
    /// It runs on the lane at its turn.
    Left,
}

/// What workers need beside a request.
pub(super) struct Ground<'a> {
    pub(super) service: &'a Arc<dyn ParallelService>,
    /// The final objects, and the first place that is not in them.
    pub(super) version: &'a Version,
    pub(super) base: u64,
    /// The first place after the next batch.
    pub(super) next_ends: u64,
    pub(super) replies_max: usize,
}

/// How often something happened, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct PlanCounts {
    /// Runs on workers.
    pub(crate) runs: u64,
    /// Runs that were void, since an earlier request wrote what they had read.
    pub(crate) void: u64,
    /// Results that were taken over.
    pub(crate) adopted: u64,
}

/// The requests that run before their turn.
#[derive(Default)]
pub(super) struct Plan {
    planned: BTreeMap<u64, Planned>,
    ready: BTreeSet<u64>,
    mixer: Mixer,
    written: Written,
    last_run: u64,
    /// How many are on their way.
    out: usize,
    /// All places before this one are settled: what ran there will count.
    settled: u64,
    /// Bytes of results.
    held: u64,
    limits: AheadLimits,
    pub(super) counts: PlanCounts,
}

impl Plan {
    /// A plan with these limits.
    pub(super) fn new(limits: AheadLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// How many requests are planned and not final.
    pub(super) fn len(&self) -> usize {
        self.planned.len()
    }

    /// Whether another batch may be planned.
    pub(super) fn has_room(&self) -> bool {
        self.planned.len() < self.limits.planned
    }

    /// The request for which everything before this place waits: all before it are settled, and it is on its way.
    pub(super) fn holds_up(&self, end: u64) -> Option<u64> {
        let (at, planned) = self.planned.range(self.settled..end).next()?;
        matches!(planned.state, State::Out(..)).then_some(*at)
    }

    /// Nobody waits for the answer about this request any more: it runs on the lane at its turn.
    pub(super) fn give_up(&mut self, at: u64) {
        if let Some(Planned { state: State::Out(run, _), .. }) = self.planned.get(&at) {
            self.done(Done { at, run: *run, ran: None, nanos: 0 });
        }
    }

    /// Whether one may run now.
    pub(super) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// A new state takes the place of this one: nothing that is under way counts.
    pub(super) fn forget_all(&mut self) {
        *self = Self { last_run: self.last_run, counts: self.counts, limits: self.limits, ..Self::default() };
    }

    /// Plans a request, after all that were planned before.
    pub(super) fn add(&mut self, at: u64, entry: Entry) {
        let before = self.mixer.enter(at, &entry.hints);
        let mut waits = 0;
        for before in before {
            if let Some(planned) = self.planned.get_mut(&before)
                && matches!(planned.state, State::Waits | State::Out(..))
            {
                planned.followers.push(at);
                waits += 1;
            }
        }
        if waits == 0 {
            self.ready.insert(at);
        }
        let (followers, wrote, state) = (Vec::new(), Vec::new(), State::Waits);
        self.planned.insert(at, Planned { entry, waits, followers, runs: 0, is_next: false, wrote, state });
    }

    /// The next request to run, if there is one.
    pub(super) fn next_task(&mut self, ground: &Ground<'_>) -> Option<Task> {
        let at = self.ready.first().copied()?;
        if self.held > self.limits.held_bytes && at >= ground.next_ends {
            return None;
        }
        self.ready.remove(&at);
        let planned = self.planned.get_mut(&at)?;
        let run = RunId(self.last_run + 1);
        let last = match &planned.state {
            State::Ran(ran, _) => Some(&ran.noted.reads),
            _ => None,
        };
        let earlier = match planned.is_next {
            true => self.written.all_earlier(at, ground.base),
            false => self.written.earlier(at, ground.base, &planned.entry.hints, last),
        };
        if let State::Ran(ran, _) = std::mem::replace(&mut planned.state, State::Out(run, ground.base)) {
            self.written.forget_reads(at, &ran.noted.reads);
            self.held -= size(&ran);
        }
        planned.runs += 1;
        (self.last_run, self.out) = (run.0, self.out + 1);
        self.counts.runs += 1;
        let Entry { kind, body, ctx, .. } = &planned.entry;
        let (service, version) = (ground.service.clone(), ground.version.clone());
        let (kind, body, ctx, replies_max) = (*kind, body.clone(), *ctx, ground.replies_max);
        let above = Above::Earlier(earlier);
        Some(Task { at, run, service, version, above, kind, body, ctx, replies_max })
    }

    /// A worker answered.
    pub(super) fn done(&mut self, done: Done) {
        let Done { at, run, ran, .. } = done;
        let Some(planned) = self.planned.get_mut(&at) else { return };
        let State::Out(this, base) = planned.state else { return };
        if this != run {
            return;
        }
        self.out -= 1;
        let followers = std::mem::take(&mut planned.followers);
        let old = std::mem::take(&mut planned.wrote);
        let touched = match ran {
            Some(ran) => {
                self.held += size(&ran);
                planned.wrote = ran.noted.writes.keys().cloned().collect();
                self.written.reads(at, &ran.noted.reads);
                let touched = self.written.ran(at, run, &old, &ran.noted.writes);
                planned.state = State::Ran(Box::new(ran), base);
                touched
            }
            None => {
                planned.state = State::Left;
                self.written.void(at, &old)
            }
        };
        for follower in followers {
            if let Some(follows) = self.planned.get_mut(&follower) {
                follows.waits -= 1;
                if follows.waits == 0 && matches!(follows.state, State::Waits) {
                    self.ready.insert(follower);
                }
            }
        }
        for touched in touched.into_iter().chain([at]) {
            self.look_again(touched);
        }
    }

    /// Whether a result is that of its place, as far as the requests before it ran.
    fn agrees(&self, at: u64, ran: &Ran, base: u64) -> bool {
        planted("range-not-validated") && !ran.noted.reads.ranges.is_empty()
            || planted("run-not-validated")
            || self.written.agrees(at, base, &ran.noted.reads)
    }

    /// Lets a request run again soon if its result is void.
    fn look_again(&mut self, at: u64) {
        let Some(Planned { state: State::Ran(ran, base), runs, .. }) = self.planned.get(&at) else { return };
        if *runs < EARLY_RUNS && !self.ready.contains(&at) && !self.agrees(at, ran, *base) {
            self.counts.void += 1;
            self.ready.insert(at);
        }
    }

    /// Whether all requests before this place ran as they would at their turn, or will run then.
    pub(super) fn settle_up_to(&mut self, end: u64) -> bool {
        while self.settled < end {
            let Some((&at, planned)) = self.planned.range(self.settled..end).next() else {
                self.settled = end;
                break;
            };
            let is_settled = match &planned.state {
                State::Left => true,
                State::Ran(ran, base) => !self.ready.contains(&at) && self.agrees(at, ran, *base),
                State::Waits | State::Out(..) => return false,
            };
            if is_settled {
                self.settled = at + 1;
                continue;
            }
            if self.ready.insert(at) {
                self.counts.void += 1;
            }
            if let Some(planned) = self.planned.get_mut(&at) {
                // First with what it read when it ran before, which is mostly enough.
                planned.is_next = planned.runs > EARLY_RUNS;
            }
            return false;
        }
        true
    }

    /// The request at this place runs on the lane, whatever it did before. Gives the keys that it wrote, which still stand.
    fn leave(&mut self, at: u64) -> Vec<Box<[u8]>> {
        let Some(planned) = self.planned.get_mut(&at) else { return Vec::new() };
        if let State::Ran(ran, _) = std::mem::replace(&mut planned.state, State::Left) {
            self.written.forget_reads(at, &ran.noted.reads);
            self.held -= size(&ran);
        }
        std::mem::take(&mut planned.wrote)
    }

    /// All places before this one are final.
    pub(super) fn became_final(&mut self, end: u64) {
        self.settled = self.settled.max(end);
        self.ready = self.ready.split_off(&end);
        let later = self.planned.split_off(&end);
        for (at, planned) in std::mem::replace(&mut self.planned, later) {
            self.mixer.leave(at, &planned.entry.hints);
            if let State::Ran(ran, _) = planned.state {
                self.written.forget_reads(at, &ran.noted.reads);
                self.held -= size(&ran);
            }
        }
        if self.planned.is_empty() {
            (self.mixer, self.written) = (Mixer::default(), Written::default());
        } else if self.written.has_many_finals(self.limits.finals) {
            let bases = self.planned.values().filter_map(|planned| match planned.state {
                State::Out(_, base) | State::Ran(_, base) => Some(base),
                State::Waits | State::Left => None,
            });
            self.written.forget_before(bases.min().unwrap_or(end).min(end));
        }
    }

    /// A step ran on the lane, and changed something at this place.
    pub(super) fn changed(&mut self, at: u64, before: &Version, after: &Version) {
        self.last_run += 1;
        let wrote = self.leave(at);
        for touched in self.written.changed(at, RunId(self.last_run), &wrote, (before, after)) {
            self.look_again(touched);
        }
    }

    /// What a request wrote at this place does not count.
    fn void(&mut self, at: u64) {
        let wrote = self.leave(at);
        for touched in self.written.void(at, &wrote) {
            self.look_again(touched);
        }
    }

    /// Panics where what is kept does not belong together.
    pub(super) fn invariants(&self) {
        let out = self.planned.values().filter(|planned| matches!(planned.state, State::Out(..))).count();
        assert_eq!(out, self.out, "INV-EXEC-9: runs on their way are counted");
        let held: u64 = self
            .planned
            .values()
            .map(|planned| match &planned.state {
                State::Ran(ran, _) => size(ran),
                _ => 0,
            })
            .sum();
        assert_eq!(held, self.held, "INV-EXEC-9: bytes of results are counted");
        assert!(
            !self.planned.is_empty() || self.mixer.is_empty() && self.written.is_empty(),
            "INV-EXEC-9: nothing is kept for nobody"
        );
    }
}

/// What an entry of a map or a list takes beside its bytes, roughly.
const ENTRY: usize = 64;

/// The bytes that a result takes, roughly.
fn size(ran: &Ran) -> u64 {
    let Noted { reads, writes, told } = &ran.noted;
    let key = |key: &[u8]| 2 * key.len() + ENTRY;
    let writes = writes.iter().map(|(at, value)| key(at) + value.as_ref().map_or(0, Bytes::len));
    // Each read stands in an index, too.
    let keys = reads.keys.keys().map(|at| 2 * key(at));
    let ranges = reads
        .ranges
        .iter()
        .map(|range| key(&range.start) + range.saw.iter().map(|(at, _)| key(at)).sum::<usize>());
    let all = writes.sum::<usize>() + keys.sum::<usize>() + ranges.sum::<usize>();
    (ran.reply.len() + all + told.len() * ENTRY) as u64
}

/// The results for a batch whose first place this is; its requests follow.
pub(super) struct OfBatch<'a> {
    pub(super) plan: &'a mut Plan,
    pub(super) first: u64,
}

impl OfBatch<'_> {
    fn place(&self, index: usize) -> u64 {
        self.first + 1 + index as u64
    }
}

impl Results for OfBatch<'_> {
    fn are_open(&self) -> bool {
        self.plan.len() > 0
    }

    fn take(&mut self, index: usize) -> Option<Ran> {
        let at = self.place(index);
        let planned = self.plan.planned.get(&at)?;
        let State::Ran(ran, base) = &planned.state else { return None };
        if !self.plan.agrees(at, ran, *base) {
            self.plan.counts.void += 1;
            return None;
        }
        let planned = self.plan.planned.get_mut(&at)?;
        let State::Ran(ran, _) = std::mem::replace(&mut planned.state, State::Left) else { return None };
        let wrote = planned.wrote.clone();
        self.plan.written.forget_reads(at, &ran.noted.reads);
        self.plan.held -= size(&ran);
        self.plan.written.became_final(at, wrote);
        self.plan.counts.adopted += 1;
        Some(*ran)
    }

    fn void(&mut self, index: usize) {
        let at = self.place(index);
        if !planted("void-run-counts") {
            self.plan.void(at);
        }
    }

    fn changed(&mut self, index: Option<usize>, before: &Version, after: &Version) {
        let at = index.map_or(self.first, |index| self.place(index));
        self.plan.changed(at, before, after);
    }
}
