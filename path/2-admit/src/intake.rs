//! How clients' requests come in: two intakes with one interface. Where replicas only crash, a client asks the leader, and the leader's
//! word is enough ([`Intake::Plain`]). Where replicas may lie, a client asks all of them, and each vouches for what it heard itself
//! ([`Vouched`]).
//!
//! An intake is stepped by what happens and returns what must be done ([`Out`]), in order. The caller does it. With the plain intake a
//! request goes into the leader's open batch at once; otherwise [`Vouched::arrived`] takes it.

use crate::facts::{Facts, Sessions};
use crate::vouched::{Suspect, Vouched};
use bytes::Bytes;
use quorate_auth::CheckWork;
use quorate_types::{
    ClientId, ConnId, Digest, InstanceId, Reject, ReplicaId, RequestNumber, SessionId, Slot, Span, Time,
    Waited,
};
use quorate_wire::{AnswerMode, Batch, ReplyStatus, RequestHeader, RequestKind, RequestProof, SharedKey};

/// What an intake asks its caller to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Out {
    /// Admit these requests to an instance; no connection waits for admission's answers.
    Admit {
        /// The instance.
        instance: InstanceId,
        /// The requests.
        requests: Bytes,
    },
    /// Have these signatures checked on another thread, and answer with [`Intake::checked`].
    Check(CheckWork),
    /// Tell the protocol that every request in this proposal is from the client that it names.
    Vouched {
        /// The instance.
        instance: InstanceId,
        /// The slot that it is proposed for.
        slot: Slot,
        /// The batch, by its digest.
        digest: Digest,
        /// Since when the requests of the batch wait here; none if all are known to be executed, or this replica knows of none of them.
        waited: Option<Waited>,
    },
    /// The protocol of an instance must watch whether this is decided in time.
    Watch {
        /// The instance.
        instance: InstanceId,
        /// The digest of the request, or another name that no digest has.
        name: Digest,
    },
    /// The protocol need not watch this any more.
    Unwatch {
        /// The instance.
        instance: InstanceId,
        /// The name that it was watched under.
        name: Digest,
    },
    /// Send these requests to all other members.
    Say(Bytes),
    /// Send replies that need no agreement.
    Answer {
        /// The connection.
        conn: ConnId,
        /// The replies, one after the other.
        replies: Vec<u8>,
    },
    /// Close a connection that broke the rules.
    Reject {
        /// The connection.
        conn: ConnId,
        /// The error, as text.
        why: String,
    },
    /// Tell an operator that a request waits for too long and was sent to all members.
    Overdue {
        /// Its session; none when it opens one.
        session: SessionId,
        /// Its number.
        number: RequestNumber,
    },
}

/// The client that sends requests over a connection of its own.
pub struct Sender<'a> {
    /// The connection.
    pub conn: ConnId,
    /// The client.
    pub client: ClientId,
    /// How this replica is to answer the client.
    pub mode: AnswerMode,
    /// Whether the client may run the commands of a request.
    pub permits: &'a dyn Fn(&RequestHeader, &[u8]) -> bool,
}

/// The intake of a replica.
#[derive(Debug)]
pub enum Intake {
    /// Replicas only crash.
    Plain,
    /// Replicas may lie.
    Vouched(Box<Vouched>),
}

impl Intake {
    /// Whether clients may send requests of this kind at all.
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

    /// Whether clients may choose an answer mode.
    ///
    /// # Errors
    /// The reason why they may not.
    pub fn takes_modes(&self) -> Result<(), &'static str> {
        match self {
            Self::Vouched(_) => Ok(()),
            Self::Plain => {
                Err("only replicas that may lie are told how to answer: this cluster survives crashes")
            }
        }
    }

    /// A member forwards clients' requests.
    ///
    /// # Errors
    /// Where members do not do that.
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

    /// The protocol of an instance asks whether every request in a batch is from the client that it names.
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

    /// A request was executed, or refused by execution. `opening`: the client, if the request opened a session.
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

    /// Execution continues from a checkpoint of another replica.
    pub fn caught_up(&mut self, sessions: &dyn Sessions) {
        if let Self::Vouched(vouched) = self {
            vouched.caught_up(sessions);
        }
    }

    /// An instance has another leader. `planned`: nothing failed in the view before.
    pub fn led(
        &mut self,
        now: Time,
        facts: &dyn Facts,
        instance: InstanceId,
        leader: Option<ReplicaId>,
        planned: bool,
    ) {
        if let Self::Vouched(vouched) = self {
            vouched.led(now, facts, instance, leader, planned);
        }
    }

    /// The turn ends: handles the turn's requests. Call [`Self::vouch`] next.
    pub fn turn_end(&mut self, now: Time, facts: &dyn Facts, out: &mut Vec<Out>) {
        if let Self::Vouched(vouched) = self {
            vouched.turn_end(now, facts, out);
        }
    }

    /// Looks again at the proposals that this replica has not vouched for.
    pub fn vouch(&mut self, now: Time, facts: &dyn Facts, out: &mut Vec<Out>) {
        if let Self::Vouched(vouched) = self {
            vouched.vouch(now, facts, out);
        }
    }

    /// The answer to [`Out::Check`]: which of the signatures are right, or that nobody checks them.
    pub fn checked(&mut self, facts: &dyn Facts, id: u64, right: Option<Vec<bool>>, out: &mut Vec<Out>) {
        if let Self::Vouched(vouched) = self {
            vouched.checked(facts, id, right, out);
        }
    }

    /// The leader had time enough for this request.
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

    /// Looks at what has waited for long, if it is time for that. Returns whether it was.
    pub fn look(&mut self, now: Time, facts: &dyn Facts, out: &mut Vec<Out>) -> bool {
        match self {
            Self::Plain => false,
            Self::Vouched(vouched) => vouched.look(now, facts, out),
        }
    }

    /// A client tells the keys of its tags.
    pub fn learn_keys(&mut self, client: ClientId, keys: &[SharedKey]) {
        if let Self::Vouched(vouched) = self {
            vouched.learn_keys(client, keys);
        }
    }

    /// The agreed time was taken this much ahead of this replica's own.
    pub fn pulled(&mut self, now: Time, by: Span) {
        if let Self::Vouched(vouched) = self {
            vouched.pulled(now, by);
        }
    }

    /// A member did what no honest replica does.
    pub fn note(&mut self, now: Time, from: ReplicaId, what: &Reject) {
        if let Self::Vouched(vouched) = self {
            vouched.note(now, from, what);
        }
    }

    /// These are the voters from now on, in the order of their ids.
    pub fn meet(&mut self, voters: &[ReplicaId]) {
        if let Self::Vouched(vouched) = self {
            vouched.meet(voters);
        }
    }

    /// Members that did what no honest replica does.
    pub fn suspects(&self) -> Vec<Suspect> {
        match self {
            Self::Plain => Vec::new(),
            Self::Vouched(vouched) => vouched.suspects(),
        }
    }

    /// Whether this member did that lately.
    pub fn suspects_lately(&self, now: Time, member: ReplicaId) -> bool {
        match self {
            Self::Plain => false,
            Self::Vouched(vouched) => vouched.suspects_lately(now, member),
        }
    }

    /// Bytes of the requests that are kept.
    pub fn byte_len(&self) -> usize {
        match self {
            Self::Plain => 0,
            Self::Vouched(vouched) => vouched.byte_len(),
        }
    }

    /// How many of the clients' signatures were checked.
    pub fn signatures_checked(&self) -> u64 {
        match self {
            Self::Plain => 0,
            Self::Vouched(vouched) => vouched.signatures_checked(),
        }
    }

    /// Whether as many signatures are being checked elsewhere as may be at once.
    pub fn checks_much(&self) -> bool {
        match self {
            Self::Plain => false,
            Self::Vouched(vouched) => vouched.checks_much(),
        }
    }

    /// How many proposals wait until this replica vouches for them.
    pub fn held_back(&self) -> usize {
        match self {
            Self::Plain => 0,
            Self::Vouched(vouched) => vouched.held_back(),
        }
    }

    /// Panics with the name of the invariant that does not hold. Goes through everything.
    pub fn invariants(&self) {
        if let Self::Vouched(vouched) = self {
            vouched.invariants();
        }
    }
}
