//! Answers reads with the state before the last change. Honest members that lag give the same answers, and together they may look like more
//! members than they are.

use super::{Plays, Said, Saying, Voice};
use bytes::Bytes;
use quorate_wire::{FrameKind, ReadReply, ReadStatus, read_reply_header};
use std::collections::BTreeMap;

/// The node's last answer to each question, and the last different one before it.
#[derive(Debug, Default)]
pub(super) struct OldReads {
    known: BTreeMap<Bytes, (Bytes, Option<Bytes>)>,
}

impl OldReads {
    /// The answer before this one, if there was a different one.
    fn before(&mut self, query: Bytes, body: &[u8]) -> Option<Bytes> {
        let (last, before) = self.known.entry(query).or_insert_with(|| (Bytes::copy_from_slice(body), None));
        if last[..] != *body {
            *before = Some(std::mem::replace(last, Bytes::copy_from_slice(body)));
        }
        before.clone()
    }
}

impl Plays for OldReads {
    fn instead(&mut self, me: &mut Voice, to: usize, said: Said) -> Vec<Saying> {
        let Said::Other(FrameKind::ReadReplies, payload) = &said else { return vec![Saying::now(to, said)] };
        let mut out = Vec::new();
        for reply in ReadReply::walk(payload).flatten() {
            let query = me.read_of(to, reply.read).filter(|_| reply.status == ReadStatus::Done);
            let old = query.and_then(|query| self.before(query, reply.body));
            let body = old.as_deref().unwrap_or(reply.body);
            read_reply_header(&mut out, reply.read, reply.seq, reply.status, body.len());
            out.extend_from_slice(body);
        }
        vec![Saying::now(to, Said::Other(FrameKind::ReadReplies, Bytes::from(out)))]
    }
}
