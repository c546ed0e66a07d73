//! The client of etcd without one: against a stand-in that keeps keys in memory, and answers wrongly when it is told to.

use crate::servers::address_of;
use crate::{behaves, bytes, connect, etcd_at};
use bytes::Bytes;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use quorate_etcd_grpc::pb::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use quorate_etcd_grpc::pb::etcdserverpb::kv_server::{Kv, KvServer};
use quorate_etcd_grpc::pb::etcdserverpb::{
    CompactionRequest, CompactionResponse, Compare, DeleteRangeRequest, DeleteRangeResponse, PutRequest,
    PutResponse, RangeRequest, RangeResponse, RequestOp, ResponseOp, TxnRequest, TxnResponse, request_op,
    response_op,
};
use quorate_etcd_grpc::pb::mvccpb::KeyValue;
use std::collections::BTreeMap;
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use tonic::codegen::Service as _;
use tonic::service::Routes;
use tonic::{Code, Request, Response, Status, async_trait};

const REGISTER: &str = "quorate/7/1/1";

/// What a server says instead of an answer.
#[derive(Clone, Copy)]
enum Instead {
    Refuses(Code, &'static str),
    /// It never answers.
    Hangs,
    /// A transaction that was not done, without what it found.
    Nothing,
    /// The key has a version below zero.
    BelowZero,
    /// Another key.
    Other,
    /// More than a client takes.
    Huge,
}

/// Keys in memory: how often each was written, and its value.
#[derive(Clone, Default)]
struct Keys {
    kept: Arc<Mutex<BTreeMap<Bytes, (i64, Bytes)>>>,
    /// For the next answer.
    instead: Arc<Mutex<Option<Instead>>>,
}

impl Keys {
    fn find(&self, key: Bytes, instead: Option<Instead>) -> RangeResponse {
        let kept = self.kept.lock().expect("no panic").get(&key).cloned();
        let entry = kept.map(|(version, value)| KeyValue { key, version, value, ..KeyValue::default() });
        let spoil = |entry: KeyValue| match instead {
            Some(Instead::BelowZero) => KeyValue { version: -1, ..entry },
            Some(Instead::Other) => KeyValue { key: "quorate/7/1/2".into(), ..entry },
            Some(Instead::Huge) => KeyValue { value: vec![0; 5 << 20].into(), ..entry },
            _ => entry,
        };
        RangeResponse { kvs: entry.map(spoil).into_iter().collect(), ..RangeResponse::default() }
    }

    /// What to say instead of the next answer.
    async fn spoil(&self) -> Result<Option<Instead>, Status> {
        let instead = self.instead.lock().expect("no panic").take();
        match instead {
            Some(Instead::Refuses(code, text)) => Err(Status::new(code, text)),
            Some(Instead::Hangs) => std::future::pending().await,
            instead => Ok(instead),
        }
    }
}

#[async_trait]
impl Kv for Keys {
    async fn range(&self, request: Request<RangeRequest>) -> Result<Response<RangeResponse>, Status> {
        let instead = self.spoil().await?;
        let RangeRequest { key, range_end, revision, serializable, .. } = request.into_inner();
        assert!(range_end.is_empty() && revision == 0 && !serializable, "one key, as it is now");
        Ok(Response::new(self.find(key, instead)))
    }

    async fn txn(&self, request: Request<TxnRequest>) -> Result<Response<TxnResponse>, Status> {
        let instead = self.spoil().await?;
        let TxnRequest { compare, success, failure } = request.into_inner();
        let [Compare { result, target, key, target_union: Some(TargetUnion::Version(version)), .. }] =
            &compare[..]
        else {
            panic!("one version is compared: {compare:?}");
        };
        assert_eq!(
            (*result, *target),
            (CompareResult::Equal.into(), CompareTarget::Version.into()),
            "for equality"
        );
        let [
            RequestOp { request: Some(request_op::Request::RequestPut(PutRequest { key: put, value, .. })) },
        ] = &success[..]
        else {
            panic!("one key is written: {success:?}");
        };
        let [RequestOp { request: Some(request_op::Request::RequestRange(RangeRequest { key: read, .. })) }] =
            &failure[..]
        else {
            panic!("or one is read: {failure:?}");
        };
        assert!(put == key && read == key, "all of one key");
        let succeeded = {
            let mut kept = self.kept.lock().expect("no panic");
            let (is, held) = kept.entry(key.clone()).or_default();
            let succeeds = is == version;
            if succeeds {
                (*is, *held) = (*is + 1, value.clone());
            }
            let never_written = *is == 0;
            if never_written {
                kept.remove(key);
            }
            succeeds
        };
        let found = response_op::Response::ResponseRange(self.find(key.clone(), instead));
        let response =
            if succeeded { response_op::Response::ResponsePut(PutResponse::default()) } else { found };
        let responses = match instead {
            Some(Instead::Nothing) => Vec::new(),
            _ => vec![ResponseOp { response: Some(response) }],
        };
        Ok(Response::new(TxnResponse { succeeded, responses, ..TxnResponse::default() }))
    }

    async fn put(&self, _: Request<PutRequest>) -> Result<Response<PutResponse>, Status> {
        panic!("an oracle writes no key without a look at it")
    }

    async fn delete_range(
        &self,
        _: Request<DeleteRangeRequest>,
    ) -> Result<Response<DeleteRangeResponse>, Status> {
        panic!("an oracle forgets nothing")
    }

    async fn compact(&self, _: Request<CompactionRequest>) -> Result<Response<CompactionResponse>, Status> {
        panic!("an oracle forgets nothing")
    }
}

/// A stand-in for an etcd, and where it listens.
fn stand_in(keys: &Keys) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let (address, routes) = (address_of(&listener), Routes::new(KvServer::new(keys.clone())));
    listener.set_nonblocking(true).expect("a socket");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let serve = async move {
        let listener = tokio::net::TcpListener::from_std(listener).expect("a socket");
        while let Ok((stream, _)) = listener.accept().await {
            let routes = routes.clone();
            tokio::spawn(async move {
                let service = service_fn(|request| {
                    let mut routes = routes.clone();
                    async move { routes.call(request).await }
                });
                let builder = auto::Builder::new(TokioExecutor::new());
                // Whoever connects may leave at any time.
                let _ = builder.serve_connection(TokioIo::new(stream), service).await;
            });
        }
    };
    std::thread::spawn(move || runtime.block_on(serve));
    address
}

/// All that an oracle must do. The first server of the list is away.
#[test]
fn it_is_an_oracle() {
    let address = stand_in(&Keys::default());
    let config = etcd_at(&["127.0.0.1:1".to_owned(), address]);
    behaves(connect(&config), connect(&config));
}

/// Whatever comes instead of an answer is an error that names the server and the reason; the next question is answered.
#[test]
fn a_wrong_answer_is_an_error_and_passes() {
    let keys = Keys::default();
    let address = stand_in(&keys);
    let mut oracle = connect(&etcd_at(std::slice::from_ref(&address)));
    assert_eq!(oracle.serve(REGISTER, Some((0, bytes("first")))), Ok((1, bytes("first"))));
    let read = None;
    let late = Some((0, bytes("late")));
    let no_right = Instead::Refuses(Code::PermissionDenied, "etcdserver: permission denied");
    for (swap, instead, why) in [
        (&read, no_right, "etcdserver: permission denied"),
        (&late, no_right, "etcdserver: permission denied"),
        (&read, Instead::Refuses(Code::Unavailable, ""), "unavailable"),
        (&read, Instead::Hangs, "imeout"),
        (&late, Instead::Hangs, "imeout"),
        (&late, Instead::Nothing, "another question"),
        (&read, Instead::BelowZero, "below zero"),
        (&late, Instead::BelowZero, "below zero"),
        (&read, Instead::Other, "another question"),
        (&late, Instead::Other, "another question"),
        (&read, Instead::Huge, "too large"),
    ] {
        *keys.instead.lock().expect("no panic") = Some(instead);
        let said = oracle.serve(REGISTER, swap.clone()).expect_err(why);
        assert!(said.starts_with(&address) && said.contains(why), "{said}, not: {why}");
        assert_eq!(oracle.serve(REGISTER, read.clone()), Ok((1, bytes("first"))), "after: {said}");
    }
}
