//! Where a stay of an instance begins, and the record of the log that says so. The record is needed because a replica that starts again
//! reads the instance's records before it executes the command that made the stay.

use crate::journal::NODE;
use crate::system::InstancePart;
use bytes::Bytes;
use quorate_log::Record;
use quorate_order::{Anchor, OrderConfig};
use quorate_types::{Halt, InstanceId, Slot};

/// The kind of the node's record that says where a stay begins.
pub(crate) const BORN: u8 = 4;

/// Where a stay begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Birth {
    /// The instance.
    pub(crate) id: InstanceId,
    /// The last record before the stay.
    pub(crate) record: Slot,
    /// The anchor with which the protocol begins.
    pub(crate) anchor: Anchor,
}

impl Birth {
    /// The birth at the place where a checkpoint says that the instance stands.
    pub(crate) fn of(part: &InstancePart) -> Self {
        Self { id: part.instance, record: part.record, anchor: part.anchor.clone() }
    }

    /// The record of the log: instance u16, record u64, then the anchor.
    pub(crate) fn to_record(&self) -> Record {
        let mut head = self.id.number().to_le_bytes().to_vec();
        head.extend_from_slice(&self.record.number().to_le_bytes());
        let payload = Bytes::copy_from_slice(self.anchor.encode());
        Record { instance: NODE, kind: BORN, head: head.into(), payload }
    }

    /// Reads a birth from a record.
    ///
    /// # Errors
    /// When the record is invalid.
    pub(crate) fn read(record: &Record) -> Result<Self, Halt> {
        let none =
            || Halt::LogInconsistent { why: "a record about the beginning of an instance is none".into() };
        let (Some(id), Some(at), 10) =
            (record.head.first_chunk(), record.head.last_chunk(), record.head.len())
        else {
            return Err(none());
        };
        let (id, record_at) = (u16::from_le_bytes(*id), Slot::new(u64::from_le_bytes(*at)));
        let anchor = Anchor::decode(&record.payload).map_err(|_| none())?;
        Ok(Self { id: InstanceId::new(id), record: record_at, anchor })
    }

    /// The number of the stay.
    ///
    /// # Errors
    /// When the anchor is invalid.
    pub(crate) fn stay(&self, order: &OrderConfig) -> Result<u64, Halt> {
        order.stay_of(self.record, &self.anchor)
    }
}

#[cfg(test)]
mod tests;
