//! What the tests about Byzantine faults share.
#![allow(dead_code, unreachable_pub, missing_docs)]

pub mod hand;
pub mod world;

use bytes::Bytes;
use quorate_client::Config;
use quorate_types::{ClientId, ClusterId, FaultModel, Incarnation, ItemsBuilder, ReplicaId, View};
use quorate_wire::{Frame, OutFrame, Welcome};

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
    };
    frame(&welcome.frame())
}

/// A frame as it arrives at the client.
pub fn frame(out: &OutFrame) -> Frame {
    Frame { kind: out.kind(), payload: Bytes::from(out.to_vec()).slice(16..) }
}
