use super::*;
use crate::pb::etcdserverpb::compare::{CompareResult, CompareTarget, TargetUnion};
use crate::pb::etcdserverpb::*;
use crate::pb::mvccpb::KeyValue;
use prost::Message as _;

fn of(path: &str) -> Method {
    method(path).expect("there is such a call")
}

#[test]
fn requests_are_read_from_json() {
    let put = of("/etcdserverpb.KV/Put");
    for json in [
        r#"{"key":"Zm9v","value":"YmFy","lease":"77","prev_kv":true}"#,
        r#"{"key":"Zm9v","value":"YmFy","lease":77,"prevKv":true,"ignore_lease":null,"unknown":[1]}"#,
        r#"{"lease":7.7e1,"value":"YmF\u0079","key":"Zm9v","prev_kv":true}"#,
    ] {
        let bytes = put.request(json.as_bytes()).expect(json);
        let read = PutRequest::decode(bytes.as_slice()).expect("a message");
        let wanted = PutRequest { lease: 77, prev_kv: true, ..PutRequest::default() };
        assert_eq!(read, PutRequest { key: "foo".into(), value: "bar".into(), ..wanted }, "{json}");
    }
    let bytes = put.request(br#"{"key":"-_8","value":"+/8="}"#).expect("both alphabets");
    let read = PutRequest::decode(bytes.as_slice()).expect("a message");
    assert_eq!((&read.key[..], &read.value[..]), (&[0xfb, 0xff][..], &[0xfb, 0xff][..]));
    assert!(put.request(b"").expect("nothing is said").is_empty());
    assert!(put.request(b"{}").expect("nothing is said").is_empty());
}

#[test]
fn transactions_nest() {
    let txn = of("/etcdserverpb.KV/Txn");
    let json = r#"{"compare":[{"result":"NOT_EQUAL","target":1,"key":"YQ==","create_revision":"0"}],
        "success":[{"request_put":{"key":"YQ==","value":"Yg=="}},{"requestTxn":{"success":[]}}],
        "failure":[{"request_range":{"key":"YQ==","sort_order":"DESCEND","sort_target":"MOD"}}]}"#;
    let bytes = txn.request(json.as_bytes()).expect("a request");
    let read = TxnRequest::decode(bytes.as_slice()).expect("a message");
    let compare = Compare {
        result: CompareResult::NotEqual.into(),
        target: CompareTarget::Create.into(),
        key: "a".into(),
        target_union: Some(TargetUnion::CreateRevision(0)),
        ..Compare::default()
    };
    assert_eq!(read.compare, [compare]);
    assert_eq!((read.success.len(), read.failure.len()), (2, 1));
}

#[test]
fn what_is_no_request_is_refused() {
    let txn = of("/etcdserverpb.KV/Txn");
    let deep = format!("{}{}", r#"{"success":[{"request_txn":"#.repeat(100), "}]}".repeat(100));
    for json in [
        "[]",
        "{",
        "1",
        r#"{"success":{}}"#,
        r#"{"compare":[1]}"#,
        r#"{"compare":[{"key":"!"}]}"#,
        r#"{"compare":[{"key":5}]}"#,
        r#"{"compare":[{"result":"ALIKE"}]}"#,
        r#"{"compare":[{"lease":"1.5"}]}"#,
        r#"{"compare":[{"lease":"9223372036854775808"}]}"#,
        r#"{"compare":[{"lease":true}]}"#,
        deep.as_str(),
    ] {
        assert!(txn.request(json.as_bytes()).is_err(), "{json}");
    }
}

#[test]
fn responses_are_shown() {
    let range = of("/etcdserverpb.KV/Range");
    let header = ResponseHeader { cluster_id: u64::MAX, member_id: 2, revision: 3, raft_term: 0 };
    let kv = KeyValue { key: "foo".into(), value: "\u{ff}".into(), version: 1, ..KeyValue::default() };
    let response =
        RangeResponse { header: Some(header), kvs: vec![kv, KeyValue::default()], more: true, count: 2 };
    assert_eq!(
        range.response(&response.encode_to_vec()).expect("a response"),
        r#"{"header":{"cluster_id":"18446744073709551615","member_id":"2","revision":"3"},"#.to_owned()
            + r#""kvs":[{"key":"Zm9v","version":"1","value":"w78="},{}],"more":true,"count":"2"}"#
    );
    let member = Member { id: 5, name: "a\"b".into(), peer_ur_ls: vec!["x".into()], ..Member::default() };
    let list = MemberListResponse { header: None, members: vec![member] };
    assert_eq!(
        of("/etcdserverpb.Cluster/MemberList").response(&list.encode_to_vec()).expect("a response"),
        r#"{"members":[{"ID":"5","name":"a\"b","peerURLs":["x"]}]}"#
    );
    assert!(range.response(&[0x0a, 0x09]).is_err());
    assert_eq!(range.response(&[]).expect("an empty one"), "{}");
}
