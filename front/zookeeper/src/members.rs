//! The members of the cluster, as `/zookeeper/config` shows them to clients.
//!
//! Each server says what it sees: the members, by the number of their list, and at which address it serves clients itself. The state keeps
//! the newest list, and the address that each member said last. Of a member that said none yet it keeps what another one said. The list of
//! another cluster is forgotten, as in a state that was restored from a backup. Tests: tests/all/members.rs.

use crate::jute::{Malformed, Reader, Write as _};
use std::fmt::Write as _;

/// The most members, and the longest address.
const MEMBERS_MAX: usize = 1024;
const ADDRESS_BYTES_MAX: usize = 512;

/// Whether clients can read this as an address, `host:port`.
pub fn is_address(text: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || ".-_:[]%".contains(c);
    let port = text.rsplit_once(':').filter(|(host, _)| !host.is_empty()).map(|(_, port)| port);
    text.len() <= ADDRESS_BYTES_MAX
        && text.chars().all(plain)
        && port.is_some_and(|port| port.parse::<u16>().is_ok_and(|port| port != 0))
}

/// A member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its id.
    pub replica: i32,
    /// Whether it does not vote.
    pub learner: bool,
    /// Where other members reach it, `host:port`.
    pub address: String,
    /// Where clients reach it, `host:port`, if that is known.
    pub clients: Option<String>,
}

impl Member {
    /// Its host and port. Clients want a second port for elections, and another one.
    fn ports(&self) -> (&str, u16, u16) {
        let (host, port) = self.address.rsplit_once(':').unwrap_or((&self.address, ""));
        let port: u16 = port.parse().unwrap_or(1);
        (host, port, port.checked_add(1).unwrap_or(port - 1))
    }

    /// Where clients believe that it takes part in elections, `host:port`.
    pub(crate) fn elections(&self) -> String {
        let (host, _, other) = self.ports();
        format!("{host}:{other}")
    }
}

/// The members of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members {
    /// The cluster.
    pub cluster: u128,
    /// The number of this list. Later ones have higher numbers.
    pub number: i64,
    /// The members, in the order of their ids.
    pub list: Vec<Member>,
}

impl Members {
    /// Takes over what this member says that is newer.
    pub fn hear(&mut self, said: &Self, speaker: i32) {
        if said.cluster != self.cluster {
            *self = Self { cluster: said.cluster, ..Self::default() };
        }
        let before = self.list.clone();
        if said.number > self.number {
            self.number = said.number;
            self.list.clone_from(&said.list);
        }
        let clients_of = |list: &[Member], replica| {
            list.iter().find(|member| member.replica == replica).and_then(|member| member.clients.clone())
        };
        for member in &mut self.list {
            let (said, known) = (clients_of(&said.list, member.replica), clients_of(&before, member.replica));
            member.clients = if member.replica == speaker { said.or(known) } else { known.or(said) };
        }
    }

    /// What clients read: nothing for a single member, since they must keep the address that they have. Source: `QuorumMaj.toString` and
    /// `QuorumServer.toString` of Apache ZooKeeper 3.9.4.
    pub fn text(&self) -> String {
        let mut text = String::new();
        if self.list.len() < 2 {
            return text;
        }
        for member in &self.list {
            let (host, port, other) = member.ports();
            let Member { replica, learner, clients, .. } = member;
            let role = if *learner { "observer" } else { "participant" };
            let _ = write!(text, "server.{replica}={host}:{port}:{other}:{role}");
            let _ = clients.as_ref().map(|clients| write!(text, ";{clients}"));
            text.push('\n');
        }
        let _ = write!(text, "version={:x}", self.number);
        text
    }

    pub(crate) fn read(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (high, low) = (from.long()?, from.long()?);
        let cluster = u128::from(high as u64) << 64 | u128::from(low as u64);
        let number = from.long()?;
        let list = from.list(|from| {
            let (replica, learner) = (from.int()?, from.flag()?);
            let address = address(from)?.ok_or(Malformed)?;
            Ok(Member { replica, learner, address, clients: self::address(from)? })
        })?;
        let list = list.filter(|list| list.len() <= MEMBERS_MAX).ok_or(Malformed)?;
        Ok(Self { cluster, number, list })
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        out.long((self.cluster >> 64) as i64);
        out.long(self.cluster as i64);
        out.long(self.number);
        out.list(Some(&self.list), |out, member| {
            out.int(member.replica);
            out.flag(member.learner);
            out.bytes(Some(member.address.as_bytes()));
            out.bytes(member.clients.as_ref().map(String::as_bytes));
        });
    }
}

fn address(from: &mut Reader<'_>) -> Result<Option<String>, Malformed> {
    let Some(bytes) = from.bytes()? else { return Ok(None) };
    let text = str::from_utf8(bytes).ok().filter(|text| is_address(text)).ok_or(Malformed)?;
    Ok(Some(text.to_owned()))
}
