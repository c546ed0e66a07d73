//! One service, unchanged, under every executor, fault model and number of instances, on real sockets and threads.

use quorate::client::{BlockingClient, Client, FaultModel, ReadOptions};
use quorate::{
    Config, Context, InStore, KeyUse, LocalCluster, Options, Parallel, ParallelService, ReplicaId, ReplySink,
    Service, StateView,
};
use quorate_order::Protocol;
use quorate_runtime::{ExecutorCount, ExecutorKind};
use std::time::Duration;

/// Accounts of one byte each. A command moves an amount from one to another, and takes its time.
struct Accounts {
    /// Whether commands name their accounts to the executor.
    names: bool,
}

/// How a cluster executes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    Ordered,
    Verified,
    Speculative { names: bool },
}

const ACCOUNTS: u8 = 12;
/// The query for what the newest command of each account saw, and the end of the key where that is.
const SEEN: u8 = 255;
const EACH: u64 = 1000;
const CALLERS: u8 = 6;
const MOVES: u8 = 25;

fn balance(view: &StateView<'_>, account: u8) -> u64 {
    let value = view.get(&[account]).and_then(|value| value.first_chunk().copied());
    value.map_or(EACH, u64::from_le_bytes)
}

impl ParallelService for Accounts {
    fn execute(&self, view: &mut StateView<'_>, command: &[u8], ctx: &Context, reply: &mut ReplySink<'_>) {
        let [from, to, amount] = *command else { return reply.write(b"what?") };
        std::thread::sleep(Duration::from_millis(1));
        let (has, gets) = (balance(view, from), balance(view, to));
        let amount = u64::from(amount).min(has);
        if from != to {
            view.set(&[from], &(has - amount).to_le_bytes());
            view.set(&[to], &(gets + amount).to_le_bytes());
        }
        // What it learns about itself is a part of the state, so replicas must agree on it.
        let place = [ctx.seq().number(), ctx.slot().number(), ctx.instance().number().into()];
        let seen = [ctx.client().number(), ctx.session().number(), place[0], place[1], place[2]];
        view.set(&[from, SEEN], &seen.map(u64::to_le_bytes).concat());
        reply.write(&amount.to_le_bytes());
    }

    fn query(&self, view: &StateView<'_>, query: &[u8], _: &Context, reply: &mut ReplySink<'_>) {
        if query == [SEEN] {
            let seen = |account| view.get(&[account, SEEN]).map(|seen| seen.to_vec()).unwrap_or_default();
            return (0..ACCOUNTS).for_each(|account| reply.write(&seen(account)));
        }
        (0..ACCOUNTS).for_each(|account| reply.write(&balance(view, account).to_le_bytes()));
    }

    fn hints(&self, command: &[u8], uses: &mut dyn FnMut(KeyUse<'_>)) -> bool {
        !self.names || self.keys(command, false, uses)
    }

    fn keys(&self, bytes: &[u8], _: bool, used: &mut dyn FnMut(KeyUse<'_>)) -> bool {
        bytes.iter().take(2).for_each(|account| used(KeyUse::Write(&[*account])));
        true
    }
}

fn ordered(config: &mut Config) {
    side_by_side(config, ExecutorKind::Ordered);
}

fn side_by_side(config: &mut Config, executor: ExecutorKind) {
    config.execution.executor = executor;
    config.execution.workers = ExecutorCount::Count(4);
}

/// The balances, read at one replica once it has everything that this client saw.
fn balances(client: &BlockingClient, replica: u16) -> Vec<u64> {
    let options = ReadOptions { replica: Some(ReplicaId::new(replica)), ..ReadOptions::STRONG };
    let answer = client.read(Vec::new(), options).expect("an answer");
    let (chunks, _) = answer.body.as_chunks::<8>();
    chunks.iter().map(|chunk| u64::from_le_bytes(*chunk)).collect()
}

/// What the newest commands saw of themselves, read as in [`balances`]: client, session, seq, slot and instance.
fn contexts(client: &BlockingClient, replica: u16) -> Vec<[u64; 5]> {
    let options = ReadOptions { replica: Some(ReplicaId::new(replica)), ..ReadOptions::STRONG };
    let answer = client.read(vec![SEEN], options).expect("an answer");
    let (words, _) = answer.body.as_chunks::<8>();
    let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
    let (seen, rest) = words.as_chunks::<5>();
    assert!(rest.is_empty() && !seen.is_empty());
    seen.to_vec()
}

/// Callers move amounts at the same time; a replica that executes otherwise than the others comes to the same balances.
fn moves(model: FaultModel, (replicas, instances): (u16, u16), sequential: &[u16], how: How) {
    let directory = tempfile::tempdir().expect("a directory");
    let (verify, names) = (how != How::Ordered, how != How::Speculative { names: false });
    let service = move || -> Box<dyn Service> { Box::new(InStore::new(Parallel::new(Accounts { names }))) };
    let configure = |config: &mut Config| {
        (config.fault_model, config.instances, config.execution.verify) = (model, instances, verify);
        if model.may_lie() {
            config.protocol = Protocol::MOD_SMART;
        }
        if matches!(how, How::Speculative { .. }) {
            side_by_side(config, ExecutorKind::Speculative);
        } else if !sequential.contains(&config.replica) {
            ordered(config);
        }
    };
    let mut cluster =
        LocalCluster::start_with(directory.path(), replicas, service, configure, |_| Options::default())
            .expect("a cluster");
    let client = || {
        let builder = Client::builder().members(cluster.members()).fault_model(model);
        builder.timeout(Duration::from_secs(60)).build_blocking().expect("a client")
    };
    std::thread::scope(|scope| {
        for caller in 0..CALLERS {
            let client = client();
            scope.spawn(move || {
                let session = client.open_session().expect("a session");
                for at in 0..MOVES {
                    let (from, to) = ((caller * 2 + at % 3) % ACCOUNTS, (caller * 2 + 1 + at % 5) % ACCOUNTS);
                    let replies = session.call_one(&[from, to, 1 + at]).expect("an answer");
                    assert_eq!(replies.first().map(<[u8]>::len), Some(8));
                }
            });
        }
    });
    let reader = client();
    let all: Vec<Vec<u64>> = (1..=replicas).map(|replica| balances(&reader, replica)).collect();
    assert_eq!(all[0].iter().sum::<u64>(), u64::from(ACCOUNTS) * EACH, "nothing is lost or made");
    assert!(all[0].iter().any(|balance| *balance != EACH), "something moved");
    assert!(all.iter().all(|own| *own == all[0]), "{model:?}, R = {instances}: {all:?}");
    let seen = contexts(&reader, 1);
    for replica in 2..=replicas {
        assert_eq!(contexts(&reader, replica), seen, "{model:?}, R = {instances}: what {replica} saw");
    }
    for [client, session, seq, slot, instance] in &seen {
        assert!((1..=u64::from(instances)).contains(instance) && (1..=*seq).contains(slot), "{seen:?}");
        assert!(*client != 0 && *session != 0, "{seen:?}");
    }
    let mut early = false;
    for replica in 1..=replicas {
        let status = reader.status(ReplicaId::new(replica)).expect("a status");
        early |= status.split("\"early\":").nth(1).is_some_and(|rest| !rest.starts_with('0'));
        let adopted = status.split("\"adopted\":").nth(1).is_some_and(|rest| !rest.starts_with('0'));
        let all_may_meet = how == How::Speculative { names: false };
        assert!(all_may_meet || adopted != sequential.contains(&replica), "{replica}: {status}");
        assert_eq!(status.contains("\"rulings\":"), verify, "{replica}: {status}");
    }
    let may_be_early = model == FaultModel::Crash && instances == 1 && matches!(how, How::Verified);
    assert_eq!(early, may_be_early, "{model:?}, R = {instances}: batches that ran before they were decided");
    // After a restart it executes the log once more.
    cluster.stop(ReplicaId::new(1));
    cluster.restart(ReplicaId::new(1)).expect("it starts");
    assert_eq!(balances(&reader, 1), all[0], "{model:?}, R = {instances}: after a restart");
    assert_eq!(contexts(&reader, 1), seen, "{model:?}, R = {instances}: seen after a restart");
}

#[test]
fn a_service_runs_unchanged_under_every_executor() {
    for instances in [1, 4] {
        moves(FaultModel::Crash, (3, instances), &[1, 2, 3], How::Ordered);
        moves(FaultModel::Crash, (3, instances), &[], How::Ordered);
        moves(FaultModel::Crash, (3, instances), &[2], How::Ordered);
        moves(FaultModel::Byzantine, (4, instances), &[3], How::Ordered);
        moves(FaultModel::Crash, (3, instances), &[2], How::Verified);
        moves(FaultModel::Byzantine, (4, instances), &[3], How::Verified);
        moves(FaultModel::Crash, (3, instances), &[], How::Speculative { names: true });
        moves(FaultModel::Byzantine, (4, instances), &[], How::Speculative { names: true });
    }
}

/// Commands that name none of their accounts meet in one memory, and each is still done as a whole, once, and everywhere alike.
#[test]
fn commands_that_meet_are_done_one_after_the_other_all_the_same() {
    for instances in [1, 4] {
        moves(FaultModel::Crash, (3, instances), &[], How::Speculative { names: false });
        moves(FaultModel::Byzantine, (4, instances), &[], How::Speculative { names: false });
    }
}

/// Where results may differ they are verified, on all replicas.
/// All replicas have to agree once they did so, until one is away; and writes go on.
#[test]
fn all_have_to_agree_while_all_are_there() {
    let directory = tempfile::tempdir().expect("a directory");
    let service = || -> Box<dyn Service> { Box::new(InStore::new(Parallel::new(Accounts { names: true }))) };
    let protect = |config: &mut Config| {
        (config.execution.verify, config.execution.extra_protection) = (true, 2);
    };
    let mut cluster = LocalCluster::start_with(directory.path(), 3, service, protect, |_| Options::default())
        .expect("a cluster");
    let builder = Client::builder().members(cluster.members()).timeout(Duration::from_secs(60));
    let client = builder.build_blocking().expect("a client");
    let session = client.open_session().expect("a session");
    let until = |all: bool| {
        let word = format!("\"all\":{all}");
        let begin = std::time::Instant::now();
        // Each notes it by itself, and the one that leads goes by what it noted.
        let says = |replica| client.status(ReplicaId::new(replica)).expect("a status").contains(&word);
        while !(says(1) && says(2)) {
            assert!(begin.elapsed() < Duration::from_secs(60), "{word} did not come");
            session.call_one(&[1, 2, 3]).expect("an answer");
        }
    };
    until(true);
    cluster.stop(ReplicaId::new(3));
    session.call_one(&[2, 3, 4]).expect("an answer of two");
    until(false);
}

#[test]
fn speculation_without_verification_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let service = || -> Box<dyn Service> { Box::new(InStore::new(Parallel::new(Accounts { names: true }))) };
    let speculate = |config: &mut Config| side_by_side(config, ExecutorKind::Speculative);
    let refused = LocalCluster::start_with(directory.path(), 1, service, speculate, |_| Options::default());
    let why = refused.err().expect("it is refused").to_string();
    assert!(why.contains("verify = true") && why.contains("executor = \"ordered\""), "{why}");
}

/// Results of a service that a replica can not have twice are not verified.
#[test]
fn a_service_without_a_twin_is_not_verified() {
    let directory = tempfile::tempdir().expect("a directory");
    let service = || -> Box<dyn Service> { Box::new(InStore::new(crate::count::Count)) };
    let verify = |config: &mut Config| config.execution.verify = true;
    let refused = LocalCluster::start_with(directory.path(), 1, service, verify, |_| Options::default());
    let why = refused.err().expect("it is refused").to_string();
    assert!(why.contains("twin") && why.contains("verify = false"), "{why}");
}

/// A service that says nothing of it is not run so.
#[test]
fn a_service_that_runs_one_after_the_other_is_refused() {
    let directory = tempfile::tempdir().expect("a directory");
    let service = || -> Box<dyn Service> { Box::new(InStore::new(crate::count::Count)) };
    let refused = LocalCluster::start_with(directory.path(), 1, service, ordered, |_| Options::default());
    let why = refused.err().expect("it is refused").to_string();
    assert!(why.contains("ParallelService") && why.contains("executor = \"sequential\""), "{why}");
}
