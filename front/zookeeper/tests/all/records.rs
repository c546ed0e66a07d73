//! Records there and back, and their lengths.

use quorate_zookeeper::error::ZkError;
use quorate_zookeeper::jute::{Malformed, Reader};
use quorate_zookeeper::op::Op;
use quorate_zookeeper::records::{
    Acl, CONNECTED, ConnectRequest, ConnectResponse, EventKind, ReplyHeader, RequestHeader, Stat,
    WatcherEvent,
};
use std::collections::BTreeSet;

#[test]
fn numbers_are_names_of_one_thing() {
    let codes: BTreeSet<i32> = ZkError::ALL.iter().map(|error| error.code()).collect();
    assert_eq!(codes.len(), ZkError::ALL.len());
    assert!(ZkError::ALL.iter().all(|error| ZkError::of(error.code()) == Some(*error)));
    assert_eq!((ZkError::of(0), ZkError::of(-101)), (None, Some(ZkError::NoNode)));
    let ops: BTreeSet<i32> = Op::ALL.iter().map(|op| op.code()).collect();
    assert_eq!(ops.len(), Op::ALL.len());
    assert!(Op::ALL.iter().all(|op| Op::of(op.code()) == Some(*op)));
    assert_eq!((Op::of(10), Op::of(-11)), (None, Some(Op::CloseSession)));
}

/// What the Java client of 3.9 sends first, and what older ones do.
#[test]
fn a_connection_begins_with_or_without_the_last_byte() {
    let request = ConnectRequest {
        protocol: 0,
        last_zxid: 5,
        timeout_ms: 30_000,
        session: 0,
        password: &[0; 16],
        read_only: Some(false),
    };
    let mut bytes = Vec::new();
    request.write(&mut bytes);
    let expected = [&[0; 11][..], &[5, 0, 0, 0x75, 0x30], &[0; 8], &[0, 0, 0, 16], &[0; 16], &[0]].concat();
    assert_eq!(bytes, expected);
    assert_eq!(ConnectRequest::read(&bytes), Ok(request.clone()));
    bytes.pop();
    assert_eq!(ConnectRequest::read(&bytes), Ok(ConnectRequest { read_only: None, ..request }));
    assert_eq!(ConnectRequest::read(&bytes[..40]), Err(Malformed));
    let response = ConnectResponse {
        protocol: 0,
        timeout_ms: 4000,
        session: -7,
        password: b"secret",
        read_only: Some(true),
    };
    bytes.clear();
    response.write(&mut bytes);
    assert_eq!((bytes.len(), ConnectResponse::read(&bytes)), (4 + 4 + 8 + 10 + 1, Ok(response)));
}

#[test]
fn records_come_back_as_they_were() {
    let mut bytes = Vec::new();
    let stat = Stat {
        czxid: 1,
        mzxid: 2,
        ctime: 3,
        mtime: 4,
        version: 5,
        cversion: 6,
        aversion: 7,
        ephemeral_owner: 8,
        data_length: 9,
        num_children: 10,
        pzxid: 11,
    };
    stat.write(&mut bytes);
    assert_eq!(bytes.len(), Stat::BYTES);
    let last: Vec<u8> = bytes.chunks(4).map(|chunk| chunk[3]).collect();
    assert_eq!(last, [0, 1, 0, 2, 0, 3, 0, 4, 5, 6, 7, 0, 8, 9, 10, 0, 11], "the fields have this order");
    let (request, reply) =
        (RequestHeader { xid: 4, op: 1 }, ReplyHeader { xid: RequestHeader::EVENT, zxid: 9, error: -101 });
    let event = WatcherEvent { kind: EventKind::Deleted as i32, state: CONNECTED, path: b"/a" };
    request.write(&mut bytes);
    reply.write(&mut bytes);
    Acl::OPEN.write(&mut bytes);
    event.write(&mut bytes);
    let mut from = Reader::new(&bytes);
    assert_eq!(Stat::read(&mut from), Ok(stat));
    assert_eq!(RequestHeader::read(&mut from), Ok(request));
    assert_eq!(ReplyHeader::read(&mut from), Ok(reply));
    assert_eq!(Acl::read(&mut from), Ok(Acl::OPEN));
    assert_eq!((WatcherEvent::read(&mut from), from.rest()), (Ok(event), &[][..]));
}
