//! A journaled service for tests: a command is a list of steps, and its reply says all that it saw.

use quorate_execute::{
    Answer, Call, Context, InStore, Journaled, JournaledService, NestedRules, ReplySink, Service, ServiceId,
    Store,
};

/// One step of a command. Each takes two bytes: what, and of what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Reads a key.
    Get(u8),
    /// Reads all keys.
    All,
    /// Writes what was seen so far into a key.
    Put(u8),
    /// Adds one to the number in a key.
    Add(u8),
    /// Removes a key.
    Remove(u8),
    /// Takes a lock.
    Lock(u8),
    /// Gives a lock back.
    Unlock(u8),
    /// Asks the backend with this number.
    Ask(u8),
    /// Takes the answer to the oldest question that has none.
    Answer,
    /// Panics.
    Panic,
    /// Awaits something that is not its call's.
    Sleep,
}

impl Step {
    fn bytes(self) -> [u8; 2] {
        match self {
            Self::Get(key) => [b'g', key],
            Self::All => [b'r', 0],
            Self::Put(key) => [b'p', key],
            Self::Add(key) => [b'+', key],
            Self::Remove(key) => [b'-', key],
            Self::Lock(name) => [b'l', name],
            Self::Unlock(name) => [b'u', name],
            Self::Ask(backend) => [b'a', backend],
            Self::Answer => [b'w', 0],
            Self::Panic => [b'!', 0],
            Self::Sleep => [b'z', 0],
        }
    }
}

/// A command of these steps.
pub(crate) fn command(steps: &[Step]) -> Vec<u8> {
    steps.iter().flat_map(|step| step.bytes()).collect()
}

pub(crate) struct Steps;

impl JournaledService for Steps {
    async fn execute(&self, call: &mut Call, command: &[u8], ctx: &Context) -> Vec<u8> {
        let mut seen = Vec::from([b'#', ctx.random().next() as u8 % 26 + b'a', b':']);
        let mut tickets = Vec::new();
        for step in command.chunks_exact(2) {
            let &[what, of] = step else { continue };
            match what {
                b'g' => seen.extend_from_slice(&call.get(&[of]).unwrap_or_default()),
                b'r' => {
                    for (key, value) in call.range(b"", None, 5) {
                        seen.extend_from_slice(&key);
                        seen.push(value.len() as u8);
                    }
                }
                b'p' => call.put(&[of], &seen),
                b'+' => {
                    let number = call.get(&[of]).and_then(|bytes| bytes.first().copied()).unwrap_or(0);
                    call.put(&[of], &[number.wrapping_add(1)]);
                }
                b'-' => call.remove(&[of]),
                b'l' => seen.extend(call.lock(&[of]).await.map_or(*b"no", |()| *b"ok")),
                b'u' => call.unlock(&[of]),
                b'a' => tickets.push(call.ask(ServiceId(u32::from(of)), &seen)),
                b'w' if !tickets.is_empty() => {
                    let answer = call.answer(tickets.remove(0)).await;
                    match answer {
                        Answer::Reply(reply) => seen.extend_from_slice(&reply),
                        other => seen.extend(format!("{other:?}").bytes()),
                    }
                }
                // A panic that prints nothing.
                b'!' => std::panic::resume_unwind(Box::new(format!("step {of}"))),
                b'z' => std::future::pending().await,
                _ => {}
            }
        }
        seen
    }
    /// The value of a key.
    fn query(&self, store: &Store, query: &[u8], _: &Context, reply: &mut ReplySink<'_>) {
        reply.write(store.get(query).unwrap_or(b"nothing"));
    }
}

/// The service with these rules.
pub(crate) fn steps(rules: &NestedRules) -> Box<dyn Service> {
    Box::new(InStore::new(Journaled::new(Steps, rules.clone())))
}
