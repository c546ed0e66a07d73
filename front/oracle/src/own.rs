//! Another Quorate cluster as the oracle: a key of its key-value store, whose value begins with the version.
//!
//! The store swaps a value if the old one is the expected one, to the byte. So this client remembers what it saw last. If that is another
//! version than the one that is to be swapped, it reads first.

use crate::PATIENCE;
use bytes::Bytes;
use quorate::client::{BlockingClient, BlockingSession, ClientFile, ReadOptions};
use quorate_kv::{Condition, KvCommand, KvQuery, KvReply};
use quorate_runtime::{Held, Oracle};
use quorate_types::ClusterId;
use std::collections::BTreeMap;
use std::path::Path;

/// A client of that cluster.
pub(crate) struct Own {
    client: BlockingClient,
    cluster: ClusterId,
    session: Option<BlockingSession>,
    /// The bytes that each register had last; `None`: it had none.
    seen: BTreeMap<String, Option<Vec<u8>>>,
}

impl Own {
    pub(crate) fn new(cluster: &str, client: &Path) -> Result<Self, String> {
        let file = ClientFile::read(client).map_err(|why| why.to_string())?;
        if ClusterId::parse(cluster) != Some(file.cluster) {
            return Err(format!(
                "{} is a client of cluster {}, and [oracle] names cluster {cluster}: name the right one of them",
                client.display(),
                file.cluster
            ));
        }
        if file.fault_model.may_lie() {
            return Err(format!(
                "{} is a client of a cluster whose replicas may lie: an oracle survives crash faults, and is believed",
                client.display()
            ));
        }
        let built = file.builder().timeout(PATIENCE).build_blocking();
        let client = built.map_err(|why| format!("{}: {why}", client.display()))?;
        Ok(Self { client, cluster: file.cluster, session: None, seen: BTreeMap::new() })
    }

    /// What the register has, as the leader knows it.
    fn read(&mut self, register: &str) -> Result<Held, String> {
        let mut query = Vec::new();
        KvQuery::Get { key: register.as_bytes() }.encode(&mut query);
        let result = self.client.read(query, ReadOptions::STRONG).map_err(|why| why.to_string())?;
        match KvReply::decode(&result.body) {
            Ok(KvReply::Value(value)) => self.saw(register, value),
            other => Err(unexpected(other)),
        }
    }

    /// Swaps the value if it is still the one that was seen last.
    fn swap(&mut self, register: &str, version: u64, value: &[u8]) -> Result<Held, String> {
        let next = [&(version + 1).to_le_bytes()[..], value].concat();
        let condition = match self.seen.get(register).and_then(Option::as_deref) {
            Some(seen) => Condition::Equals(seen),
            None => Condition::Absent,
        };
        let mut command = Vec::new();
        KvCommand::Swap { key: register.as_bytes(), condition, value: &next }.encode(&mut command);
        let session = match self.session.take() {
            Some(session) => session,
            None => self.client.open_session().map_err(|why| why.to_string())?,
        };
        // A session whose call failed may be over; another one is opened for the next call.
        let replies = session.call_one(&command).map_err(|why| why.to_string())?;
        self.session = Some(session);
        match replies.first().map(KvReply::decode) {
            Some(Ok(KvReply::Swapped)) => self.saw(register, Some(&next)),
            Some(Ok(KvReply::NotSwapped { current })) => self.saw(register, current),
            Some(other) => Err(unexpected(other)),
            None => Err("an answer without a reply".to_owned()),
        }
    }

    /// The register has these bytes.
    fn saw(&mut self, register: &str, bytes: Option<&[u8]>) -> Result<Held, String> {
        let held = match bytes.map(|bytes| bytes.split_first_chunk::<8>()) {
            None => Held::default(),
            Some(Some((version, value))) => (u64::from_le_bytes(*version), Bytes::copy_from_slice(value)),
            Some(None) => return Err(format!("the key {register} is no register: something else wrote it")),
        };
        self.seen.insert(register.to_owned(), bytes.map(<[u8]>::to_vec));
        Ok(held)
    }

    /// The version that was seen last.
    fn version_seen(&self, register: &str) -> Option<u64> {
        let seen = self.seen.get(register)?;
        Some(
            seen.as_ref()
                .and_then(|bytes| bytes.first_chunk())
                .map_or(0, |version| u64::from_le_bytes(*version)),
        )
    }
}

fn unexpected(reply: Result<KvReply<'_>, impl std::fmt::Display>) -> String {
    match reply {
        Ok(KvReply::Error(why)) => why.to_string(),
        Ok(_) => "an answer to another question: does that cluster run the key-value store?".to_owned(),
        Err(why) => format!("{why}: does that cluster run the key-value store?"),
    }
}

impl Oracle for Own {
    fn serve(&mut self, register: &str, swap: Option<Held>) -> Result<Held, String> {
        let Some((version, value)) = swap else { return self.read(register) };
        if self.version_seen(register) != Some(version) {
            let held = self.read(register)?;
            if held.0 != version {
                return Ok(held);
            }
        }
        self.swap(register, version, &value)
    }

    fn name(&self) -> String {
        format!("the Quorate cluster {}", self.cluster)
    }
}
