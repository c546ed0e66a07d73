//! What the simulated clusters run: the real key-value service, lists beside it, and a record of all that was executed.
//!
//! A command is `client u32, number u32`, which name the operation, then a command of the key-value service, or `A`, a list's
//! name, a zero and a token to append. A query is one of the key-value service, or `L` and a list's name.

use quorate_execute::{
    CheckpointError, CheckpointSink, CheckpointSource, Context, ReplySink, Service, read_all,
};
use quorate_kv::{Kv, KvConfig};
use quorate_types::planted;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The first byte of an append.
pub const APPEND: u8 = b'A';
/// The first byte of a query for a list.
pub const LIST: u8 = b'L';
/// The first bytes of a command, which name the operation.
pub const NAME: usize = 8;

/// One command that was executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// In which batch.
    pub seq: u64,
    /// The agreed time.
    pub time: u64,
    /// What randomness the service was given.
    pub seed: u64,
    /// Client and number of the operation.
    pub op: (u32, u32),
    /// The whole command.
    pub command: Vec<u8>,
    /// What was answered.
    pub reply: Vec<u8>,
}

/// Where the service of one replica tells what it executed.
#[derive(Clone, Debug, Default)]
pub struct Tap(Arc<Mutex<Vec<Row>>>);

impl Tap {
    fn push(&self, row: Row) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(row);
    }
    /// Takes what was executed since the last time.
    pub fn drain(&self) -> Vec<Row> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The service.
#[derive(Debug)]
pub struct Watched {
    kv: Kv,
    lists: BTreeMap<Vec<u8>, Vec<u8>>,
    tap: Option<Tap>,
    /// Only for a planted bug: a service that is not deterministic.
    queries: AtomicU64,
}

impl Watched {
    /// An empty one that tells what it executes.
    pub fn new(tap: Option<Tap>) -> Self {
        Self { kv: Kv::new(KvConfig::default()), lists: BTreeMap::new(), tap, queries: AtomicU64::new(0) }
    }

    fn run(&mut self, command: &[u8], ctx: &Context, reply: &mut ReplySink<'_>) {
        match command.split_first() {
            Some((&APPEND, rest)) => {
                let mut parts = rest.splitn(2, |byte| *byte == 0);
                let (list, token) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
                let tokens = self.lists.entry(list.to_vec()).or_default();
                if !tokens.is_empty() {
                    tokens.push(b',');
                }
                tokens.extend_from_slice(token);
                reply.write(b"appended");
            }
            _ => self.kv.execute(command, ctx, reply),
        }
    }
}

/// The operation that a command belongs to.
pub fn op_of(command: &[u8]) -> (u32, u32) {
    let word = |at: usize| command.get(at..at + 4).and_then(|b| b.first_chunk::<4>()).copied();
    (u32::from_le_bytes(word(0).unwrap_or_default()), u32::from_le_bytes(word(4).unwrap_or_default()))
}

impl Service for Watched {
    fn execute(&mut self, command: &[u8], ctx: &Context, reply: &mut ReplySink<'_>) {
        let mut answer = Vec::new();
        let mut sink = ReplySink::new(&mut answer, reply.room());
        self.run(command.get(NAME..).unwrap_or_default(), ctx, &mut sink);
        reply.write(&answer);
        if let Some(tap) = &self.tap {
            tap.push(Row {
                seq: ctx.seq().number(),
                time: ctx.time().nanos(),
                seed: ctx.seed(),
                op: op_of(command),
                command: command.to_vec(),
                reply: answer,
            });
        }
    }

    fn query(&self, query: &[u8], ctx: &Context, reply: &mut ReplySink<'_>) {
        self.queries.fetch_add(1, Ordering::Relaxed);
        match query.split_first() {
            Some((&LIST, list)) => reply.write(self.lists.get(list).map_or(&[], Vec::as_slice)),
            _ => self.kv.query(query, ctx, reply),
        }
    }

    fn checkpoint(&self, out: &mut dyn CheckpointSink) -> Result<(), CheckpointError> {
        let queries = self.queries.load(Ordering::Relaxed);
        let extra = if planted("state-of-its-own") { queries << 32 } else { 0 };
        out.write(&(self.lists.len() as u64 + extra).to_le_bytes())?;
        for (name, tokens) in &self.lists {
            out.write(&(name.len() as u32).to_le_bytes())?;
            out.write(&(tokens.len() as u32).to_le_bytes())?;
            out.write(name)?;
            out.write(tokens)?;
        }
        self.kv.checkpoint(out)
    }

    fn restore(&mut self, from: &mut dyn CheckpointSource) -> Result<(), CheckpointError> {
        const MAX: usize = 64 << 20;
        let bytes = read_all(from, MAX)?;
        let mut rest = bytes.as_slice();
        let count = take(&mut rest, 8)?.iter().rev().fold(0_u64, |n, byte| n << 8 | u64::from(*byte));
        let mut lists = BTreeMap::new();
        for _ in 0..count {
            let name = take(&mut rest, 4)?.iter().rev().fold(0, |n, byte| n << 8 | usize::from(*byte));
            let len = take(&mut rest, 4)?.iter().rev().fold(0, |n, byte| n << 8 | usize::from(*byte));
            let name = take(&mut rest, name)?.to_vec();
            lists.insert(name, take(&mut rest, len)?.to_vec());
        }
        self.kv.restore(&mut rest)?;
        self.lists = lists;
        Ok(())
    }
}

fn take<'a>(from: &mut &'a [u8], len: usize) -> Result<&'a [u8], CheckpointError> {
    let (now, later) = from.split_at_checked(len).ok_or(CheckpointError::CutOff)?;
    *from = later;
    Ok(now)
}
