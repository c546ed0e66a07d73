//! Replicas that lie, and clients that do.
//!
//! A replica that lies runs the real node. What the node sends passes through its tricks, one after the other: each decodes it with the
//! real codecs, changes it, withholds it, holds it up, or adds to it, for each receiver as it likes, and encodes it again. It signs what it
//! likes, in its own name and in no other. Links are authenticated: nobody says that it is somebody else, so a hello is left as it is.
//!
//! What a protocol's messages say is known to its tricks only (`mod_smart/`): they take messages apart and encode them as the protocol does, and
//! sign its statements. Another protocol has a folder of its own, and a word in [`Said`]. The tricks in this folder play with any.
//!
//! One file for each kind of trick. Who lies, and how, is drawn in `plan/liars.rs`; `world/driving.rs` carries it out.

pub mod clients;
mod digests;
mod members;
mod mod_smart;
mod mutate;
mod old_reads;
mod replays;
mod replies;
mod sent_on;
mod silent;
mod slow;
mod voice;

use crate::plan::{self, Plan};
use crate::random::Rng;
use crate::replica::{CLUSTER, START_TIME};
use bytes::Bytes;
pub use digests::{Twisted, twist};
use quorate_auth::Keyed;
use quorate_order::mod_smart::message::ModSmartMessage;
use quorate_order::{OrderMessage, protocols};
use quorate_types::{ConnId, InstanceId, ReplicaId};
use quorate_wire::{FRAME_HEADER, Frame, FrameKind, OutFrame, StateMessage};
use std::collections::BTreeMap;
use std::fmt::Debug;
pub use voice::{Scene, Voice};

/// No word of a node makes a liar say more than this.
const SAYINGS_MAX: usize = 32;

/// A way to lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trick {
    /// Sends nothing.
    Silent,
    /// Sends some kinds of messages to some only.
    Selective,
    /// Everything comes late.
    Slow,
    /// Its proposals come late, by so many milliseconds; by how many is drawn if 0.
    SlowLeader(u64),
    /// Proposes little of what waits.
    Small,
    /// Proposes one thing to some and another to others, and votes for whatever each of them saw.
    Equivocate,
    /// Votes for whatever each of the others votes for.
    DoubleVotes,
    /// Votes for what nobody proposed.
    FalseVotes,
    /// Proposes requests that it altered, or made up.
    Forge,
    /// Never proposes what some clients ask for.
    Censor,
    /// Says again what it, or others, said before, in an earlier view or not.
    Replay,
    /// Hides what it locked and wrote when a view changes.
    Forgetful,
    /// Claims locks and writes that never were, in the first view, in views to come, of one value twice.
    Inventive,
    /// Claims slots that nobody decided, with proofs that are none.
    Boasting,
    /// Begins its views with what nobody said, and differently for each.
    FalseSync,
    /// Certificates of views that nobody asked for.
    FalseViews,
    /// Complains all the time.
    Complains,
    /// Decisions that are none, and slots that are gone.
    FalseDecisions,
    /// Absurd slots, views and rounds.
    Huge,
    /// Proposes times far ahead.
    Times,
    /// Proposes the time 0.
    StopsTime,
    /// Proposes times that advance by a tenth.
    SlowsTime,
    /// Proposes as if it had executed nothing since the beginning.
    OldBases,
    /// Proposes a border with every batch.
    Borders,
    /// Proposes no-ops for slots far ahead.
    NoOps,
    /// Proposes no no-ops, and votes for none of its own: others wait for an instance that it leads and where nobody asks for anything.
    FillsNothing,
    /// Orders no time alone: nothing as long as nobody asks for anything, though a deadline of the service is over.
    OrdersNoTime,
    /// Reports wrong digests of its state, and of borders that never were.
    Digests,
    /// Sends wrong parts of its checkpoints.
    Transfers(plan::Lie),
    /// Votes for slots to come, questions, all many at once.
    Flood,
    /// Sends on requests of clients that they never sent.
    SentOn,
    /// Answers clients wrongly.
    Replies,
    /// Names members, rooms and gaps that are not so.
    Members,
    /// Changes bytes at random.
    Mutate,
    /// Keeps its own accepts to itself, and with them the proofs of what only it knows to be decided, but for who leads the next view.
    KeepsProofs,
    /// Takes part in changes of views only.
    KeepsAllButViews,
    /// Keeps some kinds of messages of some instances from some, for ever or for a while.
    KeepsSome,
    /// Nobody but one member hears what it accepts: that one decides before the others.
    KeepsAccepts,
    /// Answers reads from before the last change that it knows of.
    OldReads,
    /// Many signatures that fail with each word.
    Costly,
}

/// All of them that are drawn for any liar: but for [`KEEPERS`], and what `plan/liars.rs` draws by itself.
pub const TRICKS: [Trick; 32] = [
    Trick::Silent,
    Trick::Selective,
    Trick::Slow,
    Trick::SlowLeader(0),
    Trick::Small,
    Trick::Equivocate,
    Trick::DoubleVotes,
    Trick::FalseVotes,
    Trick::Forge,
    Trick::Censor,
    Trick::Replay,
    Trick::Forgetful,
    Trick::Inventive,
    Trick::Boasting,
    Trick::FalseSync,
    Trick::FalseViews,
    Trick::Complains,
    Trick::FalseDecisions,
    Trick::Huge,
    Trick::Times,
    Trick::Borders,
    Trick::NoOps,
    Trick::Digests,
    Trick::Transfers(plan::Lie::Flip),
    Trick::Transfers(plan::Lie::Truncate),
    Trick::Transfers(plan::Lie::Other),
    Trick::Transfers(plan::Lie::Silent),
    Trick::Flood,
    Trick::SentOn,
    Trick::Replies,
    Trick::Members,
    Trick::Mutate,
];

/// Those that keep things back.
pub const KEEPERS: [Trick; 3] = [Trick::KeepsProofs, Trick::KeepsAllButViews, Trick::KeepsSome];

impl Trick {
    /// Whether it needs no disk: what its node says waits for nothing.
    pub fn is_fast(self) -> bool {
        matches!(self, Self::KeepsProofs | Self::KeepsAllButViews)
    }
}

/// What a frame says.
#[derive(Clone, Debug, PartialEq)]
pub enum Said {
    /// A message of an instance, in the words of Mod-SMaRt.
    ModSmart(InstanceId, ModSmartMessage),
    /// About the state.
    State(StateMessage),
    /// Anything else.
    Other(FrameKind, Bytes),
}

impl Said {
    fn of(kind: FrameKind, payload: Bytes) -> Self {
        if kind == FrameKind::Order
            && let Ok((instance, message)) = protocols::decode(payload.clone())
            && let Some(message) = message.take()
        {
            return Self::ModSmart(instance, message);
        }
        if kind == FrameKind::State
            && let Ok(message) = StateMessage::decode(payload.clone())
        {
            return Self::State(message);
        }
        Self::Other(kind, payload)
    }

    /// The frame to send.
    pub fn frame(&self) -> OutFrame {
        match self {
            Self::ModSmart(instance, message) => OrderMessage::of(message.clone()).frame(*instance),
            Self::State(message) => message.frame(),
            Self::Other(kind, payload) => OutFrame::new(*kind, payload, vec![]),
        }
    }
}

/// Something that a liar says.
#[derive(Clone, Debug)]
pub struct Saying {
    /// To which process.
    pub to: usize,
    /// So many nanoseconds later.
    pub after: u64,
    /// What.
    pub said: Said,
}

impl Saying {
    fn now(to: usize, said: Said) -> Self {
        Self { to, after: 0, said }
    }
}

/// One kind of trick, with what it remembers.
trait Plays: Debug + Send {
    /// What is said to this process in place of this.
    fn instead(&mut self, me: &mut Voice, to: usize, said: Said) -> Vec<Saying>;

    /// What is said when a member said this.
    fn answers(
        &mut self,
        _me: &mut Voice,
        _from: usize,
        _instance: InstanceId,
        _message: &ModSmartMessage,
    ) -> Vec<Saying> {
        Vec::new()
    }
}

fn player(trick: Trick, me: &mut Voice) -> Box<dyn Plays> {
    match trick {
        Trick::Silent => Box::new(silent::Silent::to_all()),
        Trick::Selective => Box::new(silent::Silent::to_some(me)),
        Trick::Slow => Box::new(slow::Slow::new(me)),
        Trick::SlowLeader(by) => Box::new(slow::Slow::leader(me, by)),
        Trick::Small => Box::new(mod_smart::requests::Small),
        Trick::Equivocate => Box::new(mod_smart::equivocate::Equivocate::default()),
        Trick::DoubleVotes => Box::new(mod_smart::votes::DoubleVotes),
        Trick::FalseVotes => Box::new(mod_smart::votes::FalseVotes),
        Trick::Forge => Box::new(mod_smart::requests::Forge::default()),
        Trick::Censor => Box::new(mod_smart::requests::Censor::new(me)),
        Trick::Replay => Box::new(replays::Replay),
        Trick::Forgetful => Box::new(mod_smart::collects::Collects::Forgetful),
        Trick::Inventive => Box::new(mod_smart::collects::Collects::Inventive),
        Trick::Boasting => Box::new(mod_smart::collects::Collects::Boasting),
        Trick::FalseSync => Box::new(mod_smart::syncs::FalseSync::default()),
        Trick::FalseViews => Box::new(mod_smart::complaints::FalseViews),
        Trick::Complains => Box::new(mod_smart::complaints::Complains),
        Trick::FalseDecisions => Box::new(mod_smart::proofs::FalseDecisions),
        Trick::Huge => Box::new(mod_smart::huge::Huge),
        Trick::Times => Box::new(mod_smart::batches::Times),
        Trick::OldBases => Box::new(mod_smart::batches::Holds::Base),
        Trick::StopsTime => Box::new(mod_smart::batches::Holds::Zero),
        Trick::SlowsTime => Box::new(mod_smart::batches::Holds::Tenth(None)),
        Trick::Borders => Box::new(mod_smart::batches::Borders),
        Trick::NoOps => Box::new(mod_smart::batches::NoOps),
        Trick::FillsNothing => {
            Box::new(mod_smart::batches::Withholds::new(|batch| batch.no_op_target().is_some()))
        }
        Trick::OrdersNoTime => {
            Box::new(mod_smart::batches::Withholds::new(mod_smart::batches::is_time_alone))
        }
        Trick::Digests => Box::new(digests::Digests),
        Trick::Transfers(lie) => Box::new(digests::Transfers(lie)),
        Trick::Flood => Box::new(mod_smart::floods::Flood),
        Trick::SentOn => Box::new(sent_on::SentOn),
        Trick::Replies => Box::new(replies::Replies),
        Trick::Members => Box::new(members::FalseMembers),
        Trick::Mutate => Box::new(mutate::Mutate),
        Trick::KeepsProofs => Box::new(mod_smart::keeps::Keeps::Proofs),
        Trick::KeepsAllButViews => Box::new(mod_smart::keeps::Keeps::AllButViews),
        Trick::KeepsSome => Box::new(mod_smart::keeps::Keeps::some(me)),
        Trick::KeepsAccepts => Box::new(mod_smart::keeps::Keeps::accepts(me)),
        Trick::OldReads => Box::new(old_reads::OldReads::default()),
        Trick::Costly => Box::new(mod_smart::costly::Costly),
    }
}

/// A replica that lies.
#[derive(Debug)]
pub struct Liar {
    me: Voice,
    often: u64,
    since: u64,
    plays: Vec<Box<dyn Plays>>,
    along: mod_smart::Along,
    /// Where each process is reached.
    ways: BTreeMap<usize, ConnId>,
    /// What is said later, by number.
    held: BTreeMap<u64, Saying>,
    next: u64,
}

impl Liar {
    /// As planned.
    pub fn new(plan: &Plan, liar: &plan::Liar) -> Self {
        let scene = Scene {
            replicas: plan.replicas,
            clients: plan.clients,
            cluster: CLUSTER,
            start_time: START_TIME,
            auth: Box::new(Keyed::new(ReplicaId::new(liar.who as u16 + 1), plan.seed)),
        };
        Self::of(scene, liar, Rng::of(plan.seed, 2000 + liar.who as u64))
    }

    /// In a scene.
    pub fn of(scene: Scene, liar: &plan::Liar, rng: Rng) -> Self {
        let mut me = Voice::new(scene, liar.who, rng);
        let plays = liar.tricks.iter().map(|trick| player(*trick, &mut me)).collect();
        Self {
            me,
            often: liar.often,
            since: liar.since,
            plays,
            along: mod_smart::Along::default(),
            ways: BTreeMap::new(),
            held: BTreeMap::new(),
            next: 0,
        }
    }

    /// Its process starts: its connections are others.
    pub fn starts(&mut self) {
        self.ways.clear();
        self.held.clear();
    }

    /// Where a process is reached, if it is.
    pub fn way(&self, to: usize) -> Option<ConnId> {
        self.ways.get(&to).copied()
    }

    /// Keeps something until it is time to say it; gives its number.
    pub fn hold(&mut self, saying: Saying) -> u64 {
        self.next += 1;
        self.held.insert(self.next, saying);
        self.next
    }

    /// What was kept under this number.
    pub fn held(&mut self, number: u64) -> Option<Saying> {
        self.held.remove(&number)
    }

    /// What leaves in place of what the node sends to a process. `healed`: whether all other faults are over.
    pub fn instead(
        &mut self,
        (now, healed): (u64, bool),
        to: (usize, ConnId),
        frame: &OutFrame,
    ) -> Vec<Saying> {
        let payload = Bytes::from(frame.to_vec()).slice(FRAME_HEADER..);
        let said = Said::of(frame.kind(), payload);
        (self.me.now, self.me.healed) = (now, healed);
        // The way to a member is the connection that carries what this replica says there, and no answer to a hello.
        if to.0 >= self.me.replicas || !matches!(said, Said::Other(..)) {
            self.ways.insert(to.0, to.1);
        }
        let greets = matches!(frame.kind(), FrameKind::Hello | FrameKind::Welcome | FrameKind::Refusal);
        if now < self.since || greets {
            return vec![Saying::now(to.0, said)];
        }
        self.me.said(&said);
        let mut list = vec![Saying::now(to.0, said)];
        for play in &mut self.plays {
            let mut next: Vec<Saying> = Vec::new();
            for saying in list {
                if self.me.rng.chance(self.often) && next.len() < SAYINGS_MAX {
                    let instead = play.instead(&mut self.me, saying.to, saying.said);
                    let after = saying.after;
                    next.extend(instead.into_iter().map(|new| Saying { after: new.after + after, ..new }));
                } else {
                    next.push(saying);
                }
            }
            list = next;
        }
        list.iter_mut().for_each(|saying| self.along.say(&self.me, saying));
        list
    }

    /// Somebody says this; gives what the liar says to that.
    pub fn hears(&mut self, now: u64, from: usize, frame: &Frame) -> Vec<Saying> {
        let said = Said::of(frame.kind, frame.payload.clone());
        self.me.now = now;
        self.me.heard(from, &said);
        let Said::ModSmart(instance, message) = &said else { return Vec::new() };
        let mut list = Vec::new();
        if now >= self.since {
            for play in &mut self.plays {
                if self.me.rng.chance(self.often) {
                    list.extend(play.answers(&mut self.me, from, *instance, message));
                }
            }
        }
        list
    }
}

#[cfg(test)]
mod tests;
