//! The merge written down naively, a replica that compares itself with it, and honest leaders who make up logs.

use quorate_merge::{Checkpoint, Config, Decided, Delivered, Merge, RecordIndex, Refused};
use quorate_types::{InstanceId, Random, Seq, Slot, Time};
use std::collections::BTreeMap;

pub(crate) const NOW: Time = Time::ZERO;

/// The seeds of a test: `count` of them, or as many as `MERGE_SEEDS` says.
pub(crate) fn seeds(from: u64, count: u64) -> std::ops::Range<u64> {
    let wanted = std::env::var("MERGE_SEEDS").ok().and_then(|count| count.parse().ok());
    from..from + wanted.unwrap_or(count)
}

/// A record of an instance's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rec {
    /// A batch with a number of its own.
    Work(u32),
    /// One that asks for so many instances.
    Change(u32, u16),
    /// A no-op with this target.
    Noop(u64),
}

pub(crate) type Logs = Vec<Vec<Rec>>;

/// One place of the global log: the batch's number, or nothing.
pub(crate) type Content = Option<u32>;

/// The global log, place by place: at each the instance's next record is looked at, and nothing is summed up.
#[derive(Clone, Debug)]
pub(crate) struct Naive {
    pub(crate) window: u64,
    pub(crate) instances: u16,
    /// The last slot of this generation, and how many instances follow.
    pub(crate) next: Option<(u64, u16)>,
    pub(crate) slot: u64,
    pub(crate) at: usize,
    read: Vec<usize>,
    pub(crate) log: Vec<Content>,
    /// Where each batch lies.
    pub(crate) places: Vec<(u64, usize)>,
}

impl Naive {
    pub(crate) fn new(window: u64, instances: u16) -> Self {
        let (read, log, places) = (vec![], vec![], vec![]);
        Self { window, instances, next: None, slot: 1, at: 0, read, log, places }
    }

    /// What these logs say, as far as they say it.
    pub(crate) fn of(window: u64, instances: u16, logs: &Logs) -> Self {
        let mut naive = Self::new(window, instances);
        naive.run(logs);
        naive
    }

    pub(crate) fn run(&mut self, logs: &Logs) {
        self.read.resize(logs.len().max(self.read.len()), 0);
        while let Some(record) = self.record(logs) {
            let place = match record {
                Rec::Noop(_) => None,
                Rec::Work(number) | Rec::Change(number, _) => Some(number),
            };
            self.log.push(place);
            self.places.push((self.slot, self.at));
            if let Rec::Change(_, instances) = record
                && self.next.is_none()
                && instances != self.instances
            {
                self.next = Some((self.slot + self.window, instances));
            }
            self.at += 1;
            if self.at == usize::from(self.instances) {
                (self.at, self.slot) = (0, self.slot + 1);
                if let Some((_, instances)) = self.next.take_if(|(border, _)| *border < self.slot) {
                    self.instances = instances;
                }
            }
        }
    }

    /// The record that is there for the next place.
    fn record(&mut self, logs: &Logs) -> Option<Rec> {
        loop {
            let record = *logs.get(self.at)?.get(self.read[self.at])?;
            match record {
                Rec::Noop(target) if target < self.slot => self.read[self.at] += 1,
                Rec::Noop(target) if target > self.slot => return Some(record),
                _ => {
                    self.read[self.at] += 1;
                    return Some(record);
                }
            }
        }
    }
}

pub(crate) fn instance(at: usize) -> InstanceId {
    InstanceId::new(at as u16 + 1)
}

pub(crate) fn config(window: u64) -> Config {
    Config { window, held_bytes_max: 1 << 20 }
}

pub(crate) fn decided(record: Rec) -> Decided<Rec> {
    match record {
        Rec::Noop(target) => Decided::Noop { target: Slot::new(target) },
        work => Decided::Batch { payload: work, bytes: 10 },
    }
}

/// A replica: what its instances told it, and what it executed.
#[derive(Clone, Debug)]
pub(crate) struct Replica {
    pub(crate) merge: Merge<Rec>,
    pub(crate) given: Vec<usize>,
    pub(crate) log: Vec<Content>,
    window: u64,
}

impl Replica {
    pub(crate) fn new(window: u64, instances: u16) -> Self {
        let merge = Merge::new(config(window), instances).expect("a sound configuration");
        Self { merge, given: vec![0; usize::from(instances)], log: vec![], window }
    }

    /// Instances that this replica has.
    pub(crate) fn known(&self) -> usize {
        self.given.len()
    }

    /// Gives it the next record of an instance.
    pub(crate) fn give(&mut self, logs: &Logs, at: usize) -> bool {
        let Some(record) = logs.get(at).and_then(|log| log.get(*self.given.get(at)?)) else { return false };
        self.given[at] += 1;
        let index = RecordIndex(self.given[at] as u64);
        self.merge.decided(instance(at), index, decided(*record)).expect("an honest record");
        true
    }

    /// Executes at most so many pieces of the global log.
    pub(crate) fn pull(&mut self, limit: usize) {
        for _ in 0..limit {
            let Some(piece) = self.merge.next(NOW) else { break };
            match piece {
                Delivered::Noops { first, last } => {
                    assert_eq!(first, Seq::new(self.log.len() as u64 + 1));
                    self.log.resize(last.number() as usize, None);
                }
                Delivered::Batch { seq, place, payload } => {
                    assert_eq!(seq, Seq::new(self.log.len() as u64 + 1));
                    self.execute(payload);
                    assert_eq!(self.merge.seq_of(place), Some(seq));
                    assert_eq!(self.merge.place(seq), Some(place));
                }
            }
            assert_eq!(self.merge.seq().number(), self.log.len() as u64);
        }
        self.merge.invariants(true);
    }

    fn execute(&mut self, batch: Rec) {
        match batch {
            Rec::Work(number) => self.log.push(Some(number)),
            Rec::Change(number, instances) => {
                self.log.push(Some(number));
                match self.merge.change(instances) {
                    Ok(_) => self.given.resize(self.given.len().max(usize::from(instances)), 0),
                    Err(Refused::ChangeUnderWay | Refused::NothingChanges) => {}
                    Err(why) => panic!("{why}"),
                }
            }
            Rec::Noop(_) => unreachable!("a no-op is none of the batches"),
        }
    }

    /// It starts again from a checkpoint, with what it executed up to there.
    pub(crate) fn restart(&mut self, from: &Checkpoint) {
        self.merge = Merge::restore(config(self.window), from).expect("a sound checkpoint");
        self.given = from.instances.iter().map(|part| part.record.0 as usize).collect();
        self.log.truncate(from.seq.number() as usize);
    }

    /// It gets another replica's checkpoint. Afterwards its instances hand on everything behind it, or only what they have not.
    pub(crate) fn jump(&mut self, to: &Checkpoint, log: &[Content], again: bool) {
        self.merge.jump(to).expect("a sound checkpoint");
        self.log = log[..to.seq.number() as usize].to_vec();
        let next = |at: usize| self.merge.next_record(instance(at)).expect("an instance").0 as usize - 1;
        self.given = if again {
            to.instances.iter().map(|part| part.record.0 as usize).collect()
        } else {
            (0..to.instances.len()).map(next).collect()
        };
    }

    /// Compares with the global log, and checkpoints with those of others.
    pub(crate) fn compare(&self, naive: &Naive, checkpoints: &mut BTreeMap<u64, Checkpoint>, seed: u64) {
        let seq = self.log.len();
        assert!(seq <= naive.log.len() && self.log[..] == naive.log[..seq], "seed {seed}: another order");
        let own = self.merge.checkpoint();
        own.check().expect("its own checkpoint is sound");
        let first = checkpoints.entry(seq as u64).or_insert_with(|| own.clone());
        assert_eq!(*first, own, "seed {seed}: replicas write different checkpoints of seq {seq}");
    }
}

/// Leaders who know everything that is decided, and keep the rules: they make up logs of so many records.
pub(crate) fn logs(random: &mut Random, window: u64, instances: u16, records: usize) -> Logs {
    let mut naive = Naive::new(window, instances);
    let mut logs: Logs = vec![vec![]; usize::from(instances)];
    let mut tails = vec![0; usize::from(instances)];
    let mut border = None;
    for number in 1..=records as u32 {
        let at = random.below(logs.len() as u64) as usize;
        let limit = limit(&naive, at, tails[at]);
        let record = match random.below(20) {
            0..=10 if tails[at] < limit => Rec::Work(number),
            11 | 12 if tails[at] < limit => Rec::Change(number, random.below(8) as u16 + 1),
            13..=14 => Rec::Noop(random.below(tails[at] + 1)),
            _ if tails[at] < limit => Rec::Noop(tails[at] + 1 + random.below(limit - tails[at])),
            _ => continue,
        };
        tails[at] = match record {
            Rec::Noop(target) => target.max(tails[at]),
            _ => tails[at] + 1,
        };
        logs[at].push(record);
        naive.run(&logs);
        let change = naive.next.filter(|change| border.replace(*change) != Some(*change));
        if let Some((border, instances)) = change {
            let (before, after) = (usize::from(naive.instances), usize::from(instances));
            logs.resize(logs.len().max(after), vec![]);
            tails.resize(logs.len(), border);
            tails.iter_mut().take(after).skip(before).for_each(|tail| *tail = border);
        }
    }
    logs
}

/// How far a leader may go that knows everything.
fn limit(naive: &Naive, at: usize, tail: u64) -> u64 {
    let window = naive.slot - 1 + naive.window;
    let here = at < usize::from(naive.instances);
    match naive.next {
        Some((border, after)) if at < usize::from(after) => {
            if tail < border {
                window.min(border)
            } else {
                window
            }
        }
        Some((border, _)) if here => window.min(border),
        None if here => window,
        _ => 0,
    }
}
