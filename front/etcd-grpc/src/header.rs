//! The header of every response: the cluster, the member that answers, its revision and term.

use quorate_etcd::proto;
use quorate_kit::Look;
use quorate_types::{ClusterId, ReplicaId};

/// The part of the header that is the same in all responses of a member.
pub(crate) struct Header {
    cluster: u64,
    member: u64,
    replica: ReplicaId,
    look: Look,
}

impl Header {
    pub(crate) fn new(cluster: ClusterId, replica: ReplicaId, look: Look) -> Self {
        let (number, member) = (cluster_number(cluster), member_number(cluster, replica));
        Self { cluster: number, member, replica, look }
    }

    /// The view that was seen last, which etcd calls the term.
    pub(crate) fn view(&self) -> u64 {
        self.look.view()
    }

    pub(crate) fn is_member(&self, replica: ReplicaId) -> bool {
        self.replica == replica
    }

    pub(crate) const fn member(&self) -> u64 {
        self.member
    }

    /// Appends the header as field 1, as all responses have it.
    pub(crate) fn write(&self, revision: i64, out: &mut Vec<u8>) {
        proto::nested_field(out, 1, |out| {
            proto::int_field(out, 1, self.cluster as i64);
            proto::int_field(out, 2, self.member as i64);
            proto::int_field(out, 3, revision);
            proto::int_field(out, 4, self.view() as i64);
        });
    }

    /// The header as a message of the generated services.
    pub(crate) fn message(&self, revision: i64) -> Option<crate::pb::etcdserverpb::ResponseHeader> {
        Some(crate::pb::etcdserverpb::ResponseHeader {
            cluster_id: self.cluster,
            member_id: self.member,
            revision,
            raft_term: self.view(),
        })
    }
}

fn cluster_number(cluster: ClusterId) -> u64 {
    mix(cluster, 0)
}

/// The number of a replica for clients of etcd: large, different in every cluster, and never 0.
pub(crate) fn member_number(cluster: ClusterId, replica: ReplicaId) -> u64 {
    mix(cluster, replica.number())
}

/// The FNV-1a hash of the id and the number.
fn mix(cluster: ClusterId, number: u16) -> u64 {
    let text = format!("{cluster}/{number}");
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, step).max(1)
}
