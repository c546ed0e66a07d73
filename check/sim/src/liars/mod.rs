//! Replicas that lie, and clients that do.
//!
//! A replica that lies runs the real node. What the node sends passes through its tricks, one after the other: each decodes it with the
//! real codecs, changes it, withholds it, delays it, or adds to it, differently for each receiver, and encodes it again. It signs anything
//! in its own name, and nothing in another's. Links are authenticated, so no replica can pretend to be another one, and a hello is left as
//! it is.
//!
//! Only the tricks in `mod_smart/` know what that protocol's messages say: they decode and encode messages as the protocol does, and sign
//! its statements. Another protocol would have a folder of its own, and a variant in [`Said`]. The tricks in this folder work with any
//! protocol.
//!
//! One file for each kind of trick. `plan/liars.rs` draws which replicas lie, and how; `world/driving.rs` carries it out.

pub mod clients;
mod digests;
mod members;
mod memos;
mod mod_smart;
mod mutate;
mod old_reads;
mod replays;
mod replies;
mod sent_on;
mod silent;
mod slow;
mod tokens;
mod voice;

use crate::plan::{self, Plan};
use crate::random::Rng;
use crate::replica::{CLUSTER, START_TIME};
use bytes::Bytes;
pub use digests::{Twisted, twist};
use quorate_auth::Keyed;
use quorate_order::mod_smart::message::ModSmartMessage;
use quorate_order::visigoth::Wish;
use quorate_order::{OrderMessage, protocols};
use quorate_types::{ClusterId, ConnId, InstanceId, MembershipId, ReplicaId};
use quorate_wire::{FRAME_HEADER, Frame, FrameKind, Membership, OutFrame, StateMessage};
use std::collections::BTreeMap;
use std::fmt::Debug;
pub use voice::{Scene, Voice};

/// A liar answers one message of its node with at most this many of its own.
const SAYINGS_MAX: usize = 32;

/// A way to lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trick {
    /// Sends nothing.
    Silent,
    /// Sends some kinds of messages only to some members.
    Selective,
    /// Sends everything late.
    Slow,
    /// Sends its proposals late, by this many milliseconds; if 0, the number is drawn.
    SlowLeader(u64),
    /// Proposes few of the requests that wait.
    Small,
    /// Proposes different things to different members, and votes for what each of them saw.
    Equivocate,
    /// Votes for whatever each of the others votes for.
    DoubleVotes,
    /// Votes for what nobody proposed.
    FalseVotes,
    /// Proposes requests that it altered or made up.
    Forge,
    /// Never proposes the requests of some clients.
    Censor,
    /// Repeats what it, or others, said before, in an earlier view or not.
    Replay,
    /// Hides its locks and writes when a view changes.
    Forgetful,
    /// Claims locks and writes that never were: in the first view, in future views, two of one value.
    Inventive,
    /// Claims slots that were not decided, with false proofs.
    Boasting,
    /// Begins its views with statements that were not made, different ones for each member.
    FalseSync,
    /// Sends certificates of views that were not asked for.
    FalseViews,
    /// Complains all the time.
    Complains,
    /// Sends false decisions, and says that slots are gone.
    FalseDecisions,
    /// Names absurd slots, views and rounds.
    Huge,
    /// Proposes times far ahead.
    Times,
    /// Proposes the time 0.
    StopsTime,
    /// Proposes times that advance by a tenth.
    SlowsTime,
    /// Proposes as if it had executed nothing since the cluster began.
    OldBases,
    /// Proposes a border with every batch.
    Borders,
    /// Proposes no-ops for slots far ahead.
    NoOps,
    /// Proposes no no-ops, and does not vote for its own. Others wait for an instance that it leads and in which no client asks for
    /// anything.
    FillsNothing,
    /// Orders nothing for time alone: as long as no client asks for anything it orders nothing, even after a deadline of the service.
    OrdersNoTime,
    /// Reports wrong digests of its state, and digests of borders that never were.
    Digests,
    /// Sends wrong parts of its checkpoints.
    Transfers(plan::Lie),
    /// Sends many votes for future slots, and many questions, at once.
    Flood,
    /// Forwards requests that clients never sent.
    SentOn,
    /// Sends wrong answers to clients.
    Replies,
    /// Names false members, room and gaps.
    Members,
    /// Changes bytes at random.
    Mutate,
    /// Keeps back its own accepts, and so the proofs of what only it knows to be decided, except from the next leader.
    KeepsProofs,
    /// Takes part in changes of views only.
    KeepsAllButViews,
    /// Keeps back some kinds of messages of some instances from some members, for ever or for a while.
    KeepsSome,
    /// Sends its accepts to one member only, which decides before the others.
    KeepsAccepts,
    /// Answers reads from before the last change that it knows of.
    OldReads,
    /// Adds many wrong signatures to each message.
    Costly,
    /// Where few are slow: lies about whom it misses.
    FalseMisses,
    /// Where few are slow: asks the oracle for what nobody supports.
    FalseClaims,
    /// Where results are verified: tells false tokens, or none.
    Tokens,
    /// Answers falsely to members that lack what was ruled.
    Memos,
    /// Orders rulings that no quorum supports.
    FalseRulings,
    /// Lets everything run again and again.
    AlwaysRedo,
    /// Orders no rulings.
    KeepsRulings,
}

/// The tricks that are drawn for any liar: all except [`KEEPERS`], and those that `plan/liars.rs` draws by itself.
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

/// The tricks about results, where they are verified.
pub const ABOUT_RESULTS: [Trick; 5] =
    [Trick::Tokens, Trick::Memos, Trick::FalseRulings, Trick::AlwaysRedo, Trick::KeepsRulings];

/// The tricks that keep things back.
pub const KEEPERS: [Trick; 3] = [Trick::KeepsProofs, Trick::KeepsAllButViews, Trick::KeepsSome];

impl Trick {
    /// Whether the liar needs no disk: its node's messages wait for nothing.
    pub fn is_fast(self) -> bool {
        matches!(self, Self::KeepsProofs | Self::KeepsAllButViews)
    }
}

/// The content of a frame.
#[derive(Clone, Debug, PartialEq)]
pub enum Said {
    /// A message of an instance, decoded as one of Mod-SMaRt.
    ModSmart(InstanceId, ModSmartMessage),
    /// A message about the state.
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

/// A message that a liar sends.
#[derive(Clone, Debug)]
pub struct Saying {
    /// The process that it goes to.
    pub to: usize,
    /// It is sent this many nanoseconds later.
    pub after: u64,
    /// The message.
    pub said: Said,
}

impl Saying {
    fn now(to: usize, said: Said) -> Self {
        Self { to, after: 0, said }
    }
}

/// One kind of trick, with what it remembers.
trait Plays: Debug + Send {
    /// What is sent to this process instead of this message.
    fn instead(&mut self, me: &mut Voice, to: usize, said: Said) -> Vec<Saying>;

    /// What the liar sends after a member sent it this message.
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
        Trick::FalseMisses => Box::new(mod_smart::reach::FalseMisses),
        Trick::Tokens => Box::new(tokens::FalseTokens),
        Trick::Memos => Box::new(memos::FalseMemos),
        Trick::FalseRulings => Box::new(mod_smart::rulings::FalseRulings::TooFew(None)),
        Trick::AlwaysRedo => Box::new(mod_smart::rulings::FalseRulings::AlwaysRedo),
        Trick::KeepsRulings => Box::new(mod_smart::rulings::FalseRulings::Withheld),
        // See `Liar::wish`.
        Trick::FalseClaims => Box::new(silent::Silent::to_none()),
    }
}

/// A replica that lies.
#[derive(Debug)]
pub struct Liar {
    me: Voice,
    often: u64,
    since: u64,
    /// Whether it asks the oracle for what nobody supports.
    claims: bool,
    /// Whether it goes on signing with the key that it had first, whatever key members know it by.
    stubborn: bool,
    /// The last membership whose keys it knows.
    learned: MembershipId,
    plays: Vec<Box<dyn Plays>>,
    along: mod_smart::Along,
    /// The connection to each process.
    ways: BTreeMap<usize, ConnId>,
    /// Messages that are sent later, by number.
    held: BTreeMap<u64, Saying>,
    next: u64,
}

impl Liar {
    /// The liar of a plan.
    pub fn new(plan: &Plan, liar: &plan::Liar) -> Self {
        let scene = Scene {
            replicas: plan.replicas,
            clients: plan.clients,
            cluster: CLUSTER,
            start_time: START_TIME,
            auth: Box::new(Keyed::new(ReplicaId::new(liar.who as u16 + 1), plan.seed)),
        };
        let stubborn = Rng::of(plan.seed, 3000 + liar.who as u64).chance(500);
        let liar = Self::of(scene, liar, Rng::of(plan.seed, 2000 + liar.who as u64));
        Self { stubborn, ..liar }
    }

    /// Its node knows this membership. A stubborn liar signs with its first key all the same.
    pub fn learn(&mut self, membership: &Membership) {
        if !self.stubborn && membership.number() > self.learned {
            self.learned = membership.number();
            self.me.learn(membership);
        }
    }

    /// It signs for the cluster under this id.
    pub fn signs_as(&mut self, cluster: ClusterId) {
        self.me.signs_as(cluster);
    }

    /// A liar in a scene of its own, without a simulated cluster.
    pub fn of(scene: Scene, liar: &plan::Liar, rng: Rng) -> Self {
        let mut me = Voice::new(scene, liar.who, rng);
        let plays = liar.tricks.iter().map(|trick| player(*trick, &mut me)).collect();
        Self {
            me,
            often: liar.often,
            since: liar.since,
            claims: liar.tricks.contains(&Trick::FalseClaims),
            stubborn: false,
            learned: MembershipId::ZERO,
            plays,
            along: mod_smart::Along::default(),
            ways: BTreeMap::new(),
            held: BTreeMap::new(),
            next: 0,
        }
    }

    /// Its process starts, so its connections are new.
    pub fn starts(&mut self) {
        self.ways.clear();
        self.held.clear();
    }

    /// The connection to a process, if there is one.
    pub fn way(&self, to: usize) -> Option<ConnId> {
        self.ways.get(&to).copied()
    }

    /// Keeps a message until it must be sent. Returns its number.
    pub fn hold(&mut self, saying: Saying) -> u64 {
        self.next += 1;
        self.held.insert(self.next, saying);
        self.next
    }

    /// The message that was kept under this number.
    pub fn held(&mut self, number: u64) -> Option<Saying> {
        self.held.remove(&number)
    }

    /// What is sent instead of a message of the node to a process. `healed`: whether all other faults are over.
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

    /// Its node asks the oracle. Returns what the liar asks it for as well.
    pub fn wishes(&mut self, now: u64, instance: InstanceId, membership: MembershipId) -> Vec<Wish> {
        let count = if self.claims && now >= self.since { self.me.rng.below(4) } else { 0 };
        (0..count).map(|_| self.me.false_wish((instance, membership))).collect()
    }

    /// The liar hears a message. Returns what it sends after that.
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
