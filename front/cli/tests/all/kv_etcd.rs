//! `quorate kv` beside clients of etcd: the same keys, as large as the store takes them, and past its users.

use crate::harness::Cluster;
use quorate_etcd_grpc::pb::etcdserverpb::auth_client::AuthClient;
use quorate_etcd_grpc::pb::etcdserverpb::kv_client::KvClient;
use quorate_etcd_grpc::pb::etcdserverpb::{
    AuthEnableRequest, AuthRoleAddRequest, AuthUserAddRequest, AuthUserGrantRoleRequest, PutRequest,
};
use std::time::Duration;
use tokio::runtime::Runtime;
use tonic::transport::{Channel, Endpoint};

fn start() -> (Cluster, Runtime, Channel) {
    let cluster = Cluster::start(&["--service", "etcd", "--plain", "--replicas", "1"]);
    cluster.wait_for_leader();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let address = format!("http://{}", cluster.ready["etcd"][0].as_str().expect("an address"));
    let channel = {
        let _context = runtime.enter();
        let endpoint = Endpoint::from_shared(address).expect("an address");
        endpoint.timeout(Duration::from_secs(20)).connect_lazy()
    };
    (cluster, runtime, channel)
}

/// Its own key, and what stands around it in a request, is all that a value has less room than the store's limit.
#[test]
fn values_may_be_as_large_as_clients_of_etcd_may_put() {
    let (cluster, runtime, channel) = start();
    let value = vec![b'v'; (3 << 19) - 100];
    let request = PutRequest { key: "large".into(), value: value.clone().into(), ..PutRequest::default() };
    runtime.block_on(KvClient::new(channel).put(request)).expect("etcd's interface takes it");
    let put = |key: &str| cluster.run_with_input(&["kv", "put", key, "--json"], &value).ok();
    assert!(put("large").contains("\"replaced\":true"));
    assert!(put("new").contains("\"replaced\":false"));
    assert_eq!(cluster.ok(&["kv", "get", "new"]).len(), value.len());
    cluster.run_with_input(&["kv", "put", "new"], &vec![b'v'; 3 << 19]).fails(1, &["request is too large"]);
}

#[test]
fn the_stores_users_bind_clients_of_etcd_alone() {
    let (cluster, runtime, channel) = start();
    cluster.ok(&["kv", "put", "key", "before"]);
    runtime.block_on(async {
        let mut auth = AuthClient::new(channel);
        let root = AuthUserAddRequest { name: "root".into(), password: "top".into(), ..Default::default() };
        auth.user_add(root).await.expect("added");
        auth.role_add(AuthRoleAddRequest { name: "root".into() }).await.expect("added");
        let grant = AuthUserGrantRoleRequest { user: "root".into(), role: "root".into() };
        auth.user_grant_role(grant).await.expect("granted");
        auth.auth_enable(AuthEnableRequest {}).await.expect("enabled");
    });
    assert_eq!(cluster.ok(&["kv", "get", "key"]), "before");
    cluster.ok(&["kv", "put", "key", "after"]);
    cluster.ok(&["kv", "cas", "key", "swapped", "--if", "after"]);
    assert_eq!(cluster.ok(&["kv", "scan"]).lines().count(), 1);
    cluster.ok(&["kv", "delete", "key"]);
    cluster.run(&["kv", "get", "key"]).fails(1, &["has no value"]);
}
