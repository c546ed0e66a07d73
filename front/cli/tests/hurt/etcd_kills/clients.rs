//! A client of etcd that goes to another member when one does not answer, and what all of them write down.

use crate::rig::random::Random;
use crate::rig::recorder::Recorder;
use quorate_etcd_grpc::pb::etcdserverpb::kv_client::KvClient;
use quorate_etcd_grpc::pb::etcdserverpb::lease_client::LeaseClient;
use quorate_etcd_grpc::pb::etcdserverpb::watch_client::WatchClient;
use quorate_etcd_grpc::pb::v3lockpb::lock_client::LockClient;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tonic::transport::{Channel, Endpoint};

/// Between a failure and the next attempt.
const AGAIN: Duration = Duration::from_millis(10);

/// A write that was acknowledged, with its revision.
#[derive(Clone, Debug)]
pub(crate) struct Written {
    pub(crate) key: String,
    /// None: deleted.
    pub(crate) value: Option<String>,
    pub(crate) revision: i64,
    pub(crate) call: u64,
    pub(crate) ret: u64,
}

/// A strong read that was answered, with the revision at which it was made.
#[derive(Clone, Debug)]
pub(crate) struct Read {
    pub(crate) key: String,
    /// Value and revision.
    pub(crate) found: Option<(String, i64)>,
    pub(crate) revision: i64,
    pub(crate) call: u64,
    pub(crate) ret: u64,
}

/// What all clients share.
pub(crate) struct Shared {
    pub(crate) recorder: Recorder,
    addresses: Vec<String>,
    writes: Mutex<Vec<Written>>,
    reads: Mutex<Vec<Read>>,
    /// The last revision there is, once it is known.
    end: AtomicI64,
    /// How often somebody held a lock.
    pub(crate) held: AtomicU64,
    /// How often a watch began again after a stream ended.
    pub(crate) resumed: AtomicU64,
}

impl Shared {
    pub(crate) fn new(addresses: &[String]) -> Self {
        Self {
            recorder: Recorder::new(),
            addresses: addresses.to_vec(),
            writes: Mutex::default(),
            reads: Mutex::default(),
            end: AtomicI64::new(i64::MAX),
            held: AtomicU64::new(0),
            resumed: AtomicU64::new(0),
        }
    }

    /// One for each member.
    pub(crate) fn channels(&self, timeout: Duration) -> Vec<Channel> {
        let channel = |address: &String| {
            let endpoint = Endpoint::from_shared(format!("http://{address}")).expect("an address");
            endpoint.timeout(timeout).connect_timeout(Duration::from_secs(2)).connect_lazy()
        };
        self.addresses.iter().map(channel).collect()
    }

    pub(crate) fn set_end(&self, revision: i64) {
        self.end.store(revision, Ordering::Release);
    }

    pub(crate) fn end(&self) -> i64 {
        self.end.load(Ordering::Acquire)
    }

    /// Whether there is nothing after this revision.
    pub(crate) fn is_end(&self, revision: i64) -> bool {
        revision >= self.end()
    }

    pub(crate) fn wrote(&self, write: Written) {
        lock(&self.writes).push(write);
    }

    pub(crate) fn read(&self, read: Read) {
        lock(&self.reads).push(read);
    }

    pub(crate) fn writes(&self) -> Vec<Written> {
        lock(&self.writes).clone()
    }

    pub(crate) fn reads(&self) -> Vec<Read> {
        lock(&self.reads).clone()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) struct Client {
    pub(crate) shared: Arc<Shared>,
    pub(crate) number: u64,
    pub(crate) random: Random,
    channels: Vec<Channel>,
    at: usize,
}

impl Client {
    /// Must be called on the runtime.
    pub(crate) fn new(shared: Arc<Shared>, number: u64, mut random: Random) -> Self {
        // Some give up soon, and do not know what became of their writes; others wait long enough to know.
        let timeout =
            if number.is_multiple_of(3) { Duration::from_millis(250) } else { Duration::from_secs(10) };
        let channels = shared.channels(timeout);
        let at = random.below(channels.len() as u64) as usize;
        Self { shared, number, random, channels, at }
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.shared.recorder.is_stopped()
    }

    /// Goes to another member, after a moment.
    pub(crate) async fn elsewhere(&mut self) {
        self.at =
            (self.at + 1 + self.random.below(self.channels.len() as u64 - 1) as usize) % self.channels.len();
        tokio::time::sleep(AGAIN).await;
    }

    /// Goes to this member.
    pub(crate) fn go_to(&mut self, at: usize) {
        self.at = at;
    }

    /// Does nothing for so many milliseconds at most.
    pub(crate) async fn nap(&mut self, most_ms: u64) {
        tokio::time::sleep(Duration::from_millis(self.random.below(most_ms + 1))).await;
    }

    fn channel(&self) -> Channel {
        self.channels[self.at].clone()
    }

    pub(crate) fn kv(&self) -> KvClient<Channel> {
        KvClient::new(self.channel())
    }

    pub(crate) fn watch(&self) -> WatchClient<Channel> {
        WatchClient::new(self.channel()).max_decoding_message_size(1 << 30)
    }

    pub(crate) fn lease(&self) -> LeaseClient<Channel> {
        LeaseClient::new(self.channel())
    }

    pub(crate) fn locks(&self) -> LockClient<Channel> {
        LockClient::new(self.channel())
    }
}
