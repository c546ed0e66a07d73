//! What stage 2 asks about the rest of its replica.

use quorate_types::{
    AgreedTime, ClientId, InstanceId, RequestNumber, SessionId, SessionKey, Slot, Time, View,
};
use quorate_wire::{Batch, ReplyStatus, Ruling, SystemCommand};

/// What is known of a request before it is ordered. It is only a hint for admission; execution decides when the request's turn comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup<'a> {
    /// Not executed so far.
    Fresh,
    /// Executed; this was the answer.
    Done {
        /// The status of the reply.
        status: ReplyStatus,
        /// The reply's body.
        body: &'a [u8],
    },
    /// Ordered; it ends later, and is answered then. Only where commands ask other services.
    UnderWay,
    /// Executed, and its reply is forgotten.
    Forgotten,
    /// No such session here, now: it may have been opened by a batch that this replica did not execute yet.
    UnknownSession,
    /// The session existed, or a later one has its cell: it is over for good.
    Ended,
}

/// The sessions, as execution here knows them.
pub trait Sessions {
    /// What execution knows of a request.
    fn lookup(&self, session: SessionId, number: RequestNumber) -> Lookup<'_>;
    /// The client of a session, while the session lives.
    fn client(&self, session: SessionId) -> Option<ClientId>;
    /// The key with which a session's signatures are checked, if its client signs.
    fn key(&self, session: SessionId) -> Option<SessionKey>;
    /// The last number that a session took, while it lives: executed, or under way.
    fn last_number(&self, session: SessionId) -> Option<RequestNumber>;
    /// The session that a client opened with this nonce, while it has not used it.
    fn opened(&self, client: ClientId, nonce: RequestNumber) -> Option<SessionId>;
    /// All sessions that their clients have not used yet, by client and nonce.
    fn openings(&self) -> Box<dyn Iterator<Item = ((ClientId, RequestNumber), SessionId)> + '_>;
    /// What this replica itself sends of an executed reply, if replicas have own replies; otherwise nothing.
    fn own_reply(&self, body: &[u8]) -> Option<Vec<u8>>;
}

/// A slot of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The slot.
    pub slot: Slot,
    /// The instance.
    pub instance: InstanceId,
}

/// The state of the rest of the replica. Facts may be out of date; that costs only time, since execution decides what is a duplicate.
pub trait Facts {
    /// The sessions.
    fn sessions(&self) -> &dyn Sessions;
    /// How many instances there are.
    fn instances(&self) -> u16;
    /// Whether an instance is led here and may propose.
    fn leads(&self, instance: InstanceId) -> bool;
    /// Whether this replica was announced as the leader of an instance; perhaps it may not propose yet.
    fn announced(&self, instance: InstanceId) -> bool;
    /// The view of an instance that was announced last.
    fn view(&self, instance: InstanceId) -> View;
    /// The last slot that an instance decided.
    fn decided(&self, instance: InstanceId) -> Slot;
    /// The agreed time, as this replica extends it by its own clock.
    fn agreed_time(&self) -> AgreedTime;
    /// The agreed time of the last executed batch.
    fn executed_time(&self) -> AgreedTime;
    /// Whether decided work needs a no-op of this instance with this target.
    fn needs_no_op(&self, instance: InstanceId, target: Slot) -> bool;
    /// The place that decided work waits for, and since when.
    fn waits_for(&self) -> Option<(Place, Time)>;
    /// Hands over each batch that this instance decided and that waits for another instance.
    fn unmerged(&self, instance: InstanceId, each: &mut dyn FnMut(&Batch));
    /// Hands over each batch that was delivered and whose results wait for a ruling.
    fn unruled(&self, each: &mut dyn FnMut(&Batch));
    /// Whether a ruling about results, which a batch of this instance has, is right as far as is known here.
    fn may_rule(&self, instance: InstanceId, ruling: &Ruling) -> bool;
    /// Whether a batch of this instance may hold this command to the engine, and nothing else, as far as is known here.
    fn may_command(&self, instance: InstanceId, command: &SystemCommand) -> bool;
    /// Whether a right signature, or tag, counts as much as having heard a request. It does not where replicas know clients with limited
    /// rights.
    fn signatures_count(&self) -> bool;
}
