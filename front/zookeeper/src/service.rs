//! The service: takes what clients ask for as commands and queries, and gives answers that a server hands on as they are.
//!
//! Commands and queries are those of [`crate::command`]. An answer is the transaction (`long`), 0 or the number of an error (`int`), and the
//! record for the client: what stands behind the client's own number in a reply. To [`Command::Open`] and [`Command::Attach`] the record is
//! the session (`long`) and the attachment (`int`). Each write of a client takes the next transaction, also one that fails; so do the
//! opening, attachment and end of a session. Signs of life take none.
//!
//! What servers must know is told to the observer ([`Told`]): events of nodes, and where sessions are. Tests: tests/all/service.rs,
//! tests/all/tree.rs, tests/all/sessions.rs.

use crate::command::{Asked, Command, Opening, read_query};
use crate::error::ZkError;
use crate::feed::Feed;
use crate::jute::{Malformed, Reader, Write as _};
use crate::members::Members;
use crate::op::Op;
use crate::records::Stat;
use crate::request::{Request, write_multi_header};
use crate::sessions::{self, Sessions};
use crate::tree::{self, Caller, Count, Done, Event, Id, Right, Rules, Stamp, Tree};
use quorate_execute::{Context, KeyUse, Observer, ParallelService, ReplySink, StateView, Store};
use quorate_types::AgreedTime;
use std::any::Any;

/// Where the number of the last transaction is, and how much there is in the tree: in no part of it.
const META: &[u8] = b"\xff\xffm";

/// What clients are told of the members.
const MEMBERS: &[u8] = b"\xff\xffk";

/// The most bytes that several reads in one request give.
const READ_BYTES_MAX: usize = 16 << 20;

/// What a command did that servers must know.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// The transaction, or the last one before it.
    pub zxid: i64,
    /// What happened.
    pub what: What,
}

/// What happened in a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// Something to nodes.
    Nodes(Vec<Event>),
    /// A session is at this server now, with this attachment.
    Placed {
        /// The session.
        session: i64,
        /// Its attachment.
        attached: i32,
        /// The server.
        server: i64,
        /// Its time-out, in milliseconds.
        timeout_ms: i32,
    },
    /// A session is over, and so are its nodes.
    Ended {
        /// The session.
        session: i64,
        /// What happened to its nodes.
        events: Vec<Event>,
    },
    /// Another state took the place of the one that was here. What happened between the two was not told.
    Replaced,
}

impl What {
    /// What happened to nodes, in order.
    pub fn events(&self) -> &[Event] {
        match self {
            Self::Nodes(events) | Self::Ended { events, .. } => events,
            Self::Placed { .. } | Self::Replaced => &[],
        }
    }

    const fn placed(session: i64, attached: i32, opening: &Opening) -> Self {
        let Opening { server, timeout_ms, .. } = *opening;
        Self::Placed { session, attached, server, timeout_ms }
    }
}

/// The tree of nodes, and its sessions, as a service.
pub struct ZooKeeper {
    /// The nodes that every tree has. The first write puts them into the state; reads before it read them here.
    founded: Store,
    rules: Rules,
    feed: Option<Feed>,
}

impl Default for ZooKeeper {
    fn default() -> Self {
        Self::new(Rules::default())
    }
}

impl ZooKeeper {
    /// The service, with these rules.
    pub fn new(rules: Rules) -> Self {
        let mut founded = Store::new();
        for (key, value) in tree::founding() {
            founded.put(&key, &value);
        }
        Self { founded, rules, feed: None }
    }

    /// This service, but what it does is told here.
    #[must_use]
    pub fn told_to(self, feed: Feed) -> Self {
        Self { feed: Some(feed), ..self }
    }
}

/// Whether a client may change the members. The change itself is carried out behind this, by the server that asked.
fn may_change(view: &StateView<'_>, caller: &Caller, version: i64) -> Result<(), ZkError> {
    tree::may_configure(view, &caller.ids)?;
    let is_right = version == -1 || version == members(view).number;
    if is_right { Ok(()) } else { Err(ZkError::BadVersion) }
}

/// The last transaction, and how much there is in the tree.
#[derive(Clone, Copy)]
struct Meta {
    zxid: i64,
    count: Count,
}

impl Meta {
    fn of(view: &StateView<'_>) -> Self {
        let bytes = view.get(META).unwrap_or_default();
        let mut from = Reader::new(&bytes);
        let mut number = || from.long().unwrap_or_default();
        let zxid = number();
        if zxid == 0 {
            return Self { zxid, count: Count::FOUNDED };
        }
        let (nodes, ephemerals, bytes, quotas) = (number(), number(), number(), number());
        Self { zxid, count: Count { nodes, ephemerals, bytes, quotas } }
    }

    /// Takes the next transaction. The first one puts the nodes that every tree has into the state.
    fn next(view: &mut StateView<'_>) -> Self {
        let Self { zxid, count } = Self::of(view);
        if zxid == 0 {
            tree::founding().for_each(|(key, value)| view.set(&key, &value));
        }
        Self { zxid: zxid + 1, count }
    }

    fn encode(&self) -> Vec<u8> {
        let Count { nodes, ephemerals, bytes, quotas } = self.count;
        let mut meta = Vec::with_capacity(40);
        [self.zxid, nodes, ephemerals, bytes, quotas].iter().for_each(|number| meta.long(*number));
        meta
    }

    fn put(&self, view: &mut StateView<'_>) {
        view.set(META, &self.encode());
    }
}

/// The entry of a tree that was taken over: its last transaction, and how much there is.
pub(crate) fn taken_over(zxid: i64, count: Count) -> (Vec<u8>, Vec<u8>) {
    (META.to_vec(), Meta { zxid, count }.encode())
}

/// What clients are told of the members; nothing before a server said something.
pub fn members(view: &StateView<'_>) -> Members {
    let bytes = view.get(MEMBERS);
    bytes.and_then(|bytes| Members::read(&mut Reader::new(&bytes)).ok()).unwrap_or_default()
}

/// The last transaction.
pub fn last_zxid(view: &StateView<'_>) -> i64 {
    Meta::of(view).zxid
}

/// How much there is in the tree.
pub fn count(view: &StateView<'_>) -> Count {
    Meta::of(view).count
}

/// The changes.
impl ZooKeeper {
    fn run(
        &self,
        view: &mut StateView<'_>,
        bytes: &[u8],
        ctx: &Context,
        out: &mut Vec<u8>,
    ) -> Result<(), Malformed> {
        match Command::read(bytes)? {
            Command::Write { time_ms, caller, asked } => {
                self.write(view, (time_ms, ctx), &caller, &asked, out)
            }
            Command::Open(opening) => {
                let zxid = last_zxid(view) + 1;
                let (session, attached) = self.sessions(view).open(&opening, zxid, ctx);
                take_next(view);
                out.long(zxid);
                view.tell(Told { zxid, what: What::placed(session, attached, &opening) });
                out.int(0);
                out.long(session);
                out.int(attached);
            }
            Command::Attach { session, opening } => {
                let zxid = last_zxid(view) + 1;
                match self.sessions(view).attach(session, &opening, zxid, ctx) {
                    Ok(attached) => {
                        take_next(view);
                        out.long(zxid);
                        view.tell(Told { zxid, what: What::placed(session, attached, &opening) });
                        out.int(0);
                        out.long(session);
                        out.int(attached);
                    }
                    Err(error) => {
                        out.long(last_zxid(view));
                        out.int(error.code());
                    }
                }
            }
            Command::Live { server, zxid, silent } => {
                self.sessions(view).live((server, zxid), &silent, ctx);
                self.end_those_over(view, ctx);
                out.long(last_zxid(view));
                out.int(0);
            }
            Command::Members { time_ms, speaker, members } => {
                self.meet(view, (time_ms, ctx), &members, speaker);
                out.long(last_zxid(view));
                out.int(0);
            }
        }
        Ok(())
    }

    fn sessions<'v, 's>(&self, view: &'v mut StateView<'s>) -> Sessions<'v, 's> {
        Sessions { view, tick: self.rules.tick }
    }

    /// Takes the next transaction for a change of the tree.
    fn change<T>(
        &self,
        view: &mut StateView<'_>,
        (time_ms, ctx): (i64, &Context),
        change: impl FnOnce(&mut Tree<'_, '_>) -> T,
    ) -> (i64, T, Vec<Event>) {
        let Meta { zxid, count } = Meta::next(view);
        let stamp = Stamp { zxid, time_ms, agreed: ctx.time() };
        let mut tree = Tree::new(view, stamp, self.rules, &count);
        let done = change(&mut tree);
        let (events, added) = tree.finish();
        Meta { zxid, count: count.plus(&added) }.put(view);
        (zxid, done, events)
    }

    fn write(
        &self,
        view: &mut StateView<'_>,
        (time_ms, ctx): (i64, &Context),
        caller: &Caller,
        asked: &Asked<'_>,
        out: &mut Vec<u8>,
    ) {
        let (zxid, done) = self.write_as(view, (time_ms, ctx), caller, asked);
        out.long(zxid);
        match done {
            Ok(done) => {
                out.int(0);
                write_done(asked.op(), asked.request, &done, out);
            }
            Err(error) => out.int(error.code()),
        }
    }

    fn write_as(
        &self,
        view: &mut StateView<'_>,
        when: (i64, &Context),
        caller: &Caller,
        asked: &Asked<'_>,
    ) -> (i64, Result<Done, ZkError>) {
        let may = sessions::check(view, caller.session, caller.attached);
        let request = may.and_then(|()| asked.request(Op::writes));
        let request = request.and_then(|request| match &request {
            Request::Reconfig(change) => may_change(view, caller, change.version).map(|()| request),
            _ => Ok(request),
        });
        if request == Ok(Request::Plain(Op::CloseSession)) {
            return (self.end(view, when, caller.session), Ok(Done::Nothing));
        }
        let (zxid, done, events) =
            self.change(view, when, |tree| request.and_then(|request| tree.write(caller, &request)));
        if !events.is_empty() {
            view.tell(Told { zxid, what: What::Nodes(events) });
        }
        (zxid, done)
    }

    /// A server sees these members: clients are shown what is new, if that is wanted.
    fn meet(&self, view: &mut StateView<'_>, when: (i64, &Context), said: &Members, speaker: i32) {
        let before = members(view);
        let mut now = before.clone();
        now.hear(said, speaker);
        if now != before {
            let mut bytes = Vec::new();
            now.write(&mut bytes);
            view.set(MEMBERS, &bytes);
        }
        let text = if self.rules.show_members { now.text() } else { String::new() };
        if tree::configuration(view) == text.as_bytes() {
            return;
        }
        let (zxid, (), events) = self.change(view, when, |tree| tree.configure(text.as_bytes()));
        view.tell(Told { zxid, what: What::Nodes(events) });
    }

    /// Ends a session, with all of its nodes.
    fn end(&self, view: &mut StateView<'_>, when: (i64, &Context), session: i64) -> i64 {
        let (zxid, (), events) = self.change(view, when, |tree| tree.end_session(session));
        self.sessions(view).forget(session);
        view.tell(Told { zxid, what: What::Ended { session, events } });
        zxid
    }

    /// Ends the sessions whose time is over. Each end is a transaction.
    fn end_those_over(&self, view: &mut StateView<'_>, ctx: &Context) {
        for session in self.sessions(view).over(ctx) {
            self.end(view, (0, ctx), session);
        }
    }

    /// Deletes nodes that are due. Each is a transaction.
    fn end_those_due(&self, view: &mut StateView<'_>, ctx: &Context) {
        for path in tree::due_until(view, ctx.time()) {
            let (zxid, (), events) = self.change(view, (0, ctx), |tree| tree.end_due(&path));
            if !events.is_empty() {
                view.tell(Told { zxid, what: What::Nodes(events) });
            }
        }
    }
}

/// Takes the next transaction for a session's beginning.
fn take_next(view: &mut StateView<'_>) {
    Meta::next(view).put(view);
}

/// The reads.
impl ZooKeeper {
    /// Appends the answer to a client's read, from this state.
    pub fn read(&self, view: &StateView<'_>, caller: &Caller, asked: &Asked<'_>, out: &mut Vec<u8>) {
        let zxid = last_zxid(view);
        out.long(zxid);
        let founded = StateView::reading(&self.founded);
        let view = if zxid == 0 { &founded } else { view };
        let at = out.len();
        out.int(0);
        let request = asked.request(|op| !op.writes());
        if let Err(error) = request.and_then(|request| answer(view, caller, &request, out)) {
            out.truncate(at);
            out.int(error.code());
        }
    }

    /// Appends what the tree says of the servers, whoever asks: data and numbers.
    pub fn configuration(&self, view: &StateView<'_>, out: &mut Vec<u8>) {
        let whoever = [Id { scheme: b"super".into(), id: Vec::new() }];
        if let Ok(found) = tree::data(view, tree::CONFIG.as_bytes(), &whoever) {
            out.bytes(found.value.as_deref());
            found.stat.write(out);
        }
    }

    /// A node's numbers and rights, for watches.
    pub fn seen<'v>(&'v self, view: &'v StateView<'_>, path: &[u8]) -> Option<tree::Seen> {
        let founded = StateView::reading(&self.founded);
        tree::seen(if last_zxid(view) == 0 { &founded } else { view }, path)
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
                if at > READ_BYTES_MAX {
                    return Err(ZkError::BadArguments);
                }
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
    fn execute(&self, view: &mut StateView<'_>, command: &[u8], ctx: &Context, reply: &mut ReplySink<'_>) {
        let mut out = Vec::new();
        if self.run(view, command, ctx, &mut out).is_err() {
            out.clear();
            out.long(last_zxid(view));
            out.int(ZkError::Marshalling.code());
        }
        reply.write(&out);
    }

    fn query(&self, view: &StateView<'_>, query: &[u8], _: &Context, reply: &mut ReplySink<'_>) {
        let mut out = Vec::new();
        match read_query(query) {
            Ok((caller, asked)) => self.read(view, &caller, &asked, &mut out),
            Err(Malformed) => {
                out.long(last_zxid(view));
                out.int(ZkError::Marshalling.code());
            }
        }
        reply.write(&out);
    }

    /// All writes take the next transaction, so they run one after the other.
    fn hints(&self, _: &[u8], uses: &mut dyn FnMut(KeyUse<'_>)) -> bool {
        uses(KeyUse::Write(META));
        true
    }

    /// Deletions, and what keeps sessions alive: a session that ended for a full disk would take its locks along.
    fn frees(&self, command: &[u8]) -> bool {
        let deletes =
            |request: &Request<'_>| matches!(request, Request::Delete { .. } | Request::Check { .. });
        match Command::read(command) {
            Ok(Command::Live { .. } | Command::Open(_) | Command::Attach { .. }) => true,
            Ok(Command::Write { asked, .. }) => match asked.request(Op::writes) {
                Ok(Request::Plain(Op::CloseSession)) => true,
                Ok(Request::Multi { list, .. }) => !list.is_empty() && list.iter().all(deletes),
                Ok(request) => deletes(&request),
                Err(_) => false,
            },
            _ => false,
        }
    }

    fn next_deadline(&self, view: &StateView<'_>) -> Option<AgreedTime> {
        sessions::next_step(view, self.rules.tick).into_iter().chain(tree::next_due(view)).min()
    }

    fn deadline_reached(&self, view: &mut StateView<'_>, ctx: &Context) {
        if sessions::next_step(view, self.rules.tick).is_some_and(|due| due <= ctx.time()) {
            self.end_those_over(view, ctx);
        }
        self.end_those_due(view, ctx);
    }

    fn restored(&self, view: &StateView<'_>) -> Option<Box<dyn Any + Send>> {
        Some(Box::new(Told { zxid: last_zxid(view), what: What::Replaced }))
    }

    fn observer(&self) -> Option<Box<dyn Observer>> {
        self.feed.clone().map(|feed| Box::new(feed) as Box<dyn Observer>)
    }
}
