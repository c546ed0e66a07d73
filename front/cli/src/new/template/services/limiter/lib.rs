//! A rate limiter: each name has a bucket of tokens, which fills at a constant rate. Whoever takes some may go on.

use quorate::{AgreedTime, Context, TypedService};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// A bucket holds so many tokens, and gets so many each second.
pub const CAPACITY: u64 = 10;
pub const PER_SECOND: u64 = 5;
const SECOND: u64 = 1_000_000_000;

#[derive(Default, Serialize, Deserialize)]
pub struct Limiter {
    /// When each bucket will be full. Full ones are left out.
    full_at: BTreeMap<String, AgreedTime>,
    /// The same, in the order of time.
    in_order: BTreeSet<(AgreedTime, String)>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Take {
    pub name: String,
    pub tokens: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    /// So many tokens are left at this time.
    Allowed { left: u64, at: AgreedTime },
    /// There are too few; after so many milliseconds there are enough.
    Wait { ms: u64 },
    /// A bucket never holds so many.
    Never,
}

/// How long it takes until a bucket has so many tokens.
fn filling(tokens: u64) -> u64 {
    tokens * SECOND / PER_SECOND
}

impl TypedService for Limiter {
    type Command = Take;
    type Reply = Verdict;
    /// How many tokens a bucket has, or the fullest one, and how many buckets are not full.
    type Query = Option<String>;
    type Answer = (u64, usize);
    const NAME: &'static str = "my-service";

    fn execute(&mut self, Take { name, tokens }: Take, ctx: &Context) -> Verdict {
        if tokens > CAPACITY {
            return Verdict::Never;
        }
        let now = ctx.time().nanos();
        while let Some((_, full)) = self.in_order.first().filter(|(at, _)| at.nanos() <= now) {
            self.full_at.remove(full);
            self.in_order.pop_first();
        }
        let missing = self.full_at.get(&name).map_or(0, |at| at.nanos() - now);
        let after = missing + filling(tokens);
        match filling(CAPACITY).checked_sub(after) {
            Some(left) => {
                if tokens > 0 {
                    let at = AgreedTime::from_nanos(now + after);
                    self.in_order.insert((at, name.clone()));
                    if let Some(before) = self.full_at.insert(name.clone(), at) {
                        self.in_order.remove(&(before, name));
                    }
                }
                Verdict::Allowed { left: left * PER_SECOND / SECOND, at: ctx.time() }
            }
            None => Verdict::Wait { ms: (after - filling(CAPACITY)).div_ceil(SECOND / 1000) },
        }
    }

    fn query(&self, name: Option<String>, ctx: &Context) -> (u64, usize) {
        let missing = |at: &AgreedTime| at.nanos().saturating_sub(ctx.time().nanos());
        let least = match name {
            Some(name) => self.full_at.get(&name).map(missing),
            None => self.full_at.values().map(missing).min(),
        };
        ((filling(CAPACITY) - least.unwrap_or_default()) * PER_SECOND / SECOND, self.full_at.len())
    }
}
