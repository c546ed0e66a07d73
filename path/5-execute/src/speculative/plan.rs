//! Which batches may run in waves: those in which nothing but commands and queries changes the state, and in which it is known beforehand
//! which of them run. All others run one after the other.

use super::waves::waves;
use crate::agreed::Moment;
use crate::executor::Executor;
use crate::hints::{Entry, hints};
use crate::parallel::ParallelService;
use quorate_types::{Seq, SessionId};
use quorate_wire::{Batch, RequestHeader, RequestKind};
use std::collections::BTreeMap;

/// The requests of a batch that will run, by their index.
pub(super) struct Planned {
    pub(super) entries: BTreeMap<usize, Entry>,
    pub(super) waves: Vec<Vec<usize>>,
    /// Bytes of all other replies, at most: kept ones that are asked for again, and short ones.
    pub(super) others: u64,
}

/// The most bytes of a reply to a request that runs nothing, other than a kept one.
const SHORT: u64 = 64;

/// Looks at the requests of a batch one after the other.
struct Planner<'a> {
    executor: &'a Executor,
    /// The next number of each session.
    next: BTreeMap<SessionId, u64>,
    entries: BTreeMap<usize, Entry>,
    others: u64,
    /// Whether a session begins, and whether one is asked for that is not known.
    opens: bool,
    unknown: bool,
}

/// The waves of a batch, if it may run so.
pub(super) fn plan(
    executor: &mut Executor,
    service: &dyn ParallelService,
    (seq, moment): (Seq, Moment),
    batch: &Batch,
) -> Option<Planned> {
    if executor.has_due(moment.due) {
        return None;
    }
    let ctx = executor.ctx_of(seq, &moment, batch);
    let (next, entries) = (BTreeMap::new(), BTreeMap::new());
    let mut planner = Planner {
        executor,
        next,
        entries,
        others: SHORT * u64::from(batch.header().count),
        opens: false,
        unknown: false,
    };
    for (index, (header, body, _)) in batch.requests().flatten().enumerate() {
        match header.kind {
            RequestKind::OpenSession => planner.opens = true,
            RequestKind::System => {}
            RequestKind::CloseSession | RequestKind::Nested | RequestKind::Answer => return None,
            RequestKind::Empty | RequestKind::Commands | RequestKind::Query => {
                let ctx = ctx.with_request(index as u32);
                if planner.runs(&header)? && header.kind != RequestKind::Empty {
                    let client = executor.client(header.session)?;
                    let ctx = ctx.with_session(client, header.session);
                    let (hints, is_known) = hints(service, header.kind, body);
                    let body = batch.bytes().slice_ref(body);
                    planner.entries.insert(index, Entry { kind: header.kind, body, ctx, hints, is_known });
                }
            }
        }
    }
    let Planner { entries, others, opens, unknown, .. } = planner;
    // What may be the session that begins here.
    if opens && unknown || entries.len() < 2 {
        return None;
    }
    let waves = waves(entries.iter().map(|(index, entry)| (*index, entry)));
    Some(Planned { entries, waves, others })
}

impl Planner<'_> {
    /// Whether a request will run if there is room for its reply. `None`: that is not known yet.
    fn runs(&mut self, header: &RequestHeader) -> Option<bool> {
        let Some(session) = self.executor.sessions().progress(header.session) else {
            self.unknown = true;
            return Some(false);
        };
        let number = header.number.number();
        let next = self.next.entry(header.session).or_insert(session.last + 1);
        if number <= session.last {
            self.others += session.bytes;
            return Some(false);
        }
        if number > *next {
            return Some(false);
        }
        let window = self.executor.sessions().limits().window;
        if number < *next || number == u64::MAX || number > session.lowest.saturating_add(window) {
            return None;
        }
        *next += 1;
        Some(true)
    }
}

/// Whether there is room for the replies to all requests, with those that are sent again, whatever clients say that they have received.
pub(super) fn fit<'e>(
    executor: &Executor,
    others: u64,
    replies: impl Iterator<Item = (&'e Entry, usize)>,
) -> bool {
    let sessions = executor.sessions();
    let limits = sessions.limits();
    let (mut all, mut of) = (0, BTreeMap::<SessionId, u64>::new());
    for (entry, bytes) in replies {
        all += bytes as u64;
        *of.entry(entry.ctx.session()).or_insert(0) += bytes as u64;
    }
    let fits = |(id, bytes): (SessionId, u64)| {
        sessions.progress(id).is_some_and(|session| session.bytes + bytes + others <= limits.reply_bytes_max)
    };
    all + others <= limits.reply_bytes_per_batch_max
        && sessions.kept_bytes() + all + others <= limits.reply_bytes_total_max
        && of.into_iter().all(fits)
}
