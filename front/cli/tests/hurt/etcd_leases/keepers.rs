//! Clients that grant leases, renew them for a while or to the end, and then look how long they live.

use crate::etcd_kills::clients::Client;
use quorate_etcd_grpc::pb::etcdserverpb::{
    LeaseGrantRequest, LeaseKeepAliveRequest, PutRequest, RangeRequest,
};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tonic::{Code, Status};

/// Between two looks at a lease that was given up.
const LOOK: Duration = Duration::from_millis(50);

/// The life of a lease, as its client saw it.
#[derive(Clone, Debug)]
pub(crate) struct Told {
    pub(crate) id: i64,
    pub(crate) ttl_s: i64,
    /// When the last renewal that was answered was called; or its grant.
    pub(crate) called: Instant,
    /// When the last try to renew it was over, whatever came of it.
    pub(crate) tried: Instant,
    /// When it was there for the last time, after it was given up: the moment at which that was asked.
    pub(crate) seen: Option<Instant>,
    /// The first answer that it is gone.
    pub(crate) gone: Option<Instant>,
}

impl Told {
    pub(crate) fn is_gone(&self) -> bool {
        self.gone.is_some()
    }
}

pub(crate) struct Keeper {
    client: Client,
    ttl_s: i64,
    told: Vec<Told>,
}

impl Keeper {
    pub(crate) fn new(client: Client, ttl_s: i64) -> Self {
        Self { client, ttl_s, told: Vec::new() }
    }

    pub(crate) async fn run(mut self) -> Vec<Told> {
        while !self.client.is_stopped() {
            match self.grant().await {
                Ok(told) => {
                    let told = self.live(told).await;
                    self.told.push(told);
                }
                Err(_) => self.client.elsewhere().await,
            }
        }
        self.told
    }

    /// Grants one, with a key.
    async fn grant(&mut self) -> Result<Told, Status> {
        let called = Instant::now();
        let grant = LeaseGrantRequest { ttl: self.ttl_s, id: 0 };
        let id = self.client.lease().lease_grant(grant).await?.into_inner().id;
        let told = Told { id, ttl_s: self.ttl_s, called, tried: Instant::now(), seen: None, gone: None };
        let key = PutRequest { key: key(id).into(), lease: id, ..PutRequest::default() };
        match self.client.kv().put(key).await {
            // It may be there or not, so nothing can be said of it.
            Err(why) if why.code() != Code::NotFound => Err(why),
            // The lease is gone already: that is judged.
            Err(_) => Ok(Told { gone: Some(Instant::now()), ..told }),
            Ok(_) => Ok(told),
        }
    }

    /// Renews it for some of its lives, or until the test ends; then looks until it is gone, if there is time.
    async fn live(&mut self, mut told: Told) -> Told {
        // Short ones are given up now and then.
        let lives = self.client.random.between(0, 4);
        let to_the_end = self.ttl_s >= 20 || self.client.random.percent(30);
        let until = told.called + Duration::from_secs(told.ttl_s as u64 * lives);
        while told.gone.is_none() && !self.client.is_stopped() && (to_the_end || Instant::now() < until) {
            self.renew(&mut told).await;
            let pause = Duration::from_millis(told.ttl_s as u64 * 1000 / 6).min(Duration::from_millis(700));
            tokio::time::sleep(pause).await;
        }
        while told.gone.is_none() && !self.client.is_stopped() {
            self.look(&mut told).await;
            tokio::time::sleep(LOOK).await;
        }
        told
    }

    async fn renew(&mut self, told: &mut Told) {
        let called = Instant::now();
        let requests = tonic::codegen::tokio_stream::iter([LeaseKeepAliveRequest { id: told.id }]);
        let answer = match self.client.lease().lease_keep_alive(requests).await {
            Ok(answers) => answers.into_inner().message().await,
            Err(why) => Err(why),
        };
        told.tried = Instant::now();
        match answer {
            Ok(Some(answer)) if answer.ttl <= 0 => told.gone = Some(told.tried),
            Ok(Some(_)) => {
                told.called = called;
                self.client.shared.held.fetch_add(1, Ordering::Relaxed);
            }
            Ok(None) | Err(_) => self.client.elsewhere().await,
        }
    }

    /// A strong read of its key.
    async fn look(&mut self, told: &mut Told) {
        let asked = Instant::now();
        let get = RangeRequest { key: key(told.id).into(), ..RangeRequest::default() };
        match self.client.kv().range(get).await.map(tonic::Response::into_inner) {
            Ok(found) if found.kvs.is_empty() => told.gone = Some(Instant::now()),
            Ok(_) => told.seen = Some(asked),
            Err(_) => self.client.elsewhere().await,
        }
    }
}

fn key(id: i64) -> String {
    format!("leased/{id:x}")
}
