//! Services that are not deterministic are seen when they run twice, each at the first command that shows it.

use quorate::{
    AgreedTime, BatchReplies, Context, Halt, InStore, Items, LocalCluster, ObjectService, ReplicaId,
    ReplySink, Seq, Service, Store, Typed, TypedService, encode_command, twice,
};
use quorate_types::ItemsBuilder;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant, SystemTime};

const PATIENCE: Duration = Duration::from_secs(60);

/// From where a service takes what it must not take.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Source {
    /// Nowhere.
    Command,
    /// A hash map whose order shows in the reply.
    OrderInReply,
    /// A hash map whose order shows in the state alone.
    OrderInState,
    /// A clock of the process.
    Clock,
    /// The time of day.
    TimeOfDay,
    /// Where a value lies in memory.
    Address,
    /// The thread that runs.
    Thread,
    /// Random numbers of its own.
    Random,
    /// What all instances share.
    Shared,
}

const WRONG: [Source; 8] = [
    Source::OrderInReply,
    Source::OrderInState,
    Source::Clock,
    Source::TimeOfDay,
    Source::Address,
    Source::Thread,
    Source::Random,
    Source::Shared,
];

/// The same for all instances, so that two looks at the clock differ for sure.
static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);
static SHARED: AtomicU64 = AtomicU64::new(0);

#[derive(Default, Serialize, Deserialize)]
struct Wrong {
    words: BTreeMap<u64, u64>,
    unordered: HashMap<u64, u64>,
    #[serde(skip)]
    place: Box<u64>,
}

impl TypedService for Wrong {
    type Command = (Source, u64);
    type Reply = u64;
    type Query = Source;
    type Answer = u64;

    fn execute(&mut self, (source, number): (Source, u64), _: &Context) -> u64 {
        let of_now =
            || SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_nanos());
        let value = match source {
            Source::Command => number,
            Source::OrderInReply => {
                let map: HashMap<u64, u64> = (0..100).map(|number| (number, number)).collect();
                map.into_values().fold(0, |order: u64, number| order.wrapping_mul(101).wrapping_add(number))
            }
            Source::OrderInState => {
                self.unordered.extend((0..100).map(|number| (number, number)));
                number
            }
            Source::Clock => BEGAN.elapsed().as_nanos() as u64,
            Source::TimeOfDay => of_now() as u64,
            Source::Address => std::ptr::from_ref(&*self.place).addr() as u64,
            Source::Thread => {
                let started = std::thread::spawn(|| format!("{:?}", std::thread::current().id()));
                started.join().map_or(0, |name| {
                    name.bytes().fold(0, |sum, byte| u64::wrapping_add(sum << 5, u64::from(byte)))
                })
            }
            Source::Random => Arc::as_ptr(&Arc::new(0)).addr() as u64 ^ of_now() as u64,
            Source::Shared => SHARED.fetch_add(1, Ordering::Relaxed),
        };
        self.words.insert(number, value);
        value
    }

    fn query(&self, source: Source, _: &Context) -> u64 {
        if source == Source::Clock { BEGAN.elapsed().as_nanos() as u64 } else { self.words.len() as u64 }
    }
}

/// Runs commands as one request.
fn run(service: &mut dyn Service, seq: u64, commands: &[Vec<u8>]) -> BatchReplies {
    let mut list = ItemsBuilder::new();
    commands.iter().for_each(|command| list.push(command));
    let mut bytes = Vec::new();
    list.write_to(&mut bytes);
    let mut replies = BatchReplies::new(1 << 20);
    let ctx = Context::at(Seq::new(seq), AgreedTime::default());
    service.execute_batch(Items::parse(&bytes).expect("a list"), &ctx, &mut replies);
    replies
}

fn command(source: Source, number: u64) -> Vec<u8> {
    encode_command(&(source, number)).expect("it can be encoded")
}

/// What it says when this panics, if it does.
fn says(run: impl FnOnce()) -> Option<String> {
    let why = catch_unwind(AssertUnwindSafe(run)).err()?;
    Some(*why.downcast::<String>().expect("a panic with a text"))
}

#[test]
fn what_is_not_deterministic_is_seen_at_its_first_command() {
    for source in WRONG {
        let mut service = twice(|| Typed(Wrong::default()))();
        for seq in 1..10 {
            let list = run(&mut *service, seq, &[command(Source::Command, seq), command(Source::Command, 7)]);
            assert_eq!(list.len(), 2);
        }
        let two = [command(Source::Command, 1), command(source, 2)];
        let why = says(|| drop(run(&mut *service, 10, &two))).unwrap_or_else(|| panic!("{source:?} passes"));
        assert!(why.contains("when it ran again") && why.contains("Typical causes"), "{source:?}: {why}");
        let state = why.starts_with("a request left another state");
        assert!(
            (state && source == Source::OrderInState)
                || why.starts_with("command 1 of a request was answered with"),
            "{source:?}: {why}"
        );
    }
}

#[test]
fn a_query_is_asked_twice() {
    let mut service = twice(|| Typed(Wrong::default()))();
    run(&mut *service, 1, &[command(Source::Command, 5)]);
    let ask = |source: Source| {
        let query = encode_command(&source).expect("it can be encoded");
        let mut out = Vec::new();
        let ctx = Context::at(Seq::new(1), AgreedTime::default());
        service.query(&query, &ctx, &mut ReplySink::new(&mut out, 100));
        out
    };
    assert!(!ask(Source::Command).is_empty());
    let why = says(|| drop(ask(Source::Clock))).expect("a clock shows");
    assert!(why.starts_with("a query was answered with"), "{why}");
}

/// A service in the store that writes what it must not.
struct InIt {
    made: u64,
}

static MADE: AtomicU64 = AtomicU64::new(0);

impl InIt {
    fn new() -> InStore<Self> {
        InStore::new(Self { made: MADE.fetch_add(1, Ordering::Relaxed) })
    }
}

impl ObjectService for InIt {
    fn execute(&mut self, store: &mut Store, command: &[u8], _: &Context, reply: &mut ReplySink<'_>) {
        match command {
            b"wrong" => {
                store.put(b"key", &self.made.to_le_bytes());
            }
            b"gone" if self.made.is_multiple_of(2) => {
                store.remove(b"a");
            }
            b"gone" => {}
            b"long" => reply.write(&[0; 2 << 20]),
            _ => {
                store.put(command, b"value");
            }
        }
    }

    fn query(&self, store: &Store, _: &[u8], _: &Context, reply: &mut ReplySink<'_>) {
        reply.write(&store.len().to_le_bytes());
    }
}

#[test]
fn a_store_that_differs_is_seen_and_a_replaced_one_is_taken() {
    for (wrong, text) in
        [("wrong", "the key \"key\" got the value"), ("gone", "the key \"a\" lost its value")]
    {
        let mut service = twice(InIt::new)();
        run(&mut *service, 1, &[b"a".to_vec(), b"b".to_vec()]);
        // As the engine does when it takes over a state.
        let mut store = Store::new();
        store.put(b"a", b"other");
        *service.store_mut().expect("it has a store") = store;
        service.restored();
        let mut answer = Vec::new();
        let ctx = Context::at(Seq::new(1), AgreedTime::default());
        // Both have the one object; otherwise their answers differ.
        service.query(b"", &ctx, &mut ReplySink::new(&mut answer, 100));
        assert_eq!(answer, 1_u64.to_le_bytes());
        run(&mut *service, 2, &[b"c".to_vec(), b"long".to_vec()]);
        assert_eq!(service.store().map(Store::len), Some(2));
        let why = says(|| drop(run(&mut *service, 3, &[wrong.into()]))).expect("it differs");
        assert!(why.contains("left another state when it ran again") && why.contains(text), "{why}");
    }
}

#[test]
fn a_replica_names_the_command() {
    let mut cluster = LocalCluster::temporary(3, twice(|| Typed(Wrong::default()))).expect("it starts");
    let client = cluster.client().timeout(PATIENCE).build_blocking().expect("a client");
    let session = client.open::<Wrong>().expect("a session");
    assert_eq!(session.call(&(Source::Command, 4)).expect("an answer"), 4);
    cluster.check(PATIENCE).expect("all have the same state");
    std::thread::scope(|scope| {
        let short = cluster.client().timeout(Duration::from_secs(3)).build_blocking().expect("a client");
        let session = short.open::<Wrong>().expect("a session");
        // Nobody answers it.
        scope.spawn(move || session.call(&(Source::OrderInReply, 9)).expect_err("no answer"));
        let until = Instant::now() + PATIENCE;
        let halted = loop {
            assert!(Instant::now() < until, "all go on");
            std::thread::sleep(Duration::from_millis(20));
            let stopped = (1..=3).map(ReplicaId::new).find(|replica| !cluster.is_running(*replica));
            if let Some(replica) = stopped {
                break cluster.stop(replica).expect("it stopped by itself");
            }
        };
        let Halt::ServicePanicked { request: Some(_), why, .. } = &halted else { panic!("{halted}") };
        assert!(why.contains("command 0 of a request was answered with"), "{halted}");
    });
}
