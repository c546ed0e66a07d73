//! The two services: a shop that takes money from an account and has a bank put it into another one, and that bank.

use quorate_execute::{
    Answer, Call, CheckpointError, Context, InStore, Journaled, JournaledService, NestedRules, ObjectService,
    ReplySink, Schedule, Service, ServiceId, Store,
};
use quorate_types::Span;

/// The shop's number, and the bank's.
pub(super) const SHOP: u32 = 1;
pub(super) const BANK: u32 = 2;
/// Bytes of a command: account, amount, and the number of the transfer.
pub(super) const COMMAND: usize = 10;

/// A command that moves this amount. No two commands of a run have the same number.
pub(super) fn transfer(account: u8, amount: u8, number: u64) -> Vec<u8> {
    let mut command = vec![account, amount];
    command.extend_from_slice(&number.to_le_bytes());
    command
}

fn number_in(bytes: Option<&[u8]>) -> i64 {
    bytes.and_then(|bytes| bytes.first_chunk::<8>()).map_or(0, |bytes| i64::from_le_bytes(*bytes))
}

fn key(kind: u8, rest: &[u8]) -> Vec<u8> {
    [&[kind], rest].concat()
}

struct Shop;

impl JournaledService for Shop {
    async fn execute(&self, call: &mut Call, command: &[u8], _: &Context) -> Vec<u8> {
        let &[account, amount, ref number @ ..] = command else { return b"what?".to_vec() };
        let of = key(b'a', &[account]);
        let before = number_in(call.get(&of).as_deref());
        call.put(&of, &(before - i64::from(amount)).to_le_bytes());
        let ticket = call.ask(ServiceId(BANK), command);
        let (answer, done) = match call.answer(ticket).await {
            Answer::Reply(reply) => (reply.to_vec(), true),
            other => (format!("{other:?}").into_bytes(), false),
        };
        if done {
            let of = key(b'd', number);
            let before = number_in(call.get(&of).as_deref());
            call.put(&of, &(before + 1).to_le_bytes());
            call.put(&key(b'r', number), &answer);
        }
        answer
    }

    fn query(&self, store: &Store, query: &[u8], _: &Context, reply: &mut ReplySink<'_>) {
        all(store, query, reply);
    }
}

struct Bank;

impl ObjectService for Bank {
    fn execute(&mut self, store: &mut Store, command: &[u8], _: &Context, reply: &mut ReplySink<'_>) {
        let &[account, amount, ref number @ ..] = command else { return reply.write(b"what?") };
        let mut add = |key: Vec<u8>, what: i64| {
            let after = number_in(store.get(&key)) + what;
            store.put(&key, &after.to_le_bytes());
            after
        };
        add(key(b's', number), 1);
        let after = add(key(b'a', &[account]), i64::from(amount));
        add(key(b'r', number), after);
        reply.write(&after.to_le_bytes());
    }

    fn query(&self, store: &Store, query: &[u8], _: &Context, reply: &mut ReplySink<'_>) {
        all(store, query, reply);
    }
}

/// The numbers under all keys that begin with this byte: 8 bytes each.
fn all(store: &Store, query: &[u8], reply: &mut ReplySink<'_>) {
    let end = query.first().map(|kind| [kind + 1]);
    for (_, value) in store.range(query, end.as_ref().map(|end| &end[..])) {
        reply.write(value);
    }
}

/// The sum of the numbers under keys that begin with this byte, how many there are, and the largest.
pub(super) fn numbers(executor: &quorate_execute::Executor, kind: u8) -> (i64, usize, i64) {
    let mut bytes = Vec::new();
    executor.query(&[kind], &mut bytes).expect("a short answer");
    let list: Vec<i64> = bytes.chunks_exact(8).map(|bytes| number_in(Some(bytes))).collect();
    (list.iter().sum(), list.len(), list.iter().copied().max().unwrap_or_default())
}

/// The shop, with this schedule.
pub(super) fn shop(schedule: Schedule) -> Box<dyn Service> {
    let rules = NestedRules { patience: Span::from_secs(3600), ..NestedRules::of(ServiceId(SHOP), schedule) };
    Box::new(InStore::new(Journaled::new(Shop, rules)))
}

/// The bank.
pub(super) fn bank() -> Box<dyn Service> {
    Box::new(InStore::new(Bank))
}

/// What stands for the whole state.
pub(super) fn state(executor: &quorate_execute::Executor) -> Result<Vec<u8>, CheckpointError> {
    let mut bytes = Vec::new();
    executor.checkpoint(&mut bytes)?;
    Ok(bytes)
}
