//! Clients that put, read, swap and delete a few keys, alone and several at once.
//!
//! Every value is written once, so that the checkers can tell which write a read saw.

use crate::etcd_kills::clients::{Client, Read, Written};
use crate::rig::recorder::text;
use quorate_etcd_grpc::pb::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use quorate_etcd_grpc::pb::etcdserverpb::request_op::Request;
use quorate_etcd_grpc::pb::etcdserverpb::response_op::Response;
use quorate_etcd_grpc::pb::etcdserverpb::{
    Compare, DeleteRangeRequest, PutRequest, RangeRequest, RequestOp, ResponseHeader, TxnRequest,
};
use quorate_etcd_grpc::pb::mvccpb::KeyValue;
use quorate_history::{Answer, Event, Op, Outcome};
use std::collections::BTreeMap;

pub(crate) const PREFIX: &str = "w/";
const KEYS: u64 = 8;
/// Between two operations, at most.
const PAUSE_MS: u64 = 12;

struct Writer {
    client: Client,
    values: u64,
    /// What it saw last under a key, so that a swap has a chance.
    known: BTreeMap<String, Option<String>>,
}

pub(crate) async fn write(client: Client) {
    let mut writer = Writer { client, values: 0, known: BTreeMap::new() };
    while !writer.client.is_stopped() {
        let key = writer.key();
        let answered = match writer.client.random.below(100) {
            0..35 => writer.put(key).await,
            35..60 => writer.get(key).await,
            60..80 => writer.swap(key).await,
            80..87 => writer.delete(key).await,
            _ => writer.put_two(key).await,
        };
        if !answered {
            writer.client.elsewhere().await;
        }
        writer.client.nap(PAUSE_MS).await;
    }
}

pub(crate) fn operation(request: Request) -> RequestOp {
    RequestOp { request: Some(request) }
}

pub(crate) fn get(key: &str) -> RangeRequest {
    RangeRequest { key: key.to_owned().into(), ..RangeRequest::default() }
}

pub(crate) fn put(key: &str, value: &str) -> PutRequest {
    PutRequest { key: key.to_owned().into(), value: value.to_owned().into(), ..PutRequest::default() }
}

/// The key was made at this revision; 0: it is not there.
pub(crate) fn made_at(key: &str, revision: i64) -> Compare {
    Compare {
        result: CompareResult::Equal.into(),
        target: CompareTarget::Create.into(),
        key: key.to_owned().into(),
        target_union: Some(TargetUnion::CreateRevision(revision)),
        ..Compare::default()
    }
}

fn holds(key: &str, value: &str) -> Compare {
    Compare {
        result: CompareResult::Equal.into(),
        target: CompareTarget::Value.into(),
        key: key.to_owned().into(),
        target_union: Some(TargetUnion::Value(value.to_owned().into())),
        ..Compare::default()
    }
}

pub(crate) fn revision_of(header: Option<ResponseHeader>) -> i64 {
    header.expect("every response has a header").revision
}

impl Writer {
    fn key(&mut self) -> String {
        format!("{PREFIX}k{}", self.client.random.below(KEYS))
    }

    fn value(&mut self) -> String {
        self.values += 1;
        format!("{}-{}", self.client.number, self.values)
    }

    fn now(&self) -> u64 {
        self.client.shared.recorder.now()
    }

    fn push(&self, key: &str, op: Op, call: u64, outcome: Outcome) {
        let event = Event { client: self.client.number, key: key.to_owned(), op, call, outcome };
        self.client.shared.recorder.push(event);
    }

    /// A write of which nobody knows; whether it was answered, which it was not.
    fn unknown(&self, key: &str, op: Op, call: u64) -> bool {
        self.push(key, op, call, Outcome::Unknown { ret: Some(self.now()) });
        false
    }

    fn wrote(&mut self, key: &str, value: Option<String>, revision: i64, (call, ret): (u64, u64)) {
        self.known.insert(key.to_owned(), value.clone());
        self.client.shared.wrote(Written { key: key.to_owned(), value, revision, call, ret });
    }

    fn saw(&mut self, key: &str, kvs: &[KeyValue], revision: i64, (call, ret): (u64, u64)) {
        let found = kvs.first().map(|kv| (text(&kv.value), kv.mod_revision));
        let value = found.clone().map(|(value, _)| value);
        self.known.insert(key.to_owned(), value.clone());
        self.push(key, Op::Get, call, Outcome::Ok { ret, answer: Answer::Value(value) });
        self.client.shared.read(Read { key: key.to_owned(), found, revision, call, ret });
    }

    async fn put(&mut self, key: String) -> bool {
        let (value, call) = (self.value(), self.now());
        let op = Op::Put { value: value.clone() };
        let Ok(done) = self.client.kv().put(put(&key, &value)).await else {
            return self.unknown(&key, op, call);
        };
        let ret = self.now();
        self.push(&key, op, call, Outcome::Ok { ret, answer: Answer::Done });
        self.wrote(&key, Some(value), revision_of(done.into_inner().header), (call, ret));
        true
    }

    async fn get(&mut self, key: String) -> bool {
        let call = self.now();
        let Ok(read) = self.client.kv().range(get(&key)).await else { return false };
        let read = read.into_inner();
        self.saw(&key, &read.kvs, revision_of(read.header), (call, self.now()));
        true
    }

    async fn delete(&mut self, key: String) -> bool {
        let call = self.now();
        let request = DeleteRangeRequest { key: key.clone().into(), ..DeleteRangeRequest::default() };
        let Ok(done) = self.client.kv().delete_range(request).await else {
            return self.unknown(&key, Op::Delete, call);
        };
        let (done, ret) = (done.into_inner(), self.now());
        let existed = done.deleted > 0;
        self.push(&key, Op::Delete, call, Outcome::Ok { ret, answer: Answer::Flag(existed) });
        if existed {
            self.wrote(&key, None, revision_of(done.header), (call, ret));
        }
        true
    }

    /// Puts if the key holds what was seen last; reads it if not.
    async fn swap(&mut self, key: String) -> bool {
        let (value, call) = (self.value(), self.now());
        let expect = self.known.get(&key).cloned().flatten();
        let op = Op::Cas { expect: expect.clone(), value: value.clone() };
        let request = TxnRequest {
            compare: vec![expect.as_ref().map_or_else(|| made_at(&key, 0), |expect| holds(&key, expect))],
            success: vec![operation(Request::RequestPut(put(&key, &value)))],
            failure: vec![operation(Request::RequestRange(get(&key)))],
        };
        let Ok(done) = self.client.kv().txn(request).await else { return self.unknown(&key, op, call) };
        let (done, ret) = (done.into_inner(), self.now());
        let revision = revision_of(done.header);
        self.push(&key, op, call, Outcome::Ok { ret, answer: Answer::Flag(done.succeeded) });
        match done.responses.into_iter().next().and_then(|done| done.response) {
            Some(Response::ResponsePut(_)) if done.succeeded => {
                self.wrote(&key, Some(value), revision, (call, ret));
            }
            Some(Response::ResponseRange(read)) if !done.succeeded => {
                self.saw(&key, &read.kvs, revision, (call, ret));
            }
            other => self.client.shared.recorder.fault(format!("a swap was answered with {other:?}")),
        }
        true
    }

    /// Puts this key and another one, at one revision.
    async fn put_two(&mut self, key: String) -> bool {
        let mut other = self.key();
        while other == key {
            other = self.key();
        }
        let writes = [(key, self.value()), (other, self.value())];
        let call = self.now();
        let puts = writes.iter().map(|(key, value)| operation(Request::RequestPut(put(key, value))));
        let request = TxnRequest { success: puts.collect(), ..TxnRequest::default() };
        let done = self.client.kv().txn(request).await;
        let ret = self.now();
        for (key, value) in writes {
            let op = Op::Put { value: value.clone() };
            match &done {
                Ok(done) => {
                    let revision = revision_of(done.get_ref().header);
                    self.push(&key, op, call, Outcome::Ok { ret, answer: Answer::Done });
                    self.wrote(&key, Some(value), revision, (call, ret));
                }
                Err(_) => drop(self.unknown(&key, op, call)),
            }
        }
        done.is_ok()
    }
}
