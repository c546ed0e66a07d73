//! The session table's part of an image. Equal tables give equal bytes: cells in order, and nothing of how the
//! table is held in memory.
//!
//! ```text
//! limits     sessions_max u32 | sessions_per_client_max u32 | ttl u64 | window u64 | reply_bytes_max u64
//!            | reply_bytes_per_request_max u64 | reply_bytes_per_batch_max u64 | reply_bytes_total_max u64
//! table      cell count u32 | cells ...
//! cell       generation u32 | live u8 (0; 1; 2 with a key, 32 bytes, behind it), and if live: session
//! session    client u64 | nonce u64 | last u64 | lowest unanswered u64 | last active u64
//!            | (last - lowest unanswered + 1) times: status u8, length u32, body
//! ```

use super::replies::Replies;
use super::{Cell, Session, SessionLimits, SessionTable};
use crate::checkpoint::{
    CheckpointError, CheckpointSource, read_append, read_exact, read_u8, read_u32, read_u64,
};
use quorate_types::{AgreedTime, ClientId, SessionId, SessionKey, Span};
use quorate_wire::ReplyStatus;

impl SessionTable {
    /// Appends the table.
    pub(crate) fn write_to(&self, out: &mut Vec<u8>) {
        let limits = &self.limits;
        out.extend_from_slice(&limits.sessions_max.to_le_bytes());
        out.extend_from_slice(&limits.sessions_per_client_max.to_le_bytes());
        for number in [
            limits.ttl.nanos(),
            limits.window,
            limits.reply_bytes_max,
            limits.reply_bytes_per_request_max,
            limits.reply_bytes_per_batch_max,
            limits.reply_bytes_total_max,
        ] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&(self.cells.len() as u32).to_le_bytes());
        self.cells.iter().for_each(|cell| write_cell(cell, out));
    }

    /// The table that was written, with the limits that were written: they decide what becomes of a request, so the cluster's count and
    /// not this replica's. `time` is the agreed time of the same checkpoint.
    pub(crate) fn restored(
        from: &mut dyn CheckpointSource,
        time: AgreedTime,
    ) -> Result<Self, CheckpointError> {
        let limits = SessionLimits {
            sessions_max: read_u32(from)?,
            sessions_per_client_max: read_u32(from)?,
            ttl: Span::from_nanos(read_u64(from)?),
            window: read_u64(from)?,
            reply_bytes_max: read_u64(from)?,
            reply_bytes_per_request_max: read_u64(from)?,
            reply_bytes_per_batch_max: read_u64(from)?,
            reply_bytes_total_max: read_u64(from)?,
        };
        let mut table = Self::new(limits);
        for index in 0..read_u32(from)? {
            let generation = read_u32(from)?;
            table.cells.push(Cell { generation, session: None });
            match read_u8(from)? {
                0 => table.leave_vacant(index),
                live @ 1..=2 => {
                    let mut key = [0; SessionKey::BYTES];
                    if live == 2 {
                        read_exact(from, &mut key)?;
                    }
                    let mut session = read_session(from, &table.limits, time)?;
                    session.key = (live == 2).then_some(SessionKey::new(key));
                    table.take_back(SessionId { index, generation }, session)?;
                }
                _ => return Err(CheckpointError::Malformed("whether a session lives")),
            }
        }
        Ok(table)
    }

    fn take_back(&mut self, id: SessionId, session: Session) -> Result<(), CheckpointError> {
        if id.generation == 0 || self.live == self.limits.sessions_max {
            return Err(CheckpointError::Malformed("a session too many"));
        }
        if session.last == 0 && self.openings.contains_key(&(session.client, session.nonce)) {
            return Err(CheckpointError::Malformed("two sessions with one nonce"));
        }
        self.install(id, session);
        Ok(())
    }
}

fn write_cell(cell: &Cell, out: &mut Vec<u8>) {
    out.extend_from_slice(&cell.generation.to_le_bytes());
    let Some(session) = &cell.session else { return out.push(0) };
    match session.key {
        Some(key) => {
            out.push(2);
            out.extend_from_slice(key.bytes());
        }
        None => out.push(1),
    }
    let numbers =
        [session.client.number(), session.nonce, session.last, session.lowest, session.last_active.nanos()];
    for number in numbers {
        out.extend_from_slice(&number.to_le_bytes());
    }
    for (status, body) in session.replies.iter() {
        out.push(status as u8);
        out.extend_from_slice(&(body.len() as u32).to_le_bytes());
        out.extend_from_slice(body);
    }
}

fn read_session(
    from: &mut dyn CheckpointSource,
    limits: &SessionLimits,
    time: AgreedTime,
) -> Result<Session, CheckpointError> {
    let mut session = Session {
        client: ClientId::new(read_u64(from)?),
        nonce: read_u64(from)?,
        key: None,
        last: read_u64(from)?,
        lowest: read_u64(from)?,
        last_active: AgreedTime::from_nanos(read_u64(from)?),
        replies: Replies::default(),
        under_way: 0,
    };
    let numbers_fit = session.lowest >= 1
        && session.last < u64::MAX
        && session.lowest <= session.last + 1
        && session.last - (session.lowest - 1) <= limits.window.saturating_add(1);
    if !numbers_fit || session.last_active > time {
        return Err(CheckpointError::Malformed("a session's numbers"));
    }
    let mut body = Vec::new();
    for _ in session.lowest..=session.last {
        let status = ReplyStatus::from_number(read_u8(from)?)
            .filter(|status| matches!(status, ReplyStatus::Done | ReplyStatus::TooLarge))
            .ok_or(CheckpointError::Malformed("a reply's status"))?;
        let len = read_u32(from)?;
        // A text that says which limit was broken may be longer than a very low limit.
        if u64::from(len) > limits.reply_bytes_per_request_max.max(256) {
            return Err(CheckpointError::Malformed("a reply's length"));
        }
        body.clear();
        read_append(from, len as usize, &mut body)?;
        session.replies.push(status, &body);
    }
    Ok(session)
}
