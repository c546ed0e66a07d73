//! An etcd as the oracle: a key, whose version etcd counts.

use crate::{PATIENCE, one_of};
use bytes::Bytes;
use quorate_etcd_grpc::pb::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use quorate_etcd_grpc::pb::etcdserverpb::kv_client::KvClient;
use quorate_etcd_grpc::pb::etcdserverpb::request_op::Request;
use quorate_etcd_grpc::pb::etcdserverpb::response_op::Response;
use quorate_etcd_grpc::pb::etcdserverpb::{
    Compare, PutRequest, RangeRequest, RangeResponse, RequestOp, TxnRequest,
};
use quorate_runtime::{Held, Oracle, TlsFiles};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tonic::Status;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};

const OTHER: &str = "an answer to another question";

/// A client of etcd.
pub(crate) struct Etcd {
    endpoints: Vec<String>,
    /// The one that answered last, and the connection to it.
    at: usize,
    connected: Option<Channel>,
    tls: Option<ClientTlsConfig>,
    runtime: Runtime,
}

impl Etcd {
    pub(crate) fn new(endpoints: &[String], tls: Option<&TlsFiles>) -> Result<Self, String> {
        let runtime = Builder::new_current_thread().enable_all().build();
        Ok(Self {
            endpoints: endpoints.to_vec(),
            at: 0,
            connected: None,
            tls: tls.map(certificates).transpose()?,
            runtime: runtime.map_err(|why| format!("starting a runtime: {why}"))?,
        })
    }

    fn connect(&self, endpoint: &str) -> Result<Channel, String> {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let to = Endpoint::from_shared(format!("{scheme}://{endpoint}")).map_err(|why| why.to_string())?;
        let to = to.timeout(PATIENCE).tcp_keepalive(Some(Duration::from_secs(10)));
        let to = match &self.tls {
            Some(tls) => to.tls_config(tls.clone()).map_err(|why| with_causes(&why))?,
            None => to,
        };
        // The endpoint's own limit does not cover the TLS handshake.
        let connect = async { tokio::time::timeout(PATIENCE, to.connect()).await };
        let connected = self.runtime.block_on(connect).map_err(|_| "no connection in time".to_owned())?;
        connected.map_err(|why| with_causes(&why))
    }

    fn ask(&self, channel: Channel, register: &str, swap: Option<&Held>) -> Result<Held, String> {
        let key = Bytes::copy_from_slice(register.as_bytes());
        let range = RangeRequest { key: key.clone(), ..RangeRequest::default() };
        let mut client = KvClient::new(channel);
        let Some((version, value)) = swap else {
            let answer = self.runtime.block_on(client.range(range)).map_err(|why| in_words(&why))?;
            return held(&key, answer.get_ref());
        };
        let op = |request| RequestOp { request: Some(request) };
        let put = PutRequest { key: key.clone(), value: value.clone(), ..PutRequest::default() };
        let number = i64::try_from(*version).map_err(|_| "a version that etcd does not have".to_owned())?;
        let compare = Compare {
            result: CompareResult::Equal.into(),
            target: CompareTarget::Version.into(),
            key: key.clone(),
            target_union: Some(TargetUnion::Version(number)),
            ..Compare::default()
        };
        let txn = TxnRequest {
            compare: vec![compare],
            success: vec![op(Request::RequestPut(put))],
            failure: vec![op(Request::RequestRange(range))],
        };
        let answer = self.runtime.block_on(client.txn(txn)).map_err(|why| in_words(&why))?;
        let answer = answer.into_inner();
        if answer.succeeded {
            return Ok((version + 1, value.clone()));
        }
        match answer.responses.into_iter().next().and_then(|op| op.response) {
            Some(Response::ResponseRange(range)) => held(&key, &range),
            _ => Err(OTHER.to_owned()),
        }
    }
}

/// The version and value of this key.
fn held(key: &[u8], range: &RangeResponse) -> Result<Held, String> {
    let Some(entry) = range.kvs.first() else { return Ok(Held::default()) };
    if entry.key != key {
        return Err(OTHER.to_owned());
    }
    let version = u64::try_from(entry.version).map_err(|_| "a version below zero".to_owned())?;
    Ok((version, entry.value.clone()))
}

/// Why etcd, or the way to it, refuses.
fn in_words(why: &Status) -> String {
    if why.message().is_empty() { why.code().to_string() } else { why.message().to_owned() }
}

fn certificates(files: &TlsFiles) -> Result<ClientTlsConfig, String> {
    let read = |path: &std::path::Path| {
        std::fs::read(path).map_err(|why| format!("can not read {}: {why}", path.display()))
    };
    let (ca, certificate, key) = (read(&files.ca)?, read(&files.certificate)?, read(&files.key)?);
    let tls = ClientTlsConfig::new().ca_certificate(Certificate::from_pem(ca));
    Ok(tls.identity(Identity::from_pem(certificate, key)))
}

/// An error with what caused it: tonic's own text says only that something failed.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        text = format!("{text}: {next}");
        cause = next.source();
    }
    text
}

impl Oracle for Etcd {
    fn serve(&mut self, register: &str, swap: Option<Held>) -> Result<Held, String> {
        let (mut at, mut connected) = (self.at, self.connected.take());
        let answer = one_of(&self.endpoints, &mut at, |endpoint| {
            // A connection that failed is not used again.
            let channel = match connected.take() {
                Some(channel) => channel,
                None => self.connect(endpoint)?,
            };
            let answer = self.ask(channel.clone(), register, swap.as_ref())?;
            connected = Some(channel);
            Ok(answer)
        });
        (self.at, self.connected) = (at, connected);
        answer
    }

    fn name(&self) -> String {
        format!("etcd at {}", self.endpoints.join(", "))
    }
}
