//! The key-value service, and the calls of the lease service that do not stream. Messages are passed on as they are.

use crate::backend::{Backend, Done};
use crate::calls::RpcCalls;
use crate::errors::{RESOURCE_EXHAUSTED, Refusal};
use crate::framing::framed;
use crate::header::Header;
use bytes::Bytes;
use quorate_etcd::proto::{self, Fields};
use quorate_etcd::{Command, EtcdError, Query, RangePage, RangeQuery};
use std::sync::Arc;

/// The most bytes of a response that is put together from pages.
const RESPONSE_BYTES_MAX: usize = 512 << 20;
/// Room for a response's header.
const HEADER_BYTES: usize = 48;

/// Answers calls with one message each way.
#[derive(Clone)]
pub(crate) struct Unary {
    pub(crate) backend: Backend,
    pub(crate) header: Arc<Header>,
    pub(crate) calls: Arc<RpcCalls>,
}

/// The fields of a `RangeRequest` that are needed here.
struct Shape {
    limit: i64,
    revision: i64,
    serializable: bool,
}

impl Shape {
    fn of(message: &[u8]) -> Result<Self, EtcdError> {
        let mut shape = Self { limit: 0, revision: 0, serializable: false };
        for field in Fields::of(message) {
            match field? {
                (3, value) => shape.limit = value.int()?,
                (4, value) => shape.revision = value.int()?,
                (7, value) => shape.serializable = value.flag()?,
                _ => {}
            }
        }
        Ok(shape)
    }
}

impl Unary {
    /// The response to a call, framed; `None`: there is no such call.
    pub(crate) async fn call(&self, path: &str, message: Bytes) -> Option<Result<Bytes, Refusal>> {
        let begun = self.calls.begin(path);
        let answer = self.answer(path, message).await?;
        begun.into_iter().for_each(|begun| begun.ends(&answer));
        Some(answer)
    }

    async fn answer(&self, path: &str, message: Bytes) -> Option<Result<Bytes, Refusal>> {
        let ordered = |command| self.order(command, message.clone());
        Some(match path {
            "/etcdserverpb.KV/Put" => ordered(Command::Put).await,
            "/etcdserverpb.KV/Range" => self.range(message).await,
            "/etcdserverpb.KV/Txn" if Command::Txn.only_reads(&message) => {
                self.read(&Query::Txn(&message)).await
            }
            "/etcdserverpb.KV/Txn" => ordered(Command::Txn).await,
            "/etcdserverpb.KV/DeleteRange" => ordered(Command::DeleteRange).await,
            "/etcdserverpb.KV/Compact" => ordered(Command::Compact).await,
            "/etcdserverpb.Lease/LeaseGrant" => ordered(Command::LeaseGrant).await,
            "/etcdserverpb.Lease/LeaseRevoke" => ordered(Command::LeaseRevoke).await,
            "/etcdserverpb.Lease/LeaseTimeToLive" => ordered(Command::LeaseTimeToLive).await,
            "/etcdserverpb.Lease/LeaseLeases" => self.read(&Query::Leases).await,
            _ => return None,
        })
    }

    /// The result of a command or query as a response.
    pub(crate) fn respond(&self, done: &Done) -> Bytes {
        framed(
            |out| {
                self.header.write(done.revision, out);
                out.extend_from_slice(&done.body);
            },
            HEADER_BYTES + done.body.len(),
        )
    }

    pub(crate) async fn order(&self, command: Command, message: Bytes) -> Result<Bytes, Refusal> {
        Ok(self.respond(&self.backend.order(command, message).await?))
    }

    async fn read(&self, query: &Query<'_>) -> Result<Bytes, Refusal> {
        Ok(self.respond(&self.backend.read(query).await?))
    }

    async fn page(&self, shape: &Shape, query: RangeQuery<'_>) -> Result<Done, Refusal> {
        let query = Query::Range(query);
        if shape.serializable {
            self.backend.read_here(&query).await
        } else {
            self.backend.read(&query).await
        }
    }

    /// Reads a range, in as many pages as it takes.
    async fn range(&self, message: Bytes) -> Result<Bytes, Refusal> {
        let shape = Shape::of(&message)?;
        let first = self.page(&shape, RangeQuery { continued: false, skip: 0, request: &message }).await?;
        let mut page = RangePage::decode(&first.body).ok_or(EtcdError::Malformed)?;
        if page.next.is_none() {
            let body = first.body.slice_ref(page.fields);
            return Ok(self.respond(&Done { revision: first.revision, body }));
        }
        let mut request = message.to_vec();
        // All pages are of one moment.
        if shape.revision <= 0 {
            proto::int_field(&mut request, 4, first.revision);
        }
        let mut fields = page.fields.to_vec();
        let mut entries = page.entries;
        let mut done;
        while let Some(next) = page.next {
            if fields.len() > RESPONSE_BYTES_MAX {
                return Err(Refusal::new(
                    RESOURCE_EXHAUSTED,
                    "etcdserver: the response is too large; use a limit",
                ));
            }
            let mut skip = entries;
            if let Some(key) = next {
                skip = 0;
                // The last field of a number counts.
                proto::bytes_field(&mut request, 1, key);
                if shape.limit > 0 {
                    proto::int_field(&mut request, 3, shape.limit - entries as i64);
                }
            }
            done = self.page(&shape, RangeQuery { continued: true, skip, request: &request }).await?;
            page = RangePage::decode(&done.body).ok_or(EtcdError::Malformed)?;
            fields.extend_from_slice(page.fields);
            entries += page.entries;
        }
        Ok(self.respond(&Done { revision: first.revision, body: fields.into() }))
    }
}
