use super::{KINDS, METHODS, RpcCalls};
use crate::errors::{Refusal, UNAVAILABLE};
use bytes::Bytes;
use quorate_kit::FrontCalls;

#[test]
fn each_method_has_its_name_in_the_status() {
    assert_eq!(METHODS.map(|(_, method)| method).to_vec(), KINDS);
}

#[test]
fn calls_are_counted_by_how_they_end() {
    let calls = RpcCalls::new(&FrontCalls::default());
    assert!(calls.begin("/etcdserverpb.KV/Nothing").is_none());
    assert!(calls.begin("/v3lockpb.Lock/Lock").is_none());
    for _ in 0..3 {
        calls.begin("/etcdserverpb.KV/Put").expect("it is counted").ends(&Ok(Bytes::new()));
    }
    let refusal = Refusal::new(UNAVAILABLE, "no leader");
    calls.begin("/etcdserverpb.KV/Put").expect("it is counted").ends(&Err(refusal));
    // A code that gRPC does not know.
    calls.begin("/etcdserverpb.KV/Txn").expect("it is counted").ends(&Err(Refusal::new(99, "?")));
    // Its client went away.
    drop(calls.begin("/etcdserverpb.Lease/LeaseGrant"));
    let text = calls.text();
    let put = "grpc_service=\"etcdserverpb.KV\",grpc_method=\"Put\",grpc_type=\"unary\"";
    for line in [
        format!("grpc_server_started_total{{{put}}} 4"),
        format!("grpc_server_handled_total{{grpc_code=\"OK\",{put}}} 3"),
        format!("grpc_server_handled_total{{grpc_code=\"Unavailable\",{put}}} 1"),
        format!("grpc_server_handled_total{{grpc_code=\"Unknown\",{}}} 1", put.replace("Put", "Txn")),
        format!("grpc_server_handling_seconds_bucket{{{put},le=\"+Inf\"}} 4"),
        format!("grpc_server_handling_seconds_count{{{put}}} 4"),
        "grpc_server_started_total{grpc_service=\"etcdserverpb.Lease\",grpc_method=\"LeaseGrant\",grpc_type=\"unary\"} 1".into(),
        "grpc_server_handled_total{grpc_code=\"Canceled\",grpc_service=\"etcdserverpb.Lease\",grpc_method=\"LeaseGrant\",grpc_type=\"unary\"} 1".into(),
    ] {
        assert!(text.lines().any(|other| other == line), "{line} is not in {text}");
    }
}
