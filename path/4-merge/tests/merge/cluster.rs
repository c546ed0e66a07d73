//! Whole clusters of merges: leaders propose and fill, lose office and what they proposed, questions get lost with their connections, the
//! number of instances changes. Ordering itself is a list per instance that leaders append to. Then the faults end: everything is
//! delivered everywhere, every read ends, and the cluster falls silent.

use crate::common::{Content, Logs, Naive, Rec, Replica, instance, seeds};
use quorate_merge::{Bounds, Checkpoint, Leader, Place, Proposer, ReadEnd, RecordIndex};
use quorate_types::{Random, Slot};
use std::collections::{BTreeMap, BTreeSet};

/// One instance: what is decided, and what its leader appended.
#[derive(Clone, Default)]
struct Group {
    tail: Vec<Rec>,
    leader: usize,
    view: u64,
    /// A leader that knows so many records is settled.
    settled_at: usize,
    /// Batches that clients gave to its leader.
    waiting: Vec<Rec>,
}

struct World {
    random: Random,
    window: u64,
    first: u16,
    decided: Logs,
    groups: Vec<Group>,
    replicas: Vec<Replica>,
    /// What each replica knows of each instance's leader: the view.
    views: Vec<Vec<u64>>,
    /// Questions under way: from, to, about which instance, and the place.
    questions: Vec<(usize, usize, usize, Place)>,
    /// Reads that wait: where, and how much they must see.
    reads: BTreeMap<u64, (usize, usize)>,
    proposed: u32,
    last_read: u64,
    /// Leaders sit on lanes of their own, and hear of the merge late: each with its view and what it knows.
    apart: Option<BTreeMap<(usize, usize), (Proposer, Bounds)>>,
    checkpoints: Vec<Option<Checkpoint>>,
    restarts: u64,
    jumps: u64,
}

impl World {
    fn new(seed: u64, replicas: usize) -> Self {
        let mut random = Random::new(seed);
        let (window, first) = (random.below(6) + 2, random.below(5) as u16 + 1);
        let replicas = vec![Replica::new(window, first); replicas];
        let mut world = Self {
            random,
            window,
            first,
            decided: vec![],
            groups: vec![],
            views: vec![vec![]; replicas.len()],
            replicas,
            questions: vec![],
            reads: BTreeMap::new(),
            proposed: 0,
            last_read: 0,
            apart: seed.is_multiple_of(3).then(BTreeMap::new),
            checkpoints: vec![None; 3],
            restarts: 0,
            jumps: 0,
        };
        world.begin_groups();
        world
    }

    fn below(&mut self, end: usize) -> usize {
        self.random.below(end as u64) as usize
    }

    /// Instances begin when the first replica has them.
    fn begin_groups(&mut self) {
        let count = self.replicas.iter().map(Replica::known).max().unwrap_or(0);
        while self.groups.len() < count {
            let leader = self.below(self.replicas.len());
            self.groups.push(Group { leader, view: 1, ..Group::default() });
            self.decided.push(vec![]);
        }
    }

    fn some_group(&mut self) -> usize {
        self.below(self.groups.len())
    }

    /// Another leader, with some of what the one before appended: that is decided before it is settled.
    fn elect(&mut self, at: usize) {
        let (leader, lost) = (self.below(self.replicas.len()), self.below(4));
        let group = &mut self.groups[at];
        let keep = group.tail.len().saturating_sub(lost);
        group.tail.truncate(keep);
        (group.leader, group.view) = (leader, group.view + 1);
        group.settled_at = self.decided[at].len() + keep;
    }

    /// A replica hears who leads an instance.
    fn hear(&mut self, who: usize, at: usize) {
        let (group, known) = (&self.groups[at], self.replicas[who].known());
        self.views[who].resize(known, 0);
        if at >= known {
            return;
        }
        if self.views[who][at] != group.view {
            self.views[who][at] = group.view;
            let leader = if group.leader == who { Leader::Here } else { Leader::Elsewhere };
            self.replicas[who].merge.leader(instance(at), leader);
            if let (Some(apart), Some(bounds)) =
                (&mut self.apart, self.replicas[who].merge.bounds(instance(at)))
            {
                apart.insert((who, at), (Proposer::default(), bounds));
            }
        }
        if group.leader == who && self.replicas[who].given[at] >= group.settled_at {
            let merge = &mut self.replicas[who].merge;
            merge.settled(instance(at));
            if let Some((proposer, bounds)) = self.apart.as_mut().and_then(|apart| apart.get_mut(&(who, at)))
                && !proposer.is_settled()
            {
                *bounds = merge.bounds(instance(at)).expect("an instance");
                proposer.settle(bounds);
            }
        }
    }

    /// The leaders of a replica hear of its merge.
    fn refresh(&mut self, who: usize) -> bool {
        let mut news = false;
        for ((of, at), (_, bounds)) in self.apart.iter_mut().flatten().filter(|((of, _), _)| *of == who) {
            if let Some(new) = self.replicas[*of].merge.bounds(instance(*at)) {
                news |= std::mem::replace(bounds, new) != new;
            }
        }
        news
    }

    fn room(&self, who: usize, at: usize) -> u64 {
        match &self.apart {
            Some(apart) => apart.get(&(who, at)).map_or(0, |(proposer, bounds)| proposer.room(bounds)),
            None => self.replicas[who].merge.room(instance(at)),
        }
    }

    fn propose(&mut self, who: usize, at: usize) {
        let merge = &mut self.replicas[who].merge;
        match self.apart.as_mut().and_then(|apart| apart.get_mut(&(who, at))) {
            Some((proposer, bounds)) => {
                let slot = proposer.propose(bounds);
                merge.proposes_apart(instance(at), *proposer, Some(slot));
            }
            None => drop(merge.proposed(instance(at)).expect("it leads")),
        }
    }

    fn fill(&mut self, who: usize, at: usize) -> Option<u64> {
        let target = match &mut self.apart {
            Some(apart) => apart.get_mut(&(who, at)).and_then(|(proposer, bounds)| proposer.fill(bounds)),
            None => self.replicas[who].merge.fill(instance(at)),
        };
        target.map(Slot::number)
    }

    /// A replica dies and starts again from its checkpoint: it leads nothing, and its reads are gone.
    fn restart(&mut self, who: usize) {
        let first = Checkpoint::begin(self.window, self.first);
        let from = self.checkpoints[who].clone().unwrap_or(first);
        self.replicas[who].restart(&from);
        self.views[who].clear();
        self.reads.retain(|_, (reader, _)| *reader != who);
        self.questions.retain(|(_, to, _, _)| *to != who);
        if let Some(apart) = &mut self.apart {
            apart.retain(|(of, _), _| *of != who);
        }
        for at in 0..self.groups.len() {
            if self.groups[at].leader == who {
                self.elect(at);
            }
        }
        self.restarts += 1;
    }

    /// A replica that is behind gets another one's state.
    fn jump(&mut self, who: usize) {
        let from = self.below(self.replicas.len());
        if self.replicas[from].log.len() <= self.replicas[who].log.len() {
            return;
        }
        let (to, log) = (self.replicas[from].merge.checkpoint(), self.replicas[from].log.clone());
        let again = self.below(2) == 0;
        self.replicas[who].jump(&to, &log, again);
        self.checkpoints[who] = Some(to);
        self.jumps += 1;
    }

    /// A replica learns what is decided next in an instance, and executes what it can.
    fn learn(&mut self, who: usize, at: usize) -> bool {
        let replica = &mut self.replicas[who];
        let news = at < replica.known() && replica.give(&self.decided, at);
        replica.pull(usize::MAX);
        self.begin_groups();
        if self.views[who].get(at).is_some_and(|view| *view == self.groups[at].view) {
            self.hear(who, at);
        }
        news
    }

    fn decide(&mut self, at: usize) -> bool {
        let group = &mut self.groups[at];
        if group.tail.is_empty() {
            return false;
        }
        let record = group.tail.remove(0);
        self.decided[at].push(record);
        true
    }

    fn append(&mut self, who: usize, at: usize, record: Rec) {
        let group = &mut self.groups[at];
        let in_office = group.leader == who && self.views[who][at] == group.view;
        if in_office {
            group.tail.push(record);
        } else if !matches!(record, Rec::Noop(_)) {
            group.waiting.push(record); // its client sends it again
        }
    }

    /// The end of a turn, as a host does it.
    fn turn(&mut self, who: usize) -> bool {
        let mut active = false;
        for at in 0..self.replicas[who].known() {
            self.hear(who, at);
            let leads = self.groups[at].leader == who;
            while leads && self.room(who, at) > 0 && !self.groups[at].waiting.is_empty() {
                let record = self.groups[at].waiting.remove(0);
                self.propose(who, at);
                self.append(who, at, record);
                active = true;
            }
        }
        active |= self.end_reads(who);
        for at in 0..self.replicas[who].known() {
            if let Some(target) = self.fill(who, at) {
                self.append(who, at, Rec::Noop(target));
                active = true;
            }
        }
        let (groups, questions) = (&self.groups, &mut self.questions);
        self.replicas[who].merge.asks(|whom, place| {
            let at = usize::from(whom.number()) - 1;
            questions.push((who, groups[at].leader, at, place));
            active = true;
        });
        active
    }

    fn end_reads(&mut self, who: usize) -> bool {
        let mut ends = vec![];
        self.replicas[who].merge.reads(|read, end| ends.push((read, end)));
        let active = !ends.is_empty();
        for (read, end) in ends {
            let (_, must) = self.reads[&read];
            match end {
                ReadEnd::Ready => {
                    assert!(
                        self.replicas[who].log.len() >= must,
                        "a read misses what was executed before it"
                    );
                    self.reads.remove(&read);
                }
                ReadEnd::AskAnother => self.ask_leader(read, who, None),
            }
        }
        active
    }

    /// A read comes: what anybody executed by now it must see.
    fn read(&mut self, who: usize, through: Option<usize>) {
        self.last_read += 1;
        let must = self.replicas.iter().map(|replica| replica.log.len()).max().unwrap_or(0);
        self.reads.insert(self.last_read, (who, must));
        self.ask_leader(self.last_read, who, through);
    }

    fn ask_leader(&mut self, read: u64, who: usize, through: Option<usize>) {
        let merge = &mut self.replicas[who].merge;
        let next = || usize::from(merge.read_through(|_| true).expect("an instance").number()) - 1;
        let at = through.unwrap_or_else(next);
        // A settled leader knows all that is decided.
        merge.read_confirmed(read, instance(at), RecordIndex(self.decided[at].len() as u64));
    }

    fn deliver(&mut self) -> bool {
        if self.questions.is_empty() {
            return false;
        }
        let (_, to, _, place) = self.questions.remove(0);
        self.replicas[to].merge.asked(place);
        true
    }

    fn client(&mut self, at: usize) {
        self.proposed += 1;
        let (number, change) = (self.proposed, self.random.below(25) == 0);
        let instances = self.random.below(6) as u16 + 1;
        let record = if change { Rec::Change(number, instances) } else { Rec::Work(number) };
        self.groups[at].waiting.push(record);
    }

    /// Anything may happen.
    fn step(&mut self, busy: usize) {
        let (who, at) = (self.below(self.replicas.len()), self.some_group());
        match self.below(18) {
            0 => self.client(if busy < self.groups.len() { busy } else { at }),
            1..=4 => drop(self.learn(who, at)),
            5..=8 => drop(self.decide(at)),
            9..=11 => drop(self.turn(who)),
            12 => drop(self.deliver()),
            13 => self.hear(who, at),
            14 if self.below(3) == 0 => self.elect(at),
            14 if self.below(3) == 0 && !self.questions.is_empty() => {
                let (from, _, at, _) = self.questions.remove(0);
                self.replicas[from].merge.ask_again(instance(at));
            }
            15 if self.below(4) == 0 => {
                let through = self.some_group();
                let known = self.views[who].len().min(through + 1) == through + 1;
                self.read(who, Some(through).filter(|_| known));
            }
            16 => drop(self.refresh(who)),
            17 if self.below(8) == 0 => self.checkpoints[who] = Some(self.replicas[who].merge.checkpoint()),
            17 if self.below(20) == 0 => self.restart(who),
            17 if self.below(8) == 0 => self.jump(who),
            _ => {}
        }
        self.check_window();
    }

    /// Nobody is further ahead than the window allows for whoever knows most.
    fn check_window(&self) {
        let naive = Naive::of(self.window, self.first, &self.decided);
        for replica in &self.replicas {
            let seq = replica.log.len();
            assert!(seq <= naive.log.len() && replica.log[..] == naive.log[..seq], "another order");
            let status = replica.merge.status(crate::common::NOW);
            // Nothing of an instance that is to come is decided before its first slot is.
            let decided = |part: &quorate_merge::InstanceStatus| part.decided > part.delivered;
            let mut all = status.instances.iter().filter(|part| decided(part));
            let ahead = all.any(|part| part.decided.number() >= naive.slot + self.window);
            assert!(!ahead, "an instance is ahead of the window: {status:?}");
        }
    }

    /// The faults end: everybody does everything until nobody does anything.
    fn settle(&mut self) {
        for _ in 0..20_000 {
            let mut active = false;
            for at in 0..self.groups.len() {
                while self.decide(at) {
                    active = true;
                }
            }
            for who in 0..self.replicas.len() {
                for at in 0..self.groups.len() {
                    while self.learn(who, at) {
                        active = true;
                    }
                }
                active |= self.turn(who);
                active |= self.refresh(who);
            }
            while self.deliver() {
                active = true;
            }
            active |= self.move_clients();
            if !active {
                return;
            }
        }
        panic!("a cluster without faults does not come to rest");
    }

    /// Clients of instances that are away go elsewhere.
    fn move_clients(&mut self) -> bool {
        let present = usize::from(self.replicas[0].merge.generation().instances);
        let mut moved = false;
        for at in present..self.groups.len() {
            let waiting = std::mem::take(&mut self.groups[at].waiting);
            moved |= !waiting.is_empty();
            self.groups[0].waiting.extend(waiting);
        }
        moved
    }

    fn check_rest(&mut self, seed: u64) {
        let naive = Naive::of(self.window, self.first, &self.decided);
        let numbers: BTreeSet<u32> = naive.log.iter().flatten().copied().collect();
        let all: BTreeSet<u32> = self
            .decided
            .iter()
            .flatten()
            .filter_map(|record| match record {
                Rec::Work(number) | Rec::Change(number, _) => Some(*number),
                Rec::Noop(_) => None,
            })
            .collect();
        assert_eq!(numbers, all, "seed {seed}: something decided is not delivered");
        assert!(self.groups.iter().all(|group| group.waiting.is_empty()), "seed {seed}: something waits");
        for replica in &self.replicas {
            let last = |log: &[Content]| log.iter().rposition(Option::is_some).map_or(0, |at| at + 1);
            assert_eq!(replica.log[..last(&replica.log)], naive.log[..last(&naive.log)], "seed {seed}");
        }
        assert!(self.reads.is_empty(), "seed {seed}: reads wait for ever: {:?}\n{}", self.reads, self.show());
    }

    /// Where everything stands, for a failure.
    fn show(&self) -> String {
        let groups = self.groups.iter().zip(&self.decided).enumerate().map(|(at, (group, decided))| {
            let Group { tail, leader, view, settled_at, waiting } = group;
            format!(
                "{at}: r{leader} v{view} {settled_at} waiting {waiting:?} tail {tail:?} decided {decided:?}"
            )
        });
        let replicas =
            self.replicas.iter().zip(&self.views).map(|(replica, views)| {
                format!("given {:?} views {views:?} {:?}", replica.given, replica.merge)
            });
        groups.chain(replicas).collect::<Vec<_>>().join("\n")
    }

    fn noops(&self) -> usize {
        self.decided.iter().flatten().filter(|record| matches!(record, Rec::Noop(_))).count()
    }
}

pub(crate) fn run(seeds: std::ops::Range<u64>) -> u64 {
    let (mut returned, mut restarts, mut jumps) = (0, 0, 0);
    for seed in seeds {
        let mut world = World::new(seed, 3);
        let busy = world.below(10);
        for _ in 0..400 {
            world.step(busy);
        }
        (restarts, jumps) = (restarts + world.restarts, jumps + world.jumps);
        world.settle();
        world.check_rest(seed);
        // At rest every instance answers a read, without any client's help.
        let noops = world.noops();
        for who in 0..3 {
            for at in 0..usize::from(world.replicas[who].merge.generation().instances) {
                world.read(who, Some(at));
                world.settle();
                world.check_rest(seed);
                returned += 1;
            }
        }
        let filled = world.noops() - noops;
        assert!(
            filled <= 3 * world.groups.len() * world.groups.len(),
            "seed {seed}: {filled} no-ops for reads"
        );
        // A read through the next instance costs nothing at all.
        let noops = world.noops();
        (0..3).for_each(|who| world.read(who, None));
        world.settle();
        world.check_rest(seed);
        assert_eq!(world.noops(), noops, "seed {seed}: a read through the next instance is free");
    }
    assert!(restarts > 100 && jumps > 100, "{restarts} restarts, {jumps} jumps");
    returned
}

#[test]
fn everything_is_delivered_in_the_end_and_then_all_are_silent() {
    assert!(run(seeds(0, 400)) > 1000);
}

/// All the work goes to one of eight instances: the others add at most a record each per batch, and all their places are one no-op's.
#[test]
fn the_price_of_skew_is_bounded() {
    let mut world = World::new(1, 3);
    world.window = 64;
    world.first = 8;
    world.replicas = vec![Replica::new(64, 8); 3];
    world.begin_groups();
    for number in 1..=2000 {
        world.groups[3].waiting.push(Rec::Work(number));
    }
    world.settle();
    world.check_rest(1);
    let counts = world.replicas[0].merge.counts();
    assert_eq!(counts.batches, 2000);
    assert!(counts.noop_slots <= 7 * 2000, "{counts:?}");
    // While 64 batches are under way, their places are filled together.
    assert!(counts.noop_records < 7 * 2000 / 8, "{counts:?}");
    assert!((counts.noop_share() - 7.0 / 8.0).abs() < 0.01, "{counts:?}");
}

/// Work comes to all instances alike, by chance, while other work is under way: few no-ops are needed, since who is behind for a moment
/// has work of its own coming.
#[test]
fn even_load_needs_few_no_ops() {
    let mut world = World::new(1, 3);
    (world.window, world.first, world.apart) = (64, 4, None);
    world.replicas = vec![Replica::new(64, 4); 3];
    world.begin_groups();
    let mut number = 0;
    for _ in 0..40_000 {
        let (who, at) = (world.below(3), world.below(4));
        match world.below(24) {
            0..=2 => {
                number += 1;
                world.groups[at].waiting.push(Rec::Work(number));
            }
            6..=10 => drop(world.decide(at)),
            11..=19 => drop(world.learn(who, at)),
            20..=21 => drop(world.deliver()),
            _ => drop(world.turn(who)),
        }
    }
    world.settle();
    world.check_rest(1);
    let counts = world.replicas[0].merge.counts();
    assert!(counts.batches > 4000 && counts.noop_records * 50 < counts.batches, "{counts:?}");
}
