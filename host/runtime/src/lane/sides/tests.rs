use super::super::{LaneLimits, WAKER};
use super::*;
use crate::clock::MonotonicClock;
use crate::config::{Config, Durability, MemberConfig};
use crate::directory::Identity;
use mio::Waker;
use quorate_execute::{CheckpointError, CheckpointSink, CheckpointSource, Context, ReplySink, Service};
use quorate_log::Log;
use quorate_node::{Effects, Recovered, Restoring};
use quorate_types::{ClusterId, Incarnation, Span};
use std::time::{Duration, Instant};

struct Nothing;

impl Service for Nothing {
    fn execute(&mut self, _: &[u8], _: &Context, _: &mut ReplySink<'_>) {}
    fn query(&self, _: &[u8], _: &Context, _: &mut ReplySink<'_>) {}
    fn checkpoint(&self, _: &mut dyn CheckpointSink) -> Result<(), CheckpointError> {
        Ok(())
    }
    fn restore(&mut self, _: &mut dyn CheckpointSource) -> Result<(), CheckpointError> {
        Ok(())
    }
}

/// A node of one member with two instances, whose pillars have these posts.
fn node(posts: &Posts) -> Node {
    let incarnation = Incarnation::parse(&"1".repeat(16)).expect("an incarnation");
    let member = MemberConfig {
        replica: 1,
        address: "127.0.0.1:1".into(),
        links: Vec::new(),
        incarnation: "1".repeat(16),
        key: None,
    };
    let cluster = ClusterId::new(7);
    let mut config = Config::new(cluster, 1, "data".into(), vec![member]);
    (config.instances, config.durability.mode) = (2, Durability::Memory);
    let identity = Identity { cluster, replica: 1, incarnation, log_id: 1, start_time_ns: 1 };
    let config = config.node_config(&identity, &config, 1).expect("a configuration");
    let log = Log::create(config.log_id, config.log.clone());
    let restoring = Restoring::new(config, Recovered::default()).expect("there is nothing to read");
    let mut node = restoring.finish(log, Box::new(Nothing)).expect("a node");
    node.bridge(Box::new(posts.clone()));
    node.start(Time::ZERO, &mut Effects::new());
    node
}

/// Three lanes, of which the main one is this thread.
fn three_lanes() -> Sides {
    let queue = || {
        let poll = Poll::new().expect("an event queue");
        let waker = Arc::new(Waker::new(poll.registry(), WAKER).expect("a waker"));
        (poll, Sleeper::new(waker.clone()), waker)
    };
    let (_, sleeper, waker) = queue();
    let others = [queue(), queue()].map(|(poll, sleeper, _)| (poll, sleeper)).into();
    let limits = LaneLimits { unsent_bytes: 1, buffer_bytes: 1, slow_reader: Span::from_secs(1) };
    let sockets = |poll| Sockets::new(poll, Arc::new(MonotonicClock::new()), limits, false);
    let placement = Placement::spread(3, 3, true);
    Sides::start((others, placement), sleeper, &Mailbox::new(waker).0, sockets).expect("two threads")
}

/// Two lanes that give turns to one pillar would take its frames out of order.
#[test]
fn a_pillar_that_moves_leaves_its_old_lane() {
    let mut sides = three_lanes();
    let _node = node(&sides.posts);
    sides.place_pillars();
    let links = sides.placement.links();
    let post = sides.known.iter().find(|post| sides.placement.of_instance(post.id) != 0);
    let id = post.expect("a pillar beside the main lane").id;
    let (link, old) = (link_of(id, links), sides.placement.of_instance(id));
    assert!(sides.move_pillars(Time::ZERO, link, 3 - old).is_empty(), "it has no connections");
    sides.flush();
    let until = Instant::now() + Duration::from_secs(20);
    let mut left = false;
    while !left && Instant::now() < until {
        let words = sides.list[usize::from(old) - 1].take().unwrap_or_default();
        left = words.iter().any(|word| matches!(word, Up::Without(of) if *of == id));
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(left, "it says so, since the next turn may be due by now");
    assert_eq!(sides.placement.of_instance(id), 3 - old);
}
