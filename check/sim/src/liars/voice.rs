//! What all tricks of a liar have: its key, its memory, and its randomness.

use super::{Said, mod_smart};
use crate::random::Rng;
use bytes::Bytes;
use quorate_auth::Authenticator;
use quorate_types::{AgreedTime, ClusterId, Digest, ItemsBuilder, ReplicaId, RequestNumber, SessionId};
use quorate_wire::{
    Batch, BatchHeader, FrameKind, Membership, REQUEST_HEADER, ReadRequest, RequestHeader, RequestKind,
    RequestProof, Requests, write_request,
};
use std::collections::VecDeque;

/// This many requests of clients are remembered.
const REQUESTS_MAX: usize = 64;
/// This many reads of clients are remembered.
const READS_MAX: usize = 256;

/// The liar, as its tricks see it.
#[derive(Debug)]
pub struct Voice {
    /// Its number, from 0.
    pub who: usize,
    /// How many replicas there are.
    pub replicas: usize,
    /// How many clients.
    pub clients: usize,
    /// Its randomness.
    pub rng: Rng,
    /// The time.
    pub now: u64,
    /// Whether all other faults are over.
    pub healed: bool,
    /// Requests that clients sent to it, or that were in batches.
    pub requests: VecDeque<Bytes>,
    /// What clients want to read: client, number, query.
    pub reads: VecDeque<(usize, u64, Bytes)>,
    /// Its memory of Mod-SMaRt's messages.
    pub(super) smart: mod_smart::Memory,
    scene: Scene,
    invented: u64,
}

/// The surroundings of a liar.
#[derive(Debug)]
pub struct Scene {
    /// How many replicas there are.
    pub replicas: usize,
    /// How many clients.
    pub clients: usize,
    /// The cluster.
    pub cluster: ClusterId,
    /// The agreed time, in nanoseconds, when the liar's own time was 0.
    pub start_time: u64,
    /// Its own key.
    pub auth: Box<dyn Authenticator>,
}

impl Voice {
    pub(super) fn new(scene: Scene, who: usize, rng: Rng) -> Self {
        Self {
            who,
            replicas: scene.replicas,
            clients: scene.clients,
            rng,
            now: 0,
            healed: false,
            requests: VecDeque::new(),
            reads: VecDeque::new(),
            smart: mod_smart::Memory::default(),
            scene,
            invented: 0,
        }
    }

    /// Its id.
    pub fn id(&self) -> ReplicaId {
        ReplicaId::new(self.who as u16 + 1)
    }

    /// Another replica, drawn at random.
    pub fn other(&mut self) -> usize {
        let others = self.replicas.max(2) as u64 - 1;
        (self.who + 1 + self.rng.below(others) as usize) % self.replicas
    }

    /// The node sends this.
    pub(super) fn said(&mut self, said: &Said) {
        if let Said::ModSmart(instance, message) = said {
            self.smart.remember(&mut self.rng, *instance, message);
        }
    }

    /// The liar hears this.
    pub(super) fn heard(&mut self, from: usize, said: &Said) {
        match said {
            Said::ModSmart(instance, message) => self.smart.remember(&mut self.rng, *instance, message),
            Said::Other(FrameKind::Requests, payload) if from >= self.replicas => {
                for (_, _, whole) in Requests::new(payload).flatten().take(4) {
                    self.requests.push_back(Bytes::copy_from_slice(whole));
                }
                while self.requests.len() > REQUESTS_MAX {
                    self.requests.pop_front();
                }
            }
            Said::Other(FrameKind::Reads, payload) if from >= self.replicas => {
                for read in ReadRequest::walk(payload).flatten() {
                    self.reads.push_back((from, read.read, Bytes::copy_from_slice(read.query)));
                }
                let old = self.reads.len().saturating_sub(READS_MAX);
                self.reads.drain(..old);
            }
            _ => {}
        }
    }

    /// What this client asked under this number. It is forgotten then.
    pub fn read_of(&mut self, client: usize, read: u64) -> Option<Bytes> {
        let at = self.reads.iter().position(|(who, number, _)| (*who, *number) == (client, read))?;
        self.reads.remove(at).map(|(.., query)| query)
    }

    /// Its key, with which it signs in its own name.
    pub(super) fn auth(&self) -> &dyn Authenticator {
        &*self.scene.auth
    }

    /// Members have the keys of this membership.
    pub(super) fn learn(&mut self, membership: &Membership) {
        for member in membership.members() {
            if let Some(key) = &member.key {
                self.scene.auth.know(member.replica, membership.number(), key);
            }
        }
    }

    /// It signs for the cluster under this id from now on.
    pub(super) fn signs_as(&mut self, cluster: ClusterId) {
        self.scene.cluster = cluster;
    }

    /// The cluster.
    pub(super) fn cluster(&self) -> ClusterId {
        self.scene.cluster
    }

    /// A random digest.
    pub fn digest(&mut self) -> Digest {
        let mut bytes = [0; 32];
        bytes.chunks_mut(8).for_each(|word| word.copy_from_slice(&self.rng.number().to_le_bytes()));
        Digest::new(bytes)
    }

    /// A request that no client sent: in a session that it heard of, or in one that does not exist.
    pub fn request(&mut self) -> Vec<u8> {
        self.invented += 1;
        let known = self.rng.below(self.requests.len() as u64 + 1) as usize;
        let like = self.requests.get(known).and_then(|bytes| Requests::new(bytes).flatten().next());
        let (session, number, lowest) = match like {
            Some((header, ..)) => {
                (header.session, header.number.number() + self.rng.below(3), header.lowest_unanswered)
            }
            None => (SessionId::from_number(self.rng.number()), self.rng.below(50), RequestNumber::new(1)),
        };
        // An operation of a client that does not exist: a replica that executes it is found out.
        let mut command = (0xbad0_0000 + self.who as u32).to_le_bytes().to_vec();
        command.extend_from_slice(&(self.invented as u32).to_le_bytes());
        let put = quorate_kv::Operation::Put { key: b"k0", value: b"invented" };
        quorate_kv::KvCommand::One(put).encode(&mut command);
        let mut items = ItemsBuilder::new();
        items.push(&command);
        let mut bytes = Vec::new();
        write_request(&mut bytes, session, RequestNumber::new(number), lowest, &items);
        bytes
    }

    /// An opening for a client that did not ask for one.
    pub fn opening(&mut self) -> Vec<u8> {
        let header = RequestHeader {
            session: SessionId::NONE,
            number: RequestNumber::new(self.rng.number()),
            lowest_unanswered: RequestNumber::new(0),
            kind: RequestKind::OpenSession,
            len: 8,
            proof: RequestProof::None,
        };
        let mut bytes = Vec::with_capacity(REQUEST_HEADER + 8);
        header.write_to(&mut bytes);
        bytes.extend_from_slice(&self.rng.range(1, self.clients as u64).to_le_bytes());
        bytes
    }

    /// A batch of requests that no client sent.
    pub fn invent(&mut self) -> Batch {
        let request = self.request();
        let header = BatchHeader {
            time: AgreedTime::from_nanos(self.scene.start_time + self.now),
            seed: self.rng.number(),
            ..BatchHeader::default()
        };
        rebuilt(header, &[request])
    }
}

/// A batch of these requests.
pub(super) fn rebuilt(header: BatchHeader, requests: &[Vec<u8>]) -> Batch {
    let mut bytes = Vec::new();
    Batch::begin(&mut bytes);
    requests.iter().for_each(|request| bytes.extend_from_slice(request));
    Batch::seal(bytes, BatchHeader { count: requests.len() as u32, ..header })
}

/// The requests of a batch.
pub(super) fn requests_of(batch: &Batch) -> Vec<Vec<u8>> {
    batch.requests().flatten().map(|(_, _, whole)| whole.to_vec()).collect()
}
