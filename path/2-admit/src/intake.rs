//! How what clients ask comes in: two intakes of one shape. Where replicas only crash, a client asks the leader, and the leader's word is
//! enough ([`Intake::Plain`]). Where they may lie, a client asks all of them, and each vouches for what it heard itself ([`Vouched`]).
//!
//! An intake is stepped by what happens and says what is to be done ([`Out`]), in order. The caller does it and asks nothing. What arrives goes to the
//! leader's open batch at once where the intake is plain; else [`Vouched::arrived`] takes it.

use crate::facts::{Facts, Sessions};
use crate::vouched::{Suspect, Vouched};
use bytes::Bytes;
use quorate_types::{
    ClientId, ConnId, Digest, InstanceId, Reject, ReplicaId, RequestNumber, SessionId, Slot, Span, Time,
    Waited,
};
use quorate_wire::{AnswerMode, Batch, ReplyStatus, RequestHeader, RequestKind, RequestProof, SharedKey};

/// What an intake wants done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Out {
    /// Requests for an instance; nobody waits at a connection for what admission says of them.
    Admit {
        /// Which.
        instance: InstanceId,
        /// The requests.
        requests: Bytes,
    },
    /// Everything in this proposal is from whom it says.
    Vouched {
        /// Whose it is.
        instance: InstanceId,
        /// The slot that it is proposed for.
        slot: Slot,
        /// The batch, by its digest.
        digest: Digest,
        /// Since when what is in it waits here; none if all of it is known to be done, or nothing about it is known.
        waited: Option<Waited>,
    },
    /// The protocol of an instance is to look whether this is decided in time.
    Watch {
        /// Which.
        instance: InstanceId,
        /// What, by its digest or another name that no digest has.
        name: Digest,
    },
    /// That is no concern any more.
    Unwatch {
        /// Which.
        instance: InstanceId,
        /// What.
        name: Digest,
    },
    /// All other members are to know these requests.
    Say(Bytes),
    /// Replies that need no agreement.
    Answer {
        /// To whom.
        conn: ConnId,
        /// The replies, one behind the other.
        replies: Vec<u8>,
    },
    /// A connection broke the rules.
    Reject {
        /// Which.
        conn: ConnId,
        /// How.
        why: String,
    },
    /// An operator wants to read that a request waits for too long, and that all members were told of it.
    Overdue {
        /// Whose; none when it opens a session.
        session: SessionId,
        /// Its number.
        number: RequestNumber,
    },
}

/// Who sends requests over a connection of its own.
pub struct Sender<'a> {
    /// The connection.
    pub conn: ConnId,
    /// The client.
    pub client: ClientId,
    /// How it wants to be answered by this replica.
    pub mode: AnswerMode,
    /// Whether it may run what is in a request.
    pub permits: &'a dyn Fn(&RequestHeader, &[u8]) -> bool,
}

/// The intake of a replica.
#[derive(Debug)]
pub enum Intake {
    /// Replicas crash at most.
    Plain,
    /// They may lie.
    Vouched(Box<Vouched>),
}

impl Intake {
    /// Whether a client may send such a request at all.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn takes(&self, header: &RequestHeader) -> Result<(), &'static str> {
        match (self, header.kind, header.proof) {
            (Self::Vouched(_), ..) => Ok(()),
            (Self::Plain, RequestKind::Query, _) => {
                Err("ordered queries are for clusters that survive Byzantine faults")
            }
            (Self::Plain, _, RequestProof::None) => Ok(()),
            (Self::Plain, ..) => Err("requests with proofs are for clusters that survive Byzantine faults"),
        }
    }

    /// Whether clients may say how they want to be answered.
    ///
    /// # Errors
    /// Why they may not.
    pub fn takes_modes(&self) -> Result<(), &'static str> {
        match self {
            Self::Vouched(_) => Ok(()),
            Self::Plain => {
                Err("only replicas that may lie are told how to answer: this cluster survives crashes")
            }
        }
    }

    /// A member sends on what a client asked of it.
    ///
    /// # Errors
    /// Where no member does so.
    pub fn from_member(
        &mut self,
        now: Time,
        facts: &dyn Facts,
        from: ReplicaId,
        requests: &Bytes,
        out: &mut Vec<Out>,
    ) -> Result<(), &'static str> {
        match self {
            Self::Plain => Err("a member sends requests of clients"),
            Self::Vouched(vouched) => {
                vouched.from_member(now, facts, from, requests, out);
                Ok(())
            }
        }
    }

    /// The protocol of an instance asks whether everything in a batch is from whom it says.
    pub fn examine(
        &mut self,
        now: Time,
        facts: &dyn Facts,
        (instance, slot, digest): (InstanceId, Slot, Digest),
        batch: Batch,
        out: &mut Vec<Out>,
    ) {
        if let Self::Vouched(vouched) = self {
            vouched.examine(now, facts, (instance, slot, digest), batch, out);
        }
    }

    /// A request was executed, or refused by execution. `opening`: who opened a session with it.
    pub fn executed(
        &mut self,
        outcomes: impl Iterator<Item = (Option<ClientId>, SessionId, RequestNumber, ReplyStatus)>,
    ) {
        if let Self::Vouched(vouched) = self {
            for (opening, session, number, status) in outcomes {
                vouched.executed(opening, session, number, status);
            }
        }
    }

    /// Execution goes on from a state that others reached.
    pub fn caught_up(&mut self, sessions: &dyn Sessions) {
        if let Self::Vouched(vouched) = self {
            vouched.caught_up(sessions);
        }
    }

    /// An instance has another leader; `rotated`: nothing failed in the view before.
    pub fn led(
        &mut self,
        now: Time,
        facts: &dyn Facts,
        instance: InstanceId,
        leader: Option<ReplicaId>,
        rotated: bool,
    ) {
        if let Self::Vouched(vouched) = self {
            vouched.led(now, facts, instance, leader, rotated);
        }
    }

    /// The end of a turn, as far as requests go; [`Self::vouch`] comes next.
    pub fn turn_end(&mut self, now: Time, facts: &dyn Facts, out: &mut Vec<Out>) {
        if let Self::Vouched(vouched) = self {
            vouched.turn_end(now, facts, out);
        }
    }

    /// Looks again at the proposals that were not vouched for.
    pub fn vouch(&mut self, now: Time, facts: &dyn Facts, out: &mut Vec<Out>) {
        if let Self::Vouched(vouched) = self {
            vouched.vouch(now, facts, out);
        }
    }

    /// The leader was given time enough for this request.
    pub fn overdue(&self, request: Digest, out: &mut Vec<Out>) {
        if let Self::Vouched(vouched) = self {
            vouched.overdue(request, out);
        }
    }

    /// When to call [`Self::look`].
    pub fn deadline(&self) -> Option<Time> {
        match self {
            Self::Plain => None,
            Self::Vouched(vouched) => vouched.deadline(),
        }
    }

    /// Looks at what waits for long, if it is time for that; whether it was.
    pub fn look(&mut self, now: Time, facts: &dyn Facts, out: &mut Vec<Out>) -> bool {
        match self {
            Self::Plain => false,
            Self::Vouched(vouched) => vouched.look(now, facts, out),
        }
    }

    /// A client names the keys of its tags.
    pub fn learn_keys(&mut self, client: ClientId, keys: &[SharedKey]) {
        if let Self::Vouched(vouched) = self {
            vouched.learn_keys(client, keys);
        }
    }

    /// The agreed time went so much ahead of this replica's own.
    pub fn pulled(&mut self, now: Time, by: Span) {
        if let Self::Vouched(vouched) = self {
            vouched.pulled(now, by);
        }
    }

    /// A member did what no honest one does.
    pub fn note(&mut self, now: Time, from: ReplicaId, what: &Reject) {
        if let Self::Vouched(vouched) = self {
            vouched.note(now, from, what);
        }
    }

    /// Members that did what no honest one does.
    pub fn suspects(&self) -> Vec<Suspect> {
        match self {
            Self::Plain => Vec::new(),
            Self::Vouched(vouched) => vouched.suspects(),
        }
    }

    /// Whether a member did that, and was not silent about it for long since.
    pub fn suspects_lately(&self, now: Time, member: ReplicaId) -> bool {
        match self {
            Self::Plain => false,
            Self::Vouched(vouched) => vouched.suspects_lately(now, member),
        }
    }

    /// Bytes of requests that are kept.
    pub fn byte_len(&self) -> usize {
        match self {
            Self::Plain => 0,
            Self::Vouched(vouched) => vouched.byte_len(),
        }
    }

    /// How many signatures of clients were checked.
    pub fn signatures_checked(&self) -> u64 {
        match self {
            Self::Plain => 0,
            Self::Vouched(vouched) => vouched.signatures_checked(),
        }
    }

    /// How many proposals wait for this replica's word.
    pub fn held_back(&self) -> usize {
        match self {
            Self::Plain => 0,
            Self::Vouched(vouched) => vouched.held_back(),
        }
    }

    /// Panics with the name of an invariant that does not hold; goes through everything.
    pub fn invariants(&self) {
        if let Self::Vouched(vouched) = self {
            vouched.invariants();
        }
    }
}
