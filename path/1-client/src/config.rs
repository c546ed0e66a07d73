//! The settings of a client. The defaults suit a cluster in one or a few data centres.

use crate::combiner::Combines;
use crate::letters::LetterLimits;
use quorate_types::{ClientId, ClusterId, FaultModel, Faults, ServiceName, Span};
use quorate_wire::{Membership, RequestSigner, RequestTagger};
use std::sync::Arc;

/// The signer of a client's requests.
#[derive(Clone, Debug)]
pub struct Signer(pub Arc<dyn RequestSigner>);

impl PartialEq for Signer {
    fn eq(&self, other: &Self) -> bool {
        self.0.key() == other.0.key()
    }
}

impl Eq for Signer {}

/// The source of the keys for the tags of a client's requests.
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
    /// This client's id. Limits on sessions hold for each client.
    pub client: ClientId,
    /// The id of which `client` was made, for the name in the client's certificate; 0 without one.
    pub own: ClientId,
    /// The service that the client means; replicas of another one refuse it. Without a name they take it as it is.
    pub service: ServiceName,
    /// The cluster. Without it, the first replica that answers decides the cluster; where replicas may lie, none does.
    pub cluster: Option<ClusterId>,
    /// Which faults replicas may have; it must be the cluster's setting. With crash faults one answer is enough, and requests go to the
    /// leader. With Byzantine faults requests go to all members, and f+1 equal answers are needed.
    pub faults: Faults,
    /// The number of the era that `faults` and `membership` are of. The client follows the cluster to later ones.
    pub era: u64,
    /// Where replicas may lie: the membership from which the client begins, with the public keys of its voters, who are the members that it
    /// is made with. Then it follows later memberships only if a chain of membership links proves them, and believes nobody's word. It needs
    /// the cluster's id for that.
    pub membership: Option<Membership>,
    /// Where replicas may lie: signs all requests, so that replicas which did not hear a request from this client can vouch for it. A
    /// signer must not be used for two clients.
    pub signer: Option<Signer>,
    /// Where replicas may lie: puts a tag for each replica under every request, unless requests are signed. Replicas that did not hear a
    /// request can then vouch for it, as long as this client does not lie. Two clients must not share one.
    pub macs: Option<Macs>,
    /// For how long keys of tags are used.
    pub keys_last: Span,
    /// With tags: requests go to the leader first, and to all others after this time without an answer. None: to all at once.
    pub leader_first: Option<Span>,
    /// Where replicas may lie: how many members more than f+1 answer each request. Without a spare one, a member that hangs is noticed
    /// after some 50 ms, and requests wait for that long. With one there is no such wait, and each request costs one more answer.
    pub spare_repliers: u32,
    /// Where replicas may lie: compares and combines replies in another way than byte by byte. Then f+1 replicas send whole replies, and
    /// all reads are ordered.
    pub combiner: Option<Combines>,
    /// Where replicas may lie: orders reads like commands. Otherwise all replicas are asked, and a read is ordered only if no quorum
    /// answers alike.
    pub ordered_reads: bool,
    /// The seed of all randomness: nonces and the jitter of waits. Two clients must not share one.
    pub seed: u64,
    /// The first wait before a replica is dialed again.
    pub dial_back_off_min: Span,
    /// The longest wait before a replica is dialed again.
    pub dial_back_off_max: Span,
    /// How long a connection may take to be made, and again as long to be welcomed.
    pub dial_timeout: Span,
    /// How long the cluster keeps an idle session; it is kept alive after a third of that.
    pub session_ttl: Span,
    /// How many requests of one session may be under way at once; at most the replicas' window.
    pub window: u32,
    /// The largest payload of a frame, and so of one request or query.
    pub frame_bytes_max: u32,
    /// Bytes of calls and reads that have no answer yet. More are refused at once.
    pub queue_bytes_max: usize,
    /// Bytes that may be handed to one connection and not yet written to the socket; more wait in the queue.
    pub connection_bytes_max: usize,
    /// How many sessions may be open or being opened.
    pub sessions_max: usize,
    /// If the leader does not answer for this long, the others are asked who leads.
    pub suspect_after: Span,
    /// If no answer comes for this long, the requests of a session are sent again.
    pub resend_after: Span,
    /// If no answer comes for this long, a read also goes to another replica.
    pub hedge_after: Span,
    /// The first wait after a refusal.
    pub retry_min: Span,
    /// The longest wait after a refusal.
    pub retry_max: Span,
    /// A request that finds the cluster's disks full is given up after this time, or at its deadline if that is earlier. By then a replica
    /// with room leads, if there is one. None: it waits for room until its deadline.
    pub full_patience: Option<Span>,
    /// Whether a session ends once one of its calls is given up. Then nothing that was asked for later is done without what came before.
    pub in_order: bool,
    /// Whether the host is told of each member's reply ([`Effect::Replied`](crate::Effect::Replied)). Where replicas may lie, all members then
    /// answer; those that would be silent send digests of long replies.
    pub tells_replies: bool,
    /// Whether the client listens for letters, and what it keeps of them. Replicas of versions that know no letters end the connection
    /// of a client that listens.
    pub letters: Option<LetterLimits>,
}

impl Config {
    /// The defaults for this client; `seed` must differ between clients.
    pub const fn new(client: ClientId, seed: u64) -> Self {
        Self {
            client,
            own: ClientId::new(0),
            service: ServiceName::NONE,
            cluster: None,
            faults: Faults::of(FaultModel::Crash),
            era: 1,
            membership: None,
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
            in_order: false,
            tells_replies: false,
            letters: None,
        }
    }
}
