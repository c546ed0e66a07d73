//! Checkpoints of real processes: damaged at rest, fetched while others go on, and written while everybody is killed.
//!
//! QUORATE_STATE_SECONDS=60 makes the kills last longer, for each mode; QUORATE_SEED repeats the choices (not the timing of
//! the machine). When a test fails, the directory with all files and the history stays, and is named.

use crate::filled::damage::{self, Rot};
use crate::filled::filling::Filler;
use crate::filled::looking::{
    LOG_ROT, checkpoints, executed, finish, has_problem, mended, number, scrub, wait_for_checkpoint,
    wait_until_sound, wait_well,
};
use crate::filled::settings::Settings;
use crate::rig::cluster::{Cluster, Life, REPLICAS, wait};
use crate::rig::load::{Load, Plan};
use crate::rig::random::{self, Random};
use crate::rig::scramble::{Damage, Spot};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Enough to reach borders often, and little enough for a busy machine.
const PLAN: Plan = Plan {
    waiting: 4,
    pipelined: 1,
    chains: 1,
    keys: 8,
    pause: Duration::from_millis(6),
    padding: 200,
    replicas: REPLICAS as u64,
};

/// Two replicas alone go on, so both take part.
fn takes_part(cluster: &mut Cluster, load: &Load, at: usize, random: &mut Random) {
    let other = (at + 1 + random.below(2) as usize) % REPLICAS;
    cluster.kill(other);
    load.wait_for_progress(30, cluster);
    cluster.start(other);
    load.wait_for_progress(30, cluster);
}

#[test]
fn rot_in_checkpoints_is_mended_at_the_next_start() {
    let mut random = Random::from_environment("state-rot");
    let mut cluster = Settings::default().started("rot", &mut random);
    let mut filler = Filler::new(&cluster, 24, 30 << 10);
    filler.fill();
    let mut load = Load::start(&cluster, PLAN, &mut random);
    wait_for_checkpoint(&mut cluster, &[0, 1, 2], 0);
    for rot in Rot::ALL {
        let at = random.below(REPLICAS as u64) as usize;
        // So that the files differ from time to time: a full one, a chain upon it.
        let newest = number(&cluster, at, "durable_seq");
        wait_for_checkpoint(&mut cluster, &[at], newest);
        cluster.kill(at);
        let files = damage::checkpoints(&cluster, at);
        let newest = files.last().expect("there are checkpoints");
        let struck =
            if random.percent(70) { newest } else { files.iter().rfind(|file| file.full).unwrap_or(newest) };
        println!("replica {}: {rot:?} of {:?}", at + 1, struck.path.file_name().unwrap());
        rot.strike(&struck.path, &mut random);
        load.wait_for_progress(20, &mut cluster);
        cluster.start(at);
        wait_until_sound(&mut cluster, at);
        takes_part(&mut cluster, &load, at, &mut random);
        mended(&scrub(&cluster, at));
    }
    finish(&mut cluster, &mut load, PLAN.keys, Some(&mut filler));
}

#[test]
fn a_scrub_mends_what_rots_while_a_replica_runs() {
    let mut random = Random::from_environment("state-scrub");
    let mut cluster =
        Settings { interval_bytes: 1 << 20, ..Settings::default() }.started("scrub", &mut random);
    let mut filler = Filler::new(&cluster, 40, 30 << 10);
    // Two full ones are there then, and a chain upon the second.
    for _ in 0..7 {
        filler.fill();
    }
    // Nobody writes any more, so no checkpoint goes, and the same are on all disks.
    cluster.wait_until_even();
    wait_well(&mut cluster, "all checkpoints are written", |cluster| {
        (0..REPLICAS).all(|at| {
            let seen = checkpoints(cluster, at);
            seen["writing"].is_null()
                && seen["durable_seq"] == seen["last_seq"]
                && seen["agreed_seq"] == seen["last_seq"]
        })
    });
    assert_eq!(mended(&scrub(&cluster, 0)), 0, "it is sound before");
    for rot in [Rot::Header, Rot::Manifest, Rot::Footer, Rot::Footers, Rot::End, Rot::Part, Rot::Parts] {
        let at = random.below(REPLICAS as u64) as usize;
        let files = damage::checkpoints(&cluster, at);
        for (place, file) in files.iter().enumerate() {
            let sound = std::fs::read(&file.path).unwrap();
            rot.strike(&file.path, &mut random);
            let scrubbed = scrub(&cluster, at);
            let about = format!("{rot:?}, file {place} of {}: {}", files.len(), file.path.display());
            assert!(mended(&scrubbed) > 0, "it found nothing: {about}");
            assert_eq!(number(&cluster, at, "rotten"), 0, "{about}");
            assert!(std::fs::read(&file.path).unwrap() == sound, "it is not as it was: {about}");
        }
    }
    // A checkpoint of which nothing is of use is replaced by another one, although nobody writes.
    for rot in [Rot::Manifests, Rot::Cut] {
        let at = random.below(REPLICAS as u64) as usize;
        let newest = damage::checkpoints(&cluster, at).pop().expect("there are checkpoints");
        rot.strike(&newest.path, &mut random);
        assert_eq!(mended(&scrub(&cluster, at)), 1, "{rot:?}");
        wait_for_checkpoint(&mut cluster, &[at], newest.seq);
        wait_until_sound(&mut cluster, at);
        assert_eq!(mended(&scrub(&cluster, at)), 0, "{rot:?}");
    }
    // And all the same while clients work.
    let mut load = Load::start(&cluster, PLAN, &mut random);
    for rot in [Rot::Parts, Rot::Header, Rot::Manifest, Rot::Footer, Rot::Parts] {
        load.wait_for_progress(100, &mut cluster);
        let at = random.below(REPLICAS as u64) as usize;
        let mut files = damage::checkpoints(&cluster, at);
        files.retain(|file| damage::is_sound(&file.path));
        rot.strike(&files[random.below(files.len() as u64) as usize].path, &mut random);
        mended(&scrub(&cluster, at));
    }
    finish(&mut cluster, &mut load, PLAN.keys, Some(&mut filler));
}

#[test]
fn rot_in_the_log_is_mended_or_says_what_to_do() {
    let mut random = Random::from_environment("state-log-rot");
    let mut cluster = Settings::default().started("log-rot", &mut random);
    let plan = Plan { waiting: 3, pipelined: 1, chains: 1, ..PLAN };
    let mut load = Load::start(&cluster, plan, &mut random);
    wait_for_checkpoint(&mut cluster, &[0, 1, 2], 0);
    let (mut repaired, mut refused) = (0, 0);
    for _ in 0..6 {
        let at = random.below(REPLICAS as u64) as usize;
        let trimmed = number(&cluster, at, "trimmed");
        wait_well(&mut cluster, "the log is trimmed", |cluster| number(cluster, at, "trimmed") > trimmed);
        cluster.kill(at);
        let damage = Damage::new(&cluster, at, Spot::Anywhere, &mut random);
        let before = cluster.printed(at).len();
        load.wait_for_progress(20, &mut cluster);
        cluster.start(at);
        if started(&cluster, at, before) {
            repaired += 1;
            wait_until_sound(&mut cluster, at);
            takes_part(&mut cluster, &load, at, &mut random);
        } else {
            refused += 1;
            let status = cluster.wait_for_end(at);
            let printed = cluster.printed(at).split_off(before);
            assert_eq!(status.code(), Some(1), "{printed}");
            for part in ["the log is damaged at byte", "Do not delete the directory", "set up a replacement"]
            {
                assert!(printed.contains(part), "it does not say \"{part}\":\n{printed}");
            }
            load.wait_for_progress(50, &mut cluster);
            damage.repair();
            cluster.start(at);
            wait_until_sound(&mut cluster, at);
        }
    }
    println!("{repaired} were repaired, {refused} refused");
    // Damage is forgotten together with the file that it is in.
    let mut filler = Filler::new(&cluster, 16, 64 << 10);
    filler
        .write_until(|| !(0..REPLICAS).any(|at| has_problem(&cluster, at, LOG_ROT)))
        .expect("writes are taken by replicas that were repaired");
    finish(&mut cluster, &mut load, plan.keys, Some(&mut filler));
}

/// Whether a replica that was just started goes on, or ends.
fn started(cluster: &Cluster, at: usize, before: usize) -> bool {
    let mut goes_on = None;
    wait("the replica is ready, or says why it is not", || {
        let printed = cluster.printed(at).split_off(before);
        if printed.contains("is ready on") {
            goes_on = Some(true);
        } else if printed.contains("the log is damaged") && printed.contains("set up a replacement") {
            goes_on = Some(false);
        }
        goes_on.is_some()
    });
    goes_on.expect("one of both")
}

/// What the replicas that are up sent of their state, in their present lives.
fn sent(cluster: &Cluster) -> u64 {
    (0..REPLICAS).map(|at| number(cluster, at, "sent_bytes")).sum()
}

/// Bytes of a transfer to this replica that are there, and how many it needs; nothing when there is none under way.
fn transfer(cluster: &Cluster, at: usize) -> Option<(u64, u64)> {
    let seen = checkpoints(cluster, at);
    let transfer = seen["transfer"].as_object()?;
    Some((transfer["bytes_done"].as_u64()?, transfer["bytes_total"].as_u64().filter(|total| *total > 0)?))
}

/// Which checkpoint is fetched.
fn fetched(cluster: &Cluster, at: usize) -> Option<u64> {
    checkpoints(cluster, at)["transfer"]["seq"].as_u64()
}

/// Bytes of a transfer that are on the disk of a replica that does not run.
fn kept_of_transfer(cluster: &Cluster, at: usize) -> u64 {
    std::fs::metadata(cluster.home(at).join("data/checkpoints/transfer.partial")).map_or(0, |file| file.len())
}

/// Leaves a replica alone until the others do not have the log any more that it lacks, while they change all of the state.
fn leave_behind(cluster: &mut Cluster, at: usize, filler: &mut Filler) {
    let had = executed(cluster, at);
    cluster.kill(at);
    let others: Vec<usize> = (0..REPLICAS).filter(|other| *other != at).collect();
    for _ in 0..200 {
        filler.fill();
        if others.iter().all(|other| number(cluster, *other, "trimmed") > had) {
            return;
        }
    }
    panic!("the log was not trimmed beyond {had}");
}

#[test]
fn a_replica_that_was_away_gets_the_state_through_crashes_on_both_sides() {
    let mut random = Random::from_environment("state-transfer");
    // A state that takes seconds to send, so that everything can happen meanwhile.
    let settings = Settings { interval_bytes: 2 << 20, transfer_rate_bytes: 1 << 20, ..Settings::default() };
    let mut cluster = settings.started("transfer", &mut random);
    let mut filler = Filler::new(&cluster, 160, 30 << 10);
    filler.fill();
    let mut load = Load::start(&cluster, PLAN, &mut random);
    load.wait_for_progress(50, &mut cluster);
    let at = random.below(REPLICAS as u64) as usize;
    leave_behind(&mut cluster, at, &mut filler);
    let sent_before = sent(&cluster);

    // It is killed in the middle of the transfer.
    cluster.start(at);
    let part = |of: Option<(u64, u64)>, parts| of.is_some_and(|(done, total)| done * parts > total);
    wait_well(&mut cluster, "half of the state is there", |cluster| part(transfer(cluster, at), 2));
    load.wait_for_progress(20, &mut cluster);
    let (had, total) = transfer(&cluster, at).expect("it is under way");
    let first = fetched(&cluster, at);
    println!("killed with {had} of {total} bytes");
    cluster.kill(at);
    // What was under way to its disk is missing, which is more on a slow one.
    let kept = kept_of_transfer(&cluster, at);
    println!("{kept} bytes are on its disk");
    assert!(kept > 64 << 10, "it kept {kept} bytes of {had}");
    load.wait_for_progress(20, &mut cluster);
    cluster.start(at);
    // It needs only what it did not have.
    let mut left = 0;
    wait_well(&mut cluster, "it goes on with the transfer", |cluster| {
        left = transfer(cluster, at).map_or(0, |(_, total)| total);
        left > 0
    });
    // Where that took long the others had made another one, in which much differs again.
    let same = fetched(&cluster, at) == first;
    println!("{left} bytes are left, of the same checkpoint: {same}");
    let some = left + kept < total + (1 << 20);
    assert!(some || !same, "{left} bytes are left of {total}, although {kept} were kept");
    load.wait_for_progress(20, &mut cluster);
    wait_until_sound(&mut cluster, at);
    let sent_in_all = sent(&cluster) - sent_before;
    println!("{sent_in_all} bytes were sent of a state of {total}");
    let most = total + (had - kept.min(had)) + total / 2 + (1 << 20);
    assert!(sent_in_all < most || !same, "much was sent twice: {sent_in_all} bytes of {total}");
    takes_part(&mut cluster, &load, at, &mut random);

    // Again, and one of those who send is killed.
    leave_behind(&mut cluster, at, &mut filler);
    cluster.start(at);
    wait_well(&mut cluster, "a quarter of the state is there", |cluster| part(transfer(cluster, at), 4));
    let sender = (at + 1 + random.below(2) as usize) % REPLICAS;
    cluster.kill(sender);
    wait_well(&mut cluster, "the other one sends the rest", |cluster| {
        checkpoints(cluster, at)["transfer"].is_null()
    });
    load.wait_for_progress(50, &mut cluster);
    cluster.start(sender);
    wait_until_sound(&mut cluster, sender);
    wait_until_sound(&mut cluster, at);
    finish(&mut cluster, &mut load, PLAN.keys, Some(&mut filler));
}

#[test]
fn a_replica_comes_back_while_all_of_the_state_changes_all_the_time() {
    let mut random = Random::from_environment("state-chase");
    // The state changes faster than it is sent: whoever had to begin anew with each border would never be there.
    let settings = Settings { interval_bytes: 4 << 20, transfer_rate_bytes: 6 << 20, ..Settings::default() };
    let mut cluster = settings.started("chase", &mut random);
    let mut load = Load::start(&cluster, PLAN, &mut random);
    let mut filler = Filler::new(&cluster, 240, 100 << 10);
    filler.fill();
    let at = random.below(REPLICAS as u64) as usize;
    leave_behind(&mut cluster, at, &mut filler);
    let stop = AtomicBool::new(false);
    let written = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let mut written = 0;
            while !stop.load(Ordering::Acquire) {
                written += u64::from(filler.write().is_ok());
            }
            written
        });
        cluster.start(at);
        let caught_up = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            wait_until_sound(&mut cluster, at);
            takes_part(&mut cluster, &load, at, &mut random);
        }));
        stop.store(true, Ordering::Release);
        let written = writer.join().expect("a writer does not panic");
        assert!(caught_up.is_ok(), "it did not catch up while {written} values were written");
        written
    });
    println!("{written} values of 100 KiB were written until it was back");
    finish(&mut cluster, &mut load, PLAN.keys, Some(&mut filler));
}

fn kills_in_mode(mode: &'static str) {
    kills(mode, Settings { mode, full_every: 3, ..Settings::default() });
}

fn kills(name: &str, settings: Settings) {
    let mut random = Random::from_environment(&format!("state-kills-{name}"));
    let seconds = random::number("QUORATE_STATE_SECONDS", 5);
    let mut cluster = settings.started(&format!("kills-{name}"), &mut random);
    let mut filler = Filler::new(&cluster, 20, 30 << 10);
    filler.fill();
    let mut load = Load::start(&cluster, PLAN, &mut random);
    let (begin, mut kills, mut all) = (Instant::now(), 0, 0);
    while begin.elapsed() < Duration::from_secs(seconds) {
        if random.percent(60) {
            load.wait_for_progress(random.between(20, 150), &mut cluster);
        }
        std::thread::sleep(Duration::from_micros(random.below(60_000)));
        let first = random.below(REPLICAS as u64) as usize;
        let count = [1, 1, 2, 3, 3][random.below(5) as usize];
        all += u64::from(count == REPLICAS);
        for step in 0..count {
            let at = (first + step) % REPLICAS;
            if cluster.life(at) == Life::Up {
                cluster.kill(at);
                kills += 1;
            }
        }
        if random.percent(25) {
            // Some while they start.
            cluster.heal();
            std::thread::sleep(Duration::from_micros(random.below(80_000)));
            cluster.kill(first);
            kills += 1;
        }
        cluster.heal();
    }
    let answered = finish(&mut cluster, &mut load, PLAN.keys, Some(&mut filler));
    let seq = number(&cluster, 0, "last_seq");
    println!(
        "{name}: {kills} kills, {all} times of all; {answered} operations; the newest border is at {seq}"
    );
    assert!(seq > 0 && (0..REPLICAS).all(|at| !damage::checkpoints(&cluster, at).is_empty()));
}

#[test]
fn kills_while_differential_checkpoints_are_written() {
    kills_in_mode("differential");
}

#[test]
fn kills_while_full_checkpoints_are_written() {
    kills_in_mode("full");
}

#[test]
fn kills_while_staggered_checkpoints_are_written() {
    kills_in_mode("staggered");
}

/// Short commands, too, are handed to workers, which die in the middle of them.
#[test]
fn kills_while_commands_run_side_by_side() {
    kills("ordered", Settings { full_every: 3, ordered: true, ..Settings::default() });
}

#[test]
fn kills_while_results_are_verified() {
    kills("verified", Settings { full_every: 3, verify: true, ..Settings::default() });
    kills("verified-ordered", Settings { full_every: 3, verify: true, ordered: true, ..Settings::default() });
}

#[test]
fn kills_while_commands_share_their_memory() {
    kills("speculative", Settings { full_every: 3, speculative: true, ..Settings::default() });
}

#[test]
fn kills_while_execution_stops_for_checkpoints() {
    kills_in_mode("stop-and-copy");
}
