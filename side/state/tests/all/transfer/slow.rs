//! Members that are slow rather than gone, while new checkpoints are agreed on all the time.

use super::states::Checkpoint;
use super::world::replica;
use quorate_state::agreement::Offer;
use quorate_state::store::Store;
use quorate_state::transfer::{Effect, Fetch, FetchLimits, Input};
use quorate_types::{Seq, Span, Time};
use quorate_wire::StateMessage;
use std::collections::BTreeMap;

/// How long small answers take, in milliseconds.
const SMALL: u64 = 30;
/// How many checkpoints are offered at once.
const OFFERED: usize = 8;

fn millis(millis: u64) -> Time {
    Time::ZERO.plus(Span::from_millis(millis))
}

/// Members, of which each checkpoint has some as holders, in turn. Each answers one question after the other.
struct Slow {
    members: usize,
    holders: usize,
    /// How long a large chunk takes, in milliseconds.
    takes: u64,
    /// After how many milliseconds there is another checkpoint.
    every: u64,
    all: Vec<Checkpoint>,
    free: BTreeMap<usize, Time>,
    answers: BTreeMap<(Time, usize), Input>,
}

impl Slow {
    /// One more checkpoint is agreed on.
    fn border(&mut self) -> Input {
        let number = self.all.len() as u64;
        let mut store = Store::new();
        store.put(b"key", &[number as u8; 90_000]);
        self.all.push(Checkpoint::new(100 * (number + 1), vec![number as u8; 10], &store));
        let offer = |at: usize| Offer {
            seq: self.all[at].seq,
            digest: self.all[at].digest,
            holders: (at..at + self.holders).map(|member| replica(2 + member % self.members)).collect(),
        };
        Input::Offers((self.all.len().saturating_sub(OFFERED)..self.all.len()).rev().map(offer).collect())
    }

    /// A member is asked for something.
    fn ask(&mut self, now: Time, to: usize, message: StateMessage) {
        let (seq, digest) = message.about();
        let of = self.all.iter().find(|checkpoint| checkpoint.seq == seq).expect("it was offered");
        let answers = match message {
            StateMessage::FetchManifest { .. } => {
                let bytes = of.manifest_bytes.clone();
                let total = bytes.len() as u64;
                vec![(SMALL, StateMessage::Manifest { seq, digest, offset: 0, total, bytes })]
            }
            StateMessage::FetchChunks { chunks, .. } => {
                let answer = |chunk: u32| {
                    let bytes = of.parts[chunk as usize].clone();
                    let takes = if bytes.len() > 1000 { self.takes } else { SMALL };
                    (takes, StateMessage::Chunk { seq, digest, chunk, bytes })
                };
                chunks.into_iter().map(answer).collect()
            }
            _ => Vec::new(),
        };
        for (takes, message) in answers {
            let free = self.free.entry(to).or_insert(now);
            *free = (*free).max(now).plus(Span::from_millis(takes));
            let input = Input::Receive { from: replica(to), message };
            self.answers.insert((*free, self.answers.len()), input);
        }
    }

    /// When the transfer is done, in milliseconds; none within an hour.
    fn run(mut self) -> Option<u64> {
        let mut fetch = Fetch::new(Time::ZERO, Seq::new(1), Store::new().version(), FetchLimits::default());
        for member in 2..2 + self.members {
            fetch.step(Time::ZERO, Input::Connected(replica(member)), &mut Vec::new());
        }
        loop {
            let border = millis(self.all.len() as u64 * self.every);
            let answer = self.answers.first_key_value().map(|((at, _), _)| *at);
            let now = [Some(border), answer, fetch.deadline()].into_iter().flatten().min()?;
            if now > millis(3_600_000) {
                return None;
            }
            let input = match answer.filter(|at| *at <= now) {
                Some(_) => self.answers.pop_first()?.1,
                None if border <= now => self.border(),
                None => Input::Deadline,
            };
            let mut effects = Vec::new();
            fetch.step(now, input, &mut effects);
            fetch.invariants();
            for effect in effects {
                match effect {
                    Effect::Send { to, message } => self.ask(now, usize::from(to.number()), message),
                    Effect::Done(_) => return Some(now.since(Time::ZERO).millis()),
                    _ => {}
                }
            }
        }
    }
}

/// However slow they are and however often a checkpoint comes, a transfer ends: it does not leave one target after the other.
#[test]
fn slow_members_are_waited_for() {
    for (members, holders) in [(3, 1), (3, 2), (3, 3), (4, 1), (4, 2), (4, 3)] {
        for takes in [1_500, 2_500, 4_500, 10_000] {
            for every in [1_000, 3_000, 5_000, 20_000] {
                let (all, free, answers) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
                let slow = Slow { members, holders, takes, every, all, free, answers };
                let done = slow.run();
                // While three are at work on a target it is not left at all.
                let within = if holders == 3 { takes + 1_000 } else { 10 * takes + 60_000 };
                assert!(
                    done.is_some_and(|done| done < within),
                    "{members} members, {holders} have it, {takes} ms for a chunk, another one every {every} ms: {done:?}"
                );
            }
        }
    }
}
