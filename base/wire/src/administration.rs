//! Commands to the engine that administrators sign.
//!
//! Where replicas may lie, no leader's word is enough to change the members or the feature level. Administrators sign such a command, with
//! keys that no replica has, perhaps on a machine that is never connected. The command is ordered as others are, and each replica checks it.
//!
//! ```text
//! signed command   number u64 | length u32, command | count u8 | (key 32 bytes | signature 64 bytes) ...
//! command          1 u8 | memberships: a change of membership
//!                | 2 u8 | level u32: the feature level from here on
//!                | 3 u8 | administrators, from here on
//!                | 4 u8 | era (`era.rs`): this one ends here, that one begins
//!                | 5 u8 | level u32: the service's level from here on
//!                | 6 u8 | a change of the neighbours (`neighbours.rs`)
//! administrators   threshold u8 | count u8 | key 32 bytes ...
//! ```
//!
//! The bytes are canonical: keys in ascending order, each once. The number is that of the last command that was executed, and one more. So
//! each is executed at most once, and in the order in which they were signed.
//!
//! An operator who hands a command to a replica may say why, in words, after the command. The replica writes that into its audit log. It is
//! neither signed nor ordered, and members do not tell it each other. Tests: `administration/tests.rs`.

use crate::batch::SIGNATURE_BYTES;
use crate::codec::{Put, Reader};
use crate::era::{ERA_BYTES_MAX, Era};
use crate::frame::{FrameKind, OutFrame};
use crate::membership::Memberships;
use crate::neighbours::NeighbourCommand;
use bytes::Bytes;
use quorate_types::{Reject, SessionKey};

/// There are at most this many administrators' keys.
pub const ADMINISTRATORS_MAX: usize = 16;
/// The longest reason that an operator gives with a command, in bytes.
pub const REASON_BYTES_MAX: usize = 512;

/// The keys whose holders administer a cluster, and how many of them must sign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Administrators {
    threshold: u8,
    keys: Vec<SessionKey>,
}

impl Administrators {
    /// These keys, in any order, of which `threshold` must sign.
    ///
    /// # Errors
    /// When there are none, too many, one twice, or fewer than must sign.
    pub fn new(threshold: u8, mut keys: Vec<SessionKey>) -> Result<Self, Reject> {
        keys.sort_unstable();
        Self { threshold, keys }.checked()
    }

    fn checked(self) -> Result<Self, Reject> {
        let count = self.keys.len();
        if count > ADMINISTRATORS_MAX {
            let (size, max) = (count as u64, ADMINISTRATORS_MAX as u64);
            return Err(Reject::TooLarge { what: "administrators", size, max });
        }
        let once = self.keys.is_sorted_by(|one, next| one < next);
        if !once || self.threshold == 0 || usize::from(self.threshold) > count {
            return Err(Reject::Malformed("administrators"));
        }
        Ok(self)
    }

    /// How many must sign.
    pub const fn threshold(&self) -> u8 {
        self.threshold
    }
    /// Their keys, in ascending order.
    pub fn keys(&self) -> &[SessionKey] {
        &self.keys
    }

    /// Appends the bytes.
    pub fn write_to(&self, out: &mut Vec<u8>) {
        out.put_u8(self.threshold);
        out.put_u8(self.keys.len() as u8);
        self.keys.iter().for_each(|key| out.extend_from_slice(key.bytes()));
    }

    /// Reads what [`Self::write_to`] wrote.
    ///
    /// # Errors
    /// When the bytes are none.
    pub fn read(r: &mut Reader) -> Result<Self, Reject> {
        let (threshold, count) = (r.u8()?, r.u8()?);
        let keys = (0..count).map(|_| Ok(SessionKey::new(r.array()?))).collect::<Result<_, Reject>>()?;
        Self { threshold, keys }.checked()
    }
}

/// What administrators command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AdminCommand {
    /// Begin this change of membership; it holds the old and the new one.
    Change(Memberships),
    /// From now on the cluster works at this feature level.
    Raise(u32),
    /// From now on these administer it.
    Administrators(Administrators),
    /// This era ends here, and that one begins.
    Era(Era),
    /// From now on the service works at this level.
    RaiseService(u32),
    /// Another service is a neighbour from here on, or no longer.
    Neighbour(NeighbourCommand),
}

impl AdminCommand {
    /// The bytes that are signed, with the cluster and the number.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Self::Change(memberships) => {
                out.put_u8(1);
                out.extend_from_slice(&memberships.encode());
            }
            Self::Raise(level) => {
                out.put_u8(2);
                out.put_u32(*level);
            }
            Self::Administrators(administrators) => {
                out.put_u8(3);
                administrators.write_to(&mut out);
            }
            Self::Era(era) => {
                out.put_u8(4);
                out.extend_from_slice(&era.encode());
            }
            Self::RaiseService(level) => {
                out.put_u8(5);
                out.put_u32(*level);
            }
            Self::Neighbour(command) => {
                out.put_u8(6);
                out.extend_from_slice(&command.encode());
            }
        }
        out
    }

    /// Reads what [`Self::encode`] wrote.
    ///
    /// # Errors
    /// When the bytes are no such command.
    pub fn decode(bytes: Bytes) -> Result<Self, Reject> {
        let mut r = Reader::new(bytes, "administrators' command");
        match r.u8()? {
            1 => {
                let memberships = Memberships::decode(r.rest())?;
                match memberships.before() {
                    Some(_) => Ok(Self::Change(memberships)),
                    None => Err(Reject::Malformed("administrators' command: what it changes")),
                }
            }
            2 => {
                let level = r.u32()?;
                r.end()?;
                Ok(Self::Raise(level))
            }
            3 => {
                let administrators = Administrators::read(&mut r)?;
                r.end()?;
                Ok(Self::Administrators(administrators))
            }
            4 => Ok(Self::Era(Era::decode(r.rest())?)),
            5 => {
                let level = r.u32()?;
                r.end()?;
                Ok(Self::RaiseService(level))
            }
            6 => Ok(Self::Neighbour(NeighbourCommand::decode(r.rest())?)),
            _ => Err(Reject::Malformed("administrators' command")),
        }
    }
}

/// A command, its number, and the signatures of administrators.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignedCommand {
    /// How many commands there were when it is executed, with itself.
    pub number: u64,
    /// The command.
    pub command: AdminCommand,
    signatures: Vec<(SessionKey, [u8; SIGNATURE_BYTES])>,
}

impl SignedCommand {
    /// A command that nobody signed yet.
    pub const fn new(number: u64, command: AdminCommand) -> Self {
        Self { number, command, signatures: Vec::new() }
    }

    /// Adds a signature, or replaces the one by the same key.
    ///
    /// # Errors
    /// When there are as many as there may be.
    pub fn add(&mut self, key: SessionKey, signature: [u8; SIGNATURE_BYTES]) -> Result<(), Reject> {
        self.signatures.retain(|(known, _)| *known != key);
        if self.signatures.len() >= ADMINISTRATORS_MAX {
            let (size, max) = (self.signatures.len() as u64 + 1, ADMINISTRATORS_MAX as u64);
            return Err(Reject::TooLarge { what: "signatures of administrators", size, max });
        }
        self.signatures.push((key, signature));
        self.signatures.sort_unstable_by_key(|(key, _)| *key);
        Ok(())
    }

    /// The signatures, each with the key that is said to have made it, in the order of the keys.
    pub fn signatures(&self) -> &[(SessionKey, [u8; SIGNATURE_BYTES])] {
        &self.signatures
    }

    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let command = self.command.encode();
        let mut out = Vec::with_capacity(16 + command.len() + 96 * self.signatures.len());
        out.put_u64(self.number);
        out.put_u32(command.len() as u32);
        out.extend_from_slice(&command);
        out.put_u8(self.signatures.len() as u8);
        for (key, signature) in &self.signatures {
            out.extend_from_slice(key.bytes());
            out.extend_from_slice(signature);
        }
        out
    }

    /// Reads what [`Self::encode`] wrote.
    ///
    /// # Errors
    /// When the bytes are no signed command.
    pub fn decode(bytes: Bytes) -> Result<Self, Reject> {
        let mut r = Reader::new(bytes, "signed command");
        let signed = Self::read(&mut r)?;
        r.end()?;
        Ok(signed)
    }

    /// Reads what [`Self::frame_because`] made: the command, and why it was handed over; empty: the operator did not say.
    ///
    /// # Errors
    /// When the bytes are no signed command, or what follows is no text in one line.
    pub fn decode_with_reason(bytes: Bytes) -> Result<(Self, String), Reject> {
        let mut r = Reader::new(bytes, "signed command");
        let signed = Self::read(&mut r)?;
        let reason = r.rest();
        if reason.len() > REASON_BYTES_MAX {
            let (size, max) = (reason.len() as u64, REASON_BYTES_MAX as u64);
            return Err(Reject::TooLarge { what: "reason for a command", size, max });
        }
        match String::from_utf8(reason.into()) {
            Ok(reason) if !reason.contains(char::is_control) => Ok((signed, reason)),
            _ => Err(Reject::Malformed("signed command: reason")),
        }
    }

    fn read(r: &mut Reader) -> Result<Self, Reject> {
        let (number, len) = (r.u64()?, r.u32()? as usize);
        if len > 1 + ERA_BYTES_MAX {
            let (size, max) = (len as u64, 1 + ERA_BYTES_MAX as u64);
            return Err(Reject::TooLarge { what: "administrators' command", size, max });
        }
        let command = AdminCommand::decode(r.bytes(len)?)?;
        let count = usize::from(r.u8()?);
        if count > ADMINISTRATORS_MAX {
            return Err(Reject::Malformed("signed command: signatures"));
        }
        let one = |_| Ok((SessionKey::new(r.array()?), r.array()?));
        let signatures = (0..count).map(one).collect::<Result<Vec<_>, Reject>>()?;
        if !signatures.is_sorted_by(|one, next| one.0 < next.0) {
            return Err(Reject::Malformed("signed command: order of the signatures"));
        }
        Ok(Self { number, command, signatures })
    }

    /// The frame with which it is handed to a replica.
    pub fn frame(&self) -> OutFrame {
        OutFrame::new(FrameKind::SignedCommand, &self.encode(), vec![])
    }

    /// The same from an operator who says why: one line of at most [`REASON_BYTES_MAX`] bytes, for the audit log. Replicas of programs that know
    /// no reasons refuse it, unless it is empty.
    pub fn frame_because(&self, reason: &str) -> OutFrame {
        let mut bytes = self.encode();
        bytes.extend_from_slice(reason.as_bytes());
        OutFrame::new(FrameKind::SignedCommand, &bytes, vec![])
    }
}

#[cfg(test)]
mod tests;
