//! What a service sees and may do: the typed adapter, cumulative replies, deadlines, randomness.

use crate::support::{self, Replica, batch, commands, empty, list, seq};
use quorate_execute::{
    BatchReplies, CheckpointError, CheckpointSink, CheckpointSource, Context, Executor, Outcomes, ReplySink,
    Service, SessionLimits, Typed, TypedError, TypedService, decode_reply, encode_command,
};
use quorate_types::{AgreedTime, ClientId, Items, Span};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

// A newcomer's whole service: a register of words.
#[derive(Default, Serialize, Deserialize)]
struct Words {
    counts: BTreeMap<String, u64>,
}

impl TypedService for Words {
    type Command = String;
    type Reply = u64;
    type Query = String;
    type Answer = Option<u64>;

    fn execute(&mut self, word: String, _: &Context) -> u64 {
        let count = self.counts.entry(word).or_insert(0);
        *count += 1;
        *count
    }
    fn query(&self, word: String, _: &Context) -> Option<u64> {
        self.counts.get(&word).copied()
    }
}

fn words() -> Replica {
    Replica::with(Box::new(Typed(Words::default())), SessionLimits::default())
}

/// Typed commands run, typed queries answer, and the state goes through an image.
#[test]
fn a_typed_service_runs() {
    let mut replica = words();
    let id = replica.opened(1, 1);
    let word = encode_command(&"to").expect("a string");
    let seen = replica.one(0, commands(id, 1, 1, &[&word, &word]));
    let replies: Vec<u64> =
        list(&seen.body).iter().map(|reply| decode_reply(reply).expect("a count")).collect();
    assert_eq!(replies, [1, 2]);
    let mut restored = words();
    let image = replica.image();
    restored.executor.restore_image(&image.system, &image.objects).expect("a good image");
    for replica in [&replica, &restored] {
        let mut out = vec![];
        replica.executor.query(&word, &mut out).expect("a short answer");
        assert_eq!(decode_reply::<Option<u64>>(&out), Ok(Some(2)));
    }
}

/// Bytes that are no command, and bytes left over after one, are answered with an error and change nothing.
#[test]
fn undecodable_commands_are_answered() {
    let mut replica = words();
    let id = replica.opened(1, 1);
    let longer = [encode_command(&"to").expect("a string"), vec![0]].concat();
    let seen = replica.one(0, commands(id, 1, 1, &[b"\xff\xff\xff\xff\xff", b"", &longer]));
    let replies = list(&seen.body);
    assert_eq!(replies.len(), 3);
    for reply in replies {
        assert_eq!(decode_reply::<u64>(&reply), Err(TypedError::Undecodable));
    }
    let mut out = vec![];
    replica.executor.query(&[9], &mut out).expect("a short answer");
    assert_eq!(decode_reply::<Option<u64>>(&out), Err(TypedError::Undecodable));
    assert_eq!(decode_reply::<u64>(b""), Err(TypedError::UnknownReply));
    assert_eq!(decode_reply::<u64>(&[0, 1, 1]), Err(TypedError::UnknownReply));
}

/// Notes what contexts say, answers a whole request at once, and wants to be called every 50 ns.
#[derive(Default)]
struct Probe {
    next: Option<AgreedTime>,
    reached: Vec<u64>,
}

impl Service for Probe {
    fn execute(&mut self, _: &[u8], ctx: &Context, reply: &mut ReplySink<'_>) {
        reply.write(&ctx.seed().to_le_bytes());
    }
    fn execute_batch(&mut self, commands: Items<'_>, ctx: &Context, replies: &mut BatchReplies) {
        if commands.bytes() == b"all" {
            self.next = Some(ctx.time().plus(Span::from_nanos(50)));
            let line = format!("{} {} {} {}", ctx.client(), ctx.session(), ctx.seq(), ctx.request_index());
            return replies.push(line.as_bytes());
        }
        for (index, command) in commands.iter().enumerate() {
            replies.push_with(|reply| self.execute(command, &ctx.with_command(index as u32), reply));
        }
    }
    fn query(&self, query: &[u8], _: &Context, reply: &mut ReplySink<'_>) {
        match query {
            b"long" => reply.write(&vec![0; 2 << 20]),
            _ => self.reached.iter().for_each(|time| reply.write(&time.to_le_bytes())),
        }
    }
    fn checkpoint(&self, _: &mut dyn CheckpointSink) -> Result<(), CheckpointError> {
        Ok(())
    }
    fn restore(&mut self, _: &mut dyn CheckpointSource) -> Result<(), CheckpointError> {
        Ok(())
    }
    fn next_deadline(&self) -> Option<AgreedTime> {
        self.next
    }
    fn deadline_reached(&mut self, ctx: &Context) {
        self.reached.push(ctx.time().nanos());
        self.next = Some(ctx.time().plus(Span::from_nanos(50)));
    }
}

/// One reply may stand for a whole request, and the context says where it stands.
#[test]
fn one_reply_may_answer_a_whole_request() {
    let mut replica = Replica::with(Box::new(Probe::default()), SessionLimits::default());
    let id = replica.opened(4, 1);
    let seen = replica.run(0, &[empty(id, 1, 1), commands(id, 2, 1, &[b"a", b"l", b"l"])]);
    assert_eq!(list(&seen[1].body), [b"c4 session 0.1 q2 1".to_vec()]);
}

/// The service is called once in the first batch at or after its deadline, before that batch's requests.
#[test]
fn deadlines_are_reached_in_order() {
    let mut replica = Replica::with(Box::new(Probe::default()), SessionLimits::default());
    let id = replica.opened(4, 1);
    assert_eq!(replica.executor.next_deadline(), None);
    replica.one(10, commands(id, 1, 1, &[b"all"]));
    assert_eq!(replica.executor.next_deadline(), Some(AgreedTime::from_nanos(60)));
    for time in [59, 60, 61, 500] {
        replica.run(time, &[]);
    }
    let mut out = vec![];
    replica.executor.query(b"", &mut out).expect("a short answer");
    assert_eq!(out, [60u64.to_le_bytes(), 500u64.to_le_bytes()].concat());
}

/// Each command has its own seed; it is the same wherever the batch is executed, and another one in another batch.
#[test]
fn seeds_differ_between_commands_and_not_between_replicas() {
    let seeds = |seed| {
        let mut executor =
            Executor::new(Box::new(Probe::default()), SessionLimits::default(), AgreedTime::ZERO);
        let mut out = Outcomes::new();
        executor.execute(seq(1), &batch(0, seed, &[support::open(1, 1)]), &mut out);
        let id = out.list()[0].session;
        assert_eq!(out.list()[0].opening, Some(ClientId::new(1)));
        let asks = [commands(id, 1, 1, &[b"x", b"y"]), commands(id, 2, 1, &[b"x"])];
        executor.execute(seq(2), &batch(0, seed, &asks), &mut out);
        let mut all: Vec<Vec<u8>> = out.replies().flat_map(|(_, reply)| list(reply.body)).collect();
        executor.execute(seq(3), &batch(0, seed, &[commands(id, 3, 1, &[b"x"])]), &mut out);
        all.extend(out.replies().flat_map(|(_, reply)| list(reply.body)));
        all
    };
    let mut all = seeds(1);
    assert_eq!(all, seeds(1));
    all.extend(seeds(2));
    assert_eq!(all.len(), 8);
    all.sort();
    all.dedup();
    assert_eq!(all.len(), 8, "two commands have the same seed");
}

/// An answer over the limit is no answer, and what was in the buffer stays.
#[test]
fn answers_over_the_limit_are_refused() {
    let replica = Replica::with(Box::new(Probe::default()), SessionLimits::default());
    let mut out = b"before".to_vec();
    assert!(replica.executor.query(b"long", &mut out).is_err());
    assert_eq!(out, b"before");
}
