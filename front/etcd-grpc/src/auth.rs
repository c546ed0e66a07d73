//! The service for users and roles. It hashes and compares passwords; the store does the rest.
//!
//! Tests: `tests/all/auth.rs`, and with etcdctl `front/cli/tests/all/etcd/auth.rs`.

use crate::asker::{Asker, digest};
use crate::backend::{Backend, Done};
use crate::errors::Refusal;
use crate::header::Header;
use crate::jwt::{Claims, Jwt};
use crate::password::{self, NO_CHANCE};
use crate::pb::etcdserverpb::auth_server::Auth;
use crate::pb::etcdserverpb::*;
use bytes::Bytes;
use prost::Message;
use quorate_etcd::{AuthQuery, Command, EtcdError, Query, proto};
use quorate_kit::Worker;
use std::sync::Arc;
use tonic::{Request, Response, Status};

/// How often a password is compared anew when users changed meanwhile.
const TRIES: usize = 5;

pub(crate) struct AuthService {
    pub(crate) backend: Backend,
    pub(crate) header: Arc<Header>,
    pub(crate) worker: Worker,
    /// Signs tokens; `None` where the store keeps tokens.
    pub(crate) jwt: Option<Arc<Jwt>>,
}

/// The caller that the connection noted in the request.
pub(crate) fn asker<T>(request: &Request<T>) -> Asker {
    request.extensions().get::<Asker>().cloned().unwrap_or_default()
}

impl AuthService {
    fn decode<T: Message + Default>(&self, done: &Done) -> Result<T, Status> {
        let mut bytes = Vec::with_capacity(done.body.len() + 48);
        self.header.write(done.revision, &mut bytes);
        bytes.extend_from_slice(&done.body);
        T::decode(bytes.as_slice()).map_err(|_| Refusal::from(EtcdError::Malformed).into())
    }

    async fn order<Q: Message, T: Message + Default>(
        &self,
        command: Command,
        request: Request<Q>,
    ) -> Result<Response<T>, Status> {
        let backend = self.backend.on_behalf_of(asker(&request));
        let message = Bytes::from(request.into_inner().encode_to_vec());
        Ok(Response::new(self.decode(&backend.order(command, message).await?)?))
    }

    async fn ask<Q, T: Message + Default>(
        &self,
        request: &Request<Q>,
        query: AuthQuery<'_>,
    ) -> Result<Response<T>, Status> {
        let backend = self.backend.on_behalf_of(asker(request));
        Ok(Response::new(self.decode(&backend.read(&Query::Auth(query)).await?)?))
    }

    /// The hash of a password, as a string of the request. A hash that the client itself sends is ignored.
    async fn hash(&self, password: String) -> Result<Vec<u8>, Status> {
        let hash = self.worker.run(move || password::hash(password.as_bytes())).await.flatten();
        hash.ok_or_else(|| NO_CHANCE.into())
    }

    /// Gives a token for the right password.
    async fn login(&self, name: &str, password: &str) -> Result<(Done, String), Refusal> {
        for _ in 0..TRIES {
            let known = self.backend.read(&Query::Auth(AuthQuery::Password(name.as_bytes()))).await?;
            let mut hash = &known.body[..];
            let revision = proto::read_number(&mut hash).ok_or(EtcdError::Malformed)?;
            let (hash, given) = (hash.to_vec(), password.to_owned());
            let fits = self.worker.run(move || password::matches(given.as_bytes(), &hash)).await;
            if !fits.ok_or(Refusal::STOPPED)? {
                return Err(EtcdError::AuthFailed.into());
            }
            if let Some(jwt) = &self.jwt {
                let token = jwt.sign(&Claims { name: name.to_owned(), revision }).ok_or(NO_CHANCE)?;
                return Ok((known, token));
            }
            let token = password::token().ok_or(NO_CHANCE)?;
            let mut message = Vec::new();
            proto::bytes_field(&mut message, 1, name.as_bytes());
            proto::int_field(&mut message, 2, revision as i64);
            proto::bytes_field(&mut message, 3, &digest(token.as_bytes()));
            match self.backend.order(Command::Authenticate, message.into()).await {
                Err(refusal) if refusal == EtcdError::AuthOldRevision.into() => {}
                done => return done.map(|done| (done, token)),
            }
        }
        Err(EtcdError::AuthOldRevision.into())
    }
}

#[tonic::async_trait]
impl Auth for AuthService {
    async fn auth_enable(
        &self,
        request: Request<AuthEnableRequest>,
    ) -> Result<Response<AuthEnableResponse>, Status> {
        self.order(Command::AuthEnable, request).await
    }
    async fn auth_disable(
        &self,
        request: Request<AuthDisableRequest>,
    ) -> Result<Response<AuthDisableResponse>, Status> {
        self.order(Command::AuthDisable, request).await
    }
    async fn auth_status(
        &self,
        request: Request<AuthStatusRequest>,
    ) -> Result<Response<AuthStatusResponse>, Status> {
        self.ask(&request, AuthQuery::Status).await
    }
    async fn authenticate(
        &self,
        request: Request<AuthenticateRequest>,
    ) -> Result<Response<AuthenticateResponse>, Status> {
        let request = request.into_inner();
        let (done, token) = self.login(&request.name, &request.password).await?;
        let header = self.header.message(done.revision);
        Ok(Response::new(AuthenticateResponse { header, token }))
    }
    async fn user_add(
        &self,
        request: Request<AuthUserAddRequest>,
    ) -> Result<Response<AuthUserAddResponse>, Status> {
        let backend = self.backend.on_behalf_of(asker(&request));
        let request = request.into_inner();
        let mut message = Vec::new();
        proto::bytes_field(&mut message, 1, request.name.as_bytes());
        if request.options.is_some_and(|options| options.no_password) {
            proto::nested_field(&mut message, 3, |out| proto::flag_field(out, 1, true));
        } else {
            proto::bytes_field(&mut message, 4, &self.hash(request.password).await?);
        }
        Ok(Response::new(self.decode(&backend.order(Command::UserAdd, message.into()).await?)?))
    }
    async fn user_get(
        &self,
        request: Request<AuthUserGetRequest>,
    ) -> Result<Response<AuthUserGetResponse>, Status> {
        let message = request.get_ref().encode_to_vec();
        self.ask(&request, AuthQuery::UserGet(&message)).await
    }
    async fn user_list(
        &self,
        request: Request<AuthUserListRequest>,
    ) -> Result<Response<AuthUserListResponse>, Status> {
        self.ask(&request, AuthQuery::UserList).await
    }
    async fn user_delete(
        &self,
        request: Request<AuthUserDeleteRequest>,
    ) -> Result<Response<AuthUserDeleteResponse>, Status> {
        self.order(Command::UserDelete, request).await
    }
    async fn user_change_password(
        &self,
        request: Request<AuthUserChangePasswordRequest>,
    ) -> Result<Response<AuthUserChangePasswordResponse>, Status> {
        let backend = self.backend.on_behalf_of(asker(&request));
        let request = request.into_inner();
        let mut message = Vec::new();
        proto::bytes_field(&mut message, 1, request.name.as_bytes());
        // An empty one is none at all, as in etcd: nobody can show it.
        if !request.password.is_empty() {
            proto::bytes_field(&mut message, 3, &self.hash(request.password).await?);
        }
        Ok(Response::new(self.decode(&backend.order(Command::UserChangePassword, message.into()).await?)?))
    }
    async fn user_grant_role(
        &self,
        request: Request<AuthUserGrantRoleRequest>,
    ) -> Result<Response<AuthUserGrantRoleResponse>, Status> {
        self.order(Command::UserGrantRole, request).await
    }
    async fn user_revoke_role(
        &self,
        request: Request<AuthUserRevokeRoleRequest>,
    ) -> Result<Response<AuthUserRevokeRoleResponse>, Status> {
        self.order(Command::UserRevokeRole, request).await
    }
    async fn role_add(
        &self,
        request: Request<AuthRoleAddRequest>,
    ) -> Result<Response<AuthRoleAddResponse>, Status> {
        self.order(Command::RoleAdd, request).await
    }
    async fn role_get(
        &self,
        request: Request<AuthRoleGetRequest>,
    ) -> Result<Response<AuthRoleGetResponse>, Status> {
        let message = request.get_ref().encode_to_vec();
        self.ask(&request, AuthQuery::RoleGet(&message)).await
    }
    async fn role_list(
        &self,
        request: Request<AuthRoleListRequest>,
    ) -> Result<Response<AuthRoleListResponse>, Status> {
        self.ask(&request, AuthQuery::RoleList).await
    }
    async fn role_delete(
        &self,
        request: Request<AuthRoleDeleteRequest>,
    ) -> Result<Response<AuthRoleDeleteResponse>, Status> {
        self.order(Command::RoleDelete, request).await
    }
    async fn role_grant_permission(
        &self,
        request: Request<AuthRoleGrantPermissionRequest>,
    ) -> Result<Response<AuthRoleGrantPermissionResponse>, Status> {
        self.order(Command::RoleGrantPermission, request).await
    }
    async fn role_revoke_permission(
        &self,
        request: Request<AuthRoleRevokePermissionRequest>,
    ) -> Result<Response<AuthRoleRevokePermissionResponse>, Status> {
        self.order(Command::RoleRevokePermission, request).await
    }
}
