//! A cluster in this process with a front for each replica, and clients generated from the same definitions.

pub(crate) mod peer;

use quorate::{Client, LocalCluster, ReplicaId};
use quorate_etcd::{Etcd, EtcdConfig};
use quorate_etcd_grpc::pb::etcdserverpb::auth_client::AuthClient;
use quorate_etcd_grpc::pb::etcdserverpb::kv_client::KvClient;
use quorate_etcd_grpc::pb::etcdserverpb::lease_client::LeaseClient;
use quorate_etcd_grpc::pb::etcdserverpb::watch_client::WatchClient;
use quorate_etcd_grpc::pb::etcdserverpb::{PutRequest, RangeRequest};
use quorate_etcd_grpc::{Front, FrontConfig, Hub, TokenConfig, UpkeepConfig};
use quorate_execute::InStore;
use quorate_kit::{Member, Running, See, Seen};
use quorate_types::ClusterId;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tonic::transport::{Channel, Endpoint};

/// Nothing here takes longer on a machine that does anything at all.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct World {
    fronts: Vec<Running>,
    pub(crate) cluster: LocalCluster,
    _directory: tempfile::TempDir,
}

impl World {
    /// Whose fronts are told little of their replicas, and always the same.
    pub(crate) fn start(replicas: u16) -> Self {
        let seen = || Some(Seen { view: 3, leader: Some(1), ..Seen::default() });
        Self::start_with(replicas, |_, _| Box::new(seen), || None, UpkeepConfig::default())
    }

    /// Whose members keep the store within bounds.
    pub(crate) fn start_keeping(replicas: u16, upkeep: UpkeepConfig) -> Self {
        let seen = || Some(Seen { view: 3, leader: Some(1), ..Seen::default() });
        Self::start_with(replicas, |_, _| Box::new(seen), || None, upkeep)
    }

    /// Whose members sign tokens that last so long.
    pub(crate) fn start_signing(replicas: u16, ttl: Duration) -> Self {
        let seen = || Some(Seen { view: 3, leader: Some(1), ..Seen::default() });
        let tokens = || Some(TokenConfig { method: "HS256".into(), key: vec![3; 32], ttl });
        Self::start_with(replicas, |_, _| Box::new(seen), tokens, UpkeepConfig::default())
    }

    /// Whose fronts ask their replicas how they are.
    pub(crate) fn start_seeing(replicas: u16) -> Self {
        let seeing = |cluster: &LocalCluster, replica: ReplicaId| -> See {
            let client = Client::builder().members(cluster.members()).timeout(PATIENCE);
            let client = client.build_blocking().expect("a client");
            Box::new(move || client.status(replica).ok().and_then(|text| Seen::of_status(&text)))
        };
        Self::start_with(replicas, seeing, || None, UpkeepConfig::default())
    }

    fn start_with(
        replicas: u16,
        seeing: impl Fn(&LocalCluster, ReplicaId) -> See,
        tokens: impl Fn() -> Option<TokenConfig>,
        upkeep: UpkeepConfig,
    ) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let hubs: Vec<Hub> = (0..replicas).map(|_| Hub::new()).collect();
        let (given, of_services) = (AtomicUsize::new(0), hubs.clone());
        let service = move || -> Box<dyn quorate::Service> {
            let hub = of_services[given.fetch_add(1, Ordering::Relaxed) % of_services.len()].clone();
            Box::new(InStore::new(Etcd::new(EtcdConfig::default()).observed(hub)))
        };
        let cluster =
            LocalCluster::start(&directory.path().join("cluster"), replicas, service).expect("a cluster");
        let front = |(hub, replica)| {
            let replica = ReplicaId::new(replica);
            front(&cluster, hub, replica, seeing(&cluster, replica), (tokens(), upkeep))
        };
        let fronts = hubs.into_iter().zip(1..).map(front).collect();
        Self { fronts, cluster, _directory: directory }
    }

    pub(crate) fn address(&self, at: usize) -> String {
        format!("http://{}", self.fronts[at].address())
    }

    /// Where it serves plain HTTP.
    pub(crate) fn socket(&self, at: usize) -> String {
        self.fronts[at].address().to_string()
    }

    pub(crate) async fn channel(&self, at: usize) -> Channel {
        connect(self.address(at)).await
    }
}

pub(crate) async fn connect(address: String) -> Channel {
    let endpoint = Endpoint::from_shared(address).expect("an address").timeout(PATIENCE);
    endpoint.connect().await.expect("it listens")
}

fn front(
    cluster: &LocalCluster,
    hub: Hub,
    replica: ReplicaId,
    seen: See,
    (tokens, upkeep): (Option<TokenConfig>, UpkeepConfig),
) -> Running {
    let id = ClusterId::parse(&cluster.config(replica).expect("there").cluster);
    let client = Client::builder().members(cluster.members()).frame_bytes_max(3 << 20).timeout(PATIENCE);
    let member = Member {
        cluster: id.expect("an id"),
        replica,
        tls: None,
        client: client.build().expect("a client"),
        see: seen,
        calls: quorate_kit::FrontCalls::default(),
        newest: cluster.running(replica).map(quorate_runtime::Running::newest),
        backup: None,
        lies: None,
    };
    let config = FrontConfig { listen: "127.0.0.1:0".into(), announce: None, member, hub, tokens, upkeep };
    Front::start(config).expect("it listens")
}

pub(crate) fn kv(channel: &Channel) -> KvClient<Channel> {
    KvClient::new(channel.clone()).max_decoding_message_size(1 << 30)
}

pub(crate) fn lease(channel: &Channel) -> LeaseClient<Channel> {
    LeaseClient::new(channel.clone())
}

pub(crate) fn auth(channel: &Channel) -> AuthClient<Channel> {
    AuthClient::new(channel.clone())
}

pub(crate) fn watch(channel: &Channel) -> WatchClient<Channel> {
    WatchClient::new(channel.clone()).max_decoding_message_size(1 << 30)
}

pub(crate) fn put(key: &str, value: &[u8]) -> PutRequest {
    PutRequest { key: key.to_owned().into(), value: value.to_vec().into(), ..PutRequest::default() }
}

pub(crate) fn prefix(key: &str) -> RangeRequest {
    let mut end = key.as_bytes().to_vec();
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    RangeRequest { key: key.to_owned().into(), range_end: end.into(), ..RangeRequest::default() }
}

pub(crate) fn run<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async { tokio::time::timeout(PATIENCE, future).await.expect("in time") })
}
