//! A client of the store that clients of etcd use, in Quorate's own protocol: it believes what two replicas say alike.

use crate::kv::etcd;
use quorate::client::{BlockingSession, ReadOptions};
use quorate::{BlockingClient, Error};
use quorate_command::cluster::Cluster;
use quorate_command::failure::{Doing as _, Failure, Outcome};
use quorate_etcd::proto::{Fields, Value};
use quorate_etcd::{RangePage, Reply};
use quorate_kv::{KvCommand, KvQuery, KvReply, Operation, Scan};
use quorate_types::ReplicaId;
use std::time::Duration;

/// How long a write or a strong read may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long one replica that is asked alone may take.
const ALONE: Duration = Duration::from_secs(3);

/// The client, with a session for its writes.
pub(super) struct Store {
    client: BlockingClient,
    session: BlockingSession,
}

/// Why a write was not acknowledged.
pub(super) struct NotPut {
    /// It may have been done all the same, or may be done later.
    pub(super) unknown: bool,
    pub(super) why: String,
}

/// A key, as the store has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) key: Vec<u8>,
    pub(super) value: Vec<u8>,
    /// The revision that its last write made: the place of that write among all writes.
    pub(super) revision: i64,
    /// How often it was written.
    pub(super) version: i64,
}

impl Store {
    pub(super) fn open(cluster: &Cluster) -> Outcome<Self> {
        let client = cluster.client().timeout(PATIENCE).build_blocking().doing("start a client")?;
        let session = client.open_session().doing("open a session")?;
        Ok(Self { client, session })
    }

    /// Writes a key.
    pub(super) fn put(&self, key: &str, value: &str) -> Result<(), NotPut> {
        let command = KvCommand::One(Operation::Put { key: key.as_bytes(), value: value.as_bytes() });
        let bytes = etcd::command(&command).unwrap_or_default();
        let refused = |why: String| NotPut { unknown: false, why };
        let replies = self.session.call_one(&bytes).map_err(|why: Error| NotPut {
            // The reply of a write that was done may have been forgotten.
            unknown: why.is_outcome_unknown() || matches!(why, Error::ReplyForgotten),
            why: why.to_string(),
        })?;
        let reply = replies.first().unwrap_or_default();
        etcd::reply(&command, reply).map(drop).map_err(|why| refused(why.to_string()))
    }

    /// What a strong read finds.
    pub(super) fn get(&self, key: &str) -> Outcome<Option<Vec<u8>>> {
        self.value(key, ReadOptions::STRONG)
    }

    /// What one replica says that is asked alone.
    pub(super) fn get_alone(&self, replica: u16, key: &str) -> Outcome<Option<Vec<u8>>> {
        self.value(key, alone(replica))
    }

    fn value(&self, key: &str, options: ReadOptions) -> Outcome<Option<Vec<u8>>> {
        let query = KvQuery::Get { key: key.as_bytes() };
        let read = self.client.read(etcd::query(&query), options).doing("read")?;
        let answer = etcd::answer(&query, &read.body)?;
        match KvReply::decode(&answer) {
            Ok(KvReply::Value(value)) => Ok(value.map(<[u8]>::to_vec)),
            _ => Err(not_an_answer()),
        }
    }

    /// All keys from `start` to `end`: by strong reads, or from the copy of one replica.
    pub(super) fn scan(&self, start: &str, end: &str, replica: Option<u16>) -> Outcome<Vec<Entry>> {
        let options = replica.map_or(ReadOptions::STRONG, alone);
        let (mut from, mut all) = (start.as_bytes().to_vec(), Vec::new());
        loop {
            let query = KvQuery::Scan(Scan { start: &from, end: end.as_bytes(), limit: 0 });
            let read = self.client.read(etcd::query(&query), options).doing("read all keys")?;
            let body = Reply::decode(&read.body).map_err(|_| not_an_answer())?.body;
            let page = RangePage::decode(body).ok_or_else(not_an_answer)?;
            all.extend(entries(page.fields));
            match page.next.flatten() {
                Some(next) if next > from.as_slice() => from = next.to_vec(),
                _ => return Ok(all),
            }
        }
    }
}

fn alone(replica: u16) -> ReadOptions {
    ReadOptions { replica: Some(ReplicaId::new(replica)), timeout: Some(ALONE), ..ReadOptions::WEAK }
}

fn not_an_answer() -> Failure {
    Failure::new("the answer is none of the store")
}

/// The keys of a response to a range.
fn entries(response: &[u8]) -> impl Iterator<Item = Entry> + '_ {
    Fields::of(response).filter_map(|field| {
        let Ok((2, Value::Bytes(kv))) = field else { return None };
        let number = |wanted: u32| {
            Fields::of(kv).find_map(|field| match field {
                Ok((field, value)) if field == wanted => value.int().ok(),
                _ => None,
            })
        };
        let bytes = |field| etcd::inner(kv, field).unwrap_or_default().to_vec();
        Some(Entry {
            key: bytes(1),
            value: bytes(5),
            revision: number(3).unwrap_or(0),
            version: number(4).unwrap_or(0),
        })
    })
}
