//! A message of an ordering protocol, whichever it is. The rest of the program sees a protocol's number and bytes.
//!
//! A protocol says with [`Message`] how its messages become bytes, and in its row of the table ([`crate::protocols`]) how bytes become
//! messages. Code that forwards a message, holds it back or counts its bytes needs no more than that. Batches travel as payloads, which the
//! frame shares with the log and with the other receivers: they are never copied.
//!
//! Tests: tests/golden.rs pins the bytes; tests/properties.rs, tests/mod_smart.rs, tests/corpus.rs.

use quorate_types::InstanceId;
use quorate_wire::{Batch, OutFrame, Payload, order_frame};
use std::any::Any;
use std::fmt;

/// What every message of a protocol can do, whatever it says.
pub trait Message: Any + fmt::Debug + Send + Sync {
    /// The number of its protocol on the wire (docs/formats/wire.md, ORDER).
    fn protocol(&self) -> u16;

    /// Appends the fixed part to `out` and gives the payloads that follow it.
    ///
    /// # Panics
    /// When a list in the message is longer than decoders accept.
    fn encode(&self, out: &mut Vec<u8>) -> Vec<Payload>;

    /// The batches that the receiver writes down, unless it has them already. A host whose disk is full drops the message instead, as if it
    /// was lost; the sender sends it again.
    fn brings(&self) -> Vec<&Batch>;

    /// A second message that says the same; the two share their batches.
    fn copy(&self) -> OrderMessage;

    /// Whether the other message says the same.
    fn equals(&self, other: &OrderMessage) -> bool;
}

/// A message between the replicas of one instance.
pub struct OrderMessage(Box<dyn Message>);

impl OrderMessage {
    /// Wraps a message of a protocol.
    pub fn of(message: impl Message) -> Self {
        Self(Box::new(message))
    }

    /// The wrapped message, if it is of this type.
    pub fn get<M: Message>(&self) -> Option<&M> {
        let any: &dyn Any = &*self.0;
        any.downcast_ref()
    }

    /// As [`Self::get`], and consumes the message.
    pub fn take<M: Message>(self) -> Option<M> {
        let any: Box<dyn Any> = self.0;
        any.downcast().ok().map(|message| *message)
    }

    /// As [`Message::brings`].
    pub fn brings(&self) -> Vec<&Batch> {
        self.0.brings()
    }

    /// The frame to send.
    ///
    /// # Panics
    /// As [`Message::encode`] does.
    pub fn frame(&self, instance: InstanceId) -> OutFrame {
        order_frame(instance, self.0.protocol(), |out| self.0.encode(out))
    }
}

impl Clone for OrderMessage {
    fn clone(&self) -> Self {
        self.0.copy()
    }
}

impl PartialEq for OrderMessage {
    fn eq(&self, other: &Self) -> bool {
        self.0.equals(other)
    }
}

impl Eq for OrderMessage {}

impl fmt::Debug for OrderMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
