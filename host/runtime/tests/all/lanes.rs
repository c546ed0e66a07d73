//! Replicas with several lanes, with real sockets: connections move to the lanes of their instances, and what was said stays in order.

use crate::common::{self, Cluster, RawClient};
use quorate_runtime::{Config, Durability, Options, Pillars, PlacementConfig};
use quorate_types::{InstanceId, Items, ItemsBuilder, RequestNumber, SessionId};
use quorate_wire::{
    FrameKind, OutFrame, ReadConsistency, ReadRequest, ReadStatus, Reply, ReplyStatus, lanes_request,
    write_read_request, write_request,
};
use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Agreement is done on the main lane, on the lanes of the instances, or on a lane for this step: nobody outside notices a difference.
#[derive(Clone, Copy)]
enum Way {
    Main,
    Lanes,
    Staged,
}

const WAYS: [Way; 3] = [Way::Main, Way::Lanes, Way::Staged];

impl Way {
    /// Replicas with few lanes are not staged.
    fn configure(self, config: &mut Config) {
        config.pillars = if let Self::Main = self { Pillars::Main } else { Pillars::Lanes };
        config.placement = match self {
            Self::Staged if config.lanes >= 3 => PlacementConfig::Staged,
            _ => PlacementConfig::Spread,
        };
    }
}

fn cluster(directory: &std::path::Path, instances: u16, lanes: [u16; 3], way: Way) -> Cluster {
    let options = Box::new(|_| Options::default());
    common::cluster_of(directory, 3, Durability::Group, options, move |config| {
        config.instances = instances;
        config.lanes = lanes[usize::from(config.replica) - 1];
        way.configure(config);
    })
}

fn connect(cluster: &Cluster, at: usize) -> Option<RawClient> {
    RawClient::connect(cluster.configs[at].listen_address())
}

/// A session, at whichever replica leads anything.
fn open(cluster: &Cluster, nonce: u64) -> (RawClient, SessionId) {
    let until = Instant::now() + Duration::from_secs(20);
    while Instant::now() < until {
        let (_, mut client) = cluster.leader();
        if let Some(session) = client.try_open(nonce) {
            return (client, session);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    panic!("nobody opens a session");
}

fn all_read(cluster: &Cluster, value: u64) {
    for at in 0..3 {
        let mut reader = connect(cluster, at).expect("a connection");
        let until = Instant::now() + Duration::from_secs(20);
        while reader.read(ReadConsistency::Strong, 0).2 != value {
            assert!(Instant::now() < until, "replica {} does not come to {value}", at + 1);
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn requests(session: SessionId, numbers: std::ops::RangeInclusive<u64>) -> Vec<u8> {
    let mut body = Vec::new();
    for number in numbers {
        let mut commands = ItemsBuilder::new();
        commands.push(&1u64.to_le_bytes());
        write_request(&mut body, session, RequestNumber::new(number), RequestNumber::new(1), &commands);
    }
    body
}

/// Hundreds of frames leave at once, the first of which moves the connection: they are answered, each once and in order.
#[test]
fn what_comes_with_the_frame_that_moves_a_connection_is_not_lost() {
    WAYS.into_iter().for_each(what_comes_with_the_frame_that_moves_a_connection_is_not_lost_with);
}

fn what_comes_with_the_frame_that_moves_a_connection_is_not_lost_with(way: Way) {
    let directory = tempfile::tempdir().unwrap();
    let cluster = cluster(directory.path(), 2, [3, 3, 3], way);
    let (mut client, session) = open(&cluster, 1);
    let mut bytes = Vec::new();
    for first in (0..400).step_by(2) {
        let body = requests(session, first + 1..=first + 2);
        bytes.extend(OutFrame::new(FrameKind::Requests, &body, vec![]).to_vec());
        let mut read = Vec::new();
        let asked = ReadRequest {
            read: first,
            seen: Default::default(),
            consistency: ReadConsistency::Weak,
            query: b"",
        };
        write_read_request(&mut read, &asked);
        bytes.extend(OutFrame::new(FrameKind::Reads, &read, vec![]).to_vec());
    }
    client.send_bytes(&bytes);
    let (mut next, mut reads) = (1, 0);
    while next <= 400 || reads < 200 {
        let frame = client.receive().expect("an answer");
        match frame.kind {
            FrameKind::Replies => {
                let replies = Reply::walk(&frame.payload).flatten();
                for reply in replies.filter(|reply| reply.status != ReplyStatus::Position) {
                    assert_eq!(reply.number.number(), next, "{:?}", reply.status);
                    next += 1;
                }
            }
            FrameKind::ReadReplies => {
                reads += quorate_wire::ReadReply::walk(&frame.payload)
                    .flatten()
                    .inspect(|reply| assert_eq!(reply.status, ReadStatus::Done))
                    .count();
            }
            _ => {}
        }
    }
    all_read(&cluster, 400);
}

/// Each replica may have another number of lanes, also one; and other ones after a restart.
#[test]
fn replicas_with_different_numbers_of_lanes_work_together() {
    WAYS.into_iter().for_each(replicas_with_different_numbers_of_lanes_work_together_with);
}

fn replicas_with_different_numbers_of_lanes_work_together_with(way: Way) {
    let directory = tempfile::tempdir().unwrap();
    let mut cluster = cluster(directory.path(), 4, [1, 2, 5], way);
    let (mut client, session) = open(&cluster, 1);
    for number in 1..=50 {
        assert_eq!(client.add(session, number, &[1]), Some(vec![number]));
    }
    all_read(&cluster, 50);
    for (at, lanes) in [(0, 4), (1, 1), (2, 3)] {
        cluster.stop(at).expect("stops");
        cluster.configs[at].lanes = lanes;
        way.configure(&mut cluster.configs[at]);
        cluster.start(at);
        all_read(&cluster, 50);
    }
    let (mut client, session) = open(&cluster, 2);
    assert_eq!(client.add(session, 1, &[7]), Some(vec![57]));
    all_read(&cluster, 57);
}

/// What a client is told when it is let in follows from its id, as what it is told later does: else all would begin at one leader.
#[test]
fn clients_are_led_to_different_leaders_from_the_beginning() {
    WAYS.into_iter().for_each(clients_are_led_to_different_leaders_from_the_beginning_with);
}

fn clients_are_led_to_different_leaders_from_the_beginning_with(way: Way) {
    let directory = tempfile::tempdir().unwrap();
    let cluster = cluster(directory.path(), 3, [2, 2, 2], way);
    drop(open(&cluster, 1));
    let told = |id| {
        let client = RawClient::connect_as(cluster.configs[0].listen_address(), id)?;
        client.welcome?.leader
    };
    let until = Instant::now() + Duration::from_secs(30);
    loop {
        let leaders: std::collections::BTreeSet<_> = (30..33).filter_map(told).collect();
        if leaders.len() == 3 {
            return;
        }
        assert!(
            Instant::now() < until,
            "three instances are led by three replicas in the end, not by {leaders:?}"
        );
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// What a replica answers to an operator who wants instances on these lanes.
fn place(address: &str, wish: &[(u16, u16)]) -> String {
    let mut operator = RawClient::operator(address).expect("a connection");
    let wish: Vec<_> = wish.iter().map(|(id, lane)| (InstanceId::new(*id), *lane)).collect();
    operator.send(&lanes_request(&wish));
    loop {
        let frame = operator.receive().expect("an answer");
        if frame.kind == FrameKind::LanesReply {
            return String::from_utf8_lossy(&frame.payload).into_owned();
        }
    }
}

#[test]
fn an_operator_is_told_what_is_wrong_with_a_wish_for_lanes() {
    let directory = tempfile::tempdir().unwrap();
    let cluster = cluster(directory.path(), 2, [3, 2, 1], Way::Lanes);
    drop(open(&cluster, 1));
    assert_eq!(place(cluster.configs[0].listen_address(), &[(1, 1), (2, 3)]), "begun");
    assert_eq!(place(cluster.configs[0].listen_address(), &[]), "begun");
    assert_eq!(place(cluster.configs[1].listen_address(), &[(1, 3)]), "error: it has lanes 1 to 2");
    assert!(place(cluster.configs[2].listen_address(), &[(1, 1)]).starts_with("error: it has one lane"));
}

/// Instances move between all lanes, the main one included, as often as possible, while clients have many requests under way. Nothing is
/// lost, nothing is done twice, and what a client asks once is answered in order.
#[test]
fn instances_move_between_lanes_while_clients_write() {
    let directory = tempfile::tempdir().unwrap();
    let cluster = cluster(directory.path(), 4, [3, 4, 2], Way::Lanes);
    drop(open(&cluster, 1));
    let over = AtomicBool::new(false);
    let addresses: Vec<String> =
        cluster.configs.iter().map(|config| config.listen_address().to_owned()).collect();
    let (written, moves) = std::thread::scope(|scope| {
        let movers: Vec<_> = [3u16, 4, 2]
            .into_iter()
            .enumerate()
            .map(|(at, lanes)| {
                let (addresses, over) = (&addresses, &over);
                scope.spawn(move || {
                    let mut moves = 0u16;
                    while !over.load(Ordering::Relaxed) {
                        let (id, lane) = (1 + moves % 4, 1 + (moves / 3) % lanes);
                        assert_eq!(place(&addresses[at], &[(id, lane)]), "begun");
                        moves += 1;
                        std::thread::sleep(Duration::from_millis(u64::from(moves % 7)));
                    }
                    moves
                })
            })
            .collect();
        let writers: Vec<_> = (10..14u64)
            .map(|id| {
                let addresses = &addresses;
                scope.spawn(move || write_for(addresses, id, Duration::from_secs(4)))
            })
            .collect();
        let written: Vec<_> = writers.into_iter().map(std::thread::ScopedJoinHandle::join).collect();
        over.store(true, Ordering::Relaxed);
        let written = all_done_once(written.into_iter().map(|written| written.expect("a writer")));
        (written, movers.into_iter().map(|mover| mover.join().expect("a mover")).min())
    });
    assert!(written > 0 && moves > Some(10), "{written} written, {moves:?} moves");
    all_read(&cluster, written);
}

/// A staged replica hands each request from lane to lane. Replicas stop and come back meanwhile, leaders first, so leaders change: nothing is
/// lost, nothing is done twice, and what a client asks once is answered in order.
#[test]
fn staged_replicas_stop_and_come_back_while_clients_write() {
    for (instances, lanes) in [(1, [3, 3, 3]), (2, [4, 3, 5])] {
        let directory = tempfile::tempdir().unwrap();
        let mut cluster = cluster(directory.path(), instances, lanes, Way::Staged);
        drop(open(&cluster, 1));
        let addresses: Vec<String> =
            cluster.configs.iter().map(|config| config.listen_address().to_owned()).collect();
        let written = std::thread::scope(|scope| {
            let writers: Vec<_> = (10..14u64)
                .map(|id| {
                    let addresses = &addresses;
                    scope.spawn(move || write_for(addresses, id, Duration::from_secs(4)))
                })
                .collect();
            for _ in 0..3 {
                std::thread::sleep(Duration::from_millis(500));
                let (leader, client) = cluster.leader();
                drop(client);
                cluster.stop(leader).expect("stops");
                std::thread::sleep(Duration::from_millis(500));
                cluster.start(leader);
            }
            all_done_once(writers.into_iter().map(|writer| writer.join().expect("a writer")))
        });
        assert!(written > 100, "{written} written");
        all_read(&cluster, written);
    }
}

/// More is on its way than all queues take: the lanes wait for each other, and go on. All is answered, in order.
#[test]
fn staged_lanes_wait_for_each_other_and_go_on() {
    const COUNT: u64 = 600;
    let directory = tempfile::tempdir().unwrap();
    let cluster = cluster(directory.path(), 1, [3, 3, 3], Way::Staged);
    let (mut client, session) = open(&cluster, 1);
    let mut command = vec![0; 128 << 10];
    command[0] = 1;
    let frames = (1..=COUNT).map(|number| request(session, number, 1, &command));
    let mut sender = client.sender();
    std::thread::scope(|scope| {
        scope.spawn(move || frames.into_iter().try_for_each(|frame| sender.write_all(&frame.to_vec())));
        let mut next = 1;
        while next <= COUNT {
            let frame = client.receive().expect("an answer");
            assert_eq!(frame.kind, FrameKind::Replies);
            for reply in Reply::walk(&frame.payload).flatten() {
                match reply.status {
                    ReplyStatus::Position => {}
                    ReplyStatus::Done => {
                        assert_eq!(reply.number.number(), next);
                        next += 1;
                    }
                    status => panic!("request {}: {status:?}", reply.number),
                }
            }
        }
    });
    all_read(&cluster, COUNT);
}

#[test]
fn an_operator_moves_nothing_in_a_staged_replica() {
    let directory = tempfile::tempdir().unwrap();
    let cluster = cluster(directory.path(), 2, [3, 3, 3], Way::Staged);
    drop(open(&cluster, 1));
    for wish in [&[(1, 2)][..], &[]] {
        let said = place(cluster.configs[0].listen_address(), wish);
        assert!(said.starts_with("error: it is staged"), "{said}");
    }
}

/// The sum grows by one with each command, so the answers of all writers together are the numbers from 1 on, each once. Gives how many
/// there are.
fn all_done_once(writers: impl Iterator<Item = Vec<u64>>) -> u64 {
    let mut all = Vec::new();
    for sums in writers {
        assert!(sums.windows(2).all(|pair| pair[0] < pair[1]), "the commands of a session run in order");
        all.extend(sums);
    }
    all.sort_unstable();
    let count = all.len() as u64;
    assert!(all.into_iter().eq(1..=count), "each command runs once, and its client gets its answer");
    count
}

/// A client that has many requests under way.
#[derive(Default)]
struct Writer {
    sent: u64,
    /// The answers to the requests from the first one on, as far as none is missing.
    sums: Vec<u64>,
    /// Answers behind one that is missing.
    ahead: BTreeMap<u64, u64>,
}

/// Writes with many requests under way. Gives the answers. If another replica leads it goes on there, and asks again what is not answered
/// yet.
fn write_for(addresses: &[String], id: u64, time: Duration) -> Vec<u64> {
    let until = Instant::now() + time;
    let (mut session, mut writer) = (None, Writer::default());
    for at in (0..3).cycle() {
        let now = Instant::now();
        if now >= until && writer.sent == writer.done() {
            break;
        }
        assert!(now < until + Duration::from_secs(60), "{} of {} are answered", writer.done(), writer.sent);
        let Some(mut client) = RawClient::connect_as(&addresses[at], id) else {
            std::thread::sleep(Duration::from_millis(5));
            continue;
        };
        let leader = client.welcome.as_ref().and_then(|welcome| welcome.leader);
        if leader.is_none_or(|leader| usize::from(leader.number()) != at + 1) {
            std::thread::sleep(Duration::from_millis(5));
            continue;
        }
        session = session.or_else(|| client.try_open(id));
        if let Some(session) = session {
            writer.write_while_led(&mut client, session, until);
        }
    }
    writer.sums
}

impl Writer {
    /// How many requests are answered, without those behind a missing one.
    fn done(&self) -> u64 {
        self.sums.len() as u64
    }

    fn write_while_led(&mut self, client: &mut RawClient, session: SessionId, until: Instant) {
        let (mut asked, before) = (self.done(), self.sent);
        loop {
            // Nothing new after that time; what was sent before may have been executed.
            while asked < self.sent || asked < self.done() + 64 && Instant::now() < until {
                asked += 1;
                self.sent = self.sent.max(asked);
                if !client.try_send(&request(session, asked, self.done() + 1, &1u64.to_le_bytes())) {
                    return;
                }
            }
            if self.done() == self.sent {
                return;
            }
            // The caller finds the next leader.
            let Some(frame) = client.receive().filter(|frame| frame.kind != FrameKind::Leader) else {
                return;
            };
            for reply in Reply::walk(&frame.payload).flatten() {
                match reply.status {
                    ReplyStatus::Position => {}
                    ReplyStatus::Done => {
                        assert_eq!(reply.session, session, "the answer of another client");
                        self.answered(reply.number.number(), sum_of(&reply), before);
                    }
                    // A new leader may not know the session yet, or not what an earlier one still holds: the caller asks again.
                    ReplyStatus::Overloaded | ReplyStatus::ExpectedNumber => return,
                    // A copy for an earlier leader comes late. What is not answered yet is never forgotten.
                    ReplyStatus::ReplyForgotten if reply.number.number() <= self.done() => {}
                    status => panic!("request {}: {status:?}", reply.number),
                }
            }
        }
    }

    /// Takes an answer. Requests up to `before` were also sent over an earlier connection. When such a one is executed, its answer leaves at
    /// once, and may overtake those to earlier requests that were executed before and whose repeats are still on their way.
    fn answered(&mut self, number: u64, sum: u64, before: u64) {
        assert!((1..=self.sent).contains(&number), "{number} of {}", self.sent);
        let done = self.done();
        assert!(number <= before.max(done + 1), "{number} after {done}, and it was sent once");
        let known = match number <= done {
            true => self.sums[number as usize - 1],
            false => *self.ahead.entry(number).or_insert(sum),
        };
        assert_eq!(sum, known, "request {number} is answered again, and otherwise");
        while let Some(sum) = self.ahead.remove(&(self.done() + 1)) {
            self.sums.push(sum);
        }
    }
}

/// The sum in the answer to a command.
fn sum_of(reply: &Reply<'_>) -> u64 {
    let items = Items::parse(reply.body).expect("a list of answers");
    let sum = items.iter().next().and_then(|item| item.first_chunk::<8>()).expect("a sum");
    u64::from_le_bytes(*sum)
}

fn request(session: SessionId, number: u64, unanswered: u64, command: &[u8]) -> OutFrame {
    let (mut body, mut commands) = (Vec::new(), ItemsBuilder::new());
    commands.push(command);
    let (number, unanswered) = (RequestNumber::new(number), RequestNumber::new(unanswered));
    write_request(&mut body, session, number, unanswered, &commands);
    OutFrame::new(FrameKind::Requests, &body, vec![])
}
