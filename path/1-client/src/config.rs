//! What a client may be told; the defaults suit a cluster in one or a few data centres.

use crate::combiner::Combines;
use quorate_types::{ClientId, ClusterId, FaultModel, Faults, Span};
use quorate_wire::{RequestSigner, RequestTagger};
use std::sync::Arc;

/// What a client signs its requests with.
#[derive(Clone, Debug)]
pub struct Signer(pub Arc<dyn RequestSigner>);

impl PartialEq for Signer {
    fn eq(&self, other: &Self) -> bool {
        self.0.key() == other.0.key()
    }
}

impl Eq for Signer {}

/// What a client makes the keys for its requests' tags from.
#[derive(Clone, Debug)]
pub struct Macs(pub Arc<dyn RequestTagger>);

impl PartialEq for Macs {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Macs {}

/// The settings of one client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Who this client is; caps on sessions hold per client.
    pub client: ClientId,
    /// From what that id was made, for the name in its certificate; 0 without one.
    pub own: ClientId,
    /// The cluster that is meant. Without one, the first replica that answers decides it; where replicas may lie, none does.
    pub cluster: Option<ClusterId>,
    /// What replicas may do. With crash faults one answer is the answer, and requests go to who leads; with Byzantine faults they go
    /// to all members, and f+1 equal answers are the answer. It must be the cluster's.
    pub faults: Faults,
    /// Signs all requests where replicas may lie, so that who did not hear one from this client can vouch for it. It must not have signed
    /// for another client.
    pub signer: Option<Signer>,
    /// Puts a tag for each replica under all requests where replicas may lie, unless they are signed: replicas that did not hear a request
    /// vouch for it, too, as long as this client does not lie. No two clients may have the same.
    pub macs: Option<Macs>,
    /// How long the keys of tags last.
    pub keys_last: Span,
    /// With tags: requests go to the leader first, and to all others after so long without an answer. Without, to all at once.
    pub leader_first: Option<Span>,
    /// Where replicas may lie: so many members more than the f+1 that are needed answer each request. One that hangs is noticed after some
    /// 50 ms, and costs those who wait for it that; where a spare one answers, it costs nothing, and each request an answer more.
    pub spare_repliers: u32,
    /// Where replicas may lie: compares replies, and puts them together, in another way than byte by byte. f+1 replicas answer whole then, and
    /// all reads are ordered.
    pub combiner: Option<Combines>,
    /// Where replicas may lie: reads are ordered like commands. If not, all replicas are asked, and only what no quorum answers alike is
    /// ordered.
    pub ordered_reads: bool,
    /// Everything random follows from it: nonces and the jitter of waiting times. Two clients must not share one.
    pub seed: u64,
    /// The first wait before a replica is dialed again.
    pub dial_back_off_min: Span,
    /// The longest wait before a replica is dialed again.
    pub dial_back_off_max: Span,
    /// How long a connection may take to be made, and again as long to be welcomed.
    pub dial_timeout: Span,
    /// How long the cluster keeps an idle session; it is kept alive after a third of that.
    pub session_ttl: Span,
    /// How many requests of one session are under way at once; must not be above the replicas' window.
    pub window: u32,
    /// The largest payload of a frame, hence of one request or query, too.
    pub frame_bytes_max: u32,
    /// Bytes of calls and reads that have no answer yet. More are refused at once.
    pub queue_bytes_max: usize,
    /// Bytes that were handed to one connection and not yet written to it; more wait in the queue.
    pub connection_bytes_max: usize,
    /// Sessions open or being opened.
    pub sessions_max: usize,
    /// After so long without an answer from the leader, the others are asked who leads.
    pub suspect_after: Span,
    /// After so long without an answer, the requests of a session are sent again.
    pub resend_after: Span,
    /// After so long without an answer, a read goes to another replica, too.
    pub hedge_after: Span,
    /// The first wait after a refusal.
    pub retry_min: Span,
    /// The longest wait after a refusal.
    pub retry_max: Span,
    /// What finds the cluster's disks full is given up after so long, if its deadline is not earlier. Where another replica has room it
    /// leads by then. Without this, it waits for room until its deadline.
    pub full_patience: Option<Span>,
}

impl Config {
    /// The defaults for this client; `seed` must differ between clients.
    pub const fn new(client: ClientId, seed: u64) -> Self {
        Self {
            client,
            own: ClientId::new(0),
            cluster: None,
            faults: Faults::of(FaultModel::Crash),
            signer: None,
            macs: None,
            keys_last: Span::from_secs(600),
            leader_first: None,
            spare_repliers: 0,
            combiner: None,
            ordered_reads: false,
            seed,
            dial_back_off_min: Span::from_millis(20),
            dial_back_off_max: Span::from_secs(1),
            dial_timeout: Span::from_secs(2),
            session_ttl: Span::from_secs(60),
            window: 1024,
            frame_bytes_max: 1 << 20,
            queue_bytes_max: 64 << 20,
            connection_bytes_max: 8 << 20,
            sessions_max: 65_536,
            suspect_after: Span::from_millis(500),
            resend_after: Span::from_secs(2),
            hedge_after: Span::from_millis(100),
            retry_min: Span::from_millis(1),
            retry_max: Span::from_millis(50),
            full_patience: None,
        }
    }
}
