//! A state of some size, and a count of what was acknowledged of it.

use crate::rig::cluster::Cluster;
use crate::rig::recorder;
use quorate::client::{BlockingClient, BlockingSession, Error, ReadOptions};
use quorate_kv::{KvCommand, KvReply, Operation};
use std::time::Duration;

/// Writes numbered values of a size in turn under a few keys.
pub(crate) struct Filler {
    client: BlockingClient,
    session: BlockingSession,
    value_bytes: usize,
    next: u64,
    /// The last write that was acknowledged, by key.
    done: Vec<u64>,
}

impl Filler {
    pub(crate) fn new(cluster: &Cluster, keys: usize, value_bytes: usize) -> Self {
        let client = cluster.client(Duration::from_secs(5));
        let session = client.open_session().unwrap();
        Self { client, session, value_bytes, next: 1, done: vec![0; keys] }
    }

    fn key(at: usize) -> String {
        format!("fill/{at:04}")
    }

    /// # Errors
    /// When it is not acknowledged.
    pub(crate) fn write(&mut self) -> Result<(), Error> {
        let (number, at) = (self.next, self.next as usize % self.done.len());
        self.next += 1;
        let mut value = format!("{number:010}").into_bytes();
        // No two values have a chunk in common.
        while value.len() < self.value_bytes {
            value.extend_from_slice(format!("{at:04}:{number:010}.").as_bytes());
        }
        value.truncate(self.value_bytes);
        let mut bytes = Vec::new();
        KvCommand::One(Operation::Put { key: Self::key(at).as_bytes(), value: &value }).encode(&mut bytes);
        match self.session.call_one(&bytes) {
            Err(error) if error.is_outcome_unknown() || matches!(error, Error::DiskFull { .. }) => Err(error),
            // Of no use any more, perhaps: whatever was wrong with it, the next one tells.
            Err(error) => {
                if let Ok(session) = self.client.open_session() {
                    self.session = session;
                }
                Err(error)
            }
            Ok(_) => {
                self.done[at] = number;
                Ok(())
            }
        }
    }

    /// Deletes a key, in a session of its own. Gives whether it was there.
    ///
    /// # Errors
    /// When it is not acknowledged.
    pub(crate) fn delete(&self, key: &str) -> Result<bool, Error> {
        let mut bytes = Vec::new();
        KvCommand::One(Operation::Delete { key: key.as_bytes() }).encode(&mut bytes);
        let done = self.client.open_session()?.call_one(&bytes)?;
        Ok(matches!(
            KvReply::decode(done.first().unwrap_or_default()),
            Ok(KvReply::Deleted { existed: true })
        ))
    }

    /// Deletes the key that was written first of those that are there, until nothing was acknowledged. Gives whether there was one.
    ///
    /// # Errors
    /// When it is not acknowledged.
    pub(crate) fn delete_oldest(&mut self) -> Result<bool, Error> {
        let written = self.done.iter().enumerate().filter(|(_, number)| **number > 0);
        let Some(at) = written.min_by_key(|(_, number)| **number).map(|(at, _)| at) else { return Ok(false) };
        // It may have been deleted by a call whose answer was lost.
        self.delete(&Self::key(at))?;
        self.done[at] = 0;
        Ok(true)
    }

    /// Writes a key that is not one of those that are written in turn.
    ///
    /// # Errors
    /// When it is not acknowledged.
    pub(crate) fn put(&self, key: &str) -> Result<(), Error> {
        let mut bytes = Vec::new();
        KvCommand::One(Operation::Put { key: key.as_bytes(), value: b"there" }).encode(&mut bytes);
        self.client.open_session()?.call_one(&bytes).map(drop)
    }

    /// Writes each key once.
    #[track_caller]
    pub(crate) fn fill(&mut self) {
        for _ in 0..self.done.len() {
            self.write().unwrap();
        }
    }

    /// Writes until something is the case, or nothing more is taken.
    pub(crate) fn write_until(&mut self, mut done: impl FnMut() -> bool) -> Result<(), Error> {
        for _ in 0..4000 {
            if self.next.is_multiple_of(8) && done() {
                return Ok(());
            }
            self.write()?;
        }
        panic!("it was written 4000 times, and it is still not the case");
    }

    /// No acknowledged write is missing.
    #[track_caller]
    pub(crate) fn check(&self) {
        for (at, done) in self.done.iter().enumerate().filter(|(_, done)| **done > 0) {
            let (key, options) = (Self::key(at), ReadOptions::STRONG);
            let read =
                self.client.read(recorder::get(&key), options).expect("a strong read of a whole cluster");
            let Ok(KvReply::Value(Some(value))) = KvReply::decode(&read.body) else {
                panic!("no value of {key}")
            };
            let number: u64 = recorder::text(&value[..10]).parse().unwrap();
            assert!(number >= *done && number < self.next, "{key} holds {number}, acknowledged is {done}");
        }
    }
}
