//! Locks: a session has one until it gives it back or ends; others wait in a row. Each holder gets a token that is larger than all before, so
//! that what is protected by the lock can refuse a holder of before.

use quorate::{Context, SessionEnd, TypedService};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

#[derive(Default, Serialize, Deserialize)]
pub struct Locks {
    locks: BTreeMap<String, Lock>,
    tokens: u64,
}

/// Whoever has it, with its token, and who waits. Sessions as numbers.
#[derive(Serialize, Deserialize)]
struct Lock {
    holder: (u64, u64),
    waiting: VecDeque<u64>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Ask {
    /// Takes the lock, or a place in the row. Ask again to learn whether it is one's turn.
    Lock(String),
    /// Gives it back, or leaves the row.
    Unlock(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Turn {
    /// The session has it, with this token.
    Held {
        token: u64,
    },
    /// So many are before it.
    Waits {
        before: u64,
    },
    Free,
}

impl Locks {
    /// A session wants a lock no more: the next one has it.
    fn leave(&mut self, name: &str, session: u64) {
        let Some(lock) = self.locks.get_mut(name) else { return };
        lock.waiting.retain(|waits| *waits != session);
        if lock.holder.0 == session {
            match lock.waiting.pop_front() {
                Some(next) => {
                    self.tokens += 1;
                    lock.holder = (next, self.tokens);
                }
                None => drop(self.locks.remove(name)),
            }
        }
    }
}

impl TypedService for Locks {
    type Command = Ask;
    type Reply = Turn;
    type Query = ();
    /// Each lock that is held: the holder's session, its token, and who waits.
    type Answer = BTreeMap<String, (u64, u64, Vec<u64>)>;
    const NAME: &'static str = "my-service";

    fn execute(&mut self, ask: Ask, ctx: &Context) -> Turn {
        let session = ctx.session().number();
        let name = match ask {
            Ask::Lock(name) => name,
            Ask::Unlock(name) => {
                self.leave(&name, session);
                return Turn::Free;
            }
        };
        let tokens = &mut self.tokens;
        let lock = self.locks.entry(name).or_insert_with(|| {
            *tokens += 1;
            Lock { holder: (session, *tokens), waiting: VecDeque::new() }
        });
        if lock.holder.0 == session {
            return Turn::Held { token: lock.holder.1 };
        }
        let place = lock.waiting.iter().position(|waits| *waits == session).unwrap_or_else(|| {
            lock.waiting.push_back(session);
            lock.waiting.len() - 1
        });
        Turn::Waits { before: place as u64 + 1 }
    }

    fn query(&self, (): (), _: &Context) -> BTreeMap<String, (u64, u64, Vec<u64>)> {
        let all = self.locks.iter();
        all.map(|(name, lock)| {
            let (holder, token) = lock.holder;
            (name.clone(), (holder, token, lock.waiting.iter().copied().collect()))
        })
        .collect()
    }

    fn session_ended(&mut self, _: SessionEnd, ctx: &Context) {
        let names: Vec<String> = self.locks.keys().cloned().collect();
        names.iter().for_each(|name| self.leave(name, ctx.session().number()));
    }
}
