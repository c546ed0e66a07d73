//! The bugs that can be put back on purpose, and the table of how soon each is found.
//!
//! Their hooks are calls of `quorate_types::planted` beside the right code; they exist only in a build with `--cfg planted`.

use crate::campaign::{Campaign, run};
use crate::plan::{Focus, Profile};
use quorate_types::{FaultModel, Visigoth, plant};

/// What to do when a build contains no planted bugs.
pub const HOW: &str = "this build holds no planted bugs; build one that does, and run it:
  RUSTFLAGS=\"--cfg planted\" cargo run --release -p quorate-cli --target-dir target/planted -- sim --planted";

/// A bug that can be put back.
#[derive(Clone, Copy, Debug)]
pub struct Bug {
    /// Its name.
    pub name: &'static str,
    /// What is wrong.
    pub what: &'static str,
    /// The fault model of the clusters in which it is looked for, unless any will do.
    pub fault_model: Option<FaultModel>,
    /// The focus of the runs in which it is looked for.
    pub focus: Option<Focus>,
    /// Where on lanes the parts of replicas stand in the runs in which it is looked for.
    pub lanes: Lanes,
    /// Whether it is looked for where results are verified.
    pub verify: bool,
    /// Whether it is looked for where eras end.
    pub eras: bool,
}

/// Where the parts of replicas stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lanes {
    /// As the seed says.
    AsDrawn,
    /// Some have lanes of their own.
    Apart,
    /// Instances stand on lanes, and move between them.
    Moving,
}

const fn bug(name: &'static str, what: &'static str) -> Bug {
    Bug { name, what, fault_model: None, focus: None, lanes: Lanes::AsDrawn, verify: false, eras: false }
}

const fn about(focus: Focus, name: &'static str, what: &'static str) -> Bug {
    let fault_model = if focus.lies() { Some(FaultModel::Byzantine) } else { None };
    Bug { fault_model, focus: Some(focus), ..bug(name, what) }
}

const fn byzantine(name: &'static str, what: &'static str) -> Bug {
    Bug { fault_model: Some(FaultModel::Byzantine), ..bug(name, what) }
}

/// Five replicas survive two faults, one of which may be a lie.
const fn few_are_slow(name: &'static str, what: &'static str) -> Bug {
    let model = FaultModel::Visigoth(Visigoth { u: 2, s: 1, o: 1, t_ms: 20 });
    Bug { fault_model: Some(model), ..bug(name, what) }
}

/// Where results are verified and replicas may lie about them.
const fn verified(name: &'static str, what: &'static str) -> Bug {
    Bug { verify: true, ..byzantine(name, what) }
}

/// Where eras end.
const fn eras(name: &'static str, what: &'static str) -> Bug {
    Bug { eras: true, ..bug(name, what) }
}

const fn apart(name: &'static str, what: &'static str) -> Bug {
    Bug { lanes: Lanes::Apart, ..bug(name, what) }
}

const fn moving(name: &'static str, what: &'static str) -> Bug {
    Bug { lanes: Lanes::Moving, ..bug(name, what) }
}

/// All of them.
pub const BUGS: &[Bug] = &[
    bug("vote-counted-twice", "a candidate counts one vote twice"),
    about(Focus::Votes, "vote-before-sync", "a vote leaves before its record is synced"),
    bug("vote-lost-at-restart", "a restarted replica knows the view and forgot its vote"),
    bug("log-not-compared", "a voter does not compare the candidate's log with its own"),
    about(
        Focus::Votes,
        "older-view-by-counting",
        "a leader counts copies of an older view's entry as decided",
    ),
    bug("minority-decides", "a leader decides with one copy too few"),
    bug("ack-before-sync", "a follower acknowledges entries before they are synced"),
    bug("durable-when-written", "the log does not sync what it calls durable"),
    bug("sync-asked-again", "after a sync that failed the next one is believed"),
    bug("recovery-trusts-unsynced", "recovery takes what is readable for durable"),
    bug("conflict-off-by-one", "a follower keeps the first entry that departs from the leader's log"),
    bug("commit-beyond-match", "a follower decides entries that the leader did not vouch for"),
    bug("read-not-confirmed", "a leader answers strong reads without asking whether it still leads"),
    bug("read-before-own-commit", "a new leader answers strong reads before it decided anything"),
    bug("read-before-executed", "a strong read runs before what it must see is executed"),
    bug("session-read-goes-back", "reads of a session go back in time when it moves to another replica"),
    bug("session-read-misses-write", "reads of a session do not know what it wrote"),
    bug("stale-lease-after-a-pause", "a read is judged by a time that was read before it arrived"),
    bug("lease-from-the-answer", "a lease counts from the arrival of an answer"),
    bug("lease-kept-over-a-transfer", "a leader that hands over keeps its lease"),
    about(
        Focus::Promises,
        "restarted-votes-early",
        "a restarted replica does not keep what it may have promised",
    ),
    bug("duplicate-runs", "a request that arrives again runs again"),
    bug("answers-forgotten", "replies are forgotten before the client has them"),
    bug("admission-not-reset", "a leader that led before takes old requests for new ones in flight"),
    bug("queue-without-limit", "admission takes whatever comes"),
    bug("damage-unnoticed", "damaged frames are taken"),
    bug("room-forgotten", "records that found no room wait for a segment that nobody asks for"),
    bug(
        "small-entries-refused",
        "a follower refuses a message whose small entries count for more than a segment",
    ),
    bug("window-by-estimate", "a window stays closed because of an estimate"),
    bug(
        "change-lost-after-copy",
        "a checkpoint keeps what was captured ahead, although it changed before the border",
    ),
    bug("chain-order", "where a chain of checkpoints holds a part twice, the older one counts"),
    bug("sessions-outside-digest", "a checkpoint leaves the sessions out"),
    bug("change-not-recorded", "changes of a tracked service while it is copied are forgotten"),
    bug("unverified-chunk", "parts of checkpoints are taken as they are"),
    bug("transfer-unverified", "what a transfer brought is not compared with the agreed digest"),
    bug("digest-of-one", "one replica's digest counts as agreed"),
    bug("stale-digest", "a digest is not computed again after a change"),
    bug("divergence-ignored", "a replica whose state is not the agreed one goes on"),
    bug("installed-before-durable", "a fetched checkpoint is used before it is durable"),
    bug("unpublished-trim", "the log is trimmed for a checkpoint that is not durable yet"),
    bug("floor-off-by-one", "the log is trimmed one entry too far"),
    about(
        Focus::Promises,
        "floor-as-stated",
        "a replica takes its log for as long as its records say, and speaks for no checkpoint that others need",
    ),
    bug("suffix-dropped-at-jump", "installing a checkpoint drops entries that follow it"),
    bug("old-quorum-after-change", "a leader counts by the membership before the last change"),
    bug("learner-counted", "what a learner has counts like what a voter has"),
    bug(
        "removed-leader-goes-on",
        "a leader that was removed counts by the membership in which it was a member",
    ),
    bug("two-changes-at-once", "a change of membership begins while another one is under way"),
    bug("capture-forgets", "a capture whose turn comes late has forgotten the border before it"),
    about(
        Focus::Changes,
        "changes-pile-up",
        "operators may ask for a change of membership while one is proposed",
    ),
    bug("level-by-own-binary", "a replica writes checkpoints in the way of a level that was not executed"),
    bug("service-level-by-own-binary", "the service works at a level that was not executed"),
    bug("raised-without-all", "a leader raises the feature level although not all members can do it"),
    bug("merge-order-after-restart", "after a restart the merge begins with the wrong instance"),
    bug("merge-read-off-by-one", "a strong read misses the last slot that its instance decided"),
    bug("merge-noop-counted-twice", "a no-op counts slots again that records before it stand for"),
    bug("merge-jump-resets-one", "an instance forgets what it decided behind an installed checkpoint"),
    bug(
        "merge-border-off-by-one",
        "a replica that starts again takes a border of the number of instances for one slot later",
    ),
    bug("stays-meet", "messages of an instance's stay before count in the next one"),
    bug("stays-overlap", "an instance comes back while most need what it said before it left"),
    bug("late-install", "a checkpoint that was fetched takes the place of later ones"),
    bug("watch-from-where-all-are", "watches that fall behind together read on from one place"),
    bug("jump-untold", "watches do not learn of what a checkpoint jumped over until the next write"),
    bug("time-of-outages", "agreed time goes on while nobody leads, however long"),
    bug(
        "time-of-the-lonely",
        "agreed time counts what a leader proposed that had lost the others, and did not know it yet",
    ),
    bug(
        "time-of-pauses",
        "a leader whose process was stopped counts what it missed, although nobody else led",
    ),
    bug(
        "time-of-the-patient",
        "a leader counts the time in which it leads alone, since it was late itself and gives the others time",
    ),
    bug("time-leaps", "the next leader extends its own agreed time, however slow the one before was"),
    bug(
        "time-apart",
        "what a batch adds to the time that its leader knew counts in full, whatever came between",
    ),
    bug("leaders-apart", "leaders of several instances that do not hear each other stay where they are"),
    bug("state-of-its-own", "the service's state depends on what only one replica saw"),
    about(Focus::Forges, "vouches-for-anything", "a replica vouches for requests that no client sent"),
    about(
        Focus::Forges,
        "signature-unchecked",
        "a replica takes whatever names a session with a key for signed",
    ),
    about(Focus::Forges, "tag-unchecked", "a replica takes whatever names a key of its client's for tagged"),
    byzantine("check-of-another", "a leader takes a worker's answer for that to earlier work"),
    byzantine("smart-votes-unvouched", "a replica votes for what its host does not vouch for"),
    byzantine("members-of-one", "a replica takes another one's word for who the members are"),
    byzantine("reply-of-one", "a client takes one replica's word"),
    few_are_slow("reply-of-one", "a client takes one replica's word, where few are slow and one may lie"),
    about(Focus::Idle, "time-held-back", "a replica takes whatever time a leader holds back"),
    byzantine("smart-shown-is-not-had", "a replica follows a view whose slots nobody can give it"),
    Bug {
        fault_model: Some(FaultModel::Byzantine),
        ..about(
            Focus::Beginnings,
            "smart-founded-at-zero",
            "a cluster made from a backup takes itself for one that began with nothing",
        )
    },
    about(
        Focus::Claims,
        "smart-nothing-to-wait-for",
        "a replica that lacks the slot before its view waits for it without an end",
    ),
    about(
        Focus::Idle,
        "gap-unwatched",
        "nobody complains about a leader that fills nothing in its idle instance",
    ),
    about(Focus::Idle, "deadlines-unwatched", "nobody complains about a leader that orders no time"),
    byzantine(
        "claims-outlive-jumps",
        "what clients asked before a replica took a checkpoint keeps its room there",
    ),
    byzantine("border-whenever-asked", "a border comes whenever a leader asks for one"),
    about(Focus::Reads, "read-at-once", "a replica answers reads from before what it accepted"),
    about(Focus::Reads, "read-of-few", "a client takes what f+1 answer to a read that is not ordered"),
    apart(
        "lane-not-called-in",
        "a checkpoint takes the place of the state while a protocol's lane is at work on what was before",
    ),
    apart(
        "proposes-before-handed",
        "a leader on a lane of its own proposes before the merge has what was decided before its view",
    ),
    apart(
        "old-clock-extended",
        "a leader on a lane of its own dates batches by a clock from before a long time",
    ),
    apart(
        "frames-overtake",
        "a pillar on a lane of its own takes a frame while the main lane has an earlier one of the same connection",
    ),
    moving(
        "moves-past-the-main-lane",
        "a connection goes from one lane to the next before the main lane has what the first one read of it",
    ),
    apart("durable-by-another", "a record counts as durable when another instance's record is"),
    verified("rulings-vouched", "a replica votes for whatever a leader rules about results"),
    verified("quorum-of-liars", "one more executor than may lie is enough for a ruling"),
    Bug {
        verify: true,
        ..bug("leaves-with-results", "replicas leave before those that stay have what was ruled")
    },
    Bug {
        fault_model: Some(FaultModel::Visigoth(Visigoth::PAIR)),
        ..bug("goes-on-ungranted", "one of a pair goes on alone without a grant of the oracle")
    },
    verified("rulings-unwatched", "nobody complains about a leader that orders no rulings"),
    eras("era-ends-anywhere", "a replica goes on delivering behind the end of an era"),
    eras("era-votes-count", "messages of another era count"),
    eras("era-before-agreed", "a replica enters an era although nobody else has its state"),
    eras("era-of-one", "a replica believes whatever one member says of a later era"),
    byzantine("digest-of-one", "one replica's digest counts as agreed, where it may be a lie"),
];

impl Bug {
    /// The profile of the runs in which it is looked for.
    pub fn profile(&self, profile: Profile) -> Profile {
        Profile {
            fault_model: self.fault_model.or(profile.fault_model),
            focus: self.focus.or(profile.focus),
            verify: self.verify || profile.verify,
            eras: self.eras || profile.eras,
            apart: if self.lanes == Lanes::Apart { Some(true) } else { profile.apart },
            moves: if self.lanes == Lanes::Moving { Some(true) } else { profile.moves },
            ..profile
        }
    }
}

/// How soon a bug was found.
#[derive(Clone, Debug)]
pub struct Found {
    /// The bug.
    pub bug: Bug,
    /// The checker that saw it, and the lowest failing seed among those that ran.
    pub by: Option<(&'static str, u64)>,
    /// How many seeds had run when it was found; all, if it was not.
    pub seeds: u64,
}

/// Looks for one bug in at most `count` seeds.
pub fn hunt(bug: Bug, profile: Profile, count: u64, jobs: usize) -> Found {
    plant(Some(bug.name));
    let profile = bug.profile(profile);
    let campaign = Campaign { profile, first: 1, count, jobs, failures_max: 1 };
    let summary = run(&campaign, |_, _| {});
    plant(None);
    let by = summary
        .failures
        .first()
        .and_then(|report| report.failure.as_ref().map(|failure| (failure.checker, report.seed)));
    Found { bug, by, seeds: by.map_or(summary.runs, |(_, seed)| seed) }
}

/// The table's line for a bug.
pub fn line(found: &Found) -> String {
    let (checker, seed) = match found.by {
        Some((checker, seed)) => (checker, seed.to_string()),
        None => ("not found", format!("> {}", found.seeds)),
    };
    let focus = found.bug.focus.map_or(String::new(), |focus| format!(", with `--focus {}`", focus.name()));
    let lanes = match found.bug.lanes {
        Lanes::AsDrawn => "",
        Lanes::Apart => ", with `--apart true`",
        Lanes::Moving => ", with `--moves true`",
    };
    let eras = if found.bug.eras { ", with `--eras true`" } else { "" };
    format!("| `{}` | {} | `{checker}` | {seed}{focus}{lanes}{eras} |", found.bug.name, found.bug.what)
}
