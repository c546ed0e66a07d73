//! The service: takes what clients ask for as commands and queries, and gives answers that a server hands on as they are.
//!
//! A command is the time of the server that the client uses (`long`, milliseconds since 1970), the asking session (`long`), the client's
//! identities (a list of scheme and id), the operation (`int`), and the client's own request. A query has no time. An answer
//! is the transaction (`long`), 0 or the number of an error (`int`), and the record for the client. All of it is Jute ([`crate::jute`]).
//! Each write takes the next transaction, also one that fails.
//! Tests: tests/all/service.rs, tests/all/tree.rs.

use crate::error::ZkError;
use crate::jute::{Malformed, Reader, Write as _};
use crate::op::Op;
use crate::records::Stat;
use crate::request::{Request, write_multi_header};
use crate::tree::{self, Caller, Done, Event, Id, Right, Stamp, Tree};
use quorate_execute::{Context, KeyUse, ParallelService, ReplySink, StateView, Store};

/// Where the number of the last transaction is: in no part of the tree.
const META: &[u8] = b"\xff\xffm";

/// The tree of nodes as a service. What happened to nodes is told as a list of [`Event`]s.
pub struct ZooKeeper {
    /// The nodes that every tree has. The first write puts them into the state; reads before it read them here.
    founded: Store,
}

impl Default for ZooKeeper {
    fn default() -> Self {
        let mut founded = Store::new();
        for (key, value) in tree::founding() {
            founded.put(&key, &value);
        }
        Self { founded }
    }
}

/// Appends a command.
pub fn write_command(caller: &Caller, time_ms: i64, request: &Request<'_>, out: &mut Vec<u8>) {
    out.long(time_ms);
    write_query(caller, request, out);
}

/// Appends a query.
pub fn write_query(caller: &Caller, request: &Request<'_>, out: &mut Vec<u8>) {
    out.long(caller.session);
    out.list(Some(&caller.ids), |out, id| {
        out.bytes(Some(&id.scheme));
        out.bytes(Some(&id.id));
    });
    out.int(request.op().code());
    request.write(out);
}

fn read_caller(from: &mut Reader<'_>) -> Result<Caller, Malformed> {
    let session = from.long()?;
    let text = |from: &mut Reader<'_>| from.bytes().map(|bytes| bytes.unwrap_or_default().to_vec());
    let list = from.list(|from| Ok(Id { scheme: text(from)?, id: text(from)? }))?;
    Ok(Caller { session, ids: list.unwrap_or_default() })
}

/// The last transaction.
fn last_zxid(view: &StateView<'_>) -> i64 {
    let bytes = view.get(META);
    bytes.and_then(|bytes| Reader::new(&bytes).long().ok()).unwrap_or_default()
}

/// An operation, and the client's request.
struct Asked<'a> {
    op: Option<Op>,
    request: &'a [u8],
}

impl<'a> Asked<'a> {
    fn read(from: &mut Reader<'a>) -> Result<Self, Malformed> {
        let op = Op::of(from.int()?);
        Ok(Self { op, request: from.rest() })
    }

    /// The request, if it is one that this way may have.
    fn request(&self, may: impl Fn(Op) -> bool) -> Result<Request<'a>, ZkError> {
        let op = self.op.filter(|op| may(*op)).ok_or(ZkError::Unimplemented)?;
        Request::read(op, self.request).map_err(|_| ZkError::Marshalling)
    }
}

impl ZooKeeper {
    fn write(view: &mut StateView<'_>, command: &[u8], out: &mut Vec<u8>) -> Result<(), Malformed> {
        let mut from = Reader::new(command);
        let (time_ms, caller) = (from.long()?, read_caller(&mut from)?);
        let asked = Asked::read(&mut from)?;
        let zxid = last_zxid(view) + 1;
        if zxid == 1 {
            tree::founding().for_each(|(key, value)| view.set(&key, &value));
        }
        view.set(META, &zxid.to_be_bytes());
        let mut tree = Tree::new(view, Stamp { zxid, time_ms });
        let done = asked.request(Op::writes).and_then(|request| tree.write(&caller, &request));
        let events = tree.events();
        if !events.is_empty() {
            view.tell::<Vec<Event>>(events);
        }
        out.long(zxid);
        match done {
            Ok(done) => {
                out.int(0);
                write_done(asked.op, asked.request, &done, out);
            }
            Err(error) => out.int(error.code()),
        }
        Ok(())
    }

    fn read(&self, view: &StateView<'_>, query: &[u8], out: &mut Vec<u8>) -> Result<(), Malformed> {
        let mut from = Reader::new(query);
        let caller = read_caller(&mut from)?;
        let asked = Asked::read(&mut from)?;
        let zxid = last_zxid(view);
        out.long(zxid);
        let founded = StateView::reading(&self.founded);
        let view = if zxid == 0 { &founded } else { view };
        let at = out.len();
        out.int(0);
        let request = asked.request(|op| !op.writes());
        if let Err(error) = request.and_then(|request| answer(view, &caller, &request, out)) {
            out.truncate(at);
            out.int(error.code());
        }
        Ok(())
    }
}

/// Appends the record of a read.
fn answer(
    view: &StateView<'_>,
    caller: &Caller,
    request: &Request<'_>,
    out: &mut Vec<u8>,
) -> Result<(), ZkError> {
    let ids = &caller.ids;
    match request {
        Request::Read { op: Op::Exists, path, .. } => tree::exists(view, path, ids)?.write(out),
        Request::Read { op: Op::GetData, path, .. } => {
            let found = tree::data(view, path, ids)?;
            out.bytes(found.value.as_deref());
            found.stat.write(out);
        }
        Request::Read { op, path, .. } => {
            let found = tree::children(view, path, ids)?;
            out.list(Some(&found.value), |out, name| out.bytes(Some(name.as_bytes())));
            if *op == Op::GetChildren2 {
                found.stat.write(out);
            }
        }
        Request::About { op: Op::GetAcl, path } => {
            let found = tree::rights(view, path, ids)?;
            out.list(Some(&found.value), |out, (perms, scheme, id): &Right| {
                out.int(*perms);
                out.bytes(Some(scheme));
                out.bytes(Some(id));
            });
            found.stat.write(out);
        }
        Request::About { op: Op::GetAllChildrenNumber, path } => {
            let count = tree::count_below(view, path, ids)?;
            out.int(i32::try_from(count).unwrap_or(i32::MAX));
        }
        Request::About { op: Op::GetEphemerals, path } => {
            let paths = tree::ephemerals(view, caller.session, path);
            out.list(Some(&paths), |out, path| out.bytes(Some(path.as_bytes())));
        }
        Request::Multi { list, .. } => {
            for one in list {
                let at = out.len();
                write_multi_header(one.op().code(), false, 0, out);
                if let Err(error) = answer(view, caller, one, out) {
                    out.truncate(at);
                    write_error(error.code(), out);
                }
            }
            write_multi_header(-1, true, -1, out);
        }
        _ => return Err(ZkError::Unimplemented),
    }
    Ok(())
}

/// Appends the record of a write.
fn write_done(op: Option<Op>, request: &[u8], done: &Done, out: &mut Vec<u8>) {
    match done {
        Done::Made { path, stat } => {
            out.bytes(Some(path.as_bytes()));
            if op != Some(Op::Create) {
                stat.write(out);
            }
        }
        Done::Set(stat) => Stat::write(stat, out),
        Done::Nothing => {}
        Done::Multi(results) => {
            let list = match Request::read(Op::Multi, request) {
                Ok(Request::Multi { list, .. }) => list,
                _ => Vec::new(),
            };
            for (one, result) in list.iter().zip(results) {
                match result {
                    Ok(done) => {
                        // Whatever is answered with numbers is answered as one kind.
                        let op = match one.op() {
                            Op::CreateContainer | Op::CreateTtl => Op::Create2,
                            op => op,
                        };
                        write_multi_header(op.code(), false, 0, out);
                        write_done(Some(one.op()), &[], done, out);
                    }
                    Err(error) => write_error(error.map_or(0, ZkError::code), out),
                }
            }
            write_multi_header(-1, true, -1, out);
        }
    }
}

/// Appends the result of an operation in a multi that failed, or was taken back.
fn write_error(code: i32, out: &mut Vec<u8>) {
    write_multi_header(-1, false, code, out);
    out.int(code);
}

impl ParallelService for ZooKeeper {
    fn execute(&self, view: &mut StateView<'_>, command: &[u8], _: &Context, reply: &mut ReplySink<'_>) {
        let mut out = Vec::new();
        if Self::write(view, command, &mut out).is_err() {
            out.clear();
            out.long(last_zxid(view));
            out.int(ZkError::Marshalling.code());
        }
        reply.write(&out);
    }

    fn query(&self, view: &StateView<'_>, query: &[u8], _: &Context, reply: &mut ReplySink<'_>) {
        let mut out = Vec::new();
        if self.read(view, query, &mut out).is_err() {
            out.clear();
            out.long(last_zxid(view));
            out.int(ZkError::Marshalling.code());
        }
        reply.write(&out);
    }

    /// All writes take the next transaction, so they run one after the other.
    fn hints(&self, _: &[u8], uses: &mut dyn FnMut(KeyUse<'_>)) -> bool {
        uses(KeyUse::Write(META));
        true
    }
}
