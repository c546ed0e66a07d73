//! One thing at a time.

use super::states::{Checkpoint, churn, states};
use super::world::{Fault, Lying, World, checkpoint, replica};
use quorate_state::agreement::Offer;
use quorate_state::store::{Store, Version};
use quorate_state::transfer::{
    Difference, Effect, Fetch, FetchLimits, Input, Kept, Lie, ServeLimits, differing_keys,
};
use quorate_types::{Digest, Random, ReplicaId, Seq, Span, Time};
use quorate_wire::{MANIFEST_MAX, RefusedWhy, StateMessage};
use std::collections::BTreeSet;

fn millis(millis: u64) -> Time {
    Time::ZERO.plus(Span::from_millis(millis))
}

fn nothing() -> Version {
    Store::new().version()
}

/// Runs to the end, which comes within an hour.
fn finish(world: &mut World) -> Checkpoint {
    world.offer();
    assert!(world.run_until(millis(3_600_000)), "never ends: {:?}", world.fetch.progress());
    let fetched = world.done.as_ref().expect("done");
    let system = [&fetched.system.order[..], &fetched.system.execution].concat();
    Checkpoint::new(fetched.manifest.seq().number(), system, &fetched.store)
}

/// The parts of the newest checkpoint that `local` does not have.
fn lacking(local: &Version) -> BTreeSet<u32> {
    let newest = checkpoint(2);
    let pieces = newest.pieces();
    let differs = |at: usize| match at.checked_sub(pieces) {
        None => true,
        Some(chunk) => {
            let chunk = &newest.manifest.chunks()[chunk];
            local.digest_at(&chunk.path) != Some(chunk.digest)
        }
    };
    (0..newest.parts.len()).filter(|at| differs(*at)).map(|at| at as u32).collect()
}

#[test]
fn the_newest_agreed_checkpoint_is_fetched_each_chunk_once() {
    let mut world = World::new(1, 3, 2, nothing());
    assert_eq!(finish(&mut world).seq, checkpoint(2).seq);
    let parts = checkpoint(2).parts.len();
    assert_eq!(world.asked.len(), parts);
    assert!(world.asked.values().all(|count| *count == 1));
    let shares: Vec<u64> = world.servers.iter().map(|server| server.chunks_sent).collect();
    assert!(shares.iter().all(|share| *share * 8 > parts as u64), "all take part: {shares:?}");
}

#[test]
fn only_chunks_that_differ_are_asked_for() {
    for local in &states().locals {
        let mut world = World::new(2, 2, 2, local.clone());
        finish(&mut world);
        let asked: BTreeSet<u32> = world.asked.keys().map(|(_, chunk)| *chunk).collect();
        assert_eq!(asked, lacking(local));
    }
    let close = lacking(&states().locals[2]).len() - checkpoint(2).pieces();
    assert!((1..10).contains(&close), "{close} chunks of objects differ");
}

/// What is here already, whole, is not asked for at all.
#[test]
fn the_same_objects_are_not_fetched_again() {
    let mut world = World::new(3, 1, 2, checkpoint(2).image.objects.clone());
    finish(&mut world);
    assert_eq!(world.asked.len(), checkpoint(2).pieces(), "only the system part");
}

/// Everything here is foreign, and nothing of it is left at the end (that is checked whenever a transfer ends).
#[test]
fn what_the_manifest_does_not_have_goes() {
    let mut random = Random::new(4);
    for rounds in [1, 20, 400] {
        let mut store = Store::from_version(&checkpoint(2).image.objects);
        churn(&mut store, &mut random, rounds);
        finish(&mut World::new(4, 2, 2, store.version()));
    }
}

#[test]
fn an_interrupted_transfer_fetches_again_only_what_was_under_way() {
    for crash in 10..60 {
        let mut world = World::new(crash, 2, 2, nothing());
        world.serve_with(&ServeLimits { rate: 8 << 20, burst: 1, ..ServeLimits::default() });
        world.offer();
        world.run_until(millis(crash * 3));
        let under_way: u64 =
            world.servers.iter().map(|s| s.chunks_asked).sum::<u64>() - world.kept.len() as u64;
        world.fault(Fault::CrashFetch);
        finish(&mut world);
        let asked: u64 = world.asked.values().sum();
        let again = asked - checkpoint(2).parts.len() as u64;
        assert!(again <= under_way, "crash at {crash}: {again} asked for again, {under_way} were under way");
    }
}

/// What was kept is verified again: a disk may lie, too.
#[test]
fn damaged_kept_parts_are_fetched_again() {
    let mut world = World::new(5, 2, 2, nothing());
    world.serve_with(&ServeLimits { rate: 8 << 20, burst: 1, ..ServeLimits::default() });
    world.offer();
    world.run_until(millis(100));
    let kept = std::mem::take(&mut world.kept);
    assert!(kept.len() > 10);
    for (at, kept) in kept.into_iter().enumerate() {
        let damaged = |bytes: &bytes::Bytes| {
            let mut bytes = bytes.to_vec();
            let last = bytes.len() - 1;
            bytes[if at.is_multiple_of(3) { 0 } else { last }] ^= 1;
            bytes.into()
        };
        world.step(Input::Kept(match kept {
            Kept::System { bytes } => Kept::System { bytes: damaged(&bytes) },
            Kept::Objects { path, bytes } => Kept::Objects { path, bytes: damaged(&bytes) },
        }));
    }
    world.fault(Fault::CrashFetch);
    finish(&mut world);
}

#[test]
fn who_sends_a_wrong_chunk_is_dropped_and_told_of() {
    for lying in [Lying::Flips(1), Lying::Swaps(1), Lying::Cuts(1)] {
        let mut world = World::new(6, 3, 2, nothing());
        world.servers[1].lying = lying;
        finish(&mut world);
        assert_eq!(world.lies.len(), 1, "it is told once, since nothing more is asked");
        let (source, lie) = &world.lies[0];
        assert_eq!(*source, replica(3));
        let Lie::Chunk { chunk, expected, found } = lie else { panic!("{lie:?}") };
        assert_ne!(Some(*expected), *found);
        let at = (*chunk as usize).checked_sub(checkpoint(2).pieces());
        let named = at.map(|at| checkpoint(2).manifest.chunks()[at].digest);
        assert!(named.is_none_or(|named| named == *expected));
        assert!(world.servers[1].chunks_asked <= 16, "no more than the first window");
    }
}

#[test]
fn a_wrong_manifest_is_known_for_one_whoever_sends_it() {
    use Lying::{DamagedManifest, FinerManifest, OtherLengths, OtherManifest};
    for lying in [OtherManifest, DamagedManifest, FinerManifest, OtherLengths] {
        for liar in 0..2 {
            let mut world = World::new(7, 2, 2, nothing());
            world.servers[liar].lying = lying;
            finish(&mut world);
            let told: Vec<_> = world.lies.iter().map(|(source, _)| *source).collect();
            assert!(told.iter().all(|source| *source == replica(liar + 2)), "{told:?}");
            assert!(world.lies.iter().all(|(_, lie)| matches!(lie, Lie::Manifest { .. })));
            assert_eq!(world.servers[liar].chunks_asked == 0, !told.is_empty());
        }
    }
}

/// Pieces of two sources do not fit together. Neither can be blamed, until each one's whole manifest is known.
#[test]
fn a_manifest_of_two_sources_blames_nobody_too_early() {
    let mut mixed = 0;
    for seed in 0..30 {
        let mut world = World::new(seed, 2, 2, nothing());
        world.serve_with(&ServeLimits { piece: 400, ..ServeLimits::default() });
        world.servers[0].lying = Lying::FinerManifest;
        world.at(1 + seed, Fault::Silence(0, Span::from_secs(5)));
        finish(&mut world);
        let continued = world.manifests.iter().position(|(to, offset)| *to == replica(3) && *offset > 0);
        let again = |at: usize| world.manifests[at..].iter().any(|(_, offset)| *offset == 0);
        mixed += usize::from(continued.is_some_and(again));
        assert!(world.lies.iter().all(|(source, _)| *source == replica(2)), "{:?}", world.lies);
    }
    assert!(mixed > 0, "some manifest was one source's at first, then the other's");
}

/// What came of one source is continued from another, once. After that did not fit, each one's is asked for whole.
#[test]
fn a_manifest_that_did_not_fit_is_asked_for_whole() {
    let wanted = checkpoint(2);
    let (seq, digest) = (wanted.seq, wanted.digest);
    let mut fetch = Fetch::new(Time::ZERO, Seq::new(1), nothing(), FetchLimits::default());
    let holders = vec![replica(2), replica(3)];
    let offer = quorate_state::agreement::Offer { seq, digest, holders };
    let mut asked: Vec<(u16, u64)> = Vec::new();
    let mut step = |input: Input| {
        let mut effects = Vec::new();
        fetch.step(Time::ZERO, input, &mut effects);
        for effect in effects {
            match effect {
                Effect::Send { to, message: StateMessage::FetchManifest { offset, .. } } => {
                    asked.push((to.number(), offset));
                }
                Effect::Begun { .. } => {}
                Effect::Lied { source, .. } => panic!("{source} can not be blamed for a mixture"),
                _ => panic!("the manifest is not whole"),
            }
        }
    };
    let total = wanted.manifest_bytes.len() as u64;
    let piece = |from: u16, offset: usize, bytes: Vec<u8>| {
        let message =
            StateMessage::Manifest { seq, digest, offset: offset as u64, total, bytes: bytes.into() };
        Input::Receive { from: ReplicaId::new(from), message }
    };
    let wrong = vec![0; 100];
    step(Input::Offers(vec![offer]));
    step(piece(2, 0, wrong.clone()));
    step(Input::Disconnected(replica(2)));
    step(piece(3, 100, wanted.manifest_bytes[100..].to_vec()));
    step(Input::Connected(replica(2)));
    step(Input::Disconnected(replica(3)));
    step(piece(2, 0, wrong));
    step(Input::Connected(replica(3)));
    step(Input::Disconnected(replica(2)));
    assert_eq!(asked, [(2, 0), (2, 100), (3, 100), (3, 0), (2, 0), (2, 100), (3, 0)]);
}

#[test]
fn who_stalls_is_passed_over_and_asked_again_later() {
    let mut world = World::new(8, 2, 2, nothing());
    world.serve_with(&ServeLimits { rate: 60_000, burst: 1, ..ServeLimits::default() });
    world.at(500, Fault::Silence(0, Span::from_secs(4)));
    finish(&mut world);
    assert_eq!(world.stalled.first(), Some(&replica(2)));
    assert!(world.stalled.iter().all(|source| *source == replica(2)), "{:?}", world.stalled);
    let before = world.servers[0].chunks_sent;
    assert!(before > 10, "it did its part after it came back: {before}");
}

/// Chunks that are lost on the way are asked for again although their source goes on sending.
#[test]
fn lost_messages_are_made_up_for() {
    let mut world = World::new(9, 1, 2, nothing());
    world.loss = 20;
    finish(&mut world);
    assert!(world.asked.values().any(|count| *count > 1));
}

/// A chunk whose successors arrived is lost; nobody waits until its source has nothing else to send.
#[test]
fn a_lost_chunk_is_asked_for_again_while_others_come() {
    let mut world = World::new(21, 1, 2, nothing());
    world.serve_with(&ServeLimits { rate: 100_000, burst: 1, ..ServeLimits::default() });
    world.at(1_000, Fault::Loss(100));
    world.at(1_500, Fault::Loss(0));
    finish(&mut world);
    assert!(world.asked.values().any(|count| *count > 1), "something was lost");
    assert_eq!(world.stalled, [], "it went on sending");
}

#[test]
fn what_a_lost_connection_had_to_bring_is_asked_of_others_at_once() {
    let mut world = World::new(22, 2, 2, nothing());
    world.serve_with(&ServeLimits { rate: 1 << 20, burst: 1, ..ServeLimits::default() });
    world.at(150, Fault::Crash(0));
    world.offer();
    assert!(world.run_until(millis(1_900)), "sooner than anybody stalls: {:?}", world.fetch.progress());
    assert!(world.servers[0].chunks_sent > 0 && world.stalled.is_empty());
}

#[test]
fn who_is_faster_does_more() {
    let limits = FetchLimits { window: 100 << 10, per_message: 4, ..FetchLimits::default() };
    let mut world = World::with_limits(10, 2, 2, nothing(), limits);
    world.servers[0].delay = Span::from_millis(1);
    world.servers[1].delay = Span::from_millis(200);
    finish(&mut world);
    let [fast, slow] = [world.servers[0].chunks_sent, world.servers[1].chunks_sent];
    assert!(fast > 5 * slow.max(1), "{fast} and {slow}");
}

/// The last chunks are at a source that sends nothing: another one is asked long before the first one stalls.
#[test]
fn the_end_does_not_wait_for_the_slowest() {
    let limits = FetchLimits { stall: Span::from_secs(60), ..FetchLimits::default() };
    let mut world = World::with_limits(11, 2, 2, nothing(), limits);
    world.serve_with(&ServeLimits { rate: 8 << 20, burst: 1, ..ServeLimits::default() });
    world.at(30, Fault::Silence(0, Span::from_secs(100)));
    world.servers[0].delay = Span::from_millis(3);
    world.servers[1].delay = Span::from_millis(3);
    world.offer();
    assert!(world.run_until(millis(5_000)), "{:?}", world.fetch.progress());
    assert!(world.asked.values().any(|count| *count == 2), "something was asked of both");
    assert!(world.asked.values().all(|count| *count <= 2));
}

/// The target is dropped everywhere in the middle. What arrived of it counts for the newer one.
#[test]
fn a_forgotten_checkpoint_is_replaced_by_a_newer_one() {
    let mut world = World::new(12, 2, 1, nothing());
    world.serve_with(&ServeLimits { rate: 1 << 20, burst: 1, ..ServeLimits::default() });
    world.offer();
    world.run_until(millis(300));
    let kept = world.kept.clone();
    assert!(!kept.is_empty() && world.done.is_none(), "{:?}", world.fetch.progress());
    for server in 0..2 {
        world.fault(Fault::Hold(server, 2));
        (0..2).for_each(|old| world.fault(Fault::Forget(server, old)));
    }
    assert_eq!(finish(&mut world).seq, checkpoint(2).seq);
    assert_eq!(world.begun, [checkpoint(1).seq, checkpoint(2).seq]);
    let newest = checkpoint(2);
    let still = |kept: &&Kept| match kept {
        Kept::System { .. } => false,
        Kept::Objects { path, bytes } => super::states::chunk_at(&newest.image.objects, path) == bytes,
    };
    let reused = kept.iter().filter(still).count();
    let asked = world.asked.keys().filter(|(seq, _)| *seq == newest.seq).count();
    assert!(reused > 0);
    assert!(
        asked <= newest.parts.len() - reused,
        "{asked} of {} asked for, {reused} were here",
        newest.parts.len()
    );
}

/// A server that takes one request at a time, and refuses the others of the same moment.
fn narrow(seed: u64, agreed: usize) -> World {
    let limits =
        FetchLimits { per_message: 1, busy: Span::from_millis(50), growth: 1, ..FetchLimits::default() };
    let mut world = World::with_limits(seed, 1, agreed, nothing(), limits);
    world.serve_with(&ServeLimits { rate: 1 << 20, burst: 1, queue: 1, reads: 1, ..ServeLimits::default() });
    world
}

/// What is refused together is refused once: it rests for as long as one refusal says, and is then asked again.
#[test]
fn refusals_of_one_moment_count_once() {
    let mut world = narrow(21, 2);
    world.offer();
    let parts = checkpoint(2).parts.len() as u64;
    assert!(world.run_until(millis(parts * 100)), "{:?}", world.fetch.progress());
}

/// The only holder is busy, and drops the target at the same time: it is asked for the next one that it has, soon, and not again and
/// again for what it said that it has not.
#[test]
fn a_busy_holder_that_forgot_the_target_is_asked_for_a_newer_one() {
    let mut world = narrow(22, 1);
    world.offer();
    world.run_until(millis(300));
    assert!(world.done.is_none() && world.fetch.progress().bytes_done > 0);
    (0..2).for_each(|old| world.fault(Fault::Forget(0, old)));
    world.run_until(millis(600));
    world.fault(Fault::Hold(0, 2));
    world.run_until(millis(2_000));
    assert_eq!(world.begun, [checkpoint(1).seq, checkpoint(2).seq]);
    finish(&mut world);
}

/// A target that its holders still have is not given up for a newer one.
#[test]
fn a_newer_checkpoint_alone_changes_nothing() {
    let mut world = World::new(13, 2, 1, nothing());
    world.at(20, Fault::Hold(0, 2));
    assert_eq!(finish(&mut world).seq, checkpoint(1).seq);
    assert_eq!(world.begun, [checkpoint(1).seq]);
}

/// The only one that is left is older than what was asked for: it is taken once the log of whoever leads begins early enough for it.
#[test]
fn an_older_checkpoint_is_taken_as_soon_as_it_would_do() {
    let (old, newest) = (checkpoint(1), checkpoint(2));
    let mut fetch = Fetch::new(Time::ZERO, newest.seq, nothing(), FetchLimits::default());
    let begun_at = |fetch: &mut Fetch, at: u64| {
        let mut effects = Vec::new();
        let offer = Offer { seq: old.seq, digest: old.digest, holders: vec![replica(2)] };
        fetch.step(millis(at), Input::Connected(replica(2)), &mut effects);
        fetch.step(millis(at), Input::Offers(vec![offer]), &mut effects);
        effects.iter().find_map(|effect| match effect {
            Effect::Begun { seq, .. } => Some(*seq),
            _ => None,
        })
    };
    assert_eq!(begun_at(&mut fetch, 10), None, "who leads could not go on from it");
    fetch.takes_from(old.seq);
    // Another leader's log begins later again, which takes nothing back.
    fetch.takes_from(newest.seq);
    assert_eq!(begun_at(&mut fetch, 20), Some(old.seq));
}

/// A part that is damaged at one holder comes from another; one that is damaged everywhere is waited for.
#[test]
fn rotten_parts_come_from_elsewhere_or_later() {
    let mut world = World::new(14, 2, 2, nothing());
    world.servers.iter_mut().for_each(|server| server.holds = [2].into());
    for part in 0..6 {
        world.fault(Fault::Rot(0, part));
    }
    world.fault(Fault::Rot(1, 5));
    world.at(30_000, Fault::Mend(1));
    world.offer();
    assert!(!world.run_until(millis(29_000)), "part 5 is nowhere");
    let progress = world.fetch.progress();
    assert_eq!(progress.chunks_done + 1, progress.chunks_total);
    let asked = world.asked[&(checkpoint(2).seq, 5)];
    assert!(asked < 60, "it does not ask all the time: {asked}");
    finish(&mut world);
}

/// All of them lie, so nobody is left; it waits and asks again, and when one comes to its senses the transfer ends.
#[test]
fn it_never_gives_up() {
    let mut world = World::new(15, 2, 2, nothing());
    world.servers.iter_mut().for_each(|server| server.lying = Lying::Flips(1));
    world.offer();
    assert!(!world.run_until(millis(300_000)));
    let (lies, steps) = (world.lies.len(), world.steps);
    assert!((4..200).contains(&lies), "{lies} lies");
    assert!(steps < 2_000, "{steps} steps");
    world.fault(Fault::Honesty(1));
    finish(&mut world);
}

#[test]
fn nobody_to_ask_is_no_reason_to_spin() {
    let mut world = World::new(16, 2, 2, nothing());
    world.servers.iter_mut().for_each(|server| server.holds.clear());
    world.offer();
    assert!(!world.run_until(millis(60_000)));
    assert_eq!(world.fetch.deadline(), None, "without an offer there is nothing to wait for");
    (0..2).for_each(|server| world.fault(Fault::Crash(server)));
    world.fault(Fault::Hold(0, 2));
    assert!(!world.run_until(millis(120_000)));
    assert!(world.steps < 200, "{}", world.steps);
    world.fault(Fault::Restart(0));
    finish(&mut world);
}

/// All that hold the newest checkpoint are gone, which their open connections do not tell. They stall one after the other, so one of them can
/// be asked at any time; yet the older checkpoint of a member that answers is taken instead, at each stage of the transfer. That member may
/// have been silent for long itself.
#[test]
fn who_answers_is_preferred_to_who_holds_something_newer() {
    for (gone, back) in [(0, 0), (200, 0), (400, 0), (0, 30), (200, 300), (400, 1200)] {
        let mut world = World::new(18, 3, 2, nothing());
        world.serve_with(&ServeLimits { rate: 1 << 20, burst: 1, ..ServeLimits::default() });
        for (server, holds) in [2, 2, 1].into_iter().enumerate() {
            world.servers[server].holds = [holds].into();
            let silent = if server == 2 { back } else { 36_000 };
            world.at(gone, Fault::Silence(server, Span::from_secs(silent)));
        }
        world.offer();
        let done = world.run_until(millis((back + 300) * 1_000));
        assert!(done, "{gone}, {back}: {:?}", world.fetch.progress());
        let fetched = world.done.as_ref().expect("it is done");
        assert_eq!(fetched.manifest.seq(), checkpoint(1).seq, "{gone}, {back}");
    }
}

/// An offer that turns out to be empty: asked again now and then, and at once when somebody else has it.
#[test]
fn a_holder_that_does_not_hold_is_asked_again_later() {
    let mut world = World::new(17, 1, 2, nothing());
    let offers = world.offers();
    world.servers[0].holds.clear();
    world.step(Input::Offers(offers.clone()));
    for second in 1..100 {
        assert!(!world.run_until(millis(second * 1_000)));
        world.step(Input::Offers(offers.clone()));
    }
    // Every two seconds at most: a question, its answer and a deadline each.
    assert!((2..200).contains(&world.steps.saturating_sub(99)), "{}", world.steps);
    world.servers[0].holds.insert(2);
    assert!(world.run_until(millis(200_000)));
}

#[test]
fn small_states_are_transferred_too() {
    let mut store = Store::new();
    let checks: Vec<(Store, Vec<u8>)> = vec![
        (Store::new(), vec![]),
        (Store::new(), b"system".to_vec()),
        (
            {
                store.put(b"", b"");
                store
            },
            vec![],
        ),
    ];
    for (store, system) in checks {
        for local in &states().locals {
            let wanted = Checkpoint::new(9, system.clone(), &store);
            let mut fetch = Fetch::new(Time::ZERO, Seq::new(1), local.clone(), FetchLimits::default());
            let (seq, digest) = (wanted.seq, wanted.digest);
            let offer = quorate_state::agreement::Offer { seq, digest, holders: vec![replica(2)] };
            let mut inputs = vec![Input::Offers(vec![offer])];
            let mut done = None;
            while let Some(input) = inputs.pop().or_else(|| fetch.deadline().map(|_| Input::Deadline)) {
                let mut effects = Vec::new();
                fetch.step(Time::ZERO, input, &mut effects);
                for effect in effects {
                    match effect {
                        Effect::Send { message: StateMessage::FetchManifest { .. }, .. } => {
                            let (bytes, total) =
                                (wanted.manifest_bytes.clone(), wanted.manifest_bytes.len() as u64);
                            let message = StateMessage::Manifest { seq, digest, offset: 0, total, bytes };
                            inputs.push(Input::Receive { from: replica(2), message });
                        }
                        Effect::Send { message: StateMessage::FetchChunks { chunks, .. }, .. } => {
                            inputs.extend(chunks.into_iter().map(|chunk| {
                                let bytes = wanted.parts[chunk as usize].clone();
                                let message = StateMessage::Chunk { seq, digest, chunk, bytes };
                                Input::Receive { from: replica(2), message }
                            }));
                        }
                        Effect::Done(fetched) => done = Some(fetched),
                        _ => {}
                    }
                }
            }
            let done = done.expect("done");
            assert_eq!((&done.manifest, &done.system), (&wanted.manifest, &wanted.image.system));
        }
    }
}

#[test]
fn progress_goes_from_nothing_to_all() {
    let mut world = World::new(18, 2, 2, states().locals[1].clone());
    world.serve_with(&ServeLimits { rate: 2 << 20, burst: 1, ..ServeLimits::default() });
    assert_eq!(world.fetch.progress().target, None);
    world.offer();
    let (mut last, mut sources) = (world.fetch.progress(), 0);
    for step in 1.. {
        let done = world.run_until(millis(step * 20));
        if done {
            break;
        }
        let progress = world.fetch.progress();
        assert_eq!(progress.target, Some((checkpoint(2).seq, checkpoint(2).digest)));
        assert!(progress.bytes_done >= last.bytes_done && progress.chunks_done >= last.chunks_done);
        assert!(progress.bytes_done <= progress.bytes_total && progress.chunks_done <= progress.chunks_total);
        assert!(!progress.manifest || progress.bytes_total > 0);
        sources = sources.max(progress.sources.len());
        last = progress;
    }
    assert!(last.bytes_done > 0 && sources == 2, "{last:?}");
    let rate = last.rate(world.now);
    assert!((500_000..8_000_000).contains(&rate), "{rate} bytes per second");
}

/// Messages that nobody asked for, about other checkpoints, from strangers, with absurd numbers: nothing happens.
#[test]
fn unasked_messages_change_nothing() {
    let mut world = World::new(19, 1, 2, nothing());
    world.offer();
    let Checkpoint { seq, digest, parts, .. } = checkpoint(2);
    let (seq, digest, bytes) = (*seq, *digest, parts[0].clone());
    let other = Digest::new([9; 32]);
    let messages = [
        StateMessage::Chunk { seq, digest, chunk: u32::MAX, bytes: bytes.clone() },
        StateMessage::Chunk { seq, digest: other, chunk: 0, bytes: bytes.clone() },
        StateMessage::Manifest { seq, digest: other, offset: 0, total: 1, bytes: bytes.clone() },
        StateMessage::Manifest { seq, digest, offset: u64::MAX, total: MANIFEST_MAX, bytes: bytes.clone() },
        StateMessage::Refused { seq, digest, why: RefusedWhy::Rotten, chunks: vec![u32::MAX; 3] },
        StateMessage::Refused { seq, digest, why: RefusedWhy::Busy, chunks: vec![u32::MAX; 3] },
        StateMessage::Digest { seq, digest, held: true },
        StateMessage::FetchChunks { seq, digest, chunks: vec![1] },
    ];
    for from in [replica(2), replica(9)] {
        for message in &messages {
            world.step(Input::Receive { from, message: message.clone() });
        }
    }
    assert!(world.lies.is_empty() && world.kept.is_empty());
    finish(&mut world);
}

#[test]
fn the_keys_that_differ_are_told() {
    let agreed = Store::from_version(&checkpoint(2).image.objects);
    let mut own = Store::from_version(&agreed.version());
    assert_eq!(differing_keys(&own.version(), &agreed, 10), Default::default());
    let keys: Vec<Vec<u8>> = agreed.range(&[], None).step_by(20).map(|(key, _)| key.to_vec()).collect();
    own.put(&keys[1], b"another value");
    own.remove(&keys[2]);
    own.put(b"\xff\xff\xff\xff", b"only here");
    let differing = differing_keys(&own.version(), &agreed, 10);
    let list: Vec<(&[u8], Difference)> = differing.keys.iter().map(|(key, how)| (&key[..], *how)).collect();
    let (value, lacking) = ((&keys[1][..], Difference::Value), (&keys[2][..], Difference::Lacking));
    assert_eq!(list, [value, lacking, (b"\xff\xff\xff\xff", Difference::Extra)]);
    assert_eq!((differing.count, differing.more), (3, false));
    let short = differing_keys(&own.version(), &agreed, 1);
    assert_eq!((short.keys.len(), short.count), (1, 3));
}

/// Two checkpoints that lack a part each are not changed for one another all the time.
#[test]
fn it_does_not_swing_between_two_that_lack_something() {
    let mut world = World::new(20, 2, 2, nothing());
    // The last piece of the system part: no two checkpoints have the same.
    let last = checkpoint(2).pieces() as u32 - 1;
    assert!(checkpoint(0).pieces() == checkpoint(2).pieces());
    (0..2).for_each(|server| world.fault(Fault::Rot(server, last)));
    world.offer();
    assert!(!world.run_until(millis(600_000)), "part {last} is nowhere");
    assert!((3..30).contains(&world.begun.len()), "{:?}", world.begun);
    (0..2).for_each(|server| world.fault(Fault::Mend(server)));
    finish(&mut world);
}
