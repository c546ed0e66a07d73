use super::{Answers, TURN_BYTES};
use quorate_execute::{
    CheckpointError, CheckpointSink, CheckpointSource, Context, Executor, ReplySink, Service, SessionLimits,
};
use quorate_reply::ReadLimits;
use quorate_types::{AgreedTime, ConnId, Span, Time};
use quorate_wire::{ReadReply, ReadStatus};

/// Answers with as many bytes as the query says.
struct Large;

impl Service for Large {
    fn execute(&mut self, _: &[u8], _: &Context, _: &mut ReplySink<'_>) {}
    fn query(&self, query: &[u8], _: &Context, reply: &mut ReplySink<'_>) {
        let bytes = query.try_into().map_or(0, u32::from_le_bytes);
        reply.write(&vec![7; bytes as usize]);
    }
    fn checkpoint(&self, _: &mut dyn CheckpointSink) -> Result<(), CheckpointError> {
        Ok(())
    }
    fn restore(&mut self, _: &mut dyn CheckpointSource) -> Result<(), CheckpointError> {
        Ok(())
    }
}

const NOW: Time = Time::from_nanos(1_000_000_000);
/// A quarter of the bytes that a turn answers.
const LARGE: u32 = TURN_BYTES as u32 / 4;

struct World {
    executor: Executor,
    answers: Answers,
}

impl World {
    fn new(limits: &ReadLimits) -> Self {
        let executor = Executor::new(Box::new(Large), SessionLimits::default(), AgreedTime::ZERO);
        Self { executor, answers: Answers::new(limits) }
    }

    /// The client with this number reads, on the connection with this number.
    fn ask(&mut self, client: u64, read: u64, bytes: u32) {
        let to = (ConnId::new(client), client);
        self.answers.run(NOW, &self.executor, to, read, &bytes.to_le_bytes());
    }

    /// The answers at the end of a turn: connection, read and status.
    fn end(&mut self, now: Time) -> Vec<(u64, u64, ReadStatus)> {
        self.answers.run_put_off(now, &self.executor, ConnId::number);
        let mut left = Vec::new();
        for (conn, body) in self.answers.drain() {
            let replies = ReadReply::walk(&body).map(|reply| reply.expect("our own words"));
            left.extend(replies.map(|reply| (conn.number(), reply.read, reply.status)));
        }
        self.answers.end_turn();
        left.sort_unstable_by_key(|(conn, read, _)| (*conn, *read));
        left
    }
}

fn done(conn: u64, reads: impl IntoIterator<Item = u64>) -> Vec<(u64, u64, ReadStatus)> {
    reads.into_iter().map(|read| (conn, read, ReadStatus::Done)).collect()
}

#[test]
fn whoever_asks_for_much_leaves_room_for_others() {
    let mut world = World::new(&ReadLimits::default());
    for read in 0..7 {
        world.ask(1, read, LARGE);
    }
    world.ask(2, 100, 10);
    assert_eq!(world.answers.deadline(), Some(NOW), "another turn at once");
    // The client gets half of the room, in the order of its reads, and its neighbour does not wait.
    assert_eq!(world.end(NOW), [done(1, 0..2), done(2, [100])].concat());
    // Later reads of the client wait behind its earlier ones.
    world.ask(1, 7, 10);
    assert_eq!(world.end(NOW), done(1, 2..4));
    assert_eq!((world.end(NOW), world.end(NOW)), (done(1, 4..6), done(1, 6..8)));
    assert_eq!((world.answers.waiting(), world.answers.has_put_off()), (0, false));
    assert_eq!(world.answers.deadline(), None);
}

#[test]
fn clients_take_turns_and_something_is_answered_in_each() {
    let mut world = World::new(&ReadLimits::default());
    for read in 0..3 {
        for client in 1..=3 {
            world.ask(client, read, 4 * LARGE);
        }
    }
    let turns: Vec<_> = (0..9).map(|_| world.end(NOW)).collect();
    let expected: Vec<_> = (0..3).flat_map(|read| (1..=3).map(move |client| done(client, [read]))).collect();
    assert_eq!(turns, expected);
}

#[test]
fn of_those_put_off_there_are_not_too_many_and_they_do_not_wait_for_ever() {
    let patience = Span::from_secs(5);
    let mut world = World::new(&ReadLimits { reads_max: 2, bytes_max: 100, patience });
    for read in 0..5 {
        world.ask(1, read, 4 * LARGE);
    }
    let overloaded = |read| (1, read, ReadStatus::Overloaded);
    assert_eq!(world.end(NOW), [(1, 0, ReadStatus::Done), overloaded(3), overloaded(4)]);
    assert_eq!(world.end(NOW), done(1, [1]));
    assert_eq!(world.end(NOW.plus(patience)), [overloaded(2)]);
    assert_eq!((world.answers.waiting(), world.answers.deadline()), (0, None));
}

#[test]
fn nothing_is_answered_where_nobody_is_any_more() {
    let mut world = World::new(&ReadLimits::default());
    for read in 0..3 {
        world.ask(1, read, 4 * LARGE);
    }
    world.answers.drain().for_each(drop);
    world.answers.end_turn();
    world.answers.run_put_off(NOW, &world.executor, |_| 0);
    assert_eq!(world.answers.drain().count(), 0);
    assert_eq!(world.answers.deadline(), None);
}
