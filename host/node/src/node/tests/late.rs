//! A replica whose execution is late: it acts on delivered batches, and answers from final state.

use crate::config::NodeConfig;
use crate::effects::Input;
use crate::engine::tests::{ALICE, SESSION, opening};
use crate::keeping::{BorderConfig, CheckpointMode};
use crate::node::tests::{CLUSTER, Host, joins, r};
use crate::recovered::Recovered;
use crate::restoring::Restoring;
use quorate_execute::{
    CheckpointError, Context, Execution, Executor, Final, InStore, ObjectService, Ordered, Outcomes,
    ReplySink, Service, Store, Version,
};
use quorate_log::{Log, LogConfig, SyncMode};
use quorate_order::{OrderConfig, Protocol};
use quorate_types::{ConnId, ItemsBuilder, RequestNumber, Time};
use quorate_wire::{FrameKind, Hello, OutFrame, Role, write_request};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const CONN: ConnId = ConnId::new(1);

/// An execution that executes only while it is told to.
struct Late {
    executor: Executor,
    delivered: VecDeque<Ordered>,
    goes: Arc<AtomicBool>,
}

impl Execution for Late {
    fn deliver(&mut self, ordered: Ordered) {
        self.delivered.push_back(ordered);
    }
    fn next(&mut self, _: Time, outcomes: &mut Outcomes) -> Option<Final> {
        self.goes.load(Ordering::Relaxed).then(|| self.executor.take(&mut self.delivered, outcomes))?
    }
    fn deadline(&self) -> Option<Time> {
        None
    }
    fn is_behind(&self) -> bool {
        !self.delivered.is_empty()
    }
    fn state(&self) -> &Executor {
        &self.executor
    }
    fn state_mut(&mut self) -> &mut Executor {
        &mut self.executor
    }
    fn restore(&mut self, system: &[u8], objects: &Version) -> Result<(), CheckpointError> {
        self.delivered.clear();
        self.executor.restore_image(system, objects)
    }
}

/// A service that keeps each command in the store.
struct Keeps;

impl ObjectService for Keeps {
    fn execute(&mut self, store: &mut Store, command: &[u8], _: &Context, _: &mut ReplySink<'_>) {
        store.put(command, command);
    }
    fn query(&self, _: &Store, _: &[u8], _: &Context, _: &mut ReplySink<'_>) {}
}

/// A replica that leads alone, with a state in the store and a client; and the switch that lets it execute.
fn leads(borders: BorderConfig) -> (Host, Arc<AtomicBool>) {
    let order = OrderConfig::new(Protocol::RAFT, r(4), vec![r(4)], 6);
    let log = LogConfig { sync: SyncMode::Memory, ..LogConfig::default() };
    let config = NodeConfig { order, log, borders, ..joins() };
    let goes = Arc::new(AtomicBool::new(true));
    let restoring = Restoring::new(config.clone(), Recovered::default()).expect("nothing was there");
    let service: Box<dyn Service> = Box::new(InStore::new(Keeps));
    let late = Arc::clone(&goes);
    let node = restoring.finish_with(Log::create(config.log_id, config.log), service, |executor| {
        Box::new(Late { executor, delivered: VecDeque::new(), goes: late })
    });
    let mut host = Host::of(node.expect("it fits together"));
    host.step(Input::Deadline);
    host.step(Input::Accepted { conn: CONN, from: None });
    host.hears(CONN, &Hello::new(CLUSTER, Some(r(4)), Role::Client(ALICE)).frame());
    (host, goes)
}

fn usual() -> BorderConfig {
    joins().borders
}

fn asks(host: &mut Host, requests: &[u8]) {
    host.hears(CONN, &OutFrame::new(FrameKind::Requests, requests, vec![]));
}

fn request(number: u64, command: &[u8]) -> Vec<u8> {
    let (mut bytes, mut commands) = (Vec::new(), ItemsBuilder::new());
    commands.push(command);
    write_request(&mut bytes, SESSION, RequestNumber::new(number), RequestNumber::FIRST, &commands);
    bytes
}

fn replies(host: &Host) -> usize {
    host.sent.iter().filter(|sent| **sent == (CONN, FrameKind::Replies)).count()
}

/// The batch that opens the session is delivered and not executed: the replica must not say that the session does not exist.
#[test]
fn a_session_may_exist_that_execution_does_not_know_yet() {
    let (mut host, goes) = leads(usual());
    goes.store(false, Ordering::Relaxed);
    asks(&mut host, &opening());
    assert!(host.node.engine.is_behind() && host.node.executor().client(SESSION).is_none());
    asks(&mut host, &request(1, b"anything"));
    assert_eq!(replies(&host), 1, "its client is told to ask again");
    assert!(host.node.executor().client(SESSION).is_none());
    goes.store(true, Ordering::Relaxed);
    host.step(Input::Deadline);
    assert_eq!(host.node.executor().client(SESSION), Some(ALICE));
    asks(&mut host, &request(1, b"anything"));
    assert!(host.node.executor().objects().is_some_and(|objects| objects.len() == 1), "it was executed");
    assert!(replies(&host) > 1);
}

/// If everything delivered is executed, a session that execution does not know does not exist.
#[test]
fn a_session_that_nobody_opened_is_refused_at_once() {
    let (mut host, _) = leads(usual());
    let before = host.node.engine.merge().seq();
    asks(&mut host, &request(1, b"anything"));
    assert_eq!((replies(&host), host.node.engine.merge().seq()), (1, before), "nothing was ordered");
}

/// Capturing begins before the border, at a place in the order: with the state at that place, whenever it is final.
#[test]
fn capturing_begins_ahead_of_the_border_with_the_state_there() {
    let borders = BorderConfig {
        mode: CheckpointMode::Full,
        interval_bytes: 10_000,
        interval_bytes_max: 10_000,
        state_percent: 0,
        ahead_percent: 50,
        full_every: 1,
        every: None,
    };
    let (mut host, goes) = leads(borders);
    asks(&mut host, &opening());
    goes.store(false, Ordering::Relaxed);
    let mut number = 0;
    while host.node.engine.merge().seq().number() < 40 && !host.node.engine.is_at_border() {
        number += 1;
        asks(&mut host, &request(number, format!("key {number:0>100}").as_bytes()));
    }
    assert!(host.node.engine.is_at_border() && number > 4);
    assert!(host.ahead.is_empty() && host.images.is_empty(), "nothing of it is final");
    goes.store(true, Ordering::Relaxed);
    host.step(Input::Deadline);
    let [(border, objects)] = host.ahead[..] else { panic!("{:?}", host.ahead) };
    assert_eq!((border, host.images[0].border), (1, 1));
    let all = host.images[0].objects.len();
    assert!(0 < objects && objects < all, "{objects} of {all} were there when capturing began");
}
