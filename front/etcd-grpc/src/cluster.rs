//! The cluster service: who the members are. Changing them is an operator's work and goes through `quorate member`.

use crate::backend::Backend;
use crate::header::{Header, member_number};
use crate::pb::etcdserverpb::cluster_server::Cluster;
use crate::pb::etcdserverpb::{
    Member, MemberAddRequest, MemberAddResponse, MemberListRequest, MemberListResponse, MemberPromoteRequest,
    MemberPromoteResponse, MemberRemoveRequest, MemberRemoveResponse, MemberUpdateRequest,
    MemberUpdateResponse,
};
use crate::server::Look;
use bytes::Bytes;
use quorate_etcd::proto::{self, Fields, Value};
use quorate_etcd::{Command, Query};
use quorate_types::{ClusterId, ReplicaId};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tonic::{Request, Response, Status};

/// How long to wait before announcing again after it failed.
const AGAIN: Duration = Duration::from_millis(500);

pub(crate) struct ClusterService {
    pub(crate) backend: Backend,
    pub(crate) header: Arc<Header>,
    pub(crate) cluster: ClusterId,
    pub(crate) look: Look,
    /// `http://` or `https://`.
    pub(crate) scheme: &'static str,
}

/// Notes in the store where this member listens, until that is done.
pub(crate) async fn announce(backend: Backend, member: u64, url: String) {
    let mut message = Vec::new();
    proto::int_field(&mut message, 1, member as i64);
    proto::bytes_field(&mut message, 2, url.as_bytes());
    let message = Bytes::from(message);
    loop {
        let known = match backend.read(&Query::Announced).await {
            Ok(done) => Fields::of(&done.body).any(|field| field == Ok((1, Value::Bytes(&message)))),
            Err(_) => {
                tokio::time::sleep(AGAIN).await;
                continue;
            }
        };
        if known || backend.order(Command::Announce, message.clone()).await.is_ok() {
            return;
        }
        tokio::time::sleep(AGAIN).await;
    }
}

/// What members announced, by their numbers.
fn announced(body: &[u8]) -> BTreeMap<u64, Vec<String>> {
    let mut all: BTreeMap<u64, Vec<String>> = BTreeMap::new();
    for field in Fields::of(body) {
        let Ok((1, Value::Bytes(message))) = field else { continue };
        let mut member = 0;
        for field in Fields::of(message) {
            match field {
                Ok((1, Value::Number(number))) => member = number,
                Ok((2, Value::Bytes(url))) => {
                    all.entry(member).or_default().push(String::from_utf8_lossy(url).into_owned());
                }
                _ => {}
            }
        }
    }
    all
}

impl ClusterService {
    async fn members(&self, linearizable: bool) -> Result<(i64, Vec<Member>), Status> {
        let query = Query::Announced;
        let done =
            if linearizable { self.backend.read(&query).await? } else { self.backend.look(&query).await? };
        let mut urls = announced(&done.body);
        let seen = self.look.now().await.unwrap_or_default();
        let members = seen.members.into_iter().map(|member| {
            let number = member_number(self.cluster, ReplicaId::new(member.replica));
            Member {
                id: number,
                name: format!("replica-{}", member.replica),
                peer_ur_ls: vec![format!("{}{}", self.scheme, member.address)],
                client_ur_ls: urls.remove(&number).unwrap_or_default(),
                is_learner: member.learner,
            }
        });
        Ok((done.revision, members.collect()))
    }
}

fn by_operators<T>(command: &str) -> Result<Response<T>, Status> {
    Err(Status::unimplemented(format!(
        "members are changed by operators, with an operator's certificate: use `quorate {command}`"
    )))
}

#[tonic::async_trait]
impl Cluster for ClusterService {
    async fn member_list(
        &self,
        request: Request<MemberListRequest>,
    ) -> Result<Response<MemberListResponse>, Status> {
        let (revision, members) = self.members(request.get_ref().linearizable).await?;
        Ok(Response::new(MemberListResponse { header: self.header.message(revision), members }))
    }
    async fn member_add(&self, _: Request<MemberAddRequest>) -> Result<Response<MemberAddResponse>, Status> {
        by_operators("member add")
    }
    async fn member_remove(
        &self,
        _: Request<MemberRemoveRequest>,
    ) -> Result<Response<MemberRemoveResponse>, Status> {
        by_operators("member remove")
    }
    async fn member_update(
        &self,
        _: Request<MemberUpdateRequest>,
    ) -> Result<Response<MemberUpdateResponse>, Status> {
        by_operators("member replace")
    }
    async fn member_promote(
        &self,
        _: Request<MemberPromoteRequest>,
    ) -> Result<Response<MemberPromoteResponse>, Status> {
        by_operators("member add")
    }
}
