//! Messages, clients and servers, generated from `proto/`.
#![allow(missing_docs, unreachable_pub, clippy::all)]

pub mod mvccpb {
    tonic::include_proto!("mvccpb");
}
pub mod authpb {
    tonic::include_proto!("authpb");
}
pub mod etcdserverpb {
    tonic::include_proto!("etcdserverpb");
}
pub mod v3electionpb {
    tonic::include_proto!("v3electionpb");
}
pub mod v3lockpb {
    tonic::include_proto!("v3lockpb");
}
pub mod health {
    tonic::include_proto!("grpc.health.v1");
}
