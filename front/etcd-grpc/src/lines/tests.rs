use super::{Lines, Outgoing};
use crate::errors::Refusal;
use crate::framing::{Incoming, Message, framed};
use crate::json;
use crate::pb::etcdserverpb::{ResponseHeader, WatchResponse};
use crate::pb::mvccpb::{Event, KeyValue};
use bytes::Bytes;
use http::{HeaderMap, Response};
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use prost::Message as _;
use quorate_etcd::EtcdError;
use std::sync::Arc;
use tokio::sync::{Semaphore, mpsc};
use tonic::codegen::tokio_stream;

fn method() -> json::Method {
    json::method("/etcdserverpb.Watch/Watch").expect("there is such a call")
}

fn run<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(future)
}

fn message(response: &WatchResponse) -> Bytes {
    framed(|out| out.extend_from_slice(&response.encode_to_vec()), 0)
}

/// The frames of a body.
async fn frames(response: Response<Outgoing>) -> Vec<String> {
    let mut body = response.into_body();
    let mut frames = vec![];
    while let Some(frame) = body.frame().await {
        let data = frame.expect("no error").into_data().expect("no trailers");
        frames.push(String::from_utf8(data.to_vec()).expect("a text"));
    }
    frames
}

/// The lines of these messages, after which the stream ends like that.
fn lines(responses: &[WatchResponse], end: Option<Refusal>) -> (u16, Vec<String>) {
    let (sender, messages) = mpsc::channel(100);
    for response in responses {
        sender.try_send(Ok(message(response).into())).expect("room");
    }
    end.into_iter().for_each(|end| sender.try_send(Err(end)).expect("room"));
    drop(sender);
    run(async {
        let response = Lines::of_queue(method(), messages).respond().await;
        (response.status().as_u16(), frames(response).await)
    })
}

#[test]
fn each_message_is_a_line() {
    let header = Some(ResponseHeader { cluster_id: 1, member_id: 2, revision: 5, raft_term: 0 });
    let kv = |value: &str, version| {
        let (create_revision, mod_revision) = if version == 0 { (0, 5) } else { (2, 4) };
        let value = Bytes::from(value.to_owned());
        KeyValue { key: "a".into(), value, version, create_revision, mod_revision, lease: 0 }
    };
    let put = Event { r#type: 0, kv: Some(kv("1", 3)), prev_kv: None };
    let delete = Event { r#type: 1, kv: Some(kv("", 0)), prev_kv: Some(kv("1", 3)) };
    let responses = [
        WatchResponse { header, created: true, ..WatchResponse::default() },
        WatchResponse { watch_id: 7, fragment: true, events: vec![put, delete], ..WatchResponse::default() },
        WatchResponse {
            watch_id: -1,
            created: true,
            canceled: true,
            cancel_reason: "no \"one\"".into(),
            ..WatchResponse::default()
        },
        WatchResponse { canceled: true, compact_revision: 9, ..WatchResponse::default() },
    ];
    let entry = r#""key":"YQ==","create_revision":"2","mod_revision":"4","version":"3","value":"MQ==""#;
    let wanted = [
        r#"{"header":{"cluster_id":"1","member_id":"2","revision":"5"},"created":true}"#.to_owned(),
        format!(
            r#"{{"watch_id":"7","fragment":true,"events":[{{"kv":{{{entry}}}}},{}]}}"#,
            format_args!(
                r#"{{"type":"DELETE","kv":{{"key":"YQ==","mod_revision":"5"}},"prev_kv":{{{entry}}}}}"#
            )
        ),
        r#"{"watch_id":"-1","created":true,"canceled":true,"cancel_reason":"no \"one\""}"#.to_owned(),
        r#"{"canceled":true,"compact_revision":"9"}"#.to_owned(),
    ];
    let wanted: Vec<String> = wanted.iter().map(|text| format!("{{\"result\":{text}}}\n")).collect();
    assert_eq!(lines(&responses, None), (200, wanted.clone()));
    let error = "{\"error\":{\"code\":7,\"message\":\"etcdserver: permission denied\"}}\n".to_owned();
    let wanted = wanted.into_iter().chain([error.clone()]).collect();
    assert_eq!(lines(&responses, Some(EtcdError::PermissionDenied.into())), (200, wanted));
    // Before the first message the status can still say it.
    assert_eq!(lines(&[], Some(EtcdError::PermissionDenied.into())), (403, vec![error]));
    assert_eq!(lines(&[], None), (200, vec![]));
}

#[test]
fn messages_wait_until_the_connection_takes_them() {
    let room = Arc::new(Semaphore::new(3));
    let (sender, messages) = mpsc::channel(3);
    for _ in 0..3 {
        let room = room.clone().try_acquire_owned().expect("room");
        let bytes = message(&WatchResponse::default());
        sender.try_send(Ok(Message { bytes, room: Some(room) })).expect("room");
    }
    run(async {
        let mut body = Lines::of_queue(method(), messages).respond().await.into_body();
        // The first one decides how the response begins.
        assert_eq!((room.available_permits(), sender.capacity()), (1, 1));
        for free in [1, 2, 3] {
            body.frame().await.expect("a frame").expect("no error");
            assert_eq!((room.available_permits(), sender.capacity()), (free, free));
        }
        drop(body);
        assert!(sender.is_closed());
    });
}

#[test]
fn whoever_sends_is_told_of_the_end_at_once() {
    let (sender, messages) = mpsc::channel(3);
    sender.try_send(Ok(message(&WatchResponse::default()).into())).expect("room");
    sender.try_send(Ok(Bytes::from_static(b"\0\0\0\0\x02\x0a\x09").into())).expect("room");
    run(async {
        let mut body = Lines::of_queue(method(), messages).respond().await.into_body();
        body.frame().await.expect("a frame").expect("no error");
        assert!(!sender.is_closed());
        let last = body.frame().await.expect("a frame").expect("no error").into_data().expect("data");
        assert!(last.starts_with(b"{\"error\":{\"code\":"), "{last:?}");
        assert!(sender.is_closed());
        assert!(body.frame().await.is_none());
    });
}

#[test]
fn the_answer_of_a_generated_service_ends_as_its_trailers_say() {
    let answered = |status: &'static str| {
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", status.parse().expect("a header"));
        let data = Frame::data(message(&WatchResponse { watch_id: 3, ..WatchResponse::default() }));
        let pieces = [Ok::<_, tonic::Status>(data), Ok(Frame::trailers(trailers))];
        let body = tonic::body::Body::new(StreamBody::new(tokio_stream::iter(pieces)));
        run(async { frames(Lines::of_answer(method(), Incoming::new(body)).respond().await).await })
    };
    let line = "{\"result\":{\"watch_id\":\"3\"}}\n".to_owned();
    assert_eq!(answered("0").concat(), line);
    assert_eq!(answered("7"), [line, "{\"error\":{\"code\":7,\"message\":\"\"}}\n".into()]);
}
