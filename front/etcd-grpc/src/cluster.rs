//! The cluster service: lists the members. Operators' requests change them (`operator.rs`).
//!
//! In etcd the number of a member is made up when it is added, and the member learns it when it starts. Here a replica has an id, and its
//! data directory a number. Both are drawn here when a member is added, and `quorate member make` makes the directory with them. A replica
//! always joins as a learner. If it was not asked for as a learner, it is promoted once it has caught up. Tests: `tests/all/members.rs`.

use crate::auth::asker;
use crate::backend::Backend;
use crate::errors::{RESOURCE_EXHAUSTED, Refusal};
use crate::header::{Header, member_number};
use crate::operator::{BAD_URLS, NOT_FOUND_MEMBER, Operator};
use crate::password::{self, NO_CHANCE};
use crate::pb::etcdserverpb::cluster_server::Cluster;
use crate::pb::etcdserverpb::{
    Member, MemberAddRequest, MemberAddResponse, MemberListRequest, MemberListResponse, MemberPromoteRequest,
    MemberPromoteResponse, MemberRemoveRequest, MemberRemoveResponse, MemberUpdateRequest,
    MemberUpdateResponse,
};
use bytes::Bytes;
use quorate_etcd::proto::{self, Fields, Value};
use quorate_etcd::{AuthQuery, Command, Query};
use quorate_kit::{Look, Seen};
use quorate_types::{ClusterId, Incarnation, ReplicaId};
use quorate_wire::MemberRequest;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;
use tonic::{Request, Response, Status};

/// How long to wait after a failed announcement.
const AGAIN: Duration = Duration::from_millis(500);

pub(crate) struct ClusterService {
    pub(crate) backend: Backend,
    pub(crate) header: Arc<Header>,
    pub(crate) cluster: ClusterId,
    pub(crate) look: Look,
    pub(crate) operator: Arc<Operator>,
    /// `http://` or `https://`.
    pub(crate) scheme: &'static str,
}

/// Writes this member's address into the store; tries again until that is done.
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

/// The announcements of members, by their numbers.
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
            let client_ur_ls = urls.remove(&number).unwrap_or_default();
            // Without a name a member has not started yet: so clients take it.
            let is_new = member.learner && client_ur_ls.is_empty();
            Member {
                id: number,
                name: if is_new { String::new() } else { format!("replica-{}", member.replica) },
                peer_ur_ls: vec![format!("{}{}", self.scheme, member.address)],
                client_ur_ls,
                is_learner: member.learner,
            }
        });
        Ok((done.revision, members.collect()))
    }
}

/// How often the replica to be promoted is looked at; and for how long.
const LOOK: Duration = Duration::from_millis(200);
const JOINING: Duration = Duration::from_secs(24 * 3600);
/// Ids of replicas lie below those that the wire format reserves.
const ID_MAX: u16 = u16::MAX - 1024;

/// The address of a member, as `host:port`.
fn address(urls: &[String]) -> Result<String, Refusal> {
    let [url] = urls else { return Err(BAD_URLS) };
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://")).ok_or(BAD_URLS)?;
    let (host, port) = rest.rsplit_once(':').ok_or(BAD_URLS)?;
    let plain = |c: char| c.is_ascii_alphanumeric() || ".-_:[]%".contains(c);
    let is_port = port.parse::<u16>().is_ok_and(|port| port != 0);
    if host.is_empty() || !host.chars().all(plain) || !is_port { Err(BAD_URLS) } else { Ok(rest.to_owned()) }
}

/// An id that no replica of the cluster ever had.
fn unused(seen: &Seen) -> Option<u16> {
    let known = seen.members.iter().map(|member| member.replica).chain(seen.used.iter().copied());
    let next = known.max().unwrap_or(0).checked_add(1)?;
    (next <= ID_MAX).then_some(next)
}

impl ClusterService {
    fn number(&self, replica: u16) -> u64 {
        member_number(self.cluster, ReplicaId::new(replica))
    }

    /// The replica with this number.
    async fn replica(&self, number: u64) -> Result<ReplicaId, Refusal> {
        let seen = self.operator.asks.standing().await?;
        let found = seen.members.iter().find(|member| self.number(member.replica) == number);
        found.map(|member| ReplicaId::new(member.replica)).ok_or(NOT_FOUND_MEMBER)
    }

    /// Changes the members, and gives the new list.
    async fn change(&self, request: MemberRequest) -> Result<(i64, Vec<Member>), Status> {
        self.operator.asks.change(request).await.map_err(Refusal::from)?;
        self.members(false).await
    }

    async fn add(&self, request: &MemberAddRequest) -> Result<ReplicaId, Refusal> {
        let address = address(&request.peer_ur_ls)?;
        let seen = self.operator.asks.standing().await?;
        let replica = ReplicaId::new(unused(&seen).ok_or(NO_IDS)?);
        let incarnation = password::number().map(Incarnation::new).ok_or(NO_CHANCE)?;
        self.operator.asks.change(MemberRequest::Add { replica, address, incarnation, key: None }).await?;
        if !request.is_learner {
            tokio::spawn(promote_in_time(self.operator.clone(), replica));
        }
        Ok(replica)
    }
}

const NO_IDS: Refusal = Refusal::new(RESOURCE_EXHAUSTED, "etcdserver: all ids of replicas are used up");

/// Promotes a replica as soon as it has caught up. Stops when it is gone or already a voter.
async fn promote_in_time(operator: Arc<Operator>, replica: ReplicaId) {
    let until = Instant::now() + JOINING;
    while Instant::now() < until {
        tokio::time::sleep(LOOK).await;
        let Ok(seen) = operator.asks.standing().await else { continue };
        match seen.member(replica.number()) {
            Some(member) if member.learner && member.caught_up => {
                // It may be that nothing can be changed at this moment.
                let _ = operator.asks.change(MemberRequest::Promote(replica)).await;
            }
            Some(member) if member.learner => {}
            _ => return,
        }
    }
}

#[tonic::async_trait]
impl Cluster for ClusterService {
    async fn member_list(
        &self,
        request: Request<MemberListRequest>,
    ) -> Result<Response<MemberListResponse>, Status> {
        self.backend.on_behalf_of(asker(&request)).may(AuthQuery::IsNamed).await?;
        let (revision, members) = self.members(request.get_ref().linearizable).await?;
        Ok(Response::new(MemberListResponse { header: self.header.message(revision), members }))
    }

    async fn member_add(
        &self,
        request: Request<MemberAddRequest>,
    ) -> Result<Response<MemberAddResponse>, Status> {
        self.operator.allow(&asker(&request)).await?;
        let replica = self.add(request.get_ref()).await?;
        let (revision, members) = self.members(false).await?;
        let number = self.number(replica.number());
        let member = members.iter().find(|member| member.id == number).cloned();
        Ok(Response::new(MemberAddResponse { header: self.header.message(revision), member, members }))
    }

    async fn member_remove(
        &self,
        request: Request<MemberRemoveRequest>,
    ) -> Result<Response<MemberRemoveResponse>, Status> {
        self.operator.allow(&asker(&request)).await?;
        let replica = self.replica(request.get_ref().id).await?;
        let (revision, members) = self.change(MemberRequest::Remove(replica)).await?;
        Ok(Response::new(MemberRemoveResponse { header: self.header.message(revision), members }))
    }

    async fn member_update(
        &self,
        request: Request<MemberUpdateRequest>,
    ) -> Result<Response<MemberUpdateResponse>, Status> {
        self.operator.allow(&asker(&request)).await?;
        let address = address(&request.get_ref().peer_ur_ls)?;
        let replica = self.replica(request.get_ref().id).await?;
        let (revision, members) = self.change(MemberRequest::Move { replica, address }).await?;
        Ok(Response::new(MemberUpdateResponse { header: self.header.message(revision), members }))
    }

    async fn member_promote(
        &self,
        request: Request<MemberPromoteRequest>,
    ) -> Result<Response<MemberPromoteResponse>, Status> {
        self.operator.allow(&asker(&request)).await?;
        let replica = self.replica(request.get_ref().id).await?;
        let (revision, members) = self.change(MemberRequest::Promote(replica)).await?;
        Ok(Response::new(MemberPromoteResponse { header: self.header.message(revision), members }))
    }
}
