//! Sessions and queries of a typed service, on a cluster in this process.

use quorate::client::{FaultModel, ReadOptions};
use quorate::{Context, Error, LocalCluster, Options, Typed, TypedCallError, TypedError, TypedService};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Default, Serialize, Deserialize)]
struct Bank(BTreeMap<String, u64>);

#[derive(Clone, Debug, Serialize, Deserialize)]
enum Command {
    Deposit { to: String, amount: u64 },
    Transfer { from: String, to: String, amount: u64 },
}

#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Reply {
    Balance(u64),
    TooLittle,
}

impl TypedService for Bank {
    type Command = Command;
    type Reply = Reply;
    type Query = String;
    type Answer = Option<u64>;

    fn execute(&mut self, command: Command, _: &Context) -> Reply {
        let (to, amount) = match command {
            Command::Deposit { to, amount } => (to, amount),
            Command::Transfer { from, to, amount } => {
                let balance = self.0.entry(from).or_default();
                let Some(rest) = balance.checked_sub(amount) else { return Reply::TooLittle };
                *balance = rest;
                (to, amount)
            }
        };
        let balance = self.0.entry(to).or_default();
        *balance = balance.saturating_add(amount);
        Reply::Balance(*balance)
    }

    fn query(&self, name: String, _: &Context) -> Option<u64> {
        self.0.get(&name).copied()
    }
}

/// Another program's idea of the same service: its commands and replies have other types.
#[derive(Serialize, Deserialize)]
struct Stranger;

impl TypedService for Stranger {
    type Command = ();
    type Reply = Vec<String>;
    type Query = u64;
    type Answer = Vec<u64>;

    fn execute(&mut self, (): (), _: &Context) -> Vec<String> {
        Vec::new()
    }
    fn query(&self, _: u64, _: &Context) -> Vec<u64> {
        Vec::new()
    }
}

fn deposit(to: &str, amount: u64) -> Command {
    Command::Deposit { to: to.into(), amount }
}

#[test]
fn values_go_in_and_values_come_out() {
    let cluster = LocalCluster::temporary(3, || Box::new(Typed(Bank::default()))).expect("it starts");
    let client = cluster.client().build_blocking().expect("it is built");
    let bank = client.open::<Bank>().expect("a session");
    assert_eq!(bank.call(&deposit("ann", 10)), Ok(Reply::Balance(10)));
    let move_7 = Command::Transfer { from: "ann".into(), to: "bob".into(), amount: 7 };
    let replies = bank.call_all(&[move_7.clone(), move_7, deposit("bob", 1)]).expect("they run");
    assert_eq!(replies, [Reply::Balance(7), Reply::TooLittle, Reply::Balance(8)]);
    assert_eq!(client.query::<Bank>(&"bob".into(), ReadOptions::default()), Ok(Some(8)));
    assert_eq!(client.query::<Bank>(&"eve".into(), ReadOptions::SESSION), Ok(None));

    let stranger = client.open::<Stranger>().expect("nothing names the service");
    let why = stranger.call(&()).expect_err("it is no command of the bank");
    assert_eq!(why, TypedCallError::Value(TypedError::Undecodable));
    assert!(!why.is_outcome_unknown(), "it is known: nothing was done");
    assert_eq!(format!("{why:?}"), why.to_string(), "a `main` that returns it prints a sentence");
    bank.close().expect("it closes");
}

/// Many calls of one session are under way at once, and keep their order.
#[test]
fn calls_are_under_way_before_anybody_waits() {
    let cluster = LocalCluster::temporary(1, || Box::new(Typed(Bank::default()))).expect("it starts");
    let client = cluster.client().build_blocking().expect("it is built");
    let bank = client.open::<Bank>().expect("a session");
    let calls: Vec<_> = (0..100).map(|_| bank.session().call(&deposit("ann", 1))).collect();
    let last = bank.call(&deposit("ann", 1)).expect("it runs");
    assert_eq!(last, Reply::Balance(101));
    drop(calls);
}

#[test]
fn a_cluster_of_liars_needs_no_more_than_its_fault_model() {
    let byzantine = |config: &mut quorate::Config| config.fault_model = FaultModel::Byzantine;
    let service = || Box::new(Typed(Bank::default())) as _;
    let cluster =
        LocalCluster::temporary_with(4, service, byzantine, |_| Options::default()).expect("it starts");
    let client = cluster.client().build_blocking().expect("it is built");
    let bank = client.open::<Bank>().expect("a session");
    assert_eq!(bank.call(&deposit("ann", 3)), Ok(Reply::Balance(3)));
    assert_eq!(client.query::<Bank>(&"ann".into(), ReadOptions::default()), Ok(Some(3)));
}

/// A service that is not deterministic: its state has what only one process knows.
#[derive(Default, Serialize, Deserialize)]
struct Local(usize);

impl TypedService for Local {
    type Command = ();
    type Reply = ();
    type Query = ();
    type Answer = ();

    fn execute(&mut self, (): (), _: &Context) {
        self.0 = std::ptr::from_ref(self).addr();
    }
    fn query(&self, (): (), _: &Context) {}
}

#[test]
fn a_check_finds_that_a_service_is_not_deterministic() {
    let patience = std::time::Duration::from_secs(30);
    let bank = LocalCluster::temporary(3, || Box::new(Typed(Bank::default()))).expect("it starts");
    let client = bank.client().build_blocking().expect("it is built");
    client.open::<Bank>().expect("a session").call(&deposit("ann", 1)).expect("it runs");
    assert_eq!(bank.check(patience), Ok(()));

    let local = LocalCluster::temporary(3, || Box::new(Typed(Local::default()))).expect("it starts");
    let client = local.client().build_blocking().expect("it is built");
    client.open::<Local>().expect("a session").call(&()).expect("it runs");
    let why = local.check(patience).expect_err("each replica has another state");
    assert!(why.to_string().contains("not deterministic"), "{why}");
}

#[test]
fn a_temporary_cluster_leaves_nothing_behind() {
    let mut cluster = LocalCluster::temporary(1, || Box::new(Typed(Bank::default()))).expect("it starts");
    let replica = quorate::ReplicaId::new(1);
    let data = cluster.config(replica).expect("it is there").data.clone();
    let place = data.parent().expect("a directory for all").to_owned();
    assert!(place.is_dir());
    let client =
        cluster.client().timeout(std::time::Duration::from_millis(200)).build_blocking().expect("built");
    let bank = client.open::<Bank>().expect("a session");
    cluster.stop(replica);
    let why = bank.call(&deposit("ann", 1)).expect_err("nobody is there");
    assert!(matches!(why, TypedCallError::Call(Error::DeadlineExceeded { .. })), "{why}");
    drop(cluster);
    assert!(!place.exists());
}
