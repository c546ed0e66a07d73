//! What the tests of this package share: requests as values, and how they are asked.

use quorate_etcd::proto::{Fields, Value, bytes_field, flag_field, int_field, message_field, nested_field};
use quorate_etcd::{
    Command, Etcd, EtcdConfig, EtcdError, EventsPage, EventsQuery, Query, RangePage, RangeQuery, Reply,
};
use quorate_execute::{Context, InStore, ReplySink, Service as _, Tells};
use quorate_types::{AgreedTime, Seq, Span};

pub(crate) const ROOM: usize = 17 << 16;

/// `KeyValue`.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct Kv {
    pub(crate) key: Vec<u8>,
    pub(crate) create: i64,
    pub(crate) modified: i64,
    pub(crate) version: i64,
    pub(crate) value: Vec<u8>,
    pub(crate) lease: i64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RangeReq {
    pub(crate) key: Vec<u8>,
    pub(crate) end: Vec<u8>,
    pub(crate) limit: i64,
    pub(crate) revision: i64,
    pub(crate) order: i64,
    pub(crate) target: i64,
    pub(crate) keys_only: bool,
    pub(crate) count_only: bool,
    pub(crate) bounds: [i64; 4],
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PutReq {
    pub(crate) key: Vec<u8>,
    pub(crate) value: Vec<u8>,
    pub(crate) lease: i64,
    pub(crate) prev_kv: bool,
    pub(crate) ignore_value: bool,
    pub(crate) ignore_lease: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DeleteReq {
    pub(crate) key: Vec<u8>,
    pub(crate) end: Vec<u8>,
    pub(crate) prev_kv: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct CompareReq {
    pub(crate) relation: i64,
    pub(crate) target: i64,
    pub(crate) key: Vec<u8>,
    pub(crate) end: Vec<u8>,
    pub(crate) number: i64,
    pub(crate) value: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum OpReq {
    Range(RangeReq),
    Put(PutReq),
    Delete(DeleteReq),
    Txn(TxnReq),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TxnReq {
    pub(crate) compare: Vec<CompareReq>,
    pub(crate) success: Vec<OpReq>,
    pub(crate) failure: Vec<OpReq>,
}

impl RangeReq {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        bytes_field(out, 1, &self.key);
        bytes_field(out, 2, &self.end);
        int_field(out, 3, self.limit);
        int_field(out, 4, self.revision);
        int_field(out, 5, self.order);
        int_field(out, 6, self.target);
        flag_field(out, 8, self.keys_only);
        flag_field(out, 9, self.count_only);
        for (field, bound) in (10..).zip(self.bounds) {
            int_field(out, field, bound);
        }
    }
}

impl PutReq {
    pub(crate) fn new(key: &[u8], value: &[u8]) -> Self {
        Self { key: key.to_vec(), value: value.to_vec(), ..Self::default() }
    }
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        bytes_field(out, 1, &self.key);
        bytes_field(out, 2, &self.value);
        int_field(out, 3, self.lease);
        flag_field(out, 4, self.prev_kv);
        flag_field(out, 5, self.ignore_value);
        flag_field(out, 6, self.ignore_lease);
    }
}

impl DeleteReq {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        bytes_field(out, 1, &self.key);
        bytes_field(out, 2, &self.end);
        flag_field(out, 3, self.prev_kv);
    }
}

impl CompareReq {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        int_field(out, 1, self.relation);
        int_field(out, 2, self.target);
        bytes_field(out, 3, &self.key);
        match self.target {
            0 => int_field(out, 4, self.number),
            1 => int_field(out, 5, self.number),
            2 => int_field(out, 6, self.number),
            3 => message_field(out, 7, &self.value),
            _ => int_field(out, 8, self.number),
        }
        bytes_field(out, 64, &self.end);
    }
}

impl OpReq {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Self::Range(request) => nested_field(out, 1, |out| request.encode(out)),
            Self::Put(request) => nested_field(out, 2, |out| request.encode(out)),
            Self::Delete(request) => nested_field(out, 3, |out| request.encode(out)),
            Self::Txn(request) => nested_field(out, 4, |out| request.encode(out)),
        }
    }
}

impl TxnReq {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        self.compare.iter().for_each(|compare| nested_field(out, 1, |out| compare.encode(out)));
        self.success.iter().for_each(|operation| nested_field(out, 2, |out| operation.encode(out)));
        self.failure.iter().for_each(|operation| nested_field(out, 3, |out| operation.encode(out)));
    }
}

/// What a response says, of whatever kind.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub(crate) struct Response {
    /// Of the header; 0 where there is none.
    pub(crate) revision: i64,
    pub(crate) kvs: Vec<Kv>,
    pub(crate) more: bool,
    pub(crate) count: i64,
    pub(crate) succeeded: bool,
    pub(crate) responses: Vec<Response>,
}

pub(crate) fn kv(message: &[u8]) -> Kv {
    let mut kv = Kv::default();
    for field in Fields::of(message) {
        match field.expect("a message") {
            (1, Value::Bytes(key)) => kv.key = key.to_vec(),
            (2, Value::Number(number)) => kv.create = number as i64,
            (3, Value::Number(number)) => kv.modified = number as i64,
            (4, Value::Number(number)) => kv.version = number as i64,
            (5, Value::Bytes(value)) => kv.value = value.to_vec(),
            (6, Value::Number(number)) => kv.lease = number as i64,
            other => panic!("no field of an entry: {other:?}"),
        }
    }
    kv
}

/// The revision in a header.
fn header(message: &[u8]) -> i64 {
    Fields::of(message).map(|field| field.expect("a header")).fold(0, |_, (_, value)| value.int().unwrap())
}

impl Response {
    pub(crate) fn range(message: &[u8]) -> Self {
        let mut response = Self::default();
        for field in Fields::of(message) {
            match field.expect("a message") {
                (1, Value::Bytes(message)) => response.revision = header(message),
                (2, Value::Bytes(message)) => response.kvs.push(kv(message)),
                (3, Value::Number(more)) => response.more = more == 1,
                (4, Value::Number(count)) => response.count = count as i64,
                other => panic!("no field of a range: {other:?}"),
            }
        }
        response
    }

    pub(crate) fn put(message: &[u8]) -> Self {
        let mut response = Self::default();
        for field in Fields::of(message) {
            match field.expect("a message") {
                (1, Value::Bytes(message)) => response.revision = header(message),
                (2, Value::Bytes(message)) => response.kvs.push(kv(message)),
                other => panic!("no field of a put: {other:?}"),
            }
        }
        response
    }

    pub(crate) fn delete(message: &[u8]) -> Self {
        let mut response = Self::default();
        for field in Fields::of(message) {
            match field.expect("a message") {
                (1, Value::Bytes(message)) => response.revision = header(message),
                (2, Value::Number(count)) => response.count = count as i64,
                (3, Value::Bytes(message)) => response.kvs.push(kv(message)),
                other => panic!("no field of a delete: {other:?}"),
            }
        }
        response
    }

    pub(crate) fn txn(message: &[u8]) -> Self {
        let mut response = Self::default();
        for field in Fields::of(message) {
            match field.expect("a message") {
                (1, Value::Bytes(message)) => response.revision = header(message),
                (2, Value::Number(succeeded)) => response.succeeded = succeeded == 1,
                (3, Value::Bytes(message)) => {
                    let field = Fields::of(message).next().expect("an operation's response");
                    response.responses.push(match field.expect("a message") {
                        (1, Value::Bytes(message)) => Self::range(message),
                        (2, Value::Bytes(message)) => Self::put(message),
                        (3, Value::Bytes(message)) => Self::delete(message),
                        (4, Value::Bytes(message)) => Self::txn(message),
                        other => panic!("no response of an operation: {other:?}"),
                    });
                }
                other => panic!("no field of a transaction: {other:?}"),
            }
        }
        response
    }
}

/// An event: whether it deletes, what is after it, what was before.
pub(crate) type Event = (bool, Kv, Option<Kv>);

pub(crate) fn event(message: &[u8]) -> Event {
    let mut event = (false, Kv::default(), None);
    for field in Fields::of(message) {
        match field.expect("a message") {
            (1, Value::Number(kind)) => event.0 = kind == 1,
            (2, Value::Bytes(message)) => event.1 = kv(message),
            (3, Value::Bytes(message)) => event.2 = Some(kv(message)),
            other => panic!("no field of an event: {other:?}"),
        }
    }
    event
}

/// The service, and its time.
pub(crate) struct Subject {
    pub(crate) service: InStore<Etcd>,
    observer: Option<Box<dyn quorate_execute::Observer>>,
    pub(crate) now: AgreedTime,
    seq: u64,
}

impl Subject {
    pub(crate) fn new() -> Self {
        Self::with(Etcd::new(EtcdConfig::default()))
    }

    pub(crate) fn with(etcd: Etcd) -> Self {
        let mut service = InStore::new(etcd);
        let observer = service.tells().and_then(Tells::observer);
        Self { service, observer, now: AgreedTime::from_nanos(1 << 60), seq: 1 }
    }

    /// What changed is final.
    pub(crate) fn tell(&mut self) {
        if let Some((observer, events)) =
            self.observer.as_mut().zip(self.service.tells().and_then(Tells::take_events))
        {
            observer.told(events);
        }
    }

    fn ctx(&self) -> Context {
        Context::at(Seq::new(self.seq), self.now).with_seed(7)
    }

    pub(crate) fn raw(&mut self, command: &[u8], room: usize) -> Vec<u8> {
        self.seq += 1;
        let (ctx, mut out) = (self.ctx(), Vec::new());
        let mut sink = ReplySink::new(&mut out, room);
        self.service.execute(command, &ctx, &mut sink);
        assert!(!sink.overflown(), "every reply fits");
        self.tell();
        out
    }

    /// Runs a command; gives the revision and the fields of the response.
    pub(crate) fn run(
        &mut self,
        command: Command,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> Result<(i64, Vec<u8>), EtcdError> {
        let (mut message, mut bytes) = (Vec::new(), Vec::new());
        write(&mut message);
        command.encode(&message, &mut bytes);
        let reply = self.raw(&bytes, ROOM);
        Reply::decode(&reply).map(|done| (done.revision, done.body.to_vec()))
    }

    pub(crate) fn ask_raw(&self, query: &[u8], room: usize) -> Vec<u8> {
        let mut out = Vec::new();
        let mut sink = ReplySink::new(&mut out, room);
        self.service.query(query, &self.ctx(), &mut sink);
        assert!(!sink.overflown(), "every answer fits");
        out
    }

    pub(crate) fn ask(&self, query: &Query<'_>, room: usize) -> Result<(i64, Vec<u8>), EtcdError> {
        let mut bytes = Vec::new();
        query.encode(&mut bytes);
        let reply = self.ask_raw(&bytes, room);
        Reply::decode(&reply).map(|done| (done.revision, done.body.to_vec()))
    }

    pub(crate) fn put(&mut self, request: &PutReq) -> Result<Response, EtcdError> {
        let (revision, body) = self.run(Command::Put, |out| request.encode(out))?;
        Ok(Response { revision, ..Response::put(&body) })
    }

    pub(crate) fn delete(&mut self, request: &DeleteReq) -> Result<Response, EtcdError> {
        let (revision, body) = self.run(Command::DeleteRange, |out| request.encode(out))?;
        Ok(Response { revision, ..Response::delete(&body) })
    }

    pub(crate) fn txn(&mut self, request: &TxnReq) -> Result<Response, EtcdError> {
        let (revision, body) = self.run(Command::Txn, |out| request.encode(out))?;
        Ok(Response { revision, ..Response::txn(&body) })
    }

    pub(crate) fn compact(&mut self, revision: i64) -> Result<(), EtcdError> {
        self.run(Command::Compact, |out| int_field(out, 1, revision)).map(drop)
    }

    /// A whole range, by pages of this room, as whoever serves the network joins them.
    pub(crate) fn range(&self, request: &RangeReq, room: usize) -> Result<Response, EtcdError> {
        let mut message = Vec::new();
        request.encode(&mut message);
        let (mut fields, mut entries, mut continued, mut skip) = (Vec::new(), 0, false, 0);
        let mut first_revision = 0;
        loop {
            let query = Query::Range(RangeQuery { continued, skip, request: &message });
            let (revision, body) = self.ask(&query, room)?;
            first_revision = if continued { first_revision } else { revision };
            let page = RangePage::decode(&body).expect("a page");
            fields.extend_from_slice(page.fields);
            entries += page.entries;
            match page.next {
                None => return Ok(Response { revision: first_revision, ..Response::range(&fields) }),
                Some(Some(key)) => {
                    bytes_field(&mut message, 1, key);
                    if request.limit > 0 {
                        int_field(&mut message, 3, request.limit - entries as i64);
                    }
                }
                Some(None) => skip = entries,
            }
            if !continued && request.revision <= 0 {
                int_field(&mut message, 4, revision);
            }
            continued = true;
        }
    }

    /// All events that a watch would see, by pages of this room.
    pub(crate) fn events(&self, query: &EventsQuery<'_>, room: usize) -> Result<Vec<Event>, EtcdError> {
        let (mut query, mut events) = (query.clone(), Vec::new());
        loop {
            let (revision, body) = self.ask(&Query::Events(query.clone()), room)?;
            let page = EventsPage::decode(revision, &body).expect("a page");
            for field in Fields::of(page.events) {
                let (number, value) = field.expect("a field");
                assert_eq!(number, 11);
                events.push(event(value.bytes().expect("an event")));
            }
            if page.next_revision > page.revision {
                return Ok(events);
            }
            (query.revision, query.sub) = (page.next_revision, page.next_sub);
        }
    }

    /// Time passes, and what is due is done: so often as the service wants, but at most `times` times.
    pub(crate) fn pass(&mut self, span: Span, times: usize) {
        self.now = self.now.plus(span);
        for _ in 0..times {
            if self.service.next_deadline().is_none_or(|deadline| deadline > self.now) {
                return;
            }
            self.seq += 1;
            self.service.deadline_reached(&self.ctx());
            self.tell();
        }
    }
}
