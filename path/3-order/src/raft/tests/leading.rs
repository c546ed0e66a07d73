//! A leader stepped alone: no instance around it, no elections.

use super::one::{index, sent, view};
use super::world::{batch, replica};
use crate::raft::RaftConfig;
use crate::raft::changes::Changes;
use crate::raft::leading::{Counts, Heirs, Leading, Office, Scene};
use crate::raft::message::{AppendOutcome, RaftMessage};
use crate::raft::store::Store;
use crate::{Effect, Effects};
use quorate_types::{RecordId, Span, Time};

struct World {
    now: Time,
    config: RaftConfig,
    store: Store,
    changes: Changes,
    counts: Counts,
}

impl World {
    /// Replica 0 of three won an election, and leads.
    fn new() -> (Self, Leading) {
        let config = RaftConfig::new(replica(0), (0..3).map(replica).collect(), 7);
        let mut store = Store::new(&config);
        store.persist_vote(view(1), Some(replica(0)), &mut Effects::new());
        store.see_leading(replica(0));
        store.set_leader(Some(replica(0)));
        let (changes, counts) = (Changes::default(), Counts::default());
        let mut world = Self { now: Time::ZERO, config, store, changes, counts };
        let (lead, effects) = world.act(|scene| Leading::begin(vec![7], scene));
        assert_eq!(sent(&effects).len(), 2, "its first entry goes to both");
        (world, lead)
    }

    fn act<T>(&mut self, work: impl FnOnce(&mut Scene<'_>) -> T) -> (T, Vec<Effect>) {
        let mut out = Effects::new();
        let mut scene = Scene {
            now: self.now,
            config: &self.config,
            store: &mut self.store,
            changes: &mut self.changes,
            counts: &mut self.counts,
            out: &mut out,
        };
        let done = work(&mut scene);
        (done, out.drain().collect())
    }

    /// A follower says that it has everything up to here.
    fn has(&mut self, lead: &mut Leading, from: usize, up_to: u64, round: u64) -> Vec<Effect> {
        let outcome = AppendOutcome::Matched(index(up_to));
        let (office, effects) = self.act(|scene| lead.on_reply(replica(from), round, outcome, scene));
        assert_eq!(office, Office::CachedEntry);
        lead.check(&self.store);
        effects
    }

    /// All its records are durable.
    fn sync(&mut self, lead: &mut Leading) -> Vec<Effect> {
        self.store.on_durable(self.store.records().last());
        self.act(|scene| lead.advance_commit(scene)).1
    }
}

/// A read that waited for a leader begins its round once an entry of the view is committed, and is answered by it.
#[test]
fn reads_wait_for_a_commit_and_a_round() {
    let (mut world, mut lead) = World::new();
    assert_eq!(world.sync(&mut lead), [], "nobody else has it");
    world.has(&mut lead, 1, 1, 0);
    assert_eq!(world.store.commit(), index(1));
    let confirmed = |effects: &[Effect]| {
        effects.iter().any(|effect| matches!(effect, Effect::ReadConfirmed { read: 7, .. }))
    };
    assert!(confirmed(&world.has(&mut lead, 2, 1, 1)), "the round is answered");
}

#[test]
fn a_quorum_commits_what_is_durable_here() {
    let (mut world, mut lead) = World::new();
    world.act(|scene| lead.propose(batch(1, 10), scene));
    assert_eq!(lead.proposed_and_open(&world.store).0, 1);
    world.has(&mut lead, 1, 2, 0);
    assert_eq!(world.store.commit(), index(0), "it is not durable here");
    let decided = world.sync(&mut lead);
    assert!(decided.iter().any(|effect| matches!(effect, Effect::Decided { .. })));
    assert_eq!((world.store.commit(), lead.proposed_and_open(&world.store).0), (index(2), 0));
}

#[test]
fn it_gives_up_its_office_when_it_hears_nobody() {
    let (mut world, mut lead) = World::new();
    world.now = lead.deadline();
    assert_eq!(world.act(|scene| lead.on_deadline(scene)).0, Office::CachedEntry);
    while world.now < Time::ZERO.plus(world.config.election_max) {
        assert_eq!(world.act(|scene| lead.on_deadline(scene)).0, Office::CachedEntry);
        world.now = lead.deadline();
    }
    assert_eq!(world.act(|scene| lead.on_deadline(scene)).0, Office::Left);
}

/// Its thread was busy for a second, so it could hear nobody, and followers that are busy with the same say nothing after it.
#[test]
fn it_waits_longer_for_others_when_it_was_late_itself() {
    let (mut world, mut lead) = World::new();
    let busy = Span::from_secs(1);
    world.now = lead.deadline().plus(busy);
    let end = world.now.plus(busy.times(2));
    world.has(&mut lead, 1, 1, 0);
    while world.now < end {
        assert_eq!(world.act(|scene| lead.on_deadline(scene)).0, Office::CachedEntry, "at {:?}", world.now);
        world.now = lead.deadline();
    }
    assert_eq!(world.act(|scene| lead.on_deadline(scene)).0, Office::Left, "twice as long is enough");
}

/// A machine that slept for an hour does not wait for an hour.
#[test]
fn much_lateness_counts_for_little() {
    let (mut world, mut lead) = World::new();
    world.now = lead.deadline().plus(Span::from_secs(3600));
    let end = world.now.plus(world.config.election_max.times(20));
    while world.now < end {
        assert_eq!(world.act(|scene| lead.on_deadline(scene)).0, Office::CachedEntry);
        world.now = lead.deadline();
    }
    assert_eq!(world.act(|scene| lead.on_deadline(scene)).0, Office::Left);
}

/// Turns come a little late on any machine. That gives nobody time.
#[test]
fn little_lateness_counts_for_nothing() {
    for late in [Span::from_nanos(50_000), Span::from_millis(60), Span::from_millis(100)] {
        let (mut world, mut lead) = World::new();
        let mut office = Office::CachedEntry;
        while office == Office::CachedEntry {
            world.now = lead.deadline().plus(late);
            assert!(world.now < Time::ZERO.plus(world.config.election_max.times(2)), "late by {late:?}");
            office = world.act(|scene| lead.on_deadline(scene)).0;
        }
    }
}

/// A machine on which each turn comes much too late gives time once.
#[test]
fn constant_lateness_ends() {
    let (mut world, mut lead) = World::new();
    let late = Span::from_millis(400);
    let mut office = Office::CachedEntry;
    while office == Office::CachedEntry {
        world.now = lead.deadline().plus(late);
        assert!(world.now < Time::ZERO.plus(world.config.election_max.times(6)));
        office = world.act(|scene| lead.on_deadline(scene)).0;
    }
}

/// What the host repeats for a leader that executes for long is its last heartbeat, and it changes nothing.
#[test]
fn heartbeats_can_be_repeated() {
    let (mut world, mut lead) = World::new();
    world.now = lead.deadline();
    let (_, effects) = world.act(|scene| lead.on_deadline(scene));
    let mut again = Effects::new();
    lead.heartbeats(&world.store, &mut again);
    let again: Vec<Effect> = again.drain().collect();
    assert!(!again.is_empty());
    assert_eq!(sent(&again), sent(&effects));
    let due = lead.deadline();
    assert_eq!(due, world.now.plus(world.config.heartbeat), "the next one comes as ever");
}

/// It hands over to one who has all that is committed; that one is asked when it has everything.
#[test]
fn it_hands_over_to_who_has_everything() {
    let (mut world, mut lead) = World::new();
    world.sync(&mut lead);
    world.has(&mut lead, 2, 1, 0);
    assert_eq!(world.act(|scene| lead.heirs(scene)).0, Heirs::Any(vec![replica(2)]));
    world.act(|scene| lead.propose(batch(1, 10), scene));
    let asks = |effects: &[Effect]| {
        sent(effects).iter().any(|(_, _, message)| matches!(message, RaftMessage::TimeoutNow { .. }))
    };
    assert!(!asks(&world.act(|scene| lead.hand_over(replica(2), scene)).1), "it lacks an entry");
    assert!(!lead.may_propose());
    assert!(asks(&world.has(&mut lead, 2, 2, 0)));
    world.now = world.now.plus(world.config.election_max);
    world.has(&mut lead, 1, 1, 0);
    assert_eq!(world.act(|scene| lead.on_deadline(scene)).0, Office::CachedEntry);
    assert!(lead.may_propose(), "it came to nothing");
    assert_eq!(world.store.records().last(), RecordId::new(3));
}
