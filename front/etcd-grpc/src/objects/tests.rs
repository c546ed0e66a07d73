use super::{Objects, REQUEST_BYTES_MAX};
use crate::errors::{INVALID_ARGUMENT, RESOURCE_EXHAUSTED, Refusal};
use crate::framing::Requests as _;
use crate::json;
use crate::pb::etcdserverpb::watch_request::RequestUnion;
use crate::pb::etcdserverpb::{WatchCancelRequest, WatchCreateRequest, WatchProgressRequest, WatchRequest};
use bytes::Bytes;
use http_body::{Body, Frame};
use http_body_util::StreamBody;
use prost::Message as _;
use std::convert::Infallible;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use tonic::codegen::tokio_stream;

/// The requests in a body that comes in pieces.
fn objects(
    pieces: impl IntoIterator<Item = Bytes, IntoIter: Unpin>,
) -> Objects<impl Body<Data = Bytes, Error = Infallible> + Unpin> {
    let frames = pieces.into_iter().map(|piece| Ok(Frame::data(piece)));
    let method = json::method("/etcdserverpb.Watch/Watch").expect("there is such a call");
    Objects::new(method, StreamBody::new(tokio_stream::iter(frames)))
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(future)
}

/// What comes before the end or the error.
fn all(text: &[u8], size: usize) -> (Vec<WatchRequest>, Option<Refusal>) {
    let pieces: Vec<Bytes> = text.chunks(size).map(Bytes::copy_from_slice).collect();
    let mut objects = objects(pieces);
    let mut requests = vec![];
    run(async {
        loop {
            match objects.next().await {
                Ok(Some(message)) => requests.push(WatchRequest::decode(message).expect("a message")),
                Ok(None) => return (requests, None),
                Err(refusal) => return (requests, Some(refusal)),
            }
        }
    })
}

fn wanted(request: RequestUnion) -> WatchRequest {
    WatchRequest { request_union: Some(request) }
}

#[test]
fn requests_come_out_however_they_are_cut() {
    let text = concat!(
        " \r\n\t{\"create_request\":{\"key\":\"YQ==\",\"filters\":[\"NOPUT\",1]}}",
        r#"{"note":"}{ \" \\","deep":[[{"a":"]"}],[]],"cancelRequest":{"watchId":"7"}}"#,
        "\n\n{\"progress_request\":{}}{}  \n",
    );
    let create = WatchCreateRequest { key: "a".into(), filters: vec![0, 1], ..WatchCreateRequest::default() };
    let requests = vec![
        wanted(RequestUnion::CreateRequest(create)),
        wanted(RequestUnion::CancelRequest(WatchCancelRequest { watch_id: 7 })),
        wanted(RequestUnion::ProgressRequest(WatchProgressRequest {})),
        WatchRequest::default(),
    ];
    for size in [1, 2, 3, 7, 50, text.len()] {
        assert_eq!(all(text.as_bytes(), size), (requests.clone(), None), "{size}");
    }
    assert_eq!(all(b"", 1), (vec![], None));
    assert_eq!(all(b" \n ", 1), (vec![], None));
}

#[test]
fn what_is_no_request_ends_the_stream_and_says_which_it_is() {
    for (text, why) in [
        ("5", "an object is wanted, which begins with {, not \"5\""),
        ("null", "not \"null\""),
        ("[{}]", "not \"[{}]\""),
        ("{},{}", "request 2 of the stream: an object is wanted, which begins with {, not \",{}\""),
        ("{} nonsense", "request 2 of the stream: an object is wanted"),
        ("{}}", "not \"}\""),
        ("{}\u{b}{}", "not \"\\u{b}{}\""),
        ("\u{feff}{}", "request 1 of the stream: an object is wanted"),
        ("{} {\"create_request\":{\"key\"", "request 2 of the stream: the body ends within it"),
        ("{\"note\":\"}", "request 1 of the stream: the body ends within it"),
        ("{]", "request 1 of the stream: "),
        ("{}{\"create_request\":{\"key\":5}}", "create_request: key: bytes in base64 is wanted, not 5"),
        ("{}{\"create_request\":[]}", "create_request: an object is wanted, not []"),
        ("{\"cancel_request\":{\"watch_id\":\"x\"}}", "watch_id: a number is wanted, not \"x\""),
        ("{\"create_request\":{},\"cancelRequest\":{}}", "can not stand together"),
    ] {
        for size in [1, text.len()] {
            let (requests, refusal) = all(text.as_bytes(), size);
            let refusal = refusal.expect(text);
            assert_eq!(refusal.code, INVALID_ARGUMENT, "{text}");
            // Of what comes later nothing is shown.
            assert!(size == 1 || refusal.text.contains(why), "{text}: {refusal:?}");
            assert_eq!(requests.len(), usize::from(refusal.text.starts_with("request 2")), "{text}");
        }
    }
    let (_, refusal) = all(b"{\"create_request\":{\"key\":\"\xff\"}}", 3);
    assert_eq!(refusal.expect("no text").code, INVALID_ARGUMENT);
    let deep = format!("{}{}", "{\"a\":".repeat(100_000), "}".repeat(100_000));
    assert_eq!(all(deep.as_bytes(), 1 << 14).1.expect("too deep").code, INVALID_ARGUMENT);
    let (_, refusal) = all("x".repeat(1000).as_bytes(), 1000);
    assert!(refusal.expect("no object").text.len() < 200);
}

#[test]
fn a_body_without_an_end_takes_no_more_than_one_request() {
    // Far more than the limit, but not all of it is looked at.
    let endless = std::iter::once(Bytes::from_static(b"{\"note\":\""))
        .chain(std::iter::repeat_n(Bytes::from(vec![b'A'; 1 << 16]), 1 << 20));
    let mut long = objects(endless);
    let refusal = run(long.next()).expect_err("it is too long");
    assert_eq!(refusal.code, RESOURCE_EXHAUSTED);
    assert!(refusal.text.contains("request 1 of the stream is longer than"), "{refusal:?}");
    assert!(long.buffer.capacity() <= 2 * REQUEST_BYTES_MAX + (1 << 17), "{}", long.buffer.capacity());
    // White space may go on, and takes nothing.
    let space = std::iter::repeat_n(Bytes::from(vec![b' '; 1 << 16]), 1000);
    let mut space = objects(space.chain([Bytes::from_static(b"{}")]));
    assert!(run(space.next()).expect("a request").is_some());
    assert!(space.buffer.capacity() <= 1 << 17, "{}", space.buffer.capacity());
    assert_eq!(run(space.next()), Ok(None));
    assert_eq!(space.buffer.capacity(), 0);
}

#[test]
fn a_silent_end_is_waited_for() {
    let mut objects = objects([Bytes::from_static(b"{}")]).then_silent();
    assert!(run(objects.next()).expect("a request").is_some());
    let mut cx = Context::from_waker(Waker::noop());
    assert_eq!(pin!(objects.next()).poll(&mut cx), Poll::Pending);
}
