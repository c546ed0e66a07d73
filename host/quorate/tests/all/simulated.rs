//! Services of one's own in the simulator: what is right passes, what is wrong is found and named, in few seeds.

use quorate::sim::{Client, Failed, FaultModel, Random, Simulation};
use quorate::{Context, InStore, ObjectService, ReplySink, Store, TypedService};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

/// All money of the bank.
const MONEY: i64 = 400;

/// What is wrong with a bank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
enum Bug {
    #[default]
    None,
    /// Whoever pays more than he has pays nothing, and it is paid out all the same.
    Overdraft,
    /// It panics where somebody pays himself.
    Panic,
    /// One reply in many is not that of the command.
    Reply,
    /// Where replicas would differ.
    Order,
    Clock,
    Thread,
    Address,
    Random,
    Shared,
}

static SHARED: AtomicU64 = AtomicU64::new(0);

/// Four accounts.
#[derive(Serialize, Deserialize)]
struct Bank {
    accounts: [i64; 4],
    bug: Bug,
    /// What a wrong bank keeps.
    kept: u64,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Pay {
    from: usize,
    to: usize,
    amount: i64,
}

impl Bank {
    fn new(bug: Bug) -> Self {
        Self { accounts: [MONEY / 4; 4], bug, kept: 0 }
    }

    /// A value that another replica would not have.
    fn odd(&self) -> u64 {
        match self.bug {
            Bug::Order => {
                let map: HashMap<u64, ()> = (0..50).map(|number| (number, ())).collect();
                map.into_keys()
                    .fold(0, |order, number| u64::wrapping_add(u64::wrapping_mul(order, 51), number))
            }
            Bug::Clock => SystemTime::UNIX_EPOCH.elapsed().map_or(0, |time| time.as_nanos() as u64),
            Bug::Thread => {
                let of_thread = || format!("{:?}", std::thread::current().id());
                let name = std::thread::spawn(of_thread).join().unwrap_or_default();
                name.bytes()
                    .fold(0, |sum, byte| u64::wrapping_add(u64::wrapping_mul(sum, 31), u64::from(byte)))
            }
            Bug::Address => std::ptr::from_ref(self).addr() as u64,
            Bug::Random => Box::into_raw(Box::new(0)).addr() as u64,
            Bug::Shared => SHARED.fetch_add(1, Ordering::Relaxed),
            _ => 0,
        }
    }
}

impl TypedService for Bank {
    type Command = Pay;
    type Reply = (usize, i64);
    type Query = ();
    type Answer = i64;

    fn execute(&mut self, Pay { from, to, amount }: Pay, _: &Context) -> (usize, i64) {
        assert!(self.bug != Bug::Panic || from != to, "whoever pays himself needs no bank");
        self.kept = self.odd();
        let is_covered = self.accounts[from] >= amount;
        if is_covered {
            self.accounts[from] -= amount;
        }
        if is_covered || self.bug == Bug::Overdraft {
            self.accounts[to] += amount;
        }
        let whose = if self.bug == Bug::Reply && self.accounts[to] % 7 == 3 { to } else { from };
        (whose, self.accounts[from])
    }

    fn query(&self, (): (), _: &Context) -> i64 {
        self.accounts.iter().sum()
    }
}

/// A client that looks at whose balance it is told.
struct Payer;

impl Client<Pay, (usize, i64)> for Payer {
    fn command(&mut self, random: &mut Random) -> Pay {
        let account = |random: &mut Random| random.below(4) as usize;
        Pay { from: account(random), to: account(random), amount: random.range(1, 60) as i64 }
    }

    fn replied(&mut self, pay: &Pay, (whose, balance): (usize, i64)) -> Result<(), String> {
        let right = whose == pay.from && (0..=MONEY).contains(&balance);
        if right { Ok(()) } else { Err(format!("account {whose} has {balance}")) }
    }
}

fn bank(bug: Bug) -> Simulation {
    let simulation = Simulation::typed(move || Bank::new(bug), |_| Payer);
    let holds = |sum| if sum == MONEY { Ok(()) } else { Err(format!("there is {sum} in all")) };
    simulation.invariant::<Bank>((), holds).expect("it can be encoded")
}

fn fails(bug: Bug) -> Box<Failed> {
    bank(bug).seeds(1..=100).run().map_or_else(|failed| failed, |passed| panic!("{bug:?}: {passed:?}"))
}

#[test]
fn a_right_service_passes_under_all_fault_models() {
    let few = FaultModel::Byzantine;
    for simulation in
        [bank(Bug::None), bank(Bug::None).fault_model(few), bank(Bug::None).replicas(3).instances(4)]
    {
        let passed = simulation.seeds(1..=20).run().unwrap_or_else(|failed| panic!("{failed}"));
        // Variables may choose other seeds.
        assert!(passed.runs > 0 && passed.commands > 10 * passed.runs, "{passed:?}");
        assert!(passed.virtual_time.as_secs() > passed.runs, "{passed:?}");
    }
}

/// When all clients have left, a border that an operator wants waits for an instance whose leader lies and fills nothing.
#[test]
fn an_operator_alone_gets_what_he_wants_from_a_lying_leader() {
    let simulation = bank(Bug::None).fault_model(FaultModel::Byzantine);
    simulation.seeds(372..=372).run().unwrap_or_else(|failed| panic!("{failed}"));
}

#[test]
fn a_broken_invariant_is_named_with_its_command() {
    let failed = fails(Bug::Overdraft);
    assert!(failed.repeats && failed.check == "invariant", "{failed}");
    assert!(failed.why.contains("an invariant does not hold after command"), "{failed}");
    assert!(failed.why.contains("there is 4") && failed.why.contains("amount"), "{failed}");
    // It takes no fault at all.
    assert!(failed.faults.is_empty(), "{failed}");
    assert!(
        format!("{failed:?}").contains(&format!("QUORATE_SEED={} cargo test", failed.seed)),
        "{failed:?}"
    );
}

#[test]
fn a_panic_is_named_with_its_command() {
    let failed = fails(Bug::Panic);
    assert!(failed.repeats && failed.check == "panic", "{failed}");
    assert!(failed.why.contains("simulated.rs") && failed.why.contains("of client"), "{failed}");
    assert!(failed.why.contains("whoever pays himself needs no bank"), "{failed}");
}

#[test]
fn a_client_says_what_is_wrong_with_a_reply() {
    let failed = fails(Bug::Reply);
    assert!(failed.repeats && failed.check == "client", "{failed}");
    assert!(failed.why.contains("was told what is wrong: account "), "{failed}");
}

#[test]
fn what_is_not_deterministic_is_found_and_named() {
    for bug in [Bug::Order, Bug::Clock, Bug::Thread, Bug::Address, Bug::Random, Bug::Shared] {
        let failed = fails(bug);
        // In debug builds each replica sees it, and in others it is seen that they differ.
        let check = if cfg!(debug_assertions) { "panic" } else { "agreement" };
        assert_eq!(failed.check, check, "{bug:?}: {failed}");
        assert!(!cfg!(debug_assertions) || failed.why.contains("left another state"), "{bug:?}: {failed}");
        assert!(failed.why.contains("amount"), "{bug:?}: it names the command: {failed}");
    }
}

#[test]
fn a_failed_run_is_drawn() {
    let file = tempfile::tempdir().expect("a directory");
    let file = file.path().join("run.html");
    let failed = bank(Bug::Overdraft).seeds(1..=100).page(&file).run().expect_err("it is wrong");
    assert_eq!(failed.page.as_deref(), Some(&*file));
    let page = std::fs::read_to_string(&file).expect("it is written");
    assert!(page.contains("<svg") && page.contains("an invariant does not hold"), "{}", page.len());
}

/// Counts by word in the store.
struct Words;

impl ObjectService for Words {
    fn execute(&mut self, store: &mut Store, word: &[u8], _: &Context, reply: &mut ReplySink<'_>) {
        let count = store.get(word).and_then(|count| count.first_chunk().copied());
        let count = count.map_or(0, u64::from_le_bytes) + 1;
        store.put(word, &count.to_le_bytes());
        reply.write(&count.to_le_bytes());
    }

    fn query(&self, _: &Store, _: &[u8], _: &Context, _: &mut ReplySink<'_>) {}
}

/// A client with a word of its own: its count goes on by one, whatever happens.
struct Counting {
    word: Vec<u8>,
    seen: BTreeMap<Vec<u8>, u64>,
}

impl Client<Vec<u8>, Vec<u8>> for Counting {
    fn command(&mut self, _: &mut Random) -> Vec<u8> {
        self.word.clone()
    }

    fn replied(&mut self, word: &Vec<u8>, reply: Vec<u8>) -> Result<(), String> {
        let count = reply.first_chunk().copied().map_or(0, u64::from_le_bytes);
        let before = self.seen.insert(word.clone(), count).unwrap_or_default();
        if count > before { Ok(()) } else { Err(format!("{count} after {before}")) }
    }
}

#[test]
fn a_service_in_the_store_with_clients_of_bytes() {
    let clients = |number| Counting { word: format!("word {number}").into_bytes(), seen: BTreeMap::new() };
    let simulation = Simulation::new(|| InStore::new(Words), clients);
    let passed = simulation.seeds(1..=20).run().unwrap_or_else(|failed| panic!("{failed}"));
    assert!(passed.commands > 200, "{passed:?}");
}
