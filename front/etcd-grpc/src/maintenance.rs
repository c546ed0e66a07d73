//! The maintenance service: status, hashes, snapshots and the leader; and gRPC's own health check.

use crate::auth::asker;
use crate::backend::Backend;
use crate::errors::Refusal;
use crate::header::{Header, member_number};
use crate::operator::Operator;
use crate::pb::etcdserverpb::alarm_request::AlarmAction;
use crate::pb::etcdserverpb::maintenance_server::Maintenance;
use crate::pb::etcdserverpb::{
    AlarmMember, AlarmRequest, AlarmResponse, AlarmType, DefragmentRequest, DefragmentResponse,
    DowngradeRequest, DowngradeResponse, HashKvRequest, HashKvResponse, HashRequest, HashResponse,
    MoveLeaderRequest, MoveLeaderResponse, SnapshotRequest, SnapshotResponse, StatusRequest, StatusResponse,
};
use crate::pb::health::health_check_response::ServingStatus;
use crate::pb::health::health_server::Health;
use crate::pb::health::{HealthCheckRequest, HealthCheckResponse};
use crate::saved;
use prost::Message as _;
use quorate_etcd::{AuthQuery, Command, EtcdError, HashPage, HashQuery, Query, SizeNow};
use quorate_kit::{Backups, Look};
use quorate_types::{ClusterId, ReplicaId, planted};
use std::pin::Pin;
use std::sync::Arc;
use tokio::sync::mpsc;
use tonic::codegen::tokio_stream::{Stream, wrappers::ReceiverStream};
use tonic::{Request, Response, Status};

/// The version of etcd whose interface this is; clients read it.
pub(crate) const VERSION: &str = "3.6.0";

#[derive(Clone)]
pub(crate) struct MaintenanceService {
    pub(crate) backend: Backend,
    pub(crate) header: Arc<Header>,
    pub(crate) cluster: ClusterId,
    pub(crate) look: Look,
    pub(crate) operator: Arc<Operator>,
    pub(crate) backups: Backups,
    /// What the store may hold; 0: there is no quota.
    pub(crate) quota_bytes: u64,
}

impl MaintenanceService {
    async fn allow<T>(&self, request: &Request<T>, query: AuthQuery<'_>) -> Result<(), Status> {
        Ok(self.backend.on_behalf_of(asker(request)).may(query).await.map(drop)?)
    }

    fn number(&self, replica: u16) -> u64 {
        member_number(self.cluster, ReplicaId::new(replica))
    }

    fn without_space(&self, replica: u16) -> AlarmMember {
        AlarmMember { member_id: self.number(replica), alarm: i32::from(AlarmType::Nospace) }
    }

    /// The alarms that clients set, and an alarm for each member whose disk is full.
    async fn alarms(&self) -> Result<(i64, Vec<AlarmMember>), Status> {
        let done = self.backend.read_here(&Query::Alarms).await?;
        let mut alarms = alarms_of(&done.body)?;
        let seen = self.look.now().await.unwrap_or_default();
        for alarm in seen.full.iter().map(|replica| self.without_space(*replica)) {
            if !alarms.contains(&alarm) {
                alarms.push(alarm);
            }
        }
        Ok((done.revision, alarms))
    }

    async fn hash_of(&self, revision: i64) -> Result<(i64, HashPage), Status> {
        let mut query = HashQuery { revision, after: None };
        loop {
            let done = self.backend.look(&Query::Hash(query.clone())).await?;
            let page = HashPage::decode(&done.body)
                .ok_or_else(|| Status::from(Refusal::from(EtcdError::Malformed)))?;
            if page.is_whole() {
                return Ok((done.revision, page));
            }
            query.after = Some(page);
        }
    }
}

fn alarms_of(body: &[u8]) -> Result<Vec<AlarmMember>, Status> {
    let decoded = AlarmResponse::decode(body).map_err(|_| Refusal::from(EtcdError::Malformed))?;
    Ok(decoded.alarms)
}

/// An alarm as etcd's status prints it.
fn text_of(alarm: &AlarmMember) -> String {
    format!("memberID:{} alarm:{} ", alarm.member_id, alarm.alarm().as_str_name())
}

fn fold(hash: u64) -> u32 {
    (hash ^ hash >> 32) as u32
}

type Responses<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

#[tonic::async_trait]
impl Maintenance for MaintenanceService {
    type SnapshotStream = Responses<SnapshotResponse>;

    async fn alarm(&self, request: Request<AlarmRequest>) -> Result<Response<AlarmResponse>, Status> {
        let message = request.get_ref();
        if message.action == i32::from(AlarmAction::Get) {
            self.allow(&request, AuthQuery::IsNamed).await?;
            let (revision, mut alarms) = self.alarms().await?;
            alarms
                .retain(|alarm| message.alarm == i32::from(AlarmType::None) || alarm.alarm == message.alarm);
            return Ok(Response::new(AlarmResponse { header: self.header.message(revision), alarms }));
        }
        self.allow(&request, AuthQuery::IsRoot).await?;
        let asker = self.backend.on_behalf_of(asker(&request));
        // A full disk ends by itself when there is room: of those there is nothing to clear.
        let done = asker.order(Command::Alarm, message.encode_to_vec().into()).await?;
        let alarms = alarms_of(&done.body)?;
        Ok(Response::new(AlarmResponse { header: self.header.message(done.revision), alarms }))
    }

    async fn status(&self, request: Request<StatusRequest>) -> Result<Response<StatusResponse>, Status> {
        self.allow(&request, if planted("status-for-all") { AuthQuery::IsNamed } else { AuthQuery::IsRoot })
            .await?;
        let done = self.backend.look(&Query::Size).await?;
        // A file is never empty, and etcdctl divides by its size.
        let bytes = SizeNow::decode(&done.body).map_or(0, |size| size.bytes as i64).max(1);
        let seen = self.look.now().await.unwrap_or_default();
        let own = self.header.member();
        let is_learner =
            seen.members.iter().any(|member| member.learner && self.number(member.replica) == own);
        let mut errors = if seen.leader.is_none() { vec!["etcdserver: no leader".into()] } else { vec![] };
        errors.extend(self.alarms().await?.1.iter().map(text_of));
        Ok(Response::new(StatusResponse {
            header: self.header.message(done.revision),
            version: VERSION.into(),
            db_size: bytes,
            leader: seen.leader.map_or(0, |leader| self.number(leader)),
            raft_index: seen.decided,
            raft_term: self.header.view(),
            raft_applied_index: seen.executed,
            errors,
            db_size_in_use: bytes,
            is_learner,
            storage_version: "3.6.0".into(),
            db_size_quota: self.quota_bytes as i64,
        }))
    }

    async fn defragment(
        &self,
        request: Request<DefragmentRequest>,
    ) -> Result<Response<DefragmentResponse>, Status> {
        self.allow(&request, AuthQuery::IsRoot).await?;
        // Room is given back as it comes free.
        let done = self.backend.look(&Query::Size).await?;
        Ok(Response::new(DefragmentResponse { header: self.header.message(done.revision) }))
    }

    async fn hash(&self, request: Request<HashRequest>) -> Result<Response<HashResponse>, Status> {
        self.allow(&request, AuthQuery::IsRoot).await?;
        let (revision, page) = self.hash_of(0).await?;
        Ok(Response::new(HashResponse { header: self.header.message(revision), hash: fold(page.hash) }))
    }

    async fn hash_kv(&self, request: Request<HashKvRequest>) -> Result<Response<HashKvResponse>, Status> {
        self.allow(&request, AuthQuery::IsRoot).await?;
        let (revision, page) = self.hash_of(request.get_ref().revision).await?;
        Ok(Response::new(HashKvResponse {
            header: self.header.message(revision),
            hash: fold(page.hash),
            compact_revision: page.compacted,
            hash_revision: page.revision,
        }))
    }

    async fn snapshot(
        &self,
        request: Request<SnapshotRequest>,
    ) -> Result<Response<Self::SnapshotStream>, Status> {
        self.operator.allow(&asker(&request)).await?;
        tracing::info!("a client of etcd has a snapshot made");
        Ok(Response::new(Box::pin(ReceiverStream::new(saved::begin(&self.backups)?))))
    }

    async fn move_leader(
        &self,
        request: Request<MoveLeaderRequest>,
    ) -> Result<Response<MoveLeaderResponse>, Status> {
        self.operator.allow(&asker(&request)).await?;
        let seen = self.look.now().await.unwrap_or_default();
        let target = request.get_ref().target_id;
        let named = seen.members.iter().find(|member| self.number(member.replica) == target);
        // No replica has the id 0.
        let target = named.map_or(0, |member| member.replica);
        self.operator.asks.move_leader(target).await.map_err(Refusal::from)?;
        let done = self.backend.look(&Query::Size).await?;
        Ok(Response::new(MoveLeaderResponse { header: self.header.message(done.revision) }))
    }

    async fn downgrade(&self, _: Request<DowngradeRequest>) -> Result<Response<DowngradeResponse>, Status> {
        Err(Status::unimplemented("there is nothing to downgrade: see `quorate upgrade`"))
    }
}

impl MaintenanceService {
    async fn serving(&self) -> HealthCheckResponse {
        let seen = self.look.now().await.unwrap_or_default();
        let status = if seen.is_healthy() { ServingStatus::Serving } else { ServingStatus::NotServing };
        HealthCheckResponse { status: status.into() }
    }
}

#[tonic::async_trait]
impl Health for MaintenanceService {
    type WatchStream = Responses<HealthCheckResponse>;

    async fn check(&self, _: Request<HealthCheckRequest>) -> Result<Response<HealthCheckResponse>, Status> {
        Ok(Response::new(self.serving().await))
    }

    async fn watch(&self, _: Request<HealthCheckRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let (sender, receiver) = mpsc::channel(1);
        let service = self.clone();
        tokio::spawn(async move {
            let mut told = None;
            while !sender.is_closed() {
                let now = service.serving().await;
                if told.as_ref() != Some(&now) {
                    told = Some(now);
                    if sender.send(Ok(now)).await.is_err() {
                        return;
                    }
                }
                tokio::time::sleep(std::time::Duration::from_secs(1)).await;
            }
        });
        Ok(Response::new(Box::pin(ReceiverStream::new(receiver))))
    }
}
