//! A command at which the service panics: each replica says which one it was, and a program that can execute it goes on from there.

use quorate::{
    Context, Halt, InStore, LocalCluster, ObjectService, Options, Parallel, ParallelService, ReplicaId,
};
use quorate::{ReplySink, StartError, StateView, Store, Typed, TypedService};
use quorate_runtime::ExecutorKind;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);
const REPLICAS: [ReplicaId; 3] = [ReplicaId::new(1), ReplicaId::new(2), ReplicaId::new(3)];

#[derive(Default, Serialize, Deserialize)]
struct Counter(i64);

/// Whether the replicas run the newer program.
static MENDED: AtomicBool = AtomicBool::new(false);

impl TypedService for Counter {
    type Command = i64;
    type Reply = i64;
    type Query = ();
    type Answer = i64;

    fn execute(&mut self, amount: i64, _: &Context) -> i64 {
        let mended = MENDED.load(Ordering::Relaxed);
        assert!(amount >= 0 || mended, "an amount of {amount}");
        self.0 += amount;
        self.0
    }

    fn query(&self, (): (), _: &Context) -> i64 {
        self.0
    }
}

/// Waits until a replica has stopped by itself, and gives why.
fn stopped(cluster: &mut LocalCluster, replica: ReplicaId) -> Halt {
    let until = Instant::now() + PATIENCE;
    while cluster.is_running(replica) {
        assert!(Instant::now() < until, "{replica} goes on");
        std::thread::sleep(Duration::from_millis(20));
    }
    cluster.stop(replica).expect("it stopped by itself")
}

/// Starts replicas again as they stop, until two of three have stopped at the command. The last one may never hear that it is decided.
fn two_stop(cluster: &mut LocalCluster) {
    let until = Instant::now() + PATIENCE;
    let mut halted = BTreeSet::new();
    while halted.len() < 2 {
        assert!(Instant::now() < until, "only {halted:?} stopped");
        std::thread::sleep(Duration::from_millis(20));
        for replica in
            REPLICAS.into_iter().filter(|replica| !cluster.is_running(*replica)).collect::<Vec<_>>()
        {
            let halt = cluster.stop(replica);
            // The log has the command, so the same program stops again, at once or when it hears that it is decided.
            let again = cluster.restart(replica).err();
            let halt = match (halt, again) {
                (_, Some(StartError::Halt(halt))) | (Some(halt), None) => halt,
                other => panic!("{replica}: {other:?}"),
            };
            let Halt::ServicePanicked { request: Some(_), bytes, why, .. } = &halt else {
                panic!("{replica}: {halt}")
            };
            assert!(*bytes > 0 && why == "an amount of -2", "{halt}");
            halted.insert(replica);
        }
    }
}

#[test]
fn a_newer_program_goes_on_at_the_command_that_stopped_the_one_before() {
    let mut cluster = LocalCluster::temporary(3, || Box::new(Typed(Counter::default()))).expect("it starts");
    let client = cluster.client().build_blocking().expect("a client");
    let counter = client.open::<Counter>().expect("a session");
    assert_eq!(counter.call(&5).expect("an answer"), 5);
    std::thread::scope(|scope| {
        // It is answered once somebody can execute it.
        let waits = scope.spawn(|| counter.call(&-2));
        two_stop(&mut cluster);
        MENDED.store(true, Ordering::Relaxed);
        for replica in REPLICAS {
            cluster.stop(replica);
            cluster.restart(replica).expect("the newer program starts");
        }
        assert_eq!(waits.join().expect("no panic").expect("an answer"), 3);
    });
    assert_eq!(counter.call(&4).expect("an answer"), 7);
    cluster.check(PATIENCE).expect("all have the same state");
}

/// A service that panics at the command `poison`.
struct Fragile;

impl ObjectService for Fragile {
    fn execute(&mut self, store: &mut Store, command: &[u8], _: &Context, reply: &mut ReplySink<'_>) {
        assert_ne!(command, b"poison");
        store.put(command, b"");
        reply.write(command);
    }

    fn query(&self, _: &Store, _: &[u8], _: &Context, _: &mut ReplySink<'_>) {}
}

#[test]
fn a_cluster_of_one_says_why_it_does_not_start_again() {
    let mut cluster = LocalCluster::temporary(1, || Box::new(InStore::new(Fragile))).expect("it starts");
    let client = cluster.client().timeout(Duration::from_millis(500)).build_blocking().expect("a client");
    let session = client.open_session().expect("a session");
    session.call_one(b"fine").expect("an answer");
    session.call_one(b"poison").expect_err("nobody can execute it");
    let one = ReplicaId::new(1);
    let halt = stopped(&mut cluster, one);
    let text = halt.to_string();
    for part in
        ["the service panicked at seq ", "in request 2 of client ", "Start all of them with a program"]
    {
        assert!(text.contains(part), "{text}");
    }
    // It reads its log back.
    let again = match cluster.restart(one) {
        Err(StartError::Halt(again)) => again,
        Ok(()) => stopped(&mut cluster, one),
        Err(other) => panic!("{other}"),
    };
    assert_eq!(again, halt);
}

/// As [`Fragile`], with commands that may run side by side.
struct Shared;

impl ParallelService for Shared {
    fn execute(&self, view: &mut StateView<'_>, command: &[u8], _: &Context, reply: &mut ReplySink<'_>) {
        assert_ne!(command, b"poison");
        view.set(command, b"");
        reply.write(command);
    }

    fn query(&self, _: &StateView<'_>, _: &[u8], _: &Context, _: &mut ReplySink<'_>) {}
}

#[test]
fn a_command_that_panics_on_a_worker_is_named_too() {
    for kind in [ExecutorKind::Ordered, ExecutorKind::Speculative] {
        let mut cluster = LocalCluster::temporary_with(
            1,
            || Box::new(InStore::new(Parallel::new(Shared))),
            |config| {
                (config.execution.executor, config.execution.long_us) = (kind, 0);
                config.execution.verify = kind == ExecutorKind::Speculative;
            },
            |_| Options::default(),
        )
        .expect("it starts");
        let client = cluster.client().timeout(Duration::from_millis(500)).build_blocking().expect("a client");
        let session = client.open_session().expect("a session");
        session.call_one(b"fine").expect("an answer");
        session.call_one(b"poison").expect_err("nobody can execute it");
        let halt = stopped(&mut cluster, ReplicaId::new(1));
        assert!(matches!(halt, Halt::ServicePanicked { request: Some(_), .. }), "{halt}");
    }
}
