//! Messages of the ordering protocols, with the instance that they belong to.

use crate::codec::{Put, Reader};
use crate::frame::{FrameKind, OutFrame};
use crate::mod_smart::ModSmartMessage;
use crate::raft::RaftMessage;
use bytes::Bytes;
use quorate_types::{InstanceId, Reject};

/// A message of an ordering protocol, between the replicas of one instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OrderMessage {
    /// Of Raft.
    Raft(RaftMessage),
    /// Of Mod-SMaRt.
    ModSmart(Box<ModSmartMessage>),
}

const RAFT: u16 = 1;
const MOD_SMART: u16 = 2;

impl OrderMessage {
    /// The frame to send.
    pub fn frame(&self, instance: InstanceId) -> OutFrame {
        let mut head = Vec::with_capacity(96);
        head.put_u16(instance.number());
        let payloads = match self {
            Self::Raft(message) => {
                head.put_u16(RAFT);
                message.encode(&mut head)
            }
            Self::ModSmart(message) => {
                head.put_u16(MOD_SMART);
                message.encode(&mut head)
            }
        };
        OutFrame::with_payloads(FrameKind::Order, &head, payloads)
    }

    /// Reads a message; batches in it share the frame's bytes and are checked request by request.
    ///
    /// # Errors
    /// When the bytes are none.
    pub fn decode(payload: Bytes) -> Result<(InstanceId, Self), Reject> {
        let mut r = Reader::new(payload, "ordering message");
        let instance = InstanceId::new(r.u16()?);
        match r.u16()? {
            RAFT => Ok((instance, Self::Raft(RaftMessage::decode(r)?))),
            MOD_SMART => Ok((instance, Self::ModSmart(Box::new(ModSmartMessage::decode(r)?)))),
            _ => Err(Reject::Malformed("ordering message: protocol")),
        }
    }
}
