//! A queue of jobs with leases: a worker takes a job for some time, and ends it; if it does not, another worker gets the job.

use quorate::{AgreedTime, Context, Span, TypedService};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

#[derive(Default, Serialize, Deserialize)]
pub struct Queue {
    waiting: VecDeque<Job>,
    /// Jobs that workers have, by their numbers, with the ends of the leases.
    leased: BTreeMap<u64, (Job, AgreedTime)>,
    /// The ends of the leases, in the order of time.
    ends: BTreeSet<(AgreedTime, u64)>,
    pushed: u64,
    ended: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    pub number: u64,
    pub work: String,
    /// How often it was taken. Whoever ends it says this number, so that a worker that was too late ends nothing.
    pub taken: u32,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Step {
    Push(String),
    Take { lease_ms: u64 },
    End { number: u64, taken: u32 },
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Told {
    Pushed(u64),
    Job(Job),
    NoJob,
    Ended,
    /// It was ended, or another worker has it by now.
    TooLate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    pub pushed: u64,
    pub waiting: u64,
    pub leased: u64,
    pub ended: u64,
}

impl TypedService for Queue {
    type Command = Step;
    type Reply = Told;
    type Query = ();
    type Answer = Counts;
    const NAME: &'static str = "my-service";

    fn execute(&mut self, step: Step, ctx: &Context) -> Told {
        match step {
            Step::Push(work) => {
                self.pushed += 1;
                self.waiting.push_back(Job { number: self.pushed, work, taken: 0 });
                Told::Pushed(self.pushed)
            }
            Step::Take { lease_ms } => {
                let Some(job) = self.waiting.pop_front() else { return Told::NoJob };
                let job = Job { taken: job.taken + 1, ..job };
                let until = ctx.time().plus(Span::from_millis(lease_ms));
                self.leased.insert(job.number, (job.clone(), until));
                self.ends.insert((until, job.number));
                Told::Job(job)
            }
            Step::End { number, taken } => match self.leased.get(&number) {
                Some((job, until)) if job.taken == taken => {
                    self.ends.remove(&(*until, number));
                    self.leased.remove(&number);
                    self.ended += 1;
                    Told::Ended
                }
                _ => Told::TooLate,
            },
        }
    }

    fn query(&self, (): (), _: &Context) -> Counts {
        let (waiting, leased) = (self.waiting.len() as u64, self.leased.len() as u64);
        Counts { pushed: self.pushed, waiting, leased, ended: self.ended }
    }

    fn next_deadline(&self) -> Option<AgreedTime> {
        self.ends.first().map(|(until, _)| *until)
    }

    /// Leases are over: these jobs wait again.
    fn deadline_reached(&mut self, ctx: &Context) {
        while let Some((_, number)) = self.ends.first().copied().filter(|(until, _)| *until <= ctx.time()) {
            self.ends.pop_first();
            let job = self.leased.remove(&number).map(|(job, _)| job);
            self.waiting.extend(job);
        }
    }
}
