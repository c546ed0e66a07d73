//! `Zk` is a tree without a cluster: clients that ask the service, and read what it answers.

pub(crate) mod cluster;

use quorate_execute::{Context, InStore, Parallel, ReplySink, Service, StateView, Store};
use quorate_types::{AgreedTime, Digest, Seq};
use quorate_zookeeper::command::{Command, Opening, write_command, write_query};
use quorate_zookeeper::error::ZkError;
use quorate_zookeeper::jute::Reader;
use quorate_zookeeper::op::Op;
use quorate_zookeeper::records::{Acl, Stat};
use quorate_zookeeper::request::{Create, Mode, Request};
use quorate_zookeeper::service::{Told, ZooKeeper};
use quorate_zookeeper::tree::{Caller, Count, Id, Rules};

/// The agreed time at the beginning, in milliseconds.
pub(crate) const AGREED_MS: u64 = 1 << 40;

/// The tree, and the client that asks.
pub(crate) struct Zk {
    service: InStore<Parallel<ZooKeeper>>,
    pub(crate) caller: Caller,
    /// The transaction of the last answer.
    pub(crate) zxid: i64,
    pub(crate) time_ms: i64,
    /// The agreed time, in milliseconds.
    pub(crate) agreed_ms: u64,
}

/// What a multi gave: the number of the operation and its record, or the number of an error.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Made(String, Option<Stat>),
    Set(Stat),
    Nothing,
    Error(i32),
}

impl Zk {
    pub(crate) fn new() -> Self {
        let mut zk = Self::with(Store::new());
        zk.open();
        zk
    }

    /// The tree in this state, and a client without a session.
    pub(crate) fn with(store: Store) -> Self {
        let caller = Caller { session: 0, attached: 0, ids: vec![id("ip", "127.0.0.1")] };
        let service = InStore::with(Parallel::new(strict()), store);
        Self { service, caller, zxid: 0, time_ms: 1000, agreed_ms: AGREED_MS }
    }

    /// The same state, with other rules.
    pub(crate) fn again(self, rules: Rules) -> Self {
        let store = Store::from_version(&self.service.objects().version());
        Self { service: InStore::with(Parallel::new(ZooKeeper::new(rules)), store), ..self }
    }

    /// Opens a session, and is its client from now on.
    pub(crate) fn open(&mut self) {
        let mut bytes = Vec::new();
        Command::Open(Opening { digest: [7; 32], timeout_ms: 30_000, server: 1 }).write(&mut bytes);
        self.enter(&bytes);
    }

    /// Opens or attaches a session, and is its client from now on.
    pub(crate) fn enter(&mut self, bytes: &[u8]) {
        let answer = self.command(bytes).expect("it is opened");
        let mut from = Reader::new(&answer);
        self.caller.session = from.long().expect("a session");
        self.caller.attached = from.int().expect("an attachment");
    }

    fn context(&self) -> Context {
        Context::at(Seq::FIRST, AgreedTime::from_nanos(self.agreed_ms * 1_000_000))
    }

    /// Time passes, and what is due is done.
    pub(crate) fn wait(&mut self, ms: u64) {
        self.agreed_ms += ms;
        let ctx = self.context();
        if self.service.next_deadline().is_some_and(|due| due <= ctx.time()) {
            self.service.deadline_reached(&ctx);
        }
    }

    /// When something is due, in milliseconds from now.
    pub(crate) fn due_in(&self) -> Option<u64> {
        let due = self.service.next_deadline()?;
        Some(due.since(self.context().time()).millis())
    }

    /// How much there is, as the state counts it.
    pub(crate) fn count(&self) -> Count {
        quorate_zookeeper::service::count(&StateView::reading(self.service.objects()))
    }

    /// How many entries the state has whose keys begin so.
    pub(crate) fn entries(&self, prefix: &[u8]) -> usize {
        let all = self.service.objects().range(prefix, None);
        all.take_while(|(key, _)| key.starts_with(prefix)).count()
    }

    /// The answer to a command, or to a query.
    pub(crate) fn ask(&mut self, request: &Request<'_>) -> Result<Vec<u8>, ZkError> {
        let mut bytes = Vec::new();
        if request.op().writes() {
            write_command(&self.caller, self.time_ms, request, &mut bytes);
            self.command(&bytes)
        } else {
            write_query(&self.caller, request, &mut bytes);
            self.query(&bytes)
        }
    }

    pub(crate) fn command(&mut self, bytes: &[u8]) -> Result<Vec<u8>, ZkError> {
        let mut reply = Vec::new();
        let ctx = self.context();
        self.service.execute(bytes, &ctx, &mut ReplySink::new(&mut reply, 1 << 24));
        self.heard(&reply)
    }

    pub(crate) fn query(&mut self, bytes: &[u8]) -> Result<Vec<u8>, ZkError> {
        let mut reply = Vec::new();
        let ctx = self.context();
        self.service.query(bytes, &ctx, &mut ReplySink::new(&mut reply, 1 << 24));
        self.heard(&reply)
    }

    fn heard(&mut self, reply: &[u8]) -> Result<Vec<u8>, ZkError> {
        let mut from = Reader::new(reply);
        self.zxid = from.long().expect("a transaction");
        match from.int().expect("an error or none") {
            0 => Ok(from.rest().to_vec()),
            error => Err(ZkError::of(error).expect("a known error")),
        }
    }

    pub(crate) fn root(&self) -> Digest {
        self.service.objects().version().root()
    }

    pub(crate) fn create(&mut self, path: &str, data: &[u8], mode: Mode) -> Result<String, ZkError> {
        self.create_with(path, Some(data), mode, &[Acl::OPEN])
    }

    pub(crate) fn create_with(
        &mut self,
        path: &str,
        data: Option<&[u8]>,
        mode: Mode,
        acl: &[Acl<'_>],
    ) -> Result<String, ZkError> {
        let answer = self.ask(&made(Op::Create, path, data, mode as i32, acl, 0))?;
        let path = Reader::new(&answer).bytes().expect("a path").unwrap_or_default();
        Ok(String::from_utf8_lossy(path).into_owned())
    }

    pub(crate) fn delete(&mut self, path: &str, version: i32) -> Result<(), ZkError> {
        self.ask(&Request::Delete { path: path.as_bytes(), version }).map(drop)
    }

    pub(crate) fn set(&mut self, path: &str, data: Option<&[u8]>, version: i32) -> Result<Stat, ZkError> {
        let answer = self.ask(&Request::SetData { path: path.as_bytes(), data, version })?;
        Ok(stat(&mut Reader::new(&answer)))
    }

    pub(crate) fn set_acl(&mut self, path: &str, acl: &[Acl<'_>], version: i32) -> Result<Stat, ZkError> {
        let acl = Some(acl.to_vec());
        let answer = self.ask(&Request::SetAcl { path: path.as_bytes(), acl, version })?;
        Ok(stat(&mut Reader::new(&answer)))
    }

    pub(crate) fn exists(&mut self, path: &str) -> Result<Stat, ZkError> {
        let answer = self.ask(&read(Op::Exists, path))?;
        Ok(stat(&mut Reader::new(&answer)))
    }

    pub(crate) fn data(&mut self, path: &str) -> Result<(Option<Vec<u8>>, Stat), ZkError> {
        let answer = self.ask(&read(Op::GetData, path))?;
        let mut from = Reader::new(&answer);
        let data = from.bytes().expect("data").map(<[u8]>::to_vec);
        Ok((data, stat(&mut from)))
    }

    pub(crate) fn children(&mut self, path: &str) -> Result<Vec<String>, ZkError> {
        let answer = self.ask(&read(Op::GetChildren, path))?;
        Ok(names(&mut Reader::new(&answer)))
    }

    /// The rights, as text.
    pub(crate) fn acl(&mut self, path: &str) -> Result<Vec<String>, ZkError> {
        let answer = self.ask(&Request::About { op: Op::GetAcl, path: path.as_bytes() })?;
        let list = Reader::new(&answer).list(Acl::read).expect("rights").unwrap_or_default();
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        Ok(list.iter().map(|acl| format!("{}:{}:{}", acl.perms, text(acl.scheme), text(acl.id))).collect())
    }

    pub(crate) fn multi(&mut self, list: Vec<Request<'_>>) -> Result<Vec<Part>, ZkError> {
        let answer = self.ask(&Request::Multi { op: Op::Multi, list })?;
        let (mut from, mut parts) = (Reader::new(&answer), Vec::new());
        loop {
            let (number, is_last, error) =
                (from.int().expect("a number"), from.flag().expect("a flag"), from.int().expect("an error"));
            if is_last {
                assert_eq!((number, error, from.rest()), (-1, -1, &[][..]));
                return Ok(parts);
            }
            parts.push(match Op::of(number) {
                None => {
                    assert_eq!((number, from.int()), (-1, Ok(error)), "an error is said twice");
                    Part::Error(error)
                }
                Some(Op::Create) => Part::Made(path(&mut from), None),
                Some(Op::Create2 | Op::CreateContainer | Op::CreateTtl) => {
                    Part::Made(path(&mut from), Some(stat(&mut from)))
                }
                Some(Op::SetData) => Part::Set(stat(&mut from)),
                Some(_) => Part::Nothing,
            });
        }
    }

    /// What happened to nodes since the last call: kind, path and transaction.
    pub(crate) fn events(&mut self) -> Vec<(i32, String, i64)> {
        let Some(told) = self.service.tells().and_then(|tells| tells.take_events()) else {
            return Vec::new();
        };
        let told = told.of::<Vec<Box<dyn std::any::Any + Send>>>().expect("what commands told");
        let told = told.into_iter().map(|told| *told.downcast::<Told>().expect("what servers must know"));
        let lists = told.map(|told| told.what.events().to_vec());
        lists.flatten().map(|event| (event.kind as i32, event.path, event.zxid)).collect()
    }
}

/// A service whose hard quotas refuse writes.
pub(crate) fn strict() -> ZooKeeper {
    ZooKeeper::new(strict_rules())
}

pub(crate) fn strict_rules() -> Rules {
    Rules { enforce_quotas: true, ..Rules::default() }
}

pub(crate) fn id(scheme: &str, id: &str) -> Id {
    Id { scheme: scheme.into(), id: id.into() }
}

pub(crate) fn made<'a>(
    op: Op,
    path: &'a str,
    data: Option<&'a [u8]>,
    flags: i32,
    acl: &[Acl<'a>],
    ttl_ms: i64,
) -> Request<'a> {
    Request::Create(Create { op, path: path.as_bytes(), data, acl: Some(acl.to_vec()), flags, ttl_ms })
}

pub(crate) fn read(op: Op, path: &str) -> Request<'_> {
    Request::Read { op, path: path.as_bytes(), watch: false }
}

pub(crate) fn stat(from: &mut Reader<'_>) -> Stat {
    Stat::read(from).expect("numbers")
}

pub(crate) fn path(from: &mut Reader<'_>) -> String {
    String::from_utf8_lossy(from.bytes().expect("a path").unwrap_or_default()).into_owned()
}

pub(crate) fn names(from: &mut Reader<'_>) -> Vec<String> {
    from.list(|from| Ok(path(from))).expect("names").unwrap_or_default()
}
