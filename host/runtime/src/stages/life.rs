//! The life of a batch at one replica: when it reached which stage.

use quorate_types::{ClientId, InstanceId, RecordId, RequestNumber, Seq, Time, View};

/// Where a batch stands in the global log, and what it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) seq: Seq,
    pub(super) instance: InstanceId,
    pub(super) view: View,
    /// Its requests, and its bytes.
    pub(super) count: u32,
    pub(super) bytes: usize,
    /// Whether it was proposed here.
    pub(super) proposed: bool,
}

/// A request, as the log names it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asked {
    /// Its client, unless its session is over.
    pub(super) client: Option<ClientId>,
    pub(super) number: RequestNumber,
}

/// See the module. What did not happen here, or not yet, is none: only a leader knows when requests came in.
#[derive(Debug)]
pub(super) struct Life {
    pub(super) seed: u64,
    /// When its first request came in, and when it was proposed.
    pub(super) since: Option<Time>,
    pub(super) sealed: Option<Time>,
    /// When the log had it, as which record, and when that was durable.
    pub(super) logged: Option<Time>,
    pub(super) record: Option<RecordId>,
    pub(super) durable: Option<Time>,
    pub(super) decided: Option<Time>,
    /// Its place, from the time when it is delivered.
    pub(super) place: Option<Place>,
    pub(super) delivered: Option<Time>,
    /// When its execution began and ended.
    pub(super) executes: Option<Time>,
    pub(super) executed: Option<Time>,
    pub(super) replied: Option<Time>,
    /// Its commands, and the clients that they are from, if it is traced.
    pub(super) commands: u32,
    pub(super) clients: u32,
    /// The first of its requests, if it was slow.
    pub(super) asked: Vec<Asked>,
}

/// What a batch passes: the stages of ARCHITECTURE.md, and the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    /// Its requests wait for the proposal; only at the leader.
    Admit,
    /// Until the replicas have agreed.
    Order,
    /// Until it is durable here, beside the others.
    Log,
    /// Until the batches of other instances before it are there.
    Merge,
    /// It runs.
    Execute,
    /// Until its replies have left.
    Reply,
}

impl Stage {
    /// Its name in lines and traces.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Admit => "admit",
            Self::Order => "order",
            Self::Log => "log",
            Self::Merge => "merge",
            Self::Execute => "execute",
            Self::Reply => "reply",
        }
    }
}

impl Life {
    pub(super) const fn new(seed: u64) -> Self {
        Self {
            seed,
            since: None,
            sealed: None,
            logged: None,
            record: None,
            durable: None,
            decided: None,
            place: None,
            delivered: None,
            executes: None,
            executed: None,
            replied: None,
            commands: 0,
            clients: 0,
            asked: Vec::new(),
        }
    }

    /// Whether nothing more happens to it here.
    pub(super) const fn is_done(&self) -> bool {
        self.replied.is_some() && (self.durable.is_some() || self.record.is_none())
    }

    /// When each stage began and ended, as far as this replica knows.
    pub(super) fn stages(&self) -> impl Iterator<Item = (Stage, Time, Time)> {
        let proposed = self.sealed.or(self.logged);
        [
            (Stage::Admit, self.since, self.sealed),
            (Stage::Order, proposed, self.decided),
            (Stage::Log, self.logged, self.durable),
            (Stage::Merge, self.decided, self.delivered),
            (Stage::Execute, self.executes, self.executed),
            (Stage::Reply, self.executed, self.replied),
        ]
        .into_iter()
        .filter_map(|(stage, began, ended)| Some((stage, began?, ended?)))
    }
}
