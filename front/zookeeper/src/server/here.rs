//! What a server answers without the cluster: reads, and requests about watches.
//!
//! Source: `FinalRequestProcessor` and `DataTree.setWatches` of Apache ZooKeeper 3.9.4. Tests: tests/all/server.rs.

use super::{ConnId, Kinds, Server, calls, frames};
use crate::command::Asked;
use crate::error::ZkError;
use crate::jute::Write as _;
use crate::op::Op;
use crate::records::{CONNECTED, EventKind, WatcherEvent};
use crate::request::{Request, SetWatches};
use crate::service::last_zxid;
use quorate_execute::StateView;

/// The most memory that the watches of one connection take.
const WATCHES_BYTES_MAX: usize = 16 << 20;

impl Server {
    /// Answers a request from the adopted state.
    pub(super) fn answer_here(&mut self, id: ConnId, xid: i32, number: i32, record: &[u8]) {
        let op = Op::of(number);
        let request = op.and_then(|op| Request::read(op, record).ok());
        let zxid = self.state.zxid();
        let done = match request {
            Some(Request::SetWatches(list)) => {
                self.set_watches(id, &list);
                Ok(Vec::new())
            }
            Some(Request::Watch { op, path, kind }) => self.watch(id, op, path, kind),
            Some(Request::Plain(Op::WhoAmI)) => Ok(self.who_am_i(id)),
            request => return self.read(id, xid, &Asked { op: number, request: record }, request.as_ref()),
        };
        let error = done.as_ref().err().map_or(0, |error| error.code());
        self.send(id, frames::own_reply(xid, zxid, error, |out| out.extend(done.unwrap_or_default())));
    }

    fn read(&mut self, id: ConnId, xid: i32, asked: &Asked<'_>, request: Option<&Request<'_>>) {
        let Some((conn, view)) = self.conns.get(&id).zip(self.state.view()) else { return };
        let mut answer = Vec::new();
        self.service.read(&view, &conn.caller, asked, &mut answer);
        if let Some(Request::Read { op, path, watch: true }) = request {
            let error = calls::error_of(&answer);
            let kind = match op {
                Op::Exists if error == 0 || error == ZkError::NoNode.code() => Some(Kinds::DATA),
                Op::GetData if error == 0 => Some(Kinds::DATA),
                Op::GetChildren | Op::GetChildren2 if error == 0 => Some(Kinds::CHILDREN),
                _ => None,
            };
            if let Some((kind, path)) = kind.zip(str::from_utf8(path).ok()) {
                self.add_watch(id, path, kind);
            }
        }
        self.send(id, frames::reply(xid, &answer));
    }

    /// Adds, checks or removes watches.
    fn watch(&mut self, id: ConnId, op: Op, path: &[u8], kind: i32) -> Result<Vec<u8>, ZkError> {
        let path = str::from_utf8(path).map_err(|_| ZkError::BadArguments)?;
        if op == Op::AddWatch {
            let kinds = Kinds::of_add_mode(kind).ok_or(ZkError::BadArguments)?;
            self.add_watch(id, path, kinds);
            // The record is an error code of its own.
            return Ok(0_i32.to_be_bytes().to_vec());
        }
        let kinds = Kinds::of_watcher_type(kind).ok_or(ZkError::BadArguments)?;
        let had = if op == Op::CheckWatches {
            self.watches.at(id, path).meets(kinds)
        } else {
            self.watches.remove(id, path, kinds)
        };
        if had { Ok(Vec::new()) } else { Err(ZkError::NoWatcher) }
    }

    /// The client has moved here: its watches are compared with what it has seen.
    fn set_watches(&mut self, id: ConnId, list: &SetWatches<'_>) {
        let [data, exist, children] = &list.once;
        for path in data {
            self.set_again(id, path, Kinds::DATA, list.seen_zxid, true);
        }
        for path in exist {
            self.set_again(id, path, Kinds::DATA, list.seen_zxid, false);
        }
        for path in children {
            self.set_again(id, path, Kinds::CHILDREN, list.seen_zxid, true);
        }
        let lasting = list.lasting.iter().flatten().zip([Kinds::LASTING, Kinds::BELOW]);
        for (paths, kinds) in lasting {
            for path in paths.iter().filter_map(|path| str::from_utf8(path).ok()) {
                self.add_watch(id, path, kinds);
            }
        }
    }

    /// Sets a watch for one event again, or sends the event that it missed. `existed`: whether the node existed when it was set.
    fn set_again(&mut self, id: ConnId, path: &[u8], kinds: Kinds, seen: i64, existed: bool) {
        let Some(view) = self.state.view() else { return };
        let node = self.service.seen(&view, path);
        let missed = match node {
            None if existed => Some(EventKind::Deleted),
            None => None,
            Some(_) if !existed => Some(EventKind::Created),
            Some(node) if kinds.meets(Kinds::DATA) && node.mzxid > seen => Some(EventKind::DataChanged),
            Some(node) if kinds.meets(Kinds::CHILDREN) && node.pzxid > seen => {
                Some(EventKind::ChildrenChanged)
            }
            Some(_) => None,
        };
        match missed {
            Some(kind) => {
                let event = WatcherEvent { kind: kind as i32, state: CONNECTED, path };
                self.send(id, frames::event(-1, &event));
            }
            None => {
                if let Ok(path) = str::from_utf8(path) {
                    self.add_watch(id, path, kinds);
                }
            }
        }
    }

    /// Compares watches for one event, which were set here, with a state to which not everything was told. `before`: what was seen then.
    pub(super) fn compare(&mut self, id: ConnId, path: &str, kinds: Kinds, before: &StateView<'_>) {
        self.watches.remove(id, path, kinds);
        let seen = last_zxid(before);
        let existed = self.service.seen(before, path.as_bytes()).is_some();
        if kinds.meets(Kinds::DATA) {
            self.set_again(id, path.as_bytes(), Kinds::DATA, seen, existed);
        }
        if kinds.meets(Kinds::CHILDREN) {
            self.set_again(id, path.as_bytes(), Kinds::CHILDREN, seen, true);
        }
    }

    /// Adds a watch. A connection whose watches take too much memory ends.
    fn add_watch(&mut self, id: ConnId, path: &str, kinds: Kinds) {
        if self.conns.contains_key(&id) {
            self.watches.add(id, path, kinds);
        }
        if self.watches.bytes(id) > WATCHES_BYTES_MAX {
            self.close(id);
        }
    }

    fn who_am_i(&self, id: ConnId) -> Vec<u8> {
        let ids = self.conns.get(&id).map_or(&[][..], |conn| &conn.caller.ids);
        let mut out = Vec::new();
        out.list(Some(ids), |out, id| {
            out.bytes(Some(&id.scheme));
            // Of a name with a digest only the name is shown.
            let shown = id.id.split(|byte| *byte == b':').next().unwrap_or_default();
            out.bytes(Some(if id.scheme == b"digest" { shown } else { &id.id }));
        });
        out
    }
}
