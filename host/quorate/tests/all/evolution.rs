//! The second release of a service, on a cluster in this process: old and new programs side by side, back, and the level. `front/cli/tests`
//! does the same with processes.

#[path = "../../examples/bank.rs"]
#[expect(dead_code, reason = "a program of its own, whose main runs a replica")]
pub(crate) mod bank;
#[path = "../../examples/bank_next.rs"]
#[expect(dead_code, reason = "a program of its own, whose main runs a replica")]
pub(crate) mod bank_next;

use quorate::client::{AdminConnection, ReadOptions};
use quorate::{
    BlockingClient, Error, LocalCluster, Options, ReplicaId, Service, Typed, TypedCallError, TypedError,
};
use quorate_wire::{FrameKind, LevelOf, upgrade_request};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(30);

/// A cluster, and which program its replicas run from their next start on.
struct Rolling {
    cluster: LocalCluster,
    next: Arc<AtomicBool>,
}

impl Rolling {
    fn begin() -> Self {
        let next = Arc::new(AtomicBool::new(false));
        let program = next.clone();
        let service = move || -> Box<dyn Service> {
            match program.load(Ordering::Relaxed) {
                true => Box::new(Typed(bank_next::Bank::default())),
                false => Box::new(Typed(bank::Bank::default())),
            }
        };
        Self { cluster: LocalCluster::temporary(3, service).expect("it starts"), next }
    }

    /// Replaces the program of a replica.
    fn replace(&mut self, id: u16, next: bool) -> Result<(), String> {
        self.next.store(next, Ordering::Relaxed);
        self.cluster.restart(ReplicaId::new(id)).map_err(|why| why.to_string())
    }

    fn client(&self) -> BlockingClient {
        self.cluster.client().timeout(PATIENCE).build_blocking().expect("it is built")
    }

    /// Asks all replicas to raise the level of the service. Gives what the one that leads answers, once the members are there.
    fn raise(&self, level: u32) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let mut answers = (1..=3).filter_map(|id| self.ask(id, level));
            let says = |text: &String| !text.contains("leads") && !text.contains("try again");
            if let Some(answer) = answers.find(says) {
                return answer;
            }
            assert!(Instant::now() < deadline, "nobody answers");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    fn ask(&self, id: u16, level: u32) -> Option<String> {
        let replica = ReplicaId::new(id);
        let (_, address) = self.cluster.members().into_iter().find(|(member, _)| *member == replica)?;
        let cluster = self.cluster.config(replica)?.cluster_id().ok()?;
        let mut line = AdminConnection::connect(replica, &address, cluster, None, PATIENCE).ok()?;
        // The connection ends with it.
        let mut sender = line.sender().ok()?;
        sender.send(&upgrade_request(LevelOf::Service, level)).ok()?;
        let frame = std::iter::from_fn(|| line.receive(PATIENCE).ok()?);
        let frame = frame.into_iter().find(|frame| frame.kind == FrameKind::UpgradeReply)?;
        Some(String::from_utf8_lossy(&frame.payload).into_owned())
    }

    fn status(&self, id: u16) -> serde_json::Value {
        let text = self.client().status(ReplicaId::new(id)).expect("a status");
        serde_json::from_str(&text).expect("JSON")
    }

    fn waits_for_level(&self, level: u64) {
        let deadline = Instant::now() + PATIENCE;
        while (1..=3).any(|id| self.status(id)["service"]["level"] != level) {
            assert!(Instant::now() < deadline, "the level does not rise");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

fn pay(to: &str, amount: i64) -> bank::Command {
    bank::Command::Pay { to: to.into(), amount }
}

fn noted(to: &str, amount: i64) -> bank_next::Command {
    bank_next::Command::Pay { to: to.into(), amount, note: Some("rent".into()) }
}

#[test]
fn a_service_gets_its_second_release_without_a_stop() {
    let mut rolling = Rolling::begin();
    let client = rolling.client();
    let old = client.open::<bank::Bank>().expect("a session");
    let next = client.open::<bank_next::Bank>().expect("a session");
    let mut paid = 0;
    let mut pays = || {
        paid += 1;
        assert_eq!(old.call(&pay("ada", 1)), Ok(paid));
    };
    // There, back, and there again.
    for (id, to) in [(1, true), (2, true), (2, false), (3, true), (2, true)] {
        pays();
        let too_new = TypedCallError::Value(TypedError::TooNew { needs: 2, level: 1 });
        assert_eq!(next.call(&noted("ada", 1)), Err(too_new), "neither program does it");
        if (id, to) == (2, false) {
            rolling.replace(3, true).expect("it starts");
            rolling.replace(3, false).expect("it goes back");
        }
        rolling.replace(id, to).expect("it starts");
        pays();
        let unnoted = bank_next::Command::Pay { to: "bob".into(), amount: 0, note: None };
        assert_eq!(next.call(&unnoted), Ok(0), "what the first version had, it does");
        if id != 2 || !to {
            assert!(rolling.raise(0).contains("error"), "not all programs have version 2");
        }
    }
    assert!(rolling.raise(3).contains("does not have version 3"), "no program has it");
    assert_eq!(rolling.raise(0), "begun 2");
    rolling.waits_for_level(2);
    assert_eq!(rolling.status(1)["service"]["name"], "bank");
    pays();
    assert_eq!(next.call(&noted("ada", 5)), Ok(paid + 5));
    assert_eq!(client.query::<bank::Bank>(&"ada".into(), ReadOptions::default()), Ok(paid + 5));
    assert!(rolling.raise(2).contains("at version 2 already"));
    rolling.cluster.check(PATIENCE).expect("one state");
    // A program that is too old executes nothing.
    let refused = rolling.replace(1, false);
    let halted = refused.is_err() || {
        let deadline = Instant::now() + PATIENCE;
        while rolling.cluster.is_running(ReplicaId::new(1)) {
            assert!(Instant::now() < deadline, "it runs on");
            std::thread::sleep(Duration::from_millis(50));
        }
        true
    };
    assert!(halted);
    let why = refused.err().or_else(|| rolling.cluster.stop(ReplicaId::new(1)).map(|halt| halt.to_string()));
    assert!(why.expect("it says so").contains("this program has version 1 at most"));
    assert_eq!(next.call(&bank_next::Command::Close("ada".into())), Ok(paid + 5), "the others go on");
    rolling.replace(1, true).expect("it starts again");
    rolling.waits_for_level(2);
}

/// A migration that fails leaves state and level, and every replica says so.
#[test]
fn a_service_whose_migration_fails_goes_on_as_before() {
    let mut rolling = Rolling::begin();
    let client = rolling.client();
    let old = client.open::<bank::Bank>().expect("a session");
    assert_eq!(old.call(&pay("ada", -5)), Ok(-5));
    (1..=3).for_each(|id| rolling.replace(id, true).expect("it starts"));
    let deadline = Instant::now() + PATIENCE;
    while rolling.raise(0) != "begun 2" {
        assert!(Instant::now() < deadline, "the members do not meet");
    }
    let failed = |rolling: &Rolling, id| rolling.status(id)["service"]["raise_failed"].clone();
    while (1..=3).any(|id| failed(&rolling, id) != "ada is overdrawn") {
        assert!(Instant::now() < deadline, "nobody says why");
        std::thread::sleep(Duration::from_millis(50));
    }
    rolling.waits_for_level(1);
    assert_eq!(old.call(&pay("ada", 10)), Ok(5));
    assert_eq!(rolling.raise(0), "begun 2", "it can be tried again");
    rolling.waits_for_level(2);
    rolling.cluster.check(PATIENCE).expect("one state");
}

/// A new cluster begins at the version of its program.
#[test]
fn a_cluster_of_the_second_release_begins_there() {
    let program = || Box::new(Typed(bank_next::Bank::default())) as Box<dyn Service>;
    let cluster = LocalCluster::temporary(1, program).expect("it starts");
    let client = cluster.client().build_blocking().expect("it is built");
    let bank = client.open::<bank_next::Bank>().expect("a session");
    assert_eq!(bank.call(&noted("ada", 5)), Ok(5));
}

/// Whoever means, or runs, another service is refused with both names.
#[test]
fn another_service_is_refused() {
    let program = || Box::new(Typed(bank::Bank::default())) as Box<dyn Service>;
    let mut cluster = LocalCluster::temporary(1, program).expect("it starts");
    let other = cluster.client().service("shop").timeout(PATIENCE).build_blocking().expect("it is built");
    let refused = other.open::<bank::Bank>().map(drop).expect_err("it means another one");
    let text = refused.to_string();
    assert!(matches!(refused, Error::Refused { .. }), "{text}");
    assert!(text.contains("runs the service bank") && text.contains("you mean the service shop"), "{text}");
    let unnamed = cluster.client().service("").build_blocking().expect("it is built");
    let refused = unnamed.open::<Shop>().map(drop).expect_err("its type names another one").to_string();
    assert!(refused.contains("runs the service bank, and the client means shop"), "{refused}");

    let config = cluster.config(ReplicaId::new(1)).expect("a replica").clone();
    cluster.stop(ReplicaId::new(1));
    let other = quorate::Replica::new(config.clone(), Box::new(Typed(Shop)));
    let refused = other.with(Options::default()).start().map(drop).expect_err("its program runs another one");
    let text = refused.to_string();
    assert!(text.contains("names the service bank") && text.contains("runs the service shop"), "{text}");
    let mut renamed = config;
    renamed.service.name = "shop".into();
    let refused =
        quorate::Replica::new(renamed, Box::new(Typed(Shop))).start().map(drop).expect_err("bank's data");
    assert!(!refused.to_string().is_empty());
}

/// Another service.
#[derive(serde::Serialize, serde::Deserialize)]
struct Shop;

impl quorate::TypedService for Shop {
    type Command = ();
    type Reply = ();
    type Query = ();
    type Answer = ();
    const NAME: &'static str = "shop";

    fn execute(&mut self, (): (), _: &quorate::Context) {}
    fn query(&self, (): (), _: &quorate::Context) {}
}
