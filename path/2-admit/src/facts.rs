//! What stage 2 asks about the rest of its replica.

use quorate_types::{
    AgreedTime, ClientId, InstanceId, RequestNumber, SessionId, SessionKey, Slot, Time, View,
};
use quorate_wire::{Batch, ReplyStatus};

/// What is known of a request before it is ordered. Only a hint for admission: what counts is what execution finds at its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup<'a> {
    /// Not executed so far.
    Fresh,
    /// Executed; this was the answer.
    Done {
        /// How it ended.
        status: ReplyStatus,
        /// What came with that.
        body: &'a [u8],
    },
    /// Executed, and its reply is forgotten.
    Forgotten,
    /// No such session here, now: it may have been opened by a batch that this replica did not execute yet.
    UnknownSession,
    /// There was such a session, or a later one in its place: it is over for good.
    Ended,
}

/// The sessions, as execution here knows them.
pub trait Sessions {
    /// What is known of a request.
    fn lookup(&self, session: SessionId, number: RequestNumber) -> Lookup<'_>;
    /// Whose a session is, while it lives.
    fn client(&self, session: SessionId) -> Option<ClientId>;
    /// With what a session's signatures are checked, if its client signs.
    fn key(&self, session: SessionId) -> Option<SessionKey>;
    /// The last number that a session executed, while it lives.
    fn last_number(&self, session: SessionId) -> Option<RequestNumber>;
    /// The session that a client opened with this nonce, while it has not used it.
    fn opened(&self, client: ClientId, nonce: RequestNumber) -> Option<SessionId>;
    /// All such sessions, by client and nonce.
    fn openings(&self) -> Box<dyn Iterator<Item = ((ClientId, RequestNumber), SessionId)> + '_>;
    /// What this replica itself sends of a reply that was executed, where replicas answer in parts; else nothing.
    fn own_reply(&self, body: &[u8]) -> Option<Vec<u8>>;
}

/// A slot of an instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Which slot.
    pub slot: Slot,
    /// Of which instance.
    pub instance: InstanceId,
}

/// How the rest of the replica stands. What is old here costs time and no more: execution decides what is a duplicate.
pub trait Facts {
    /// The sessions.
    fn sessions(&self) -> &dyn Sessions;
    /// How many instances there are.
    fn instances(&self) -> u16;
    /// Whether an instance leads here, and may propose.
    fn leads(&self, instance: InstanceId) -> bool;
    /// Whether this replica was announced as the leader of an instance; it may not be able to propose yet.
    fn announced(&self, instance: InstanceId) -> bool;
    /// The view that was announced last.
    fn view(&self, instance: InstanceId) -> View;
    /// The last slot that an instance decided.
    fn decided(&self, instance: InstanceId) -> Slot;
    /// Agreed time, as this replica extends it.
    fn agreed_time(&self) -> AgreedTime;
    /// Agreed time, as of the last executed batch.
    fn executed_time(&self) -> AgreedTime;
    /// Whether decided work needs a no-op of an instance that stands for all slots up to this one.
    fn needs_no_op(&self, instance: InstanceId, target: Slot) -> bool;
    /// What decided work waits for, and since when.
    fn waits_for(&self) -> Option<(Place, Time)>;
    /// Hands over each batch that an instance decided and that waits for another instance.
    fn unmerged(&self, instance: InstanceId, each: &mut dyn FnMut(&Batch));
    /// Whether a right signature, or tag, is as good as having heard a request: not where replicas know clients that may not do everything.
    fn signatures_count(&self) -> bool;
}
