//! Changes of the members that clients ask for: who may, and what the texts of a request mean.
//!
//! The cluster carries a change out outside of the tree, by [`Output::Reconfigure`]; the tree then shows the new members, and the client
//! gets what it shows. Source: `PrepRequestProcessor` and `QuorumServer` of Apache ZooKeeper 3.9.4. Tests: tests/all/members.rs.

use super::{Call, ConnId, Now, Output, Server, Waits, calls, frames};
use crate::error::ZkError;
use crate::members::is_address;
use crate::op::Op;
use crate::request::{self, Request};
use bytes::Bytes;

/// A server as a client names it: `server.4=10.0.0.4:7000:7000:participant;2181`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// Its id.
    pub replica: u16,
    /// Where other members reach it, `host:port`. The port for elections is not needed.
    pub address: String,
    /// Whether it is not to vote.
    pub learner: bool,
    /// Where clients reach it, `host:port`.
    pub clients: String,
}

/// A change of the members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// The number of the list that is changed; none for any.
    pub number: Option<i64>,
    /// Members that join, or that become something else.
    pub joining: Vec<Named>,
    /// Members that leave.
    pub leaving: Vec<u16>,
    /// Whether all leave that do not join.
    pub is_whole: bool,
}

impl Change {
    fn read(request: &request::Reconfig<'_>) -> Result<Self, ZkError> {
        let text = |bytes: Option<&[u8]>| -> Result<Vec<String>, ZkError> {
            let text = str::from_utf8(bytes.unwrap_or_default()).map_err(|_| ZkError::BadArguments)?;
            let parts = text.split([',', '\n']).map(str::trim).filter(|part| !part.is_empty());
            Ok(parts.map(str::to_owned).collect())
        };
        let is_whole = request.members.is_some();
        let joining = text(if is_whole { request.members } else { request.joining })?;
        let joining = joining.iter().filter(|line| !line.starts_with("version="));
        let joining: Option<Vec<Named>> = joining.map(|line| Named::read(line)).collect();
        let leaving = text(request.leaving.filter(|_| !is_whole))?;
        let leaving: Option<Vec<u16>> = leaving.iter().map(|id| id.parse().ok()).collect();
        let (Some(joining), Some(leaving)) = (joining, leaving) else { return Err(ZkError::BadArguments) };
        if is_whole && joining.iter().filter(|named| !named.learner).count() < 1 {
            return Err(ZkError::BadArguments);
        }
        let number = Some(request.version).filter(|number| *number != -1);
        Ok(Self { number, joining, leaving, is_whole })
    }
}

impl Named {
    fn read(line: &str) -> Option<Self> {
        let (name, about) = line.split_once('=')?;
        let replica: u16 = name.trim().rsplit('.').next()?.parse().ok()?;
        let (servers, clients) = about.trim().split_once(';')?;
        let (host, rest) = match servers.strip_prefix('[') {
            Some(rest) => rest.split_once(']').map(|(host, rest)| (format!("[{host}]"), rest))?,
            None => {
                servers.split_at_checked(servers.find(':')?).map(|(host, rest)| (host.to_owned(), rest))?
            }
        };
        let mut parts = rest.strip_prefix(':')?.split(':');
        let port = |text: &str| text.parse::<u16>().ok().filter(|port| *port != 0);
        let (first, _) = (port(parts.next()?)?, port(parts.next()?)?);
        let learner = match parts.next() {
            None | Some("participant") => false,
            Some("observer") => true,
            Some(_) => return None,
        };
        let (clients_host, clients_port) = clients.rsplit_once(':').unwrap_or((&host, clients));
        let clients_port = port(clients_port)?;
        let (address, clients) = (format!("{host}:{first}"), format!("{clients_host}:{clients_port}"));
        let is_fine = replica != 0 && parts.next().is_none() && is_address(&address) && is_address(&clients);
        is_fine.then_some(Self { replica, address, learner, clients })
    }
}

impl Server {
    /// It is the turn of a client's change of the members. Whether the client may have it is looked at in the order of commands, behind all that
    /// was acknowledged to anybody.
    pub(super) fn ask_for_change(&mut self, id: ConnId, number: u64, record: &Bytes, now: Now) {
        let change = if self.config.may_reconfigure {
            match Request::read(Op::Reconfig, record) {
                Ok(Request::Reconfig(request)) => Change::read(&request),
                _ => Err(ZkError::Marshalling),
            }
        } else {
            Err(ZkError::ReconfigDisabled)
        };
        let Some(conn) = self.conns.get_mut(&id) else { return };
        let is_one = change.is_ok();
        conn.read_change(change);
        if is_one {
            self.order(id, (number, Op::Reconfig), record, now);
        }
    }

    /// The client may have its change, or not.
    pub(super) fn begin_change(&mut self, id: ConnId, number: u64, answer: &[u8]) {
        let waiting = self.conns.get_mut(&id).and_then(|conn| conn.get_mut(number));
        let Some(Waits::Change { change, done, .. }) = waiting.map(|request| &mut request.waits) else {
            return;
        };
        let error = calls::error_of(answer);
        if error != 0 {
            *done = Some(Err(ZkError::of(error).unwrap_or(ZkError::System)));
        } else if let Some(change) = change.take() {
            let token = self.calls.begin(Call::Request { conn: id, number });
            self.out.push(Output::Reconfigure { token, change });
        }
    }

    /// Answers a client whose change is shown by now, or was refused.
    pub(super) fn answer_change(&mut self, id: ConnId, xid: i32, done: Result<i64, ZkError>) {
        let zxid = self.state.zxid();
        let frame = match done {
            Err(error) => frames::own_reply(xid, zxid, error.code(), |_| ()),
            Ok(_) => {
                let Some(view) = self.state.view() else { return self.close(id) };
                frames::own_reply(xid, zxid, 0, |out| self.service.configuration(&view, out))
            }
        };
        self.send(id, frame);
    }
}
