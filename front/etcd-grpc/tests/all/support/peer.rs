//! A real etcd, where there is one, and what is compared with it.

use super::{connect, kv};
use quorate_etcd_grpc::pb::etcdserverpb::*;
use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tonic::transport::{Channel, Endpoint};
use tonic::{Response, Status};

pub(crate) fn etcd() -> Option<PathBuf> {
    let named = std::env::var_os("ETCD").map(PathBuf::from);
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/etcd-clients/etcd");
    named.into_iter().chain([built]).find(|file| file.is_file())
}

/// A real one.
pub(crate) struct Peer {
    child: Child,
    address: String,
    _directory: tempfile::TempDir,
}

impl Peer {
    pub(crate) fn start(program: &Path) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let ports: Vec<u16> = (0..2)
            .map(|_| std::net::TcpListener::bind("127.0.0.1:0").expect("a port"))
            .map(|listener| listener.local_addr().expect("an address").port())
            .collect();
        let [client, peer] = [ports[0], ports[1]].map(|port| format!("http://127.0.0.1:{port}"));
        let child = Command::new(program)
            .args(["--data-dir", &directory.path().to_string_lossy(), "--unsafe-no-fsync"])
            .args(["--bcrypt-cost", "4"])
            .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &format!("default={peer}")])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("etcd runs");
        Self { child, address: client, _directory: directory }
    }

    /// Where it serves plain HTTP.
    pub(crate) fn socket(&self) -> String {
        self.address.trim_start_matches("http://").to_owned()
    }

    pub(crate) async fn channel(&self) -> Channel {
        let endpoint = Endpoint::from_shared(self.address.clone()).expect("an address");
        while endpoint.connect().await.is_err() {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        let channel = connect(self.address.clone()).await;
        // It has a leader when it answers.
        while kv(&channel).range(RangeRequest { key: "a".into(), ..RangeRequest::default() }).await.is_err() {
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        channel
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What is compared of a response: all but who answered.
pub(crate) trait Plain: Debug + PartialEq {
    fn header(&mut self) -> &mut Option<ResponseHeader>;
}

macro_rules! plain {
    ($($name:ident),*) => { $(
        impl Plain for quorate_etcd_grpc::pb::etcdserverpb::$name {
            fn header(&mut self) -> &mut Option<ResponseHeader> {
                &mut self.header
            }
        }
    )* };
}

plain!(
    RangeResponse,
    PutResponse,
    DeleteRangeResponse,
    TxnResponse,
    CompactionResponse,
    LeaseGrantResponse,
    LeaseRevokeResponse,
    LeaseTimeToLiveResponse,
    LeaseLeasesResponse,
    AuthEnableResponse,
    AuthDisableResponse,
    AuthStatusResponse,
    AuthenticateResponse,
    AuthUserAddResponse,
    AuthUserDeleteResponse,
    AuthUserChangePasswordResponse,
    AuthUserGrantRoleResponse,
    AuthUserRevokeRoleResponse,
    AuthUserGetResponse,
    AuthUserListResponse,
    AuthRoleAddResponse,
    AuthRoleDeleteResponse,
    AuthRoleGetResponse,
    AuthRoleListResponse,
    AuthRoleGrantPermissionResponse,
    AuthRoleRevokePermissionResponse
);

/// Both answered the same; gives the revision, if they answered well.
pub(crate) fn same<T: Plain>(
    request: &impl Debug,
    left: Result<Response<T>, Status>,
    right: Result<Response<T>, Status>,
) -> Option<i64> {
    let plain = |response: Response<T>| {
        let mut response = response.into_inner();
        let revision = response.header().take().expect("a header").revision;
        (revision, response)
    };
    match (left.map(plain), right.map(plain)) {
        (Ok(etcd), Ok(ours)) => {
            assert_eq!(etcd, ours, "etcd's answer (left) and ours to {request:?}");
            Some(etcd.0)
        }
        (Err(etcd), Err(ours)) => {
            let told = |status: &Status| (status.code(), status.message().to_owned());
            assert_eq!(told(&etcd), told(&ours), "etcd's answer (left) and ours to {request:?}");
            None
        }
        (etcd, ours) => panic!("etcd answers {etcd:?}, and ours is {ours:?}, to {request:?}"),
    }
}
