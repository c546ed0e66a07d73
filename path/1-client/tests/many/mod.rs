//! What the tests about Byzantine faults share.
#![allow(dead_code, unreachable_pub, missing_docs)]

pub mod hand;
pub mod world;

use bytes::Bytes;
use quorate_client::Config;
use quorate_types::{
    ClientId, ClusterId, FaultModel, Incarnation, ItemsBuilder, MembershipId, ReplicaId, View,
};
use quorate_wire::{
    Frame, Member, Membership, OutFrame, REQUEST_HEADER, RequestTagger, RequestTags, SharedKey, Welcome,
};

pub fn config(seed: u64) -> Config {
    Config {
        faults: FaultModel::Byzantine.into(),
        ordered_reads: true,
        ..Config::new(ClientId::new(7), seed)
    }
}

pub fn list(items: &[&[u8]]) -> Vec<u8> {
    let mut builder = ItemsBuilder::new();
    items.iter().for_each(|item| builder.push(item));
    let mut out = Vec::new();
    builder.write_to(&mut out);
    out
}

pub fn welcome(replica: usize, cluster: u64) -> Frame {
    let welcome = Welcome {
        format: 1,
        feature_level: 1,
        cluster: ClusterId::new(u128::from(cluster)),
        replica: ReplicaId::new(replica as u16 + 1),
        incarnation: Incarnation::new(1),
        view: View::new(1),
        leader: Some(ReplicaId::new(1)),
        era: 1,
        service: quorate_types::ServiceVersion::UNNAMED,
    };
    frame(&welcome.frame())
}

/// A voter, and where it is.
pub fn member(id: u16) -> Member {
    Member { address: format!("r{id}:1"), ..Member::voter(ReplicaId::new(id)) }
}

/// The membership with this number, of these voters.
pub fn membership(number: u64, ids: &[u16]) -> Membership {
    let members = ids.iter().copied().map(member).collect();
    Membership::new(MembershipId::new(number), members).expect("a membership")
}

/// Tags that show the epoch, and the receiver.
#[derive(Debug)]
pub struct Plain;

#[derive(Debug)]
struct PlainKeys(u64, Vec<ReplicaId>);

impl RequestTagger for Plain {
    fn keys(&self, epoch: u64, replicas: &[ReplicaId]) -> Box<dyn RequestTags> {
        Box::new(PlainKeys(epoch, replicas.to_vec()))
    }
}

impl RequestTags for PlainKeys {
    fn shared_with(&self, replica: ReplicaId) -> Option<SharedKey> {
        self.1.contains(&replica).then(|| SharedKey { id: self.0, secret: [replica.number() as u8; 32] })
    }
    fn write(&self, _: &[u8; REQUEST_HEADER], _: &[u8], out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0.to_le_bytes());
        self.1.iter().for_each(|id| out.extend_from_slice(&u64::from(id.number()).to_le_bytes()));
    }
}

/// A frame as it arrives at the client.
pub fn frame(out: &OutFrame) -> Frame {
    Frame { kind: out.kind(), payload: Bytes::from(out.to_vec()).slice(16..) }
}
