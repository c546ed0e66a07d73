//! What happens in the tour, act by act.

use super::check::{self, Verdict};
use super::stage::Stage;
use super::store::Store;
use super::supervisor::Said;
use super::tale::Tale;
use super::writer::{KEYS, Sent, Writer};
use crate::chaos::{Args, Fault, Happened, Look, Target};
use quorate_command::admin::Admin;
use quorate_command::cluster::{CLIENT_FILE, Cluster};
use quorate_command::failure::{Doing as _, Failure, Outcome};
use quorate_command::print::size;
use quorate_kit::backups::{self, NewFile, Wanted};
use quorate_lab::lies::How;
use serde_json::{Value, json};
use std::path::Path;
use std::time::{Duration, Instant};

/// How often it is written and read while a replica lies.
const ROUNDS: u32 = 20;
/// How long a lie may take until somebody has evidence of it; then another one is told.
const EVIDENCE: Duration = Duration::from_secs(8);
/// The longest time without progress of a backup.
const BACKUP: Duration = Duration::from_secs(30);

/// Something that is done, and what is said before.
struct Act {
    name: &'static str,
    title: &'static str,
    before: &'static str,
    play: fn(&Stage<'_>) -> Outcome<Value>,
}

const ACTS: [Act; 5] = [
    Act {
        name: "write",
        title: "A write, and a read",
        before: "We write a key, and read it back with a strong read, which sees every write that was acknowledged before.",
        play: write,
    },
    Act {
        name: "kill",
        title: "The leader dies",
        before: "We kill the leader's process, as if its machine lost power, and measure for how long no write completes.",
        play: kill,
    },
    Act {
        name: "lie",
        title: "The leader lies",
        before: "We let the leader lie, for which stores that only survive crashes have no answer: first to the other replicas, then to clients.",
        play: lie,
    },
    Act {
        name: "partition",
        title: "The network breaks",
        before: "We cut one replica off from the other three; clients still reach all four.",
        play: partition,
    },
    Act {
        name: "disk",
        title: "A disk rots",
        before: "We make a backup, for which each replica writes a checkpoint, and then change bytes of one replica's checkpoint on its disk.",
        play: disk,
    },
];

/// Tells the whole story, and gives the numbers of the writes in the end.
///
/// # Errors
/// When a check fails, or the cluster does not start.
pub(super) fn tell(tale: &Tale, place: &Path, left: &[String], said: Said) -> Outcome<Value> {
    tale.greet(
        "A tour of Quorate, about two minutes long. Ctrl-C ends it at any time and leaves nothing behind.",
    );
    let ready = start(tale, place, left, said);
    let cluster = ready.and_then(|()| Cluster::read(&place.join(CLIENT_FILE), "Run the tour again"))?;
    let mut stage = Stage {
        tale,
        place: place.to_owned(),
        admin: Admin::new(&cluster)?,
        store: Store::open(&cluster)?,
        writer: Writer::start(&cluster)?,
        cluster,
    };
    let played = ACTS.iter().try_for_each(|act| {
        tale.begin(act.name, act.title, act.before);
        ended(tale, (act.play)(&stage)).map(drop)
    });
    if played.is_err() {
        stage.calm();
    }
    tale.begin(
        "check",
        "Is everything there?",
        "The client that wrote all the time stops. We look for each of its writes: with strong reads, and in each replica's own copy.",
    );
    let checked = stage.writer.finish().and_then(|sent| all_there(&stage, &sent));
    let writes = ended(tale, checked);
    played.and(writes)
}

/// Ends a step with what came of it.
fn ended(tale: &Tale, came: Outcome<Value>) -> Outcome<Value> {
    tale.end(came.as_ref().map_err(|why| why.to_string()));
    came
}

fn start(tale: &Tale, place: &Path, left: &[String], said: Said) -> Outcome<()> {
    tale.begin(
        "start",
        "Four replicas, of which one may lie",
        "We start four replicas on this machine. Each is a process with a directory of its own; any one of them may fail in whatever way.",
    );
    left.iter().for_each(|former| tale.say(former));
    let numbers = said.ready().map(|ready| {
        let (after, leader) = (&ready["ready_ms"], &ready["leader"]);
        tale.say(format!("Ready after {after} ms: replica {leader} leads. The directory is {}.", place.display()));
        if let Some(page) = ready["dashboard"].as_str() {
            tale.say(format!("To watch it in a browser until the end of the tour: {page}"));
        }
        tale.say("From now on a client writes one key after the other. At the end we will look for each of its writes.");
        json!({ "ready_ms": after, "leader": leader, "dashboard": ready["dashboard"], "left": left })
    });
    ended(tale, numbers).map(drop)
}

fn write(stage: &Stage<'_>) -> Outcome<Value> {
    let millis = |since: Instant| (since.elapsed().as_secs_f64() * 10_000.0).round() / 10.0;
    let since = Instant::now();
    stage.put("greeting", "hello")?;
    let write_ms = millis(since);
    let since = Instant::now();
    stage.expect("greeting", "hello")?;
    let read_ms = millis(since);
    stage.tale.say(format!(
        "The write took {write_ms} ms, and the read {read_ms} ms. Three of four replicas agreed on the place of the write among all others, with \
         that on their disks, before the client was told; and it believed only what two of them said alike."
    ));
    Ok(json!({ "write_ms": write_ms, "read_ms": read_ms }))
}

/// For how long no write completed.
fn gap(happened: &Happened) -> Outcome<u64> {
    let gap = happened.gap.as_ref().and_then(|gap| gap.millis());
    gap.ok_or_else(|| Failure::new("writes do not go on"))
}

fn kill(stage: &Stage<'_>) -> Outcome<Value> {
    let happened = stage.cause(&Args::of(Fault::Kill, Some(Target::Leader)))?;
    let gap_ms = gap(&happened)?;
    let [old, new] = [happened.leader_before, happened.leader_after].map(|id| id.map_or(0, |id| id.number()));
    if new == 0 || new == old {
        return Err(Failure::new(format!("replica {old} is dead, and nobody leads in its place")));
    }
    stage.tale.say(format!(
        "Replica {old} led, and is dead. For {gap_ms} ms no write completed; then replica {new} led, and clients went on by themselves."
    ));
    let missed_from = stage.writer.acknowledged();
    let since = Instant::now();
    stage.cause(&Args::of(Fault::Restart, Some(Target::These(vec![old]))).without_probe())?;
    stage.catch_up(old)?;
    let caught_up_ms = since.elapsed().as_millis() as u64;
    let meanwhile = stage.writer.acknowledged() - missed_from;
    stage.tale.say(format!(
        "Started again, replica {old} read its own disk, got from the others what it had missed, and had caught up after {caught_up_ms} ms, \
         in which {meanwhile} more writes came."
    ));
    Ok(json!({ "leader_before": old, "leader_after": new, "gap_ms": gap_ms, "caught_up_ms": caught_up_ms }))
}

/// Writes and reads so often, and fails if a read is wrong.
fn truth(stage: &Stage<'_>) -> Outcome<()> {
    (0..ROUNDS).try_for_each(|round| {
        let value = format!("true {round}");
        stage.put("truth", &value)?;
        stage.expect("truth", &value)
    })
}

fn lie(stage: &Stage<'_>) -> Outcome<Value> {
    let (liar, before) = (stage.leader()?, stage.look());
    let happened = stage.cause(&Args::lie(liar, How::Equivocate))?;
    let gap_ms = gap(&happened)?;
    truth(stage)?;
    let (by, what) = evidence(stage, liar, &before)?;
    stage.tale.say(format!(
        "Replica {liar} proposes different things to different replicas. Of {ROUNDS} writes all were acknowledged, {ROUNDS} strong reads gave what was written, \
         and writes never paused for longer than {gap_ms} ms."
    ));
    stage.tale.say(format!(
        "Replica {by} suspects replica {liar}, with evidence that `quorate status` shows: \"{what}\"."
    ));
    stage.cause(&Args::lie(liar, How::Replies).without_probe())?;
    truth(stage)?;
    let last = format!("true {}", ROUNDS - 1);
    let (asked, wrong) = ask_alone(stage, liar, &last)?;
    stage.tale.say(format!(
        "Now it lies to clients. Who asks it alone, with weak reads, got {wrong} wrong answers of {asked}; {ROUNDS} writes and {ROUNDS} strong reads \
         were right, since Quorate's own clients believe only what enough replicas say alike. (A client of etcd believes the one that it asks.)"
    ));
    stage.cause(&Args::lie(liar, How::None).without_probe())?;
    stage.wait("the liar says the truth again", || {
        Ok((0..ROUNDS).all(|_| stage.says(liar, "truth", &last)))
    })?;
    stage.tale.say("It is told to lie no more; what the others know of it stays.");
    Ok(json!({
        "liar": liar,
        "gap_ms": gap_ms,
        "suspicion": { "by": by, "replica": liar, "what": what },
        "rounds": 2 * ROUNDS,
        "wrong_alone": wrong,
        "honest_again": true,
    }))
}

/// Asks a liar alone, at least so often and until it lies: how often, and how many answers were wrong.
fn ask_alone(stage: &Stage<'_>, liar: u16, truth: &str) -> Outcome<(u32, u32)> {
    let (mut asked, mut wrong) = (0, 0);
    stage.wait("the liar lies to clients", || {
        asked += 1;
        wrong += u32::from(!stage.says(liar, "truth", truth));
        Ok(asked >= ROUNDS && wrong > 0)
    })?;
    Ok((asked, wrong))
}

/// Waits until somebody else has evidence against the liar: who, and what.
fn evidence(stage: &Stage<'_>, liar: u16, before: &Look) -> Outcome<(u16, String)> {
    let (since, mut other) = (Instant::now(), false);
    let mut found = None;
    stage.wait("another replica has evidence against the liar", || {
        let suspicions = before.until(&stage.look()).suspicions;
        found = suspicions.into_iter().find(|(by, whom, _)| *by != liar && *whom == u64::from(liar));
        // Who was replaced before it said two things has said nothing that could be shown.
        if found.is_none() && !other && since.elapsed() > EVIDENCE {
            other = true;
            stage.cause(&Args::lie(liar, How::Views).without_probe())?;
        }
        Ok(found.is_some())
    })?;
    found.map(|(by, _, what)| (by, what)).ok_or_else(|| Failure::new("nobody suspects the liar"))
}

fn partition(stage: &Stage<'_>) -> Outcome<Value> {
    let apart = stage.follower()?;
    stage.put("news", "old")?;
    stage.wait("it has the old news", || Ok(stage.says(apart, "news", "old")))?;
    let happened = stage.cause(&Args::of(Fault::Partition, Some(Target::These(vec![apart]))))?;
    let gap_ms = gap(&happened)?;
    stage.put("news", "new")?;
    stage.expect("news", "new")?;
    if !stage.says(apart, "news", "old") {
        return Err(Failure::new(format!("replica {apart} is cut off, and knows the news")));
    }
    stage.tale.say(format!(
        "The three others do not wait for replica {apart}: writes never paused for longer than {gap_ms} ms. A strong read gives the new value; \
         replica {apart}, asked alone with a weak read, has the old one."
    ));
    let since = Instant::now();
    stage.cause(&Args::of(Fault::Heal, None).without_probe())?;
    stage.wait("it has the new news", || Ok(stage.says(apart, "news", "new")))?;
    let healed_ms = since.elapsed().as_millis() as u64;
    stage.catch_up(apart)?;
    stage.tale.say(format!(
        "The network is whole again. Replica {apart} has the new value, too, {healed_ms} ms later."
    ));
    Ok(json!({ "apart": apart, "gap_ms": gap_ms, "healed_ms": healed_ms }))
}

fn disk(stage: &Stage<'_>) -> Outcome<Value> {
    let path = stage.place.join("tour.qbk");
    let wanted = Wanted { fresh: true, patience: BACKUP, unproved: false };
    let made = NewFile::begin(&path)
        .map_err(|why| why.to_string())
        .and_then(|mut file| {
            backups::make(&stage.cluster.file(), &wanted, &mut file, &path, &|_| ())
                .map_err(|why| why.to_string())
        })
        .doing("make a backup")?;
    let (vouched, bytes, seq) = (made.vouched.len(), made.bytes, made.manifest.seq().number());
    stage.tale.say(format!("The backup has {}; {vouched} replicas vouch for every byte of it, with the digest of their own state.", size(bytes)));
    let victim = stage.follower()?;
    stage.wait("its checkpoint is on its disk", || {
        let durable = |status: &Value| status["checkpoints"]["durable_seq"].as_u64();
        Ok(stage.status(victim).is_ok_and(|status| durable(&status.raw) >= Some(seq)))
    })?;
    let since = Instant::now();
    let happened =
        stage.cause(&Args::of(Fault::CorruptDisk, Some(Target::These(vec![victim]))).without_probe())?;
    let mended_ms = since.elapsed().as_millis() as u64;
    let (Some(damage), Some((_, scrub))) = (happened.damage.first(), happened.scrubs.into_iter().next())
    else {
        return Err(Failure::new(format!("nothing on the disk of replica {victim} was changed")));
    };
    let scrub = scrub.map_err(Failure::new)?;
    if scrub.mended == 0 || scrub.damaged > 0 {
        return Err(Failure::new(format!("replica {victim} did not mend its disk: {}", scrub.text())));
    }
    stage.tale.say(format!(
        "{} bytes changed on the disk of replica {victim}. It read everything again, found {} damaged place, and mended it with what the others \
         have, in {mended_ms} ms; each replica looks for such damage once a day by itself.",
        damage.bytes, scrub.mended
    ));
    Ok(
        json!({ "victim": victim, "backup_bytes": bytes, "vouched_by": vouched, "scrub": scrub.json(), "mended_ms": mended_ms }),
    )
}

/// Looks for all writes of the writer.
fn all_there(stage: &Stage<'_>, sent: &Sent) -> Outcome<Value> {
    let look = |replica| {
        let entries = stage.store.scan(KEYS[0], KEYS[1], replica)?;
        Ok::<Verdict, Failure>(check::compare(sent, &entries))
    };
    let agreed = look(None)?;
    if !agreed.is_right() {
        return Err(Failure::new(agreed.text()));
    }
    let ids = stage.ids();
    for id in &ids {
        stage.catch_up(*id)?;
        let copy = look(Some(*id))?;
        if !copy.is_right() {
            return Err(Failure::new(format!("in the copy of replica {id}: {}", copy.text())));
        }
    }
    let (acknowledged, longest_ms) = (sent.acknowledged.len(), sent.longest.as_millis() as u64);
    if acknowledged == 0 {
        return Err(Failure::new("the client that wrote all the time got no answer"));
    }
    let (unknown, refused) = (sent.unknown.len(), sent.refused.len());
    stage.tale.say(format!(
        "{acknowledged} writes were acknowledged, through all of this. Lost: {}. Done twice: {}. Out of order: {}. Found, in each of the {} copies: \
         {}.",
        agreed.lost.len(),
        agreed.twice.len(),
        agreed.out_of_order.len(),
        ids.len(),
        agreed.found
    ));
    let others = match unknown + refused {
        0 => "Not one write failed".to_owned(),
        failed => format!("{failed} writes failed, and the client was told so"),
    };
    stage.tale.say(format!("{others}; the one that took longest took {longest_ms} ms."));
    let mut numbers = agreed.json();
    numbers["acknowledged"] = json!(acknowledged);
    numbers["unknown"] = json!(unknown);
    numbers["refused"] = json!(refused);
    numbers["longest_ms"] = json!(longest_ms);
    numbers["copies"] = json!(ids.len());
    Ok(numbers)
}
