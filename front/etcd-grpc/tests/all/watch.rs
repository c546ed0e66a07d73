//! Watches over the network: from now, from the past, filtered, ended, and behind.

use crate::support::{World, kv, put, run, watch};
use quorate_etcd_grpc::pb::etcdserverpb::watch_create_request::FilterType;
use quorate_etcd_grpc::pb::etcdserverpb::watch_request::RequestUnion;
use quorate_etcd_grpc::pb::etcdserverpb::{
    CompactionRequest, DeleteRangeRequest, WatchCancelRequest, WatchCreateRequest, WatchProgressRequest,
    WatchRequest, WatchResponse,
};
use quorate_etcd_grpc::pb::mvccpb::Event;
use tokio::sync::mpsc;
use tonic::Streaming;
use tonic::codegen::tokio_stream::wrappers::UnboundedReceiverStream;
use tonic::transport::Channel;

struct Watching {
    requests: mpsc::UnboundedSender<WatchRequest>,
    responses: Streaming<WatchResponse>,
}

impl Watching {
    async fn open(channel: &Channel) -> Self {
        let (requests, receiver) = mpsc::unbounded_channel();
        let responses = watch(channel).watch(UnboundedReceiverStream::new(receiver)).await.expect("a stream");
        Self { requests, responses: responses.into_inner() }
    }

    fn ask(&self, request: RequestUnion) {
        self.requests.send(WatchRequest { request_union: Some(request) }).expect("the stream is open");
    }

    async fn next(&mut self) -> WatchResponse {
        self.responses.message().await.expect("no error").expect("the stream is open")
    }

    /// Begins a watch; gives its id.
    async fn create(&mut self, create: WatchCreateRequest) -> i64 {
        self.ask(RequestUnion::CreateRequest(create));
        let created = self.next().await;
        assert!(created.created && !created.canceled, "{created:?}");
        created.watch_id
    }

    /// So many events, in their order.
    async fn events(&mut self, count: usize) -> Vec<Event> {
        let mut events = Vec::new();
        while events.len() < count {
            events.extend(self.next().await.events);
        }
        assert_eq!(events.len(), count);
        events
    }
}

fn of(key: &str, end: &str) -> WatchCreateRequest {
    WatchCreateRequest { key: key.to_owned().into(), range_end: end.to_owned().into(), ..Default::default() }
}

fn revisions(events: &[Event]) -> Vec<i64> {
    events.iter().map(|event| event.kv.as_ref().expect("an entry").mod_revision).collect()
}

#[test]
fn from_now_and_from_the_past() {
    let world = World::start(3);
    run(async {
        let channel = world.channel(2).await;
        for value in 0..5u8 {
            kv(&channel).put(put("a", &[value])).await.expect("done");
        }
        let mut now = Watching::open(&channel).await;
        now.create(of("a", "")).await;
        let mut past = Watching::open(&channel).await;
        past.create(WatchCreateRequest { start_revision: 3, prev_kv: true, ..of("a", "b") }).await;
        // Through another member.
        let other = world.channel(0).await;
        kv(&other).put(put("a", b"new")).await.expect("done");
        kv(&other).put(put("b", b"other")).await.expect("done");
        let gone = DeleteRangeRequest { key: "a".into(), ..Default::default() };
        kv(&other).delete_range(gone).await.expect("done");
        let events = past.events(6).await;
        assert_eq!(revisions(&events), [3, 4, 5, 6, 7, 9]);
        assert!(events.iter().all(|event| event.prev_kv.is_some()));
        assert_eq!(events[5].r#type, 1);
        let events = now.events(2).await;
        assert_eq!(revisions(&events), [7, 9]);
        assert!(events.iter().all(|event| event.prev_kv.is_none()));
    });
}

#[test]
fn a_transaction_is_seen_at_once_and_filters_filter() {
    let world = World::start(1);
    run(async {
        let channel = world.channel(0).await;
        let mut watching = Watching::open(&channel).await;
        let no_put = i32::from(FilterType::Noput);
        let all = watching.create(of("\0", "\0")).await;
        let deletes = watching.create(WatchCreateRequest { filters: vec![no_put], ..of("\0", "\0") }).await;
        assert_ne!(all, deletes);
        kv(&channel).put(put("a", b"")).await.expect("done");
        kv(&channel).put(put("b", b"")).await.expect("done");
        let gone = DeleteRangeRequest { key: "a".into(), range_end: "c".into(), prev_kv: false };
        kv(&channel).delete_range(gone).await.expect("done");
        let (mut seen, mut deleted) = (vec![], vec![]);
        while seen.len() < 4 || deleted.len() < 2 {
            let response = watching.next().await;
            let both = response.events.iter().filter(|event| event.r#type == 1).count();
            assert!(both == 0 || both == 2, "the two deletes are one change: {response:?}");
            let list = if response.watch_id == all { &mut seen } else { &mut deleted };
            list.extend(response.events);
        }
        assert_eq!(revisions(&seen), [2, 3, 4, 4]);
        assert_eq!(revisions(&deleted), [4, 4]);
    });
}

#[test]
fn watches_end_when_told_and_when_compacted() {
    let world = World::start(1);
    run(async {
        let channel = world.channel(0).await;
        for _ in 0..5 {
            kv(&channel).put(put("a", b"")).await.expect("done");
        }
        kv(&channel).compact(CompactionRequest { revision: 4, physical: false }).await.expect("done");
        let mut watching = Watching::open(&channel).await;
        let id = watching.create(WatchCreateRequest { start_revision: 3, ..of("a", "") }).await;
        let ended = watching.next().await;
        assert_eq!((ended.watch_id, ended.canceled, ended.compact_revision), (id, true, 4));
        let id = watching.create(WatchCreateRequest { start_revision: 4, ..of("a", "") }).await;
        assert_eq!(revisions(&watching.events(3).await), [4, 5, 6]);
        watching.ask(RequestUnion::CancelRequest(WatchCancelRequest { watch_id: id }));
        let ended = watching.next().await;
        assert_eq!((ended.watch_id, ended.canceled), (id, true));
        // Ids of the client's own, each once.
        let own = WatchCreateRequest { watch_id: 77, ..of("a", "") };
        assert_eq!(watching.create(own.clone()).await, 77);
        watching.ask(RequestUnion::CreateRequest(own));
        let refused = watching.next().await;
        assert_eq!((refused.watch_id, refused.canceled, refused.created), (-1, true, true));
        watching.ask(RequestUnion::CreateRequest(of("b", "a")));
        assert!(watching.next().await.cancel_reason.contains("range is empty"));
    });
}

#[test]
fn progress_is_told_when_all_are_in_step() {
    let world = World::start(1);
    run(async {
        let channel = world.channel(0).await;
        let mut watching = Watching::open(&channel).await;
        watching.create(of("a", "")).await;
        watching.create(WatchCreateRequest { start_revision: 1, ..of("b", "") }).await;
        kv(&channel).put(put("other", b"")).await.expect("done");
        loop {
            watching.ask(RequestUnion::ProgressRequest(WatchProgressRequest {}));
            let told = watching.next().await;
            assert_eq!((told.watch_id, told.events.len()), (-1, 0));
            // The lane may be ahead of what was handed out.
            if told.header.expect("a header").revision == 2 {
                return;
            }
        }
    });
}

#[test]
fn whoever_reads_nothing_misses_nothing_and_holds_up_nobody() {
    let world = World::start(1);
    run(async {
        let channel = world.channel(0).await;
        let mut slow = Watching::open(&channel).await;
        let id = slow.create(WatchCreateRequest { prev_kv: true, fragment: true, ..of("k", "l") }).await;
        // More than all that may wait for clients.
        let value = vec![7; 900_000];
        for number in 0..160 {
            kv(&world.channel(0).await).put(put(&format!("k{}", number % 3), &value)).await.expect("done");
        }
        let mut events = Vec::new();
        while events.len() < 160 {
            let response = slow.next().await;
            assert_eq!(response.watch_id, id);
            events.extend(response.events.into_iter().map(|event| event.kv.expect("an entry").mod_revision));
        }
        assert_eq!(events, (2..162).collect::<Vec<i64>>());
    });
}

#[test]
fn thousands_of_watches_see_just_their_keys() {
    let world = World::start(1);
    run(async {
        let channel = world.channel(0).await;
        let mut watching = Watching::open(&channel).await;
        let mut ids = Vec::new();
        for number in 0..2000 {
            ids.push(watching.create(of(&format!("key-{number}"), "")).await);
        }
        for number in [3, 1999, 1000] {
            kv(&channel).put(put(&format!("key-{number}"), b"")).await.expect("done");
            kv(&channel).put(put("nobody's", b"")).await.expect("done");
        }
        for number in [3, 1999, 1000] {
            let response = watching.next().await;
            assert_eq!((response.watch_id, response.events.len()), (ids[number], 1));
        }
    });
}
